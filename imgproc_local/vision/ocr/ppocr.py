"""Finds and reads lines of text with the two networks of PP-OCRv6 on onnxruntime, NumPy and Pillow.

The detector marks the pixels of text; each connected region becomes the smallest rectangle around it, grown to the
height of its letters. The recogniser reads the content of a rectangle, scaled to 48 rows, as one line from left to
right. Only a worker process imports this module, because the networks occupy up to 300 MB.

Source: Liao et al., "Real-time Scene Text Detection with Differentiable Binarization" (DB); PaddleOCR, PP-OCRv6.
"""

from __future__ import annotations

import ctypes
import math
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from PIL import Image, ImageDraw

from imgproc_local.vision.describer import ReadLine
from imgproc_local.vision.models.networks import DETECTOR_FILE, RECOGNISER_FILE

_Floats = npt.NDArray[np.float32]
_Ints = npt.NDArray[np.intp]
_Box = npt.NDArray[np.float64]
"""The corners of a rectangle in pixels, clockwise from the top left of its text: 4×2."""

_MIN_SIDE_PX, _MAX_SIDE_PX, _MAX_PIXELS = 736, 2048, 900_000
"""The picture for the detector: enlarged to this shorter side, but within this longer side and this area.

The area limits the memory: the detector uses 150 to 300 bytes per pixel, depending on the system's allocator."""
_SIDE_STEP_PX = 32
"""Both sides of the detector's input are multiples of this."""
_MAX_LINES = 40
"""The most lines of one picture: only the largest are read."""
_LINE_ROWS, _MIN_COLUMNS, _MAX_COLUMNS = 48, 16, 3200
"""The height of the recogniser's input, and the limits of its width, in pixels."""

_EDGES_SIDE_PX = 128
"""The longer side of the copy in which edges are counted."""

_ANGLES = np.radians(np.arange(-45, 45, 1.5))
"""The rotations among which the smallest rectangle is searched."""


def _return_freed_memory() -> None:
    """Make glibc return large buffers to the system when they are freed; other allocators need no setting.

    The peak for a picture of `_MAX_PIXELS` falls from 390 to 270 MB. A lower threshold doubles the CPU time.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):
            libc.mallopt(-3, 4 * 1024 * 1024)  # M_MMAP_THRESHOLD


class _Networks:
    """The detector and the recogniser, loaded from their ONNX files. Raises: the exceptions of onnxruntime."""

    def __init__(self, folder: Path) -> None:
        _return_freed_memory()
        onnxruntime.disable_telemetry_events()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False  # an arena never returns the memory of the largest picture
        options.enable_mem_pattern = False
        options.log_severity_level = 3
        providers = ["CPUExecutionProvider"]
        self._detector = onnxruntime.InferenceSession(folder / DETECTOR_FILE, options, providers)
        self._recogniser = onnxruntime.InferenceSession(folder / RECOGNISER_FILE, options, providers)
        characters = self._recogniser.get_modelmeta().custom_metadata_map["character"]
        # the first class is the CTC blank, the last one the space
        self._characters = ["", *characters.split("\n"), " "]

    def read(self, picture: Image.Image) -> list[ReadLine]:
        """The lines of text in an RGB picture, in reading order. A line that can't be read has a low confidence."""
        boxes = self._boxes(picture)
        areas = [math.prod(_sides(box)) for box in boxes]
        largest = sorted(range(len(boxes)), key=lambda index: -areas[index])[:_MAX_LINES]
        boxes = [boxes[index] for index in sorted(largest)]
        edges = _edge_shares(picture, boxes)
        lines = []
        for box, edge_share in zip(boxes, edges, strict=True):
            text, confidence = self._read_box(picture, box)
            short, long = sorted(_sides(box))
            aspect, height_share = long / max(1.0, short), short / picture.height
            lines.append(ReadLine(text, confidence, aspect, height_share, _upright_box(box, picture), edge_share))
        return lines

    def _boxes(self, picture: Image.Image) -> list[_Box]:
        width, height = _detector_size(picture.width, picture.height)
        scaled = np.asarray(picture.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=2))
        probability = self._run(self._detector, _tensor(scaled))[0, 0]
        scale = np.array([picture.width / width, picture.height / height])
        return _in_reading_order([box * scale for box in _rectangles(probability)])

    def _read_box(self, picture: Image.Image, box: _Box) -> tuple[str, float]:
        width, height = _sides(box)
        if height < 1.5 * width:
            return self._read_line(_line(picture, box))
        # text that runs up or down is laid on its side
        readings = [self._read_line(_line(picture, np.roll(box, turns, axis=0))) for turns in (-1, 1)]
        return max(readings, key=lambda reading: reading[1])

    def _read_line(self, line: npt.NDArray[np.uint8]) -> tuple[str, float]:
        """The text and its mean confidence; repeated classes and blanks are removed, as CTC asks."""
        probability = self._run(self._recogniser, _tensor(line))[0]
        best = probability.argmax(1)
        written = (best != 0) & (best != np.concatenate(([-1], best[:-1])))
        text = "".join(self._characters[index] for index in best[written]).strip()
        return text, float(probability.max(1)[written].mean()) if text else 0.0

    @staticmethod
    def _run(network: Any, tensor: _Floats) -> _Floats:
        (output,) = network.run(None, {network.get_inputs()[0].name: tensor})
        return output  # type: ignore[no-any-return]


@cache
def loaded_networks(folder: str) -> _Networks:
    """The networks of this process. Raises: the exceptions of onnxruntime."""
    return _Networks(Path(folder))


def _detector_size(width: int, height: int) -> tuple[int, int]:
    """Width and height of the picture for the detector."""
    scale = max(1.0, _MIN_SIDE_PX / min(width, height))
    scale = min(scale, _MAX_SIDE_PX / max(width, height), math.sqrt(_MAX_PIXELS / (width * height)))
    width, height = (max(1, round(side * scale / _SIDE_STEP_PX)) * _SIDE_STEP_PX for side in (width, height))
    return width, height


def _tensor(rows: npt.NDArray[np.uint8]) -> _Floats:
    """1×3×H×W from -1 to 1, in the order blue, green, red, from H×W×3 RGB."""
    planes = rows[:, :, ::-1].transpose(2, 0, 1)[None].astype(np.float32)
    planes -= 127.5
    planes /= 127.5
    return planes


def _rectangles(probability: _Floats) -> list[_Box]:
    """The rectangle around each region of text, in the pixels of `probability`.

    A pixel is text from a probability of 0.3, a region of at least 20 pixels from a mean of 0.5.
    """
    rows, starts, ends = _runs(probability > 0.3)
    if not 0 < rows.size <= 200_000:  # more horizontal runs are texture, such as a halftone
        return []
    cumulative = np.concatenate(([0.0], probability.cumsum(dtype=np.float64)))
    row_starts = rows * probability.shape[1]
    sums = cumulative[row_starts + ends] - cumulative[row_starts + starts]
    regions = _regions(rows, starts, ends)
    boxes = []
    for region in regions:
        pixels = int((ends[region] - starts[region]).sum())
        if pixels < 20 or sums[region].sum() < 0.5 * pixels:
            continue
        # the ends of each run contain the corners of the region
        x = np.concatenate((starts[region], ends[region], starts[region], ends[region]))
        y = np.concatenate((rows[region], rows[region], rows[region] + 1, rows[region] + 1))
        box = _smallest_rectangle(x, y)
        if box is not None:
            boxes.append(box)
    return boxes


def _runs(mask: npt.NDArray[np.bool_]) -> tuple[_Ints, _Ints, _Ints]:
    """Row, first column and end column of each horizontal run of true pixels, row by row."""
    padded = np.zeros((mask.shape[0], mask.shape[1] + 2), np.int8)
    padded[:, 1:-1] = mask
    steps = np.diff(padded, axis=1)
    rows, starts = np.nonzero(steps == 1)
    _, ends = np.nonzero(steps == -1)
    return rows, starts, ends


def _regions(rows: _Ints, starts: _Ints, ends: _Ints) -> list[_Ints]:
    """The indices of the runs of each connected region; runs of adjacent rows are connected where they overlap."""
    parent = list(range(rows.size))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    # all rows are laid end to end with a gap between them, so that both keys ascend from run to run; the runs of the
    # row above that overlap a run are those from `low` to before `high`
    stride = int(ends.max()) + 2
    start_keys, end_keys = rows * stride + starts, rows * stride + ends
    low = np.searchsorted(end_keys, start_keys - stride, side="right")
    high = np.searchsorted(start_keys, end_keys - stride, side="left")
    for index, (first_above, stop_above) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        for above in range(first_above, stop_above):
            parent[root(index)] = root(above)
    labels = np.array([root(index) for index in range(rows.size)])
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)


def _smallest_rectangle(x: _Ints, y: _Ints) -> _Box | None:
    """The rectangle of the smallest area around the points, grown to the height of the letters; None if it is too thin.

    A region covers the core of a line: each side is moved out by 1.6 × area ÷ perimeter. Among rectangles of almost
    equal area the least rotated one is preferred.
    """
    u = np.cos(_ANGLES)[:, None] * x + np.sin(_ANGLES)[:, None] * y
    v = -np.sin(_ANGLES)[:, None] * x + np.cos(_ANGLES)[:, None] * y
    left, right, top, bottom = u.min(1), u.max(1), v.min(1), v.max(1)
    areas = (right - left) * (bottom - top) * (1 + 0.02 * np.abs(_ANGLES))
    best = int(areas.argmin())
    width, height = right[best] - left[best], bottom[best] - top[best]
    if min(width, height) < 3:
        return None
    margin = width * height * 1.6 / (2 * (width + height))
    cos, sin = math.cos(_ANGLES[best]), math.sin(_ANGLES[best])
    across = left[best] - margin, right[best] + margin
    down = top[best] - margin, bottom[best] + margin
    corners = [(across[i], down[j]) for i, j in ((0, 0), (1, 0), (1, 1), (0, 1))]
    return np.array([(cos * x - sin * y, sin * x + cos * y) for x, y in corners])


def _sides(box: _Box) -> tuple[float, float]:
    """Width and height of a rectangle in pixels."""
    return float(np.linalg.norm(box[1] - box[0])), float(np.linalg.norm(box[3] - box[0]))


def _upright_box(box: _Box, picture: Image.Image) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the rectangle, as shares of the picture."""
    x, y = (box / (picture.width, picture.height)).clip(0, 1).T
    return float(x.min()), float(y.min()), float(x.max()), float(y.max())


def _in_reading_order(boxes: list[_Box]) -> list[_Box]:
    """The rectangles row by row from the top; those of a row overlap by half their height and go from left to right."""
    rows: list[list[_Box]] = []
    for box in sorted(boxes, key=lambda box: float(box[:, 1].mean())):
        if rows and _is_in_row(box, rows[-1][0]):
            rows[-1].append(box)
        else:
            rows.append([box])
    return [box for row in rows for box in sorted(row, key=lambda box: float(box[:, 0].min()))]


def _is_in_row(box: _Box, other: _Box) -> bool:
    top, bottom = max(box[:, 1].min(), other[:, 1].min()), min(box[:, 1].max(), other[:, 1].max())
    height = min(np.ptp(box[:, 1]), np.ptp(other[:, 1]))
    return bool(bottom - top >= 0.5 * height)


def _line(picture: Image.Image, box: _Box) -> npt.NDArray[np.uint8]:
    """What the rectangle shows, upright and `_LINE_ROWS` high, as H×W×3."""
    width, height = _sides(box)
    columns = max(_MIN_COLUMNS, min(_MAX_COLUMNS, math.ceil(_LINE_ROWS * width / max(1.0, height))))
    corners = [float(number) for index in (0, 3, 2, 1) for number in box[index]]
    # sampled at twice the size and then halved, so that pixels in between are blended, not skipped
    doubled = picture.transform((columns * 2, _LINE_ROWS * 2), Image.Transform.QUAD, corners, Image.Resampling.BILINEAR)
    return np.asarray(doubled.resize((columns, _LINE_ROWS), Image.Resampling.BOX))


def _edge_shares(picture: Image.Image, boxes: list[_Box]) -> list[float]:
    """The share of the picture's edges that lie in or at each rectangle; where rectangles overlap, the last one counts.

    They are counted in a small copy, in which a line of letters is a band. At full size its letters have so many edges
    that those of the bars of a chart, or of a soft photograph under the letters, would hardly count. A pixel belongs to
    an edge if a channel differs by 12 (of 255) from that of a neighbour.
    """
    if not boxes:
        return []
    scale = _EDGES_SIDE_PX / max(picture.size)
    size = (max(2, round(picture.width * scale)), max(2, round(picture.height * scale)))
    copy = np.asarray(picture.resize(size, Image.Resampling.BOX)).astype(np.int16)
    edges = np.zeros(copy.shape[:2], bool)
    edges[:, 1:] = np.abs(np.diff(copy, axis=1)).max(2) >= 12
    edges[1:] |= np.abs(np.diff(copy, axis=0)).max(2) >= 12
    numbers = Image.new("I", size)
    draw = ImageDraw.Draw(numbers)
    for number, box in enumerate(boxes, 1):
        corners = [(float(x), float(y)) for x, y in box * scale]
        draw.polygon(corners, fill=number)
        draw.line([*corners, corners[0]], fill=number, width=3)
    counts = np.bincount(np.asarray(numbers)[edges], minlength=len(boxes) + 1)
    return [float(count) / max(1, int(counts.sum())) for count in counts[1:]]
