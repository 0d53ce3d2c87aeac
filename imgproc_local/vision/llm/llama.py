"""A vision model that runs in llama.cpp: a picture is processed once and described in several languages.

Sequence 0 of the key-value cache holds the instructions, for all pictures. Sequence 1 begins as a copy of sequence 0
(copying is free, because the copy refers to the same cells) and continues with the picture and its notes: what is known
about it. Each language has a sequence that begins as a copy of sequence 1 and continues with a suffix, the end of its
prompt, and with its answer. The text with which all suffixes begin is processed once. One step decodes one token of
every sequence, so ten languages take little longer than one.

Invariants: a `Llama` is used by one thread at a time. After any failure, either sequences 0 and 1 are unchanged, or
`_prefix_end` is 0 and `prefill` must be called again. Nothing here opens a socket or writes to the terminal. An error
of llama.cpp becomes `ModelUnusable`; errors that make llama.cpp abort the process, and models that fail with several
sequences, are found before the model is used, by the self-test in a child process (`selftest.py`).

It is one long file, because all of it works on the handles and the sequences of one model.
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
from msgspec.structs import replace
from PIL import Image

from imgproc_local.domain.errors import CheckStop, ModelUnusable
from imgproc_local.domain.image import Pixels
from imgproc_local.vision.llm.bindings import Interruption, bindings
from imgproc_local.vision.llm.prompt import INSTRUCTIONS
from imgproc_local.vision.llm.sampler import Sampler
from imgproc_local.vision.models.model import QUESTION_PLACEHOLDER, VisionModel

_MAX_NEW_TOKENS = 208
"""Limit for one answer: enough for an alternative text of 125 characters and its file name in every language. Hindi and
Greek need the most tokens, 161 and 148, because they take one per character in Qwen's vocabularies. In other languages
the grammar, which limits the number of characters, ends an answer before this limit."""
_MAX_LONG_TOKENS = 400
"""Limit for a long description. What is cut off is left out up to the last complete sentence."""
_BATCH_TOKENS = 512
"""The maximum number of tokens in a batch, unless a picture needs more: some models need all of it in one batch."""
_SPARE_TOKENS = 640
"""Reserved in the context besides the suffixes that `prefill` receives and their answers: for the text to translate,
the complaint and the refused sentence of a retry, and a long description. If several prompts need more, they are used
in turn."""
_PERFORMANCE_CPUS = Path("/sys/devices/cpu_core/cpus")
"""The file in which Linux lists the performance cores of a hybrid processor of Intel; other processors have none."""
_ANSWER_END = b'"}'
"""The last characters of the JSON of an answer."""
_PROMPT_MARK = "PICTURE-AND-QUESTION"
"""Stands for the prompt when a chat template is applied, to split the output into the texts before and after it."""
_INSTRUCTIONS, _PICTURE, _FIRST_LANGUAGE = 0, 1, 2
"""Numbers of sequences."""


class _BatchItem(NamedTuple):
    """One token of a batch. With `output`, its logits are computed, so that the next token can be sampled."""

    token: int
    position: int
    sequence: int
    output: bool


class Llama:
    """A loaded model; loading takes a second or two. `prefill` processes a picture; `generate` can then be called for
    it any number of times.

    `_turn_start` and `_turn_end` are the texts that the chat template puts before and after a prompt. `_trained_tokens`
    is the longest context that the model was trained for. `_prefix_end` is the position after the picture and its
    notes, 0 if no picture is processed; `_prefix_tokens` is the number of tokens there, which differs from the position
    in models that count a picture otherwise.

    Raises: ModelUnusable, if llama.cpp can't load a file; what `check_stop` raises.
    """

    def __init__(self, model: VisionModel, check_stop: CheckStop = lambda: None) -> None:
        self.model = model
        self._bindings = bindings()
        self._llama, self.mtmd = self._bindings.llama, self._bindings.mtmd
        self._use_gpu = self._bindings.gpu and model.gpu_layers != 0
        self._threads = _physical_cores()
        self._interruption = Interruption()
        self._nodes = 0
        self._text_model: Any = None
        self.vision_encoder: Any = None
        self._context: Any = None
        self._batch: Any = None
        self._batch_tokens = max(_BATCH_TOKENS, model.chat.image_tokens)
        self._context_tokens = self._context_sequences = 0
        # the tokens in sequence 0, which are the beginning of every prompt
        self._instructions: list[int] = []
        self._prefix_end = self._prefix_tokens = 0
        try:
            with self._interruptible(check_stop):
                self._load_text_model()
                self._load_vision_encoder()
                self._turn_start, self._turn_end = self._chat_turn()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Free all memory, the vision encoder before the text model, which it uses. It may be called twice."""
        self._free_context()
        if self.vision_encoder:
            self.mtmd.mtmd_free(self.vision_encoder)
        if self._text_model:
            self._llama.llama_model_free(self._text_model)
        self.vision_encoder = self._text_model = None

    # ---- loading

    def _load_text_model(self) -> None:
        llama, model = self._llama, self.model
        params = llama.llama_model_default_params()
        layers = model.gpu_layers
        params.n_gpu_layers = (999 if layers is None else layers) if self._use_gpu else 0  # 999: all
        # AMX tile buffers crash on quantised models (ggml-org/llama.cpp#26954)
        params.use_extra_bufts = False
        # llama.cpp stores the callbacks, so they must remain referenced
        self._on_text_progress = llama.llama_progress_callback(lambda _share, _data: self._interruption.may_continue())
        params.progress_callback = self._on_text_progress
        self._text_model = llama.llama_model_load_from_file(os.fsencode(model.text_path), params)
        if not self._text_model:
            raise self._load_error(model.text_path.name, model.text_path)
        self._vocabulary = llama.llama_model_get_vocab(self._text_model)
        self._trained_tokens = llama.llama_model_n_ctx_train(self._text_model)

    def _load_vision_encoder(self) -> None:
        llama, mtmd, model = self._llama, self.mtmd, self.model
        params = mtmd.mtmd_context_params_default()
        params.use_gpu = self._use_gpu
        params.n_threads = self._threads
        params.print_timings = params.warmup = False
        params.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_AUTO
        params.image_max_tokens = model.chat.image_tokens
        # a small picture is scaled up, a square to about 300 px, if the model takes different sizes
        params.image_min_tokens = min(96, model.chat.image_tokens)
        self._on_node = llama.ggml_backend_sched_eval_callback(self._at_node)
        params.cb_eval = self._on_node
        self._on_encoder_progress = mtmd.mtmd_progress_callback(lambda _share, _data: self._interruption.may_continue())
        params.progress_callback = self._on_encoder_progress
        self.vision_encoder = mtmd.mtmd_init_from_file(os.fsencode(model.mmproj_path), self._text_model, params)
        if not self.vision_encoder or not mtmd.mtmd_support_vision(self.vision_encoder):
            raise self._load_error(f"{model.mmproj_path.name} with {model.text_path.name}", model.mmproj_path)

    def _load_error(self, files: str, path: Path) -> ModelUnusable:
        """The error that llama.cpp can't load `files`. Raises: what `check_stop` raised during the call."""
        self._interruption.raise_if_stopped()
        reason = self._bindings.last_error(path).rstrip(".")
        return ModelUnusable(
            f"{files} can't be loaded: {reason}. If a file is damaged, download it again; otherwise update"
            " llama-cpp-python, or choose another model."
        )

    def _chat_turn(self) -> tuple[str, str]:
        """The text of the chat template before and after a prompt.

        Raises: ModelUnusable, if the model has no template, or one that llama.cpp does not know.
        """
        llama, chat = self._llama, self.model.chat
        if QUESTION_PLACEHOLDER in chat.template:
            before, _, after = chat.template.partition(QUESTION_PLACEHOLDER)
            return before, after + chat.answer_opening
        template = chat.template.encode() or llama.llama_model_chat_template(self._text_model, None) or b"none"
        message = llama.llama_chat_message(role=b"user", content=_PROMPT_MARK.encode())
        messages = (llama.llama_chat_message * 1)(message)
        buffer = ctypes.create_string_buffer(8192)
        length = llama.llama_chat_apply_template(template, messages, 1, True, buffer, len(buffer))
        before, mark, after = buffer.raw[: max(length, 0)].decode("utf-8", "replace").partition(_PROMPT_MARK)
        if not mark:
            raise ModelUnusable(
                f"llama.cpp does not know the chat template of {self.model.name}, or it has none;"
                " name one that it knows with --template (chatml, gemma …)."
            )
        return before, after + chat.answer_opening

    def _at_node(self, _tensor: object, asks_to_stop_here: bool, _data: object) -> bool:
        """The callback that ggml calls for each node.

        With `asks_to_stop_here`, returns whether ggml must pause after the node. In a pause, ggml calls it again
        without `asks_to_stop_here`; then it returns whether to continue.
        """
        if not asks_to_stop_here:
            return self._interruption.may_continue()
        # 16 nodes take a few milliseconds
        self._nodes = (self._nodes + 1) % 16
        return self._nodes == 0

    # ---- describing a picture

    def prefill(self, image: Pixels, notes: str, suffixes: Sequence[str], check_stop: CheckStop) -> None:
        """Process the picture and the `notes` after it, in a context large enough to generate for all `suffixes` at
        once.

        Raises: ModelUnusable; what `check_stop` raises, within a tenth of a second.
        """
        with self._interruptible(check_stop), self.chunks(self._fitted(image), notes) as chunks:
            mtmd = self.mtmd
            self._prefix_tokens = mtmd.mtmd_helper_get_n_tokens(chunks)
            shared = self._prefix_tokens + _SPARE_TOKENS
            needed = [len(self.tokens(suffix + self._turn_end)) + _MAX_NEW_TOKENS for suffix in suffixes]
            longest = shared + max(needed)
            if longest > self._trained_tokens:
                raise ModelUnusable(
                    f"{self.model.name} was trained for {self._trained_tokens} tokens;"
                    f" this picture, the texts about it and the answer need {longest}."
                )
            self._ensure_context(shared + sum(needed), _FIRST_LANGUAGE + len(suffixes))
            first, *others = self._each(chunks)
            # llama.cpp aborts the process for a token that the vocabulary lacks
            if any(token < 0 for chunk in others for token in self._text_tokens(chunk)):
                raise ModelUnusable(
                    f"{self.model.name} does not see what is in pictures: its vision encoder (mmproj) was made for"
                    " another text model, whose vocabulary has tokens that this one lacks. Install both files from the"
                    " same repository, or choose another model."
                )
            position = self._prefill_instructions(first)
            for chunk in others:
                position = self._prefill_chunk(chunk, position, _PICTURE)
            self._prefix_end = position

    def _prefill_instructions(self, chunk: Any) -> int:
        """Process the instructions, the first chunk of a prompt, in sequence 0, unless it holds them already. Then copy
        sequence 0 to sequence 1. Returns the position after the instructions.
        """
        llama = self._llama
        memory = llama.llama_get_memory(self._context)
        tokens = self._text_tokens(chunk)
        self._prefix_end = 0
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
        llama = self._llama
        after = llama.llama_pos(position)
        start = (llama.llama_pos(position), llama.llama_seq_id(sequence))
        status = self.mtmd.mtmd_helper_eval_chunk_single(
            self.vision_encoder, self._context, chunk, *start, self._batch_tokens, False, ctypes.byref(after)
        )
        self.check(status)
        return int(after.value)

    def generate(
        self, suffixes: Sequence[str], check_stop: CheckStop, seed: int | None = None, *, in_full: bool = False
    ) -> list[str]:
        """The generated text after each of `suffixes`, in order: a long description if `in_full`. A text of
        `_MAX_NEW_TOKENS` or `_MAX_LONG_TOKENS` is incomplete, and shorter, or "", if a suffix leaves no room for more.

        Decoding is greedy, or random with a `seed`; the same seed gives the same text. There are at most as many
        suffixes as `prefill` received.

        Raises: ModelUnusable; what `check_stop` raises.
        """
        if not self._prefix_end:
            raise ModelUnusable("No picture was processed: expected a call of prefill before generate.")
        root, limit = ("long", _MAX_LONG_TOKENS) if in_full else ("root", _MAX_NEW_TOKENS)
        half = len(suffixes) // 2
        suffix_tokens = [self.tokens(suffix + self._turn_end) for suffix in suffixes]
        common = _common_length(suffix_tokens)  # it is in the context once
        needed = self._prefix_tokens + common + sum(len(tokens) - common + limit for tokens in suffix_tokens)
        missing = max(0, needed - self._context_tokens)
        if missing and half:
            parts = (suffixes[:half], suffixes[half:])
            return [text for part in parts for text in self.generate(part, check_stop, seed, in_full=in_full)]
        if missing >= limit:
            return [""]
        memory = self._llama.llama_get_memory(self._context)
        sequences = range(_FIRST_LANGUAGE, _FIRST_LANGUAGE + len(suffixes))
        samplers = [Sampler(self._llama, self._vocabulary, seed, root) for _ in suffixes]
        with self._interruptible(check_stop):
            try:
                step = self._prefill_suffixes(suffix_tokens, common, sequences)
                generated = self._generate(step, samplers, limit - missing)
            finally:
                for sampler in samplers:
                    sampler.close()
                for sequence in sequences:
                    self._llama.llama_memory_seq_rm(memory, sequence, -1, -1)
        return [self._text(tokens).decode("utf-8", "replace") for tokens in generated]

    def _prefill_suffixes(self, suffixes: Sequence[Sequence[int]], common: int, sequences: range) -> list[_BatchItem]:
        """Process all suffixes, each in its sequence, up to their last tokens, which are returned. They share the first
        `common` tokens.
        """
        memory = self._llama.llama_get_memory(self._context)
        first, *others = sequences
        self._llama.llama_memory_seq_cp(memory, _PICTURE, first, -1, -1)
        self._process(self._items(suffixes[0], first)[:common])
        for sequence in others:
            self._llama.llama_memory_seq_cp(memory, first, sequence, -1, -1)
        items = [self._items(tokens, sequence) for tokens, sequence in zip(suffixes, sequences, strict=True)]
        self._process([item for each in items for item in each[common:-1]])
        return [each[-1] for each in items]

    def _generate(self, step: Sequence[_BatchItem], samplers: Sequence[Sampler], limit: int) -> list[list[int]]:
        """The tokens of each answer, at most `limit`, after the last tokens of the suffixes."""
        generated: list[list[int]] = [[] for _ in samplers]
        for _ in range(limit):
            self._decode(step)
            next_step = []
            for row, item in enumerate(step):
                answer = item.sequence - _FIRST_LANGUAGE
                token = samplers[answer].next_token(self._context, row)
                if self._llama.llama_vocab_is_eog(self._vocabulary, token):
                    continue
                generated[answer].append(token)
                # the grammar allows no quotation mark inside a string, so this is the end of the JSON
                if not self._text(generated[answer][-len(_ANSWER_END) :]).endswith(_ANSWER_END):
                    next_step.append(_BatchItem(token, item.position + 1, item.sequence, output=True))
            step = next_step
            if not step:
                break
        return generated

    def _items(self, tokens: Sequence[int], sequence: int) -> list[_BatchItem]:
        """The tokens of a suffix, after the picture and its notes. Only the last one has an output."""
        last = self._prefix_end + len(tokens) - 1
        placed = enumerate(tokens, self._prefix_end)
        return [_BatchItem(token, position, sequence, output=position == last) for position, token in placed]

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
        self.check(self._llama.llama_decode(self._context, batch))

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
        params.offload_kqv = self._use_gpu
        self._free_context()
        self._context = llama.llama_init_from_model(self._text_model, params)
        if not self._context:
            reason = self._bindings.last_error(self.model.text_path)
            raise ModelUnusable(f"{self.model.name} can't process {tokens} tokens on this machine: {reason}")
        self._batch = llama.llama_batch_init(self._batch_tokens, 0, params.n_seq_max)
        self._context_tokens, self._context_sequences = params.n_ctx, params.n_seq_max
        flag = ctypes.addressof(self._interruption.flag)
        llama.llama_set_abort_callback(self._context, self._bindings.abort_callback, flag)

    def _free_context(self) -> None:
        """Free the memory of the processed picture; `prefill` must be called before the next `generate`."""
        if self._batch is not None:
            self._llama.llama_batch_free(self._batch)
        if self._context:
            self._llama.llama_free(self._context)
        self._batch = self._context = None
        self._context_tokens = self._context_sequences = 0
        self._prefix_end = 0
        self._instructions = []

    # ---- pictures, tokens and interruption

    def _fitted(self, image: Pixels) -> Pixels:
        """`image`, scaled down to at least a quarter, until its tiles have at most the model's maximum of tokens.

        It is unchanged if the number of tokens does not depend on its size.
        """
        scaled = image
        for _ in range(7):
            with self.chunks(scaled, "") as chunks:
                if self._image_tokens(chunks) <= self.model.chat.image_tokens:
                    return scaled
            scaled = _scaled_down(scaled)
        return image

    def _text_tokens(self, chunk: Any) -> list[int]:
        """The tokens of a chunk of text, none of a tile of the picture. One that the vocabulary lacks is negative."""
        count = ctypes.c_size_t()
        tokens = self.mtmd.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(count))
        return list(tokens[: count.value]) if tokens else []

    def _image_tokens(self, chunks: Any) -> int:
        """The number of tokens of all tiles of the picture."""
        mtmd = self.mtmd
        text = mtmd.MTMD_INPUT_CHUNK_TYPE_TEXT
        tiles = [chunk for chunk in self._each(chunks) if mtmd.mtmd_input_chunk_get_type(chunk) != text]
        return sum(mtmd.mtmd_input_chunk_get_n_tokens(tile) for tile in tiles)

    def _each(self, chunks: Any) -> list[Any]:
        """The chunks of a list."""
        count = self.mtmd.mtmd_input_chunks_size(chunks)
        return [self.mtmd.mtmd_input_chunks_get(chunks, index) for index in range(count)]

    @contextmanager
    def chunks(self, image: Pixels, notes: str) -> Iterator[Any]:
        """The instructions, the picture and the notes as a list of chunks: text, or a tile of the picture.

        The list is freed after the block. Raises: ModelUnusable.
        """
        mtmd = self.mtmd
        assert len(image.rgb) == 3 * image.width_px * image.height_px, "rows have padding"
        rgb = (ctypes.c_uint8 * len(image.rgb)).from_buffer_copy(image.rgb)
        bitmap = mtmd.mtmd_bitmap_init(image.width_px, image.height_px, rgb)
        chunks = mtmd.mtmd_input_chunks_init()
        text = (self._turn_start + INSTRUCTIONS + mtmd.mtmd_default_marker().decode() + notes).encode()
        prompt = mtmd.mtmd_input_text()
        prompt.text, prompt.text_len = text, len(text)
        prompt.add_special = prompt.parse_special = True
        bitmaps = (mtmd.mtmd_bitmap_p_ctypes * 1)(bitmap)
        try:
            status = mtmd.mtmd_tokenize(self.vision_encoder, chunks, ctypes.byref(prompt), bitmaps, 1)
            mtmd.mtmd_bitmap_free(bitmap)
            if status:
                raise ModelUnusable(
                    f"{self.model.name} can't use a picture of {image.width_px}×{image.height_px} pixels:"
                    f" {self._bindings.last_error(self.model.mmproj_path)}"
                )
            yield chunks
        finally:
            mtmd.mtmd_input_chunks_free(chunks)

    def tokens(self, text: str) -> list[int]:
        """The tokens of `text`, in which special tokens are recognised."""
        data = text.encode()
        size = len(data) + 8
        tokens = (self._llama.llama_token * size)()
        count = self._llama.llama_tokenize(self._vocabulary, data, len(data), tokens, size, False, True)
        return list(tokens[:count])

    def _text(self, tokens: Sequence[int]) -> bytes:
        """The text of `tokens` in UTF-8, of which a character may extend over several tokens."""
        text = b""
        piece = ctypes.create_string_buffer(256)
        for token in tokens:
            length = self._llama.llama_token_to_piece(self._vocabulary, token, piece, len(piece), 0, False)
            text += piece.raw[: max(length, 0)]
        return text

    def check(self, status: int) -> None:
        """Check the status that a function of llama.cpp returned.

        Raises: what `check_stop` raised during the call, or else ModelUnusable if `status` is not 0.
        """
        self._interruption.raise_if_stopped()
        if status:
            reason = self._bindings.last_error(self.model.text_path)
            raise ModelUnusable(f"{self.model.name} failed on this picture ({status}): {reason}")

    @contextmanager
    def _interruptible(self, check_stop: CheckStop) -> Iterator[None]:
        """Let `check_stop` interrupt the calls of llama.cpp inside the block."""
        self._bindings.errors.clear()
        with self._interruption.watching(check_stop):
            yield


def _scaled_down(image: Pixels) -> Pixels:
    """`image`, scaled by 0.8."""
    width_px, height_px = (max(1, round(side * 0.8)) for side in (image.width_px, image.height_px))
    picture = Image.frombytes("RGB", (image.width_px, image.height_px), image.rgb)
    smaller = picture.resize((width_px, height_px), Image.Resampling.BOX)
    return replace(image, width_px=width_px, height_px=height_px, rgb=smaller.tobytes())


def _physical_cores() -> int:
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
