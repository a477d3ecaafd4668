"""The command ``labkit``: parses, calls the public verbs, prints; it holds no logic of its own.

Exit codes: 0 measured (whatever the verdict), 1 failed or timed out, 2 bad input, 130 cancelled.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from labkit.errors import LabkitError, ParameterError
from labkit.units import format_bytes

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="See and measure the traps of PyTorch's DataLoader on this machine.",
)
data = typer.Typer(no_args_is_help=True, help="The synthetic datasets that the labs read.")
app.add_typer(data, name="data")

EXIT = {"completed": 0, "out_of_memory": 0, "failed": 1, "timed_out": 1, "cancelled": 130}


@app.command("list")
def list_experiments() -> None:
    """The labs, with the question that each answers."""
    from labkit.api import experiments

    table = Table("name", "question", "claims")
    for item in experiments():
        table.add_row(item.name, item.question, ", ".join(item.claims))
    Console().print(table)


@app.command(
    "run", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def run_experiment(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="a lab's name, or the path of your own .py file")],
    size: Annotated[str | None, typer.Option(help="small or full")] = None,
    repeats: Annotated[int | None, typer.Option(help="rounds over all settings")] = None,
    seed: Annotated[int, typer.Option(help="orders the trials and seeds the data")] = 0,
    timeout: Annotated[float | None, typer.Option(help="seconds for one trial")] = None,
    predict: Annotated[
        str | None, typer.Option(help="how many times as fast each will be: 0=1,2=2,4=4")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """Measure a lab now. Its own parameters are options too: --workers 0,1,2."""
    try:
        params = parse_params(context.args)
        code = _run(name, params, as_json, size=size, repeats=repeats, seed=seed, timeout=timeout,
                    predict=None if predict is None else parse_guesses(predict))  # fmt: skip
    except LabkitError as error:
        if as_json:
            print(json.dumps(_failure(name, error)))
        raise
    raise typer.Exit(code)


def _run(name: str, params: dict[str, Any], as_json: bool, **asked: Any) -> int:
    from labkit.api import follow, start
    from labkit.view.terminal import print_result, watch

    # With --json stdout holds the object alone; people read the table on stderr.
    console = Console(stderr=as_json)
    live = start(name, **asked, **params)
    result = follow(live, lambda run: watch(run, console))
    if as_json:
        print(json.dumps(result.to_json()))
    else:
        print_result(result, console)
        for text in result.errors[:1]:
            console.print(text, style="dim", markup=False, highlight=False)
        console.print(f"labkit show {result.path}", style="dim", soft_wrap=True)
    return EXIT[result.status.value]


def _failure(name: str, error: LabkitError) -> dict[str, Any]:
    from labkit.result import FORMAT

    return {
        "format": FORMAT, "experiment": name, "status": "failed", "headline": str(error),
        "verdicts": [], "settings": [], "environment": None, "overhead": {}, "run_path": None,
    }  # fmt: skip


def parse_params(arguments: list[str]) -> dict[str, Any]:
    """``--workers 0,1,2 --batch-size=8`` as parameters; numbers become numbers, commas lists.

    Raises:
        ParameterError: an option without a value, or a stray word.
    """
    params: dict[str, Any] = {}
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        name, has_value, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or (not has_value and not waiting):
            raise ParameterError(
                asked=" ".join(arguments),
                found=f"{word!r}, which is not an option with a value",
                do="write --name value, such as --workers 0,1,2",
            )
        text = value if has_value else waiting.pop(0)
        parts = [_number(part) for part in text.split(",") if part != ""]
        params[name.replace("-", "_")] = parts if "," in text else _number(text)
    return params


def parse_guesses(text: str) -> dict[float, float]:
    """``0=1,2=2`` as the mapping that `labkit.run` takes.

    Raises:
        ParameterError: it is not written so.
    """
    try:
        pairs = [part.split("=") for part in text.split(",")]
        return {float(x): float(ratio) for x, ratio in pairs}
    except ValueError:
        raise ParameterError(
            asked=f"--predict {text}", found="not pairs of numbers", do="write it as 0=1,2=2,4=4"
        ) from None


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@app.command()
def show(
    run: Annotated[Path | None, typer.Argument(help="a run's folder or its name")] = None,
) -> None:
    """Show a run that was measured before; without an argument, list the runs."""
    from labkit.machine.folders import runs_folder
    from labkit.result import load
    from labkit.view.terminal import print_result

    if run is None:
        for path in sorted(runs_folder().glob("*/plan.json")):
            print(path.parent)
        return
    here = run if run.exists() else runs_folder() / run
    print_result(load(here), Console())


@app.command("compare")
def compare_runs(
    a: Annotated[Path, typer.Argument(help="a run's folder or its name")],
    b: Annotated[Path, typer.Argument(help="another run of the same lab")],
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """Two runs side by side: rates, verdicts, and what differs in how they were measured."""
    from labkit.comparison import compare
    from labkit.view.comparison_text import print_comparison

    found = compare(a, b)
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        print_comparison(found, Console())


@app.command("budget")
def plan_budget(
    ranks: Annotated[int, typer.Option(help="training processes on this host")] = 8,
    workers: Annotated[int, typer.Option(help="loader workers of each rank")] = 8,
    sample_size: Annotated[str, typer.Option(help="of one sample, such as 1GiB")] = "588KiB",
    batch_size: Annotated[int, typer.Option(help="samples of one rank's batch")] = 32,
    prefetch_factor: Annotated[int, typer.Option(help="batches in flight per worker")] = 2,
    tensors_per_batch: Annotated[int, typer.Option(help="such as image and label")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """What ranks x workers would ask of this machine, and how many workers are safe; no run."""
    from labkit.rank_budget import budget
    from labkit.view.budget_text import print_budget

    found = budget(
        ranks, workers, sample_size, batch_size=batch_size, prefetch_factor=prefetch_factor,
        tensors_per_batch=tensors_per_batch,
    )  # fmt: skip
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        print_budget(found, Console())


@app.command("claims")
def show_claims(
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """Every claim of the article, with the latest verdicts of this machine."""
    from labkit.api import claims
    from labkit.view.ledger_text import print_ledger

    ledger = claims()
    if as_json:
        print(json.dumps(ledger.to_json()))
    else:
        print_ledger(ledger, Console())


@app.command()
def doctor() -> None:
    """What this machine is, and what to do so that the labs run well here."""
    from labkit.api import diagnose_here
    from labkit.machine.doctor import healthy
    from labkit.view.doctor_text import print_doctor

    findings = diagnose_here()
    print_doctor(findings, Console())
    raise typer.Exit(0 if healthy(findings) else 1)


@app.command()
def lab(
    folder: Annotated[Path, typer.Argument(help="where your copies of the notebooks live")] = Path(
        "labkit-notebooks"
    ),
    only_copy: Annotated[bool, typer.Option(help="copy, but do not open JupyterLab")] = False,
) -> None:
    """Copy the notebooks (never over changed ones) and open JupyterLab on them."""
    from labkit.notebooks_copy import copy_notebooks, start_jupyterlab

    report = copy_notebooks(folder)
    print(report)
    if not only_copy:
        raise typer.Exit(start_jupyterlab(folder))


@data.command("list")
def data_list() -> None:
    """The datasets in the cache, those used longest ago first."""
    from labkit.datasets import cache

    table = Table("dataset", "size", "in use")
    found = cache.listing()
    for item in found:
        table.add_row(item.folder.name, format_bytes(item.num_bytes), "yes" if item.in_use else "")
    console = Console()
    console.print(table)
    total = sum(item.num_bytes for item in found)
    held = f"{format_bytes(total)} of {format_bytes(cache.CAP_BYTES)}"
    console.print(f"{held} in {cache.cache_root()}", soft_wrap=True)


@data.command("make")
def data_make(
    name: Annotated[str, typer.Argument(help="the lab whose datasets are made ahead")],
    size: Annotated[str, typer.Option(help="small or full")] = "full",
) -> None:
    """Make the datasets of a lab now, so that its first run need not."""
    from labkit.api import datasets_of
    from labkit.datasets import cache
    from labkit.view.progress import build_progress

    with build_progress(Console(stderr=True)) as report:
        for spec in datasets_of(name, size=size):
            print(cache.ensure(spec, progress=report))


@data.command("clean")
def data_clean(
    keep_gib: Annotated[float, typer.Option(min=0, help="keep this much, newest used first")] = 0,
) -> None:
    """Remove datasets that no process uses, and what killed processes left."""
    from labkit.datasets import cache

    for item in cache.clean(keep_bytes=int(keep_gib * 2**30)):
        print(f"removed {item.folder.name} ({format_bytes(item.num_bytes)})")


def main() -> None:
    """Entry point: errors of ours are told in three lines, without a traceback."""
    try:
        app()
    except LabkitError as error:
        Console(stderr=True).print(str(error), style="red", markup=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
