"""The check of the libraries and the neural networks that read text in pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imgproc_local.cli.doctor.check import Check
from imgproc_local.domain.errors import how_to_install

if TYPE_CHECKING:
    from imgproc_local.config import Config

NAME = "text"


def text_reading(config: Config, *, frozen: bool) -> Check:
    """Whether both are installed. `frozen` is true in a PyInstaller build, which does not have the libraries."""
    from imgproc_local.vision.ocr.model_files import SCRIPTS, installed_folder, runtime_is_installed

    if frozen:
        return Check(NAME, "ok", "text in pictures is not read: this program does not include it")
    has_libraries, has_networks = runtime_is_installed(), installed_folder(config.models_folder) is not None
    if has_libraries and has_networks:
        return Check(NAME, "ok", f"text in pictures is read: {SCRIPTS}")
    if has_networks:
        return Check(NAME, "warning", "text in pictures is not read: its libraries are missing", how_to_install("ocr"))
    if has_libraries:
        advice = "`imgproc-local models pull ocr`, or `models import` with the wheel of rapidocr."
        return Check(NAME, "warning", "text in pictures is not read: its neural networks are missing", advice)
    advice = f"To read it: {how_to_install('ocr')} Then run `imgproc-local models pull ocr`."
    return Check(NAME, "ok", "text in pictures is not read", advice)
