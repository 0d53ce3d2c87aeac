"""Request ids and metrics, as clients and administrators see them."""

from __future__ import annotations

import itertools
import math
import os
import re
import signal
import sys
import threading
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from imgproc_local import __version__
from imgproc_local.domain.errors import NoWorker
from imgproc_local.engine import runner
from imgproc_local.storage.database import LIST_READERS, QUERIES
from tests.faults.server_process import make_key, serving
from tests.support import pictures
from tests.support.service import GatedDescriber, Running
from tests.support.worker_pool import wait_until

PACKAGING = Path(__file__).parents[2] / "packaging" / "README.md"
GENERATED = re.compile(r"[0-9a-f]{16}")


# ---- request ids ----


def test_every_answer_has_a_request_id_of_its_own_and_no_sniffed_type(service: Running) -> None:
    answers = [
        httpx.get(f"{service.url}/languages"),
        httpx.get(f"{service.url}/nothing"),
        httpx.get(f"{service.url}/jobs"),
        httpx.get(service.root),
        httpx.options(f"{service.url}/jobs"),
    ]
    identifiers = [answer.headers["x-request-id"] for answer in answers]
    assert all(GENERATED.fullmatch(identifier) for identifier in identifiers)
    assert len(set(identifiers)) == len(answers)
    assert {answer.headers["x-content-type-options"] for answer in answers} == {"nosniff"}


@pytest.mark.parametrize("sent", ["a", "shop-42_x.Y", "0" * 64, "", "0" * 65, "a b", "é", "a=1", "a,b"])
def test_a_well_formed_request_id_of_a_client_is_returned_and_any_other_replaced(service: Running, sent: str) -> None:
    received = httpx.get(f"{service.url}/languages", headers=[(b"X-Request-Id", sent.encode())]).headers["x-request-id"]
    assert received == sent if re.fullmatch(r"[\w.-]{1,64}", sent, re.ASCII) else GENERATED.fullmatch(received)


def test_the_log_names_the_request_of_an_unexpected_error(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    key = make_key(folder)
    with serving(folder) as server:
        root = server.wait_ready()
        answer = httpx.post(
            f"{root}/api/v1/images/optimize",
            headers={"X-API-Key": key, "X-Request-Id": "traced-1", "Content-Type": "multipart/form-data; boundary=x"},
            content=b"--x\r\nnot a form",
        )
        assert answer.status_code == 422
    assert "(request traced-1)" in (folder / "logs" / "imgproc.log").read_text()


# ---- metrics ----


Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scraped(service: Running) -> Samples:
    """The samples of the exposition by name and labels, as Prometheus' own client reads them."""
    answer = httpx.get(f"{service.root}/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float | None:
    return found.get((name, frozenset(labels.items())))


def test_metrics_count_requests_by_route_and_show_the_queue_and_bytes(
    gated: Running, describer: GatedDescriber
) -> None:
    service = gated
    idle = scraped(service)
    for lane, state in itertools.product(("codecs", "vision"), ("pending", "running")):
        assert value(idle, "imgproc_queue_stages", lane=lane, state=state) == 0
    describer.open.clear()
    picture = pictures.jpeg()
    jobs = [service.dispatch("analyze", picture)["job_id"] for _ in range(3)]
    for path in ("/jobs/01arz3ndektsv4rrffq69g5fav", "/jobs/01arz3ndektsv4rrffq69g5fbb", "/nothing", "/nowhere"):
        assert service.client.get(path).status_code == 404
    httpx.request("BREW", f"{service.root}/nowhere")
    running = {"lane": "vision", "state": "running"}
    assert wait_until(lambda: value(scraped(service), "imgproc_queue_stages", **running) == 1)
    found = scraped(service)
    for method, route, status, count in (
        ("POST", "/api/v1/images/analyze", "202", 3),
        ("GET", "/api/v1/jobs/{job_id}", "404", 2),
        ("GET", "unmatched", "404", 2),
        ("other", "unmatched", "404", 1),
    ):
        labels = {"method": method, "route": route, "status": status}
        assert value(found, "imgproc_requests_total", **labels) == count
        assert value(found, "imgproc_request_duration_seconds_count", **labels) == count
        assert value(found, "imgproc_request_duration_seconds_bucket", **labels, le="+Inf") == count
    waiting = [value(found, "imgproc_queue_stages", lane="vision", state=state) for state in ("pending", "running")]
    assert waiting == [2, 1]
    assert value(found, "imgproc_stored_bytes") == len(picture), "the same file is stored once"
    describer.open.set()
    for job in jobs:
        service.final(job)


def test_metrics_show_stages_by_outcome_deaths_of_workers_and_the_version(
    gated: Running, describer: GatedDescriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stages(found: Samples) -> dict[tuple[str, str], float]:
        name = "imgproc_stage_duration_seconds_count"
        return {
            (labels["stage"], labels["outcome"]): number
            for (sample, pairs), number in found.items()
            if sample == name and (labels := dict(pairs))
        }

    idle = scraped(gated)
    words = ("done", "failed", "cancelled", "repeated")
    assert stages(idle) == dict.fromkeys(itertools.product(("analyze", "optimize", "convert"), words), 0)
    assert value(idle, "imgproc_worker_deaths_total") == 0
    assert value(idle, "imgproc_build_info", version=__version__) == 1
    assert (value(idle, "imgproc_disk_free_bytes") or 0) > 0
    if sys.platform == "linux":
        assert (value(idle, "process_resident_memory_bytes") or 0) > 0
    monkeypatch.setattr(runner, "STORAGE_RETRY_S", 0.01)
    gated.process("process", pictures.jpeg())
    describer.error = RuntimeError("broken")
    gated.process("analyze", pictures.jpeg(seed=1))
    describer.error = NoWorker("No worker.")
    waiting = gated.dispatch("analyze", pictures.jpeg(seed=2))["job_id"]
    assert wait_until(lambda: stages(scraped(gated))["analyze", "repeated"] > 0)
    describer.error = None
    gated.final(waiting)
    describer.open.clear()
    deleted = gated.dispatch("analyze", pictures.jpeg(seed=3))["job_id"]
    assert wait_until(lambda: gated.job(deleted)["status"] == "analyzing")
    gated.client.delete(f"/jobs/{deleted}").raise_for_status()
    assert wait_until(lambda: stages(scraped(gated))["analyze", "cancelled"] == 1)
    found = stages(scraped(gated))
    assert {key: found[key] for key in found if found[key] and key != ("analyze", "repeated")} == {
        ("analyze", "done"): 2,
        ("analyze", "failed"): 1,
        ("analyze", "cancelled"): 1,
        ("optimize", "done"): 1,
        ("convert", "done"): 1,
    }


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use can't be renamed")
def test_metrics_are_served_without_the_data_folder_or_a_database_that_can_be_read(
    gated: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = gated.services.config.data_dir
    idle = scraped(gated)
    monkeypatch.setitem(QUERIES, "queue_depths", "SELECT * FROM lost")
    folder.rename(folder.with_name("elsewhere"))
    try:
        found = scraped(gated)
    finally:
        folder.with_name("elsewhere").rename(folder)
    numbers = [found.pop((name, frozenset())) for name in ("imgproc_stored_bytes", "imgproc_disk_free_bytes")]
    assert all(map(math.isnan, numbers))
    queue = {sample for sample in idle if sample[0] == "imgproc_queue_stages"}
    assert queue
    assert not queue & found.keys()
    assert value(found, "imgproc_requests_total", method="GET", route="/metrics", status="200") == 1
    monkeypatch.undo()
    assert scraped(gated).keys() >= idle.keys()


def test_metrics_do_not_wait_for_lists(gated: Running) -> None:
    database, lists = gated.services.store.database, AsyncExitStack()
    for _ in range(LIST_READERS):
        gated.run(lists.enter_async_context(database.listing()))
    try:
        assert value(scraped(gated), "imgproc_stored_bytes") == 0
        assert len(gated.run(gated.services.store.keys.all())) == 1
    finally:
        gated.run(lists.aclose())


def test_metrics_count_a_damaged_upload_and_no_stage_that_got_no_thread(
    gated: Running, describer: GatedDescriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoThreads:
        def submit(self, *_: object) -> None:
            raise RuntimeError("can't start new thread")

    threads = gated.services.engine._runner._pipeline.lanes.threads  # type: ignore[union-attr]
    monkeypatch.setitem(threads, "codecs", NoThreads())
    assert gated.process("optimize", pictures.jpeg())["status"] == "failed"
    name = "imgproc_stage_duration_seconds_count"
    assert value(scraped(gated), name, stage="optimize", outcome="failed") == 0
    monkeypatch.undo()
    describer.open.clear()
    jobs = [gated.dispatch("analyze", pictures.jpeg(seed=seed))["job_id"] for seed in range(1, 3)]
    assert wait_until(lambda: gated.job(jobs[0])["status"] == "analyzing")
    for file in (gated.services.config.data_dir / "files").rglob("*"):
        if file.is_file():
            file.unlink()
    describer.open.set()
    statuses = [gated.final(job_id)["status"] for job_id in jobs]
    assert statuses[1] == "failed"
    # the first one may have begun without having read its upload
    assert value(scraped(gated), name, stage="analyze", outcome="failed") == statuses.count("failed")


def test_every_metric_is_documented_and_every_documented_one_exists(service: Running) -> None:
    names = re.findall(r"# HELP (imgproc_\w+)", httpx.get(f"{service.root}/metrics").text)
    rows = re.findall(r"^\| `(imgproc_\w+)`", PACKAGING.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(names) == sorted(rows)


@pytest.mark.skipif(sys.platform == "win32", reason="a process is stopped by a signal")
def test_metrics_count_a_worker_that_died(gated: Running) -> None:
    gated.process("optimize", pictures.jpeg())
    [pid] = gated.services.engine.workers.pids
    os.kill(pid, signal.SIGSTOP)
    job = threading.Thread(target=gated.process, args=("optimize", pictures.jpeg(seed=1)))
    job.start()
    assert wait_until(lambda: bool(gated.services.engine.workers._busy))
    os.kill(pid, signal.SIGKILL)
    job.join()
    assert value(scraped(gated), "imgproc_worker_deaths_total") == 1


def test_metrics_need_a_key_under_another_host_name(service: Running) -> None:
    rebound = {"Host": "rebound.example"}
    assert httpx.get(f"{service.root}/metrics", headers=rebound).status_code == 401
    assert httpx.get(f"{service.root}/metrics", headers=rebound | {"X-API-Key": service.key}).status_code == 200
    assert httpx.head(f"{service.root}/metrics").status_code == 200
