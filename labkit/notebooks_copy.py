"""Gives the reader a copy of the notebooks and opens JupyterLab on it; it must not print."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from labkit.errors import StoreError

_MEMORY = ".labkit-notebooks.json"
"""Name to the checksum of what was copied: tells a reader's change from an older version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    """What became of each notebook; names are sorted."""

    copied: tuple[str, ...]
    """New in the folder."""
    updated: tuple[str, ...]
    """An older version, which the reader had not changed, was replaced."""
    kept: tuple[str, ...]
    """Changed by the reader (running and saving counts), and so left alone."""
    unchanged: tuple[str, ...]


def copy_notebooks(folder: str | os.PathLike[str]) -> CopyReport:
    """Copy the notebooks to `folder`, never over a file that the reader changed.

    Raises:
        StoreError: the folder cannot be made or written.
    """
    place = Path(folder)
    outcomes: dict[str, list[str]] = {"copied": [], "updated": [], "kept": [], "unchanged": []}
    try:
        place.mkdir(parents=True, exist_ok=True)
        known = _remembered(place)
        for name, content in sorted(_packaged()):
            outcome = _copy(place / name, content, known.get(name))
            outcomes[outcome].append(name)
            if outcome != "kept":
                known[name] = _checksum(content)
        _write(place / _MEMORY, json.dumps(known, indent=1).encode())
    except OSError as error:
        raise StoreError(
            asked=f"the notebooks in {place}",
            found=f"it cannot be written: {error.strerror or error}",
            do="name a folder of your own, as in `labkit lab my-labs`",
        ) from error
    return CopyReport(**{name: tuple(found) for name, found in outcomes.items()})


def start_jupyterlab(folder: str | os.PathLike[str], *, extra: Sequence[str] = ()) -> int:
    """Run JupyterLab on `folder` until it is closed; returns its exit code.

    Args:
        folder: what it shows; must exist.
        extra: more arguments for JupyterLab, such as ``--no-browser``.
    """
    command = [sys.executable, "-m", "jupyterlab", f"--notebook-dir={Path(folder).absolute()}"]
    # JupyterLab refuses to run as root unless told; in a container there is no other user.
    if sys.platform != "win32" and os.geteuid() == 0:
        command.append("--allow-root")
    with subprocess.Popen([*command, *extra]) as process:
        while True:
            # The terminal sends an interrupt to both; JupyterLab asks before it obeys.
            with contextlib.suppress(KeyboardInterrupt):
                return process.wait()


def _packaged() -> Iterator[tuple[str, bytes]]:
    """Name and content of each notebook: of the wheel, or of the repository it runs from."""
    inside = resources.files("labkit").joinpath("_notebooks")
    source = inside if inside.is_dir() else Path(__file__).parents[1] / "notebooks"
    for entry in source.iterdir():
        if entry.is_file() and entry.name.endswith((".ipynb", ".md")):
            yield entry.name, entry.read_bytes()


def _copy(target: Path, content: bytes, remembered: str | None) -> str:
    if not target.exists():
        _write(target, content)
        return "copied"
    present = _checksum(target.read_bytes())
    if present == _checksum(content):
        return "unchanged"
    if present != remembered:
        return "kept"
    _write(target, content)
    return "updated"


def _remembered(folder: Path) -> dict[str, str]:
    """Empty when the memory is missing or damaged: then nothing that differs is overwritten."""
    try:
        found = json.loads((folder / _MEMORY).read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all."""
    draft = path.with_name(f"{path.name}.part")
    draft.write_bytes(content)
    draft.replace(path)


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
