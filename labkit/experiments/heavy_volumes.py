"""How few workers fit, when one sample is a gigabyte: memory fills up until the loader dies.

Two parts. `memory` reads whole volumes under a limit of nine of them above what the processes hold
anyway: two workers fit, four and eight do not. `disk` reads smaller volumes with eight workers that
do fit, with and without room for the page cache beside them. It must not import torch or
labkit.datasets at import: the kernel imports this file.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from labkit.errors import ParameterError
from labkit.figures import Stack
from labkit.measure import instrument
from labkit.measure.delivery import horizon_seconds
from labkit.measure.delivery_verdicts import (
    compare_cache,
    compare_deaths,
    compare_delivery,
    largest_batch,
)
from labkit.measure.prediction import LOOP_BYTES, TYPICAL, Footprint, predicted_peak
from labkit.measure.verdicts import circumstances
from labkit.params import Param, Params
from labkit.records import (
    WISHES,
    Context,
    Environment,
    Experiment,
    MemoryBudget,
    Needs,
    Setting,
    Trial,
    Verdict,
)
from labkit.summary import Summary
from labkit.units import format_bytes

MEMORY, DISK = "memory", "disk"
VOLUMES, ROOM = 4, 9
"""Volumes on disk, and volumes that the limit leaves room for: two workers peak at up to 7 of
them, four at 10.5 of at most 13 (measured)."""
LEAST_BATCHES = 24
MANY, FEW = 8, 2
_DISK_WORKERS, _DISK_PREFETCH, _DISK_VOLUMES, _DISK_EPOCHS = MANY, 2, 24, 4
"""Of 24 volumes a limit with room for 25 in flight lets the cache keep few."""
_SLACK_BYTES = 80 << 20
"""Page tables, sockets, and the pages that the system needs to read ahead: with 48 MiB one of 21
attempts died (measured)."""
_SHRUNK = "scaled down"
_STEPS = (1, 3 / 4, 1 / 2, 3 / 8)
"""A sample that does not fit shrinks in few steps: each size is a dataset of its own on disk."""


def settings(params: Params, environment: Environment) -> Sequence[Setting]:
    """Every number of workers under one limit; then many workers with and without cache."""
    sample = scaled(params["sample_mib"] << 20, environment)
    found: list[Setting] = []
    if MEMORY in params["part"]:
        found += [_memory_setting(count, params, sample, environment)
                  for count in params["workers"]]  # fmt: skip
    if DISK in params["part"]:
        found += [_disk_setting(room, params, sample, environment) for room in ("tight", "ample")]
    return found


def scaled(sample_bytes: int, environment: Environment) -> int:
    """The size of sample that this machine can lend: the asked one, or the next step below.

    Half of the available memory must hold the limit; shared memory must hold as many samples, or
    the loader would die of that; the disk must hold both parts' volumes.
    """
    half = environment.memory_available_bytes // 2 - _footprint(environment).base_bytes
    room = [half // ROOM, environment.disk_available_bytes // (3 * VOLUMES)]
    if environment.shm_available_bytes is not None:
        room.append(environment.shm_available_bytes // ROOM)
    size, most = sample_bytes, max(1 << 20, min(room))
    while size > most:
        fitting = [step for step in _STEPS if size * step <= most]
        if fitting:
            size = int(size * fitting[0])
        else:
            size //= 4
    return max(1 << 20, size >> 20 << 20)


def _footprint(environment: Environment) -> Footprint:
    if environment.base_bytes is None or environment.worker_bytes is None:
        return TYPICAL
    return Footprint(base_bytes=environment.base_bytes, worker_bytes=environment.worker_bytes,
                     loop_bytes=LOOP_BYTES)  # fmt: skip


def _spec(layout: str, count: int, sample_bytes: int) -> dict[str, Any]:
    # Here because data_gen brings numpy and PIL: half a second that listing labs need not pay.
    from data_gen import DatasetSpec
    from data_gen.spec import shape_for

    shape = shape_for("volumes", sample_bytes)
    stored: Any = "files" if layout == "mmap" else layout
    return DatasetSpec(kind="volumes", layout=stored, count=count, shape=shape).to_json()


def _memory_setting(
    workers: int, params: Params, sample: int, environment: Environment
) -> Setting:
    spec, prefetch = _spec(params["layout"], VOLUMES, sample), params["prefetch_factor"]
    read = math.prod(patch_shape(spec)) * 2 if params["read"] == "patch" else sample
    batches = max(LEAST_BATCHES, *(count * (prefetch + 1) for count in params["workers"]))
    footprint = _footprint(environment)
    limit = footprint.base_bytes + ROOM * sample
    if params["limit_mib"] is not None:
        limit = _checked_limit(params["limit_mib"] << 20, environment)
    values = {name: value for name, value in params.items() if name not in _NOT_OF_A_SETTING}
    return Setting(
        params={"workers": workers, **values, "sample_mib": sample >> 20},
        label=_label(workers),
        story=MEMORY,
        x=workers,
        warmup=min(workers * prefetch, batches // 2) or 2,
        batches=batches - (min(workers * prefetch, batches // 2) or 2),
        dataset=spec,
        budget=MemoryBudget(limit_bytes=limit, mechanism=params["mechanism"]),
        predicted_peak_bytes=predicted_peak(
            workers=workers, prefetch_factor=prefetch, batch_bytes=params["batch_size"] * read,
            batches=batches, footprint=footprint, copied=params["layout"] != "mmap",
        ),
        note=f"volumes of {format_bytes(sample)}{_shrunk(sample, params['sample_mib'] << 20)}",
    )  # fmt: skip


def _shrunk(size: int, asked: int) -> str:
    return "" if size == asked else f", {_SHRUNK} from {format_bytes(asked)} to fit here"


def _disk_size(sample: int) -> int:
    """An eighth; at small size a quarter, so that the slack is not room for all the volumes."""
    return max(1 << 20, sample // 8, min(16 << 20, sample // 4)) >> 20 << 20


def _disk_setting(room: str, params: Params, sample: int, environment: Environment) -> Setting:
    size = _disk_size(sample)
    predicted = predicted_peak(
        workers=_DISK_WORKERS, prefetch_factor=_DISK_PREFETCH, batch_bytes=size,
        batches=_DISK_EPOCHS * _DISK_VOLUMES, footprint=_footprint(environment),
    )  # fmt: skip
    limit = predicted[1] + _SLACK_BYTES
    if room == "ample":
        limit += _DISK_VOLUMES * size * 11 // 10
    layout = "files" if params["layout"] == "mmap" else params["layout"]
    return Setting(
        params={"workers": _DISK_WORKERS, "prefetch_factor": _DISK_PREFETCH, "batch_size": 1,
                "layout": layout, "read": "whole", "cache": "cold", "step_ms": 0.0,
                "sample_mib": size >> 20, "room": room},
        label=f"{_label(_DISK_WORKERS)}, {room} limit",
        story=DISK,
        x=float(room == "ample"),
        warmup=_DISK_VOLUMES,
        batches=(_DISK_EPOCHS - 1) * _DISK_VOLUMES,
        dataset=_spec(layout, _DISK_VOLUMES, size),
        budget=MemoryBudget(limit_bytes=limit, mechanism=params["mechanism"]),
        predicted_peak_bytes=predicted,
        note=f"{_DISK_VOLUMES} volumes of {format_bytes(size)}, read {_DISK_EPOCHS} times from "
        f"cold{_shrunk(size, _disk_size(params['sample_mib'] << 20))}",
    )  # fmt: skip


def _checked_limit(limit_bytes: int, environment: Environment) -> int:
    most = environment.memory_available_bytes * 4 // 5
    if limit_bytes <= most:
        return limit_bytes
    raise ParameterError(
        asked=f"limit_mib={limit_bytes >> 20}",
        found=f"{format_bytes(environment.memory_available_bytes)} of memory are available",
        do=f"give at most {most >> 20}, four fifths of that",
    )


def _label(workers: int) -> str:
    return f"{workers} worker{'' if workers == 1 else 's'}"


def patch_shape(spec: dict[str, Any]) -> tuple[int, int, int]:
    """A quarter of each edge of the spec's volumes: a 64th of the voxels."""
    depth, height, width = (max(1, length // 4) for length in spec["shape"])
    return depth, height, width


def make_loader(trial: Trial, context: Context) -> Any:
    """A DataLoader over the volumes, again and again in the same order, from a cold or warm cache.

    Cold volumes are dropped from the page cache here, inside the trial: a control group is
    charged for the pages that it is the first to read.
    """
    import torch
    from torch.utils.data import DataLoader

    from labkit.datasets import open_dataset
    from labkit.datasets.page_cache import drop_page_cache

    torch.set_num_threads(1)  # workers do this by themselves; 0 workers must be comparable
    workers, size = trial["workers"], trial["batch_size"]
    spec = trial.setting.dataset
    assert context.dataset_folder is not None
    assert spec is not None
    if trial["cache"] == "cold":
        drop_page_cache(context.dataset_folder)
    batches = trial.setting.warmup + trial.setting.batches
    if trial.setting.story == DISK:  # rates are compared: the loader must not run dry meanwhile
        batches += workers * trial["prefetch_factor"]
    dataset, collate = instrument(open_dataset(
        context.dataset_folder,
        access="mmap" if trial["layout"] == "mmap" else "read",
        patch=patch_shape(spec) if trial["read"] == "patch" else None,
        length=batches * size,
    ))  # fmt: skip
    return DataLoader(
        dataset,
        batch_size=size,
        num_workers=workers,
        prefetch_factor=trial["prefetch_factor"] if workers else None,
        collate_fn=collate,
    )


def make_step(trial: Trial, context: Context) -> Callable[[Any], None]:
    """A sleep that stands for an accelerator; nothing at `step_ms` 0."""
    seconds = trial["step_ms"] / 1e3
    return lambda batch: time.sleep(seconds) if seconds > 0 else None


def judge(summary: Summary, environment: Environment) -> tuple[Verdict, ...]:
    """K12 by how attempts ended, K14 by deliveries, K13 by rates, K9 by bytes of a batch."""
    own = [item for item in summary if item.setting.story == MEMORY]
    notes = circumstances(summary, environment)
    shrunk = {
        item.setting.story: (item.setting.note, *notes)
        for item in summary
        if _SHRUNK in item.setting.note
    }
    memory_notes, disk_notes = shrunk.get(MEMORY, notes), shrunk.get(DISK, notes)
    many = (_label(MANY), summary.find(MEMORY, workers=MANY))
    few = (_label(FEW), summary.find(MEMORY, workers=FEW))
    tight, ample = (
        (f"{room} limit", summary.find(DISK, room=room)) for room in ("tight", "ample")
    )
    return (
        compare_deaths("K12", MEMORY, many, memory_notes),
        compare_delivery("K14", MEMORY, few, many, horizon_seconds(own), "above", memory_notes),
        compare_cache("K13", DISK, tight, ample, environment.budget_mechanism, disk_notes),
        largest_batch("K9", MEMORY, own, memory_notes),
    )


_NOT_OF_A_SETTING = ("workers", "part", "limit_mib", "mechanism")
"""The last two are in its budget: runs under different ones can be compared."""
EXPERIMENT = Experiment(
    name="heavy_volumes",
    title="How many workers fit when a sample is a gigabyte",
    question="Why do eight workers kill the job, and how many fit?",
    claims=("K9", "K12", "K13", "K14"),
    params=(
        Param(name="workers", label="workers", sweep=True, default=(0, 1, 2, 4, 8), low=0, high=64,
              help="numbers of workers of the memory part"),
        Param(name="prefetch_factor", label="prefetch factor", default=2, low=1, high=16,
              help="batches that each worker keeps in flight"),
        Param(name="batch_size", label="batch size", default=1, low=1, high=64,
              help="volumes in a batch"),
        Param(name="limit_mib", label="limit (MiB)", default=None, low=64, high=1 << 24,
              help="memory that all processes of a trial may hold; by default nine samples above"
              " what they hold anyway"),
        Param(name="mechanism", label="limit held by", default="auto", choices=tuple(WISHES),
              help="kernel: a control group (or job object) that kills at the limit; watchdog:"
              " labkit looks and ends it; auto: the kernel where it can"),
        Param(name="sample_mib", label="sample (MiB)", default=1024, low=1, high=8192,
              help="size of a volume; scaled down where half of the free memory is too little"),
        Param(name="layout", label="layout", default="files",
              choices=("files", "hdf5", "lmdb", "mmap"),
              help="how volumes lie on disk; mmap maps loose files"),
        Param(name="read", label="read", default="whole", choices=("whole", "patch"),
              help="the whole volume, or one patch of a 64th of it"),
        Param(name="cache", label="page cache", default="warm", choices=("warm", "cold"),
              help="warm: as the run finds it; cold: dropped before each attempt"),
        Param(name="step_ms", label="step (ms)", default=0.0, low=0, high=10_000,
              help="milliseconds that the consumer sleeps per batch, standing for an accelerator"),
        Param(name="part", label="part", sweep=True, default=(MEMORY, DISK), choices=(MEMORY, DISK),
              help="memory: workers under a limit; disk: what a tight limit does to the cache"),
    ),
    settings=settings,
    make_loader=make_loader,
    make_step=make_step,
    judge=judge,
    needs=Needs(seconds=240, disk_bytes=8 << 30, memory_bytes=10 << 30),
    small={"sample_mib": 64},
    repeats=3,
    small_repeats=2,
    repeated="deaths",
    fresh="cold",
    preload=("labkit.datasets.map_style", "labkit.datasets.from_files"),
    figure=Stack(y_label="memory", rate_label="finished volumes per second"),
)  # fmt: skip
