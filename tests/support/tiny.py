"""The project's tiny vision model and its scenes, for tests with the real llama.cpp."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from imgproc_local.domain.image import Pixels
from imgproc_local.vision.models.model import VisionModel
from tests.support.scripts import script

if TYPE_CHECKING:
    from PIL import Image

FOLDER = Path(__file__).parents[2] / "models" / "tiny"
TEXT, MMPROJ = FOLDER / "tiny-text.gguf", FOLDER / "tiny-mmproj.gguf"
LANGUAGES = ("en", "de", "fr", "ja")


def tiny_model(name: str = "tiny") -> VisionModel:
    """The tiny model, in the folder of the repository."""
    return VisionModel(name, TEXT, MMPROJ)


@cache
def scenes() -> Any:
    """The module that draws the training scenes; models/ is a folder of scripts, not a package."""
    return script("models/tiny/scenes.py")


def pixels(image: Image.Image) -> Pixels:
    """The picture as a describer receives it."""
    rgb = image.convert("RGB")
    return Pixels(rgb.width, rgb.height, rgb.tobytes())
