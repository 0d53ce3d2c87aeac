"""Takes the screenshots of the plugin that its readme.txt describes, with parts of the sample picture. Needs Chromium.

`python -m tests.wordpress.screenshots` writes them to `packaging/wordpress/.wordpress-org`, whose content belongs into
the folder `assets` of the plugin in WordPress' directory. Fonts of all languages should be installed.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.browser.screenshots import uploads
from tests.support.chromium import CHROMIUM
from tests.support.service import Running, running
from tests.wordpress.admin import Admin
from tests.wordpress.library import configure, queue, small, wait_finished
from tests.wordpress.site import PLUGIN, Site, installed

FOLDER = PLUGIN.parent / ".wordpress-org"
SIZE = {"width": 1280, "height": 800}
LIST = "upload.php?mode=list&orderby=title&order=asc"
SHOWN = ("IMG_4713.jpg", "IMG_4715.jpg", "IMG_4716.jpg", "IMG_4718.jpg")
MANY, UNTIL = 120, 40
"""Pictures on the page of many images, and how many of them are finished when it is shown."""


def shoot(page: Any, number: int) -> None:
    """Save the screenshot that readme.txt lists under this number. The directory accepts no WebP."""
    page.wait_for_timeout(1500)
    with Image.open(io.BytesIO(page.screenshot())) as image:
        reduced = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        reduced.save(FOLDER / f"screenshot-{number}.png", optimize=True)


def take_all(site: Site, service: Running, browser: Any) -> None:
    admin = Admin(site, browser)
    admin.page.set_viewport_size(SIZE)
    page = admin.page
    configure(site, service.root, service.key)
    site.add_pictures(small(MANY))
    admin.open("upload.php?page=imgproc-local-bulk")
    page.get_by_role("button", name="Start").click()
    page.wait_for_function(f"document.querySelector('progress').value > {UNTIL}", timeout=300_000)
    shoot(page, 3)

    page.goto("about:blank")
    site.php("Imgproc_Local_Queue::stop();")
    site.reset()
    configure(site, service.root, service.key)
    admin.open("options-general.php?page=imgproc-local")
    page.get_by_role("button", name="Test the connection").click()
    page.get_by_text("The service answers").wait_for()
    shoot(page, 4)
    ids = site.add_pictures({name: content for name, content in uploads().items() if name in SHOWN})
    queue(site, ids)
    wait_finished(site, ids, 600)
    admin.open(LIST)
    shoot(page, 1)
    site.php("update_post_meta( $args['id'], '_wp_attachment_image_alt', 'Lighthouse' );", id=ids[0])
    admin.open(LIST)
    row = page.locator(f"#post-{ids[0]}")
    row.hover()
    row.get_by_role("link", name="Review the alt text").click()
    page.locator(".imgproc-local-panel").wait_for()
    shoot(page, 2)
    admin.close()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder) / "data") as service,
        installed() as site,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        take_all(site, service, browser)
        browser.close()


if __name__ == "__main__":
    main()
