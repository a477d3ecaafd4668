"""The vocabulary of labkit: frozen, checked records that every room imports.

It must not do I/O, must not import torch, and must not know any other room.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from labkit.errors import ParameterError
from labkit.figures import Curves, Figure
from labkit.params import RESERVED, Param, Params, Value

if TYPE_CHECKING:
    from labkit.summary import Summary

Step = Callable[[Any], Mapping[str, float] | None]
"""What the consumer does with a batch; may return facts, which are kept with the batch."""


class Status(StrEnum):
    """How a trial or a run ended."""

    COMPLETED = "completed"
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Outcome(StrEnum):
    """What a measurement says about a claim."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not_reproduced"
    CANNOT_TELL = "cannot_tell"


MECHANISMS = (
    "control group v2", "systemd scope", "control group v1", "job object", "watchdog",
    "system watchdog",
)  # fmt: skip
"""What can hold a trial within its budget, the strongest first; see `labkit.measure.limits`."""
WISHES = {"auto": MECHANISMS, "kernel": MECHANISMS[:4], "watchdog": MECHANISMS[4:]}
"""What may be asked for without naming one: the strongest of these that there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBudget:
    """How much memory a trial's whole process tree may hold."""

    limit_bytes: int
    scope: Literal["tree"] = "tree"
    mechanism: str = "auto"
    """One of `WISHES`, or of `MECHANISMS`: then that one or none."""

    def __post_init__(self) -> None:
        if self.mechanism not in (*WISHES, *MECHANISMS):
            raise ParameterError(
                asked=f"a memory budget held by {self.mechanism!r}",
                found="no such mechanism",
                do=f"use one of {', '.join(dict.fromkeys((*WISHES, *MECHANISMS)))}",
            )
        if self.limit_bytes <= 0:
            raise ParameterError(
                asked=f"a memory budget of {self.limit_bytes} bytes",
                found="a budget must be positive",
                do="give a larger limit",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One combination of parameter values: the thing that is compared."""

    params: dict[str, Value]
    label: str
    """Short name, as the figure writes it."""
    story: str = ""
    """Which curve it belongs to; empty when the experiment tells one story only."""
    x: float = 0.0
    """Where it stands on the figure's horizontal axis."""
    batches: int = 64
    """Batches that are measured after the warm-up."""
    warmup: int = 0
    """Batches before the rate counts (section 3 of measuring: workers x prefetch_factor)."""
    whole_epochs: bool = False
    """The rate counts from before the first batch was asked for, worker start included; with a
    warm-up of whole epochs, from their end."""
    series: str = ""
    """Which of the curves of its story it belongs to; empty when the story has one."""
    dataset: dict[str, Any] | None = None
    """JSON form of a `data_gen.DatasetSpec`, or None when the experiment brings its own data."""
    budget: MemoryBudget | None = None
    predicted_peak_bytes: tuple[int, int] | None = None
    """Lowest and highest peak that `labkit.measure.prediction` expects of the whole tree."""
    note: str = ""
    """What a reader must know of its story, as the figure writes it beside the story's name."""
    ranks: int = 0
    """Ranks that torchrun starts, each with its own loader; 0: one process, without torchrun."""

    @property
    def key(self) -> str:
        """Identifies the setting within a run."""
        values = ",".join(f"{name}={value}" for name, value in sorted(self.params.items()))
        return f"{self.story}:{values}"

    @property
    def name(self) -> str:
        """What people call it: its story, if it has one, and its label."""
        return f"{self.story}, {self.label}" if self.story else self.label

    @property
    def dataset_key(self) -> str:
        """JSON text that stands for its dataset in a plan; ``null`` without one."""
        return json.dumps(self.dataset, sort_keys=True)

    def __getitem__(self, name: str) -> Any:
        return self.params[name]


def _known(kind: Any, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Without fields that a later version added: an older reader still opens the run."""
    return {name: value for name, value in raw.items() if name in kind.__slots__}


def setting_from_json(raw: Mapping[str, Any]) -> Setting:
    """The setting of ``dataclasses.asdict``'s form."""
    budget, predicted = raw.get("budget"), raw.get("predicted_peak_bytes")
    rest = {
        "budget": MemoryBudget(**_known(MemoryBudget, budget)) if budget else None,
        "predicted_peak_bytes": (predicted[0], predicted[1]) if predicted else None,
    }
    return Setting(**{**_known(Setting, raw), **rest})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One attempt at one setting, in a process tree of its own. JSON only."""

    id: str
    setting: Setting
    repeat: int
    """The round it belongs to, from 0."""
    seed: int
    timeout_seconds: float
    launch: Literal["process", "ranks"] = "process"
    """``ranks``: `Setting.ranks` processes under torchrun, which take one trial after another."""
    fresh: Literal["cold", "forked"] = "forked"
    """``forked`` shares an interpreter that has imported torch (Linux only; else hosted)."""

    def __getitem__(self, name: str) -> Any:
        return self.setting.params[name]

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dict; `trial_from_json` is its inverse."""
        return asdict(self)


def trial_from_json(raw: Mapping[str, Any]) -> Trial:
    """The trial of `Trial.to_json`."""
    return Trial(**{**raw, "setting": setting_from_json(raw["setting"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What ``make_loader`` and ``make_step`` get beside the trial."""

    dataset_folder: str | None
    """Where the setting's dataset lies; None when it asked for none."""
    rank: int = 0
    world_size: int = 1
    host: str = ""
    look_file: str | None = None
    """For `labkit.measure.look`; None where nobody watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The machine at the moment of a run; verdicts are judged by it, never by the reader's machine.

    Bytes are bytes, None means that this system cannot tell.
    """

    machine_id: str
    """Random, made once per installation; says nothing about the machine or its owner."""
    cpu: str
    logical_cores: int
    usable_cores: int
    """The lowest of affinity, control-group quota (rounded up) and the logical cores."""
    affinity_cores: int
    quota_cores: float | None
    memory_total_bytes: int
    memory_available_bytes: int
    memory_limit_bytes: int | None
    """The control group's limit where one is set."""
    shm_total_bytes: int | None
    shm_available_bytes: int | None
    disk_available_bytes: int
    """Free space where datasets are kept."""
    os: str
    python: str
    torch: str
    """Version, read from the installed metadata without importing torch; empty when absent."""
    start_method: str
    """How this Python starts processes by default: fork, forkserver or spawn."""
    load_cores: float
    """Cores kept busy by others while it was measured."""
    budget_mechanism: str = "none"
    labkit: str = ""
    base_bytes: int | None = None
    """What a trial's process held that had imported all and read nothing; None: not measured."""
    worker_bytes: int | None = None
    """What each loader worker of it added before it had read anything."""


def environment_from_json(raw: Mapping[str, Any]) -> Environment:
    """The environment of ``dataclasses.asdict``'s form; unknown fields are ignored."""
    return Environment(**_known(Environment, raw))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one measurement says about one claim (one story of it)."""

    claim: str
    story: str
    outcome: Outcome
    effect: float | None
    """A ratio or share, as the sentence says; None when nothing could be compared."""
    interval: tuple[float, float] | None
    threshold: float
    sentence: str
    """One sentence with the numbers, their units and the noise."""
    reasons: tuple[str, ...] = ()
    """Why it cannot be told, or why it may have come out otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a run asks of the machine, for the person who is about to start it."""

    seconds: float
    disk_bytes: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One lab: what is varied, how it is loaded, and how it is judged."""

    name: str
    title: str
    question: str
    claims: tuple[str, ...]
    params: tuple[Param, ...]
    settings: Callable[[Params, Environment], Sequence[Setting]]
    make_loader: Callable[[Trial, Context], Any]
    """Runs in the trial's process: returns an iterable of batches, usually a DataLoader."""
    judge: Callable[[Summary, Environment], tuple[Verdict, ...]]
    needs: Needs = field(default=Needs(seconds=60, disk_bytes=0, memory_bytes=1 << 30))
    make_step: Callable[[Trial, Context], Step] | None = None
    """Runs in the trial's process: what the consumer does with a batch; None does nothing."""
    small: dict[str, Any] = field(default_factory=dict)
    """Parameter values that replace the defaults at small size."""
    repeats: int = 5
    small_repeats: int = 2
    repeated: Literal["all", "deaths"] = "all"
    """``deaths``: a setting whose first trial completes is not measured again; its interval comes
    from within the attempt. Samples of a gigabyte are too dear for five rounds."""
    fresh: Literal["cold", "forked"] = "forked"
    preload: tuple[str, ...] = ()
    """Modules that `make_loader` imports: a host imports them once, before it forks."""
    refine: Callable[[Summary], Sequence[Setting]] | None = None
    figure: Figure = field(default=Curves(x_label="workers", y_label="samples per second"))

    def rounds(self, size: str) -> int:
        """Rounds at this size, unless others are asked for."""
        return self.small_repeats if size == "small" else self.repeats

    def resolve(self, given: Params, *, size: str) -> dict[str, Any]:
        """Every parameter's checked value: given, else small size's, else the default.

        Raises:
            ParameterError: an unknown name, or a value outside its range.
        """
        known = {param.name: param for param in self.params}
        for name in given:
            if name not in known:
                raise ParameterError(
                    asked=f"{self.name} with {name}={given[name]!r}",
                    found=f"it has no parameter {name!r}",
                    do=f"use one of {', '.join([*known, *RESERVED])}",
                )
        base = {param.name: param.default for param in self.params}
        values = base | (self.small if size == "small" else {}) | dict(given)
        return {
            name: value if value is None else known[name].check(value)
            for name, value in values.items()
        }
