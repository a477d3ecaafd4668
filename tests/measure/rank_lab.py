"""An experiment of ranks for the tests: one of them misbehaves on demand."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from labkit import Experiment, Param, Setting
from labkit.records import MemoryBudget

BAD_STEP = 7


class Numbers:
    """A dataset of numbers; a worker hoards memory when told to."""

    def __init__(self, hoard: bool) -> None:
        self.hoard = hoard
        self.kept: list[bytearray] = []

    def __len__(self) -> int:
        return 4000

    def __getitem__(self, index: int) -> float:
        if self.hoard:
            self.kept.append(bytearray(b"x" * (32 << 20)))
        return float(index)


def settings(params: Any, environment: Any) -> list[Setting]:
    limit = params["limit_mb"]
    return [
        Setting(
            params={"workers": workers, "ranks": ranks, "mode": params["mode"]},
            label=f"{ranks} x {workers}", x=workers, batches=10, warmup=2, ranks=ranks,
            budget=MemoryBudget(limit_bytes=limit << 20) if limit else None,
        )
        for ranks in params["ranks"]
        for workers in params["workers"]
    ]  # fmt: skip


def make_loader(trial: Any, context: Any) -> Any:
    from torch.utils.data import DataLoader

    from labkit.measure import instrument

    hoard = trial["mode"] == "hoards" and context.rank == 1
    dataset, collate = instrument(Numbers(hoard))
    return DataLoader(dataset, batch_size=4, num_workers=trial["workers"], collate_fn=collate)


def make_step(trial: Any, context: Any) -> Any:
    import torch
    import torch.distributed as dist

    taken = 0

    def step(batch: Any) -> dict[str, float]:
        nonlocal taken
        mode, bad = trial["mode"], context.rank == 1 and taken == BAD_STEP
        if bad and mode == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if bad and mode == "raises":
            raise ValueError("rank 1 is broken")
        if bad and mode == "no_memory":
            raise MemoryError("no more")
        total = torch.ones(1)
        dist.all_reduce(total)
        taken += 1
        if context.rank == 1 and taken == 12 and mode == "hangs":
            # The others are at the barrier already: nobody but this one can know.
            time.sleep(600)
        return {"ranks": float(total)}

    return step


def judge(summary: Any, environment: Any) -> tuple[Any, ...]:
    return ()


EXPERIMENT = Experiment(
    name="rank_lab",
    title="Ranks that misbehave",
    question="Which rank was it?",
    claims=(),
    params=(
        Param(name="ranks", label="ranks", help="", default=(2,), low=1, high=4, sweep=True),
        Param(name="workers", label="workers", help="", default=(0, 1), low=0, high=4, sweep=True),
        Param(name="mode", label="mode", help="", default="fine",
              choices=("fine", "dies", "raises", "no_memory", "hangs", "hoards")),
        Param(name="limit_mb", label="limit", help="", default=0, low=0, high=4000),
    ),
    settings=settings,
    make_loader=make_loader,
    make_step=make_step,
    judge=judge,
    repeats=1,
    fresh="cold",
)  # fmt: skip
