"""A whole result as plain text, for whoever sees no widgets and no pictures; it must not print."""

from __future__ import annotations

from labkit.view.describe import describe
from labkit.view.run_protocol import ResultLike
from labkit.view.table import to_text, verdict_line


def result_text(result: ResultLike) -> str:
    """What a notebook shows: headline, tables, the picture in words, verdicts and warnings."""
    parts = [
        result.headline,
        to_text(result),
        describe(result),
        "\n".join(map(verdict_line, result.verdicts)),
        "\n".join(f"A library warned: {warning}" for warning in result.summary.warnings),
    ]
    return "\n\n".join(filter(None, parts))
