"""Where settings come from, which source wins, and how a wrong one is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from imgproc_local import config
from imgproc_local.config import SETTINGS, load, setting_meta
from imgproc_local.domain.errors import SettingInvalid
from imgproc_local.domain.plan import target_score


@pytest.fixture
def config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default settings file, which does not exist until a test writes it."""
    path = tmp_path / "config.toml"
    monkeypatch.setattr(config, "default_config_path", lambda: path)
    return path


def test_defaults_then_file_then_environment_then_flags(config_file: Path) -> None:
    assert load({}, {}).config.port == 8484
    config_file.write_text("port = 1001\nqueue_limit = 7\n")
    assert load({}, {}).config.port == 1001
    environ = {"IMGPROC_PORT": "1002"}
    assert load({}, environ).config.port == 1002
    loaded = load({"port": 1003, "host": None}, environ)
    assert loaded.config.port == 1003
    assert loaded.config.queue_limit == 7
    assert loaded.origins["port"] == "--port"
    assert loaded.origins["queue_limit"] == str(config_file)
    assert loaded.origins["host"] == "default"
    assert load({}, environ).origins["port"] == "IMGPROC_PORT"


def test_the_environment_can_name_another_settings_file(tmp_path: Path, config_file: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text('status_set = "B"\n')
    assert load({}, {"IMGPROC_CONFIG": str(other)}).config.status_set == "B"
    with pytest.raises(SettingInvalid, match="no such file"):
        load({}, {"IMGPROC_CONFIG": str(tmp_path / "none.toml")})


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"IMGPROC_PORT": "99999"}, "port .IMGPROC_PORT"),
        ({"IMGPROC_PORT": "many"}, "expected a whole number from 0 to 65535, received 'many'"),
        ({"IMGPROC_STATUS_SET": "C"}, "expected 'A' or 'B', received 'C'"),
        ({"IMGPROC_KEEP_LOCATION": "street"}, "expected 'none' or 'city' or 'all', received 'street'"),
        ({"IMGPROC_QUEUE_LIMIT": "0"}, "queue_limit"),
        ({"IMGPROC_PROT": "1"}, "Unknown setting in the environment: IMGPROC_PROT"),
        ({"IMGPROC_DATA_DIR": ""}, "data_dir"),
        ({"IMGPROC_QUALITY_TARGET": "best"}, "'small' or a number from 50 to 95, received 'best'"),
        ({"IMGPROC_QUALITY_TARGET": "20"}, "quality_target.*a number from 50 to 95, received '20'"),
    ],
)
def test_a_wrong_value_is_reported_with_its_source(config_file: Path, environ: dict[str, str], message: str) -> None:
    with pytest.raises(SettingInvalid, match=message):
        load({}, environ)


@pytest.mark.parametrize(("text", "message"), [("prot = 1", "prot"), ("port = ", "TOML"), ("port = 'x'", "port")])
def test_a_wrong_file_is_reported_with_its_path(config_file: Path, text: str, message: str) -> None:
    config_file.write_text(text)
    with pytest.raises(SettingInvalid, match=message) as caught:
        load({}, {})
    assert str(config_file) in caught.value.message


@pytest.mark.parametrize(("value", "score"), [("visually-lossless", 90), ("small", 75), ("80", 80), ("82.5", 82.5)])
def test_a_quality_target_is_a_name_or_a_number(config_file: Path, value: str, score: float) -> None:
    assert target_score(load({}, {}).config.quality_target) == 85
    assert target_score(load({}, {"IMGPROC_QUALITY_TARGET": value}).config.quality_target) == score
    config_file.write_text(f"quality_target = {value if value[0].isdigit() else repr(value)}\n")
    assert target_score(load({}, {}).config.quality_target) == score


def test_every_setting_has_a_description() -> None:
    assert all(setting_meta(name).description for name in SETTINGS)


def test_the_data_folder_is_made_absolute(config_file: Path) -> None:
    assert load({"data_dir": "~/pictures"}, {}).config.data_dir == Path("~/pictures").expanduser()
    assert load({"data_dir": "here"}, {}).config.data_dir.is_absolute()


COMPRESSION_SERVICE = {"IMGPROC_COMPRESSION_SERVICE": "tinify", "IMGPROC_COMPRESSION_KEY": " secret-word "}


def test_a_compression_service_is_accepted_with_its_key(config_file: Path) -> None:
    loaded = load({}, COMPRESSION_SERVICE).config
    assert loaded.compression_key.reveal() == "secret-word"
    assert "secret-word" not in repr(loaded)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"IMGPROC_COMPRESSION_KEY": ""}, "needs a key"),
        ({"IMGPROC_AIR_GAPPED": "true"}, "air_gapped is true"),
        ({"IMGPROC_COMPRESSION_URL": "http://api.tinify.com"}, "expected https"),
        ({"IMGPROC_COMPRESSION_KEY": "secret-word\n"}, "compression_key"),
        ({"IMGPROC_COMPRESSION_KEY": "secret-wörd"}, "compression_key"),
        ({"IMGPROC_COMPRESSION_SERVICE": "other"}, "compression_service"),
    ],
)
def test_unusable_compression_settings_are_refused_without_their_key(
    config_file: Path, environ: dict[str, str], message: str
) -> None:
    with pytest.raises(SettingInvalid, match=message) as caught:
        load({}, COMPRESSION_SERVICE | environ)
    assert "secret-w" not in caught.value.message


def test_a_compression_key_that_is_no_string_is_refused_and_not_shown(config_file: Path) -> None:
    config_file.write_text("compression_key = 4711")
    with pytest.raises(SettingInvalid, match="compression_key") as caught:
        load({}, {})
    assert "4711" not in caught.value.message


def test_without_a_home_folder_only_a_data_folder_has_to_be_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_home(*_: object, **__: object) -> str:
        raise RuntimeError("could not determine the home directory")

    for name in ("user_data_dir", "user_config_dir"):
        monkeypatch.setattr(config.platformdirs, name, no_home)
    monkeypatch.setattr(Path, "expanduser", lambda path: no_home() if str(path).startswith("~") else path)
    with pytest.raises(SettingInvalid, match="--data-dir"):
        config.load({}, {})
    loaded = config.load({"data_dir": str(tmp_path)}, {})
    assert (loaded.config.data_dir, loaded.file) == (tmp_path, None)
    for settings in ({"data_dir": "~/data"}, {"data_dir": str(tmp_path), "models_dir": "~/models"}):
        with pytest.raises(SettingInvalid, match="begins with ~"):
            config.load(settings, {})
