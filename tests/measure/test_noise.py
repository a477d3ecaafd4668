"""The statistics on simulated runs whose truth is known; seeded, so that they are exact."""

from __future__ import annotations

import math
import random

import pytest

from labkit.measure.noise import (
    MIN_PAIRS,
    RatioInterval,
    bands,
    cross_fitted,
    decide,
    mean_interval,
    ratio_interval,
    t_quantile,
    unpaired_ratio,
)
from labkit.records import Outcome

THRESHOLD = 1.05


def simulate(
    draw: random.Random, truth: dict[int, float], *, rounds: int = 5, noise: float = 0.05,
    shared: float = 0.2,
) -> dict[int, dict[int, float]]:  # fmt: skip
    """Rates per setting and round: the truth times a round effect times noise of its own."""
    rates: dict[int, dict[int, float]] = {name: {} for name in truth}
    for turn in range(rounds):
        effect = draw.gauss(0, shared)
        for name, rate in truth.items():
            rates[name][turn] = rate * math.exp(effect + draw.gauss(0, noise))
    return rates


@pytest.mark.parametrize(
    ("freedom", "expected"), [(1, 12.706), (4, 2.776), (30, 2.042), (40, 2.021), (120, 1.980)]
)
def test_t_quantiles_are_those_of_the_tables(freedom: int, expected: float) -> None:
    assert t_quantile(freedom) == pytest.approx(expected, abs=5e-4)


def test_t_needs_a_degree_of_freedom() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        t_quantile(0)


def test_ratio_interval_is_the_t_interval_of_paired_logs() -> None:
    a = {turn: math.exp(value) for turn, value in enumerate((0.1, 0.2, 0.3))}
    found = ratio_interval(a, {0: 1.0, 1: 1.0, 2: 1.0, 9: 5.0})
    assert found is not None
    half = 4.303 * 0.1 / math.sqrt(3)
    assert found.pairs == 3
    assert math.log(found.ratio) == pytest.approx(0.2)
    assert math.log(found.low) == pytest.approx(0.2 - half)
    assert math.log(found.high) == pytest.approx(0.2 + half)


def test_ratio_interval_is_none_for_too_few_common_rounds() -> None:
    assert MIN_PAIRS == 3
    assert ratio_interval({0: 1.0, 1: 1.0, 2: 1.0}, {1: 1.0, 2: 1.0, 3: 1.0}) is None
    assert ratio_interval({}, {}) is None
    assert mean_interval([1.0, 2.0]) is None


@pytest.mark.parametrize("rounds", [3, 5, 12])
def test_ratio_interval_covers_the_truth_in_95_of_100_runs(rounds: int) -> None:
    draw = random.Random(1)
    hits, runs = 0, 1000
    for _ in range(runs):
        rates = simulate(draw, {0: 100.0, 1: 130.0}, rounds=rounds)
        found = ratio_interval(rates[1], rates[0])
        assert found is not None
        hits += found.low <= 1.3 <= found.high
    # 1,000 runs have a standard error of 0.7 %.
    assert 0.93 <= hits / runs <= 0.97


def test_a_clear_effect_is_decided_and_one_inside_the_noise_is_not() -> None:
    draw = random.Random(2)
    outcomes: dict[float, list[Outcome]] = {}
    for truth in (0.7, THRESHOLD, 2.0):
        for _ in range(200):
            rates = simulate(draw, {0: 100.0, 1: 100.0 * truth})
            found = decide(ratio_interval(rates[1], rates[0]), THRESHOLD, "above")
            outcomes.setdefault(truth, []).append(found)
    assert outcomes[2.0].count(Outcome.REPRODUCED) >= 199
    assert outcomes[0.7].count(Outcome.NOT_REPRODUCED) >= 199
    # At the threshold itself each side may be told wrongly in 2.5 % of runs.
    assert outcomes[THRESHOLD].count(Outcome.CANNOT_TELL) >= 180


def test_best_of_many_without_an_effect_is_rarely_reproduced() -> None:
    draw = random.Random(3)
    runs, fitted, naive = 300, 0, 0
    for _ in range(runs):
        rates = simulate(draw, dict.fromkeys(range(8), 100.0), noise=0.15)
        others = {name: rates[name] for name in range(1, 8)}
        found = cross_fitted(rates[0], others)
        assert found is not None
        fitted += decide(found[0], 1.0, "above") is Outcome.REPRODUCED
        best = max(others.values(), key=lambda r: math.prod(r.values()))
        naive += decide(ratio_interval(best, rates[0]), 1.0, "above") is Outcome.REPRODUCED
    assert fitted <= 0.10 * runs
    assert naive > fitted  # what cross-fitting is there for


def test_cross_fitted_finds_the_best_alternative() -> None:
    rates = simulate(random.Random(4), {0: 100.0, 1: 90.0, 2: 200.0, 3: 110.0})
    found = cross_fitted(rates[0], {name: rates[name] for name in (1, 2, 3)})
    assert found is not None
    interval, best = found
    assert best == 2
    assert interval.low > 1.5
    assert decide(interval, THRESHOLD, "above") is Outcome.REPRODUCED


def test_cross_fitted_does_without_alternatives_that_died() -> None:
    rates = simulate(random.Random(5), {0: 100.0, 1: 100.0})
    found = cross_fitted(rates[0], {1: rates[1], 2: {0: 9e9}, 3: {}})
    assert found is not None
    assert found[1] == 1
    assert cross_fitted(rates[0], {2: {0: 9e9, 1: 9e9}}) is None
    assert cross_fitted({}, {1: rates[1]}) is None


def test_bands_leave_out_what_slowed_the_whole_round() -> None:
    rates = simulate(random.Random(6), {0: 100.0, 1: 200.0, 2: 400.0}, noise=0.001, shared=0.5)
    for name, band in bands(rates).items():
        assert band.low <= band.median <= band.high
        assert band.high / band.low < 1.05, name
    alone = bands({0: rates[0]})[0]
    assert alone.high / alone.low > 1.5  # nothing to compare with: the machine's noise stays


def test_bands_keep_a_settings_own_noise() -> None:
    rates = simulate(random.Random(7), dict.fromkeys(range(6), 100.0), noise=0.1, shared=0.0)
    for band in bands(rates).values():
        assert band.high / band.low > 1.05


def test_bands_of_few_rounds_are_the_points_themselves() -> None:
    found = bands({"a": {0: 10.0, 1: 12.0}, "b": {0: 5.0}, "c": {}})
    assert (found["a"].low, found["a"].high) == (10.0, 12.0)
    assert (found["b"].low, found["b"].median, found["b"].high) == (5.0, 5.0, 5.0)
    assert "c" not in found


@pytest.mark.parametrize(
    ("low", "high", "direction", "expected"),
    [
        (1.06, 1.2, "above", Outcome.REPRODUCED),
        (0.9, 1.04, "above", Outcome.NOT_REPRODUCED),
        (1.0, 1.1, "above", Outcome.CANNOT_TELL),
        (0.5, 0.8, "below", Outcome.REPRODUCED),
        (1.06, 1.2, "below", Outcome.NOT_REPRODUCED),
        (1.0, 1.1, "below", Outcome.CANNOT_TELL),
    ],
)
def test_decide(low: float, high: float, direction: str, expected: Outcome) -> None:
    interval = RatioInterval(ratio=(low + high) / 2, low=low, high=high, pairs=5)
    assert decide(interval, THRESHOLD, direction) is expected  # type: ignore[arg-type]


def test_decide_by_a_margin_apart_from_the_threshold() -> None:
    interval = RatioInterval(ratio=1.03, low=1.02, high=1.04, pairs=5)
    assert decide(interval, 1.05, "above", margin=1.01) is Outcome.CANNOT_TELL
    assert decide(interval, 1.05, "above", margin=1.05) is Outcome.NOT_REPRODUCED
    assert decide(None, 1.05, "above") is Outcome.CANNOT_TELL


def test_an_unpaired_ratio_is_welchs() -> None:
    # Two samples of logs with variances 0.01 and 0.04, and 4 values each.
    a = [math.exp(1 + x) for x in (-0.1, 0.1, -0.1, 0.1)]
    b = [math.exp(x) for x in (-0.2, 0.2, -0.2, 0.2)]
    found = unpaired_ratio(a, b)
    assert found is not None
    assert found.ratio == pytest.approx(math.e)
    errors = (0.04 / 3 / 4, 0.16 / 3 / 4)
    freedom = int(sum(errors) ** 2 / sum(e**2 / 3 for e in errors))
    half = t_quantile(freedom) * math.sqrt(sum(errors))
    assert found.low == pytest.approx(math.exp(1 - half))
    assert found.high == pytest.approx(math.exp(1 + half))
    assert unpaired_ratio(a[:2], b) is None
