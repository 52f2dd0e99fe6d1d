"""Memory of batches is reused only when nobody refers to it any more."""

import multiprocessing
import os
import sys
import threading
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from l5kit.dataset.sample_batch import allocate_shared, default_allocator
from l5kit.rasterization.painter import RecycledMemory

SHAPE = (4, 512, 512)  # 1 MiB of bytes


def address_of(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_memory_comes_back_with_the_last_reference(dtype: Any) -> None:
    memory = RecycledMemory()
    array = memory.empty(SHAPE, dtype)
    assert (array.shape, array.dtype, array.flags.writeable) == (SHAPE, np.dtype(dtype), True)
    address, num_bytes = address_of(array), array.nbytes
    del array
    assert memory.num_free_bytes == num_bytes
    again = memory.empty(SHAPE, dtype)
    assert address_of(again) == address
    assert memory.num_free_bytes == 0


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(lambda array: array[1, 2:5, ::3], id="a view"),
        pytest.param(lambda array: array.reshape(-1)[7:8], id="a reshaped view"),
        pytest.param(lambda array: array.view(np.int8), id="as another type"),
        pytest.param(torch.from_numpy, id="a tensor"),
        pytest.param(lambda array: torch.from_numpy(array)[2].T, id="a view of a tensor"),
        pytest.param(lambda array: torch.from_numpy(array)[2].numpy(), id="an array of a tensor"),
        pytest.param(memoryview, id="a buffer"),
    ],
)
def test_memory_stays_while_anything_looks_at_it(look: Any) -> None:
    memory = RecycledMemory()
    array = memory.empty(SHAPE, np.uint8)
    array[:] = 5
    kept = look(array)
    del array
    assert memory.num_free_bytes == 0
    memory.empty(SHAPE, np.uint8)[:] = 9
    assert (np.asarray(kept) == 5).all()
    del kept
    assert memory.num_free_bytes == 2 * np.prod(SHAPE)


def test_small_arrays_are_plain_ones() -> None:
    memory = RecycledMemory()
    memory.empty((10, 10), np.float64)
    assert memory.num_free_bytes == 0


def test_no_more_is_kept_than_was_allowed_and_the_oldest_goes_first() -> None:
    memory = RecycledMemory(max_free_bytes=5 << 20)
    arrays = [memory.empty((size << 20,), np.uint8) for size in (1, 2, 3)]
    newest = address_of(arrays[2])
    while arrays:
        del arrays[0]
    assert memory.num_free_bytes == 5 << 20
    assert address_of(memory.empty((3 << 20,), np.uint8)) == newest


def test_threads_never_get_the_same_memory() -> None:
    memory, errors = RecycledMemory(), []

    def fill(value: int) -> None:
        for _ in range(200):
            array = memory.empty((1 << 20,), np.uint8)
            array[:: 1 << 12] = value
            if (array[:: 1 << 12] != value).any():
                errors.append(value)

    threads = [threading.Thread(target=fill, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert memory.num_free_bytes <= 4 * 2 << 20  # a thread has the next array before it drops the one before


def _free_bytes_in_child(memory: RecycledMemory, found: Any) -> None:
    found.put(memory.num_free_bytes)


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="fork is safe on Linux only")
def test_a_forked_process_starts_without_free_memory() -> None:
    memory = RecycledMemory()
    memory.empty(SHAPE, np.uint8)
    context = multiprocessing.get_context("fork")
    found = context.SimpleQueue()
    process = context.Process(target=_free_bytes_in_child, args=(memory, found))
    process.start()
    process.join()
    assert found.get() == 0
    assert memory.num_free_bytes == np.prod(SHAPE)


@pytest.mark.parametrize("shape", [(4, 512, 513), (2, 3)], ids=["large", "small"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_memory_of_workers(shape: Any, dtype: Any) -> None:
    array = allocate_shared(shape, dtype).array
    assert (array.shape, array.dtype, array.flags.c_contiguous) == (shape, np.dtype(dtype), True)
    array[:] = 7
    assert (array == 7).all()


class KindsOfMemory(Dataset[Any]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        return os.getpid(), default_allocator() is allocate_shared


@pytest.mark.long
@pytest.mark.process
def test_workers_of_a_loader_take_shared_memory_and_others_do_not() -> None:
    assert KindsOfMemory()[0] == (os.getpid(), False)
    for process, is_shared in DataLoader(KindsOfMemory(), batch_size=None, num_workers=1):
        assert (process != os.getpid(), is_shared) == (True, True)
