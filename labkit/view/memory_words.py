"""What the numbers on memory mean and how far they are to be trusted, in words; pure.

The sentences are those of `labkit.events`: this says where they stand.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

from labkit.events import MEMORY_DEFINITIONS, MEMORY_SOURCES, Event, MemorySampled

EXACT = "smaps"
TIPS = {"peak memory": MEMORY_DEFINITIONS["total"]}
"""Tooltip of a table's column, by its header."""
_NAMES = {
    "total": "peak memory",
    "pss": "PSS",
    "anonymous": "anonymous",
    "shared_memory": "in flight",
    "private": "private",
    "cache": "page cache",
}
"""Numbers that a reader meets, as the figures call them."""


def weaknesses(samples: Iterable[MemorySampled]) -> list[str]:
    """A sentence for each way of reading, among those that were used, that is not exact."""
    used = dict.fromkeys(sample.source for sample in samples)
    return [MEMORY_SOURCES[name] for name in used if name in MEMORY_SOURCES and name != EXACT]


def memory_html(samples: Iterable[MemorySampled]) -> str:
    """What is weak about the numbers, to be seen, and a list of what they mean, to be opened.

    A tooltip alone is for who has a pointer; a list that opens is for keyboards and screen readers.

    Returns:
        Escaped HTML; empty when no memory was sampled.
    """
    found = list(samples)
    if not found:
        return ""
    weak = "".join(f"<p>{html.escape(text)}</p>" for text in weaknesses(found))
    items = "".join(
        f"<dt>{html.escape(name)}</dt><dd>{html.escape(MEMORY_DEFINITIONS[key])}</dd>"
        for key, name in _NAMES.items()
    )
    words = "What the memory numbers mean"
    return f"{weak}<details><summary>{words}</summary><dl>{items}</dl></details>"


def samples_of(events: Iterable[Event]) -> list[MemorySampled]:
    """The memory samples among a run's events."""
    return [event.body for event in events if isinstance(event.body, MemorySampled)]
