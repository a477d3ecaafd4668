"""Where this process stands in the trees of control groups; it must not read a limit.

Linux has two forms, which may be mounted side by side: version 1 with a tree per controller, and
version 2 with one tree for all. Docker, Kubernetes, Slurm and systemd each use one of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlGroup:
    """A control group that this process belongs to."""

    version: int
    """1 or 2."""
    folder: Path


def control_groups(controller: str, root: Path = Path("/")) -> tuple[ControlGroup, ...]:
    """The groups that bound this process, innermost first, up to the outermost visible one.

    A limit holds for all that is below it, so that each of them may be the one that counts.

    Args:
        controller: ``cpu`` or ``memory``.
        root: where ``proc`` and ``sys`` are found; tests give a made-up tree.

    Returns:
        Nothing on a system without control groups.
    """
    groups: list[ControlGroup] = []
    paths = _own_paths(_text(root / "proc/self/cgroup"))
    for line in _text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, system = before.split(), after.split()
        if len(fields) < 5 or len(system) < 3:
            continue
        name = controller if system[0] == "cgroup" and controller in system[2].split(",") else ""
        if (not name and system[0] != "cgroup2") or name not in paths:
            continue
        mounted, below = _unescape(fields[4]), _below(paths[name], _unescape(fields[3]))
        top = root / mounted.lstrip("/")
        version = 1 if name else 2
        for part in (below, *below.parents) if below.parts else (below,):
            groups.append(ControlGroup(version=version, folder=top / part))
    return tuple(groups)


def limits(
    controller: str, names: dict[int, str], root: Path = Path("/")
) -> list[tuple[ControlGroup, str]]:
    """The text of one file in each group that has it: `names` maps a version to its file name."""
    found = [
        (group, _text(group.folder / names[group.version]).strip())
        for group in control_groups(controller, root)
    ]
    return [(group, text) for group, text in found if text]


def _own_paths(text: str) -> dict[str, str]:
    """Controller to path from /proc/self/cgroup; version 2 has the controller ``""``."""
    paths: dict[str, str] = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for name in controllers.split(","):
            paths[name] = path
    return paths


def _below(path: str, mount_root: str) -> PurePosixPath:
    """The path below the mount point; empty where a container shows only its own part."""
    own, top = PurePosixPath(path), PurePosixPath(mount_root)
    if ".." in own.parts or not own.is_relative_to(top):
        return PurePosixPath()
    return own.relative_to(top)


def _unescape(text: str) -> str:
    r"""Mountinfo writes a space as ``\040``."""
    return text.replace(r"\040", " ")


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
