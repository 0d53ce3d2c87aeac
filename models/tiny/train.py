"""Trains the tiny model on one processor core: first the eye alone, then eye and writer together.

    python -m models.tiny.train

Weights are kept in single precision and computed with in bfloat16, where processors are several times as fast.
"""

from __future__ import annotations

import argparse
import copy
import math
import random
import time
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from models.tiny import examples, tokens
from models.tiny.network import Network

SEED = 7
_WARM_UP_STEPS = 150
_WEIGHT_DECAY = 0.02
_SAVE_EVERY = 200
_TELL_EVERY = 50
_LAST_RATE = 0.02
"""Of the learning rate at its highest, at the end of the cosine."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the tiny vision model.")
    parser.add_argument("--folder", type=Path, default=Path(".build/tiny"), help="where checkpoints go")
    parser.add_argument("--steps", type=int, default=2500, help="of eye and writer together")
    parser.add_argument("--eye-steps", type=int, default=2000, help="of the eye alone, before")
    parser.add_argument("--batch", type=int, default=32, help="scenes per step, each in every language")
    parser.add_argument("--rate", type=float, default=3e-3, help="the highest learning rate")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--resume", type=Path, help="a checkpoint to go on from")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    vocabulary = tokens.learn()
    network = Network(len(vocabulary.tokens))
    if args.resume:
        network.load_state_dict(torch.load(args.resume))
    tokenizer = tokens.Tokenizer(vocabulary, args.folder)
    train(network, tokenizer, args)


def train(network: Network, tokenizer: tokens.Tokenizer, args: argparse.Namespace) -> None:
    """Runs all steps and saves now and then; the last weights are in checkpoint.pt."""
    source = random.Random(args.seed)
    computing = copy.deepcopy(network).to(torch.bfloat16)
    optimisers = _optimisers(network, args.rate)
    head = torch.tensor(tokenizer.ids(tokens.USER))
    started, all_steps = time.monotonic(), args.eye_steps + args.steps
    for step in range(all_steps):
        share = step / all_steps
        rate = args.rate * min(1, (step + 1) / _WARM_UP_STEPS)
        rate *= _LAST_RATE + (1 - _LAST_RATE) * 0.5 * (1 + math.cos(math.pi * share))
        for group in (group for optimiser in optimisers for group in optimiser.param_groups):
            group["lr"] = rate
        batch = examples.batch(source, tokenizer, args.batch)
        looking, writing, exact = losses(computing, head, batch, look_only=step < args.eye_steps)
        loss = looking if writing is None else 4 * writing + 0.5 * max(0.0, 1 - 1.2 * share) * looking
        computing.zero_grad()
        loss.backward()
        for kept, used in zip(network.parameters(), computing.parameters(), strict=True):
            kept.grad = None if used.grad is None else used.grad.float()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        for optimiser in optimisers:
            optimiser.step()
        with torch.no_grad():
            for kept, used in zip(network.parameters(), computing.parameters(), strict=True):
                used.copy_(kept)
        if (step + 1) % _TELL_EVERY == 0:
            told = f"{time.monotonic() - started:.0f} s, step {step + 1}, rate {rate:.5f}, looking {looking.item():.3f}"
            if writing is not None:
                told += f", writing {writing.item():.4f}, exact {exact:.3f}"
            print(told, flush=True)
        if (step + 1) % _SAVE_EVERY == 0 or step + 1 == all_steps:
            save(network, args.folder / "checkpoint.pt")
        if step + 1 == args.eye_steps:
            save(network, args.folder / "eye.pt")


def _optimisers(network: Network, rate: float) -> tuple[torch.optim.Optimizer, ...]:
    """Muon for the matrices within, AdamW for everything else: here twice as quick as AdamW alone.

    Source: Jordan et al. 2024, "Muon"; the scale that lets both share a rate: Liu et al. 2025, arXiv 2502.16982.
    """
    outer = ("position", "embedding", "aspects")
    within = {
        name: weights
        for name, weights in network.named_parameters()
        if weights.ndim == 2 and not any(part in name for part in outer)
    }
    others = [weights for name, weights in network.named_parameters() if name not in within]
    return (
        torch.optim.Muon(
            within.values(), lr=rate, weight_decay=_WEIGHT_DECAY, momentum=0.95, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.98), weight_decay=_WEIGHT_DECAY),
    )


def losses(
    network: Network, head: Tensor, batch: examples.Batch, *, look_only: bool
) -> tuple[Tensor, Tensor | None, float]:
    """Cross entropy of the aspects and of the answers' tokens, and the share of answers without a wrong token."""
    features = network.eye.features(batch.pictures.to(network.eye.position.dtype))
    pooled = features.mean(1)
    looking = torch.stack(
        [
            functional.cross_entropy(question(pooled).float(), batch.aspects[:, index])
            for index, question in enumerate(network.aspects)
        ]
    ).sum()
    if look_only:
        return looking, None, 0.0
    prefix = network.prefix(head, network.eye.project(features), batch.shared)
    hidden = network.writer(prefix, network.writer.embedding(batch.tails))
    expected = batch.targets != examples.IGNORED
    scores = network.writer.scores(hidden[expected]).float()
    right = torch.ones_like(batch.targets, dtype=torch.bool)
    right[expected] = scores.argmax(-1) == batch.targets[expected]
    exact = right.all(-1).float().mean().item()
    return looking, functional.cross_entropy(scores, batch.targets[expected]), exact


def save(network: Network, path: Path) -> None:
    """Writes the weights, whole or not at all."""
    part = path.with_suffix(".part")
    torch.save(network.state_dict(), part)
    part.replace(path)


if __name__ == "__main__":
    main()
