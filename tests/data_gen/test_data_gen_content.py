"""Content is a pure function of (seed, index), and looks like what it stands for."""

from __future__ import annotations

import io
import tempfile
import zlib

import numpy as np
import pytest
from PIL import Image

from data_gen import images, text, volumes


def volume(shape: tuple[int, int, int], seed: int, index: int, step: int) -> np.ndarray:
    phantom = volumes.Phantom(shape, seed, index)
    whole = np.zeros(shape, dtype=volumes.VOXEL)
    for first in range(0, shape[0], step):
        phantom.fill(whole[first : first + step], first)
    return whole


def test_bytes_never_change() -> None:
    """Whoever changes one of these raises GENERATOR_VERSION: cached datasets would lie."""
    found = (
        zlib.crc32(images.pixels((48, 64), 5, 7).astype("<u4").tobytes()),
        zlib.crc32(text.encode((300,), 5, 7)),
        zlib.crc32(volume((6, 40, 56), 5, 7, 6).tobytes()),
    )
    assert found == (GOLDEN_PIXELS, GOLDEN_TEXT, GOLDEN_VOXELS)


GOLDEN_PIXELS = 0x54E314A1
GOLDEN_TEXT = 0x37248D0C
GOLDEN_VOXELS = 0xA3DD2E36


def test_image_is_the_same_whatever_was_made_before() -> None:
    with tempfile.TemporaryFile(buffering=0) as scratch:
        first = images.encode((48, 64), 1, 9, scratch)
        larger = images.encode((200, 300), 1, 9, scratch)
        again = images.encode((48, 64), 1, 9, scratch)
        assert first == again != larger
        assert images.encode((48, 64), 2, 9, scratch) != first
    decoded = Image.open(io.BytesIO(first))
    assert (decoded.mode, decoded.size) == ("RGB", (64, 48))


def test_images_decode_at_the_cost_of_a_photo() -> None:
    """Bits per pixel decide the cost: photos of this size have 50-100 KB."""
    with tempfile.TemporaryFile(buffering=0) as scratch:
        lengths = [len(images.encode((375, 500), 0, index, scratch)) for index in range(12)]
    assert min(lengths) > 40_000
    assert max(lengths) < 110_000


def test_no_channel_overflows() -> None:
    for index in range(50):
        image = images.pixels((48, 64), 0, index)
        assert not (image >> 24).any()
    assert images.rgb(image).shape == (48, 64, 3)


@pytest.mark.parametrize("make", [images.label, volumes.label])
def test_all_labels_occur(make: object) -> None:
    assert {make(0, index) for index in range(200)} == set(range(10))  # type: ignore[operator]


def test_documents_follow_zipf_and_vary_in_length() -> None:
    documents = [text.encode((2000,), 0, index) for index in range(300)]
    lengths = np.array([len(document) for document in documents])
    assert np.median(lengths) == pytest.approx(2000, rel=0.2)
    assert lengths.max() > 5 * np.median(lengths) > 10 * lengths.min()
    words, counts = np.unique(b" ".join(documents).split(b" "), return_counts=True)
    ranked = np.sort(counts)[::-1]
    assert len(words) > 5000
    # Zipf: the tenth word is about (10 + 2.7) / (100 + 2.7) as rare as the hundredth.
    assert ranked[9] / ranked[99] == pytest.approx(102.7 / 12.7, rel=0.5)


def test_volume_is_the_same_in_slabs_of_any_thickness() -> None:
    shape = (10, 40, 56)
    whole = volume(shape, 1, 2, 10)
    assert np.array_equal(whole, volume(shape, 1, 2, 3))
    assert np.array_equal(whole, volume(shape, 1, 2, 1))
    assert not np.array_equal(whole, volume(shape, 1, 3, 10))
    assert not np.array_equal(whole, volume(shape, 2, 2, 10))


def test_volume_looks_like_a_scan() -> None:
    whole = volume((32, 128, 128), 0, 0, 32)
    assert whole.dtype == np.dtype("<i2")
    assert whole[:, 0, 0].mean() == pytest.approx(-1000, abs=40), "air in the corner"
    assert whole[:, 0, 0].std() == pytest.approx(30, rel=0.5), "noise"
    assert np.median(whole) > -100, "a body fills most of it"
    assert len(np.unique(whole[0] - whole[1])) > 50, "another noise in each plane"


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 3, 2), (5, 1, 7), (2, 9, 1)])
def test_thin_volumes_can_be_made(shape: tuple[int, int, int]) -> None:
    for index in range(20):
        assert volume(shape, 0, index, 1).shape == shape


def test_a_slab_has_8_mib_at_most() -> None:
    assert volumes.planes_per_slab((512, 1024, 1024)) == 4
    assert volumes.planes_per_slab((512, 4096, 4096)) == 1
    assert volumes.planes_per_slab((3, 16, 16)) == 3
