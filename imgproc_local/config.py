"""Every setting, in one frozen struct. Later sources win: defaults, TOML file, IMGPROC_* variables, command-line flags.

Nothing is read at import. `load` reads the sources once and remembers, for `config show`, where each value came from.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import platformdirs
from msgspec import Meta, Struct

from imgproc_local.domain.addresses import Network, parse_networks, parse_origins
from imgproc_local.domain.errors import SettingInvalid
from imgproc_local.domain.image import KeepLocation
from imgproc_local.domain.plan import HIGHEST_TARGET, LOWEST_TARGET, Effort, TargetName
from imgproc_local.system.files import encodable_text
from imgproc_local.vision.loopback.address import parse_address
from imgproc_local.vision.models.model import loopback_model

ENV_PREFIX = "IMGPROC_"
CONFIG_VARIABLE = "IMGPROC_CONFIG"
NO_LOOPBACK_MODELS = (
    "In air-gapped mode the program opens no connections, so it can't use a model in another program. Choose an"
    " installed model with `models use NAME` or the setting `model`, or set air_gapped to false."
)
"""Why a model in another program is refused in air-gapped mode."""

REMOVED = {
    "memory_budget_mb": "A quarter of the memory is used.",
    "compression_fallback": "If the compression service fails, the local codecs always do its work.",
    "use_gps": "Descriptions never mention a position.",
    "model_threads": "The model uses the physical cores.",
    "model_idle_s": "A model is unloaded after five minutes without a picture.",
    "catalogue": "Import your own models with `imgproc-local models import`.",
    "tls_key": "Append the key to the file of tls_cert.",
    **dict.fromkeys(("ollama_url", "lmstudio_url", "llama_server_url"), "Set program_url if its address is unusual."),
}
"""Settings of earlier versions, with what replaces them."""


def default_data_dir() -> Path:
    """The user's data folder. Raises: SettingInvalid, for a user without a home, as in services and containers."""
    try:
        return Path(platformdirs.user_data_dir("imgproc-local", appauthor=False))
    except RuntimeError as error:
        raise SettingInvalid(
            "This user has no home folder for data: name a folder with --data-dir or IMGPROC_DATA_DIR, or set HOME."
        ) from error


def default_config_path() -> Path | None:
    """The user's settings file; None for a user without a home."""
    try:
        return Path(platformdirs.user_config_dir("imgproc-local", appauthor=False)) / "config.toml"
    except RuntimeError:
        return None


class Secret:
    """A setting that is never shown: its text says only whether it is set. `reveal` returns the value."""

    __slots__ = ("_value",)

    def __init__(self, value: str = "") -> None:
        self._value = value.strip()

    def reveal(self) -> str:
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "set" if self._value else "not set"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings. The `Meta` of each field holds its bounds and the description that `config show` prints."""

    data_dir: Annotated[Path, Meta(description="folder of the database and the files")] = msgspec.field(
        default_factory=default_data_dir
    )
    host: Annotated[str, Meta(min_length=1, description="address to listen on")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="port to listen on; 0 chooses a free one")] = 8484
    tls_cert: Annotated[str, Meta(description="PEM file of the certificate for TLS and its key; empty is no TLS")] = ""
    behind_proxy: Annotated[
        str,
        Meta(description="addresses or networks, separated by commas, of proxies whose forwarded headers are trusted"),
    ] = ""
    cors_origins: Annotated[
        str,
        Meta(description="origins, separated by commas, whose pages may use the API in a browser; empty is none"),
    ] = ""
    status_set: Annotated[
        Literal["A", "B"], Meta(description="status words on the wire: A (analyzing …) or B (processing, done)")
    ] = "A"
    max_upload_bytes: Annotated[int, Meta(ge=1024, description="largest image file accepted, in bytes")] = (
        25 * 1024 * 1024
    )
    max_pixels: Annotated[int, Meta(ge=1, description="most pixels of one image, all frames counted")] = 200_000_000
    queue_limit: Annotated[int, Meta(ge=1, le=100_000, description="unfinished jobs accepted before 503")] = 1000
    codec_threads: Annotated[
        int,
        Meta(ge=0, le=256, description="pictures optimized or converted at once; 0 is one per processor core"),
    ] = 0
    stage_timeout_s: Annotated[int, Meta(ge=1, le=86_400, description="seconds that one stage of one job may take")] = (
        120
    )
    quality_target: Annotated[
        TargetName | Annotated[float, Meta(ge=LOWEST_TARGET, le=HIGHEST_TARGET)],
        Meta(
            description="how closely results must match the original: visually-lossless (90), web (85), small (75),"
            " or a score of SSIMULACRA 2.1 from 50 to 95"
        ),
    ] = "web"
    effort: Annotated[
        Effort,
        Meta(description="CPU time spent on smaller files at the same quality: fast, balanced or best"),
    ] = "balanced"
    rate_limit_per_minute: Annotated[
        int, Meta(ge=0, description="requests per rolling minute and key; 0 is no limit")
    ] = 60
    price_analyze: Annotated[int, Meta(ge=0, description="credits for analyze, per language")] = 1
    price_optimize: Annotated[int, Meta(ge=0, description="credits for optimize")] = 1
    price_convert: Annotated[int, Meta(ge=0, description="credits for convert")] = 1
    first_balance: Annotated[int, Meta(ge=0, description="credits that a new account starts with")] = 1_000_000
    retention_jobs_days: Annotated[
        int, Meta(ge=0, le=36_500, description="days from upload to removal of finished jobs, with files; 0 is never")
    ] = 0
    retention_originals_days: Annotated[
        int, Meta(ge=0, le=36_500, description="days from upload to removal of finished jobs' originals; 0 is never")
    ] = 0
    retention_results_days: Annotated[
        int, Meta(ge=0, le=36_500, description="days from upload to removal of finished jobs' results; 0 is never")
    ] = 0
    pixel_texts: Annotated[
        bool,
        Meta(
            description="give pictures of unknown content an alt text of their kind and date, marked as needing a"
            " text; false leaves it empty"
        ),
    ] = True
    keep_location: Annotated[
        KeepLocation,
        Meta(description="place names that results preserve: none, city, or all with street and sublocation"),
    ] = KeepLocation.CITY
    compression_service: Annotated[
        Literal["local", "tinify"],
        Meta(description="who optimizes: the local codecs, or an external service with Tinify's API"),
    ] = "local"
    compression_url: Annotated[
        str, Meta(min_length=1, description="address of the compression service; https, or http on this machine")
    ] = "https://api.tinify.com"
    compression_key: Annotated[Secret, Meta(description="key for the compression service; never shown")] = (
        msgspec.field(default_factory=Secret)
    )
    air_gapped: Annotated[
        bool,
        Meta(description="open no network connections; external services and downloads of models are refused"),
    ] = False
    model: Annotated[
        str,
        Meta(description="vision model that writes descriptions; empty is the one of `models use`, `none` is no model"),
    ] = ""
    models_dir: Annotated[
        str, Meta(description="folder of the vision models, on any drive; empty is `models` in data_dir")
    ] = ""
    model_gpu_layers: Annotated[
        Annotated[int, Meta(ge=0, le=10_000)] | Literal["auto"],
        Meta(description="layers of the vision model on the GPU; auto is all if llama.cpp was built for a GPU"),
    ] = "auto"
    program_url: Annotated[
        str,
        Meta(
            description="address of the program that runs the model, on this machine, for `models use PROGRAM:NAME`;"
            " empty is its usual port"
        ),
    ] = ""

    @property
    def trusted_proxies(self) -> tuple[Network, ...]:
        """The networks in `behind_proxy`. Raises: ValueError."""
        return parse_networks(self.behind_proxy)

    @property
    def allowed_origins(self) -> tuple[str, ...]:
        """The origins in `cors_origins`. Raises: ValueError."""
        return parse_origins(self.cors_origins)

    @property
    def models_folder(self) -> Path:
        """The folder of the vision models."""
        return Path(self.models_dir).expanduser().absolute() if self.models_dir else self.data_dir / "models"

    @property
    def gpu_layers(self) -> int | None:
        """The layers of the vision model on the GPU; None for all."""
        return None if self.model_gpu_layers == "auto" else self.model_gpu_layers


SETTINGS = Config.__struct_fields__


def setting_meta(name: str) -> Meta:
    """The description and bounds of one setting."""
    hint = get_type_hints(Config, include_extras=True)[name]
    return next(part for part in get_args(hint) if isinstance(part, Meta))


class ShownSetting(Struct, frozen=True):
    """A setting as people see it. `value` can be written as JSON; a secret is "set" or "not set"."""

    name: str
    value: Any
    source: str
    description: str


def shown_settings(config: Config, origins: Mapping[str, str]) -> list[ShownSetting]:
    """Every setting in effect. `origins` are their sources by name, as in `Loaded`."""
    values = msgspec.to_builtins(config, enc_hook=lambda value: encodable_text(str(value)))
    return [
        ShownSetting(
            name, values[name], encodable_text(origins.get(name, "unknown")), setting_meta(name).description or ""
        )
        for name in SETTINGS
    ]


class Loaded(Struct, frozen=True):
    """The settings, the source of each value by name (a file, a variable, a flag or `default`), and the file read."""

    config: Config
    origins: dict[str, str]
    file: Path | None


def load(flags: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Loaded:
    """The settings in effect. `flags` are those of the command line; None is a flag that was not given.

    Raises: SettingInvalid, naming the unusable file, the unknown setting, the wrong value or the contradiction.
    """
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    origins = dict.fromkeys(SETTINGS, "default")

    file = settings_file(environ)
    if file is not None:
        for name, value in _read_toml(file).items():
            values[name], origins[name] = value, str(file)
    for name in SETTINGS:
        variable = ENV_PREFIX + name.upper()
        if variable in environ:
            values[name], origins[name] = environ[variable], variable
    for name, value in flags.items():
        if value is not None:
            values[name], origins[name] = value, "--" + name.replace("_", "-")

    _refuse_unknown_variables(environ)
    for name, value in values.items():
        _check(name, value, origins[name])
    config = msgspec.convert(values, Config, strict=False, dec_hook=_to_type)
    try:
        config = msgspec.structs.replace(config, data_dir=config.data_dir.expanduser().absolute())
        _ = config.models_folder  # only to find out whether it raises
    except RuntimeError as error:
        raise SettingInvalid(f"A folder begins with ~, but that home folder is not known ({error}).") from error
    refuse_contradictions(config)
    return Loaded(config=config, origins=origins, file=file)


def settings_file(environ: Mapping[str, str]) -> Path | None:
    """The settings file that is read; None if none exists. Raises: SettingInvalid, if IMGPROC_CONFIG names no file."""
    named = environ.get(CONFIG_VARIABLE)
    file = Path(named) if named else default_config_path()
    if file is not None and file.is_file():
        return file
    if named:
        raise SettingInvalid(f"{CONFIG_VARIABLE} names {named}; there is no such file.")
    return None


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingInvalid(f"The settings file {file} can't be read as TOML: {error}") from error
    unknown = sorted(set(values) - set(SETTINGS))
    if unknown:
        raise SettingInvalid(f"Unknown setting {unknown[0]!r} in {file}.{_suggestion(unknown[0], SETTINGS)}")
    return values


def _refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    known = {ENV_PREFIX + name.upper() for name in SETTINGS} | {CONFIG_VARIABLE}
    unknown = sorted(name for name in environ if name.startswith(ENV_PREFIX) and name not in known)
    if unknown:
        raise SettingInvalid(f"Unknown setting in the environment: {unknown[0]}.{_suggestion(unknown[0], known)}")


def _check(name: str, value: Any, origin: str) -> None:
    hint = get_type_hints(Config, include_extras=True)[name]
    try:
        msgspec.convert(value, hint, strict=False, dec_hook=_to_type)
    except msgspec.ValidationError as error:
        received = "another value" if get_args(hint)[0] is Secret else repr(value)
        description = setting_meta(name).description or ""
        raise SettingInvalid(
            f"{name} ({origin}): expected {_expected(hint)}, received {received}."
            f" {description[:1].upper()}{description[1:]}."
        ) from error


_TYPE_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a folder",
    Secret: "printable ASCII text",
    KeepLocation: " or ".join(repr(kept.value) for kept in KeepLocation),
}


def _expected(hint: Any) -> str:
    """The values that a setting of this type accepts, in words."""
    kind, *annotations = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if get_origin(kind) is Literal:
        return " or ".join(repr(value) for value in get_args(kind))
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_expected(alternative) for alternative in get_args(kind))
    bounds = next((meta for meta in annotations if isinstance(meta, Meta)), Meta())
    name = _TYPE_NAMES.get(kind, "a table")
    if bounds.min_length:
        return f"{name} that is not empty"
    if bounds.ge is not None and bounds.le is not None:
        return f"{name} from {bounds.ge:g} to {bounds.le:g}"
    return name if bounds.ge is None else f"{name} of at least {bounds.ge:g}"


def refuse_contradictions(config: Config) -> None:
    """Raises: SettingInvalid, if settings contradict each other or an address in them can't be used."""
    try:
        _ = config.trusted_proxies
    except ValueError as error:
        raise SettingInvalid(f"behind_proxy: expected addresses or networks separated by commas; {error}.") from error
    addresses: list[tuple[str, Callable[[str], object], str]] = [("cors_origins", parse_origins, config.cors_origins)]
    if config.program_url:
        addresses.append(("program_url", parse_address, config.program_url))
    for setting, parse, text in addresses:
        try:
            parse(text)
        except ValueError as error:
            raise SettingInvalid(f"{setting}: {error}.") from error
    if config.air_gapped and loopback_model(config.model):
        raise SettingInvalid(f"air_gapped is true and model is {config.model!r}. {NO_LOOPBACK_MODELS}")
    if config.compression_service == "local":
        return
    from imgproc_local.remote.tinify import check_url

    if config.air_gapped:
        raise SettingInvalid(
            f"air_gapped is true and compression_service is {config.compression_service!r}, an external service."
            " Set compression_service to 'local', or air_gapped to false."
        )
    if not config.compression_key:
        raise SettingInvalid(
            f"compression_service is {config.compression_service!r}, which needs a key: set compression_key."
        )
    check_url(config.compression_url)


def _to_type(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, (str, Path)) and str(value):
        return Path(value)
    if kind is Secret and isinstance(value, str) and value.isascii() and value.isprintable():
        return Secret(value)
    raise msgspec.ValidationError(f"Expected {kind.__name__}")


def _suggestion(name: str, known: Iterable[str]) -> str:
    """The end of the message about an unknown setting: what replaces a removed one, or the most similar known name."""
    if removal := removal_note(name.removeprefix(ENV_PREFIX)):
        return f" {removal}"
    near = difflib.get_close_matches(name, known, n=1)
    return f"{f' Did you mean {near[0]}?' if near else ''} `imgproc-local config show` lists all settings."


def removal_note(name: str) -> str:
    """What to do about a setting, variable or flag that was removed; "" for others."""
    replacement = REMOVED.get(name.strip("-").replace("-", "_").lower())
    return f"It was removed: leave it out. {replacement}" if replacement else ""
