"""`doctor --report`: what it contains and what it replaces."""

from __future__ import annotations

from tests.cli.conftest import Program
from tests.faults.server_process import make_key, serving
from tests.support import pictures

COMPRESSION_KEY = "outside-service-word"
PICTURE = "Mia am Strand – privat.jpg"


def test_no_planted_secret_is_in_the_report(program: Program) -> None:
    import httpx

    key = make_key(program.data)
    with serving(program.data) as server:
        answer = httpx.post(
            f"{server.root}/api/v1/images/optimize",
            files={"image": (PICTURE, pictures.jpeg())},
            headers={"X-API-Key": key, "Prefer": "wait=60"},
            timeout=90,
        )
        assert answer.json()["data"]["status"] == "completed"
        server.terminate()
    token = "aB3-_" * 9
    home = program.data.parent
    with (program.data / "logs" / "imgproc.log").open("a", encoding="utf-8") as log:
        log.write(f"a line with {key} and {COMPRESSION_KEY}, {PICTURE}, /?token={token}\n")
        log.write(f"{home}/pictures/'Oma zu Hause.png' of maxmustermann: \x1b[31m\n")
    result = program.in_process(
        "doctor",
        "--report",
        compression_service="tinify",
        compression_key=COMPRESSION_KEY,
        compression_url="https://tiny.meier-intern.example/",
        models_dir=home / "a drive of mine",
    )
    assert result.exit_code == 1  # models_dir does not exist
    report = result.stdout
    for secret in (
        key,
        COMPRESSION_KEY,
        token,
        PICTURE,
        "Strand",
        "Oma",
        str(home),
        "a drive of mine",
        "meier-intern",
        "\x1b",
    ):
        assert secret not in report, report
    assert "a line with imgp_… and KEY, PICTURE, /?token=…" in report
    assert "compression_service = tinify" in report
    assert "serves http://127.0.0.1" in report
    assert "libvips" in report
    assert "Read the report" in report


def test_invalid_settings_are_reported_too(program: Program) -> None:
    result = program.in_process("doctor", "--report", port=99999)
    assert result.exit_code == 1
    assert "port (IMGPROC_PORT)" in result.stdout
    assert "sqlite" in result.stdout


def test_report_and_json_can_not_be_combined(program: Program) -> None:
    result = program.in_process("doctor", "--report", "--json")
    assert result.exit_code == 2
    assert "--json" in result.stderr
