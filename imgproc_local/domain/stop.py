"""The type of function by which blocking work finds out that it is no longer wanted."""

from __future__ import annotations

from collections.abc import Callable

CheckStop = Callable[[], None]
"""Called between the steps of blocking work. Returns while the work is wanted, otherwise raises to end it: in a stage
`StageCancelled` or `StageTimedOut`.
"""
