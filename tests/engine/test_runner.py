"""The engine in a service: deadlines, stages that have no worker, errors while recording, and deletions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from imgproc_local.domain.errors import NoWorker
from imgproc_local.domain.job import Job
from imgproc_local.engine import runner
from imgproc_local.storage.stages import ClaimedStage, Stages
from tests.support import pictures
from tests.support.service import GatedDescriber, Running, running
from tests.support.worker_pool import wait_until


def test_a_stage_past_its_deadline_fails(tmp_path: Path, describer: GatedDescriber) -> None:
    describer.open.clear()
    with running(tmp_path, lambda: describer, stage_timeout_s=1) as service:
        job = service.process("analyze", pictures.jpeg())
        assert job["status"] == "failed"
        assert "1 seconds" in job["errors"][0]["message"]


def test_a_stage_without_a_worker_runs_again_and_the_engine_says_why_it_waits(
    gated: Running, describer: GatedDescriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "STORAGE_RETRY_S", 0.01)
    engine = gated.services.engine

    def says(problem: str | None) -> bool:
        return wait_until(lambda: engine.problem == problem)

    describer.error = NoWorker("No worker.")
    job_id = gated.dispatch("analyze", pictures.jpeg())["job_id"]
    assert says("No worker.")
    describer.error = RuntimeError("can't start new thread")
    assert says("The system starts no more threads for this user, or has no memory left.")
    describer.error = None
    assert gated.final(job_id)["status"] == "completed"
    assert says(None)
    describer.error = NoWorker("No worker.")
    waiting = gated.dispatch("analyze", pictures.jpeg(seed=1))["job_id"]
    assert says("No worker.")
    gated.client.delete(f"/jobs/{waiting}").raise_for_status()
    assert says(None), "nothing is waiting any more"


def test_an_unexpected_error_while_recording_fails_the_stage_and_its_lane_continues(
    gated: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_done = Stages.record_done

    async def breaks_on_odd_names(stages: Stages, claimed: ClaimedStage, *result: Any) -> Job | None:
        if claimed.job.original_filename == "odd.jpg":
            raise ValueError("surrogates not allowed")
        return await record_done(stages, claimed, *result)

    monkeypatch.setattr(Stages, "record_done", breaks_on_odd_names)
    failed = gated.process("optimize", pictures.jpeg(), "odd.jpg")
    assert failed["status"] == "failed"
    assert "Server Error" in failed["errors"][0]["message"]
    assert gated.process("optimize", pictures.jpeg(seed=1))["status"] == "completed"
    assert gated.services.engine.problem is None


def test_jobs_that_are_deleted_while_they_run_leave_no_file(gated: Running) -> None:
    for seed in range(5):
        job_id = gated.dispatch("process", pictures.jpeg(320, 240, seed))["job_id"]
        gated.client.delete(f"/jobs/{job_id}").raise_for_status()
    gated.process("optimize", pictures.jpeg(seed=9))

    def only_referenced() -> bool:
        referenced = gated.run(gated.services.jobs.referenced_files())
        return {file.name for file in gated.services.blobs.on_disk()} == referenced

    assert wait_until(only_referenced)
