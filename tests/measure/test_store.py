"""Run folders: whole lines only, batched flushes, clear errors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from labkit.errors import StoreError
from labkit.events import Event, MemorySampled, ProcessMemory, WarningCaught, from_line, to_line
from labkit.measure.store import EventTail, EventWriter, RunFolder, create_run, read_events


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return create_run(tmp_path, "lab", {"name": "lab"})


def test_plan_round_trip(folder: RunFolder) -> None:
    assert folder.read_plan()["name"] == "lab"


def test_two_runs_in_one_second_get_two_folders(tmp_path: Path) -> None:
    paths = {create_run(tmp_path, "lab", {}).path for _ in range(3)}
    assert len(paths) == 3


def test_a_later_format_is_refused(folder: RunFolder) -> None:
    folder.plan.write_text(json.dumps({"format": 99}))
    with pytest.raises(StoreError, match="newer labkit"):
        folder.read_plan()


def test_a_folder_without_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no readable plan\.json"):
        RunFolder(tmp_path).read_plan()


def test_an_unwritable_root_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="LABKIT_HOME"):
        create_run(tmp_path / "file", "lab", {})


def test_writes_wait_until_50_ms_have_passed(folder: RunFolder) -> None:
    now = [0.0]
    writer = EventWriter(folder, clock=lambda: now[0])
    now[0] = 0.02
    writer.write("a", WarningCaught(message="one"))
    assert read_events(folder) == []
    now[0] = 0.06
    writer.write("a", WarningCaught(message="two"))
    assert [event.body for event in read_events(folder)] == [
        WarningCaught(message="one"),
        WarningCaught(message="two"),
    ]
    writer.close()


def test_tail_gives_each_event_once_and_waits_for_whole_lines(folder: RunFolder) -> None:
    tail = EventTail(folder)
    line = to_line(Event(trial="t", host="h", rank=0, t=1.0, body=WarningCaught(message="é")))
    file = folder.events / "h-0.jsonl"
    data = line.encode()
    file.write_bytes(data + data[:20])
    assert len(tail.read()) == 1
    with open(file, "ab") as stream:
        stream.write(data[20:])
    assert len(tail.read()) == 1
    assert tail.read() == []


def test_events_of_several_processes_are_in_the_order_of_time(folder: RunFolder) -> None:
    for rank, t in ((0, 2.0), (1, 1.0)):
        event = Event(trial="t", host="h", rank=rank, t=t, body=WarningCaught(message=""))
        (folder.events / f"h-{rank}.jsonl").write_text(to_line(event))
    assert [event.rank for event in read_events(folder)] == [1, 0]


def test_unknown_kinds_and_fields_of_a_later_labkit_do_no_harm() -> None:
    event = Event(trial="t", host="h", rank=0, t=1.0, body=WarningCaught(message="m"))
    raw = json.loads(to_line(event))
    raw["body"]["later"] = 1
    assert from_line(json.dumps(raw)) == event
    raw["kind"] = "Later"
    assert from_line(json.dumps(raw)) is None


def test_nested_records_come_back() -> None:
    process = ProcessMemory(pid=1, role="main", rss=4, pss=3, anonymous=2, private=1)
    body = MemorySampled(processes=(process,), shared_memory=5, cache=0, source="smaps")
    event = Event(trial="t", host="h", rank=0, t=1.0, body=body)
    assert from_line(to_line(event)) == event
    assert body.total == 7


def test_writer_names_its_process(folder: RunFolder) -> None:
    with EventWriter(folder, what="warden") as writer:
        writer.write("", WarningCaught(message=str(os.getpid())))
    assert [path.name.endswith("-0-warden.jsonl") for path in folder.events.iterdir()] == [True]


def test_a_run_that_has_not_begun_has_no_events(tmp_path: Path) -> None:
    assert read_events(RunFolder(tmp_path / "nothing")) == []
