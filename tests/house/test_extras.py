"""What messages say about installing an optional part."""

from __future__ import annotations

import tomllib
from pathlib import Path

from imgproc_local.domain.errors import how_to_install

ROOT = Path(__file__).parents[2]


def test_every_extra_has_the_lock_that_messages_name() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extra in extras:
        assert f"-r requirements-{extra}.lock`" in how_to_install(extra)
        assert f"imgproc-local[{extra}]" in how_to_install(extra)
        assert (ROOT / f"requirements-{extra}.lock").is_file()


def test_no_message_sends_people_to_the_pip_of_the_system() -> None:
    for file in (ROOT / "imgproc_local").rglob("*.py"):
        assert "pip install 'imgproc-local" not in file.read_text(encoding="utf-8"), file
