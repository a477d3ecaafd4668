"""Texts between ranks, as tensors of bytes: torch's own object collectives would unpickle them.

It must not be used while something is measured.
"""

from __future__ import annotations


def gather_texts(text: str) -> list[str]:
    """One text of every rank, in their order, on rank 0; empty on the others."""
    import torch
    import torch.distributed as dist

    data = text.encode()
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, torch.tensor([len(data)]))
    lengths = [int(size) for size in sizes]
    padded = _padded(data, max(1, *lengths))
    parts = [torch.empty_like(padded) for _ in lengths] if dist.get_rank() == 0 else None
    dist.gather(padded, parts, dst=0)
    return [
        bytes(part[:length].tolist()).decode()
        for part, length in zip(parts or [], lengths, strict=False)
    ]


def broadcast_text(text: str) -> str:
    """The text of rank 0, on every rank."""
    import torch
    import torch.distributed as dist

    length = torch.tensor([len(text.encode())])
    dist.broadcast(length, src=0)
    data = text.encode() if dist.get_rank() == 0 else b""
    padded = _padded(data, int(length))
    dist.broadcast(padded, src=0)
    return bytes(padded.tolist()).decode()


def _padded(data: bytes, size: int):  # type: ignore[no-untyped-def]  # torch is not imported here
    import torch

    return torch.frombuffer(bytearray(data.ljust(size, b"\0")), dtype=torch.uint8)
