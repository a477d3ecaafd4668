"""What settings delivered, some of which died: blocks, clocks, ratios and their verdicts."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from labkit.measure.delivery import (
    asked_samples,
    block_rates,
    finished_per_second,
    horizon_seconds,
)
from labkit.measure.delivery_verdicts import compare_blocks, compare_deaths, compare_delivery, welch
from labkit.records import MemoryBudget, Outcome, Setting, Status
from labkit.summary import Interval, SettingSummary, StageSeconds, TrialSummary

STAGES = StageSeconds(fetch=0.0, transform=0.0, collate=0.0, handover=0.0)
DONE, DEAD = Status.COMPLETED, Status.OUT_OF_MEMORY


def item(
    *trials: tuple[Status, int, float | None], blocks: tuple[float, ...] = (1.0, 1.1, 0.9),
    workers: int = 2,
) -> SettingSummary:  # fmt: skip
    """A setting of 24 samples: each trial's status, samples delivered and seconds."""
    setting = Setting(params={"workers": workers}, label=f"{workers} workers", batches=20,
                      warmup=4, budget=MemoryBudget(limit_bytes=9 << 30),
                      predicted_peak_bytes=(17 << 30, 25 << 30))  # fmt: skip
    found = tuple(
        TrialSummary(
            trial=f"000-{place}", setting=setting.key, repeat=place, status=status, detail="",
            batches=samples, samples=samples,
            samples_per_second=None if status is DEAD or not seconds else samples / seconds,
            first_batch_seconds=None, wait_share=None, cpu_seconds_per_sample=None,
            peak_bytes=9 << 30, stages=STAGES, launch="cold", seconds=seconds,
            block_rates=blocks if status is DONE else (),
            evidence={"mechanism": "watchdog"} if status is DEAD else {},
        )
        for place, (status, samples, seconds) in enumerate(trials)
    )  # fmt: skip
    worst = DEAD if any(trial.status is DEAD for trial in found) else DONE
    rate = Interval(median=1.0, low=1.0, high=1.0)
    return SettingSummary(
        setting=setting, trials=found, status=worst, samples_per_second=rate,
        first_batch_seconds=None, wait_share=None, cpu_seconds_per_sample=None,
        peak_bytes=9 << 30, stages=STAGES,
    )  # fmt: skip


def judge(first: SettingSummary | None, second: SettingSummary | None, **other: Any) -> Any:
    horizon = horizon_seconds([i for i in (first, second) if i is not None])
    return compare_delivery("K14", "memory", ("2 workers", first), ("8 workers", second),
                            other.get("horizon", horizon), "above", ())  # fmt: skip


def test_blocks_hold_two_batches_of_every_worker() -> None:
    batches = [(1.0 + 0.5 * number, 2) for number in range(8)]  # bursts would hide in single ones
    assert block_rates(0.5, [*batches, *((5.0 + 0.5 * n, 2) for n in range(4))], 2) == (
        pytest.approx((4.0, 4.0, 4.0))
    )
    assert block_rates(0.5, batches, 0) == pytest.approx((4.0,) * 8)
    assert len(block_rates(0.0, [(float(n), 1) for n in range(1, 101)], 1)) == 7
    assert len(block_rates(0.5, batches, 4)) == 4, "too few for two of each worker"
    assert block_rates(0.5, [], 4) == ()


def test_an_attempt_asks_for_all_its_batches() -> None:
    setting = Setting(params={"batch_size": 3}, label="", batches=20, warmup=4)
    assert asked_samples(setting) == 72


def test_death_stops_delivery_not_the_clock() -> None:
    slow, fast = item((DONE, 24, 30.0)), item((DONE, 24, 20.0))
    dead = item((DEAD, 3, 2.0), (DEAD, 1, 1.0))
    assert horizon_seconds([slow, fast, dead]) == 30.0
    assert finished_per_second(24, 20.0, True, 30.0) == pytest.approx(1.2)
    assert finished_per_second(3, 2.0, False, 30.0) == pytest.approx(0.1)
    assert finished_per_second(3, 2.0, False, None) is None


def test_an_early_death_does_not_look_fast() -> None:
    found = judge(item((DONE, 24, 20.0)), item((DEAD, 3, 1.0), (DEAD, 2, 1.0), workers=8))
    assert found.outcome is Outcome.REPRODUCED
    assert found.effect == pytest.approx(24 / 2.5)
    assert found.interval == pytest.approx((8.0, 12.0))
    assert "24 of 24 samples" in found.sentence
    assert "2 to 3 of 24 samples (out of memory in 2 of 2)" in found.sentence


def test_who_delivers_nothing_never_finishes() -> None:
    found = judge(item((DONE, 24, 20.0)), item((DEAD, 0, None), (DEAD, 0, None), workers=8))
    assert found.outcome is Outcome.REPRODUCED
    assert "never finishes" in found.sentence
    assert found.effect is None
    json.dumps(asdict(found), allow_nan=False)


def test_some_deaths_without_delivery_stay_finite() -> None:
    found = judge(item((DONE, 24, 20.0)), item((DEAD, 0, None), (DEAD, 2, 1.0), workers=8))
    assert found.interval == pytest.approx((12.0, 24.0))
    json.dumps(asdict(found), allow_nan=False)


@pytest.mark.parametrize(
    ("seconds", "outcome"),
    [(99.0, Outcome.REPRODUCED), (24.0, Outcome.NOT_REPRODUCED), (60.0, Outcome.CANNOT_TELL)],
)
def test_two_that_complete_are_compared_by_the_whole_attempt(
    seconds: float, outcome: Outcome
) -> None:
    found = judge(item((DONE, 24, 20.0)), item((DONE, 24, seconds), workers=8))
    assert found.effect == pytest.approx(seconds / 20.0)
    assert found.outcome is outcome
    assert "blocks" in found.sentence


def test_what_is_missing_is_named() -> None:
    assert judge(None, item((DONE, 24, 1.0))).reasons == ("2 workers: not measured",)
    dead = item((DEAD, 1, 1.0))
    assert judge(dead, dead).reasons == ("no setting completed",)
    none = item((DEAD, 0, None))
    assert judge(none, none, horizon=9.0).reasons == ("neither delivered anything",)
    few = compare_blocks("K13", "", ("tight", item((DONE, 24, 9.0), blocks=(1.0,))),
                         ("ample", item((DONE, 24, 9.0))), "below", ())  # fmt: skip
    assert few.outcome is Outcome.CANNOT_TELL
    assert "1 blocks" in few.reasons[0]


def test_welchs_interval_by_hand() -> None:
    found = welch(2.0, [2.0, 2.0, 2.0], [1.0, 1.1, 0.9])
    assert found.low < 2.0 < found.high
    assert found.high / 2.0 == pytest.approx(2.0 / found.low)
    # sd of log(1, 1.1, 0.9) is 0.1003; t(2) = 4.303: exp(4.303 x 0.1003 / sqrt(3)) = 1.283
    assert found.high / 2.0 == pytest.approx(1.283, abs=0.002)


def test_deaths_are_counted() -> None:
    def told(*trials: tuple[Status, int, float | None]) -> Any:
        return compare_deaths("K12", "memory", ("8 workers", item(*trials, workers=8)), ())

    all_died = told((DEAD, 0, None), (DEAD, 2, 1.0))
    assert all_died.outcome is Outcome.REPRODUCED
    for words in ("limit of 9 GiB", "2 of 2", "by watchdog", "0 to 2 of 24", "up to 25 GiB"):
        assert words in all_died.sentence
    assert told((DONE, 24, 9.0)).outcome is Outcome.NOT_REPRODUCED
    assert told((DONE, 24, 9.0), (DEAD, 2, 1.0)).outcome is Outcome.CANNOT_TELL
