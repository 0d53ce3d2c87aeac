"""Projects: an upload belongs to exactly one, found or made inside the transaction that takes the upload."""

from __future__ import annotations

from imgproc_local.domain.errors import InvalidRequest
from imgproc_local.domain.plan import Plan
from imgproc_local.storage.clock import new_id
from imgproc_local.storage.database import Database, Transaction


async def project_of_plan(tx: Transaction, account_id: str, plan: Plan, at: str) -> str:
    """The id of the project that `plan` names; a name that the account does not have yet is created.

    Raises:
        InvalidRequest: the plan names a project by an id that this account does not have.
    """
    if plan.project_id is not None:
        found = await tx.value("project_by_id", {"id": plan.project_id, "account_id": account_id})
        if found is None:
            raise unknown_project(plan.project_id)
        return str(found)
    found = await tx.value("project_by_name", {"account_id": account_id, "name": plan.project_name})
    if found is not None:
        return str(found)
    project_id = new_id()
    await tx.run("insert_project", {"id": project_id, "account_id": account_id, "name": plan.project_name, "at": at})
    return project_id


async def require_project(database: Database, account_id: str, project_id: str) -> None:
    """Refuse an unknown project before anything is read. Raises `InvalidRequest`."""
    async with database.reading() as read:
        if await read.value("project_by_id", {"id": project_id, "account_id": account_id}) is None:
            raise unknown_project(project_id)


def unknown_project(project_id: str) -> InvalidRequest:
    return InvalidRequest({"project_id": [f"project_id must name a project of this account; {project_id!r} does not."]})
