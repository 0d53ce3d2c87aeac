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
    assert list(models.partial("a").parent.iterdir()) == []
    check_folder(models, ["a"])


def failure(models: ModelStore, self_test: Any = skip_self_test) -> str:
    """The message of a pull that fails and installs nothing."""
    with pytest.raises(ModelUnusable) as caught:
        install_model(models, "a", self_test, ignore_progress)
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
        f"{folder}/{name}" for name in ("T.gguf", "M.gguf") for folder in (root, "/store")
    ]
    for path, headers in hub.requests:
        assert (TOKEN in headers.get("authorization", "")) == (not path.startswith("/store/")), path


def test_an_unfinished_pull_is_resumed_and_what_is_there_is_not_downloaded_again(hub: Hub, models: ModelStore) -> None:
    hub.cut_after = [2_000_000, *[0] * 20]
    assert "to resume" in failure(models)
    hub.cut_after = []
    hub.requests.clear()

    def fail(_: object) -> None:
        raise ModelUnusable("It does not work.")

    assert "does not work" in failure(models, fail)
    assert hub.ranges() == ["bytes=2000000-", ""]
    hub.requests.clear()
    pull(models)
    assert hub.requests == []


@pytest.mark.parametrize(
    ("hub_state", "environment", "words"),
    [
        ({"sent": {"T.gguf": TEXT[:-1] + b"\x01"}}, {}, "T.gguf is not the expected file"),
        ({"sent": {"T.gguf": TEXT[:-1]}}, {}, "sent fewer bytes of T.gguf"),
        ({"sent": {"T.gguf": TEXT + b"more"}}, {}, "sent more bytes of T.gguf"),
        ({"refusal": 401}, {}, "Set HF_TOKEN to a token with access; that of `hf auth login` is not read"),
        ({"refusal": 404}, {}, "no T.gguf or no M.gguf of someone/Some-Model-GGUF"),
        ({"refusal": 429}, {}, "too many requests"),
        ({"refusal": 500}, {}, "answered with 500"),
        ({}, {"HF_ENDPOINT": "http://user:secret@127.0.0.1:9"}, "127.0.0.1:9 can't be reached"),
        ({}, {"HF_ENDPOINT": "nonsense"}, "HF_ENDPOINT"),
        ({}, {"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set: nothing is downloaded"),
        ({}, {"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": ""}, "can't be reached"),
    ],
)
def test_a_failed_pull_installs_nothing_says_why_and_can_be_repeated(
    hub: Hub,
    models: ModelStore,
    monkeypatch: pytest.MonkeyPatch,
    hub_state: dict[str, Any],
    environment: dict[str, str],
    words: str,
) -> None:
    with monkeypatch.context() as changed:
        for name, value in hub_state.items():
            changed.setattr(hub, name, value)
        for name, value in environment.items():
            changed.setenv(name, value)
        message = failure(models)
    assert words in message
    assert not any(secret in message for secret in (TOKEN, "user:secret"))
    assert bool(hub.requests) == bool(hub_state)
    pull(models)


def test_nothing_is_requested_without_free_space_or_into_a_folder_with_other_files(
    hub: Hub, models: ModelStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=len(TEXT))
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(StorageFailed, match="are needed"):
        pull(models)
    check_folder(models, [])
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ModelUnusable, match="is not empty"):
        pull_to(tmp_path, "a", ignore_progress)
    assert hub.requests == []
