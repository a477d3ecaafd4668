"""What one worker costs in time and memory: fork, forkserver, forkserver with torch, spawn.

A trial is a fresh interpreter that has torch already when it starts its workers: whatever a first
import reads from a cold page cache, or compiles, is paid for before the clock starts. It must not
import torch at import: the kernel imports this file.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from labkit.figures import Bars
from labkit.measure import instrument
from labkit.measure.look import ask_for_look
from labkit.measure.noise import mean_interval, ratio_interval
from labkit.measure.switch_cost import switch_seconds
from labkit.measure.verdicts import cannot_tell, circumstances, verdict
from labkit.params import Param, Params
from labkit.records import Context, Environment, Experiment, Needs, Setting, Step, Trial, Verdict
from labkit.summary import Costs, SettingSummary, Summary

METHODS = ("fork", "forkserver", "forkserver + torch", "spawn")
ARRAY, LIST, KEPT = "array", "list", "workers kept"
_PRELOADED = ["torch", "torch.utils.data", "labkit.experiments.process_cost"]
_ELEMENT_BYTES = 100
"""A string of 51 characters: the list of objects takes this much memory for each element."""
_BATCHES = 16
"""Of an epoch: enough that switches per sample are no matter of chance."""
_CACHED = 1.25
"""A first round that took this much longer than the others tells of cold caches."""


class Ballast:
    """A dataset that is heavy to carry and whose samples take some CPU time."""

    def __init__(self, kind: str, megabytes: int, seconds: float, count: int) -> None:
        import numpy as np

        self.count, self.seconds = count, seconds
        self.data: Any
        if kind == LIST:
            elements = megabytes * 1_000_000 // _ELEMENT_BYTES
            self.data = [f"{number:051d}" for number in range(elements)]
        else:
            self.data = np.ones(megabytes * 1_000_000, dtype=np.uint8)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        end = time.thread_time() + self.seconds
        while time.thread_time() < end:
            pass
        return int(self.data[index % len(self.data)])


def available(system: str = sys.platform) -> tuple[str, ...]:
    """The ways in which this system can start a process."""
    has = multiprocessing.get_all_start_methods() if system == sys.platform else ["spawn"]
    return tuple(method for method in METHODS if method.split()[0] in has)


def settings(params: Params, environment: Environment) -> Sequence[Setting]:
    """Every start method that exists here, with light and heavy datasets, and workers kept."""
    methods = [method for method in available() if method in params["methods"]]
    ends = [method for method in methods if method in ("fork", "spawn")]
    sizes = params["megabytes"]
    found = []
    for method in methods:
        found += [_setting(method, ARRAY, size, params) for size in sizes]
        if method in ends:
            found.append(_setting(method, LIST, params["list_megabytes"], params))
            found.append(_setting(method, KEPT, sizes[0], params))
    return found


def _setting(method: str, kind: str, megabytes: int, params: Params) -> Setting:
    light = kind == KEPT or megabytes == min(params["megabytes"])
    epochs = params["epochs"] if light else 1  # heavy ones are measured for their start alone
    return Setting(
        params={"method": method, "object": kind, "megabytes": megabytes, "epochs": epochs,
                "workers": params["workers"], "sample_ms": params["sample_ms"],
                "batch_size": params["batch_size"]},
        label=f"{method}, {megabytes} MB {'array, kept' if kind == KEPT else kind}",
        x=megabytes,
        batches=epochs * _BATCHES,
    )  # fmt: skip


def make_loader(trial: Trial, context: Context) -> Any:
    """A DataLoader that starts its workers as the setting says."""
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    method = trial["method"].split()[0]
    start = multiprocessing.get_context(method)
    if "torch" in trial["method"]:
        start.set_forkserver_preload(_PRELOADED)
    kind = LIST if trial["object"] == LIST else ARRAY
    count = _BATCHES * trial["batch_size"]
    ballast = Ballast(kind, trial["megabytes"], trial["sample_ms"] / 1e3, count)
    dataset, collate = instrument(ballast)
    return DataLoader(
        dataset, batch_size=trial["batch_size"], num_workers=trial["workers"],
        collate_fn=collate, multiprocessing_context=start,
        persistent_workers=trial["object"] == KEPT,
    )  # fmt: skip


def make_step(trial: Trial, context: Context) -> Step:
    """Holds still for a look at the memory: when all workers are there, and at the end."""
    last = trial.setting.batches - 1
    cost, taken = switch_seconds(), 0

    def step(batch: Any) -> dict[str, float]:
        nonlocal taken
        if taken in (trial["workers"] - 1, last):
            ask_for_look(context)
        taken += 1
        return {} if cost is None or taken > 1 else {"switch_seconds": cost}

    return step


def judge(summary: Summary, environment: Environment) -> tuple[Verdict, ...]:
    """K3 for the default method, K4 for each, K5 with workers kept, K6 with spawn for Windows."""
    notes = (*_defaults(environment), *_cold(summary), *circumstances(summary, environment))
    default = environment.start_method
    methods = dict.fromkeys(item.setting["method"] for item in summary)
    return (
        _first_time(summary, default, notes),
        *(_copied(summary, method, ARRAY, notes) for method in methods or (default,)),
        _copied(summary, "fork", LIST, notes),
        _switching(summary, default, notes),
        _windows(summary, notes),
    )


def _defaults(environment: Environment) -> tuple[str, ...]:
    system, python = environment.os.split()[0], environment.python
    return (
        f"{environment.start_method} is the default of Python {python} on {system}; fork was it on"
        " Linux until 3.13, forkserver is from 3.14 on, spawn on macOS and Windows",
    )


def _cold(summary: Summary) -> tuple[str, ...]:
    """What the first round took more than the others: caches that were cold."""
    first: list[float] = []
    later: list[float] = []
    for item in summary:
        for trial in item.trials:
            seconds = trial.costs.first_wait_seconds if trial.costs else None
            if seconds is not None and item.setting["megabytes"] == 1:
                (later if trial.repeat else first).append(seconds)
    if not first or not later or sum(first) / len(first) < _CACHED * sum(later) / len(later):
        return ()
    return ("the first round's starts took longer than the later ones': caches were cold",)


def _find(summary: Summary, method: str, kind: str, *, heavy: bool = False) -> (
    SettingSummary | None
):  # fmt: skip
    """The lightest or heaviest setting of a method and a kind of object."""
    found = [
        item for item in summary
        if item.setting["method"] == method and item.setting["object"] == kind
    ]  # fmt: skip
    found.sort(key=lambda item: float(item.setting.x))
    return found[-1 if heavy else 0] if found else None


def _costs(item: SettingSummary | None, take: Callable[[Costs], float | None]) -> dict[int, float]:
    """Round to a cost, of trials that completed."""
    found = {}
    for trial in item.trials if item is not None else ():
        value = take(trial.costs) if trial.costs is not None else None
        if value is not None and item is not None and trial.repeat in item.rates:
            found[trial.repeat] = value
    return found


def _first(item: SettingSummary | None) -> dict[int, float]:
    return _costs(item, lambda costs: costs.first_wait_seconds)


def _first_time(summary: Summary, default: str, notes: tuple[str, ...]) -> Verdict:
    item = _find(summary, default, ARRAY)
    first, later = _first(item), _costs(item, lambda costs: costs.later_wait_seconds)
    spans = f"{_span(first)}, {_span(later)}"
    what = f"first batch of the first epoch against that of later ones: {spans}; ratio"
    interval = ratio_interval(first, later)
    return verdict("K3", f"{default}, the default here", what, interval, "above", notes)


def _copied(summary: Summary, method: str, kind: str, notes: tuple[str, ...]) -> Verdict:
    light, heavy = _find(summary, method, ARRAY), _find(summary, method, kind, heavy=True)
    less = _costs(light, lambda costs: costs.worker_private_bytes)
    more = _costs(heavy, lambda costs: costs.worker_private_bytes)
    name = f"{method}, {kind}"
    megabytes = [item.setting["megabytes"] for item in (light, heavy) if item is not None]
    added = (megabytes[-1] - megabytes[0]) * 1e6 if len(megabytes) == 2 else 0
    if added <= 0:
        return cannot_tell("K4", name, "what is copied", ("no heavy dataset was measured", *notes))
    shares = [(more[turn] - less[turn]) / added for turn in sorted(more.keys() & less.keys())]
    what = (
        f"of {added / 1e6:.0f} MB that a dataset weighs more, a worker has made its own while"
        " starting: a share of"
    )
    return verdict("K4", name, what, mean_interval(shares), "above", notes)


def _switching(summary: Summary, default: str, notes: tuple[str, ...]) -> Verdict:
    item = _find(summary, default, KEPT) or _find(summary, "fork", KEPT)
    shares = []
    for trial in item.trials if item is not None else ():
        cost = trial.facts.get("switch_seconds", ())
        count = trial.costs.switches_per_sample if trial.costs is not None else None
        if cost and count is not None and trial.cpu_seconds_per_sample:
            shares.append(count * cost[0] / trial.cpu_seconds_per_sample)
    name = item.setting["method"] if item is not None else default
    what = "context switches per sample times what one costs, over its CPU time: a share of"
    return verdict("K5", name, what, mean_interval(shares), "above", notes)


def _windows(summary: Summary, notes: tuple[str, ...]) -> Verdict:
    spawn = _first(_find(summary, "spawn", ARRAY))
    others = {
        method: _first(_find(summary, method, ARRAY)) for method in METHODS if method != "spawn"
    }
    means = {name: sum(each.values()) / len(each) for name, each in others.items() if each}
    fastest = min(means, key=means.__getitem__, default="")
    told = ("spawn on this system stands for Windows, which has nothing else", *notes)
    if not fastest:
        return cannot_tell("K6", "", "spawn against another method", ("none was measured", *told))
    first = others[fastest]
    what = f"until the first batch, spawn against {fastest}: {_span(spawn)}, {_span(first)}; ratio"
    return verdict("K6", "", what, ratio_interval(spawn, first), "above", told)


def _span(seconds: dict[int, float]) -> str:
    if not seconds:
        return "not measured"
    return f"{min(seconds.values()):.2f} to {max(seconds.values()):.2f} s"


EXPERIMENT = Experiment(
    name="process_cost",
    title="What a worker costs before it works",
    question="What does one worker cost in time and memory (fork, forkserver, spawn)?",
    claims=("K3", "K4", "K5", "K6"),
    params=(
        Param(name="methods", label="start methods", sweep=True, default=METHODS, choices=METHODS,
              help="how workers are started; those that this system lacks are left out"),
        Param(name="megabytes", label="array (MB)", sweep=True, default=(1, 100, 300), low=1,
              high=4000, help="sizes of the array that the dataset carries"),
        Param(name="list_megabytes", label="list (MB)", default=100, low=1, high=1000,
              help="size of the Python list of strings that stands beside the arrays"),
        Param(name="workers", label="workers", default=2, low=1, high=16,
              help="workers that are started, one after the other"),
        Param(name="epochs", label="epochs", default=2, low=2, high=20,
              help="epochs with the lightest array: each starts its workers anew, unless kept"),
        Param(name="batch_size", label="batch size", default=4, low=1, high=256,
              help="samples in a batch"),
        Param(name="sample_ms", label="sample (ms)", default=1.0, low=0, high=100,
              help="milliseconds of CPU time that a sample takes"),
    ),
    settings=settings,
    make_loader=make_loader,
    make_step=make_step,
    judge=judge,
    needs=Needs(seconds=150, disk_bytes=0, memory_bytes=2 << 30),
    small={"megabytes": (1, 20), "list_megabytes": 10, "methods": ("fork", "spawn"),
           "sample_ms": 0.2},
    repeats=3,
    small_repeats=3,
    fresh="cold",
    figure=Bars(),
)  # fmt: skip
