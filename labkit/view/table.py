"""A result as a table: rows of text, and the same in plain text and HTML; pure."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from labkit.measure.delivery import asked_samples
from labkit.records import Outcome, Status, Verdict
from labkit.summary import Interval, SettingSummary, StageSeconds, Summary
from labkit.units import format_bytes, format_rate, format_seconds
from labkit.view.describe import describe_guesses
from labkit.view.memory_words import TIPS, memory_html, samples_of, weaknesses
from labkit.view.run_protocol import ResultLike

NONE = "-"
OUTCOMES = {
    Outcome.REPRODUCED: "reproduced",
    Outcome.NOT_REPRODUCED: "not reproduced",
    Outcome.CANNOT_TELL: "cannot tell",
}
STYLES = {
    Outcome.REPRODUCED: "green", Outcome.NOT_REPRODUCED: "yellow", Outcome.CANNOT_TELL: "dim",
}  # fmt: skip
"""How a terminal writes each, beside its words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Cells as people read them; the first `words` columns are text, the rest numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int

    @property
    def widths(self) -> tuple[int, ...]:
        """Characters of the longest cell of each column."""
        return tuple(
            max(map(len, column)) for column in zip(self.header, *self.rows, strict=True)
        )


def result_table(summary: Summary) -> Table:
    """One row per setting: rate with its interval, first batch, wait, CPU time, peak.

    Where a setting has a budget, what was predicted, the limit and what was delivered as well.
    """
    stories = any(item.setting.story for item in summary)
    bounded = any(item.setting.budget for item in summary)
    header: tuple[str, ...] = (
        "setting", "samples/s [low, high]", "first batch", "wait", "CPU ms/sample", "peak memory",
    )  # fmt: skip
    if bounded:
        header = (*header, "predicted", "limit", "delivered")
    rows = (
        (
            _label(item), _rate(item.samples_per_second), _seconds(item.first_batch_seconds),
            NONE if item.wait_share is None else f"{item.wait_share:.0%}",
            _milliseconds(item.cpu_seconds_per_sample),
            NONE if item.peak_bytes is None else format_bytes(item.peak_bytes),
            *(_budget_cells(item) if bounded else ()),
        )
        for item in summary
    )  # fmt: skip
    return _with_stories(header, tuple(rows), summary, stories)


def _budget_cells(item: SettingSummary) -> tuple[str, str, str]:
    predicted, budget = item.setting.predicted_peak_bytes, item.setting.budget
    low, high = (NONE, NONE) if predicted is None else map(format_bytes, predicted)
    return (
        NONE if predicted is None else f"{low} to {high}",
        NONE if budget is None else format_bytes(budget.limit_bytes),
        NONE if item.delivered is None else f"{item.delivered} of {asked_samples(item.setting)}",
    )


def stage_table(summary: Summary) -> Table | None:
    """One row per setting: milliseconds per sample of each stage; None when none was stamped."""
    if not any(item.stages.total for item in summary):
        return None
    stories = any(item.setting.story for item in summary)
    header = ("ms per sample", "fetch", "transform", "collate", "hand-over")
    rows = tuple((_label(item), *_stage_cells(item.stages)) for item in summary)
    return _with_stories(header, rows, summary, stories)


def _with_stories(
    header: tuple[str, ...], rows: tuple[tuple[str, ...], ...], summary: Summary, stories: bool
) -> Table:
    if not stories:
        return Table(header=header, rows=rows, words=1)
    told = tuple((item.setting.story, *row) for item, row in zip(summary, rows, strict=True))
    return Table(header=("story", *header), rows=told, words=2)


def _label(item: SettingSummary) -> str:
    bad = "" if item.status is Status.COMPLETED else f" ({item.status.value.replace('_', ' ')})"
    return item.setting.label + bad


def _rate(interval: Interval | None) -> str:
    if interval is None:
        return NONE
    low, high = format_rate(interval.low), format_rate(interval.high)
    return f"{format_rate(interval.median)} [{low}, {high}]"


def _seconds(seconds: float | None) -> str:
    return NONE if seconds is None else format_seconds(seconds)


def _milliseconds(seconds: float | None) -> str:
    return NONE if seconds is None else f"{seconds * 1e3:.3g}"


def _stage_cells(stages: StageSeconds) -> tuple[str, ...]:
    if not stages.total:
        return (NONE,) * 4
    each = (stages.fetch, stages.transform, stages.collate, stages.handover)
    return tuple(f"{seconds * 1e3:.2f}" for seconds in each)


def verdict_line(verdict: Verdict) -> str:
    """The claim, its outcome, the sentence, and why it is not certain."""
    name = f"{verdict.claim} ({verdict.story})" if verdict.story else verdict.claim
    reasons = f" Reasons: {'; '.join(verdict.reasons)}." if verdict.reasons else ""
    return f"{name} {OUTCOMES[verdict.outcome]}: {verdict.sentence}{reasons}"


def to_text(result: ResultLike) -> str:
    """The result's tables in aligned plain text, and what is weak about their memory."""
    tables = (result_table(result.summary), stage_table(result.summary))
    parts = [text_table(table) for table in tables if table is not None]
    return "\n\n".join([*parts, *weaknesses(samples_of(result.events))])


def text_table(table: Table) -> str:
    """Aligned plain text."""
    lines = (table.header, *table.rows)
    return "\n".join(_text_line(line, table.widths, table.words).rstrip() for line in lines)


def _text_line(line: Sequence[str], widths: Sequence[int], words: int) -> str:
    cells = (
        cell.ljust(width) if place < words else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(line, widths, strict=True))
    )
    return "  ".join(cells)


def to_html(result: ResultLike) -> str:
    """Headline, tables with what their memory means, verdicts and warnings; all is escaped."""
    parts = [f"<p><strong>{html.escape(result.headline)}</strong></p>"]
    for table in (result_table(result.summary), stage_table(result.summary)):
        if table is not None:
            parts.append(html_table(table))
    parts.append(memory_html(samples_of(result.events)))
    parts.append(html_list("Your prediction", describe_guesses(result)))
    parts.append(html_list("Verdicts", [verdict_line(verdict) for verdict in result.verdicts]))
    parts.append(html_list("Said by the libraries while they ran", result.summary.warnings))
    return "\n".join(filter(None, parts))


def html_table(table: Table) -> str:
    """An HTML table; everything is escaped."""
    head = "".join(map(_head, table.header))
    lines = (
        "".join(_cell(cell, place < table.words) for place, cell in enumerate(row))
        for row in table.rows
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _head(name: str) -> str:
    tip = f' title="{html.escape(TIPS[name])}"' if name in TIPS else ""
    return f'<th scope="col"{tip}>{html.escape(name)}</th>'


def _cell(text: str, word: bool) -> str:
    side = "left" if word else "right"
    return f'<td style="text-align:{side}">{html.escape(text)}</td>'


def html_list(title: str, items: Sequence[str]) -> str:
    """A title, which is HTML, with its items, which are escaped; empty without items."""
    if not items:
        return ""
    lines = "".join(f"<li>{html.escape(item)}</li>" for item in items)
    return f"<p>{title}</p><ul>{lines}</ul>"
