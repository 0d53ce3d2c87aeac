"""What a run requests for each of its pictures, and the hash that shows whether an earlier run requested the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from imgproc_local.config import Config
from imgproc_local.domain.image import Format
from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import DEFAULT_LANGUAGES, Operation, Plan, accepted_formats, target_score


class BatchRequest(Struct, frozen=True):
    """What a run makes of each picture: the results of all `plans`.

    For each plan, `process` creates a job; `archive` runs its stages without a job. `options_hash` is a hash of all
    options that change the results. `write_metadata` writes the texts into the results, and `overwrite` also replaces
    those that the pictures have; `sidecar` writes them to files beside the results. With `archive_names`, the names of
    results do not depend on other pictures (`domain.slug.archive_name`).
    """

    plans: tuple[Plan, ...]
    languages: tuple[str, ...]
    options_hash: str
    write_metadata: bool = False
    overwrite: bool = False
    sidecar: bool = False
    archive_names: bool = False

    @property
    def accepted(self) -> tuple[Format, ...]:
        """The formats that every plan accepts."""
        lists = [accepted_formats(plan.operation, local=True) for plan in self.plans]
        return tuple(each for each in lists[0] if all(each in others for others in lists))


def make_request(
    plan: Plan,
    only: Sequence[StageName],
    config: Config,
    model: str | None,
    *,
    write_metadata: bool = False,
    overwrite: bool = False,
    sidecar: bool = False,
    archive_names: bool = False,
) -> BatchRequest:
    """A request for `plan`, or if `only` names some of the stages, for one plan per named stage.

    `model` is the name of the vision model.
    """
    stages = [stage for stage in StageName if stage in only] or list(StageName)
    if len(stages) == len(StageName):
        plans: tuple[Plan, ...] = (plan,)
    else:
        plans = tuple(_plan_of_stage(plan, stage) for stage in stages)
    # manifests store a hash instead of this content, because the text of --context must not be stored
    content = [
        msgspec.to_builtins(plans),
        target_score(config.quality_target),
        config.effort,
        config.keep_location.value,
        False,  # `use_gps` of 0.1.0: with it, a run after an upgrade does not process everything again
        config.pixel_texts,
        config.compression_service,
        model,
    ]
    flags = {"write": write_metadata, "replace": overwrite, "sidecar": sidecar, "archive-names": archive_names}
    content += [name for name, is_set in flags.items() if is_set]
    options_hash = hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:32]
    return BatchRequest(plans, plan.languages, options_hash, write_metadata, overwrite, sidecar, archive_names)


def _plan_of_stage(plan: Plan, stage: StageName) -> Plan:
    """The plan of a job with this stage alone. Fields that the stage does not use have the API's default values."""
    has_texts, has_file = stage is StageName.ANALYZE, stage is not StageName.ANALYZE
    return Plan(
        Operation(stage.value),
        plan.languages if has_texts else DEFAULT_LANGUAGES,
        plan.format if stage is StageName.CONVERT else Format.WEBP,
        project_name=plan.project_name,
        context=plan.context if has_texts else "",
        max_width_px=plan.max_width_px if has_file else None,
        max_height_px=plan.max_height_px if has_file else None,
    )


def price(request: BatchRequest, config: Config) -> int:
    """The price of all plans for one picture, in credits."""
    prices = {
        Operation.ANALYZE: config.price_analyze * len(request.languages),
        Operation.OPTIMIZE: config.price_optimize,
        Operation.CONVERT: config.price_convert,
    }
    prices[Operation.PROCESS] = sum(prices.values())
    return sum(prices[plan.operation] for plan in request.plans)
