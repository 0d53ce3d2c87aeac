"""Downloads of models from a hub: they are complete or not installed, can be resumed, and fail with a message."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.domain.errors import DataFolderBusy, ModelUnusable, StorageFailed
from imgproc_local.vision.models.catalogue import CatalogueFile, Entry
from imgproc_local.vision.models.install import ImportOptions, import_model
from imgproc_local.vision.models.pull import pull_model, pull_to
from imgproc_local.vision.models.store import ModelStore
from tests.support.gguf_files import gguf, projector, text_model
from tests.support.hub import COMMIT, OLD_REPOSITORY, REPOSITORY, Hub, hub_with
from tests.support.installed import check_folder, ignore_progress, skip_self_test

TEXT = gguf({"general.architecture": "llama", "llama.embedding_length": 64}, {"a": (64, 20_000)})  # 5 MB
MMPROJ = projector(64)
MEGABYTE = 1024 * 1024


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A hub on this machine to which HF_ENDPOINT points, and a token in HF_TOKEN."""
    with hub_with({"T.gguf": TEXT, "M.gguf": MMPROJ}) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        monkeypatch.setattr("time.sleep", lambda _: None)  # the pause before a retry
        yield running


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def entry(text_sha256: str = "", **changes: Any) -> Entry:
    fields = {
        "repository": REPOSITORY,
        "text": CatalogueFile("T.gguf", 1, text_sha256),
        "mmproj": CatalogueFile("M.gguf", 1),
        "licence": "MIT",
        "image_tokens": 33,
    }
    return Entry(**(fields | changes))


def failure(models: ModelStore, **changes: Any) -> str:
    """The message of a pull that fails and installs nothing. `changes` are those of the catalogue entry."""
    with pytest.raises(ModelUnusable) as caught:
        pull_model(models, "a", entry(**changes), skip_self_test, ignore_progress)
    check_folder(models, [])
    return caught.value.message


def test_a_pulled_model_has_the_files_and_the_commit_of_the_hub(hub: Hub, models: ModelStore) -> None:
    progress: list[tuple[str, int, int]] = []
    manifest = pull_model(models, "a", entry(), skip_self_test, lambda *step: progress.append(step))
    model = models.model("a")
    assert model.text_path.read_bytes() == TEXT
    assert model.mmproj_path.read_bytes() == MMPROJ
    assert manifest.text.sha256 == sha256(TEXT)
    assert manifest.origin == f"{REPOSITORY}@{COMMIT}"
    assert (manifest.licence, model.chat.image_tokens) == ("MIT", 33)
    assert models.selected() == "a"
    check_folder(models, ["a"])
    assert list(models.partial_folder.iterdir()) == []
    downloaded = [done for step, done, total in progress if step == "downloading T.gguf"]
    assert downloaded[-1] == len(TEXT)
    assert len(downloaded) > 4, "the progress is reported while downloading"


def test_only_needed_files_are_requested_and_the_token_is_sent_to_the_hub_only(hub: Hub, models: ModelStore) -> None:
    pull_model(models, "a", entry(), skip_self_test, ignore_progress)
    requested = [(method, path) for method, path, _ in hub.requests]
    root = f"/{REPOSITORY}/resolve"
    assert requested == [
        ("HEAD", f"{root}/main/T.gguf"),
        ("HEAD", f"{root}/{COMMIT}/M.gguf"),
        ("GET", f"{root}/{COMMIT}/T.gguf"),
        ("GET", "/store/T.gguf"),
        ("GET", f"{root}/{COMMIT}/M.gguf"),
        ("GET", "/store/M.gguf"),
    ]
    for _, path, headers in hub.requests:
        assert ("hf_secret" in headers.get("authorization", "")) == (not path.startswith("/store/")), path


def test_a_renamed_repository_is_found(hub: Hub, models: ModelStore) -> None:
    pull_model(models, "a", entry(repository=OLD_REPOSITORY), skip_self_test, ignore_progress)
    assert models.model("a").text_path.read_bytes() == TEXT


def test_a_mirror_that_sends_the_files_itself_is_a_hub(hub: Hub, models: ModelStore) -> None:
    hub.is_mirror = True
    pull_model(models, "a", entry(), skip_self_test, ignore_progress)
    assert models.model("a").text_path.read_bytes() == TEXT
    models.remove("a")
    hub.extra_headers = {"ETag": '"0123"'}
    assert "does not report" in failure(models)


def test_the_token_is_not_sent_to_another_host_that_a_repository_is_redirected_to(hub: Hub, models: ModelStore) -> None:
    other = hub.store_url.removeprefix("http://")
    for moved_to in (f"//{other}", f"/\t/{other}", f"/\\{other}", f"\\\\{other}", hub.store_url):
        hub.moved_to = moved_to + "/stolen"
        failure(models, repository=OLD_REPOSITORY)
    for _, _, headers in hub.requests:
        assert "hf_secret" not in headers.get("authorization", "") or headers["host"] in hub.url


def test_a_broken_connection_is_resumed(hub: Hub, models: ModelStore) -> None:
    hub.cut_after = [2 * MEGABYTE, MEGABYTE]
    pull_model(models, "a", entry(), skip_self_test, ignore_progress)
    assert hub.ranges()[:3] == ["", f"bytes={2 * MEGABYTE}-", f"bytes={3 * MEGABYTE}-"]
    assert models.model("a").text_path.read_bytes() == TEXT


def test_an_unfinished_pull_is_resumed_by_the_next_one(hub: Hub, models: ModelStore) -> None:
    hub.cut_after = [2 * MEGABYTE, *[0] * 20]
    assert "to resume" in failure(models)
    assert [path.stat().st_size for path in models.partial_folder.iterdir()] == [2 * MEGABYTE]
    hub.cut_after = []
    hub.requests.clear()
    pull_model(models, "a", entry(), skip_self_test, ignore_progress)
    assert hub.ranges() == [f"bytes={2 * MEGABYTE}-", ""]
    assert models.model("a").text_path.read_bytes() == TEXT
    check_folder(models, ["a"])


def test_without_range_requests_the_whole_file_is_sent_again(hub: Hub, models: ModelStore) -> None:
    hub.knows_ranges = False
    hub.cut_after = [2 * MEGABYTE]
    pull_model(models, "a", entry(), skip_self_test, ignore_progress)
    assert models.model("a").text_path.read_bytes() == TEXT


def test_without_range_requests_a_download_that_does_not_get_further_ends(hub: Hub, models: ModelStore) -> None:
    hub.knows_ranges = False
    hub.cut_after = [3 * MEGABYTE, *[MEGABYTE, 2 * MEGABYTE] * 20]
    assert "to resume" in failure(models)
    assert len(hub.ranges()) == 2


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (TEXT[:-1] + b"\x01", "T.gguf is not the expected file"),
        (TEXT[:-1], "sent fewer bytes of T.gguf"),
        (TEXT + b"more", "sent more bytes of T.gguf"),
    ],
)
def test_a_download_that_differs_from_the_metadata_of_the_hub_is_discarded(
    hub: Hub, models: ModelStore, sent: bytes, message: str
) -> None:
    hub.sent = {"T.gguf": sent}
    assert message in failure(models)
    hub.sent = {}
    pull_model(models, "a", entry(), skip_self_test, ignore_progress)
    assert models.model("a").text_path.read_bytes() == TEXT


def test_a_file_that_differs_from_the_catalogue_is_not_downloaded(hub: Hub, models: ModelStore) -> None:
    assert "expected the SHA-256 000" in failure(models, text_sha256="0" * 64)
    assert hub.ranges() == []
    pull_model(models, "a", entry(text_sha256=sha256(TEXT)), skip_self_test, ignore_progress)


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        ((401, ""), "Set HF_TOKEN to a token with access; that of `hf auth login` is not read"),
        ((403, ""), "request access"),
        ((404, ""), "no T.gguf or no M.gguf of someone/Some-Model-GGUF at 'main'"),
        ((429, ""), "too many requests"),
        ((500, ""), "answered with 500"),
    ],
)
def test_an_error_of_the_hub_is_explained(
    hub: Hub, models: ModelStore, refusal: tuple[int, str], expected: str
) -> None:
    hub.refusal = refusal
    message = failure(models)
    assert expected in message
    assert "hf_secret" not in message


@pytest.mark.parametrize("facts", [{"X-Linked-Etag": '"abc"'}, {"X-Linked-Size": "many"}, {"X-Repo-Commit": ""}])
def test_a_server_that_is_no_hub_is_reported(hub: Hub, models: ModelStore, facts: dict[str, str]) -> None:
    hub.extra_headers = facts
    assert "127.0.0.1" in failure(models)


def test_without_a_network_the_message_says_how_to_use_another_machine(
    hub: Hub, models: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    message = failure(models)
    assert "127.0.0.1:9 can't be reached" in message
    assert "--to DIR" in message
    monkeypatch.setenv("HF_ENDPOINT", "http://user:secret@127.0.0.1:9")
    message = failure(models)
    assert "127.0.0.1:9" in message
    assert "secret" not in message
    monkeypatch.setenv("HF_ENDPOINT", "nonsense")
    assert "HF_ENDPOINT" in failure(models)


def test_nothing_is_downloaded_offline(hub: Hub, models: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "HF_HUB_OFFLINE is set: nothing is downloaded" in failure(models)
    assert hub.requests == []
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    pull_model(models, "a", entry(), skip_self_test, ignore_progress)


def test_the_proxy_of_the_environment_is_used(hub: Hub, models: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    assert "can't be reached" in failure(models)
    assert hub.requests == []


def test_a_model_that_fails_its_self_test_is_not_installed_and_not_downloaded_again(
    hub: Hub, models: ModelStore
) -> None:
    def fail(_: object) -> None:
        raise ModelUnusable("It does not work.")

    with pytest.raises(ModelUnusable, match="does not work"):
        pull_model(models, "a", entry(), fail, ignore_progress)
    check_folder(models, [])
    hub.requests.clear()
    pull_model(models, "a", entry(), skip_self_test, ignore_progress)
    assert hub.ranges() == []


def test_an_installed_model_is_not_pulled_again(hub: Hub, models: ModelStore) -> None:
    pull_model(models, "a", entry(), skip_self_test, ignore_progress)
    hub.requests.clear()
    with pytest.raises(ModelUnusable, match="installed already"):
        pull_model(models, "a", entry(), skip_self_test, ignore_progress)
    assert hub.requests == []


def test_a_model_larger_than_the_free_space_is_not_downloaded(
    hub: Hub, models: ModelStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usage = __import__("shutil").disk_usage(tmp_path)._replace(free=len(TEXT))
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(StorageFailed, match="are needed"):
        pull_model(models, "a", entry(), skip_self_test, ignore_progress)
    assert hub.ranges() == []
    check_folder(models, [])


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 8 MB, slightly larger than the model."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    folder = tmp_path / "tiny"
    folder.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if subprocess.run(options, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small disk can't be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_pull_to_a_real_disk_that_gets_full_is_resumed(hub: Hub, tiny_disk: Path) -> None:
    models, ballast = ModelStore(tiny_disk / "models"), tiny_disk / "ballast"

    def fill(what: str, done_bytes: int, _: int) -> None:
        if not ballast.exists() and done_bytes >= 2 * MEGABYTE:
            with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="space"):
                while file.write(bytes(4096)):
                    pass

    with pytest.raises(StorageFailed, match="is full"):
        pull_model(models, "a", entry(), skip_self_test, fill)
    check_folder(models, [])
    ballast.unlink()
    pull_model(models, "a", entry(), skip_self_test, ignore_progress)
    assert hub.ranges()[-2].startswith("bytes="), "the download was not resumed"
    check_folder(models, ["a"])


def test_a_folder_for_another_machine_is_complete_and_is_imported_without_a_network(
    hub: Hub, models: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = tmp_path / "moved"
    hub.cut_after = [2 * MEGABYTE, *[0] * 20]
    with pytest.raises(ModelUnusable):
        pull_to(moved, "a", entry(), ignore_progress)
    hub.cut_after = []
    pull_to(moved, "a", entry(), ignore_progress)
    assert {path.name for path in moved.iterdir()} == {"manifest.json", "text.gguf", "mmproj.gguf"}
    assert hub.ranges()[-2:] == [f"bytes={2 * MEGABYTE}-", ""]
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    manifest = import_model(models, [moved], ImportOptions(), {}, skip_self_test, ignore_progress)
    assert manifest.name == "a"
    assert manifest.origin == f"{REPOSITORY}@{COMMIT}"
    assert models.model("a").chat.image_tokens == 33
    check_folder(models, ["a"])


def test_a_folder_with_other_files_is_rejected(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ModelUnusable, match="is not empty"):
        pull_to(tmp_path, "a", entry(), ignore_progress)
    assert hub.requests == []


def test_hidden_files_in_the_folder_are_ignored_and_left_alone(hub: Hub, tmp_path: Path) -> None:
    hidden = {".DS_Store", ".directory"}
    for name in (*hidden, ".lock"):
        (tmp_path / name).write_text("hidden")
    pull_to(tmp_path, "a", entry(), ignore_progress)
    assert {path.name for path in tmp_path.iterdir()} == {*hidden, "manifest.json", "text.gguf", "mmproj.gguf"}


def test_two_pulls_into_one_folder_do_not_run_at_once(hub: Hub, tmp_path: Path) -> None:
    def pull_again(*_: object) -> None:
        with pytest.raises(DataFolderBusy, match="Another command"):
            pull_to(tmp_path, "a", entry(), ignore_progress)

    pull_to(tmp_path, "a", entry(), pull_again)
    assert (tmp_path / "text.gguf").read_bytes() == TEXT


def test_the_sizes_of_the_files_suit_these_tests() -> None:
    assert len(text_model()) < MEGABYTE < len(TEXT)
