"""Statistics of interleaved repeats: what the noise of this machine allows to be said.

Rates of one round are neighbours in time, so they are compared within the round: as log ratios,
whose mean over rounds has a t interval. It must not read events and must not know any claim.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from labkit.records import Outcome
from labkit.summary import Interval

MIN_PAIRS = 3
"""With two pairs the t interval is 13 standard errors wide: nothing can be told from it."""

Rates = Mapping[int, float]
"""Round to samples per second."""
Name = TypeVar("Name", bound=Hashable)

# Student's t, two-sided 95 %, for 1 to 30 degrees of freedom: NIST/SEMATECH e-Handbook of
# Statistical Methods, section 1.3.6.7.2.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioInterval:
    """An effect (a ratio or a share) with its 95 % interval."""

    ratio: float
    low: float
    high: float
    pairs: int
    """Rounds it rests on."""


def t_quantile(freedom: int) -> float:
    """Student's t for a two-sided 95 % interval; beyond 30 degrees exact to 0.0002.

    Raises:
        ValueError: fewer than one degree of freedom.
    """
    if freedom < 1:
        raise ValueError(f"{freedom} degrees of freedom; at least 1 is needed")
    if freedom <= len(_T95):
        return _T95[freedom - 1]
    # Cornish-Fisher expansion around the normal quantile: Abramowitz and Stegun 26.7.5.
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def mean_interval(values: Sequence[float]) -> RatioInterval | None:
    """The mean of one value per round with its t interval; None for fewer than MIN_PAIRS."""
    if len(values) < MIN_PAIRS:
        return None
    centre, half = statistics.fmean(values), _half_width(values)
    return RatioInterval(ratio=centre, low=centre - half, high=centre + half, pairs=len(values))


def _half_width(values: Sequence[float]) -> float:
    # statistics.stdev computes with fractions: 20 times as long, beside what is measured.
    count, centre = len(values), statistics.fmean(values)
    spread = math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (count - 1))
    return t_quantile(count - 1) * spread / math.sqrt(count)


def _from_logs(logs: Sequence[float]) -> RatioInterval | None:
    found = mean_interval(logs)
    if found is None:
        return None
    return RatioInterval(
        ratio=math.exp(found.ratio),
        low=math.exp(found.low),
        high=math.exp(found.high),
        pairs=found.pairs,
    )


def inverse(interval: RatioInterval) -> RatioInterval:
    """The same effect, told the other way round."""
    return RatioInterval(
        ratio=1 / interval.ratio, low=1 / interval.high, high=1 / interval.low,
        pairs=interval.pairs,
    )  # fmt: skip


def _log_ratios(a: Rates, b: Rates) -> dict[int, float]:
    return {turn: math.log(a[turn] / b[turn]) for turn in sorted(a.keys() & b.keys())}


def ratio_interval(a: Rates, b: Rates) -> RatioInterval | None:
    """How many times as fast `a` is as `b`, from the rounds that both completed.

    Returns:
        The geometric mean of the paired ratios with its 95 % t interval, or None when fewer than
        MIN_PAIRS rounds have both.
    """
    return _from_logs(list(_log_ratios(a, b).values()))


def unpaired_ratio(a: Sequence[float], b: Sequence[float]) -> RatioInterval | None:
    """How many times as large `a` is as `b`, when the two were not measured in common rounds.

    Returns:
        The ratio of the geometric means with Welch's 95 % interval (degrees of freedom by Welch
        and Satterthwaite, rounded down), or None when either has fewer than MIN_PAIRS values.
    """
    if min(len(a), len(b)) < MIN_PAIRS:
        return None
    logs = [[math.log(value) for value in values] for values in (a, b)]
    errors = [statistics.variance(values) / len(values) for values in logs]
    centre = statistics.fmean(logs[0]) - statistics.fmean(logs[1])
    spread = sum(e**2 / (len(values) - 1) for e, values in zip(errors, logs, strict=True))
    freedom = int(sum(errors) ** 2 / spread) if spread > 0 else min(len(a), len(b)) - 1
    half = t_quantile(max(1, freedom)) * math.sqrt(sum(errors))
    return RatioInterval(
        ratio=math.exp(centre), low=math.exp(centre - half), high=math.exp(centre + half),
        pairs=min(len(a), len(b)),
    )  # fmt: skip


def cross_fitted(
    reference: Rates, alternatives: Mapping[Name, Rates]
) -> tuple[RatioInterval, Name] | None:
    """How many times as fast the best alternative is as the reference, free of choosing luck.

    The best of many noisy points is partly the luckiest. So for each round the alternative is
    chosen on the *other* rounds and evaluated on this one, where its luck does not count.

    Returns:
        The interval and the alternative that was chosen most often; None for too few rounds.
    """
    ratios = {name: _log_ratios(rates, reference) for name, rates in alternatives.items()}
    logs: list[float] = []
    chosen: Counter[Name] = Counter()
    for turn in sorted(reference):
        others = {
            name: statistics.fmean(value for other, value in logs_.items() if other != turn)
            for name, logs_ in ratios.items()
            if turn in logs_ and len(logs_) >= MIN_PAIRS
        }
        if others:
            best = max(others, key=others.__getitem__)
            chosen[best] += 1
            logs.append(ratios[best][turn])
    interval = _from_logs(logs)
    return None if interval is None else (interval, chosen.most_common(1)[0][0])


def bands(rates: Mapping[Name, Rates]) -> dict[Name, Interval]:
    """The median rate of every setting with the band that the noise within rounds leaves.

    A round in which the machine was slow for everyone says nothing about one setting: the median
    deviation of the *other* settings in that round is taken out first (the setting's own would
    take out its noise, too). With two settings this is the interval of their paired log ratio.
    With fewer than MIN_PAIRS rounds low and high are the lowest and the highest point.
    """
    logs = {n: {turn: math.log(v) for turn, v in r.items()} for n, r in rates.items() if r}
    centres = {name: statistics.median(values.values()) for name, values in logs.items()}
    found: dict[Name, Interval] = {}
    for name, own in logs.items():
        median = statistics.median(rates[name].values())
        if len(own) < MIN_PAIRS:
            low, high = min(rates[name].values()), max(rates[name].values())
        else:
            adjusted = [
                value - _round_effect(turn, [(logs[n], centres[n]) for n in logs if n != name])
                for turn, value in own.items()
            ]
            factor = math.exp(_half_width(adjusted))
            low, high = median / factor, median * factor
        found[name] = Interval(median=median, low=low, high=high)
    return found


def within_band(band: Interval | None, blocks: Sequence[Sequence[float]]) -> Interval | None:
    """The band of a setting that was measured in one round, from blocks within that round.

    Args:
        band: of `bands`; kept as it is when there were more rounds.
        blocks: rates of consecutive blocks, a sequence per completed trial.
    """
    if band is None or len(blocks) != 1 or len(blocks[0]) < MIN_PAIRS:
        return band
    factor = math.exp(_half_width([math.log(rate) for rate in blocks[0]]))
    return Interval(median=band.median, low=band.median / factor, high=band.median * factor)


def _round_effect(turn: int, others: Sequence[tuple[Rates, float]]) -> float:
    """How much faster the others were in this round than usual, in logs; 0 without others."""
    deviations = [logs[turn] - centre for logs, centre in others if turn in logs]
    return statistics.median(deviations) if deviations else 0.0


def decide(
    interval: RatioInterval | None,
    threshold: float,
    direction: Literal["above", "below"],
    margin: float | None = None,
) -> Outcome:
    """What an interval says about a claim that an effect is above (or below) a threshold.

    Args:
        interval: None when there were too few rounds.
        threshold: reproduced when the whole interval lies beyond it.
        direction: the side on which the claim holds.
        margin: not reproduced when the whole interval lies on the other side of this; the
            threshold itself when None.
    """
    if interval is None:
        return Outcome.CANNOT_TELL
    margin = threshold if margin is None else margin
    if direction == "above":
        beyond, opposite = interval.low > threshold, interval.high < margin
    else:
        beyond, opposite = interval.high < threshold, interval.low > margin
    if beyond:
        return Outcome.REPRODUCED
    return Outcome.NOT_REPRODUCED if opposite else Outcome.CANNOT_TELL
