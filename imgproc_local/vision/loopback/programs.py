"""The three programs whose models are used, and what is sent to them and read from their answers.

All have OpenAI's chat interface. Ollama's own is used instead of its copy of it, because only that can turn thinking
off and set the size of the context. All three constrain the answer to a JSON schema.

Sources: docs.ollama.com/openapi.yaml; lmstudio.ai/docs/api/rest-api; llama.cpp, tools/server/README.md.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

MAX_ANSWER_TOKENS = 400
"""Limit for one answer. In the least favourable script, 250 characters need about 300 tokens."""
CONTEXT_TOKENS = 4096
"""The context that a picture, the prompt and the answer need. Ollama is asked for it, because it truncates a longer
prompt silently; it is also Ollama's default, so that Ollama need not reload a model that it has loaded."""
TEMPERATURE = 0.7
"""The temperature of an answer that is generated with a seed; other answers are greedy."""
ANSWER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "alt_text": {"type": "string", "minLength": 1, "maxLength": 250},
        "filename": {"type": "string", "minLength": 1, "maxLength": 100},
    },
    "required": ["alt_text", "filename"],
    "additionalProperties": False,
}
"""The JSON of an answer as a JSON schema, whose order of keys, that of the grammar, the programs enforce, too."""


class Program(Struct, frozen=True):
    """One of the programs. `usual_url` is its address unless the setting `program_url` names another one.

    `start` says how to start it, for messages. `details_path` is where Ollama, which has an interface of its own,
    reports what its list of models omits. `owner` is what llama-server calls itself in its list.
    """

    title: str
    usual_url: str
    start: str
    list_path: str
    chat_path: str = "/v1/chat/completions"
    details_path: str = ""
    owner: str = ""


PROGRAMS = {
    "ollama": Program(
        "Ollama",
        "http://127.0.0.1:11434",
        "Start Ollama, or run `ollama serve`",
        "/api/tags",
        "/api/chat",
        "/api/show",
    ),
    "lmstudio": Program(
        "LM Studio",
        "http://127.0.0.1:1234",
        "Start its server in LM Studio, or run `lms server start`",
        "/api/v0/models",
    ),
    "llama-server": Program(
        "llama-server",
        "http://127.0.0.1:8080",
        "Start llama-server with `--mmproj`",
        "/v1/models",
        owner="llamacpp",
    ),
}
"""The programs by the first part of a model's name, such as "ollama" in "ollama:gemma3:4b"."""


def chat_request(
    program: Program, model: str, before: str, picture: str, after: str, seed: int | None
) -> dict[str, Any]:
    """The body of a request for one answer: the texts before and after the picture, a PNG file in Base64."""
    sampling = {"temperature": 0} if seed is None else {"temperature": TEMPERATURE, "seed": seed}
    if program.details_path:
        # Ollama puts the pictures of a message before its text
        return {
            "model": model,
            "messages": [{"role": "user", "content": f"{before}\n{after}", "images": [picture]}],
            "format": ANSWER_SCHEMA,
            "think": False,
            "stream": False,
            "options": {"num_predict": MAX_ANSWER_TOKENS, "num_ctx": CONTEXT_TOKENS, **sampling},
        }
    content = [
        {"type": "text", "text": before},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}},
        {"type": "text", "text": after},
    ]
    schema = {"name": "answer", "strict": True, "schema": ANSWER_SCHEMA}
    return {
        "model": model,
        "messages": [{"role": "user", "content": content}],
        "response_format": {"type": "json_schema", "json_schema": schema},
        "max_tokens": MAX_ANSWER_TOKENS,
        "stream": False,
        # which of these two turns thinking off depends on the program and on the chat template of the model
        "reasoning_effort": "none",
        "chat_template_kwargs": {"enable_thinking": False},
        **sampling,
    }


class ListedModel(Struct, frozen=True):
    """A model that a program offers.

    `can_see` is None if the program does not report whether the model accepts pictures. A model `in_cloud` runs on
    another machine.
    """

    name: str
    can_see: bool | None = None
    size_bytes: int = 0
    in_cloud: bool = False


class _Details(Struct, frozen=True):
    """What the programs report of a model; each uses some of these fields.

    `type` is LM Studio's. The `size` of llama-server is always "".
    """

    id: str = ""
    name: str = ""
    type: str = ""
    size: int | str = 0
    owned_by: str = ""
    remote_host: str = ""
    capabilities: list[str] | None = None

    def listed(self, name: str) -> ListedModel:
        can_see = self.type == "vlm" if self.type else None
        if self.capabilities is not None:
            can_see = not {"vision", "multimodal"}.isdisjoint(self.capabilities)
        size_bytes = self.size if isinstance(self.size, int) else 0
        return ListedModel(name, can_see, size_bytes, is_cloud_model(name) or bool(self.remote_host))


class _Models(Struct, frozen=True):
    """Ollama's list is `models`; in OpenAI's form it is `data`, to which llama-server adds `models` with details."""

    data: list[_Details] | None = None
    models: list[_Details] | None = None


def parse_models(body: bytes, program: Program) -> list[ListedModel]:
    """The list of models of `program`. Raises: msgspec.MsgspecError, if it is no such list.

    Ollama and LM Studio also have a list at the path of llama-server, and llama-server at that of Ollama. Those are no
    lists of `program`: that of Ollama does not say which models run in its cloud.
    """
    answer = msgspec.json.decode(body, type=_Models)
    if program.details_path:
        if answer.models is None or answer.data is not None:
            raise msgspec.ValidationError("expected Ollama's list of models")
        return [model.listed(model.name) for model in answer.models]
    # only LM Studio reports the type in `data`
    own = [each for each in answer.data or () if (each.owned_by == program.owner if program.owner else each.type)]
    if answer.data is None or (answer.data and not own):
        raise msgspec.ValidationError(f"expected {program.title}'s list of models")
    details = {model.name: model for model in answer.models or ()}
    return [details.get(model.id, model).listed(model.id) for model in own]


def parse_details(body: bytes, name: str) -> ListedModel:
    """The response of Ollama's `/api/show` about the model `name`. Raises: msgspec.MsgspecError."""
    return msgspec.json.decode(body, type=_Details).listed(name)


def is_cloud_model(name: str) -> bool:
    """Whether the name alone makes Ollama send requests to its cloud: ":cloud" or "-cloud" at the end of a tag.

    Source: Ollama, server/model_resolver.go.
    """
    _, colon, tag = name.lower().rpartition(":")
    return bool(colon) and (tag == "cloud" or tag.endswith("-cloud"))


class _Message(Struct, frozen=True):
    content: str | None = None


class _Choice(Struct, frozen=True):
    message: _Message


class _Chat(Struct, frozen=True):
    """Ollama's answer is `message`, OpenAI's the first of `choices`."""

    message: _Message | None = None
    choices: list[_Choice] = []
    model: str = ""


def parse_answer(body: bytes) -> tuple[str, str]:
    """What a model wrote, and the name of this model, "" if the program does not say.

    Raises: msgspec.MsgspecError, if the response has another form.
    """
    chat = msgspec.json.decode(body, type=_Chat)
    message = chat.message or (chat.choices[0].message if chat.choices else None)
    if message is None:
        raise msgspec.ValidationError("expected a message")
    return message.content or "", chat.model


class _ErrorObject(Struct, frozen=True):
    message: str = "no message"


class _ErrorBody(Struct, frozen=True):
    """The body of an error. `error` is an object or, from Ollama and often LM Studio, the message itself."""

    error: str | _ErrorObject = ""


def error_message(body: bytes) -> str:
    """The message in the body of an error; "" if the body is no error."""
    try:
        error = msgspec.json.decode(body, type=_ErrorBody).error
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ""
    return error if isinstance(error, str) else error.message
