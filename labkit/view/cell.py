"""The outputs of a notebook's cell: what stays in the saved file, and whose cell it is.

It must not know widgets: what it displays is static.
"""

from __future__ import annotations

import html
from typing import Any, Protocol

import IPython
import IPython.display

from labkit.view.picture import picture_of
from labkit.view.run_protocol import ResultLike
from labkit.view.table import to_html
from labkit.view.text import result_text

_NOTHING = {"text/plain": ""}

display: Any = IPython.display.display  # published without types


class Closable(Protocol):
    """Whatever lives in a cell."""

    def close(self) -> None:
        """Another takes its place."""


_owners: dict[str, Closable] = {}
"""Who lives in which cell of this kernel's notebooks, by the cell's id."""


def take_cell(owner: Closable) -> None:
    """Live in the cell that is running; whoever lived there is closed.

    Front ends that do not tell which cell they run (terminals, nbclient) keep all.
    """
    cell = running_cell()
    if cell is None:
        return
    before = _owners.get(cell)
    if before is not None and before is not owner:
        before.close()
    _owners[cell] = owner


def running_cell() -> str | None:
    """The id of the cell that this kernel runs now; None where the front end sends none."""
    shell = IPython.get_ipython()
    if not hasattr(shell, "get_parent"):
        return None
    metadata = shell.get_parent().get("metadata", {})
    found = metadata.get("cellId")
    return found if isinstance(found, str) else None


def execution() -> int | None:
    """Number of the execution that goes on in this kernel; None outside of one."""
    shell = IPython.get_ipython()
    return getattr(shell, "execution_count", None)


class Record:
    """The outputs of a cell that stay in the saved notebook: made at once, filled at the end."""

    def __init__(self) -> None:
        self._picture = display(_NOTHING, raw=True, display_id=True)
        self._table = display(_NOTHING, raw=True, display_id=True)

    def fill(self, result: ResultLike) -> None:
        """Picture, then sentence, table and verdicts; again for another run."""
        picture = picture_of(result)
        data, metadata = picture.bundle()
        self._picture.update(data, metadata=metadata, raw=True)
        # JupyterLab keeps the picture's alt text in the file, but gives it to no screen reader.
        words = f"<details><summary>The picture in words</summary>{html.escape(picture.alt)}"
        table = {
            "text/html": f"{to_html(result)}\n{words}</details>",
            "text/plain": result_text(result),
        }
        self._table.update(table, raw=True)
