"""What being measured costs a loader: interleaved pairs of a bare loop and a measured one.

Each pair forks two children over the same JPEGs: one runs a plain ``for batch in loader``, the
other what a trial runs (stamps, events, its tree sampled from outside as the warden does).
``python benchmarks/measuring_overhead.py [PAIRS]`` prints the ratios with their 95 % intervals.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labkit.experiments.worker_plateau import EXPERIMENT, Augment
from labkit.measure.host import IMPORTS
from labkit.measure.noise import ratio_interval
from labkit.measure.sampler import LoadMeter, Sampler
from labkit.measure.store import EventWriter, RunFolder, create_run, read_events
from labkit.measure.summary import summarise
from labkit.measure.trial import run_trial
from labkit.records import Context, Setting, Trial

WORKERS, BATCHES, WARMUP = 2, 150, 4
VALUES = {name: value for name, value in EXPERIMENT.resolve({}, size="full").items()}


def make_trial() -> Trial:
    """The cpu story with as many workers as the small machines have cores."""
    setting = Setting(
        params=VALUES | {"workers": WORKERS}, label="2", story="cpu", batches=BATCHES, warmup=WARMUP
    )
    return Trial(id="000-0", setting=setting, repeat=0, seed=0, timeout_seconds=120)


def bare(folder: str) -> float:
    """Seconds of a plain loop after its warm-up."""
    import torch
    from torch.utils.data import DataLoader

    from labkit.datasets import open_dataset

    torch.set_num_threads(1)
    size = VALUES["batch_size"]
    length = (BATCHES + WARMUP + 2 * WORKERS) * size
    loader = DataLoader(
        open_dataset(folder, transform=Augment(), length=length), batch_size=size, shuffle=True,
        generator=torch.Generator().manual_seed(0), num_workers=WORKERS,
        prefetch_factor=VALUES["prefetch_factor"],
    )  # fmt: skip
    start = 0.0
    for number, _batch in enumerate(loader, 1):
        if number == WARMUP:
            start = time.perf_counter()
        if number == WARMUP + BATCHES:
            break
    return time.perf_counter() - start


def measured(folder: str, run: Path) -> float:
    """The same loop as a trial; returns 0, for `seconds_of` reads from its events what it took."""
    with EventWriter(RunFolder(run)) as writer:
        run_trial(make_trial(), EXPERIMENT, Context(dataset_folder=folder), writer, "forked")
    return 0.0


def seconds_of(run: Path) -> float:
    """What the measured loop took after its warm-up, as a result tells it."""
    (item,) = summarise([make_trial().setting], read_events(RunFolder(run)))
    rate = item.trials[0].samples_per_second
    assert rate is not None
    return BATCHES * VALUES["batch_size"] / rate


def in_child(work: Any, sampler_of: Callable[[int], Sampler] | None) -> tuple[float, float]:
    """Run `work` in a fork, sampled from here as a warden would where a sampler is given.

    Returns:
        Its seconds, and the CPU seconds of the child, of its workers and of the sampling.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        seconds = work()
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        cpu = sum(each.ru_utime + each.ru_stime for each in used)
        os.write(writing, json.dumps([seconds, cpu]).encode())
        os._exit(0)
    os.close(writing)
    sampler = sampler_of(pid) if sampler_of is not None else None
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        time.sleep(0.01)
        if sampler is not None and sampler.due():
            sampler.sample()
    with os.fdopen(reading) as file:
        seconds, cpu = json.load(file)
    return seconds, cpu + (sampler.spent_seconds if sampler is not None else 0.0)


class Warden:
    """What a warden keeps from trial to trial: the load meter, and the pause of its sampler."""

    def __init__(self) -> None:
        self.load = LoadMeter((os.getpid(),))
        self.last: Sampler | None = None

    def sampler(self, pid: int) -> Sampler:
        """The sampler of the next trial."""
        not_before = self.last.due_at if self.last is not None else 0.0
        self.last = Sampler(pid, self.load, not_before=not_before)
        return self.last


def main(pairs: int) -> None:
    """Print the ratios of the measured loop to the bare one: its rate, and its CPU time.

    The CPU time is the steadier one by far; where all cores are busy, as here, the rate follows it.
    """
    from labkit.api import specs_of
    from labkit.datasets import cache

    spec = max(specs_of("worker_plateau", size="full"), key=lambda item: item.total_bytes)
    folder = str(cache.ensure(spec))
    for name in (*IMPORTS, *EXPERIMENT.preload):
        importlib.import_module(name)
    gc.freeze()
    warden = Warden()
    rates: tuple[dict[int, float], dict[int, float]] = ({}, {})
    costs: tuple[dict[int, float], dict[int, float]] = ({}, {})
    with tempfile.TemporaryDirectory() as scratch:
        for pair in range(pairs):
            for which in random.sample((0, 1), 2):
                run = create_run(Path(scratch), "overhead", {}).path
                seconds, costs[which][pair] = in_child(
                    (lambda: measured(folder, run)) if which else (lambda: bare(folder)),  # noqa: B023
                    warden.sampler if which else None,
                )
                rates[which][pair] = 1 / (seconds_of(run) if which else seconds)
    print(f"rate, measured over bare, {pairs} pairs: {ratio_interval(rates[1], rates[0])}")
    print(f"CPU time, measured over bare, {pairs} pairs: {ratio_interval(costs[1], costs[0])}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
