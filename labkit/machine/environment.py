"""Reads what this machine is into an `Environment`; it must not import torch or judge anything."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import platform
import shutil
import sys
import uuid
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from labkit.machine.cores import affinity_cores, logical_cores, quota_cores, usable_cores
from labkit.machine.folders import data_folder
from labkit.machine.load import load_cores
from labkit.machine.memory_limit import memory_left_bytes, memory_limit_bytes
from labkit.records import Environment

_SHARED_MEMORY = Path("/dev/shm")


def read_environment(
    folder: str | os.PathLike[str],
    *,
    load_seconds: float = 0.2,
    budget_mechanism: str = "none",
) -> Environment:
    """This machine, now.

    Args:
        folder: where datasets are kept, for the free space; it need not exist yet.
        load_seconds: how long the load by others is watched; the call takes this long.
        budget_mechanism: how memory budgets are enforced here, as the caller found out.
    """
    logical, affinity, quota = logical_cores(), affinity_cores(), quota_cores()
    memory, left = psutil.virtual_memory(), memory_left_bytes()
    shared = shutil.disk_usage(_SHARED_MEMORY) if _SHARED_MEMORY.is_dir() else None
    return Environment(
        machine_id=machine_id(),
        cpu=cpu_name(),
        logical_cores=logical,
        usable_cores=usable_cores(affinity=affinity, quota=quota, logical=logical),
        affinity_cores=affinity,
        quota_cores=quota,
        memory_total_bytes=memory.total,
        memory_available_bytes=memory.available if left is None else min(memory.available, left),
        memory_limit_bytes=memory_limit_bytes(),
        shm_total_bytes=shared.total if shared else None,
        shm_available_bytes=shared.free if shared else None,
        disk_available_bytes=free_bytes(Path(folder)),
        os=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        torch=installed_version("torch"),
        start_method=start_method(),
        load_cores=load_cores(load_seconds),
        budget_mechanism=budget_mechanism,
        labkit=installed_version("labkit"),
    )


def machine_id(folder: Path | None = None) -> str:
    """A random id, made once per installation and kept in `folder` (default: the data folder).

    It tells runs of one machine from those of another without saying anything about either. Where
    the folder cannot be written it is new with every call.
    """
    path = (folder or data_folder()) / "machine-id"
    fresh = uuid.uuid4().hex
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Linked into place whole: of two processes that start at once both read the same id.
        draft = path.with_name(f"{path.name}.{fresh}")
        draft.write_text(fresh)
        with contextlib.suppress(FileExistsError):
            os.rename(draft, path) if os.name == "nt" else os.link(draft, path)
        draft.unlink(missing_ok=True)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text().strip() or fresh
    return fresh


def cpu_name(root: Path = Path("/")) -> str:
    """The processor's model as the system names it; at the least its architecture."""
    with contextlib.suppress(OSError):
        for line in (root / "proc/cpuinfo").read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()


def free_bytes(folder: Path) -> int:
    """Free space where `folder` is or would be made."""
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    return shutil.disk_usage(place).free


def installed_version(package: str) -> str:
    """Read from the metadata, without importing the package; empty when it is absent."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def start_method() -> str:
    """How processes start unless told otherwise: fork, forkserver or spawn.

    `multiprocessing.get_start_method` would fix the default for good, so that the reader could no
    longer set it; hence it is asked only whether a choice was made already.
    """
    chosen = multiprocessing.get_start_method(allow_none=True)
    return chosen or default_start_method(sys.platform, sys.version_info[:2])


def default_start_method(system: str, python: tuple[int, int]) -> str:
    """Python's own default; 3.14 left fork for forkserver where that exists."""
    if system in ("win32", "darwin"):
        return "spawn"
    return "forkserver" if python >= (3, 14) else "fork"
