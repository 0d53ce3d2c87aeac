"""Descriptions by the tiny model in a real llama-server, and every failure that llama-server itself can show.

`python -m tests.ordeals.llama_server FOLDER [--scenes 25] [--seed N]`

llama-server is compiled in FOLDER from the sources of the installed llama-cpp-python, against its libraries, unless
FOLDER has a `llama-server` already. This takes about six CPU minutes, and needs g++, make, cmake and a package index.
The last part runs the program under strace: no address outside this machine may be used.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from imgproc_local import compose
from imgproc_local.config import Config
from imgproc_local.domain.image import EmbeddedMetadata, EmbeddedText, Format, ImageInfo
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.vision.describer import Describer, Hints
from imgproc_local.vision.facts.describer import FactsDescriber
from tests.faults.server_process import clean_environment
from tests.support import connect_guard, tiny

MIN_CORRECT = 0.9
HINTS = Hints(ImageInfo(Format.PNG, 320, 240), EmbeddedMetadata(), "IMG_1.png")
CAPTION = EmbeddedMetadata(description=(EmbeddedText("The shapes that the children drew, " * 5, "en"),))
LONG_HINTS = Hints(ImageInfo(Format.PNG, 320, 240), CAPTION, "IMG_1.png")
"""With these notes the prompt does not fit the smallest context of llama-server, which has 256 tokens."""
READY_TIMEOUT_S = 60
MAKEFILE = """
SRC = $(wildcard common/*.cpp common/jinja/*.cpp common/parsers/*.cpp tools/server/*.cpp) \\
 vendor/cpp-httplib/httplib.cpp generated/build-info.cpp generated/ui.cpp
OBJ = $(SRC:%.cpp=objects/%.o)
FLAGS = -std=c++17 -O0 -w -DNDEBUG -DLLAMA_SUBPROCESS -DLLAMA_SHARED -DCPPHTTPLIB_TCP_NODELAY=1 \\
 -I. -Icommon -Iinclude -Iggml/include -Isrc -Ivendor -Ivendor/cpp-httplib -Itools/mtmd -Itools/server -Igenerated
llama-server: $(OBJ)
	g++ -o $@ $(OBJ) -L$(LIB) -lllama -lmtmd -lggml -lggml-base -lggml-cpu -lpthread -Wl,-rpath,$(LIB)
objects/%.o: %.cpp
	@mkdir -p $(dir $@)
	g++ $(FLAGS) -c $< -o $@
"""


def build(folder: Path) -> Path:
    """The program llama-server in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "llama-server").is_file():
        return folder / "llama-server"
    package = importlib.util.find_spec("llama_cpp")
    assert package is not None, "llama-cpp-python is not installed"
    assert package.submodule_search_locations
    libraries = Path(package.submodule_search_locations[0]) / "lib"
    version = importlib.metadata.version("llama-cpp-python")
    download = ["download", "--quiet", "--no-deps", "--no-binary", "llama-cpp-python", f"llama-cpp-python=={version}"]
    subprocess.run([sys.executable, "-m", "pip", *download], cwd=folder, check=True)
    with tarfile.open(next(folder.glob("llama_cpp_python-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    source = next(folder.glob("llama_cpp_python-*/vendor/llama.cpp"))
    generated = source / "generated"
    generated.mkdir(exist_ok=True)
    info = (source / "common" / "build-info.cpp.in").read_text(encoding="utf-8")
    for name, value in {"LLAMA_BUILD_NUMBER": "0", "LLAMA_BUILD_COMMIT": version}.items():
        info = info.replace(f"@{name}@", value)
    (generated / "build-info.cpp").write_text(info, encoding="utf-8")
    options = {"UI_SOURCE_DIR": source / "tools/ui", "UI_BINARY_DIR": generated, "LLAMA_SOURCE_DIR": source}
    defines = [f"-D{name}={value}" for name, value in options.items()]
    off = [f"-D{name}=OFF" for name in ("HF_ENABLED", "BUILD_UI", "LLAMA_UI_GZIP")]
    subprocess.run(["cmake", *defines, *off, "-P", str(source / "scripts" / "ui-assets.cmake")], check=True)
    (source / "Makefile").write_text(MAKEFILE, encoding="utf-8")
    subprocess.run(["make", "-s", "-j2", f"LIB={libraries}", "llama-server"], cwd=source, check=True)
    return (source / "llama-server").rename(folder / "llama-server")


@contextlib.contextmanager
def llama_server(
    binary: Path, port: int, *options: str, mmproj: bool = True, key: str = ""
) -> Iterator[subprocess.Popen[bytes]]:
    """A running llama-server with the tiny model, called "tiny"."""
    command = [str(binary), "-m", str(tiny.TEXT), "--alias", "tiny", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--threads", "1", "--parallel", "1", *options]
    command += ["--mmproj", str(tiny.MMPROJ)] if mmproj else []
    command += ["--api-key", key] if key else []
    with tempfile.TemporaryFile() as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            deadline = time.monotonic() + READY_TIMEOUT_S
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if httpx.get(f"http://127.0.0.1:{port}/health", timeout=1).status_code == 200:
                        break
                assert time.monotonic() < deadline, "llama-server does not start"
                assert process.poll() is None, "llama-server ended"
                time.sleep(0.1)
            yield process
        finally:
            process.kill()


def describe(
    describer: Describer, scene: object, languages: tuple[str, ...], hints: Hints = HINTS
) -> tuple[Translation, ...]:
    picture = tiny.pixels(tiny.scenes().draw(scene, seed=1))
    return describer.describe(picture, languages, hints, lambda: None)


def check_texts(config: Config, scenes: list[object]) -> str:
    """Describe held-out scenes, in all languages of the tiny model, and compare with the reference texts."""
    describer = compose.describer(config)
    correct = dict.fromkeys(tiny.LANGUAGES, 0)
    start = time.monotonic()
    for scene in scenes:
        for text in describe(describer, scene, tiny.LANGUAGES):
            expected = tiny.scenes().reference_answer(scene, text.language_code).alt_text
            correct[text.language_code] += text.source == TextSource.VISION and text.seo_alt_text == expected
    took_s = (time.monotonic() - start) / len(scenes)
    assert min(correct.values()) >= MIN_CORRECT * len(scenes), correct
    return f"{len(scenes)} held-out scenes, correct by language: {correct}; {took_s:.2f} s per picture"


def check_failures(binary: Path, config: Config, port: int, scene: object) -> Iterator[str]:
    """Yields what each failure is called. Facts describe the picture, and the next picture after it is described."""
    describer = compose.describer(config)
    facts = describe(FactsDescriber(), scene, ("en",))
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("imgproc_local").addHandler(handler)

    def expect(words: str, hints: Hints = HINTS) -> str:
        assert describe(describer, scene, ("en",), hints) == describe(FactsDescriber(), scene, ("en",), hints)
        assert words in logged[-1], logged
        return logged[-1]

    yield expect("does not answer")
    with llama_server(binary, port, mmproj=False):
        yield expect("can't see pictures")
    with llama_server(binary, port, key="secret"):
        yield expect("failed with status 401")
    with llama_server(binary, port, "--ctx-size", "256"):
        yield expect("context", LONG_HINTS)
    with llama_server(binary, port) as process:
        assert describe(describer, scene, ("en",))[0].source == TextSource.VISION
        process.send_signal(signal.SIGSTOP)
        start = time.monotonic()
        assert describe(describer, scene, ("en",)) == facts
        took_s = time.monotonic() - start
        assert took_s < config.stage_timeout_s, took_s
        process.send_signal(signal.SIGCONT)
        yield f"a stopped program is given up after {took_s:.1f} s"
        assert describe(describer, scene, ("en",))[0].source == TextSource.VISION
    yield expect("does not answer")
    missing = Config(data_dir=config.data_dir, model="llama-server:gone", program_url=config.program_url)
    with llama_server(binary, port):
        problem = compose.used_model_status(missing).problem or ""
        assert "has no model 'gone'" in problem, problem
        yield problem


def check_connections(config: Config, scenes: list[object]) -> str:
    """Let `process` describe pictures under strace."""
    reason = connect_guard.why_unavailable()
    if reason is not None:
        return f"connections not watched: {reason}"
    with tempfile.TemporaryDirectory() as folder:
        for number, scene in enumerate(scenes):
            tiny.scenes().draw(scene, seed=1).save(Path(folder) / f"scene-{number}.png")
        settings = {"data_dir": Path(folder) / "data", "model": config.model, "program_url": config.program_url}
        out = Path(folder) / "out"
        command = ["process", folder, "--languages", "en,de", "--out", str(out), "--json"]
        watched = connect_guard.watch(
            [sys.executable, "-m", "imgproc_local", *command],
            timeout_s=600,
            env={**os.environ, **clean_environment(**settings)},
        )
    assert watched.returncode == 0, watched.output
    results = json.loads(watched.output[watched.output.index("[") :])
    sources = [text["source"] for result in results for text in result["translations"]]
    assert sources.count("vision") >= MIN_CORRECT * len(sources), sources
    assert watched.outside == [], watched.outside
    return f"process: {len(sources)} texts, {sources.count('vision')} by the model, no address outside this machine"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scenes", type=int, default=25)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 2**31))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    binary = build(arguments.folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    scenes = tiny.scenes().held_out_scenes(arguments.scenes, seed=arguments.seed)
    with tempfile.TemporaryDirectory() as data:
        url = f"http://127.0.0.1:{port}"
        config = Config(data_dir=Path(data), model="llama-server:tiny", program_url=url, stage_timeout_s=10)
        for failure in check_failures(binary, config, port, scenes[0]):
            print(failure)
        with llama_server(binary, port):
            print(check_texts(config, scenes))
            print(check_connections(config, scenes[:4]))


if __name__ == "__main__":
    main()
