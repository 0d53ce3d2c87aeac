"""Helpers that the benchmarks share: synthetic photographs, a fast HTTP client, percentiles, tables."""

from __future__ import annotations

import asyncio
import io
import json
import os
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

MIB = 1024 * 1024


def photograph(width: int, height: int, seed: int) -> Image.Image:
    """A synthetic scene of soft shapes, fine structure and sensor noise, as costly to encode as a photograph."""
    source = np.random.default_rng(seed)
    scene = np.zeros((height, width, 3), np.float32)
    for cell, weight in ((256, 90.0), (64, 45.0), (16, 20.0), (4, 8.0)):
        small = source.random((height // cell + 2, width // cell + 2, 3), np.float32)
        layer = Image.fromarray((small * 255).astype(np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
        scene += np.asarray(layer, np.float32) / 255 * weight
    scene += source.normal(0, 3, scene.shape).astype(np.float32) + 30
    return Image.fromarray(scene.clip(0, 255).astype(np.uint8))


def jpegs(folder: Path, count: int, width: int = 1440, height: int = 960) -> list[Path]:
    """`count` JPEGs of about 1.4 megapixels at quality 90, written below `folder`."""
    files = []
    for seed in range(count):
        file = folder / f"photograph-{seed}.jpg"
        photograph(width, height, seed).save(file, quality=90)
        files.append(file)
    return files


def jpeg_of_bytes(size_bytes: int) -> bytes:
    """A JPEG of about `size_bytes` at quality 95, as cameras write."""
    width = 1200
    while True:
        buffer = io.BytesIO()
        photograph(width, width * 2 // 3, 7).save(buffer, "JPEG", quality=95)
        if buffer.tell() >= size_bytes:
            return buffer.getvalue()
        width = int(width * max(1.02, (size_bytes / buffer.tell()) ** 0.5))


def with_comment(jpeg: bytes, text: str) -> bytes:
    """`jpeg` with a comment: the same picture, but a different file. Source: ITU-T T.81, B.2.4.5."""
    comment = text.encode()
    return jpeg[:2] + b"\xff\xfe" + struct.pack(">H", len(comment) + 2) + comment + jpeg[2:]


def png_of_noise(width: int, height: int) -> bytes:
    """An incompressible PNG of noise, at three bytes per pixel."""
    rows = np.random.default_rng(3).integers(0, 256, (height, width, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(rows).save(buffer, "PNG", compress_level=0)
    return buffer.getvalue()


class Connection:
    """One persistent connection to the service, with a minimal HTTP client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, key: str) -> None:
        self._reader = reader
        self.writer = writer
        self._head = f"Host: {host}\r\nX-API-Key: {key}\r\n"

    @classmethod
    async def open(cls, root: str, key: str) -> Connection:
        host, port = root.removeprefix("http://").rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port))
        return cls(reader, writer, f"{host}:{port}", key)

    async def get(self, path: str) -> tuple[int, bytes]:
        self.writer.write(f"GET {path} HTTP/1.1\r\n{self._head}\r\n".encode())
        return await self.answer()

    def upload_parts(self, path: str, picture: bytes, fields: dict[str, str] | None = None) -> bytes:
        """The complete request of one upload."""
        boundary = "bench-boundary"
        parts = [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
            for name, value in (fields or {}).items()
        ]
        parts += [
            f'--{boundary}\r\nContent-Disposition: form-data; name="image"; filename="a.jpg"\r\n\r\n'.encode(),
            picture,
            f"\r\n--{boundary}--\r\n".encode(),
        ]
        length = sum(map(len, parts))
        head = (
            f"POST {path} HTTP/1.1\r\n{self._head}Content-Length: {length}\r\n"
            f"Content-Type: multipart/form-data; boundary={boundary}\r\n\r\n"
        )
        return b"".join([head.encode(), *parts])

    async def post(self, path: str, picture: bytes, fields: dict[str, str] | None = None) -> tuple[int, bytes]:
        self.writer.write(self.upload_parts(path, picture, fields))
        await self.writer.drain()
        return await self.answer()

    async def answer(self) -> tuple[int, bytes]:
        head = await self._reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:"))
        return int(head.split(b" ", 2)[1]), await self._reader.readexactly(length)

    def close(self) -> None:
        self.writer.close()


async def submit(connection: Connection, operation: str, picture: bytes, **fields: str) -> str:
    """The id of the accepted job."""
    status, body = await connection.post(f"/api/v1/images/{operation}", picture, fields)
    if status != 202:
        raise SystemExit(f"{operation}: {status} {body.decode()}")
    job_id: str = json.loads(body)["data"]["job_id"]
    return job_id


async def wait_final(connection: Connection, job_id: str) -> str:
    while True:
        _, body = await connection.get(f"/api/v1/jobs/{job_id}")
        status: str = json.loads(body)["data"]["status"]
        if status in ("completed", "failed"):
            return status
        await asyncio.sleep(0.05)


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
