"""The models folder: installed models, the selected one, and the state after a crash."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from imgproc_local.domain.errors import DataFolderBusy, ModelUnusable, StorageFailed
from imgproc_local.vision.models import store
from imgproc_local.vision.models.model import ChatFormat
from imgproc_local.vision.models.store import ModelStore
from tests.support.gguf_files import write_pair
from tests.support.installed import check_folder, import_files, install


def test_the_setting_overrides_the_selection_and_the_name_none_selects_no_model(models: ModelStore) -> None:
    install(models, "first")
    install(models, "second", seed=1)
    assert models.selected() == "first", "the first installed model is selected"
    models.select("second")
    for setting, name in (("", "second"), ("first", "first")):
        model = models.active_model(setting)
        assert model is not None
        assert model.name == name
    assert models.active_model("none") is None
    models.select("none")
    assert models.active_model("") is None
    install(models, "third", seed=2)
    assert models.active_model("") is None, "installing a model replaced the selection 'none'"


@pytest.mark.parametrize("name", ["absent", "../other", "", ".", "a/b", "Ä"])
def test_an_unknown_name_is_rejected_and_the_message_lists_the_installed_models(models: ModelStore, name: str) -> None:
    install(models, "first")
    for call in (models.manifest, models.model, models.remove, models.select):
        with pytest.raises(ModelUnusable, match=r"not installed. Installed: first|model's name"):
            call(name)


def test_a_folder_of_the_users_own_is_no_model_and_is_not_removed(models: ModelStore) -> None:
    own = models.folder / "holiday"
    own.mkdir(parents=True)
    (own / "picture.jpg").write_bytes(b"mine")
    for call in (models.remove, models.require_not_installed):
        with pytest.raises(ModelUnusable, match=r"holiday is not an installed model: it has no manifest\.json"):
            call("holiday")
    assert (own / "picture.jpg").read_bytes() == b"mine"


def test_the_next_command_deletes_what_a_killed_one_left(models: ModelStore) -> None:
    install(models, "first")
    building = models.folder / ".building-0123abcd"
    building.mkdir()
    (building / "source-0.gguf").write_bytes(b"half")
    removed = models.folder / ".removed-0123abcd"
    removed.mkdir()
    models.partial("a").mkdir(parents=True)
    recent, old = models.partial("a") / "aa", models.partial("a") / "bb"
    for path in (recent, old):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 8 * 24 * 3600,) * 2)
    install(models, "second", seed=1)
    check_folder(models, ["first", "second"])
    assert recent.exists(), "an unfinished download can be resumed for a week"
    assert not [path for path in (building, removed, old) if path.exists()]


KILLED_WHILE_COPYING = """
import os, signal, sys
from pathlib import Path
from tests.support.installed import skip_self_test
from imgproc_local.vision.models.install import ImportOptions, import_
from imgproc_local.vision.models.store import ModelStore

def kill(what, done, total):
    if done == total:
        os.kill(os.getpid(), signal.SIGKILL)

models = ModelStore(Path(sys.argv[1]))
import_(models, [Path(path) for path in sys.argv[2:]], ImportOptions(name="b"), skip_self_test, kill)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs SIGKILL")
def test_a_kill_during_an_import_installs_nothing(models: ModelStore, tmp_path: Path) -> None:
    install(models, "a")
    pair = write_pair(tmp_path / "pair", seed=1)
    command = [sys.executable, "-c", KILLED_WHILE_COPYING, models.folder, *pair]
    ended = subprocess.run(command, cwd=Path(__file__).parents[3], timeout=60, check=False)
    assert ended.returncode == -9
    assert models.names() == ["a"]
    assert len(list(models.folder.glob(".building-*"))) == 1
    import_files(models, *pair, name="b")
    check_folder(models, ["a", "b"])


def test_a_second_command_waits_for_the_lock_and_then_gives_up(
    models: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(models)
    locked, release = threading.Event(), threading.Event()

    def hold() -> None:
        with models.locked():
            locked.set()
            release.wait(60)

    threading.Thread(target=hold).start()
    locked.wait(60)
    with monkeypatch.context() as changed:
        changed.setattr(store, "_LOCK_WAIT_S", 0.1)
        with pytest.raises(DataFolderBusy, match="Another command"):
            models.remove("a")
    models.select("a")  # selecting and reading need no lock
    assert models.active_model("") is not None
    monkeypatch.setattr(store, "_LOCK_WAIT_S", 60.0)
    threading.Timer(0.1, release.set).start()
    models.remove("a")
    check_folder(models, [])


def test_a_folder_that_can_not_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFailed, match="can't be used"):
        ModelStore(tmp_path / "file" / "models").select("none")


def test_the_chat_format_in_a_manifest_of_an_earlier_version_is_read(models: ModelStore) -> None:
    install(models)
    path = models.folder / "a" / "manifest.json"
    stored = msgspec.json.decode(path.read_bytes())
    assert "talk" in stored, "other versions of the program read the chat format under this name"
    stored["talk"] = {"image_tokens": 64, "template": "chatml"}
    path.write_bytes(msgspec.json.encode(stored))
    assert models.model("a").chat == ChatFormat(64, "chatml")
