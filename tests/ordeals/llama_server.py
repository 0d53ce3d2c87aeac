"""Descriptions by the tiny model in a real llama-server.

`python -m tests.ordeals.llama_server PROGRAM [--scenes 25] [--seed N]`

PROGRAM is a llama-server, from a release of llama.cpp or compiled: `cmake -B build && cmake --build build --target
llama-server`. How its failures are reported is shown with the doubles of tests/support/model_servers.py, which have its
messages word for word.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from imgproc_local import compose
from imgproc_local.config import Config
from imgproc_local.domain.image import EmbeddedMetadata
from imgproc_local.domain.result import TextSource
from imgproc_local.vision.describer import Hints
from tests.support import tiny
from tests.support.worker_pool import wait_until

MIN_CORRECT = 0.9
HINTS = Hints(EmbeddedMetadata(), "IMG_1.png")
READY_TIMEOUT_S = 60


@contextlib.contextmanager
def llama_server(binary: Path) -> Iterator[str]:
    """The address of a running llama-server with the tiny model, called "tiny"."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [binary, "-m", tiny.TEXT, "--mmproj", tiny.MMPROJ, "--alias", "tiny", "--threads", "1", "--parallel", "1"]
    command += ["--host", "127.0.0.1", "--port", str(port)]

    def is_ready() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"http://127.0.0.1:{port}/health", timeout=1).status_code == 200
        return False

    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            assert wait_until(is_ready, READY_TIMEOUT_S), "llama-server does not start"
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def check_texts(config: Config, scenes: list[object]) -> str:
    """Describe held-out scenes, in all languages of the tiny model, and compare with the reference texts."""
    describer = compose.describer(config)
    correct = dict.fromkeys(tiny.LANGUAGES, 0)
    start = time.monotonic()
    for scene in scenes:
        picture = tiny.pixels(tiny.scenes().draw(scene, seed=1))
        for text in describer.describe(picture, tiny.LANGUAGES, HINTS, lambda: None):
            expected = tiny.scenes().reference_answer(scene, text.language_code).alt_text
            correct[text.language_code] += text.source == TextSource.VISION and text.seo_alt_text == expected
    took_s = (time.monotonic() - start) / len(scenes)
    assert min(correct.values()) >= MIN_CORRECT * len(scenes), correct
    return f"{len(scenes)} held-out scenes, correct by language: {correct}; {took_s:.2f} s per picture"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("--scenes", type=int, default=25)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 2**31))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    scenes = tiny.scenes().held_out_scenes(options.scenes, seed=options.seed)
    with tempfile.TemporaryDirectory() as data, llama_server(options.program) as url:
        print(check_texts(Config(data_dir=Path(data), model="llama-server:tiny", program_url=url), scenes))


if __name__ == "__main__":
    main()
