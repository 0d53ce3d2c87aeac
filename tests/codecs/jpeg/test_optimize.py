"""Optimized JPEG files are smaller, are displayed upright in the same colours, and have the gain map of the source."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import pyvips
from PIL import Image, ImageFilter
from PIL.MpoImagePlugin import MpoImageFile

from imgproc_local.codecs import jpeg
from imgproc_local.codecs.container import jpeg as container
from imgproc_local.codecs.metadata import icc
from imgproc_local.codecs.picture.decode import to_srgb
from imgproc_local.codecs.picture.source import ResultOptions
from imgproc_local.codecs.quality import score as search
from imgproc_local.codecs.quality.score import TARGET_SCORE, Reference
from imgproc_local.domain.errors import BrokenImage, StageFailed
from imgproc_local.domain.image import Format
from tests.codecs import pictures
from tests.codecs.metadata.profiles import MARKERS, planted
from tests.codecs.operations import MAX_PIXELS, optimized, whole
from tests.support.reading import convert_file, probe


def score(source: bytes, out: bytes) -> float:
    picture = pictures.opened(source).convert("RGB")
    return Reference(picture.tobytes(), *picture.size).score(pictures.opened(out).convert("RGB").tobytes())


def noise_free(width: int, height: int, seed: int = 1) -> np.ndarray:
    return np.asarray(Image.fromarray(pictures.scene(width, height, seed)).filter(ImageFilter.GaussianBlur(0.8)))


@pytest.mark.parametrize(("size", "seed"), [((900, 700), 1), ((800, 600), 2), ((700, 500), 3)])
def test_the_result_scores_near_the_target_and_a_lower_target_gives_a_smaller_file(
    tmp_path: Path, size: tuple[int, int], seed: int
) -> None:
    source = pictures.saved(noise_free(*size, seed), "JPEG", quality=98)
    outs = [whole(optimized(tmp_path, source, target)) for target in (90.0, TARGET_SCORE, 75.0)]
    assert len(outs[0]) > len(outs[1]) > len(outs[2])
    for target, out in zip((90.0, TARGET_SCORE, 75.0), outs, strict=True):
        assert target - 1.5 <= score(source, out) <= target + 2


@pytest.mark.parametrize(("subsampling", "max_scored_pixels"), [(2, 4_000_000), (0, 400_000), (2, 400_000)])
def test_a_misleading_score_of_the_sample_is_corrected_by_the_whole_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subsampling: int, max_scored_pixels: int
) -> None:
    source = pictures.saved(pictures.scene(1000, 800), "JPEG", quality=98, subsampling=subsampling)
    true = search.Sample.score
    monkeypatch.setattr(search.Sample, "score", lambda self, image: true(self, image) + 5 * (not self.is_whole))
    monkeypatch.setattr(jpeg, "_MAX_SCORED_PIXELS", max_scored_pixels)
    assert TARGET_SCORE - 1.5 <= score(source, whole(optimized(tmp_path, source))) <= TARGET_SCORE + 2


def test_a_picture_of_too_many_coefficients_is_encoded_by_mozjpeg_at_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def requantized(*_arguments: object) -> bytes:
        raise ValueError("too many coefficients")

    monkeypatch.setattr(jpeg, "_requantize", SimpleNamespace(requantized=requantized))
    source = pictures.saved(pictures.scene(320, 240), "PNG")
    path = pictures.write(tmp_path, source)
    options = ResultOptions(TARGET_SCORE)
    out = convert_file(path, probe(path, MAX_PIXELS), Format.JPEG, pictures.never_stop, options)
    assert TARGET_SCORE - 1.5 <= score(source, out) <= TARGET_SCORE + 2


@pytest.mark.parametrize("missing", ["pyjpegli", "mozjpeg_scans"])
def test_files_are_optimized_without_an_optional_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    source = pictures.saved(noise_free(500, 400), "JPEG", quality=98)
    out = whole(optimized(tmp_path, source))
    monkeypatch.setattr(jpeg, missing, None)
    other = whole(optimized(tmp_path, source))
    assert TARGET_SCORE - 1.5 <= score(source, other) <= TARGET_SCORE + 2
    assert len(out) < len(other) < len(source)
    assert optimized(tmp_path, other) is None


def test_a_profile_close_to_srgb_is_removed_and_the_colours_are_preserved(tmp_path: Path) -> None:
    narrow = pictures.narrow_profile()
    source = pictures.saved(noise_free(500, 400), "JPEG", quality=98, icc_profile=narrow, subsampling=0)
    out = whole(optimized(tmp_path, source))
    assert "icc_profile" not in pictures.opened(out).info
    shown = [to_srgb(pyvips.Image.jpegload_buffer(each)) for each in (source, out)]
    assert TARGET_SCORE - 1.5 <= search.score(*shown) <= TARGET_SCORE + 2
    for band in range(3):
        assert shown[0][band].avg() == pytest.approx(shown[1][band].avg(), abs=0.5)


def test_a_profile_is_preserved_if_srgb_can_not_represent_the_colours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(icc, "WIDE_FROM", 9)
    for saturated in (False, True):
        picture = noise_free(500, 400) // 4 + 96
        if saturated:
            picture[:60] = (255, 0, 0)
        source = pictures.saved(picture, "JPEG", quality=98, icc_profile=pictures.wide_profile())
        assert ("icc_profile" in pictures.opened(whole(optimized(tmp_path, source))).info) is saturated


def test_a_thumbnail_in_the_jfif_header_is_removed(tmp_path: Path) -> None:
    header = b"JFIF\0\1\2\0\0\1\0\1" + bytes((6, 4)) + b"THUMBNAIL-JFIF-PRIVATE".ljust(72, b"x")
    for quality in (95, 60):
        plain = pictures.saved(pictures.scene(), "JPEG", quality=quality)
        out = whole(optimized(tmp_path, plain[:2] + pictures.segment(0xE0, header) + plain[20:]))
        assert b"PRIVATE" not in out
        assert pictures.opened(out).size == (320, 240)


def test_a_grey_picture_remains_grey_with_its_profile(tmp_path: Path) -> None:
    grey = Image.fromarray(pictures.scene(640, 480)).convert("L")
    profile = pictures.wide_profile(b"GRAY")
    out = pictures.opened(whole(optimized(tmp_path, pictures.saved(grey, "JPEG", quality=97, icc_profile=profile))))
    assert out.mode == "L"
    assert out.info["icc_profile"] == profile
    assert pictures.distance(out, grey) < 1.0


def _ultra_hdr(orientation: int = 1, **options: object) -> tuple[bytes, bytes]:
    """A JPEG followed by a gain map, which its XMP declares as Ultra HDR does; and the gain map."""
    gain_map = pictures.saved(Image.fromarray(pictures.scene(80, 60)).convert("L"), "JPEG", quality=80, **options)
    packet = (
        b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        b'<rdf:Description xmlns:hdrgm="http://ns.adobe.com/hdr-gain-map/1.0/" hdrgm:Version="1.0"'
        b' xmlns:Container="http://ns.google.com/photos/1.0/container/"'
        b' xmlns:Item="http://ns.google.com/photos/1.0/container/item/">'
        b"<Container:Directory><rdf:Seq>"
        b'<rdf:li rdf:parseType="Resource"><Container:Item Item:Semantic="Primary" Item:Mime="image/jpeg"/></rdf:li>'
        b'<rdf:li rdf:parseType="Resource"><Container:Item Item:Semantic="GainMap" Item:Mime="image/jpeg"'
        b' Item:Length="' + str(len(gain_map)).encode() + b'"/></rdf:li>'
        b"</rdf:Seq></Container:Directory></rdf:Description></rdf:RDF></x:xmpmeta>"
    )
    plain = pictures.saved(pictures.scene(), "JPEG", quality=97)
    blocks = pictures.segment(0xE1, b"Exif\0\0" + pictures.tiff(orientation))
    blocks += pictures.segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + packet)
    return plain[:2] + blocks + plain[2:] + gain_map, gain_map


def test_a_gain_map_is_preserved_and_its_offsets_are_updated(tmp_path: Path) -> None:
    source, gain_map = _ultra_hdr()
    out = whole(optimized(tmp_path, source))
    assert len(out) < len(source)
    assert out.endswith(gain_map)
    assert container.gain_map(out) == gain_map
    for name in (b'Item:Semantic="GainMap"', b' hdrgm:Version="1.0"', f'Item:Length="{len(gain_map)}"'.encode()):
        assert name in out
    assert pictures.GPS_RATIONAL not in out
    # the multi-picture index also has the offset of the gain map
    with MpoImageFile(io.BytesIO(out)) as several:
        assert several.n_frames == 2
        several.seek(1)
        assert several.size == (80, 60)
    assert optimized(tmp_path, out) is None


def test_the_profile_of_a_gain_map_is_written_anew(tmp_path: Path) -> None:
    # its colours may be those of the gain map although they are sRGB
    for stored_profile in (planted(), pictures.srgb_profile()):
        source, _ = _ultra_hdr(icc_profile=stored_profile)
        out = whole(optimized(tmp_path, source))
        stored = container.gain_map(out)
        assert stored is not None
        assert not any(marker in out for marker in MARKERS)
        assert container.read_blocks(stored).icc == icc.rewritten(stored_profile)
        assert optimized(tmp_path, out) is None


def test_a_picture_that_is_not_encoded_again_keeps_its_orientation_and_that_of_its_gain_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mozjpeg_lossless_optimization")
    monkeypatch.setattr(jpeg, "_encoded", lambda *_: None)
    source, gain_map = _ultra_hdr(orientation=6)
    out = whole(optimized(tmp_path, source))
    assert out.endswith(gain_map)
    assert probe(pictures.write(tmp_path, out)).orientation == 6
    assert np.array_equal(np.asarray(pictures.opened(out)), np.asarray(pictures.opened(source)))
    monkeypatch.setattr(jpeg, "_repacked", lambda *_, **__: None)
    assert len(out) < 0.97 * len(whole(optimized(tmp_path, source)))


def test_a_jpeg_with_harmless_irregularities_is_optimized(tmp_path: Path) -> None:
    source = pictures.saved(pictures.scene(), "JPEG", quality=95)
    at = source.index(b"\xff\xdb")
    assert optimized(tmp_path, source[:at] + b"\0\0\0\0" + source[at:]) is not None
    assert optimized(tmp_path, source + b"appended") is not None


@pytest.mark.parametrize("end", [b"", b"\xff\xd9"])
def test_a_truncated_scan_is_an_error_with_and_without_an_end_marker(tmp_path: Path, end: bytes) -> None:
    source = pictures.saved(pictures.scene(640, 480), "JPEG", quality=95)
    at = source.index(b"\xff\xdb")
    with_oddity = source[:at] + b"\0\0\0\0" + source[at:]
    with pytest.raises((BrokenImage, StageFailed)):
        optimized(tmp_path, with_oddity[: len(source) // 2] + end)
