"""Every operation on a flood, a file with deep, long, numerous or repeating parts, takes little time and memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.faults.flood_costs import Cost
from tests.faults.floods import FLOODS, SLOW_TO_ENCODE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

ROOT = Path(__file__).parents[2]
MAX_CPU_S = 2.0
MAX_MEMORY_BYTES = 128 * 1024 * 1024
TIMEOUT_S = 300
OPERATIONS = ("probe", "describe", "optimize", "WebP", "AVIF")
WITH_METADATA = sorted(
    name for name in FLOODS if name.startswith(("xmp", "exif", "iptc", "icc")) and name != "xmp-in-16000-extents.avif"
)
"""The floods of metadata whose picture can be decoded. That of the AVIF can't: its `iloc` entry has a wrong offset."""


@pytest.fixture(scope="module")
def costs() -> dict[tuple[str, str], Cost]:
    """Every operation on every file, in one process of its own."""
    names = [name for name in FLOODS if name not in SLOW_TO_ENCODE]
    command = [sys.executable, "-m", "tests.faults.flood_costs", *names]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert ended.returncode == 0, ended.stdout.splitlines()[-1:] + ended.stderr.splitlines()[-20:]
    found = [msgspec.json.decode(line, type=Cost) for line in ended.stdout.splitlines()]
    return {(cost.file, cost.operation): cost for cost in found}


@pytest.mark.parametrize("file", sorted(FLOODS.keys() - SLOW_TO_ENCODE))
def test_every_operation_on_a_flood_takes_little_time_and_memory(costs: dict[tuple[str, str], Cost], file: str) -> None:
    for operation in OPERATIONS:
        cost = costs[file, operation]
        assert cost.cpu_s < MAX_CPU_S, cost
        assert cost.peak_bytes < MAX_MEMORY_BYTES, cost
        assert cost.outcome == "done" or cost.outcome.endswith("."), cost  # an error message is a sentence


@pytest.mark.parametrize("scans", ["20000", "1900", "one-component-20000"])
def test_a_jpeg_with_too_many_scans_is_refused_and_the_message_has_limit_and_count(
    costs: dict[tuple[str, str], Cost], scans: str
) -> None:
    message = costs[f"scans-{scans}.jpg", "probe"].outcome
    assert "at most 100 scans, but has " in message
    assert "Save it again" in message


@pytest.mark.parametrize("file", ["frames-24000.png", "frames-24000.gif", "frames-24000.webp", "frames-declared.png"])
def test_an_animation_with_too_many_frames_is_refused_and_the_message_has_limit_and_count(
    costs: dict[tuple[str, str], Cost], file: str
) -> None:
    assert "at most 20,000 frames, but has " in costs[file, "probe"].outcome


@pytest.mark.parametrize("file", WITH_METADATA)
def test_metadata_beyond_the_bounds_is_dropped_and_the_picture_is_not_refused(
    costs: dict[tuple[str, str], Cost], file: str
) -> None:
    assert {costs[file, operation].outcome for operation in OPERATIONS} == {"done"}
