"""The public verbs: run, panel, experiments, doctor; they compose the rooms and hold no logic.

It must not import torch, and must not print except through a view.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from labkit.errors import InsufficientSpaceError, ParameterError
from labkit.machine.environment import read_environment
from labkit.machine.folders import runs_folder
from labkit.measure import plan as plans
from labkit.measure.limits import available_mechanism
from labkit.measure.prediction import outlook_of
from labkit.measure.reference import available, load_experiment, reference
from labkit.measure.runner import Run, clean_up_dead_runs
from labkit.records import Environment, Experiment, Setting
from labkit.result import Result
from labkit.units import format_bytes

if TYPE_CHECKING:
    from data_gen import DatasetSpec
    from labkit.ledger import Ledger
    from labkit.machine.doctor import Finding
    from labkit.view.notebook import Panel

View = Literal["auto", "none"]


class LiveRun(Run):
    """A run whose result can be asked for: what a view needs."""

    def result(self) -> Result:
        """What was measured; ask when it is done."""
        return Result(self.folder.path)


Watch = Callable[[LiveRun], float]
"""Shows a run until it is done; returns the CPU seconds that showing it took."""


def default_size() -> str:
    """``LABKIT_SIZE``, else ``full``: CI and small machines set it to ``small``."""
    return os.environ.get("LABKIT_SIZE", "full")


def start(
    name: str, *, size: str | None = None, repeats: int | None = None, seed: int = 0,
    timeout: float | None = None, **params: Any,
) -> LiveRun:  # fmt: skip
    """Check what is asked and start measuring in processes of its own; does not block.

    Args:
        name: an experiment's name, or the path of a .py file that holds one.
        size: ``small`` or ``full``; ``LABKIT_SIZE`` or full when None.
        repeats: rounds; every setting is measured once in each.
        seed: orders the settings within a round and seeds the datasets.
        timeout: seconds after which one trial is ended.
        **params: the experiment's own parameters.

    Raises:
        LabkitError: says what was asked, what was found and what to do; nothing stays of it.
    """
    ref = reference(name)
    experiment = load_experiment(ref)
    asked = plans.check_asked(
        experiment, params, size=size or default_size(), repeats=repeats, seed=seed,
        timeout=timeout,
    )  # fmt: skip
    clean_up_dead_runs(runs_folder())
    live = LiveRun(ref, experiment, asked, runs_root=runs_folder())
    try:
        environment = _environment_here()
        if experiment.fresh == "cold":
            environment = _with_footprint(environment, experiment.preload)
        settings = plans.make_settings(experiment, asked.params, environment)
        datasets, prepare, folders = _plan_datasets(settings, environment)
    except BaseException:
        live.discard()
        raise
    live.begin(
        environment, settings, datasets=datasets, prepare=prepare, hold=lambda: _hold(folders)
    )
    return live


@contextlib.contextmanager
def _hold(folders: Sequence[Path]) -> Iterator[None]:
    """Keep these datasets from being cleaned away while they are read."""
    from labkit.datasets import cache

    with contextlib.ExitStack() as stack:
        for folder in folders:
            stack.enter_context(cache.in_use(folder))
        yield


def _environment_here() -> Environment:
    """This machine now, with the free space of the disk that datasets are kept on."""
    from labkit.datasets import cache

    folder = cache.cache_root()
    while not folder.exists():  # free space can be asked only of a folder that is there
        folder = folder.parent
    return read_environment(folder, budget_mechanism=available_mechanism())


def _with_footprint(environment: Environment, modules: tuple[str, ...]) -> Environment:
    """The same with what a trial holds before its first sample: two seconds, once a process."""
    from labkit.measure.footprint import measure_footprint

    found = measure_footprint(modules)
    if found is None:
        return environment
    return replace(environment, base_bytes=found.base_bytes, worker_bytes=found.worker_bytes)


def _specs(settings: Sequence[Setting]) -> dict[str, DatasetSpec]:
    """The datasets of the settings, each once, by the JSON text that stands for it in a plan."""
    from data_gen import DatasetSpec

    texts = {json.dumps(item.dataset, sort_keys=True) for item in settings if item.dataset}
    return {text: DatasetSpec.from_json(json.loads(text)) for text in sorted(texts)}


def _plan_datasets(
    settings: Sequence[Setting], environment: Environment
) -> tuple[dict[str, str], list[list[str]], list[Path]]:
    """Where each setting's dataset will lie, the command that makes the missing ones, folders.

    Raises:
        InsufficientSpaceError: the disk cannot hold what is missing.
    """
    specs = _specs(settings)
    if not specs:
        return {}, [], []
    from labkit.datasets import cache

    missing = [spec for spec in specs.values() if cache.missing(spec)]
    needed = sum(cache.estimate(spec).num_bytes for spec in missing)
    if needed > environment.disk_available_bytes:
        raise InsufficientSpaceError(
            asked=f"{format_bytes(needed)} for datasets in {cache.cache_root()}",
            found=f"{format_bytes(environment.disk_available_bytes)} are free",
            do="free some space (labkit data clean), use size='small', or set LABKIT_HOME",
        )
    folders = {key: cache.folder_of(spec) for key, spec in specs.items()}
    # Also with nothing missing: the command marks the datasets as used, which keeps them.
    command = ["-m", "labkit.datasets.prepare", "--events", "{events}", "--trial", "", *specs]
    return {key: str(path) for key, path in folders.items()}, [command], list(folders.values())


def run(
    name: str, *, size: str | None = None, repeats: int | None = None, seed: int = 0,
    timeout: float | None = None, view: View = "auto", **params: Any,
) -> Result:  # fmt: skip
    """Measure now, on this machine, and show it live; blocks until it is done.

    The first interrupt (■ in a notebook, Ctrl-C) ends the run and returns what was measured; a
    second one raises. See `start` for the arguments and errors; `view="none"` shows nothing.

    Returns:
        The result; its repr is a sentence and a table, `.plot()` its picture.
    """
    live = start(name, size=size, repeats=repeats, seed=seed, timeout=timeout, **params)
    return follow(live, choose_watch(view))


def follow(live: LiveRun, watch: Watch) -> Result:
    """Watch a run to its end; the first interrupt stops it, a second one raises."""
    try:
        with _first_interrupt_stops(live):
            painter_seconds = watch(live)
    finally:
        live.stop()  # does nothing to a run that is done; leaves none behind when a view fails
        live.wait(30)
    result = Result(live.folder.path)
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


def choose_watch(view: View) -> Watch:
    """The view that suits where we are: notebook, terminal, or none.

    Raises:
        ParameterError: there is no such view.
    """
    if view == "none":
        return _watch_nothing
    if view != "auto":
        raise ParameterError(asked=f"view={view!r}", found="no such view", do="use auto or none")
    from labkit.view.choose import watch_here

    return watch_here()


def _watch_nothing(live: LiveRun) -> float:
    live.wait()
    return 0.0


def panel(name: str) -> Panel:
    """The experiment's controls with Run and Stop, for a notebook; does not block.

    Raises:
        UnknownExperimentError, ExperimentError: there is no such experiment.
    """
    from labkit.view.notebook import Panel

    experiment = load_experiment(reference(name))

    def begin(params: Mapping[str, Any]) -> LiveRun:
        return start(name, **params)

    def outlook(params: Mapping[str, Any]) -> str:
        asked = plans.check_asked(
            experiment, params, size=default_size(), repeats=None, seed=0, timeout=None
        )
        return outlook_of(plans.make_settings(experiment, asked.params, here()))

    here = functools.cache(_environment_here)
    return Panel(begin, experiment, outlook)


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

    return diagnose(_environment_here())


def specs_of(name: str, *, size: str) -> tuple[DatasetSpec, ...]:
    """The datasets that a lab's default run would read.

    Raises:
        LabkitError: no such experiment or size.
    """
    experiment = load_experiment(reference(name))
    asked = plans.check_asked(experiment, {}, size=size, repeats=None, seed=0, timeout=None)
    settings = plans.make_settings(experiment, asked.params, _environment_here())
    return tuple(_specs(settings).values())
