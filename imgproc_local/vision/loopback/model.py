"""A model in another program on this machine, used like one that llama.cpp runs in this process.

The program gets one request per language. If it caches its last prompt, as llama-server does, it processes the picture
and the instructions only for the first language. Requests are made one after another, because parallel ones would each
process the picture.
"""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Callable, Sequence

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.domain.image import Pixels
from imgproc_local.domain.stop import CheckStop
from imgproc_local.vision.llm.prompt import INSTRUCTIONS
from imgproc_local.vision.loopback.client import ResponseTimeout
from imgproc_local.vision.loopback.programs import Prompt
from imgproc_local.vision.loopback.server import InvalidAnswer, ModelServer, ServerUnreachable
from imgproc_local.vision.models.model import LoopbackModel


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
