"""Downloads of models from a hub: they are complete or not installed, can be resumed, and fail with a message."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.domain.errors import ModelUnusable, StorageFailed
from imgproc_local.vision.models.install import pull as install_model
from imgproc_local.vision.models.install import pull_to
from imgproc_local.vision.models.model import ChatFormat
from imgproc_local.vision.models.store import ModelStore
from tests.support.gguf_files import gguf, projector
from tests.support.hub import COMMIT, REPOSITORY, TOKEN, Hub, entry_of, hub_with, offer
from tests.support.installed import check_folder, ignore_progress, skip_self_test

TEXT = gguf({"general.architecture": "llama", "llama.embedding_length": 64}, (64, 20_000))  # 5 MB
MMPROJ = projector()
MEGABYTE = 1024 * 1024


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub on this machine to which HF_ENDPOINT points, and a token in HF_TOKEN."""
    offer(monkeypatch, a=entry_of(TEXT, MMPROJ, chat=ChatFormat(33)))
    with hub_with({"T.gguf": TEXT, "M.gguf": MMPROJ}) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setattr("time.sleep", lambda _: None)  # the pause before a retry
        yield running


def pull(models: ModelStore, progress: Any = ignore_progress) -> None:
    """Pull the model, and check that it is complete."""
    manifest = install_model(models, "a", skip_self_test, progress)
    model = models.model("a")
    assert manifest is not None
    assert (model.text_path.read_bytes(), model.mmproj_path.read_bytes()) == (TEXT, MMPROJ)
    assert (manifest.origin, model.chat.image_tokens) == (f"{REPOSITORY}@{COMMIT}", 33)
    assert models.selected() == "a"
    assert list(models.partial("a").parent.iterdir()) == []
    check_folder(models, ["a"])


def failure(models: ModelStore) -> str:
    """The message of a pull that fails and installs nothing."""
    with pytest.raises(ModelUnusable) as caught:
        install_model(models, "a", skip_self_test, ignore_progress)
    check_folder(models, [])
    return caught.value.message


def test_a_pulled_model_is_complete_and_the_token_was_sent_to_the_hub_only(hub: Hub, models: ModelStore) -> None:
    progress: list[tuple[str, int, int]] = []
    pull(models, lambda *step: progress.append(step))
    downloaded = [done for step, done, _ in progress if step == "downloading T.gguf"]
    assert downloaded[-1] == len(TEXT)
    assert len(downloaded) > 4, "the progress is reported while downloading"
    root = f"/{REPOSITORY}/resolve/{COMMIT}"
    assert [path for path, _ in hub.requests] == [
        f"{root}/T.gguf",
        "/store/T.gguf",
        f"{root}/M.gguf",
        "/store/M.gguf",
    ]
    for path, headers in hub.requests:
        assert (TOKEN in headers.get("authorization", "")) == (not path.startswith("/store/")), path
    hub.requests.clear()
    with pytest.raises(ModelUnusable, match="installed already"):
        pull(models)
    assert hub.requests == []


def test_an_unfinished_pull_is_resumed_by_the_next_one(hub: Hub, models: ModelStore) -> None:
    hub.cut_after = [2 * MEGABYTE, *[0] * 20]
    assert "to resume" in failure(models)
    hub.cut_after = []
    hub.requests.clear()
    pull(models)
    assert hub.ranges() == [f"bytes={2 * MEGABYTE}-", ""]


@pytest.mark.parametrize(("cuts", "ends"), [([2], True), ([3, *[1, 2] * 20], False)])
def test_without_range_requests_the_whole_file_is_sent_again_unless_it_gets_no_further(
    hub: Hub, models: ModelStore, cuts: list[int], ends: bool
) -> None:
    hub.knows_ranges = False
    hub.cut_after = [cut * MEGABYTE for cut in cuts]
    if ends:
        pull(models)
        return
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
def test_a_download_that_differs_from_the_catalogue_is_discarded(
    hub: Hub, models: ModelStore, sent: bytes, message: str
) -> None:
    hub.sent = {"T.gguf": sent}
    assert message in failure(models)
    hub.sent = {}
    pull(models)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, "Set HF_TOKEN to a token with access; that of `hf auth login` is not read"),
        (404, "no T.gguf or no M.gguf of someone/Some-Model-GGUF"),
        (429, "too many requests"),
        (500, "answered with 500"),
    ],
)
def test_an_error_of_the_hub_is_explained(hub: Hub, models: ModelStore, status: int, expected: str) -> None:
    hub.refusal = status
    message = failure(models)
    assert expected in message
    assert TOKEN not in message


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("HF_ENDPOINT", "http://user:secret@127.0.0.1:9", ("127.0.0.1:9 can't be reached", "--to DIR")),
        ("HF_ENDPOINT", "nonsense", ("HF_ENDPOINT",)),
        ("HF_HUB_OFFLINE", "1", ("HF_HUB_OFFLINE is set: nothing is downloaded",)),
        ("HTTP_PROXY", "http://127.0.0.1:9", ("can't be reached",)),
    ],
)
def test_the_environment_decides_where_and_whether_to_download(
    hub: Hub,
    models: ModelStore,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    words: tuple[str, ...],
) -> None:
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv(variable, value)
    message = failure(models)
    assert all(each in message for each in words)
    assert "secret" not in message
    assert hub.requests == []


def test_a_model_that_fails_its_self_test_is_not_installed_and_not_downloaded_again(
    hub: Hub, models: ModelStore
) -> None:
    def fail(_: object) -> None:
        raise ModelUnusable("It does not work.")

    with pytest.raises(ModelUnusable, match="does not work"):
        install_model(models, "a", fail, ignore_progress)
    check_folder(models, [])
    hub.requests.clear()
    pull(models)
    assert hub.requests == []


def test_a_model_larger_than_the_free_space_is_not_downloaded(
    hub: Hub, models: ModelStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=len(TEXT))
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(StorageFailed, match="are needed"):
        pull(models)
    assert hub.requests == []
    check_folder(models, [])


def test_a_folder_with_other_files_is_rejected(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ModelUnusable, match="is not empty"):
        pull_to(tmp_path, "a", ignore_progress)
    assert hub.requests == []
