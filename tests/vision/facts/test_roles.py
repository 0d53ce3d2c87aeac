"""Suggested roles, with drawn pictures. Nothing that shows something may be called decorative."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from PIL import Image

from imgproc_local.codecs.picture import decode
from imgproc_local.domain.image import EmbeddedMetadata, EmbeddedText
from imgproc_local.domain.result import RoleSuggestion, SuggestedRole
from imgproc_local.vision.describer import NO_TEXT, Hints, TextInPicture
from imgproc_local.vision.facts.pixels import pixel_facts
from imgproc_local.vision.facts.roles import suggested_role
from imgproc_local.vision.models.networks import installed_folder
from imgproc_local.vision.models.store import can_read_text
from imgproc_local.vision.ocr.lines import TextRequest, read_lines, text_in_picture
from tests.support import drawings
from tests.support.pictures import encoded
from tests.support.reading import probe

MODELS = os.environ.get("IMGPROC_MODELS_DIR", "")
NO_WORDS = EmbeddedMetadata()


def role_of(
    file: bytes,
    folder: Path,
    name: str = "IMG_0001.png",
    text: TextInPicture = NO_TEXT,
    embedded: EmbeddedMetadata = NO_WORDS,
) -> RoleSuggestion:
    """The suggestion for an encoded picture, decoded and measured as in the service."""
    path = folder / "picture"
    path.write_bytes(file)
    info = probe(path)
    facts = pixel_facts(decode.thumbnail(path, info, 1024, lambda: None), info, embedded, name)
    return suggested_role(Hints(embedded, name, facts=facts, text_in_picture=text))


@pytest.mark.parametrize("name", drawings.decorations())
def test_a_picture_that_shows_nothing_is_decorative(name: str, tmp_path: Path) -> None:
    suggestion = role_of(encoded(drawings.decorations()[name], "PNG"), tmp_path)
    assert suggestion.role is SuggestedRole.DECORATIVE
    assert suggestion.reason.startswith("It is ") or suggestion.reason == "It has one colour."
    assert len(suggestion.reason) <= 100


@pytest.mark.parametrize("name", ["white", "navy", "a gradient down", "a soft gradient", "a radial gradient"])
def test_a_plain_picture_is_decorative_as_jpeg_too(name: str, tmp_path: Path) -> None:
    picture = drawings.decorations()[name]
    assert role_of(encoded(picture, "JPEG", quality=85), tmp_path, "back.jpg").role is SuggestedRole.DECORATIVE


@pytest.mark.parametrize("name", drawings.lookalikes())
def test_a_picture_that_shows_something_is_not_decorative(name: str, tmp_path: Path) -> None:
    picture = drawings.lookalikes()[name]
    assert role_of(encoded(picture, "PNG"), tmp_path).role is not SuggestedRole.DECORATIVE
    if picture.mode == "RGB":
        assert role_of(encoded(picture, "JPEG", quality=60), tmp_path).role is not SuggestedRole.DECORATIVE


def test_words_a_camera_and_frames_speak_against_decoration(tmp_path: Path) -> None:
    white = encoded(Image.new("RGB", (300, 200), "white"), "PNG")
    for words in (
        EmbeddedMetadata(alt_text=(EmbeddedText("Colour of the wall", "en"),)),
        EmbeddedMetadata(title=(EmbeddedText("Ivory", None),)),
        EmbeddedMetadata(camera="C"),
    ):
        assert role_of(white, tmp_path, embedded=words).role is SuggestedRole.INFORMATIVE
    for text in (TextInPicture("Ivory"), TextInPicture(unread_lines=1)):
        assert role_of(white, tmp_path, text=text).role is SuggestedRole.INFORMATIVE
    frames = [Image.new("RGB", (60, 40), colour) for colour in ("white", "black")]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])
    assert role_of(buffer.getvalue(), tmp_path).role is SuggestedRole.INFORMATIVE


@pytest.mark.parametrize("name", drawings.logos())
def test_a_small_drawing_in_few_colours_is_a_logo(name: str, tmp_path: Path) -> None:
    assert role_of(encoded(drawings.logos()[name], "PNG"), tmp_path).role is SuggestedRole.LOGO


def test_a_file_name_makes_a_drawing_a_logo_but_no_photograph(tmp_path: Path) -> None:
    poster = drawings.images_of_text()["a poster"]
    poster_text = TextInPicture("Novalis", is_image_of_text=True, was_read=True)
    for name in ("novalis-logo.png", "NovalisLogo.png", "icons_2.png"):
        assert role_of(encoded(poster, "PNG"), tmp_path, name, poster_text).role is SuggestedRole.LOGO
    for name in ("silicone.png", "Lexicon.png", "IMG_0001.png"):
        assert role_of(encoded(poster, "PNG"), tmp_path, name, poster_text).role is SuggestedRole.TEXT
    photograph = encoded(drawings.lookalikes()["a photograph"], "PNG")
    assert role_of(photograph, tmp_path, "mug-with-logo.png").role is SuggestedRole.INFORMATIVE


def test_labels_make_a_drawing_a_chart_but_no_photograph_and_no_screenshot(tmp_path: Path) -> None:
    labels = TextInPicture("Jan Feb Mar Apr", labels=4, was_read=True)
    chart = encoded(drawings.charts()["bars"], "PNG")
    suggestion = role_of(chart, tmp_path, text=labels)
    assert (suggestion.role, suggestion.reason) == (
        SuggestedRole.CHART,
        "It is drawn, with 4 short labels all over it.",
    )
    assert role_of(chart, tmp_path, "Screenshot (1).png", labels).role is SuggestedRole.INFORMATIVE
    photograph = encoded(drawings.lookalikes()["a photograph"], "PNG")
    assert role_of(photograph, tmp_path, text=labels).role is SuggestedRole.INFORMATIVE


@pytest.mark.skipif(
    not (MODELS and can_read_text() and installed_folder(Path(MODELS))),
    reason="needs imgproc-local[ocr], and the networks in the folder that IMGPROC_MODELS_DIR names",
)
@pytest.mark.parametrize(
    ("pictures", "role"),
    [
        (drawings.images_of_text(), SuggestedRole.TEXT),
        (drawings.charts(), SuggestedRole.CHART),
        (drawings.other_pictures_with_words(), SuggestedRole.INFORMATIVE),
    ],
)
def test_the_real_networks_tell_text_from_charts(
    pictures: dict[str, Image.Image], role: SuggestedRole, tmp_path: Path
) -> None:
    found = {}
    for name, picture in pictures.items():
        path = tmp_path / "picture.png"
        picture.save(path)
        pixels = decode.thumbnail(path, probe(path), 2048, lambda: None)
        lines = read_lines(TextRequest(str(installed_folder(Path(MODELS))), pixels), lambda: None)
        kind = "graphic" if role is not SuggestedRole.INFORMATIVE else "picture"
        found[name] = role_of(path.read_bytes(), tmp_path, text=text_in_picture(lines, kind)).role
    assert found == dict.fromkeys(pictures, role)


def test_the_reason_says_whether_text_was_looked_for() -> None:
    reasons = [
        suggested_role(Hints(EmbeddedMetadata(), text_in_picture=TextInPicture(was_read=was_read))).reason
        for was_read in (True, False)
    ]
    assert ["an image of text" in reason for reason in reasons] == [True, False]
    assert ["not searched for text" in reason for reason in reasons] == [False, True]
