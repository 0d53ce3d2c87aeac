"""JPEG XL as Chromium shows it: a JPEG that was transcoded looks like the JPEG, upright and in its colours."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.domain.image import Format
from tests.codecs import pictures
from tests.support.reading import convert_file, probe

MEAN_DIFFERENCE = """async (sources) => {
  const shown = await Promise.all(sources.map(async (source) => {
    const image = new Image();
    image.src = source;
    await image.decode();
    const { naturalWidth: width, naturalHeight: height } = image;
    const context = new OffscreenCanvas(width, height).getContext("2d");
    context.drawImage(image, 0, 0);
    return { size: [width, height], samples: context.getImageData(0, 0, width, height).data };
  }));
  const differences = Array.from(shown[0].samples, (sample, at) => Math.abs(sample - shown[1].samples[at]));
  const sum = differences.reduce((one, other) => one + other);
  return [...shown[0].size, ...shown[1].size, sum / differences.length];
}"""


@pytest.mark.parametrize("orientation", [1, 6])
def test_a_transcoded_jpeg_is_shown_like_the_jpeg(recent_chromium: Any, tmp_path: Path, orientation: int) -> None:
    stored = pictures.oriented(pictures.photo(203, 150), orientation)
    options = {"exif": b"Exif\0\0" + pictures.tiff(orientation), "icc_profile": pictures.wide_profile()}
    jpeg = pictures.saved(stored, "JPEG", quality=95, **options)
    path = pictures.write(tmp_path, jpeg)
    jxl = convert_file(path, probe(path), Format.JXL, pictures.never_stop)
    sources = [
        f"data:image/{name};base64,{base64.b64encode(data).decode()}" for name, data in (("jpeg", jpeg), ("jxl", jxl))
    ]
    page = recent_chromium.new_page()
    try:
        *sizes, difference = page.evaluate(MEAN_DIFFERENCE, sources)
    finally:
        page.close()
    assert sizes == [203, 150] * 2
    assert difference < 1.5  # of 255; one that is rotated or in wrong colours has more than 20
