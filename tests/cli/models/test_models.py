"""`models`: installing, selecting, verifying and removing models, and every refusal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from imgproc_local.vision.llm import selftest
from imgproc_local.vision.models.model import MANIFEST_FILE
from imgproc_local.vision.models.store import _LOCK_FILE, _SELECTION_FILE, PARTIAL_FOLDER, ModelStore
from tests.cli.conftest import Program
from tests.faults.server_process import make_key, serving
from tests.support import pictures
from tests.support.gguf_files import write_pair
from tests.support.hub import entry_of, hub_with, offer
from tests.support.installed import check_folder, install
from tests.support.tiny import MMPROJ, TEXT


@pytest.fixture
def without_llama(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without llama-cpp-python."""
    monkeypatch.setattr(selftest, "llama_is_installed", lambda: False)


@pytest.fixture
def models(program: Program) -> ModelStore:
    return ModelStore(program.data / "models")


def test_the_list_shows_the_catalogue_before_anything_is_installed(program: Program) -> None:
    known = program.models()
    assert known["qwen3-vl-2b"]["state"] == "available"
    text = program.output("models", "list")
    for expected in (*known, "can be pulled", str(program.data / "models"), "No model is in use"):
        assert expected in text
    assert not program.data.exists(), "listing creates no folder"


def test_a_model_is_imported_used_listed_verified_and_removed(
    program: Program, tmp_path: Path, without_llama: None
) -> None:
    pair = write_pair(tmp_path / "pair")
    drive = {"models_dir": tmp_path / "drive" / "models"}
    for command, exit_code in (("list", 1), ("verify", 2), ("use mine", 2)):
        missing = program.error("models", *command.split(), exit_code=exit_code, **drive)
        assert f"models folder {drive['models_dir']} is missing. Connect its drive" in missing
    assert not (tmp_path / "drive").exists()
    options = (
        "--name",
        "mine",
        "--template",
        "chatml",
        "--image-tokens",
        64,
        "--answer-opening",
        r"<think>\n\n</think>",
    )
    result = program.in_process("models", "import", *pair, *options, **drive)
    assert result.exit_code == 0, result.stderr
    assert "selected, but no model can run here: pictures are described from metadata" in result.stdout
    assert "not tested, and may be damaged: llama-cpp-python is not installed. In a clone" in result.stderr
    mine = program.models(**drive)["mine"]
    assert (mine["state"], mine["in_use"]) == ("untested", True)
    chat = ModelStore(drive["models_dir"]).model("mine").chat
    assert (chat.template, chat.image_tokens, chat.answer_opening) == ("chatml", 64, "<think>\n\n</think>")
    assert "installed, not tested yet, in use" in program.output("models", "list", **drive)
    assert "mine" not in program.models(), "another folder"
    program.output("models", "use", "none", **drive)
    assert not program.models(**drive)["mine"]["in_use"]
    result = program.in_process("models", "use", "mine", model="other", **drive)
    assert "The setting model is 'other' and overrides this selection." in result.stderr
    assert program.models(**drive)["mine"]["in_use"]
    assert "mine: files verified" in program.output("models", "verify", **drive)
    program.output("models", "remove", "mine", **drive)
    assert "mine" not in program.models(**drive)


def test_every_refusal_has_a_message_and_changes_nothing(
    program: Program, tmp_path: Path, models: ModelStore, without_llama: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(models, "a")
    write_pair(tmp_path / "pair")
    monkeypatch.chdir(tmp_path)
    for command, message in (
        ("use absent", "'absent' is not installed. Installed: a"),
        ("remove absent", "'absent' is not installed"),
        ("pull absent", "not in the catalogue. Available: gemma-4-e4b"),
        ("import pair --name A.B/", "model's name"),
        ("import pair/one-0.gguf --name b", "one text model and the vision encoder"),
        ("import share", "does not exist"),
    ):
        assert message in program.error("models", *command.split())
    check_folder(models, ["a"])


def test_a_damaged_model_is_reported_by_list_and_by_verify(
    program: Program, models: ModelStore, without_llama: None
) -> None:
    install(models, "a")
    install(models, "b", seed=1)
    path = models.folder / "a" / "mmproj.gguf"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    result = program.in_process("models", "verify")
    assert (result.exit_code, "has changed" in result.stdout, "b: files verified" in result.stdout) == (1, True, True)
    path.write_bytes(b"GGUF")
    damaged = program.models()["a"]
    assert (damaged["state"], "has 4 bytes" in damaged["problem"]) == ("damaged", True)
    (models.folder / "a" / MANIFEST_FILE).write_bytes(b'{"x":' + b"[" * 30_000 + b"]" * 30_000 + b"}")
    assert "The manifest of the model 'a' is damaged." in program.error("models", "use", "a")
    program.output("models", "remove", "a")


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A hub with one pair of files, which the catalogue lists as `small`."""
    text, mmproj = (path.read_bytes() for path in write_pair(tmp_path / "pair"))
    offer(monkeypatch, small=entry_of(text, mmproj))
    with hub_with({"T.gguf": text, "M.gguf": mmproj}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_TOKEN", "")
        yield


def test_a_model_is_pulled_or_copied_from_another_machine(
    program: Program,
    tmp_path: Path,
    models: ModelStore,
    without_llama: None,
    small: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert program.models()["small"]["licence"] == "MIT"
    (tmp_path / "carried").mkdir()
    monkeypatch.chdir(tmp_path / "carried")
    carried = program.output("models", "pull", "small", "--to", ".")
    assert f"small is in {tmp_path / 'carried'}. " in carried
    assert "`imgproc-local models import carried`" in carried
    assert not models.folder.exists()
    pulled = program.output("models", "pull", "small")
    assert "Installed small" in pulled
    assert "licence MIT" in pulled
    assert "--to DIR" in program.error("models", "pull", "small", air_gapped=True)
    program.output("models", "import", tmp_path / "carried", "--name", "again", air_gapped=True)
    check_folder(models, ["again", "small"])


@pytest.mark.skipif(sys.platform == "win32", reason="creates links and pipes")
@pytest.mark.parametrize(
    ("name", "target"), [(_LOCK_FILE, "new"), (PARTIAL_FOLDER, ""), (f"{PARTIAL_FOLDER}/qwen3-vl-2b", "letters")]
)
def test_links_in_the_models_folder_do_not_lead_out_of_it(
    program: Program, tmp_path: Path, models: ModelStore, name: str, target: str
) -> None:
    install(models, "a")
    (tmp_path / "home" / "letters").mkdir(parents=True)
    old = tmp_path / "home" / "letters" / "old"
    old.write_text("of last year")
    os.utime(old, (0, 0))
    link = models.folder / name
    link.unlink(missing_ok=True)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path / "home" / target)
    for command in (("remove", "a"), ("pull", "qwen3-vl-2b")):
        refused = program.error("models", *command)
        assert "is not a regular file" in refused or "leads out of the folder" in refused
        old.touch()  # not deleted, and too young now
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["letters"]
    assert [path.name for path in old.parent.iterdir()] == ["old"]
    (models.folder / _SELECTION_FILE).unlink()
    os.mkfifo(models.folder / _SELECTION_FILE)
    assert program("models", "list").returncode == 0, "a selection that is a pipe selects nothing"


def test_a_file_that_llama_cpp_can_not_load_is_named_as_the_user_knows_it_with_what_to_do(
    program: Program, tmp_path: Path, models: ModelStore
) -> None:
    half = tmp_path / "half.gguf"
    for original, other in ((TEXT, MMPROJ), (MMPROJ, TEXT)):
        half.write_bytes(original.read_bytes()[: original.stat().st_size // 2])
        refused = program.error("models", "import", half, other, "--name", "b")
        for expected in ("does not work here: half.gguf ", "can't be loaded", "download it again"):
            assert expected in refused
        assert " text.gguf" not in refused
    check_folder(models, [])


def test_a_model_that_does_not_work_leaves_the_service_alive(program: Program, models: ModelStore) -> None:
    install(models, "broken")
    key = make_key(program.data)
    with serving(program.data) as server:
        headers = {"X-API-Key": key, "Prefer": "wait=30"}
        upload = {"image": ("blue-door.jpg", pictures.jpeg())}
        for _ in range(2):
            analyze = f"{server.root}/api/v1/images/analyze"
            answer = httpx.post(analyze, files=upload, headers=headers, timeout=60)
            assert answer.json()["data"]["status"] == "completed", answer.json()
        assert httpx.get(f"{server.root}/healthz").status_code == 200
        assert server.terminate() == 0
    assert "does not work here" in server.output()
    assert program.models()["broken"]["state"] == "unusable"


def test_a_model_is_tested_when_it_is_imported_and_not_again_when_it_is_verified(program: Program) -> None:
    imported = program.in_process("models", "import", TEXT, MMPROJ, "--name", "tiny")
    assert imported.exit_code == 0, imported.stderr
    assert "Testing tiny in a child process" in imported.stderr
    assert program.models()["tiny"]["state"] == "installed"
    verified = program.in_process("models", "verify", "tiny")
    assert "tiny: files verified." in verified.stdout
    assert "Testing" not in verified.stderr
