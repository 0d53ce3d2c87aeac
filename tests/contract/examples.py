"""Makes the examples of the interface: `python -m tests.contract.examples` asks a running service, and writes what it
answers to `api/examples.json`, and into the blocks below the marks `<!-- example NAME… -->` of the documents.
"""

from __future__ import annotations

import functools
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from tests.support import pictures
from tests.support.recording import UNKNOWN, Gate, Recorder, events, first_with, normalized, shown
from tests.support.service import running

API = Path(__file__).parents[2] / "imgproc_local/api"
DATA, PAGE, PLUGINS = API / "examples.json", API / "README.md", API / "plugins.md"
MARKED = re.compile(r"(<!-- example ([\w ]+) -->\n)```console\n.*?^```$", re.DOTALL | re.MULTILINE)

CAPTION = "A red bridge over the Danube in Budapest"
FORM = {"image": "bridge.jpg", "languages": "en,de"}


@functools.cache
def bridge() -> bytes:
    """A picture with a caption, the name of its camera and a position."""
    exif = Image.Exif()
    exif[0x010E], exif[0x0110] = CAPTION, "X100VI"
    exif.get_ifd(0x8825).update({1: "N", 2: (47.0, 29.0, 24.0), 3: "E", 4: (19.0, 2.0, 54.0)})
    return pictures.encoded(pictures.photo(640, 480), "JPEG", quality=92, exif=exif)


def make() -> list[dict[str, Any]]:
    """The examples, in the order in which they were asked for."""
    examples: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        gate = Gate(Path(folder) / "first")
        with running(Path(folder) / "first", gate.make, codec_threads=1) as service:
            record = Recorder(service, examples)
            image = jobs(record, gate)
            other = uploads(record, gate)
            downloads(record, image)
            account(record)
            texts(record, gate, image)
            many(record, gate, image)
            exports(record, image)
            streams(record, gate)
            errors(record, other)
            jpeg_xl(record)
        gate = Gate(Path(folder) / "second")
        with running(Path(folder) / "second", gate.make, first_balance=3, queue_limit=1) as service:
            limits(Recorder(service, examples))
            gate.release()
    return normalized(examples)


def held(record: Recorder) -> None:
    """Let a job of another project take the describer, so that all others wait for it."""
    job_id = record.service.dispatch("analyze", pictures.png(), "hold.png", project_name="Other")["job_id"]
    record.until(job_id, lambda job: job["status"] == "analyzing")


def jobs(record: Recorder, gate: Gate) -> str:
    """A job in each state. Returns the identifier of the image of the completed one."""
    held(record)
    sent = record("process", "Send a picture", "POST", "/images/process", form=FORM, picture=bridge())
    path = f"/jobs/{sent['data']['job_id']}"
    waiting = record.service.dispatch("analyze", bridge(), "bridge.jpg", project_name="Other")["job_id"]
    record("pending", "A job that waits", "GET", f"/jobs/{waiting}")
    record.until(sent["data"]["job_id"], lambda job: job["image"]["converted_size"] is not None)
    record("running", "A job with texts still to come", "GET", path)
    for _ in range(3):
        gate.release()
    record.until(waiting, lambda job: job["status"] == "completed")
    completed = record("completed", "A job that is completed", "GET", path, headers={"Prefer": "wait=60"})
    record("details", "More parts of a job", "GET", f"{path}?include=removed,details")
    failed = record.service.process("process", pictures.broken_jpeg(), "cut-off.jpg")["job_id"]
    record("failed", "A job of a picture whose end is missing", "GET", f"/jobs/{failed}")
    record("jobs", "The newest job, and where the list goes on", "GET", "/jobs?status=completed,failed&limit=1")
    record("delete", "Delete a job", "DELETE", f"/jobs/{failed}")
    return str(completed["data"]["image"]["id"])


def uploads(record: Recorder, gate: Gate) -> str:
    """Each operation. Returns the identifier of an image that was only analyzed."""
    headers = {"Idempotency-Key": "shop-7", "Prefer": "wait=60"}
    form = {"image": "bridge.jpg", "languages": "en", "project_name": "Guide"}
    gate.release()
    analyzed = record(
        "analyze", "Have a picture described", "POST", "/images/analyze", form=form, picture=bridge(), headers=headers
    )
    record("conflict", "An Idempotency-Key that was used with another body", "POST", "/images/analyze",
           form={**form, "languages": "fr"}, picture=bridge(), headers=headers)  # fmt: skip
    form = {"image": "bridge.jpg", "languages": "en-GB", "quality_target": "small", "project_name": "Guide"}
    odd = record("warnings", "A field that analyze ignores", "POST", "/images/analyze", form=form, picture=bridge())
    gate.release()
    record.service.final(odd["data"]["job_id"])
    for operation, summary, more in (
        ("optimize", "Have a picture made smaller", {"quality_target": "small"}),
        ("convert", "Have a picture converted", {"format": "avif", "max_width_px": "320", "widths": "160"}),
    ):
        form = {"image": "bridge.jpg", **more}
        job = record(operation, summary, "POST", f"/images/{operation}", form=form, picture=bridge())
        record.service.final(job["data"]["job_id"])
    record("variants", "A picture converted at several widths", "GET", f"/jobs/{job['data']['job_id']}")
    return str(record.service.job(analyzed["data"]["job_id"])["image"]["id"])


def downloads(record: Recorder, image: str) -> None:
    path = f"/images/{image}"
    for name in ("optimized", "converted", "original", "thumbnail"):
        saved = "-o thumbnail.webp" if name == "thumbnail" else "-OJ"
        answer = record.answer(name, f"Download the {name} file", "GET", f"{path}/{name}", saved=saved)
    current = {"If-None-Match": answer.headers["etag"]}
    record("current", "A file that the client has", "GET", f"{path}/thumbnail", headers=current)


def account(record: Recorder) -> None:
    record("languages", "The languages", "GET", "/languages", key="")
    record("balance", "The balance", "GET", "/credits/balance")
    record("afford", "What a batch costs", "GET", "/credits/afford?images=100&languages=2&format=avif")
    record("projects", "The projects", "GET", "/projects")
    record("openapi", "This interface as OpenAPI", "GET", "/openapi.json", key="", saved="-O")
    record("healthz", "Whether the service works", "GET", "/healthz", key="")
    record("metrics", "Counts and states", "GET", "/metrics", key="", saved="-O")


def texts(record: Recorder, gate: Gate, image: str) -> None:
    held(record)
    path = f"/images/{image}/translations"
    edit = {"seo_alt_text": "The Liberty Bridge in Budapest, seen from the Gellért Hill."}
    record("edit", "Edit an alt text", "PATCH", f"{path}/en", sent=edit)
    record("undo", "Undo the change", "POST", f"{path}/en/undo")
    record("redo", "Redo it", "POST", f"{path}/en/redo", headers={"If-Match": '"1"'})
    record("no_such_version", "A text without a later version", "POST", f"{path}/en/redo")
    record(
        "text_changed", "A text that has another version", "PATCH", f"{path}/en", sent=edit, headers={"If-Match": '"1"'}
    )
    record("text_of_person", "A text that a person wrote", "POST", f"{path}/en/regenerate")
    record("regenerate", "Have a text written anew", "POST", f"{path}/de/regenerate")


def many(record: Recorder, gate: Gate, image: str) -> None:
    text = {"image_id": image, "language_code": "en"}
    edits = [{**text, "accept": True}, {"image_id": UNKNOWN, "language_code": "en", "decorative": True}]
    record("edit_many", "Edit or accept many texts", "PATCH", "/translations", sent={"texts": edits})
    record("undo_many", "Undo changes of many texts", "POST", "/translations/undo", sent={"texts": [text]})
    record("redo_many", "Redo changes of many texts", "POST", "/translations/redo", sent={"texts": [text]})
    french = {"image_id": image, "language_code": "fr"}
    wanted = {"texts": [french], "from_language": "en"}
    record("regenerate_many", "Have texts translated", "POST", "/translations/regenerate", sent=wanted)
    record("cancel", "Withdraw them", "POST", "/translations/cancel", sent={"texts": [french]})
    gate.release(), gate.release()
    images = [
        {"image_id": image, "project_name": "Guide", "caption": "Liberty Bridge", "keywords": ["bridge", "Danube"]}
    ]
    words = record("edit_images", "Move pictures and change their words", "PATCH", "/images", sent={"images": images})
    job_id = words["data"][0]["job_id"]
    options = {"images": [{"image_id": image}, {"image_id": UNKNOWN}], "format": "avif", "quality_target": "small"}
    record("remake", "Make results anew", "POST", "/images/remake", sent=options)
    record.until(job_id, lambda job: not job["image"]["details"]["remaking"])


def exports(record: Recorder, image: str) -> None:
    fields = {"images": [image], "variants": ["best"]}
    record("export_incomplete", "Texts are missing", "POST", "/exports", sent=fields)
    fields["allow_needs_text"] = True
    record("dry_run", "What an archive would contain", "POST", "/exports", sent={**fields, "dry_run": True})
    record("export", "Download an archive", "POST", "/exports", sent=fields, saved="-OJ")


def streams(record: Recorder, gate: Gate) -> None:
    """Each kind of event, as it is on the wire."""
    service = record.service
    with events(service, "/events") as (answer, received):
        sent = [next(received)]
        job_id = service.dispatch("analyze", bridge(), "bridge.jpg", project_name="Shop")["job_id"]
        with events(service, f"/jobs/{job_id}/events") as (job_answer, statuses):
            followed = [first_with(statuses, '"analyzing"')]
            gate.release()
            followed.append(first_with(statuses, '"completed"'))
            assert list(statuses) == []
        sent.append(first_with(received, f'"{job_id}","status":"completed"'))
        service.client.delete(f"/jobs/{job_id}")
        sent.append(first_with(received, "event: deleted"))
        service.loop.call_soon_threadsafe(service.services.engine.updates.reset)
        sent.append(first_with(received, "event: reset"))
    record.add(
        "job_events", "The events of a job", "GET", f"/jobs/{job_id}/events", job_answer, "".join(followed), saved="-N"
    )
    record.add("events", "One event of each kind", "GET", "/events", answer, "".join(sent), saved="-N")


def errors(record: Recorder, analyzed: str) -> None:
    record("unauthenticated", "No key, or a wrong one", "GET", "/credits/balance", key="", operation="*")
    record("nothing_here", "No such path", "GET", "/pictures", operation="")
    record("not_found", "No such job", "GET", f"/jobs/{UNKNOWN}")
    record("file_not_ready", "A file that the job has not made", "GET", f"/images/{analyzed}/optimized")
    record("wrong_method", "A path that does not take the method", "POST", "/credits/balance", operation="")
    record("unknown_text", "No such text", "PATCH", f"/images/{analyzed}/translations/fr", sent={"accept": True})
    form = {"image": "film.jpg"}
    too_large = pictures.jpeg() + bytes(25 * 1024 * 1024)
    record("upload_too_large", "Too many bytes", "POST", "/images/process", form=form, picture=too_large)
    wrong = {"image": "bridge.jpg", "languages": "en,xx", "format": "bmp"}
    record("invalid_request", "Fields with problems", "POST", "/images/process", form=wrong, picture=bridge())
    form = {"image": "letter.jpg"}
    record("unsupported_image", "No picture", "POST", "/images/process", form=form, picture=b"Dear Sir or Madam,")
    form = {"image": "broken.jpg"}
    record("broken_image", "A damaged header", "POST", "/images/process", form=form, picture=pictures.jpeg()[:200])
    form = {"image": "map.png"}
    large = pictures.encoded(Image.new("1", (20_000, 10_001)), "PNG")
    record("too_many_pixels", "Too many pixels", "POST", "/images/process", form=form, picture=large)
    record("wrong_query", "A parameter with a problem", "GET", "/jobs?limit=1000")


def jpeg_xl(record: Recorder) -> None:
    form = {"image": "bridge.jpg", "format": "jxl"}
    sent = record("to_jxl", "Have a JPEG stored without loss", "POST", "/images/convert", form=form, picture=bridge())
    image = record.service.final(sent["data"]["job_id"])["image"]["id"]
    record.answer("as_jpeg", "The JPEG again", "GET", f"/images/{image}/converted?as=jpeg", saved="-OJ")
    record("no_jpeg", "Another file than the JPEG", "GET", f"/images/{image}/converted?as=png")


def limits(record: Recorder) -> None:
    record(
        "insufficient_credits",
        "The balance is too small",
        "POST",
        "/images/process",
        form=FORM,
        picture=bridge(),
        operation="*",
    )
    held(record)
    record(
        "queue_full", "The queue is full", "POST", "/images/optimize", form={"image": "bridge.jpg"}, picture=bridge()
    )
    key = record.service.make_key(rate_limit=1)
    record.send("GET", "/projects", key=key)
    record("rate_limited", "Too many requests in a minute", "GET", "/projects", key=key, operation="*")


def page(text: str, examples: list[dict[str, Any]]) -> str:
    """The document `text` with the examples below its marks."""
    by_name = {example["name"]: example for example in examples}

    def block(match: re.Match[str]) -> str:
        return match[1] + "```console\n" + "\n\n".join(shown(by_name[name]) for name in match[2].split()) + "\n```"

    return MARKED.sub(block, text)


def encoded(examples: list[dict[str, Any]]) -> str:
    return json.dumps(examples, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    made = make()
    DATA.write_text(encoded(made), encoding="utf-8")
    for document in (PAGE, PLUGINS):
        document.write_text(page(document.read_text(encoding="utf-8"), made), encoding="utf-8")
