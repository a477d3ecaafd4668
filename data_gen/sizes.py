"""Sizes in bytes as people write them; must not guess a unit that is not there."""

from __future__ import annotations

import re

from data_gen.errors import SpecError

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}


def parse_bytes(text: str) -> int:
    """Bytes of a text such as `1GiB`, `80 KB`, `1.5mib` or `4096`.

    Raises:
        SpecError: the text is not a number with one of these units.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower())
    if match is None or match[2] not in _UNITS:
        raise SpecError(
            asked=f"a size of {text!r}",
            found="it is not a number with a unit",
            do="write for example 80KB, 1.5MiB or 1GiB (B, KB, MB, GB, TB, KiB, MiB, GiB, TiB)",
        )
    return round(float(match[1]) * _UNITS[match[2]])


def format_bytes(num_bytes: float) -> str:
    """The number with a binary unit: `80.0 KiB`, `1.0 GiB`, `512 B`."""
    value = float(num_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
