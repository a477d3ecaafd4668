"""An experiment for the tests: loaders whose samples are large, under a memory budget."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from labkit import Experiment, Param, Setting
from labkit.records import MECHANISMS, MemoryBudget

MIB = 1 << 20


class Blocks:
    """A dataset of large samples; some ways of being built need more than the sample itself."""

    def __init__(self, mib: int, mode: str) -> None:
        self.mib, self.mode = mib, mode

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> Any:
        import torch

        if self.mode == "main_eats":
            return torch.zeros(1)
        if self.mode == "memory_error":
            raise MemoryError("no more")
        if self.mode == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.ones(self.mib * MIB, dtype=torch.uint8)


def settings(params: Any, environment: Any) -> list[Setting]:
    budget = MemoryBudget(limit_bytes=params["limit"] * MIB, mechanism=params["mechanism"])
    return [
        Setting(
            params={"workers": workers} | {n: params[n] for n in ("mib", "mode", "seconds")},
            label=str(workers), x=workers, batches=params["batches"], budget=budget,
        )
        for workers in params["workers"]
    ]  # fmt: skip


def make_loader(trial: Any, context: Any) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(Blocks(trial["mib"], trial["mode"]), batch_size=1,
                      num_workers=trial["workers"])  # fmt: skip


def make_step(trial: Any, context: Any) -> Any:
    held: list[bytearray] = []

    def step(batch: Any) -> None:
        if trial["mode"] == "main_eats":
            held.append(bytearray(b"x") * (64 * MIB))
        time.sleep(trial["seconds"])

    return step


def judge(summary: Any, environment: Any) -> tuple[Any, ...]:
    return ()


def number(name: str, default: int) -> Param:
    return Param(name=name, label=name, help="", default=default, low=1, high=100_000)


PARAMS = (
    Param(name="workers", label="workers", help="", default=(0, 4), low=0, high=8, sweep=True),
    number("mib", 64), number("limit", 600), number("batches", 20),
    Param(name="seconds", label="", help="", default=0.05, low=0.0),
    Param(name="mode", label="", help="", default="fine",
          choices=("fine", "main_eats", "memory_error", "killed")),
    Param(name="mechanism", label="", help="", default="auto", choices=("auto", *MECHANISMS)),
)  # fmt: skip

EXPERIMENT = Experiment(
    name="hungry",
    title="Large samples",
    question="How does it end?",
    claims=(),
    params=PARAMS,
    settings=settings,
    make_loader=make_loader,
    make_step=make_step,
    judge=judge,
    repeats=1,
    fresh="forked" if os.environ.get("HUNGRY_FRESH") == "forked" else "cold",
)
