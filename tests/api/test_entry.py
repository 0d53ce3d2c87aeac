"""Request ids and metrics, as clients and administrators see them."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from tests.faults.server_process import make_key, serving
from tests.support import pictures
from tests.support.service import GatedDescriber, Running

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


def samples(text: str) -> dict[str, float]:
    """The samples of an exposition by name and labels; fails where a line is not well-formed."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP|TYPE) imgproc_\w+ .+", line)
            continue
        match = re.fullmatch(r'(imgproc_\w+(?:\{\w+="[^"]*"(?:,\w+="[^"]*")*\})?) ([0-9.e+-]+|\+Inf)', line)
        assert match, line
        found[match[1]] = float(match[2])
    assert text.endswith("\n")
    return found


def test_metrics_count_requests_by_route_and_show_the_queue_and_bytes(
    gated: Running, describer: GatedDescriber
) -> None:
    service = gated
    describer.open.clear()
    picture = pictures.jpeg()
    jobs = [service.dispatch("analyze", picture)["job_id"] for _ in range(3)]
    for path in ("/jobs/01arz3ndektsv4rrffq69g5fav", "/jobs/01arz3ndektsv4rrffq69g5fbb", "/nothing", "/nowhere"):
        assert service.client.get(path).status_code == 404
    answer = httpx.get(f"{service.root}/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    shown = samples(answer.text)
    requests = "imgproc_requests_total"
    assert shown[f'{requests}{{method="POST",route="/api/v1/images/analyze",status="202"}}'] == 3
    assert shown[f'{requests}{{method="GET",route="/api/v1/jobs/{{job_id}}",status="404"}}'] == 2
    assert shown[f'{requests}{{method="GET",route="unmatched",status="404"}}'] == 2
    waiting = sum(
        shown.get(f'imgproc_queue_stages{{lane="vision",state="{state}"}}', 0) for state in ("pending", "running")
    )
    assert waiting == 3
    assert shown["imgproc_stored_bytes"] == len(picture), "the same file is stored once"
    describer.open.set()
    for job in jobs:
        service.final(job)


def test_metrics_need_a_key_under_another_host_name(service: Running) -> None:
    rebound = {"Host": "rebound.example"}
    assert httpx.get(f"{service.root}/metrics", headers=rebound).status_code == 401
    assert httpx.get(f"{service.root}/metrics", headers=rebound | {"X-API-Key": service.key}).status_code == 200
    assert httpx.head(f"{service.root}/metrics").status_code == 200
