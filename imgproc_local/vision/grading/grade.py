"""The grade of a model in one language, as it is displayed: a letter and a percentage.

The percentage is the share that `models check` measured (`check.py`). It is stored in the models folder.
"""

from __future__ import annotations

GRADE_BOUNDS = ((0.85, "A"), (0.70, "B"), (0.50, "C"), (0.0, "D"))
"""The minimum share of each letter. A: texts can be published after a glance. B: they must be read first. C: much is
wrong or missing. D: unusable in this language. No standard defines these bounds."""
GRADE_MEANINGS = "A from 85 %, B from 70 %, C from 50 %, D below; D is of no use."


def format_grade(share: float) -> str:
    """`share` (0 to 1) as a letter and a percentage, such as "A 92 %"."""
    percent = round(100 * share)
    letter = next(letter for minimum, letter in GRADE_BOUNDS if percent >= 100 * minimum)
    return f"{letter} {percent} %"
