"""Stamps: on unpatched torch, without altering what the reader gave."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from labkit.measure import instrument
from labkit.measure.stamps import StampedBatch


class Plain(Dataset[Any]):
    def __init__(self) -> None:
        self.transform = lambda value: value * 2

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.transform(torch.tensor([float(index)]))


class Batched(Plain):
    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        return [self[index] for index in indices]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.arange(10.0).reshape(10, 1) * 2)


@pytest.mark.parametrize("kind", [Plain, Batched, Stream])
def test_batches_are_what_they_would_be_and_carry_their_cost(kind: type[Any]) -> None:
    dataset = kind()
    stamped, collate = instrument(dataset)
    loader = DataLoader(stamped, batch_size=4, collate_fn=collate)
    batches: list[StampedBatch] = list(loader)
    for mine, theirs in zip(batches, DataLoader(dataset, batch_size=4), strict=True):
        assert torch.equal(mine.batch, theirs)
        assert mine.samples == len(theirs)
        assert mine.done > mine.started
        assert mine.fetch_seconds > 0
        assert mine.collate_seconds > 0
        assert (mine.transform_seconds > 0) == (kind is not Stream)


def test_the_readers_dataset_is_not_altered() -> None:
    dataset = Plain()
    transform = dataset.transform
    stamped, _ = instrument(dataset)
    assert stamped[0].value == dataset[0]
    assert dataset.transform is transform


def test_an_own_collate_function_is_used_and_batch_size_none_works() -> None:
    stamped, collate = instrument(Plain(), lambda samples: samples)
    first = next(iter(DataLoader(stamped, batch_size=3, collate_fn=collate)))
    assert isinstance(first.batch, list)
    single = next(iter(DataLoader(stamped, batch_size=None, collate_fn=collate)))
    assert single.samples == 1
    assert isinstance(single.batch, torch.Tensor)


def test_sampler_and_length_of_an_iterable_without_length() -> None:
    stamped, _ = instrument(Stream())
    with pytest.raises(TypeError):
        len(stamped)
