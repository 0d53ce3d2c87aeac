"""How well a model describes in one language, as people are told it: a letter and the share of right answers.

The share is what `models check` found (`vision/check.py`); it is kept beside the model's files.
"""

from __future__ import annotations

LETTERS = ((0.85, "A"), (0.70, "B"), (0.50, "C"), (0.0, "D"))
"""From which share on. A: texts can be published after a glance. B: read them first. C: it sees, but much is wrong or
missing. D: not of use in this language. The bounds are this project's own."""
GRADE_MEANINGS = "A from 85 %, B from 70 %, C from 50 %, D below; D is of no use."


def format_grade(share: float) -> str:
    """`share` (0 to 1) for people: "A 92 %"."""
    percent = round(100 * share)
    letter = next(letter for least, letter in LETTERS if percent >= 100 * least)
    return f"{letter} {percent} %"
