"""Prints the doctor's findings in the terminal; it must not judge them."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from labkit.machine.doctor import Finding, healthy

_MARKS = {"ok": ("ok", "green"), "warn": ("look", "yellow"), "bad": ("bad", "bold red")}


def print_doctor(findings: Iterable[Finding], console: Console) -> None:
    """A table of the findings, each with what to do about it, and one line that sums them up."""
    found = tuple(findings)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in found:
        mark, style = _MARKS[finding.level]
        lines = Text(finding.value)
        if finding.advice:
            lines.append(f"\n{finding.advice}", style="dim" if finding.level == "ok" else style)
        table.add_row(Text(mark, style=style), finding.name, lines)
    console.print(table)
    console.print(
        Text("Labs run well here.", style="green")
        if healthy(found)
        else Text("Labs cannot run well here; see the lines marked bad.", style="bold red")
    )
