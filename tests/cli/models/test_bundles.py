"""Models for machines without a network: carried over in a folder, which other programs can fill too."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from imgproc_local.vision.models import signature
from imgproc_local.vision.models.model import ModelFile, read_catalogue
from imgproc_local.vision.models.networks import WHEEL
from imgproc_local.vision.models.store import ModelStore
from tests.cli.conftest import Program
from tests.faults.server_process import ROOT
from tests.support.hub import Hub, entry_of, hub_with, offer
from tests.support.installed import check_folder
from tests.support.tiny import MMPROJ, TEXT


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with the project's tiny model, which the catalogue lists as `tiny`."""
    text, mmproj = TEXT.read_bytes(), MMPROJ.read_bytes()
    offer(monkeypatch, tiny=entry_of(text, mmproj))
    with hub_with({"T.gguf": text, "M.gguf": mmproj}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


def test_every_model_to_pull_is_listed_with_pinned_addresses_and_sums(program: Program) -> None:
    known = program.models()
    for name, entry in read_catalogue().items():
        repository, commit = entry.origin.split("@")
        for file, expected in zip(known[name]["files"], entry.files().values(), strict=True):
            assert file["url"] == f"https://huggingface.co/{repository}/resolve/{commit}/{file['file']}"
            assert ModelFile(file["file"], file["size_bytes"], file["sha256"]) == expected
    [wheel] = known["ocr"]["files"]
    assert wheel == msgspec.to_builtins(WHEEL), "each package index has another address for it"


@pytest.mark.skipif(not all(map(shutil.which, ("bash", "curl", "jq", "sha256sum"))), reason="needs jq and curl")
def test_the_documented_commands_fetch_a_model_without_this_program(program: Program, tmp_path: Path, hub: Hub) -> None:
    listed = json.dumps(program.in_process_json("models", "list"))
    (tmp_path / "models.json").write_text(listed.replace("https://huggingface.co", hub.url))
    chapter = (ROOT / "imgproc_local/vision/README.md").read_text(encoding="utf-8").split("## Machines without")[1]
    [commands] = re.findall(r"```sh\n(.*?jq.*?)```", chapter, re.DOTALL)
    script = commands.replace("qwen3-vl-2b", "tiny")
    fetched = subprocess.run(
        ["bash", "-c", script], check=False, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (fetched.returncode, fetched.stdout) == (0, "T.gguf: OK\nM.gguf: OK\n"), fetched.stderr
    imported = program.output("models", "import", tmp_path / "bundle", air_gapped=True)
    assert "Installed tiny" in imported
    installed = program.models()["tiny"]
    assert (installed["state"], installed["files"]) == ("installed", [])


def test_a_download_that_fails_says_what_else_to_do_and_leaves_no_empty_folder(
    program: Program, tmp_path: Path, hub: Hub
) -> None:
    folder = tmp_path / "bundle"
    for name, index in (("tiny", "HF_ENDPOINT"), ("ocr", "PIP_INDEX_URL")):
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv(index, "http://127.0.0.1:1")
            refused = program.error("models", "pull", name, "--to", folder)
        assert "Try again to resume the download. Or download the files elsewhere" in refused
        assert "models pull" not in refused
        assert not folder.exists()
    hub.cut_after = [1000, 0]
    program.error("models", "pull", "tiny", "--to", folder)
    assert (folder / "text.gguf").stat().st_size == 1000, "this can be resumed"
    program.output("models", "pull", "tiny", "--to", folder)
    assert "bytes=1000-" in hub.ranges()


# ---- signatures ----

needs_ssh_keygen = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")


def ssh_keygen(*arguments: object) -> None:
    subprocess.run(["ssh-keygen", *map(str, arguments)], check=True, capture_output=True, timeout=60)


def sign(folder: Path, key: Path, purpose: str = "imgproc-local") -> None:
    (folder / "manifest.json.sig").unlink(missing_ok=True)
    ssh_keygen("-Y", "sign", "-n", purpose, "-f", key, folder / "manifest.json")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """The administrator's key, which the file `signers` beside it lists; and the key `other`, which no file lists."""
    for name in ("key", "other"):
        ssh_keygen("-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name)
    (tmp_path / "signers").write_text(f"imgproc-local {(tmp_path / 'key.pub').read_text()}")
    return tmp_path / "key"


@pytest.fixture
def signed(program: Program, tmp_path: Path, hub: Hub, key: Path) -> Path:
    """The folder that `models pull --to` wrote, with a signature of the key."""
    folder = tmp_path / "bundle"
    program.output("models", "pull", "tiny", "--to", folder)
    sign(folder, key)
    return folder


@needs_ssh_keygen
def test_a_signed_folder_is_imported_in_air_gapped_mode(program: Program, tmp_path: Path, signed: Path) -> None:
    imported = program("models", "import", signed, "--signers", tmp_path / "signers", air_gapped=True)
    assert imported.returncode == 0, imported.stderr
    assert "Installed tiny" in imported.stdout
    assert "A signature is required" in program.error("models", "import", TEXT, MMPROJ, model_signers="signers")
    program.output("models", "pull", "tiny", "--to", signed)  # the folder with its signature is still one of this model


def _change(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-2] + b" }")


@needs_ssh_keygen
@pytest.mark.parametrize(
    ("tamper", "message"),
    [
        (lambda folder, _: (folder / "manifest.json.sig").unlink(), "Couldn't read signature file"),
        (lambda folder, _: (folder / "manifest.json.sig").write_text("no signature"), "Couldn't parse signature"),
        (lambda folder, key: sign(folder, key.with_name("other")), "by a key that signers lists for imgproc-local"),
        (lambda folder, key: sign(folder, key, "git"), "namespace"),
        (lambda folder, _: _change(folder, "manifest.json"), "incorrect signature"),
        (lambda folder, _: _change(folder, "mmproj.gguf"), "mmproj.gguf is not the file that its manifest.json names"),
        (lambda folder, _: shutil.copy(folder / "text.gguf", folder / "more.gguf"), "more.gguf (a text model)"),
        (lambda folder, _: (folder / "manifest.json").unlink(), "A signature is required: name a folder"),
        (lambda _, key: key.with_name("signers").write_text("nonsense"), "has no valid signature manifest.json.sig"),
    ],
)
def test_a_folder_whose_signature_is_not_valid_is_refused(
    program: Program, signed: Path, key: Path, tamper: Callable[[Path, Path], object], message: str
) -> None:
    tamper(signed, key)
    assert message in program.error("models", "import", signed, "--signers", key.with_name("signers"))
    check_folder(ModelStore(program.data / "models"), [])


@needs_ssh_keygen
@pytest.mark.skipif(sys.platform == "win32", reason="runs scripts")
@pytest.mark.parametrize(
    ("tool", "message"),
    [
        (None, "ssh-keygen is not installed. It is a part of OpenSSH."),
        ("#!/bin/sh\nexec sleep 60", "The signature can't be verified"),
        ("no program", "The signature can't be verified"),
    ],
)
def test_a_tool_that_is_missing_or_does_not_answer_verifies_nothing(
    program: Program, signed: Path, key: Path, monkeypatch: pytest.MonkeyPatch, tool: str | None, message: str
) -> None:
    tools = key.with_name("tools")
    tools.mkdir()
    if tool is not None:
        (tools / "ssh-keygen").write_text(tool)
        (tools / "ssh-keygen").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/bin" if tool else str(tools))
    monkeypatch.setattr(signature, "_TIMEOUT_S", 0.5)
    assert message in program.error("models", "import", signed, "--signers", key.with_name("signers"))
    check_folder(ModelStore(program.data / "models"), [])
