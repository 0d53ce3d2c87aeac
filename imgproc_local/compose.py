"""The only module that connects the parts of the service, from a configuration. It is one long file, so that all
connections are in one place.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from imgproc_local.config import ENV_PREFIX, NO_LOOPBACK_MODELS, Config, Loaded, Settings, refuse_contradictions
from imgproc_local.domain.errors import CheckStop, ModelUnusable, StorageFailed
from imgproc_local.domain.plan import MAX_LANGUAGES, target_score
from imgproc_local.engine.analyze import Analyzer, TextReader
from imgproc_local.engine.engine import Engine, Updates
from imgproc_local.engine.exports import Exporter
from imgproc_local.engine.pipeline import Lanes, OnDemand, Pipeline, Reader
from imgproc_local.engine.results import convert_stage, optimize_stage, write_texts
from imgproc_local.engine.stage import CODECS_LANE, VISION_LANE, Options
from imgproc_local.engine.thumbnails import Thumbnails
from imgproc_local.engine.upkeep import run_upkeep
from imgproc_local.engine.workers import Workers
from imgproc_local.storage.accounts import Credits, Keys, Sessions
from imgproc_local.storage.blobs import Blobs
from imgproc_local.storage.database import Clock, Database, open_database, utc_now
from imgproc_local.storage.inspection import DATABASE_FILE, RESTORING, WORK_FOLDER, content_problem
from imgproc_local.storage.jobs import Jobs, MaxAge, Retention
from imgproc_local.storage.stages import Stages
from imgproc_local.storage.translations import Translations
from imgproc_local.system.folder_lock import FolderLock, make_folder, require_folder
from imgproc_local.system.piped_child import program, usable_memory_bytes
from imgproc_local.system.threads import started_threads

if TYPE_CHECKING:
    from imgproc_local.remote import Tinify
    from imgproc_local.vision.llm.describer import LlmDescriber, LoadedModel
    from imgproc_local.vision.llm.listing import ModelList, ModelStatus
    from imgproc_local.vision.llm.loopback import ModelServer
    from imgproc_local.vision.models.model import AnyModel, VisionModel
    from imgproc_local.vision.models.store import ModelStore
    from imgproc_local.vision.models.tasks import ModelTasks

_Maker = Callable[[], "LlmDescriber"]
"""Makes the describer, when the first picture is described."""


class Store(Struct, frozen=True):
    """What a command may use while a server owns the data folder."""

    database: Database
    keys: Keys
    credits: Credits
    sessions: Sessions


class Services(Struct, frozen=True):
    """The parts of the service that the API, the page and the command line use."""

    settings: Settings
    store: Store
    jobs: Jobs
    translations: Translations
    blobs: Blobs
    engine: Engine
    thumbnails: Thumbnails
    jpegs: OnDemand
    models: ModelTasks
    exporter: Exporter

    @property
    def config(self) -> Config:
        """The settings in effect now."""
        return self.settings.config


def core_count() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def codec_workers(config: Config, folder: Path, results: Path) -> Workers:
    """Worker processes that decode and encode pictures; see `Workers` for the folders.

    They have this process's environment without the settings, because they need no secrets.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}
    return Workers(folder, results, program("codec-worker"), environment, config.stage_timeout_s)


def describer(config: Config) -> LlmDescriber:
    """The describer that uses the selected vision model, loaded with the first picture; without a model it describes
    from metadata and pixels.
    """
    from imgproc_local.vision.llm.describer import LlmDescriber

    models = model_store(config)
    # people who upload one by one pause for less; loading takes a second or two, and until then gigabytes are free
    idle_s = 300.0
    return LlmDescriber(lambda: models.active_model(config.model), partial(load_model, config), idle_s=idle_s)


def text_reader(config: Config, folder: Path) -> TextReader | None:
    """Reads text in pictures, once its models are installed; None if the extra `ocr` is not installed.

    `folder` is for its process, which can't write elsewhere.
    """
    from imgproc_local.vision.models.store import can_read_text

    if not can_read_text():
        return None
    from imgproc_local.vision.models.networks import installed_folder

    return TextReader(codec_workers(config, folder, folder), lambda: installed_folder(config.models_folder))


@contextmanager
def open_stages(config: Config, folder: Path, *, at_once: int = 0, service: Tinify | None = None) -> Iterator[Pipeline]:
    """The stages without jobs, for pictures outside a data folder. Temporary files are written to `folder`.

    With `at_once`, that many stages of the codecs run at the same time, beside one that describes. `service` is the
    outside compression service to use. Worker processes and a loaded model end with the block.
    """
    results = folder / "results"
    results.mkdir(parents=True, exist_ok=True)
    settings = Settings(Loaded(config, {}, None))
    with _open_pipeline(settings, folder, results, service, at_once) as (pipeline, _):
        yield pipeline


@contextmanager
def _open_pipeline(
    settings: Settings, folder: Path, results: Path, service: Tinify | None, at_once: int, make: _Maker | None = None
) -> Iterator[tuple[Pipeline, Analyzer]]:
    """The stages, with the folders of their worker processes in `folder`; see `open_stages`. `make` makes another
    describer than that of the settings.
    """
    config = settings.config
    workers = codec_workers(config, folder / WORK_FOLDER, results)
    analyzer = Analyzer(workers, make or (lambda: describer(config)), text_reader(config, folder / WORK_FOLDER / "ocr"))
    stages = (analyzer.stage, optimize_stage(workers, service), convert_stage(workers))
    reader = Reader(workers, config.max_pixels, lambda: settings.config.disclosure)
    # a quarter of the memory; per pixel, about 48 bytes to score and 58 to encode AVIF of a small picture
    pixels = usable_memory_bytes() // 4 // 100
    lanes = Lanes({CODECS_LANE: at_once, VISION_LANE: 1}, pixels) if at_once else None

    def options() -> Options:
        now = settings.config
        return Options(target_score(now.quality_target), now.pixel_texts, now.disclosure, now.effort)

    try:
        yield Pipeline(stages, options, workers, reader, config.stage_timeout_s, lanes), analyzer
    finally:
        reader.close()
        if lanes is not None:
            lanes.close()
        workers.close()
        analyzer.close()


def model_store(config: Config, *, may_be_new: bool = False) -> ModelStore:
    """The models folder. With `may_be_new`, the folder that the setting `models_dir` names need not exist yet."""
    from imgproc_local.vision.models.store import ModelStore

    must_exist = bool(config.models_dir) and not may_be_new
    return ModelStore(config.models_folder, gpu_layers=config.gpu_layers, must_exist=must_exist)


def load_model(config: Config, model: AnyModel, check_stop: CheckStop, *, retry_test: bool = False) -> LoadedModel:
    """The loaded `model`. A model file must pass a self-test first; with `retry_test`, one that failed is repeated.

    Raises: ModelUnusable, if it does not work here; what `check_stop` raises.
    """
    from imgproc_local.vision.models.model import LoopbackModel

    if isinstance(model, LoopbackModel):
        from imgproc_local.vision.llm.loopback import LoadedLoopbackModel

        # the rest of the stage's time is for decoding the picture and, if the model fails, for describing from facts
        timeout_s = config.stage_timeout_s * 0.8
        return LoadedLoopbackModel(model, model_server(config, model.program), timeout_s, check_stop)
    from imgproc_local.vision.llm.llama import Llama
    from imgproc_local.vision.llm.selftest import require_self_test

    require_self_test(model, check_stop=check_stop, retry=retry_test)
    return Llama(model, check_stop)


def _model_tasks(config: Config, unload_model: Callable[[], None]) -> ModelTasks:
    """Installs models in the background, and tests them if llama.cpp is installed.

    `unload_model` frees the memory of the model in use before another one is tested, because both may not fit.
    """
    from imgproc_local.vision.models.tasks import ModelTasks

    def test(model: VisionModel, check_stop: CheckStop) -> None:
        from imgproc_local.vision.llm.selftest import llama_is_installed, passed_self_test, require_self_test

        if llama_is_installed():
            if not passed_self_test(model):
                unload_model()
            require_self_test(model, check_stop=check_stop, retry=True)

    return ModelTasks(model_store(config, may_be_new=True), test)


def model_server(config: Config, program: str) -> ModelServer:
    """The program on this machine, "ollama", "lmstudio" or "llama-server", at its address in the settings.

    Raises: ModelUnusable, in air-gapped mode.
    """
    from imgproc_local.vision.llm.loopback import PROGRAMS, ModelServer, parse_address

    if config.air_gapped:
        raise ModelUnusable(NO_LOOPBACK_MODELS)
    address = parse_address(config.program_url or PROGRAMS[program].usual_url)
    return ModelServer(PROGRAMS[program], address)


def model_list(config: Config) -> ModelList:
    """The models of this machine; in air-gapped mode no other program is asked."""
    from imgproc_local.vision.llm.listing import ModelList

    return ModelList(model_store(config), config.model, partial(model_server, config))


def used_model_status(config: Config) -> ModelStatus:
    """Which model describes pictures, and whether it works here. No model is loaded."""
    return model_list(config).status()


def max_age(config: Config) -> MaxAge:
    """The age at which jobs and files are removed, from the settings."""
    days = (config.retention_jobs_days, config.retention_originals_days, config.retention_results_days)
    return MaxAge(*(timedelta(days=count) if count else None for count in days))


def compression_service(config: Config) -> Tinify | None:
    """The external service that optimizes; None if none is configured. Nothing is sent before the first picture.

    Raises: SettingInvalid where the settings contradict each other, such as an external service in air-gapped mode.
    """
    refuse_contradictions(config)
    if config.compression_service == "local":
        return None
    from imgproc_local.remote import Tinify

    # the local codecs have the other half of the stage's time
    return Tinify(config.compression_url, config.compression_key.reveal(), config.stage_timeout_s / 2)


@asynccontextmanager
async def open_store(config: Config, clock: Clock = utc_now, *, create: bool = False) -> AsyncIterator[Store]:
    """Keys, credits and page sessions, even while a server owns the folder. With `create`, a missing folder is created.

    Raises: StorageFailed.
    """
    if not create:
        require_folder(config.data_dir)
    _make_own_folder(config.data_dir)
    database = await open_database(config.data_dir / DATABASE_FILE, clock)
    try:
        keys = Keys(database, config.first_balance)
        yield Store(database, keys, Credits(database), Sessions(database, keys))
    finally:
        await database.close()


def _make_own_folder(folder: Path) -> None:
    """Create the data folder if it is missing.

    Raises: StorageFailed, if it can't be used, or has no database but content that the next start would delete.
    """
    make_folder(folder)
    if not (folder / DATABASE_FILE).exists() and (problem := content_problem(folder)):
        raise StorageFailed(" ".join(problem))


def lock_folder(config: Config, doing: str) -> FolderLock:
    """Make this process the owner of the data folder. `doing` names the command for others that find it in use.

    Raises: DataFolderBusy, if another process owns it; StorageFailed, if it can't be used.
    """
    _make_own_folder(config.data_dir)
    return FolderLock(config.data_dir, doing)


@asynccontextmanager
async def open_services(
    settings: Settings, *, lock: FolderLock | None = None, make_describer: _Maker | None = None, clock: Clock = utc_now
) -> AsyncIterator[Services]:
    """The whole service on its data folder. Inside the block it owns the folder, and the engine is running.

    `lock` is the lock of the folder if the caller has it already, else it is taken as by `lock_folder`. It is released
    at the end.

    Raises:
        DataFolderBusy: another process owns the folder.
        StorageFailed: the folder or the database can't be used.
        SettingInvalid: the settings contradict each other.
    """
    config = settings.config
    service = compression_service(config)
    # for `asyncio.to_thread`, with as many threads as it would have by default
    asyncio.get_running_loop().set_default_executor(started_threads(min(32, core_count() + 4), "imgproc-io"))
    lock = lock or lock_folder(config, "serve")
    try:
        # what a `restore` left that was killed when all was in place
        await asyncio.to_thread(shutil.rmtree, config.data_dir / RESTORING, ignore_errors=True)
        async with open_store(config, clock, create=True) as store:
            jobs = Jobs(store.database, config.queue_limit)
            blobs = Blobs(config.data_dir, jobs.is_referenced)
            at_once, folder = config.codec_threads or core_count(), config.data_dir
            opening = _open_pipeline(settings, folder, blobs.incoming_folder, service, at_once, make_describer)
            with opening as (pipeline, analyzer):
                updates = Updates()
                translations = Translations(store.database, MAX_LANGUAGES * config.queue_limit, updates.publish)
                # twenty times the uploads that may wait: by default, 10,000 pictures with two results each
                stored_stages = Stages(store.database, 20 * config.queue_limit)
                engine = Engine(jobs, stored_stages, translations, blobs, pipeline, config.stage_prices, updates)
                await engine.start()
                models = _model_tasks(config, analyzer.unload_model)
                thumbnails = Thumbnails(pipeline.workers, blobs, jobs)
                jpegs = OnDemand(pipeline.workers, "rebuilding", "The JPEG can't be rebuilt")
                exporter = Exporter(jobs, blobs, partial(write_texts, pipeline.workers, config.stage_timeout_s))
                upkeep = asyncio.create_task(
                    run_upkeep(Retention(store.database), blobs, max_age(config), clock, updates.reset)
                )
                try:
                    yield Services(
                        settings, store, jobs, translations, blobs, engine, thumbnails, jpegs, models, exporter
                    )
                finally:
                    upkeep.cancel()
                    thumbnails.close()
                    jpegs.close()
                    await asyncio.to_thread(models.close)
                    await engine.stop()
                    await asyncio.gather(upkeep, return_exceptions=True)
    finally:
        lock.release()
