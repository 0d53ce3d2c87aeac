"""The arguments of `archive` that are refused before a worker is started."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

from imgproc_local.archive.cluster import require_protected
from imgproc_local.archive.run import _inside_source, absolute
from imgproc_local.domain.errors import InvalidRequest
from tests.cli.conftest import Program
from tests.support import pictures


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing", "target"), "there is no folder"),
        (("source", "source"), "Expected a TARGET outside SOURCE"),
        (("source/deeper", "source"), "Expected a TARGET outside SOURCE"),
        (("source", "target", "--scheduler", "tcp://192.0.2.1:8786"), "Expected a scheduler with TLS"),
        (("source", "target", "--scheduler", "tcp://[::1:8786"), "tls://HOST:8786 (Invalid IPv6 URL)."),
        (("source", "target", "--scheduler", "tls://192.0.2.1:8786", "--workers", "2"), "leave out --workers"),
        (("source", "target", "--overwrite"), "--overwrite needs --write-metadata"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_done(
    program: Program, tmp_path: Path, arguments: tuple[str, str], message: str
) -> None:
    (tmp_path / "source" / "deeper").mkdir(parents=True)
    source, target, *options = arguments
    assert message in program.error("archive", tmp_path / source, tmp_path / target, *options)
    assert not (tmp_path / "target").exists()


def test_files_in_the_places_of_the_tables_are_never_replaced(program: Program, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (tmp_path / "empty").mkdir()
    (source / "stone.jpg").write_bytes(pictures.jpeg())
    target.mkdir()
    for name in ("alt.csv", "archive.parquet"):
        (target / name).write_text("mine")
        assert f"a file that `archive` would replace: {name}." in program.error("archive", source, target)
        assert (target / name).read_text() == "mine"
        (target / name).unlink()
    assert list(target.iterdir()) == [], "a folder that is refused is not marked as a target"
    refused = program.error("archive", tmp_path / "empty", tmp_path / "new")
    assert refused.splitlines()[-1] == "There is no picture in SOURCE."
    assert not (tmp_path / "new").exists(), "without pictures, there are no tables"


def test_only_a_misspelt_location_is_neither_a_folder_nor_a_url() -> None:
    for location in ("", "s3:/bucket/x", "s3//bucket/x", "GS//bucket", "https:/example.org"):
        with pytest.raises(InvalidRequest, match=f"as TARGET, received “{location}”"):
            absolute("TARGET", location)
    for location in ("C:/pictures", "a:b", "pictures//web", "./s3//x", "/srv/s3:/x"):
        assert absolute("TARGET", location) == str(Path(location).absolute())
    assert absolute("TARGET", "S3://Bucket/x/") == "s3://Bucket/x"


def test_settings_that_archives_can_not_follow_are_refused(program: Program, tmp_path: Path) -> None:
    for setting in ({"air_gapped": "true"}, {"compression_service": "tinify", "compression_key": "x"}):
        assert "archive" in program.error("archive", tmp_path, tmp_path / "target", **setting)


def test_an_open_scheduler_elsewhere_has_to_be_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    require_protected("tls://192.0.2.1:8786", allow_open=False)
    assert caplog.text == ""
    for address in ("tcp://127.0.0.1:8786", "localhost:8786", "tcp://[::1]:8786"):
        caplog.clear()
        require_protected(address, allow_open=False)
        assert "other users of this machine can run programs" in caplog.text
    for address in ("tcp://192.0.2.1:8786", "scheduler:8786", "ws://192.0.2.1:8786"):
        with pytest.raises(InvalidRequest):
            require_protected(address, allow_open=False)
        require_protected(address, allow_open=True)


@pytest.mark.parametrize(
    ("source", "target", "key"),
    [
        ("/a/museum", "/a/museum/web", "web"),
        ("/a/museum", "/a/museum-web", None),
        ("s3://museum/scans/", "s3://museum/scans/web", "web"),
        ("s3://museum/scans", "s3://web", None),
        ("file:///a/museum", "/a/museum/web/all", "web/all"),
    ],
)
def test_a_target_inside_the_source_is_not_searched(source: str, target: str, key: str | None) -> None:
    assert _inside_source(absolute("SOURCE", source), absolute("TARGET", target)) == key
