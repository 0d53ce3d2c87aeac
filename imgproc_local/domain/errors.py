"""The errors that are reported to users.

    ServiceError
    ├── InvalidRequest          a field of the request is not as expected
    │   └── BadImage            the uploaded bytes can't be used
    │       ├── UnsupportedImage    not one of the accepted types
    │       ├── BrokenImage         of an accepted type, but damaged
    │       └── TooManyPixels       larger than this service decodes
    ├── UploadTooLarge          more bytes than one upload may have
    ├── UploadTimedOut          the upload took too long
    ├── Unauthenticated         no key, or one that is not valid
    ├── RateLimited             more requests than the key may make
    ├── InsufficientCredits     the balance does not cover the dispatch
    ├── NotFound                the identifier matches nothing of this account
    ├── FileNotReady            the file's stage is not done
    ├── IdempotencyConflict     the same Idempotency-Key was sent with another body
    ├── QueueFull               the queue has no room for another job
    ├── ServiceStopping         the service stops while it reads the upload
    ├── StorageFailed           the data folder can't be read or written
    ├── DataFolderBusy          another process owns the data folder
    ├── SettingInvalid          a setting has a value that can't be used
    ├── ModelUnusable           a vision model's files are missing, damaged, or do not work here
    └── StageFailed             a stage of a job can't produce its result
        ├── OutsideServiceFailed    the external service gave no usable result
        ├── StageTimedOut           it passed its deadline
        └── StageCancelled          its job was cancelled or the service is stopping

A message says what was expected and what was received. It never contains a path of the machine, a stack trace or a
secret. `api/errors.py` holds the table of HTTP statuses and bodies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class ServiceError(Exception):
    """Base of all errors above. `code` is stable and machine-readable, `message` is for people."""

    code = "error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidRequest(ServiceError):
    """`errors` maps each field to its problems, in the order they were found."""

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


class IdempotencyConflict(ServiceError):
    code = "idempotency_conflict"


class QueueFull(ServiceError):
    code = "queue_full"

    def __init__(self, limit: int, retry_after_s: int) -> None:
        super().__init__(f"The queue is full ({limit} unfinished jobs). Nothing was stored; try again later.")
        self.retry_after_s = retry_after_s


class ServiceStopping(ServiceError):
    code = "service_stopping"

    def __init__(self) -> None:
        super().__init__("The service is stopping. Nothing was stored; send the request again when it is running.")


class StorageFailed(ServiceError):
    code = "storage_failed"


class DataFolderBusy(ServiceError):
    code = "data_folder_busy"


class SettingInvalid(ServiceError):
    code = "setting_invalid"


class ModelUnusable(ServiceError):
    code = "model_unusable"


class StageFailed(ServiceError):
    code = "stage_failed"


class OutsideServiceFailed(StageFailed):
    """`this_picture_only` says that the service works, and may accept another picture."""

    code = "outside_service_failed"

    def __init__(self, message: str, *, this_picture_only: bool = False) -> None:
        super().__init__(message)
        self.this_picture_only = this_picture_only


class StageTimedOut(StageFailed):
    code = "stage_timed_out"


class StageCancelled(StageFailed):
    code = "stage_cancelled"
