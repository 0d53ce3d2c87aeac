"""The visual quality that optimized and converted pictures must have, and the effort spent on making them small.

Quality is measured by SSIMULACRA 2.1, which scores a result against the original: 100 means identical, 90 means
indistinguishable even when the two are shown alternately in the same place, 70 means high quality. Source: the scale
published with SSIMULACRA 2.
"""

from __future__ import annotations

from typing import Literal

TargetName = Literal["visually-lossless", "web", "small"]
TARGETS: dict[TargetName, float] = {"visually-lossless": 90.0, "web": 85.0, "small": 75.0}
"""The score for each name that the setting `quality_target` accepts."""

LOWEST_TARGET, HIGHEST_TARGET = 50.0, 95.0
"""The range of target scores: below 50 artefacts are obvious, and few encoders reach a score above 95."""

Effort = Literal["fast", "balanced", "best"]
"""How much CPU time is spent on a smaller file at the same score. `best` is for pictures that are served very often."""


def target_score(target: TargetName | float) -> float:
    """The score for `target`, which is a name in `TARGETS` or the score itself."""
    return TARGETS[target] if isinstance(target, str) else float(target)
