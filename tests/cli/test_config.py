"""`config show`: every setting, its value and its source.

The keyword arguments of `program.in_process` are settings, passed as environment variables.
"""

from __future__ import annotations

from pathlib import Path

from imgproc_local.config import SETTINGS, setting_meta
from tests.cli.conftest import Program


def test_every_setting_is_shown_with_value_source_and_description(program: Program) -> None:
    shown = program.in_process_json("config", "show")
    assert [setting["name"] for setting in shown["settings"]] == list(SETTINGS)
    for setting in shown["settings"]:
        assert setting["description"] == setting_meta(setting["name"]).description
    text = program.in_process("config", "show").stdout
    for name in SETTINGS:
        assert f"\n{name} = " in text


def test_each_source_is_named(program: Program, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("queue_limit = 7\nport = 1111\n")
    shown = program.in_process_json("config", "show", "--data-dir", tmp_path / "x", config=file, port=2222)
    settings = {setting["name"]: (setting["value"], setting["source"]) for setting in shown["settings"]}
    assert shown["file"] == str(file)
    assert settings["queue_limit"] == (7, str(file))
    assert settings["port"] == (2222, "IMGPROC_PORT")
    assert settings["data_dir"] == (str(tmp_path / "x"), "--data-dir")
    assert settings["host"] == ("127.0.0.1", "default")


def test_no_data_folder_is_created(program: Program) -> None:
    program.in_process_json("config", "show")
    assert not program.data.exists()


def test_an_unknown_setting_in_the_file_is_refused(program: Program, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("ports = 1111\n")
    result = program.in_process("config", "show", config=file)
    assert result.exit_code == 2
    assert "'ports'" in result.stderr
    assert "Did you mean port?" in result.stderr
    assert "rate_limit" not in result.stderr, "not a list of all settings"


def test_a_mistyped_variable_is_refused_with_the_name_that_may_be_meant(program: Program) -> None:
    result = program.in_process("config", "show", prot=8485)
    assert result.exit_code == 2
    assert "IMGPROC_PROT. Did you mean IMGPROC_PORT?" in result.stderr


def test_a_removed_setting_is_refused_with_what_replaces_it(program: Program, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("model_threads = 4\n")
    in_file = program.in_process("config", "show", config=file)
    in_environment = program.in_process("config", "show", compression_fallback="true", ollama_url="http://127.0.0.1:1")
    flag = program.in_process("serve", "--tls-key", "key.pem")
    for result, name, replacement in (
        (in_file, "'model_threads'", "The model uses the physical cores."),
        (in_environment, "IMGPROC_COMPRESSION_FALLBACK", "the local codecs always do its work."),
        (flag, "'--tls-key'", "Append the key to the file of tls_cert."),
    ):
        assert result.exit_code == 2
        assert name in result.stderr
        assert "It was removed: leave it out." in result.stderr
        assert result.stderr.endswith(f"{replacement}\n")
        assert "Did you mean" not in result.stderr


def test_a_secret_is_shown_only_as_set_or_not_set(program: Program) -> None:
    assert 'compression_key = "not set"' in program.in_process("config", "show").stdout
    for arguments in (("config", "show"), ("config", "show", "--json")):
        shown = program.in_process(*arguments, compression_key="secret-word").stdout
        assert "secret-word" not in shown
        assert '"set"' in shown
