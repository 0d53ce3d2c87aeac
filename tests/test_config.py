"""Where settings come from, which source wins, how `config show` prints them, and how a wrong one is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from imgproc_local import config
from imgproc_local.config import DESCRIPTIONS, SETTINGS, load
from imgproc_local.domain.errors import SettingInvalid
from imgproc_local.domain.plan import target_score
from tests.cli.conftest import Program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


@pytest.fixture
def config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default settings file, which does not exist until a test writes it."""
    path = tmp_path / "config.toml"
    monkeypatch.setattr(config, "default_config_path", lambda: path)
    return path


def test_defaults_then_file_then_environment_then_flags(config_file: Path) -> None:
    defaults = load({}, {}).config
    assert (defaults.host, defaults.port, defaults.max_upload_bytes) == ("127.0.0.1", 8484, 25 * 1024 * 1024)
    config_file.write_text("port = 1001\nqueue_limit = 7\n")
    assert load({}, {}).config.port == 1001
    environ = {"IMGPROC_PORT": "1002"}
    assert load({}, environ).config.port == 1002
    loaded = load({"port": 1003, "host": None}, environ)
    assert (loaded.config.port, loaded.config.queue_limit) == (1003, 7)
    origins = [loaded.origins[name] for name in ("port", "queue_limit", "host")]
    assert origins == ["--port", str(config_file), "default"]
    assert load({}, environ).origins["port"] == "IMGPROC_PORT"
    other = config_file.with_name("other.toml")
    environ = {"IMGPROC_CONFIG": str(other)}
    with pytest.raises(SettingInvalid, match="no such file"):
        load({}, environ)
    other.write_text('status_set = "B"\ndata_dir = "here"\n')
    assert load({}, environ).config.status_set == "B"
    assert load({}, environ).config.data_dir.is_absolute()


def test_config_show_has_every_setting_with_value_source_and_description(program: Program, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("queue_limit = 7\nport = 1111\n")
    sources = {"config": file, "port": 2222, "compression_key": "secret-word"}
    shown = program.in_process_json("config", "show", "--data-dir", tmp_path / "x", **sources)
    assert [(each["name"], each["description"]) for each in shown["settings"]] == list(DESCRIPTIONS.items())
    assert list(DESCRIPTIONS) == list(SETTINGS)
    assert all(DESCRIPTIONS.values())
    assert shown["file"] == str(file)
    settings = {each["name"]: (each["value"], each["source"]) for each in shown["settings"]}
    assert settings["queue_limit"] == (7, str(file))
    assert settings["port"] == (2222, "IMGPROC_PORT")
    assert settings["data_dir"] == (str(tmp_path / "x"), "--data-dir")
    assert settings["host"] == ("127.0.0.1", "default")
    assert settings["compression_key"] == ("set", "IMGPROC_COMPRESSION_KEY")
    text = program.in_process("config", "show", **sources).stdout
    assert all(f"\n{name} = " in text for name in SETTINGS)
    assert "secret-word" not in text
    assert 'compression_key = "not set"' in program.in_process("config", "show").stdout
    assert not program.data.exists()


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"IMGPROC_PORT": "99999"}, "^port .IMGPROC_PORT. can't be '99999'. Expected: port to listen on, up to 65535"),
        ({"IMGPROC_STATUS_SET": "C"}, "status_set.*'C'.*or B"),
        ({"IMGPROC_PROT": "1"}, r"Unknown setting 'prot' \(IMGPROC_PROT\). Did you mean port"),
        ({"IMGPROC_DATA_DIR": ""}, "data_dir.*Expected: folder"),
        ({"IMGPROC_QUALITY_TARGET": "best"}, "'best'.*from 50 to 95"),
        *(({"IMGPROC_BEHIND_PROXY": each}, "behind_proxy") for each in ("a.lan", "10.0.0.0/33", "10.0.0.1 10.0.0.2")),
        ({"IMGPROC_CORS_ORIGINS": "*"}, "cors_origins: expected an origin such as"),
        ({"IMGPROC_PUBLIC_URL": "img.example.org"}, "public_url: expected an origin such as(?!.*Below a path)"),
        ({"IMGPROC_PUBLIC_URL": "https://example.org/img/"}, "public_url: expected no path.*a host name of its own"),
    ],
)
def test_a_wrong_value_is_reported_with_its_source(config_file: Path, environ: dict[str, str], message: str) -> None:
    with pytest.raises(SettingInvalid, match=message):
        load({}, environ)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "Unknown setting 'prot'.*Did you mean port?"),
        ("port = ", "TOML"),
        ("port = 'x'", "port"),
        ("compression_key = 4711", "compression_key"),
    ],
)
def test_a_wrong_file_is_reported_with_its_path(config_file: Path, text: str, message: str) -> None:
    config_file.write_text(text)
    with pytest.raises(SettingInvalid, match=message) as caught:
        load({}, {})
    assert str(config_file) in caught.value.message
    assert "4711" not in caught.value.message, "a key is not shown"


@pytest.mark.parametrize(("value", "score"), [("visually-lossless", 90), ("small", 75), ("80", 80), ("82.5", 82.5)])
def test_a_quality_target_is_a_name_or_a_number(config_file: Path, value: str, score: float) -> None:
    assert target_score(load({}, {}).config.quality_target) == 85
    assert target_score(load({}, {"IMGPROC_QUALITY_TARGET": value}).config.quality_target) == score
    config_file.write_text(f"quality_target = {value if value[0].isdigit() else repr(value)}\n")
    assert target_score(load({}, {}).config.quality_target) == score


COMPRESSION_SERVICE = {"IMGPROC_COMPRESSION_SERVICE": "tinify", "IMGPROC_COMPRESSION_KEY": " secret-word "}


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"IMGPROC_COMPRESSION_KEY": ""}, "needs a key"),
        ({"IMGPROC_AIR_GAPPED": "true"}, "air_gapped is true"),
        ({"IMGPROC_COMPRESSION_URL": "http://api.tinify.com"}, "expected https"),
        ({"IMGPROC_COMPRESSION_KEY": "secret-word\n"}, "compression_key"),
        ({"IMGPROC_COMPRESSION_SERVICE": "other"}, "compression_service"),
    ],
)
def test_unusable_compression_settings_are_refused_without_their_key(
    config_file: Path, environ: dict[str, str], message: str
) -> None:
    with pytest.raises(SettingInvalid, match=message) as caught:
        load({}, COMPRESSION_SERVICE | environ)
    assert "secret-w" not in caught.value.message
    loaded = load({}, COMPRESSION_SERVICE).config
    assert loaded.compression_key.reveal() == "secret-word"
    assert "secret-word" not in repr(loaded)


def test_without_a_home_folder_only_a_data_folder_has_to_be_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_home(*_: object, **__: object) -> str:
        raise RuntimeError("could not determine the home directory")

    for name in ("user_data_dir", "user_config_dir"):
        monkeypatch.setattr(f"platformdirs.{name}", no_home)
    monkeypatch.setattr(Path, "expanduser", lambda path: no_home() if str(path).startswith("~") else path)
    with pytest.raises(SettingInvalid, match="--data-dir"):
        config.load({}, {})
    loaded = config.load({"data_dir": str(tmp_path)}, {})
    assert (loaded.config.data_dir, loaded.file) == (tmp_path, None)
    for settings in ({"data_dir": "~/data"}, {"data_dir": str(tmp_path), "models_dir": "~/models"}):
        with pytest.raises(SettingInvalid, match="begins with ~"):
            config.load(settings, {})
