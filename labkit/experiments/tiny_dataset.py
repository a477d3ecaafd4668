"""When no workers is the best number: tiny datasets, by whole epochs with the start of workers.

Three kinds of samples: tensors in memory, which cost nothing; short documents from disk; few but
slow ones. The cost per sample from which workers pay is found by bisection. It must not import
torch or labkit.datasets at import: the kernel imports this file.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from labkit.figures import Curves
from labkit.measure.noise import ratio_interval
from labkit.measure.verdicts import circumstances, compare_pair, compare_with_best
from labkit.params import Param, Params
from labkit.records import Context, Environment, Experiment, Needs, Setting, Trial, Verdict
from labkit.summary import SettingSummary, Summary

TENSORS, KEPT, TEXT, SLOW = "tensors", "tensors, workers kept", "text", "few samples"
_PAIR = (0, 2)
"""Workers between which the crossing is looked for: two can build side by side, one cannot."""
_CHEAPEST_MS = 0.01
"""Where the bisection begins: a hundredth of a millisecond never paid for a process (measured)."""
_NARROW = 1.4
"""The bisection ends when the costs that lose and those that win are this close, as a ratio."""
_MOST_COSTS = 9
_DOCUMENT_BYTES, _CODES = 200, 64


class Slow:
    """A dataset whose samples each take `seconds`: of CPU time, or of waiting."""

    def __init__(self, count: int, seconds: float, work: str) -> None:
        self.count, self.seconds, self.work = count, seconds, work

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> float:
        if self.work == "wait":
            time.sleep(self.seconds)
            return float(index)
        end = time.thread_time() + self.seconds
        while time.thread_time() < end:
            pass
        return float(index)


class Codes:
    """A transform: the first bytes of a document as a tensor."""

    def __call__(self, text: str) -> Any:
        """Returns a uint8 tensor of (64,)."""
        import torch

        return torch.frombuffer(bytearray(text.encode()[:_CODES].ljust(_CODES)), dtype=torch.uint8)


def settings(params: Params, environment: Environment) -> Sequence[Setting]:
    """Sizes x workers of the cheap samples, and the ends of the bisection of the slow ones."""
    cheap = [
        _cheap(story, size, workers, params)
        for story in (TENSORS, KEPT, TEXT)
        for size in params["sizes"]
        for workers in params["workers"]
    ]
    return [*cheap, *(_slow(params["slow_ms"], workers, params) for workers in params["workers"]),
            *(_slow(_CHEAPEST_MS, workers, params) for workers in _PAIR)]  # fmt: skip


def _cheap(story: str, size: int, workers: int, params: Params) -> Setting:
    # Here because data_gen brings numpy and PIL: half a second that listing labs need not pay.
    from data_gen import DatasetSpec

    count = max(params["sizes"])
    spec = DatasetSpec(kind="text", layout="lmdb", count=count, shape=(_DOCUMENT_BYTES,))
    epoch = math.ceil(size / params["batch_size"])
    return Setting(
        params={"samples": size, "workers": workers, "batch_size": params["batch_size"]},
        label=f"{size:,} samples, {_workers(workers)}",
        story=story,
        series=_workers(workers),
        x=size,
        batches=params["epochs"] * epoch,
        warmup=epoch if story == KEPT else 0,  # then the workers are there already
        whole_epochs=True,
        dataset=spec.to_json() if story == TEXT else None,
    )


def _slow(cost_ms: float, workers: int, values: Params) -> Setting:
    """One epoch of few samples; `values` are the parameters, or those of another such setting."""
    few, size, work = values["few"], values["batch_size"], values["work"]
    return Setting(
        params={"workers": workers, "cost_ms": cost_ms, "few": few, "batch_size": size,
                "work": work},
        label=f"{few} samples of {cost_ms:.3g} ms, {_workers(workers)}",
        story=SLOW,
        series=_workers(workers),
        x=cost_ms,
        batches=math.ceil(few / size),
        whole_epochs=True,
    )  # fmt: skip


def _workers(count: int) -> str:
    return f"{count} worker{'' if count == 1 else 's'}"


def make_loader(trial: Trial, context: Context) -> Any:
    """A DataLoader over the setting's samples; not instrumented, for stamps cost as much here."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    story, workers = trial.setting.story, trial["workers"]
    dataset: Any
    if story == SLOW:
        dataset = Slow(trial["few"], trial["cost_ms"] / 1e3, trial["work"])
    elif story == TEXT:
        from labkit.datasets import open_dataset

        assert context.dataset_folder is not None
        dataset = open_dataset(context.dataset_folder, transform=Codes(), length=trial["samples"])
    else:
        dataset = TensorDataset(torch.zeros(trial["samples"], 32))
    return DataLoader(
        dataset, batch_size=trial["batch_size"], shuffle=True, num_workers=workers,
        generator=torch.Generator().manual_seed(trial.seed),
        persistent_workers=story == KEPT and workers > 0,
    )  # fmt: skip


def refine(summary: Summary) -> Sequence[Setting]:
    """The next cost of the bisection, between the dearest that loses and the cheapest that wins."""
    bracket = crossing(summary)
    if bracket is None:
        return []
    low, high = bracket
    costs = {item.setting.x for item in summary if item.setting.story == SLOW}
    between = [cost for cost in costs if low < cost < high]  # there it cannot be told
    if between or high / low <= _NARROW or len(costs) >= _MOST_COSTS:
        return []
    values = next(item.setting.params for item in summary if item.setting.story == SLOW)
    middle = float(f"{math.sqrt(low * high):.3g}")
    return [_slow(middle, workers, values) for workers in _PAIR]


def crossing(summary: Summary) -> tuple[float, float] | None:
    """Milliseconds per sample at which two workers still lose, and at which they win already."""
    loses: list[float] = []
    wins: list[float] = []
    for cost in {item.setting.x for item in summary if item.setting.story == SLOW}:
        none, two = (summary.find(SLOW, cost_ms=cost, workers=workers) for workers in _PAIR)
        interval = ratio_interval(two.rates, none.rates) if none and two else None
        if interval is not None and interval.high < 1:
            loses.append(cost)
        elif interval is not None and interval.low > 1:
            wins.append(cost)
    below = [cost for cost in loses if not wins or cost < min(wins)]
    return (max(below), min(wins)) if below and wins else None


def judge(summary: Summary, environment: Environment) -> tuple[Verdict, ...]:
    """K32 by few samples, slow and free; K8 by the largest number of cheap ones."""
    notes = circumstances(summary, environment)
    sizes = sorted({item.setting["samples"] for item in summary if item.setting.story == TENSORS})
    slow = [item for item in summary if item.setting.story == SLOW]
    dearest = max((item.setting.x for item in slow), default=0.0)
    few = next((item.setting["few"] for item in slow), 0)
    tiny = min(sizes, key=lambda size: abs(size - few), default=0)
    return (
        _none_is_best(
            f"{few} samples of {dearest:g} ms",
            [item for item in slow if item.setting.x == dearest], (*_found(summary), *notes),
        ),
        _none_is_best(
            f"{tiny} free samples",
            [i for i in summary if i.setting.story == TENSORS and i.setting["samples"] == tiny],
            notes,
        ),
        *(_one_against_none(summary, story, max(sizes, default=0), notes)
          for story in (TENSORS, KEPT, TEXT)),
    )  # fmt: skip


def _one_against_none(
    summary: Summary, story: str, size: int, notes: tuple[str, ...]
) -> Verdict:
    one, none = (summary.find(story, samples=size, workers=workers) for workers in (1, 0))
    name = f"{size:,} samples, {story}"
    return compare_pair("K8", name, (_workers(1), one), (_workers(0), none), "below", notes)


def _none_is_best(
    story: str, items: Sequence[SettingSummary], notes: tuple[str, ...]
) -> Verdict:
    none = next((item for item in items if item.setting["workers"] == 0), None)
    others = [item for item in items if item.setting["workers"] > 0]
    return compare_with_best("K32", story, (_workers(0), none), others, notes)


def _found(summary: Summary) -> tuple[str, ...]:
    bracket = crossing(summary)
    if bracket is None:
        return ("no cost was found from which two workers pay here",)
    low, high = bracket
    return (f"two workers lose at {low:.3g} ms a sample and win from {high:.3g} ms on",)


EXPERIMENT = Experiment(
    name="tiny_dataset",
    title="When no workers is the best number",
    question="When is zero the best number of workers?",
    claims=("K8", "K32"),
    params=(
        Param(name="workers", label="workers", sweep=True, default=(0, 1, 2, 4), low=0, high=64,
              help="numbers of workers; 0 and 2 are needed to find where workers begin to pay"),
        Param(name="sizes", label="dataset sizes", sweep=True, default=(64, 512, 4096, 16384),
              low=1, high=1_000_000, help="samples in the cheap datasets"),
        Param(name="epochs", label="epochs", default=2, low=1, high=100,
              help="epochs of the cheap datasets; the slow one is read once"),
        Param(name="batch_size", label="batch size", default=32, low=1, high=4096,
              help="samples in a batch"),
        Param(name="few", label="slow samples", default=512, low=1, high=100_000,
              help="samples in the slow dataset"),
        Param(name="slow_ms", label="slow (ms)", default=5.0, low=0.02, high=1000,
              help="milliseconds that a slow sample takes; the bisection begins here"),
        Param(name="work", label="slow by", default="cpu", choices=("cpu", "wait"),
              help="whether slow samples use the CPU or wait, as for a remote disk"),
    ),
    settings=settings,
    make_loader=make_loader,
    judge=judge,
    refine=refine,
    needs=Needs(seconds=60, disk_bytes=8 << 20, memory_bytes=1 << 30),
    small={"workers": (0, 1, 2), "sizes": (64, 512), "few": 64, "slow_ms": 4.0},
    repeats=3,
    small_repeats=3,
    preload=("labkit.datasets.map_style", "labkit.datasets.from_lmdb"),
    figure=Curves(
        x_label="samples in the dataset", y_label="samples per second, whole epochs",
        stages=False, log=True, x_labels={SLOW: "ms that a sample takes"},
    ),
)  # fmt: skip
