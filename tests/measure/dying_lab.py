"""An experiment for the tests: one of its loaders runs out of memory; only deaths are repeated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from labkit import Experiment, Param, Setting


def settings(params: Any, environment: Any) -> list[Setting]:
    return [
        Setting(params={"workers": 0, "dies": dies}, label=dies, batches=4, warmup=1)
        for dies in params["dies"]
    ]


def make_loader(trial: Any, context: Any) -> Any:
    def batches() -> Iterator[list[int]]:
        yield from ([number] for number in range(3))
        if trial["dies"] == "yes":
            raise MemoryError("no more")
        yield from ([number] for number in range(3))

    return batches()


def judge(summary: Any, environment: Any) -> tuple[Any, ...]:
    return ()


EXPERIMENT = Experiment(
    name="dying_lab",
    title="One dies",
    question="Is it tried again?",
    claims=(),
    params=(
        Param(name="dies", label="dies", help="", default=("no", "yes"), choices=("no", "yes"),
              sweep=True),
    ),
    settings=settings,
    make_loader=make_loader,
    judge=judge,
    repeats=3,
    repeated="deaths",
)  # fmt: skip
