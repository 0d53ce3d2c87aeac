"""How the optional parts of the program, the extras of its package, are installed: one sentence for all messages."""

from __future__ import annotations


def how_to_install(extra: str) -> str:
    """What to do if the extra is missing: the pip of `.venv` is named because the system's may refuse (PEP 668)."""
    lock = f"requirements-{extra}.lock"
    return (
        f"In a clone of the repository, run `.venv/bin/pip install --require-hashes -r {lock}`;"
        f" elsewhere install imgproc-local[{extra}] with the pip, uv or pipx that installed this program."
    )
