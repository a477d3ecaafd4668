"""A volume is made in constant memory, in every layout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from data_gen import LAYOUTS, Layout

ROOT = Path(__file__).resolve().parents[2]
# The peak is watched from a thread of the child; RssAnon leaves out file and shared pages.
CHILD = """
import sys, threading
from data_gen import DatasetSpec, build
def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))
peak, done = 0, threading.Event()
def watch():
    global peak
    while not done.wait(0.002):
        peak = max(peak, anonymous())
thread = threading.Thread(target=watch)
thread.start()
spec = DatasetSpec(kind="volumes", layout=sys.argv[1], count=1, shape=(128, 1024, 1024))
build(spec, sys.argv[2])
done.set()
thread.join()
print(peak >> 10)
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_256_mib_are_made_in_less_than_100(layout: Layout, tmp_path: Path) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc")
    result = subprocess.run(
        [sys.executable, "-c", CHILD, layout, os.fspath(tmp_path / "data")],
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert 10 < int(result.stdout) < 100
