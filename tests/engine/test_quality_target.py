"""The settings of quality and effort, from the settings to the files."""

from __future__ import annotations

from pathlib import Path

from tests.support import pictures
from tests.support.service import running


def test_the_target_reaches_both_the_optimized_and_the_converted_file(tmp_path: Path) -> None:
    picture = pictures.jpeg(640, 480, quality=97)
    sizes: dict[object, list[int]] = {}
    for target in ("visually-lossless", "web", 70.0):
        with running(tmp_path / str(target), quality_target=target) as service:
            job = service.process("process", picture)
            assert job["status"] == "completed", job
            sizes[target] = [job["image"]["optimized_size"], job["image"]["converted_size"]]
    for operation in (0, 1):
        found = [each[operation] for each in sizes.values()]
        assert found == sorted(found, reverse=True)
        assert len(set(found)) == 3
