"""What the trial process counts in a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from labkit.measure.trial import count_bytes, count_samples


@pytest.mark.parametrize(
    ("batch", "samples", "num_bytes"),
    [
        (torch.zeros(4, 3, dtype=torch.float32), 4, 48),
        ([torch.zeros(2, 8, dtype=torch.uint8), torch.zeros(2)], 2, 24),
        ({"image": torch.zeros(5, 2), "name": ["a"] * 5}, 5, 40),
        ((np.zeros((3, 2), np.int16), "label"), 3, 12),
        (["one", "two"], 2, 0),
        (torch.tensor(1.0), 1, 4),
        ("text", 1, 0),
    ],
)
def test_counts(batch: Any, samples: int, num_bytes: int) -> None:
    assert count_samples(batch) == samples
    assert count_bytes(batch) == num_bytes
