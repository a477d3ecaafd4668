"""What a figure draws of one setting, whether the run is live or over; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labkit.measure.noise import bands
from labkit.records import Setting
from labkit.summary import Interval, StageSeconds, Summary
from labkit.view.fold import Snapshot


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


def from_summary(summary: Summary) -> tuple[Drawn, ...]:
    """The settings of a run that is over."""
    return tuple(
        Drawn(
            setting=item.setting,
            rates=tuple(item.rates.values()),
            band=item.samples_per_second,
            stages=item.stages if item.stages.total > 0 else None,
        )
        for item in summary
    )


def from_snapshot(settings: Sequence[Setting], snapshot: Snapshot) -> tuple[Drawn, ...]:
    """The settings of a run on its way, the trial that runs now included."""
    found = bands({setting.key: snapshot.rates(setting.key) for setting in settings})
    return tuple(
        Drawn(
            setting=setting,
            rates=tuple(snapshot.rates(setting.key).values()),
            band=found.get(setting.key),
            stages=snapshot.stages.get(setting.key),
        )
        for setting in settings
    )
