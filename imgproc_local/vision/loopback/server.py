"""A program on this machine that runs vision models: which models it offers, and what one of them answers.

Every failure, except a timeout of `answer`, becomes a `ModelUnusable` with a message that says what to do. What the
program sends is not trusted: it is limited in size, decoded into types, and quoted in messages only in part.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.domain.stop import CheckStop
from imgproc_local.vision.loopback.address import Address
from imgproc_local.vision.loopback.client import (
    Reply,
    ResponseTimeout,
    ResponseTooLarge,
    Unreachable,
    request,
)
from imgproc_local.vision.loopback.programs import (
    ListedModel,
    OllamaDetails,
    Program,
    Prompt,
    is_cloud_model,
    is_same_model,
)

log = logging.getLogger(__name__)

LIST_TIMEOUT_S = 2.0
"""The limit for listing the models of a program and their details, all requests together."""
MAX_LIST_BYTES = 4 * 1024 * 1024
MAX_ANSWER_BYTES = 256 * 1024
"""The response with an answer of `MAX_ANSWER_TOKENS` has about 4 kB. Thoughts of the model may add to it."""
MAX_DETAILS = 50
"""At most this many models of Ollama are asked whether they can see pictures."""
LOADING_POLL_S = 1.0
"""The interval at which a request is repeated while the program loads the model or is busy (status 503)."""
MAX_QUOTE_CHARS = 200


class ServerUnreachable(ModelUnusable):
    """Nothing listens at the address of the program."""


class InvalidAnswer(ModelUnusable):
    """The model answered with something other than the requested JSON. It may succeed with another prompt."""


class _ErrorObject(Struct, frozen=True):
    message: str = ""


class _ErrorBody(Struct, frozen=True):
    """The body of an error. `error` is an object or, from Ollama and often LM Studio, the message itself."""

    error: str | _ErrorObject = ""


class ModelServer:
    """The program `program` at `address`."""

    def __init__(self, program: Program, address: Address) -> None:
        self.program = program
        self.address = address
        self._is_thinking_logged = False

    def models(self, check_stop: CheckStop = lambda: None) -> list[ListedModel]:
        """The models that the program offers. Raises: ModelUnusable; what `check_stop` raises."""
        deadline = time.monotonic() + LIST_TIMEOUT_S
        models: list[ListedModel] = self._decode(
            self._get_information(self.program.list_path, None, deadline, check_stop), self.program.parse_list
        )
        if not self.program.details_path:
            return models
        models_with_details = []
        for count, model in enumerate(models):
            unknown = model.can_see is None and not model.in_cloud
            if unknown and count < MAX_DETAILS and time.monotonic() < deadline:
                models_with_details.append(self._with_details(model, deadline, check_stop))
            else:
                models_with_details.append(model)
        return models_with_details

    def require(self, name: str, check_stop: CheckStop = lambda: None) -> None:
        """Check that the program has the model `name` on this machine, and does not report that it can't see pictures.

        Raises: ModelUnusable; what `check_stop` raises.
        """
        title = self.program.title
        if self.program.details_path:
            self._require_not_in_cloud(ListedModel(name, in_cloud=is_cloud_model(name)))
            model = self._with_details(ListedModel(name), time.monotonic() + LIST_TIMEOUT_S, check_stop)
            self._require_not_in_cloud(model)
        else:
            models = self.models(check_stop)
            listed = next((model for model in models if model.name == name), None)
            if listed is None:
                raise ModelUnusable(self._missing(name))
            model = listed
        if model.can_see is False:
            raise ModelUnusable(_cannot_see(title, name))

    def answer(self, model: str, prompt: Prompt, timeout_s: float, check_stop: CheckStop) -> str:
        """The JSON object that the model wrote, incomplete if the model reached the limit of tokens.

        Raises: ResponseTimeout, after `timeout_s`; InvalidAnswer; any other ModelUnusable; what `check_stop` raises.
        """
        title = self.program.title
        deadline = time.monotonic() + timeout_s
        document = self.program.chat_request(model, prompt)
        while True:
            left_s = max(0.1, deadline - time.monotonic())
            reply = self._request(self.program.chat_path, document, left_s, MAX_ANSWER_BYTES, check_stop)
            # status 503: the program is loading the model, or is busy with other requests
            if reply.status != 503 or deadline - time.monotonic() < 2 * LOADING_POLL_S:
                break
            _sleep(LOADING_POLL_S, check_stop)
        self._raise_for_error(reply, model)
        written = self._decode(reply, self.program.parse_answer)
        if not is_same_model(model, written.model):
            raise ModelUnusable(
                f"{title} answered with the model {_quote(written.model)} instead of {model}. Load {model} in {title}."
            )
        text = written.text.rpartition("</think>")[2]
        if "{" in text:
            if (written.thoughts or text != written.text) and not self._is_thinking_logged:
                log.warning(
                    "%s in %s thinks before it answers, although it was asked not to: this takes time.", model, title
                )
                self._is_thinking_logged = True
            return self._json_in(text[text.index("{") :], model)
        if written.thoughts or "<think>" in written.text:
            raise InvalidAnswer(
                f"{model} in {title} wrote its thoughts and no answer, although it was asked not to think. Choose a"
                " model or a build of it that does not think."
            )
        if not text.strip():
            raise InvalidAnswer(
                f"{model} in {title} wrote nothing. Its context may be too small for the picture:"
                f" {self.program.larger_context[0].lower()}{self.program.larger_context[1:]}."
            )
        raise InvalidAnswer(
            f"{model} in {title} wrote text instead of JSON ({_quote(text)}). Update {title}, or choose another model."
        )

    def _json_in(self, text: str, model: str) -> str:
        """The JSON object at the start of `text`, without what follows it; unchanged if it has no end."""
        title, end = self.program.title, text.rfind("}") + 1
        if not end:
            return text
        try:
            msgspec.json.decode(text[:end].encode(), type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise InvalidAnswer(
                f"{model} in {title} wrote malformed JSON ({_quote(text)}). Update {title}, or choose another model."
            ) from None
        return text[:end]

    def _with_details(self, model: ListedModel, deadline: float, check_stop: CheckStop) -> ListedModel:
        """`model` with its details from Ollama."""
        reply = self._get_information(
            self.program.details_path, {"model": model.name}, deadline, check_stop, model.name
        )
        details = self._decode(reply, lambda body: msgspec.json.decode(body, type=OllamaDetails))
        can_see = None if details.capabilities is None else "vision" in details.capabilities
        return replace(model, can_see=can_see, in_cloud=bool(details.remote_host))

    def _require_not_in_cloud(self, model: ListedModel) -> None:
        if model.in_cloud:
            raise ModelUnusable(
                f"{model.name} runs in the cloud of {self.program.title}: pictures would leave this machine. Choose a"
                " model that runs on this machine."
            )

    def _get_information(
        self, path: str, document: Any, deadline: float, check_stop: CheckStop, model: str = ""
    ) -> Reply:
        """The successful response to a request for information."""
        try:
            left_s = max(0.1, deadline - time.monotonic())
            reply = self._request(path, document, left_s, MAX_LIST_BYTES, check_stop)
        except ResponseTimeout:
            raise ModelUnusable(
                f"{self.program.title} at {self.address.url} did not list its models within"
                f" {LIST_TIMEOUT_S:.0f} seconds. Restart it."
            ) from None
        self._raise_for_error(reply, model)
        return reply

    def _request(self, path: str, document: Any, timeout_s: float, max_bytes: int, check_stop: CheckStop) -> Reply:
        """Raises: ResponseTimeout; ModelUnusable, if there is no response or it is too long."""
        title, url = self.program.title, self.address.url
        try:
            return request(
                self.address, path, document, timeout_s=timeout_s, max_bytes=max_bytes, check_stop=check_stop
            )
        except Unreachable:
            raise ServerUnreachable(
                f"{title} does not answer at {url}. {self.program.start}, or change the setting program_url."
            ) from None
        except ResponseTooLarge:
            raise ModelUnusable(
                f"{title} at {url} sent more than {max_bytes // 1024} kB, and a short answer was expected. Choose"
                " another model."
            ) from None

    def _decode(self, reply: Reply, parse: Callable[[bytes], Any]) -> Any:
        title = self.program.title
        try:
            return parse(reply.body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise ModelUnusable(
                f"The program at {self.address.url} did not answer like {title}. Update {title}, or change the"
                " setting program_url if another program uses this port."
            ) from None

    def _missing(self, model: str) -> str:
        return (
            f"{self.program.title} has no model {model!r}. `imgproc-local models list` shows its models that can see"
            " pictures."
        )

    def _raise_for_error(self, reply: Reply, model: str) -> None:
        """Raises: ModelUnusable, if the response is an error. LM Studio sends errors with status 200, too."""
        title, status = self.program.title, reply.status
        message = _error_message(reply.body)
        if status < 300 and not message:
            return
        lowered = message.lower()
        detail = f" ({_quote(message)})" if message else ""
        if status in (401, 403) or "api token is required" in lowered:
            raise ModelUnusable(
                f"{title} at {self.address.url} refused the request{detail}. imgproc-local sends no key: turn off the"
                f" authentication of {title}."
            )
        if any(words in lowered for words in ("image input", "not support image", "support vision", "multimodal")):
            raise ModelUnusable(_cannot_see(title, model))
        # the last is LM Studio's wording
        if any(words in lowered for words in ("context size", "context length", "context the overflows")):
            raise ModelUnusable(
                f"The context of {model} in {title} is too small for a picture and the instructions{detail}."
                f" {self.program.larger_context}."
            )
        unknown_model = ("not found", "model identifier", "no models loaded")
        if model and (status == 404 or any(words in lowered for words in unknown_model)):
            raise ModelUnusable(self._missing(model))
        if 300 <= status < 400:
            raise ModelUnusable(
                f"{title} at {self.address.url} sent a redirect. Redirects are not followed: change the setting"
                " program_url."
            )
        if status == 503:
            raise ModelUnusable(f"{title} is still loading the model, or is busy{detail}. Try again later.")
        raise ModelUnusable(f"{title} failed with status {status}{detail}. Its log may say why.")


def _cannot_see(title: str, model: str) -> str:
    return f"{model} in {title} can't see pictures. Choose a vision model, with its vision encoder (mmproj)."


def _error_message(body: bytes) -> str:
    """The message in the body of an error; "" if the body is no error."""
    try:
        error = msgspec.json.decode(body, type=_ErrorBody).error
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ""
    return error if isinstance(error, str) else error.message or "no message"


def _quote(text: str) -> str:
    """The start of `text`, printable and on one line."""
    printable = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return (printable if len(printable) <= MAX_QUOTE_CHARS else printable[:MAX_QUOTE_CHARS] + "…").rstrip(". ")


def _sleep(seconds: float, check_stop: CheckStop) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        check_stop()
        time.sleep(min(left, 0.1))
