"""Dataset of the tests of shared batches; a module, so that spawned workers can import it."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from l5kit.dataset import collate, loader
from l5kit.dataset.sample_batch import SampleBatch, allocate_shared
from l5kit.errors import SampleError

PICTURE_SHAPE = (3, 500, 400)


class Pictures(Dataset[Any]):
    """Pictures filled with their index, with the memory and process that drew them.

    Args:
        length: Number of samples.
        broken: A sample that cannot be made.
        deadly: A sample that ends the worker.
    """

    def __init__(self, length: int = 160, *, broken: int | None = None, deadly: int | None = None) -> None:
        self.length = length
        self.broken = broken
        self.deadly = deadly

    def __len__(self) -> int:
        return self.length

    def __getitems__(self, indices: Sequence[int]) -> SampleBatch:
        if self.broken in indices:
            raise SampleError(f"sample {self.broken} is broken")
        if self.deadly in indices:
            os.kill(os.getpid(), signal.SIGKILL)
        image = allocate_shared((len(indices), *PICTURE_SHAPE), np.uint8).array
        image[:] = np.reshape(indices, (-1, 1, 1, 1))
        same = np.ones(len(indices), dtype=np.int64)
        num_fds = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        return SampleBatch(
            {
                "image": image,
                "index": np.array(indices),
                "address": same * image.__array_interface__["data"][0],
                "process": same * os.getpid(),
                "num_fds": same * num_fds,
            }
        )


def as_pair(samples: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Collate to a view of the pictures and their indices, as users do."""
    batch = collate(samples)
    return batch["image"][:, 1:, ::2], batch["index"]


def doubled(samples: Any) -> dict[str, torch.Tensor]:
    """Collate and compute."""
    batch = collate(samples)
    batch["image"] = batch["image"].float() * 2
    return batch


def lose_a_worker(by: str, strategy: str) -> None:
    """Print "survived" if batches outlive their killed worker.

    torch raises an error from the signal handler, wherever this process is, hence a separate process.
    """
    torch.multiprocessing.set_sharing_strategy(strategy)
    dataset = Pictures(deadly=21)
    if by == "loader":
        batches: Any = loader(dataset, 4, num_workers=2, multiprocessing_context="fork")
    else:
        batches = DataLoader(dataset, 4, num_workers=2, collate_fn=collate, multiprocessing_context="fork")
    kept = []
    try:
        for batch in batches:
            kept.append(batch)
    except (RuntimeError, ConnectionError):  # the latter, also of torch, if it asks for a descriptor just then
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the end of the other worker would raise the error again
        assert 1 <= len(kept) <= 5
        for batch in kept:
            assert (batch["image"] == batch["index"].reshape(-1, 1, 1, 1)).all()
        print("survived", flush=True)
    os._exit(0)


def iterate_until_killed() -> None:
    """Take batches for ever, and say when the first are there."""
    dataset = Pictures(100_000)
    batches = DataLoader(dataset, 4, num_workers=2, collate_fn=collate, multiprocessing_context="fork")
    for number, _ in enumerate(batches):
        if number == 5:
            print("running", flush=True)


if __name__ == "__main__":
    {"lose_a_worker": lose_a_worker, "iterate_until_killed": iterate_until_killed}[sys.argv[1]](*sys.argv[2:])
