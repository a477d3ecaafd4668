"""The command `python -m data_gen`; the only module of data_gen that prints.

Exit codes: 0 made or whole, 1 problems found or a failure, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

import data_gen
from data_gen.errors import BuildCancelled, DataGenError, FolderError, SpaceError, SpecError
from data_gen.sizes import format_bytes, parse_bytes
from data_gen.spec import DEFAULT_SHAPES, KINDS, LAYOUTS, DatasetSpec, Kind, shape_for

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Make synthetic datasets, or verify one.",
)
_errors = Console(stderr=True, highlight=False, soft_wrap=True)


def _shape(kind: Kind, sample_size: str | None, shape: str | None) -> tuple[int, ...]:
    if sample_size is not None and shape is not None:
        raise SpecError(
            asked=f"--sample-size {sample_size} and --shape {shape}",
            found="both say how large a sample is",
            do="give one of them",
        )
    if sample_size is not None:
        return shape_for(kind, parse_bytes(sample_size))
    if shape is None:
        return DEFAULT_SHAPES[kind]
    try:
        return tuple(int(length) for length in shape.lower().split("x"))
    except ValueError:
        example = "x".join(map(str, DEFAULT_SHAPES[kind]))
        raise SpecError(
            asked=f"--shape {shape}",
            found="it is not a list of whole numbers",
            do=f"write them with an x between, for example {example}",
        ) from None


def _make(spec: DatasetSpec, out: Path, stop: Callable[[], bool]) -> None:
    began = time.perf_counter()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=_errors, transient=True, disable=not _errors.is_terminal
    ) as bar:
        task = bar.add_task(f"{spec.count} {spec.kind}", total=spec.total_bytes)

        def show(state: data_gen.Progress) -> None:
            bar.update(task, completed=state.done_bytes, total=state.total_bytes)

        manifest = data_gen.build(spec, out, progress=show, cancel=stop)
    seconds = time.perf_counter() - began
    size = format_bytes(manifest.num_bytes)
    speed = format_bytes(manifest.num_bytes / seconds)
    typer.echo(f"{spec.count} {spec.kind} in {out}: {size} in {seconds:.1f} s ({speed}/s)")


def _maker(kind: Kind) -> Callable[..., None]:
    def command(
        out: Annotated[Path, typer.Option(help="Folder that becomes the dataset.")],
        layout: Annotated[str, typer.Option(help=f"One of {', '.join(LAYOUTS)}.")] = "files",
        count: Annotated[int, typer.Option(help="Number of samples.")] = 16,
        sample_size: Annotated[
            str | None, typer.Option(help="About so much a sample, for example 80KB or 1GiB.")
        ] = None,
        shape: Annotated[
            str | None, typer.Option(help="Instead: exact lengths, for example 64x256x256.")
        ] = None,
        seed: Annotated[int, typer.Option(help="Another seed, other samples.")] = 0,
    ) -> None:
        with _reported(), _stoppable() as stop:
            spec = DatasetSpec(
                kind=kind,
                layout=layout,  # type: ignore[arg-type]  # the spec checks it
                count=count,
                shape=_shape(kind, sample_size, shape),
                seed=seed,
            )
            _make(spec, out, stop)

    return command


for _kind in KINDS:
    app.command(_kind, help=f"Make a dataset of {_kind}.")(_maker(_kind))


@app.command()
def verify(folder: Annotated[Path, typer.Argument(help="Folder of a dataset.")]) -> None:
    """Read a whole dataset and print what is wrong with it."""
    with _reported():
        problems = data_gen.verify(folder)
        for problem in problems:
            typer.echo(str(problem))
        if problems:
            raise typer.Exit(1)
        typer.echo(f"{folder}: whole")


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    """Turns errors into messages and exit codes."""
    try:
        yield
    except (SpecError, SpaceError, FolderError) as error:
        _tell(error)
        raise typer.Exit(2) from None
    except BuildCancelled as error:
        _tell(error)
        raise typer.Exit(130) from None
    except DataGenError as error:
        _tell(error)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        _errors.print("interrupted")
        raise typer.Exit(130) from None


@contextlib.contextmanager
def _stoppable() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C or SIGTERM asked to stop; a second Ctrl-C raises KeyboardInterrupt.

    A question, because an exception from a signal handler may be lost in C code that runs Python
    code and clears its error: 2 of 70 were while modules were imported (tried), and the build went
    on to its end.
    """
    asked = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _tell(error: DataGenError) -> None:
    for name in ("asked", "found", "do"):
        _errors.print(f"{name + ':':6} {getattr(error, name)}", markup=False)


if __name__ == "__main__":
    app(prog_name="python -m data_gen")
