"""HDR pictures and results in a real browser: what it shows of them without and with an HDR display."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvips
from PIL import Image

from imgproc_local.codecs.container import jpeg
from imgproc_local.codecs.metadata.blocks import Blocks
from imgproc_local.codecs.picture import decode
from imgproc_local.codecs.picture.source import ResultOptions
from imgproc_local.domain.image import CodedColours, Format
from tests.codecs import pictures
from tests.codecs.operations import optimized, read_blocks, whole
from tests.codecs.pictures import never_stop
from tests.codecs.test_hdr import HLG, PQ, SIDE_PX, coded_png
from tests.conftest import CHROMIUM
from tests.support.reading import encode_file, probe

_PIXELS = """async (address) => {
    const image = new Image()
    image.src = address
    await image.decode()
    const canvas = document.createElement('canvas')
    Object.assign(canvas, {width: image.naturalWidth, height: image.naturalHeight})
    const context = canvas.getContext('2d', {colorSpace: 'display-p3'})
    context.drawImage(image, 0, 0)
    return [...context.getImageData(0, 0, canvas.width, canvas.height).data]
}"""


def jpeg_with_gain_map() -> bytes:
    """A JPEG whose gain map, described by XMP as in cameras' files, makes every pixel four times as bright."""

    def described(rgb: np.ndarray, properties: str) -> bytes:
        packet = (
            '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
            '<rdf:Description xmlns:hdrgm="http://ns.adobe.com/hdr-gain-map/1.0/" hdrgm:Version="1.0"'
            f"{properties}/></rdf:RDF></x:xmpmeta>"
        )
        plain = pictures.saved(rgb, "JPEG", quality=97)
        return plain[:2] + pictures.segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + packet.encode()) + plain[2:]

    fields = ' hdrgm:GainMapMin="0" hdrgm:GainMapMax="2" hdrgm:HDRCapacityMin="0" hdrgm:HDRCapacityMax="0.1"'
    primary = described(pictures.photo(192, 144) // 3, "")
    return primary + described(np.full((36, 48), 255, np.uint8), fields)


def address_of(data: bytes, mime: str) -> str:
    return f"data:{mime};base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize("colours", [PQ, HLG, CodedColours(12, 16)])
def test_hdr_is_converted_as_the_browser_shows_it(recent_chromium: Any, colours: CodedColours) -> None:
    source = coded_png(colours)
    page = recent_chromium.new_page()
    shown = np.array(page.evaluate(_PIXELS, address_of(source, "image/png"))).reshape(-1, 4)[:, :3]
    page.close()
    converted, _ = decode.as_browsers_show(pyvips.Image.pngload_buffer(source), colours)
    assert np.abs(converted.numpy().reshape(-1, 3) / 257 - shown).max() < 4


def test_the_browser_finds_the_gain_maps_of_results(recent_chromium: Any, tmp_path: Path) -> None:
    source = jpeg_with_gain_map()
    path = pictures.write(tmp_path, source)
    info = probe(path)
    size = info.scaled_within(SIDE_PX, SIDE_PX)
    results = [whole(optimized(tmp_path, source))]
    results.append(encode_file(path, info, never_stop, ResultOptions(effort="fast"), size)[0])
    on_hdr = recent_chromium.browser_type.launch(
        executable_path=CHROMIUM, args=["--no-sandbox", "--force-color-profile=hdr10"]
    )
    page = on_hdr.new_page()

    def shown(data: bytes) -> np.ndarray:
        page.set_content(f"<img src='{address_of(data, 'image/jpeg')}'>")
        page.wait_for_function("document.images[0].complete && document.images[0].naturalWidth")
        return np.asarray(Image.open(io.BytesIO(page.locator("img").screenshot())).convert("RGB"), float)

    # a headless browser has no brighter white to show, but draws with the gain map, which rounds in another way
    for each in results:
        plain = jpeg.with_blocks(each, Blocks(icc=read_blocks(each, Format.JPEG).icc))
        assert np.abs(shown(each) - shown(plain)).mean() > 0.2
    on_hdr.close()
