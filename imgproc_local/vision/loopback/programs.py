"""The three programs whose models are used, and what is sent to them and read from their answers.

All have OpenAI's chat interface. Ollama's own is used instead of its copy of it, because only that can turn thinking
off and set the size of the context. All three constrain the answer to a JSON schema.

Sources: docs.ollama.com/openapi.yaml; lmstudio.ai/docs/api/rest-api; llama.cpp, tools/server/README.md.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from imgproc_local.vision.llm.prompt import GRAMMAR, Answer

MAX_ANSWER_TOKENS = 400
"""Limit for one answer. In the least favourable script, 250 characters need about 300 tokens."""
CONTEXT_TOKENS = 4096
"""The context that a picture, the prompt and the answer need. Ollama is asked for it, because it truncates a longer
prompt silently; it is also Ollama's default, so that Ollama need not reload a model that it has loaded."""
TEMPERATURE = 0.7
"""The temperature of an answer that is generated with a seed; other answers are greedy."""
MAX_FIELD_CHARS = {"filename": 100, "alt_text": 250}

ANSWER_KEYS = sorted(Answer.__struct_fields__, key=GRAMMAR.index)
"""The keys of an answer in the order of the grammar. The programs also enforce the order of the schema's properties."""
ANSWER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {key: {"type": "string", "minLength": 1, "maxLength": MAX_FIELD_CHARS[key]} for key in ANSWER_KEYS},
    "required": ANSWER_KEYS,
    "additionalProperties": False,
}
"""The JSON of an answer as a JSON schema."""


class Program(Struct, frozen=True):
    """One of the programs. `usual_url` is its address unless the setting `program_url` names another one.

    `start` and `larger_context` are instructions for messages, without the final full stop. `details_path` is where
    Ollama, which has an interface of its own, reports what its list of models omits. `owner` is what llama-server calls
    itself in its list.
    """

    title: str
    usual_url: str
    start: str
    larger_context: str
    list_path: str
    chat_path: str = "/v1/chat/completions"
    details_path: str = ""
    owner: str = ""


PROGRAMS = {
    "ollama": Program(
        "Ollama",
        "http://127.0.0.1:11434",
        "Start Ollama, or run `ollama serve`",
        f"Choose a model with a context of at least {CONTEXT_TOKENS} tokens",
        "/api/tags",
        "/api/chat",
        "/api/show",
    ),
    "lmstudio": Program(
        "LM Studio",
        "http://127.0.0.1:1234",
        "Start its server in LM Studio, or run `lms server start`",
        f"Load the model in LM Studio with a context length of at least {CONTEXT_TOKENS}",
        "/api/v0/models",
    ),
    "llama-server": Program(
        "llama-server",
        "http://127.0.0.1:8080",
        "Start llama-server with `--mmproj`",
        f"Start llama-server with `--ctx-size {CONTEXT_TOKENS}` or more",
        "/v1/models",
        owner="llamacpp",
    ),
}
"""The programs by the first part of a model's name, such as "ollama" in "ollama:gemma3:4b"."""


class Prompt(Struct, frozen=True):
    """The prompt of one request: the texts before and after the picture, and the picture as a PNG file in Base64."""

    before: str
    picture: str
    after: str
    seed: int | None = None


def chat_request(program: Program, model: str, prompt: Prompt) -> dict[str, Any]:
    """The body of a request for one answer."""
    sampling: dict[str, Any] = {"temperature": 0}
    if prompt.seed is not None:
        sampling = {"temperature": TEMPERATURE, "seed": prompt.seed}
    if program.details_path:
        # Ollama puts the pictures of a message before its text
        content = "\n".join(part for part in (prompt.before, prompt.after) if part)
        return {
            "model": model,
            "messages": [{"role": "user", "content": content, "images": [prompt.picture]}],
            "format": ANSWER_SCHEMA,
            "think": False,
            "stream": False,
            "options": {"num_predict": MAX_ANSWER_TOKENS, "num_ctx": CONTEXT_TOKENS, **sampling},
        }
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{prompt.picture}"}}
    before, after = ([{"type": "text", "text": text}] if text else [] for text in (prompt.before, prompt.after))
    schema = {"name": "answer", "strict": True, "schema": ANSWER_SCHEMA}
    return {
        "model": model,
        "messages": [{"role": "user", "content": [*before, picture, *after]}],
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
    thinking: str | None = None
    reasoning_content: str | None = None


class _Choice(Struct, frozen=True):
    message: _Message


class _Chat(Struct, frozen=True):
    """Ollama's answer is `message`, OpenAI's the first of `choices`."""

    message: _Message | None = None
    choices: list[_Choice] = []
    model: str = ""


class ModelOutput(Struct, frozen=True):
    """What a model wrote: its answer, and the thoughts that the program separated from it.

    `model` is the model that wrote it, "" if the program does not say.
    """

    text: str
    thoughts: str
    model: str


def parse_answer(body: bytes) -> ModelOutput:
    """What the model wrote. Raises: msgspec.MsgspecError, if the response has another form."""
    chat = msgspec.json.decode(body, type=_Chat)
    message = chat.message or (chat.choices[0].message if chat.choices else None)
    if message is None:
        raise msgspec.ValidationError("expected a message")
    return ModelOutput(message.content or "", message.thinking or message.reasoning_content or "", chat.model)


def is_same_model(asked: str, answered: str) -> bool:
    """Whether the name `answered` in a response means the model `asked`: itself, an instance or a variant; or is "".

    Source: lmstudio-ai/lmstudio-bug-tracker, issue 619: LM Studio answers with another model that is loaded.
    """
    return answered in ("", asked) or answered.startswith((f"{asked}:", f"{asked}@"))
