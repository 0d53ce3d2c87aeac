"""The next token of an answer, held to the grammar of `vision/prompt.py`.

Asking the grammar of one token takes 0.01 ms, of a whole vocabulary 8 to 29 ms: so a token is chosen first and asked
about then, and only where it is refused are all of them asked.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.llm.prompt import GRAMMAR

RETRY_TEMPERATURE = 0.7
RETRY_TOP_K = 40
DRAWS = 8
"""Tries to draw a token that the grammar takes, before the whole vocabulary is asked."""


class Sampler:
    """One text's: always the likeliest token, or, with a seed, one drawn from the likeliest forty. `close` frees it."""

    def __init__(self, low: Any, vocabulary: Any, seed: int | None) -> None:
        self._low = low
        self._seeded = seed is not None
        self._free = low.llama_sampler_chain_init(low.llama_sampler_chain_default_params())
        if seed is None:
            low.llama_sampler_chain_add(self._free, low.llama_sampler_init_greedy())
        else:
            low.llama_sampler_chain_add(self._free, low.llama_sampler_init_top_k(RETRY_TOP_K))
            low.llama_sampler_chain_add(self._free, low.llama_sampler_init_temp(RETRY_TEMPERATURE))
            low.llama_sampler_chain_add(self._free, low.llama_sampler_init_dist(seed))
        self._grammar = low.llama_sampler_init_grammar(vocabulary, GRAMMAR.encode(), b"root")
        if not self._grammar:
            # adding it to a chain would end the process
            low.llama_sampler_free(self._free)
            raise ModelUnusable(
                "llama.cpp does not take the grammar of the answer; is llama-cpp-python 0.3.36 installed?"
            )
        self._strict = low.llama_sampler_chain_init(low.llama_sampler_chain_default_params())
        low.llama_sampler_chain_add(self._strict, self._grammar)
        low.llama_sampler_chain_add(self._strict, low.llama_sampler_init_greedy())
        self._one = (low.llama_token_data * 1)()

    def next_token(self, context: Any, row: int) -> int:
        low = self._low
        for _ in range(DRAWS if self._seeded else 1):
            token = int(low.llama_sampler_sample(self._free, context, row))
            # not a number: there all of them are, and the grammar ends the process over such a choice
            if not math.isfinite(low.llama_get_logits_ith(context, row)[token]):
                raise ModelUnusable("The model computed no numbers: its weights don't work on this picture or machine.")
            if self._allowed(token):
                low.llama_sampler_accept(self._grammar, token)
                return token
        # samples and accepts
        return int(low.llama_sampler_sample(self._strict, context, row))

    def _allowed(self, token: int) -> bool:
        self._one[0] = self._low.llama_token_data(id=token, logit=1.0, p=0.0)
        asked = self._low.llama_token_data_array(data=self._one, size=1, selected=-1, sorted=False)
        self._low.llama_sampler_apply(self._grammar, ctypes.byref(asked))
        return bool(self._one[0].logit > 0)

    def close(self) -> None:
        self._low.llama_sampler_free(self._free)
        # the grammar belongs to this chain
        self._low.llama_sampler_free(self._strict)
