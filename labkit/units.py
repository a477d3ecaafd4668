"""Numbers as people read them; it must not hold anything else."""

from __future__ import annotations

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")


def format_bytes(num_bytes: float) -> str:
    """Three significant digits with a binary unit: ``1.50 GiB``."""
    value, index = float(num_bytes), 0
    while abs(value) >= 1000 and index < len(_BINARY) - 1:
        value, index = value / 1024, index + 1
    return f"{value:.0f} B" if index == 0 else f"{value:.3g} {_BINARY[index]}"


def format_seconds(seconds: float) -> str:
    """A duration in the unit that suits it: ``350 us``, ``12 ms``, ``3.4 s``, ``2 min 05 s``."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def format_rate(per_second: float) -> str:
    """A rate per second without exponent: ``407,000``, ``98.5``."""
    return f"{per_second:,.0f}" if abs(per_second) >= 100 else f"{per_second:.3g}"
