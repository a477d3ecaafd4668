"""Progress of writing a dataset, in a terminal; it draws what it is told and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


@contextmanager
def build_progress(console: Console) -> Iterator[Callable[[Any], None]]:
    """A bar with bytes, speed and time left; yields the callback for `data_gen.build`."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True),
        TransferSpeedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("dataset", total=None)

        def report(state: Any) -> None:
            progress.update(task, completed=state.done_bytes, total=state.total_bytes)

        yield report
