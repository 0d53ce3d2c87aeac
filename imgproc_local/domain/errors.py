"""The errors that are reported to users.

    ServiceError
    ├── InvalidRequest
    │   └── BadImage
    │       ├── UnsupportedImage
    │       ├── BrokenImage
    │       └── TooManyPixels
    ├── UploadTooLarge
    ├── UploadTimedOut
    ├── Unauthenticated
    ├── RateLimited
    ├── InsufficientCredits
    ├── NotFound
    ├── FileNotReady
    ├── NoSuchVersion
    ├── OriginalRemoved
    ├── NothingToRemake
    ├── TextOfPerson
    ├── TextsUnfinished
    ├── TextChanged
    ├── IdempotencyConflict
    ├── QueueFull
    ├── TooManyStreams
    ├── ExportIncomplete
    ├── TooManyExports
    ├── ServiceStopping
    ├── StorageFailed
    │   └── NoWorker
    ├── DataFolderBusy
    ├── SettingInvalid
    ├── ModelUnusable
    └── StageFailed
        ├── ExternalServiceFailed
        ├── StageTimedOut
        └── StageCancelled

A message says what was expected and what was received. A message that a client receives contains no path of this
machine; no message contains a stack trace or a secret. `api/errors.py` maps each error to an HTTP status and a body.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from imgproc_local.domain.export import MissingFile, NeededText
from imgproc_local.domain.result import StoredText

CheckStop = Callable[[], None]
"""Called between the steps of blocking work. Returns while the work is wanted, otherwise raises to end it: in a stage
`StageCancelled` or `StageTimedOut`.
"""

Problems = Mapping[str, Sequence[str]]
"""Messages by the name of the invalid field of a request, in the order in which they were found."""


class ServiceError(Exception):
    """Base class of all errors above. `code` is for programs and never changes; `message` is for people."""

    code = "error"

    def __init_subclass__(cls) -> None:
        """The code is the name of the class in snake case, unless the class states another one.

        An error of another module is a case of one in the tree, and has its code.
        """
        if cls.__module__ == __name__ and "code" not in cls.__dict__:
            cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidRequest(ServiceError):
    """A field of the request is missing or has an invalid value.

    `errors` has a list of messages for each invalid field.
    """

    def __init__(self, errors: Problems) -> None:
        self.errors = {field: list(problems) for field, problems in errors.items()}
        problems = [problem for listed in self.errors.values() for problem in listed]
        more = len(problems) - 1
        suffix = f" (and {more} more error{'s' if more > 1 else ''})" if more > 0 else ""
        super().__init__(problems[0] + suffix)


class BadImage(InvalidRequest):
    """The uploaded file can't be used."""

    def __init__(self, message: str) -> None:
        super().__init__({"image": [message]})


class UnsupportedImage(BadImage):
    """Not one of the accepted types."""


class BrokenImage(BadImage):
    """Of an accepted type, but damaged."""


class TooManyPixels(BadImage):
    """More pixels than the service decodes."""


class UploadTooLarge(ServiceError):
    """The upload has more bytes than the setting allows."""


class UploadTimedOut(ServiceError):
    """The upload took too long."""


class Unauthenticated(ServiceError):
    """The request has no API key, or an invalid one."""

    def __init__(self) -> None:
        super().__init__("Unauthenticated.")


class RateLimited(ServiceError):
    """The key has used up its requests per minute."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("Too Many Attempts.")
        self.retry_after_s = retry_after_s


class InsufficientCredits(ServiceError):
    """The account's balance does not cover the price of the request."""

    def __init__(self, required: int, balance: int, account: str) -> None:
        self.required = required
        self.balance = balance
        self.shortfall = max(0, required - balance)
        super().__init__(
            f"Not enough credits: this request needs {required}, the balance is {balance}."
            f" Grant more with `imgproc-local credits grant {self.shortfall} --account {account}`."
        )


class NotFound(ServiceError):
    """The account has nothing with this identifier."""


class FileNotReady(ServiceError):
    """The stage that makes the file has not succeeded."""


class NoSuchVersion(ServiceError):
    """A text has no earlier version to undo to, or no later one to redo."""


class OriginalRemoved(ServiceError):
    """The uploaded picture was removed because of its age, or the context that a text was made of is not stored."""


class NothingToRemake(ServiceError):
    """A job is not finished, or has none of the results that a request would have made anew."""


class TextOfPerson(ServiceError):
    """A text that a person wrote would be replaced, and the request does not say that it may be."""


class TextsUnfinished(ServiceError):
    """A language would be added to a picture that is not analyzed yet."""


class TextChanged(ServiceError):
    """A text has another version than the one that the request would change. `data` is the text in force."""

    def __init__(self, data: StoredText, expected: int) -> None:
        self.data = data
        super().__init__(
            f"The text in {data.language_code!r} was changed meanwhile: expected version {expected}, it is"
            f" {data.version}. Nothing was changed."
        )


class IdempotencyConflict(ServiceError):
    """The same Idempotency-Key was sent before with another body."""


class QueueFull(ServiceError):
    """The queue of jobs, or of texts or results to make anew, is full.

    `limit` is the maximum length of the queue, and `what` names its entries, such as "unfinished jobs".
    """

    retry_after_s = 5

    def __init__(self, limit: int, what: str) -> None:
        super().__init__(f"The queue is full ({limit} {what}). Nothing was stored; try again later.")


class TooManyStreams(ServiceError):
    """The account has too many open event streams."""

    retry_after_s = 30

    def __init__(self, limit: int) -> None:
        super().__init__(f"This account has {limit} open event streams, which is the maximum. Close one of them first.")


class ExportIncomplete(ServiceError):
    """An export lacks texts or files, and the request does not allow it to."""

    def __init__(self, needs_text: Sequence[NeededText], missing: Sequence[MissingFile]) -> None:
        self.needs_text, self.missing = needs_text, missing
        texts = f"{len(needs_text)} image{_s(needs_text)} without a text (allow_needs_text)" if needs_text else ""
        files = f"{len(missing)} missing file{_s(missing)} (allow_missing)" if missing else ""
        lacking = " and ".join(filter(None, (texts, files)))
        super().__init__(f"Nothing was exported: {lacking}. Send the fields in brackets as true to export the rest.")


class TooManyExports(ServiceError):
    """The account runs as many exports as it may."""

    retry_after_s = 10

    def __init__(self, limit: int) -> None:
        super().__init__(f"This account runs {limit} exports already. Try again when one of them has ended.")


class ServiceStopping(ServiceError):
    """The service is stopping and starts nothing new."""

    def __init__(self) -> None:
        super().__init__("The service is stopping. Nothing was stored; send the request again when it is running.")


class StorageFailed(ServiceError):
    """A file or folder can't be read or written, above all the data folder."""


@contextmanager
def storage_errors(what: str) -> Iterator[None]:
    """Raises the errors of the operating system inside the block as StorageFailed. `what` can't be done then."""
    try:
        yield
    except OSError as error:
        raise StorageFailed(f"{what} ({error.strerror}).") from error


class NoWorker(StorageFailed):
    """No process or thread can be started; the stage waits, as for a full disk."""


class DataFolderBusy(ServiceError):
    """Another process owns the data folder, or changes the models."""


class SettingInvalid(ServiceError):
    """A setting is unknown or has a value that can't be used."""


class ModelUnusable(ServiceError):
    """A model is unknown, damaged or does not work here."""


class StageFailed(ServiceError):
    """A stage of a job can't produce its result."""


class ExternalServiceFailed(StageFailed):
    """The external compression service gave no usable result.

    `this_picture_only` means that the service rejected this picture but may accept others.
    """

    code = "outside_service_failed"

    def __init__(self, message: str, *, this_picture_only: bool = False) -> None:
        super().__init__(message)
        self.this_picture_only = this_picture_only


class StageTimedOut(StageFailed):
    """The stage passed its deadline."""


class StageCancelled(StageFailed):
    """The job was cancelled or the service is stopping."""


def _s(listed: Sequence[object]) -> str:
    """The plural ending of a noun that counts `listed`: "" for one."""
    return "" if len(listed) == 1 else "s"


def how_to_install(extra: str) -> str:
    """What to do if an extra is missing: the pip of `.venv` is named because the system's may refuse (PEP 668)."""
    lock = f"requirements-{extra}.lock"
    return (
        f"In a clone of the repository, run `.venv/bin/pip install --require-hashes -r {lock}`;"
        f" elsewhere install imgproc-local[{extra}] with the pip, uv or pipx that installed this program."
    )
