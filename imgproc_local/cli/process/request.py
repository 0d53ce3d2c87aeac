"""What a run asks for each of its pictures: the jobs, and the options by which an earlier result counts as the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from imgproc_local.config import Config
from imgproc_local.domain.image import Format
from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import ACCEPTED_FORMATS, Operation, Plan
from imgproc_local.domain.quality import target_score


class Request(Struct, frozen=True):
    """The jobs of each picture, and `options`, which is equal for two runs that make the same of the same content."""

    plans: tuple[Plan, ...]
    options: str

    @property
    def languages(self) -> tuple[str, ...]:
        return self.plans[0].languages

    @property
    def accepted(self) -> tuple[Format, ...]:
        """The formats that every job of a picture accepts."""
        lists = [ACCEPTED_FORMATS[plan.operation] for plan in self.plans]
        return tuple(each for each in lists[0] if all(each in others for others in lists))


def make_request(plan: Plan, only: Sequence[StageName], config: Config, model: str | None, *extra: object) -> Request:
    """One job with all stages, or one job per stage of `only`. `extra` are further options that change results."""
    stages = [stage for stage in StageName if stage in only] or list(StageName)
    if len(stages) == len(StageName):
        plans: tuple[Plan, ...] = (plan,)
    else:
        plans = tuple(msgspec.structs.replace(plan, operation=Operation(stage.value)) for stage in stages)
    # only a hash is stored, because the context is stored nowhere
    content = [
        msgspec.to_builtins(plans),
        target_score(config.quality_target),
        config.effort,
        config.keep_location.value,
        config.use_gps,
        config.pixel_texts,
        config.compression_service,
        model,
        *extra,
    ]
    return Request(plans, hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:32])


def price(plans: Sequence[Plan], config: Config) -> int:
    """The price of all jobs of one picture, in credits."""
    prices = {
        Operation.ANALYZE: config.price_analyze * len(plans[0].languages),
        Operation.OPTIMIZE: config.price_optimize,
        Operation.CONVERT: config.price_convert,
    }
    prices[Operation.PROCESS] = sum(prices.values())
    return sum(prices[plan.operation] for plan in plans)
