"""Rows, plain text and HTML of a result."""

from __future__ import annotations

from typing import Any

from labkit.view.table import result_table, stage_table, to_html, to_text, verdict_line


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
