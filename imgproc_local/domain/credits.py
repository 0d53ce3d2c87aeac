"""What work costs. Credits move with the dispatch; a stage that fails gives its part back."""

from __future__ import annotations

from msgspec import Struct

from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import Plan


class Prices(Struct, frozen=True):
    """Credits per stage; analyze is per language. Source: api/README.md, "Credits"."""

    analyze: int = 1
    optimize: int = 1
    convert: int = 1


class Affordability(Struct, frozen=True):
    can_afford: bool
    required: int
    balance: int
    shortfall: int


def stage_price(prices: Prices, stage: StageName, languages: int) -> int:
    match stage:
        case StageName.ANALYZE:
            return prices.analyze * languages
        case StageName.OPTIMIZE:
            return prices.optimize
        case StageName.CONVERT:
            return prices.convert


def plan_prices(prices: Prices, plan: Plan) -> dict[StageName, int]:
    """The credits of each stage of `plan`."""
    return {stage: stage_price(prices, stage, len(plan.languages)) for stage in plan.stages}


def affordability(prices: Prices, images: int, languages: int, balance: int) -> Affordability:
    """Whether `balance` covers the full pipeline for `images` pictures in `languages` languages each."""
    required = images * sum(stage_price(prices, stage, languages) for stage in StageName)
    shortfall = max(0, required - balance)
    return Affordability(can_afford=shortfall == 0, required=required, balance=balance, shortfall=shortfall)
