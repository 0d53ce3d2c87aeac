"""AVIFs assembled from tiles: every decoder sees one picture, with its alpha and metadata."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import pyvips
from PIL import Image

from imgproc_local.codecs import avif
from imgproc_local.codecs.container import avif as container
from imgproc_local.codecs.container import avif_writer
from tests.codecs import pictures
from tests.codecs.operations import to_avif
from tests.codecs.pictures import never_stop
from tests.support.reading import optimize_file, probe

TILE = (96, 64)


@pytest.fixture
def small_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes small pictures as grids."""
    monkeypatch.setattr(avif, "MAX_TILE_PIXELS", 60_000)


def converted(folder: Path, data: bytes) -> bytes:
    path = pictures.write(folder, data)
    return to_avif(path, probe(path, 10**9), never_stop)


@pytest.mark.usefixtures("small_grids")
@pytest.mark.parametrize("size", [(642, 482), (641, 481), (1200, 300)])
@pytest.mark.parametrize("alpha", [False, True])
def test_a_grid_is_decoded_as_one_picture(tmp_path: Path, size: tuple[int, int], alpha: bool) -> None:
    scene = pictures.photo(*size)
    if alpha:
        scene = np.dstack([scene, np.asarray(Image.linear_gradient("L").resize(size))])
    out = converted(tmp_path, pictures.saved(scene, "PNG"))
    assert out.count(b"av01") > 2, "not a grid"
    info = probe(pictures.write(tmp_path, out), 10**9)
    assert (info.width_px, info.height_px, info.has_alpha) == (*size, alpha)
    assert pictures.distance(pictures.opened(out), scene) < 3
    if alpha:
        shown = np.asarray(pictures.opened(out))[..., 3].astype(int)
        assert np.abs(shown - scene[..., 3]).max() <= avif.MAX_ALPHA_ERROR
    by_libvips = pyvips.Image.new_from_buffer(out, "")
    assert (by_libvips.width, by_libvips.height, by_libvips.bands) == (*size, 4 if alpha else 3)


@pytest.mark.usefixtures("small_grids")
def test_a_grid_has_the_metadata_of_its_source_without_positions(tmp_path: Path) -> None:
    source = pictures.jpeg_with_metadata(pictures.photo(642, 482), 6)
    out = converted(tmp_path, source)
    kept, blocks = container.read_blocks(out), pictures.write(tmp_path, out)
    assert kept.xmp is not None
    assert kept.exif is not None
    with Image.open(blocks) as image:
        assert image.size == (482, 642)
        assert not image.getexif().get_ifd(0x8825)
    wide = Image.open(io.BytesIO(source)).info.get("icc_profile")
    assert (kept.icc is not None) == (wide is not None)


@pytest.mark.usefixtures("small_grids")
def test_optimizing_an_optimized_grid_changes_nothing(tmp_path: Path) -> None:
    fine = pictures.write(tmp_path, pictures.saved(pictures.photo(642, 482), "AVIF", quality=98))
    out = optimize_file(fine, probe(fine, 10**9), never_stop)
    assert out is not None
    assert out.count(b"av01") > 2, "not a grid"
    path = pictures.write(tmp_path, out)
    assert optimize_file(path, probe(path, 10**9), never_stop) is None


def test_tiles_are_in_their_places() -> None:
    colours = [(200, 30, 30), (30, 200, 30), (30, 30, 200), (200, 200, 30), (30, 200, 200), (200, 30, 200)]
    tiles = [pictures.saved(Image.new("RGB", TILE, colour), "AVIF", quality=90) for colour in colours]
    joined = avif_writer.joined(tiles, 3, 3 * TILE[0] - 10, 2 * TILE[1] - 20)
    shown = pictures.opened(joined).convert("RGB")
    assert shown.size == (3 * TILE[0] - 10, 2 * TILE[1] - 20)
    for number, colour in enumerate(colours):
        at = (number % 3 * TILE[0] + 20, number // 3 * TILE[1] + 20)
        assert all(abs(got - meant) <= 4 for got, meant in zip(shown.getpixel(at), colour, strict=True))
