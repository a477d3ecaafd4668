"""Experiments for the tests: a reader's own file, whose loaders behave and misbehave on demand."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from labkit import Experiment, Param, Setting


class Numbers:
    """A dataset of numbers whose items behave as told."""

    def __init__(self, mode: str) -> None:
        self.mode = mode

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> float:
        if self.mode == "raises" and index >= 20:
            raise ValueError("sample 20 is broken")
        if self.mode == "worker_dies" and index >= 20:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.mode == "memory_error" and index >= 20:
            raise MemoryError("no more")
        if self.mode == "prints":
            print("noise " * 50)
            print("noise", file=sys.stderr)
        if self.mode == "hangs" and index >= 20:
            time.sleep(600)
        if self.mode == "slow":
            time.sleep(0.02)
        return float(index)


def settings(params: Any, environment: Any) -> list[Setting]:
    return [
        Setting(
            params={"workers": workers, "mode": params["mode"]}, label=str(workers), x=workers,
            batches=params["batches"], warmup=2,
        )
        for workers in params["workers"]
    ]


def make_loader(trial: Any, context: Any) -> Any:
    from torch.utils.data import DataLoader

    from labkit.measure import instrument

    dataset, collate = instrument(Numbers(trial["mode"]))
    return DataLoader(
        dataset, batch_size=4, num_workers=trial["workers"], collate_fn=collate
    )


def make_step(trial: Any, context: Any) -> Any:
    def step(batch: Any) -> None:
        if trial["mode"] == "consumer_dies":
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def judge(summary: Any, environment: Any) -> tuple[Any, ...]:
    return ()


MODES = ("fine", "raises", "worker_dies", "memory_error", "prints", "hangs", "slow",
         "consumer_dies")  # fmt: skip

EXPERIMENT = Experiment(
    name="labs",
    title="Loaders that misbehave",
    question="What does the engine make of them?",
    claims=(),
    params=(
        Param(name="workers", label="workers", help="", default=(0, 2), low=0, high=8, sweep=True),
        Param(name="mode", label="mode", help="", default="fine", choices=MODES),
        Param(name="batches", label="batches", help="", default=12, low=1, high=10_000),
    ),
    settings=settings,
    make_loader=make_loader,
    make_step=make_step,
    judge=judge,
    repeats=1,
)
