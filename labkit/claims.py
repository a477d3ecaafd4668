"""The claims ledger as data: what the article says, and by which numbers labkit decides.

Frozen records only: it must not judge and must not do I/O.
"""

from __future__ import annotations

from dataclasses import dataclass

from labkit.errors import ParameterError


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement that a measurement can settle."""

    id: str
    statement: str
    """What the article says, in our words."""
    lab: tuple[str, ...]
    """Experiments that measure it."""
    threshold: float | None
    """The claim holds when the whole interval lies beyond this; None: decided by counts or not yet
    settled by a lab."""
    margin: float | None
    """It fails when the whole interval lies on the other side of this (equivalence margin)."""
    pairs: str
    """What is compared, named before the run."""


LEDGER: tuple[Claim, ...] = (
    Claim("K7", "As many workers as CPU cores is not the best setting.",
          ("worker_plateau",), 1.05, 1.05,
          "per story: the best other number of workers, chosen on the other rounds, against the"
          " usable cores; ratio of rates"),
    Claim("K8", "More workers can make loading slower.",
          ("worker_plateau", "tiny_dataset", "rank_oversubscription"), 0.95, 0.95,
          "4 x usable cores against usable cores (CPU-bound, waiting); 1 worker against 0"
          " (CPU-bound, tiny data); ratio of rates"),
    Claim("K10", "A heavy transform can be the bottleneck.",
          ("worker_plateau",), 0.5, 0.5,
          "share of the transform in the time to build a sample without workers"),
)  # fmt: skip


def claim(name: str) -> Claim:
    """The claim of an id such as ``K7``.

    Raises:
        ParameterError: there is none of that id.
    """
    for entry in LEDGER:
        if entry.id == name:
            return entry
    raise ParameterError(
        asked=f"the claim {name!r}",
        found="the ledger has none of that id",
        do=f"use {LEDGER[0].id} to {LEDGER[-1].id}",
    )
