"""The claims ledger as text, HTML and a terminal's table; pure but for the console it is given."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from labkit.claims import Entry, Told
from labkit.view.table import OUTCOMES, STYLES

_WIDTH = 72


def told_line(told: Told) -> str:
    """Outcome, effect with its interval, lab and date of one verdict."""
    verdict = told.verdict
    parts = [OUTCOMES[verdict.outcome]]
    if verdict.effect is not None:
        low_high = verdict.interval
        interval = "" if low_high is None else f" [{low_high[0]:.3g}, {low_high[1]:.3g}]"
        parts.append(f"{verdict.effect:,.3g}{interval}")
    size = "" if told.size == "full" else f", {told.size} size"
    source = f"{told.experiment}{size}, {told.measured:%Y-%m-%d}"
    story = f"{verdict.story}: " if verdict.story else ""
    return f"{story}{', '.join(parts)} ({source})"


def open_lines(entry: Entry) -> list[str]:
    """What is still to be measured for a claim, or cannot be yet."""
    lines = [f"not measured here yet: labkit run {lab}" for lab in entry.unmeasured]
    return lines + [f"the lab {lab} does not exist yet" for lab in entry.missing]


def to_text(entries: Iterable[Entry]) -> str:
    """Plain text: a paragraph for each claim."""
    parts = []
    for entry in entries:
        head = textwrap.fill(f"{entry.claim.id}  {entry.claim.statement}", _WIDTH,
                             subsequent_indent="     ")  # fmt: skip
        lines = [f"     {line}" for line in (*map(told_line, entry.told), *open_lines(entry))]
        parts.append("\n".join([head, *lines]))
    return "\n".join(parts)


def to_html(entries: Iterable[Entry]) -> str:
    """A table with a row for each claim; everything is escaped."""
    rows = []
    for entry in entries:
        lines = [html.escape(line) for line in (*map(told_line, entry.told), *open_lines(entry))]
        cells = (entry.claim.id, entry.claim.statement)
        left = "".join(f'<td style="text-align:left">{html.escape(cell)}</td>' for cell in cells)
        rows.append(f'<tr>{left}<td style="text-align:left">{"<br>".join(lines)}</td></tr>')
    head = "".join(
        f'<th scope="col" style="text-align:left">{name}</th>'
        for name in ("claim", "what the article says", "on this machine")
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def print_ledger(entries: Iterable[Entry], console: Console) -> None:
    """The table in a terminal."""
    table = Table("claim", "what the article says", "on this machine", show_lines=True)
    for entry in entries:
        lines = [Text(told_line(told), style=STYLES[told.verdict.outcome]) for told in entry.told]
        lines += [Text(line, style="dim") for line in open_lines(entry)]
        table.add_row(entry.claim.id, Text(entry.claim.statement), Text("\n").join(lines))
    console.print(table)
