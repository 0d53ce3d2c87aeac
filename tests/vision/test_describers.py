"""What the describer must do with a model and without one."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import closing

import pytest

from imgproc_local.domain.errors import StageTimedOut
from imgproc_local.domain.image import EmbeddedMetadata, Pixels
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.result import TextSource
from imgproc_local.vision.describer import Hints
from imgproc_local.vision.llm.describer import LlmDescriber
from imgproc_local.vision.llm.llama import Llama
from tests.support import tiny

PLAIN = Pixels(8, 6, bytes([30, 90, 40]) * 48)
HINTS = Hints(EmbeddedMetadata(), "IMG_0001.JPG")


@pytest.fixture(params=["with the tiny model", "without a model"])
def describer(request: pytest.FixtureRequest) -> Iterator[LlmDescriber]:
    model = tiny.tiny_model() if request.param == "with the tiny model" else None
    made = LlmDescriber(lambda: model, Llama, idle_s=0)
    yield made
    made.close()


def test_each_requested_language_gets_one_translation_in_order_within_its_limits_and_well_formed(
    describer: LlmDescriber,
) -> None:
    requested = ["fr", "en", "ja", *(code for code in LANGUAGES if code not in ("fr", "en", "ja"))]
    translations = describer.describe(PLAIN, requested, HINTS, lambda: None)
    assert [translation.language_code for translation in translations] == requested
    for translation in translations:
        alt = translation.seo_alt_text
        assert 0 < len(alt) <= 250, alt
        assert unicodedata.is_normalized("NFC", alt)
        assert alt == " ".join(alt.split())
        assert not re.search(r"[<>{}\n\t]", alt), alt
        assert re.fullmatch("[a-z0-9]+(-[a-z0-9]+){0,7}", translation.seo_filename), translation
        assert len(translation.seo_filename) <= 80
        assert translation.source in TextSource


def test_describing_can_be_stopped() -> None:
    calls = 0

    def stop_at_third_call() -> None:
        nonlocal calls
        calls += 1
        if calls >= 3:
            raise StageTimedOut("analyze: took longer than its time limit")

    with closing(LlmDescriber(tiny.tiny_model, Llama)) as describer, pytest.raises(StageTimedOut):
        describer.describe(PLAIN, list(LANGUAGES), HINTS, stop_at_third_call)
