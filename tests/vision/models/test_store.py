"""The folder of models: what is installed, what is in use, and that it is whole whatever happens."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from imgproc_local.domain.errors import DataFolderBusy, ModelUnusable, StorageFailed
from imgproc_local.vision.models import store
from imgproc_local.vision.models.store import MMPROJ_FILE, TEXT_FILE, ModelStore, verify
from tests.support.gguf_files import text_model, write_pair
from tests.support.installed import check_folder, install, take, unseen


def test_an_empty_folder_has_no_model_and_is_not_made_by_looking(models: ModelStore) -> None:
    assert models.names() == []
    assert models.chosen() == ""
    assert models.current("") is None
    assert models.current("none") is None
    assert not models.folder.exists()


def test_the_first_model_is_put_to_use_and_the_second_is_not(models: ModelStore) -> None:
    install(models, "first")
    install(models, "second", seed=1)
    check_folder(models, ["first", "second"])
    model = models.current("")
    assert model is not None
    assert model.name == "first"
    assert model.text_path.read_bytes() == text_model()


def test_the_setting_goes_before_the_choice_and_the_choice_may_be_none(models: ModelStore) -> None:
    install(models, "first")
    install(models, "second", seed=1)
    models.choose("second")
    for setting, name in (("", "second"), ("first", "first")):
        model = models.current(setting)
        assert model is not None
        assert model.name == name
    assert models.current("none") is None
    models.choose("none")
    assert models.current("") is None
    install(models, "third", seed=2)
    assert models.current("") is None, "who chose to go without a model stays without one"


@pytest.mark.parametrize("name", ["absent", "../other", "", ".", "a/b", "Ä"])
def test_a_model_that_is_not_installed_is_told_with_those_that_are(models: ModelStore, name: str) -> None:
    install(models, "first")
    for ask in (models.manifest, models.model, models.remove):
        with pytest.raises(ModelUnusable, match=r"not installed. Installed: first"):
            ask(name)
    with pytest.raises(ModelUnusable):
        models.choose(name)
    if name:
        with pytest.raises(ModelUnusable, match="not installed"):
            models.current(name)


def test_a_model_that_lost_bytes_is_not_used(models: ModelStore) -> None:
    install(models)
    with (models.folder / "a" / TEXT_FILE).open("r+b") as file:
        file.truncate(10)
    with pytest.raises(ModelUnusable, match=r"text.gguf of the model 'a' has 10 bytes"):
        models.current("")
    (models.folder / "a" / TEXT_FILE).unlink()
    with pytest.raises(ModelUnusable, match="can't be read"):
        models.current("")
    assert models.names() == ["a"], "it can still be removed"
    models.remove("a")
    check_folder(models, [])


def test_a_damaged_manifest_is_told_and_can_be_removed(models: ModelStore) -> None:
    install(models)
    (models.folder / "a" / "manifest.json").write_text("{")
    with pytest.raises(ModelUnusable, match="manifest of the model 'a' is damaged"):
        models.current("")
    models.remove("a")
    check_folder(models, [])


def test_verify_finds_a_single_changed_byte(models: ModelStore) -> None:
    install(models)
    verify(models, "a", unseen)
    path = models.folder / "a" / MMPROJ_FILE
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    models.model("a")  # a look at the sizes does not see it
    with pytest.raises(ModelUnusable, match=r"mmproj.gguf of the model 'a' has changed"):
        verify(models, "a", unseen)


def test_removing_the_model_in_use_leaves_none_in_use(models: ModelStore) -> None:
    install(models, "first")
    install(models, "second", seed=1)
    models.remove("first")
    assert models.chosen() == ""
    check_folder(models, ["second"])


def test_grades_are_kept_and_go_with_the_model(models: ModelStore) -> None:
    install(models)
    assert models.grades("a") == {}
    models.save_grades("a", {"en": 0.75, "de": 0.5})
    assert ModelStore(models.folder).grades("a") == {"en": 0.75, "de": 0.5}
    models.remove("a")
    assert models.grades("a") == {}
    with pytest.raises(ModelUnusable):
        models.save_grades("a", {})


def test_what_a_killed_command_left_is_swept_by_the_next_one(models: ModelStore) -> None:
    install(models, "first")
    left = models.folder / ".building-0123abcd"
    left.mkdir()
    (left / "came-0.gguf").write_bytes(b"half")
    removed = models.folder / ".removed-0123abcd"
    removed.mkdir()
    models.partial_folder.mkdir()
    recent, old = models.partial_folder / "aa", models.partial_folder / "bb"
    writing = models.folder / "first" / ".selftest.json-01.part"
    for path in (recent, old, writing):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 8 * 24 * 3600,) * 2)
    os.utime(writing, (time.time() - 2 * 3600,) * 2)
    install(models, "second", seed=1)
    check_folder(models, ["first", "second"])
    assert recent.exists(), "a cut-off download can be resumed for a week"
    assert not old.exists()


KILLED_WHILE_COPYING = """
import os, signal, sys
from pathlib import Path
from tests.support.installed import untried
from imgproc_local.vision.models.install import ImportOptions, import_model
from imgproc_local.vision.models.store import ModelStore

def kill(what, done, total):
    if done == total:
        os.kill(os.getpid(), signal.SIGKILL)

models = ModelStore(Path(sys.argv[1]))
import_model(models, [Path(path) for path in sys.argv[2:]], ImportOptions(name="b"), {}, untried, kill)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs SIGKILL")
def test_a_kill_in_the_middle_of_an_import_leaves_nothing_installed(models: ModelStore, tmp_path: Path) -> None:
    install(models, "a")
    pair = write_pair(tmp_path / "pair", seed=1)
    command = [sys.executable, "-c", KILLED_WHILE_COPYING, models.folder, *pair]
    ended = subprocess.run(command, cwd=Path(__file__).parents[3], timeout=60, check=False)
    assert ended.returncode == -9
    assert models.names() == ["a"]
    assert len(list(models.folder.glob(".building-*"))) == 1
    take(models, *pair, name="b")
    check_folder(models, ["a", "b"])


def test_a_second_command_waits_for_the_first_and_then_gives_up(
    models: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(models)
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with models.changing():
            inside.set()
            leave.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait(30)
    monkeypatch.setattr(store, "LOCK_WAIT_S", 0.1)
    with pytest.raises(DataFolderBusy, match="Another command"):
        models.remove("a")
    models.choose("a")  # choosing and reading need no lock
    assert models.current("") is not None
    monkeypatch.setattr(store, "LOCK_WAIT_S", 30)
    threading.Timer(0.1, leave.set).start()
    models.remove("a")
    holder.join()
    check_folder(models, [])


def test_a_folder_that_can_not_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    models = ModelStore(tmp_path / "file" / "models")
    with pytest.raises(StorageFailed, match="can't be used"):
        models.choose("none")
    with pytest.raises(StorageFailed, match="can't be used"):
        take(models, *write_pair(tmp_path / "pair"), name="a")


def test_a_folder_that_the_settings_name_is_missing_not_empty(tmp_path: Path) -> None:
    named = ModelStore(tmp_path / "drive" / "models", must_exist=True)
    with pytest.raises(ModelUnusable, match=r"is missing\. Plug in its drive"):
        named.current("")
    assert ModelStore(tmp_path / "drive" / "models").current("") is None
