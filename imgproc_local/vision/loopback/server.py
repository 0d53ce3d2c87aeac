"""A program on this machine that runs vision models: which models it offers, and what one of them answers.

Every failure becomes a `ModelUnusable` with a message that says what to do. What the program sends is not trusted: it
is limited in size, decoded into types, and quoted in messages only in part. Redirects are not followed, and the proxies
of the environment are not used, so that a request reaches nothing but the address that it was made for.

`LoadedLoopbackModel` is one of its models, used like one that llama.cpp runs in this process. The program gets one
request per language, one after another, because parallel ones would each process the picture. If it caches its last
prompt, as llama-server does, it processes the picture and the instructions only for the first language.
"""

from __future__ import annotations

import asyncio
import base64
import io
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from imgproc_local import __version__
from imgproc_local.domain.errors import CheckStop, ModelUnusable
from imgproc_local.domain.image import Pixels
from imgproc_local.system.threads import run_until_stopped
from imgproc_local.vision.llm.prompt import INSTRUCTIONS
from imgproc_local.vision.loopback.address import Address
from imgproc_local.vision.loopback.programs import (
    CONTEXT_TOKENS,
    ListedModel,
    Program,
    chat_request,
    error_message,
    parse_answer,
    parse_details,
    parse_models,
)
from imgproc_local.vision.models.model import LoopbackModel

T = TypeVar("T")

CONNECT_TIMEOUT_S = 2.0
LIST_TIMEOUT_S = 2.0
"""The limit for listing the models of a program and their details, all requests together."""
MAX_BYTES = 4 * 1024 * 1024
"""Limit for a response. An answer of `MAX_ANSWER_TOKENS` has about 4 kB, and a list of 1,000 models less than this."""
MAX_DETAILS = 50
"""At most this many models of Ollama are asked whether they can see pictures."""
POLL_S = 0.1
"""The interval at which `check_stop` is called during a request."""
LOADING_POLL_S = 1.0
"""The interval at which a request is repeated while the program loads the model or is busy (status 503)."""
MAX_QUOTE_CHARS = 200

REQUIREMENTS = (
    f"It needs a vision model with its vision encoder (mmproj), a context of at least {CONTEXT_TOKENS} tokens, and no"
    " API key."
)


class ModelServer:
    """The program `program` at `address`."""

    def __init__(self, program: Program, address: Address) -> None:
        self.program = program
        self.address = address

    def models(self, check_stop: CheckStop = lambda: None) -> list[ListedModel]:
        """The models that the program offers. Raises: ModelUnusable; what `check_stop` raises."""
        deadline_s = time.monotonic() + LIST_TIMEOUT_S
        listed = self._list(deadline_s, check_stop)
        asked = [self._details(model, deadline_s, check_stop) for model in listed[:MAX_DETAILS]]
        return [*asked, *listed[MAX_DETAILS:]]

    def require(self, name: str, check_stop: CheckStop = lambda: None) -> None:
        """Check that the program has the model `name` on this machine, and does not report that it can't see pictures.

        Raises: ModelUnusable; what `check_stop` raises.
        """
        deadline_s = time.monotonic() + LIST_TIMEOUT_S
        # Ollama takes a name without a tag for that with the tag "latest"
        names = (name, f"{name}:latest")
        found = next((model for model in self._list(deadline_s, check_stop) if model.name in names), None)
        if found is None:
            raise self._error(
                f"has no model {name!r}", "`imgproc-local models list` shows its models that can see pictures."
            )
        model = self._details(found, deadline_s, check_stop)
        if model.in_cloud:
            raise self._error(
                f"runs {name} in its cloud: pictures would leave this machine",
                "Choose a model that runs on this machine.",
            )
        if model.can_see is False:
            raise self._error(f"reports that {name} can't see pictures", REQUIREMENTS)

    def answer(
        self, model: str, prompt: tuple[str, str, str], seed: int | None, deadline_s: float, check_stop: CheckStop
    ) -> str:
        """The JSON object that the model wrote, incomplete if the model reached the limit of tokens.

        `prompt` is the texts before and after the picture, and between them the picture as a PNG file in Base64.
        Raises: ModelUnusable; what `check_stop` raises.
        """
        document = chat_request(self.program, model, *prompt, seed)
        while True:
            status, body = self._request(self.program.chat_path, document, deadline_s, check_stop)
            # status 503: the program is loading the model, or is busy with other requests
            if status != 503 or deadline_s - time.monotonic() < 2 * LOADING_POLL_S:
                break
            run_until_stopped(asyncio.sleep(LOADING_POLL_S), check_stop, POLL_S)
        text, answered = self._parsed(status, body, parse_answer)
        # LM Studio may answer with another model that is loaded; an instance or a variant has a suffix
        # Source: lmstudio-ai/lmstudio-bug-tracker, issue 619
        if answered not in ("", model) and not answered.startswith((f"{model}:", f"{model}@")):
            raise self._error(f"answered with the model {_quote(answered)} instead of {model}", f"Load {model} in it.")
        # some models write their thoughts first, or the JSON in a block of Markdown
        text = text.rpartition("</think>")[2]
        start, end = text.find("{"), text.rfind("}") + 1
        if start < 0:
            raise self._error(
                f"wrote no JSON with the model {model}: expected an object, received {_quote(text) or 'nothing'}",
                f"Update it, or choose a model that does not think. {REQUIREMENTS}",
            )
        return text[start : end if end > start else None]

    def _list(self, deadline_s: float, check_stop: CheckStop) -> list[ListedModel]:
        response = self._request(self.program.list_path, None, deadline_s, check_stop)
        return self._parsed(*response, lambda body: parse_models(body, self.program))

    def _details(self, model: ListedModel, deadline_s: float, check_stop: CheckStop) -> ListedModel:
        """`model` with what Ollama's list omits, unless there is no more time for it."""
        if not self.program.details_path or model.in_cloud or time.monotonic() > deadline_s:
            return model
        response = self._request(self.program.details_path, {"model": model.name}, deadline_s, check_stop)
        details = self._parsed(*response, lambda body: parse_details(body, model.name))
        return msgspec.structs.replace(details, size_bytes=model.size_bytes)

    def _request(self, path: str, document: Any, deadline_s: float, check_stop: CheckStop) -> tuple[int, bytes]:
        """Status and body of the response to a POST of `document` as JSON, or to a GET if it is None."""
        import httpx

        check_stop()
        body = None if document is None else msgspec.json.encode(document)
        timeout_s = max(0.1, deadline_s - time.monotonic())
        try:
            return run_until_stopped(_exchange(self.address, path, body, timeout_s), check_stop, POLL_S)
        except (TimeoutError, httpx.TimeoutException):
            raise self._error(
                f"did not answer within {timeout_s:.0f} seconds",
                "Restart it, choose a smaller model, or raise the setting stage_timeout_s.",
            ) from None
        except httpx.HTTPError:
            raise self._error("does not answer", f"{self.program.start}, or change the setting program_url.") from None

    def _parsed(self, status: int, body: bytes, parse: Callable[[bytes], T]) -> T:
        """What a response says. Raises: ModelUnusable, if it is an error or not one of the program."""
        message = error_message(body)
        # LM Studio sends errors with status 200, too
        if status >= 300 or message:
            raise self._error(f"failed with status {status} ({_quote(message) or 'no message'})", REQUIREMENTS)
        try:
            return parse(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise self._error(
                f"did not answer like {self.program.title}",
                "Update it, or change the setting program_url if another program uses this port.",
            ) from None

    def _error(self, what: str, advice: str) -> ModelUnusable:
        return ModelUnusable(f"{self.program.title} at {self.address.url} {what}. {advice}")


async def _exchange(address: Address, path: str, body: bytes | None, timeout_s: float) -> tuple[int, bytes]:
    """Status and body of a response; a body that is too long is cut off. Raises: TimeoutError; httpx.HTTPError."""
    import httpx

    client = httpx.AsyncClient(
        # a program sends nothing before its answer is complete, so reading may take as long as the whole exchange
        timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s)),
        follow_redirects=False,
        trust_env=False,
        # only http is used: reading the system's certificates would take longer than the request
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        headers={"User-Agent": f"imgproc-local/{__version__}", "Accept-Encoding": "identity"},
    )
    method, headers = ("GET", {}) if body is None else ("POST", {"Content-Type": "application/json"})
    async with asyncio.timeout(timeout_s), client:
        *others, last = address.origins
        for origin in others:
            try:
                return await _send(client, method, origin + path, body, headers)
            except httpx.ConnectError:
                continue
        return await _send(client, method, last + path, body, headers)


async def _send(client: Any, method: str, url: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
    async with client.stream(method, url, content=body, headers=headers) as response:
        received = bytearray()
        async for chunk in response.aiter_raw():
            received += chunk
            if len(received) > MAX_BYTES:
                break
        return response.status_code, bytes(received)


def _quote(text: str) -> str:
    """The start of `text`, printable and on one line."""
    printable = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return (printable if len(printable) <= MAX_QUOTE_CHARS else printable[:MAX_QUOTE_CHARS] + "…").rstrip(". ")


class LoadedLoopbackModel:
    """The model `model` of the program `server`. The constructor asks the program whether it has this model.

    `picture_timeout_s` limits all requests for one picture together. Raises: ModelUnusable; what `check_stop` raises.
    """

    def __init__(
        self,
        model: LoopbackModel,
        server: ModelServer,
        picture_timeout_s: float,
        check_stop: CheckStop = lambda: None,
    ) -> None:
        self.model = model
        self._server = server
        self._picture_timeout_s = picture_timeout_s
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
        self._deadline_s = time.monotonic() + self._picture_timeout_s

    def generate(self, suffixes: Sequence[str], check_stop: CheckStop, seed: int | None = None) -> list[str]:
        """One answer per suffix; "" for the one whose request failed and those after it.

        Raises: ModelUnusable, if the first request failed; what `check_stop` raises.
        """
        answers: list[str] = []
        for suffix in suffixes:
            prompt = (INSTRUCTIONS, self._picture, self._notes + suffix)
            try:
                answers.append(
                    self._server.answer(self.model.name_in_program, prompt, seed, self._deadline_s, check_stop)
                )
            except ModelUnusable:
                if not answers:
                    raise
                break
        return answers + [""] * (len(suffixes) - len(answers))
