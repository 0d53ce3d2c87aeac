"""How much an optimised or converted picture must look like the one that came: names and numbers.

A number is a score by SSIMULACRA 2.1: at 100 the pictures are the same, at 90 they can't be told apart when flickering
between both, at 70 the quality is high. Source: the scale published with SSIMULACRA 2.
"""

from __future__ import annotations

from typing import Literal

TargetName = Literal["visually-lossless", "web", "small"]
TARGETS: dict[TargetName, float] = {"visually-lossless": 90.0, "web": 85.0, "small": 75.0}

LOWEST_TARGET, HIGHEST_TARGET = 50.0, 95.0
"""Below, artefacts are plain to see; above, hardly any encoder gets there."""


def target_score(target: TargetName | float) -> float:
    """The score that a name or number asks for."""
    return TARGETS[target] if isinstance(target, str) else float(target)
