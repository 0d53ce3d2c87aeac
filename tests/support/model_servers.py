"""Doubles of Ollama, LM Studio and llama-server: their model lists, their chat, and their error messages, word for
word.

A `Behaviour` answers one request. The double takes the next one from `chats`; if none is left, it answers as the
program does.

Sources of the errors: ollama/ollama, server/routes.go and model/model.go; lmstudio-ai/lmstudio-bug-tracker, issues 237
and 908; llama.cpp, tools/server/server-common.cpp and server-http.cpp.
"""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.vision.llm import loopback
from tests.support.http_double import serving_double

GOOD = {
    "en": {"filename": "red-barn-snow", "alt_text": "A red barn stands in the snow under a grey sky."},
    "de": {"filename": "rote-scheune-schnee", "alt_text": "Eine rote Scheune steht im Schnee unter grauem Himmel."},
}
MODEL = {"ollama": "gemma3:4b", "lmstudio": "google/gemma-3-4b", "llama-server": "gemma-3-4b-it"}
"""The model of each double that can see pictures."""
BLIND = {"ollama": "llama3.2:latest", "lmstudio": "meta-llama-3.1-8b-instruct", "llama-server": "blind"}

ERRORS: dict[str, list[tuple[int, Any]]] = {
    "ollama": [
        (500, {"error": "this model is missing data required for image input"}),
        (403, None),
        (503, {"error": "server busy, please try again.  maximum pending requests exceeded"}),
    ],
    "lmstudio": [
        (401, {"error": {"code": "invalid_api_key", "message": "An LM Studio API token is required to make requests"}}),
        (200, {"error": "Trying to keep the first 1205 tokens when context the overflows."}),
    ],
    "llama-server": [
        (500, {"error": {"code": 500, "message": "failed to process mtmd chunk", "type": "server_error"}}),
        (503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}),
    ],
}
"""Errors of each program: status and body."""

Behaviour = Callable[["Handler"], None]


class Request(NamedTuple):
    """A request that a double has received. `document` is its decoded body, None for a GET."""

    path: str
    document: Any


class ModelServerDouble:
    """The state of a double of `program`. `requests` are those received so far; `stop` ends behaviours that wait.

    `chats` and `listings` are the behaviours for the next chat requests and for the next requests about models. Without
    a behaviour, a request is answered as the program does.
    """

    def __init__(self, program: str) -> None:
        self.program = program
        self.model = MODEL[program]
        self.chats: list[Behaviour] = []
        self.listings: list[Behaviour] = []
        self.requests: list[Request] = []
        self.stop = threading.Event()
        self.disconnected = threading.Event()
        self.url = ""

    @property
    def questions(self) -> list[Any]:
        """The documents of the chat requests received so far."""
        return [request.document for request in self.requests if request.path in CHAT_PATHS]

    def list_document(self) -> Any:
        """The response of the program's list of models."""
        if self.program == "ollama":
            details = {"format": "gguf", "family": "gemma3", "parameter_size": "4.3B"}
            models = [{"name": self.model, "size": 3_338_801_804, "details": details}]
            models += [{"name": BLIND["ollama"], "size": 2_019_393_189}]
            models += [{"name": "mine", "size": 384, "remote_host": "https://ollama.com:443", "remote_model": "glm-5"}]
            return {"models": [*models, {"name": "qwen3-vl:235b-cloud", "size": 384}]}
        if self.program == "lmstudio":
            known = [(self.model, "vlm"), (BLIND["lmstudio"], "llm"), ("nomic-embed-text-v1.5", "embeddings")]
            listed = [{"id": name, "type": kind, "capabilities": ["tool_use"]} for name, kind in known]
            return {"object": "list", "data": listed}
        seeing = ["completion", "multimodal"] if self.model != BLIND["llama-server"] else ["completion"]
        return {
            "object": "list",
            "models": [{"name": self.model, "model": self.model, "size": "", "type": "model", "capabilities": seeing}],
            "data": [{"id": self.model, "object": "model", "owned_by": "llamacpp", "meta": {"n_ctx_train": 1024}}],
        }

    def openai_list_document(self) -> Any:
        """The list in OpenAI's form, which does not say which models run in Ollama's cloud."""
        listed = self.list_document()
        names = [each["name"] for each in listed["models"]] if "models" in listed else [self.model]
        owner = {"ollama": "library", "lmstudio": "organization_owner"}[self.program]
        return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": owner} for name in names]}

    def details_document(self, model: str) -> tuple[int, Any]:
        """The response of Ollama's /api/show."""
        listed = {each["name"]: each for each in self.list_document()["models"]}
        if model not in listed:
            return 404, {"error": f"model '{model}' not found"}
        capabilities = ["completion"] if model == BLIND["ollama"] else ["completion", "vision"]
        return 200, {"capabilities": capabilities, "details": {"format": "gguf"}} | (
            {"remote_host": listed[model]["remote_host"]} if "remote_host" in listed[model] else {}
        )

    def answer_document(self, text: str) -> Any:
        """A response of the chat, with the content `text`."""
        message = {"role": "assistant", "content": text}
        if self.program == "ollama":
            return {"model": self.model, "message": message, "done_reason": "stop", "done": True}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {"id": "chatcmpl-1", "object": "chat.completion", "model": self.model, "choices": [choice]}

    def question_text(self, document: Any) -> str:
        """The text of a chat request."""
        content = document["messages"][0]["content"]
        if isinstance(content, str):
            return content
        return "".join(part["text"] for part in content if part["type"] == "text")

    def picture(self, document: Any) -> bytes:
        """The file of the picture in a chat request."""
        message = document["messages"][0]
        if self.program == "ollama":
            return base64.b64decode(message["images"][0])
        [url] = [part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url"]
        return base64.b64decode(url.removeprefix("data:image/png;base64,"))


CHAT_PATHS = ("/api/chat", "/v1/chat/completions")
LIST_PATHS = {"ollama": ["/api/tags"], "lmstudio": ["/api/v0/models"], "llama-server": ["/v1/models", "/api/tags"]}
"""Where each program lists its models. llama-server has the same list at Ollama's path, too."""


class Handler(http.server.BaseHTTPRequestHandler):
    double: ModelServerDouble

    def do_GET(self) -> None:
        self.double.requests.append(Request(self.path, None))
        if self.path == "/v1/models" and self.double.program != "llama-server":
            self.send(200, self.double.openai_list_document())
        elif self.path in LIST_PATHS[self.double.program]:
            self.answer_listing(200, self.double.list_document())
        else:
            self.send(404, {"error": "not found"})

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.double.requests.append(Request(self.path, document))
        if self.path == "/api/show":
            self.answer_listing(*self.double.details_document(document["model"]))
        elif self.double.chats:
            self.double.chats.pop(0)(self)
        else:
            text = self.double.question_text(document)
            last_line = text.splitlines()[-1]
            answer = next(answer for code, answer in GOOD.items() if LANGUAGES[code].name in last_line)
            self.send(200, self.double.answer_document(json.dumps(answer)))

    def answer_listing(self, status: int, document: Any) -> None:
        """Answers a request about models."""
        (self.double.listings.pop(0) if self.double.listings else sends(status, document))(self)

    def send(self, status: int, document: Any, headers: dict[str, str] | None = None) -> None:
        body = b"" if document is None else document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def sends(status: int, document: Any, headers: dict[str, str] | None = None) -> Behaviour:
    return lambda handler: handler.send(status, document, headers)


def writes(text: str) -> Behaviour:
    """The model writes `text`."""
    return lambda handler: handler.send(200, handler.double.answer_document(text))


def hangs(handler: Handler) -> None:
    """No answer until the client has disconnected or the test ends."""
    handler.connection.settimeout(0.02)
    while not handler.double.stop.wait(0.02):
        with contextlib.suppress(TimeoutError):
            if handler.connection.recv(1) == b"":
                handler.double.disconnected.set()
                break
    handler.close_connection = True


def disconnects(handler: Handler) -> None:
    handler.close_connection = True


@contextlib.contextmanager
def model_server(program: str) -> Iterator[ModelServerDouble]:
    """A double of `program` on this machine, which may be slow."""
    double = ModelServerDouble(program)
    with serving_double(Handler, double=double) as double.url, mock.patch.object(loopback, "_LIST_TIMEOUT_S", 60.0):
        try:
            yield double
        finally:
            double.stop.set()
