"""Verdicts on settings some of which die: what each delivered, over one clock; pure.

It must not know an experiment: what is compared and named comes from the caller.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from labkit.claims import claim
from labkit.measure.delivery import asked_samples
from labkit.measure.noise import MIN_PAIRS, RatioInterval, decide, t_quantile
from labkit.measure.verdicts import cannot_tell, measured
from labkit.records import Outcome, Status, Verdict
from labkit.summary import SettingSummary
from labkit.units import format_bytes

Named = tuple[str, SettingSummary | None]
Direction = Literal["above", "below"]


def compare_delivery(
    name: str, story: str, first: Named, second: Named, horizon: float | None,
    direction: Direction, notes: tuple[str, ...],
) -> Verdict:  # fmt: skip
    """The verdict on how much faster the first named setting is than the second, deaths included.

    Of two that complete, the seconds of the whole attempts are compared, with the noise of the
    blocks within them. Where one died, both are counted over the same clock of `horizon` seconds.
    """
    one, two = first[1], second[1]
    what = f"{first[0]} against {second[0]}"
    missing = tuple(f"{label}: not measured" for label, item in (first, second) if not _ran(item))
    if one is None or two is None or missing:
        return cannot_tell(name, story, what, missing + notes)
    if _completed(one) and _completed(two):
        return compare_blocks(name, story, first, second, direction, notes, whole=True)
    if horizon is None:
        return cannot_tell(name, story, what, ("no setting completed", *notes))
    return _count_deliveries(name, story, (first[0], one), (second[0], two), horizon, direction,
                             notes)  # fmt: skip


def compare_blocks(
    name: str, story: str, first: Named, second: Named, direction: Direction,
    notes: tuple[str, ...], *, whole: bool = False,
) -> Verdict:  # fmt: skip
    """The verdict on the rates of two completing settings, each measured in one attempt.

    The interval is Welch's on the logs of the rates of blocks. Blocks of one attempt are
    neighbours in time: what differs from one attempt to the next does not show in it.

    Args:
        name, story, first, second, direction, notes: as `compare_delivery`.
        whole: compare samples over the whole attempt, start-up included.
    """
    what = f"{first[0]} against {second[0]}"
    found = []
    for label, item in (first, second):
        if item is None or not _completed(item):
            return cannot_tell(name, story, what, (f"{label}: {_ends(item)}", *notes))
        blocks = [rate for trial in item.trials for rate in trial.block_rates]
        if len(blocks) < MIN_PAIRS:
            few = f"{label}: {len(blocks)} blocks of batches; an interval needs {MIN_PAIRS}"
            return cannot_tell(name, story, what, (few, *notes))
        found.append((_rate(item, whole), blocks))
    (rate_one, blocks_one), (rate_two, blocks_two) = found
    interval = welch(rate_one / rate_two, blocks_one, blocks_two)
    per = "samples/s of the whole attempt" if whole else "samples/s"
    sentence = (
        f"{what}: {rate_one:.3g} against {rate_two:.3g} {per}, ratio {interval.ratio:.2f} "
        f"({interval.low:.2f} to {interval.high:.2f}, 95 % interval from {interval.pairs} blocks)"
    )
    return _verdict(name, story, sentence, interval, direction, notes)


def welch(ratio: float, first: Sequence[float], second: Sequence[float]) -> RatioInterval:
    """A ratio with the interval that the spread of both sides' blocks allows."""
    logs = [[math.log(rate) for rate in blocks] for blocks in (first, second)]
    errors = [statistics.variance(values) / len(values) for values in logs]
    freedom = min(len(values) for values in logs) - 1  # never more than Welch would allow
    factor = math.exp(t_quantile(freedom) * math.sqrt(sum(errors)))
    pairs = len(first) + len(second)
    return RatioInterval(ratio=ratio, low=ratio / factor, high=ratio * factor, pairs=pairs)


def _count_deliveries(
    name: str, story: str, first: tuple[str, SettingSummary], second: tuple[str, SettingSummary],
    horizon: float, direction: Direction, notes: tuple[str, ...],
) -> Verdict:  # fmt: skip
    ones, twos = ([trial.samples for trial in item.trials] for _, item in (first, second))
    told = [f"{label} delivered {_span(item)} ({_ends(item)})" for label, item in (first, second)]
    lead = f"in the {horizon:.3g} s that the slowest completing setting needs, "
    what = lead + " and ".join(told)
    if not sum(twos):
        if not sum(ones):
            return cannot_tell(name, story, what, ("neither delivered anything", *notes))
        outcome = Outcome.REPRODUCED if direction == "above" else Outcome.NOT_REPRODUCED
        return _plain(name, story, f"{what}: it never finishes", outcome, None, None, notes)
    ratio = statistics.fmean(ones) / statistics.fmean(twos)
    low, high = min(ones) / max(twos), max(ones) / max(1, min(twos))
    interval = RatioInterval(ratio=ratio, low=low, high=high, pairs=len(ones) + len(twos))
    sentence = f"{what}, ratio {ratio:.3g} ({low:.3g} to {high:.3g} over {interval.pairs} attempts)"
    return _verdict(name, story, sentence, interval, direction, notes)


def _verdict(
    name: str, story: str, sentence: str, interval: RatioInterval, direction: Direction,
    notes: tuple[str, ...],
) -> Verdict:  # fmt: skip
    entry = claim(name)
    assert entry.threshold is not None
    outcome = decide(interval, entry.threshold, direction, entry.margin)
    sentence = f"{sentence}; the claim needs {direction} {entry.threshold:g}"
    if outcome is Outcome.CANNOT_TELL:
        notes = (f"the interval contains the threshold {entry.threshold:g}", *notes)
    span = (interval.low, interval.high)
    return _plain(name, story, sentence, outcome, interval.ratio, span, notes)


def _plain(
    name: str, story: str, sentence: str, outcome: Outcome, effect: float | None,
    interval: tuple[float, float] | None, notes: tuple[str, ...],
) -> Verdict:  # fmt: skip
    return Verdict(
        claim=name, story=story, outcome=outcome, effect=effect, interval=interval,
        threshold=claim(name).threshold or 0.0, sentence=f"{sentence}.", reasons=notes,
    )  # fmt: skip


def compare_deaths(name: str, story: str, item: Named, notes: tuple[str, ...]) -> Verdict:
    """The verdict on whether a setting runs out of memory: by how each of its attempts ended."""
    label, found = item
    if found is None or not _ran(found):
        return cannot_tell(name, story, label, (f"{label}: not measured", *notes))
    statuses = [trial.status for trial in found.trials]
    deaths = statuses.count(Status.OUT_OF_MEMORY)
    outcome = Outcome.CANNOT_TELL
    if deaths == len(statuses):
        outcome = Outcome.REPRODUCED
    elif statuses.count(Status.COMPLETED) == len(statuses):
        outcome = Outcome.NOT_REPRODUCED
    else:
        notes = (f"its attempts did not all end alike: {_ends(found)}", *notes)
    budget, predicted = found.setting.budget, found.setting.predicted_peak_bytes
    limit = f" under a limit of {format_bytes(budget.limit_bytes)}" if budget else ""
    peak = f", peak {format_bytes(found.peak_bytes)}" if found.peak_bytes else ""
    up_to = f", predicted up to {format_bytes(predicted[1])}" if predicted else ""
    how = f" by {found.mechanism}" if found.mechanism else ""
    sentence = (
        f"{label}{limit}: {deaths} of {len(statuses)} attempts ran out of memory{how}, after "
        f"{_span(found)}{peak}{up_to}"
    )
    return _plain(name, story, sentence, outcome, deaths / len(statuses), None, notes)


def compare_cache(
    name: str, story: str, tight: Named, ample: Named, mechanism: str, notes: tuple[str, ...]
) -> Verdict:
    """The verdict on what it costs that a limit leaves no room for the page cache.

    Args:
        name, story, notes: as `compare_delivery`.
        tight, ample: the same setting without and with room for the cache.
        mechanism: what holds a budget on that machine, where a setting's trials do not say.
    """
    told = []
    for _, item in (tight, ample):
        if item is None:
            continue
        held_by = item.mechanism or mechanism
        if not held_by.startswith(("control group", "systemd")):
            why = f"{held_by} bounds no page cache: only a control group evicts it"
            return cannot_tell(name, story, "the effect of a tight limit", (why, *notes))
        read = max((trial.device_read_bytes or 0 for trial in item.trials), default=0)
        if read:
            told.append(f"{item.setting.label} read {format_bytes(read)} from the disk")
    return compare_blocks(name, story, tight, ample, "below", (*told, *notes))


def largest_batch(
    name: str, story: str, items: Sequence[SettingSummary], notes: tuple[str, ...]
) -> Verdict:
    """What a batch of these settings weighed, and the largest that their limit would hold."""
    weighed = [trial.batch_bytes for item in items for trial in item.trials if trial.batch_bytes]
    if not weighed:
        return cannot_tell(name, story, "bytes of a batch", ("no batch was delivered", *notes))
    setting, size = items[0].setting, max(weighed)
    assert setting.budget is not None
    samples = setting["batch_size"]
    fitting = max(samples, setting.budget.limit_bytes // 3 // (size // samples))
    largest = size // samples * fitting
    what = (
        f"a batch of {samples} took {size / 1e6:,.0f} MB; without workers, where memory holds "
        f"three batches, the largest that fits has {fitting} samples, {largest / 1e6:,.0f} MB"
    )
    return measured(name, story, what, float(largest), "above", notes)


def _ran(item: SettingSummary | None) -> bool:
    """Whether an attempt of it has ended by itself."""
    return item is not None and item.status not in (Status.CANCELLED, Status.FAILED)


def _completed(item: SettingSummary) -> bool:
    return item.status is Status.COMPLETED and bool(item.trials)


def _rate(item: SettingSummary, whole: bool) -> float:
    """Samples per second over all completed attempts."""
    if whole:
        seconds = sum(trial.seconds or 0.0 for trial in item.trials)
        return sum(trial.samples for trial in item.trials) / seconds
    return statistics.fmean(item.rates.values())


def _ends(item: SettingSummary | None) -> str:
    """How its attempts ended: ``out of memory in 3 of 3``."""
    if item is None or not item.trials:
        return "not measured"
    total = len(item.trials)
    counts = Counter(trial.status for trial in item.trials)
    names = {status: status.value.replace("_", " ") for status in counts}
    if total == 1:
        return names[item.trials[0].status]
    return ", ".join(f"{names[status]} in {n} of {total}" for status, n in counts.items())


def _span(item: SettingSummary) -> str:
    """Samples delivered: ``0 to 2 of 24 samples``."""
    counts = [trial.samples for trial in item.trials]
    low, high = min(counts), max(counts)
    told = f"{low}" if low == high else f"{low} to {high}"
    return f"{told} of {asked_samples(item.setting)} samples"
