"""The two files of a model, loaded into memory: the text model and the vision encoder (mmproj); and the samplers that
choose the tokens of an answer."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from PIL import Image

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.domain.image import Pixels
from imgproc_local.vision.llm.bindings import Bindings, Interruption
from imgproc_local.vision.llm.prompt import GRAMMAR, INSTRUCTIONS
from imgproc_local.vision.models.model import QUESTION_PLACEHOLDER, VisionModel

_PROMPT_MARK = "PICTURE-AND-QUESTION"
"""Stands for the prompt when a chat template is applied, to split the output into the texts before and after it."""


class Weights:
    """A model in memory, until `close`. Loading takes a second or two.

    `turn_start` and `turn_end` are the texts that the chat template puts before and after a prompt. `trained_tokens` is
    the longest context that the model was trained for.

    Raises: ModelUnusable, if llama.cpp can't load a file; what the `check_stop` of `interruption` raises.
    """

    def __init__(self, model: VisionModel, bindings: Bindings, interruption: Interruption, threads: int) -> None:
        self.model = model
        self.text_model: Any = None
        self.vision_encoder: Any = None
        self.use_gpu = bindings.gpu and model.gpu_layers != 0
        self._bindings = bindings
        self.llama, self.mtmd = bindings.llama, bindings.mtmd
        self._interruption = interruption
        self._nodes = 0
        try:
            self._load_text_model()
            self._load_vision_encoder(threads)
            self.turn_start, self.turn_end = self._chat_turn()
            self.sampler(seed=None).close()
        except BaseException:
            self.close()
            raise

    def _load_text_model(self) -> None:
        llama, model = self.llama, self.model
        params = llama.llama_model_default_params()
        layers = model.gpu_layers
        params.n_gpu_layers = (999 if layers is None else layers) if self.use_gpu else 0  # 999: all
        # AMX tile buffers crash on quantised models (ggml-org/llama.cpp#26954)
        params.use_extra_bufts = False
        # llama.cpp stores the callbacks, so they must remain referenced
        self._on_text_progress = llama.llama_progress_callback(lambda _share, _data: self._interruption.may_continue())
        params.progress_callback = self._on_text_progress
        self.text_model = llama.llama_model_load_from_file(os.fsencode(model.text_path), params)
        if not self.text_model:
            raise self._load_error(model.text_path.name, model.text_path)
        self.vocabulary = llama.llama_model_get_vocab(self.text_model)
        self.trained_tokens = llama.llama_model_n_ctx_train(self.text_model)

    def _load_vision_encoder(self, threads: int) -> None:
        llama, mtmd, model = self.llama, self.mtmd, self.model
        params = mtmd.mtmd_context_params_default()
        params.use_gpu = self.use_gpu
        params.n_threads = threads
        params.print_timings = params.warmup = False
        params.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_AUTO
        params.image_max_tokens = model.chat.image_tokens
        # a small picture is scaled up, a square to about 300 px, if the model takes different sizes
        params.image_min_tokens = min(96, model.chat.image_tokens)
        self._on_node = llama.ggml_backend_sched_eval_callback(self._at_node)
        params.cb_eval = self._on_node
        self._on_encoder_progress = mtmd.mtmd_progress_callback(lambda _share, _data: self._interruption.may_continue())
        params.progress_callback = self._on_encoder_progress
        self.vision_encoder = mtmd.mtmd_init_from_file(os.fsencode(model.mmproj_path), self.text_model, params)
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

    def close(self) -> None:
        """Free both files, the vision encoder first because it uses the text model. Can be called twice."""
        if self.vision_encoder:
            self.mtmd.mtmd_free(self.vision_encoder)
        if self.text_model:
            self.llama.llama_model_free(self.text_model)
        self.vision_encoder = self.text_model = None

    def fitted(self, image: Pixels) -> Pixels:
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

    def _image_tokens(self, chunks: Any) -> int:
        """The number of tokens of all tiles of the picture."""
        mtmd = self.mtmd
        each = [mtmd.mtmd_input_chunks_get(chunks, index) for index in range(mtmd.mtmd_input_chunks_size(chunks))]
        text = mtmd.MTMD_INPUT_CHUNK_TYPE_TEXT
        tiles = [chunk for chunk in each if mtmd.mtmd_input_chunk_get_type(chunk) != text]
        return sum(mtmd.mtmd_input_chunk_get_n_tokens(tile) for tile in tiles)

    @contextmanager
    def chunks(self, image: Pixels, notes: str) -> Iterator[Any]:
        """The instructions, the picture and the notes as a list of chunks: text, or a tile of the picture.

        The list is freed after the block. Raises: ModelUnusable.
        """
        mtmd = self.mtmd
        assert len(image.rgb) == 3 * image.width_px * image.height_px, "rows have padding"
        bitmap = mtmd.mtmd_bitmap_init(
            image.width_px, image.height_px, (ctypes.c_uint8 * len(image.rgb)).from_buffer_copy(image.rgb)
        )
        chunks = mtmd.mtmd_input_chunks_init()
        text = (self.turn_start + INSTRUCTIONS + mtmd.mtmd_default_marker().decode() + notes).encode()
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

    def text_tokens(self, chunk: Any) -> list[int]:
        """The tokens of a chunk of text."""
        count = ctypes.c_size_t()
        tokens = self.mtmd.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(count))
        return list(tokens[: count.value])

    def tokens(self, text: str) -> list[int]:
        """The tokens of `text`, in which special tokens are recognised."""
        data = text.encode()
        size = len(data) + 8
        tokens = (self.llama.llama_token * size)()
        count = self.llama.llama_tokenize(self.vocabulary, data, len(data), tokens, size, False, True)
        return list(tokens[:count])

    def text(self, tokens: Sequence[int]) -> bytes:
        """The text of `tokens` in UTF-8, of which a character may extend over several tokens."""
        text = b""
        piece = ctypes.create_string_buffer(256)
        for token in tokens:
            length = self.llama.llama_token_to_piece(self.vocabulary, token, piece, len(piece), 0, False)
            text += piece.raw[: max(length, 0)]
        return text

    def is_end_of_generation(self, token: int) -> bool:
        """Whether the model ends an answer with `token`."""
        return bool(self.llama.llama_vocab_is_eog(self.vocabulary, token))

    def sampler(self, seed: int | None) -> Sampler:
        """A new sampler for one answer."""
        return Sampler(self.llama, self.vocabulary, seed)

    def check(self, status: int) -> None:
        """Check the status that a function of llama.cpp returned.

        Raises: what `check_stop` raised during the call, or else ModelUnusable if `status` is not 0.
        """
        self._interruption.raise_if_stopped()
        if status:
            reason = self._bindings.last_error(self.model.text_path)
            raise ModelUnusable(f"{self.model.name} failed on this picture ({status}): {reason}")

    def _chat_turn(self) -> tuple[str, str]:
        """The text of the chat template before and after a prompt.

        Raises: ModelUnusable, if the model has no template, or one that llama.cpp does not know.
        """
        llama, chat = self.llama, self.model.chat
        if QUESTION_PLACEHOLDER in chat.template:
            before, _, after = chat.template.partition(QUESTION_PLACEHOLDER)
            return before, after + chat.answer_opening
        template = chat.template.encode() or llama.llama_model_chat_template(self.text_model, None) or b"none"
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


def _scaled_down(image: Pixels) -> Pixels:
    """`image`, scaled by 0.8."""
    width_px, height_px = (max(1, round(side * 0.8)) for side in (image.width_px, image.height_px))
    picture = Image.frombytes("RGB", (image.width_px, image.height_px), image.rgb)
    smaller = picture.resize((width_px, height_px), Image.Resampling.BOX)
    return replace(image, width_px=width_px, height_px=height_px, rgb=smaller.tobytes())


class Sampler:
    """Samples the next token of one answer, constrained by the grammar of `prompt.py`. `close` frees its memory.

    The first attempt at an answer is greedy: the most probable token is taken. An answer that is refused is generated
    again with a `seed`: its tokens are sampled randomly. Checking one token against the grammar takes 0.01 ms, checking
    the whole vocabulary 8 to 29 ms. So a token is sampled without the grammar first; only if the grammar rejects it is
    the whole vocabulary checked.

    Raises: ModelUnusable, if llama.cpp can't parse the grammar.
    """

    def __init__(self, llama: Any, vocabulary: Any, seed: int | None) -> None:
        self._llama = llama
        self._random = seed is not None
        self._unconstrained = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
        if seed is None:
            llama.llama_sampler_chain_add(self._unconstrained, llama.llama_sampler_init_greedy())
        else:
            # the settings that Qwen3-VL recommends
            llama.llama_sampler_chain_add(self._unconstrained, llama.llama_sampler_init_top_k(40))
            llama.llama_sampler_chain_add(self._unconstrained, llama.llama_sampler_init_top_p(0.8, 1))
            llama.llama_sampler_chain_add(self._unconstrained, llama.llama_sampler_init_temp(0.7))
            llama.llama_sampler_chain_add(self._unconstrained, llama.llama_sampler_init_dist(seed))
        self._grammar = llama.llama_sampler_init_grammar(vocabulary, GRAMMAR.encode(), b"root")
        if not self._grammar:
            # a NULL sampler in a chain would abort the process
            llama.llama_sampler_free(self._unconstrained)
            raise ModelUnusable(
                "llama.cpp can't parse the grammar of the answer. Install the version of llama-cpp-python that"
                " requirements-vision.lock names."
            )
        self._constrained = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
        llama.llama_sampler_chain_add(self._constrained, self._grammar)
        llama.llama_sampler_chain_add(self._constrained, llama.llama_sampler_init_greedy())
        self._single = (llama.llama_token_data * 1)()

    def next_token(self, context: Any, row: int) -> int:
        """Sample and accept the token that follows row `row` of the last batch.

        Raises: ModelUnusable, if the model computed NaN.
        """
        llama = self._llama
        for _ in range(8 if self._random else 1):
            token = int(llama.llama_sampler_sample(self._unconstrained, context, row))
            # if one logit is NaN, all are, and the sampler of the grammar would abort the process
            if not math.isfinite(llama.llama_get_logits_ith(context, row)[token]):
                raise ModelUnusable(
                    "The model computed NaN instead of numbers: its weights are damaged, or don't work on this machine"
                    " or with this picture. Run `imgproc-local models verify`, or choose another model."
                )
            if self._is_allowed(token):
                llama.llama_sampler_accept(self._grammar, token)
                return token
        # this call also updates the state of `_grammar`, which is in the chain: no llama_sampler_accept is needed
        return int(llama.llama_sampler_sample(self._constrained, context, row))

    def _is_allowed(self, token: int) -> bool:
        """Whether the grammar allows `token` as the next one."""
        self._single[0] = self._llama.llama_token_data(id=token, logit=1.0, p=0.0)
        candidates = self._llama.llama_token_data_array(data=self._single, size=1, selected=-1, sorted=False)
        self._llama.llama_sampler_apply(self._grammar, ctypes.byref(candidates))
        return bool(self._single[0].logit > 0)

    def close(self) -> None:
        self._llama.llama_sampler_free(self._unconstrained)
        # this also frees the grammar, which the chain owns
        self._llama.llama_sampler_free(self._constrained)
