"""Who loads which batch, and when the consumer waits: a loader's timeline, by counts.

Samples are made up: each is fetched (a sleep, an emulated read) and transformed (CPU time), some
longer than others. What is judged are orders and counts, which do not depend on the machine's
speed. It must not import torch at import: the kernel imports this file.
"""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

from labkit.figures import Lanes
from labkit.measure import instrument
from labkit.measure.verdicts import circumstances, counted
from labkit.params import Param, Params
from labkit.records import Context, Environment, Experiment, Needs, Setting, Step, Trial, Verdict
from labkit.summary import Flow, Summary

_LONGEST, _SHORTEST = 1.6, 0.4
"""Samples take between these shares of the mean, so that the order of batches is put to a test."""


class Slice:
    """A transform that uses the CPU for some seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, index: int) -> float:
        end = time.thread_time() + self.seconds * _size(index + 1)
        while time.thread_time() < end:
            pass
        return float(index)


class Pantry:
    """Samples that take a while to fetch."""

    def __init__(self, count: int, seconds: float, transform: Slice) -> None:
        self.count, self.seconds, self.transform = count, seconds, transform

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> float:
        time.sleep(self.seconds * _size(index))
        return self.transform(index)


def _size(index: int) -> float:
    return random.Random(index).uniform(_SHORTEST, _LONGEST)


class Orders:
    """A batch sampler that counts how many batches the loader has asked for."""

    def __init__(self) -> None:
        self.batches = self.batch_size = self.requested = self.before_first = 0

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        for batch in range(self.batches):
            self.requested += 1
            yield list(range(batch * self.batch_size, (batch + 1) * self.batch_size))


@functools.cache
def orders(trial: str) -> Orders:
    """The orders of this process's trial, which the loader writes and the step reads."""
    return Orders()


class Kitchen:
    """A loader that notes how many batches were on order before the first one was taken."""

    def __init__(self, loader: Any, orders: Orders) -> None:
        self.loader, self.orders = loader, orders

    def __iter__(self) -> Iterator[Any]:
        batches: Iterator[Any] = iter(self.loader)
        self.orders.before_first = self.orders.requested
        return batches


def settings(params: Params, environment: Environment) -> Sequence[Setting]:
    """One for each number of workers."""
    values = {name: value for name, value in params.items() if name != "workers"}
    return [
        Setting(
            params={"workers": workers, **values},
            label=f"{workers} worker{'' if workers == 1 else 's'}",
            x=workers,
            batches=params["batches"],
        )
        for workers in params["workers"]
    ]


def make_loader(trial: Trial, context: Context) -> Any:
    """A DataLoader whose epoch is so long that it never stops asking while it is watched."""
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    workers, prefetch = trial["workers"], trial["prefetch_factor"]
    sampler = orders(trial.id)
    sampler.batch_size = trial["batch_size"]
    sampler.batches = trial.setting.batches + workers * prefetch + 1
    pantry = Pantry(
        sampler.batches * sampler.batch_size, trial["fetch_ms"] / 1e3,
        Slice(trial["transform_ms"] / 1e3),
    )  # fmt: skip
    dataset, collate = instrument(pantry)
    loader = DataLoader(
        dataset, batch_sampler=sampler, num_workers=workers, collate_fn=collate,
        prefetch_factor=prefetch if workers else None,
    )  # fmt: skip
    return Kitchen(loader, sampler)


def make_step(trial: Trial, context: Context) -> Step:
    """A sleep that stands for an accelerator; notes what is on order when a batch has come."""
    seconds, ordered = trial["step_ms"] / 1e3, orders(trial.id)

    def step(batch: Any) -> dict[str, float]:
        requested = ordered.requested
        time.sleep(seconds)
        return {"requested": requested, "requested_first": ordered.before_first}

    return step


def judge(summary: Summary, environment: Environment) -> tuple[Verdict, ...]:
    """K1 from the trials without workers, K2 from the others; all of it counted."""
    notes = circumstances(summary, environment)
    alone = _flows(summary, workers=False)
    helped = _flows(summary, workers=True)
    return (
        _judge_alone(summary, alone, notes),
        counted(
            "K2", "order", sum(_in_turn(flow, workers) for flow, workers, _ in helped),
            sum(len(flow.workers) for flow, _, _ in helped),
            "batches k came from worker k mod W, whole: fetched, transformed and collated there",
            notes,
        ),
        counted(
            "K2", "processes", sum(_own_processes(flow, workers) for flow, workers, _ in helped),
            len(helped),
            "trials had as many building processes as workers, none of them the consumer's", notes,
        ),
        counted(
            "K2", "in flight", sum(_on_order(*each) for each in helped),
            sum(len(flow.in_flight) for flow, _, _ in helped),
            "batches came when exactly workers x prefetch_factor others were on order", notes,
        ),
        counted(
            "K2", "before the first", *_before_first(summary),
            "trials had exactly workers x prefetch_factor batches on order before the first", notes,
        ),
    )  # fmt: skip


def _flows(summary: Summary, *, workers: bool) -> list[tuple[Flow, int, int]]:
    """Flow, workers and batches that should be on order, of every trial that completed."""
    return [
        (trial.flow, item.setting["workers"],
         item.setting["workers"] * item.setting["prefetch_factor"])
        for item in summary
        if (item.setting["workers"] > 0) == workers
        for trial in item.trials
        if trial.repeat in item.rates and trial.flow is not None
    ]  # fmt: skip


def _judge_alone(
    summary: Summary, flows: list[tuple[Flow, int, int]], notes: tuple[str, ...]
) -> Verdict:
    """K1: the consumer builds every batch itself, and never during a step."""
    apart = [flow for flow, _, _ in flows if flow.overlap_share == 0]
    built = sum(pid == flow.main_pid for flow in apart for pid in flow.pids)
    waits = ", ".join(
        f"{item.wait_share:.0%} at {item.setting.label}"
        for item in summary
        if item.wait_share is not None
    )
    return counted(
        "K1", "", built, sum(len(flow.pids) for flow, _, _ in flows),
        "batches at 0 workers were built by the consuming process itself, and none during a step;"
        f" its time went into waiting: {waits}", notes,
    )  # fmt: skip


def _in_turn(flow: Flow, workers: int) -> int:
    return sum(worker == k % workers for k, worker in enumerate(flow.workers))


def _own_processes(flow: Flow, workers: int) -> bool:
    return len(set(flow.pids)) == workers and flow.main_pid not in flow.pids


def _on_order(flow: Flow, workers: int, ahead: int) -> int:
    return sum(count == ahead + 1 for count in flow.in_flight)


def _before_first(summary: Summary) -> tuple[int, int]:
    """Trials with exactly workers x prefetch_factor orders before their first batch, and all."""
    pairs = [
        (trial.facts["requested_first"][0], item.setting)
        for item in summary
        for trial in item.trials
        if item.setting["workers"] and trial.facts.get("requested_first")
    ]
    right = sum(
        first == setting["workers"] * setting["prefetch_factor"] for first, setting in pairs
    )
    return right, len(pairs)


EXPERIMENT = Experiment(
    name="kitchen",
    title="Who cooks which batch, and when the consumer waits",
    question="Who loads which batch, and when does the cook wait?",
    claims=("K1", "K2"),
    params=(
        Param(name="workers", label="workers", sweep=True, default=(0, 1, 2, 4), low=0, high=16,
              help="numbers of workers, each a timeline of its own"),
        Param(name="prefetch_factor", label="prefetch factor", default=2, low=1, high=16,
              help="batches that each worker keeps on order"),
        Param(name="batch_size", label="batch size", default=4, low=1, high=256,
              help="samples in a batch"),
        Param(name="fetch_ms", label="fetch (ms)", default=6.0, low=0, high=1000,
              help="milliseconds that a sample sleeps: an emulated read"),
        Param(name="transform_ms", label="transform (ms)", default=4.0, low=0, high=1000,
              help="milliseconds of CPU time that a sample's transform takes"),
        Param(name="step_ms", label="step (ms)", default=20.0, low=0, high=1000,
              help="milliseconds that the consumer sleeps per batch, standing for an accelerator"),
        Param(name="batches", label="batches", default=16, low=4, high=200,
              help="batches that are watched"),
    ),
    settings=settings,
    make_loader=make_loader,
    make_step=make_step,
    judge=judge,
    needs=Needs(seconds=15, disk_bytes=0, memory_bytes=1 << 29),
    small={"workers": (0, 1, 2), "fetch_ms": 1.0, "transform_ms": 1.0, "step_ms": 3.0},
    repeats=3,
    small_repeats=2,
    figure=Lanes(),
)  # fmt: skip
