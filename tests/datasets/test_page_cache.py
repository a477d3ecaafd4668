"""Files leave the page cache when they are dropped from it, and stay as they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from labkit.datasets.page_cache import drop_page_cache

SIZE = 8 << 20


def read_from_device(path: Path) -> int:
    """Bytes that reading the file took from the disk, by the kernel's count for this process."""
    def counted() -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("read_bytes")))

    before = counted()
    assert len(path.read_bytes()) == SIZE
    return counted() - before


@pytest.mark.limits
@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the kernel counts in /proc")
def test_dropped_files_come_from_the_disk(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "volume"
    file.parent.mkdir()
    file.write_bytes(os.urandom(SIZE))
    assert drop_page_cache(tmp_path)
    assert read_from_device(file) > SIZE // 2
    assert read_from_device(file) < SIZE // 2, "the second time from the cache"


def test_systems_without_the_request_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    assert not drop_page_cache(tmp_path)
