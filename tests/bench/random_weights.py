"""Writes models with the architecture of known models and random weights, which cost as much but write no useful text.

Tokens that are not plain letters get small output weights, because a trained model rarely chooses them instead of a
word. So the grammar refuses about as many tokens as with a trained model. The vocabularies are those of llama.cpp's own
tests.

`python -m tests.bench.random_weights FOLDER VOCABULARIES [--model NAME]`, where VOCABULARIES is `models` of
llama.cpp's source (`vendor/llama.cpp/models` in the sdist of llama-cpp-python). Needs the package `gguf`.

Source of the sizes: the models' `config.json` as llama.cpp's conversion reads them; a written pair is within 3 % of
the published one in bytes.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import re
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, TokenType
from msgspec import Struct
from numpy.typing import NDArray

Weights = NDArray[np.float32]

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}"
    "{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPREAD = 0.02
NON_LETTER_WEIGHT = 0.2
"""Output weight of a token that is not plain letters, relative to the others."""
LETTERS = re.compile("[a-z]+")
POOL = 1 << 22
"""Number of random values that are drawn once and reused: a model has hundreds of times as many weights."""
TURNS = ("<|im_start|>", "<|im_end|>")


class TextSize(Struct, frozen=True):
    architecture: str
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    feed_forward: int
    tokens: int
    vocabulary: str
    rope_base: float
    norm_epsilon: float
    context: int
    tied: bool = False
    """The output shares the weights of the embedding."""
    normed_heads: bool = False
    rope_sections: tuple[int, ...] = ()
    deep_layers: int = 0
    """Number of first layers that receive picture features directly (deepstack)."""


class VisionSize(Struct, frozen=True):
    projector: str
    width: int
    layers: int
    heads: int
    feed_forward: int
    picture_px: int
    patch_px: int
    merged: int
    """Patches per side that are merged into one token."""
    longest_px: int = 0
    """Longer side that a picture is scaled to before it is cut into tiles of `picture_px`. 0: no tiles."""
    deep_layers: tuple[int, ...] = ()


class Size(Struct, frozen=True):
    text: TextSize
    vision: VisionSize
    quantization: str
    specials: tuple[str, ...]


_TILES = tuple(f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7))
_SMOL_TOKENS = ("<end_of_utterance>", "<fake_token_around_image>", "<global-img>", "<image>", *_TILES)
_SIGLIP = VisionSize("idefics3", 768, 12, 12, 3072, picture_px=512, patch_px=16, merged=4, longest_px=2048)


def _smol(width: int, layers: int, heads: int, kv_heads: int, feed_forward: int) -> Size:
    text = TextSize(
        "llama", width, layers, heads, kv_heads, 64, feed_forward, 49280, "starcoder", 100_000.0, 1e-5, context=8192
    )
    return Size(text, _SIGLIP, "q8_0", _SMOL_TOKENS)


SIZES = {
    "smolvlm-256m": _smol(576, 30, 9, 3, 1536),
    "smolvlm-500m": _smol(960, 32, 15, 5, 2560),
    "qwen3-vl-2b": Size(
        TextSize(
            "qwen3vl", 2048, 28, 16, 8, 128, 6144, 151_936, "qwen2", 5_000_000.0, 1e-6,
            context=32_768, tied=True, normed_heads=True, rope_sections=(24, 20, 20, 0), deep_layers=3,
        ),
        VisionSize(
            "qwen3vl_merger", 1024, 24, 16, 4096, picture_px=768, patch_px=16, merged=2, deep_layers=(5, 11, 17)
        ),
        "q4_k_m",
        ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>"),
    ),
}  # fmt: skip


def text_path(folder: Path, name: str) -> Path:
    return folder / f"{name}-text-{SIZES[name].quantization}.gguf"


def mmproj_path(folder: Path, name: str) -> Path:
    return folder / f"{name}-mmproj-q8_0.gguf"


class _Writer:
    """Writes a GGUF file whose weights come from `POOL` random numbers."""

    def __init__(self, path: Path, architecture: str) -> None:
        self.keys = GGUFWriter(path, architecture)
        self._source = np.random.default_rng(0)
        self._pool = self._source.standard_normal(POOL, dtype=np.float32) * np.float32(SPREAD)

    def _random(self, *shape: int) -> Weights:
        rolled = np.roll(self._pool, int(self._source.integers(POOL)))
        return np.resize(rolled, math.prod(shape)).reshape(shape)

    def half(self, name: str, *shape: int, scale: Weights | None = None) -> None:
        weights = self._random(*shape)
        self.keys.add_tensor(f"{name}.weight", (weights if scale is None else weights * scale).astype(np.float16))

    def eighth(self, name: str, *shape: int) -> None:
        weights = gguf.quants.quantize(self._random(*shape), GGMLQuantizationType.Q8_0)
        self.keys.add_tensor(f"{name}.weight", weights, raw_dtype=GGMLQuantizationType.Q8_0)

    def full(self, name: str, *shape: int) -> None:
        self.keys.add_tensor(name, self._random(*shape))

    def constant(self, name: str, value: float, length: int) -> None:
        self.keys.add_tensor(name, np.full(length, value, np.float32))

    def norm(self, name: str, length: int) -> None:
        self.constant(f"{name}.weight", 1, length)
        self.constant(f"{name}.bias", 0, length)

    def close(self) -> None:
        self.keys.write_header_to_file()
        self.keys.write_kv_data_to_file()
        self.keys.write_tensors_to_file()
        self.keys.close()


def _vocabulary(file: Path, specials: tuple[str, ...], size: int) -> tuple[list[str], list[int], GGUFReader]:
    """`size` tokens and their types: those of `file`; `specials` replace the last ones if they are not among them."""
    reader = GGUFReader(file)
    tokens: list[str] = reader.fields["tokenizer.ggml.tokens"].contents()
    kinds: list[int] = reader.fields["tokenizer.ggml.token_type"].contents()
    free = [place for place, kind in enumerate(kinds) if kind == TokenType.UNUSED]
    for special in specials:
        if special in tokens:
            kinds[tokens.index(special)] = TokenType.CONTROL
        elif len(tokens) < size:
            tokens.append(special)
            kinds.append(TokenType.CONTROL)
        else:
            place = free.pop() if free else max(n for n, kind in enumerate(kinds) if kind != TokenType.CONTROL)
            tokens[place], kinds[place] = special, TokenType.CONTROL
    while len(tokens) < size:
        tokens.append(f"<unused_{len(tokens)}>")
        kinds.append(TokenType.UNUSED)
    return tokens, kinds, reader


def write_text(path: Path, size: Size, vocabularies: Path) -> None:
    """Write the text model in half precision."""
    text = size.text
    file = vocabularies / f"ggml-vocab-{text.vocabulary}.gguf"
    tokens, kinds, known = _vocabulary(file, TURNS + size.specials, text.tokens)
    writer = _Writer(path, text.architecture)
    keys = writer.keys
    keys.add_name(path.stem)
    keys.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    keys.add_context_length(text.context)
    keys.add_embedding_length(text.width)
    keys.add_block_count(text.layers)
    keys.add_feed_forward_length(text.feed_forward)
    keys.add_head_count(text.heads)
    keys.add_head_count_kv(text.kv_heads)
    keys.add_key_length(text.head_width)
    keys.add_value_length(text.head_width)
    keys.add_layer_norm_rms_eps(text.norm_epsilon)
    keys.add_rope_dimension_count(text.head_width)
    keys.add_rope_freq_base(text.rope_base)
    if text.rope_sections:
        keys.add_rope_dimension_sections(list(text.rope_sections))
        keys.add_num_deepstack_layers(text.deep_layers)
    keys.add_vocab_size(text.tokens)
    keys.add_tokenizer_model("gpt2")
    keys.add_tokenizer_pre(known.fields["tokenizer.ggml.pre"].contents())
    keys.add_token_list(tokens)
    keys.add_token_types(kinds)
    keys.add_token_merges(known.fields["tokenizer.ggml.merges"].contents())
    keys.add_bos_token_id(tokens.index("<|im_start|>"))
    keys.add_eos_token_id(tokens.index("<|im_end|>"))
    keys.add_add_bos_token(False)
    keys.add_chat_template(CHAT_TEMPLATE)

    scale = np.array([[1.0 if LETTERS.fullmatch(token) else NON_LETTER_WEIGHT] for token in tokens], np.float32)
    writer.half("token_embd", text.tokens, text.width, scale=scale if text.tied else None)
    if not text.tied:
        writer.half("output", text.tokens, text.width, scale=scale)
    writer.constant("output_norm.weight", 1, text.width)
    inner, kv = text.heads * text.head_width, text.kv_heads * text.head_width
    for layer in range(text.layers):
        block = f"blk.{layer}."
        writer.constant(f"{block}attn_norm.weight", 1, text.width)
        writer.constant(f"{block}ffn_norm.weight", 1, text.width)
        writer.half(f"{block}attn_q", inner, text.width)
        writer.half(f"{block}attn_k", kv, text.width)
        writer.half(f"{block}attn_v", kv, text.width)
        writer.half(f"{block}attn_output", text.width, inner)
        writer.half(f"{block}ffn_gate", text.feed_forward, text.width)
        writer.half(f"{block}ffn_up", text.feed_forward, text.width)
        writer.half(f"{block}ffn_down", text.width, text.feed_forward)
        if text.normed_heads:
            writer.constant(f"{block}attn_q_norm.weight", 1, text.head_width)
            writer.constant(f"{block}attn_k_norm.weight", 1, text.head_width)
    writer.close()


def write_mmproj(path: Path, size: Size) -> None:
    """Write the vision encoder and its projector with 8 bits per weight."""
    vision, width, token = size.vision, size.vision.width, size.text.width
    writer = _Writer(path, "clip")
    keys = writer.keys
    keys.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    keys.add_quantization_version(gguf.GGML_QUANT_VERSION)
    keys.add_clip_has_vision_encoder(True)
    keys.add_clip_projector_type(vision.projector)
    keys.add_vision_use_gelu(True)
    keys.add_vision_image_size(vision.picture_px)
    keys.add_vision_patch_size(vision.patch_px)
    keys.add_vision_embedding_length(width)
    keys.add_vision_feed_forward_length(vision.feed_forward)
    keys.add_vision_block_count(vision.layers)
    keys.add_vision_head_count(vision.heads)
    keys.add_vision_projection_dim(token)
    keys.add_vision_attention_layernorm_eps(1e-6)
    keys.add_vision_image_mean([0.5] * 3)
    keys.add_vision_image_std([0.5] * 3)

    writer.full("v.patch_embd.weight", width, 3, vision.patch_px, vision.patch_px)
    writer.constant("v.patch_embd.bias", 0, width)
    writer.full("v.position_embd.weight", (vision.picture_px // vision.patch_px) ** 2, width)
    writer.norm("v.post_ln", width)
    inward = ("attn_qkv",) if vision.deep_layers else ("attn_q", "attn_k", "attn_v")
    for layer in range(vision.layers):
        block = f"v.blk.{layer}."
        writer.norm(f"{block}ln1", width)
        writer.norm(f"{block}ln2", width)
        for name, to, of in (
            *((name, 3 * width // len(inward), width) for name in inward),
            ("attn_out", width, width),
            ("ffn_up", vision.feed_forward, width),
            ("ffn_down", width, vision.feed_forward),
        ):
            writer.eighth(block + name, to, of)
            writer.constant(f"{block}{name}.bias", 0, to)

    merged = width * vision.merged**2
    if vision.longest_px:
        keys.add_vision_projector_scale_factor(vision.merged)
        keys.add_vision_preproc_image_size(vision.longest_px)
        writer.eighth("mm.model.fc", token, merged)
    if vision.deep_layers:
        keys.add_vision_spatial_merge_size(vision.merged)
        keys.add_vision_is_deepstack_layers([layer in vision.deep_layers for layer in range(vision.layers)])
        writer.full("v.patch_embd.weight.1", width, 3, vision.patch_px, vision.patch_px)
        _merger(writer, ("mm.0", "mm.2"), merged, token)
        for layer in vision.deep_layers:
            block = f"v.deepstack.{layer}."
            writer.norm(f"{block}norm", merged)
            _merger(writer, (f"{block}fc1", f"{block}fc2"), merged, token)
    writer.close()


def _merger(writer: _Writer, names: tuple[str, str], merged: int, token: int) -> None:
    for name, to in zip(names, (merged, token), strict=True):
        writer.eighth(name, to, merged)
        writer.constant(f"{name}.bias", 0, to)


def quantize(source: Path, target: Path, quantization: str) -> None:
    """Quantize a text model with llama.cpp."""
    from llama_cpp import llama_cpp as low

    params = low.llama_model_quantize_default_params()
    params.ftype = {"q8_0": low.LLAMA_FTYPE_MOSTLY_Q8_0, "q4_k_m": low.LLAMA_FTYPE_MOSTLY_Q4_K_M}[quantization]
    if low.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params)):
        raise SystemExit(f"{source} could not be quantized to {quantization}.")


def write_pair(folder: Path, name: str, vocabularies: Path) -> None:
    """Write both files of the model to `folder`."""
    size = SIZES[name]
    half = folder / f"{name}-text-f16.gguf"
    write_text(half, size, vocabularies)
    quantize(half, text_path(folder, name), size.quantization)
    half.unlink()
    write_mmproj(mmproj_path(folder, name), size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("vocabularies", type=Path, help="`models` of llama.cpp's source")
    parser.add_argument("--model", choices=SIZES, action="append", help="only these")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.model or SIZES:
        write_pair(arguments.folder, name, arguments.vocabularies)
        for path in (text_path(arguments.folder, name), mmproj_path(arguments.folder, name)):
            print(f"{path.stat().st_size:>13,}  {path.name}")


if __name__ == "__main__":
    main()
