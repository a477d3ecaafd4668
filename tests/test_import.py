"""What importing labkit brings along."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "module",
    [
        *("labkit", "labkit.cli", "labkit.datasets", "labkit.experiments.worker_plateau"),
        *("labkit.machine.environment", "labkit.measure", "labkit.measure.warden", "data_gen"),
    ],
)
def test_importing_does_not_import_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch is there' if 'torch' in sys.modules else 0)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr


def test_importing_leaves_the_start_method_open() -> None:
    code = (
        "import multiprocessing as m, tempfile;"
        "from labkit.machine.environment import read_environment as read;"
        "read(tempfile.gettempdir(), load_seconds=0);"
        "assert m.get_start_method(allow_none=True) is None; m.set_start_method('spawn')"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
