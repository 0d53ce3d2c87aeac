"""The self-test of a model, run in a child process because llama.cpp may end the process it runs in."""

from __future__ import annotations

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.domain.image import Pixels
from imgproc_local.system.child import limit_this_process
from imgproc_local.vision.llm.llama import Llama
from imgproc_local.vision.llm.prompt import NO_NOTES, language_prompt
from imgproc_local.vision.llm.selftest import TIMEOUT_S, SelfTestResult
from imgproc_local.vision.models.model import VisionModel

TEST_IMAGE_SIZE_PX = (1024, 768)
"""Width and height of the test picture, as large as the pictures that describers receive."""


def run_self_test(model: VisionModel, timeout_s: float = TIMEOUT_S) -> SelfTestResult:
    """The result of the self-test. Limits this process: it exits without a result after `timeout_s` seconds."""
    limit_this_process(timeout_s)
    try:
        describe_test_image(model)
    except ModelUnusable as error:
        return SelfTestResult(error.message)
    return SelfTestResult()


def describe_test_image(model: VisionModel) -> None:
    """Load the model, describe a picture of stripes in two languages, and free the model.

    Raises: ModelUnusable, if the model does not work.
    """
    width, height = TEST_IMAGE_SIZE_PX
    stripes = bytes(range(256)) * (3 * width * height // 256)
    suffixes = [language_prompt("en"), language_prompt("de")]
    llama = Llama(model)
    try:
        llama.prefill(Pixels(width, height, stripes), NO_NOTES, suffixes, lambda: None)
        llama.generate(suffixes, lambda: None)
    finally:
        llama.close()
