"""A vision model in llama.cpp's low-level bindings: one picture is processed once and described in many languages.

The key-value cache of sequence 0 holds the picture and the prompt that all languages share. Each language is a copy of
that sequence (which shares its cells, so copying is free) with its own last line and its own answer. All sequences are
decoded together, one token of each per step, so ten languages cost little more than one.

Invariants: a `Llama` is used by one thread at a time; after any failure sequence 0 is unchanged or is filled again;
nothing here opens a socket or writes to the terminal. An error of llama.cpp becomes `ModelUnusable`. Errors that make
llama.cpp abort the process are found before, by the self-test in a child process (`selftest.py`).
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.domain.image import Pixels
from imgproc_local.vision.llm.bindings import bindings, physical_cores
from imgproc_local.vision.llm.stop import Interruption
from imgproc_local.vision.llm.weights import Weights
from imgproc_local.vision.models.model import VisionModel

log = logging.getLogger(__name__)

MAX_NEW_TOKENS = 128
"""Limit per language: enough for 250 characters at two characters per token, the average."""
BATCH_TOKENS = 512
RETRY_TOKENS = 96
"""Reserved in the context for a complaint of 120 characters in the last line; in some scripts it takes almost all."""
CONTEXT_STEP_TOKENS = 512
"""The size of a context is a multiple of this, so that one more language rarely needs a new context."""

_ANSWER_END = b'"}'


class BatchItem(NamedTuple):
    """One token of a batch. With `output`, its logits are computed and the next token can be sampled."""

    token: int
    position: int
    sequence: int
    output: bool


class Llama:
    """A loaded model. `prefill` processes a picture, `generate` then writes about it, any number of times.

    Raises: ModelUnusable, if a file can't be loaded; what `check_stop` raises.
    """

    def __init__(self, model: VisionModel, check_stop: Callable[[], None] = lambda: None) -> None:
        self.model = model
        self.parallel = True
        self.tokens_written = 0
        self._bindings = bindings()
        self._llama, self._mtmd = self._bindings.llama, self._bindings.mtmd
        self._threads = model.run_options.threads or physical_cores()
        self._context: Any = None
        self._batch: Any = None
        # some models attend to a whole picture at once, so it must fit into one batch
        self._batch_tokens = max(BATCH_TOKENS, model.chat.image_tokens)
        self._context_tokens = self._context_sequences = 0
        self._prefix_end = 0
        self._interruption = Interruption()
        with self._interruptible(check_stop):
            self._weights = Weights(model, self._bindings, self._interruption, self._threads)

    def close(self) -> None:
        """Free all memory. It may be called twice."""
        self._close_context()
        self._weights.close()

    def prefill(
        self, image: Pixels, shared_prompt: str, suffixes: Sequence[str], check_stop: Callable[[], None]
    ) -> None:
        """Process the picture and the prompt after it; a context is made for all `suffixes` in one `generate`.

        Raises: ModelUnusable; what `check_stop` raises, within a tenth of a second.
        """
        with self._interruptible(check_stop), self._weights.chunks(image, shared_prompt) as chunks:
            mtmd = self._mtmd
            prefix = mtmd.mtmd_helper_get_n_tokens(chunks)
            needed = [len(self._suffix_tokens(suffix)) + RETRY_TOKENS + MAX_NEW_TOKENS for suffix in suffixes]
            longest = prefix + max(needed)
            if longest > self._weights.trained_tokens:
                raise ModelUnusable(
                    f"{self.model.name} was trained for {self._weights.trained_tokens} tokens;"
                    f" this picture and its notes need {longest}."
                )
            self._ensure_context(longest, prefix + sum(needed), 1 + len(suffixes))
            memory = self._llama.llama_get_memory(self._context)
            self._llama.llama_memory_clear(memory, True)
            self._prefix_end = 0
            position = 0
            for index in range(mtmd.mtmd_input_chunks_size(chunks)):
                position = self._prefill_chunk(mtmd.mtmd_input_chunks_get(chunks, index), position)
            self._prefix_end = position

    def _prefill_chunk(self, chunk: Any, position: int) -> int:
        """The position after the chunk."""
        llama, mtmd, weights = self._llama, self._mtmd, self._weights
        after = llama.llama_pos(position)
        start = (llama.llama_pos(position), llama.llama_seq_id(0))
        if mtmd.mtmd_input_chunk_get_type(chunk) == mtmd.MTMD_INPUT_CHUNK_TYPE_TEXT:
            status = mtmd.mtmd_helper_eval_chunk_single(
                weights.vision_encoder, self._context, chunk, *start, self._batch_tokens, False, ctypes.byref(after)
            )
        else:
            embeddings = weights.encode_image(chunk)
            no_callback = mtmd.mtmd_helper_post_decode_callback(0)
            status = mtmd.mtmd_helper_decode_image_chunk(
                weights.vision_encoder,
                self._context,
                chunk,
                embeddings,
                *start,
                self._batch_tokens,
                ctypes.byref(after),
                no_callback,
                None,
            )
        weights.check(status)
        return int(after.value)

    def generate(
        self,
        suffixes: Sequence[str],
        check_stop: Callable[[], None],
        seed: int | None = None,
        max_tokens: int = MAX_NEW_TOKENS,
    ) -> list[str]:
        """The text after each of `suffixes`, in order; a text without its end reached `max_tokens`.

        Decoding is greedy, or random with a `seed`; the same seed gives the same text. `max_tokens` is at most
        `MAX_NEW_TOKENS`.

        Raises: ModelUnusable; what `check_stop` raises.
        """
        if not self._prefix_end:
            raise ModelUnusable("No picture was processed, so nothing can be written about one.")
        max_tokens = min(max_tokens, MAX_NEW_TOKENS)
        failure = ""
        with self._interruptible(check_stop):
            if self.parallel and 1 < len(suffixes) < self._context_sequences:
                try:
                    return self._generate_together(suffixes, seed, max_tokens)
                except ModelUnusable as error:
                    failure = error.message
            texts = [text for suffix in suffixes for text in self._generate_together([suffix], seed, max_tokens)]
        if failure:
            self._disable_parallel(failure)
        return texts

    def _disable_parallel(self, reason: str) -> None:
        log.warning("%s writes one language at a time from now on: %s", self.model.name, reason)
        self.parallel = False

    def _generate_together(self, suffixes: Sequence[str], seed: int | None, max_tokens: int) -> list[str]:
        llama, weights, prefix = self._llama, self._weights, self._prefix_end
        memory = llama.llama_get_memory(self._context)
        sequences = range(1, len(suffixes) + 1)
        samplers = [weights.sampler(seed) for _ in suffixes]
        generated = [b""] * len(suffixes)
        try:
            suffix_tokens = [self._suffix_tokens(suffix) for suffix in suffixes]
            for sequence in sequences:
                llama.llama_memory_seq_cp(memory, 0, sequence, -1, -1)
            prompt = [
                BatchItem(token, prefix + offset, sequence, output=False)
                for sequence, tokens in zip(sequences, suffix_tokens, strict=True)
                for offset, token in enumerate(tokens[:-1])
            ]
            for start in range(0, len(prompt), self._batch_tokens):
                self._decode(prompt[start : start + self._batch_tokens])
            step = [
                BatchItem(tokens[-1], prefix + len(tokens) - 1, sequence, output=True)
                for sequence, tokens in zip(sequences, suffix_tokens, strict=True)
            ]
            for _ in range(max_tokens):
                self._decode(step)
                next_step = []
                for row, item in enumerate(step):
                    token = samplers[item.sequence - 1].next_token(self._context, row)
                    if weights.is_end_of_generation(token):
                        continue
                    self.tokens_written += 1
                    generated[item.sequence - 1] += weights.piece(token)
                    # the grammar allows no quotation mark inside a string, so this is the end of the object
                    if not generated[item.sequence - 1].endswith(_ANSWER_END):
                        next_step.append(BatchItem(token, item.position + 1, item.sequence, output=True))
                step = next_step
                if not step:
                    break
        finally:
            for sampler in samplers:
                sampler.close()
            for sequence in sequences:
                llama.llama_memory_seq_rm(memory, sequence, -1, -1)
        return [text.decode("utf-8", "replace") for text in generated]

    def _decode(self, items: Sequence[BatchItem]) -> None:
        batch = self._batch
        batch.n_tokens = len(items)
        for row, item in enumerate(items):
            batch.token[row] = item.token
            batch.pos[row] = item.position
            batch.n_seq_id[row] = 1
            batch.seq_id[row][0] = item.sequence
            batch.logits[row] = item.output
        self._weights.check(self._llama.llama_decode(self._context, batch))

    def _suffix_tokens(self, suffix: str) -> list[int]:
        return self._weights.tokens(suffix + self._weights.turn_end)

    def _ensure_context(self, tokens_alone: int, tokens_together: int, sequences: int) -> None:
        """A context for all sequences, or for one language at a time if the model refuses several sequences."""
        if not self.parallel:
            tokens_together, sequences = tokens_alone, 2
        if tokens_together <= self._context_tokens and sequences <= self._context_sequences:
            return
        # the next picture may need as much as the ones before
        tokens_together = max(tokens_together, self._context_tokens)
        sequences = max(sequences, self._context_sequences)
        self._close_context()
        self._make_context(tokens_together, sequences)
        if not self._context and sequences > 2:
            self._disable_parallel(self._bindings.last_error(self.model.text_path))
            self._make_context(tokens_alone, 2)
        if not self._context:
            reason = self._bindings.last_error(self.model.text_path)
            raise ModelUnusable(f"{self.model.name} can't process {tokens_alone} tokens here: {reason}")
        self._set_abort_flag()

    def _make_context(self, tokens: int, sequences: int) -> None:
        """Sets `_context`, to NULL if llama.cpp refuses."""
        llama = self._llama
        params = llama.llama_context_default_params()
        params.n_ctx = -(-tokens // CONTEXT_STEP_TOKENS) * CONTEXT_STEP_TOKENS
        params.n_batch = params.n_ubatch = self._batch_tokens
        params.n_seq_max = sequences
        # without it llama.cpp aborts the process for more than one sequence
        params.kv_unified = True
        params.n_threads = params.n_threads_batch = self._threads
        params.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_AUTO
        params.offload_kqv = self._weights.use_gpu
        self._context = llama.llama_init_from_model(self._weights.text_model, params)
        if self._context:
            self._batch = llama.llama_batch_init(self._batch_tokens, 0, sequences)
            self._context_tokens, self._context_sequences = params.n_ctx, sequences

    def _close_context(self) -> None:
        if self._batch is not None:
            self._llama.llama_batch_free(self._batch)
        if self._context:
            self._llama.llama_free(self._context)
        self._batch = self._context = None
        self._context_tokens = self._context_sequences = 0

    @contextmanager
    def _interruptible(self, check_stop: Callable[[], None]) -> Iterator[None]:
        self._bindings.errors.clear()
        with self._interruption.watching(check_stop):
            self._set_abort_flag()
            yield

    def _set_abort_flag(self) -> None:
        if self._context:
            flag = ctypes.addressof(self._interruption.flag)
            self._llama.llama_set_abort_callback(self._context, self._bindings.abort_callback, flag)
