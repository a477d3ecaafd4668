"""The panel without a browser: what is displayed, and what the widgets hold."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from labkit.errors import MeasureError, ParameterError
from labkit.view import cell, choose, foresight, live_box, panel
from labkit.view.panel import Panel
from labkit.view.run_protocol import Preview


class Handle:
    """A display handle that remembers."""

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self.metadata: dict[str, Any] | None = None

    def update(self, data: Any, metadata: Any = None, *, raw: bool) -> None:
        assert raw
        self.data, self.metadata = data, metadata


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was displayed, in order; display from another thread fails."""
    found: list[Any] = []
    home = threading.current_thread()

    def display(item: Any, *, raw: bool = False, display_id: bool = False) -> Handle | None:
        assert threading.current_thread() is home
        handle = Handle() if display_id else None
        found.append(handle or item)
        return handle

    monkeypatch.setattr(cell, "display", display)
    monkeypatch.setattr(panel, "display", display)
    monkeypatch.setattr(panel, "in_notebook", lambda: True)
    monkeypatch.setattr(panel, "_SETTLE_SECONDS", 0)
    monkeypatch.setattr(foresight, "_QUIET_SECONDS", 0)
    for name in ("_POLL_SECONDS", "_ROUND_SECONDS"):
        monkeypatch.setattr(live_box, name, 0)
    return found


class FakeLab:
    """Starts one run that was made before, and remembers what it was asked."""

    default_size = "full"

    def __init__(self, run: Any) -> None:
        self.run = run
        self.given: list[Mapping[str, Any]] = []
        self.warnings: tuple[str, ...] = ()
        self.outlook = ""
        self.threads: set[str] = set()

    @property
    def experiment(self) -> Any:
        return self.run.experiment

    def defaults(self, size: str) -> Mapping[str, Any]:
        wait = 2.5 if size == "full" else 1.5
        return {"workers": None, "wait_ms": wait, "layout": "files"}

    def preview(self, values: Mapping[str, Any]) -> Preview:
        self.threads.add(threading.current_thread().name)
        return Preview(settings=4, rounds=values["repeats"], seconds=None,
                       missing_bytes=3 << 30, missing_seconds=12.0,
                       outlook=self.outlook, warnings=self.warnings)

    def start(self, values: Mapping[str, Any]) -> Any:
        self.given.append(dict(values))
        return self.run


@pytest.fixture
def lab(make_run: Any, shown: list[Any]) -> FakeLab:
    return FakeLab(make_run())


def test_a_watched_run_leaves_picture_sentence_and_table(lab: FakeLab, shown: list[Any]) -> None:
    seconds = Panel(lab).watch(lab.run)
    box, picture, table = shown
    assert box.layout.display is None
    assert picture.data["text/plain"].startswith("K7 holds")
    assert picture.metadata["image/png"]["alt"].startswith("Samples per second")
    assert set(table.data) == {"text/html", "text/plain"}
    for text in table.data.values():  # the same facts in both
        for fact in (lab.run.result().headline[:20], "hand-over", "few rounds", "too many"):
            assert fact in text
    assert seconds > 0


def test_controls_are_hidden_while_a_cell_blocks_and_live_afterwards(lab: FakeLab) -> None:
    shown_panel = Panel(lab, {"workers": (0, 2), "seed": 3})
    seen = []
    lab.run.at_poll = lambda: seen.append(
        (shown_panel.settings.layout.display, shown_panel.live.hint.value)
    )
    shown_panel.watch(lab.run)
    assert {display for display, _ in seen} == {"none"}
    assert all("■" in hint for _, hint in seen)
    assert shown_panel.settings.layout.display is None
    shown_panel.run()
    shown_panel.wait(30)
    (given,) = lab.given
    assert given["workers"] == (0, 2)
    assert given["seed"] == 3


def test_the_live_picture_is_a_jpeg(lab: FakeLab) -> None:
    live = live_box.LiveBox()
    lab.run.poll()
    lab.run.portion = 20
    live.follow(lab.run)
    assert bytes(live.image.value).startswith(b"\xff\xd8")
    assert live.bar.value == 1.0
    assert "it was ended" in live.status.value


def test_an_interrupt_takes_the_live_picture_away(lab: FakeLab) -> None:
    lab.run.failure = KeyboardInterrupt()
    broken = Panel(lab)
    with pytest.raises(KeyboardInterrupt):
        broken.watch(lab.run)
    assert broken.live.image.layout.display == "none"


def test_a_panel_runs_and_fills_the_cell_it_was_shown_in(lab: FakeLab, shown: list[Any]) -> None:
    own = Panel(lab)
    own._ipython_display_()
    own.run_button.click()
    result = own.wait(30)
    assert result is not None
    assert result.painter_seconds > 0
    assert lab.given == [{"wait_ms": 2.5, "layout": "files", "size": "full", "repeats": 5}]
    assert "image/png" in shown[1].data
    assert not own.run_button.disabled
    assert own.stop_button.disabled
    assert not any(field.disabled for field in own.controls.fields)


def test_the_result_can_be_shown_in_the_panel_itself(lab: FakeLab) -> None:
    own = Panel(lab)
    own.run()
    own.wait(30)
    assert own.live.image.layout.display == "none"
    own.live.here.value = True
    assert own.live.image.layout.display is None
    assert "K7" in own.live.words.value
    own.live.here.value = False
    assert own.live.image.layout.display == "none"


def test_one_setting_can_be_looked_into(lab: FakeLab) -> None:
    own = Panel(lab)
    own.run()
    own.wait(30)
    own.tabs.selected_index = 1
    first = bytes(own.looking.image.value)
    assert first.startswith(b"\xff\xd8")
    assert [label for label, _ in own.looking.setting.options][:2] == [
        "cpu, 0 workers", "cpu, 2 workers"
    ]  # fmt: skip
    own.looking.setting.value = own.looking.setting.options[3][1]
    own.looking.round.value = 1
    assert bytes(own.looking.image.value) != first
    assert "timed out" in own.looking.words.value


def test_stop_reaches_the_run(lab: FakeLab) -> None:
    lab.run.portion = 0  # it goes on until it is stopped
    own = Panel(lab)
    own.run()
    with pytest.raises(MeasureError, match="still runs"):
        own.wait(0.01)
    own.stop_button.click()
    lab.run.portion = 1000
    assert own.wait(30) is not None
    assert lab.run.stop_requested


def test_an_error_in_the_thread_is_shown_and_raised_by_wait(
    lab: FakeLab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.run.failure = RuntimeError("<broken>")
    own = Panel(lab)
    own.run()
    with pytest.raises(RuntimeError, match="broken"):
        own.wait(30)
    assert lab.run.stopped
    assert "&lt;broken&gt;" in own.message.value
    assert capsys.readouterr() == ("", "")


def test_a_wrong_value_starts_nothing(lab: FakeLab) -> None:
    own = Panel(lab)
    own.controls.own["workers"].field.value = "0, -1"
    own.foresight.wait(30)
    assert "outside the range" in own.foresight.words.value
    own.run()
    with pytest.raises(ParameterError):
        own.wait(30)
    assert not lab.given
    assert "outside the range" in own.message.value
    assert not own.run_button.disabled


def test_what_a_run_would_be_is_said_before(lab: FakeLab, shown: list[Any]) -> None:
    lab.warnings = ("8 workers: up to 25 GiB, limit 9 GiB: this will not fit",)
    lab.outlook = "8 workers: 9 processes"
    own = Panel(lab)
    own._ipython_display_()
    own.foresight.wait(30)
    words = own.foresight.words.value
    assert words.startswith("4 settings, 5 rounds")
    assert "3 GiB of data must be generated first: about 12 s" in words
    assert "<br>8 workers: 9 processes<br>" in words
    assert "⚠ 8 workers: up to 25 GiB" in words
    assert lab.threads == {"labkit-preview"}


def test_another_size_brings_its_defaults_but_keeps_what_was_changed(lab: FakeLab) -> None:
    own = Panel(lab)
    own.controls.own["workers"].field.value = "0, 4"
    own.controls.size.field.value = "small"
    values = own.controls.values()
    assert values["wait_ms"] == 1.5
    assert values["workers"] == (0, 4)
    assert values["repeats"] == lab.experiment.small_repeats


def test_a_cell_run_again_stops_the_run_of_its_panel(
    lab: FakeLab, shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell, "running_cell", lambda: "one")
    lab.run.portion = 0
    first, second = Panel(lab), Panel(lab)
    first._ipython_display_()
    first.run()
    second._ipython_display_()
    lab.run.portion = 1000
    assert first.wait(30) is not None
    assert lab.run.stop_requested
    assert not any(handle.data for handle in shown if isinstance(handle, Handle) and
                   "image/png" in handle.data)  # fmt: skip


def test_cells_without_a_name_keep_their_panels(lab: FakeLab) -> None:
    assert cell.running_cell() is None
    first, second = Panel(lab), Panel(lab)
    first._ipython_display_()
    second._ipython_display_()
    assert not first._stop_wanted


def test_a_terminal_is_told_what_a_panel_needs(
    lab: FakeLab, shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panel, "in_notebook", lambda: False)
    own = Panel(lab)
    own._ipython_display_()
    own.run()
    assert own.wait(30) is not None
    (box,) = shown  # what is displayed would be printed, the record by the panel's thread
    assert "labkit.run(...)" in repr(box)
    assert len(repr(box)) <= 110, "ipywidgets would cut it"


def test_outside_a_kernel_the_terminal_is_chosen(lab: FakeLab) -> None:
    assert not choose.in_notebook()
    assert not isinstance(getattr(choose.watch_here(lab, {}), "__self__", None), Panel)
