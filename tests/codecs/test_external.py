"""Which pictures are sent to an external service, and which of its results are accepted."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms, ImageOps

from imgproc_local.codecs.container import png as png_container
from imgproc_local.domain.errors import ExternalServiceFailed, StageTimedOut
from imgproc_local.domain.image import Format
from imgproc_local.domain.plan import ACCEPTED_FORMATS, Operation
from tests.codecs import pictures
from tests.codecs.jpeg.test_optimize import MAX_PIXELS
from tests.codecs.pictures import never_stop
from tests.remote.tinify_server import shrink
from tests.support import reading
from tests.support.reading import probe, read_embedded

FULL: dict[str, Callable[[], bytes]] = {
    "jpeg": pictures.jpeg_with_metadata,
    "png": pictures.png_with_metadata,
    "webp": pictures.webp_with_metadata,
    "avif": pictures.avif_with_metadata,
}


def sent(folder: Path, data: bytes) -> bytes | None:
    path = pictures.write(folder, data)
    return reading.file_to_send(path, probe(path, MAX_PIXELS))


def checked_result(folder: Path, data: bytes, result: bytes) -> bytes | None:
    path = pictures.write(folder, data)
    return reading.checked_result(path, probe(path, MAX_PIXELS), result, never_stop)


def round_trip(folder: Path, data: bytes) -> bytes:
    picture = sent(folder, data)
    assert picture is not None
    out = checked_result(folder, data, shrink(picture))
    assert out is not None
    assert len(out) < len(data)
    return out


@pytest.mark.parametrize("file_format", FULL)
def test_only_the_picture_is_sent(tmp_path: Path, file_format: str) -> None:
    picture = sent(tmp_path, FULL[file_format]())
    assert picture is not None
    for name, secret in pictures.SECRETS.items():
        assert secret not in picture, name
    for name, text in pictures.PRESERVED.items():
        assert text.encode() not in picture, name


@pytest.mark.parametrize("file_format", FULL)
def test_the_result_has_the_preserved_metadata_and_nothing_private(tmp_path: Path, file_format: str) -> None:
    out = round_trip(tmp_path, FULL[file_format]())
    for name, text in pictures.PRESERVED.items():
        assert text.encode() in out, name
    for name, secret in pictures.SECRETS.items():
        assert secret not in out, name
    embedded = read_embedded(pictures.write(tmp_path, out), probe(pictures.write(tmp_path, out), MAX_PIXELS))
    assert embedded.copyright == pictures.COPYRIGHT
    assert {entry.text for entry in embedded.alt_text} == set(pictures.ALT_TEXT.values())


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("file_format", ["jpeg", "png", "webp"])
def test_the_result_is_displayed_upright(tmp_path: Path, file_format: str, orientation: int) -> None:
    scene = pictures.scene()
    data = getattr(pictures, f"{file_format}_with_metadata")(pictures.oriented(scene, orientation), orientation)
    shown = ImageOps.exif_transpose(pictures.opened(round_trip(tmp_path, data)))
    assert shown.size == (320, 240)
    assert pictures.distance(shown, scene) < 6


def test_metadata_that_the_service_added_is_removed(tmp_path: Path) -> None:
    data = pictures.saved(pictures.scene(), "JPEG", quality=95)
    result = pictures.saved(pictures.opened(shrink(data)), "JPEG", quality=60, comment=b"OTHER-COMMENT")
    out = checked_result(tmp_path, data, result)
    assert out is not None
    assert b"OTHER-COMMENT" not in out


def saturated() -> np.ndarray:
    """Colours so saturated that a wide-gamut profile changes them visibly."""
    picture = pictures.scene()
    picture[:, 100:200] = (230, 40, 30)
    picture[:, 200:] = (30, 210, 60)
    return picture


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP"])
def test_wide_gamut_colours_are_preserved_whatever_the_service_does_with_the_profile(
    tmp_path: Path, file_format: str
) -> None:
    profile = pictures.wide_profile()
    data = pictures.saved(
        saturated(), file_format, icc_profile=profile, **({} if file_format == "PNG" else {"quality": 97})
    )
    picture = sent(tmp_path, data)
    assert picture is not None
    assert Image.open(io.BytesIO(picture)).info["icc_profile"] == profile
    original = in_srgb(pictures.opened(data))
    stripped = shrink(picture)
    assert "icc_profile" not in Image.open(io.BytesIO(stripped)).info
    converted = shrink(pictures.saved(original, file_format))
    kept = pictures.saved(saturated(), file_format, icc_profile=profile, quality=60)
    for result, expected_profile in ((stripped, profile), (converted, None), (kept, profile)):
        out = checked_result(tmp_path, data, result)
        assert out is not None
        shown = pictures.opened(out)
        assert shown.info.get("icc_profile") == expected_profile
        assert pictures.distance(in_srgb(shown), original) < 6


def in_srgb(picture: Image.Image) -> Image.Image:
    profile = picture.info.get("icc_profile")
    picture = picture.convert("RGB")
    if profile is None:
        return picture
    converted = ImageCms.profileToProfile(picture, io.BytesIO(profile), ImageCms.createProfile("sRGB"))
    assert converted is not None
    converted.info.pop("icc_profile", None)
    return converted


JPEG = pictures.saved(pictures.scene(), "JPEG", quality=95)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (b"", "not a complete picture"),
        (b"<html>an error page</html>", "not a complete picture"),
        (pictures.saved(pictures.scene(), "WEBP"), "received a JPEG and sent a WebP"),
        (pictures.saved(pictures.scene(160, 120), "JPEG"), "another size"),
        (pictures.saved(pictures.scene(2000, 2000), "JPEG"), "not a complete picture"),
        (pictures.saved(pictures.scene()[::-1, ::-1], "JPEG"), "looks different"),
        (pictures.saved(np.zeros((240, 320, 3), np.uint8), "JPEG"), "looks different"),
        (shrink(JPEG)[: len(shrink(JPEG)) // 2], "not a complete picture"),
        (shrink(JPEG)[: len(shrink(JPEG)) // 2] + b"\xff\xd9", "not a complete picture"),
    ],
)
def test_a_result_that_is_not_the_same_picture_is_refused(tmp_path: Path, result: bytes, message: str) -> None:
    with pytest.raises(ExternalServiceFailed, match=message):
        checked_result(tmp_path, JPEG, result)


def test_lost_transparency_is_refused(tmp_path: Path) -> None:
    data = pictures.saved(pictures.graphic(alpha=True), "PNG")
    assert sent(tmp_path, data) is not None
    white = Image.new("RGBA", (320, 240), "white")
    white.alpha_composite(Image.fromarray(pictures.graphic(alpha=True)))
    with pytest.raises(ExternalServiceFailed, match="looks different"):
        checked_result(tmp_path, data, pictures.saved(white.convert("RGB").quantize(64), "PNG"))


def test_a_larger_result_is_discarded(tmp_path: Path) -> None:
    assert checked_result(tmp_path, JPEG, pictures.saved(pictures.scene(), "JPEG", quality=100, subsampling=0)) is None


def test_check_stop_is_called(tmp_path: Path) -> None:
    path = pictures.write(tmp_path, JPEG)

    def expired() -> None:
        raise StageTimedOut("late")

    with pytest.raises(StageTimedOut):
        reading.checked_result(path, probe(path, MAX_PIXELS), shrink(JPEG), expired)


def _sixteen_bit_png() -> bytes:
    return pictures.saved(Image.fromarray(pictures.scene()[..., 0].astype(np.uint16) * 257), "PNG")


@pytest.mark.parametrize(
    "make",
    [
        pictures.gif_with_metadata,
        lambda: pictures.animated("WEBP", [100, 100]),
        lambda: pictures.animated("PNG", [100, 100]),
        lambda: pictures.saved(Image.fromarray(pictures.scene()).convert("CMYK"), "JPEG"),
        lambda: pictures.saved(Image.fromarray(pictures.scene()).convert("L"), "JPEG", icc_profile=GREY),
        lambda: pictures.saved(pictures.scene(), "AVIF", icc_profile=pictures.wide_profile()),
        _sixteen_bit_png,
        lambda: pictures.with_png_chunks(PNG, png_container.chunk_bytes(b"cICP", bytes((12, 13, 0, 1)))),
        lambda: pictures.with_png_chunks(PNG, png_container.chunk_bytes(b"gAMA", (100_000).to_bytes(4, "big"))),
    ],
    ids=[
        "gif",
        "webp animation",
        "apng",
        "cmyk",
        "grey profile",
        "avif profile",
        "16 bit",
        "cicp",
        "gamma",
    ],
)
def test_pictures_in_which_an_external_encoder_would_lose_something_are_not_sent(
    tmp_path: Path, make: Callable[[], bytes]
) -> None:
    assert sent(tmp_path, make()) is None


GREY = pictures.wide_profile(b"GRAY")
PNG = pictures.saved(pictures.graphic(), "PNG")


def test_every_format_is_either_sent_or_excluded(tmp_path: Path) -> None:
    for file_format in ACCEPTED_FORMATS[Operation.OPTIMIZE]:
        data = pictures.saved(pictures.scene(), file_format.value.upper())
        assert (sent(tmp_path, data) is None) == (file_format is Format.GIF)
