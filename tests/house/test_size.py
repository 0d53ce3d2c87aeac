"""The budget of each room, in lines of code: without blank lines, comments and docstrings.

What a room holds is read by everyone who changes it. A change that needs more than its budget takes something away in
the same room, or raises the number here, where a reader of the commit sees it, with the reason in the commit.
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "imgproc_local"
BUDGETS = {
    "": 1210,  # settings, wiring, the server, what `process` and `archive` share, the compression service
    "api": 1980,  # one operation of the published interface after the other, OpenAPI, examples, metrics
    "archive": 880,  # two kinds of store, a cluster with TLS, a manifest in Parquet
    "cli": 3050,  # 20 commands with help, completion and hints; `process` also in place and through a pipe
    "codecs": 5750,  # eight formats, each with its metadata and a verified score: what the program is for
    "domain": 1710,  # 400 write file names of other scripts in Latin letters, 400 find personal data; no library does
    "engine": 1810,
    "storage": 1510,
    "system": 700,
    "vision": 4010,  # three ways to describe (model, program, facts), each held to what is known, in 36 languages
    "web": 420,
}
MAX_FILES = 180
NOT_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
    tokenize.ENCODING,
}  # fmt: skip


def lines_of_code(file: Path) -> int:
    text = file.read_text(encoding="utf-8")
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in NOT_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


@pytest.mark.parametrize("room", BUDGETS)
def test_a_room_stays_within_its_budget(room: str) -> None:
    files = (PACKAGE / room).rglob("*.py") if room else PACKAGE.glob("*.py")
    size = sum(map(lines_of_code, files))
    assert size <= BUDGETS[room], f"{room or PACKAGE.name} has {size} lines of code"
    assert size > 0.95 * BUDGETS[room], f"{room or PACKAGE.name} has {size} lines of code: lower its budget"


def test_every_room_has_a_budget_and_files_are_few() -> None:
    assert {file.parent.name for file in PACKAGE.glob("*/__init__.py")} == set(BUDGETS) - {""}
    assert len([*PACKAGE.rglob("*.py")]) <= MAX_FILES
