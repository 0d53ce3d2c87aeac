"""The SQLite file: one writer behind a lock, and readers beside it. Its failures are raised as `StorageFailed`.

Invariant: what is inside one `transaction()` is committed whole or not at all, also when the task that runs it is
cancelled. The statements run on the connection's own thread in the order given, so a rollback always follows a
statement that a cancelled task left behind.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from imgproc_local.domain.errors import StorageFailed
from imgproc_local.system.files import PRIVATE_FILE, is_disk_full

if TYPE_CHECKING:
    import aiosqlite

Row = sqlite3.Row
Parameters = Mapping[str, Any]
Clock = Callable[[], datetime]
_AS_JSON = (list, tuple, Mapping, msgspec.Struct)

SCHEMA = 12
"""The `user_version` of a database with the schema of this program."""
BUSY_TIMEOUT_MS = 5000
_READERS, LIST_READERS = 4, 2
"""Connections that read, and how many of them lists may use at once: a poll never waits for a list."""

_DISK_FULL = "The disk that holds the data folder is full; nothing was stored."
_NOT_WRITABLE = "The data folder can't be written; nothing was stored."
_DAMAGED = "The database file is damaged; run `imgproc-local doctor`."


_MESSAGES = {
    "SQLITE_FULL": _DISK_FULL,
    "SQLITE_IOERR_SHMSIZE": _DISK_FULL,  # SQLite's shared memory is a file beside the database
    "SQLITE_READONLY": _NOT_WRITABLE,
    "SQLITE_CANTOPEN": _NOT_WRITABLE,
    "SQLITE_BUSY": "The database is locked by another process; nothing was stored.",
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_NOTADB": _DAMAGED,
}
"""By the beginning of the name of SQLite's error."""


def _read(file: str) -> str:
    return resources.files(__package__).joinpath(file).read_text(encoding="utf-8")


def _parts(file: str, mark: str) -> Iterator[tuple[str, str]]:
    """The name and the text of each part of an SQL file that begins with a line `-- mark: name`."""
    parts = re.split(rf"^-- {mark}: (\w+)$", _read(file), flags=re.MULTILINE)
    return zip(parts[1::2], parts[2::2], strict=True)


QUERIES: dict[str, str] = {}
"""Every statement of the service by its name in queries.sql."""
for _name, _body in _parts("queries.sql", "name"):
    QUERIES[_name] = _body.strip("\n;").format(**QUERIES)  # {name} is a statement above
STEPS = {int(version): step for version, step in _parts("steps.sql", "from")}
"""What updates a database, by the schema that is found, the earliest first."""


def statements_from(found: int) -> list[str]:
    """The statements that create the schema in a database with the `user_version` `found`, or update it; to be run in
    one transaction. An empty list if it is that of this program.

    Raises: StorageFailed, if `found` is another version.
    """
    if found == SCHEMA:
        return []
    if found and found not in STEPS:
        version = "a newer" if found > SCHEMA else "an older"
        raise StorageFailed(
            f"The data folder was written by {version} version of the program: expected schema {SCHEMA}, or"
            f" {min(STEPS)} to {max(STEPS)} to update it, received {found}. Use that version, or another folder with"
            " --data-dir."
        )
    script = "".join(step for version, step in STEPS.items() if 0 < found <= version)
    script += _read("schema.sql")
    # not for executescript(), which would commit: user_version must change with the schema
    statements, statement = [], ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            statements.append(statement)
            statement = ""
    return [*statements, f"PRAGMA user_version = {SCHEMA}"]


def utc_now() -> datetime:
    return datetime.now(UTC)


def rfc3339(instant: datetime) -> str:
    """An instant as rows store it: in UTC with milliseconds, so that text order is time order."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_id(now: datetime | None = None, above: str | None = None) -> str:
    """A ULID of the instant `now`, written as 26 lower-case characters and higher than `above`."""
    from ulid import ULID

    value = int(ULID.from_datetime(now) if now else ULID())
    if above is not None:
        lowest = int(ULID.from_str(above.upper())) + 1
        if value < lowest:  # the clock went back, or two ids of one millisecond
            value = lowest + secrets.randbelow(2**32)
    return str(ULID.from_int(value)).lower()


class Transaction:
    """Runs named statements on one connection; also for `reading` and `listing`, which begin no transaction.

    `now` is the instant at which this object was made, and `at` the same instant as rows store it, which every
    statement has as a parameter. Parameters that are lists, mappings or Structs are bound as JSON.
    """

    def __init__(self, connection: aiosqlite.Connection, now: datetime) -> None:
        self._connection = connection
        self.now = now

    @property
    def at(self) -> str:
        return rfc3339(self.now)

    async def all(self, query: str, parameters: Parameters | None = None) -> list[Row]:
        bound = {
            name: msgspec.json.encode(value).decode() if isinstance(value, _AS_JSON) else value
            for name, value in {"at": self.at, **(parameters or {})}.items()
        }
        return list(await self._connection.execute_fetchall(QUERIES[query], bound))

    async def one(self, query: str, parameters: Parameters | None = None) -> Row | None:
        return next(iter(await self.all(query, parameters)), None)

    async def row(self, query: str, parameters: Parameters | None = None) -> Row:
        """The first row of a statement that always has one."""
        return (await self.all(query, parameters))[0]

    async def value(self, query: str, parameters: Parameters | None = None) -> Any:
        """The first column of the first row, None where there is no row."""
        row = await self.one(query, parameters)
        return row[0] if row is not None else None

    async def run(self, query: str, parameters: Parameters | None = None) -> None:
        await self.all(query, parameters)


class Database:
    """The first of the `connections` writes, the others read; `opened` closes them. `clock` gives the instants that
    rows carry.
    """

    def __init__(self, connections: Sequence[aiosqlite.Connection], opened: AsyncExitStack, clock: Clock) -> None:
        self._writer, *readers = connections
        self._opened = opened
        self._free_readers: asyncio.LifoQueue[aiosqlite.Connection] = asyncio.LifoQueue()
        for reader in readers:
            self._free_readers.put_nowait(reader)
        self._lists = asyncio.Semaphore(LIST_READERS)
        self._clock = clock
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """One writing transaction. Raises: StorageFailed, where SQLite refuses; nothing is written then."""
        async with self._lock:
            with _translated_errors():
                try:
                    await self._writer.execute_fetchall("BEGIN IMMEDIATE")
                    yield Transaction(self._writer, self._clock())
                    await _until_done(self._writer.commit())
                except BaseException:
                    await _until_done(self._rollback())
                    raise

    async def _rollback(self) -> None:
        # a cancelled task may have left a statement queued: let it run first, then look at the result
        await self._writer.execute_fetchall("SELECT 1")
        if self._writer.in_transaction:
            await self._writer.execute_fetchall("ROLLBACK")

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Transaction]:
        """Statements that read a few rows; each sees what was committed before it began."""
        connection = await self._free_readers.get()
        try:
            with _translated_errors():
                yield Transaction(connection, self._clock())
        finally:
            self._free_readers.put_nowait(connection)

    @asynccontextmanager
    async def listing(self) -> AsyncIterator[Transaction]:
        """As `reading`, for statements that may take longer; they leave connections for those of `reading`."""
        async with self._lists, self.reading() as read:
            yield read

    async def read_value(self, query: str, parameters: Parameters | None = None) -> Any:
        """The value of one statement in `reading`."""
        async with self.reading() as read:
            return await read.value(query, parameters)

    async def read_all(self, query: str, parameters: Parameters | None = None) -> list[Row]:
        """The rows of one statement in `reading`."""
        async with self.reading() as read:
            return await read.all(query, parameters)

    async def list_all(self, query: str, parameters: Parameters | None = None) -> list[Row]:
        """The rows of one statement in `listing`."""
        async with self.listing() as read:
            return await read.all(query, parameters)

    async def close(self) -> None:
        async with self._lock:
            await self._opened.aclose()


async def _until_done(work: Coroutine[Any, Any, Any]) -> None:
    """Wait for `work` even if this task is cancelled, because the lock must not be released earlier."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Raises sqlite3's errors as `StorageFailed`.

    A broken constraint or a wrong call is a programming error and is raised as it is.
    """
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError, sqlite3.DataError):
        raise
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "") or type(error).__name__
        known = (message for beginning, message in _MESSAGES.items() if name.startswith(beginning))
        raise StorageFailed(next(known, f"SQLite reported {name}; nothing was stored.")) from error


def _create_private(path: Path) -> None:
    """Create the file of a new database, which only its owner can read; SQLite gives its -wal and -shm the same mode.

    An existing file is not opened: closing it would release the locks that other connections of this process hold.
    Raises: StorageFailed.
    """
    try:
        os.close(os.open(os.path.realpath(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
    except FileExistsError:
        return
    except OSError as error:
        raise StorageFailed(_DISK_FULL if is_disk_full(error) else _NOT_WRITABLE) from error


async def _connect(path: Path, opened: AsyncExitStack) -> aiosqlite.Connection:
    """A connection that `opened` will close."""
    import aiosqlite

    connection = await aiosqlite.connect(path, isolation_level=None, timeout=BUSY_TIMEOUT_MS / 1000)
    opened.push_async_callback(connection.close)
    connection.row_factory = sqlite3.Row
    # EXTRA also syncs the removal of the journal with which a new database is created: if a loss of power brought it
    # back beside a write-ahead log, SQLite would undo the creation
    # with secure_delete, the bytes of deleted rows are overwritten, such as those of a context
    for setting in ("synchronous = EXTRA", "journal_mode = WAL", "foreign_keys = ON", "secure_delete = ON"):
        await connection.execute_fetchall(f"PRAGMA {setting}")
    return connection


async def _update(writer: aiosqlite.Connection) -> None:
    """Give the database the schema of this program, in one transaction. Raises: StorageFailed, sqlite3.Error."""
    await writer.execute_fetchall("BEGIN IMMEDIATE")
    try:
        (version,) = await writer.execute_fetchall("PRAGMA user_version")
        for statement in statements_from(version[0]):
            await writer.execute_fetchall(statement)
        await writer.execute_fetchall("COMMIT")
    except BaseException:
        await writer.execute_fetchall("ROLLBACK")
        raise


async def open_database(path: Path, clock: Clock = utc_now) -> Database:
    """The database at `path`, created or updated to the schema of this program.

    Raises: StorageFailed: the file can't be opened, is not a database, or has a schema that can't be updated.
    """
    with _translated_errors():
        await asyncio.to_thread(_create_private, path)
        # refuse a file that can't be opened before aiosqlite starts its thread, which would outlive the error
        await asyncio.to_thread(lambda: sqlite3.connect(path).close())
        async with AsyncExitStack() as opened:
            writer = await _connect(path, opened)
            await _update(writer)
            readers = [await _connect(path, opened) for _ in range(_READERS)]
            for reader in readers:
                await reader.execute_fetchall("PRAGMA query_only = ON")
            return Database([writer, *readers], opened.pop_all(), clock)
