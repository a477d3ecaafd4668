"""Random numbers that are a pure function of (seed, words); must not keep state between calls.

Small draws come from BLAKE2b (2 us; `numpy.random.default_rng` costs 60 us a sample, measured).
Large ones come from the raw stream of PCG64, which numpy promises not to change, unlike the
streams of `Generator` (NEP 19).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from numpy.random import PCG64


def _digest(seed: int, words: tuple[int | str, ...], num_bytes: int) -> bytes:
    text = "/".join(map(str, (seed, *words)))
    return hashlib.blake2b(text.encode(), digest_size=num_bytes).digest()


class Draws:
    """A short stream of whole numbers that depends on the seed and the words only."""

    def __init__(self, seed: int, *words: int | str) -> None:
        self._seed = seed
        self._words = words
        self._stream = self._values()

    def _values(self) -> Iterator[int]:
        block = 0
        while True:
            digest = _digest(self._seed, (*self._words, block), 64)
            yield from memoryview(digest).cast("I")
            block += 1

    def below(self, stop: int) -> int:
        """A number in 0 ... stop - 1; the bias of the modulo is under stop / 2**32."""
        return next(self._stream) % stop

    def between(self, low: int, high: int) -> int:
        """A number in low ... high, both included."""
        return low + self.below(high - low + 1)


def random_bytes(num_bytes: int, seed: int, *words: int | str) -> npt.NDArray[np.uint8]:
    """An array of `num_bytes` uniform bytes, the same for the same seed and words."""
    bits = PCG64(int.from_bytes(_digest(seed, words, 16), "little"))
    raw = bits.random_raw(-(-num_bytes // 8)).astype("<u8", copy=False)
    return raw.view(np.uint8)[:num_bytes]
