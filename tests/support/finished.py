"""Stores jobs with their results directly, for tests and benches that need many of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct

from imgproc_local.compose import Services
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.job import Job, StageName, StoredFile
from imgproc_local.domain.plan import Operation, Plan
from imgproc_local.domain.result import NeedsTextReason, RoleSuggestion, TextSource, Translation
from imgproc_local.storage.blobs import Blob
from imgproc_local.storage.jobs import Submission
from imgproc_local.storage.stages import Stages

LANE, UNFINISHED_LANE = "test", "test unfinished"
"""Lanes that the engine does not serve."""


class Result(Struct, frozen=True):
    data: bytes
    format: Format


def text(language_code: str, name: str, alt: str = "", source: TextSource = TextSource.EMBEDDED) -> Translation:
    reason = NeedsTextReason.NOTHING_KNOWN if source is TextSource.PIXELS else None
    return Translation(language_code, name, alt or f"Text in {language_code}.", source, reason)


async def add_job(
    services: Services,
    original: bytes,
    *,
    name: str = "DSC_0001.JPG",
    format: Format = Format.JPEG,
    optimized: Result | None = None,
    converted: Result | None = None,
    texts: Sequence[Translation] = (),
    suggestion: RoleSuggestion | None = None,
    languages: Sequence[str] = (),
    project: str = "API Uploads",
    folder: str = "",
    info: ImageInfo | None = None,
    account: str = "default",
    errors: Mapping[StageName, str] | None = None,
    unfinished: bool = False,
) -> Job:
    """Store a job with these results, as the engine leaves it. Its stages are those with a result or an error; with
    `unfinished`, they remain pending.
    """
    errors = errors or {}
    made = {StageName.ANALYZE: texts, StageName.OPTIMIZE: optimized, StageName.CONVERT: converted}
    names = [name for name, result in made.items() if result or name in errors]
    account_id = await services.store.keys.account_id(account, create=True)
    plan = Plan(
        operation=Operation.PROCESS,
        languages=tuple(languages or (text.language_code for text in texts)),
        format=Format.WEBP,
        project_name=project,
        folder=folder,
    )
    async with _stored(services, original) as blob:
        job, _ = await services.jobs.submit(
            Submission(
                account_id=account_id,
                plan=plan,
                original_filename=name,
                sha256=blob.sha256,
                size_bytes=blob.size_bytes,
                info=info or ImageInfo(format, 320, 240),
                prices=dict.fromkeys(names, 0),
                lanes=dict.fromkeys(names, UNFINISHED_LANE if unfinished else LANE),
            )
        )
    stages = Stages(services.store.database, 100)
    for _ in () if unfinished else names:
        claimed = await stages.claim(LANE)
        assert claimed is not None
        result = made[claimed.stage]
        if claimed.stage in errors:
            await stages.record_failed(claimed, errors[claimed.stage])
        elif isinstance(result, Result):
            async with _stored(services, result.data) as blob:
                await stages.record_done(claimed, StoredFile(blob.sha256, blob.size_bytes, result.format), ())
        else:
            await stages.record_done(claimed, None, texts, suggestion=suggestion)
    return await services.jobs.get(job.id)


@asynccontextmanager
async def _stored(services: Services, data: bytes) -> AsyncIterator[Blob]:
    """The file with this content, which is not deleted inside the block."""
    with services.blobs.incoming() as incoming:
        incoming.write(data)
        async with services.blobs.stored(incoming) as blob:
            yield blob
