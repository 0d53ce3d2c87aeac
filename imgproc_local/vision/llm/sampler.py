"""Chooses the tokens of a model's answer, so that it is the JSON that the grammar of `prompt.py` describes."""

from __future__ import annotations

import ctypes
import math
from typing import Any

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.llm.prompt import GRAMMAR


class Sampler:
    """Samples the next token of one answer, constrained by `root`, a rule of the grammar. `close` frees its memory.

    The first attempt at an answer is greedy: the most probable token is taken. An answer that is refused is generated
    again with a `seed`: its tokens are sampled randomly. Checking one token against the grammar takes 0.01 ms, checking
    the whole vocabulary 8 to 29 ms. So a token is sampled without the grammar first; only if the grammar rejects it is
    the whole vocabulary checked.

    Raises: ModelUnusable, if llama.cpp can't parse the grammar.
    """

    def __init__(self, llama: Any, vocabulary: Any, seed: int | None, root: str) -> None:
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
        self._grammar = llama.llama_sampler_init_grammar(vocabulary, GRAMMAR.encode(), root.encode())
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
