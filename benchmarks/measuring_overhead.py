"""What being measured costs a loader: interleaved pairs of a bare loop and a measured one.

Each pair forks two children over the same JPEGs: one runs a plain ``for batch in loader``, the
other what a trial runs (stamps, events, its tree sampled from outside as the warden does).
``python benchmarks/measuring_overhead.py [PAIRS]`` prints the ratio with its 95 % interval.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from labkit.experiments.worker_plateau import EXPERIMENT, Augment
from labkit.measure.noise import ratio_interval
from labkit.measure.sampler import Sampler
from labkit.measure.store import EventWriter, create_run
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
    """Seconds of the same loop as a trial, from the events that it wrote."""
    from labkit.measure.store import RunFolder, read_events
    from labkit.measure.summary import summarise

    trial = make_trial()
    with EventWriter(RunFolder(run)) as writer:
        run_trial(trial, EXPERIMENT, Context(dataset_folder=folder), writer, "forked")
    (item,) = summarise([trial.setting], read_events(RunFolder(run)))
    rate = item.trials[0].samples_per_second
    assert rate is not None
    return BATCHES * VALUES["batch_size"] / rate


def in_child(work: Any, watched: bool) -> float:
    """Run `work` in a fork; the measured one is sampled from here as a warden would."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, repr(work()).encode())
        os._exit(0)
    os.close(writing)
    sampler = Sampler(pid, (os.getpid(),)) if watched else None
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        time.sleep(0.01)
        if sampler is not None and sampler.due():
            sampler.sample()
    with os.fdopen(reading) as file:
        return float(file.read())


def main(pairs: int) -> None:
    """Print the ratio of the measured loop's rate to the bare one's."""
    from labkit.api import specs_of
    from labkit.datasets import cache

    spec = max(specs_of("worker_plateau", size="full"), key=lambda item: item.total_bytes)
    folder = str(cache.ensure(spec))
    rates: tuple[dict[int, float], dict[int, float]] = ({}, {})
    with tempfile.TemporaryDirectory() as scratch:
        for pair in range(pairs):
            for which in random.sample((0, 1), 2):
                run = create_run(Path(scratch), "overhead", {}).path
                seconds = in_child(
                    (lambda: measured(folder, run)) if which else (lambda: bare(folder)),  # noqa: B023
                    watched=bool(which),
                )
                rates[which][pair] = 1 / seconds
            print(f"pair {pair}: {rates[1][pair] / rates[0][pair]:.4f}", flush=True)
    interval = ratio_interval(rates[1], rates[0])
    print(f"measured over bare, {pairs} pairs: {interval}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
