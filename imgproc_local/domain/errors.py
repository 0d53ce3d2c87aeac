"""The errors that are reported to users.

    ServiceError
    ├── InvalidRequest          a field of the request is missing or has an invalid value
    │   └── BadImage            the uploaded file can't be used
    │       ├── UnsupportedImage    not one of the accepted types
    │       ├── BrokenImage         of an accepted type, but damaged
    │       └── TooManyPixels       more pixels than the service decodes
    ├── UploadTooLarge          the upload has more bytes than the setting allows
    ├── UploadTimedOut          the upload took too long
    ├── Unauthenticated         the request has no API key, or an invalid one
    ├── RateLimited             the key has used up its requests per minute
    ├── InsufficientCredits     the account's balance does not cover the price of the request
    ├── NotFound                the account has nothing with this identifier
    ├── FileNotReady            the stage that makes the file has not succeeded
    ├── NoSuchVersion           a text has no earlier version to undo to, or no later one to redo
    ├── OriginalRemoved         the uploaded picture was removed because of its age
    ├── IdempotencyConflict     the same Idempotency-Key was sent before with another body
    ├── QueueFull               the queue of jobs or of texts to write anew is full
    ├── TooManyStreams          the account has too many open event streams
    ├── ExportIncomplete        texts or files of an export are missing
    ├── TooManyExports          the account runs as many exports as it may
    ├── ServiceStopping         the service is stopping and starts nothing new
    ├── StorageFailed           a file or folder can't be read or written, above all the data folder
    │   └── NoWorker                no process or thread can be started; the stage waits, as for a full disk
    ├── DataFolderBusy          another process owns the data folder, or changes the models
    ├── SettingInvalid          a setting is unknown or has a value that can't be used
    ├── ModelUnusable           a model is unknown, damaged or does not work here
    └── StageFailed             a stage of a job can't produce its result
        ├── ExternalServiceFailed   the external compression service gave no usable result
        ├── StageTimedOut           the stage passed its deadline
        └── StageCancelled          the job was cancelled or the service is stopping

A message says what was expected and what was received. A message that a client receives contains no path of this
machine; no message contains a stack trace or a secret. `api/errors.py` maps each error to an HTTP status and a body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from imgproc_local.domain.export import ExportProblems

CheckStop = Callable[[], None]
"""Called between the steps of blocking work. Returns while the work is wanted, otherwise raises to end it: in a stage
`StageCancelled` or `StageTimedOut`.
"""


class ServiceError(Exception):
    """Base class of all errors above. `code` is for programs and never changes; `message` is for people."""

    code = "error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidRequest(ServiceError):
    """`errors` maps the name of each invalid field to messages, in the order in which they were found."""

    code = "invalid_request"

    def __init__(self, errors: Mapping[str, Sequence[str]]) -> None:
        self.errors = {field: list(problems) for field, problems in errors.items()}
        problems = [problem for listed in self.errors.values() for problem in listed]
        more = len(problems) - 1
        suffix = f" (and {more} more error{'s' if more > 1 else ''})" if more > 0 else ""
        super().__init__(problems[0] + suffix)


class BadImage(InvalidRequest):
    code = "bad_image"

    def __init__(self, message: str) -> None:
        super().__init__({"image": [message]})


class UnsupportedImage(BadImage):
    code = "unsupported_image"


class BrokenImage(BadImage):
    code = "broken_image"


class TooManyPixels(BadImage):
    code = "too_many_pixels"


class UploadTooLarge(ServiceError):
    code = "upload_too_large"


class UploadTimedOut(ServiceError):
    code = "upload_timed_out"


class Unauthenticated(ServiceError):
    code = "unauthenticated"

    def __init__(self) -> None:
        super().__init__("Unauthenticated.")


class RateLimited(ServiceError):
    code = "rate_limited"

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("Too Many Attempts.")
        self.retry_after_s = retry_after_s


class InsufficientCredits(ServiceError):
    code = "insufficient_credits"

    def __init__(self, required: int, balance: int, account: str) -> None:
        self.required = required
        self.balance = balance
        self.shortfall = max(0, required - balance)
        super().__init__(
            f"Not enough credits: this request needs {required}, the balance is {balance}."
            f" Grant more with `imgproc-local credits grant {self.shortfall} --account {account}`."
        )


class NotFound(ServiceError):
    code = "not_found"


class FileNotReady(ServiceError):
    code = "file_not_ready"


class NoSuchVersion(ServiceError):
    code = "no_such_version"


class OriginalRemoved(ServiceError):
    code = "original_removed"


class IdempotencyConflict(ServiceError):
    code = "idempotency_conflict"


class QueueFull(ServiceError):
    """`limit` is the maximum length of the queue, and `what` names its entries, such as "unfinished jobs"."""

    code = "queue_full"
    retry_after_s = 5

    def __init__(self, limit: int, what: str) -> None:
        super().__init__(f"The queue is full ({limit} {what}). Nothing was stored; try again later.")


class TooManyStreams(ServiceError):
    code = "too_many_streams"
    retry_after_s = 30

    def __init__(self, limit: int) -> None:
        super().__init__(f"This account has {limit} open event streams, which is the maximum. Close one of them first.")


class ExportIncomplete(ServiceError):
    """`problems` are those that the request does not allow."""

    code = "export_incomplete"

    def __init__(self, problems: ExportProblems) -> None:
        self.problems = problems
        found = []
        if problems.needs_text:
            found.append(f"{len(problems.needs_text)} image{_s(problems.needs_text)} without a text (allow_needs_text)")
        if problems.missing:
            found.append(f"{len(problems.missing)} missing file{_s(problems.missing)} (allow_missing)")
        super().__init__(
            f"Nothing was exported: {' and '.join(found)}. Send the fields in brackets as true to export the rest."
        )


class TooManyExports(ServiceError):
    code = "too_many_exports"

    def __init__(self, limit: int, retry_after_s: int) -> None:
        super().__init__(f"This account runs {limit} exports already. Try again when one of them has ended.")
        self.retry_after_s = retry_after_s


class ServiceStopping(ServiceError):
    code = "service_stopping"

    def __init__(self) -> None:
        super().__init__("The service is stopping. Nothing was stored; send the request again when it is running.")


class StorageFailed(ServiceError):
    code = "storage_failed"


class NoWorker(StorageFailed):
    code = "no_worker"


class DataFolderBusy(ServiceError):
    code = "data_folder_busy"


class SettingInvalid(ServiceError):
    code = "setting_invalid"


class ModelUnusable(ServiceError):
    code = "model_unusable"


class StageFailed(ServiceError):
    code = "stage_failed"


class ExternalServiceFailed(StageFailed):
    """`this_picture_only` means that the service rejected this picture but may accept others."""

    code = "outside_service_failed"

    def __init__(self, message: str, *, this_picture_only: bool = False) -> None:
        super().__init__(message)
        self.this_picture_only = this_picture_only


class StageTimedOut(StageFailed):
    code = "stage_timed_out"


class StageCancelled(StageFailed):
    code = "stage_cancelled"


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
