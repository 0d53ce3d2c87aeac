"""Every setting, in one frozen struct. Later sources win: defaults, TOML file, IMGPROC_* variables, command-line flags.

Nothing is read at import. `load` reads the sources once and remembers, for `config show`, where each value came from.
`Settings` has those of a running service, and changes the few that the local page may change. It is one file, so that
all that a new setting needs is in one place.
"""

from __future__ import annotations

import difflib
import os
import stat
import threading
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec
import platformdirs
from msgspec import Meta, Struct
from msgspec.structs import replace

from imgproc_local.domain.addresses import Network, parse_networks, parse_origins, parse_public_url
from imgproc_local.domain.errors import InvalidRequest, SettingInvalid, StorageFailed
from imgproc_local.domain.image import Disclosure, KeepLocation, Kept, NamePeople
from imgproc_local.domain.plan import Effort, Prices, Quality
from imgproc_local.remote import check_url
from imgproc_local.system import files
from imgproc_local.vision.llm.loopback import parse_address
from imgproc_local.vision.models.model import loopback_model

ENV_PREFIX = "IMGPROC_"
CONFIG_VARIABLE = "IMGPROC_CONFIG"
NO_LOOPBACK_MODELS = (
    "In air-gapped mode the program opens no connections, so it can't use a model in another program. Choose an"
    " installed model with `imgproc-local models use NAME` or the setting `model`, or set air_gapped to false."
)
"""Why a model in another program is refused in air-gapped mode."""


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

    def __init__(self, value: str = "") -> None:
        self._value = value.strip()

    def reveal(self) -> str:
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "set" if self._value else "not set"


def _about(description: str, **bounds: Any) -> Meta:
    """What is expected of a setting, for `config show` and for a message about another value, and its bounds."""
    return Meta(description=description, **bounds)


_Days = Annotated[int, Meta(ge=0, le=36_500)]


class Config(Struct, frozen=True, kw_only=True):
    """The settings."""

    data_dir: Annotated[Path, _about("folder of the database and the files")] = msgspec.field(
        default_factory=default_data_dir
    )
    host: Annotated[str, _about("address to listen on", min_length=1)] = "127.0.0.1"
    port: Annotated[int, _about("port to listen on, up to 65535; 0 chooses a free one", ge=0, le=65535)] = 8484
    tls_cert: Annotated[str, _about("PEM file of the certificate for TLS and its key; empty is no TLS")] = ""
    behind_proxy: Annotated[str, _about("addresses or networks of trusted proxies, separated by commas")] = ""
    public_url: Annotated[
        str, _about("address by which browsers reach the service through a proxy, without a path; empty is its own")
    ] = ""
    cors_origins: Annotated[str, _about("origins whose pages may use the API in a browser, separated by commas")] = ""
    status_set: Annotated[
        Literal["A", "B"], _about("status words on the wire: A (analyzing …) or B (processing, done)")
    ] = "A"
    max_upload_bytes: Annotated[int, _about("bytes of the largest image accepted, at least 1024", ge=1024)] = 26_214_400
    max_pixels: Annotated[int, _about("most pixels of one image, all frames counted", ge=1)] = 200_000_000
    queue_limit: Annotated[int, _about("unfinished jobs accepted before 503, 1 to 100000", ge=1, le=100_000)] = 1000
    codec_threads: Annotated[
        int, _about("pictures optimized or converted at once, up to 256; 0 is one per processor core", ge=0, le=256)
    ] = 0
    stage_timeout_s: Annotated[int, _about("seconds that a stage of a job may take, up to 86400", ge=1, le=86_400)] = (
        120
    )
    quality_target: Annotated[
        Quality,
        _about(
            "how closely results must match the original: visually-lossless (90), web (85), small (75), or a score of"
            " SSIMULACRA 2.1 from 50 to 95"
        ),
    ] = "web"
    effort: Annotated[Effort, _about("CPU time spent on smaller files at the same quality: fast, balanced or best")] = (
        "balanced"
    )
    rate_limit_per_minute: Annotated[int, _about("requests per rolling minute and key; 0 is no limit", ge=0)] = 60
    prices: Annotated[
        str,
        _about(
            "credits for analyze (per language), optimize and convert, separated by commas",
            pattern=r"^\d{1,9}, *\d{1,9}, *\d{1,9}$",
        ),
    ] = "1, 1, 1"
    first_balance: Annotated[int, _about("credits that a new account starts with", ge=0)] = 1_000_000
    retention_jobs_days: Annotated[_Days, _about("days after which finished jobs are removed; 0: never")] = 0
    retention_originals_days: Annotated[_Days, _about("days after which only uploads are; 0: never")] = 0
    retention_results_days: Annotated[_Days, _about("days after which only results are; 0: never")] = 0
    pixel_texts: Annotated[
        bool, _about("true: give pictures of unknown content a text of their kind and date, marked needs_text")
    ] = True
    keep_location: Annotated[
        KeepLocation, _about("place names that results preserve: none, city, or all with street and sublocation")
    ] = KeepLocation.CITY
    name_people: Annotated[
        NamePeople, _about("persons that texts and results name: those in captions, all with face tags, or none")
    ] = NamePeople.CAPTIONS
    keep_dates: Annotated[bool, _about("true: results keep when the picture was taken, digitised and modified")] = False
    keep_camera: Annotated[bool, _about("true: results keep camera, lens and exposure, never serial numbers")] = False
    keep_rating: Annotated[bool, _about("true: results keep rating and label")] = False
    compression_service: Annotated[
        Literal["local", "tinify"],
        _about("who optimizes: `local` codecs, or `tinify`, an external service with Tinify's API"),
    ] = "local"
    compression_url: Annotated[
        str, _about("address of the compression service; https, or http on this machine", min_length=1)
    ] = "https://api.tinify.com"
    compression_key: Annotated[Secret, _about("key for the compression service, in ASCII; never shown")] = Secret()
    air_gapped: Annotated[bool, _about("true: open no network connections and refuse what needs one")] = False
    model: Annotated[
        str, _about("vision model that describes; empty is the one of `models use`, `none` is no model")
    ] = ""
    models_dir: Annotated[str, _about("folder of the vision models; empty is `models` in data_dir")] = ""
    model_signers: Annotated[
        str, _about("file of the SSH keys that sign models to import, as of --signers; empty: none need to")
    ] = ""
    model_gpu_layers: Annotated[
        Annotated[int, Meta(ge=0)] | Literal["auto"],
        _about("layers of the vision model on the GPU; auto is all if it can"),
    ] = "auto"
    program_url: Annotated[
        str, _about("address of the program for `models use PROGRAM:NAME`; empty is its usual port")
    ] = ""

    @property
    def trusted_proxies(self) -> tuple[Network, ...]:
        """The networks in `behind_proxy`. Raises: ValueError."""
        return parse_networks(self.behind_proxy)

    @property
    def public_address(self) -> str:
        """The address in `public_url` as browsers state it; "" without one. Raises: ValueError."""
        return parse_public_url(self.public_url) if self.public_url else ""

    @property
    def allowed_origins(self) -> tuple[str, ...]:
        """The origins in `cors_origins`. Raises: ValueError."""
        return parse_origins(self.cors_origins)

    @property
    def stage_prices(self) -> Prices:
        return Prices(*(int(price) for price in self.prices.split(",")))

    @property
    def disclosure(self) -> Disclosure:
        """What results may say of places, persons, dates, the camera and the rating."""
        kept = {Kept.DATES: self.keep_dates, Kept.CAMERA: self.keep_camera, Kept.RATING: self.keep_rating}
        return Disclosure(self.keep_location, self.name_people, frozenset(each for each in kept if kept[each]))

    @property
    def models_folder(self) -> Path:
        """The folder of the vision models."""
        return Path(self.models_dir).expanduser().absolute() if self.models_dir else self.data_dir / "models"

    @property
    def gpu_layers(self) -> int | None:
        """The layers of the vision model on the GPU; None for all."""
        return None if self.model_gpu_layers == "auto" else self.model_gpu_layers


SETTINGS = Config.__struct_fields__
_SHORT_FLAGS = {"quality_target": "quality", "codec_threads": "jobs"}
"""The options of commands that are not called like their setting."""
_TYPES = get_type_hints(Config, include_extras=True)
_MAX_FILE_BYTES = 1024 * 1024
DESCRIPTIONS: dict[str, str] = {name: hint.__metadata__[-1].description for name, hint in _TYPES.items()}


class _ShownSetting(Struct, frozen=True):
    """A setting as people see it. `value` can be written as JSON; a secret is "set" or "not set"."""

    name: str
    value: Any
    source: str
    description: str


_Given = dict[str, tuple[Any, str]]
"""Settings that a source gives: the value in the setting's type, and its origin for people, by name."""


class Loaded(Struct, frozen=True):
    """The settings, the source of each value by name (a file, a variable, a flag or `default`), and the file read.

    `over_file` are those that variables and flags give, which win over the file.
    """

    config: Config
    origins: dict[str, str]
    file: Path | None
    over_file: _Given = {}

    def shown(self) -> list[_ShownSetting]:
        """Every setting in effect."""
        values = as_json_values(self.config)
        return [
            _ShownSetting(name, values[name], files.encodable_text(self.origins[name]), DESCRIPTIONS[name])
            for name in SETTINGS
        ]


def as_json_values(config: Config) -> dict[str, Any]:
    """The settings as values of JSON, by name; a secret is "set" or "not set"."""
    values: dict[str, Any] = msgspec.to_builtins(config, enc_hook=lambda value: files.encodable_text(str(value)))
    return values


def load(flags: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Loaded:
    """The settings in effect. `flags` are those of the command line; None is a flag that was not given.

    Raises: SettingInvalid, naming the unusable file, the unknown setting, the wrong value or the contradiction.
    """
    environ = os.environ if environ is None else environ
    file = _settings_file(environ)
    return _combined(file, _read_file(file) if file else "", _checked(_over_file(environ, flags)))


def _combined(file: Path | None, text: str, over_file: _Given) -> Loaded:
    """The settings of a `file` with this text and of what wins over it. Raises: SettingInvalid."""
    try:
        in_file = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingInvalid(f"The settings file {file} can't be read as TOML: {error}") from error
    given = _checked((name, value, str(file)) for name, value in in_file.items()) | over_file
    config = Config(**{name: value for name, (value, _) in given.items()})
    try:
        config = replace(config, data_dir=config.data_dir.expanduser().absolute())
        _ = config.models_folder  # only to find out whether it raises
    except RuntimeError as error:
        raise SettingInvalid(f"A folder begins with ~, but that home folder is not known ({error}).") from error
    refuse_contradictions(config)
    origins = dict.fromkeys(SETTINGS, "default") | {name: origin for name, (_, origin) in given.items()}
    return Loaded(config, origins, file, over_file)


def _settings_file(environ: Mapping[str, str]) -> Path | None:
    """The settings file that is read; None if none exists. Raises: SettingInvalid, if IMGPROC_CONFIG names no file."""
    named = environ.get(CONFIG_VARIABLE)
    file = Path(named) if named else default_config_path()
    if file is not None and file.is_file():
        return file
    if named:
        raise SettingInvalid(f"{CONFIG_VARIABLE} names {named}; there is no such file.")
    return None


def _read_file(file: Path) -> str:
    """The text of a settings file. Raises: SettingInvalid."""
    try:
        with files.open_own_file(file, max_bytes=_MAX_FILE_BYTES) as opened:
            return str(opened.read(_MAX_FILE_BYTES), "utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingInvalid(f"The settings file {file} can't be read as TOML: {error}") from error


def _over_file(environ: Mapping[str, str], flags: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """The name, the value and the source of each setting that a variable or a flag gives; later ones win."""
    for variable, value in environ.items():
        if variable.startswith(ENV_PREFIX) and variable != CONFIG_VARIABLE:
            yield variable.removeprefix(ENV_PREFIX).lower(), value, variable
    for name, value in flags.items():
        if value is not None:
            yield name, value, "--" + _SHORT_FLAGS.get(name, name).replace("_", "-")


def _checked(given: Iterable[tuple[str, Any, str]]) -> _Given:
    """Settings in their types. Raises: SettingInvalid, for an unknown name or a wrong value."""
    checked: _Given = {}
    for name, value, origin in given:
        if name not in SETTINGS:
            near = difflib.get_close_matches(name, SETTINGS, n=1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise SettingInvalid(
                f"Unknown setting {name!r} ({origin}).{meant} `imgproc-local config show` lists all settings."
            )
        checked[name] = _converted(name, value, origin), origin
    return checked


def _converted(name: str, value: Any, origin: str) -> Any:
    """The value in the type of the setting. Raises: SettingInvalid."""
    try:
        return msgspec.convert(value, _TYPES[name], strict=False, dec_hook=_to_type)
    except msgspec.ValidationError as error:
        received = "this value" if Secret in get_args(_TYPES[name]) else repr(value)
        raise SettingInvalid(f"{name} ({origin}) can't be {received}. Expected: {DESCRIPTIONS[name]}.") from error


def _to_type(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, (str, Path)) and str(value):
        return Path(value)
    if kind is Secret and isinstance(value, str) and value.isascii() and value.isprintable():
        return Secret(value)
    raise msgspec.ValidationError


def refuse_contradictions(config: Config) -> None:
    """Raises: SettingInvalid, if settings contradict each other or an address in them can't be used."""
    addresses: list[tuple[str, Callable[[str], object]]] = [
        ("behind_proxy", parse_networks),
        ("public_url", parse_public_url),
        ("cors_origins", parse_origins),
        ("program_url", parse_address),
    ]
    for name, parse in addresses:
        try:
            if text := getattr(config, name):
                parse(text)
        except ValueError as error:
            raise SettingInvalid(f"{name}: {error}.") from error
    if config.air_gapped and loopback_model(config.model):
        raise SettingInvalid(f"air_gapped is true and model is {config.model!r}. {NO_LOOPBACK_MODELS}")
    if config.compression_service == "local":
        return
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


# ---- the settings of a running service ----

LIVE = (
    "quality_target", "effort", "pixel_texts", "keep_location", "name_people", "keep_dates", "keep_camera",
    "keep_rating", "rate_limit_per_minute",
)  # fmt: skip
"""The settings that take effect at once: for the next stage, upload or request. What runs is not changed."""
CHANGEABLE = (
    *LIVE, "codec_threads", "retention_jobs_days", "retention_originals_days", "retention_results_days", "program_url",
)  # fmt: skip
"""The settings that the page may change. No other may be: whoever finds the page open must not be able to let other
machines in, to send pictures out, or to read and write other folders. `program_url` is an address of this machine.
"""


class Settings:
    """The settings of a running service. `config` is in effect; `loaded` is what the next start would use.

    Threads may read both, which are replaced as a whole.
    """

    def __init__(self, loaded: Loaded) -> None:
        self.loaded, self.config = loaded, loaded.config
        self.file = loaded.file or default_config_path()
        """The file that changes are written to, which need not exist yet; None for a user without a home."""
        self._lock = threading.Lock()

    def fixed_by(self, name: str) -> str | None:
        """The variable or flag that gives a setting, so that the file can't change it; None without one."""
        return self.loaded.over_file[name][1] if name in self.loaded.over_file else None

    def change(self, changes: Mapping[str, Any]) -> None:
        """Write these values into the settings file, which keeps its comments; None removes a setting from it. Blocks.

        Raises: InvalidRequest, for a setting that may not be changed or a value that can't be used; SettingInvalid, if
            the file can't be read as it is; StorageFailed, if it can't be written. Nothing is changed then.
        """
        import tomlkit

        if wrong := {name: [problem] for name in changes if (problem := self._refusal(name))}:
            raise InvalidRequest(wrong)
        if self.file is None:
            raise SettingInvalid(f"This user has no home folder for a settings file: name one with {CONFIG_VARIABLE}.")
        with self._lock:
            text = _read_file(self.file) if self.file.exists() else ""
            _combined(self.file, text, self.loaded.over_file)  # only to find out whether it raises
            document = tomlkit.parse(text)
            for name, value in changes.items():
                if value is None:
                    document.pop(name, None)
                else:
                    document[name] = self._value(name, value)
            try:
                loaded = _combined(self.file, document.as_string(), self.loaded.over_file)
            except SettingInvalid as error:
                raise InvalidRequest({name: [error.message] for name in changes}) from error
            _write(self.file, document.as_string())
            self.loaded = loaded
            self.config = replace(self.config, **{name: getattr(loaded.config, name) for name in LIVE})

    def _refusal(self, name: str) -> str | None:
        if name not in CHANGEABLE:
            return f"{name[:40]!r} can't be changed from the page. Change it in the settings file, and start again."
        if origin := self.fixed_by(name):
            return f"{name} is set by {origin}, which wins over the settings file. Change it there."
        return None

    def _value(self, name: str, value: Any) -> Any:
        """The value as it is written. Raises: InvalidRequest."""
        try:
            return msgspec.to_builtins(_converted(name, value, str(self.file)))
        except SettingInvalid as error:
            raise InvalidRequest({name: [error.message]}) from error


def _write(file: Path, text: str) -> None:
    """Replace a settings file, or the one that it links to, with the access that others had. Raises: StorageFailed."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=files.PRIVATE_FOLDER)
        mode = stat.S_IMODE(file.stat().st_mode) if file.exists() else files.PRIVATE_FILE
        files.write_atomically(Path(os.path.realpath(file)), text.encode(), mode=mode)
    except OSError as error:
        advice = (
            "Free space on its disk" if files.is_disk_full(error) else "Give yourself permission to write to its folder"
        )
        raise StorageFailed(f"The settings file {file} can't be written ({error.strerror}). {advice}.") from error
