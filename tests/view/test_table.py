"""Rows, plain text and HTML of a result."""

from __future__ import annotations

import html
import io
from typing import Any

from rich.console import Console

from labkit.events import (
    MEMORY_DEFINITIONS,
    MEMORY_SOURCES,
    Event,
    MemorySampled,
    ProcessMemory,
)
from labkit.view.table import result_table, stage_table, to_html, to_text, verdict_line
from labkit.view.terminal import print_result


def test_a_row_per_setting(result: Any) -> None:
    table = result_table(result.summary)
    assert [row[:2] for row in table.rows] == [
        ("cpu", "0 workers"), ("cpu", "2 workers"),
        ("waiting", "0 workers"), ("waiting", "2 workers (timed out)"),
    ]  # fmt: skip
    assert [row[2].split()[0] for row in table.rows] == ["100", "200", "50", "400"]
    assert all(len(row) == len(table.header) for row in table.rows)


def test_stages_are_milliseconds_per_sample(result: Any) -> None:
    table = stage_table(result.summary)
    assert table is not None
    assert table.rows[0] == ("cpu", "0 workers", "1.00", "2.00", "3.00", "4.00")


def test_what_was_not_reached_is_a_dash(make_run: Any) -> None:
    empty = make_run().result()
    assert all(set(row[2:]) == {"-"} for row in result_table(empty.summary).rows)
    assert stage_table(empty.summary) is None


def test_text_is_aligned(result: Any) -> None:
    first = to_text(result).split("\n\n")[0].splitlines()
    assert len({line.index("workers") for line in first[1:]}) == 1
    assert len(first) == 5


def test_html_is_escaped_and_holds_everything(result: Any) -> None:
    text = to_html(result)
    assert "<b>" not in text
    assert "&lt;too many&gt; workers" in text
    assert text.count("<tr>") == 10
    assert "K7 (cpu) reproduced: 2 against 0 workers: ratio 2.0" in text


def test_a_verdict_tells_its_reasons(result: Any) -> None:
    assert verdict_line(result.verdicts[0]).endswith("Reasons: few rounds.")


def sampled(source: str, t: float) -> Event:
    own = ProcessMemory(pid=7, role="main", rss=3, pss=2, anonymous=1, private=1)
    body = MemorySampled(processes=(own,), shared_memory=5, cache=0, source=source)
    return Event(trial="000-0", host="here", rank=0, t=t, body=body)


def test_memory_says_what_it_means_to_pointers_and_to_keyboards(result: Any) -> None:
    assert "What the memory numbers mean" not in to_html(result), "no memory was sampled"
    result.events = [*result.events, sampled("smaps", 4.1)]
    text = to_html(result)
    assert f'title="{MEMORY_DEFINITIONS["total"]}">peak memory</th>' in text
    details = text.partition("<details>")[2].partition("</details>")[0]
    for name in ("total", "pss", "anonymous", "shared_memory", "private", "cache"):
        assert html.escape(MEMORY_DEFINITIONS[name]) in details
    assert "psutil" not in text
    assert "psutil" not in to_text(result), "what is exact needs no label"


def test_memory_that_psutil_read_says_so_without_being_opened(result: Any) -> None:
    result.events = [*result.events, sampled("psutil", 4.1), sampled("psutil", 4.2)]
    weak = MEMORY_SOURCES["psutil"]
    assert to_html(result).partition("<details>")[0].count(weak) == 1
    assert to_text(result).count(weak) == 1
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=300, no_color=True)
        print_result(result, console)
        assert isinstance(console.file, io.StringIO)
        assert console.file.getvalue().count(weak) == 1
