"""Cores and memory from made-up trees of control groups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from labkit.machine.cores import affinity_cores, logical_cores, quota_cores, usable_cores
from labkit.machine.memory_limit import memory_left_bytes, memory_limit_bytes

GIB = 1 << 30
Tree = Callable[..., Path]


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


V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    "33 32 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "34 32 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)
V1_OWN = "5:memory:/a/b\n4:cpu,cpuacct:/a/b\n1:name=systemd:/a/b\n"
V1_UNLIMITED = "9223372036854771712\n"


def test_version_2_takes_the_lowest_quota_up_to_the_root(tree: Tree) -> None:
    files = {
        "a/b/cpu.max": "max 100000\n",
        "a/cpu.max": "150000 100000\n",
        "cpu.max": "400000 100000",
    }
    assert quota_cores(tree("0::/a/b\n", V2, files)) == 1.5


def test_version_2_in_a_container_that_sees_only_its_own_group(tree: Tree) -> None:
    files = {"cpu.max": "50000 100000\n", "memory.max": f"{GIB}\n"}
    root = tree("0::/\n", V2, files)
    assert quota_cores(root) == 0.5
    assert memory_limit_bytes(root) == GIB


def test_version_2_memory(tree: Tree) -> None:
    files = {
        "a/b/memory.max": "max\n",
        "a/b/memory.current": f"{GIB}\n",
        "a/memory.max": f"{4 * GIB}\n",
        "a/memory.current": f"{3 * GIB}\n",
        "a/memory.stat": f"anon 5\ninactive_file {2 * GIB}\nactive_file 7\n",
    }
    root = tree("0::/a/b\n", V2, files)
    assert memory_limit_bytes(root) == 4 * GIB
    assert memory_left_bytes(root) == 3 * GIB


def test_version_1_takes_the_lowest_quota_up_to_the_root(tree: Tree) -> None:
    files = {
        "cpu,cpuacct/a/b/cpu.cfs_quota_us": "-1\n",
        "cpu,cpuacct/a/b/cpu.cfs_period_us": "100000\n",
        "cpu,cpuacct/a/cpu.cfs_quota_us": "300000\n",
        "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
    }
    assert quota_cores(tree(V1_OWN, V1, files)) == 3


def test_version_1_memory(tree: Tree) -> None:
    files = {
        "memory/a/b/memory.limit_in_bytes": f"{2 * GIB}\n",
        "memory/a/b/memory.usage_in_bytes": f"{GIB}\n",
        "memory/a/b/memory.stat": f"cache 1\ntotal_inactive_file {GIB // 2}\n",
        "memory/a/memory.limit_in_bytes": V1_UNLIMITED,
        "memory/a/memory.usage_in_bytes": f"{3 * GIB}\n",
    }
    root = tree(V1_OWN, V1, files)
    assert memory_limit_bytes(root) == 2 * GIB
    assert memory_left_bytes(root) == GIB + GIB // 2


def test_version_1_in_a_container_without_a_namespace(tree: Tree) -> None:
    """The path is the host's; the mount shows only the container's part of it."""
    mounts = "34 32 0:31 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    files = {"memory/memory.limit_in_bytes": f"{GIB}\n"}
    assert memory_limit_bytes(tree("5:memory:/docker/abc\n", mounts, files)) == GIB


def test_both_versions_side_by_side(tree: Tree) -> None:
    mounts = V1 + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    files = {
        "memory/a/b/memory.limit_in_bytes": f"{3 * GIB}\n",
        "unified/u/memory.max": f"{2 * GIB}\n",
    }
    assert memory_limit_bytes(tree(f"{V1_OWN}0::/u\n", mounts, files)) == 2 * GIB


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"cpu.max": "max 100000", "memory.max": "max"},
        {"cpu.max": "", "memory.max": ""},
        {"cpu.max": "much", "memory.max": "-3"},
        {"cpu.max": "100000 0", "memory.max": "lots"},
    ],
)
def test_no_limit(tree: Tree, files: dict[str, str]) -> None:
    root = tree("0::/\n", V2, files)
    assert quota_cores(root) is None
    assert memory_limit_bytes(root) is None
    assert memory_left_bytes(root) is None


def test_a_system_without_control_groups(tmp_path: Path) -> None:
    assert quota_cores(tmp_path) is None
    assert memory_limit_bytes(tmp_path) is None


def test_a_path_that_leaves_the_namespace_means_the_mount_itself(tree: Tree) -> None:
    assert memory_limit_bytes(tree("0::/../x\n", V2, {"memory.max": f"{GIB}\n"})) == GIB


@pytest.mark.parametrize(
    ("affinity", "quota", "logical", "usable"),
    [(8, None, 8, 8), (2, None, 8, 2), (8, 1.5, 8, 2), (8, 0.2, 8, 1), (4, 6.0, 8, 4)],
)
def test_usable_is_the_lowest(
    affinity: int, quota: float | None, logical: int, usable: int
) -> None:
    assert usable_cores(affinity=affinity, quota=quota, logical=logical) == usable


def test_this_machine_has_cores() -> None:
    assert 1 <= affinity_cores() <= logical_cores()
