"""A run that was measured: its summary, verdicts, picture, table and JSON form.

Everything is computed from the run folder's raw events on reading. It must not measure.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.errors import ParameterError
from labkit.events import Event, ExperimentEnded, TrialEnded
from labkit.guesses import Guess, guesses_from_json
from labkit.measure.reference import load_experiment
from labkit.measure.store import RunFolder, read_events
from labkit.measure.summary import summarise
from labkit.records import (
    Environment,
    Experiment,
    Setting,
    Status,
    Verdict,
    environment_from_json,
    setting_from_json,
)
from labkit.summary import Interval, SettingSummary, Summary

if TYPE_CHECKING:
    from labkit.view.picture import Picture

FORMAT = 1
"""Version of the JSON object that `labkit run --json` prints."""


class Result:
    """What one run measured. Its repr tells all of it in plain text."""

    def __init__(self, path: Path) -> None:
        """Open a run folder.

        Raises:
            StoreError: the folder is not a run, or of a later format.
            ExperimentError: the experiment's own file is gone, so that it cannot be judged.
        """
        self.path = path
        folder = RunFolder(path)
        self._plan = folder.read_plan()
        self.settings: tuple[Setting, ...] = tuple(map(setting_from_json, self._plan["settings"]))
        self.environment: Environment = environment_from_json(self._plan["environment"])
        self.guesses: tuple[Guess, ...] = guesses_from_json(self._plan["asked"].get("guesses", ()))
        self.experiment: Experiment = load_experiment(self._plan["experiment"])
        self.events: list[Event] = read_events(folder)
        self.painter_seconds = 0.0
        """CPU time that drawing took in this kernel while the run was live."""
        self.told_in: int | None = None
        """The notebook's execution that has shown it already, in full."""

    @property
    def name(self) -> str:
        """Name of the experiment."""
        return self.experiment.name

    @property
    def size(self) -> str:
        """``full`` or ``small``."""
        return str(self._plan["asked"]["size"])

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameter values of the run."""
        return self._plan["asked"]["params"]  # type: ignore[no-any-return]

    @cached_property
    def summary(self) -> Summary:
        """The numbers of every setting."""
        return summarise(self.settings, self.events)

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What the measurement says of each claim, judged by the run's own machine."""
        return self.experiment.judge(self.summary, self.environment)

    @cached_property
    def status(self) -> Status:
        """How the run ended; the worst of its trials when it ran to its end."""
        ends = [e.body for e in self.events if isinstance(e.body, ExperimentEnded)]
        if not ends:
            return Status.CANCELLED
        if ends[-1].status != Status.COMPLETED:
            return Status(ends[-1].status)
        statuses = {item.status for item in self.summary}
        for bad in (Status.FAILED, Status.TIMED_OUT):
            if bad in statuses:
                return bad
        return Status.COMPLETED  # out of memory is a result, not a failure of the run

    @property
    def detail(self) -> str:
        """Why the run, or its first trial that failed, did not complete; empty when all did."""
        for event in reversed(self.events):
            if isinstance(event.body, ExperimentEnded) and event.body.detail:
                return event.body.detail
        for event in self.events:
            if isinstance(event.body, TrialEnded) and event.body.detail:
                return f"trial {event.trial}: {event.body.detail}"
        return ""

    @property
    def headline(self) -> str:
        """One sentence: the first verdict's, or why there is none."""
        if self.status in (Status.FAILED, Status.TIMED_OUT):
            return f"{self.name} {self.status.value}: {self.detail}"
        sentence = self.verdicts[0].sentence if self.verdicts else "There was nothing to judge."
        return f"(stopped early) {sentence}" if self.status is Status.CANCELLED else sentence

    @property
    def errors(self) -> tuple[str, ...]:
        """Tracebacks of failed trials, as they came; running out of memory is a result."""
        bodies = (e.body for e in self.events if isinstance(e.body, TrialEnded))
        ends = (end for end in bodies if end.status != Status.OUT_OF_MEMORY)
        return tuple(t for t in (end.evidence.get("traceback", "") for end in ends) if t)

    @property
    def overhead(self) -> dict[str, float]:
        """CPU seconds that watching and drawing took beside the trials."""
        ends = (e.body for e in self.events if isinstance(e.body, TrialEnded))
        return {
            "sampling_seconds": round(sum(end.sampling_seconds for end in ends), 4),
            "painter_seconds": round(self.painter_seconds, 4),
        }

    def plot(self, figure: Any | None = None) -> Picture:
        """The picture of the run, which a notebook shows as a PNG.

        Args:
            figure: a matplotlib Figure to draw into; a new one when None.
        """
        from labkit.view.picture import picture_of  # matplotlib takes 0.3 s to import

        return picture_of(self, figure)

    def plot_setting(
        self, setting: str | Setting, *, repeat: int = 0, rank: int = 0
    ) -> Picture:
        """One trial from within: who worked on which batch when, memory by process, stages.

        Args:
            setting: one of `settings`, or its label; with several stories ``"story, label"``.
            repeat: which round's trial, from 0.
            rank: whose batches, where torchrun started several.

        Raises:
            ParameterError: there is no such setting or rank.
        """
        from labkit.view.picture import picture_of_setting

        # The first that fits: a label alone may stand in several stories.
        names = {each.name: each for each in self.settings}
        labels = {each.label: each for each in reversed(self.settings)}
        if isinstance(setting, Setting):
            found = setting if setting in self.settings else None
        else:
            found = names.get(setting) or labels.get(setting)
        if found is None:
            raise ParameterError(
                asked=f"the setting {setting!r} of {self.path.name}",
                found="it has no such setting",
                do=f"use one of {', '.join(map(repr, names))}",
            )
        if not 0 <= rank < max(1, found.ranks):
            raise ParameterError(
                asked=f"rank {rank} of {found.name}",
                found=f"it has {found.ranks} ranks" if found.ranks else "it has no ranks",
                do=f"use one from 0 to {max(0, found.ranks - 1)}",
            )
        return picture_of_setting(self, found, repeat, rank)

    def to_csv(self, path: str | Path) -> Path:
        """Write one line per trial; returns the path."""
        target = Path(path)
        names = sorted({name for setting in self.settings for name in setting.params})
        columns = (
            "repeat", "status", "batches", "samples", "samples_per_second",
            "first_batch_seconds", "wait_share", "cpu_seconds_per_sample", "peak_bytes", "launch",
        )  # fmt: skip
        with open(target, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["story", *names, *columns])
            for item in self.summary:
                values = [item.setting.params.get(name, "") for name in names]
                for trial in item.trials:
                    numbers = [getattr(trial, column) for column in columns]
                    writer.writerow([item.setting.story, *values, *numbers])
        return target

    def to_json(self) -> dict[str, Any]:
        """The object that ``labkit run --json`` prints."""
        return {
            "format": FORMAT,
            "experiment": self.name,
            "status": self.status.value,
            "headline": self.headline,
            "verdicts": [
                asdict(verdict) | {"outcome": verdict.outcome.value} for verdict in self.verdicts
            ],
            "settings": [self._setting_json(item) for item in self.summary],
            "environment": asdict(self.environment),
            "overhead": self.overhead,
            "run_path": str(self.path),
        }

    def _setting_json(self, item: SettingSummary) -> dict[str, Any]:
        setting = item.setting
        found: dict[str, Any] = {
            "params": dict(setting.params) | ({"story": setting.story} if setting.story else {}),
            "status": item.status.value,
            "trials": len(item.trials),
            "samples_per_second": _interval(item.samples_per_second),
            "first_batch_seconds": item.first_batch_seconds,
            "wait_share": item.wait_share,
            "cpu_seconds_per_sample": item.cpu_seconds_per_sample,
            "peak_bytes": item.peak_bytes,
            "delivered": item.delivered,
        }
        if setting.predicted_peak_bytes is not None:
            low, high = setting.predicted_peak_bytes
            found["predicted_peak_bytes"] = {"low": low, "high": high}
        if setting.budget is not None:
            mechanism = item.mechanism or self.environment.budget_mechanism
            limit = setting.budget.limit_bytes
            found["budget"] = {"limit_bytes": limit, "mechanism": mechanism}
        if item.death is not None:
            found["evidence"] = item.death
        return found

    def __repr__(self) -> str:
        from labkit.view.text import result_text

        return result_text(self)

    def _repr_html_(self) -> str:
        from labkit.view.table import to_html

        if self.told_in is not None:
            from labkit.view.cell import execution

            if self.told_in == execution():
                return "<small>The result stands above.</small>"

        return to_html(self)


def _interval(interval: Interval | None) -> dict[str, float] | None:
    return None if interval is None else asdict(interval)


def load(path: str | Path) -> Result:
    """Open a run that was measured before.

    Raises:
        StoreError, ExperimentError: see `Result`.
    """
    return Result(Path(path).expanduser())


