"""CT-like volumes of int16 voxels, each a pure function of (shape, seed, index), made slab by slab.

It must not know a layout or a folder, nor hold more than a slab. A volume is a body (an elliptic
cylinder of 40 HU in air of -1000), ellipsoids of other densities added to it, and noise cut from a
tile at another random place in each plane: fresh noise runs at 230-380 MiB/s a core, this at more
than 1.5 GiB/s. All arithmetic is on whole numbers, so that machines agree on every voxel.

The bytes of a sample are its voxels, little-endian, in C order (depth, height, width).
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from data_gen.randomness import Draws, random_bytes

CLASSES = 10
VOXEL = np.dtype("<i2")
SLAB_BYTES = 8 << 20
_MARGIN = 64
_UNIT = 1024  # a radius in the whole-number coordinates of an ellipsoid

Voxels = npt.NDArray[np.int16]


class _Ellipsoid(NamedTuple):
    middle: int
    """Plane of the centre."""
    radius: int
    """Half extent in planes."""
    rows: slice
    columns: slice
    distance: npt.NDArray[np.int32]
    """Squared distance from the axis in units of the radius, times _UNIT ** 2."""
    density: int


def planes_per_slab(shape: tuple[int, ...]) -> int:
    """How many planes make a slab of at most SLAB_BYTES (one plane if that is larger)."""
    _, height, width = shape
    return max(1, min(shape[0], SLAB_BYTES // (height * width * VOXEL.itemsize)))


def label(seed: int, index: int) -> int:
    """The class of volume `index`, 0 ... CLASSES - 1: it has that many ellipsoids more than 4."""
    return Draws(seed, "volume", index).below(CLASSES)


@functools.lru_cache(maxsize=2)
def _noise(height: int, width: int, seed: int) -> Voxels:
    """Noise of about normal distribution, standard deviation 30 HU, (height + 64, width + 64)."""
    tall, wide = height + _MARGIN, width + _MARGIN
    total = np.zeros(tall * wide, dtype=np.int16)
    for number in range(4):
        total += random_bytes(tall * wide, seed, "noise", number)
    total -= 510
    total //= 5
    return total.reshape(tall, wide)


def _squares(length: int) -> npt.NDArray[np.int32]:
    """Squared position along an axis of `length` cells, _UNIT ** 2 at both ends."""
    position = np.arange(1 - length, length, 2, dtype=np.int64) * _UNIT // max(1, length)
    return (position * position).astype(np.int32)


def _body(height: int, width: int, draws: Draws) -> Voxels:
    """The plane that all others begin with."""
    rows = height - draws.below(height // 8 + 1)
    columns = width - draws.below(width // 8 + 1)
    plane = np.full((height, width), -1000, dtype=VOXEL)
    top, left = (height - rows) // 2, (width - columns) // 2
    inside = _squares(rows)[:, None] + _squares(columns)[None, :] <= _UNIT * _UNIT
    plane[top : top + rows, left : left + columns][inside] = 40
    return plane


def _ellipsoid(shape: tuple[int, ...], draws: Draws) -> _Ellipsoid:
    depth, height, width = shape
    rows = draws.between(height // 16 + 1, height // 4 + 1)
    columns = draws.between(width // 16 + 1, width // 4 + 1)
    top = draws.between(height // 8, max(height // 8, height * 7 // 8 - rows))
    left = draws.between(width // 8, max(width // 8, width * 7 // 8 - columns))
    return _Ellipsoid(
        middle=draws.below(depth),
        radius=draws.between(depth // 10 + 1, depth // 3 + 1),
        rows=slice(top, min(height, top + rows)),
        columns=slice(left, min(width, left + columns)),
        distance=(_squares(rows)[:, None] + _squares(columns)[None, :])[
            : height - top, : width - left
        ],
        density=(-700, -300, -90, 60, 120, 300, 700)[draws.below(7)],
    )


class Phantom:
    """Volume `index`, from which any range of planes can be filled in; holds a few MB."""

    def __init__(self, shape: tuple[int, ...], seed: int, index: int) -> None:
        _, height, width = shape
        draws = Draws(seed, "volume", index)
        count = 4 + draws.below(CLASSES)
        self._seed, self._index = seed, index
        self._height, self._width = height, width
        self._noise = _noise(height, width, seed)
        self._body = _body(height, width, draws)
        self._ellipsoids = [_ellipsoid(shape, draws) for _ in range(count)]

    def fill(self, planes: Voxels, first: int) -> None:
        """Fills `planes`, (n, height, width), with the planes from `first` on."""
        for offset, plane in enumerate(planes):
            z = first + offset
            draws = Draws(self._seed, "plane", self._index, z)
            y, x = draws.below(_MARGIN), draws.below(_MARGIN)
            noise = self._noise[y : y + self._height, x : x + self._width]
            np.add(self._body, noise, out=plane)
            for part in self._ellipsoids:
                away = abs(z - part.middle) * _UNIT // part.radius
                if away < _UNIT:
                    inside = part.distance <= _UNIT * _UNIT - away * away
                    plane[part.rows, part.columns] += np.multiply(
                        inside, part.density, dtype=np.int16
                    )
