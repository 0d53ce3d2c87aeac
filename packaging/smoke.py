"""Tests a built program end to end, in a clean environment without a network.

    python packaging/smoke.py [--corpus DIR] [--with-network] BINARY

BINARY is the program of a one-folder build (with `_internal` beside it) or of a one-file build. It is first copied to a
folder with a non-ASCII name. A name without a folder is a command on PATH, and several words are a command line; these
are not copied. Everything runs with an empty environment, on a data folder with a non-ASCII name, and on Linux, unless
`--with-network` is given, in a network namespace that has only loopback. For each check a line with its duration is
printed. If a check fails, the output of the server is printed, and the test ends with exit status 1. Only the standard
library is needed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import smoke_pictures as pictures
from smoke_program import LINK, WINDOWS, Client, Program, Server, serving

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "tests" / "sample" / "IMG_4711.jpg"
MODEL = ROOT / "models" / "tiny"
NON_ASCII_NAME = "Prüfung – 写真 ☃"
LANGUAGES = list(pictures.SCENE_TEXTS)
LANGUAGES_WITHOUT_MODEL = ["en", "de", "fr", "es", "it", "pl", "ru", "ja", "ar", "zh"]
OPERATIONS = ("analyze", "optimize", "convert", "process")
KILLS = 2
WAIT_S = 30
CORPUS_KINDS = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".avif")
BAD_FOLDER = "bad"
"""Pictures below a folder of this name in a corpus may be refused or fail."""
MAX_UNEXPECTED_FAILURES = 0.05
"""How many of the other pictures may be refused or fail, as a share of all pictures of the corpus."""

Note = Callable[[str], None]


@contextlib.contextmanager
def check(what: str) -> Iterator[Note]:
    """Print whether the block passed and how long it took, with the notes that the block adds."""
    notes: list[str] = []
    started_at = time.monotonic()
    try:
        yield notes.append
    except BaseException:
        print(f"FAILED {time.monotonic() - started_at:7.2f} s  {what}", flush=True)
        raise
    print(f"ok     {time.monotonic() - started_at:7.2f} s  {what}{': ' if notes else ''}{'; '.join(notes)}", flush=True)


def expect(condition: object, message: object) -> None:
    """Raises `AssertionError` with the message unless the condition is true."""
    if not condition:
        raise AssertionError(message)


class Smoke:
    """All checks of one program, in order. Its data folders and results are below `folder`."""

    def __init__(self, program: Program, folder: Path, corpus: Path | None) -> None:
        self._program, self._folder, self._corpus = program, folder, corpus
        self._data, self.log = folder / "Datenordner ü 画像", folder / "server.log"
        self._sample = SAMPLE.read_bytes()
        self._png, self._gif = pictures.scene_png(), pictures.scene_gif()

    def run(self) -> None:
        self._commands()
        key = json.loads(self._on_data("keys", "create", "--name", "smoke", "--rate-limit", "0", "--json"))["key"]
        with self._serving() as server:
            with check("start to the first response"):
                client = Client(server.wait_ready(), key)
            self._public_interface(client)
            with check("neither a key nor a sign-in link is written to the output file"):
                expect(not server.printed_secret(), server.output())
            self._operations(client)
            if self._corpus is not None:
                self._pictures_of_corpus(client, self._corpus)
            self._second_start(client)
            with check("SIGTERM while idle"):
                server.stop()
        self._air_gapped(key)
        if not WINDOWS:
            self._sigterm_during_an_upload(key)
        self._sigkill_while_jobs_run(key)
        with check("doctor on the data folder"):
            self._on_data("doctor")

    def _on_data(self, *arguments: str) -> str:
        return self._program.run("--data-dir", str(self._data), *arguments).stdout

    def _serving(self, *options: str) -> contextlib.AbstractContextManager[Server]:
        return serving(self._program, self._data, self.log, *options)

    def _commands(self) -> None:
        with check("--version") as note:
            note(self._program.run("--version").stdout.strip())
        with check("only default settings"):
            settings = json.loads(self._program.run("config", "show", "--json").stdout)
            expect(settings["file"] is None, f"the settings file {settings['file']} is read; move it away for the test")
        with check("process on the command line, without a model, in ten languages") as note:
            note(self._process_without_a_model())
        with check("import of the tiny model"):
            model = [str(MODEL / name) for name in ("tiny-text.gguf", "tiny-mmproj.gguf")]
            self._on_data("models", "import", *model, "--name", "tiny")
            installed = json.loads(self._on_data("models", "list", "--json"))[0]
            expect(installed["in_use"] and not installed["problem"], installed)

    def _process_without_a_model(self) -> str:
        out = self._folder / "Ergebnisse ü"
        languages = ["--languages", ",".join(LANGUAGES_WITHOUT_MODEL), "--format", "avif", "--json"]
        data = ["--data-dir", str(self._folder / "leer ü")]
        done = self._program.run(*data, "process", str(SAMPLE), "--out", str(out), *languages)
        (entry,) = json.loads(done.stdout)
        expect(entry["status"] == "completed", entry)
        expect([text["language_code"] for text in entry["translations"]] == LANGUAGES_WITHOUT_MODEL, entry)
        expect(all(text["seo_alt_text"] and text["source"] != "vision" for text in entry["translations"]), entry)
        for field, kind in (("optimized_file", "jpeg"), ("converted_file", "avif")):
            self._expect_picture(Path(entry[field]).read_bytes(), kind, self._sample)
        return f"{len(self._sample)} → {entry['optimized_size']} and {entry['converted_size']} bytes"

    def _public_interface(self, client: Client) -> None:
        with check("languages, OpenAPI document and page"):
            expect(len(client.get("/api/v1/languages").data()) >= 30, "fewer than 30 languages")
            paths = json.loads(client.get("/api/v1/openapi.json").body)["paths"]
            expect(all(f"/images/{operation}" in paths for operation in OPERATIONS), list(paths))
            link = LINK.search(self._on_data("sign-in"))
            expect(link, "`sign-in` printed no link")
            opened = client.send("POST", "/local/sign-in", json.dumps({"token": link[1]}).encode())
            expect(opened.status == 200, f"the link of `sign-in`: expected 200, received {opened.status}")
            secret = opened.data()["secret"]
            keys = client.send("GET", "/local/keys", Authorization=f"Bearer {secret}")
            expect(keys.status == 200, f"GET /local/keys: expected 200, received {keys.status}")
            expect(b"app.js" in client.get("/").body, "GET / is not the page")
            client.get("/static/app.js")
        with check("a missing key and a file that is not a picture are refused"):
            expect(
                Client(client.address).send("GET", "/api/v1/jobs").status == 401,
                "a request without a key is not answered with 401",
            )
            expect(
                client.upload("process", "a.jpg", b"not a picture").status == 422,
                "a file that is not a picture is not answered with 422",
            )

    def _operations(self, client: Client) -> None:
        """Run each of the four operations on all formats that it accepts. The WebP and AVIF are made from the PNG."""
        webp, avif = (self._convert(client, wanted) for wanted in ("webp", "avif"))
        scenes = {"png": self._png, "gif": self._gif, "webp": pictures.padded_webp(webp)}
        with check("process JPEG"):
            job_id = client.submit("process", "IMG_4711.jpg", self._sample, languages=LANGUAGES, format=["avif"])
            self._expect_results(client, job_id, self._sample, "avif", LANGUAGES)
        for kind, picture in scenes.items():
            with check(f"analyze {kind.upper()}: the model writes exactly the expected text") as note:
                job = client.final(client.submit("analyze", f"scene.{kind}", picture, languages=LANGUAGES))
                note(self._expect_scene(job))
            with check(f"process {kind.upper()}"):
                job_id = client.submit("process", f"scene.{kind}", picture, languages=LANGUAGES, format=["webp"])
                self._expect_scene(self._expect_results(client, job_id, picture, "webp", LANGUAGES))
        for kind, picture in {"jpg": self._sample, "avif": avif, **scenes}.items():
            with check(f"optimize {kind.upper()}") as note:
                job_id = client.submit("optimize", f"scene.{kind}", picture)
                # the program wrote this AVIF itself, so it may be returned unchanged
                image = self._expect_results(client, job_id, picture, smaller=kind != "avif")["image"]
                note(f"{image['original_size']} → {image['optimized_size']} bytes")
        with check("analyze JPEG"):
            job = client.final(client.submit("analyze", "IMG_4711.jpg", self._sample, languages=["en"]))
            self._expect_texts(job, ["en"])
        with check("convert JPEG"):
            job_id = client.submit("convert", "IMG_4711.jpg", self._sample, format=["webp"])
            self._expect_results(client, job_id, self._sample, "webp")

    def _convert(self, client: Client, wanted: str) -> bytes:
        with check(f"convert PNG to {wanted.upper()}"):
            job_id = client.submit("convert", "scene.png", self._png, format=[wanted])
            image = self._expect_results(client, job_id, self._png, wanted)["image"]
            return client.get(f"/api/v1/images/{image['id']}/converted").body

    def _pictures_of_corpus(self, client: Client, corpus: Path) -> None:
        """Process all pictures of a corpus at once. Of those not in a folder `bad`, few may be refused or fail."""
        files = sorted(file for file in corpus.rglob("*") if file.suffix.lower() in CORPUS_KINDS)
        with check(f"{len(files)} pictures of the corpus") as note:
            jobs: dict[str, Path] = {}
            refused = []
            for at, file in enumerate(files):
                operation = "optimize" if file.suffix.lower() == ".avif" else "process"
                wanted = {"languages": ["en", "de"], "format": [("webp", "avif")[at % 2]]}
                fields = wanted if operation == "process" else {}
                response = client.upload(operation, f"{at}{file.suffix}", file.read_bytes(), **fields)
                expect(response.status in (202, 413, 422), (file, response.status, response.body[:500]))
                if response.status == 202:
                    jobs[response.data()["job_id"]] = file
                else:
                    refused.append(file)
            failed, saved = [], 0
            for job_id, file in jobs.items():
                if client.final(job_id)["status"] == "failed":
                    failed.append(file)
                    continue
                image = self._expect_results(client, job_id, file.read_bytes(), smaller=False)["image"]
                saved += image["original_size"] - image["optimized_size"]
            unexpected = [file.name for file in (*refused, *failed) if BAD_FOLDER not in file.parts]
            expect(len(unexpected) <= MAX_UNEXPECTED_FAILURES * len(files), unexpected)
            note(f"{len(jobs) - len(failed)} completed, {saved} bytes saved")
            note(f"{len(refused)} refused, {len(failed)} failed")
            note(f"refused or failed outside {BAD_FOLDER}/: {', '.join(unexpected) or 'none'}")

    def _second_start(self, client: Client) -> None:
        with check("second start on the same data folder") as note:
            message = self._on_data("serve", "--no-browser", "--port", "0").splitlines()[0]
            address = f"http://{client.address[0]}:{client.address[1]}/"
            expect(address in message, f"expected the first server's address {address}, received: {message}")
            client.get("/healthz")
            note(message)

    def _air_gapped(self, key: str) -> None:
        with check("air-gapped: doctor finds no connection, the server processes and describes"):
            self._on_data("--air-gapped", "doctor")
            with self._serving("--air-gapped") as server:
                client = Client(server.wait_ready(), key)
                job_id = client.submit("process", "scene.png", self._png, languages=LANGUAGES, format=["avif"])
                self._expect_scene(self._expect_results(client, job_id, self._png, "avif", LANGUAGES))
                server.stop()

    def _sigterm_during_an_upload(self, key: str) -> None:
        incoming = self._data / "incoming"
        with self._serving() as server:
            client = Client(server.wait_ready(), key)
            before = client.get("/api/v1/jobs?limit=100").body
            with check("SIGTERM during an upload: a graceful shutdown, no partial job"):
                with client.partial_upload("IMG_4711.jpg", self._sample):
                    _wait(lambda: len(list(incoming.iterdir())) == 1, "half of the upload is on the disk")
                    server.stop(allow_traceback=True)
                expect(not list(incoming.iterdir()), f"a partial file is left in {incoming}")
                with self._serving() as again:
                    client = Client(again.wait_ready(), key)
                    expect(client.get("/api/v1/jobs?limit=100").body == before, "the list of jobs has changed")
                    again.stop()

    def _sigkill_while_jobs_run(self, key: str) -> None:
        accepted: dict[str, tuple[bytes, str]] = {}
        with check("SIGKILL while jobs run: no job is lost") as note:
            for _ in range(KILLS):
                with self._serving() as server:
                    client = Client(server.wait_ready(), key)
                    for picture, wanted in ((self._sample, "webp"), (self._png, "avif"), (self._gif, "avif")):
                        job_id = client.submit("process", "a.jpg", picture, languages=LANGUAGES, format=[wanted])
                        accepted[job_id] = picture, wanted
                    _wait_for_running_job(client, list(accepted))
                    server.kill()
            with self._serving() as server:
                client = Client(server.wait_ready(), key)
                for job_id, (picture, wanted) in accepted.items():
                    self._expect_results(client, job_id, picture, wanted, LANGUAGES)
                server.stop()
            note(f"{len(accepted)} of {len(accepted)} jobs completed after {KILLS} kills")

    def _expect_results(
        self,
        client: Client,
        job_id: str,
        original: bytes,
        converted: str | None = None,
        languages: list[str] | None = None,
        *,
        smaller: bool = True,
    ) -> Any:
        """Wait for the job, check its files and texts, and return it."""
        job = client.final(job_id)
        expect(job["status"] == "completed", job)
        image = job["image"]
        header = pictures.read_header(original)
        if image["optimized_size"] is not None:
            optimized = client.get(f"/api/v1/images/{image['id']}/optimized")
            self._expect_picture(optimized.body, header.kind, original)
            expect(len(optimized.body) == image["optimized_size"], "optimized_size is not the size of the file")
            saved = len(original) - len(optimized.body)
            expect(saved > 0 or (saved == 0 and not smaller), f"{len(original)} → {len(optimized.body)} bytes")
            expect(optimized.headers["content-disposition"].startswith("attachment; filename="), optimized.headers)
        if converted is not None:
            body = client.get(f"/api/v1/images/{image['id']}/converted").body
            self._expect_picture(body, converted, original)
            expect(len(body) < len(original), f"{len(original)} → {len(body)} bytes")
        if languages is not None:
            self._expect_texts(job, languages)
        return job

    def _expect_picture(self, data: bytes, kind: str, original: bytes) -> None:
        """Check that `data` is a complete picture of this kind with the size of `original`, possibly rotated by 90°."""
        header, expected = pictures.read_header(data), pictures.read_header(original)
        expect(header.kind == kind, f"expected {kind}, received {header.kind}")
        sides = {header.width_px, header.height_px}
        expect(sides == {expected.width_px, expected.height_px}, f"expected the size of {expected}, received {header}")
        pictures.check_complete(data)

    def _expect_texts(self, job: Any, languages: list[str]) -> None:
        texts = job["image"]["translations"]
        expect([text["language_code"] for text in texts] == languages, texts)
        for text in texts:
            expect(text["seo_filename"] and text["seo_alt_text"] and text["source"] == "vision", text)

    def _expect_scene(self, job: Any) -> str:
        """Check the texts in all languages, and return the English alt text.

        A number may follow the expected file name.
        """
        self._expect_texts(job, LANGUAGES)
        for text in job["image"]["translations"]:
            name, alt_text = pictures.SCENE_TEXTS[text["language_code"]]
            expect(text["seo_alt_text"] == alt_text and text["seo_filename"].startswith(name), text)
        return str(job["image"]["translations"][0]["seo_alt_text"])


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        expect(time.monotonic() < deadline, f"after {WAIT_S} s it is still not true that {what}")
        time.sleep(0.01)


def _wait_for_running_job(client: Client, job_ids: list[str]) -> None:
    def running() -> bool:
        states = [client.get(f"/api/v1/jobs/{job_id}").data()["status"] for job_id in job_ids]
        return any(state not in ("pending", "completed", "failed") for state in states)

    _wait(running, "a job is running")


def prepare_program(words: list[str], folder: Path) -> Program:
    """The program to test; if `words` is the path of a file, a copy below `folder`. Raises `SystemExit` if missing."""
    if len(words) > 1:
        return Program((shutil.which(words[0]) or words[0], *words[1:]), Path.cwd())
    binary = Path(words[0])
    if binary.name == words[0]:
        found = shutil.which(words[0])
        if found is None:
            raise SystemExit(f"expected a command on PATH; {words[0]} was not found there")
        return Program((found,), folder)
    if not binary.is_file():
        raise SystemExit(f"expected a built program; there is no file {binary}")
    target = folder / "Programm ü"
    if (binary.parent / "_internal").is_dir():
        shutil.copytree(binary.parent, target, symlinks=True)
    else:
        target.mkdir()
        shutil.copy2(binary, target)
    return Program((str(target / binary.name),), folder)


def namespace_command() -> list[str]:
    """A prefix that runs a command in a new network namespace. Raises `SystemExit` if none can be created."""
    failures = []
    # in a new PID namespace as well, so that killing the test also kills every server that it started
    as_root = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    for command in (as_root, [*as_root, "--user", "--map-current-user", "--keep-caps"]):
        try:
            done = subprocess.run([*command, "true"], capture_output=True, text=True, timeout=WAIT_S, check=False)
        except OSError as error:
            raise SystemExit(f"install unshare (util-linux), or use --with-network: {error.strerror}") from error
        if done.returncode == 0:
            return command
        failures.append(done.stderr.strip())
    raise SystemExit(f"can't make a network namespace ({'; '.join(failures)}): run as root, or use --with-network")


def raise_loopback() -> None:
    """Bring up this namespace's loopback, and check that connecting to another address fails. Source: netdevice(7)."""
    import fcntl

    get_flags, set_flags, up = 0x8913, 0x8914, 0x1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, get_flags, request))[1]
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sH14x", b"lo", flags | up))
    with check("loopback only") as note:
        interfaces = [name for _, name in socket.if_nameindex()]
        expect("eth0" not in interfaces, interfaces)
        try:
            socket.create_connection(("192.0.2.1", 80), timeout=5).close()
        except OSError as error:
            note(f"connecting to another address fails: {error.strerror}")
        else:
            raise AssertionError("a connection to 192.0.2.1 could be opened")


def main() -> int:
    parser = argparse.ArgumentParser(description="Tests a built program end to end.")
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="also process the pictures in this folder")
    parser.add_argument("--with-network", action="store_true", help="run without a network namespace")
    parser.add_argument("--in-namespace", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("program", nargs="+", metavar="BINARY", help="the program, or after -- a command line")
    arguments = parser.parse_args()
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # the context managers end their servers
    if arguments.in_namespace:
        raise_loopback()
    elif not arguments.with_network and sys.platform == "linux":
        again = [sys.executable, __file__, "--in-namespace", *sys.argv[1:]]
        command = [*namespace_command(), *again]
        os.execvp(command[0], command)
    else:
        print("Not checked: that the program works without a network.")
    if arguments.corpus is not None and not arguments.corpus.is_dir():
        parser.error(f"expected a folder of pictures; {arguments.corpus} is none")
    started_at = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="smoke-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch) / NON_ASCII_NAME
        folder.mkdir()
        smoke = Smoke(prepare_program(arguments.program, folder), folder, arguments.corpus)
        try:
            smoke.run()
        except Exception as error:  # whatever failed, the server's output helps to find out why
            print(f"\n{type(error).__name__}: {error}", file=sys.stderr)
            if smoke.log.exists():
                print(f"\nOutput of the server:\n{smoke.log.read_text(errors='replace')[-20_000:]}", file=sys.stderr)
            return 1
    print(f"All checks passed in {time.monotonic() - started_at:.1f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
