"""Descriptions by the tiny model in a real llama-server, and every failure that llama-server itself can show.

`python -m tests.ordeals.llama_server PROGRAM [--scenes 25] [--seed N]`

PROGRAM is a llama-server, from a release of llama.cpp or compiled: `cmake -B build && cmake --build build --target
llama-server`.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import random
import signal
import socket
import subprocess
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
from tests.support import tiny

MIN_CORRECT = 0.9
HINTS = Hints(ImageInfo(Format.PNG, 320, 240), EmbeddedMetadata(), "IMG_1.png")
CAPTION = EmbeddedMetadata(description=(EmbeddedText("The shapes that the children drew, " * 5, "en"),))
LONG_HINTS = Hints(ImageInfo(Format.PNG, 320, 240), CAPTION, "IMG_1.png")
"""With these notes the prompt does not fit the smallest context of llama-server, which has 256 tokens."""
READY_TIMEOUT_S = 60


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("--scenes", type=int, default=25)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 2**31))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    scenes = tiny.scenes().held_out_scenes(arguments.scenes, seed=arguments.seed)
    with tempfile.TemporaryDirectory() as data:
        url = f"http://127.0.0.1:{port}"
        config = Config(data_dir=Path(data), model="llama-server:tiny", program_url=url, stage_timeout_s=10)
        for failure in check_failures(arguments.program, config, port, scenes[0]):
            print(failure)
        with llama_server(arguments.program, port):
            print(check_texts(config, scenes))


if __name__ == "__main__":
    main()
