"""Stores jobs with their results directly, for tests and benches that need many of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from imgproc_local.compose import Services
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.job import Job, StageName, StoredFile
from imgproc_local.domain.plan import Operation, Plan
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.storage.jobs import Submission
from imgproc_local.storage.stages import Stages

LANE, UNFINISHED_LANE = "test", "test unfinished"
"""Lanes that the engine does not serve."""


class Result(Struct, frozen=True):
    data: bytes
    format: Format


def text(language_code: str, name: str, alt: str = "", source: TextSource = TextSource.EMBEDDED) -> Translation:
    return Translation(language_code, name, alt or f"Text in {language_code}.", source)


async def add_job(
    services: Services,
    original: bytes,
    *,
    name: str = "DSC_0001.JPG",
    format: Format = Format.JPEG,
    optimized: Result | None = None,
    converted: Result | None = None,
    texts: Sequence[Translation] = (),
    languages: Sequence[str] = (),
    project: str = "API Uploads",
    account: str = "default",
    errors: Mapping[StageName, str] | None = None,
    unfinished: bool = False,
) -> Job:
    """Store a job with these results, as the engine leaves it. Its stages are those with a result or an error; with
    `unfinished`, they remain pending.
    """
    errors = errors or {}
    results: dict[StageName, tuple[Result | None, Sequence[Translation]]] = {}
    if texts or StageName.ANALYZE in errors:
        results[StageName.ANALYZE] = (None, texts)
    if optimized or StageName.OPTIMIZE in errors:
        results[StageName.OPTIMIZE] = (optimized, ())
    if converted or StageName.CONVERT in errors:
        results[StageName.CONVERT] = (converted, ())
    account_id = await services.store.keys.account_id(account, create=True)
    with services.blobs.incoming() as incoming:
        incoming.write(original)
        async with services.blobs.stored(incoming) as blob:
            job, _ = await services.jobs.submit(
                Submission(
                    account_id=account_id,
                    plan=Plan(
                        operation=Operation.PROCESS,
                        languages=tuple(languages or (text.language_code for text in texts)),
                        format=Format.WEBP,
                        project_id=None,
                        project_name=project,
                    ),
                    original_filename=name,
                    sha256=blob.sha256,
                    size_bytes=blob.size_bytes,
                    info=ImageInfo(format, 320, 240),
                    prices=dict.fromkeys(results, 0),
                    lanes=dict.fromkeys(results, UNFINISHED_LANE if unfinished else LANE),
                )
            )
    if unfinished:
        return job
    stages = Stages(services.store.database)
    for _ in results:
        claimed = await stages.claim(LANE)
        assert claimed is not None
        result, written = results[claimed.stage]
        if claimed.stage in errors:
            await stages.record_failed(claimed, errors[claimed.stage])
        elif result is None:
            await stages.record_done(claimed, None, written)
        else:
            with services.blobs.incoming() as incoming:
                incoming.write(result.data)
                async with services.blobs.stored(incoming) as blob:
                    file = StoredFile(blob.sha256, blob.size_bytes, result.format)
                    await stages.record_done(claimed, file, ())
    return await services.jobs.get(job.id)
