"""Turns intervals into verdicts with one sentence each; pure, shared by the experiments' judges.

It must not know a particular experiment: what is compared and named comes from the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from labkit.claims import claim
from labkit.measure.noise import (
    MIN_PAIRS,
    RatioInterval,
    cross_fitted,
    decide,
    inverse,
    mean_interval,
    ratio_interval,
)
from labkit.records import Environment, Outcome, Verdict
from labkit.summary import SettingSummary, Summary

BUSY_CORES = 0.3
"""Load by others from which a reader is told; a quiet desktop stays under 0.1 cores."""


def circumstances(summary: Summary, environment: Environment) -> tuple[str, ...]:
    """What about this machine may have changed the outcome, a sentence each."""
    found = []
    if environment.usable_cores == 1:
        found.append("one usable core: workers and the consumer take turns on it")
    quota = environment.quota_cores
    if quota is not None and quota < environment.logical_cores:
        found.append(f"a quota of {quota:g} cores: the system stops whoever has used it up")
    load = environment.load_cores if summary.load_cores is None else summary.load_cores
    if load > BUSY_CORES:
        found.append(f"others kept {load:.1f} cores busy meanwhile")
    return tuple(found)


def rounds_missing(named: Sequence[tuple[str, SettingSummary | None]]) -> tuple[str, ...]:
    """Why these settings cannot be compared, a sentence each; empty when they can."""
    found = []
    for label, item in named:
        if item is None:
            found.append(f"{label}: not measured")
        elif not item.rates:
            details = sorted({trial.detail for trial in item.trials if trial.detail})
            why = f" ({'; '.join(details)})" if details else ""
            found.append(f"{label}: no completed trial{why}")
    if found:
        return tuple(found)
    shared = set.intersection(*(set(item.rates) for _, item in named if item is not None))
    if len(shared) < MIN_PAIRS:
        rounds = "common round" if len(shared) == 1 else "common rounds"
        return (f"{len(shared)} {rounds}; an interval needs at least {MIN_PAIRS}",)
    return ()


def compare_pair(
    name: str, story: str, faster: tuple[str, SettingSummary | None],
    slower: tuple[str, SettingSummary | None], direction: Literal["above", "below"],
    notes: tuple[str, ...],
) -> Verdict:  # fmt: skip
    """The verdict on the ratio of two named settings' rates (the first over the second)."""
    first, second = faster[1], slower[1]
    missing = rounds_missing((faster, slower))
    if missing or first is None or second is None:
        return cannot_tell(name, story, f"{faster[0]} against {slower[0]}", missing + notes)
    interval = ratio_interval(first.rates, second.rates)
    rates = f"{_rate(first)} against {_rate(second)} samples/s"
    what = f"{faster[0]} against {slower[0]}: {rates}, ratio within rounds"
    return verdict(name, story, what, interval, direction, notes)


def compare_best(
    name: str, story: str, reference: tuple[str, SettingSummary | None],
    others: Sequence[SettingSummary], notes: tuple[str, ...],
) -> Verdict:  # fmt: skip
    """The verdict on whether some other setting is faster, its choice and its test kept apart."""
    label, ref = reference
    found = _best_other(reference, others)
    if isinstance(found, tuple) or ref is None:
        missing = found if isinstance(found, tuple) else ()
        return cannot_tell(name, story, f"the best other setting against {label}", missing + notes)
    rates = f"{_rate(found.item)} against {_rate(ref)} samples/s"
    what = f"{found.label}, best of the others on the other rounds, against {label}: {rates},"
    return verdict(name, story, f"{what} ratio within rounds", found.interval, "above", notes)


def compare_with_best(
    name: str, story: str, reference: tuple[str, SettingSummary | None],
    others: Sequence[SettingSummary], notes: tuple[str, ...],
    direction: Literal["above", "below"] = "above",
) -> Verdict:  # fmt: skip
    """The verdict on whether this setting is faster than every other: `compare_best` inverted.

    With the direction ``below``: on whether it is slower than the best of them.
    """
    label, ref = reference
    found = _best_other(reference, others)
    if isinstance(found, tuple) or ref is None:
        missing = found if isinstance(found, tuple) else ()
        return cannot_tell(name, story, f"{label} against the best other setting", missing + notes)
    rates = f"{_rate(ref)} against {_rate(found.item)} samples/s"
    what = f"{label} against {found.label}, best of the others on the other rounds: {rates},"
    return verdict(
        name, story, f"{what} ratio within rounds", inverse(found.interval), direction, notes
    )


@dataclass(frozen=True, slots=True)
class _Best:
    label: str
    item: SettingSummary
    interval: RatioInterval


def _best_other(
    reference: tuple[str, SettingSummary | None], others: Sequence[SettingSummary]
) -> _Best | tuple[str, ...]:
    """The best of the others, chosen on other rounds than it is tested on; else what is missing."""
    usable = {item.setting.label: item for item in others if item.rates}
    missing = rounds_missing((reference,))
    if missing or reference[1] is None:
        return missing
    if not usable:
        return ("no other setting was measured",)
    found = cross_fitted(reference[1].rates, {key: item.rates for key, item in usable.items()})
    if found is None:
        return (f"too few common rounds; an interval needs at least {MIN_PAIRS}",)
    interval, best = found
    return _Best(best, usable[best], interval)


def compare_transform(
    name: str, story: str, item: tuple[str, SettingSummary | None], notes: tuple[str, ...]
) -> Verdict:
    """The verdict on the transform's share of the time to build a sample (without hand-over)."""
    missing = rounds_missing((item,))
    if missing or item[1] is None:
        return cannot_tell(name, story, "the share of the transform", missing + notes)
    stages = [trial.stages for trial in item[1].trials if trial.repeat in item[1].rates]
    shares = [s.transform / (s.total - s.handover) for s in stages if s.total > s.handover]
    spent = item[1].stages
    what = (
        f"at {item[0]} the transform takes {spent.transform * 1e3:.2f} ms of the "
        f"{(spent.total - spent.handover) * 1e3:.2f} ms to build a sample (fetch and decode, "
        "transform, collate), a share of"
    )
    return verdict(name, story, what, mean_interval(shares), "above", notes)


def verdict(
    name: str, story: str, what: str, interval: RatioInterval | None,
    direction: Literal["above", "below"], notes: tuple[str, ...],
) -> Verdict:  # fmt: skip
    """Decide by the ledger's threshold; `what` leads up to the effect in the sentence."""
    entry = claim(name)
    if interval is None or entry.threshold is None:
        few = f"too few rounds; an interval needs at least {MIN_PAIRS}"
        return cannot_tell(name, story, what, (few, *notes))
    outcome = decide(interval, entry.threshold, direction, entry.margin)
    noise = (interval.high - interval.low) / 2 / abs(interval.ratio) if interval.ratio else 0.0
    within = f"the interval {_span(interval)} contains the threshold {entry.threshold:g}"
    told = outcome is not Outcome.CANNOT_TELL
    return Verdict(
        claim=name,
        story=story,
        outcome=outcome,
        effect=interval.ratio,
        interval=(interval.low, interval.high),
        threshold=entry.threshold,
        sentence=f"{_lead(story)}{what} {interval.ratio:.2f} (95 % interval {_span(interval)} from "
        f"{interval.pairs} rounds, noise ±{noise:.0%}; the claim needs {direction} "
        f"{entry.threshold:g}).",
        reasons=notes if told else (within, *notes),
    )


def counted(
    name: str, story: str, held: int, total: int, what: str, notes: tuple[str, ...]
) -> Verdict:
    """The verdict on something that is counted and has no noise: it holds always, or it does not.

    Args:
        name: of the claim.
        story: of the claim.
        held: cases in which it held.
        total: cases that were looked at; 0 cannot tell.
        what: the rest of the sentence, which begins with ``<held> of <total>``.
        notes: circumstances.
    """
    if not total:
        missing = "no completed trial showed it"
        return cannot_tell(name, story, what, (missing, *notes))
    return Verdict(
        claim=name,
        story=story,
        outcome=Outcome.REPRODUCED if held == total else Outcome.NOT_REPRODUCED,
        effect=held / total,
        interval=None,
        threshold=1.0,
        sentence=f"{_lead(story)}{held} of {total} {what}.",
        reasons=() if held == total else notes,
    )


def measured(
    name: str, story: str, what: str, effect: float, direction: Literal["above", "below"],
    notes: tuple[str, ...],
) -> Verdict:  # fmt: skip
    """The verdict on a number that has no noise, such as the bytes of a batch."""
    entry = claim(name)
    assert entry.threshold is not None
    exact = RatioInterval(ratio=effect, low=effect, high=effect, pairs=1)
    return Verdict(
        claim=name,
        story=story,
        outcome=decide(exact, entry.threshold, direction, entry.margin),
        effect=effect,
        interval=None,
        threshold=entry.threshold,
        sentence=f"{_lead(story)}{what} (the claim needs {direction} {entry.threshold:,g}).",
        reasons=notes,
    )


def cannot_tell(name: str, story: str, what: str, reasons: tuple[str, ...]) -> Verdict:
    """The verdict when a needed part is missing."""
    return Verdict(
        claim=name,
        story=story,
        outcome=Outcome.CANNOT_TELL,
        effect=None,
        interval=None,
        threshold=claim(name).threshold or 0.0,
        sentence=f"{_lead(story)}{what} cannot be told: {reasons[0]}.",
        reasons=reasons,
    )


def _lead(story: str) -> str:
    return f"{story}: " if story else ""


def _span(interval: RatioInterval) -> str:
    return f"{interval.low:.2f} to {interval.high:.2f}"


def _rate(item: SettingSummary) -> str:
    band = item.samples_per_second
    return "?" if band is None else f"{band.median:,.0f}"
