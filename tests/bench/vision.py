"""Measures how fast one picture is described in several languages by four contenders: this project, its engine without
a shared prefix, the stock handler of llama-cpp-python, and llama-server.

The models have random weights at true size (`python -m tests.bench.random_weights`), so only costs are measured. Such a
model never ends an answer, so every contender writes the same number of tokens per language, with the same grammar.
Contenders run in separate processes, one after the other, in every round. The fastest round of each counts, because
other load on the machine only adds time. The stock handler takes minutes and runs once. Threads sleep instead of
spinning (`GOMP_SPINCOUNT`) in all of them.

`python -m tests.bench.vision FOLDER_OF_MODELS [--model NAME] [--llama-server PATH] [--languages 5] [--rounds 2]
[--no-stock]`
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from imgproc_local.vision.llm.bindings import SPIN_COUNT
from imgproc_local.vision.llm.cores import physical_cores
from tests.bench.load import photograph, print_table, verdict
from tests.bench.random_weights import SIZES, mmproj_path, text_path
from tests.bench.vision_contenders import Measured, Task
from tests.faults.server_process import ROOT

LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "ja", "ar", "ru", "tr")
PICTURE_PX = (1024, 768)
NEW_TOKENS = 60
CONTENDER_TIMEOUT_S = 3600
OURS, SEPARATE, SERVER, STOCK = "ours, shared", "ours, one by one", "llama-server", "stock handler"
UNLIMITED = "server, no image token limit"
Named = tuple[str, Measured]


def run(role: str, task: Task) -> Measured:
    """Run a contender in a child process, and return what it measured."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.vision_contenders", role],
        cwd=ROOT,
        env=os.environ | {"GOMP_SPINCOUNT": SPIN_COUNT},
        input=msgspec.json.encode(task),
        capture_output=True,
        timeout=CONTENDER_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{role} ended with {done.returncode}:\n{done.stderr.decode(errors='replace')[-2000:]}")
    return msgspec.json.decode(done.stdout, type=Measured)


def contenders(task: Task, few: int, llama_server: Path | None, *, rounds: int, with_stock: bool) -> list[Named]:
    """Name and measurement of every contender, this project first."""
    to_few = replace(task, counts=(1, few))
    entries = [(OURS, "shared", task), (SEPARATE, "separate", to_few)]
    if llama_server is not None:
        served = replace(to_few, llama_server=str(llama_server.resolve()))
        entries += [
            (f"{SERVER}, in turn", "server", served),
            (f"{SERVER}, at once", "server", replace(served, slots=few)),
            (f"{SERVER}, 1 then rest", "server", replace(served, slots=few, first_alone=True)),
            (UNLIMITED, "server", replace(served, image_tokens=0)),
        ]
    found = [[run(role, todo) for _, role, todo in entries] for _ in range(rounds)]
    measured = [
        (name, min(tries, key=lambda one: one.turns[few].seconds))
        for (name, _, _), tries in zip(entries, zip(*found, strict=True), strict=True)
    ]
    return [*measured, (STOCK, run("stock", to_few))] if with_stock else measured


def show(measured: Sequence[Named], few: int, many: int) -> None:
    """Print a row per contender."""
    texts = measured[0][1].turns[few].texts
    head = ["", "load s", "prefix s", "tok/s, 1", f"tok/s, {few}", "1 lang. s", f"{few} lang. s", f"{many} lang. s"]
    head += [f"{few} lang. CPU s", "tokens", "peak MB", "same texts"]
    rows = []
    for name, found in measured:
        one, some, most = found.turns[1], found.turns[few], found.turns.get(many)
        same = sum(mine == theirs for mine, theirs in zip(texts, some.texts, strict=True))
        rows.append(
            [
                name,
                f"{found.load_s:.2f}",
                f"{found.prefix_s:.2f}",
                f"{one.tokens / one.decode_s:.1f}",
                f"{some.tokens / some.decode_s:.1f}",
                f"{one.seconds:.2f}",
                f"{some.seconds:.2f}",
                f"{most.seconds:.2f}" if most else "–",
                f"{some.cpu_s:.1f}",
                f"{some.tokens}",
                f"{found.peak_bytes / 1e6:.0f}",
                f"{same}/{few}",
            ]
        )
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    for row in (head, ["-" * width for width in widths], *rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")


def print_ratios(title: str, measured: Sequence[Named], few: int, many: int) -> None:
    """Print the ratios with their limits."""
    by_name = dict(measured)
    ours = by_name[OURS]
    rivals = [(f"{few} separate calls", [by_name[SEPARATE]], 0.35)]
    rivals.append(("llama-server, fastest mode", [found for name, found in measured if name.startswith(SERVER)], 0.7))
    rivals.append(("llama-server without a limit", [found for name, found in measured if name == UNLIMITED], 0.7))
    rivals.append(("the stock handler", [found for name, found in measured if name == STOCK], 0.10))
    rows = []
    for name, tries, limit in rivals:
        if tries:
            rival = min(tries, key=lambda found: found.turns[few].seconds).turns[few]
            ratio = ours.turns[few].seconds / rival.seconds
            rows.append((f"{few} languages, of {name}", f"{ratio:.3f} ×", verdict(ratio, limit, "×")))
            rows.append(("  the same in CPU time", f"{ours.turns[few].cpu_s / rival.cpu_s:.3f} ×", ""))
    decode = ours.turns[many].decode_s / ours.turns[few].decode_s
    rows.append((f"decoding of {many} languages, of {few}", f"{decode:.3f} ×", verdict(decode, 1.5, "×")))
    tokens = ours.turns[many].tokens
    rows += [
        ("tokens that the grammar refused at first", f"{ours.refused} of {tokens}", ""),
        ("choosing tokens, of the decoding", f"{ours.sampling_s / ours.turns[many].decode_s:.1%}", ""),
    ]
    print_table(title, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", choices=SIZES, action="append", help="only these")
    parser.add_argument("--llama-server", type=Path, help="built from the source that the bindings were built from")
    parser.add_argument(
        "--languages", type=int, default=5, help="number of languages; the last ratio uses twice as many"
    )
    parser.add_argument("--threads", type=int, default=physical_cores())
    parser.add_argument("--new-tokens", type=int, default=NEW_TOKENS)
    parser.add_argument("--image-tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--no-stock", action="store_true", help="without the slowest contender")
    arguments = parser.parse_args()
    few = arguments.languages
    many = min(2 * few, len(LANGUAGES))
    with tempfile.TemporaryDirectory() as name:
        picture = Path(name) / "picture.png"
        photograph(*PICTURE_PX, 7).save(picture)
        for model in arguments.model or SIZES:
            text, mmproj = text_path(arguments.folder, model), mmproj_path(arguments.folder, model)
            task = Task(
                text=str(text.resolve()),
                mmproj=str(mmproj.resolve()),
                picture=str(picture),
                languages=LANGUAGES[:many],
                counts=(1, few, many),
                image_tokens=arguments.image_tokens,
                new_tokens=arguments.new_tokens,
                threads=arguments.threads,
            )
            found = contenders(
                task, few, arguments.llama_server, rounds=arguments.rounds, with_stock=not arguments.no_stock
            )
            print(f"\n{model}: {PICTURE_PX[0]}×{PICTURE_PX[1]}, {arguments.new_tokens} tokens per language\n")
            show(found, few, many)
            print_ratios(model, found, few, many)


if __name__ == "__main__":
    main()
