"""Starts the ranks of one launch through torchrun's own launcher, and tells who failed.

Run as ``python -m labkit.measure.rank_launcher RUN FOLDER RANKS PARENT``. This is ``torchrun``
with a rendezvous on a loopback port that the system chooses; all that is added is that it ends
with the warden, and writes which rank ended how, which torchrun only prints.
"""

from __future__ import annotations

import sys
from pathlib import Path

from labkit.measure.processes import die_with_parent
from labkit.measure.store import write_json

FAILURES = "failures.json"
_LOOPBACK = "127.0.0.1"


def main() -> None:
    """Start the ranks and wait for their end."""
    run, folder, ranks, parent = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    die_with_parent(parent)
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    try:
        torchrun([
            "--nnodes", "1", "--nproc-per-node", ranks, "--max-restarts", "0",
            # Port 0: the system gives a free one, so that no two launches can race for it.
            "--rdzv-backend", "c10d", "--rdzv-endpoint", f"{_LOOPBACK}:0",
            "--rdzv-conf", "is_host=true", "--rdzv-id", folder.parent.parent.name,
            "--local-addr", _LOOPBACK,  # the host's own name need not resolve
            "-m", "labkit.measure.rank_trial", run, str(folder),
        ])  # fmt: skip
    except ChildFailedError as error:
        told = {rank: failure.exitcode for rank, failure in error.failures.items()}
        write_json(folder / FAILURES, told)
        sys.exit(1)


if __name__ == "__main__":
    main()
