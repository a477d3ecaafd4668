"""Two runs side by side as text and HTML; pure but for the console it is given."""

from __future__ import annotations

import html

from rich.console import Console
from rich.text import Text

from labkit.records import Outcome, Status
from labkit.summary import ComparedSetting, SettingSummary
from labkit.units import format_rate
from labkit.view.run_protocol import ComparisonLike
from labkit.view.table import NONE, OUTCOMES, Table, html_list, html_table, text_table

_WARNING = "The two were not measured under the same conditions:"


def warnings(comparison: ComparisonLike) -> list[str]:
    """What differs in the machines and in what was asked; empty when nothing does."""
    lines = [str(each) for each in (*comparison.environment, *comparison.parameters)]
    for count, name in zip(comparison.unmatched, ("a", "b"), strict=True):
        if count:
            settings = "setting" if count == 1 else "settings"
            lines.append(f"{count} {settings} of {name} alone: not compared")
    return lines


def rates(comparison: ComparisonLike) -> Table:
    """One row for each setting that both have."""
    rows = tuple(
        (row.a.setting.name, _rate(row.a), _rate(row.b), _ratio(row)) for row in comparison.rows
    )
    return Table(header=("setting", "a, samples/s", "b, samples/s", "b over a [95 %]"), rows=rows,
                 words=1)  # fmt: skip


def verdicts(comparison: ComparisonLike) -> Table:
    """One row for each claim and story; where the two differ it says so."""
    rows = tuple(
        (f"{pair.claim} ({pair.story})" if pair.story else pair.claim, _outcome(pair.a),
         _outcome(pair.b), "" if pair.a == pair.b else "differs")
        for pair in comparison.verdicts
    )  # fmt: skip
    return Table(header=("claim", "a", "b", ""), rows=rows, words=4)


def _rate(item: SettingSummary) -> str:
    if item.status is not Status.COMPLETED:
        return item.status.value.replace("_", " ")
    return NONE if item.samples_per_second is None else format_rate(item.samples_per_second.median)


def _ratio(row: ComparedSetting) -> str:
    if row.ratio is None:
        return NONE
    return f"{row.ratio.median:.2f} [{row.ratio.low:.2f}, {row.ratio.high:.2f}]"


def _outcome(outcome: Outcome | None) -> str:
    return NONE if outcome is None else OUTCOMES[outcome]


def to_text(comparison: ComparisonLike) -> str:
    """Warnings, rates and verdicts in plain text."""
    parts = [_head(comparison)]
    if lines := warnings(comparison):
        parts.append("\n".join([_WARNING, *(f"  {line}" for line in lines)]))
    return "\n\n".join([*parts, text_table(rates(comparison)), text_table(verdicts(comparison))])


def to_html(comparison: ComparisonLike) -> str:
    """The same in HTML; everything is escaped."""
    parts = [f"<p>{html.escape(_head(comparison))}</p>"]
    parts.append(html_list(f"<strong>{_WARNING}</strong>", warnings(comparison)))
    parts += [html_table(rates(comparison)), html_table(verdicts(comparison))]
    return "\n".join(filter(None, parts))


def _head(comparison: ComparisonLike) -> str:
    return f"{comparison.a.name}: a is {comparison.a.path.name}, b is {comparison.b.path.name}"


def print_comparison(comparison: ComparisonLike, console: Console) -> None:
    """The same in a terminal, warnings in yellow."""
    console.print(Text(_head(comparison), style="bold"))
    if lines := warnings(comparison):
        console.print(Text("\n".join([_WARNING, *lines]), style="yellow"))
    for table in (rates(comparison), verdicts(comparison)):
        console.print(Text("\n" + text_table(table)), soft_wrap=True)
