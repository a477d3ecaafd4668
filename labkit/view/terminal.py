"""Shows a run and its result in a terminal with rich; it writes to the given console only."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table as RichTable
from rich.text import Text

from labkit.measure.prediction import warning_of
from labkit.records import Setting, Status
from labkit.units import format_bytes, format_rate
from labkit.view.describe import describe
from labkit.view.fold import Folder, Phase, Snapshot
from labkit.view.memory_words import samples_of, weaknesses
from labkit.view.run_protocol import LiveRun, ResultLike
from labkit.view.status import progress, stage_word, status_line
from labkit.view.table import STYLES, Table, result_table, stage_table, verdict_line
from labkit.view.text import result_text

_REDRAW_SECONDS = 0.25
_LEFT_OUT = ("first batch", "CPU ms/sample", "wait", "predicted")
"""Columns that a terminal too narrow for the table does without, in this order."""


def watch(run: LiveRun, console: Console, *, poll_seconds: float = 0.1) -> float:
    """Show a run until it is done: a live table, or plain lines where there is no terminal.

    Returns:
        CPU seconds that this thread spent on it.
    """
    begun = time.thread_time()
    folder = Folder(run.settings, run.trials_total)
    folder.take(run.events)
    if console.is_terminal:
        with Live(
            console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        ) as live:
            _follow(run, folder, _live_painter(run, live), poll_seconds)
    else:
        _follow(run, folder, _line_writer(run, console), poll_seconds)
    return time.thread_time() - begun


Paint = Callable[[Snapshot, bool], None]
"""Shows a snapshot; the flag says that it is the last one."""


def _follow(run: LiveRun, folder: Folder, paint: Paint, poll_seconds: float) -> None:
    while True:
        done = run.done()  # asked before the poll, which then brings the last events
        folder.plan(run.settings, run.trials_total)
        folder.take(run.poll())
        paint(folder.snapshot(time.monotonic()), done)
        if done:
            return
        time.sleep(poll_seconds)


def _live_painter(run: LiveRun, live: Live) -> Paint:
    painted = -_REDRAW_SECONDS

    def paint(snapshot: Snapshot, last: bool) -> None:
        nonlocal painted
        now = time.monotonic()
        if last or now - painted >= _REDRAW_SECONDS:
            live.update(render(run.experiment.title, run.settings, snapshot), refresh=True)
            painted = now

    return paint


def _line_writer(run: LiveRun, console: Console) -> Paint:
    said = ""
    counts: dict[str, int] = {}
    deaths = 0

    def say(text: str) -> None:
        console.print(Text(text), soft_wrap=True, highlight=False)

    def say_stage(snapshot: Snapshot) -> None:
        nonlocal said
        if stage_word(snapshot) != said:
            said = stage_word(snapshot)
            say(said)

    for text in _warnings(run.settings):
        say(text)

    def paint(snapshot: Snapshot, last: bool) -> None:
        nonlocal deaths
        ended = snapshot.phase is Phase.ENDED  # the last word comes after the last points
        if not ended:
            say_stage(snapshot)
        for setting in run.settings:
            points = [point for point in snapshot.points.get(setting.key, ()) if point.ended]
            for point in points[counts.get(setting.key, 0) :]:
                rate = format_rate(point.samples_per_second)
                held = snapshot.memory.get(setting.key)
                peak = f", {_memory(setting, snapshot)}" if held is not None else ""
                say(f"round {point.repeat + 1}, {setting.name}: {rate} samples/s{peak}")
            counts[setting.key] = len(points)
        for death in snapshot.deaths[deaths:]:
            say(death)
        deaths = len(snapshot.deaths)
        if ended:
            say_stage(snapshot)

    return paint


def render(title: str, settings: tuple[Setting, ...], snapshot: Snapshot) -> RenderableType:
    """The live table with its progress bar; memory against its limit where there is one."""
    table = RichTable(title=Text(title), title_justify="left", box=None, pad_edge=False)
    bounded = any(setting.budget for setting in settings)
    for name in ("story", "setting", "", "trials", "samples/s", *(["memory"] * bounded), ""):
        table.add_column(name, justify="right" if name in ("trials", "samples/s") else "left")
    medians = {setting.key: snapshot.median(setting.key) for setting in settings}
    for setting in settings:
        best = max(medians[s.key] or 0.0 for s in settings if s.story == setting.story)
        rate = medians[setting.key]
        table.add_row(
            Text(setting.story), Text(setting.label), _mark(setting.key, snapshot),
            str(len(snapshot.statuses.get(setting.key, ()))),
            "-" if rate is None else format_rate(rate),
            *([Text(_memory(setting, snapshot))] * bounded),
            ProgressBar(total=best or 1.0, completed=rate or 0.0, width=12 if bounded else 24),
        )  # fmt: skip
    done, total = progress(snapshot)
    parts: list[RenderableType] = [
        table, ProgressBar(total=total, completed=done, width=60), Text(status_line(snapshot)),
    ]  # fmt: skip
    if not snapshot.trials_done:
        parts += [Text(text, style="yellow") for text in _warnings(settings)]
    parts.append(Text("Ctrl-C stops; what was measured stays", style="dim"))
    parts += [Text(death, style="red") for death in snapshot.deaths[-3:]]
    return Group(*parts)


def _warnings(settings: Sequence[Setting]) -> list[str]:
    """What will not fit, before it is tried."""
    return list(filter(None, map(warning_of, settings)))


def _memory(setting: Setting, snapshot: Snapshot) -> str:
    """What the setting holds now, or has held at most, against its limit."""
    if setting.budget is None:
        return ""
    limit = f"of {format_bytes(setting.budget.limit_bytes)}"
    held = snapshot.memory.get(setting.key)
    if held is not None and snapshot.running == setting.key:
        return f"{format_bytes(held.now)} {limit}"
    if held is not None:
        return f"peak {format_bytes(held.peak)} {limit}"
    predicted = setting.predicted_peak_bytes
    return f"up to {format_bytes(predicted[1])} {limit}" if predicted else ""


def _mark(key: str, snapshot: Snapshot) -> Text:
    bad = [s for s in snapshot.statuses.get(key, ()) if s is not Status.COMPLETED]
    if bad:
        return Text(bad[-1].value.replace("_", " "), style="red")
    if snapshot.running == key:
        return Text("running", style="cyan")
    return Text("ok" if key in snapshot.statuses else "waiting", style="dim")


def print_result(result: ResultLike, console: Console) -> None:
    """Headline, tables, verdicts with their reasons, and warnings as facts."""
    if not console.is_terminal:  # a file or a pipe has no width: every column, unwrapped
        console.print(Text(result_text(result)), soft_wrap=True)
        return
    console.print(Text(result.headline, style="bold"))
    console.print()
    for table in (result_table(result.summary), stage_table(result.summary)):
        if table is not None:
            console.print(_rich(table, console.width))
            console.print()
    for text in weaknesses(samples_of(result.events)):
        console.print(Text(text, style="yellow"))
        console.print()
    console.print(Text(describe(result)))
    console.print()
    for verdict in result.verdicts:
        console.print(Text(verdict_line(verdict), style=STYLES[verdict.outcome]))
    for warning in result.summary.warnings:
        console.print(Text(f"A library warned: {warning}", style="dim"))


def _rich(table: Table, width: int) -> RichTable:
    shown = _columns_that_fit(table, width)
    drawn = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for place in shown:
        justify: JustifyMethod = "left" if place < table.words else "right"
        drawn.add_column(Text(table.header[place]), justify=justify)
    for row in table.rows:
        drawn.add_row(*(Text(row[place]) for place in shown))
    return drawn


def _columns_that_fit(table: Table, width: int) -> list[int]:
    shown = list(range(len(table.header)))
    for name in _LEFT_OUT:
        if sum(table.widths[place] + 2 for place in shown) <= width:
            break
        shown = [place for place in shown if table.header[place] != name]
    return shown
