"""What `process` prints: a table and problems for people, and JSON for programs with the API's fields of an image; and
the files that --csv and --html write.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from imgproc_local.batch import ALT_COLUMNS, FIRST_ALT_COLUMNS, ManifestLine, ResultFile, VariantFile, alt_rows
from imgproc_local.cli.discovery import OWN_RESULT, Discovery, SourceFile
from imgproc_local.cli.output import echo_json, path_text, printable, size_text, table
from imgproc_local.cli.process.results_folder import Outcome, RunOptions
from imgproc_local.cli.process.run import Run
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.domain.image import compression_percentage
from imgproc_local.domain.result import Note, SuggestedRole, Translation
from imgproc_local.engine.exports import csv_bytes
from imgproc_local.system.files import write_atomically

_MAX_SKIPPED_LISTED = 20
"""The most skipped files that are listed for people. The JSON lists all of them."""


# ---- for programs ----


def _print_json(outcomes: Sequence[Outcome], discovery: Discovery, out: Path, pending: Sequence[SourceFile]) -> None:
    """Print an entry per file: pictures that would be processed, outcomes, files that failed in the search, skipped
    files. Of the outcomes, pictures that need a text come first.
    """
    echo_json(
        [
            *(_entry(picture.path, "pending", (), out) for picture in pending),
            *(_entry(one.picture, _status(one), one.errors, out, one.record) for one in _needing_text_first(outcomes)),
            *(_entry(one.path, "failed", [(None, one.reason)], out) for one in discovery.failed),
            *(_entry(one.path, "skipped", [(None, one.reason)], out) for one in discovery.skipped),
        ]
    )


def _status(outcome: Outcome) -> str:
    """A status of the API, or `unchanged` for a picture whose results an earlier run made."""
    return "unchanged" if outcome.unchanged else "completed" if outcome.done else "failed"


def _entry(
    picture: Path, status: str, errors: Sequence[tuple[str | None, str]], out: Path, record: ManifestLine | None = None
) -> dict[str, Any]:
    """The API's fields of an image, with the paths of the original and of the written files.

    Without a record they are null. `removed` are the kinds of private data that the original holds and a result does
    not; never the data.
    """
    from imgproc_local.api.wire import TranslationBody, as_body, note_bodies

    optimized, converted = (record.optimized, record.converted) if record is not None else (None, None)
    return {
        "file": path_text(picture),
        "status": status,
        "original_filename": path_text(Path(picture.name)),
        "original_size": record and record.size_bytes,
        "optimized_size": optimized and optimized.size_bytes,
        "converted_format": converted and converted.format,
        "converted_size": converted and converted.size_bytes,
        "compression_percentage": record and optimized and _percentage([record]),
        "translations": [as_body(text, TranslationBody) for text in record.translations] if record is not None else [],
        "suggested_role": record and record.suggestion and record.suggestion.role,
        "suggested_role_reason": record and record.suggestion and record.suggestion.reason,
        "removed": record and record.removed,
        "optimized_notes": record and note_bodies(record.notes_on("optimized")),
        "converted_notes": record and note_bodies(record.notes_on("converted")),
        "variants": [_variant(out, each) for each in (record.variants if record is not None else ())],
        "optimized_file": optimized and path_text(out / optimized.path),
        "converted_file": converted and path_text(out / converted.path),
        "errors": [{"stage": stage, "message": message} for stage, message in errors],
    }


def _variant(out: Path, file: VariantFile) -> dict[str, Any]:
    size = {"width": file.width_px, "height": file.height_px, "size": file.size_bytes}
    return size | {"file": path_text(out / file.path)}


# ---- for people ----


def print_results(options: RunOptions, run: Run, converted_to: str, pending: Sequence[SourceFile] = ()) -> None:
    """Print what was done or, of a dry run, what would be done: the results on standard output, or through a pipe on
    standard error, and the rest on standard error. `pending` are the pictures that would be processed.
    """
    outcomes, discovery = run.outcomes, run.discovery
    if options.as_json:
        _print_json(outcomes, discovery, Path() if options.in_place else options.out, pending)
    elif not (options.watch or options.quiet):  # --watch has printed each picture
        for picture in pending:
            click.echo(f"Would process: {options.shown(picture.path)}")
        for line in _table(options, outcomes, converted_to):
            click.echo(line, err=options.is_piped)
    _print_failed(options, outcomes, discovery)
    if not options.quiet:
        print_skipped(options, discovery)
        for line in (*_totals(outcomes, converted_to, options), _counts(options, run, pending)):
            click.echo(line, err=True)
    if run.stop_reason is not None:
        done = sum(outcome.done for outcome in outcomes)
        click.echo(
            f"{run.stop_reason} {done:,} of {len(discovery.pictures):,} pictures are done. To continue, run the same"
            f" command again{'' if options.in_place else ': finished pictures are skipped'}.",
            err=True,
        )


def _table(options: RunOptions, outcomes: Sequence[Outcome], converted_to: str) -> Iterator[str]:
    """A row per picture of this run with its alt texts below. Pictures that need a text come first."""
    listed = [(each.picture, each.new) for each in _needing_text_first(outcomes) if each.new is not None]
    if not listed:
        return
    rows = [("FILE", "NEW NAME", "BEFORE", "AFTER", "SAVED", converted_to.upper())]
    rows += [(options.shown(picture), *_cells(record)) for picture, record in listed]
    head, *lines = table(rows, right_aligned=(2, 3, 4, 5))
    yield head
    width = max((len(_label(text)) for _, record in listed for text in record.translations), default=0)
    for line, (_, record) in zip(lines, listed, strict=True):
        yield line
        for text in record.translations:
            yield f"    {_label(text):{width}}  {printable(text.seo_alt_text)}".rstrip()
        if record.suggestion is not None and record.suggestion.role is not SuggestedRole.INFORMATIVE:
            yield f"    suggested role: {record.suggestion.role.value}. {printable(record.suggestion.reason)}"
        for kind, notes in record.notes.items():
            yield from (f"    {kind}: {note.message}" for note in notes)


def _totals(outcomes: Sequence[Outcome], converted_to: str, options: RunOptions) -> Iterator[str]:
    """How many pictures were described or written by this run, and what that saves."""
    new = [outcome.new for outcome in outcomes if outcome.new is not None]
    written = [record for record in new if record.files]
    optimized = [record for record in new if record.optimized]
    if new and not written:
        yield f"{_picture_count(len(new))} described."
    elif written:
        where = "in place" if options.in_place else f"to {printable(path_text(options.out))}"
        where = "to standard output" if options.is_piped else where
        saved = ""
        if optimized:
            before, after = _sizes(optimized)
            saved = f": {size_text(before)} before, {size_text(after)} after, {_percentage(optimized)} % saved"
        yield f"{_picture_count(len(written))} written {where}{saved}."
    if larger := sum(map(_is_larger, new)):
        yield f"{_picture_count(larger)} larger as {converted_to.upper()} than optimized: use the optimized file there."


def _print_failed(options: RunOptions, outcomes: Sequence[Outcome], discovery: Discovery) -> None:
    """Print the files that failed, each with the reason."""
    for outcome in outcomes:
        for stage, message in outcome.errors:
            _print_problem("Failed", options.shown(outcome.picture), f"{stage}: {message}" if stage else message)
    for one in discovery.failed:
        _print_problem("Failed", options.shown(one.path), one.reason)


def print_skipped(options: RunOptions, discovery: Discovery) -> None:
    """Print skipped files, each with the reason. Several results of earlier runs are only counted."""
    results = sum(one.reason == OWN_RESULT for one in discovery.skipped)
    listed = [one for one in discovery.skipped if one.reason != OWN_RESULT or results == 1]
    for one in listed[:_MAX_SKIPPED_LISTED]:
        _print_problem("Skipped", options.shown(one.path), one.reason)
    if len(listed) > _MAX_SKIPPED_LISTED:
        click.echo(f"Skipped: {len(listed) - _MAX_SKIPPED_LISTED} more; --json lists them all.", err=True)
    if results > 1:
        click.echo(f"Skipped: {results:,} results of earlier runs; --json lists them.", err=True)


def _print_problem(what: str, file: str, reason: str) -> None:
    click.echo(f"{what}: {file}: {printable(reason)}", err=True)


def _counts(options: RunOptions, run: Run, pending: Sequence[SourceFile]) -> str:
    """How many pictures are done, unchanged and failed, how many files were skipped, how many pictures need a text.

    Of those that need a text, the table has only the ones of this run.
    """
    unchanged = sum(outcome.unchanged for outcome in run.outcomes)
    done = sum(outcome.done for outcome in run.outcomes) - unchanged
    failures = len(run.discovery.failed) + sum(bool(outcome.errors) for outcome in run.outcomes)
    needing = sum(outcome.needs_text for outcome in run.outcomes)
    first = f"{len(pending):,} to process" if options.dry_run else f"{done:,} done"
    parts = [first, f"{failures:,} failed", f"{len(run.discovery.skipped):,} skipped"]
    if unchanged:
        parts.insert(1, f"{unchanged:,} unchanged")
    if needing:
        hint = " (--json and --csv list them)" if any(one.needs_text and one.unchanged for one in run.outcomes) else ""
        parts.append(f"{needing:,} in need of a text from you{hint}")
    return ", ".join(parts) + (". Nothing was written." if options.dry_run else ".")


def _needing_text_first(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return sorted(outcomes, key=lambda outcome: not outcome.needs_text)


def _label(text: Translation) -> str:
    if text.needs_text_reason is None:
        return f"{text.language_code} ({text.source.value})"
    return f"{text.language_code} (needs text: {text.needs_text_reason.value.replace('_', ' ')})"


def _cells(record: ManifestLine) -> tuple[str, str, str, str, str]:
    # the path of the first file, or the name for it if none was written
    names = [*(file.path for file in record.files), *(text.seo_filename for text in record.translations), "-"]
    mark = " (larger)" if _is_larger(record) else ""
    return (
        printable(names[0]),
        size_text(record.size_bytes),
        size_text(record.optimized.size_bytes) if record.optimized else "-",
        f"{_percentage([record])} %" if record.optimized else "-",
        size_text(record.converted.size_bytes) + mark if record.converted else "-",
    )


def _is_larger(record: ManifestLine) -> bool:
    """Whether the optimized file is the one to serve, although there is a converted one."""
    return Note.LARGER_THAN_OPTIMIZED in record.notes_on("converted")


def _sizes(records: Sequence[ManifestLine]) -> tuple[int, int]:
    """The bytes of the originals, and of their optimized files."""
    optimized = (record.optimized.size_bytes for record in records if record.optimized is not None)
    return sum(record.size_bytes for record in records), sum(optimized)


def _percentage(optimized: Sequence[ManifestLine]) -> int:
    return compression_percentage(*_sizes(optimized))


def _picture_count(pictures: int) -> str:
    return "1 picture" if pictures == 1 else f"{pictures:,} pictures"


# ---- files about the results: the table of alt texts, and the pictures as HTML ----

_HTML_HEAD = (
    "<!-- The pictures of imgproc-local, to be copied into pages. Adapt addresses and sizes in the copy: each run"
    " writes this file anew. -->"
)


def require_own_files(options: RunOptions) -> None:
    """Raises: click.UsageError, unless the files of --csv and --html differ, and are new or of an earlier run."""
    files = [os.path.realpath(file) for file in (options.csv_file, options.html_file) if file is not None]
    if len(set(files)) < len(files):
        raise click.UsageError("--csv and --html can't write the same file.")
    for option, file, head in (
        ("--csv", options.csv_file, csv_bytes((), FIRST_ALT_COLUMNS).rstrip()),
        ("--html", options.html_file, _HTML_HEAD.encode()),
    ):
        if file is not None and not _is_own(file, head, options.out):
            expected = f"expected a new file in a folder that exists, or the file that {option} wrote in an earlier run"
            raise click.BadParameter(f"{expected}; received {str(file)!r}.", param_hint=f"'{option}'")


def _is_own(file: Path, head: bytes, out: Path) -> bool:
    """Whether a file can be created, also in the output folder, or is empty or begins with `head`."""
    try:
        if file.is_file():  # a pipe would be read until something is written into it
            with file.open("rb") as opened:
                return opened.read(len(head)) in (head, b"")
        folder = file.absolute().parent
        return (folder.is_dir() or folder == out.absolute()) and not file.exists()
    except OSError:
        return False


def write_files(options: RunOptions, outcomes: Sequence[Outcome]) -> bool:
    """Write the files of --csv and --html, unless there is no picture. If that fails, print why and return False."""
    records = [(outcome.picture, outcome.record) for outcome in outcomes if outcome.record is not None]
    contents: dict[Path, bytes] = {}
    if options.csv_file is not None and outcomes:
        rows = (row for picture, record in records for row in alt_rows(path_text(picture), record))
        contents[options.csv_file] = csv_bytes(rows, ALT_COLUMNS)
    if options.html_file is not None and outcomes:
        base = options.html_file.absolute().parent
        elements = [_element(record, lambda file: _address(options.out / file.path, base)) for _, record in records]
        contents[options.html_file] = "\n\n".join([_HTML_HEAD, *filter(None, elements)]).encode() + b"\n"
    try:
        for file, content in contents.items():
            write_atomically(file, content)
    except OSError as error:
        click.echo(f"The file {printable(path_text(file))} can't be written: {error.strerror}.", err=True)
        return False
    return True


def _element(record: ManifestLine, address_of: Callable[[ResultFile], str]) -> str:
    """The element `picture` for the files of one picture; "" if it has none.

    A browser that shows the format of the converted file chooses from a set of widths, in which each file is smaller
    than all wider ones, and the optimized file stands for those that are not smaller; it shows every file of the set,
    whatever `type` says. Other browsers get the optimized file. Without a choice, the element is an `img`. A text that
    a person has to write is left out: an empty one would say that the picture is decorative.
    """
    converted, image = record.converted, record.optimized or record.converted
    best = record.optimized if _is_larger(record) else converted or image
    if image is None or best is None:
        return ""
    variants = _smaller_than_wider_ones(record.variants, best.size_bytes) if record.size_px else []
    chosen = {"srcset": address_of(best)}
    if record.size_px and variants:
        width_px, _ = record.size_px
        addresses = [*(f"{address_of(each)} {each.width_px}w" for each in variants), f"{address_of(best)} {width_px}w"]
        chosen = {"srcset": ", ".join(addresses), "sizes": f"(max-width: {width_px}px) 100vw, {width_px}px"}
    text = next(iter(record.translations), None)
    alt = {} if text is None or text.needs_text else {"alt": text.seo_alt_text}
    size = dict(zip(("width", "height"), record.size_px or (), strict=False))
    attributes: dict[str, object] = {"src": address_of(image), **alt, **size, "loading": "lazy", "decoding": "async"}
    if converted is None or converted.format is None or image is converted or (best is image and not variants):
        return _tag("img", attributes | (chosen if variants else {}))
    source = {"type": FORMATS[converted.format].mime, **chosen}
    return f"<picture>\n  {_tag('source', source)}\n  {_tag('img', attributes)}\n</picture>"


def _smaller_than_wider_ones(variants: Sequence[VariantFile], full_bytes: int) -> list[VariantFile]:
    """The files, by width, without those that take as many bytes as a wider one, which looks better."""
    kept: list[VariantFile] = []
    for each in reversed(variants):
        if each.size_bytes < (kept[0].size_bytes if kept else full_bytes):
            kept.insert(0, each)
    return kept


def _address(file: Path, base: Path) -> str:
    """The address of a file on a page in the folder `base`, also for `srcset`, where spaces and commas end one."""
    try:
        return quote(os.fsencode(Path(os.path.relpath(file, base)).as_posix()))
    except ValueError:  # on another drive of Windows
        return file.absolute().as_uri()


def _tag(name: str, attributes: Mapping[str, object]) -> str:
    return " ".join([f"<{name}", *(f'{each}="{escape(str(value))}"' for each, value in attributes.items())]) + ">"
