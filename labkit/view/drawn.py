"""What a figure draws of one setting, whether the run is live or over; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labkit.figures import TRACED
from labkit.guesses import Guess, Guessed, match_guesses
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
    guess: Guessed | None = None
    """What the learner has said about it."""
    expected: float | None = None
    """Samples per second that the guess amounts to; None while its reference is not measured."""


def from_result(result: ResultLike) -> tuple[Drawn, ...]:
    """The settings of a run that is over."""
    traced = isinstance(result.experiment.figure, TRACED)
    settings = [item.setting for item in result.summary]
    tracer = trace_events(settings, result.events if traced else ())
    return from_summary(result.summary, tracer, result.guesses)


def from_summary(
    summary: Summary, tracer: Tracer | None = None, guesses: Sequence[Guess] = ()
) -> tuple[Drawn, ...]:
    """The settings of a summary, with their traces and guesses when there are any."""
    found = {item.setting.key: item.samples_per_second for item in summary}
    guessed = _by_key(guesses, [item.setting for item in summary])
    return tuple(
        Drawn(
            setting=item.setting,
            rates=tuple(item.rates.values()),
            band=item.samples_per_second,
            stages=item.stages if item.stages.total > 0 else None,
            statuses=tuple(trial.status for trial in item.trials),
            traces=tracer.of(item.setting.key) if tracer is not None else (),
            guess=guessed.get(item.setting.key),
            expected=_expected(guessed.get(item.setting.key), found),
        )
        for item in summary
    )


def empty(settings: Sequence[Setting], guesses: Sequence[Guess] = ()) -> tuple[Drawn, ...]:
    """The settings before anything has been measured."""
    guessed = _by_key(guesses, settings)
    return tuple(
        Drawn(setting=each, rates=(), band=None, stages=None, guess=guessed.get(each.key))
        for each in settings
    )


def from_snapshot(
    settings: Sequence[Setting], snapshot: Snapshot, guesses: Sequence[Guess] = ()
) -> tuple[Drawn, ...]:
    """The settings of a run on its way, the trial that runs now included."""
    keys = [setting.key for setting in settings]  # a key is made anew whenever it is asked for
    rates = {key: snapshot.rates(key) for key in keys}
    found = bands(rates)
    guessed = _by_key(guesses, settings)
    return tuple(
        Drawn(
            setting=setting,
            rates=tuple(rates[key].values()),
            band=found.get(key),
            stages=snapshot.stages.get(key),
            statuses=snapshot.statuses.get(key, ()),
            traces=snapshot.traces.get(key, ()),
            guess=guessed.get(key),
            expected=_expected(guessed.get(key), found),
        )
        for key, setting in zip(keys, settings, strict=True)
    )


def _by_key(guesses: Sequence[Guess], settings: Sequence[Setting]) -> dict[str, Guessed]:
    return {each.setting.key: each for each in match_guesses(guesses, settings)}


def _expected(guess: Guessed | None, found: Mapping[str, Interval | None]) -> float | None:
    if guess is None or (base := found.get(guess.reference.key)) is None:
        return None
    return guess.ratio * base.median
