"""Writes a small model with random weights for an architecture in the catalogue, with all its kinds of layer.

Gemma 4 (E2B), Qwen3-VL, Qwen3.5, Gemma 3 and SmolVLM2 are written. They are in one file because they share vocabulary,
attention and vision encoder; each also has tensors of its own.

The weights are large, so that attention selects few tokens and each token written depends on the picture, on the
positions and on all tokens before it. The vocabularies are the beginnings of those of llama.cpp's own tests.

Needs the package `gguf`. Source of tensors and keys: llama.cpp, `src/models/*.cpp`, `tools/mtmd/clip.cpp` and
`conversion/*.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import gguf
import numpy as np
from gguf import GGUFReader, GGUFWriter, TokenType

from tests.bench.random_weights import CHAT_TEMPLATE, LETTERS, NON_LETTER_WEIGHT

FIRST_TOKENS = 2500
"""Number of tokens of the vocabulary; the characters and special tokens at its end are added."""
WIDTH, HEADS, KV_HEADS, HEAD_WIDTH, FEED_FORWARD = 128, 4, 2, 64, 256
ATTENTION_GAIN = 2.0
"""Factor of queries and keys: attention then selects few tokens instead of averaging all of them."""
LOGIT_SPREAD = 10.0
"""Standard deviation of the logits, so that few tokens are equally probable."""
VISION_WIDTH, VISION_LAYERS, VISION_HEADS, VISION_FEED_FORWARD = 96, 2, 2, 192

CHATML_TOKENS = ("<|im_start|>", "<|im_end|>")
QWEN_TOKENS = (*CHATML_TOKENS, "<|vision_start|>", "<|vision_end|>", "<|image_pad|>")
TILE_TOKENS = tuple(f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7))
SMOL_TOKENS = (
    *CHATML_TOKENS, "<end_of_utterance>", "<fake_token_around_image>", "<global-img>", "<image>", *TILE_TOKENS,
)  # fmt: skip
GEMMA3_TOKENS = ("<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>")
GEMMA3_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<start_of_turn>{{ message['role'] }}\n{{ message['content'] }}"
    "<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
GEMMA4_TOKENS = ("<|turn>", "<turn|>", "<|image>", "<image|>")
GEMMA4_WIDTH = 1536
"""The width of E2B: by it llama.cpp recognises that a picture is processed causally."""
GEMMA4_SWA_HEAD_WIDTH, GEMMA4_LAYER_INPUT = 32, 16
GEMMA4_SLIDING = (True, True, False, True, False, True, True, False)
"""Which layers have a sliding window."""
GEMMA4_SHARED_LAYERS = 3
"""The last layers, which use the keys and values of the last layer before them that is of their kind."""
GEMMA_CHARACTERS = range(236_743, 237_500)
"""The tokens of gemma-4's vocabulary that are single characters, of which the merges consist."""


class Small(NamedTuple):
    """How the pair of an architecture is written. The first of `specials` begin and end a turn."""

    entry: str
    architecture: str
    vocabulary: str
    specials: tuple[str, ...]
    template: str
    layers: int
    write_layers: Callable[[_Tensors, Small], None]
    write_vision: Callable[[_Tensors, Small], None]
    rope_sections: tuple[int, ...] = ()
    width: int = WIDTH
    token_spread: float = 1


class _Tensors:
    """A GGUF file whose weights are random with a seed."""

    def __init__(self, path: Path, architecture: str) -> None:
        self.keys = GGUFWriter(path, architecture)
        self._random = np.random.default_rng(0)

    def random(self, name: str, *shape: int, spread: float) -> None:
        self.keys.add_tensor(name, self._random.standard_normal(shape, dtype=np.float32) * np.float32(spread))

    def matrix(self, name: str, outputs: int, inputs: int, gain: float = 1) -> None:
        """Weights with which the outputs have the spread of the inputs, times `gain`."""
        self.random(f"{name}.weight", outputs, inputs, spread=gain / math.sqrt(inputs))

    def rows(self, name: str, scales: Sequence[float], columns: int, spread: float) -> None:
        """A row per token, in half precision because these are most of the file."""
        weights = self._random.standard_normal((len(scales), columns), dtype=np.float32)
        weights *= np.array(scales, np.float32)[:, None] * np.float32(spread)
        self.keys.add_tensor(f"{name}.weight", weights.astype(np.float16))

    def constant(self, name: str, value: float, length: int) -> None:
        self.keys.add_tensor(name, np.full(length, value, np.float32))

    def scales(self, length: int, *names: str, value: float = 1) -> None:
        for name in names:
            self.constant(f"{name}.weight", value, length)

    def norm(self, name: str, length: int) -> None:
        self.constant(f"{name}.weight", 1, length)
        self.constant(f"{name}.bias", 0, length)

    def linear(self, name: str, outputs: int, inputs: int) -> None:
        self.matrix(name, outputs, inputs)
        self.constant(f"{name}.bias", 0, outputs)

    def close(self) -> None:
        self.keys.write_header_to_file()
        self.keys.write_kv_data_to_file()
        self.keys.write_tensors_to_file()
        self.keys.close()


def write_small_pair(folder: Path, small: Small, vocabularies: Path) -> tuple[Path, Path]:
    """Write both files, and return their paths: the text model and the vision encoder."""
    text_path, mmproj_path = folder / f"{small.entry}-text.gguf", folder / f"{small.entry}-mmproj.gguf"
    _write_text(text_path, small, vocabularies)
    _write_mmproj(mmproj_path, small)
    return text_path, mmproj_path


def _write_text(path: Path, small: Small, vocabularies: Path) -> None:
    tensors = _Tensors(path, small.architecture)
    keys, width = tensors.keys, small.width
    keys.add_file_type(gguf.LlamaFileType.ALL_F32)
    keys.add_context_length(8192)
    keys.add_embedding_length(width)
    keys.add_block_count(small.layers)
    keys.add_feed_forward_length(FEED_FORWARD)
    keys.add_head_count(HEADS)
    keys.add_head_count_kv(KV_HEADS)
    keys.add_key_length(HEAD_WIDTH)
    keys.add_value_length(HEAD_WIDTH)
    keys.add_layer_norm_rms_eps(1e-6)
    keys.add_rope_freq_base(1_000_000.0)
    if small.rope_sections:
        keys.add_rope_dimension_sections(list(small.rope_sections))
    tokens = _write_vocabulary(tensors, small, vocabularies)
    letters = [1.0 if LETTERS.fullmatch(token.lstrip("Ġ▁")) else NON_LETTER_WEIGHT for token in tokens]
    tensors.rows("token_embd", [1.0] * len(tokens), width, small.token_spread)
    tensors.rows("output", letters, width, LOGIT_SPREAD / math.sqrt(width))
    tensors.scales(width, "output_norm")
    if small.architecture == "gemma4":
        tensors.rows("per_layer_token_embd", [1.0] * len(tokens), GEMMA4_LAYER_INPUT * small.layers, 0.25)
    small.write_layers(tensors, small)
    tensors.close()


def _write_vocabulary(tensors: _Tensors, small: Small, vocabularies: Path) -> list[str]:
    """Write the beginning of a vocabulary, with the merges that remain possible, and return its tokens."""
    keys = tensors.keys
    reader = GGUFReader(vocabularies / f"ggml-vocab-{small.vocabulary}.gguf")
    fields = {name.removeprefix("tokenizer.ggml."): field for name, field in reader.fields.items()}
    all_tokens: list[str] = fields["tokens"].contents()
    all_kinds: list[int] = fields["token_type"].contents()
    is_gemma = small.vocabulary == "gemma-4"
    numbers = [number for number in range(FIRST_TOKENS) if not all_tokens[number].startswith("<unused")]
    numbers += GEMMA_CHARACTERS if is_gemma else ()
    kinds = {all_tokens[number]: all_kinds[number] for number in numbers}
    if not is_gemma:
        kinds.setdefault("ĊĊ", TokenType.NORMAL)
    kinds |= dict.fromkeys(small.specials, TokenType.CONTROL)
    tokens = list(kinds)
    pairs = (merge.split(" ") for merge in fields["merges"].contents())
    merges = [f"{pair[0]} {pair[1]}" for pair in pairs if len(pair) == 2 and {*pair, "".join(pair)} <= kinds.keys()]
    keys.add_vocab_size(len(tokens))
    keys.add_tokenizer_model("gemma4" if is_gemma else "gpt2")
    keys.add_tokenizer_pre("gemma4" if is_gemma else fields["pre"].contents())
    keys.add_token_list(tokens)
    keys.add_token_types(list(kinds.values()))
    keys.add_token_merges(merges)
    keys.add_bos_token_id(tokens.index("<bos>" if is_gemma else small.specials[0]))
    keys.add_eos_token_id(tokens.index(small.specials[1]))
    keys.add_add_bos_token(is_gemma)
    if is_gemma:
        keys.add_token_scores([0.0] * len(tokens))
        keys.add_unk_token_id(tokens.index("<unk>"))
        keys.add_add_space_prefix(False)
    keys.add_chat_template(small.template)
    return tokens


def _attention(tensors: _Tensors, block: str, width: int, *, gated: bool = False, head_norm: float = 0) -> None:
    """The attention of a layer. `head_norm` is the weight of the norms of queries and keys, 0 without them."""
    inner, kv = HEADS * HEAD_WIDTH, KV_HEADS * HEAD_WIDTH
    gain = 1 if head_norm else ATTENTION_GAIN
    tensors.matrix(f"{block}attn_q", 2 * inner if gated else inner, width, gain)
    tensors.matrix(f"{block}attn_k", kv, width, gain)
    tensors.matrix(f"{block}attn_v", kv, width)
    tensors.matrix(f"{block}attn_output", width, inner)
    if head_norm:
        tensors.scales(HEAD_WIDTH, f"{block}attn_q_norm", f"{block}attn_k_norm", value=head_norm)


def _feed_forward(tensors: _Tensors, block: str, width: int) -> None:
    tensors.matrix(f"{block}ffn_gate", FEED_FORWARD, width)
    tensors.matrix(f"{block}ffn_up", FEED_FORWARD, width)
    tensors.matrix(f"{block}ffn_down", width, FEED_FORWARD)


def _llama_layers(tensors: _Tensors, small: Small) -> None:
    tensors.keys.add_rope_dimension_count(HEAD_WIDTH)
    for layer in range(small.layers):
        block = f"blk.{layer}."
        tensors.scales(WIDTH, f"{block}attn_norm", f"{block}ffn_norm")
        _attention(tensors, block, WIDTH)
        _feed_forward(tensors, block, WIDTH)


def _qwen3vl_layers(tensors: _Tensors, small: Small) -> None:
    tensors.keys.add_rope_dimension_count(HEAD_WIDTH)
    tensors.keys.add_num_deepstack_layers(1)
    for layer in range(small.layers):
        block = f"blk.{layer}."
        tensors.scales(WIDTH, f"{block}attn_norm", f"{block}ffn_norm")
        _attention(tensors, block, WIDTH, head_norm=ATTENTION_GAIN)
        _feed_forward(tensors, block, WIDTH)


def _gemma3_layers(tensors: _Tensors, small: Small) -> None:
    keys = tensors.keys
    keys.add_rope_dimension_count(HEAD_WIDTH)
    # shorter than the prompt, so that the window matters
    keys.add_sliding_window(128)
    for layer in range(small.layers):
        block = f"blk.{layer}."
        tensors.scales(WIDTH, f"{block}attn_norm", f"{block}post_attention_norm")
        tensors.scales(WIDTH, f"{block}ffn_norm", f"{block}post_ffw_norm")
        _attention(tensors, block, WIDTH, head_norm=ATTENTION_GAIN)
        _feed_forward(tensors, block, WIDTH)


def _gemma4_layers(tensors: _Tensors, small: Small) -> None:
    """Layers with and without a window, with heads of their own sizes; the last ones share keys and values. Each layer
    also has an embedding of the token.
    """
    keys, width, per_layer = tensors.keys, small.width, GEMMA4_LAYER_INPUT
    # shorter than the prompt, so that the window matters
    keys.add_sliding_window(128)
    keys.add_sliding_window_pattern(GEMMA4_SLIDING)
    keys.add_shared_kv_layers(GEMMA4_SHARED_LAYERS)
    keys.add_key_length_swa(GEMMA4_SWA_HEAD_WIDTH)
    keys.add_value_length_swa(GEMMA4_SWA_HEAD_WIDTH)
    keys.add_rope_dimension_count(HEAD_WIDTH)
    keys.add_rope_dimension_count_swa(GEMMA4_SWA_HEAD_WIDTH)
    keys.add_rope_freq_base_swa(10_000.0)
    keys.add_embedding_length_per_layer_input(per_layer)
    keys.add_final_logit_softcapping(30.0)
    # in layers without a window a quarter of each head is rotated
    rotated = HEAD_WIDTH // 8
    factors = [1.0] * rotated + [1e30] * (HEAD_WIDTH // 2 - rotated)
    keys.add_tensor("rope_freqs.weight", np.array(factors, np.float32))
    tensors.matrix("per_layer_model_proj", per_layer * small.layers, width)
    tensors.scales(per_layer, "per_layer_proj_norm")
    for layer, is_sliding in enumerate(GEMMA4_SLIDING):
        block = f"blk.{layer}."
        head = GEMMA4_SWA_HEAD_WIDTH if is_sliding else HEAD_WIDTH
        tensors.scales(width, f"{block}attn_norm", f"{block}post_attention_norm")
        tensors.scales(width, f"{block}ffn_norm", f"{block}post_ffw_norm", f"{block}post_norm")
        tensors.matrix(f"{block}attn_q", HEADS * head, width)
        tensors.matrix(f"{block}attn_output", width, HEADS * head)
        # the products of queries and keys are not divided by the root of the width
        norms = [f"{block}attn_q_norm"]
        if layer < small.layers - GEMMA4_SHARED_LAYERS:
            tensors.matrix(f"{block}attn_k", KV_HEADS * head, width)
            tensors.matrix(f"{block}attn_v", KV_HEADS * head, width)
            norms.append(f"{block}attn_k_norm")
        tensors.scales(head, *norms, value=ATTENTION_GAIN / head**0.25)
        _feed_forward(tensors, block, width)
        tensors.matrix(f"{block}inp_gate", per_layer, width)
        tensors.matrix(f"{block}proj", width, per_layer)
        tensors.constant(f"{block}layer_output_scale.weight", 1, 1)


def _qwen35_layers(tensors: _Tensors, small: Small) -> None:
    """Three layers with a recurrent state (gated delta net) and one with attention."""
    keys, width = tensors.keys, WIDTH
    kernel, state, key_heads, value_heads = 4, 32, 2, 4
    keys.add_rope_dimension_count(HEAD_WIDTH // 2)
    keys.add_ssm_conv_kernel(kernel)
    keys.add_ssm_state_size(state)
    keys.add_ssm_group_count(key_heads)
    keys.add_ssm_time_step_rank(value_heads)
    keys.add_ssm_inner_size(state * value_heads)
    keys.add_full_attention_interval(4)
    channels, values = state * (2 * key_heads + value_heads), state * value_heads
    for layer in range(small.layers):
        block = f"blk.{layer}."
        tensors.scales(width, f"{block}attn_norm", f"{block}post_attention_norm")
        if (layer + 1) % 4 == 0:
            _attention(tensors, block, width, gated=True, head_norm=ATTENTION_GAIN)
        else:
            tensors.matrix(f"{block}attn_qkv", channels, width)
            tensors.matrix(f"{block}attn_gate", values, width)
            tensors.random(f"{block}ssm_conv1d.weight", channels, kernel, spread=0.5)
            tensors.constant(f"{block}ssm_dt.bias", 0, value_heads)
            # the state fades over hundreds of tokens: the picture remains in it
            tensors.constant(f"{block}ssm_a", -0.005, value_heads)
            tensors.matrix(f"{block}ssm_beta", value_heads, width)
            tensors.matrix(f"{block}ssm_alpha", value_heads, width)
            tensors.scales(state, f"{block}ssm_norm")
            tensors.matrix(f"{block}ssm_out", width, values)
        _feed_forward(tensors, block, width)


def _write_mmproj(path: Path, small: Small) -> None:
    tensors = _Tensors(path, "clip")
    keys = tensors.keys
    keys.add_file_type(gguf.LlamaFileType.ALL_F32)
    keys.add_clip_has_vision_encoder(True)
    keys.add_vision_embedding_length(VISION_WIDTH)
    keys.add_vision_feed_forward_length(VISION_FEED_FORWARD)
    keys.add_vision_block_count(VISION_LAYERS)
    keys.add_vision_head_count(VISION_HEADS)
    keys.add_vision_projection_dim(small.width)
    keys.add_vision_attention_layernorm_eps(1e-6)
    keys.add_vision_image_mean([0.5] * 3)
    keys.add_vision_image_std([0.5] * 3)
    keys.add_vision_use_gelu(True)
    small.write_vision(tensors, small)
    tensors.close()


def _encoder(
    tensors: _Tensors, projector: str, picture_px: int, patch_px: int, *, inward: Sequence[str] = ("q", "k", "v")
) -> None:
    """A SigLIP encoder: positions per patch, norms with a bias, two matrices per feed-forward network."""
    keys, width = tensors.keys, VISION_WIDTH
    keys.add_clip_projector_type(projector)
    keys.add_vision_image_size(picture_px)
    keys.add_vision_patch_size(patch_px)
    tensors.random("v.patch_embd.weight", width, 3, patch_px, patch_px, spread=1 / patch_px)
    tensors.constant("v.patch_embd.bias", 0, width)
    tensors.random("v.position_embd.weight", (picture_px // patch_px) ** 2, width, spread=0.1)
    tensors.norm("v.post_ln", width)
    for layer in range(VISION_LAYERS):
        block = f"v.blk.{layer}."
        tensors.norm(f"{block}ln1", width)
        tensors.norm(f"{block}ln2", width)
        for name in inward:
            tensors.linear(f"{block}attn_{name}", 3 * width // len(inward), width)
        tensors.linear(f"{block}attn_out", width, width)
        tensors.linear(f"{block}ffn_up", VISION_FEED_FORWARD, width)
        tensors.linear(f"{block}ffn_down", width, VISION_FEED_FORWARD)


def _idefics3(tensors: _Tensors, small: Small) -> None:
    _encoder(tensors, "idefics3", 512, 16)
    tensors.keys.add_vision_projector_scale_factor(4)
    tensors.keys.add_vision_preproc_image_size(2048)
    tensors.matrix("mm.model.fc", WIDTH, VISION_WIDTH * 16)


def _gemma3_vision(tensors: _Tensors, small: Small) -> None:
    # 32 × 32 patches, of which 4 × 4 become a token
    _encoder(tensors, "gemma3", 448, 14)
    tensors.scales(VISION_WIDTH, "mm.soft_emb_norm")
    tensors.random("mm.input_projection.weight", VISION_WIDTH, WIDTH, spread=1 / math.sqrt(VISION_WIDTH))


def _gemma4_vision(tensors: _Tensors, small: Small) -> None:
    """No biases, norms around attention and feed-forward network, positions per row and per column."""
    keys, width, patch_px, head = tensors.keys, VISION_WIDTH, 16, VISION_WIDTH // VISION_HEADS
    keys.add_clip_projector_type("gemma4v")
    keys.add_vision_image_size(224)
    keys.add_vision_patch_size(patch_px)
    tensors.random("v.patch_embd.weight", width, 3, patch_px, patch_px, spread=1 / patch_px)
    tensors.random("v.position_embd.weight", 2, 128, width, spread=0.1)
    for layer in range(VISION_LAYERS):
        block = f"v.blk.{layer}."
        tensors.scales(width, *(f"{block}{name}" for name in ("ln1", "ln2", "attn_post_norm", "ffn_post_norm")))
        tensors.scales(head, f"{block}attn_q_norm", f"{block}attn_k_norm", value=ATTENTION_GAIN / head**0.25)
        for name in ("attn_q", "attn_k", "attn_v", "attn_out"):
            tensors.matrix(f"{block}{name}", width, width)
        tensors.matrix(f"{block}ffn_gate", VISION_FEED_FORWARD, width)
        tensors.matrix(f"{block}ffn_up", VISION_FEED_FORWARD, width)
        tensors.matrix(f"{block}ffn_down", width, VISION_FEED_FORWARD)
    tensors.matrix("mm.input_projection", small.width, width)


def _qwen_vision(tensors: _Tensors, small: Small, deep_layers: Sequence[int]) -> None:
    merged = VISION_WIDTH * 4
    _encoder(tensors, "qwen3vl_merger", 768, 16, inward=("qkv",))
    tensors.keys.add_vision_spatial_merge_size(2)
    tensors.keys.add_vision_is_deepstack_layers([layer in deep_layers for layer in range(VISION_LAYERS)])
    tensors.random("v.patch_embd.weight.1", VISION_WIDTH, 3, 16, 16, spread=1 / 16)
    tensors.linear("mm.0", merged, merged)
    tensors.linear("mm.2", WIDTH, merged)
    for layer in deep_layers:
        block = f"v.deepstack.{layer}."
        tensors.norm(f"{block}norm", merged)
        tensors.linear(f"{block}fc1", merged, merged)
        tensors.linear(f"{block}fc2", WIDTH, merged)


def _qwen3vl_vision(tensors: _Tensors, small: Small) -> None:
    _qwen_vision(tensors, small, deep_layers=(0,))


def _qwen35_vision(tensors: _Tensors, small: Small) -> None:
    _qwen_vision(tensors, small, deep_layers=())


SMALL_MODELS = (
    Small("smolvlm2-500m", "llama", "starcoder", SMOL_TOKENS, CHAT_TEMPLATE, 4, _llama_layers, _idefics3),
    Small(
        "qwen3-vl-4b", "qwen3vl", "qwen2", QWEN_TOKENS, CHAT_TEMPLATE, 4, _qwen3vl_layers, _qwen3vl_vision,
        rope_sections=(12, 10, 10, 0),
    ),
    # every sixth layer has full attention
    Small("gemma-3-4b", "gemma3", "gemma-4", GEMMA3_TOKENS, GEMMA3_TEMPLATE, 6, _gemma3_layers, _gemma3_vision),
    # the embeddings of tokens are multiplied by the root of the width
    Small(
        "gemma-4-e2b", "gemma4", "gemma-4", GEMMA4_TOKENS, GEMMA3_TEMPLATE, len(GEMMA4_SLIDING), _gemma4_layers,
        _gemma4_vision, width=GEMMA4_WIDTH, token_spread=GEMMA4_WIDTH**-0.5,
    ),
    Small(
        "qwen3.5-4b", "qwen35", "qwen35", QWEN_TOKENS, CHAT_TEMPLATE, 8, _qwen35_layers, _qwen35_vision,
        rope_sections=(6, 5, 5, 0),
    ),
)  # fmt: skip
