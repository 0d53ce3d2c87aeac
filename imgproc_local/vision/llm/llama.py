"""A vision model that runs in llama.cpp: a picture is processed once and described in several languages.

Sequence 0 of the key-value cache holds the instructions, for all pictures. Sequence 1 begins as a copy of sequence 0
(copying is free, because the copy refers to the same cells) and continues with the picture and its notes: what is known
about it. Each language has a sequence that begins as a copy of sequence 1 and continues with a suffix, the end of its
prompt, and with its answer. The text with which all suffixes begin is processed once. One step decodes one token of
every sequence, so ten languages take little longer than one.

Invariants: a `Llama` is used by one thread at a time. After any failure, either sequences 0 and 1 are unchanged, or
`prefix_end` is 0 and `prefill` must be called again. Nothing here opens a socket or writes to the terminal. An error of
llama.cpp becomes `ModelUnusable`; errors that make llama.cpp abort the process, and models that fail with several
sequences, are found before the model is used, by the self-test in a child process (`selftest.py`).
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from imgproc_local.domain.errors import CheckStop, ModelUnusable
from imgproc_local.domain.image import Pixels
from imgproc_local.vision.llm.bindings import Interruption, bindings
from imgproc_local.vision.llm.weights import Sampler, Weights
from imgproc_local.vision.models.model import VisionModel

_MAX_NEW_TOKENS = 208
"""Limit for one answer: enough for an alternative text of 125 characters and its file name in every language. Hindi and
Greek need the most tokens, 161 and 148, because they take one per character in Qwen's vocabularies. In other languages
the grammar, which limits the number of characters, ends an answer before this limit."""
_BATCH_TOKENS = 512
"""The maximum number of tokens in a batch, unless a picture needs more: some models need all of it in one batch."""
_RETRY_TOKENS = 96
"""Reserved in the context of each language for the complaint in the suffix of a retry: the reason why an answer was
rejected. A complaint has up to 120 characters, which in some scripts need almost this many tokens."""
_DRAFT_TOKENS = 128
"""Reserved in the context for the draft, the English text to translate. If there is one, all suffixes begin with it."""
_PERFORMANCE_CPUS = Path("/sys/devices/cpu_core/cpus")
"""The file in which Linux lists the performance cores of a hybrid processor of Intel; other processors have none."""
_ANSWER_END = b'"}'
"""The last characters of the JSON of an answer."""
_INSTRUCTIONS, _PICTURE, _FIRST_LANGUAGE = 0, 1, 2
"""Numbers of sequences."""


class _BatchItem(NamedTuple):
    """One token of a batch. With `output`, its logits are computed, so that the next token can be sampled."""

    token: int
    position: int
    sequence: int
    output: bool


class Llama:
    """A loaded model. `prefill` processes a picture; `generate` can then be called for it any number of times.

    `prefix_end` is the position after the picture and its notes, 0 if no picture is processed.

    Raises: ModelUnusable, if a file can't be loaded; what `check_stop` raises.
    """

    def __init__(self, model: VisionModel, check_stop: CheckStop = lambda: None) -> None:
        self.model = model
        self.prefix_end = 0
        self._bindings = bindings()
        self._llama, self._mtmd = self._bindings.llama, self._bindings.mtmd
        self._threads = physical_cores()
        self._context: Any = None
        self._batch: Any = None
        self._batch_tokens = max(_BATCH_TOKENS, model.chat.image_tokens)
        self._context_tokens = self._context_sequences = 0
        # the tokens in sequence 0, which are the beginning of every prompt
        self._instructions: list[int] = []
        self._interruption = Interruption()
        with self._interruptible(check_stop):
            self.weights = Weights(model, self._bindings, self._interruption, self._threads)

    def close(self) -> None:
        """Free all memory. It may be called twice."""
        self.free_context()
        self.weights.close()

    def prefill(self, image: Pixels, notes: str, suffixes: Sequence[str], check_stop: CheckStop) -> None:
        """Process the picture and the `notes` after it, in a context large enough to generate for all `suffixes` at
        once.

        Raises: ModelUnusable; what `check_stop` raises, within a tenth of a second.
        """
        with self._interruptible(check_stop), self.weights.chunks(self.weights.fitted(image), notes) as chunks:
            mtmd = self._mtmd
            shared = mtmd.mtmd_helper_get_n_tokens(chunks) + _DRAFT_TOKENS
            needed = [len(self._suffix_tokens(suffix)) + _RETRY_TOKENS + _MAX_NEW_TOKENS for suffix in suffixes]
            longest = shared + max(needed)
            if longest > self.weights.trained_tokens:
                raise ModelUnusable(
                    f"{self.model.name} was trained for {self.weights.trained_tokens} tokens;"
                    f" this picture, the texts about it and the answer need {longest}."
                )
            self._ensure_context(shared + sum(needed), _FIRST_LANGUAGE + len(suffixes))
            first, *others = [
                mtmd.mtmd_input_chunks_get(chunks, index) for index in range(mtmd.mtmd_input_chunks_size(chunks))
            ]
            position = self._prefill_instructions(first)
            for chunk in others:
                position = self._prefill_chunk(chunk, position, _PICTURE)
            self.prefix_end = position

    def _prefill_instructions(self, chunk: Any) -> int:
        """Process the instructions, the first chunk of a prompt, in sequence 0, unless it holds them already. Then copy
        sequence 0 to sequence 1. Returns the position after the instructions.
        """
        llama = self._llama
        memory = llama.llama_get_memory(self._context)
        tokens = self.weights.text_tokens(chunk)
        self.prefix_end = 0
        if tokens == self._instructions:
            llama.llama_memory_seq_rm(memory, _PICTURE, -1, -1)
        else:
            self._instructions = []
            llama.llama_memory_clear(memory, True)
            self._prefill_chunk(chunk, 0, _INSTRUCTIONS)
            self._instructions = tokens
        llama.llama_memory_seq_cp(memory, _INSTRUCTIONS, _PICTURE, -1, -1)
        return len(tokens)

    def _prefill_chunk(self, chunk: Any, position: int, sequence: int) -> int:
        """Append a chunk of text or of the picture to `sequence` at `position`. Returns the position after it."""
        llama, weights = self._llama, self.weights
        after = llama.llama_pos(position)
        start = (llama.llama_pos(position), llama.llama_seq_id(sequence))
        status = self._mtmd.mtmd_helper_eval_chunk_single(
            weights.vision_encoder, self._context, chunk, *start, self._batch_tokens, False, ctypes.byref(after)
        )
        weights.check(status)
        return int(after.value)

    def generate(self, suffixes: Sequence[str], check_stop: CheckStop, seed: int | None = None) -> list[str]:
        """The generated text after each of `suffixes`, in order. A text of `_MAX_NEW_TOKENS` is incomplete.

        Decoding is greedy, or random with a `seed`; the same seed gives the same text. There are at most as many
        suffixes as `prefill` received.

        Raises: ModelUnusable; what `check_stop` raises.
        """
        if not self.prefix_end:
            raise ModelUnusable("No picture was processed: expected a call of prefill before generate.")
        memory = self._llama.llama_get_memory(self._context)
        sequences = range(_FIRST_LANGUAGE, _FIRST_LANGUAGE + len(suffixes))
        samplers = [self.weights.sampler(seed) for _ in suffixes]
        with self._interruptible(check_stop):
            try:
                generated = self._generate(self._prefill_suffixes(suffixes, sequences), samplers)
            finally:
                for sampler in samplers:
                    sampler.close()
                for sequence in sequences:
                    self._llama.llama_memory_seq_rm(memory, sequence, -1, -1)
        return [self.weights.text(tokens).decode("utf-8", "replace") for tokens in generated]

    def _prefill_suffixes(self, suffixes: Sequence[str], sequences: range) -> list[_BatchItem]:
        """Process all suffixes, each in its sequence, up to their last tokens, which are returned."""
        memory = self._llama.llama_get_memory(self._context)
        suffix_tokens = [self._suffix_tokens(suffix) for suffix in suffixes]
        common = _common_length(suffix_tokens)
        first, *others = sequences
        self._llama.llama_memory_seq_cp(memory, _PICTURE, first, -1, -1)
        self._process(self._items(suffix_tokens[0], first)[:common])
        for sequence in others:
            self._llama.llama_memory_seq_cp(memory, first, sequence, -1, -1)
        items = [self._items(tokens, sequence) for tokens, sequence in zip(suffix_tokens, sequences, strict=True)]
        self._process([item for each in items for item in each[common:-1]])
        return [each[-1] for each in items]

    def _generate(self, step: Sequence[_BatchItem], samplers: Sequence[Sampler]) -> list[list[int]]:
        """The tokens of each answer, after the last tokens of the suffixes."""
        weights = self.weights
        generated: list[list[int]] = [[] for _ in samplers]
        for _ in range(_MAX_NEW_TOKENS):
            self._decode(step)
            next_step = []
            for row, item in enumerate(step):
                answer = item.sequence - _FIRST_LANGUAGE
                token = samplers[answer].next_token(self._context, row)
                if weights.is_end_of_generation(token):
                    continue
                generated[answer].append(token)
                # the grammar allows no quotation mark inside a string, so this is the end of the JSON
                if not weights.text(generated[answer][-len(_ANSWER_END) :]).endswith(_ANSWER_END):
                    next_step.append(_BatchItem(token, item.position + 1, item.sequence, output=True))
            step = next_step
            if not step:
                break
        return generated

    def _items(self, tokens: Sequence[int], sequence: int) -> list[_BatchItem]:
        """The tokens of a suffix, after the picture and its notes. Only the last one has an output."""
        last = len(tokens) - 1
        return [
            _BatchItem(token, self.prefix_end + offset, sequence, output=offset == last)
            for offset, token in enumerate(tokens)
        ]

    def _process(self, items: Sequence[_BatchItem]) -> None:
        """Process any number of tokens. Raises: ModelUnusable; what `check_stop` raises."""
        for start in range(0, len(items), self._batch_tokens):
            self._decode(items[start : start + self._batch_tokens])

    def _decode(self, items: Sequence[_BatchItem]) -> None:
        """Process a batch. Raises: ModelUnusable; what `check_stop` raises."""
        batch = self._batch
        batch.n_tokens = len(items)
        for row, item in enumerate(items):
            batch.token[row] = item.token
            batch.pos[row] = item.position
            batch.n_seq_id[row] = 1
            batch.seq_id[row][0] = item.sequence
            batch.logits[row] = item.output
        self.weights.check(self._llama.llama_decode(self._context, batch))

    def _suffix_tokens(self, suffix: str) -> list[int]:
        return self.weights.tokens(suffix + self.weights.turn_end)

    def _ensure_context(self, tokens: int, sequences: int) -> None:
        """Make `_context` large enough for so many tokens in all sequences together. Raises: ModelUnusable."""
        if tokens <= self._context_tokens and sequences <= self._context_sequences:
            return
        llama = self._llama
        params = llama.llama_context_default_params()
        # the next picture may need as much as the ones before
        tokens = max(tokens, self._context_tokens)
        params.n_ctx = -(-tokens // 512) * 512  # so that one more language rarely needs a new context
        params.n_seq_max = max(sequences, self._context_sequences)
        params.n_batch = params.n_ubatch = self._batch_tokens
        # otherwise llama.cpp aborts the process for more than one sequence
        params.kv_unified = True
        params.n_threads = params.n_threads_batch = self._threads
        params.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_AUTO
        params.offload_kqv = self.weights.use_gpu
        self.free_context()
        self._context = llama.llama_init_from_model(self.weights.text_model, params)
        if not self._context:
            reason = self._bindings.last_error(self.model.text_path)
            raise ModelUnusable(f"{self.model.name} can't process {tokens} tokens on this machine: {reason}")
        self._batch = llama.llama_batch_init(self._batch_tokens, 0, params.n_seq_max)
        self._context_tokens, self._context_sequences = params.n_ctx, params.n_seq_max
        self._set_abort_callback()

    def free_context(self) -> None:
        """Free the memory of the processed picture; `prefill` must be called before the next `generate`."""
        if self._batch is not None:
            self._llama.llama_batch_free(self._batch)
        if self._context:
            self._llama.llama_free(self._context)
        self._batch = self._context = None
        self._context_tokens = self._context_sequences = 0
        self.prefix_end = 0
        self._instructions = []

    @contextmanager
    def _interruptible(self, check_stop: CheckStop) -> Iterator[None]:
        """Let `check_stop` interrupt the calls of llama.cpp inside the block."""
        self._bindings.errors.clear()
        with self._interruption.watching(check_stop):
            self._set_abort_callback()
            yield

    def _set_abort_callback(self) -> None:
        if self._context:
            flag = ctypes.addressof(self._interruption.flag)
            self._llama.llama_set_abort_callback(self._context, self._bindings.abort_callback, flag)


def physical_cores() -> int:
    """The number of physical cores that this process may use, without efficiency cores where the system tells them
    apart.

    Every operation of llama.cpp waits for its slowest thread, so an efficiency core or the second thread of a core
    slows all others down. In a hybrid processor of Intel only performance cores have a second thread. If they
    have none, Linux lists them.
    """
    physical, logical = psutil.cpu_count(logical=False) or 1, psutil.cpu_count() or 1
    cores = logical - physical or physical
    if logical == physical and _PERFORMANCE_CPUS.is_file():
        ranges = [part.split("-") for part in _PERFORMANCE_CPUS.read_text().split(",")]  # such as "0-3,8"
        cores = sum(int(numbers[-1]) - int(numbers[0]) + 1 for numbers in ranges)
    if sys.platform == "darwin":
        # the performance cores of Apple silicon. Source: Apple, "Determining system capabilities"
        listed = subprocess.run(["sysctl", "-n", "hw.perflevel0.physicalcpu"], capture_output=True, check=False)  # noqa: S607
        cores = int(listed.stdout or cores)
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else logical
    return max(1, min(cores, allowed))


def _common_length(token_lists: Sequence[Sequence[int]]) -> int:
    """The number of tokens that all of `token_lists` begin with, at most one less than the length of the shortest."""
    shortest = min(map(len, token_lists))
    differing = (place for place, tokens in enumerate(zip(*token_lists, strict=False)) if len(set(tokens)) > 1)
    return min(next(differing, shortest), shortest - 1)
