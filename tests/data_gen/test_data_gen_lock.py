"""FileLock: one holder, nothing left behind."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from data_gen.lock import FileLock


def test_second_holder_has_to_wait(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with FileLock(path).acquire():
        assert not FileLock(path).try_acquire()
        with pytest.raises(InterruptedError):
            FileLock(path).acquire(cancel=lambda: True)
    assert not path.exists()
    other = FileLock(path)
    assert other.try_acquire()
    other.release()
    other.release()


def test_never_two_at_a_time(tmp_path: Path) -> None:
    inside: list[int] = []
    seen: list[int] = []

    def hold() -> None:
        for _ in range(30):
            with FileLock(tmp_path / "lock").acquire(poll_seconds=0.0005):
                inside.append(1)
                seen.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=hold) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 120
    assert list(tmp_path.iterdir()) == []


def test_folder_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileLock(tmp_path / "nowhere" / "lock").try_acquire()
