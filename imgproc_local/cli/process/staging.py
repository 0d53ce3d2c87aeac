"""Copies the results of a finished job to temporary files in the output folder, and writes the texts into them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct, structs

from imgproc_local.batch.files import SIDECAR_ENDING, converted_ending, optimized_ending, sidecar_content
from imgproc_local.cli.process.publishing import Finished
from imgproc_local.cli.process.results import Results, StagedFile
from imgproc_local.cli.process.texts import TextWriter
from imgproc_local.domain.errors import ServiceError
from imgproc_local.domain.job import Job, StageName

CopyResult = Callable[[Job, StageName, Results, str], Awaitable[StagedFile]]
"""Copies the result of a stage to a temporary file. The string is what its name will end with, such as `.jpg`."""


class Stager(Struct, frozen=True):
    """Stages results. `writer`, if given, writes the texts into them; with `sidecar`, a file of the texts is added."""

    results: Results
    copy_result: CopyResult
    writer: TextWriter | None = None
    sidecar: bool = False

    async def stage(self, finished: Finished, job: Job) -> Finished:
        """`finished` with the files of `job`. Raises: OSError, ServiceError; then no file is left behind."""
        files: dict[str, StagedFile | None] = {}
        errors = list(finished.errors)
        try:
            ending = finished.picture.path.suffix.lower()
            if job.details is not None:
                ending = optimized_ending(finished.picture.path, job.details.info.format)
            if job.optimized is not None:
                ending = optimized_ending(finished.picture.path, job.optimized.format)
                files["optimized"] = await self.copy_result(job, StageName.OPTIMIZE, self.results, ending)
            if job.converted is not None:
                new_ending = converted_ending(job.converted.format, ending)
                files["converted"] = await self.copy_result(job, StageName.CONVERT, self.results, new_ending)
            if self.writer is not None and job.translations:
                for kind, staged in list(files.items()):
                    assert staged is not None
                    try:
                        files[kind] = await self.writer.write(staged, job.translations)
                    except ServiceError as error:
                        errors.append((None, f"The texts are not in the {kind} file: {error.message}"))
            if self.sidecar:
                content = sidecar_content(job.translations)
                if content is not None:
                    files["sidecar"] = await asyncio.to_thread(self.results.stage, [content], SIDECAR_ENDING)
        except (OSError, ServiceError):
            for staged in files.values():
                if staged is not None:
                    staged.part.unlink(missing_ok=True)
            raise
        return structs.replace(finished, job=job, errors=tuple(errors), **files)
