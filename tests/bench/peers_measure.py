"""Measures one encoder on one picture: bytes, score, CPU seconds and peak memory.

Each encoder runs in a child process that does one task at a time. A score compares the whole picture with its source as
displayed: upright, in sRGB, and if it is transparent, over black and over white. Results of peers can be stored in a
folder for later runs; those of this project are always measured again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pyvips
from msgspec import Struct
from PIL import Image

from imgproc_local.codecs import avif
from imgproc_local.codecs.picture import complete, decode, probe
from imgproc_local.codecs.picture.errors import translate_errors
from imgproc_local.codecs.quality import ssimulacra2 as quality
from imgproc_local.domain.errors import ServiceError
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.quality import Effort

MAX_PIXELS = 1_000_000_000
SCORED_PIXELS = 8_000_000
"""Only the first frames of an animation are scored, up to this many pixels."""

TASK_TIMEOUT_S = 600.0
SAVE_EVERY = 50
HERE = Path(__file__).parent
Options = dict[str, Any]


class Picture(Struct, frozen=True, dict=True):
    path: Path
    info: ImageInfo
    size_bytes: int

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}"

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.path.read_bytes()).hexdigest()[:24]


class Encoding(Struct, frozen=True):
    """The result of one encoder. `error` says why there is none, or why it does not show the picture of the source."""

    size_bytes: int = 0
    score: float = -100.0
    cpu_s: float = 0.0
    peak_bytes: int = 0
    unchanged: bool = False
    error: str | None = None


def picture_at(path: Path) -> Picture:
    """The picture at `path`. Raises: ServiceError if it can't be processed."""
    return Picture(path, probe.probe(path, MAX_PIXELS), path.stat().st_size)


@translate_errors("The picture can't be read")
def displayed(path: Path, info: ImageInfo) -> tuple[bytes, int, int, int]:
    """The picture as displayed: rows of 8-bit sRGB, the width, the height, and the bands (3, or 4 with alpha).

    Raises: ServiceError if it can't be read.
    """

    def read(fail_on: str) -> tuple[bytes, int, int, int]:
        image = decode.open_upright(path, info, all_frames=info.frames > 1, fail_on=fail_on)
        if info.frames > 1:
            frames = min(info.frames, max(1, SCORED_PIXELS // (info.width_px * info.height_px)))
            image = image.crop(0, 0, image.width, frames * image.get("page-height"))
        image = decode.to_srgb(as_browsers_read(path, image) if info.format is Format.AVIF else image)
        return bytes(image.write_to_memory()), image.width, image.height, image.bands

    return complete.decode_complete(path, info, read)


def as_browsers_read(path: Path, image: pyvips.Image) -> pyvips.Image:
    """The samples of a still AVIF with more than 8 bits as libavif decodes them, because libheif rounds differently."""
    if image.format == "uchar" or image.get_n_pages() > 1:
        return image
    read = avif.as_browsers_read(path.read_bytes()).copy()
    if image.get_typeof("icc-profile-data"):
        read.set_type(pyvips.GValue.blob_type, "icc-profile-data", image.get("icc-profile-data"))
    return read


def readable(picture: Picture) -> bool:
    """Whether the picture is complete. It is decoded as strictly as by the codecs."""
    try:
        displayed(picture.path, picture.info)
    except ServiceError:
        return False
    return True


@lru_cache(maxsize=1)
def _reference(picture: Picture) -> tuple[quality.Reference | quality.TransparentReference, int, int, bool]:
    pixels, width, height, bands = displayed(picture.path, picture.info)
    kind = quality.TransparentReference if bands == 4 else quality.Reference
    return kind(pixels, width, height), width, height, bands == 4


def score(picture: Picture, result: Path) -> float:
    """The score of `result`. Raises: ValueError if its size differs, or if Pillow or libvips can't open it."""
    reference, width, height, transparent = _reference(picture)
    info = probe.probe(result, MAX_PIXELS)
    with Image.open(result) as opened:
        opened.load()
    pixels, *size, bands = displayed(result, info)
    if tuple(size) != (width, height):
        raise ValueError(f"expected {width}×{height} pixels, got {size[0]}×{size[1]}")
    if transparent and bands == 3:
        pixels = with_alpha(pixels)
    elif not transparent and bands == 4:
        if pixels[3::4].count(255) != width * height:
            raise ValueError("expected an opaque picture, got a transparent one")
        pixels = without_alpha(pixels)
    return reference.score(pixels)


def with_alpha(rgb: bytes) -> bytes:
    out = bytearray(b"\xff") * (len(rgb) // 3 * 4)
    for band in range(3):
        out[band::4] = rgb[band::3]
    return bytes(out)


def without_alpha(rgba: bytes) -> bytes:
    out = bytearray(len(rgba) // 4 * 3)
    for band in range(3):
        out[band::3] = rgba[band::4]
    return bytes(out)


class Encoder:
    """A child process that encodes pictures.

    `version` is the name that it reports. Raises: OSError if it can't start.
    """

    def __init__(self, arguments: list[str], environment: dict[str, str] | None = None) -> None:
        self._child = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=os.environ | {"VIPS_CONCURRENCY": "1"} | (environment or {}),
        )
        self.version: str = self._line()["version"]

    def encode(self, source: Path, result: Path, format: str, options: Options) -> dict[str, Any]:
        assert self._child.stdin
        task = {"source": str(source.resolve()), "result": str(result), "format": format, "options": options}
        self._child.stdin.write(json.dumps(task) + "\n")
        self._child.stdin.flush()
        return self._line()

    def close(self) -> None:
        assert self._child.stdin
        assert self._child.stdout
        self._child.stdin.close()
        try:
            self._child.wait(30)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child.stdout.close()

    def _line(self) -> dict[str, Any]:
        assert self._child.stdout
        end = threading.Timer(TASK_TIMEOUT_S, self._child.kill)
        end.start()
        line = self._child.stdout.readline()
        end.cancel()
        if not line:
            raise OSError(f"{self._child.args!r} ended")
        return msgspec.json.decode(line, type=dict[str, Any])


def _worker(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.bench.peers_worker", *arguments]


def start_encoders(sharp: Path) -> tuple[dict[str, Encoder], list[str]]:
    """The installed encoders by name, one of them "ours", and the names of those that are not installed."""
    ways: dict[str, list[str]] = {"ours": _worker("ours"), "pillow": _worker("pillow")}
    if node := shutil.which("node"):
        ways["sharp"] = [node, str(HERE / "peers_sharp.mjs"), str(sharp)]
    if find_spec("oxipng"):
        ways["oxipng"] = _worker("oxipng")
    for name in ("pngquant", "jpegoptim", "cwebp", "avifenc"):
        if executable := shutil.which(name):
            ways[name] = _worker("command", executable)
    found: dict[str, Encoder] = {}
    for name, arguments in ways.items():
        try:
            found[name] = Encoder(arguments)
        except OSError:  # the reason is on standard error: Node is installed, but not sharp
            if name == "ours":
                raise
    names = ("ours", "sharp", "pillow", "pngquant", "jpegoptim", "oxipng", "cwebp", "avifenc")
    return found, [name for name in names if name not in found]


class Measure:
    """Encodes pictures and scores the results. If `cache`, a folder, is given, results of peers are stored there."""

    def __init__(self, encoders: dict[str, Encoder], scratch: Path, cache: Path | None, effort: Effort) -> None:
        self.encoders = encoders
        self.effort = effort
        self._scratch = scratch
        self._file = cache / "peers.json" if cache else None
        self._kept = _cached_encodings(self._file)

    def peer(self, name: str, picture: Picture, format: str, options: Options) -> Encoding:
        """The result of a peer for the picture, which is measured only once."""
        key = json.dumps([picture.digest, self.encoders[name].version, format, options], sort_keys=True)
        if key not in self._kept:
            self._kept[key] = self.encode(name, picture, format, options, self._scratch / "peer")
            if len(self._kept) % SAVE_EVERY == 0:
                self.save_cache()
        return self._kept[key]

    def encode(self, name: str, picture: Picture, format: str, options: Options, result: Path) -> Encoding:
        result.unlink(missing_ok=True)
        answer = self.encoders[name].encode(picture.path, result, format, options)
        if "error" in answer:
            return Encoding(error=answer["error"])
        done = Encoding(result.stat().st_size, **answer)
        try:
            return msgspec.structs.replace(done, score=score(picture, result))
        except Exception as error:  # any error of a decoder means that the result is broken, and is reported
            return msgspec.structs.replace(done, error=f"{type(error).__name__}: {error}")

    def save_cache(self) -> None:
        """Write the results of peers to the cache, and preserve those that other runs have written meanwhile."""
        if self._file:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            part = self._file.with_suffix(f".{os.getpid()}")
            part.write_bytes(msgspec.json.encode(_cached_encodings(self._file) | self._kept))
            part.replace(self._file)


def _cached_encodings(file: Path | None) -> dict[str, Encoding]:
    if file and file.exists():
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Encoding])
    return {}
