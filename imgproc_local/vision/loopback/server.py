"""A program on this machine that runs vision models: which models it offers, and what one of them answers.

Every failure, except a timeout of `answer`, becomes a `ModelUnusable` with a message that says what to do. What the
program sends is not trusted: it is limited in size, decoded into types, and quoted in messages only in part.

`LoadedLoopbackModel` is one of its models, used like one that llama.cpp runs in this process. The program gets one
request per language, one after another, because parallel ones would each process the picture. If it caches its last
prompt, as llama-server does, it processes the picture and the instructions only for the first language.
"""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import CheckStop, ModelUnusable
from imgproc_local.domain.image import Pixels
from imgproc_local.vision.llm.prompt import INSTRUCTIONS
from imgproc_local.vision.loopback.address import Address
from imgproc_local.vision.loopback.client import Reply, ResponseTimeout, ResponseTooLarge, Unreachable, request
from imgproc_local.vision.loopback.programs import (
    ListedModel,
    Program,
    Prompt,
    chat_request,
    is_cloud_model,
    is_same_model,
    parse_answer,
    parse_details,
    parse_models,
)
from imgproc_local.vision.models.model import LoopbackModel

T = TypeVar("T")

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

    def models(self, check_stop: CheckStop = lambda: None) -> list[ListedModel]:
        """The models that the program offers. Raises: ModelUnusable; what `check_stop` raises."""
        deadline = time.monotonic() + LIST_TIMEOUT_S
        reply = self._list(self.program.list_path, None, deadline, check_stop)
        models = self._decode(reply, lambda body: parse_models(body, self.program))
        if not self.program.details_path:
            return models
        return [
            self._details(model.name, deadline, check_stop)
            if model.can_see is None and not model.in_cloud and count < MAX_DETAILS and time.monotonic() < deadline
            else model
            for count, model in enumerate(models)
        ]

    def require(self, name: str, check_stop: CheckStop = lambda: None) -> None:
        """Check that the program has the model `name` on this machine, and does not report that it can't see pictures.

        Raises: ModelUnusable; what `check_stop` raises.
        """
        title = self.program.title
        if not self.program.details_path:
            model = next((model for model in self.models(check_stop) if model.name == name), None)
            if model is None:
                raise self._missing(name)
        elif is_cloud_model(name):
            model = ListedModel(name, in_cloud=True)
        else:
            model = self._details(name, time.monotonic() + LIST_TIMEOUT_S, check_stop)
        if model.in_cloud:
            raise ModelUnusable(
                f"{name} runs in the cloud of {title}: pictures would leave this machine. Choose a model that runs on"
                " this machine."
            )
        if model.can_see is False:
            raise self._cannot_see(name)

    def answer(self, model: str, prompt: Prompt, timeout_s: float, check_stop: CheckStop) -> str:
        """The JSON object that the model wrote, incomplete if the model reached the limit of tokens.

        Raises: ResponseTimeout, after `timeout_s`; InvalidAnswer; any other ModelUnusable; what `check_stop` raises.
        """
        title = self.program.title
        deadline = time.monotonic() + timeout_s
        document = chat_request(self.program, model, prompt)
        while True:
            left_s = max(0.1, deadline - time.monotonic())
            reply = self._request(self.program.chat_path, document, left_s, MAX_ANSWER_BYTES, check_stop)
            # status 503: the program is loading the model, or is busy with other requests
            if reply.status != 503 or deadline - time.monotonic() < 2 * LOADING_POLL_S:
                break
            _sleep(LOADING_POLL_S, check_stop)
        self._raise_for_error(reply, model)
        written = self._decode(reply, parse_answer)
        if not is_same_model(model, written.model):
            raise ModelUnusable(
                f"{title} answered with the model {_quote(written.model)} instead of {model}. Load {model} in {title}."
            )
        # some models write their thoughts first, or the JSON in a block of Markdown
        text = written.text.rpartition("</think>")[2]
        start, end = text.find("{"), text.rfind("}") + 1
        answer = text[start : end if end > start else None]  # incomplete without an end
        if start < 0 or (end > start and not _is_json(answer)):
            received = _quote(text) or ("only thoughts" if written.thoughts else "nothing")
            raise InvalidAnswer(
                f"{model} in {title} wrote no JSON: expected an object, received {received}. Update {title}, or choose"
                f" a model that does not think. {self.program.larger_context}."
            )
        return answer

    def _details(self, name: str, deadline: float, check_stop: CheckStop) -> ListedModel:
        """What Ollama says of a model."""
        reply = self._list(self.program.details_path, {"model": name}, deadline, check_stop, name)
        return self._decode(reply, lambda body: parse_details(body, name))

    def _list(self, path: str, document: Any, deadline: float, check_stop: CheckStop, model: str = "") -> Reply:
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

    def _decode(self, reply: Reply, parse: Callable[[bytes], T]) -> T:
        title = self.program.title
        try:
            return parse(reply.body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise ModelUnusable(
                f"The program at {self.address.url} did not answer like {title}. Update {title}, or change the"
                " setting program_url if another program uses this port."
            ) from None

    def _raise_for_error(self, reply: Reply, model: str) -> None:
        """Raises: ModelUnusable, if the response is an error. LM Studio sends errors with status 200, too."""
        title, status = self.program.title, reply.status
        message = _error_message(reply.body)
        if status < 300 and not message:
            return
        detail = f" ({_quote(message)})" if message else ""

        for words, problem in (
            (("image input", "not support image", "support vision", "multimodal"), self._cannot_see(model)),
            # the last is LM Studio's wording
            (("context size", "context length", "context the overflows"), self._too_small(model, detail)),
            (("api token is required",), self._refused(detail)),
            (("not found", "model identifier", "no models loaded") if model else (), self._missing(model)),
        ):
            if any(word in message.lower() for word in words):
                raise problem
        if status in (401, 403):
            raise self._refused(detail)
        if model and status == 404:
            raise self._missing(model)
        advice = {
            503: "It is still loading the model, or is busy. Try again later.",
            **dict.fromkeys(range(300, 400), "A redirect is not followed: change the setting program_url."),
        }
        raise ModelUnusable(
            f"{title} failed with status {status}{detail}. {advice.get(status, 'Its log may say why.')}"
        )

    def _missing(self, model: str) -> ModelUnusable:
        return ModelUnusable(
            f"{self.program.title} has no model {model!r}. `imgproc-local models list` shows its models that can see"
            " pictures."
        )

    def _cannot_see(self, model: str) -> ModelUnusable:
        return ModelUnusable(
            f"{model} in {self.program.title} can't see pictures. Choose a vision model, with its vision encoder"
            " (mmproj)."
        )

    def _too_small(self, model: str, detail: str) -> ModelUnusable:
        return ModelUnusable(
            f"The context of {model} in {self.program.title} is too small for a picture and the instructions{detail}."
            f" {self.program.larger_context}."
        )

    def _refused(self, detail: str) -> ModelUnusable:
        title = self.program.title
        return ModelUnusable(
            f"{title} at {self.address.url} refused the request{detail}. imgproc-local sends no key: turn off the"
            f" authentication of {title}."
        )


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text.encode(), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True


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


class LoadedLoopbackModel:
    """The model `model` of the program `server`. The constructor asks the program whether it has this model.

    `picture_timeout_s` limits all requests for one picture together. `report` is called after each `generate` with the
    problem of a request that failed, or None; it is not called if the program was unreachable.

    Raises: ModelUnusable; what `check_stop` raises.
    """

    def __init__(
        self,
        model: LoopbackModel,
        server: ModelServer,
        picture_timeout_s: float,
        report: Callable[[str | None], None] = lambda _: None,
        check_stop: CheckStop = lambda: None,
    ) -> None:
        self.model = model
        self._server = server
        self._report = report
        self._picture_timeout_s = picture_timeout_s
        self._picture = self._notes = ""
        self._deadline = 0.0
        self._failure: ModelUnusable | None = None
        server.require(model.name_in_program, check_stop)

    def close(self) -> None:
        """Forget the picture. The program itself decides when it unloads the model."""
        self._picture = self._notes = ""

    def prefill(self, image: Pixels, notes: str, suffixes: Sequence[str], check_stop: CheckStop) -> None:
        """Store the picture and the notes after it for `generate`. Nothing is sent yet, so `suffixes` is not used."""
        check_stop()
        self._picture = _png_base64(image)
        self._notes = notes
        self._deadline = time.monotonic() + self._picture_timeout_s
        self._failure = None

    def generate(self, suffixes: Sequence[str], check_stop: CheckStop, seed: int | None = None) -> list[str]:
        """One answer per suffix; "" for a suffix whose request failed, as long as another one succeeded.

        Raises: ModelUnusable, if all requests failed; what `check_stop` raises.
        """
        if self._failure is not None and self._has_program_failed():
            raise self._failure
        self._failure = None
        answers = [self._answer(suffix, check_stop, seed) for suffix in suffixes]
        if not isinstance(self._failure, ServerUnreachable):
            # only problems that `require` can't find without a picture are reported
            self._report(None if self._failure is None else self._failure.message)
        if self._failure is not None and not any(answers):
            raise self._failure
        return answers

    def _has_program_failed(self) -> bool:
        """Whether further requests for this picture would fail, too. After an invalid answer they may succeed."""
        return self._failure is not None and not isinstance(self._failure, InvalidAnswer)

    def _answer(self, suffix: str, check_stop: CheckStop, seed: int | None) -> str:
        """The answer; "" if the request failed, or if no request is sent because the program failed before."""
        if self._has_program_failed():
            return ""
        prompt = Prompt(INSTRUCTIONS, self._picture, self._notes + suffix, seed)
        try:
            return self._server.answer(
                self.model.name_in_program, prompt, self._deadline - time.monotonic(), check_stop
            )
        except ResponseTimeout:
            self._failure = ModelUnusable(
                f"{self.model.name} did not describe a picture within {self._picture_timeout_s:.0f} seconds. Choose a"
                " smaller model, or raise the setting stage_timeout_s."
            )
        except ModelUnusable as failure:
            self._failure = failure
        return ""


def _png_base64(image: Pixels) -> str:
    from PIL import Image

    file = io.BytesIO()
    # compression costs more time than it saves on the way to another process
    Image.frombytes("RGB", (image.width_px, image.height_px), image.rgb).save(file, "PNG", compress_level=1)
    return base64.b64encode(file.getvalue()).decode("ascii")
