"""`python -m data_gen`: messages and exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import data_gen
from data_gen.__main__ import app

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_make_and_verify(tmp_path: Path) -> None:
    out = str(tmp_path / "data")
    code, text, _ = run(
        *("volumes", "--layout", "hdf5", "--count", "2", "--sample-size", "64KiB", "--out", out)
    )
    assert (code, "2 volumes" in text, "128.0 KiB" not in text) == (0, True, True)
    spec = data_gen.read_manifest(out).spec
    assert (spec.layout, spec.sample_bytes) == ("hdf5", 64 << 10)
    assert run("verify", out) == (0, f"{out}: whole\n", "")
    (tmp_path / "data" / "data.h5").unlink()
    assert run("verify", out) == (1, "data.h5: missing\n", "")


def test_shape_may_be_given(tmp_path: Path) -> None:
    out = str(tmp_path / "data")
    assert run("images", "--shape", "30x40", "--count", "3", "--seed", "5", "--out", out)[0] == 0
    spec = data_gen.read_manifest(out).spec
    assert (spec.shape, spec.seed, spec.layout) == ((30, 40), 5, "files")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["images", "--layout", "zarr"], "files, hdf5, lmdb"),
        (["images", "--count", "0"], "from 1 to"),
        (["images", "--sample-size", "big"], "1GiB"),
        (["images", "--shape", "3by4"], "375x500"),
        (["images", "--shape", "30x40", "--sample-size", "1KB"], "give one of them"),
        (["volumes", "--count", "1000000"], "free some space"),
    ],
)
def test_bad_input_ends_with_2(arguments: list[str], named: str, tmp_path: Path) -> None:
    code, text, errors = run(*arguments, "--out", str(tmp_path / "data"))
    assert (code, text) == (2, "")
    assert [line[:6].strip() for line in errors.splitlines()] == ["asked:", "found:", "do:"]
    assert named in errors
    assert list(tmp_path.iterdir()) == []


def test_unknown_kind_ends_with_2() -> None:
    assert run("frogs")[0] == 2


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_command_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    """A real process, interrupted while it writes."""
    out = os.fspath(tmp_path / "data")
    child = subprocess.Popen(
        [
            sys.executable,
            *["-m", "data_gen", "volumes", "--count", "40", "--sample-size", "64MiB", "--out"],
            out,
        ],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while not (tmp_path / ".data.partial" / "samples").exists():
            assert child.poll() is None
            time.sleep(0.005)
        child.send_signal(number)
        _, errors = child.communicate(timeout=30)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 130
    assert "nothing is left" in errors, errors
    assert list(tmp_path.iterdir()) == []
