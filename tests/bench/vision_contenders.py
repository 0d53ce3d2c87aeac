"""The contenders of the vision benchmark. Each runs in a separate process, which reads a `Task` from standard input and
writes a `Measured` to standard output.

- `shared`: this project. The picture is evaluated once, and all languages are decoded together.
- `separate`: the same engine and image token limit, but one call per language, which evaluates the picture again.
- `stock`: `MTMDChatHandler` of llama-cpp-python, one chat completion per language, without an image token limit.
- `server`: `llama-server`, one chat completion per language with the picture first and the language last, so that its
  prompt cache can hold the picture; sequentially and in parallel.

All get the same pixels, text, grammar, threads and number of new tokens, and always choose the most probable token.
"""

from __future__ import annotations

import base64
import http.client
import io
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from PIL import Image

from imgproc_local.domain.image import Pixels
from imgproc_local.vision.llm import llama
from imgproc_local.vision.llm import sampler as llama_sampler
from imgproc_local.vision.llm.prompt import GRAMMAR, INSTRUCTIONS, NO_NOTES, language_prompt
from imgproc_local.vision.models.model import ChatFormat, RunOptions, VisionModel
from tests.faults.server_process import memory_bytes

LOAD_TIMEOUT_S = 300
ANSWER_TIMEOUT_S = 1800


class Task(Struct, frozen=True):
    """What to measure. `counts` are the numbers of languages, measured separately; `languages` has the largest of them.

    `image_tokens` 0 leaves the limit to the server.
    """

    text: str
    mmproj: str
    picture: str
    languages: tuple[str, ...]
    counts: tuple[int, ...]
    image_tokens: int
    new_tokens: int
    threads: int
    llama_server: str = ""
    slots: int = 1
    first_alone: bool = False
    """Wait for the answer to the first request before sending the others."""


class Turn(Struct, frozen=True):
    """One picture in some languages: `seconds` in total, `decode_s` of them after the evaluation of the shared prefix.

    `cpu_s` is CPU time of all cores, which other load on the machine changes little.
    """

    seconds: float
    decode_s: float
    cpu_s: float
    tokens: int
    texts: tuple[str, ...]


class Measured(Struct, frozen=True):
    """`turns` by number of languages. `prefix_s` is the evaluation of the picture and the shared text, once."""

    load_s: float
    prefix_s: float
    turns: dict[int, Turn]
    peak_bytes: int
    refused: int = 0
    """Most probable tokens that the grammar refused, so that the whole vocabulary had to be checked."""
    sampling_s: float = 0.0
    """Time spent on choosing tokens, in the turn with the most languages."""


class _Sampling:
    """Times `Sampler` and counts the tokens that it refuses."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.refused = 0
        next_token, allowed = llama_sampler.Sampler.next_token, llama_sampler.Sampler._is_allowed

        def timed(sampler: llama_sampler.Sampler, context: Any, row: int) -> int:
            started_at = time.perf_counter()
            token = next_token(sampler, context, row)
            self.seconds += time.perf_counter() - started_at
            return token

        def counted(sampler: llama_sampler.Sampler, token: int) -> bool:
            accepted = allowed(sampler, token)
            self.refused += not accepted
            return accepted

        llama_sampler.Sampler.next_token = timed  # type: ignore[method-assign]
        llama_sampler.Sampler._is_allowed = counted  # type: ignore[method-assign]

    def reset(self) -> None:
        self.seconds, self.refused = 0.0, 0


def ours(task: Task, *, separately: bool) -> Measured:
    llama.MAX_NEW_TOKENS = task.new_tokens
    sampling = _Sampling()
    with Image.open(task.picture) as opened:
        pixels = Pixels(opened.width, opened.height, opened.convert("RGB").tobytes())
    model = VisionModel(
        "bench", Path(task.text), Path(task.mmproj), ChatFormat(task.image_tokens), run_options=RunOptions(task.threads)
    )
    started_at = time.perf_counter()
    loaded = llama.Llama(model)
    load_s = time.perf_counter() - started_at

    def describe(languages: tuple[str, ...]) -> tuple[float, Turn]:
        started_at, before, cpu_before = time.perf_counter(), loaded.tokens_written, time.process_time()
        suffixes = [language_prompt(language) for language in languages]
        loaded.prefill(pixels, NO_NOTES, suffixes, _never)
        read_s = time.perf_counter() - started_at
        texts = tuple(loaded.generate(suffixes, _never))
        seconds = time.perf_counter() - started_at
        return read_s, Turn(
            seconds, seconds - read_s, time.process_time() - cpu_before, loaded.tokens_written - before, texts
        )

    prefix_s, turns = 0.0, {}
    for count in task.counts:
        sampling.reset()
        languages = task.languages[:count]
        calls = [describe((language,)) for language in languages] if separately else [describe(languages)]
        prefix_s = calls[0][0]
        turns[count] = _sum([turn for _, turn in calls])
    peak = memory_bytes(os.getpid(), "VmHWM")
    loaded.close()
    return Measured(load_s, prefix_s, turns, peak, sampling.refused, sampling.seconds)


def stock(task: Task) -> Measured:
    from llama_cpp import Llama, LlamaGrammar
    from llama_cpp.llama_chat_format import MTMDChatHandler

    started_at = time.perf_counter()
    handler = MTMDChatHandler(clip_model_path=task.mmproj, verbose=False, use_gpu=False)
    loaded = Llama(
        task.text, chat_handler=handler, n_ctx=4096, n_threads=task.threads, n_threads_batch=task.threads,
        n_gpu_layers=0, flash_attn=True, verbose=False,
    )  # fmt: skip
    load_s = time.perf_counter() - started_at
    grammar = LlamaGrammar.from_string(GRAMMAR, verbose=False)
    url = _data_url(task.picture)

    def describe(language: str) -> tuple[float, Turn]:
        started_at, cpu_before = time.perf_counter(), time.process_time()
        first_s, reason, pieces = 0.0, None, []
        for chunk in loaded.create_chat_completion(
            messages=_messages(url, language), grammar=grammar, max_tokens=task.new_tokens, temperature=0.0,
            repeat_penalty=1.0, stream=True,
        ):  # fmt: skip
            reason = chunk["choices"][0]["finish_reason"] or reason
            piece = chunk["choices"][0]["delta"].get("content")
            if piece:
                first_s = first_s or time.perf_counter() - started_at
                pieces.append(piece)
        seconds = time.perf_counter() - started_at
        text = "".join(pieces)
        tokens = task.new_tokens if reason == "length" else len(loaded.tokenize(text.encode(), add_bos=False))
        return first_s, Turn(seconds, seconds - first_s, time.process_time() - cpu_before, tokens, (text,))

    prefix_s, turns = 0.0, {}
    for count in task.counts:
        calls = [describe(language) for language in task.languages[:count]]
        prefix_s = calls[0][0]
        turns[count] = _sum([turn for _, turn in calls])
    return Measured(load_s, prefix_s, turns, memory_bytes(os.getpid(), "VmHWM"))


def server(task: Task) -> Measured:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    context = 4096 if task.slots == 1 else 2048 * task.slots
    started_at = time.perf_counter()
    with Path(os.environ.get("BENCH_SERVER_LOG", os.devnull)).open("ab") as log:
        process = subprocess.Popen(
            [
                task.llama_server, "--model", task.text, "--mmproj", task.mmproj,
                *(["--image-max-tokens", str(task.image_tokens)] if task.image_tokens else []),
                "--threads", str(task.threads),
                "--threads-batch", str(task.threads), "--parallel", str(task.slots), "--kv-unified",
                "--ctx-size", str(context), "--cache-prompt", "--cache-reuse", "256", "--no-ui", "--offline",
                "--host", "127.0.0.1", "--port", str(port),
            ],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _wait_healthy(process, port, started_at + LOAD_TIMEOUT_S)
        load_s = time.perf_counter() - started_at
        url = _data_url(task.picture)

        def ask(language: str) -> Any:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_TIMEOUT_S)
            question = {
                "messages": _messages(url, language), "grammar": GRAMMAR, "max_tokens": task.new_tokens,
                "temperature": 0.0, "repeat_penalty": 1.0, "cache_prompt": True,
            }  # fmt: skip
            connection.request(
                "POST", "/v1/chat/completions", json.dumps(question), {"Content-Type": "application/json"}
            )
            answer = json.load(connection.getresponse())
            connection.close()
            if "error" in answer:
                raise SystemExit(f"llama-server: {answer['error']}")
            return answer

        prefix_s, turns = 0.0, {}
        with ThreadPoolExecutor(max(1, task.slots)) as pool:
            for number, count in enumerate(task.counts):
                # use another picture each time, because a user's next picture is not in the cache either
                if number:
                    url = _data_url(task.picture, stamp=number)
                languages = list(task.languages[:count])
                started_at, cpu_before = time.perf_counter(), _cpu_s(process.pid)
                alone = 1 if task.first_alone or task.slots == 1 else 0
                answers = [ask(language) for language in languages[:alone]]
                answers += pool.map(ask, languages[alone:])
                seconds = time.perf_counter() - started_at
                prefix_s = answers[0]["timings"]["prompt_ms"] / 1000
                tokens = sum(answer["usage"]["completion_tokens"] for answer in answers)
                texts = tuple(answer["choices"][0]["message"]["content"] for answer in answers)
                turns[count] = Turn(seconds, seconds - prefix_s, _cpu_s(process.pid) - cpu_before, tokens, texts)
        return Measured(load_s, prefix_s, turns, memory_bytes(process.pid, "VmHWM"))
    finally:
        process.kill()
        process.wait()


def _wait_healthy(process: subprocess.Popen[bytes], port: int, deadline: float) -> None:
    while time.perf_counter() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"llama-server ended with {process.returncode}")
        with suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            try:
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            finally:
                connection.close()
        time.sleep(0.02)
    raise SystemExit(f"llama-server did not answer in {LOAD_TIMEOUT_S} s")


def _cpu_s(pid: int) -> float:
    """CPU seconds of the process so far. Source: proc_pid_stat(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _messages(url: str, language: str) -> list[dict[str, Any]]:
    content = [
        {"type": "text", "text": INSTRUCTIONS},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": NO_NOTES + language_prompt(language)},
    ]
    return [{"role": "user", "content": content}]


def _data_url(picture: str, stamp: int = 0) -> str:
    """The picture as PNG; `stamp` changes one pixel, so that caches see another picture."""
    with Image.open(picture) as opened:
        changed = opened.convert("RGB")
    if stamp:
        changed.putpixel((stamp, 0), (stamp, stamp, stamp))
    buffer = io.BytesIO()
    changed.save(buffer, "PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _sum(turns: list[Turn]) -> Turn:
    return Turn(
        sum(turn.seconds for turn in turns),
        sum(turn.decode_s for turn in turns),
        sum(turn.cpu_s for turn in turns),
        sum(turn.tokens for turn in turns),
        tuple(text for turn in turns for text in turn.texts),
    )


def _never() -> None:
    """A `check_stop` that never stops."""


ROLES: dict[str, Callable[[Task], Measured]] = {
    "shared": lambda task: ours(task, separately=False),
    "separate": lambda task: ours(task, separately=True),
    "stock": stock,
    "server": server,
}


def main() -> None:
    """Run one contender, named by the only argument."""
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    sys.stdout.buffer.write(msgspec.json.encode(ROLES[sys.argv[1]](task)))


if __name__ == "__main__":
    main()
