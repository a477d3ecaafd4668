"""The claims ledger as data: what the article says, and by which numbers labkit decides.

Frozen records only: it must not judge and must not do I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from labkit.errors import ParameterError
from labkit.records import Verdict


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One verdict of this machine, and the run that gave it."""

    verdict: Verdict
    experiment: str
    size: str
    """``full`` or ``small``: a small run shows that it works, and little of the truth."""
    measured: datetime
    run_path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A claim, with everything that this machine has to say about it."""

    claim: Claim
    told: tuple[Told, ...]
    missing: tuple[str, ...]
    """Labs of the claim that this labkit does not have yet."""
    unmeasured: tuple[str, ...]
    """Labs of the claim that have no whole run on this machine yet."""


LEDGER: tuple[Claim, ...] = (
    Claim("K1", "Without workers the main process loads the data, and training stops meanwhile.",
          ("kitchen",), None, None,
          "0 workers: batches that the consuming process built itself, and steps during which a"
          " batch was being built, counted"),
    Claim("K2", "Each worker is a process of its own that fetches, transforms and collates.",
          ("kitchen",), None, None,
          "process ids and worker ids of every batch, counted: batch k comes from worker k mod W"),
    Claim("K3", "Starting a worker process costs much, mostly the first time.",
          ("process_cost",), 1.25, 1.25,
          "first batch of the first epoch against that of the second; ratio of seconds"),
    Claim("K4", "The data of the parent is copied into the children.",
          ("process_cost",), 0.5, 0.5,
          "private memory of a worker after start per byte of the dataset, by start method"),
    Claim("K5", "Context switches cost little to medium.",
          ("process_cost", "rank_oversubscription"), 0.1, 0.1,
          "switches per sample times the cost of one, as a share of CPU time per sample"),
    Claim("K6", "Starting workers costs 30 to 50 % more on Windows than on Linux.",
          ("process_cost",), 1.5, 1.5,
          "spawn against this system's fastest start method, seconds to the first batch; ratio"),
    Claim("K7", "As many workers as CPU cores is not the best setting.",
          ("worker_plateau",), 1.05, 1.05,
          "per story: the best other number of workers, chosen on the other rounds, against the"
          " usable cores; ratio of rates"),
    Claim("K8", "More workers can make loading slower.",
          ("worker_plateau", "tiny_dataset", "rank_oversubscription"), 0.95, 0.95,
          "4 x usable cores against usable cores (CPU-bound, waiting); 1 worker against 0"
          " (CPU-bound, tiny data); ratio of rates"),
    Claim("K9", "A batch of high-resolution samples can take hundreds of megabytes.",
          ("heavy_volumes",), 100e6, 100e6,
          "bytes of one batch at batch size 1 and at the largest that fits"),
    # A third: without the transform loading would be 1.5 times as fast (Amdahl).
    Claim("K10", "A heavy transform can be the bottleneck.",
          ("worker_plateau",), 0.33, 0.33,
          "share of the transform in the time to build a sample without workers"),
    Claim("K11", "Random reads from NVMe are 100 times as fast as from a hard disk.",
          ("storage_layout",), 100.0, 100.0,
          "4 KB random reads, cold cache, one disk of each kind; ratio of rates"),
    Claim("K12", "8 cores, 8 workers and samples of 1 GB run out of memory.",
          ("heavy_volumes",), None, None,
          "8 workers under the article's memory limit, scaled: how every trial ended"),
    Claim("K13", "The same setting thrashed the disk and made training 70 % slower.",
          ("heavy_volumes",), 0.3, 0.3,
          "8 workers under a tight limit against the same without; ratio of finished samples/s"),
    Claim("K14", "The same setting with 2 workers instead of 8 was three times as fast.",
          ("heavy_volumes",), 3.0, 3.0,
          "2 workers against 8, finished samples over the seconds of the whole attempt; ratio"),
    Claim("K15", "Memory grows in training because workers do not free temporaries.",
          ("memory_growth",), 1.1, 1.1,
          "private memory of workers, last epoch against second: arrays, Python objects; ratio"),
    Claim("K16", "Memory grows by shared-memory leaks between pin_memory and workers.",
          ("memory_growth",), 1.1, 1.1,
          "shared memory at the end of the last epoch against the second, with pin_memory; ratio"),
    Claim("K17", "Memory grows because too many batches are prefetched.",
          ("memory_growth", "prefetch_pin"), 1.5, 1.5,
          "prefetch_factor 8 against 2, consumer held: shared memory; ratio"),
    Claim("K18", "Printing the resident memory of the main process finds memory problems.",
          ("memory_growth",), 0.9, 0.9,
          "RSS of the main process over what the whole tree holds, at the same held moment"),
    Claim("K19", "Start at 1 worker, add 1 or 2, stop when the gain is under 5 %.",
          ("tuning_rule",), 0.95, 0.95,
          "rate at the rule's choice over the best, chosen on the other rounds; ratio"),
    Claim("K20", "Light data wants half as many workers as cores.",
          ("tuning_rule",), 0.95, 0.95, "rule's choice over the best on the other rounds; ratio"),
    Claim("K21", "Ordinary images want 0.8 workers per core.",
          ("tuning_rule",), 0.95, 0.95, "rule's choice over the best on the other rounds; ratio"),
    Claim("K22", "Heavy 3D data wants 0.3 workers per core.",
          ("tuning_rule",), 0.95, 0.95, "rule's choice over the best on the other rounds; ratio"),
    Claim("K23", "prefetch_factor helps.",
          ("prefetch_pin",), 1.05, 1.05,
          "prefetch_factor 4 against 1, for steady and for uneven samples; ratio of rates"),
    Claim("K24", "Packing small files into HDF5 or LMDB helps.",
          ("storage_layout",), 1.05, 1.05,
          "each packed layout against loose files, cold and warm; ratio of rates"),
    Claim("K25", "Memory-mapped files take pressure off the disk.",
          ("storage_layout",), 0.95, 0.95,
          "mapped against read whole, for patches and for repeats: bytes from the device; ratio"),
    Claim("K26", "pin_memory speeds up the copy to the GPU.",
          ("prefetch_pin",), 1.05, 1.05, "pinned against pageable; ratio of copy rates"),
    Claim("K27", "The lower of 4 and the number of cores is a sane number of workers for a GPU.",
          ("tuning_rule",), 0.95, 0.95, "rule's choice over the best on the other rounds; ratio"),
    Claim("K28", "In distributed training each GPU has its own loader: 8 x 8 is 64 workers.",
          ("rank_oversubscription",), None, None, "processes of every rank, counted"),
    Claim("K29", "The total of workers may go up to CPUs x GPUs.",
          ("rank_oversubscription",), 0.95, 0.95,
          "usable cores workers per rank against their share per rank; ratio of rates"),
    Claim("K30", "Loading competes with NCCL for bandwidth.",
          ("rank_oversubscription",), 1.05, 1.05,
          "all-reduce seconds with workers loading against without, slowest rank; ratio"),
    Claim("K31", "get_worker_info, strace, perf and a minimal example find the cause.",
          ("detective",), None, None, "planted faults that the reader has found, counted"),
    Claim("K32", "Below 1000 samples no workers is best.",
          ("tiny_dataset",), 1.05, 1.05,
          "0 workers against the best other, on the other rounds, for 512 cheap and 512 slow"
          " samples; ratio of rates"),
    Claim("K33", "DALI in place of DataLoader gains 20 to 30 % in some image tasks.",
          ("other_loaders",), 1.2, 1.2, "DALI against the tuned DataLoader; ratio of rates"),
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
