"""What an optimised or converted picture is to look like, and how much work goes into its size.

The target is a score by SSIMULACRA 2.1 of the result against its source: at 100 both are the same, at 90 they can't be
told apart when flickering between both, at 70 the quality is high. Source: the scale published with SSIMULACRA 2.
"""

from __future__ import annotations

from typing import Literal

TargetName = Literal["visually-lossless", "web", "small"]
TARGETS: dict[TargetName, float] = {"visually-lossless": 90.0, "web": 85.0, "small": 75.0}

LOWEST_TARGET, HIGHEST_TARGET = 50.0, 95.0
"""Below, artefacts are plain to see; above, hardly any encoder reaches the target."""

Effort = Literal["fast", "balanced", "best"]
"""CPU time spent on a smaller file at the same target: `best` is for pictures that are served very often."""


def target_score(target: TargetName | float) -> float:
    """The score that a name or number stands for."""
    return TARGETS[target] if isinstance(target, str) else float(target)
