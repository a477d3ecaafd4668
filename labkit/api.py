"""The public verbs: run, panel, experiments, doctor; they compose the rooms and hold no logic.

It must not import torch, and must not print except through a view.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from labkit.errors import ParameterError
from labkit.guesses import Given
from labkit.machine.folders import runs_folder
from labkit.measure import plan as plans
from labkit.measure.plan import Asked
from labkit.measure.reference import available, load_experiment, reference
from labkit.measure.runner import Run, clean_up_dead_runs
from labkit.params import RESERVED
from labkit.planning import environment_here, plan_run, preview, specs_of
from labkit.records import Experiment
from labkit.result import Result
from labkit.view.run_protocol import Preview

if TYPE_CHECKING:
    from data_gen import DatasetSpec
    from labkit.ledger import Ledger
    from labkit.machine.doctor import Finding
    from labkit.view.panel import Panel

View = Literal["auto", "none"]


class LiveRun(Run):
    """A run whose result can be asked for: what a view needs."""

    _result: Result | None = None

    def result(self) -> Result:
        """What was measured, read once; ask when it is done."""
        if self._result is None:
            self._result = Result(self.folder.path)
        return self._result


Watch = Callable[[LiveRun], float]
"""Shows a run until it is done; returns the CPU seconds that showing it took."""


def default_size() -> str:
    """``LABKIT_SIZE``, else ``full``: CI and small machines set it to ``small``."""
    return os.environ.get("LABKIT_SIZE", "full")


def start(
    name: str, *, size: str | None = None, repeats: int | None = None, seed: int = 0,
    timeout: float | None = None, predict: Given | None = None, **params: Any,
) -> LiveRun:  # fmt: skip
    """Check what is asked and start measuring in processes of its own; does not block.

    Args:
        name: an experiment's name, or the path of a .py file that holds one.
        size: ``small`` or ``full``; ``LABKIT_SIZE`` or full when None.
        repeats: rounds; every setting is measured once in each.
        seed: orders the settings within a round and seeds the datasets.
        timeout: seconds after which one trial is ended.
        predict: what you expect, drawn beside what is measured: how many times as fast each
            setting will be, by its place on the horizontal axis, such as ``{0: 1, 2: 2, 4: 4}`` for
            workers; or by story ``{"cpu": {0: 1, 2: 2}}``. Places that the run does not have are
            left out.
        **params: the experiment's own parameters.

    Raises:
        LabkitError: says what was asked, what was found and what to do; nothing stays of it.
    """
    ref = reference(name)
    experiment = load_experiment(ref)
    asked = plans.check_asked(
        experiment, params, size=size or default_size(), repeats=repeats, seed=seed,
        timeout=timeout, predict=predict,
    )  # fmt: skip
    clean_up_dead_runs(runs_folder())
    live = LiveRun(ref, experiment, asked, runs_root=runs_folder())
    try:
        plan = plan_run(experiment, asked)
    except BaseException:
        live.discard()
        raise
    live.begin(
        plan.environment, plan.settings, datasets=plan.datasets, prepare=plan.prepare,
        hold=plan.hold,
    )  # fmt: skip
    return live


class Lab:
    """An experiment as a panel needs it."""

    def __init__(self, name: str) -> None:
        """Find it.

        Raises:
            UnknownExperimentError, ExperimentError: there is no such experiment.
        """
        self._name = name
        self.default_size = default_size()
        self.experiment: Experiment = load_experiment(reference(name))

    def defaults(self, size: str) -> Mapping[str, Any]:
        """See `labkit.view.run_protocol.Lab`."""
        return self._check({"size": size}).params

    def preview(self, values: Mapping[str, Any]) -> Preview:
        """See `labkit.view.run_protocol.Lab`."""
        return preview(self.experiment, self._check(values))

    def start(self, values: Mapping[str, Any]) -> LiveRun:
        """See `labkit.view.run_protocol.Lab`."""
        return start(self._name, **values)

    def _check(self, values: Mapping[str, Any]) -> Asked:
        own = {name: value for name, value in values.items() if name not in RESERVED}
        return plans.check_asked(
            self.experiment, own, size=values.get("size") or self.default_size,
            repeats=values.get("repeats"), seed=values.get("seed", 0),
            timeout=values.get("timeout"), predict=values.get("predict"),
        )  # fmt: skip


def run(
    name: str, *, size: str | None = None, repeats: int | None = None, seed: int = 0,
    timeout: float | None = None, predict: Given | None = None, view: View = "auto",
    **params: Any,
) -> Result:  # fmt: skip
    """Measure now, on this machine, and show it live; blocks until it is done.

    The first interrupt (■ in a notebook, Ctrl-C) ends the run and returns what was measured; a
    second one raises. See `start` for the arguments and errors; `view="none"` shows nothing.

    Returns:
        The result; its repr tells all of it in plain text, `.plot()` is its picture.
    """
    values = _values(
        size=size, repeats=repeats, seed=seed, timeout=timeout, predict=predict, **params
    )
    watch = choose_watch(view, Lab(name), values)
    return follow(start(name, **values), watch)


def follow(live: LiveRun, watch: Watch) -> Result:
    """Watch a run to its end; the first interrupt stops it, a second one raises."""
    try:
        with _first_interrupt_stops(live):
            painter_seconds = watch(live)
    finally:
        live.stop()  # does nothing to a run that is done; leaves none behind when a view fails
        live.wait(30)
    result = live.result()
    result.painter_seconds = painter_seconds
    return result


@contextlib.contextmanager
def _first_interrupt_stops(live: LiveRun) -> Iterator[None]:
    """Turn the first SIGINT into a request to stop.

    An exception could be raised anywhere, also where a library swallows it or where events have
    been read but not yet counted; a request is looked at when the run is next polled.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is interrupted
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if live.stop_requested:
            raise KeyboardInterrupt
        live.stop_requested = True

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def choose_watch(view: View, lab: Lab, values: Mapping[str, Any]) -> Watch:
    """The view that suits where we are: notebook, terminal, or none.

    Args:
        view: what was asked for.
        lab: can be run again from a notebook's panel.
        values: what this run was asked.

    Raises:
        ParameterError: there is no such view.
    """
    if view == "none":
        return _watch_nothing
    if view != "auto":
        raise ParameterError(asked=f"view={view!r}", found="no such view", do="use auto or none")
    from labkit.view.choose import watch_here

    return watch_here(lab, values)


def _watch_nothing(live: LiveRun) -> float:
    live.wait()
    return 0.0


def panel(
    name: str, *, size: str | None = None, repeats: int | None = None, seed: int = 0,
    timeout: float | None = None, predict: Given | None = None, **params: Any,
) -> Panel:  # fmt: skip
    """The experiment's controls with Run and Stop, for a notebook; does not block.

    Shown again, by running its cell again for instance, it takes the place of the panel that this
    cell had, and stops that one's run. See `start` for the arguments: what the controls begin with.

    Raises:
        LabkitError: there is no such experiment, or a value is not valid.
    """
    from labkit.view.panel import Panel

    values = _values(
        size=size, repeats=repeats, seed=seed, timeout=timeout, predict=predict, **params
    )
    return Panel(Lab(name), values)


def _values(**asked: Any) -> dict[str, Any]:
    """What was given, as a panel keeps it."""
    return {name: value for name, value in asked.items() if value is not None}


def experiments() -> tuple[Experiment, ...]:
    """The experiments that come with labkit."""
    return tuple(load_experiment(reference(name)) for name in available())


def claims() -> Ledger:
    """Every claim of the article, with the latest verdicts of this machine."""
    from labkit.ledger import Ledger
    from labkit.machine.environment import machine_id

    return Ledger(runs_folder(), machine_id())


def diagnose_here() -> tuple[Finding, ...]:
    """What ``labkit doctor`` prints: each fact of this machine with what to do about it."""
    from labkit.machine.doctor import diagnose

    return diagnose(environment_here())


def datasets_of(name: str, *, size: str) -> tuple[DatasetSpec, ...]:
    """The datasets that a lab's default run would read.

    Raises:
        LabkitError: no such experiment or size.
    """
    experiment = load_experiment(reference(name))
    asked = plans.check_asked(experiment, {}, size=size, repeats=None, seed=0, timeout=None)
    settings = plans.make_settings(experiment, asked.params, environment_here())
    return tuple(specs_of(settings).values())
