"""Colour profiles in results: they convert colours as before, and nothing else of the stored profile is in them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import ImageCms

from imgproc_local.codecs.metadata.icc import kept_profile, rewritten
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.domain.image import Format, ScaledSize
from imgproc_local.domain.privacy import Removed
from tests.codecs import pictures
from tests.codecs.metadata import profiles
from tests.codecs.metadata.profiles import MARKERS, PROFILES, planted
from tests.codecs.operations import read_blocks
from tests.codecs.pictures import never_stop
from tests.support.reading import convert_file, encode_file, optimize_file, private_kinds, probe

MAX_PIXELS = 10**9
INTENTS = ("perceptual", "relative", "saturation", "absolute")


def source(name: str, profile: bytes) -> bytes:
    """A still or an animation with a profile, of colours that sRGB lacks."""
    if name.startswith("animated"):
        return pictures.animated(name.split()[1], [100, 200], icc_profile=profile, lossless=True)
    picture = pictures.scene()
    picture[:, 100:200] = (230, 40, 30)
    quality = {} if name == "PNG" else {"quality": 97}
    return pictures.saved(picture, name, icc_profile=profile, **quality)


def markers_in(data: bytes, file_format: Format) -> list[bytes]:
    # a PNG compresses its profile
    searched = data + (read_blocks(data, file_format).icc or b"")
    return [marker for marker in MARKERS if marker in searched]


SOURCES = ("JPEG", "PNG", "WEBP", "AVIF", "animated WEBP", "animated PNG", "animated AVIF")


@pytest.mark.parametrize("name", SOURCES)
def test_an_optimized_file_has_only_what_conversion_needs_of_its_profile(tmp_path: Path, name: str) -> None:
    file_format = Format[name.rsplit(maxsplit=1)[-1]]
    path = pictures.write(tmp_path, source(name, planted()))
    info = probe(path, MAX_PIXELS)
    assert len(markers_in(path.read_bytes(), file_format)) == len(MARKERS)
    assert {Removed.CONTACT, Removed.IDENTIFIER} <= set(private_kinds(path, info))
    out = optimize_file(path, info, never_stop)
    assert out is not None
    assert markers_in(out, file_format) == []
    kept = read_blocks(out, file_format).icc
    assert kept is not None
    assert kept_profile(kept) == kept_profile(planted())
    path = pictures.write(tmp_path, out)
    assert private_kinds(path, probe(path, MAX_PIXELS)) == ()
    assert optimize_file(path, probe(path, MAX_PIXELS), never_stop) is None


@pytest.mark.parametrize("target", [Format.WEBP, Format.AVIF, None])
@pytest.mark.parametrize("name", ["JPEG", "PNG", "WEBP", "AVIF", "animated WEBP", "animated PNG", "TIFF"])
def test_a_converted_or_scaled_file_has_only_what_conversion_needs_of_its_profile(
    tmp_path: Path, name: str, target: Format | None
) -> None:
    path = pictures.write(tmp_path, source(name, planted()))
    info = probe(path, MAX_PIXELS)
    if target is None:
        size = ScaledSize(info.width_px // 2, info.height_px // 2, 0.5)
        out, file_format = encode_file(path, info, never_stop, size=size)
    else:
        out, file_format = convert_file(path, info, target, never_stop), target
    assert markers_in(out, file_format) == []
    assert read_blocks(out, file_format).icc == kept_profile(planted())


def test_a_profile_in_several_segments_of_a_jpeg_is_preserved(tmp_path: Path) -> None:
    curves = dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), profiles.sampled(2**16 - 2))
    large = rewritten(profiles.profile(profiles.OLD_TEXTS | profiles.colorants() | curves))
    assert large is not None
    assert len(large) > 2**16
    path = pictures.write(tmp_path, source("JPEG", large))
    out = optimize_file(path, probe(path, MAX_PIXELS), never_stop)
    assert out is not None
    assert pictures.opened(out).info["icc_profile"] == large


def srgb_with_a_secret(curve: bytes = profiles.parametric()) -> bytes:
    curves = dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), curve)
    primaries = {
        b"rXYZ": profiles.xyz(0.4361, 0.2225, 0.0139),
        b"gXYZ": profiles.xyz(0.3851, 0.7169, 0.0971),
        b"bXYZ": profiles.xyz(0.1431, 0.0606, 0.7141),
    }
    secret = {b"targ": profiles.text("MarkerUnowned")}
    return profiles.profile({b"wtpt": profiles.WHITE} | primaries | curves | secret | profiles.OLD_TEXTS)


def test_a_profile_with_the_primaries_but_not_the_curve_of_srgb_remains() -> None:
    assert kept_profile(srgb_with_a_secret()) is None
    assert kept_profile(srgb_with_a_secret(profiles.gamma())) is not None


@pytest.mark.parametrize(
    ("tags", "kinds"),
    [
        ({}, ()),
        ({b"dmnd": profiles.description("Vendor"), b"tech": b"sig \0\0\0\0CRT "}, ()),
        ({b"cprt": profiles.text("by jane.doe@private.example")}, (Removed.CONTACT,)),
        ({b"prV8": b"data\0\0\0\0Words"}, (Removed.OTHER,)),
        ({b"mmod": b"mmod\0\0\0\0\0\0\x06\x10\0\0\x92\x32\x4b\x5d\x31\x22"}, (Removed.IDENTIFIER,)),
        ({b"meta": b"dict\0\0\0\0" + "EDID_serial".encode("utf-16-be")}, (Removed.IDENTIFIER,)),
        ({b"rTRC": profiles.gamma() + b"\0\0Words"}, (Removed.OTHER,)),
    ],
    ids=["vendor's", "vendor's of a display", "e-mail", "private tag", "macOS", "colord", "padding"],
)
def test_kinds_are_named_for_private_data_but_not_for_descriptions_of_vendors(
    tmp_path: Path, tags: dict[bytes, bytes], kinds: tuple[Removed, ...]
) -> None:
    curves = dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), profiles.gamma())
    profile = profiles.profile(profiles.OLD_TEXTS | profiles.colorants() | curves | tags)
    path = pictures.write(tmp_path, source("JPEG", profile))
    assert private_kinds(path, probe(path, MAX_PIXELS)) == kinds


def in_lab(profile: bytes, intent: str) -> pyvips.Image:
    bands, interpretation = {b"RGB ": (3, "srgb"), b"GRAY": (1, "b-w"), b"CMYK": (4, "cmyk")}[profile[16:20]]
    samples = bytes((37 * at * (band + 1) + at // 7) % 256 for at in range(4096) for band in range(bands))
    image = pyvips.Image.new_from_memory(samples, 64, 64, bands, "uchar").copy(interpretation=interpretation)
    image.set_type(pyvips.GValue.blob_type, "icc-profile-data", profile)
    return image.icc_import(embedded=True, pcs="lab", intent=intent).copy_memory()


@pytest.mark.parametrize("name", PROFILES)
def test_a_rewritten_profile_changes_no_colour_and_is_not_larger(name: str) -> None:
    profile = PROFILES[name]
    new = rewritten(profile)
    assert new is not None
    assert len(new) < len(profile)
    assert rewritten(new) == new
    assert b"Vendor" not in new.replace(b"\0", b"")
    for intent in INTENTS:
        before = in_lab(profile, intent)
        assert before.dE00(in_lab(new, intent)).max() == 0
        assert before.deviate() > 5
    opened = ImageCms.getOpenProfile(io.BytesIO(new))
    assert (opened.profile.profile_description, opened.profile.copyright) == ("ICC", "ICC")


def test_a_profile_with_a_damaged_table_remains_one_that_is_ignored() -> None:
    curves = dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), profiles.gamma())
    tables = {b"A2B0": profiles.table_of_lab(3, 2)[:-40], b"desc": b""}
    damaged = profiles.profile(profiles.OLD_TEXTS | profiles.colorants() | curves | tables)
    new = rewritten(damaged)
    assert new is not None
    for profile in (damaged, new):
        with pytest.raises(pyvips.Error):
            in_lab(profile, "perceptual")
