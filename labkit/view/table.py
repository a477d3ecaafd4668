"""A result as rows: one table for terminal, notebook and plain text; pure."""

from __future__ import annotations

import html
from typing import Any

from labkit.summary import SettingSummary
from labkit.units import format_bytes, format_rate, format_seconds

HEADER = ("story", "setting", "status", "samples/s", "low - high", "first batch", "waiting",
          "CPU/sample", "peak memory")  # fmt: skip
_NONE = "-"


def row(item: SettingSummary) -> tuple[str, ...]:
    """One setting's cells, in the order of `HEADER`; what was not reached is a dash."""
    rate, peak = item.samples_per_second, item.peak_bytes
    share, first, cpu = item.wait_share, item.first_batch_seconds, item.cpu_seconds_per_sample
    return (
        item.setting.story or _NONE,
        item.setting.label,
        item.status.value,
        _NONE if rate is None else format_rate(rate.median),
        _NONE if rate is None else f"{format_rate(rate.low)} - {format_rate(rate.high)}",
        _NONE if first is None else format_seconds(first),
        _NONE if share is None else f"{share:.0%}",
        _NONE if cpu is None else format_seconds(cpu),
        _NONE if peak is None else format_bytes(peak),
    )


def rows(result: Any) -> list[tuple[str, ...]]:
    """All settings' cells."""
    return [row(item) for item in result.summary]


def to_text(result: Any) -> str:
    """The table in plain text, columns aligned."""
    lines = [HEADER, *rows(result)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def to_html(result: Any) -> str:
    """The headline and the table as HTML; all text escaped."""
    head = "".join(f"<th scope='col'>{html.escape(name)}</th>" for name in HEADER)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
        for cells in rows(result)
    )
    return (
        f"<p>{html.escape(result.headline)}</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
