"""`labkit.ranks` on two hosts, made of two network namespaces that a veth pair joins."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import labkit
from labkit.events import BatchLoaded
from labkit.measure import processes
from labkit.measure.store import RunFolder, read_events
from labkit.records import Outcome, Status

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

_PORT = 29533
"""Free in a namespace of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A network namespace with one address."""

    name: str
    space: str
    interface: str
    address: str


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    """Two hosts that reach each other, and nobody else."""
    mark = f"lk{os.getpid()}"
    pair = tuple(
        Host(name=name, space=f"{mark}{name}", interface=f"{mark}{end}", address=f"10.77.0.{end}")
        for end, name in ((1, "alpha"), (2, "beta"))
    )
    try:
        for host in pair:
            ip("netns", "add", host.space)
        ip("link", "add", pair[0].interface, "netns", pair[0].space, "type", "veth",
           "peer", "name", pair[1].interface, "netns", pair[1].space)  # fmt: skip
        for host in pair:
            ip("-n", host.space, "addr", "add", f"{host.address}/24", "dev", host.interface)
            ip("-n", host.space, "link", "set", "lo", "up")
            ip("-n", host.space, "link", "set", host.interface, "up")
    except (OSError, subprocess.CalledProcessError) as error:
        for host in pair if shutil.which("ip") else ():
            subprocess.run(["ip", "netns", "del", host.space], check=False, capture_output=True)
        reason = f"no network namespaces here ({getattr(error, 'stderr', '') or error})"
        if os.environ.get("LABKIT_REQUIRE_NETNS"):
            pytest.fail(f"{reason}, and LABKIT_REQUIRE_NETNS is set")
        pytest.skip(reason)
    yield pair[0], pair[1]
    for host in pair:
        ip("netns", "del", host.space)


def launch(host: Host, first: Host, out: Path, *arguments: str) -> subprocess.Popen[str]:
    """Torchrun on one host, as a reader starts it there; one rank on each."""
    command = [
        "ip", "netns", "exec", host.space, sys.executable, "-m", "torch.distributed.run",
        "--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d",
        "--rdzv-endpoint", f"{first.address}:{_PORT}", "--rdzv-id", "two",
        # Both share a host name and so cannot tell by themselves whose the endpoint is.
        "--rdzv-conf", f"is_host={str(host is first).lower()}", "--local-addr", host.address,
        "-m", "labkit.ranks", "--out", str(out), "--host-name", host.name, "--size", "small",
        "--timeout", "60", *arguments,
    ]  # fmt: skip
    # A host that is lost leaves its temporary folder behind: here it is gone with the test's own.
    environment = os.environ | {"GLOO_SOCKET_IFNAME": host.interface, "TMPDIR": str(out.parent)}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.netns
def test_two_hosts_make_one_run(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    first, second = hosts
    elsewhere = tmp_path / "not shared"  # only rank 0 writes into the folder that it was given
    started = [
        launch(first, first, tmp_path / "run", "--workers", "0,1"),
        launch(second, first, elsewhere, "--workers", "0,1"),
    ]
    told = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0, 0], told
    assert "labkit show" in told[0][0]
    assert not elsewhere.exists()
    result = labkit.load(tmp_path / "run")
    assert result.status is Status.COMPLETED, result.detail
    assert [item.setting.label for item in result.summary] == ["2 x 0", "2 x 1"]
    for item in result.summary:
        assert len(item.rates) == 3
        for trial in item.trials:
            assert trial.ranks is not None
            assert trial.ranks.hosts == ("alpha", "beta")
            assert trial.ranks.workers == (item.setting["workers"],) * 2
            assert len(set(trial.ranks.steps)) == 1
    verdicts = {each.claim: each for each in result.verdicts}
    assert verdicts["K28"].outcome is Outcome.REPRODUCED


@pytest.mark.netns
def test_the_loss_of_a_host_is_told(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    first, _ = hosts
    run = tmp_path / "run"
    long = ("--workers", "1", "--repeats", "1", "--param", "steps=10000")
    started = [launch(host, first, run, *long) for host in hosts]
    try:
        deadline = time.monotonic() + 90
        while sum(isinstance(e.body, BatchLoaded) for e in read_events(RunFolder(run))) < 5:
            assert time.monotonic() < deadline, "no batch came"
            assert started[0].poll() is None, started[0].communicate()
            time.sleep(0.1)
        lost = started[1].pid
        processes.kill_all([lost, *processes.descendants(lost)])
        _, said = started[0].communicate(timeout=90)
        assert started[0].returncode == 1
    finally:
        for process in started:
            processes.kill_all(processes.descendants(process.pid))
            process.kill()
            process.communicate()
    result = labkit.load(run)
    assert result.status is Status.FAILED
    assert result.detail.startswith("host beta was lost after step "), result.detail
    assert "of trial 000-0 (2 x 1)" in result.detail
    assert result.detail in said
    assert result.summary.settings[0].trials[0].batches >= 5, "what was measured stays"


def test_it_says_how_it_is_started() -> None:
    asked = [sys.executable, "-m", "labkit.ranks", "--out", "x"]
    ended = subprocess.run(asked, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "started by torchrun" in ended.stderr
