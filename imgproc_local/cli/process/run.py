"""One run of `process`: finds the pictures, leaves out those that are unchanged, processes the others, and watches."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import click
from msgspec import Struct

from imgproc_local.batch.records import Record
from imgproc_local.batch.request import BatchRequest, price
from imgproc_local.cli.exit_codes import EXIT_INTERRUPTED, EXIT_PROBLEM, EXIT_REFUSED, Refused
from imgproc_local.cli.output import path_text, printable
from imgproc_local.cli.process.batch import INTERRUPTED, Batch, Jobs, Outcome
from imgproc_local.cli.process.discovery import Discovery, Finder, Picture, RejectedFile
from imgproc_local.cli.process.engine_jobs import EngineJobs
from imgproc_local.cli.process.manifest import Manifest, read_manifest, source_key
from imgproc_local.cli.process.progress import StageProgress
from imgproc_local.cli.process.publishing import Publisher
from imgproc_local.cli.process.results import Results
from imgproc_local.cli.process.staging import Stager
from imgproc_local.cli.process.texts import TextWriter, text_writer
from imgproc_local.cli.process.watch import POLL_S, SCAN_SHARE, CompletePictures
from imgproc_local.cli.serve.running import running_server
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.compose import Store, open_services, open_store
from imgproc_local.config import Config
from imgproc_local.domain.errors import DataFolderBusy, InsufficientCredits
from imgproc_local.domain.image import Format
from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import STAGES
from imgproc_local.storage.accounts import DEFAULT_ACCOUNT
from imgproc_local.storage.blobs import hash_file


class RunOptions(Struct, frozen=True):
    """The arguments of the command that say which pictures are processed and where the results are written."""

    paths: tuple[Path, ...]
    out: Path
    flat: bool = False
    watch: bool = False
    changed_settings: tuple[str, ...] = ()
    """Flags that change settings. They are refused if a server does the work, because it has its own settings."""


class Run:
    """One invocation of the command: its arguments and, after `process`, its results."""

    def __init__(self, config: Config, options: RunOptions, request: BatchRequest) -> None:
        self.config = config
        self.request = request
        self.out = options.out
        self._paths = options.paths
        self._options = options
        self._results = Results(options.out)
        self._finder = Finder(
            options.paths, options.out, (config.data_dir,), flat=options.flat, accepted=request.accepted
        )
        self.discovery = Discovery([], [], [])
        self.outcomes: list[Outcome] = []
        self.stop_reason: str | None = None
        self.has_unstopped_threads = False
        self._is_complete = True

    # ---- what there is to do ----

    def find(self) -> None:
        """Search for the pictures. Raises: Refused, if there are none and nothing failed, unless --watch is given."""
        self.discovery = self._finder.find()
        if not self._options.watch and not self.discovery.pictures and not self.discovery.failed:
            _refuse_empty(self._paths, self.discovery.skipped, self.request.accepted)

    def plan(self) -> tuple[list[Picture], list[Outcome]]:
        """The pictures to process, and the outcomes of those that are unchanged. Raises: as `read_manifest`."""
        return self._divide(read_manifest(self.out))

    def _divide(self, records: dict[str, Record]) -> tuple[list[Picture], list[Outcome]]:
        pending: list[Picture] = []
        unchanged: list[Outcome] = []
        for picture in self.discovery.pictures:
            record = records.get(source_key(picture.path, self.out))
            if record is not None and self._is_unchanged(picture, record):
                unchanged.append(Outcome(picture.path, record))
            else:
                pending.append(picture)
        return pending, unchanged

    def _is_unchanged(self, picture: Picture, record: Record) -> bool:
        """Whether the results of `record` are what this run would make of the picture."""
        if record.options != self.request.options_hash or record.errors or record.size_bytes != picture.size_bytes:
            return False
        if not self._results.are_present(record.files):
            return False
        try:
            return record.modified_ns == picture.modified_ns or record.sha256 == hash_file(picture.path)
        except OSError:  # reported when the picture is processed
            return False

    # ---- doing it ----

    async def process(self) -> None:
        """Process every picture. Raises: ServiceError or Refused, before anything is done.

        With --watch, InsufficientCredits is also raised later, when the balance does not suffice for new pictures.
        """
        if not self.discovery.pictures and not self._options.watch:
            return
        async with self._open_jobs() as (jobs, store):
            pending, _ = self.plan()
            await self._require_credits(store, len(pending))
            with self._open_manifest() as manifest, self._text_writer() as writer:
                out_id = hashlib.sha256(os.fsencode(self.out.resolve())).hexdigest()[:16]
                async with jobs.opened(out_id):
                    stager = Stager(self._results, jobs.copy_result, writer, self.request.sidecar)
                    publisher = Publisher(self.out, self.request, self._results, manifest)
                    progress = StageProgress(self._stages(), sys.stderr)
                    batch = Batch(jobs, self.request, self.out, out_id, stager, publisher, progress)
                    with progress.shown(), batch.interruptible():
                        if self._options.watch:
                            await self._watch(batch, store, manifest, progress)
                        else:
                            await self._process_once(batch, manifest, progress)
                self.stop_reason = batch.stop_reason

    async def _process_once(self, batch: Batch, manifest: Manifest, progress: StageProgress) -> None:
        pending, unchanged = self._divide(manifest.records)
        outcomes = {outcome.picture: outcome for outcome in unchanged}
        progress.expect(len(pending))
        await batch.run(pending, lambda outcome: outcomes.update({outcome.picture: outcome}))
        self._is_complete = len(outcomes) == len(self.discovery.pictures)
        pictures = self.discovery.pictures
        self.outcomes = [outcomes[picture.path] for picture in pictures if picture.path in outcomes]

    async def _watch(self, batch: Batch, store: Store, manifest: Manifest, progress: StageProgress) -> None:
        """Process the pictures that are there, and those that are added or change, until the run is interrupted."""
        complete_pictures = CompletePictures()
        outcomes: dict[Path, Outcome] = {}

        def report(outcome: Outcome) -> None:
            outcomes[outcome.picture] = outcome
            if outcome.record is not None:
                self._finder.own_results.add(self.out.resolve(), outcome.record)
            written = ", ".join(file.path for file in outcome.new.files) if outcome.new is not None else ""
            problems = "; ".join(message for _, message in outcome.errors)
            progress.print(printable(f"{path_text(outcome.picture)}: {problems or written or 'described'}"))

        progress.print(f"Watching {', '.join(printable(path_text(path)) for path in self._paths)}. Ctrl+C ends it.")
        while not batch.is_ending:
            began_s = time.monotonic()
            self.discovery = await asyncio.to_thread(self._finder.find)
            pending, unchanged = await asyncio.to_thread(self._divide, manifest.records)
            outcomes = {outcome.picture: outcome for outcome in unchanged} | outcomes
            ready = complete_pictures.among(pending)
            scan_s = time.monotonic() - began_s
            if ready:
                await self._require_credits(store, len(ready))
                progress.expect(len(ready))
                await batch.run(ready, report)
                for picture in ready:
                    if picture.path in outcomes and not outcomes[picture.path].done:
                        complete_pictures.mark_failed(picture)
            await batch.wait_until_ending(max(POLL_S, scan_s / SCAN_SHARE))
        self.outcomes = list(outcomes.values())

    @contextmanager
    def _text_writer(self) -> Iterator[TextWriter | None]:
        if not self.request.write_metadata:
            yield None
            return
        with text_writer(self.config, self._results, overwrite=self.request.overwrite) as writer:
            yield writer

    @asynccontextmanager
    async def _open_jobs(self) -> AsyncIterator[tuple[Jobs, Store]]:
        """The jobs of this process or, if a server owns the data folder, those of the server."""
        services = None
        async with AsyncExitStack() as opened:
            try:
                services = await opened.enter_async_context(open_services(self.config, "process"))
            except DataFolderBusy as busy:
                jobs, store = await self._server_jobs(opened, busy)
            else:
                store = services.store
                jobs = EngineJobs(services, await store.keys.account_id(create=True))
                async with store.database.reading() as read:
                    waiting = int(await read.value("count_open_jobs"))
                if waiting:
                    click.echo(f"Unfinished jobs in the data folder: {waiting:,}. They are processed too.", err=True)
            yield jobs, store
        if services is not None:
            self.has_unstopped_threads = services.engine.has_unstopped_threads

    async def _server_jobs(self, opened: AsyncExitStack, busy: DataFolderBusy) -> tuple[Jobs, Store]:
        """The jobs of the server that owns the data folder. Raises: Refused, if it can't be used."""
        from imgproc_local.cli.process.server_jobs import ServerJobs

        owner = await asyncio.to_thread(running_server, self.config.data_dir)
        if owner is None or owner.address is None:
            raise Refused(busy.message) from busy
        if self._options.changed_settings:
            flags = " and ".join(self._options.changed_settings)
            raise Refused(
                f"The data folder belongs to the server at {owner.address}, which has its own settings. Leave out"
                f" {flags}, stop the server, or use another folder with --data-dir."
            ) from busy
        if self.config.air_gapped:
            raise Refused(
                f"The data folder belongs to the server at {owner.address}. In air-gapped mode this command opens no"
                " connection to it. Stop the server, or use another folder with --data-dir."
            ) from busy
        click.echo(f"Working through the server at {owner.address}, which owns the data folder.", err=True)
        store = await opened.enter_async_context(open_store(self.config))
        account_id = await store.keys.account_id(create=True)
        return ServerJobs(self.config, store, account_id, owner.address), store

    async def _require_credits(self, store: Store, pictures: int) -> None:
        """Check that the balance suffices for this number of pictures. Raises: InsufficientCredits."""
        account_id = await store.keys.account_id(create=True)
        balance = await store.credits.balance(account_id)
        required = pictures * price(self.request, self.config)
        if required > balance:
            raise InsufficientCredits(required, balance, DEFAULT_ACCOUNT)

    @contextmanager
    def _open_manifest(self) -> Iterator[Manifest]:
        try:
            self._results.create_folder()
            manifest = Manifest(self.out)
            try:
                self._results.delete_leftovers()
            except OSError:
                manifest.close()
                raise
        except OSError as error:
            raise Refused(
                f"The output folder {printable(path_text(self.out))} can't be written ({error.strerror})."
                " Choose another folder with --out."
            ) from error
        try:
            yield manifest
            try:
                manifest.compact()
            except OSError as error:
                click.echo(f"The manifest could not be compacted ({error.strerror}); the next run does it.", err=True)
        finally:
            manifest.close()

    def _stages(self) -> list[StageName]:
        return [stage for plan in self.request.plans for stage in STAGES[plan.operation]]

    # ---- how it ended ----

    @property
    def is_unfinished(self) -> bool:
        """Whether the run ended before it had processed every picture."""
        return not self._is_complete or any(outcome.interrupted for outcome in self.outcomes)

    @property
    def exit_code(self) -> int:
        if not self.discovery.pictures and not self._options.watch:
            return EXIT_REFUSED
        if self.stop_reason == INTERRUPTED and self.is_unfinished:
            return EXIT_INTERRUPTED
        return 0 if all(outcome.done for outcome in self.outcomes) and not self.discovery.failed else EXIT_PROBLEM


def _refuse_empty(paths: Sequence[Path], skipped: Sequence[RejectedFile], accepted: Sequence[Format]) -> None:
    *names, last = (FORMATS[each].name for each in accepted)
    where = ", ".join(printable(path_text(path)) for path in paths)
    others = f", only {len(skipped):,} other files" if skipped else ""
    if len(skipped) == 1:
        others = f", only {printable(path_text(skipped[0].path))}: {printable(skipped[0].reason.rstrip('.'))}"
    raise Refused(f"Expected {', '.join(names)} or {last} pictures, but there are none in {where}{others}.")
