"""What a learner expects of a run, said before it: how many times as fast each setting will be.

A guess is a ratio: nobody knows how many samples per second a machine will load, but everybody has
an idea of what twice the workers do. Frozen records without I/O; it must not draw.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.errors import ParameterError
from labkit.records import Setting
from labkit.summary import Interval

Given = Mapping[float, float] | Mapping[str, Mapping[float, float]]
"""As a caller writes it: ``{0: 1, 2: 2}``, or by story ``{"cpu": {0: 1, 2: 2}}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """One point of a guessed curve."""

    story: str
    """Empty: of every story."""
    x: float
    """Value on the figure's horizontal axis, such as the number of workers."""
    ratio: float
    """How many times the rate of any other guess whose ratio is 1."""

    def fits(self, setting: Setting) -> bool:
        """Whether it is about this setting."""
        return setting.x == self.x and self.story in ("", setting.story)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guessed:
    """A guess about one setting, beside the setting that it is a multiple of."""

    setting: Setting
    ratio: float
    """To the rate of the reference."""
    reference: Setting
    """The setting of the same curve with the lowest horizontal value that was guessed about."""


def check_guesses(given: Given | None) -> tuple[Guess, ...]:
    """What was given, checked as far as it can be without the settings of a run.

    Raises:
        ParameterError: it is not a mapping of numbers to positive numbers.
    """
    if not given:
        return ()
    if not isinstance(given, Mapping):
        raise _refused(given, "not a mapping")
    stories: Mapping[Any, Any] = given
    if not all(isinstance(value, Mapping) for value in given.values()):
        stories = {"": given}
    return tuple(
        Guess(story=str(story), x=_number(given, x), ratio=_number(given, ratio, above=0.0))
        for story, curve in stories.items()
        for x, ratio in curve.items()
    )


def _number(given: Any, value: Any, *, above: float = -math.inf) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not math.isfinite(value) or value <= above:
        raise _refused(given, f"{value!r} is not a {'positive ' if above == 0.0 else ''}number")
    return float(value)


def _refused(given: Any, found: str) -> ParameterError:
    return ParameterError(
        asked=f"predict={given!r}",
        found=found,
        do="give how many times as fast each will be, such as {0: 1, 2: 2, 4: 4}, or such a "
        "mapping for each story",
    )


def guesses_from_json(raw: Iterable[Mapping[str, Any]]) -> tuple[Guess, ...]:
    """The guesses of ``dataclasses.asdict``'s form."""
    return tuple(Guess(**each) for each in raw)


def require_match(guesses: Sequence[Guess], settings: Sequence[Setting]) -> None:
    """Refuse guesses that have nothing to do with a run.

    Raises:
        ParameterError: there are some, and none is about any of the settings.
    """
    if not guesses or match_guesses(guesses, settings):
        return
    stories = any(guess.story for guess in guesses)
    asked = (_place(guess.story, guess.x) for guess in guesses)
    places = (_place(setting.story if stories else "", setting.x) for setting in settings)
    raise ParameterError(
        asked=f"a prediction for {', '.join(asked)}",
        found="the run has no such setting",
        do=f"predict for {', '.join(dict.fromkeys(places))}",
    )


def _place(story: str, x: float) -> str:
    return f"{story}: {x:g}" if story else f"{x:g}"


def match_guesses(guesses: Sequence[Guess], settings: Sequence[Setting]) -> tuple[Guessed, ...]:
    """Every guess with the settings that it is about, curve by curve, references first.

    Guesses about other settings are left out: a run of small size has fewer.
    """
    found: list[Guessed] = []
    curves: dict[tuple[str, str], list[tuple[Setting, float]]] = {}
    for setting in sorted(settings, key=lambda setting: setting.x):
        for guess in guesses:
            if guess.fits(setting):
                curve = curves.setdefault((setting.story, setting.series), [])
                curve.append((setting, guess.ratio))
    for curve in curves.values():
        reference, base = curve[0]
        found += [
            Guessed(setting=setting, ratio=ratio / base, reference=reference)
            for setting, ratio in curve
        ]
    return tuple(found)


def told_guesses(
    guessed: Sequence[Guessed], bands: Mapping[str, Interval | None]
) -> tuple[str, ...]:
    """A sentence for each curve, on the guess that was the farthest from what was measured.

    Args:
        guessed: of `match_guesses`.
        bands: measured samples per second with their noise, by `Setting.key`; None, or no entry,
            where a setting finished nothing.
    """
    curves: dict[str, list[tuple[float, str]]] = {}
    for each in guessed:
        base, own = bands.get(each.reference.key), bands.get(each.setting.key)
        if base is None or base.median <= 0 or each.setting == each.reference:
            continue  # a reference is what it is a multiple of: it cannot be wrong
        said = f"{each.setting.name}: you predicted {each.ratio:.2g} times the rate of "
        said += f"{each.reference.label}, "
        if own is None:
            miss, said = math.inf, said + "it finished nothing."
        else:
            low, middle, high = (rate / base.median for rate in (own.low, own.median, own.high))
            miss = abs(math.log(middle / each.ratio)) if middle > 0 else math.inf
            said += f"measured {middle:.2g} ({low:.2g} to {high:.2g})."
        curves.setdefault(each.reference.key, []).append((miss, said))
    return tuple(max(told)[1] for told in curves.values())
