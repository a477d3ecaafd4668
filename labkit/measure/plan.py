"""Turns an experiment and what was asked into a checked plan: settings, trials, preparation.

Pure: it must not start processes and must not write.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from labkit.errors import ExperimentError, ParameterError
from labkit.guesses import Given, Guess, check_guesses
from labkit.records import Environment, Experiment, Setting, Trial

SIZES = ("small", "full")
DEFAULT_TIMEOUT_SECONDS = 120.0
_MOST_REPEATS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What `labkit.run` was asked, checked."""

    size: str
    repeats: int
    seed: int
    timeout_seconds: float
    params: dict[str, Any]
    guesses: tuple[Guess, ...] = ()
    """What the learner expects of the run."""


def check_asked(
    experiment: Experiment, given: Mapping[str, Any], *, size: str, repeats: int | None,
    seed: int, timeout: float | None, predict: Given | None = None,
) -> Asked:  # fmt: skip
    """Check every value before anything is started.

    Raises:
        ParameterError: says which value, what was found and what is valid.
    """
    if size not in SIZES:
        raise ParameterError(
            asked=f"size={size!r}", found="no such size", do=f"use one of {', '.join(SIZES)}"
        )
    count = experiment.rounds(size) if repeats is None else repeats
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST_REPEATS:
        raise ParameterError(
            asked=f"repeats={repeats!r}",
            found="not a whole number in range",
            do=f"give a number from 1 to {_MOST_REPEATS}",
        )
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ParameterError(
            asked=f"seed={seed!r}", found="not a whole number from 0", do="give such a number"
        )
    limit = DEFAULT_TIMEOUT_SECONDS if timeout is None else timeout
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit > 0:
        raise ParameterError(
            asked=f"timeout={timeout!r}",
            found="not a positive number",
            do="give the seconds after which one trial is ended",
        )
    return Asked(
        size=size, repeats=count, seed=seed, timeout_seconds=float(limit),
        params=experiment.resolve(given, size=size), guesses=check_guesses(predict),
    )  # fmt: skip


def make_settings(
    experiment: Experiment, params: Mapping[str, Any], environment: Environment
) -> tuple[Setting, ...]:
    """The experiment's settings, each once.

    Raises:
        ExperimentError: there are none, or two have the same key.
    """
    settings = tuple(experiment.settings(params, environment))
    keys = [setting.key for setting in settings]
    if not settings or len(set(keys)) != len(keys):
        raise ExperimentError(
            asked=f"the settings of {experiment.name}",
            found="none" if not settings else "two settings with the same story and parameters",
            do="make settings(params, environment) return each combination once",
        )
    return settings


def make_trials(
    settings: Sequence[Setting], first: int, experiment: Experiment, asked: Asked,
    rounds: Sequence[int] | None = None,
) -> list[Trial]:  # fmt: skip
    """Setting x repeat: rounds one after the other, random order within each.

    Settings of one number of ranks stand together, in a random order of these numbers, with all
    their rounds: each number is launched once, since starting 8 ranks takes seconds.

    Args:
        settings: the settings to measure.
        first: index of the first of them within the run; ids are ``<index>-<repeat>``.
        experiment: says whether trials are cold or forked.
        asked: repeats, seed and timeout.
        rounds: which repeats; all that were asked for when None.
    """
    order = random.Random(f"{asked.seed}-{first}")
    launches = list(dict.fromkeys(setting.ranks for setting in settings))
    order.shuffle(launches)
    trials: list[Trial] = []
    for ranks in launches:
        for repeat in range(asked.repeats) if rounds is None else rounds:
            indices = [index for index, item in enumerate(settings) if item.ranks == ranks]
            order.shuffle(indices)
            trials.extend(
                Trial(
                    id=f"{first + index:03d}-{repeat}",
                    setting=settings[index],
                    repeat=repeat,
                    seed=asked.seed + repeat,
                    timeout_seconds=asked.timeout_seconds,
                    launch="ranks" if ranks else "process",
                    fresh=experiment.fresh,
                )
                for index in indices
            )
    return trials


def draft(ref: str, experiment: Experiment, asked: Asked) -> dict[str, Any]:
    """What is known of plan.json before the machine is looked at; `details` completes it."""
    return {
        "experiment": ref,
        "name": experiment.name,
        "title": experiment.title,
        "fresh": experiment.fresh,
        "asked": asdict(asked),
    }


def details(
    environment: Environment, settings: Sequence[Setting], datasets: Mapping[str, str],
    prepare: Sequence[Sequence[str]],
) -> dict[str, Any]:  # fmt: skip
    """The rest of plan.json."""
    return {
        "environment": asdict(environment),
        "settings": [asdict(setting) for setting in settings],
        "datasets": dict(datasets),
        "prepare": [list(command) for command in prepare],
    }
