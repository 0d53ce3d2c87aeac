"""Writes a checkpoint as two GGUF files for llama.cpp, the text model and the vision encoder with its projector.
`read_network` reads such files.

    python -m models.tiny.export .build/tiny/checkpoint.pt

Matrices are stored as f16 and everything else as f32, because llama.cpp's quantised types need longer rows.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gguf
import numpy as np
import torch
from torch import Tensor

from models.tiny import network as net
from models.tiny import tokens

TEXT_FILE = "tiny-text.gguf"
MMPROJ_FILE = "tiny-mmproj.gguf"

_TEXT_LAYER = {
    "norm1": "attn_norm", "norm2": "ffn_norm", "query": "attn_q", "key": "attn_k", "value": "attn_v",
    "out": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down",
}  # fmt: skip
_ENCODER_LAYER = {
    "norm1": "ln1", "norm2": "ln2", "query": "attn_q", "key": "attn_k", "value": "attn_v",
    "out": "attn_out", "up": "ffn_up", "down": "ffn_down",
}  # fmt: skip
_TEXT = {"embedding.weight": "token_embd.weight", "norm.weight": "output_norm.weight"}
_ENCODER = {
    "patch": "v.patch_embd", "position": "v.position_embd.weight", "norm": "v.post_ln",
    "project1": "mm.0", "project2": "mm.1",
}  # fmt: skip
"""These four map the names of tensors in the network to those in the files.

Source: llama.cpp, gguf-py `MODEL_TENSORS` and tools/mtmd/clip-impl.h."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a checkpoint as GGUF files.")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent, help="folder of the two files")
    args = parser.parse_args()
    vocabulary = tokens.read_vocabulary(args.checkpoint.parent / tokens.VOCABULARY_FILE)
    network = net.Network(len(vocabulary.tokens))
    network.load_state_dict(torch.load(args.checkpoint))
    write_text(network.text_model, vocabulary, args.folder / TEXT_FILE)
    write_mmproj(network.encoder, args.folder / MMPROJ_FILE)
    for name in (TEXT_FILE, MMPROJ_FILE):
        print(f"{args.folder / name}: {(args.folder / name).stat().st_size} bytes")


def read_network(folder: Path) -> tuple[net.Network, tokens.Vocabulary]:
    """The network and the vocabulary in the two files. The classifiers of the auxiliary tasks are random."""
    vocabulary = tokens.read_vocabulary(folder / TEXT_FILE)
    network = net.Network(len(vocabulary.tokens))
    _read(network.text_model, folder / TEXT_FILE, _TEXT, "blk", _TEXT_LAYER)
    _read(network.encoder, folder / MMPROJ_FILE, _ENCODER, "v.blk", _ENCODER_LAYER)
    return network, vocabulary


def _read(part: torch.nn.Module, path: Path, outer: dict[str, str], block: str, inner: dict[str, str]) -> None:
    tensors = {tensor.name: tensor.data for tensor in gguf.GGUFReader(path).tensors}
    state = part.state_dict()
    for name, weights in state.items():
        stored = torch.from_numpy(np.array(tensors[_renamed(name, outer, block, inner)]))
        weights.copy_(stored.reshape(weights.shape))


def write_text(text_model: net.TextModel, vocabulary: tokens.Vocabulary, path: Path) -> None:
    """Write the text model with its vocabulary to `path`."""
    file = gguf.GGUFWriter(_part(path), "llama")
    _add_general_metadata(file, "imgproc-local tiny")
    sizes = net.TEXT_MODEL
    file.add_context_length(tokens.CONTEXT_TOKENS)
    file.add_embedding_length(sizes.width)
    file.add_block_count(sizes.layers)
    file.add_feed_forward_length(sizes.hidden)
    file.add_head_count(sizes.heads)
    file.add_head_count_kv(sizes.heads)
    file.add_layer_norm_rms_eps(net.RMS_NORM_EPS)
    file.add_rope_dimension_count(sizes.width // sizes.heads)
    file.add_rope_freq_base(net.ROPE_BASE)
    tokens.write_vocabulary(file, vocabulary)
    for name, weights in text_model.state_dict().items():
        _add(file, _renamed(name, _TEXT, "blk", _TEXT_LAYER), weights)
    _write(file, path)


def write_mmproj(encoder: net.VisionEncoder, path: Path) -> None:
    """Write the vision encoder and its projector to `path`."""
    file = gguf.GGUFWriter(_part(path), "clip")
    _add_general_metadata(file, "imgproc-local tiny, vision encoder")
    sizes = net.ENCODER
    file.add_bool("clip.has_vision_encoder", True)
    file.add_string("clip.projector_type", "janus_pro")
    file.add_bool("clip.use_gelu", True)
    for key, number in (
        ("image_size", net.IMAGE_PX),
        ("patch_size", net.PATCH_PX),
        ("embedding_length", sizes.width),
        ("feed_forward_length", sizes.hidden),
        ("block_count", sizes.layers),
        ("attention.head_count", sizes.heads),
        ("projection_dim", net.TEXT_MODEL.width),
    ):
        file.add_uint32(f"clip.vision.{key}", number)
    file.add_float32("clip.vision.attention.layer_norm_epsilon", net.LAYER_NORM_EPS)
    file.add_array("clip.vision.image_mean", [0.5] * 3)
    file.add_array("clip.vision.image_std", [0.5] * 3)
    for name, weights in encoder.state_dict().items():
        _add(file, _renamed(name, _ENCODER, "v.blk", _ENCODER_LAYER), weights)
    _write(file, path)


def _add_general_metadata(file: gguf.GGUFWriter, name: str) -> None:
    file.add_name(name)
    file.add_license("apache-2.0")
    file.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    file.add_quantization_version(gguf.GGML_QUANT_VERSION)


def _renamed(name: str, outer: dict[str, str], block: str, inner: dict[str, str]) -> str:
    """The name in the file of the tensor `name`: `blk.2.attn_q.weight` for `layers.2.query.weight`.

    `block` and `inner` are the names for tensors of layers, `outer` those for all other tensors.
    """
    if name.startswith("layers."):
        _, index, part, kind = name.split(".")
        return f"{block}.{index}.{inner[part]}.{kind}"
    if name in outer:
        return outer[name]
    part, kind = name.split(".")
    return f"{outer[part]}.{kind}"


def _add(file: gguf.GGUFWriter, name: str, weights: Tensor) -> None:
    # position embeddings are a matrix, but llama.cpp requires f32 for them
    dtype = np.float32 if weights.ndim < 2 or "position" in name else np.float16
    file.add_tensor(name, weights.float().numpy().astype(dtype))


def _part(path: Path) -> Path:
    """The temporary file that is renamed to `path` when it is complete."""
    return path.with_suffix(".part")


def _write(file: gguf.GGUFWriter, path: Path) -> None:
    """Write the file and replace `path` by it atomically, because a process may be using it."""
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    _part(path).replace(path)


if __name__ == "__main__":
    main()
