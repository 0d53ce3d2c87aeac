"""Which pictures are sent to an external service, and which of its results are accepted."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms, ImageOps

from imgproc_local.domain.errors import ExternalServiceFailed, StageTimedOut
from tests.codecs import pictures
from tests.codecs.operations import whole
from tests.codecs.pictures import never_stop
from tests.remote.tinify_server import shrink
from tests.support import reading
from tests.support.reading import probe, read_embedded

SCENE = pictures.scene()
TURNED = pictures.oriented(SCENE, 6)
JPEG = pictures.saved(SCENE, "JPEG", quality=95)
PNG = pictures.saved(pictures.graphic(), "PNG")
CLEAR = pictures.saved(pictures.graphic(alpha=True), "PNG")


def sent(folder: Path, data: bytes) -> bytes | None:
    path = pictures.write(folder, data)
    return reading.file_to_send(path, probe(path))


def checked_result(folder: Path, data: bytes, result: bytes) -> bytes | None:
    path = pictures.write(folder, data)
    return reading.checked_result(path, probe(path), result, never_stop)


@pytest.mark.parametrize(
    "data",
    [
        pictures.jpeg_with_metadata(TURNED, 6),
        pictures.png_with_metadata(TURNED, 6),
        pictures.webp_with_metadata(TURNED, 6),
        pictures.avif_with_metadata(SCENE),
    ],
    ids=["JPEG", "PNG", "WebP", "AVIF"],
)
def test_only_the_picture_is_sent_and_the_result_has_the_preserved_metadata(tmp_path: Path, data: bytes) -> None:
    picture = whole(sent(tmp_path, data))
    out = whole(checked_result(tmp_path, data, shrink(picture)))
    assert len(out) < len(data)
    for name, secret in pictures.SECRETS.items():
        assert secret not in picture + out, name
    for name, text in pictures.PRESERVED.items():
        assert text.encode() not in picture, name
        assert text.encode() in out, name
    path = pictures.write(tmp_path, out)
    embedded = read_embedded(path, probe(path))
    assert embedded.copyright == pictures.COPYRIGHT
    assert {entry.text for entry in embedded.alt_text} == set(pictures.ALT_TEXT.values())
    assert pictures.distance(ImageOps.exif_transpose(pictures.opened(out)), SCENE) < 6


def in_srgb(picture: Image.Image) -> Image.Image:
    profile = picture.info.get("icc_profile")
    picture = picture.convert("RGB")
    if profile is None:
        return picture
    converted = ImageCms.profileToProfile(picture, io.BytesIO(profile), ImageCms.createProfile("sRGB"))
    assert converted is not None
    converted.info.pop("icc_profile", None)
    return converted


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP"])
def test_wide_gamut_colours_are_preserved_whatever_the_service_does_with_the_profile(
    tmp_path: Path, file_format: str
) -> None:
    profile = pictures.wide_profile()
    saturated = pictures.scene()
    saturated[:, 100:200], saturated[:, 200:] = (230, 40, 30), (30, 210, 60)
    options = {} if file_format == "PNG" else {"quality": 97}
    data = pictures.saved(saturated, file_format, icc_profile=profile, **options)
    picture = whole(sent(tmp_path, data))
    assert pictures.opened(picture).info["icc_profile"] == profile
    original = in_srgb(pictures.opened(data))
    stripped = shrink(picture)
    assert "icc_profile" not in pictures.opened(stripped).info
    converted = shrink(pictures.saved(original, file_format))
    kept = pictures.saved(saturated, file_format, icc_profile=profile, quality=60)
    for result, expected_profile in ((stripped, profile), (converted, None), (kept, profile)):
        shown = pictures.opened(whole(checked_result(tmp_path, data, result)))
        assert shown.info.get("icc_profile") == expected_profile
        assert pictures.distance(in_srgb(shown), original) < 6


def on_white() -> bytes:
    """The transparent graphic without its transparency."""
    white = Image.new("RGBA", (320, 240), "white")
    white.alpha_composite(pictures.opened(CLEAR))
    return pictures.saved(white.convert("RGB").quantize(64), "PNG")


@pytest.mark.parametrize(
    ("data", "result", "message"),
    [
        (JPEG, b"<html>an error page</html>", "not a complete picture"),
        (JPEG, shrink(JPEG)[: len(shrink(JPEG)) // 2] + b"\xff\xd9", "not a complete picture"),
        (JPEG, pictures.saved(pictures.scene(2000, 2000), "JPEG"), "not a complete picture"),
        (JPEG, pictures.saved(SCENE, "WEBP"), "received a JPEG and sent a WebP"),
        (JPEG, pictures.saved(pictures.scene(160, 120), "JPEG"), "another size"),
        (JPEG, pictures.saved(SCENE[::-1, ::-1], "JPEG"), "looks different"),
        (CLEAR, on_white(), "looks different"),
    ],
)
def test_a_result_that_is_not_the_same_picture_is_refused(
    tmp_path: Path, data: bytes, result: bytes, message: str
) -> None:
    with pytest.raises(ExternalServiceFailed, match=message):
        checked_result(tmp_path, data, result)


def test_metadata_that_the_service_added_is_removed_and_a_larger_result_discarded(tmp_path: Path) -> None:
    result = pictures.saved(pictures.opened(shrink(JPEG)), "JPEG", quality=60, comment=b"OTHER-COMMENT")
    assert b"OTHER-COMMENT" not in whole(checked_result(tmp_path, JPEG, result))
    assert checked_result(tmp_path, JPEG, pictures.saved(SCENE, "JPEG", quality=100, subsampling=0)) is None


def test_check_stop_is_called(tmp_path: Path) -> None:
    def expired() -> None:
        raise StageTimedOut("late")

    path = pictures.write(tmp_path, JPEG)
    with pytest.raises(StageTimedOut):
        reading.checked_result(path, probe(path), shrink(JPEG), expired)


NOT_SENT: dict[str, Callable[[], bytes]] = {
    "GIF": pictures.gif_with_metadata,
    "animated WebP": lambda: pictures.animated("WEBP", [100, 100]),
    "animated PNG": lambda: pictures.animated("PNG", [100, 100]),
    "CMYK": lambda: pictures.saved(Image.fromarray(SCENE).convert("CMYK"), "JPEG"),
    "grey profile": lambda: pictures.saved(SCENE[..., 0], "JPEG", icc_profile=pictures.wide_profile(b"GRAY")),
    "AVIF with a profile": lambda: pictures.saved(SCENE, "AVIF", icc_profile=pictures.wide_profile()),
    "16 bits": lambda: pictures.saved(Image.fromarray(SCENE[..., 0].astype(np.uint16) * 257), "PNG"),
    "HDR": lambda: pictures.with_png_chunks(PNG, pictures.chunk(b"cICP", bytes((12, 13, 0, 1)))),
    "gamma": lambda: pictures.with_png_chunks(PNG, pictures.chunk(b"gAMA", (100_000).to_bytes(4, "big"))),
}


@pytest.mark.parametrize("name", NOT_SENT)
def test_pictures_in_which_an_external_encoder_would_lose_something_are_not_sent(tmp_path: Path, name: str) -> None:
    assert sent(tmp_path, NOT_SENT[name]()) is None
