"""The terminal's view: live with control codes, or plain lines."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from labkit.view.fold import fold
from labkit.view.status import progress, status_line
from labkit.view.terminal import print_result, watch


def console(*, terminal: bool, width: int = 100) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=width)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_plain_lines_without_a_terminal(make_run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    screen = console(terminal=False)
    watch(make_run(), screen, poll_seconds=0)
    lines = text_of(screen).splitlines()
    assert "\x1b" not in text_of(screen)
    assert lines[0] == "measuring 8 trials"
    assert "round 1, cpu, 2 workers: 200 samples/s" in lines
    assert sum(line.startswith("round ") for line in lines) == 7
    assert "waiting 2 workers, round 2 timed_out: it was ended" in lines
    assert lines[-1] == "done"
    assert capsys.readouterr() == ("", "")


def test_a_live_table_in_a_terminal(make_run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    screen = console(terminal=True)
    seconds = watch(make_run(), screen, poll_seconds=0)
    assert "\x1b[" in text_of(screen)
    assert "A fake lab" in text_of(screen)
    assert "timed out" in text_of(screen)
    assert seconds > 0
    assert capsys.readouterr() == ("", "")


def test_a_second_view_begins_with_what_the_first_has_seen(make_run: Any) -> None:
    run = make_run()
    run.poll()
    run.poll()
    screen = console(terminal=False)
    watch(run, screen, poll_seconds=0)
    assert text_of(screen).count("round 1, cpu, 0 workers") == 1


def test_the_status_line_tells_the_time_left(make_run: Any, events: Any) -> None:
    run = make_run()
    found = fold(run.settings, run.trials_total, events[:-1], now=0.0)
    at_half = replace(found, trials_done=4, seconds_left=65.4)
    assert status_line(at_half) == "measured 4 of 8 trials, about 1 min 05 s left"
    assert progress(at_half) == (4, 8)
    preparing = fold(run.settings, run.trials_total, events[:3], now=0.0)
    assert status_line(preparing) == "preparing data: 512 B of 2 KiB"
    assert progress(preparing) == (512, 2048)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_result_is_printed_whole(result: Any, terminal: bool) -> None:
    screen = console(terminal=terminal, width=120)
    print_result(result, screen)
    text = text_of(screen)
    assert "<b>" in text  # words of others are never read as markup
    for word in ("hand-over", "first batch", "few rounds", "A library warned: <too many>"):
        assert word in text


def test_a_narrow_terminal_gets_the_main_columns(result: Any) -> None:
    screen = console(terminal=True, width=80)
    print_result(result, screen)
    assert "first batch" not in text_of(screen)
    assert "peak memory" in text_of(screen)
