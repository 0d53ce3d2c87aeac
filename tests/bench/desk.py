"""Measures the local page with thousands of pictures in a real Chromium: frames while its list is scrolled, the memory
of the renderer, and how long an act on a selection takes until it is visible.

`python -m tests.bench.desk [--pictures 5000] [--selected 500]`
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from imgproc_local.domain.image import Format
from imgproc_local.domain.result import TextSource
from tests.bench.load import print_table, verdict
from tests.browser.conftest import NumberedDescriber, Tab
from tests.support import finished, pictures
from tests.support.chromium import CHROMIUM
from tests.support.service import Running, running

SIZES = [(320, 240), (240, 320), (320, 180), (240, 240), (360, 240)]
MAX_MIB, MAX_FRAME_MS, MAX_VISIBLE_S = 250, 1000 / 55, 1.0
SCROLL = """async ([seconds]) => {
  const list = document.querySelector(".list");
  const times = [];
  const end = performance.now() + 1000 * seconds;
  await new Promise((resolve) => requestAnimationFrame(function frame(now) {
    times.push(now);
    list.scrollTop += 40;
    if (list.scrollTop + list.clientHeight >= list.scrollHeight - 1) list.scrollTop = 0;
    if (now < end) requestAnimationFrame(frame); else resolve();
  }));
  return times.slice(1).map((time, index) => time - times[index]);
}"""


def fill(service: Running, count: int) -> None:
    """Store finished pictures, each with a text in two languages that nobody has reviewed."""
    files = [pictures.jpeg(*SIZES[number % len(SIZES)], seed=number) for number in range(40)]
    for number in range(count):
        result = finished.Result(files[number % 40][:-2], Format.JPEG)
        texts = [
            finished.text(code, f"picture-{number}-{code}", f"Picture {number} in {code}.", TextSource.VISION)
            for code in ("en", "de")
        ]
        adding = finished.add_job(
            service.services,
            files[number % 40],
            name=f"IMG_{number:04}.jpg",
            optimized=result,
            converted=result,
            texts=texts,
        )
        service.run(adding)


def renderer_mib(browser: Any) -> float:
    """The private memory of the largest renderer process. Source: proc(5), smaps_rollup."""
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return max(_private_mib(process["id"]) for process in processes if process["type"] == "renderer")


def _private_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def seconds_until_accepted(page: Page, count: int) -> tuple[float, float]:
    """Select the first `count` pictures of the list and accept their texts. Returns the time until their marks show
    that, and until words say it.
    """
    page.evaluate("document.querySelector('.list').scrollTop = 0")
    page.locator(".list").focus()
    page.keyboard.press("Home")
    for _ in range(count - 1):
        page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+A")
    page.locator("dialog[open] button[type=submit]").wait_for()
    marked_ms, said_ms = page.evaluate(
        """async () => {
          const began = performance.now();
          document.querySelector("dialog[open] button[type=submit]").click();
          const until = async (condition) => {
            while (!condition()) {
              await new Promise(requestAnimationFrame);
              if (performance.now() - began > 30000) throw new Error("nothing changed");
            }
            return performance.now() - began;
          };
          const marked = await until(() => document.querySelector('.tile .status[data-state="reviewed"]'));
          return [marked, await until(() => document.querySelector(".announcement")?.textContent.includes("accepted"))];
        }"""
    )
    return marked_ms / 1000, said_ms / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=5000)
    parser.add_argument("--selected", type=int, default=500)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        sync_playwright() as playwright,
        running(Path(folder) / "data", NumberedDescriber) as service,
    ):
        fill(service, options.pictures)
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-background-networking"]
        )
        tab = Tab(service, browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-GB"))
        tab.wait_for_count("All", options.pictures)
        frames_ms = tab.page.evaluate(SCROLL, [10])
        marked_s, said_s = seconds_until_accepted(tab.page, options.selected)
        mib = renderer_mib(browser)
        browser.close()
    frame_ms = statistics.mean(frames_ms)
    print_table(
        f"{options.pictures} pictures on the local page",
        [
            ("mean frame while scrolling", f"{frame_ms:.2f} ms", verdict(frame_ms, MAX_FRAME_MS, "ms")),
            ("longest frame", f"{max(frames_ms):.0f} ms", ""),
            ("private memory of the renderer", f"{mib:.0f} MiB", verdict(mib, MAX_MIB, "MiB")),
            (f"{options.selected} accepted, marked", f"{marked_s:.2f} s", verdict(marked_s, MAX_VISIBLE_S, "s")),
            (f"{options.selected} accepted, said", f"{said_s:.2f} s", ""),
        ],
    )


if __name__ == "__main__":
    main()
