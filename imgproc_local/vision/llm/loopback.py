"""Vision models in other programs on this machine: Ollama, LM Studio and llama-server.

What is known of the three programs is in one file. All have OpenAI's chat interface. Ollama's own is used instead of
its copy of it, because only that can turn thinking off and set the size of the context. All three can constrain the
answer to a JSON schema; `parse_answer` of `prompt.py` also accepts one that is not.

Pictures are sent to addresses of the loopback interface only: no name is looked up, redirects are not followed, and the
proxies of the environment are not used, so that a request reaches nothing but the address that was checked. What a
program sends is not trusted: it is limited in size, decoded into types, and quoted in messages only in part. Every
failure becomes a `ModelUnusable` with a message that says what to do.

Sources: docs.ollama.com/openapi.yaml; lmstudio.ai/docs/api/rest-api; llama.cpp, tools/server/README.md.
"""

from __future__ import annotations

import asyncio
import base64
import io
import ssl
import time
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from imgproc_local import __version__
from imgproc_local.domain.errors import CheckStop, ModelUnusable
from imgproc_local.domain.image import Pixels
from imgproc_local.system.threads import run_until_stopped
from imgproc_local.vision.models.model import LoopbackModel

_LIST_TIMEOUT_S = 2.0
"""The limit for listing the models of a program and their details, all requests together."""
_MAX_BYTES = 4 * 1024 * 1024
"""Limit for a response. An answer has about 4 kB, and a list of 1,000 models less than this."""
_LOADING_POLL_S = 1.0
"""The interval at which a request is repeated while the program loads the model or is busy (status 503)."""

_CONTEXT_TOKENS = 4096
"""The context that a picture, the prompt and the answer need. Ollama is asked for it, because it truncates a longer
prompt silently; it is also Ollama's default, so that Ollama need not reload a model that it has loaded."""
_MAX_ANSWER_TOKENS = 2000
"""Limit for one answer. In the least favourable script, an alternative text of 250 characters needs about 300 tokens; a
long description needs more, and so does a model that thinks although it was asked not to."""
_REQUIREMENTS = (
    f"It needs a vision model with its vision encoder (mmproj), a context of at least {_CONTEXT_TOKENS} tokens, and no"
    " API key."
)


def parse_address(url: str) -> str:
    """The address in `url`, as `http://IP:PORT`. Raises: ValueError, unless it is one of this machine's loopback
    interface. "localhost" stands for 127.0.0.1.
    """
    expected = f"expected http://127.0.0.1:PORT, or another loopback address, which is this machine; received {url!r}"
    try:
        parts = urlsplit(url)
        address = ip_address("127.0.0.1" if parts.hostname == "localhost" else parts.hostname or "")
        port = parts.port
    except ValueError as error:
        raise ValueError(expected) from error
    plain = parts.scheme == "http" and parts.path in ("", "/") and not parts.query and not parts.fragment
    if not plain or not port or "@" in parts.netloc or "%" in parts.netloc or not address.is_loopback:
        raise ValueError(expected)
    return f"http://[{address}]:{port}" if address.version == 6 else f"http://{address}:{port}"


class _Program(Struct, frozen=True):
    """One of the programs. `usual_port` is that of its address unless the setting `program_url` names another one.

    `start` says how to start it, for messages. `details_path` is where Ollama, which has an interface of its own,
    reports what its list of models omits. `owner` is what llama-server calls itself in its list.
    """

    title: str
    usual_port: int
    start: str
    list_path: str
    chat_path: str = "/v1/chat/completions"
    details_path: str = ""
    owner: str = ""

    @property
    def usual_url(self) -> str:
        return f"http://127.0.0.1:{self.usual_port}"


PROGRAMS = {
    "ollama": _Program("Ollama", 11434, "Start Ollama, or run `ollama serve`", "/api/tags", "/api/chat", "/api/show"),
    "lmstudio": _Program(
        "LM Studio", 1234, "Start its server in LM Studio, or run `lms server start`", "/api/v0/models"
    ),
    "llama-server": _Program(
        "llama-server",
        8080,
        "Start llama-server, or run `llama serve`, with `--mmproj`",
        "/v1/models",
        owner="llamacpp",
    ),
}
"""The programs by the first part of a model's name, such as "ollama" in "ollama:gemma3:4b"."""


# ---- what the programs answer


class _Error(Struct, frozen=True):
    message: str = "no message"


class _Failure(Struct, frozen=True):
    """The error in any response, "" if there is none: an object or, from Ollama and often LM Studio, the message."""

    error: str | _Error = ""


class _Model(Struct, frozen=True):
    """What the programs report of a model; each uses some of these fields.

    `type` is LM Studio's; that of llama-server is always "model", and its `size` always "".
    """

    id: str = ""
    name: str = ""
    type: str = ""
    size: int | str = 0
    owned_by: str = ""
    remote_host: str = ""
    capabilities: list[str] | None = None

    @property
    def can_see(self) -> bool | None:
        """Whether the model accepts pictures; None if the program does not report it."""
        # LM Studio's `capabilities` do not say whether a model can see, only whether it can use tools
        if self.type in ("vlm", "llm", "embeddings"):
            return self.type == "vlm"
        if self.capabilities is not None:
            return not {"vision", "multimodal"}.isdisjoint(self.capabilities)
        return None

    @property
    def in_cloud(self) -> bool:
        """Whether the model runs on another machine.

        ":cloud" or "-cloud" at the end of a tag alone makes Ollama send requests to its cloud. Source: Ollama,
        server/model_resolver.go.
        """
        _, colon, tag = self.name.lower().rpartition(":")
        return bool(self.remote_host or (colon and (tag == "cloud" or tag.endswith("-cloud"))))

    @property
    def size_bytes(self) -> int:
        return self.size if isinstance(self.size, int) else 0


class _Message(Struct, frozen=True):
    """`thinking` is Ollama's name for thoughts, `reasoning_content` that of the others."""

    content: str | None = None
    reasoning_content: str | None = None
    thinking: str | None = None

    @property
    def text_and_thoughts(self) -> tuple[str, str]:
        """The answer without thoughts, and the thoughts."""
        content, thoughts = self.content or "", self.reasoning_content or self.thinking or ""
        # LM Studio 0.4.7 to 0.4.10 send the JSON as a thought. Source: lmstudio-bug-tracker, issues 1698 and 1773
        if not content and '"alt_text"' in thoughts:
            content = thoughts
        before, _, text = content.rpartition("</think>")
        text, unfinished, _ = text.partition("<think>")
        return text.strip(), before or unfinished or thoughts


class _Choice(Struct, frozen=True):
    message: _Message


class _Reply(_Model, frozen=True):
    """Any response without an error: a list of models, an answer, or the details of one model.

    Ollama's list is `models`; in OpenAI's form it is `data`, to which llama-server adds `models` with details. Ollama's
    answer is `message`, OpenAI's the first of `choices`. `model` is the one that answered, "" if the program does not
    say it.
    """

    data: list[_Model] | None = None
    models: list[_Model] | None = None
    message: _Message | None = None
    choices: list[_Choice] = []
    model: str = ""


class ModelServer:
    """The program `program` at `address`, a result of `parse_address`."""

    def __init__(self, program: _Program, address: str) -> None:
        self.program = program
        self.address = address

    def models(self, check_stop: CheckStop = lambda: None) -> list[_Model]:
        """The models that the program offers. Raises: ModelUnusable; what `check_stop` raises."""
        deadline_s = time.monotonic() + _LIST_TIMEOUT_S
        return [self._details(model, deadline_s, check_stop) for model in self._list(deadline_s, check_stop)]

    def require(self, name: str, check_stop: CheckStop = lambda: None) -> None:
        """Check that the program has the model `name` on this machine, and does not report that it can't see pictures.

        Raises: ModelUnusable; what `check_stop` raises.
        """
        deadline_s = time.monotonic() + _LIST_TIMEOUT_S
        # Ollama takes a name without a tag for that with the tag "latest"
        names = (name, f"{name}:latest")
        found = next((model for model in self._list(deadline_s, check_stop) if model.name in names), None)
        if found is None:
            raise self._error(f"has no model {name!r}", "`imgproc-local models list` shows those that see pictures.")
        model = self._details(found, deadline_s, check_stop)
        if model.in_cloud:
            raise self._error(
                f"runs {name} in its cloud: pictures would leave this machine",
                "Choose a model that runs on this machine.",
            )
        if model.can_see is False:
            raise self._error(f"reports that {name} can't see pictures", _REQUIREMENTS)

    def answer(self, model: str, document: dict[str, Any], deadline_s: float, check_stop: CheckStop) -> str:
        """What the model wrote, without its thoughts; incomplete if the model reached the limit of tokens.

        Raises: ModelUnusable; what `check_stop` raises.
        """
        chat = self._request(self.program.chat_path, document, deadline_s, check_stop)
        message = chat.message or (chat.choices[0].message if chat.choices else _Message())
        # LM Studio may answer with another model that is loaded; an instance or a variant has a suffix
        # Source: lmstudio-ai/lmstudio-bug-tracker, issue 619
        if chat.model not in ("", model) and not chat.model.startswith((f"{model}:", f"{model}@")):
            what = f"answered with the model {_quote(chat.model)} instead of {model}"
            raise self._error(what, f"Load {model} in it.")
        text, thoughts = message.text_and_thoughts
        if not text:
            raise self._error(
                f"wrote {'only thoughts' if thoughts else 'nothing'} with the model {model}",
                f"Update it, or choose a model that does not think. {_REQUIREMENTS}",
            )
        return text

    def _list(self, deadline_s: float, check_stop: CheckStop) -> list[_Model]:
        """The models of the program. Raises: ModelUnusable, also if it is the list of another program.

        Ollama and LM Studio also have a list at the path of llama-server, and llama-server at that of Ollama, which
        does not say which models run in a cloud.
        """
        program = self.program
        listed = self._request(program.list_path, None, deadline_s, check_stop)
        if program.details_path and listed.models is not None and listed.data is None:
            return listed.models
        # only LM Studio reports the type in `data`
        own = [each for each in listed.data or () if (each.owned_by == program.owner if program.owner else each.type)]
        if program.details_path or listed.data is None or (listed.data and not own):
            raise self._another_program()
        details = {model.name: model for model in listed.models or ()}
        return [replace(details.get(model.id, model), name=model.id) for model in own]

    def _details(self, model: _Model, deadline_s: float, check_stop: CheckStop) -> _Model:
        """`model` with what Ollama's list omits, unless there is no more time for it."""
        if not self.program.details_path or model.in_cloud or time.monotonic() > deadline_s:
            return model
        details = self._request(self.program.details_path, {"model": model.name}, deadline_s, check_stop)
        return replace(model, capabilities=details.capabilities, remote_host=details.remote_host)

    def _request(self, path: str, document: Any, deadline_s: float, check_stop: CheckStop) -> _Reply:
        """The response to a POST of `document` as JSON, or to a GET if it is None.

        Raises: ModelUnusable, if it is an error or not one of the program; what `check_stop` raises.
        """
        import httpx

        body = None if document is None else msgspec.json.encode(document)
        try:
            while True:
                check_stop()
                timeout_s = max(0.1, deadline_s - time.monotonic())
                status, content = run_until_stopped(_exchange(self.address + path, body, timeout_s), check_stop, 0.1)
                # status 503: the program is loading the model, or is busy with other requests
                if status != 503 or deadline_s - time.monotonic() < 2 * _LOADING_POLL_S:
                    break
                run_until_stopped(asyncio.sleep(_LOADING_POLL_S), check_stop, 0.1)
        except (TimeoutError, httpx.TimeoutException):
            raise self._error(
                f"did not answer within {timeout_s:.0f} seconds",
                "Restart it, choose a smaller model, or raise the setting stage_timeout_s.",
            ) from None
        except httpx.HTTPError:
            raise self._error("does not answer", f"{self.program.start}, or change the setting program_url.") from None
        try:
            # alone, because the other fields of an error may have any type, such as a `message` that is a string
            failure = msgspec.json.decode(content, type=_Failure)
            # LM Studio sends errors with status 200, too
            if status < 300 and not failure.error:
                return msgspec.json.decode(content, type=_Reply)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            if status < 300:
                raise self._another_program() from None
            failure = _Failure()
        message = _quote(failure.error if isinstance(failure.error, str) else failure.error.message) or "no message"
        raise self._error(f"failed with status {status} ({message})", _REQUIREMENTS)

    def _another_program(self) -> ModelUnusable:
        return self._error(
            f"did not answer like {self.program.title}",
            "Update it, or change the setting program_url if another program uses this port.",
        )

    def _error(self, what: str, advice: str) -> ModelUnusable:
        return ModelUnusable(f"{self.program.title} at {self.address} {what}. {advice}")


async def _exchange(url: str, body: bytes | None, timeout_s: float) -> tuple[int, bytes]:
    """Status and body of a response; a body that is too long is cut off. Raises: TimeoutError; httpx.HTTPError."""
    import httpx

    client = httpx.AsyncClient(
        # a program sends nothing before its answer is complete, so reading may take as long as the whole exchange
        timeout=httpx.Timeout(timeout_s, connect=min(2.0, timeout_s)),
        follow_redirects=False,
        trust_env=False,
        # only http is used: reading the system's certificates would take longer than the request
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        headers={"User-Agent": f"imgproc-local/{__version__}", "Accept-Encoding": "identity"},
    )
    method, headers = ("GET", {}) if body is None else ("POST", {"Content-Type": "application/json"})
    async with (
        asyncio.timeout(timeout_s),
        client,
        client.stream(method, url, content=body, headers=headers) as response,
    ):
        received = bytearray()
        async for chunk in response.aiter_raw():
            received += chunk
            if len(received) > _MAX_BYTES:
                break
        return response.status_code, bytes(received)


def _quote(text: str) -> str:
    """The start of `text`, printable and on one line."""
    printable = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return (printable if len(printable) <= 200 else printable[:200] + "…").rstrip(". ")


class LoadedLoopbackModel:
    """The model `model` of the program `server`, used like one that llama.cpp runs in this process.

    The program gets one request per language, one after another, because parallel ones would each process the picture.
    If it caches its last prompt, as llama-server does, it processes the picture only for the first language.

    The constructor asks the program whether it has this model. `timeout_s` limits all requests for one picture
    together. Raises: ModelUnusable; what `check_stop` raises.
    """

    def __init__(self, model: LoopbackModel, server: ModelServer, timeout_s: float, check_stop: CheckStop) -> None:
        self.model = model
        self._server = server
        self._timeout_s = timeout_s
        self._picture = self._notes = ""
        self._deadline_s = 0.0
        server.require(model.name_in_program, check_stop)

    def close(self) -> None:
        """Forget the picture. The program itself decides when it unloads the model."""
        self._picture = self._notes = ""

    def prefill(self, image: Pixels, notes: str, suffixes: Sequence[str], check_stop: CheckStop) -> None:
        """Store the picture and the notes after it for `generate`. Nothing is sent yet, so `suffixes` is not used."""
        from PIL import Image

        check_stop()
        file = io.BytesIO()
        # compression costs more time than it saves on the way to another process
        Image.frombytes("RGB", (image.width_px, image.height_px), image.rgb).save(file, "PNG", compress_level=1)
        self._picture = base64.b64encode(file.getvalue()).decode("ascii")
        self._notes = notes
        self._deadline_s = time.monotonic() + self._timeout_s

    def generate(
        self, suffixes: Sequence[str], check_stop: CheckStop, seed: int | None = None, *, in_full: bool = False
    ) -> list[str]:
        """One answer per suffix; "" for the one whose request failed and those after it.

        Raises: ModelUnusable, if the first request failed; what `check_stop` raises.
        """
        keys = {"long_description": 1000} if in_full else {"alt_text": 250, "filename": 100}
        answers: list[str] = []
        for suffix in suffixes:
            document = self._question(self._notes + suffix, seed, keys)
            try:
                answers.append(self._server.answer(self.model.name_in_program, document, self._deadline_s, check_stop))
            except ModelUnusable:
                if not answers:
                    raise
                break
        return answers + [""] * (len(suffixes) - len(answers))

    def _question(self, after: str, seed: int | None, keys: dict[str, int]) -> dict[str, Any]:
        """The body of a request for one answer. `after` is the text after the picture. `keys` are those of the JSON of
        the answer, in their order, which the programs enforce, too, with the maximum lengths of their strings.
        """
        from imgproc_local.vision.llm.prompt import INSTRUCTIONS  # the settings are checked without loading it

        strings = {key: {"type": "string", "minLength": 1, "maxLength": size} for key, size in keys.items()}
        schema = {"type": "object", "properties": strings, "required": [*strings], "additionalProperties": False}
        sampling = {"temperature": 0} if seed is None else {"temperature": 0.7, "seed": seed}
        request = {"model": self.model.name_in_program, "stream": False}
        if self._server.program.details_path:
            # Ollama puts the pictures of a message before its text
            message = {"role": "user", "content": f"{INSTRUCTIONS}\n{after}", "images": [self._picture]}
            options = {"num_predict": _MAX_ANSWER_TOKENS, "num_ctx": _CONTEXT_TOKENS, **sampling}
            return request | {"messages": [message], "format": schema, "think": False, "options": options}
        content = [
            {"type": "text", "text": INSTRUCTIONS},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{self._picture}"}},
            {"type": "text", "text": after},
        ]
        json_schema = {"name": "answer", "strict": True, "schema": schema}
        return request | {
            "messages": [{"role": "user", "content": content}],
            "response_format": {"type": "json_schema", "json_schema": json_schema},
            "max_tokens": _MAX_ANSWER_TOKENS,
            # which of these two turns thinking off depends on the program and on the chat template of the model. LM
            # Studio takes the first since 0.4.17; its own /api/v1/chat has no JSON schema, and refuses to turn thinking
            # off in models that don't think. Source: lmstudio-bug-tracker, issue 2057
            "reasoning_effort": "none",
            "chat_template_kwargs": {"enable_thinking": False},
            **sampling,
        }
