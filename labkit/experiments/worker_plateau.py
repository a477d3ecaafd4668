"""How the rate of a DataLoader grows with its workers, and where it stops growing.

Two stories: `cpu` decodes, resizes, augments and normalises JPEGs; `waiting` sleeps some
milliseconds per sample, as an emulated remote read, and computes next to nothing. It must not
import torch or labkit.datasets at import: the kernel imports this file.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from labkit.figures import Curves
from labkit.measure import instrument
from labkit.measure.verdicts import (
    circumstances,
    compare_best,
    compare_pair,
    compare_transform,
)
from labkit.params import Param, Params
from labkit.records import Context, Environment, Experiment, Needs, Setting, Trial, Verdict
from labkit.summary import SettingSummary, Summary

CPU, WAITING = "cpu", "waiting"
MOST_WORKERS = 256
_FLOOR = 96
"""Measured batches at least: 192 samples, 0.4 s at 0 workers."""


class Augment:
    """Random crop, resize, mirror, brightness and normalise: a PIL image to a float tensor."""

    def __init__(self, side: int = 224) -> None:
        self.side = side

    def __call__(self, image: Any) -> Any:
        """Returns a float32 tensor of (3, side, side)."""
        import numpy as np
        import torch
        from PIL import Image

        width, height = image.size
        left, top = random.uniform(0, 0.2) * width, random.uniform(0, 0.2) * height
        box = (left, top, left + 0.8 * width, top + 0.8 * height)
        image = image.resize((self.side, self.side), Image.Resampling.BILINEAR, box=box)
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        # In float32 and in place: float64 and temporaries cost several times as much.
        out = np.empty((3, self.side, self.side), dtype=np.float32)
        scale = np.float32(random.uniform(0.8, 1.2) / 255 / 0.225)
        np.multiply(np.asarray(image).transpose(2, 0, 1), scale, out=out)
        out -= np.float32(0.45 / 0.225)
        return torch.from_numpy(out)


class RemoteRead:
    """A dataset whose every sample takes `seconds` of waiting first: an emulated remote read."""

    def __init__(self, dataset: Any, seconds: float) -> None:
        self.dataset = dataset
        self.seconds = seconds

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        time.sleep(self.seconds)
        return self.dataset[index]


def sweep(cores: int) -> tuple[int, ...]:
    """Numbers of workers that show the bend on a machine with `cores` usable cores."""
    points = (0, 1, 2, round(cores / 2), cores, round(1.5 * cores), 2 * cores, 4 * cores)
    return tuple(sorted({min(point, MOST_WORKERS) for point in points}))


def settings(params: Params, environment: Environment) -> Sequence[Setting]:
    """Every number of workers in both stories."""
    counts = params["workers"]
    if counts is None:
        counts = sweep(environment.usable_cores)
    return [_setting(story, count, params) for story in (CPU, WAITING) for count in counts]


def _setting(story: str, workers: int, params: Params) -> Setting:
    # Here because data_gen brings numpy and PIL: half a second that listing labs need not pay.
    from data_gen import DatasetSpec

    height = params["height"] if story == CPU else 60
    shape = (height, height * 4 // 3)
    spec = DatasetSpec(kind="images", layout="files", count=params["images"], shape=shape)
    in_flight = workers * params["prefetch_factor"]
    values = {name: value for name, value in params.items() if name != "workers"}
    return Setting(
        params={"workers": workers, **values},
        label=_label(workers),
        story=story,
        x=workers,
        batches=max(8 * in_flight, _FLOOR),
        warmup=in_flight or 2,
        dataset=spec.to_json(),
    )


def _label(workers: int) -> str:
    return f"{workers} worker{'' if workers == 1 else 's'}"


def make_loader(trial: Trial, context: Context) -> Any:
    """A DataLoader that is long enough never to run dry while it is measured."""
    import torch
    from torch.utils.data import DataLoader

    from labkit.datasets import open_dataset

    torch.set_num_threads(1)  # workers do this by themselves; 0 workers must be comparable
    workers, prefetch, size = trial["workers"], trial["prefetch_factor"], trial["batch_size"]
    batches = trial.setting.warmup + trial.setting.batches + workers * prefetch
    cpu = trial.setting.story == CPU
    assert context.dataset_folder is not None
    dataset: Any = open_dataset(
        context.dataset_folder, transform=Augment() if cpu else None, length=batches * size
    )
    if not cpu:
        dataset = RemoteRead(dataset, trial["wait_ms"] / 1e3)
    dataset, collate = instrument(dataset)
    return DataLoader(
        dataset,
        batch_size=size,
        shuffle=True,
        generator=torch.Generator().manual_seed(trial.seed),
        num_workers=workers,
        prefetch_factor=prefetch if workers else None,
        collate_fn=collate,
    )


def make_step(trial: Trial, context: Context) -> Callable[[Any], None]:
    """A sleep that stands for an accelerator; nothing at `step_ms` 0."""
    seconds = trial["step_ms"] / 1e3
    return lambda batch: time.sleep(seconds) if seconds > 0 else None


def judge(summary: Summary, environment: Environment) -> tuple[Verdict, ...]:
    """K7 and K8 by rates within rounds, K10 by stage times without workers."""
    cores = environment.usable_cores
    # On a machine too large for the sweep: a number that was not measured, so that it cannot tell.
    many = max(min(4 * cores, MOST_WORKERS), cores + 1)
    notes = circumstances(summary, environment)

    def named(story: str, workers: int) -> tuple[str, SettingSummary | None]:
        return _label(workers), summary.find(story, workers=workers)

    best = [
        compare_best(
            "K7", story, named(story, cores),
            [s for s in summary if s.setting.story == story and s.setting["workers"] != cores],
            notes,
        )
        for story in (CPU, WAITING)
    ]  # fmt: skip
    slower = [
        compare_pair("K8", f"{story}, 4 x cores", named(story, many), named(story, cores),
                     "below", notes)
        for story in (CPU, WAITING)
    ]  # fmt: skip
    one = compare_pair("K8", f"{CPU}, 1 against 0", named(CPU, 1), named(CPU, 0), "below", notes)
    return (*best, *slower, one, compare_transform("K10", CPU, named(CPU, 0), notes))


EXPERIMENT = Experiment(
    name="worker_plateau",
    title="Where more workers stop helping",
    question="How many workers does this machine want, when samples cost CPU and when they wait?",
    claims=("K7", "K8", "K10"),
    params=(
        Param(name="workers", label="workers", sweep=True, default=None, low=0, high=MOST_WORKERS,
              help="numbers of workers; by default 0 to 4 times the usable cores"),
        Param(name="batch_size", label="batch size", default=2, low=1, high=1024,
              help="samples in a batch"),
        Param(name="prefetch_factor", label="prefetch factor", default=2, low=1, high=64,
              help="batches that each worker keeps in flight"),
        Param(name="wait_ms", label="remote read (ms)", default=3.0, low=0, high=1000,
              help="milliseconds that a sample of the waiting story sleeps: an emulated remote"
              " read"),
        Param(name="step_ms", label="step (ms)", default=0.0, low=0, high=1000,
              help="milliseconds that the consumer sleeps per batch, standing for an accelerator;"
              " 0: it takes the batch and drops it"),
        Param(name="images", label="images", default=256, low=1, high=100_000,
              help="distinct JPEGs on disk; they are read again and again"),
        Param(name="height", label="image height", default=300, low=16, high=4096,
              help="pixels of the JPEGs of the cpu story, in proportion 4:3"),
    ),
    settings=settings,
    make_loader=make_loader,
    make_step=make_step,
    judge=judge,
    needs=Needs(seconds=45, disk_bytes=32 << 20, memory_bytes=1 << 30),
    small={"workers": (0, 1, 2), "wait_ms": 1.0, "images": 32, "height": 120},
    small_repeats=3,
    preload=("labkit.datasets.map_style", "labkit.datasets.from_files", "PIL.JpegImagePlugin"),
    figure=Curves(x_label="workers", y_label="samples per second"),
)  # fmt: skip
