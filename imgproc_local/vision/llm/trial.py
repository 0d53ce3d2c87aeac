"""What a model must be able to do before the service loads it. Run in a child process by `vision/proof.py`."""

from __future__ import annotations

from imgproc_local.domain.image import Pixels
from imgproc_local.vision.llm.llama import Llama
from imgproc_local.vision.llm.prompt import INSTRUCTIONS, language_text
from imgproc_local.vision.models.model import VisionModel

TRIED_SIZE_PX = (1024, 768)


def try_model(model: VisionModel) -> None:
    """Loads the model, shows it a picture of the size that all have and lets it write whole answers: what it can't do
    fails here. Raises `ModelUnusable`.
    """
    width, height = TRIED_SIZE_PX
    stripes = bytes(range(256)) * (3 * width * height // 256)
    tails = [language_text("en"), language_text("de")]
    llama = Llama(model)
    try:
        llama.read(Pixels(width, height, stripes), INSTRUCTIONS, tails, lambda: None)
        llama.write(tails, lambda: None)
    finally:
        llama.close()
