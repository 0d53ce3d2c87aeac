"""How long the request of an upload takes in WordPress with the plugin, against the same site without it.

`python -m tests.bench.wordpress_upload [--rounds 25]`

In each round the same picture is uploaded with the plugin and without it, in turns which one is first. An upload begins
when the plugin has nothing left to do. Prints the medians and their ratio; ends with status 1 if the ratio is above
1.1. A second line has uploads that follow each other at once, while the plugin and the service work on the ones before.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.support import pictures
from tests.support.service import Running, running
from tests.wordpress.admin import Uploader
from tests.wordpress.library import configure, wait_finished
from tests.wordpress.site import Site, installed

BOUND = 1.1
PLUGIN = "imgproc-local/imgproc-local.php"
SIZE = 1600, 1200
IN_A_ROW = 8


def switch(site: Site, active: bool) -> None:
    site.php(f"{'activate_plugin' if active else 'deactivate_plugins'}( '{PLUGIN}' );")


def idle_uploads(site: Site, uploader: Uploader, rounds: int) -> dict[bool, list[float]]:
    """Seconds of each upload with the plugin (True) and without (False), while nothing else is being done."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for number in range(rounds):
        content = pictures.jpeg(*SIZE, seed=number)
        for active in (True, False) if number % 2 else (False, True):
            switch(site, active)
            uploader.client.get("/wp-admin/media-new.php")  # so that PHP has the files of the plugin in its cache
            time.sleep(0.5)
            picture, duration = uploader.upload(f"picture-{number}-{active}.jpg", content)
            seconds[active].append(duration)
            if active:
                wait_finished(site, [picture])
    return seconds


def uploads_in_a_row(site: Site, uploader: Uploader, active: bool) -> list[float]:
    switch(site, active)
    uploaded = [uploader.upload(f"row-{n}-{active}.jpg", pictures.jpeg(*SIZE, seed=n)) for n in range(IN_A_ROW)]
    if active:
        wait_finished(site, [picture for picture, _ in uploaded], 300)
    return [duration for _, duration in uploaded]


def measure(site: Site, service: Running, rounds: int) -> float:
    configure(site, service.root, service.key)
    with contextlib.closing(Uploader(site)) as uploader:
        return compare(site, uploader, rounds)


def compare(site: Site, uploader: Uploader, rounds: int) -> float:
    """Print the results, and return the ratio of the medians."""
    seconds = idle_uploads(site, uploader, rounds)
    with_plugin, without = (statistics.median(seconds[active]) for active in (True, False))
    ratio = with_plugin / without
    pairs = statistics.median(a / b for a, b in zip(seconds[True], seconds[False], strict=True))
    load = os.getloadavg()[0]
    print(f"{rounds} uploads of {SIZE[0]} × {SIZE[1]} pixels each, load {load:.0f} on {os.cpu_count()} cores")
    print(f"with the plugin {with_plugin * 1000:.0f} ms, without {without * 1000:.0f} ms: {ratio:.3f}", end="")
    print(f" (median of the ratios of the rounds {pairs:.3f})")
    rows = {active: statistics.median(uploads_in_a_row(site, uploader, active)) for active in (False, True)}
    print(f"{IN_A_ROW} in a row: {rows[True] * 1000:.0f} ms, without {rows[False] * 1000:.0f} ms", end="")
    print(f": {rows[True] / rows[False]:.3f}")
    return ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=25)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "data") as service, installed() as site:
        ratio = measure(site, service, arguments.rounds)
    sys.exit(ratio > BOUND)


if __name__ == "__main__":
    main()
