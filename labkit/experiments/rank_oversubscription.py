"""What happens when every rank of a distributed training has workers of its own.

Ranks are real: torchrun starts them, each has a DistributedSampler and a loader of its own, and
trains a small convolutional model under DistributedDataParallel. The gradients' all-reduce is timed
inside DDP: a first all-reduce of one number waits until the last rank is there, the second one is
then that of the gradients alone. It must not import torch or labkit.datasets at import: the kernel
imports this file.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from labkit.figures import HeatMap
from labkit.measure import instrument
from labkit.measure.look import ask_for_look
from labkit.measure.prediction import Footprint
from labkit.measure.rank_verdicts import judge_ranks
from labkit.measure.switch_cost import switch_seconds
from labkit.measure.tree_counters import tree_counters
from labkit.params import Param, Params
from labkit.records import Context, Environment, Experiment, Needs, Setting, Step, Trial
from labkit.units import format_bytes

WORKERS = (0, 1, 2, 4, 8)
SIDE = 64
_PREFETCH = 2
_CLASSES = 10
_TYPICAL = Footprint(base_bytes=215 << 20, worker_bytes=11 << 20)
"""A rank with DDP and what its optimizer imports, measured: where this machine was not measured."""


class Small:
    """A PIL image to a float tensor of (3, SIDE, SIDE)."""

    def __call__(self, image: Any) -> Any:
        import numpy as np
        import torch

        pixels = np.asarray(image.resize((SIDE, SIDE), 2), dtype=np.float32)  # 2: bilinear
        return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1) / np.float32(255)))


class TimedAllReduce:
    """DDP's own all-reduce of the gradients, timed: the wait for the last rank, then the sum."""

    def __init__(self, device: Any) -> None:
        import torch

        self.device = device
        self.signal = torch.zeros(1, device=device)
        self.facts = {"meeting_seconds": 0.0, "allreduce_seconds": 0.0}

    def __call__(self, bucket: Any) -> Any:
        """Take one bucket of gradients; called within the backward pass."""
        import torch
        import torch.distributed as dist

        gradients = bucket.buffer()
        for name, tensor in (("meeting_seconds", self.signal), ("allreduce_seconds", gradients)):
            start = time.perf_counter()
            dist.all_reduce(tensor)
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            self.facts[name] += time.perf_counter() - start
        done: Any = torch.futures.Future()
        done.set_result(gradients.div_(dist.get_world_size()))
        return done


def settings(params: Params, environment: Environment) -> Sequence[Setting]:
    """Every number of ranks with every number of workers that half of the free memory holds."""
    # Here because data_gen brings numpy and PIL: half a second that listing labs need not pay.
    from data_gen import DatasetSpec

    counts = params["workers"]
    if counts is None:  # the cores themselves, too: a claim is about as many workers as cores
        counts = sorted({*WORKERS, min(environment.usable_cores, 2 * WORKERS[-1])})
    spec = DatasetSpec(
        kind="images", layout="files", count=params["images"], shape=(120, 160)
    ).to_json()
    most = environment.memory_available_bytes // 2
    cells = {(r, w): predicted_bytes(r, w, environment) for r in params["ranks"] for w in counts}
    fit = {cell for cell, size in cells.items() if size <= most} or {min(cells)}
    out = [f"{r} x {w} ({r * (1 + w) + 1} processes, {format_bytes(cells[r, w])})"
           for r, w in cells if (r, w) not in fit]  # fmt: skip
    note = f"left out, over half of the free memory: {', '.join(out)}" if out else ""
    values = {name: value for name, value in params.items() if name not in ("ranks", "workers")}
    return [
        Setting(
            params={"ranks": r, "workers": w, **values},
            label=f"{r} x {w}",
            x=w,
            batches=params["steps"],
            warmup=w * _PREFETCH or 2,
            dataset=spec,
            ranks=r,
            note=note,
            predicted_peak_bytes=(cells[r, w], cells[r, w] + r * _in_flight(w, params)),
        )
        for r, w in cells
        if (r, w) in fit
    ]


def predicted_bytes(ranks: int, workers: int, environment: Environment) -> int:
    """Memory of all processes before any sample: ranks, their workers and torchrun itself."""
    base = environment.base_bytes or _TYPICAL.base_bytes
    worker = environment.worker_bytes or _TYPICAL.worker_bytes
    return ranks * (base + workers * worker) + base


def _in_flight(workers: int, params: Params) -> int:
    batch: int = params["batch_size"] * 3 * SIDE * SIDE * 4
    return (workers * _PREFETCH + 1) * batch


def make_loader(trial: Trial, context: Context) -> Any:
    """This rank's DataLoader, long enough never to run dry while it is measured."""
    import torch
    from torch.utils.data import DataLoader
    from torch.utils.data.distributed import DistributedSampler

    from labkit.datasets import open_dataset

    torch.set_num_threads(trial["omp_threads"])
    workers, size = trial["workers"], trial["batch_size"]
    batches = trial.setting.warmup + trial.setting.batches + workers * _PREFETCH
    assert context.dataset_folder is not None
    length = batches * size * context.world_size
    dataset, collate = instrument(
        open_dataset(context.dataset_folder, transform=Small(), length=length)
    )
    sampler: Any = DistributedSampler(
        dataset, num_replicas=context.world_size, rank=context.rank, seed=trial.seed
    )
    return DataLoader(
        dataset, batch_size=size, sampler=sampler, num_workers=workers, collate_fn=collate,
        prefetch_factor=_PREFETCH if workers else None,
    )  # fmt: skip


def make_step(trial: Trial, context: Context) -> Step:
    """One step of training under DDP; tells of all-reduce and, at both ends, of its counters."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    cost = switch_seconds() if context.rank == 0 else None
    dist.barrier()  # the others start no worker while a switch is timed
    on_gpu = "nccl" in str(dist.get_backend_config())
    device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
    torch.manual_seed(trial.seed)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(2048, 128), nn.ReLU(),
        nn.Linear(128, _CLASSES),
    ).to(device)  # fmt: skip
    shared = DistributedDataParallel(model)
    timer = TimedAllReduce(device)
    shared.register_comm_hook(None, lambda state, bucket: timer(bucket))
    optimizer = torch.optim.SGD(shared.parameters(), lr=0.01)
    ends = (trial.setting.warmup - 1, trial.setting.warmup + trial.setting.batches - 1)
    taken = 0

    def step(batch: Any) -> dict[str, float]:
        nonlocal taken
        images, labels = (part.to(device) for part in batch)
        timer.facts = dict.fromkeys(timer.facts, 0.0)
        optimizer.zero_grad()
        loss: Any = nn.functional.cross_entropy(shared(images), labels % _CLASSES)
        loss.backward()
        optimizer.step()
        facts = dict(timer.facts)
        if taken == 0 and trial.repeat == 0:
            ask_for_look(context)  # all ranks have met: all workers are there, and it is warm-up
        if taken in ends:
            facts |= tree_counters()
            if cost is not None:
                facts["switch_seconds"] = cost
        taken += 1
        return facts

    return step


EXPERIMENT = Experiment(
    name="rank_oversubscription",
    title="Ranks times workers on the cores of one node",
    question="How many workers may each rank have, when all ranks share the cores of one node?",
    claims=("K5", "K8", "K28", "K29", "K30"),
    params=(
        Param(name="ranks", label="ranks", sweep=True, default=(1, 2, 4, 8), low=1, high=64,
              help="processes that torchrun starts, one for each GPU on a machine that has them"),
        Param(name="workers", label="workers", sweep=True, default=None, low=0, high=64,
              help="loader workers of each rank; by default 0 to 8, and the usable cores to 16"),
        Param(name="batch_size", label="batch size", default=4, low=1, high=1024,
              help="images in a batch of each rank"),
        Param(name="steps", label="steps", default=24, low=4, high=10_000,
              help="measured steps of each rank, after workers x 2 of warm-up"),
        Param(name="images", label="images", default=256, low=8, high=100_000,
              help="distinct JPEGs on disk; they are read again and again"),
        Param(name="omp_threads", label="OMP threads", default=1, low=1, high=64,
              help="threads of torch in each rank, as OMP_NUM_THREADS sets them; torchrun's default"
              " is 1, and more oversubscribe the cores a second time"),
    ),
    settings=settings,
    make_loader=make_loader,
    make_step=make_step,
    judge=judge_ranks,
    needs=Needs(seconds=120, disk_bytes=8 << 20, memory_bytes=4 << 30),
    small={"ranks": (1, 2), "workers": (0, 1, 2), "steps": 8, "images": 32},
    repeats=3,
    small_repeats=3,
    fresh="cold",
    preload=(  # the first optimizer imports torch._dynamo, which takes a second
        "torch._dynamo", "torch.nn.parallel", "torch.utils.data.distributed",
        "labkit.datasets.map_style", "labkit.datasets.from_files", "PIL.JpegImagePlugin",
    ),
    figure=HeatMap(x="workers", y="ranks", value_label="images per second"),
)  # fmt: skip
