"""What a run requests for each of its pictures, and the hash that shows whether an earlier run requested the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from imgproc_local.config import Config
from imgproc_local.domain.image import Format
from imgproc_local.domain.plan import Plan, accepted_formats, target_score


class BatchRequest(Struct, frozen=True):
    """What a run makes of each picture: the results of all `plans`.

    `options_hash` tells a later run whether it would make the same. `write_metadata` writes the texts into the results,
    and `overwrite` also replaces those that the pictures have; `sidecar` writes them to files beside the results. With
    `archive_names`, the names of results do not depend on other pictures (`domain.slug.archive_name`).
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


def options_hash(plans: Sequence[Plan], flags: Sequence[str], config: Config, model: str | None) -> str:
    """A hash of all that changes the results. `model` is the name of the vision model.

    Manifests store it instead of its content, because the text of --context must not be stored.
    """
    content = [
        msgspec.to_builtins(plans),
        target_score(config.quality_target),
        config.effort,
        config.keep_location.value,
        False,  # `use_gps` of 0.1.0: with it, a run after an upgrade does not process everything again
        config.pixel_texts,
        config.compression_service,
        model,
        *flags,
    ]
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:32]
