"""Measures the local page with many pictures in Chromium, while the engine works: frames while scrolling, memory of the
renderer, first paint, open connections. Linux only; needs Playwright and Chromium.

An empty page of the same size is scrolled afterwards, because without a GPU the browser draws on the processor,
which the engine uses too: no page can scroll faster than that one on the same machine.

`python -m tests.bench.page [--pictures 5000] [--busy 60]`
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from imgproc_local.compose import open_services
from imgproc_local.domain.image import Format
from imgproc_local.domain.result import TextSource
from imgproc_local.vision.facts.describer import FactsDescriber
from tests.bench.load import MIB, photographs, print_table, verdict
from tests.faults.server_process import command_line, make_key, serving
from tests.support import pictures
from tests.support.chromium import CHROMIUM
from tests.support.finished import Result, add_job, text
from tests.support.service import Service, config_for

CONTENTS = 60
"""Different pictures; each is the content of many uploads. The browser loads a thumbnail per upload."""
MIN_FPS = 55
MAX_RENDERER_MIB = 250
MAX_FIRST_PAINT_MS = 300
MAX_CONNECTIONS = 3
VIEWPORT = {"width": 1440, "height": 900}
GESTURE_PX = 12_000
FAST_PX_PER_S, SLOW_PX_PER_S = 4000, 1200
"""Faster than thumbnails are loaded, and a speed at which all of them are."""
EMPTY_PAGE = """
<style>
  html, body { margin: 0; height: 100%; }
  main { height: 100%; width: 800px; overflow-y: scroll; }
  div { height: 200000px; background: repeating-linear-gradient(#fff 0 190px, #ccc 190px 200px); }
</style>
<main><div></div></main>
"""
"""Stripes, because the browser draws no frame for a scrolled area that looks the same."""
TRACED = ["disabled-by-default-devtools.timeline.frame", "devtools.timeline.frame", "devtools.timeline"]


async def fill(folder: Path, count: int) -> None:
    """Store finished pictures with texts in two languages; one in 20 needs a text."""
    originals = [pictures.jpeg(1200, 800, seed, quality=80) for seed in range(CONTENTS)]
    result, converted = (
        Result(pictures.jpeg(), Format.JPEG),
        Result(pictures.encoded(pictures.photo(), "WEBP"), Format.WEBP),
    )
    async with open_services(config_for(folder), "bench", make_describer=FactsDescriber) as services:
        for number in range(count):
            source = TextSource.PIXELS if number % 20 == 0 else TextSource.FACTS
            await add_job(
                services,
                originals[number % CONTENTS],
                name=f"DSC_{number:05d}.JPG",
                optimized=result,
                converted=converted,
                texts=[
                    text(code, f"boat-{number}-{code}", "A red boat in a harbour. " * 3, source)
                    for code in ("en", "de")
                ],
            )


def connections(port: int) -> int:
    """How many TCP connections to the local `port` are established. Source: proc(5), /proc/net/tcp."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(fields[1].endswith(f":{port:04X}") and fields[3] == "01" for fields in lines)


def renderer_memory_mib(cdp: Any) -> float:
    """The private memory of the largest renderer: what would be free without it."""
    found = cdp.send("SystemInfo.getProcessInfo")["processInfo"]
    renderers = [process["id"] for process in found if process["type"] == "renderer"]
    return max(private_bytes(pid) for pid in renderers) / MIB


def private_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def scroll(page: Any, browser: Any, path: Path, speed_px_per_s: int, gestures: int) -> float:
    """Frames per second that the browser drew while the list was scrolled, by its trace."""
    cdp = page.context.new_cdp_session(page)
    browser.start_tracing(page=page, path=path, categories=TRACED)
    seconds = 0.0
    for gesture in range(gestures):
        began = time.perf_counter()
        distance = -GESTURE_PX if gesture % 2 == 0 else GESTURE_PX * 3 // 4
        cdp.send(
            "Input.synthesizeScrollGesture",
            {"x": 300, "y": 500, "yDistance": distance, "speed": speed_px_per_s, "gestureSourceType": "mouse"},
        )
        seconds += time.perf_counter() - began
    browser.stop_tracing()
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    drawn = Counter(event["pid"] for event in events if event.get("name") == "DrawFrame")
    return max(drawn.values(), default=0) / seconds


def scroll_empty(browser: Any, path: Path) -> float:
    """As `scroll` at the higher speed, of a page without pictures and scripts."""
    page = browser.new_page(viewport=VIEWPORT)
    page.set_content(EMPTY_PAGE)
    fps = scroll(page, browser, path, FAST_PX_PER_S, gestures=3)
    page.close()
    return fps


def run(count: int, busy: int) -> int:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(prefix="page-bench-") as name:
        folder = Path(name) / "data"
        asyncio.run(fill(folder, count))
        work = photographs(12)
        key = make_key(folder)
        with serving(folder) as server, sync_playwright() as playwright:
            root = server.wait_ready()
            port = int(root.rpartition(":")[2])
            service = Service(root, key)
            for number in range(busy):
                service.dispatch("process", work[number % len(work)], f"busy-{number}.jpg")
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page(viewport=VIEWPORT)
            link = command_line("sign-in", data_dir=folder).stdout
            page.goto(next(word for word in link.split() if word.startswith("http")))
            page.locator(".pictures-view").wait_for()
            began = time.perf_counter()
            page.reload()
            loaded = "Number(document.querySelector('.chip .count')?.textContent.replaceAll(',', '')) >= "
            while not page.evaluate(loaded + str(count + busy)):
                time.sleep(0.02)
            load_s = time.perf_counter() - began
            paints = page.evaluate("performance.getEntriesByName('first-contentful-paint').map((e) => e.startTime)")
            page.wait_for_timeout(2000)
            fast_fps = scroll(page, browser, Path(name) / "trace.json", FAST_PX_PER_S, gestures=5)
            slow_fps = scroll(page, browser, Path(name) / "trace.json", SLOW_PX_PER_S, gestures=3)
            open_connections = connections(port)
            memory_mib = renderer_memory_mib(browser.new_browser_cdp_session())
            tiles = page.evaluate("document.querySelectorAll('.tile').length")
            left = page.evaluate("document.querySelector('.totals')?.textContent ?? ''")
            page.close()
            empty_fps = scroll_empty(browser, Path(name) / "empty.json")
            browser.close()
    load = os.getloadavg()[0]
    print_table(
        f"The page with {count} finished pictures, {busy} in progress",
        [
            (f"frames per second at {FAST_PX_PER_S:,} pixels per second", f"{fast_fps:.1f}", f"at least {MIN_FPS}"),
            (f"at {SLOW_PX_PER_S:,} pixels per second, with thumbnails", f"{slow_fps:.1f}", f"at least {MIN_FPS}"),
            ("on an empty page", f"{empty_fps:.1f}", ""),
            ("private memory of the renderer", f"{memory_mib:.0f} MiB", verdict(memory_mib, MAX_RENDERER_MIB, "MiB")),
            ("first paint", f"{paints[0]:.0f} ms", verdict(paints[0], MAX_FIRST_PAINT_MS, "ms")),
            ("all pictures in the list after", f"{load_s:.1f} s", ""),
            ("open connections", str(open_connections), verdict(open_connections, MAX_CONNECTIONS, "connections")),
            ("pictures in the document", str(tiles), ""),
            ("engine", left, ""),
            ("processes that run or wait to run", f"{load:.1f} on {os.cpu_count()} processors", ""),
        ],
    )
    bounds = (memory_mib, MAX_RENDERER_MIB), (paints[0], MAX_FIRST_PAINT_MS), (open_connections, MAX_CONNECTIONS)
    return 0 if min(fast_fps, slow_fps) >= MIN_FPS and all(value <= bound for value, bound in bounds) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=5000, metavar="N")
    parser.add_argument("--busy", type=int, default=60, metavar="N", help="pictures that the engine works on meanwhile")
    arguments = parser.parse_args()
    return run(arguments.pictures, arguments.busy)


if __name__ == "__main__":
    raise SystemExit(main())
