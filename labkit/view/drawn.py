"""What a figure draws of one setting, whether the run is live or over; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labkit.figures import TRACED
from labkit.measure.noise import bands
from labkit.records import Setting, Status
from labkit.summary import Interval, StageSeconds, Summary
from labkit.view.fold import Snapshot
from labkit.view.run_protocol import ResultLike
from labkit.view.trace import Trace, Tracer, trace_events


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One setting as the figure shows it."""

    setting: Setting
    rates: tuple[float, ...]
    """Samples per second of each trial."""
    band: Interval | None
    """The median with its noise; None when nothing was measured."""
    stages: StageSeconds | None
    """None when the loader was not instrumented."""
    statuses: tuple[Status, ...] = ()
    """How each trial ended, in the order of the ends."""
    traces: tuple[Trace, ...] = ()
    """Of its trials; empty for figures that draw rates only."""


def from_result(result: ResultLike) -> tuple[Drawn, ...]:
    """The settings of a run that is over."""
    traced = isinstance(result.experiment.figure, TRACED)
    settings = [item.setting for item in result.summary]
    return from_summary(result.summary, trace_events(settings, result.events if traced else ()))


def from_summary(summary: Summary, tracer: Tracer | None = None) -> tuple[Drawn, ...]:
    """The settings of a summary, with their traces when there are any."""
    return tuple(
        Drawn(
            setting=item.setting,
            rates=tuple(item.rates.values()),
            band=item.samples_per_second,
            stages=item.stages if item.stages.total > 0 else None,
            statuses=tuple(trial.status for trial in item.trials),
            traces=tracer.of(item.setting.key) if tracer is not None else (),
        )
        for item in summary
    )


def empty(settings: Sequence[Setting]) -> tuple[Drawn, ...]:
    """The settings before anything has been measured."""
    return tuple(Drawn(setting=each, rates=(), band=None, stages=None) for each in settings)


def from_snapshot(settings: Sequence[Setting], snapshot: Snapshot) -> tuple[Drawn, ...]:
    """The settings of a run on its way, the trial that runs now included."""
    keys = [setting.key for setting in settings]  # a key is made anew whenever it is asked for
    rates = {key: snapshot.rates(key) for key in keys}
    found = bands(rates)
    return tuple(
        Drawn(
            setting=setting,
            rates=tuple(rates[key].values()),
            band=found.get(key),
            stages=snapshot.stages.get(key),
            statuses=snapshot.statuses.get(key, ()),
            traces=snapshot.traces.get(key, ()),
        )
        for key, setting in zip(keys, settings, strict=True)
    )
