"""The log file of the server: its content, its modes and bounded size, and that the server runs without it."""

from __future__ import annotations

import logging
import stat
import sys
from collections.abc import Iterator
from logging.handlers import RotatingFileHandler
from pathlib import Path
from unittest import mock

import pytest

from imgproc_local.cli import log_file
from tests.faults.server_process import serving

KEY = "imgp_" + "aB3" * 10


@pytest.fixture
def log(tmp_path: Path) -> Iterator[logging.Logger]:
    """The root logger. Handlers that the test adds are removed afterwards."""
    root = logging.getLogger()
    before = list(root.handlers)
    level = root.level
    root.setLevel(logging.INFO)
    yield root
    root.setLevel(level)
    for handler in set(root.handlers) - set(before):
        root.removeHandler(handler)
        log_file.lifecycle.removeHandler(handler)
        handler.close()


def written(tmp_path: Path) -> str:
    return (tmp_path / "logs" / "imgproc.log").read_text(encoding="utf-8")


def test_a_server_logs_to_a_file_and_takes_its_folder_from_other_users(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    with serving(folder) as server:
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("imgproc.*")}
        assert server.terminate() == 0
        console = server.output()
    text = written(folder)
    assert f"serves {server.root} as process {server.pid}" in text
    assert text.rstrip().endswith("stopped")
    assert "token=" not in text
    assert "as process" not in console, "the start is logged to the file only"
    if sys.platform != "win32":
        assert f"other users could read {folder} (mode 755)" in console
        assert {stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "logs")} == {0o700}
        assert {"imgproc.db", "imgproc.log"} <= modes.keys()
        assert modes == dict.fromkeys(modes, 0o600)


def test_keys_and_tokens_are_not_logged_nor_in_tracebacks(tmp_path: Path, log: logging.Logger) -> None:
    log_file.log_to_file(tmp_path)
    log.info("a key %s, a link /?token=abc-DEF_1, Authorization: Bearer abc.def, %s", KEY, "hf_abcdef")
    log.error("it failed", exc_info=ValueError(KEY))
    text = written(tmp_path)
    assert "it failed" in text
    assert "ValueError: imgp_…" in text
    for secret in (KEY, KEY[5:], "abc-DEF_1", "abc.def", "hf_abcdef"):
        assert secret not in text


def test_an_act_that_can_not_be_logged_leaves_no_open_audit_log(tmp_path: Path) -> None:
    with mock.patch.object(log_file, "audit", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        log_file.log_act(tmp_path, "key.create")
    assert not [each for each in log_file.audit_log.handlers if isinstance(each, RotatingFileHandler)]


def test_the_log_has_a_bounded_size(tmp_path: Path, log: logging.Logger) -> None:
    log_file.log_to_file(tmp_path, max_bytes=2000)
    log.handlers[-1].filters.clear()  # they limit the number of lines
    for number in range(500):
        log_file.lifecycle.info("line %d ä", number)
    sizes = [file.stat().st_size for file in (tmp_path / "logs").iterdir()]
    assert (len(sizes), max(sizes) <= 2000) == (1 + log_file._OLDER_FILES, True)
    assert written(tmp_path).splitlines()[-1].endswith("line 499 ä")


def test_messages_of_one_kind_are_limited_and_the_last_one_says_so(
    tmp_path: Path, log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_file.log_to_file(tmp_path)
    now_s = 1000.0
    monkeypatch.setattr(log_file.time, "monotonic", lambda: now_s)
    for windows in (1, 2):
        for number in range(100):
            log.warning("bad request %d", number)
            log.warning("broken %d", number, exc_info=ValueError("a") if number % 2 else KeyError("a"))
        log.info("another")
        text = written(tmp_path)
        assert text.count("bad request") == windows * log_file._MAX_RECORDS
        assert text.count("broken") == windows * log_file._MAX_TRACEBACKS * 2, "of each error"
        assert text.count("another") == windows
        assert text.count("more messages of this kind are not logged within 60 seconds") == 3 * windows
        now_s += log_file._WINDOW_S


def test_a_log_that_can_not_be_written_is_reported_once_and_the_server_runs(
    tmp_path: Path, log: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    log_file.log_to_file(tmp_path)
    (handler,) = [each for each in log.handlers if isinstance(each, RotatingFileHandler)]
    handler.stream.close()
    handler.stream = mock.Mock(**{"write.side_effect": OSError(28, "No space left on device"), "tell.return_value": 0})
    for _ in range(3):
        log.info("a line")
    assert capsys.readouterr().err.count("can't be written now") == 1

    folder = tmp_path / "data"
    (folder / "logs").mkdir(parents=True)
    if sys.platform != "win32":
        (folder / "logs" / "imgproc.log").symlink_to(tmp_path / "elsewhere")
        log_file.log_to_file(folder)
        assert "can't be written (imgproc.log is not a regular file)" in capsys.readouterr().err
        assert not (tmp_path / "elsewhere").exists()
        (folder / "logs" / "imgproc.log").unlink()
    (folder / "logs").rmdir()
    (folder / "logs").write_bytes(b"a file where the folder should be")
    with serving(folder) as server:
        assert "can't be written" in server.output()
        assert server.terminate() == 0
