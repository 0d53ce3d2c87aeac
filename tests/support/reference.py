"""Generates an answer in the plainest way, as a reference for `Llama`: one prompt in one sequence of a new context.

llama.cpp's own helper processes all of the prompt before the suffix and determines its positions. Nothing is shared or
copied between sequences.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.domain.image import Pixels
from imgproc_local.vision.llm.llama import batch_tokens, make_context, physical_cores
from imgproc_local.vision.llm.prompt import NO_NOTES
from imgproc_local.vision.llm.weights import Weights

MAX_TIE_LOGITS = 0.5
"""Tokens whose logits differ by at most this count as equally probable: the order of additions, which depends on the
number of sequences and on the hardware, can decide between them."""


class Comparison(NamedTuple):
    """How an answer differs from the reference.

    `prefix_end` is the position after the picture and its notes. `equal_tokens` is the number of tokens before the
    first one that differs. `first_difference` is the index of that token, None if there is none or if it is as probable
    as the expected one, and `expected` is the reference up to this token.
    """

    prefix_end: int
    equal_tokens: int
    first_difference: int | None = None
    expected: str = ""


def compare_with_reference(weights: Weights, image: Pixels, suffix: str, answer: Sequence[int]) -> Comparison:
    """Compare the tokens of an answer about the picture with those that greedy decoding generates in a new context.

    The comparison ends at the first token that differs, even if the tokens are equally probable, because the
    remaining text depends on it.

    Raises: ModelUnusable, if llama.cpp fails.
    """
    llama, mtmd = weights.llama, weights.mtmd
    threads = physical_cores()
    suffix_tokens = weights.tokens(suffix + weights.turn_end)
    with weights.chunks(image, NO_NOTES) as chunks:
        tokens = mtmd.mtmd_helper_get_n_tokens(chunks) + len(suffix_tokens) + len(answer)
        context, _ = make_context(weights, tokens, 1, threads)
        if not context:
            raise ModelUnusable(f"{weights.model.name} can't process {tokens} tokens on this machine.")
        sampler = weights.sampler(seed=None)
        size = batch_tokens(weights.model)
        batch = llama.llama_batch_init(size, 0, 1)

        def decode(some_tokens: Sequence[int], start: int, *, output: bool) -> None:
            batch.n_tokens = len(some_tokens)
            for row, token in enumerate(some_tokens):
                batch.token[row], batch.pos[row], batch.n_seq_id[row] = token, start + row, 1
                batch.seq_id[row][0], batch.logits[row] = 0, output
            weights.check(llama.llama_decode(context, batch))

        try:
            end = llama.llama_pos(0)
            start = (llama.llama_pos(0), llama.llama_seq_id(0))
            weights.check(
                mtmd.mtmd_helper_eval_chunks(
                    weights.vision_encoder, context, chunks, *start, size, False, ctypes.byref(end)
                )
            )
            position = int(end.value)
            *before, following = suffix_tokens
            for offset in range(0, len(before), size):
                decode(before[offset : offset + size], position + offset, output=False)
            position += len(before)
            for index, token in enumerate(answer):
                decode([following], position + index, output=True)
                expected = sampler.next_token(context, 0)
                if expected != token:
                    logits = llama.llama_get_logits_ith(context, 0)
                    if logits[expected] - logits[token] <= MAX_TIE_LOGITS:
                        return Comparison(int(end.value), index)
                    text = weights.text([*answer[:index], expected]).decode("utf-8", "replace")
                    return Comparison(int(end.value), index, index, text)
                following = token
            return Comparison(int(end.value), len(answer))
        finally:
            llama.llama_batch_free(batch)
            sampler.close()
            llama.llama_free(context)
