"""Helpers that the benchmarks share: synthetic photographs, percentiles, tables."""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Sequence

import numpy as np
from PIL import Image

MIB = 1024 * 1024


def photograph(width: int, height: int, seed: int, quality: int = 90) -> bytes:
    """The JPEG of a scene of soft shapes, fine structure and sensor noise, as costly to encode as a photograph."""
    source = np.random.default_rng(seed)
    scene = np.zeros((height, width, 3), np.float32)
    for cell, weight in ((256, 90.0), (64, 45.0), (16, 20.0), (4, 8.0)):
        small = source.random((height // cell + 2, width // cell + 2, 3), np.float32)
        layer = Image.fromarray((small * 255).astype(np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
        scene += np.asarray(layer, np.float32) / 255 * weight
    scene += source.normal(0, 3, scene.shape).astype(np.float32) + 30
    buffer = io.BytesIO()
    Image.fromarray(scene.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def with_comment(jpeg: bytes, text: str) -> bytes:
    """`jpeg` with a comment: the same picture, but a different file. Source: ITU-T T.81, B.2.4.5."""
    comment = text.encode()
    return jpeg[:2] + b"\xff\xfe" + struct.pack(">H", len(comment) + 2) + comment + jpeg[2:]


def percentile(values: Sequence[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))]


def print_table(title: str, rows: Sequence[tuple[str, str, str]]) -> None:
    """Print a table. A row has the name of the value, the value, and its limit."""
    print(f"\n{title}  ({os.cpu_count()} cores, load {os.getloadavg()[0]:.1f})\n")
    widths = [max(len(row[column]) for row in [("what", "measured", "limit"), *rows]) for column in range(3)]
    for row in (("what", "measured", "limit"), tuple("-" * width for width in widths), *rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")


def verdict(value: float, limit: float, unit: str) -> str:
    return f"≤ {limit:g} {unit}: {'met' if value <= limit else 'MISSED'}"
