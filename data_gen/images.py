"""Photograph-like JPEG images, each a pure function of (shape, seed, index).

It must not know a layout or a folder. An image is cut at a random place from one of a few scenes
that are made once (light and colour gradients, texture, sensor noise), and gets a few ellipses and
boxes added. Fresh noise costs 4-5 ms an image, all of this 0.07 ms. A pixel is one uint32 of the
bytes R, G, B, 0: the amplitudes below keep every sum of bytes under 256, so that no addition
carries into the next channel, nothing has to be clipped and machines agree on every pixel.

A 500 x 375 JPEG has 45-95 KB, as photos have, so that it costs as much to decode as a photo does.
"""

from __future__ import annotations

import functools
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from data_gen.randomness import Draws, random_bytes

CLASSES = 10

# Largest value of a channel in each part; 94 + 44 + 40 + 4 * 19 = 254.
_LIGHT, _TEXTURE, _GRAIN, _SHAPE = 94, 44, 40, 19
_SHAPES_PER_IMAGE = 4
_STAMPS = 50
_MARGIN = 96
_QUALITIES = (80, 93)

Pixels = npt.NDArray[np.uint32]
Channels = npt.NDArray[np.uint8]


class Palette(NamedTuple):
    """What all images of one seed and shape are cut from."""

    scenes: tuple[Pixels, ...]
    """Each larger than an image by _MARGIN in both directions."""
    stamps: tuple[Pixels, ...]


def _packed(channels: Channels) -> Pixels:
    """(height, width, 3) bytes as (height, width) pixels."""
    padded = np.zeros((*channels.shape[:2], 4), dtype=np.uint8)
    padded[..., :3] = channels
    return padded.view("<u4")[..., 0]


def _stretched(grid: npt.NDArray[np.int32], factor: int) -> npt.NDArray[np.int32]:
    """Interpolates both axes of (h, w, 3) linearly to ((h - 1) * factor, (w - 1) * factor, 3).

    The values come out times factor ** 2.
    """
    step = np.arange(factor, dtype=np.int32)[:, None, None]
    for _ in range(2):
        grid = grid[:-1, None] * (factor - step) + grid[1:, None] * step
        grid = grid.reshape(-1, *grid.shape[2:]).swapaxes(0, 1)
    return grid


def _field(height: int, width: int, factor: int, top: int, seed: int, name: str) -> Channels:
    """A random field of (height, width, 3) with features of `factor` pixels, values 0 ... top."""
    rows, columns = height // factor + 2, width // factor + 2
    grid = random_bytes(rows * columns * 3, seed, name).reshape(rows, columns, 3).astype(np.int32)
    field = _stretched(grid, factor)[:height, :width] * top // (255 * factor * factor)
    return field.astype(np.uint8)


def _stamp(height: int, width: int, draws: Draws) -> Pixels:
    """An ellipse or a box of a third of the image's height and width at most, zero outside."""
    rows = draws.between(height // 8 + 1, height // 3 + 1)
    columns = draws.between(width // 8 + 1, width // 3 + 1)
    colour = np.array([draws.between(4, _SHAPE) for _ in range(3)], dtype=np.uint8)
    inside = np.ones((rows, columns, 1), dtype=np.uint8)
    if draws.below(3):
        y = np.arange(1 - rows, rows, 2, dtype=np.int64)[:, None, None]
        x = np.arange(1 - columns, columns, 2, dtype=np.int64)[None, :, None]
        inside = ((y * columns) ** 2 + (x * rows) ** 2 <= (rows * columns) ** 2).astype(np.uint8)
    return _packed(inside * colour)


@functools.lru_cache(maxsize=4)
def palette(height: int, width: int, seed: int) -> Palette:
    """The tiles of one seed and shape: about 4 MB and 50 ms at 500 x 375, then kept."""
    tall, wide = height + _MARGIN, width + _MARGIN
    grain = random_bytes(tall * wide * 3, seed, "grain").reshape(tall, wide, 3)
    noise = _field(tall, wide, 3, _TEXTURE, seed, "texture")
    noise += (grain.astype(np.uint16) * _GRAIN // 255).astype(np.uint8)
    light = _field(tall, wide, 96, _LIGHT * 3 // 4, seed, "light")
    light += _field(tall, wide, 24, _LIGHT // 4, seed, "colour")
    lights = (light, light[::-1, :, ::-1], light[:, ::-1, [1, 2, 0]])  # turned, other colours
    scenes = tuple(
        _packed(turned + np.roll(noise, number * tall // len(lights), axis=0))
        for number, turned in enumerate(lights)
    )
    stamps = tuple(_stamp(height, width, Draws(seed, "stamp", k)) for k in range(_STAMPS))
    return Palette(scenes, stamps)


def label(seed: int, index: int) -> int:
    """The class of image `index`, 0 ... CLASSES - 1: its first shape is of that kind."""
    return Draws(seed, "image", index).below(CLASSES)


def quality(seed: int, index: int) -> int:
    """The JPEG quality of image `index`, as photos vary in it."""
    return Draws(seed, "quality", index).between(*_QUALITIES)


def pixels(shape: tuple[int, ...], seed: int, index: int) -> Pixels:
    """Image `index` as an array of (height, width) pixels."""
    height, width = shape
    tiles = palette(height, width, seed)
    draws = Draws(seed, "image", index)
    kind = draws.below(CLASSES)
    scene = tiles.scenes[draws.below(len(tiles.scenes))]
    y, x = draws.below(_MARGIN), draws.below(_MARGIN)
    image: Pixels = scene[y : y + height, x : x + width].copy()
    for number in range(_SHAPES_PER_IMAGE):
        which = (
            kind + CLASSES * draws.below(_STAMPS // CLASSES)
            if number == 0
            else draws.below(_STAMPS)
        )
        stamp = tiles.stamps[which]
        rows, columns = stamp.shape
        top, left = draws.below(height - rows + 1), draws.below(width - columns + 1)
        image[top : top + rows, left : left + columns] += stamp
    return image


def rgb(image: Pixels) -> Channels:
    """Pixels as a (height, width, 3) array of bytes, which shares their memory."""
    return image.astype("<u4", copy=False).view(np.uint8).reshape(*image.shape, 4)[..., :3]


def encode(shape: tuple[int, ...], seed: int, index: int, scratch: BinaryIO) -> bytes:
    """The JPEG of image `index`, written through `scratch`, a real file open unbuffered as "w+b".

    A real file, because Pillow lets go of the GIL only then: two threads encode in 0.70 ms an
    image, in 1.27 ms when each writes to a BytesIO (1.12 ms alone; Pillow 13). RGBX, because
    Pillow takes it without a copy.
    """
    image = pixels(shape, seed, index)
    size = (image.shape[1], image.shape[0])
    picture = Image.frombuffer("RGBX", size, image.astype("<u4", copy=False), "raw", "RGBX", 0, 1)
    scratch.seek(0)  # what an earlier image left behind the end does no harm; truncating waits
    picture.save(scratch, "JPEG", quality=quality(seed, index))
    num_bytes = scratch.tell()
    scratch.seek(0)
    return scratch.read(num_bytes)
