"""How fast data_gen is, as ratios within one run: the median of interleaved pairs.

It must not be run beside other work. Volumes in layout files are compared with the slower of
`dd bs=1M conv=fdatasync` of the same bytes and 500 MiB/s; images in layout files with JPEG
encoding and writing of the same arrays, ready in memory, on all usable cores (threads and
processes are both tried, the faster counts). Goal: 0.9 each.

    python benchmarks/data_gen_speed.py [volumes] [images] [--pairs 5] [--volume-size 1GiB]
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from data_gen import DEFAULT_SHAPES, DatasetSpec, build, images, shape_for
from data_gen.sizes import format_bytes, parse_bytes
from data_gen.writing import usable_cores

_CAP_BYTES_PER_SECOND = 500 << 20
_arrays: list[tuple[npt.NDArray[np.uint8], int]] = []


def seconds_of(action: Callable[[], object]) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def report(name: str, ratios: list[float], detail: str) -> None:
    """One line a comparison: the median, and all pairs."""
    pairs = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"{name}: ratio {statistics.median(ratios):.2f} (goal 0.90; pairs {pairs}); {detail}")


def compare_volumes(folder: Path, pairs: int, num_bytes: int) -> None:
    """Pairs of dd and build, each into a fresh file."""
    spec = DatasetSpec(
        kind="volumes", layout="files", count=1, shape=shape_for("volumes", num_bytes)
    )
    build(spec, folder / "source")
    source = folder / "source" / "samples" / "00000000.npy"
    copy = [shutil.which("dd") or "dd", f"if={source}", f"of={folder / 'copy'}", "bs=1M"]
    rates: list[tuple[float, float]] = []
    for number in range(pairs):
        target = folder / f"made{number}"
        actions: list[Callable[[], object]] = [
            lambda: subprocess.run([*copy, "conv=fdatasync"], check=True, capture_output=True),
            functools.partial(build, spec, target),
        ]
        order = (0, 1) if number % 2 == 0 else (1, 0)
        took = {which: seconds_of(actions[which]) for which in order}
        rates.append((spec.total_bytes / took[0], spec.total_bytes / took[1]))
        (folder / "copy").unlink()
        shutil.rmtree(target)
    ratios = [made / min(copied, _CAP_BYTES_PER_SECOND) for copied, made in rates]
    copied, made = (statistics.median(column) for column in zip(*rates, strict=True))
    report(
        f"volumes of {format_bytes(num_bytes)}",
        ratios,
        f"dd {format_bytes(copied)}/s, data_gen {format_bytes(made)}/s",
    )


def encode_range(job: tuple[Path, int, int]) -> None:
    """The plain way: encode and write arrays first ... stop - 1."""
    folder, first, stop = job
    for index in range(first, stop):
        array, quality = _arrays[index]
        Image.fromarray(array).save(folder / f"{index:08d}.jpg", quality=quality)


def encode_all(folder: Path, workers: int, processes: bool) -> None:
    """All arrays on so many threads or forked processes."""
    folder.mkdir()
    jobs = [(folder, first, min(first + 32, len(_arrays))) for first in range(0, len(_arrays), 32)]
    if processes:
        with multiprocessing.get_context("fork").Pool(workers) as pool:
            pool.map(encode_range, jobs, chunksize=1)
    else:
        with ThreadPoolExecutor(workers) as threads:
            list(threads.map(encode_range, jobs))


def compare_images(folder: Path, pairs: int, count: int) -> None:
    """Triples of threads, processes and build; the tiles are made anew in each build.

    Nothing is deleted before the end: ext4 skips recently deleted inodes one by one, which makes a
    new file cost 1 ms instead of 0.03 for seconds after thousands were deleted.
    """
    spec = DatasetSpec(kind="images", layout="files", count=count, shape=DEFAULT_SHAPES["images"])
    for index in range(count):
        array = np.ascontiguousarray(images.rgb(images.pixels(spec.shape, spec.seed, index)))
        _arrays.append((array, images.quality(spec.seed, index)))
    workers = usable_cores()
    ratios, rows = [], []
    for number in range(pairs):
        target = folder / f"images{number}"
        images.palette.cache_clear()
        actions: list[Callable[[], object]] = [
            functools.partial(encode_all, folder / f"threads{number}", workers, False),
            functools.partial(build, spec, target),
            functools.partial(encode_all, folder / f"processes{number}", workers, True),
        ]
        order = (0, 1, 2) if number % 2 == 0 else (2, 1, 0)
        took = {which: seconds_of(actions[which]) for which in order}
        ratios.append(min(took[0], took[2]) / took[1])
        rows.append([count / took[which] for which in range(3)])
    threads, made, processes = (statistics.median(column) for column in zip(*rows, strict=True))
    report(
        f"{count} images",
        ratios,
        f"threads {threads:.0f}/s, processes {processes:.0f}/s, data_gen {made:.0f}/s",
    )


def main() -> None:
    """Runs the comparisons that are asked for in a temporary folder of the current disk."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", choices=["volumes", "images"], default=[])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--volume-size", type=parse_bytes, default=1 << 30)
    # Fewer are made in a second, of which the tiles, made once, take 50 ms: 1,000 give about 0.80.
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--folder", type=Path, help="where to write; the temporary folder if none")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="data_gen_speed-") as name:
        if "volumes" in options.what or not options.what:
            compare_volumes(Path(name), options.pairs, options.volume_size)
            shutil.rmtree(Path(name) / "source")
        if "images" in options.what or not options.what:
            compare_images(Path(name), options.pairs, options.images)


if __name__ == "__main__":
    main()
