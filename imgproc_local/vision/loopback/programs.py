"""The three programs whose models are used, and how their HTTP interfaces differ.

LM Studio and llama-server have OpenAI's chat interface. Ollama's own interface is used instead of its copy of OpenAI's,
because only it can turn thinking off and set the size of the context. All three constrain the answer to a
JSON schema.

Sources: docs.ollama.com/openapi.yaml; lmstudio.ai/docs/api/rest-api; llama.cpp, tools/server/README.md.
"""

from __future__ import annotations

from collections.abc import Callable
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


class Prompt(Struct, frozen=True):
    """The prompt of one request: the texts before and after the picture, and the picture as a PNG file in Base64."""

    before: str
    picture: str
    after: str
    seed: int | None = None


class ListedModel(Struct, frozen=True):
    """A model that a program offers.

    `can_see` is None if the program does not report whether the model accepts pictures. A model `in_cloud` runs on
    another machine.
    """

    name: str
    can_see: bool | None = None
    size_bytes: int = 0
    in_cloud: bool = False


class ModelOutput(Struct, frozen=True):
    """What a model wrote: its answer, and the thoughts that the program separated from it.

    `model` is the model that wrote it, "" if the program does not say.
    """

    text: str
    thoughts: str = ""
    model: str = ""


class Program(Struct, frozen=True):
    """One of the programs. `usual_url` is its address unless the setting `program_url` names another one.

    `start` and `larger_context` are instructions for messages, without the final full stop. `parse_list` and
    `parse_answer` raise msgspec.DecodeError if the response has another structure. `details_path` is where Ollama
    reports what its list of models omits.
    """

    title: str
    usual_url: str
    start: str
    larger_context: str
    list_path: str
    parse_list: Callable[[bytes], list[ListedModel]]
    chat_path: str
    chat_request: Callable[[str, Prompt], dict[str, Any]]
    parse_answer: Callable[[bytes], ModelOutput]
    details_path: str = ""


# ---- Ollama ----


class _OllamaModel(Struct, frozen=True):
    name: str
    size: int = 0
    remote_host: str = ""
    capabilities: list[str] | None = None


class _OllamaList(Struct, frozen=True):
    models: list[_OllamaModel]


class OllamaDetails(Struct, frozen=True):
    """The response of Ollama's `/api/show`."""

    capabilities: list[str] | None = None
    remote_host: str = ""


class _OllamaMessage(Struct, frozen=True):
    content: str = ""
    thinking: str = ""


class _OllamaAnswer(Struct, frozen=True):
    message: _OllamaMessage


def _ollama_list(body: bytes) -> list[ListedModel]:
    models = msgspec.json.decode(body, type=_OllamaList).models
    return [
        ListedModel(
            model.name,
            None if model.capabilities is None else "vision" in model.capabilities,
            model.size,
            is_cloud_model(model.name) or bool(model.remote_host),
        )
        for model in models
    ]


def is_cloud_model(name: str) -> bool:
    """Whether the name alone makes Ollama send requests to its cloud: ":cloud" or "-cloud" at the end of a tag.

    Source: Ollama, server/model_resolver.go.
    """
    _, colon, tag = name.lower().rpartition(":")
    return bool(colon) and (tag == "cloud" or tag.endswith("-cloud"))


def _ollama_request(model: str, prompt: Prompt) -> dict[str, Any]:
    options: dict[str, Any] = {"temperature": 0, "num_predict": MAX_ANSWER_TOKENS, "num_ctx": CONTEXT_TOKENS}
    if prompt.seed is not None:
        options |= {"temperature": TEMPERATURE, "seed": prompt.seed}
    # Ollama puts the pictures of a message before its text
    content = "\n".join(part for part in (prompt.before, prompt.after) if part)
    return {
        "model": model,
        "messages": [{"role": "user", "content": content, "images": [prompt.picture]}],
        "format": ANSWER_SCHEMA,
        "think": False,
        "stream": False,
        "options": options,
    }


def _ollama_answer(body: bytes) -> ModelOutput:
    message = msgspec.json.decode(body, type=_OllamaAnswer).message
    return ModelOutput(message.content, message.thinking)


# ---- LM Studio and llama-server ----


class _OpenAIMessage(Struct, frozen=True):
    content: str | None = None
    reasoning_content: str | None = None


class _OpenAIChoice(Struct, frozen=True):
    message: _OpenAIMessage


class _OpenAIAnswer(Struct, frozen=True):
    choices: list[_OpenAIChoice]
    model: str = ""


class _LMStudioModel(Struct, frozen=True):
    id: str
    type: str = ""


class _LMStudioList(Struct, frozen=True):
    data: list[_LMStudioModel]


class _LlamaServerModel(Struct, frozen=True):
    id: str


class _LlamaServerDetails(Struct, frozen=True):
    name: str = ""
    capabilities: list[str] | None = None


class _LlamaServerList(Struct, frozen=True):
    data: list[_LlamaServerModel]
    models: list[_LlamaServerDetails] = []


def _lmstudio_list(body: bytes) -> list[ListedModel]:
    models = msgspec.json.decode(body, type=_LMStudioList).data
    return [ListedModel(model.id, model.type == "vlm" if model.type else None) for model in models]


def _llama_server_list(body: bytes) -> list[ListedModel]:
    listed = msgspec.json.decode(body, type=_LlamaServerList)
    capabilities = {model.name: model.capabilities for model in listed.models}
    return [
        ListedModel(model.id, None if (known := capabilities.get(model.id)) is None else "multimodal" in known)
        for model in listed.data
    ]


def _openai_request(model: str, prompt: Prompt) -> dict[str, Any]:
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{prompt.picture}"}}
    before, after = ([{"type": "text", "text": text}] if text else [] for text in (prompt.before, prompt.after))
    seed = {} if prompt.seed is None else {"seed": prompt.seed}
    return {
        "model": model,
        "messages": [{"role": "user", "content": [*before, picture, *after]}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": ANSWER_SCHEMA},
        },
        "max_tokens": MAX_ANSWER_TOKENS,
        "temperature": 0 if prompt.seed is None else TEMPERATURE,
        "stream": False,
        # which of these two turns thinking off depends on the program and on the chat template of the model
        "reasoning_effort": "none",
        "chat_template_kwargs": {"enable_thinking": False},
        **seed,
    }


def _openai_answer(body: bytes) -> ModelOutput:
    answer = msgspec.json.decode(body, type=_OpenAIAnswer)
    message = answer.choices[0].message if answer.choices else _OpenAIMessage()
    return ModelOutput(message.content or "", message.reasoning_content or "", answer.model)


def is_same_model(asked: str, answered: str) -> bool:
    """Whether the name `answered` in a response means the model `asked`: itself, an instance or a variant; or is "".

    Source: lmstudio-ai/lmstudio-bug-tracker, issue 619: LM Studio answers with another model that is loaded.
    """
    return answered in ("", asked) or answered.startswith((f"{asked}:", f"{asked}@"))


PROGRAMS = {
    "ollama": Program(
        title="Ollama",
        usual_url="http://127.0.0.1:11434",
        start="Start Ollama, or run `ollama serve`",
        larger_context=f"Choose a model with a context of at least {CONTEXT_TOKENS} tokens",
        list_path="/api/tags",
        parse_list=_ollama_list,
        chat_path="/api/chat",
        chat_request=_ollama_request,
        parse_answer=_ollama_answer,
        details_path="/api/show",
    ),
    "lmstudio": Program(
        title="LM Studio",
        usual_url="http://127.0.0.1:1234",
        start="Start its server in LM Studio, or run `lms server start`",
        larger_context=f"Load the model in LM Studio with a context length of at least {CONTEXT_TOKENS}",
        list_path="/api/v0/models",
        parse_list=_lmstudio_list,
        chat_path="/v1/chat/completions",
        chat_request=_openai_request,
        parse_answer=_openai_answer,
    ),
    "llama-server": Program(
        title="llama-server",
        usual_url="http://127.0.0.1:8080",
        start="Start llama-server with `--mmproj`",
        larger_context=f"Start llama-server with `--ctx-size {CONTEXT_TOKENS}` or more",
        list_path="/v1/models",
        parse_list=_llama_server_list,
        chat_path="/v1/chat/completions",
        chat_request=_openai_request,
        parse_answer=_openai_answer,
    ),
}
"""The programs by the first part of a model's name, such as "ollama" in "ollama:gemma3:4b"."""
