"""The page's endpoint for the settings in effect, which can't be changed while the service runs."""

from __future__ import annotations

import os
from typing import Any

from litestar import Request
from msgspec import Struct

from imgproc_local import __version__
from imgproc_local.compose import Services
from imgproc_local.config import CONFIG_VARIABLE, ShownSetting, default_config_path, settings_file, shown_settings
from imgproc_local.domain.errors import SettingInvalid
from imgproc_local.system.files import encodable_text
from imgproc_local.web.guard import get


class Settings(Struct, frozen=True):
    """`file` is the settings file, None without one. `default_file` is its default path, None without a home folder.

    `file_variable` is the environment variable that names another file. The source of a setting is "default",
    "unknown", a file, an environment variable or a flag.
    """

    version: str
    file: str | None
    default_file: str | None
    file_variable: str
    settings: list[ShownSetting]


class SettingsBody(Struct, frozen=True):
    data: Settings


@get("/local/settings", sync_to_thread=True)
def settings(request: Request[Any, Any, Any]) -> SettingsBody:
    """Every setting; of secrets, only whether they are set."""
    services: Services = request.app.state.services
    try:
        file = settings_file(os.environ)
    except SettingInvalid:  # the file was deleted after the start
        file = None
    default = default_config_path()
    return SettingsBody(
        Settings(
            version=__version__,
            file=None if file is None else encodable_text(str(file)),
            default_file=None if default is None else encodable_text(str(default)),
            file_variable=CONFIG_VARIABLE,
            settings=shown_settings(services.config, services.origins),
        )
    )


HANDLERS = [settings]
