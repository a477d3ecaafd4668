"""Memory limits: version 2 and systemd on made-up trees and commands, what is here for real."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labkit.errors import MeasureError, ParameterError
from labkit.measure import limits, processes
from labkit.measure.groups import (
    TrialGroup,
    group_name,
    make_group,
    remove_dead_group,
    remove_dead_groups,
)
from labkit.measure.limits import Bound, GroupBound, ScopeBound, available_mechanism, open_bound
from labkit.records import MECHANISMS, WISHES, MemoryBudget

MIB, GIB = 1 << 20, 1 << 30
NAME = "labkit-20261201-101500-lab-003-1-12345-678"
Tree = Callable[[str, str, dict[str, str]], Path]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Writes /proc/self/cgroup, /proc/self/mountinfo and files below /sys/fs/cgroup."""

    def write(own: str, mounts: str, files: dict[str, str]) -> Path:
        paths = {"proc/self/cgroup": own, "proc/self/mountinfo": mounts}
        paths |= {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
        for name, text in paths.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


V1 = "34 32 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_version_1_sets_memory_and_swap_together(tree: Tree) -> None:
    # The kernel fills a new folder with its files; here the one that has swap is made before.
    files = {f"memory/a/{NAME}x/memory.memsw.limit_in_bytes": "1"}
    root = tree("4:memory:/a\n", V1, files)
    group = make_group(1, GIB, NAME, root)
    assert group == TrialGroup(version=1, folder=root / "sys/fs/cgroup/memory/a" / NAME)
    assert text(group.folder / "memory.limit_in_bytes") == str(GIB)
    assert make_group(1, GIB, NAME, root) is None, "a group is made once"


def test_version_2_below_the_own_group_when_that_was_delegated(tree: Tree) -> None:
    files = {"a/b/cgroup.subtree_control": "cpu memory\n", "a/b/memory.max": "max\n"}
    root = tree("0::/a/b\n", V2, files)
    group = make_group(2, GIB, NAME, root)
    assert group is not None
    assert group.folder == root / "sys/fs/cgroup/a/b" / NAME
    assert text(group.folder / "memory.max") == str(GIB)


# The own group has processes, so that it cannot pass on its controllers: its parent can.
BUSY = {"a/b/cgroup.controllers": "memory\n", "a/cgroup.subtree_control": "memory\n"}


def test_version_2_beside_the_own_group_when_that_is_busy(tree: Tree) -> None:
    root = tree("0::/a/b\n", V2, BUSY | {"a/b/memory.max": "max\n"})
    group = make_group(2, GIB, NAME, root)
    assert group is not None
    assert group.folder == root / "sys/fs/cgroup/a" / NAME


def test_version_2_never_leaves_an_outer_limit(tree: Tree) -> None:
    root = tree("0::/a/b\n", V2, BUSY | {"a/b/memory.max": f"{GIB}\n"})
    assert make_group(2, GIB, NAME, root) is None


def test_version_2_leaves_the_tree_of_systemd_to_systemd(tree: Tree) -> None:
    root = tree("0::/a/b\n", V2, BUSY | {"a/b/memory.max": "max\n"})
    (root / "run/systemd/system").mkdir(parents=True)
    assert make_group(2, GIB, NAME, root) is None


def test_no_control_groups(tmp_path: Path) -> None:
    assert make_group(1, GIB, NAME, tmp_path) is None
    assert make_group(2, GIB, NAME, tmp_path) is None


@pytest.mark.parametrize(
    ("version", "files", "cache"),
    [
        (1, {"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
             "memory.max_usage_in_bytes": "900\n",
             "memory.stat": "cache 1\nrss 2\ntotal_cache 300\ntotal_rss 500\ntotal_shmem 70\n"},
         230),
        (2, {"memory.events": "low 0\noom 4\noom_kill 3\noom_group_kill 0\n",
             "memory.peak": "900\n", "memory.stat": "anon 500\nfile 300\nshmem 70\n"}, 230),
    ],
)  # fmt: skip
def test_what_a_group_tells(
    version: int, files: dict[str, str], cache: int, tmp_path: Path
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "cgroup.procs").write_text("12\n34\n")
    group = TrialGroup(version=version, folder=tmp_path)
    assert (group.kills(), group.peak_bytes(), group.held_bytes()) == (3, 900, 570)
    assert group.cache_bytes() == cache
    assert group.members() == [12, 34]
    gone = TrialGroup(version=version, folder=tmp_path / "gone")
    assert (gone.kills(), gone.members()) == (0, [])
    assert gone.peak_bytes() is gone.held_bytes() is None


# Commands that do what systemd's do, as far as a caller can see.
RUN = """#!/bin/sh
echo "$@" >> {log}
for one; do case "$one" in -p|--) ;; MemoryMax=*) max=${{one#MemoryMax=}} ;; esac; done
while [ "$1" != -- ]; do shift; done; shift
case "$*" in *memory.max*) echo {answer} ;; *) exec "$@" ;; esac
"""
CTL = """#!/bin/sh
echo "$@" >> {log}
case "$*" in *show*) echo oom-kill ;; esac
"""


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """Puts the commands first on the path; returns the file that they write their arguments to."""

    def install(answer: str) -> Path:
        log = tmp_path / "log"
        for name, script in (("systemd-run", RUN), ("systemctl", CTL)):
            path = tmp_path / name
            path.write_text(script.format(log=log, answer=answer))
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return log

    limits._scopes_work.cache_clear()
    yield install
    limits._scopes_work.cache_clear()


def test_a_scope_is_asked_of_systemd(
    systemd: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = systemd("$max")
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    bound = open_bound(
        MemoryBudget(limit_bytes=GIB, mechanism="systemd scope"), "20261201-101500-lab", "003-1"
    )
    assert bound.cold_only
    done = subprocess.run([*bound.prefix, "echo", "inside"], capture_output=True, text=True)
    assert done.stdout == "inside\n"
    asked = log.read_text().splitlines()[-1]
    assert asked.startswith("--user --scope ")
    assert f"MemoryMax={GIB} -p MemorySwapMax=0" in asked
    assert "--unit=labkit-20261201-101500-lab-003-1-" in asked


@pytest.mark.parametrize("answer", ["max", ""])
def test_a_systemd_that_sets_no_limit_is_not_used(
    answer: str, systemd: Callable[[str], Path]
) -> None:
    systemd(answer)
    with pytest.raises(MeasureError, match="does not offer it"):
        open_bound(MemoryBudget(limit_bytes=GIB, mechanism="systemd scope"), "run", "000-0")


def test_a_scope_that_is_gone_is_asked_why(
    systemd: Callable[[str], Path], tree: Tree, tmp_path: Path
) -> None:
    log = systemd("$max")
    files = {f"user/{NAME}.scope/memory.events": "oom_kill 0\n"}
    root = tree("0::/user\n", V2, files)
    (root / "proc/77").mkdir()
    (root / "proc/77/cgroup").write_text("0::/session.scope\n")
    bound = ScopeBound(GIB, NAME, root)
    bound.started(77)
    assert bound.group is None, "it has not been moved yet"
    assert bound.kills() == 0
    (root / "proc/77/cgroup").write_text(f"0::/user/{NAME}.scope\n")
    assert bound.group is not None
    assert bound.kills() == 0
    (bound.group.folder / "memory.events").unlink()
    bound.group.folder.rmdir()
    assert bound.kills() == 1
    assert bound.close()
    assert f"reset-failed {NAME}.scope" in log.read_text()


def test_a_wish_must_be_a_mechanism_that_is_here() -> None:
    with pytest.raises(ParameterError, match="watchdog"):
        MemoryBudget(limit_bytes=GIB, mechanism="hope")
    with pytest.raises(MeasureError, match="job object"):
        open_bound(MemoryBudget(limit_bytes=GIB, mechanism="job object"), "run", "000-0")


def test_a_wish_for_a_kind_gets_the_strongest_of_that_kind() -> None:
    assert WISHES["kernel"] + WISHES["watchdog"] == WISHES["auto"] == MECHANISMS
    for wish, kind in (("watchdog", "watchdog"), ("auto", available_mechanism())):
        assert available_mechanism(wish) == kind
    if available_mechanism() == "watchdog":
        with pytest.raises(MeasureError, match="held by 'kernel'"):
            available_mechanism("kernel")
    else:
        assert available_mechanism("kernel") == available_mechanism()


def test_a_kernel_that_holds_nothing_is_no_watchdog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_scopes_work", lambda: False)
    budget = MemoryBudget(limit_bytes=GIB, mechanism="kernel")
    with pytest.raises(MeasureError) as told:
        open_bound(budget, "run", "000-0", root=tmp_path)
    assert (told.value.asked, told.value.do.split(",")[0]) == (
        "a memory budget held by 'kernel'", "ask for 'auto'"
    )  # fmt: skip


def test_the_watchdog_needs_nothing() -> None:
    bound = open_bound(MemoryBudget(limit_bytes=GIB, mechanism="watchdog"), "run", "000-0")
    assert (bound.mechanism, bound.prefix, bound.join, bound.group) == ("watchdog", (), None, None)
    assert bound.kills() == 0
    assert bound.close()


def test_auto_takes_what_this_machine_has_and_leaves_nothing() -> None:
    name = available_mechanism()
    bound = open_bound(MemoryBudget(limit_bytes=GIB), "run", "000-0")
    assert bound.mechanism == name
    assert bound.close()


# What follows is done for real, by the control groups that this machine has.


@pytest.fixture
def group_bound() -> Iterator[Bound]:
    """A control group of 256 MiB, of either version; skips, or fails where it is required."""
    for mechanism in ("control group v2", "control group v1"):
        try:
            budget = MemoryBudget(limit_bytes=256 * MIB, mechanism=mechanism)
            bound = open_bound(budget, "test", "000-0")
        except MeasureError:
            continue
        yield bound
        assert bound.close()
        return
    reason = "this user may not make a control group with a memory limit here"
    if os.environ.get("LABKIT_REQUIRE_LIMITS"):
        pytest.fail(f"{reason}, and LABKIT_REQUIRE_LIMITS is set")
    pytest.skip(reason)


EAT = "held = bytearray(b'x') * ({mib} << 20); print('done', flush=True); input()"


@pytest.mark.limits
@pytest.mark.slow
@pytest.mark.parametrize("forked", [False, True])
def test_the_kernel_kills_what_outgrows_its_group(group_bound: Bound, forked: bool) -> None:
    assert isinstance(group_bound, GroupBound)
    assert group_bound.group is not None
    prefix = () if forked else group_bound.prefix
    joins = f"open({str(group_bound.join)!r}, 'w').write('0')\n" if forked else ""
    for mib, output in ((64, b"done\n"), (512, b"")):
        command = [*prefix, sys.executable, "-c", joins + EAT.format(mib=mib)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == output
            if output:
                assert process.pid in group_bound.group.members()
                assert (group_bound.group.held_bytes() or 0) > mib * MIB
                assert group_bound.kills() == 0
            process.communicate()
    assert process.returncode == -9
    assert group_bound.kills() == 1
    assert 0.9 * 256 * MIB < (group_bound.group.peak_bytes() or 0) <= 256 * MIB


@pytest.mark.limits
@pytest.mark.slow
def test_only_groups_of_the_dead_are_removed(group_bound: Bound) -> None:
    """Ours is kept while we live; of a dead maker's, processes of its run are ended first."""
    mine = group_bound.group
    assert mine is not None
    remove_dead_groups()
    assert mine.folder.exists()
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    folder = mine.folder.with_name(f"labkit-run.1-000-0-{dead.pid}-1")
    group = TrialGroup(version=mine.version, folder=folder)
    folder.mkdir()
    sleeper = [sys.executable, "-c", "import time; time.sleep(100)"]
    join = ["/bin/sh", "-c", 'echo 0 > "$0" && exec "$@"', str(group.procs), *sleeper]

    def started(label: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(join, env=os.environ | {processes.LABEL: label})
        while child.pid not in group.members():
            time.sleep(0.01)
        return child

    stranger = started("another-run")
    assert not remove_dead_group(group), "somebody else is in it"
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()
    own = started("run.1")
    assert group.folder.name in remove_dead_groups()
    assert own.wait(10) == -9
    assert not folder.exists()


def test_a_name_tells_run_and_maker() -> None:
    name = group_name("2026-run/../x", "003-1")
    assert "/" not in name
    assert name.startswith("labkit-2026-run_.._x-003-1-")
    assert str(os.getpid()) in name


def test_other_names_are_left_alone(tmp_path: Path) -> None:
    for name in ("labkit-mine", "other-000-0-1-1"):
        (tmp_path / name).mkdir()
        assert not remove_dead_group(TrialGroup(version=1, folder=tmp_path / name))
        assert (tmp_path / name).exists()
