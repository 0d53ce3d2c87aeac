"""process, poll, download and three kinds of errors with openapi-python-client; the other clients have every kind."""

from __future__ import annotations

import json
import os
from io import BytesIO
from pathlib import Path

import httpx
from imgproc_client import AuthenticatedClient
from imgproc_client.api.account import balance
from imgproc_client.api.exports import export
from imgproc_client.api.images import converted, optimized, process
from imgproc_client.api.jobs import get_job, list_jobs
from imgproc_client.api.translations import edit_translation
from imgproc_client.models import (
    DispatchBody,
    EditedTranslationBody,
    ErrorBody,
    ExportFields,
    ExportIncompleteBody,
    InsufficientCreditsBody,
    JobBody,
    JobsBody,
    ProcessFields,
    ProcessFieldsFormat,
    ProcessFieldsLanguagesItem,
    TranslationEdit,
)
from imgproc_client.models.edited_translation_source import EditedTranslationSource
from imgproc_client.models.job_data_status import JobDataStatus
from imgproc_client.models.list_jobs_needs_text import ListJobsNeedsText
from imgproc_client.types import File

OUT = Path(os.environ["OUT"])
Language = ProcessFieldsLanguagesItem


def client_for(key: str) -> AuthenticatedClient:
    return AuthenticatedClient(os.environ["BASE_URL"], token=key, timeout=httpx.Timeout(60))


def file_of(name: str) -> File:
    path = Path(os.environ[name])
    return File(BytesIO(path.read_bytes()), path.name)


def process_fields() -> ProcessFields:
    return ProcessFields(file_of("PICTURE"), [Language.EN, Language.DE], ProcessFieldsFormat.WEBP)


client = client_for(os.environ["API_KEY"])

# process -> poll -> download
sent = process.sync(client=client, body=process_fields(), idempotency_key="one upload")
assert isinstance(sent, DispatchBody), sent
while True:
    polled = get_job.sync(sent.data.job_id, client=client, prefer="wait=20")
    assert isinstance(polled, JobBody), polled
    if polled.data.status in (JobDataStatus.COMPLETED, JobDataStatus.FAILED):
        break
image = polled.data.image
assert polled.data.status is JobDataStatus.COMPLETED
(OUT / "job.json").write_text(json.dumps(polled.to_dict()), encoding="utf-8")

for download, name in ((optimized, "optimized.jpg"), (converted, "converted.webp")):
    file = download.sync(image.id, client=client)
    assert isinstance(file, File), file
    (OUT / name).write_bytes(file.payload.read())

# lists, texts, archives
listed = list_jobs.sync(client=client, needs_text=ListJobsNeedsText.TRUE, limit=1, include="details")
assert isinstance(listed, JobsBody), listed
assert listed.next_cursor is None
assert listed.data[0].image.translations[0].long_description == ""
edited = edit_translation.sync(
    image.id, "en", client=client, body=TranslationEdit(seo_alt_text="A lighthouse by the sea.")
)
assert isinstance(edited, EditedTranslationBody), edited
assert edited.data.source is EditedTranslationSource.PERSON
assert edited.data.needs_text_reason is None
refused = export.sync(client=client, body=ExportFields(images=[image.id]))
assert isinstance(refused, ExportIncompleteBody), refused
assert refused.needs_text[0].languages == ["de"]
archive = export.sync(client=client, body=ExportFields(allow_needs_text=True))
assert isinstance(archive, File), archive
assert archive.payload.read(2) == b"PK"

# errors
stranger = balance.sync_detailed(client=client_for("imgp_wrong"))
assert isinstance(stranger.parsed, ErrorBody), stranger
assert (stranger.status_code, stranger.parsed.message) == (401, "Unauthenticated.")

poor = process.sync(client=client, body=ProcessFields(file_of("PICTURE"), list(Language)[:10]))
assert isinstance(poor, InsufficientCreditsBody), poor
assert poor.shortfall > 0

unknown = get_job.sync_detailed("0" * 26, client=client)
assert isinstance(unknown.parsed, ErrorBody), unknown
assert unknown.status_code == 404

# a repeated dispatch
again = process.sync(client=client, body=process_fields(), idempotency_key="one upload")
assert isinstance(again, DispatchBody), again
assert again.data.job_id == sent.data.job_id
