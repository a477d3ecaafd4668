"""Verdicts on a map of ranks and workers: by counts, rates, all-reduce times and switches; pure.

It needs settings with the parameters ``ranks`` and ``workers``, and must not know an experiment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labkit.measure.noise import mean_interval, ratio_interval
from labkit.measure.verdicts import (
    cannot_tell,
    circumstances,
    compare_pair,
    compare_with_best,
    counted,
    verdict,
)
from labkit.records import Environment, Verdict
from labkit.summary import Interval, SettingSummary, Summary, TrialSummary

EPOCH = 2048
"""Images of the epoch for which the start of the workers is told together with the rate."""
_COLD = 2.0
"""From here the first round's start is told apart: on a virtual machine memory that is touched for
the first time for a while made 64 workers start in 2.5 s, and then in 0.9 s (measured)."""
_USUAL = (8, 8)
"""Ranks and workers that are named where nothing was measured."""


def judge_ranks(summary: Summary, environment: Environment) -> tuple[Verdict, ...]:
    """K28 by counts, K8 and K29 by rates, K30 by all-reduce times, K5 by switches."""
    left_out = dict.fromkeys(item.setting.note for item in summary if item.setting.note)
    notes = (*left_out, *_cold(summary), *circumstances(summary, environment))
    cells = {(item.setting["ranks"], item.setting["workers"]): item for item in summary}
    counts = sorted({ranks for ranks, _ in cells if ranks > 1}) or [_USUAL[0]]
    most = counts[-1]
    return (
        *_slower(cells, most, notes),
        _counted(summary, notes),
        *(_product(cells, ranks, environment.usable_cores, notes) for ranks in counts),
        *(_competing(cells, ranks, notes) for ranks in counts),
        _switching(_last(cells, most), notes),
    )


def _cold(summary: Summary) -> tuple[str, ...]:
    """Settings whose workers took much longer to start in the first round than later."""
    found = []
    for item in summary:
        times = {t.repeat: t.first_batch_seconds for t in item.trials if t.first_batch_seconds}
        later = [seconds for turn, seconds in times.items() if turn]
        if 0 in times and later and times[0] > _COLD * max(later):
            found.append(f"{item.setting.label} ({times[0]:.2f} s, then {max(later):.2f} s)")
    return (f"the first round's first batch came later than later ones': {', '.join(found)}",
            ) if found else ()  # fmt: skip


Cells = Mapping[tuple[int, int], SettingSummary]


def _row(cells: Cells, ranks: int) -> list[SettingSummary]:
    """The settings of a number of ranks, fewest workers first."""
    return [item for cell, item in sorted(cells.items()) if cell[0] == ranks]


def _last(cells: Cells, ranks: int) -> SettingSummary | None:
    return row[-1] if (row := _row(cells, ranks)) else None


def _slower(cells: Cells, ranks: int, notes: tuple[str, ...]) -> list[Verdict]:
    """The most workers against the best number for the same ranks: steady, and with the start."""
    found = []
    for story, seen in (
        (f"{ranks} ranks, steady", _row(cells, ranks)),
        (f"{ranks} ranks, epoch of {EPOCH} images", list(map(_epoch, _row(cells, ranks)))),
    ):
        last = seen[-1] if seen else None
        name = last.setting.label if last is not None else f"{ranks} x {_USUAL[1]}"
        found.append(
            compare_with_best("K8", story, (name, last), seen[:-1], notes, direction="below")
        )
    return found


def _epoch(item: SettingSummary) -> SettingSummary:
    """The same, at the rate of a whole epoch: the wait for its first batch, then steady."""

    def whole(trial: TrialSummary) -> TrialSummary:
        rate, first = trial.samples_per_second, trial.first_batch_seconds
        known = rate is not None and first is not None
        return replace(
            trial, samples_per_second=EPOCH / (first + EPOCH / rate) if known else None  # type: ignore[operator]
        )

    trials = tuple(map(whole, item.trials))
    made = replace(item, trials=trials)
    rates = sorted(made.rates.values())
    middle = rates[len(rates) // 2] if rates else 0.0
    band = Interval(median=middle, low=rates[0], high=rates[-1]) if rates else None
    return replace(made, samples_per_second=band)


def _counted(summary: Summary, notes: tuple[str, ...]) -> Verdict:
    """Whether every rank had as many workers of its own as it asked for."""
    held = total = 0
    largest: tuple[int, str] = (0, "none")
    for item in summary:
        for trial in item.trials:
            if trial.ranks is None or trial.repeat not in item.rates or not item.setting["workers"]:
                continue
            ranks, workers = item.setting["ranks"], item.setting["workers"]
            total += 1
            held += trial.ranks.workers == (workers,) * ranks
            seen = sum(trial.ranks.workers)
            largest = max(largest, (seen, f"{ranks} x {workers} had {seen} loader processes"))
    what = f"trials had ranks x workers loader processes, beside the ranks ({largest[1]})"
    return counted("K28", "", held, total, what, notes)


def _product(cells: Cells, ranks: int, cores: int, notes: tuple[str, ...]) -> Verdict:
    """As many workers per rank as there are cores, against what each rank's share of them is."""
    many = cells.get((ranks, cores))
    local = -(-ranks // _hosts(many))  # the cores of a host are shared by its own ranks
    measured = [workers for count, workers in cells if count == ranks and workers <= cores // local]
    share = max(measured, default=0)
    few = cells.get((ranks, share))
    told = (
        f"{cores} usable cores: CPUs x GPUs makes {local * cores} workers on a host, the cores"
        f" shared by its ranks {local * share}", *notes,
    )  # fmt: skip
    return compare_pair("K29", f"{ranks} ranks", (f"{ranks} x {cores}", many),
                        (f"{ranks} x {share}", few), "above", told)  # fmt: skip


def _hosts(item: SettingSummary | None) -> int:
    facts = (trial.ranks for trial in item.trials) if item is not None else ()
    return max((len(set(each.hosts)) for each in facts if each is not None), default=1)


def _competing(cells: Cells, ranks: int, notes: tuple[str, ...]) -> Verdict:
    """All-reduce of the gradients while workers load, against ranks that load by themselves."""
    row = _row(cells, ranks)
    loaded = row[-1] if row and row[-1].setting["workers"] else None
    alone = cells.get((ranks, 0))
    with_load, without = _allreduce(loaded), _allreduce(alone)
    told = ("between CPU ranks it is gloo's all-reduce over loopback that competes, not NCCL's",
            *notes)  # fmt: skip
    if not with_load or not without:
        missing = f"{ranks} ranks with and without workers were not both measured"
        return cannot_tell("K30", f"{ranks} ranks", "all-reduce", (missing, *told))
    label = loaded.setting.label if loaded is not None else ""
    what = (
        f"all-reduce of the gradients, slowest rank, once all have met: {_span(with_load)} at"
        f" {label}, {_span(without)} at {ranks} x 0, where nobody loads meanwhile; ratio"
    )
    interval = ratio_interval(with_load, without)
    return verdict("K30", f"{ranks} ranks", what, interval, "above", told)


def _allreduce(item: SettingSummary | None) -> dict[int, float]:
    found = {}
    for trial in item.trials if item is not None else ():
        seconds = trial.ranks.allreduce_seconds if trial.ranks is not None else None
        if seconds and item is not None and trial.repeat in item.rates:
            found[trial.repeat] = seconds
    return found


def _span(seconds: Mapping[int, float]) -> str:
    return f"{min(seconds.values()) * 1e3:.1f} to {max(seconds.values()) * 1e3:.1f} ms"


def _switching(item: SettingSummary | None, notes: tuple[str, ...]) -> Verdict:
    shares = []
    for trial in item.trials if item is not None else ():
        cost, facts = trial.facts.get("switch_seconds", ()), trial.ranks
        if facts is None or not cost or not trial.cpu_seconds_per_sample:
            continue
        if facts.involuntary_per_sample is not None and facts.voluntary_per_sample is not None:
            count = facts.involuntary_per_sample + facts.voluntary_per_sample
            shares.append(count * cost[0] / trial.cpu_seconds_per_sample)
    name = item.setting.label if item is not None else ""
    what = "context switches per image times what one costs, over its CPU time: a share of"
    return verdict("K5", name, what, mean_interval(shares), "above", notes)
