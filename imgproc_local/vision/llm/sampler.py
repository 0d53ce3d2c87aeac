"""Selects the next token of an answer, constrained by the grammar of `prompt.py`.

Checking one token against the grammar takes 0.01 ms, checking a whole vocabulary 8 to 29 ms. So a token is selected
without the grammar and checked, and the whole vocabulary is only checked if the grammar rejects that token.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.llm.prompt import GRAMMAR

RETRY_TEMPERATURE = 0.7
RETRY_TOP_K = 40
MAX_DRAWS = 8
"""Draws of a token that the grammar may reject before the whole vocabulary is checked."""


class Sampler:
    """The sampler of one text: greedy, or with a `seed` random among the 40 most probable tokens. `close` frees it."""

    def __init__(self, llama: Any, vocabulary: Any, seed: int | None) -> None:
        self._llama = llama
        self._random = seed is not None
        self._unconstrained = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
        if seed is None:
            llama.llama_sampler_chain_add(self._unconstrained, llama.llama_sampler_init_greedy())
        else:
            llama.llama_sampler_chain_add(self._unconstrained, llama.llama_sampler_init_top_k(RETRY_TOP_K))
            llama.llama_sampler_chain_add(self._unconstrained, llama.llama_sampler_init_temp(RETRY_TEMPERATURE))
            llama.llama_sampler_chain_add(self._unconstrained, llama.llama_sampler_init_dist(seed))
        self._grammar = llama.llama_sampler_init_grammar(vocabulary, GRAMMAR.encode(), b"root")
        if not self._grammar:
            # a chain with it would abort the process
            llama.llama_sampler_free(self._unconstrained)
            raise ModelUnusable(
                "llama.cpp does not accept the grammar of the answer; is llama-cpp-python 0.3.36 installed?"
            )
        self._constrained = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
        llama.llama_sampler_chain_add(self._constrained, self._grammar)
        llama.llama_sampler_chain_add(self._constrained, llama.llama_sampler_init_greedy())
        self._single = (llama.llama_token_data * 1)()

    def next_token(self, context: Any, row: int) -> int:
        """The token after the batch's output `row`. Raises: ModelUnusable, if the model computed NaN."""
        llama = self._llama
        for _ in range(MAX_DRAWS if self._random else 1):
            token = int(llama.llama_sampler_sample(self._unconstrained, context, row))
            # if one logit is NaN all are, and the grammar sampler would abort the process
            if not math.isfinite(llama.llama_get_logits_ith(context, row)[token]):
                raise ModelUnusable("The model computed no numbers: its weights don't work on this picture or machine.")
            if self._is_allowed(token):
                llama.llama_sampler_accept(self._grammar, token)
                return token
        # this call also accepts the token
        return int(llama.llama_sampler_sample(self._constrained, context, row))

    def _is_allowed(self, token: int) -> bool:
        self._single[0] = self._llama.llama_token_data(id=token, logit=1.0, p=0.0)
        candidates = self._llama.llama_token_data_array(data=self._single, size=1, selected=-1, sorted=False)
        self._llama.llama_sampler_apply(self._grammar, ctypes.byref(candidates))
        return bool(self._single[0].logit > 0)

    def close(self) -> None:
        self._llama.llama_sampler_free(self._unconstrained)
        # frees the grammar, too
        self._llama.llama_sampler_free(self._constrained)
