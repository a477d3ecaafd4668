"""What a view needs of a run and of its result; it must not know how they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from labkit.events import Event
from labkit.guesses import Guess
from labkit.measure.rank_limits import Job, Limit
from labkit.records import Environment, Experiment, Setting, Status, Verdict
from labkit.summary import ComparedSetting, Difference, Summary, VerdictPair


class ResultLike(Protocol):
    """A run that was measured."""

    painter_seconds: float
    """CPU time that showing it took; whoever followed the run sets it."""
    settings: tuple[Setting, ...]
    guesses: tuple[Guess, ...]
    """What the learner expected of it."""
    told_in: int | None
    """The notebook's execution in which it was shown, so that its repr need not show it again."""

    @property
    def experiment(self) -> Experiment: ...
    @property
    def environment(self) -> Environment: ...
    @property
    def summary(self) -> Summary: ...
    @property
    def verdicts(self) -> tuple[Verdict, ...]: ...
    @property
    def events(self) -> Sequence[Event]: ...
    @property
    def headline(self) -> str: ...
    @property
    def status(self) -> Status: ...


class LiveRun(Protocol):
    """A run on its way; one thread at a time may use it."""

    experiment: Experiment
    environment: Environment
    stop_requested: bool
    """Any thread may set this, and nothing else: the next `poll` then stops the run."""
    guesses: tuple[Guess, ...]
    """What the learner expects of it."""
    settings: tuple[Setting, ...]
    """Grows when the experiment refines its plan."""
    trials_total: int

    @property
    def events(self) -> Sequence[Event]:
        """All that `poll` has returned so far: a second view begins with these."""

    def poll(self) -> list[Event]:
        """New events since the last call; never blocks."""

    def done(self) -> bool:
        """Whether the run has ended, its processes included."""

    def stop(self) -> None:
        """End the run; what was measured stays."""

    def result(self) -> ResultLike:
        """What was measured; only when it is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What is known of a run before it is started."""

    settings: int
    rounds: int
    """How often each setting is measured, at most."""
    seconds: float | None
    """How long it takes, about; None when that is not known of these parameters."""
    missing_bytes: int
    """Of datasets that must be generated first."""
    missing_seconds: float
    outlook: str
    """A sentence on the largest setting's processes and memory; empty when nothing is predicted."""
    warnings: tuple[str, ...]
    """A sentence for each setting that may or will not fit into its memory budget."""


class Lab(Protocol):
    """An experiment that a panel can start, and ask what starting it would mean.

    `values` are its parameters by name, with ``size``, ``repeats``, ``seed``, ``timeout`` and
    ``predict``.
    """

    default_size: str

    @property
    def experiment(self) -> Experiment: ...

    def defaults(self, size: str) -> Mapping[str, Any]:
        """The values of parameters that are not given, at this size."""

    def preview(self, values: Mapping[str, Any]) -> Preview:
        """What a run with these values would be; may take seconds. Raises LabkitError."""

    def start(self, values: Mapping[str, Any]) -> LiveRun:
        """Start it; takes part of a second. Raises LabkitError."""


class RunLike(Protocol):
    """One of two runs that are compared."""

    path: Path

    @property
    def name(self) -> str: ...


class ComparisonLike(Protocol):
    """Two runs of one lab, side by side."""

    @property
    def a(self) -> RunLike: ...
    @property
    def b(self) -> RunLike: ...
    @property
    def environment(self) -> Sequence[Difference]: ...
    @property
    def parameters(self) -> Sequence[Difference]: ...
    @property
    def rows(self) -> Sequence[ComparedSetting]: ...
    @property
    def unmatched(self) -> tuple[int, int]: ...
    @property
    def verdicts(self) -> Sequence[VerdictPair]: ...


class BudgetLike(Protocol):
    """What ranks and workers ask of a machine; see `labkit.rank_budget.Budget`."""

    processes: int
    cores_per_process: float
    batches_in_flight: int
    in_flight_bytes: int
    peak_bytes: tuple[int, int]
    environment: Environment

    @property
    def job(self) -> Job: ...
    @property
    def limits(self) -> Sequence[Limit]: ...
    @property
    def safe_workers(self) -> int | None: ...
    @property
    def reasons(self) -> tuple[str, ...]: ...
    @property
    def fits(self) -> bool: ...
