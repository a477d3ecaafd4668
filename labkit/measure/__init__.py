"""Runs trials in child processes, watches and stores them, and sums them up.

It times any iterable: it must not know `labkit.datasets` or `labkit.experiments`, and importing
it must not import torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def instrument(
    dataset: Any, collate_fn: Callable[[Any], Any] | None = None
) -> tuple[Any, Callable[[Any], Any]]:
    """Make a dataset and its collate function stamp what each batch costs.

    Args:
        dataset: a map-style or iterable torch Dataset; its `transform` attribute, if it has one,
            is timed apart from the rest of ``__getitem__``. The dataset itself is not altered.
        collate_fn: how samples become a batch; torch's default when None.

    Returns:
        The dataset and the collate function to give to ``DataLoader``. The stamps travel with the
        batch, and `labkit.run` takes them off again before the consumer's step sees the batch.
    """
    # Imported here because the module below needs torch, and the kernel must not import it.
    from labkit.measure.stamps import stamped

    return stamped(dataset, collate_fn)
