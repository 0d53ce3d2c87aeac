"""Watches `llama_decode`: counts logits that are bit-equal, and makes batches in which sums are always added alike.

ggml computes one row with other kernels than several: matrices by dot products instead of blocks, attention by threads
that each take a part of the cells. From 64 rows on attention works in blocks of cells, and recurrent layers work in
blocks of rows. All of these round differently, so that the last bits of an answer depend on what is decoded beside it.
In even batches each sequence has one row, and a row that would be alone gets another one beside it, in a sequence of
its own which is removed afterwards. Then every row is computed by the same operations, and equal prompts have equal
logits, bit by bit.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

from imgproc_local.vision.llm.bindings import bindings

CELLS_ADDED = 512
"""Tokens for which a context gets more room, so that there is always some for the row beside."""


class Row(NamedTuple):
    """One token of a batch. With `output`, its logits are computed."""

    token: int
    position: int
    sequence: int
    output: bool


class DecodeWatch:
    """Collects the SHA-256 of the logits of every output row, of the service and of the reference."""

    def __init__(self, *, even: bool) -> None:
        self.even = even
        self._of_service: set[bytes] = set()
        self._of_reference: set[bytes] = set()
        self._collected = self._of_service
        self._llama: Any = bindings().llama
        self._decode = self._llama.llama_decode
        self._make_context = self._llama.llama_init_from_model

    @property
    def bit_equal(self) -> int:
        """The number of tokens of the reference whose logits the service has computed too, bit by bit."""
        return len(self._of_reference & self._of_service)

    @contextmanager
    def reference(self) -> Iterator[None]:
        """What is decoded inside the block is the reference."""
        self._collected = self._of_reference
        try:
            yield
        finally:
            self._collected = self._of_service

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the contexts that are made inside the block. Calls by llama.cpp's own helpers are not changed."""
        with (
            mock.patch.object(self._llama, "llama_decode", self._watched),
            mock.patch.object(self._llama, "llama_init_from_model", self._with_one_more_sequence),
        ):
            yield

    def _with_one_more_sequence(self, model: Any, params: Any) -> Any:
        params.n_seq_max += 1
        params.n_ctx += CELLS_ADDED
        return self._make_context(model, params)

    def _watched(self, context: Any, batch: Any) -> int:
        rows = [
            Row(batch.token[row], batch.pos[row], batch.seq_id[row][0], bool(batch.logits[row]))
            for row in range(batch.n_tokens)
        ]
        if not self.even:
            status = int(self._decode(context, batch))
        elif any(row.output for row in rows):
            status = self._decode_even(context, rows)
        else:
            status = next(filter(None, (self._decode_even(context, [row]) for row in rows)), 0)
        if status == 0:
            self._record(context, rows)
        return status

    def _decode_even(self, context: Any, rows: Sequence[Row]) -> int:
        llama = self._llama
        last_sequence = llama.llama_n_seq_max(context) - 1
        is_alone = len(rows) == 1
        if is_alone:
            rows = [*rows, Row(rows[0].token, 0, last_sequence, rows[0].output)]
        batch = llama.llama_batch_init(len(rows), 0, 1)
        try:
            batch.n_tokens = len(rows)
            for at, row in enumerate(rows):
                batch.token[at], batch.pos[at], batch.n_seq_id[at] = row.token, row.position, 1
                batch.seq_id[at][0], batch.logits[at] = row.sequence, row.output
            return int(self._decode(context, batch))
        finally:
            llama.llama_batch_free(batch)
            if is_alone:
                llama.llama_memory_seq_rm(llama.llama_get_memory(context), last_sequence, -1, -1)

    def _record(self, context: Any, rows: Sequence[Row]) -> None:
        llama = self._llama
        size = ctypes.sizeof(ctypes.c_float) * llama.llama_vocab_n_tokens(
            llama.llama_model_get_vocab(llama.llama_get_model(context))
        )
        for at, row in enumerate(rows):
            if row.output:
                logits = ctypes.string_at(llama.llama_get_logits_ith(context, at), size)
                self._collected.add(hashlib.sha256(logits).digest())
