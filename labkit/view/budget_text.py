"""What ranks x workers ask of a machine, as text and HTML; pure but for the console it is given."""

from __future__ import annotations

import html

from rich.console import Console
from rich.text import Text

from labkit.measure.rank_limits import MOST_WORKERS, Limit
from labkit.units import format_bytes
from labkit.view.run_protocol import BudgetLike
from labkit.view.table import NONE, Table, html_list, html_table, text_table

_COUNTED = "How it is counted:"


def sentences(budget: BudgetLike) -> list[str]:
    """Processes, memory, whether it fits, the safe number of workers."""
    return [_processes(budget), _in_flight(budget), _fits(budget), _safe(budget)]


def _processes(budget: BudgetLike) -> str:
    job, cores = budget.job, budget.environment.usable_cores
    workers = job.ranks * job.workers
    parts = f"{_count(job.ranks, 'rank')}, {_count(workers, 'worker')} and torchrun's launcher"
    return (
        f"{_count(job.ranks, 'rank')} x {_count(job.workers, 'worker')}: {budget.processes} "
        f"processes ({parts}) on {_count(cores, 'usable core')}, "
        f"{_cores(budget.cores_per_process)} for each rank and worker."
    )


def _cores(number: float) -> str:
    return f"{number:.2g} {'core' if number == 1 else 'cores'}"


def _in_flight(budget: BudgetLike) -> str:
    low, high = map(format_bytes, budget.peak_bytes)
    size = format_bytes(budget.job.batch_bytes)
    peak = f"all processes hold {low} to {high} at the peak."
    if not budget.batches_in_flight:
        return f"Each rank loads its own batches of {size}: none is in shared memory; {peak}"
    return (
        f"Up to {budget.batches_in_flight} batches of {size} are in flight in each rank, "
        f"{format_bytes(budget.in_flight_bytes)} of shared memory in all; {peak}"
    )


def _fits(budget: BudgetLike) -> str:
    if budget.fits:
        return "This keeps within every limit."
    over = _listed([limit.name for limit in budget.limits if limit.exceeded])
    return f"This goes over the limit of {over}."


def _safe(budget: BudgetLike) -> str:
    safe, reasons = budget.safe_workers, _listed(budget.reasons)
    if safe is None:
        return f"Not even ranks without workers are safe here, because of {reasons}."
    return (
        f"At most {_count(safe, 'worker')} per rank {'is' if safe == 1 else 'are'} safe, "
        f"because of {reasons}. "
        "The limit of the cores is meant for workers that compute; those that wait for storage may "
        "be more."
    )


def _listed(names: list[str] | tuple[str, ...]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def limits(budget: BudgetLike) -> Table:
    """One row for each limit, whether it binds or not."""
    rows = tuple(
        (limit.name, _amount(limit, limit.available), _amount(limit, limit.needed),
         "over" if limit.exceeded else "", _workers(limit))
        for limit in budget.limits
    )  # fmt: skip
    return Table(header=("limit", "there is", "this needs", "", "most workers per rank"),
                 rows=rows, words=1)  # fmt: skip


def _amount(limit: Limit, amount: int | None) -> str:
    if amount is None:
        return "no limit"
    return format_bytes(amount) if limit.unit == "bytes" else str(amount)


def _workers(limit: Limit) -> str:
    if limit.workers is None:
        return NONE
    more = " or more" if limit.workers >= MOST_WORKERS else ""
    return f"{limit.workers}{more}" if limit.possible else "not even 0"


def counted(budget: BudgetLike) -> list[str]:
    """What each limit counts, one a line."""
    return [f"{limit.name}: {limit.counted}" for limit in budget.limits]


def to_text(budget: BudgetLike) -> str:
    """Sentences, table and what is counted, in plain text."""
    parts = ["\n".join(sentences(budget)), text_table(limits(budget))]
    return "\n\n".join([*parts, "\n".join([_COUNTED, *(f"  {line}" for line in counted(budget))])])


def to_html(budget: BudgetLike) -> str:
    """The same in HTML; everything is escaped."""
    told = "".join(f"<p>{html.escape(line)}</p>" for line in sentences(budget))
    return f"{told}\n{html_table(limits(budget))}\n{html_list(_COUNTED, counted(budget))}"


def print_budget(budget: BudgetLike, console: Console) -> None:
    """The same in a terminal; what goes over a limit is yellow."""
    first, *rest = sentences(budget)
    console.print(Text(first, style="bold"))
    for line in rest[:-2]:
        console.print(Text(line))
    console.print(Text(rest[-2], style="" if budget.fits else "yellow"))
    console.print(Text(rest[-1]))
    console.print(Text("\n" + text_table(limits(budget)) + "\n"), soft_wrap=True)
    console.print(Text("\n".join([_COUNTED, *(f"  {line}" for line in counted(budget))]), "dim"))
