"""Ranks folded into the job: exact, on made-up events."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from labkit.events import BatchBuilt, BatchLoaded, Event, TrialEnded, TrialStarted
from labkit.measure.plan import Asked, make_trials
from labkit.measure.ranks_summary import ALLREDUCE, MEETING
from labkit.measure.summary import summarise
from labkit.measure.tree_counters import CPU, INVOLUNTARY, THROTTLED, VOLUNTARY
from labkit.records import Experiment, Setting
from labkit.summary import TrialSummary

SETTING = Setting(
    params={"ranks": 2, "workers": 1}, label="2 x 1", batches=4, warmup=2, ranks=2
)  # fmt: skip
CLOCKS = (100.0, 7000.0)
"""Two hosts, whose clocks have nothing to do with each other."""


def loaded(batch: int, rank: int, facts: dict[str, float]) -> BatchLoaded:
    return BatchLoaded(
        epoch=0, batch=batch, wait_seconds=0.1 + 0.1 * rank, step_seconds=0.1, samples=5,
        num_bytes=20, warmup=batch < 2, cpu_seconds=1.0, facts=facts,
    )  # fmt: skip


def events(*, steps: int = 6, status: str = "completed") -> Iterator[Event]:
    """Rank 0 takes 0.2 s a step and rank 1 0.3 s; the first batches came after 1 and 2 s."""
    for rank, clock in enumerate(CLOCKS):
        def event(body: object, t: float, rank: int = rank) -> Event:
            return Event(trial="000-0", host=f"h{rank}", rank=rank, t=t, body=body)  # type: ignore[arg-type]

        yield event(TrialStarted(pid=rank, launch="ranks", started=clock), clock)
        for batch in range(steps):
            end = clock + 1 + rank + 0.1 + batch * (0.2 + 0.1 * rank)
            built = BatchBuilt(
                worker=0, pid=10 + rank, epoch=0, batch=batch, started=0, fetch_seconds=0,
                transform_seconds=0, collate_seconds=0, done=end, handover_seconds=0,
                cpu_seconds=0,
            )  # fmt: skip
            facts = {ALLREDUCE: 0.01 * (1 + rank + batch), MEETING: 0.02}
            facts |= {INVOLUNTARY: 10.0 * batch, VOLUNTARY: 20.0 * batch, CPU: 0.5 * batch}
            facts |= {THROTTLED: 3.0 * batch}
            yield event(built, end - 0.1)
            yield event(loaded(batch, rank, facts), end)
    ended = TrialEnded(status=status, detail="")
    yield Event(trial="000-0", host="h0", rank=0, t=200.0, body=ended)


def only(**asked: object) -> TrialSummary:
    return summarise([SETTING], events(**asked)).settings[0].trials[0]  # type: ignore[arg-type]


def test_the_job_is_as_fast_as_its_slowest_rank() -> None:
    trial = only()
    # 4 measured steps x 5 samples x 2 ranks, over the 4 x 0.3 s of rank 1.
    assert trial.samples_per_second == pytest.approx(40 / 1.2)
    assert trial.first_batch_seconds == pytest.approx(2.0)
    assert trial.samples == 2 * 6 * 5
    assert trial.wait_share == pytest.approx((4 * 0.1 + 4 * 0.2) / (4 * 0.2 + 4 * 0.3))


def test_facts_of_all_ranks() -> None:
    ranks = only().ranks
    assert ranks is not None
    assert ranks.hosts == ("h0", "h1")
    assert ranks.steps == (6, 6)
    assert ranks.workers == (1, 1)
    assert ranks.processes == 4
    assert ranks.step_seconds_95 == pytest.approx(0.3)
    # Measured are the steps 2 to 5, of which rank 1 takes 0.04 to 0.07 s.
    assert ranks.allreduce_seconds == pytest.approx(0.055)
    assert ranks.meeting_seconds == pytest.approx(0.02)
    # From the end of step 1 to that of step 5, over 40 samples.
    assert ranks.involuntary_per_sample == pytest.approx(2 * 40 / 40)
    assert ranks.voluntary_per_sample == pytest.approx(2 * 80 / 40)
    assert ranks.throttled == 12
    assert only().cpu_seconds_per_sample == pytest.approx(2 * 2.0 / 40)


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_trial_that_died_early_has_no_rate(steps: int) -> None:
    trial = only(steps=steps, status="failed")
    assert trial.samples_per_second is None
    assert trial.ranks is not None
    assert trial.ranks.steps == (steps, steps)
    if steps < 3:
        assert trial.ranks.throttled is None
        assert trial.ranks.step_seconds_95 is None


def test_trials_of_one_number_of_ranks_stand_together() -> None:
    settings = [
        Setting(params={"ranks": r, "workers": w}, label="", ranks=r)
        for r in (1, 2, 4) for w in (0, 1, 2)
    ]  # fmt: skip
    asked = Asked(size="full", repeats=3, seed=5, timeout_seconds=1.0, params={})
    experiment = Experiment(
        name="x", title="x", question="x?", claims=(), params=(), fresh="cold",
        settings=lambda params, environment: settings, make_loader=lambda trial, context: [],
        judge=lambda summary, environment: (),
    )  # fmt: skip
    trials = make_trials(settings, 0, experiment, asked)
    order = [trial.setting.ranks for trial in trials]
    assert sum(a != b for a, b in itertools.pairwise(order)) == 2, "three launches"
    assert len({trial.id for trial in trials}) == 27
    assert {trial.launch for trial in trials} == {"ranks"}
    for ranks in (1, 2, 4):
        repeats = [trial.repeat for trial in trials if trial.setting.ranks == ranks]
        assert repeats == sorted(repeats), "rounds are interleaved within a launch"
