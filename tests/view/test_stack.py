"""The memory figure: what its lanes hold, how it is drawn, live and at rest, and its words."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from PIL import Image

from labkit.events import (
    MEMORY_SOURCES,
    BatchLoaded,
    CountersSampled,
    Event,
    ExperimentEnded,
    MemorySampled,
    Prepared,
    ProcessMemory,
    TrialEnded,
    TrialStarted,
)
from labkit.figures import Stack
from labkit.measure.summary import summarise
from labkit.records import MECHANISMS, MemoryBudget, Setting, Status
from labkit.view.describe import describe
from labkit.view.draw_setting import draw_trace
from labkit.view.drawn import from_snapshot, from_summary
from labkit.view.figure import new_drawing, new_figure
from labkit.view.fold import Held, fold
from labkit.view.lanes_of_memory import Lane, death_text, delivered_text, lanes_of, top_bytes
from labkit.view.live_picture import LivePicture
from labkit.view.setting_box import SettingBox
from labkit.view.terminal import render
from labkit.view.trace import trace_events

MIB = 1 << 20
LIMIT = 900 * MIB
SETTINGS = tuple(
    Setting(
        params={"workers": workers}, label=f"{workers} workers", story="memory", batches=8,
        warmup=2, budget=MemoryBudget(limit_bytes=LIMIT), note="volumes of 64 MiB",
        predicted_peak_bytes=(workers * 200 * MIB, workers * 300 * MIB),
    )
    for workers in (2, 8)
)  # fmt: skip


def event(body: Any, t: float, trial: str = "") -> Event:
    return Event(trial=trial, host="here", rank=0, t=t, body=body)


def attempt(trial: str, start: float, *, batches: int, peak: int, died: bool) -> Iterator[Event]:
    """One batch and one sample of memory a second; half of the memory is in flight."""
    yield event(TrialStarted(pid=7, launch="cold", started=start), start, trial)
    for second in range(1, max(3, batches + 1)):
        t = start + second
        if second <= batches:
            yield event(BatchLoaded(
                epoch=0, batch=second - 1, wait_seconds=1.0, step_seconds=0.0, samples=1,
                num_bytes=64 * MIB, warmup=second <= 2, cpu_seconds=t), t, trial)  # fmt: skip
        own = ProcessMemory(pid=7, role="main", rss=1, pss=1, anonymous=peak // 2, private=1)
        yield event(MemorySampled(processes=(own,), shared_memory=peak // 2, cache=10 * MIB,
                                  source="smaps"), t, trial)  # fmt: skip
        yield event(CountersSampled(voluntary_switches=0, involuntary_switches=0,
                                    device_read_bytes=second * MIB, load=0.0), t, trial)
    status = Status.OUT_OF_MEMORY if died else Status.COMPLETED
    evidence = {"peak_bytes": peak + MIB, "mechanism": "watchdog"} if died else {}
    ended = TrialEnded(status=status, detail="over" if died else "", evidence=evidence)
    yield event(ended, start + max(3, batches) + 0.5, trial)


def whole_run() -> list[Event]:
    """2 workers live, 8 die twice."""
    return [
        event(Prepared(), 0.0),
        *attempt("000-0", 1.0, batches=10, peak=500 * MIB, died=False),
        *attempt("001-0", 20.0, batches=0, peak=880 * MIB, died=True),
        *attempt("001-1", 30.0, batches=2, peak=890 * MIB, died=True),
        event(ExperimentEnded(status="completed", detail=""), 40.0),
    ]


def lanes(events: list[Event]) -> tuple[Lane, ...]:
    return lanes_of(from_summary(summarise(SETTINGS, events), trace_events(SETTINGS, events)))


@pytest.fixture
def run(make_run: Any, experiment: Any) -> Any:
    found = make_run()
    found.experiment = replace(experiment, figure=Stack(y_label="memory", rate_label="volumes/s"))
    found.settings, found.waiting, found.trials_total = SETTINGS, whole_run(), 3
    return found


@pytest.fixture
def result(run: Any) -> Any:
    while not run.done():
        run.poll()
    found = run.result()
    found.events = run.events
    return found


def draw(result: Any) -> tuple[Any, Any]:
    figure = new_figure(result.experiment.figure)
    drawn = from_summary(result.summary, trace_events(SETTINGS, result.events))
    return figure, new_drawing(figure, result.experiment, drawn, result.environment)


def test_a_lane_holds_the_last_attempt_and_counts_all() -> None:
    lived, died = lanes(whole_run())
    assert [moment.seconds for moment in lived.moments] == list(range(1, 11))
    assert lived.moments[0].held == 500 * MIB
    assert lived.moments[0].cache == 10 * MIB
    assert (lived.peak, lived.deaths, lived.attempts) == (500 * MIB, 0, 1)
    assert lived.died_seconds is None
    assert died.peak == 891 * MIB, "what the warden saw between two samples counts"
    assert (died.deaths, died.attempts, died.delivered) == (2, 2, (0, 2))
    assert died.died_seconds == pytest.approx(3.5)
    assert lived.device_bytes == 10 * MIB


def test_rates_are_of_the_whole_attempt_and_deaths_over_the_slowest() -> None:
    lived, died = lanes(whole_run())
    assert lived.rate is not None
    assert lived.rate.median == pytest.approx(1.0)
    assert died.rate is not None
    assert died.rate.median == pytest.approx((0 + 2 / 10) / 2)


def test_words() -> None:
    lived, died = lanes(whole_run())
    assert (delivered_text(lived), death_text(lived)) == ("10 of 10", "")
    assert (delivered_text(died), death_text(died)) == (
        "0 to 2 of 10", "out of memory in 2 of 2 attempts",
    )  # fmt: skip
    assert death_text(lanes(whole_run()[:-9])[1]) in ("", "out of memory")


def test_a_prediction_far_above_the_limit_does_not_flatten_the_lanes() -> None:
    assert LIMIT < top_bytes(lanes(whole_run())) < 1.3 * LIMIT


def test_layers_are_stacked_and_a_death_is_marked_by_shape_and_word(result: Any) -> None:
    _, drawing = draw(result)
    (block,) = drawing.blocks
    lived, died = block.rows
    tops = [layer.get_paths()[0].vertices[:, 1].max() for layer in lived.layers]
    assert tops == [250 * MIB, 500 * MIB, 510 * MIB]
    assert died.word.get_text() == "out of memory in 2 of 2 attempts"
    assert died.cross.get_marker() == "X"
    assert list(died.cross.get_xdata()) == pytest.approx([3.5])
    assert lived.word.get_text() == ""
    assert list(lived.cross.get_xdata()) == []
    assert "predicted 400 to 600 MiB" in lived.facts.text
    assert "10 MiB from disk" in lived.facts.text
    assert block.bars.bars[0].get_width() == pytest.approx(1.0)
    assert block.bars.words[1].text == "0 to 2 of 10\nthen dead"


def legend_of(events: list[Event], result: Any) -> list[str]:
    result.events, result.summary = events, summarise(SETTINGS, events)
    figure, _ = draw(result)
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_legend_says_what_holds_the_limit_and_what_was_not_seen(result: Any) -> None:
    exact = legend_of(whole_run(), result)
    assert (exact[1], exact[-1]) == ("in flight: shared memory", "limit, held by watchdog")
    assert legend_of(whole_run()[:5], result)[-1] == "limit", "nobody has said so yet"
    assert legend_of(elsewhere(whole_run()), result)[1] == "in flight: not seen by psutil"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_legend_fits(mechanism: str, result: Any) -> None:
    events = [
        replace(e, body=replace(e.body, evidence={"mechanism": mechanism}))
        if isinstance(e.body, TrialEnded) else e
        for e in whole_run()
    ]  # fmt: skip
    result.events, result.summary = events, summarise(SETTINGS, events)
    figure, _ = draw(result)
    figure.canvas.draw()
    assert figure.legends[0].get_window_extent().x1 <= figure.bbox.x1


def test_nothing_overlaps_and_nothing_is_cut(result: Any) -> None:
    figure, drawing = draw(result)
    figure.canvas.draw()
    renderer, (block,) = figure.canvas.get_renderer(), drawing.blocks
    texts = [row.facts.rest for row in block.rows] + list(figure.texts)
    texts += [words.rest for words in block.bars.words]
    texts += [text for row in block.rows for text in row.axes.texts]
    for row in block.rows:
        texts += [label for label in row.axes.get_yticklabels() if label.get_text()]
    boxes = {
        id(text): text.get_window_extent(renderer) for text in texts if text.get_text().strip()
    }
    found = list(boxes.values())
    for place, box in enumerate(found):
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
        assert not any(box.overlaps(other) for other in found[place + 1 :])


def test_the_size_is_fixed(result: Any) -> None:
    figure, _ = draw(result)
    size = figure.get_size_inches()
    assert size[1] > new_figure().get_figheight()
    assert list(new_figure(Stack(y_label="")).get_size_inches()) == list(size)


def test_its_words_have_the_numbers(result: Any) -> None:
    text = describe(result)
    for words in (
        "memory, volumes of 64 MiB", "2 workers delivered 10 of 10, 1 a second",
        "peak 500 MiB of 900 MiB", "8 workers delivered 0 to 2 of 10, out of memory in 2 of 2",
    ):  # fmt: skip
        assert words in text
    assert "not measured" in describe_of_nothing(result)


def describe_of_nothing(result: Any) -> str:
    result.events, result.summary = [], summarise(SETTINGS, [])
    return describe(result)


def test_live_frames_show_what_there_is(run: Any) -> None:
    picture, sizes = LivePicture(run), set()
    for count in (0, 3, 12, 30, len(run.waiting)):
        snapshot = fold(run.settings, 3, run.waiting[:count], now=50.0, traced=True)
        sizes.add(Image.open(io.BytesIO(picture.frame(snapshot))).size)
    assert sizes == {(1650, 960)}


def test_a_running_attempt_already_has_its_lane(run: Any) -> None:
    snapshot = fold(run.settings, 3, run.waiting[:12], now=50.0, traced=True)
    lane = lanes_of(from_snapshot(run.settings, snapshot))[0]
    assert lane.moments
    assert lane.attempts == 0
    assert lane.rate is not None


def elsewhere(events: list[Event]) -> list[Event]:
    """The same as psutil would have told it."""
    return [
        replace(e, body=replace(e.body, source="psutil", shared_memory=0))
        if isinstance(e.body, MemorySampled) else e
        for e in events
    ]  # fmt: skip


@pytest.mark.parametrize("read", ["smaps", "psutil"])
def test_a_look_into_one_setting_says_what_its_memory_is(read: str, run: Any) -> None:
    run.events = whole_run() if read == "smaps" else elsewhere(whole_run())
    box = SettingBox(lambda: None)
    box.follow(run)
    box.refresh()
    assert "<summary>What the memory numbers mean</summary>" in box.meaning.value
    assert (MEMORY_SOURCES["psutil"] in box.meaning.value) == (read == "psutil")
    opened = box.meaning.value
    box.setting.value = SETTINGS[1]
    box.refresh()
    box.round.value = 1
    box.refresh()
    assert box.meaning.value is opened, "a list that a reader has opened stays open"
    trace = trace_events(SETTINGS, run.events).of(SETTINGS[0].key)[0]
    figure = new_figure()
    draw_trace(figure, SETTINGS[0], 0, trace)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    what = "anonymous PSS" if read == "smaps" else "private, by psutil: none in flight is seen"
    assert f"memory by process (MiB, {what})" in titles


def screen(settings: Any, snapshot: Any) -> str:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=130)
    console.print(render("Lab", settings, snapshot))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_terminal_shows_memory_against_its_limit(run: Any) -> None:
    before = screen(run.settings, fold(run.settings, 3, run.waiting[:1], now=0.0))
    assert "8 workers: up to 2.34 GiB, limit 900 MiB: this will not fit" in before
    assert "up to 2.34 GiB of 900 MiB" in before
    at_work = fold(run.settings, 3, run.waiting[:12], now=50.0)
    assert at_work.memory[SETTINGS[0].key] == Held(now=500 * MIB, peak=500 * MIB)
    assert "500 MiB of 900 MiB" in screen(run.settings, at_work)
    after = screen(run.settings, fold(run.settings, 3, run.waiting, now=50.0))
    assert "peak 891 MiB of 900 MiB" in after
    assert "will not fit" not in after


def test_plain_lines_begin_with_what_will_not_fit(run: Any) -> None:
    from rich.console import Console

    from labkit.view.terminal import watch

    console = Console(file=io.StringIO(), force_terminal=False)
    watch(run, console, poll_seconds=0)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert lines[0].endswith("limit 900 MiB: this will not fit")
    assert any("samples/s, peak 500 MiB of 900 MiB" in line for line in lines)


def test_the_table_tells_prediction_limit_and_delivery(result: Any) -> None:
    from labkit.view.table import result_table

    table = result_table(result.summary)
    assert table.header[-3:] == ("predicted", "limit", "delivered")
    assert table.rows[0][-3:] == ("400 MiB to 600 MiB", "900 MiB", "10 of 10")
    assert table.rows[1][-1] == "0 of 10"
