"""PNG: a palette only where nobody sees it, everything else sample for sample."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import pyvips
from PIL import Image, ImageOps

from imgproc_local.codecs import png
from imgproc_local.codecs.container import png as container
from imgproc_local.codecs.probe import probe
from imgproc_local.domain.errors import StageCancelled
from tests.codecs import pictures
from tests.codecs.pictures import never_stop

MANY = 10**9


def optimized(folder: Path, data: bytes) -> bytes | None:
    path = pictures.write(folder, data)
    return png.optimize(path, probe(path, MANY), never_stop)


def whole(out: bytes | None) -> bytes:
    assert out is not None
    return out


def loose(picture: np.ndarray | Image.Image, **options: object) -> bytes:
    """A PNG that was packed without care, as many programs do."""
    return pictures.saved(picture, "PNG", compress_level=1, **options)


@pytest.mark.parametrize("alpha", [False, True])
def test_a_graphic_gets_a_palette_that_looks_the_same(tmp_path: Path, alpha: bool) -> None:
    picture = pictures.graphic(640, 480, alpha=alpha)
    source = loose(picture)
    out = whole(optimized(tmp_path, source))
    assert len(out) < 0.6 * len(source)
    shown = pictures.opened(out).convert("RGBA")
    for ground in ("white", "black"):
        pair = []
        for each in (shown, Image.fromarray(picture).convert("RGBA")):
            backdrop = Image.new("RGBA", each.size, ground)
            pair.append(Image.alpha_composite(backdrop, each))
        assert pictures.distance(*pair) < 1.0
    assert probe(pictures.write(tmp_path, out), MANY).has_alpha is alpha


def test_a_photograph_keeps_every_sample(tmp_path: Path) -> None:
    scene = pictures.scene(640, 480)
    out = whole(optimized(tmp_path, loose(scene)))
    assert np.array_equal(np.asarray(pictures.opened(out)), scene)


def test_sixteen_bits_stay_sixteen_bits(tmp_path: Path) -> None:
    deep = np.random.default_rng(1).integers(0, 65536, (64, 96, 3)).astype(np.uint16)
    deep[10:50] = np.linspace(0, 65535, 96).astype(np.uint16)[None, :, None]
    source = pyvips.Image.new_from_array(deep, interpretation="rgb16").pngsave_buffer(compression=1, filter="none")
    out = whole(optimized(tmp_path, source))
    assert np.array_equal(pyvips.Image.pngload_buffer(out).numpy(), deep)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA"])
def test_every_kind_of_png_shows_the_same_afterwards(tmp_path: Path, mode: str) -> None:
    picture = Image.fromarray(pictures.graphic(200, 150, alpha=mode in ("LA", "RGBA"))).convert(mode)
    out = optimized(tmp_path, loose(picture))
    shown = (pictures.opened(out) if out else picture).convert("RGBA")
    pair = [np.asarray(each.convert("RGBA")).astype(int) for each in (shown, picture)]
    seen = [each[..., :3] * each[..., 3:] // 255 for each in pair]
    assert np.abs(seen[0] - seen[1]).mean() < 1.0
    if mode in ("1", "P"):
        assert np.array_equal(np.asarray(shown.convert("RGB")), np.asarray(picture.convert("RGB")))


def test_an_indexed_file_keeps_its_palette(tmp_path: Path) -> None:
    indexed = Image.fromarray(pictures.graphic(400, 300)).quantize(64)
    out = whole(optimized(tmp_path, loose(indexed)))
    assert pictures.opened(out).mode == "P"
    assert pictures.opened(out).getpalette() == pictures.opened(loose(indexed)).getpalette()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pixels_are_turned_upright(tmp_path: Path, orientation: int) -> None:
    scene = pictures.scene()
    out = whole(optimized(tmp_path, pictures.full_png(pictures.oriented(scene, orientation), orientation)))
    assert np.array_equal(np.asarray(ImageOps.exif_transpose(pictures.opened(out))), scene)
    assert probe(pictures.write(tmp_path, out), MANY).display_size_px == (320, 240)


def test_a_wide_profile_stays_and_an_srgb_one_goes(tmp_path: Path) -> None:
    for picture in (pictures.scene(), pictures.graphic()):
        out = whole(optimized(tmp_path, loose(picture, icc_profile=pictures.wide_profile())))
        assert pictures.opened(out).info["icc_profile"] == pictures.wide_profile()
        out = whole(optimized(tmp_path, loose(picture, icc_profile=pictures.srgb_profile())))
        assert "icc_profile" not in pictures.opened(out).info


def test_chunks_that_say_what_colours_mean_stay_with_their_samples(tmp_path: Path) -> None:
    scene = pictures.scene()
    source = pictures.with_png_chunks(loose(scene), pictures.chunk(b"gAMA", struct.pack(">I", 100000)))
    out = whole(optimized(tmp_path, source))
    assert container.has_chunk(out, b"gAMA")
    assert np.array_equal(np.asarray(pictures.opened(out)), scene)


def test_an_apng_stays_an_animation(tmp_path: Path) -> None:
    source = pictures.animated("PNG", [100, 250, 300, 50], loop=3, compress_level=1)
    source = pictures.with_png_chunks(source, pictures.chunk(b"tEXt", b"Comment\0COMMENT-PRIVATE"))
    out = whole(optimized(tmp_path, source))
    assert b"COMMENT-PRIVATE" not in out
    assert container.read_timing(out) == ([100, 250, 300, 50], 3)
    with Image.open(io.BytesIO(source)) as old, Image.open(io.BytesIO(out)) as new:
        for frame in range(4):
            old.seek(frame)
            new.seek(frame)
            assert np.array_equal(np.asarray(old.convert("RGBA")), np.asarray(new.convert("RGBA")))


@pytest.mark.parametrize("picture", [pictures.scene(), pictures.graphic(), pictures.graphic(alpha=True)])
def test_the_result_is_never_larger_and_optimising_it_again_changes_nothing(
    tmp_path: Path, picture: np.ndarray
) -> None:
    for level in (1, 9):
        source = pictures.saved(picture, "PNG", compress_level=level)
        once = optimized(tmp_path, source)
        assert once is None or len(once) < len(source)
        assert optimized(tmp_path, once or source) is None


def test_a_profile_that_swells_does_no_harm(tmp_path: Path) -> None:
    bomb = pictures.chunk(b"iCCP", b"icc\0\0" + zlib.compress(b"\0" * 60_000_000, 9))
    out = whole(optimized(tmp_path, pictures.with_png_chunks(loose(pictures.scene()), bomb)))
    assert np.array_equal(np.asarray(pictures.opened(out)), pictures.scene())


def test_a_cancelled_job_stops_the_encoder(tmp_path: Path) -> None:
    calls = 0

    def check_stop() -> None:
        nonlocal calls
        calls += 1
        if calls > 5:
            raise StageCancelled("The job was cancelled.")

    path = pictures.write(tmp_path, loose(pictures.scene(1500, 1500)))
    with pytest.raises(StageCancelled):
        png.optimize(path, probe(path, MANY), check_stop)
    assert calls < 60
