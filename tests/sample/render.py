"""Renders the project's sample picture: a lighthouse, a moored boat and mountains in the evening, as a camera file.

The scene is a ray-cast height field with a sky, water that mirrors what stands above it, painted buildings and a
lens and sensor model; the file then gets the blocks that a camera and a photographer's catalogue write. Everything
follows from one seed: the same size on the same machine gives the same bytes. It is one long file so that the picture
can be made with this script, numpy and Pillow alone.

Coordinates: x to the right, y up from the water, z away from the camera, in metres. Colours: linear light, Rec. 709
primaries until `to_profile`.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import struct
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Floats = NDArray[np.floating[Any]]  # float32 wherever there are many
Colour = tuple[float, float, float]
Points = Sequence[tuple[float, float]]

SEED = 4711
WIDTH_PX = 3024  # as displayed; the height is 4/3 of it

# --- numbers that make up the scene ----------------------------------------------------------------------------------

EYE_M = 6.0
FOCAL = 1.35  # focal length in picture widths: about 36 mm on a 27 mm wide sensor
HORIZON = 0.60  # share of the height above the horizon
SUN = np.array([-0.950, 0.150, -0.274], np.float32)
SUN_LIGHT = np.array([3.1, 1.62, 0.78], np.float32)
SKY_LIGHT = np.array([0.30, 0.40, 0.60], np.float32)
DEEP_WATER = np.array([0.012, 0.040, 0.052], np.float32)
TOWER_X, TOWER_Z, TOWER_Y = 11.0, 112.0, 12.0
COTTAGE_X, COTTAGE_Z = 20.0, 113.0
BOAT_X, BOAT_Z = -9.5, 64.0


# --- noise -----------------------------------------------------------------------------------------------------------

LATTICE = np.random.RandomState(SEED).rand(256 * 256).astype(np.float32) * 2 - 1  # RandomState's stream is frozen


def smoothstep(low: float, high: float, value: Floats) -> Floats:
    """0 below `low`, 1 above `high`, a cubic between; `low` may be the greater one."""
    t: Floats = np.clip((value - low) / (high - low), 0, 1)
    return t * t * (3 - 2 * t)


def noise(x: Floats, y: Floats) -> Floats:
    """Value noise in -1…1, one lattice cell per unit, repeating after 256."""
    x_floor, y_floor = np.floor(x), np.floor(y)
    u, v = x - x_floor, y - y_floor
    left, top = x_floor.astype(np.int64) & 255, (y_floor.astype(np.int64) & 255) << 8
    right, bottom = (left + 1) & 255, (top + 256) & 0xFFFF
    u *= u * u * (u * (u * 6 - 15) + 10)
    v *= v * v * (v * (v * 6 - 15) + 10)
    a, c = LATTICE.take(top | left), LATTICE.take(bottom | left)
    a += (LATTICE.take(top | right) - a) * u
    c += (LATTICE.take(bottom | right) - c) * u
    a += (c - a) * v
    return a


def fractal(
    x: Floats,
    y: Floats,
    wave_m: float,
    octaves: int,
    gain: float = 0.5,
    finest_m: Floats | float = 0.0,
    ridged: bool = False,
) -> Floats:
    """Noise summed over octaves from `wave_m` down; octaves finer than twice `finest_m` fade out: nothing aliases."""
    total = np.zeros(np.broadcast(x, y).shape, np.float32)
    x, y = np.broadcast_to(x, total.shape), np.broadcast_to(y, total.shape)
    finest = np.broadcast_to(np.asarray(finest_m, np.float32), total.shape)
    cos, sin = np.float32(0.8), np.float32(0.6)  # each octave is turned: the lattice doesn't show
    amplitude = 1.0
    for octave in range(octaves):
        weight = np.clip(wave_m / np.maximum(finest, 1e-6) * 0.5 - 0.5, 0, 1)
        seen = weight > 0
        if not seen.any():
            break
        scale, shift = np.float32(1 / wave_m), np.float32(octave * 17.3)
        if seen.all():
            layer = noise(x * scale + shift, y * scale - shift)
            total += amplitude * weight * ((1 - 2 * np.abs(layer)) if ridged else layer)
        else:
            layer = noise(x[seen] * scale + shift, y[seen] * scale - shift)
            total[seen] += amplitude * weight[seen] * ((1 - 2 * np.abs(layer)) if ridged else layer)
        x, y = x * cos - y * sin, x * sin + y * cos
        wave_m, amplitude = wave_m * 0.49, amplitude * gain
    return total


# --- the ground ------------------------------------------------------------------------------------------------------


def bank_height(x: Floats, z: Floats, finest_m: Floats | float) -> Floats:
    """The near shore, from which the picture is taken."""
    bend = fractal(x, z, 5.0, 3, finest_m=finest_m)
    inland = 13.6 - 0.75 * (x + 3) - z + 1.3 * bend
    rise = 4.7 * smoothstep(-2.2, 4.2, inland) - 1.4
    rough = fractal(x + 40, z, 1.9, 9, 0.52, finest_m, ridged=True)
    return rise + 0.26 * rough * (1 - 0.45 * smoothstep(0.5, 2.5, inland)) + 0.12 * bend


def headland_height(x: Floats, z: Floats, finest_m: Floats | float) -> Floats:
    """The headland with level ground for its buildings, and skerries to its left."""
    warp_x, warp_z = fractal(x, z, 22.0, 4, finest_m=finest_m), fractal(x + 77, z - 31, 19.0, 4, finest_m=finest_m)
    from_middle = np.hypot((x + 6 * warp_x - 33) / 41, (z + 6 * warp_z - 124) / 33)
    body = 17.5 * smoothstep(1.08, 0.40, from_middle) + 4 * smoothstep(22, 60, x) * smoothstep(1.0, 0.6, from_middle)
    level = smoothstep(9, 4.5, np.hypot(x - TOWER_X, z - TOWER_Z)) + smoothstep(13.5, 8, np.hypot(x - 25, z - 107))
    level = np.minimum(level, 1)
    body = body + (TOWER_Y - body) * level * smoothstep(1.05, 0.8, from_middle)
    rough = fractal(x, z * 0.8 + 0.35 * x, 9.0, 11, 0.55, finest_m, ridged=True)
    cracks = fractal(x * 1.0, z * 0.5, 3.1, 8, 0.5, finest_m)
    roughness = (1 - 0.86 * level) * smoothstep(1.3, 0.9, from_middle) * (1 - 0.72 * smoothstep(10, 15, body))
    body = body - 2.4 + (1.15 * rough + 0.5 * cracks) * roughness
    bed = body / 1.7 + 0.35 * cracks + 0.12 * x / 1.7  # beds, a little tilted, break the slope into ledges
    step = bed - np.floor(bed)
    body = body + 1.3 * (smoothstep(0.30, 0.70, step) - step) * (1 - level)
    near = np.exp(-(((x + 17) / 13) ** 2) - ((z - 112) / 22) ** 2)
    skerry = 3.6 * near + 1.5 * warp_x - 3.0 + 0.75 * rough
    ground: Floats = np.maximum(body, skerry)
    return ground


def far_height(x: Floats, z: Floats, finest_m: Floats | float) -> Floats:
    """Wooded islets and the mountains across the water."""
    ridge = fractal(x + 900, z, 3900.0, 11, 0.5, finest_m, ridged=True)
    bulk = fractal(x - 4000, z + 2500, 5200.0, 3, finest_m=finest_m)
    across = x / z
    wall = smoothstep(2600, 5200, z - 3200 * smoothstep(-0.05, 0.30, across) - 900 * bulk)
    mountain = wall * (430 + 330 * bulk + 330 * ridge) * (0.55 + 0.55 * smoothstep(0.16, -0.30, across)) - 60 * (
        1 - wall
    )
    islet = (
        62 * fractal(x, z * 0.6, 700.0, 8, 0.42, finest_m)
        - 20
        - 70 * (smoothstep(1900, 2600, z) + smoothstep(1150, 870, z))
    )
    trees = 6.0 * np.abs(fractal(x, z, 11.0, 5, 0.62, finest_m)) * smoothstep(0, 8, islet)
    return np.maximum(mountain, islet + trees)


class Zone(NamedTuple):
    """A stretch of ground: how far away it lies, how finely it is cast, and a map of its light."""

    height: Callable[[Floats, Floats, Floats | float], Floats]
    near_m: float
    far_m: float
    step: float  # ratio of one depth to the next, less one, for the full size
    lightmap: Lightmap


class Lightmap:
    """Cast shadows and open sky over a patch of ground, on a grid that is turned so that the sun shines along its rows.

    A cell is in shadow when some cell towards the sun reaches above the ray to it: with the ray's rise added to the
    heights, that is a running maximum.
    """

    def __init__(
        self, height: Callable[..., Floats], corner: tuple[float, float], size: tuple[float, float], cell_m: float
    ) -> None:
        along = -SUN[[0, 2]] / np.hypot(SUN[0], SUN[2])
        self.along, self.corner, self.cell_m = along, corner, cell_m
        u = np.arange(0, size[0], cell_m, dtype=np.float32)[None, :]
        v = np.arange(0, size[1], cell_m, dtype=np.float32)[:, None]
        x, z = corner[0] + u * along[0] - v * along[1], corner[1] + u * along[1] + v * along[0]
        ground = height(x, z, cell_m)
        caster = ground.copy()
        if cell_m < 1:
            tower = np.hypot(x - TOWER_X, z - TOWER_Z)
            caster[tower < 2.7] = TOWER_Y + 25
            house = (np.abs(x - COTTAGE_X - 5) < 4.6) & (np.abs(z - COTTAGE_Z - 2) < 2.6)
            caster[house] = TOWER_Y + 4.5
        slope = SUN[1] / np.hypot(SUN[0], SUN[2])
        ray = caster + u * slope
        above = np.maximum.accumulate(ray, axis=1) - (ground + u * slope)
        penumbra_m = cell_m * 1.5
        self.sun = blurred(np.asarray(1 - smoothstep(0.1 * penumbra_m, 3 * penumbra_m, above), np.float32), 1.2)
        wide = sum(blurred(ground, s) for s in (2.0, 5.0, 11.0)) / 3
        self.open_sky = np.clip(1 - 0.26 * (wide - ground) / (cell_m * 3), 0.30, 1.15).astype(np.float32)
        rise = np.gradient(blurred(ground, 3.0), cell_m)
        self.steepness = np.hypot(rise[0], rise[1]).astype(np.float32)

    def at(self, x: Floats, z: Floats) -> tuple[Floats, Floats, Floats]:
        """Sun (0…1), open sky (about 0.3…1.15) and steepness (rise per metre) at the points, bilinear."""
        dx, dz = x - self.corner[0], z - self.corner[1]
        rows, columns = self.sun.shape
        column = np.clip((dx * self.along[0] + dz * self.along[1]) / self.cell_m, 0, columns - 1.001)
        row = np.clip((dz * self.along[0] - dx * self.along[1]) / self.cell_m, 0, rows - 1.001)
        i, j = row.astype(np.int64), column.astype(np.int64)
        v, u = row - i, column - j
        corner = i * columns + j

        def read(grid: Floats) -> Floats:
            top = grid.take(corner) * (1 - u) + grid.take(corner + 1) * u
            bottom = grid.take(corner + columns) * (1 - u) + grid.take(corner + columns + 1) * u
            value: Floats = top * (1 - v) + bottom * v
            return value

        return read(self.sun), read(self.open_sky), read(self.steepness)


def blurred(plane: Floats, sigma_px: float) -> Floats:
    """The plane under a Gaussian, edges repeated; an H×W or H×W×3 array."""
    radius = max(1, int(3 * sigma_px + 0.5))
    kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma_px) ** 2).astype(np.float32)
    kernel /= kernel.sum()
    for axis in (0, 1):
        pad = [(0, 0)] * plane.ndim
        pad[axis] = (radius, radius)
        padded = np.pad(plane, pad, mode="edge")
        length = plane.shape[axis]
        plane = np.zeros_like(plane)
        for offset, weight in enumerate(kernel):
            plane += weight * (padded[offset : offset + length] if axis == 0 else padded[:, offset : offset + length])
    return plane


# --- light -----------------------------------------------------------------------------------------------------------


def mixed(a: Any, b: Any, share: Floats) -> Floats:
    """Colour `a` moved towards `b` by `share`, a plane of 0…1."""
    first = np.asarray(a, np.float32)
    colour: Floats = first + (np.asarray(b, np.float32) - first) * share[..., None]
    return colour


def air(x: Floats, z: Floats, rise: Floats) -> Floats:
    """The cloudless sky in the direction (x, rise, z), z = 1 scale."""
    length = np.sqrt(x * x + rise * rise + z * z)
    up = rise / length
    to_sun = (x * SUN[0] + z * SUN[2]) / np.maximum(np.hypot(x, z), 1e-6)
    warm = smoothstep(-0.75, 0.42, to_sun)
    horizon = mixed((0.60, 0.40, 0.42), (1.55, 0.72, 0.30), warm)
    band = mixed((0.44, 0.42, 0.56), (0.82, 0.62, 0.52), warm)
    middle = mixed((0.20, 0.31, 0.50), (0.27, 0.38, 0.53), warm)
    colour = mixed(horizon, band, smoothstep(0.0, 0.13, up))
    colour = mixed(colour, middle, smoothstep(0.07, 0.30, up))
    return mixed(colour, (0.085, 0.155, 0.33), smoothstep(0.22, 0.72, up))


def sky(x: Floats, rise: Floats, finest: float) -> Floats:
    """The sky with its clouds, for directions (x, rise, 1)."""
    rise = np.maximum(rise, 0)
    one = np.ones_like(x)
    colour = air(x, one, rise)
    flat = 1 / (rise + 0.075)
    u, v = x * flat, flat

    def density(u: Floats, v: Floats) -> Floats:
        bend = fractal(u * 0.8 + 3, v * 0.8, 1.7, 3)
        puff = fractal(u + 0.35 * bend, v * 1.15 + 0.25 * bend + 6.2, 1.55, 8, 0.53, finest * 8)
        cover = fractal(u * 0.5 + 9, v * 0.5 + 1, 2.6, 2)
        return smoothstep(-0.02, 0.72, puff + 0.55 * cover - 0.02)

    here = density(u, v)
    towards = density(u - 0.16, v - 0.05)
    lit = np.clip(0.42 + 1.15 * (here - towards) - 0.25 * here, 0, 1)
    to_sun = smoothstep(-0.9, 0.5, (x * SUN[0] + SUN[2]) / np.hypot(x, one))
    shade = mixed((0.155, 0.165, 0.265), (0.33, 0.25, 0.29), to_sun * smoothstep(0.5, 0.1, rise))
    glow = mixed((0.88, 0.50, 0.44), (1.65, 0.80, 0.42), to_sun * smoothstep(0.7, 0.05, rise))
    cover = here * (0.93 - 0.35 * smoothstep(0.10, 0.0, rise))
    streak = fractal(u * 0.5 - v * 0.15, v * 1.3 + 40, 0.9, 7, 0.55, finest * 8)
    wisp = 0.42 * smoothstep(0.05, 0.9, streak + 0.3 * fractal(u, v + 9, 3.0, 2)) * smoothstep(0.03, 0.25, rise)
    colour = mixed(colour, mixed((0.45, 0.40, 0.47), (1.25, 0.72, 0.52), to_sun), wisp)
    return mixed(colour, mixed(shade, glow, lit), cover)


def hazed(colour: Floats, x: Floats, y: Floats, z: Floats) -> Floats:
    """The colour behind z metres of evening air, thickest over the water."""
    thick = z * (0.25 + 0.75 * np.exp(-np.maximum(y, 0) / 260))
    share = 1 - np.exp(-thick / 10500)
    return mixed(
        colour, air(x / z, np.ones_like(x), np.full_like(x, 0.06)) * np.array([0.72, 0.76, 0.88], np.float32), share
    )


def ground_colour(zone: Zone, x: Floats, z: Floats, finest_m: Floats) -> Floats:
    """Lit and hazed ground at the points (1-D arrays)."""
    y = zone.height(x, z, finest_m)
    step = finest_m * 0.9
    slope_x = (zone.height(x + step, z, finest_m) - y) / step
    slope_z = (zone.height(x, z + step, finest_m) - y) / step
    sun, open_sky, steepness = zone.lightmap.at(x, z)
    if zone.far_m < 1000:  # on a cliff the height field has no detail from top to bottom: a bump texture gives it
        grade, down = 0.75 * smoothstep(0.5, 1.6, steepness), z * 0.7 + y * 1.1
        bump = fractal(x, down, 1.4, 7, 0.55, finest_m, ridged=True)
        slope_x += grade * 0.42 * (fractal(x + step, down, 1.4, 7, 0.55, finest_m, ridged=True) - bump) / step
        slope_z += grade * 0.42 * (fractal(x, down + step, 1.4, 7, 0.55, finest_m, ridged=True) - bump) / step
    upright = 1 / np.sqrt(1 + slope_x * slope_x + slope_z * slope_z)
    facing = np.maximum(0, (SUN[1] - slope_x * SUN[0] - slope_z * SUN[2]) * upright)
    if zone.far_m > 1000:
        albedo = mountain_albedo(x, y, z, steepness, finest_m)
    else:
        albedo = coast_albedo(x, y, z, steepness, finest_m, grass_from_m=1.35 if zone.far_m < 50 else 5.2)
    ambient = (0.40 + 0.60 * upright) * open_sky
    bounce = 0.10 * (1 - upright) * open_sky
    light = (
        (facing * sun)[:, None] * SUN_LIGHT
        + ambient[:, None] * SKY_LIGHT
        + bounce[:, None] * np.array([0.9, 0.6, 0.4], np.float32)
    )
    return hazed(albedo * light, x, y, z)


def coast_albedo(x: Floats, y: Floats, z: Floats, steepness: Floats, finest_m: Floats, grass_from_m: float) -> Floats:
    """Granite, lichen, a dark tidal band and grass."""
    down = z * 0.8 + y * 1.2
    patch = fractal(x, down, 4.2, 5, finest_m=finest_m)
    grain = fractal(x + 5, down, 0.55, 5, 0.7, finest_m)
    layers = fractal(x * 0.25 + y * 0.4, y * 2.2 + z * 0.1 - x * 0.26, 0.9, 4, 0.6, finest_m)
    rock = mixed((0.125, 0.115, 0.112), (0.33, 0.27, 0.225), np.clip(0.45 + 0.38 * patch + 0.24 * layers, 0, 1))
    rock *= (1 + 0.34 * grain)[:, None]
    joint = np.abs(fractal(x * 1.3, down * 0.6, 2.3, 5, 0.45, finest_m))
    rock *= (1 - 0.55 * smoothstep(0.075, 0.0, joint))[:, None]
    lichen = smoothstep(0.28, 0.75, fractal(x - 60, down, 1.1, 6, 0.65, finest_m)) * smoothstep(1.8, 4.0, y)
    rock = mixed(rock, (0.31, 0.245, 0.095), 0.5 * lichen)
    tide = smoothstep(1.35, 0.55, y + 0.35 * patch)
    rock = mixed(rock, (0.030, 0.028, 0.022), 0.88 * tide)
    tuft = fractal(x, z, 0.42, 4, 0.75, finest_m)
    green = mixed((0.060, 0.085, 0.020), (0.235, 0.205, 0.070), np.clip(0.42 + 0.45 * patch + 0.30 * tuft, 0, 1))
    green *= (1 + 0.55 * tuft)[:, None]
    grassy = smoothstep(0.95, 0.45, steepness + 0.25 * patch) * smoothstep(
        grass_from_m, grass_from_m * 1.3, y + 0.8 * patch
    )
    return np.clip(mixed(rock, green, grassy), 0.008, 0.8)


def mountain_albedo(x: Floats, y: Floats, z: Floats, steepness: Floats, finest_m: Floats) -> Floats:
    """Bare rock with old snow above a wooded foot."""
    patch = fractal(x, z, 420.0, 7, 0.6, finest_m)
    rock = mixed((0.13, 0.12, 0.12), (0.27, 0.24, 0.22), np.clip(0.5 + 0.5 * patch, 0, 1))
    leaf = fractal(x, z * 0.5 + y * 1.5, 14.0, 6, 0.75, finest_m)
    wood = mixed((0.020, 0.030, 0.016), (0.075, 0.085, 0.030), np.clip(0.35 + 0.4 * patch + 0.4 * leaf, 0, 1))
    wood = mixed(wood, rock, smoothstep(3.2, 1.2, y + leaf))
    colour = mixed(rock, wood, smoothstep(330, 170, y + 90 * patch) * smoothstep(1.5, 0.7, steepness))
    snow = smoothstep(520, 700, y + 190 * patch) * smoothstep(1.15, 0.65, steepness + 0.35 * patch)
    return mixed(colour, (0.78, 0.80, 0.84), 0.9 * snow)


# --- the cast --------------------------------------------------------------------------------------------------------


class View(NamedTuple):
    """A picture plane: pixels per unit of slope, the column straight ahead, the horizon's row and the eye's height."""

    width: int
    height: int
    focal_px: float
    middle_px: float
    horizon_px: float
    eye_m: float


def cast(
    view: View, zones: Sequence[Zone], columns: slice, water: Callable[..., Floats] | None
) -> tuple[Floats, Floats]:
    """Linear colour (H×n×3) and depth (H×n, metres, inf for sky) of some columns of the view."""
    across = ((np.arange(columns.start, columns.stop) + 0.5 - view.middle_px) / view.focal_px).astype(np.float32)
    slopes = ((view.horizon_px - np.arange(view.height) - 0.5) / view.focal_px).astype(np.float32)
    coarser = max(1.0, 0.7 * WIDTH_PX * FOCAL / view.focal_px)
    depths = [np.exp(np.arange(np.log(q.near_m), np.log(q.far_m), q.step * coarser)).astype(np.float32) for q in zones]
    depth = np.full((view.height, across.size), np.inf, np.float32)
    for zone, z in zip(zones, depths, strict=True):
        height = zone.height(across[None, :] * z[:, None], z[:, None], (z / view.focal_px)[:, None])
        seen = (height - view.eye_m) / z[:, None]
        if view.eye_m < 0:  # the mirrored eye is under water: only what stands out of it is there
            seen[height < 0] = -9
        highest = np.maximum.accumulate(seen, axis=0)
        for column in range(across.size):
            hit = np.searchsorted(highest[:, column], slopes)
            free = np.isinf(depth[:, column]) & (hit < z.size)
            if view.eye_m < 0:  # a ray that is still under water passes below the ground that stands out of it
                free &= view.eye_m + slopes * z[np.minimum(hit, z.size - 1)] > -0.3
            found = np.flatnonzero(free)
            k = hit[found]
            before = np.maximum(k - 1, 0)
            low, high = seen[before, column], seen[k, column]
            share = np.clip((slopes[found] - low) / np.maximum(high - low, 1e-9), 0, 1)
            depth[found, column] = z[before] + share * (z[k] - z[before])
    if water is not None:
        surface = np.where(slopes < 0, view.eye_m / np.maximum(-slopes, 1e-9), np.inf).astype(np.float32)[:, None]
        wet = surface < depth
        depth = np.where(wet, surface, depth)
    else:
        wet = np.zeros(depth.shape, bool)
    colour = np.empty((*depth.shape, 3), np.float32)
    x_slope, y_slope = np.broadcast_to(across, depth.shape), np.broadcast_to(slopes[:, None], depth.shape)
    if (open_air := np.isinf(depth)).any():
        colour[open_air] = sky(x_slope[open_air], y_slope[open_air], 1 / view.focal_px)
    for zone in zones:
        here = (depth >= zone.near_m * 0.999) & (depth <= zone.far_m) & ~wet
        if here.any():
            d = depth[here]
            colour[here] = ground_colour(zone, x_slope[here] * d, d, 1.1 * d / view.focal_px)
    if water is not None and wet.any():
        colour[wet] = water(x_slope[wet], y_slope[wet])
    return colour, depth


def cast_all(view: View, zones: Sequence[Zone], water: Callable[..., Floats] | None) -> tuple[Floats, Floats]:
    """The whole view, blocks of columns on two threads; numpy lets them run side by side."""
    blocks = [slice(i, min(i + 64, view.width)) for i in range(0, view.width, 64)]
    colour = np.empty((view.height, view.width, 3), np.float32)
    depth = np.empty((view.height, view.width), np.float32)
    with ThreadPoolExecutor(2) as threads:
        for block, (c, d) in zip(blocks, threads.map(lambda b: cast(view, zones, b, water), blocks), strict=True):
            colour[:, block], depth[:, block] = c, d
    return colour, depth


def make_water(view: View, mirror: Floats, mirrored: View, zones: Sequence[Zone]) -> Callable[[Floats, Floats], Floats]:
    """A function from slopes (1-D) to the colour of the water there, looking into the mirrored picture."""

    def look(x_slope: Floats, rise: Floats) -> Floats:
        column = np.clip(mirrored.middle_px + x_slope * mirrored.focal_px, 0, mirrored.width - 1.001)
        row = np.clip(mirrored.horizon_px - rise * mirrored.focal_px, 0, mirrored.height - 1.001)
        j, i = column.astype(np.int64), row.astype(np.int64)
        u, v = (column - j)[:, None], (row - i)[:, None]
        top = mirror[i, j] * (1 - u) + mirror[i, j + 1] * u
        bottom = mirror[i + 1, j] * (1 - u) + mirror[i + 1, j + 1] * u
        seen: Floats = top * (1 - v) + bottom * v
        return seen

    def colour(x_slope: Floats, y_slope: Floats) -> Floats:
        z = view.eye_m / np.maximum(-y_slope, 1e-5)
        x = x_slope * z
        long_m = np.minimum(z * z / (view.eye_m * view.focal_px), 400)  # a pixel's length on the water
        finest = np.sqrt(long_m * z / view.focal_px)
        calm = smoothstep(
            -0.6, 0.8, fractal(x * 0.35, z, 46.0, 3) + 0.25 * fractal(x * 0.4, z, 9.0, 3, finest_m=finest)
        )
        wind = 0.95 - 0.65 * calm
        slope_x, slope_z, spread = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
        for wave_m, tilt, turn in (
            (7.0, 0.016, 0.25), (2.9, 0.022, -0.4), (1.25, 0.030, 0.5),
            (0.52, 0.034, -0.15), (0.21, 0.036, 0.7), (0.09, 0.030, -0.6),
        ):  # fmt: skip
            cos, sin = np.float32(np.cos(turn)), np.float32(np.sin(turn))
            u, v = (x * cos + z * sin) / (wave_m * 1.9) + 31 * tilt, (z * cos - x * sin) / wave_m
            kept = np.clip(wave_m / finest * 0.7 - 0.7, 0, 1)
            h, e = noise(u, v), np.float32(0.12)
            strength = tilt * (wind if wave_m < 2 else 0.35 + 0.65 * wind) * 0.36
            slope_z += kept * strength * (noise(u, v + e) - h) / e
            slope_x += kept * strength * (noise(u + e, v) - h) / e * 0.55
            spread += (1 - kept) * (strength * 1.1) ** 2
        spread = np.sqrt(spread)
        total = np.zeros((x.size, 3), np.float32)
        jitter = noise(x_slope * view.focal_px * 0.83, y_slope * view.focal_px * 0.91)
        offsets = (-1.15, -0.4, 0.3, 1.05)
        for offset in offsets:
            tilt_z = slope_z + spread * (offset + 0.5 * jitter)
            tilt_x = slope_x + spread * 0.5 * (jitter - 0.3 * offset)
            # mirror the ray (x_slope, y_slope, 1) at the normal (-tilt_x, 1, -tilt_z)
            into = (y_slope - x_slope * tilt_x - tilt_z) / (1 + tilt_x * tilt_x + tilt_z * tilt_z)
            away_y = np.maximum(np.abs(y_slope - 2 * into), 0.012)  # a ray sent downwards meets the next wave
            away_x, away_z = x_slope + 2 * into * tilt_x, np.maximum(1 + 2 * into * tilt_z, 0.2)
            cosine = np.clip(-into / np.sqrt(1 + x_slope**2 + y_slope**2), 0.02, 1)
            fresnel = (0.02 + 0.98 * (1 - cosine) ** 5)[:, None]
            total += fresnel * look(away_x / away_z, away_y / away_z) + (1 - fresnel) * DEEP_WATER
        total /= len(offsets)
        for zone in zones[:2]:  # foam where the ground comes up to the surface
            close = (z > zone.near_m) & (z < zone.far_m)
            if close.any():
                bx, bz = x[close], z[close]
                depth = zone.height(bx, bz, finest[close])
                froth = fractal(bx, bz, 0.8, 5, 0.65, finest[close])
                wash = smoothstep(-0.75, -0.02, depth + 0.33 * froth) * smoothstep(
                    -0.35, 0.45, froth + 0.5 * smoothstep(-0.3, 0, depth)
                )
                total[close] = mixed(
                    total[close] * (1 - 0.35 * smoothstep(-1.2, 0, depth))[:, None], (0.50, 0.48, 0.52), 0.62 * wash
                )
        return hazed(total, x, np.zeros_like(x), np.minimum(z, 9000))

    return colour


# --- painted things --------------------------------------------------------------------------------------------------


class Paint(NamedTuple):
    """What a shape is made of: colour, share of sun and sky light, light of its own; `round`: shaded as a cylinder."""

    albedo: Colour
    sun: float = 0.30
    sky: float = 0.75
    glow: Colour = (0, 0, 0)
    round: bool = False


class Board:
    """A flat board facing the camera, painted in metres from its lower middle, rastered finely and then averaged."""

    FINER = 3

    def __init__(self, half_m: float, top_m: float, pixels_per_m: float) -> None:
        self.half_m, self.top_m, self.scale = half_m, top_m, pixels_per_m * self.FINER
        height, width = (self.FINER * int(np.ceil(m * pixels_per_m)) for m in (top_m, 2 * half_m))
        self.shape = (height, width)
        self.image = Image.new("L", (width, height), 0)
        self.draw, self.paints = ImageDraw.Draw(self.image), [Paint((0, 0, 0), 0, 0)]

    def _to_pixels(self, points: Points) -> list[tuple[float, float]]:
        return [((x + self.half_m) * self.scale, self.shape[0] - y * self.scale) for x, y in points]

    def fill(self, points: Points, paint: Paint) -> None:
        """Paints a polygon."""
        self.paints.append(paint)
        self.draw.polygon(self._to_pixels(points), fill=len(self.paints) - 1)

    def box(self, x: float, y: float, width: float, height: float, paint: Paint) -> None:
        """Paints an upright rectangle with its lower left corner at (x, y)."""
        self.fill([(x, y), (x + width, y), (x + width, y + height), (x, y + height)], paint)

    def stroke(self, points: Points, width_m: float, paint: Paint) -> None:
        """Paints a line, at least a third of a pixel wide."""
        self.paints.append(paint)
        self.draw.line(self._to_pixels(points), fill=len(self.paints) - 1, width=max(1, round(width_m * self.scale)))

    def lit(self) -> tuple[Floats, Floats]:
        """Colour times coverage (H×W×3) and coverage (H×W)."""
        number = np.asarray(self.image)
        table = [np.array(column, np.float32) for column in zip(*self.paints, strict=True)]
        albedo, sun, ambient, glow = (part[number] for part in table[:4])
        turned = table[4].astype(bool)[number]
        rows = np.flatnonzero(turned.any(axis=1))
        left, right = turned[rows].argmax(axis=1), turned.shape[1] - turned[rows, ::-1].argmax(axis=1)
        where = (np.arange(turned.shape[1]) + 0.5 - (left + right)[:, None] / 2) / ((right - left)[:, None] / 2)
        depth = np.sqrt(np.maximum(1 - where**2, 0))
        cylinder = np.maximum(0, where * SUN[0] - depth * SUN[2])
        sun[rows] = np.where(turned[rows], cylinder * sun[rows], sun[rows])
        ambient[rows] = np.where(turned[rows], ambient[rows] * (0.62 + 0.38 * depth), ambient[rows])
        x, y = (np.arange(n, dtype=np.float32) / self.scale for n in self.shape[::-1])
        stain = 0.90 + 0.10 * fractal(x[None, :] * 6, y[:, None], 1.6, 6, 0.7, 1 / self.scale)
        stain += 0.05 * fractal(x[None, :], y[:, None], 0.3, 3, 0.7, 1 / self.scale)
        colour = albedo * stain[..., None] * (sun[..., None] * SUN_LIGHT + ambient[..., None] * SKY_LIGHT) + glow
        cover = (number > 0).astype(np.float32)
        h, w, k = self.shape[0] // self.FINER, self.shape[1] // self.FINER, self.FINER
        return (colour * cover[..., None]).reshape(h, k, w, k, 3).mean(axis=(1, 3)), cover.reshape(h, k, w, k).mean(
            axis=(1, 3)
        )

    def place(self, colour: Floats, depth: Floats, view: View, at: tuple[float, float, float]) -> None:
        """Sets the board into the view with its lower middle at the point, behind what is nearer."""
        x, y, z = at
        light, cover = self.lit()
        light /= np.maximum(cover, 1e-6)[..., None]
        light = hazed(light, *(np.full(cover.shape, value, np.float32) for value in at))
        top = round(view.horizon_px - (y - view.eye_m) / z * view.focal_px) - cover.shape[0]
        left = round(view.middle_px + x / z * view.focal_px - cover.shape[1] / 2)
        rows = slice(max(top, 0), min(top + cover.shape[0], view.height))
        columns = slice(max(left, 0), min(left + cover.shape[1], view.width))
        part = (slice(rows.start - top, rows.stop - top), slice(columns.start - left, columns.stop - left))
        a = (cover[part] * (depth[rows, columns] > z - 1.5))[..., None]
        target = colour[rows, columns]
        target += a * (light[part] - target)
        depth[rows, columns] = np.where(a[..., 0] > 0.5, z, depth[rows, columns])


WHITE, RED, DARK = (0.80, 0.78, 0.74), (0.46, 0.050, 0.035), (0.035, 0.036, 0.04)
LAMP = (14.0, 9.5, 4.6)


def paint_tower(pixels_per_m: float) -> Board:
    """The lighthouse: 22 m of tapering masonry, a gallery and the lantern."""
    board = Board(5.0, 32.0, pixels_per_m)

    def ring(y: float, radius: float) -> list[tuple[float, float]]:
        turn = np.linspace(-1, 1, 41)
        nearer = radius * np.sqrt(1 - turn**2)
        seen_y = y + (y + TOWER_Y - EYE_M) * nearer / (
            TOWER_Z - nearer
        )  # above the eye the near side of a ring stands higher
        return [(float(t * radius), float(s)) for t, s in zip(turn, seen_y, strict=True)]

    def drum(low: float, high: float, r_low: float, r_high: float, paint: Paint) -> None:
        board.fill(ring(low, r_low) + ring(high, r_high)[::-1], paint)

    def radius(y: float) -> float:
        return 2.15 + 1.35 * (1 - y / 21.5) ** 1.35 if y < 21.5 else 2.15

    edges = [0.0, 1.2, 5.0, 9.4, 13.8, 18.2, 21.5]
    for i, (low, high) in enumerate(pairwise(edges)):
        colour = (0.26, 0.24, 0.22) if i == 0 else RED if i in (2, 4) else WHITE
        for a in np.arange(low, high, 0.55):
            b = min(a + 0.55, high)
            drum(a - 0.1, b, radius(a), radius(b), Paint(colour, 1, 0.9, round=True))
    for y in (6.6, 11.4, 16.0):
        x = {6.6: -0.35, 11.4: 0.25, 16.0: -0.1}[y]
        board.box(x - 0.42, y + 0.2, 0.84, 1.35, Paint(WHITE, 0.30, 0.7))
        board.box(x - 0.30, y + 0.3, 0.60, 1.15, Paint(DARK, 0.1, 0.5, (0.03, 0.03, 0.03)))
    board.box(-0.75, 0.5, 1.3, 2.35, Paint((0.33, 0.31, 0.28), 0.3, 0.7))
    board.box(-0.58, 0.5, 0.96, 2.15, Paint((0.05, 0.09, 0.08), 0.3, 0.7))
    drum(22.2, 23.2, 1.75, 1.75, Paint(WHITE, 0.9, 0.7, round=True))
    drum(23.2, 25.4, 1.62, 1.62, Paint((0.10, 0.11, 0.12), 0.35, 0.5, (0.62, 0.42, 0.20), round=True))
    board.fill([(-0.55, 23.6), (0.55, 23.6), (0.62, 25.2), (-0.62, 25.2)], Paint(WHITE, 0, 0, (2.6, 1.75, 0.80)))
    board.fill([(-0.26, 24.0), (0.26, 24.0), (0.26, 25.0), (-0.26, 25.0)], Paint(WHITE, 0, 0, LAMP))
    bar = Paint((0.05, 0.05, 0.05), 0.5, 0.6)
    for turn in np.linspace(-1.4, 1.4, 8):
        x = 1.62 * float(np.sin(turn))
        board.stroke([(x, 23.4), (x, 25.6)], 0.07, bar)
    board.stroke([(-1.62, 24.5), (1.62, 24.5)], 0.06, bar)
    for i in range(12):
        a, b = i / 12, (i + 1) / 12
        r_low, r_high = (1.95 * (1 - share**2) ** 0.6 + 0.02 for share in (a, b))
        copper = Paint((0.30, 0.045, 0.035), 1, 0.9, round=True)
        drum(25.35 + 1.5 * a**0.8, 25.5 + 1.5 * b**0.8, r_low, r_high, copper)
    drum(26.95, 27.5, 0.24, 0.24, Paint((0.2, 0.05, 0.04), 1, 0.9, round=True))
    board.stroke([(0, 27.4), (0, 29.6)], 0.07, bar)
    drum(21.9, 22.25, 3.05, 3.05, Paint((0.22, 0.21, 0.2), 0.9, 0.7, round=True))
    drum(21.2, 21.9, 2.2, 2.85, Paint(WHITE, 0.9, 0.6, round=True))
    for height in (22.6, 22.95, 23.35):
        board.stroke(ring(height, 3.0), 0.05, Paint((0.30, 0.30, 0.30), 0.4, 0.8))
    for turn in np.linspace(-1.5, 1.5, 19):
        x = 3.0 * float(np.sin(turn))
        base = 22.25 + 0.77 * float(np.cos(turn))
        board.stroke([(x, base), (x, base + 1.15)], 0.05, Paint((0.30, 0.30, 0.30), 0.4, 0.8))
    return board


def paint_cottage(pixels_per_m: float) -> Board:
    """The keeper's house, its gable to the sun."""
    board = Board(7.0, 8.0, pixels_per_m)
    wall, gable, trim = (
        Paint((0.30, 0.048, 0.032), 0.26, 0.72),
        Paint((0.34, 0.055, 0.036), 0.80, 0.8),
        Paint(WHITE, 0.30, 0.85),
    )
    board.fill([(-5, -0.2), (-2.3, -0.3), (-2.3, 3.0), (-3.65, 5.1), (-5, 3.0)], gable)
    board.fill([(-2.3, -0.3), (4.9, -0.2), (4.9, 3.0), (-2.3, 3.0)], wall)
    for i in range(1, 15):
        y = i * 0.21
        board.stroke([(-2.3, y), (4.9, y)], 0.025, Paint((0.17, 0.028, 0.02), 0.2, 0.6))
        board.stroke([(-5, y), (-2.3, y)], 0.025, Paint((0.19, 0.03, 0.022), 0.6, 0.6))
    board.fill([(-5, -0.3), (4.9, -0.3), (4.9, 0.25), (-2.3, 0.2), (-5, 0.25)], Paint((0.22, 0.21, 0.2), 0.4, 0.7))
    board.box(0.9, 5.2, 0.75, 1.35, Paint((0.28, 0.16, 0.12), 0.4, 0.8))
    board.box(0.85, 6.45, 0.85, 0.18, Paint((0.3, 0.28, 0.26), 0.4, 0.8))
    board.fill([(-3.75, 5.35), (3.6, 5.35), (5.2, 2.75), (-2.1, 2.75)], Paint((0.085, 0.088, 0.10), 0.42, 1.0))
    for i in range(1, 12):
        share = i / 12
        board.stroke(
            [(-3.75 + 1.65 * share, 5.35 - 2.6 * share), (3.6 + 1.6 * share, 5.35 - 2.6 * share)],
            0.035,
            Paint((0.05, 0.05, 0.06), 0.3, 0.8),
        )
    board.stroke([(-5.15, 2.85), (-3.7, 5.3), (-2.15, 2.85)], 0.17, Paint(WHITE, 0.8, 0.85))
    board.stroke([(-2.3, 0.2), (-2.3, 2.8)], 0.16, trim)
    board.stroke([(4.85, 0.2), (4.85, 2.8)], 0.14, trim)
    for x, warm in ((-1.5, True), (0.2, False), (3.4, True)):
        board.box(x - 0.1, 0.95, 1.2, 1.45, trim)
        board.box(x, 1.05, 1.0, 1.25, Paint(DARK, 0.1, 0.4, (1.55, 0.85, 0.30) if warm else (0.10, 0.11, 0.13)))
        board.stroke([(x + 0.5, 1.0), (x + 0.5, 2.35)], 0.07, trim)
        board.stroke([(x, 1.75), (x + 1.0, 1.75)], 0.06, trim)
    board.box(-4.05, 1.1, 0.75, 1.3, Paint(WHITE, 0.8, 0.8))
    board.box(-3.97, 1.18, 0.59, 1.14, Paint((0.05, 0.05, 0.05), 0.5, 0.6, (0.20, 0.15, 0.10)))
    board.box(1.75, 0.1, 1.1, 2.3, trim)
    board.box(1.85, 0.1, 0.9, 2.2, Paint((0.10, 0.17, 0.16), 0.3, 0.7))
    return board


def paint_boat(pixels_per_m: float) -> Board:
    """A small sloop with her sail furled."""
    board = Board(5.2, 12.0, pixels_per_m)
    bow, stern = 3.75, -3.55
    keel = [(stern + 0.25, -0.2), (bow - 0.55, -0.2)]
    sheer = [(bow, 1.18), (bow - 1.6, 0.98), (0.3, 0.84), (-2.0, 0.84), (stern, 0.92)]
    board.fill([*keel, *sheer], Paint((0.028, 0.055, 0.11), 0.36, 0.85))
    board.fill([keel[0], keel[1], (bow - 0.47, 0.13), (stern + 0.18, 0.10)], Paint((0.30, 0.045, 0.035), 0.30, 0.5))
    board.stroke([(stern + 0.14, 0.17), (0, 0.16), (bow - 0.42, 0.22)], 0.055, Paint(WHITE, 0.4, 0.8))
    board.stroke(
        [(stern, 0.92), (-2.0, 0.84), (0.3, 0.84), (bow - 1.6, 0.98), (bow, 1.18)],
        0.085,
        Paint((0.45, 0.28, 0.15), 0.5, 0.9),
    )
    board.fill([(-1.5, 0.84), (-1.32, 1.36), (0.9, 1.36), (1.75, 0.93)], Paint(WHITE, 0.36, 0.9))
    board.fill([(-1.45, 1.34), (0.95, 1.34), (0.9, 1.44), (-1.35, 1.44)], Paint(WHITE, 0.7, 1.0))
    for x in (-1.05, -0.35, 0.35):
        board.box(x, 1.02, 0.45, 0.20, Paint(DARK, 0.2, 0.6))
    wood, wire = Paint((0.42, 0.36, 0.28), 0.62, 0.8), Paint((0.10, 0.10, 0.10), 0.4, 0.7)
    board.stroke([(0.55, 1.3), (0.50, 11.2)], 0.125, wood)
    board.stroke([(0.52, 2.15), (-2.95, 2.05)], 0.10, wood)
    board.fill(
        [(0.45, 2.18), (0.42, 2.72), (-0.8, 2.45), (-2.85, 2.22), (-2.85, 2.08)], Paint((0.08, 0.16, 0.30), 0.42, 0.9)
    )
    board.stroke([(0.50, 10.6), (bow - 0.05, 1.2)], 0.03, wire)
    board.stroke([(0.50, 11.1), (stern + 0.05, 0.95)], 0.025, wire)
    board.stroke([(0.52, 7.2), (0.95, 0.95)], 0.022, wire)
    board.stroke([(0.52, 7.2), (0.15, 0.9)], 0.022, wire)
    board.stroke([(0.1, 7.2), (0.95, 7.2)], 0.04, wood)
    board.stroke([(-2.95, 2.05), (-2.9, 0.95)], 0.02, wire)
    for x in (stern + 0.15, -2.6, -1.7, 1.9, 2.8, bow - 0.2):
        board.stroke([(x, 0.88), (x, 1.50 + 0.05 * x)], 0.025, Paint((0.5, 0.5, 0.5), 0.5, 0.8))
    board.stroke([(bow - 0.2, 1.68), (2.8, 1.62), (1.9, 1.58)], 0.02, wire)
    board.stroke([(stern + 0.15, 1.32), (-2.6, 1.36), (-1.7, 1.40)], 0.02, wire)
    board.stroke([(stern + 0.12, 0.9), (stern - 0.12, 2.05)], 0.035, wood)
    board.fill(
        [
            (stern, 1.55),
            (stern - 0.1, 1.98),
            (stern - 0.34, 1.86),
            (stern - 0.62, 1.78),
            (stern - 0.5, 1.38),
            (stern - 0.25, 1.44),
        ],
        Paint(RED, 0.6, 0.9),
    )
    board.fill(
        [(4.35, 0.0), (4.75, 0.0), (4.82, 0.25), (4.68, 0.48), (4.42, 0.48), (4.28, 0.25)],
        Paint((0.62, 0.16, 0.03), 0.6, 0.9),
    )
    board.stroke([(bow - 0.1, 1.1), (4.5, 0.45)], 0.025, wire)
    return board


def paint_things(colour: Floats, depth: Floats, view: View) -> None:
    """Sets the buildings and the boat into the view, furthest first."""
    for paint, at in (
        (paint_cottage, (COTTAGE_X + 5, TOWER_Y - 2.5, COTTAGE_Z)),
        (paint_tower, (TOWER_X, TOWER_Y - 2.5, TOWER_Z)),
        (paint_boat, (BOAT_X, 0.0, BOAT_Z)),
    ):
        paint(view.focal_px / at[2]).place(colour, depth, view, at)


def paint_gulls(colour: Floats, view: View) -> None:
    """A few gulls over the headland."""
    scale = view.width / 756
    for x, y, span, dip in (
        (0.30, 0.300, 9, 0.35),
        (0.345, 0.318, 7, 0.15),
        (0.41, 0.275, 6, 0.5),
        (0.47, 0.335, 5, 0.3),
    ):
        size = int(span * scale) + 4
        layer = Image.new("L", (size * 8, size * 4), 0)
        pen, s = ImageDraw.Draw(layer), size * 4
        wing = [
            (s * a, size * 2 - s * 0.30 * b)
            for a, b in ((-1, dip), (-0.55, 0.62), (-0.1, 0.05), (0.1, 0.0), (0.5, 0.66), (0.95, dip + 0.1))
        ]
        pen.line([(s + u, v) for u, v in wing], fill=255, width=max(2, s // 14), joint="curve")
        pen.ellipse([s - s * 0.17, size * 2 - s * 0.05, s + s * 0.17, size * 2 + s * 0.06], fill=255)
        cover = np.asarray(layer.resize((size * 2, size), Image.Resampling.BOX), np.float32)[..., None] / 255
        top, left = int(y * view.height), int(x * view.width)
        part = colour[top : top + size, left : left + size * 2]
        part += 0.85 * cover * (np.array([0.10, 0.09, 0.11], np.float32) - part)


def paint_grass(colour: Floats, view: View, zone: Zone) -> None:
    """Grass and sea thrift on the near bank, blade by blade, a little out of focus."""
    random = np.random.RandomState(SEED + 1)
    count = 15000
    z = (5.5 + 9.5 * random.rand(count) ** 0.8).astype(np.float32)
    x = ((random.rand(count) - 0.5) * 1.1 / FOCAL * z).astype(np.float32)
    y = zone.height(x, z, 0.02)
    clump = fractal(x, z, 0.9, 3)
    sun, _, steep = zone.lightmap.at(x, z)
    keep = (y > 1.35) & (steep < 0.9) & (clump + 0.9 * (random.rand(count) - 0.5) + 0.6 * (y - 1.8) > 0.0)
    top = int(view.horizon_px)
    layer = Image.new("RGBA", (view.width * 2, (view.height - top) * 2), (0, 0, 0, 0))
    pen = ImageDraw.Draw(layer)
    order = np.flatnonzero(keep)[np.argsort(-z[keep])]
    for i in order:
        scale = 2 * view.focal_px / z[i]
        foot_x = 2 * (view.middle_px + x[i] / z[i] * view.focal_px)
        foot_y = 2 * (view.horizon_px - (y[i] - 0.03 - EYE_M) / z[i] * view.focal_px - top)
        length, lean, warm = 0.14 + 0.26 * random.rand() ** 1.5, 0.42 * random.randn() + 0.35, random.rand()
        flower = random.rand() < 0.018
        if flower:
            length, lean = length * 0.75 + 0.1, lean * 0.35
        share = np.linspace(0, 1, 6)
        spine_x = foot_x + scale * length * lean * share**1.8
        spine_y = foot_y - scale * length * (share - 0.22 * abs(lean) * share**2)
        half = np.maximum(0.0042 * scale * (1 - share**1.6), 0.4)
        green = mixed((0.050, 0.075, 0.018), (0.27, 0.215, 0.085), np.asarray(warm**1.6, np.float32))
        for k in range(5):
            sunny = sun[i] * (0.10 + 0.55 * share[k]) * (0.35 + 0.65 * random.rand())
            light = SKY_LIGHT * (0.35 + 0.5 * share[k]) + SUN_LIGHT * sunny
            ink = tuple(int(v) for v in 255 * np.clip(green * light * 1.25, 0, 1) ** (1 / 2.2))
            left, right = spine_x - half, spine_x + half
            corners = [(left[k], k), (right[k], k), (right[k + 1], k + 1), (left[k + 1], k + 1)]
            pen.polygon([(u, spine_y[n]) for u, n in corners], fill=(*ink, 255))
        if flower:
            for _ in range(16):
                u, v = spine_x[5] + scale * 0.009 * random.randn(), spine_y[5] + scale * 0.007 * random.randn()
                r = scale * 0.0048
                light = SKY_LIGHT * 0.8 + SUN_LIGHT * sun[i] * (0.2 + 0.6 * random.rand())
                ink = tuple(
                    int(c) for c in 255 * np.clip(np.array([0.50, 0.17, 0.31], np.float32) * light, 0, 1) ** (1 / 2.2)
                )
                pen.ellipse([u - r, v - r, u + r, v + r], fill=(*ink, 255))
    for start in range(0, view.height - top, 256):
        stop = min(start + 256, view.height - top)
        strip = np.asarray(layer.crop((0, 2 * start, view.width * 2, 2 * stop)), np.float32) / 255
        strip[..., :3] = strip[..., :3] ** 2.2 * strip[..., 3:]
        strip = strip.reshape(stop - start, 2, view.width, 2, 4).mean(axis=(1, 3))
        part = colour[top + start : top + stop]
        part *= 1 - strip[..., 3:]
        part += strip[..., :3]


# --- lens, sensor, development ---------------------------------------------------------------------------------------


def through_lens(colour: Floats, view: View) -> Floats:
    """Adds what glass adds: a slight softness, halos around bright things and darker corners."""
    scale = view.width / WIDTH_PX
    small = shrunk(np.minimum(colour, 12), 8)
    halo = (
        blurred(np.maximum(small - 1.6, 0), max(0.5, 5 * scale)) * 0.45
        + blurred(np.maximum(small - 1.6, 0), max(0.5, 16 * scale)) * 0.40
    )
    halo += 0.02 * blurred(small, max(0.5, 30 * scale))
    for channel in range(3):
        colour[..., channel] = blurred(colour[..., channel], 0.62)
    colour += np.repeat(np.repeat(blurred(halo, 1.0), 8, axis=0), 8, axis=1)[: colour.shape[0], : colour.shape[1]]
    x = (np.arange(view.width) + 0.5) / view.width - 0.5
    y = (np.arange(view.height) + 0.5) / view.width - 0.5 * view.height / view.width
    off_axis = x[None, :] ** 2 + y[:, None] ** 2
    colour *= (1 / (1 + 0.50 * off_axis) ** 2).astype(np.float32)[..., None]
    return colour


def shrunk(colour: Floats, times: int) -> Floats:
    """The picture averaged over squares of `times` pixels, edges repeated."""
    pad = [(0, -colour.shape[0] % times), (0, -colour.shape[1] % times), (0, 0)]
    colour = np.pad(colour, pad, mode="edge")
    rows, columns = colour.shape[0] // times, colour.shape[1] // times
    small: Floats = colour.reshape(rows, times, columns, times, 3).mean(axis=(1, 3))
    return small


FULL_WELL_E, READ_NOISE_E = 16000.0, 4.5


def sensed(colour: Floats) -> Floats:
    """The picture after a colour-filter sensor: shot and read noise per site, the missing two colours interpolated."""
    random = np.random.RandomState(SEED + 2)
    height, width = colour.shape[:2]
    site = np.empty((height, width), np.float32)
    site[0::2, 0::2], site[1::2, 1::2] = colour[0::2, 0::2, 0], colour[1::2, 1::2, 2]
    site[0::2, 1::2], site[1::2, 0::2] = colour[0::2, 1::2, 1], colour[1::2, 0::2, 1]
    for start in range(0, height, 256):
        part = site[start : start + 256]
        electrons = np.clip(part, 0, 8) * FULL_WELL_E
        part += (random.standard_normal(part.shape) * np.sqrt(electrons + READ_NOISE_E**2) / FULL_WELL_E).astype(
            np.float32
        )
    green_at = np.zeros((height, width), bool)
    green_at[0::2, 1::2] = green_at[1::2, 0::2] = True
    around = np.pad(site, 1, mode="reflect")
    across = (around[1:-1, :-2], around[1:-1, 2:])
    along = (around[:-2, 1:-1], around[2:, 1:-1])
    flat = np.abs(across[0] - across[1]) - np.abs(along[0] - along[1])  # interpolate along an edge, not over it
    share = np.clip(0.5 - flat * 40 / (np.abs(site) + 0.02), 0, 1)
    green = np.where(green_at, site, share * (across[0] + across[1]) / 2 + (1 - share) * (along[0] + along[1]) / 2)
    out = np.empty_like(colour)
    out[..., 1] = green
    tent = np.array([0.5, 1, 0.5], np.float32)
    for channel, (i, j) in ((0, (0, 0)), (2, (1, 1))):
        difference = np.zeros((height + 2, width + 2), np.float32)
        difference[1 + i : -1 : 2, 1 + j : -1 : 2] = (site - green)[i::2, j::2]
        difference[0], difference[-1] = difference[2], difference[-3]
        difference[:, 0], difference[:, -1] = difference[:, 2], difference[:, -3]
        rows = tent[0] * difference[:-2] + tent[1] * difference[1:-1] + tent[2] * difference[2:]
        out[..., channel] = green + tent[0] * rows[:, :-2] + tent[1] * rows[:, 1:-1] + tent[2] * rows[:, 2:]
    return out


# Chromaticities of the profile and of Rec. 709; both D65.
# Source: Adobe RGB (1998) Color Image Encoding, version 2005-05, 4.3; ITU-R BT.709-6, 1.3 and 1.4.
WIDE = ((0.64, 0.33), (0.21, 0.71), (0.15, 0.06))
REC709 = ((0.64, 0.33), (0.30, 0.60), (0.15, 0.06))
D65 = (0.3127, 0.3290)
D50_XYZ = np.array([0.9642, 1.0, 0.8249])  # Source: ICC.1:2022, 7.2.16
WIDE_GAMMA = 563 / 256
WEIGHTS = np.array([0.30, 0.63, 0.07], np.float32)  # the share of each channel in brightness, rounded


def to_xyz(primaries: Iterable[tuple[float, float]]) -> NDArray[np.float64]:
    """The 3×3 matrix from linear RGB of these primaries, white D65, to XYZ."""
    columns = np.array([[x / y, 1, (1 - x - y) / y] for x, y in primaries]).T
    white = np.array([D65[0] / D65[1], 1, (1 - sum(D65)) / D65[1]])
    return columns * np.linalg.solve(columns, white)


def to_profile(colour: Floats) -> NDArray[np.uint8]:
    """Scene light developed into encoded pixels of the wide profile: exposure, film-like shoulder, some sharpening."""
    matrix = (np.linalg.solve(to_xyz(WIDE), to_xyz(REC709))).astype(np.float32)
    pixels = np.empty(colour.shape, np.uint8)
    random = np.random.RandomState(SEED + 3)
    for start in range(0, colour.shape[0], 256):
        low, high = max(start - 4, 0), min(start + 260, colour.shape[0])
        strip = np.maximum(colour[low:high] @ matrix.T, 0) * np.float32(1.22)
        strip = np.maximum(strip + 0.16 * (strip - (strip @ WEIGHTS)[..., None]), 0)
        strip = 1 - np.exp(-strip - 0.35 * strip**2 / (1 + strip))
        strip = strip ** np.float32(1 / WIDE_GAMMA)
        strip = strip + 0.42 * (strip * strip * (3 - 2 * strip) - strip)
        luma = strip @ WEIGHTS
        strip += 0.55 * (luma - blurred(luma, 0.9))[..., None]
        strip = strip[start - low : start - low + 256]
        pixels[start : start + 256] = np.clip(strip * 255 + random.rand(*strip.shape[:2], 1), 0, 255).astype(np.uint8)
    return pixels


def render(width_px: int = WIDTH_PX) -> NDArray[np.uint8]:
    """The picture as displayed: (4/3 width)×width×3, encoded in the wide profile."""
    view = View(width_px, width_px * 4 // 3, FOCAL * width_px, width_px / 2, HORIZON * (width_px * 4 // 3), EYE_M)
    half = width_px // 2
    mirrored = View(int(half * 1.5), int(half * 1.5), FOCAL * half, half * 0.75, half * 1.5, -EYE_M)
    coarser = min(max(WIDTH_PX / width_px / 4, 1.0), 3.0)
    zones = [
        Zone(bank_height, 4.5, 32, 0.0022, Lightmap(bank_height, (-20.0, -6.0), (44, 40), 0.04 * coarser)),
        Zone(headland_height, 66, 230, 0.0013, Lightmap(headland_height, (-60.0, 40.0), (190, 180), 0.10 * coarser)),
        Zone(far_height, 800, 16000, 0.0016, Lightmap(far_height, (-9000.0, -3500.0), (20000, 21000), 12.0 * coarser)),
    ]
    mirror, mirror_depth = cast_all(
        mirrored, zones[1:], None
    )  # the near bank lies between the mirrored eye and the water
    paint_things(mirror, mirror_depth, mirrored)
    colour, depth = cast_all(view, zones, make_water(view, mirror, mirrored, zones))
    del mirror, mirror_depth
    paint_things(colour, depth, view)
    paint_gulls(colour, view)
    paint_grass(colour, view, zones[0])
    return to_profile(sensed(through_lens(colour, view)))


# --- what a camera and a catalogue write beside the pixels -----------------------------------------------------------

CREATOR = "imgproc-local project"
RIGHTS = "© 2025 imgproc-local project, Apache-2.0"
LICENCE_PAGE = "https://www.apache.org/licenses/LICENSE-2.0"
TITLE = {"en": "Lighthouse in the evening sun", "de": "Leuchtturm in der Abendsonne"}
CAPTION = {
    "en": "A red and white lighthouse and the keeper's red house stand on a rocky headland in the evening sun. "
    "A blue sailing boat is moored in the calm water in front, snow-capped mountains rise behind.",
    "de": "Ein rot-weißer Leuchtturm und das rote Wärterhaus stehen auf einer felsigen Landzunge in der Abendsonne. "
    "Davor liegt ein blaues Segelboot im ruhigen Wasser, dahinter erheben sich verschneite Berge.",
}
HEADLINE = "Calm evening at the lighthouse"
KEYWORDS = (
    "lighthouse", "sailing boat", "fjord", "evening light", "reflection", "mountains",
    "Leuchtturm", "Segelboot", "Abendlicht", "Spiegelung", "Berge", "Küste",
)  # fmt: skip
CITY, COUNTRY, COUNTRY_CODE = "Skarvøy", "Norway", "NOR"  # the town is made up
TAKEN = "2025:05:24 21:48:16"
ORIENTATION = 6  # stored rotated; a viewer turns it a quarter clockwise

ASCII, SHORT, LONG, RATIONAL, UNDEFINED, BYTE, SRATIONAL = 2, 3, 4, 5, 7, 1, 10
Entry = tuple[int, int, Any]  # tag, type, value(s)


def ifd(entries: Sequence[Entry], start: int, following: int = 0) -> bytes:
    """A TIFF directory with its values, to stand at offset `start`. Source: TIFF 6.0, section 2."""
    table, values = b"", b""
    values_at = start + 2 + 12 * len(entries) + 4
    for tag, kind, value in sorted(entries):
        if kind == ASCII:
            data = value.encode("utf-8") + b"\0"
            count = len(data)
        elif kind in (UNDEFINED, BYTE):
            data, count = value, len(value)
        else:
            numbers = [value] if isinstance(value, int) else list(value)
            letter = {SHORT: "H", LONG: "L", RATIONAL: "L", SRATIONAL: "l"}[kind]
            data = struct.pack(f"<{len(numbers)}{letter}", *numbers)
            count = len(numbers) // (2 if kind in (RATIONAL, SRATIONAL) else 1)
        if len(data) > 4:
            field = struct.pack("<L", values_at + len(values))
            values += data + b"\0" * (len(data) % 2)
        else:
            field = data.ljust(4, b"\0")
        table += struct.pack("<HHL", tag, kind, count) + field
    return struct.pack("<H", len(entries)) + table + struct.pack("<L", following) + values


def exif(width: int, height: int, thumbnail: bytes) -> bytes:
    """The APP1 payload of EXIF: camera, exposure, place and thumbnail. Source: CIPA DC-008-2023 (Exif 3.0), 4.6."""
    resolution: list[Entry] = [(0x011A, RATIONAL, (300, 1)), (0x011B, RATIONAL, (300, 1)), (0x0128, SHORT, 2)]
    main: list[Entry] = [
        *resolution, (0x010E, ASCII, CAPTION["en"]), (0x010F, ASCII, "imgproc-local"),
        (0x0110, ASCII, "Rendered scene"), (0x0112, SHORT, ORIENTATION), (0x0131, ASCII, "imgproc-local sample"),
        (0x0132, ASCII, TAKEN), (0x013B, ASCII, CREATOR), (0x0213, SHORT, 1),
        (0x8298, ASCII, RIGHTS.replace("©", "(c)")),
    ]  # fmt: skip
    shot: list[Entry] = [
        (0x829A, RATIONAL, (1, 60)), (0x829D, RATIONAL, (8, 1)), (0x8822, SHORT, 3), (0x8827, SHORT, 200),
        (0x9000, UNDEFINED, b"0232"), (0x9003, ASCII, TAKEN), (0x9004, ASCII, TAKEN), (0x9010, ASCII, "+02:00"),
        (0x9011, ASCII, "+02:00"), (0x9012, ASCII, "+02:00"), (0x9101, UNDEFINED, b"\1\2\3\0"),
        (0x9204, SRATIONAL, (-1, 3)), (0x9207, SHORT, 5), (0x9209, SHORT, 16), (0x920A, RATIONAL, (36, 1)),
        (0x927C, UNDEFINED, b"imgproc-local\0" + bytes(range(256)) * 2), (0x9291, ASCII, "47"),
        (0xA000, UNDEFINED, b"0100"), (0xA001, SHORT, 0xFFFF), (0xA002, LONG, width), (0xA003, LONG, height),
        (0xA300, UNDEFINED, b"\3"), (0xA402, SHORT, 0), (0xA403, SHORT, 0), (0xA405, SHORT, 49), (0xA406, SHORT, 1),
        (0xA431, ASCII, "IL-0004711"), (0xA432, RATIONAL, (36, 1, 36, 1, 2, 1, 2, 1)),
        (0xA433, ASCII, "imgproc-local"), (0xA434, ASCII, "Rendered lens 36 mm f/2"), (0xA435, ASCII, "IL-L-000815"),
    ]  # fmt: skip
    place: list[Entry] = [
        (0, BYTE, b"\2\3\0\0"), (1, ASCII, "N"), (2, RATIONAL, (62, 1, 28, 1, 1234, 100)), (3, ASCII, "E"),
        (4, RATIONAL, (5, 1, 36, 1, 4711, 100)), (5, BYTE, b"\0"), (6, RATIONAL, (6, 1)),
        (7, RATIONAL, (19, 1, 48, 1, 16, 1)), (16, ASCII, "T"), (17, RATIONAL, (61, 1)), (18, ASCII, "WGS-84"),
        (29, ASCII, "2025:05:24"),
    ]  # fmt: skip
    colours: list[Entry] = [(1, ASCII, "R03"), (2, UNDEFINED, b"0100")]  # R03: not sRGB
    small: list[Entry] = [*resolution, (0x0103, SHORT, 6), (0x0112, SHORT, ORIENTATION), (0x0202, LONG, len(thumbnail))]

    def pointing(entries: list[Entry], *pointers: tuple[int, int]) -> list[Entry]:
        return [*entries, *((tag, LONG, offset) for tag, offset in pointers)]

    main_at = 8
    shot_at = main_at + len(ifd(pointing(main, (0x8769, 0), (0x8825, 0)), main_at))
    place_at = shot_at + len(ifd(pointing(shot, (0xA005, 0)), shot_at))
    colours_at = place_at + len(ifd(place, place_at))
    small_at = colours_at + len(ifd(colours, colours_at))
    thumbnail_at = small_at + len(ifd(pointing(small, (0x0201, 0)), small_at))
    return (
        b"Exif\0\0II*\0" + struct.pack("<L", main_at)
        + ifd(pointing(main, (0x8769, shot_at), (0x8825, place_at)), main_at, small_at)
        + ifd(pointing(shot, (0xA005, colours_at)), shot_at) + ifd(place, place_at) + ifd(colours, colours_at)
        + ifd(pointing(small, (0x0201, thumbnail_at)), small_at) + thumbnail
    )  # fmt: skip


def iptc() -> bytes:
    """The APP13 payload: an IIM record in a Photoshop resource, with its digest. Source: IPTC IIM 4.2, 5 and 6."""
    record = [
        (5, TITLE["en"]), *((25, word) for word in KEYWORDS), (55, "20250524"), (60, "214816+0200"), (80, CREATOR),
        (90, CITY), (100, COUNTRY_CODE), (101, COUNTRY), (105, HEADLINE), (110, CREATOR), (116, RIGHTS),
        (120, CAPTION["en"]),
    ]  # fmt: skip
    data = b"\x1c\x01\x5a\x00\x03\x1b%G\x1c\x02\x00\x00\x02\x00\x04"  # 1:90 the text is UTF-8; 2:00 version 4
    for dataset, text in record:
        encoded = text.encode("utf-8")
        data += struct.pack(">BBBH", 0x1C, 2, dataset, len(encoded)) + encoded
    resources = b""
    for number, value in ((0x0404, data), (0x0425, hashlib.md5(data, usedforsecurity=False).digest())):
        resources += b"8BIM" + struct.pack(">HHL", number, 0, len(value)) + value + b"\0" * (len(value) % 2)
    return b"Photoshop 3.0\0" + resources


def xmp() -> bytes:
    """The APP1 payload of XMP: words in both languages, rights, place. Source: ISO 16684-1; IPTC Photo Metadata."""

    def in_languages(texts: dict[str, str]) -> str:
        items = [("x-default", texts["en"]), *texts.items()]
        return "".join(f'<rdf:li xml:lang="{language}">{escape(text)}</rdf:li>' for language, text in items)

    words = "".join(f"<rdf:li>{escape(word)}</rdf:li>" for word in KEYWORDS)
    packet = f"""<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about=""
    xmlns:dc="http://purl.org/dc/elements/1.1/"
    xmlns:xmp="http://ns.adobe.com/xap/1.0/"
    xmlns:xmpRights="http://ns.adobe.com/xap/1.0/rights/"
    xmlns:photoshop="http://ns.adobe.com/photoshop/1.0/"
    xmlns:Iptc4xmpCore="http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/"
    xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/"
    xmp:CreatorTool="imgproc-local sample"
    xmp:CreateDate="2025-05-24T21:48:16+02:00"
    xmp:Rating="4"
    xmpRights:Marked="True"
    xmpRights:WebStatement="{LICENCE_PAGE}"
    photoshop:DateCreated="2025-05-24T21:48:16+02:00"
    photoshop:Headline="{HEADLINE}"
    photoshop:City="{CITY}"
    photoshop:Country="{COUNTRY}"
    photoshop:Credit="{CREATOR}"
    Iptc4xmpCore:CountryCode="{COUNTRY_CODE}"
    Iptc4xmpExt:DigitalSourceType="http://cv.iptc.org/newscodes/digitalsourcetype/algorithmicMedia">
   <dc:format>image/jpeg</dc:format>
   <dc:title><rdf:Alt>{in_languages(TITLE)}</rdf:Alt></dc:title>
   <dc:description><rdf:Alt>{in_languages(CAPTION)}</rdf:Alt></dc:description>
   <dc:subject><rdf:Bag>{words}</rdf:Bag></dc:subject>
   <dc:creator><rdf:Seq><rdf:li>{CREATOR}</rdf:li></rdf:Seq></dc:creator>
   <dc:rights><rdf:Alt><rdf:li xml:lang="x-default">{RIGHTS}</rdf:li></rdf:Alt></dc:rights>
   <Iptc4xmpExt:LocationCreated><rdf:Bag><rdf:li rdf:parseType="Resource">
    <Iptc4xmpExt:City>{CITY}</Iptc4xmpExt:City>
    <Iptc4xmpExt:CountryName>{COUNTRY}</Iptc4xmpExt:CountryName>
    <Iptc4xmpExt:CountryCode>{COUNTRY_CODE}</Iptc4xmpExt:CountryCode>
   </rdf:li></rdf:Bag></Iptc4xmpExt:LocationCreated>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
"""
    room = (" " * 99 + "\n") * 20  # a packet leaves room to be edited in place
    return b"http://ns.adobe.com/xap/1.0/\0" + (packet + room + '<?xpacket end="w"?>').encode("utf-8")


def icc() -> bytes:
    """The wide profile: three primaries and one gamma curve. Source: ICC.1:2001-04 (version 2), 6.1–6.5."""
    bradford = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])
    white = to_xyz(WIDE).sum(axis=1)
    adapted = np.linalg.solve(bradford, np.diag(bradford @ D50_XYZ / (bradford @ white)) @ bradford) @ to_xyz(WIDE)

    def point(xyz: Iterable[float]) -> bytes:
        return b"XYZ \0\0\0\0" + struct.pack(">3l", *(round(float(v) * 65536) for v in xyz))

    name = b"imgproc-local wide RGB\0"
    description = b"desc\0\0\0\0" + struct.pack(">L", len(name)) + name + bytes(8 + 3 + 67)
    curve = b"curv\0\0\0\0" + struct.pack(">LH", 1, round(WIDE_GAMMA * 256))
    tags = {
        b"cprt": b"text\0\0\0\0" + b"imgproc-local project, Apache-2.0\0", b"desc": description, b"wtpt": point(white),
        b"rXYZ": point(adapted[:, 0]), b"gXYZ": point(adapted[:, 1]), b"bXYZ": point(adapted[:, 2]),
        b"rTRC": curve, b"gTRC": curve, b"bTRC": curve,
    }  # fmt: skip
    table, body = struct.pack(">L", len(tags)), b""
    for signature, data in tags.items():
        table += signature + struct.pack(">LL", 128 + 4 + 12 * len(tags) + len(body), len(data))
        body += data + b"\0" * (-len(data) % 4)
    size, created = 128 + len(table) + len(body), (2025, 5, 24, 0, 0, 0)
    header = struct.pack(">LLL4s4s4s6H4s", size, 0, 0x02400000, b"mntr", b"RGB ", b"XYZ ", *created, b"acsp")
    header = header.ljust(68, b"\0") + point(D50_XYZ)[8:]
    return header.ljust(128, b"\0") + table + body


def camera_file(pixels: NDArray[np.uint8]) -> bytes:
    """The JPEG file of the picture as displayed: stored rotated, quality 95, 4:2:0, blocks in the order cameras use."""
    stored = Image.fromarray(np.ascontiguousarray(np.rot90(pixels)))
    buffer = io.BytesIO()
    stored.resize((160, 120), Image.Resampling.LANCZOS, reducing_gap=3).save(buffer, "JPEG", quality=80)
    thumbnail = buffer.getvalue()
    buffer = io.BytesIO()
    stored.save(buffer, "JPEG", quality=95, subsampling="4:2:0")
    encoded = buffer.getvalue()
    after_jfif = 4 + struct.unpack_from(">H", encoded, 4)[0]  # EXIF takes the place of JFIF's APP0
    segments = b""
    for marker, payload in (
        (0xE1, exif(*stored.size, thumbnail)), (0xE1, xmp()), (0xED, iptc()), (0xE2, b"ICC_PROFILE\0\1\1" + icc())
    ):  # fmt: skip
        segments += struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload
    return encoded[:2] + segments + encoded[after_jfif:]


def main() -> None:
    """Write the sample picture."""
    parser = argparse.ArgumentParser(description="Render the sample picture of imgproc-local.")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("IMG_4711.jpg"), metavar="FILE")
    parser.add_argument(
        "--width",
        type=int,
        default=WIDTH_PX,
        metavar="PX",
        help="as displayed, a multiple of 12 (default: %(default)s)",
    )
    arguments = parser.parse_args()
    if arguments.width < 120 or arguments.width % 12:
        parser.error(f"expected a multiple of 12 from 120 up for --width but got {arguments.width}")
    data = camera_file(render(arguments.width))
    part = arguments.out.with_name(arguments.out.name + ".part")
    part.write_bytes(data)
    part.replace(arguments.out)
    print(f"{arguments.out}: {len(data):,} bytes")


if __name__ == "__main__":
    main()
