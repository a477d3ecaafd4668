"""The notebook's view without a browser: what is displayed, and what the widgets hold."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from labkit.errors import MeasureError, ParameterError
from labkit.view import choose, live_box, notebook
from labkit.view.controls import Control


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

    monkeypatch.setattr(notebook, "display", display)
    for name in ("_POLL_SECONDS", "_TEXT_SECONDS", "_PICTURE_SECONDS"):
        monkeypatch.setattr(live_box, name, 0)
    return found


def test_a_watched_run_leaves_picture_sentence_and_table(make_run: Any, shown: list[Any]) -> None:
    seconds = notebook.watch_in_notebook(make_run())
    box, picture, table = shown
    assert box.layout.display == "none"
    assert picture.data["text/plain"].startswith("K7 holds")
    assert picture.metadata["image/png"]["alt"].startswith("Samples per second")
    assert set(table.data) == {"text/html", "text/plain"}
    assert seconds > 0


def test_the_live_picture_is_a_jpeg(make_run: Any, shown: list[Any]) -> None:
    live = live_box.LiveBox("hint")
    run = make_run()
    run.poll()
    run.portion = 20
    live.follow(run)
    assert bytes(live.image.value).startswith(b"\xff\xd8")
    assert live.bar.value == 1.0
    assert "it was ended" in live.status.value


def test_an_interrupt_takes_the_live_picture_away(make_run: Any, shown: list[Any]) -> None:
    run = make_run()
    run.failure = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        notebook.watch_in_notebook(run)
    assert [box.layout.display for box in shown] == ["none"]


def panel_over(run: Any, given: list[Any]) -> notebook.Panel:
    def start(params: Any) -> Any:
        given.append(dict(params))
        return run

    return notebook.Panel(start, run.experiment)


def test_a_panel_runs_and_fills_the_cell_it_was_shown_in(make_run: Any, shown: list[Any]) -> None:
    given: list[Any] = []
    panel = panel_over(make_run(), given)
    panel._ipython_display_()
    panel.run_button.click()
    result = panel.wait(30)
    assert result is not None
    assert result.painter_seconds > 0
    assert given == [{"wait_ms": 2.5, "layout": "files"}]
    assert "image/png" in shown[1].data
    assert not panel.run_button.disabled
    assert panel.stop_button.disabled


def test_stop_reaches_the_run(make_run: Any, shown: list[Any]) -> None:
    run = make_run()
    run.portion = 0  # it goes on until it is stopped
    panel = panel_over(run, [])
    panel.run()
    with pytest.raises(MeasureError, match="still runs"):
        panel.wait(0.01)
    panel.stop_button.click()
    assert run.stopped
    run.portion = 1000
    assert panel.wait(30) is not None


def test_an_error_in_the_thread_is_shown_and_raised_by_wait(
    make_run: Any, shown: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run()
    run.failure = RuntimeError("<broken>")
    panel = panel_over(run, [])
    panel.run()
    with pytest.raises(RuntimeError, match="broken"):
        panel.wait(30)
    assert run.stopped
    assert "&lt;broken&gt;" in panel.message.value
    assert capsys.readouterr() == ("", "")


def test_a_wrong_value_starts_nothing(make_run: Any, shown: list[Any]) -> None:
    given: list[Any] = []
    panel = panel_over(make_run(), given)
    panel._controls[0].widget.value = "0, -1"
    panel.run()
    assert not given
    assert "outside the range" in panel.message.value
    with pytest.raises(ParameterError):
        panel.wait()


@pytest.mark.parametrize(
    ("place", "text", "value"),
    [(0, "0, 2,2", (0, 2)), (0, "4", (4,)), (0, " ", None), (1, "3", 3.0), (2, "lmdb", "lmdb")],
)
def test_controls_give_checked_values(experiment: Any, place: int, text: str, value: Any) -> None:
    control = Control(experiment.params[place])
    control.widget.value = text
    assert control.value() == value


@pytest.mark.parametrize(("place", "text"), [(0, "many"), (1, "1, 2"), (1, "11")])
def test_controls_refuse_the_rest(experiment: Any, place: int, text: str) -> None:
    control = Control(experiment.params[place])
    control.widget.value = text
    with pytest.raises(ParameterError):
        control.value()


def test_outside_a_kernel_the_terminal_is_chosen() -> None:
    assert not choose.in_notebook()
    assert choose.watch_here() is not notebook.watch_in_notebook


def test_a_panel_says_before_run_what_it_will_take(make_run: Any, shown: list[Any]) -> None:
    def outlook(params: Any) -> str:
        return f"{params['wait_ms']:g} at once, <much>"

    experiment = make_run().experiment
    panel = notebook.Panel(lambda params: make_run(), experiment, outlook)
    (wait,) = [each.widget for each in panel._controls if each.param.name == "wait_ms"]
    wait.value = "7"
    assert panel.before.value == "7 at once, &lt;much&gt;"
    wait.value = "seven"
    assert "wait_ms=seven" in panel.before.value
    assert panel.before in panel.box.children
