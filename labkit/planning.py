"""What a run would be: settings for this machine, the data that they need, and what to expect.

It starts nothing but the two seconds that measure what a trial holds before it reads, and it must
not print.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.errors import InsufficientSpaceError
from labkit.guesses import require_match
from labkit.machine.environment import read_environment
from labkit.measure import plan as plans
from labkit.measure.limits import available_mechanism
from labkit.measure.plan import Asked
from labkit.measure.prediction import outlook_of, warning_of
from labkit.records import Environment, Experiment, Setting
from labkit.units import format_bytes
from labkit.view.run_protocol import Preview

if TYPE_CHECKING:
    from data_gen import DatasetSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Settings, and where their datasets lie or will lie."""

    environment: Environment
    settings: tuple[Setting, ...]
    datasets: dict[str, str]
    """JSON text of a `data_gen.DatasetSpec` to its folder."""
    prepare: list[list[str]]
    """Commands that make what is missing."""
    missing_bytes: int
    missing_seconds: float

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the datasets from being cleaned away while they are read."""
        from labkit.datasets import cache

        with contextlib.ExitStack() as stack:
            for folder in self.datasets.values():
                stack.enter_context(cache.in_use(Path(folder)))
            yield


def plan_run(experiment: Experiment, asked: Asked) -> RunPlan:
    """What this run would be on this machine, now.

    Raises:
        InsufficientSpaceError: the disk cannot hold the datasets that are missing.
        ExperimentError: the experiment's settings are none, or not unique.
        MeasureError: nothing here can hold a budget in the way that was asked for.
        ParameterError: there are guesses, but about none of the settings.
    """
    environment = environment_here()
    if experiment.fresh == "cold":
        environment = _with_footprint(environment, experiment.preload)
    settings = plans.make_settings(experiment, asked.params, environment)
    require_match(asked.guesses, settings)
    for wish in {item.budget.mechanism for item in settings if item.budget}:
        available_mechanism(wish)
    specs = specs_of(settings)
    if not specs:
        return RunPlan(environment=environment, settings=settings, datasets={}, prepare=[],
                       missing_bytes=0, missing_seconds=0.0)  # fmt: skip
    from labkit.datasets import cache

    costs = [cache.estimate(spec) for spec in specs.values() if cache.missing(spec)]
    needed = sum(cost.num_bytes for cost in costs)
    if needed > environment.disk_available_bytes:
        raise InsufficientSpaceError(
            asked=f"{format_bytes(needed)} for datasets in {cache.cache_root()}",
            found=f"{format_bytes(environment.disk_available_bytes)} are free",
            do="free some space (labkit data clean), use size='small', or set LABKIT_HOME",
        )
    # Also with nothing missing: the command marks the datasets as used, which keeps them.
    command = ["-m", "labkit.datasets.prepare", "--events", "{events}", "--trial", "", *specs]
    return RunPlan(
        environment=environment, settings=settings,
        datasets={key: str(cache.folder_of(spec)) for key, spec in specs.items()},
        prepare=[command], missing_bytes=needed,
        missing_seconds=sum(cost.seconds for cost in costs),
    )  # fmt: skip


def environment_here() -> Environment:
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


def specs_of(settings: Sequence[Setting]) -> dict[str, DatasetSpec]:
    """The datasets of the settings, each once, by the JSON text that stands for it in a plan."""
    from data_gen import DatasetSpec

    texts = {item.dataset_key for item in settings if item.dataset}
    return {text: DatasetSpec.from_json(json.loads(text)) for text in sorted(texts)}


def preview(experiment: Experiment, asked: Asked) -> Preview:
    """What a reader should know before the run is started.

    Raises:
        LabkitError: it could not be started.
    """
    plan = plan_run(experiment, asked)
    default = experiment.resolve({}, size="full"), experiment.rounds("full")
    usual = asked.size == "full" and (asked.params, asked.repeats) == default
    return Preview(
        settings=len(plan.settings),
        rounds=asked.repeats,
        seconds=experiment.needs.seconds if usual else None,
        missing_bytes=plan.missing_bytes,
        missing_seconds=plan.missing_seconds,
        outlook=outlook_of(plan.settings),
        warnings=tuple(filter(None, map(warning_of, plan.settings))),
    )
