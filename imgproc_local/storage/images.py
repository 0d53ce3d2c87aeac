"""Changes of pictures besides their texts: of their project, and of a person's caption, keywords and credit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import NotFound, ServiceError
from imgproc_local.domain.result import Words
from imgproc_local.storage.accounts import project_named
from imgproc_local.storage.database import Database, Transaction
from imgproc_local.storage.translations import move_texts


class ImageChange(Struct, frozen=True):
    """What changes of one image. None leaves its project, and `words` has those that change: None for what the file
    says.
    """

    image_id: str
    project_name: str | None
    words: dict[str, str | list[str] | None]


class ChangedImage(Struct, frozen=True):
    """An image after its change."""

    image_id: str
    job_id: str
    project_name: str
    words: Words


async def change_images(
    database: Database, account_id: str, changes: Sequence[ImageChange | ServiceError]
) -> list[ChangedImage | ServiceError]:
    """Make the changes in one transaction. Returns the images, in order; in place of one that can't be changed, the
    reason, which may be known already. A file name that another picture of the new project has is numbered.
    """
    async with database.transaction() as tx:
        return [each if isinstance(each, ServiceError) else await _change(tx, account_id, each) for each in changes]


async def _change(tx: Transaction, account_id: str, change: ImageChange) -> ChangedImage | NotFound:
    job_id = await tx.value("job_id_by_image", {"image_id": change.image_id, "account_id": account_id})
    if job_id is None:
        return NotFound(f"No image {change.image_id[:40]!r} in this account.")
    project_id = None
    if change.project_name is not None:
        project_id = await project_named(tx, account_id, change.project_name)
        await move_texts(tx, job_id, project_id)
    row = await tx.row("change_image", {"job_id": job_id, "project_id": project_id, "words": change.words})
    return msgspec.json.decode(row["image"], type=ChangedImage)
