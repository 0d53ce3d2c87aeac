"""A vision model through llama.cpp's low-level bindings: a picture is read once, then written about in many languages.

The key-value cache of sequence 0 holds the picture and the text that all languages share; each language is a copy of
that sequence (a copy costs nothing: cells are shared) with its own last line and its own answer, and all of them are
decoded together, one token of each per step. So ten languages cost little more than one.

Invariants: one thread at a time uses a `Llama`; whatever fails, sequence 0 is as it was or is read anew; nothing here
opens a socket or writes to the terminal. What llama.cpp refuses becomes `ModelUnusable`. What makes it abort the
process is found beforehand, in a child process (`selftest.py`).
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.domain.image import Pixels
from imgproc_local.vision.llm.library import library, physical_cores
from imgproc_local.vision.llm.sampler import Sampler
from imgproc_local.vision.llm.stop import StopFlag
from imgproc_local.vision.models.model import QUESTION_PLACEHOLDER, VisionModel

log = logging.getLogger(__name__)

MAX_NEW_TOKENS = 128
"""Per language: room for 250 characters, where a token is two of them on average."""
BATCH_TOKENS = 512
RETRY_TOKENS = 96
"""What a complaint of 120 characters adds to the last line of the question, in the worst of scripts nearly so much."""
CONTEXT_STEP_TOKENS = 512
"""Contexts are made in these steps, so that a language more does not need a new one."""
EVALUATED_AT_ONCE = 16
"""Graph nodes of the picture's encoder between two looks at the stop flag: a few milliseconds."""

_END = b'"}'
_SLOT = "PICTURE-AND-QUESTION"


class Llama:
    """A loaded model. `read` a picture, then `write` about it, as often as wanted; `close` gives the memory back."""

    def __init__(
        self,
        model: VisionModel,
        check_stop: Callable[[], None] = lambda: None,
    ) -> None:
        """Loads both files: a second or two.

        Raises: ModelUnusable; what `check_stop` raised.
        """
        self.model = model
        self.parallel = True
        self.tokens_written = 0
        self._library = library()
        self._low, self._mtmd = self._library.low, self._library.mtmd
        self._threads = model.run_options.threads or physical_cores()
        self._use_gpu = self._library.gpu and model.run_options.gpu_layers != 0
        self._text: Any = None
        self._eyes: Any = None
        self._context: Any = None
        self._batch: Any = None
        # some models look at a whole picture at once: it must fit into one batch
        self._batch_tokens = max(BATCH_TOKENS, model.chat.image_tokens)
        self._context_tokens = self._context_sequences = 0
        self._prefix_end = 0
        self._stop: StopFlag | None = None
        self._flag = ctypes.create_string_buffer(2)
        self._countdown = EVALUATED_AT_ONCE
        try:
            with self._stopped_by(check_stop):
                self._load()
            self._before, self._after = self._frame()
            self._grammar_sampler(seed=None).close()
        except BaseException:
            self.close()
            raise

    def _load(self) -> None:
        low, mtmd, model = self._low, self._mtmd, self.model
        params = low.llama_model_default_params()
        layers = model.run_options.gpu_layers
        params.n_gpu_layers = (999 if layers is None else layers) if self._use_gpu else 0
        # AMX tile buffers crash on quantised models (ggml-org/llama.cpp#26954)
        params.use_extra_bufts = False
        # the callbacks must live as long as what calls them
        self._on_progress = low.llama_progress_callback(lambda _part, _data: self._may_go_on())
        params.progress_callback = self._on_progress
        self._text = low.llama_model_load_from_file(os.fsencode(model.text_path), params)
        self._succeed(0)
        if not self._text:
            raise ModelUnusable(f"{model.text_path.name} can't be loaded: {self._library.reason(model.text_path)}")
        self._vocabulary = low.llama_model_get_vocab(self._text)
        self._trained_tokens = low.llama_model_n_ctx_train(self._text)
        eyes = mtmd.mtmd_context_params_default()
        eyes.use_gpu = self._use_gpu
        eyes.n_threads = self._threads
        eyes.print_timings = False
        eyes.warmup = False
        eyes.flash_attn_type = low.LLAMA_FLASH_ATTN_TYPE_AUTO
        eyes.image_max_tokens = model.chat.image_tokens
        self._on_node = low.ggml_backend_sched_eval_callback(self._at_node)
        eyes.cb_eval = self._on_node
        self._on_eyes_progress = mtmd.mtmd_progress_callback(lambda _part, _data: self._may_go_on())
        eyes.progress_callback = self._on_eyes_progress
        self._eyes = mtmd.mtmd_init_from_file(os.fsencode(model.mmproj_path), self._text, eyes)
        self._succeed(0)
        if not self._eyes or not mtmd.mtmd_support_vision(self._eyes):
            reason = self._library.reason(model.mmproj_path) if not self._eyes else "it is no projector for pictures"
            raise ModelUnusable(f"{model.mmproj_path.name} can't be loaded with {model.text_path.name}: {reason}")

    def close(self) -> None:
        """Frees all of it, in the order that llama.cpp needs. May be called twice."""
        self._close_context()
        if self._eyes:
            self._mtmd.mtmd_free(self._eyes)
        if self._text:
            self._low.llama_model_free(self._text)
        self._eyes = self._text = None
        if sys.platform == "linux":
            trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
            if trim is not None:
                trim(0)

    def _close_context(self) -> None:
        if self._batch is not None:
            self._low.llama_batch_free(self._batch)
        if self._context:
            self._low.llama_free(self._context)
        self._batch = self._context = None
        self._context_tokens = self._context_sequences = 0

    def read(self, image: Pixels, shared: str, tails: Sequence[str], check_stop: Callable[[], None]) -> None:
        """Looks at the picture and reads the text after it; `tails` are those that `write` may be asked for together.

        Raises: ModelUnusable; what `check_stop` raised, within a tenth of a second.
        """
        with self._stopped_by(check_stop), self._chunks(image, shared) as chunks:
            mtmd = self._mtmd
            prefix = mtmd.mtmd_helper_get_n_tokens(chunks)
            rooms = [len(self._tokens(tail + self._after)) + RETRY_TOKENS + MAX_NEW_TOKENS for tail in tails]
            longest = prefix + max(rooms)
            if longest > self._trained_tokens:
                raise ModelUnusable(
                    f"{self.model.name} was made for {self._trained_tokens} tokens;"
                    f" this picture and what is noted of it need {longest}."
                )
            self._make_context(longest, prefix + sum(rooms), 1 + len(tails))
            memory = self._low.llama_get_memory(self._context)
            self._low.llama_memory_clear(memory, True)
            self._prefix_end = 0
            past = 0
            for index in range(mtmd.mtmd_input_chunks_size(chunks)):
                past = self._read_chunk(mtmd.mtmd_input_chunks_get(chunks, index), past)
            self._prefix_end = past

    def _read_chunk(self, chunk: Any, past: int) -> int:
        """The position after the chunk."""
        low, mtmd = self._low, self._mtmd
        after = low.llama_pos(past)
        where = (low.llama_pos(past), low.llama_seq_id(0))
        if mtmd.mtmd_input_chunk_get_type(chunk) == mtmd.MTMD_INPUT_CHUNK_TYPE_TEXT:
            self._succeed(
                mtmd.mtmd_helper_eval_chunk_single(
                    self._eyes, self._context, chunk, *where, self._batch_tokens, False, ctypes.byref(after)
                )
            )
        else:
            self._countdown = EVALUATED_AT_ONCE
            self._succeed(mtmd.mtmd_encode_chunk(self._eyes, chunk))
            seen = mtmd.mtmd_get_output_embd(self._eyes)
            nothing = mtmd.mtmd_helper_post_decode_callback(0)
            self._succeed(
                mtmd.mtmd_helper_decode_image_chunk(
                    self._eyes,
                    self._context,
                    chunk,
                    seen,
                    *where,
                    self._batch_tokens,
                    ctypes.byref(after),
                    nothing,
                    None,
                )
            )
        return int(after.value)

    def write(
        self,
        tails: Sequence[str],
        check_stop: Callable[[], None],
        seed: int | None = None,
        most_tokens: int | None = None,
    ) -> list[str]:
        """What the model writes after each of `tails`, in order; a text without its end ran out of `most_tokens`,
        which is MAX_NEW_TOKENS at most and where none is given.

        Always the likeliest token, or drawn by `seed` where one is given: the same again for the same seed.

        Raises: ModelUnusable; what `check_stop` raised.
        """
        if not self._prefix_end:
            raise ModelUnusable("No picture was read, so nothing can be written about it.")
        most = min(most_tokens or MAX_NEW_TOKENS, MAX_NEW_TOKENS)
        refused = ""
        with self._stopped_by(check_stop):
            if self.parallel and 1 < len(tails) < self._context_sequences:
                try:
                    return self._write_together(tails, seed, most)
                except ModelUnusable as error:
                    refused = error.message
            texts = [text for tail in tails for text in self._write_together([tail], seed, most)]
        if refused:
            self._give_up_parallel(refused)
        return texts

    def _give_up_parallel(self, reason: str) -> None:
        log.warning("%s writes one language after the other from now on: %s", self.model.name, reason)
        self.parallel = False

    def _write_together(self, tails: Sequence[str], seed: int | None, most_tokens: int) -> list[str]:
        low, prefix = self._low, self._prefix_end
        memory = low.llama_get_memory(self._context)
        sequences = range(1, len(tails) + 1)
        samplers = [self._grammar_sampler(seed) for _ in tails]
        written = [b""] * len(tails)
        try:
            asked = [self._tokens(tail + self._after) for tail in tails]
            for sequence in sequences:
                low.llama_memory_seq_cp(memory, 0, sequence, -1, -1)
            questions = [
                (token, prefix + place, sequence, False)
                for sequence, tokens in zip(sequences, asked, strict=True)
                for place, token in enumerate(tokens[:-1])
            ]
            for start in range(0, len(questions), self._batch_tokens):
                self._decode(questions[start : start + self._batch_tokens])
            step = [
                (tokens[-1], prefix + len(tokens) - 1, sequence, True)
                for sequence, tokens in zip(sequences, asked, strict=True)
            ]
            for _ in range(most_tokens):
                self._decode(step)
                following = []
                for row, (_, position, sequence, _) in enumerate(step):
                    token = samplers[sequence - 1].next_token(self._context, row)
                    if low.llama_vocab_is_eog(self._vocabulary, token):
                        continue
                    self.tokens_written += 1
                    written[sequence - 1] += self._piece(token)
                    # quotes end the strings and can't stand inside them: this is the end of the answer
                    if not written[sequence - 1].endswith(_END):
                        following.append((token, position + 1, sequence, True))
                step = following
                if not step:
                    break
        finally:
            for sampler in samplers:
                sampler.close()
            for sequence in sequences:
                low.llama_memory_seq_rm(memory, sequence, -1, -1)
        return [text.decode("utf-8", "replace") for text in written]

    def _decode(self, items: Sequence[tuple[int, int, int, bool]]) -> None:
        """One step: (token, position, sequence, whether the next token is wanted)."""
        batch = self._batch
        batch.n_tokens = len(items)
        for row, (token, position, sequence, wanted) in enumerate(items):
            batch.token[row] = token
            batch.pos[row] = position
            batch.n_seq_id[row] = 1
            batch.seq_id[row][0] = sequence
            batch.logits[row] = wanted
        self._succeed(self._low.llama_decode(self._context, batch))

    def _make_context(self, alone: int, together: int, sequences: int) -> None:
        """A context for `together` tokens in `sequences`, or, where the model refuses, for one language at a time."""
        if not self.parallel:
            together, sequences = alone, 2
        if together <= self._context_tokens and sequences <= self._context_sequences:
            return
        # what one picture needed the next one may need too
        together, sequences = max(together, self._context_tokens), max(sequences, self._context_sequences)
        self._close_context()
        self._try_context(together, sequences)
        if not self._context and sequences > 2:
            self._give_up_parallel(self._library.reason(self.model.text_path))
            self._try_context(alone, 2)
        if not self._context:
            raise ModelUnusable(
                f"{self.model.name} can't work on {alone} tokens here: {self._library.reason(self.model.text_path)}"
            )
        self._heed_flag()

    def _try_context(self, tokens: int, sequences: int) -> None:
        low = self._low
        params = low.llama_context_default_params()
        params.n_ctx = -(-tokens // CONTEXT_STEP_TOKENS) * CONTEXT_STEP_TOKENS
        params.n_batch = params.n_ubatch = self._batch_tokens
        params.n_seq_max = sequences
        # without it more than one sequence ends the process
        params.kv_unified = True
        params.n_threads = params.n_threads_batch = self._threads
        params.flash_attn_type = low.LLAMA_FLASH_ATTN_TYPE_AUTO
        params.offload_kqv = self._use_gpu
        self._context = low.llama_init_from_model(self._text, params)
        if self._context:
            self._batch = low.llama_batch_init(self._batch_tokens, 0, sequences)
            self._context_tokens, self._context_sequences = params.n_ctx, sequences

    @contextmanager
    def _chunks(self, image: Pixels, shared: str) -> Iterator[Any]:
        """The question as llama.cpp cuts it: text, picture (or its tiles with text between), text."""
        mtmd = self._mtmd
        assert len(image.rgb) == 3 * image.width_px * image.height_px, "rows without padding"
        bitmap = mtmd.mtmd_bitmap_init(
            image.width_px, image.height_px, (ctypes.c_uint8 * len(image.rgb)).from_buffer_copy(image.rgb)
        )
        chunks = mtmd.mtmd_input_chunks_init()
        try:
            text = (self._before + mtmd.mtmd_default_marker().decode() + shared).encode()
            question = mtmd.mtmd_input_text()
            question.text, question.text_len = text, len(text)
            question.add_special = question.parse_special = True
            bitmaps = (mtmd.mtmd_bitmap_p_ctypes * 1)(bitmap)
            if mtmd.mtmd_tokenize(self._eyes, chunks, ctypes.byref(question), bitmaps, 1):
                raise ModelUnusable(
                    f"{self.model.name} can't take a picture of {image.width_px}×{image.height_px} pixels:"
                    f" {self._library.reason(self.model.mmproj_path)}"
                )
            yield chunks
        finally:
            mtmd.mtmd_input_chunks_free(chunks)
            mtmd.mtmd_bitmap_free(bitmap)

    def _frame(self) -> tuple[str, str]:
        """What the model's chat template puts before and after a user's turn."""
        low, chat = self._low, self.model.chat
        if QUESTION_PLACEHOLDER in chat.template:
            before, _, after = chat.template.partition(QUESTION_PLACEHOLDER)
            return before, after + chat.answer_opening
        template = chat.template.encode() or low.llama_model_chat_template(self._text, None)
        if not template:
            raise ModelUnusable(f"{self.model.name} has no chat template; name one with --template (chatml, gemma …).")
        turn = low.llama_chat_message(role=b"user", content=_SLOT.encode())
        turns = (low.llama_chat_message * 1)(turn)
        written = ctypes.create_string_buffer(8192)
        length = low.llama_chat_apply_template(template, turns, 1, True, written, len(written))
        text = written.raw[: max(length, 0)].decode("utf-8", "replace")
        if _SLOT not in text:
            raise ModelUnusable(
                f"llama.cpp does not know the chat template of {self.model.name};"
                " name one that it knows with --template (chatml, gemma …)."
            )
        before, _, after = text.partition(_SLOT)
        return before, after + chat.answer_opening

    def _tokens(self, text: str) -> list[int]:
        data = text.encode()
        room = len(data) + 8
        tokens = (self._low.llama_token * room)()
        count = self._low.llama_tokenize(self._vocabulary, data, len(data), tokens, room, False, True)
        return list(tokens[:count])

    def _piece(self, token: int) -> bytes:
        text = ctypes.create_string_buffer(256)
        length = self._low.llama_token_to_piece(self._vocabulary, token, text, len(text), 0, False)
        return text.raw[: max(length, 0)]

    def _grammar_sampler(self, seed: int | None) -> Sampler:
        return Sampler(self._low, self._vocabulary, seed)

    @contextmanager
    def _stopped_by(self, check_stop: Callable[[], None]) -> Iterator[None]:
        self._library.told.clear()
        with StopFlag(check_stop) as stop:
            self._stop = stop
            # a flag of its own for each call: the last one stays referenced until the next
            self._flag = stop.flag
            self._heed_flag()
            try:
                yield
            finally:
                self._stop = None

    def _heed_flag(self) -> None:
        if self._context:
            self._low.llama_set_abort_callback(self._context, self._library.is_set, ctypes.addressof(self._flag))

    def _succeed(self, status: int) -> None:
        """Raises what stopped the call, or says that the model failed."""
        if self._stop is not None:
            self._stop.raise_if_set()
        if status:
            raise ModelUnusable(
                f"{self.model.name} failed on this picture ({status}): {self._library.reason(self.model.text_path)}"
            )

    def _at_node(self, _tensor: object, asked: bool, _data: object) -> bool:
        """Called by the encoder: first whether it should halt after a node, then, there, whether to go on."""
        if asked:
            self._countdown -= 1
            if self._countdown:
                return False
            self._countdown = EVALUATED_AT_ONCE
            return True
        return self._may_go_on()

    def _may_go_on(self) -> bool:
        return self._stop is None or self._stop.error is None
