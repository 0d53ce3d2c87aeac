"""Trains the tiny model on one processor core: first the vision encoder, then vision encoder and text model together.

    python -m models.tiny.train
    python -m models.tiny.train --adapt models/tiny --steps 400 --batch 4 --rate 1.2e-3

With `--adapt`, an exported model learns a changed prompt: only its text model is trained, with AdamW alone, which takes
less time per step than Muon and suffices. The model keeps its vocabulary.

Weights are stored in single precision; the computation is in bfloat16, which is several times as fast on a processor
with instructions for it and several times as slow on others (`--precision float32`).
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

from imgproc_local.vision.llm import prompt
from models.tiny import examples, export, tokens
from models.tiny.network import Network

SEED = 7
_WARM_UP_STEPS = 150
"""The number of steps in which the learning rate rises to its maximum."""
_WEIGHT_DECAY = 0.02
_SAVE_EVERY_STEPS = 200
_LOG_EVERY_STEPS = 50
_FINAL_RATE_SHARE = 0.02
"""The learning rate at the end of the cosine schedule, as a share of its maximum."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the tiny vision model.")
    parser.add_argument("--folder", type=Path, default=Path(".build/tiny"), help="folder of the checkpoints")
    parser.add_argument(
        "--steps", type=int, default=2500, help="number of steps that train vision encoder and text model together"
    )
    parser.add_argument(
        "--encoder-steps",
        type=int,
        default=2000,
        help="number of steps that train only the vision encoder, before the others",
    )
    parser.add_argument("--batch", type=int, default=32, help="number of scenes per step, each in all languages")
    parser.add_argument("--rate", type=float, default=3e-3, help="maximum learning rate")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--resume", type=Path, help="continue from this checkpoint")
    parser.add_argument("--adapt", type=Path, metavar="FOLDER", help="continue from the exported files in this folder")
    parser.add_argument("--precision", choices=("bfloat16", "float32"), default="bfloat16")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    if args.adapt:
        args.encoder_steps = 0
        network, vocabulary = export.read_network(args.adapt)
        network.encoder.requires_grad_(requires_grad=False)
    else:
        vocabulary = tokens.train_vocabulary()
        network = Network(len(vocabulary.tokens))
    if args.resume:
        network.load_state_dict(torch.load(args.resume))
    tokenizer = tokens.Tokenizer(vocabulary, args.folder)
    train(network, tokenizer, args)


def train(network: Network, tokenizer: tokens.Tokenizer, args: argparse.Namespace) -> None:
    """Run all training steps, and save the weights in checkpoint.pt every `_SAVE_EVERY_STEPS` steps."""
    rng = random.Random(args.seed)
    # the weights of `network` are updated in single precision and copied here for the computation
    computed = copy.deepcopy(network).to(getattr(torch, args.precision))
    optimisers = _optimisers(network, args.rate, with_muon=not args.adapt)
    instructions = torch.tensor(tokenizer.ids(tokens.USER + prompt.INSTRUCTIONS))
    started, total_steps = time.monotonic(), args.encoder_steps + args.steps
    for step in range(total_steps):
        progress = step / total_steps
        rate = args.rate * min(1, (step + 1) / min(_WARM_UP_STEPS, total_steps / 10))
        rate *= _FINAL_RATE_SHARE + (1 - _FINAL_RATE_SHARE) * 0.5 * (1 + math.cos(math.pi * progress))
        for group in (group for optimiser in optimisers for group in optimiser.param_groups):
            group["lr"] = rate
        batch = examples.make_batch(rng, tokenizer, args.batch)
        aspects, answers, exact = losses(computed, instructions, batch, encoder_only=step < args.encoder_steps)
        aspects_weight = 0.0 if args.adapt else 0.5 * max(0.0, 1 - 1.2 * progress)
        loss = aspects if answers is None else 4 * answers + aspects_weight * aspects
        computed.zero_grad()
        loss.backward()
        for stored, used in zip(network.parameters(), computed.parameters(), strict=True):
            stored.grad = None if used.grad is None else used.grad.float()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        for optimiser in optimisers:
            optimiser.step()
        with torch.no_grad():
            for stored, used in zip(network.parameters(), computed.parameters(), strict=True):
                used.copy_(stored)
        if (step + 1) % _LOG_EVERY_STEPS == 0:
            line = f"{time.monotonic() - started:.0f} s, step {step + 1}, rate {rate:.5f}, aspects {aspects.item():.3f}"
            if answers is not None:
                line += f", answers {answers.item():.4f}, exact {exact:.3f}"
            print(line, flush=True)
        if (step + 1) % _SAVE_EVERY_STEPS == 0 or step + 1 == total_steps:
            save(network, args.folder / "checkpoint.pt")
        if step + 1 == args.encoder_steps:
            save(network, args.folder / "encoder.pt")


def _optimisers(network: Network, rate: float, *, with_muon: bool) -> tuple[torch.optim.Optimizer, ...]:
    """Muon for the matrices of layers and AdamW for all other parameters; without Muon, AdamW for all.

    Training with Muon is twice as fast here as with AdamW alone.

    Source: Jordan et al. 2024, "Muon"; for the scale of a common learning rate, Liu et al. 2025, arXiv 2502.16982.
    """
    settings = {"lr": rate, "betas": (0.9, 0.98), "weight_decay": _WEIGHT_DECAY}
    if not with_muon:
        return (torch.optim.AdamW((weights for weights in network.parameters() if weights.requires_grad), **settings),)
    outer = ("position", "embedding", "aspects")
    inner = {
        name: weights
        for name, weights in network.named_parameters()
        if weights.ndim == 2 and not any(part in name for part in outer)
    }
    others = [weights for name, weights in network.named_parameters() if name not in inner]
    return (
        torch.optim.Muon(
            inner.values(), lr=rate, weight_decay=_WEIGHT_DECAY, momentum=0.95, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(others, **settings),
    )


def losses(
    network: Network, instructions: Tensor, batch: examples.Batch, *, encoder_only: bool
) -> tuple[Tensor, Tensor | None, float]:
    """The cross entropy of the aspects, that of the answers' tokens, and the share of completely correct answers.

    With `encoder_only`, the second is None and the third 0.
    """
    features = network.encoder.features(batch.pictures.to(network.encoder.position.dtype))
    pooled = features.mean(1)
    aspects = torch.stack(
        [
            functional.cross_entropy(classifier(pooled).float(), batch.aspects[:, index])
            for index, classifier in enumerate(network.aspects)
        ]
    ).sum()
    if encoder_only:
        return aspects, None, 0.0
    prefix = network.prefix(instructions, network.encoder.project(features), batch.notes)
    hidden = network.text_model(prefix, network.text_model.embedding(batch.suffixes))
    expected = batch.targets != examples.IGNORED
    logits = network.text_model.logits(hidden[expected]).float()
    correct = torch.ones_like(batch.targets, dtype=torch.bool)
    correct[expected] = logits.argmax(-1) == batch.targets[expected]
    exact = correct.all(-1).float().mean().item()
    return aspects, functional.cross_entropy(logits, batch.targets[expected]), exact


def save(network: Network, path: Path) -> None:
    """Write the weights, replacing the file atomically."""
    part = path.with_suffix(".part")
    torch.save(network.state_dict(), part)
    part.replace(path)


if __name__ == "__main__":
    main()
