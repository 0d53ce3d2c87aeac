"""Takes the screenshots of the page that the README shows, with the sample picture and parts of it. Needs Chromium.

`python -m tests.browser.screenshots` writes them to `tests/browser/screenshots`.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps
from playwright.sync_api import sync_playwright

from tests.support.chromium import CHROMIUM
from tests.support.service import Running, running

SAMPLE = Path(__file__).parents[1] / "sample" / "IMG_4711.jpg"
FOLDER = Path(__file__).parent / "screenshots"
QUALITY = 82

PARTS = {
    "evening": ((100, 250, 900, 850), "Evening over the lighthouse and the harbour entrance"),
    "lighthouse": ((420, 360, 720, 760), "Red and white lighthouse with its lamp lit at dusk"),
    "keepers-house": ((600, 560, 860, 740), "Red wooden house of the lighthouse keeper on the cliff"),
    "boat": ((120, 600, 420, 860), "Sailing boat at anchor between two orange buoys"),
    "mountains": ((0, 520, 400, 740), ""),
    "clouds": ((0, 0, 900, 520), "Pink evening clouds above the coast"),
    "reflections": ((480, 780, 900, 1060), "Reflections of the lighthouse in calm water"),
    "meadow": ((0, 1000, 900, 1200), ""),
    "cliff": ((480, 620, 900, 800), "Rocky cliff below the lighthouse in the last light"),
    "coast": ((380, 340, 900, 900), "Lighthouse and keeper's house on a rocky coast"),
    "fjord": ((0, 480, 520, 900), "Sailing boat in a fjord below snow-covered mountains"),
}
"""Parts of the sample picture, in units of which its width has 900, and what their photographer wrote about them."""

XMP = """<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:description><rdf:Alt>
<rdf:li xml:lang="x-default">{caption}</rdf:li></rdf:Alt></dc:description></rdf:Description></rdf:RDF></x:xmpmeta>"""


def uploads() -> dict[str, bytes]:
    """The sample picture and its parts, by file name."""
    found = {SAMPLE.name: SAMPLE.read_bytes()}
    with Image.open(SAMPLE) as opened:
        whole = ImageOps.exif_transpose(opened)
    scale = whole.width / 900
    for number, (box, caption) in enumerate(PARTS.values(), 4712):
        part = whole.crop(tuple(round(side * scale) for side in box))
        buffer = io.BytesIO()
        options = {"xmp": XMP.format(caption=caption).encode()} if caption else {}
        part.save(buffer, "JPEG", quality=93, **options)
        found[f"IMG_{number}.jpg"] = buffer.getvalue()
    return found


def shoot(page: Any, folder: Path, name: str) -> None:
    page.wait_for_timeout(2500)
    with Image.open(io.BytesIO(page.screenshot())) as image:
        image.convert("RGB").save(folder / f"{name}.webp", quality=QUALITY, method=6)


def take_all(service: Running, browser: Any, folder: Path) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light", locale="en-GB")
    page = context.new_page()
    page.goto(f"{service.root}/?token={service.page_token()}")
    shoot(page, folder, "first-run")
    jobs = [
        service.dispatch("process", content, name, languages=["en", "de"], project_name="Lighthouse")
        for name, content in uploads().items()
    ]
    for job in jobs:
        service.final(job["job_id"], timeout_s=600)
    page.locator(".menu summary").click()
    page.get_by_label("Needs text first").uncheck()
    page.locator(".menu summary").click()
    page.locator(".tile", has=page.get_by_text(SAMPLE.name, exact=True)).click()
    page.mouse.move(1430, 890)
    shoot(page, folder, "pictures")
    page.emulate_media(color_scheme="dark")
    page.get_by_role("button", name="List", exact=True).click()
    shoot(page, folder, "pictures-dark")
    page.emulate_media(color_scheme="light")
    page.keyboard.press("e")
    shoot(page, folder, "export")
    page.keyboard.press("Escape")
    for view in ("models", "access"):
        page.evaluate(f"location.hash = '{view}'")
        page.wait_for_timeout(4000)
        shoot(page, folder, view)
    page.set_viewport_size({"width": 360, "height": 740})
    page.evaluate("location.hash = 'pictures'")
    page.get_by_role("button", name="Grid", exact=True).click()
    shoot(page, folder, "phone")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="imgproc-local-") as folder,
        running(Path(folder, "data")) as service,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        take_all(service, browser, FOLDER)
        browser.close()


if __name__ == "__main__":
    main()
