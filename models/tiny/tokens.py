"""The vocabulary: byte-level BPE, trained on the production prompt and the answers, so that each word is one token.

For training, the vocabulary is written to a GGUF file without weights, so that llama.cpp tokenises as in the service.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import gguf

from imgproc_local.vision.llm import prompt
from models.tiny import scenes
from models.tiny.notes import LABELS

USER = "<|im_start|>user\n"
ASSISTANT = "<|im_end|>\n<|im_start|>assistant\n"
END = "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}"
    "{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONTEXT_TOKENS = 2048
VOCABULARY_FILE = "vocabulary.gguf"

_PADDING, _SPECIAL = "<|endoftext|>", ("<|endoftext|>", "<|im_start|>", END)
_CORPUS_SCENES = 3000

_PIECE = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")
"""The pre-tokenizer of GPT-2. Source: Radford et al. 2019, released code; llama.cpp's `gpt-2`."""


class Vocabulary(NamedTuple):
    """`tokens` are in the order of their ids, `merges` in that of their ranks."""

    tokens: list[str]
    merges: list[tuple[str, str]]


def train_vocabulary() -> Vocabulary:
    """The vocabulary in which every word of the prompt and of the answers is one token."""
    alphabet = _byte_characters()
    words = {tuple(alphabet[byte] for byte in word.encode()): count for word, count in _corpus().items()}
    merges: list[tuple[str, str]] = []
    while pairs := _pairs(words):
        # ties are broken by the pair itself, so that the vocabulary is reproducible
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        words = {_merged(word, best): count for word, count in words.items()}
    tokens = list(dict.fromkeys([*alphabet.values(), *(left + right for left, right in merges)]))
    return Vocabulary([*tokens, *_SPECIAL], merges)


def read_vocabulary(path: Path) -> Vocabulary:
    """The vocabulary in a GGUF file."""
    fields = gguf.GGUFReader(path).fields
    merges = [tuple(pair.split(" ")) for pair in fields["tokenizer.ggml.merges"].contents()]
    return Vocabulary(fields["tokenizer.ggml.tokens"].contents(), merges)


def write_vocabulary(writer: gguf.GGUFWriter, vocabulary: Vocabulary) -> None:
    """Add the metadata of the tokenizer to a GGUF file."""
    tokens, merges = vocabulary
    kinds = [gguf.TokenType.CONTROL if token in _SPECIAL else gguf.TokenType.NORMAL for token in tokens]
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([f"{left} {right}" for left, right in merges])
    writer.add_bos_token_id(tokens.index(_PADDING))
    writer.add_pad_token_id(tokens.index(_PADDING))
    writer.add_eos_token_id(tokens.index(END))
    writer.add_eot_token_id(tokens.index(END))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


class Tokenizer:
    """llama.cpp's tokenizer with `vocabulary`. A file with the vocabulary is written to `folder`."""

    def __init__(self, vocabulary: Vocabulary, folder: Path) -> None:
        from llama_cpp import Llama

        path = folder / VOCABULARY_FILE
        writer = gguf.GGUFWriter(path, "llama")
        for add, value in (
            (writer.add_context_length, CONTEXT_TOKENS), (writer.add_embedding_length, 32), (writer.add_block_count, 1),
            (writer.add_feed_forward_length, 32), (writer.add_head_count, 1), (writer.add_rope_dimension_count, 32),
            (writer.add_layer_norm_rms_eps, 1e-5),
        ):  # fmt: skip
            add(value)
        write_vocabulary(writer, vocabulary)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        self._llama: Any = Llama(str(path), vocab_only=True, verbose=False)
        self.end = self.ids(END)[0]

    def ids(self, text: str) -> list[int]:
        """The ids of the tokens of `text`."""
        ids: list[int] = self._llama.tokenize(text.encode(), add_bos=False, special=True)
        return ids

    def text(self, ids: list[int]) -> str:
        return str(self._llama.detokenize(ids, special=True).decode(errors="replace"))


def _corpus() -> Counter[str]:
    """The weight in training of each piece of text: a word with the space before it, or a punctuation mark."""
    counts: Counter[str] = Counter()
    prompts = [USER, ASSISTANT, prompt.INSTRUCTIONS, prompt.NOTES, prompt.DRAFT, *(f"{label}: " for label in LABELS)]
    prompts += [
        prompt.language_prompt(language, complaint) for language in scenes.LANGUAGES for complaint in ("", "it is")
    ]
    for text in prompts:
        for piece in _PIECE.findall(re.sub(r"<\|\w+\|>", "", text)):
            counts[piece] += 100
    rng = random.Random(1)
    for _ in range(_CORPUS_SCENES):
        scene = scenes.random_scene(rng)
        for language in scenes.LANGUAGES:
            for piece in _PIECE.findall(scenes.to_json(scenes.reference_answer(scene, language))):
                counts.update(_japanese_words(piece))
    return counts


_JAPANESE_WORDS = sorted(
    {colour.ja for colour in (*scenes.COLOURS.values(), *scenes.BACKGROUNDS.values())}
    | {shape.ja for shape in scenes.SHAPES.values()},
    key=len,
    reverse=True,
)


def _japanese_words(piece: str) -> list[str]:
    """The words of `piece`. Japanese has no spaces, so otherwise a whole sentence would become one token."""
    return [word for word in re.split(f"({'|'.join(_JAPANESE_WORDS)}|が|の[上左])", piece) if word]


def _byte_characters() -> dict[int, str]:
    """The printable character that stands for each byte in tokens. Source: as _PIECE."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + index) for index, byte in enumerate(others)}


def _pairs(words: dict[tuple[str, ...], int]) -> Counter[tuple[str, str]]:
    """The frequency of each pair of adjacent symbols. `words` are sequences of symbols with their frequencies."""
    pairs: Counter[tuple[str, str]] = Counter()
    for word, count in words.items():
        for pair in pairwise(word):
            pairs[pair] += count
    return pairs


def _merged(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    """The symbols of `word`, with each occurrence of `pair` merged into one symbol."""
    merged: list[str] = []
    for symbol in word:
        # a merged symbol can't be merged again here, because it is longer than pair[0]
        if merged and (merged[-1], symbol) == pair:
            merged[-1] += symbol
        else:
            merged.append(symbol)
    return tuple(merged)
