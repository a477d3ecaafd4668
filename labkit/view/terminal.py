"""The view in a terminal: a live table with bars, then the result; it measures nothing."""

from __future__ import annotations

import statistics
import time
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from labkit.records import Outcome
from labkit.units import format_rate
from labkit.view.fold import Progress
from labkit.view.table import HEADER, rows, to_text

_MARKS = {Outcome.REPRODUCED: "✔", Outcome.NOT_REPRODUCED: "✘", Outcome.CANNOT_TELL: "?"}
_BAR_WIDTH = 24
_WIDE = 116
"""Columns that the whole table needs; a narrower terminal gets the main ones."""
_MAIN_COLUMNS = (0, 1, 2, 3, 4, 8)


def watch(run: Any, console: Console, *, poll_seconds: float = 0.1) -> float:
    """Show a run until it is done; returns the CPU seconds that showing it took.

    Where the console is no terminal, a plain line tells each round.
    """
    progress = Progress(run.settings, run.trials_total)
    progress.add(run.events)  # after an interrupt the same run is watched again
    start = time.thread_time()
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while _step(run, progress):
                live.update(_live_table(progress), refresh=True)
                time.sleep(poll_seconds)
    else:
        told = ""
        while _step(run, progress):
            round_done = progress.ended - progress.ended % max(1, len(run.settings))
            now = f"{progress.phase.split(':')[0]}: {round_done} of {progress.total} trials"
            if now != told:
                console.print(now, markup=False, highlight=False, soft_wrap=True)
                told = now
            time.sleep(poll_seconds)
    return time.thread_time() - start


def _step(run: Any, progress: Progress) -> bool:
    progress.add(run.poll())
    progress.settings, progress.total = run.settings, run.trials_total
    return not run.done()


def _live_table(progress: Progress) -> Group:
    table = Table("story", "setting", "", "samples/s", "points")
    medians = {index: statistics.median(rates) for index, rates in progress.points.items()}
    tallest = max(medians.values(), default=1.0)
    for index, setting in enumerate(progress.settings):
        rate = medians.get(index)
        status = progress.statuses.get(index, "")
        label = Text(setting.label, style="bold" if index == progress.running else "")
        bar: Any = ProgressBar(total=tallest, completed=rate or 0, width=_BAR_WIDTH)
        if status not in ("", "completed"):
            bar = Text(status)
        table.add_row(setting.story, label, bar, format_rate(rate) if rate else "",
                      str(len(progress.points.get(index, []))))  # fmt: skip
    whole = ProgressBar(total=max(progress.total, 1), completed=progress.ended, width=60)
    return Group(table, Text(progress.line), whole, Text("Ctrl-C stops; what is measured stays"))


def print_result(result: Any, console: Console) -> None:
    """The headline, the table, the verdicts with their reasons, and warnings as facts."""
    console.print(result.headline, style="bold", markup=False)
    if console.is_terminal:
        shown = range(len(HEADER)) if console.width >= _WIDE else _MAIN_COLUMNS
        table = Table(*(HEADER[column] for column in shown))
        for cells in rows(result):
            table.add_row(*(cells[column] for column in shown))
        console.print(table)
    else:  # a file or a pipe has no width: every column, unwrapped
        console.print(to_text(result), markup=False, highlight=False, soft_wrap=True)
    for verdict in result.verdicts:
        mark = _MARKS[verdict.outcome]
        outcome = verdict.outcome.value.replace("_", " ")
        console.print(f"{mark} {verdict.claim} {outcome}: {verdict.sentence}", markup=False)
        for reason in verdict.reasons:
            console.print(f"    {reason}", style="dim", markup=False)
    for warning in result.summary.warnings:
        console.print(f"torch said: {warning}", style="dim", markup=False)
