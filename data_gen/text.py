"""Documents of Zipf-distributed words, each a pure function of (median length, seed, index).

It must not know a layout or a folder. Word k of a vocabulary of 20,000 is drawn with a weight of
1 / (k + 2.7) (Zipf-Mandelbrot, as English has it) and lengths are log-normal with sigma 0.8, as
web pages have them: the mean is 1.38 times the median, the longest of a thousand about 12 times.
Draws go through a table of 65,536 entries, a lookup a word; rare words thus share 1/65,536 steps.
"""

from __future__ import annotations

import functools
import math
import statistics

import numpy as np
import numpy.typing as npt

from data_gen.randomness import Draws, random_bytes

VOCABULARY = 20_000
SIGMA = 0.8
_TABLE = 1 << 16
_ONSETS = [*"bcdfghlmnprstvw", "br", "ch", "cl", "dr", "fl", "gr", "pl", "pr", "sh", "st", "th"]
_VOWELS = ["a", "e", "i", "o", "u", "ai", "ea", "ee", "io", "ou"]
_CODAS = ["", "", "", "l", "m", "n", "r", "s", "t", "nd", "ng", "rt", "st"]
_QUANTILES = 1024


def _word(rank: int) -> str:
    """A pronounceable word; frequent ones have one syllable, rare ones up to four."""
    draws = Draws(0, "word", rank)
    syllables = 1 + (rank > 60) + (rank > 2000) * draws.below(2) + (rank > 8000) * draws.below(2)
    parts: list[str] = []
    for _ in range(syllables):
        for choices in (_ONSETS, _VOWELS, _CODAS):
            parts.append(choices[draws.below(len(choices))])
    return "".join(parts)


@functools.cache
def words() -> npt.NDArray[np.object_]:
    """The word of each entry of the table, most frequent first; the same for every seed."""
    weights = 1.0 / (np.arange(VOCABULARY) + 2.7)
    shares = np.cumsum(weights)
    ranks = np.searchsorted(shares / shares[-1], (np.arange(_TABLE) + 0.5) / _TABLE)
    vocabulary = np.array([_word(rank) for rank in range(VOCABULARY)], dtype=object)
    return vocabulary[ranks]


@functools.cache
def _factors() -> tuple[float, ...]:
    """Quantiles of the log-normal distribution with median 1."""
    normal = statistics.NormalDist(sigma=SIGMA)
    return tuple(math.exp(normal.inv_cdf((k + 0.5) / _QUANTILES)) for k in range(_QUANTILES))


def length_bytes(median_bytes: int, seed: int, index: int) -> int:
    """Length of document `index`, log-normal around the median, at least 8."""
    factor = _factors()[Draws(seed, "length", index).below(_QUANTILES)]
    return max(8, round(median_bytes * factor))


def encode(shape: tuple[int, ...], seed: int, index: int) -> bytes:
    """Document `index` as ASCII bytes of exactly `length_bytes`, ending in a full stop."""
    length = length_bytes(shape[0], seed, index)
    text = ""
    block = 0
    while len(text) < length:
        # Words have 5 letters and a blank on average: one block is nearly always enough.
        count = length // 5 + 8
        picks = random_bytes(2 * count, seed, "text", index, block).view("<u2")
        text += " ".join(words()[picks]) + " "
        block += 1
    return text[: length - 1].encode() + b"."
