"""Backends: arrays and kernels on the processor, and on a GPU where there is one."""

import importlib
import multiprocessing
import os
import pickle
import sys
import threading
import time
import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numba import njit
from numpy.testing import assert_array_equal

from l5kit.data.device_log import DEVICE_AGENT_DTYPE
from l5kit.device.backend import Backend
from l5kit.device.opening import open_backend
from l5kit.device.processor import ProcessorBackend, _loop_of
from l5kit.errors import InvalidArgumentError, MissingDependencyError


class Pair(NamedTuple):
    """An array and a number."""

    array: Any
    number: float


NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU that torch sees")
DEVICES = ["cpu", pytest.param("cuda", marks=NO_GPU)]


@pytest.fixture(params=DEVICES)
def backend(request: pytest.FixtureRequest) -> Backend:
    return open_backend(request.param)


@njit
def _mix(item: int, arguments: tuple[Any, ...]) -> None:
    """Write a product and a sum that a fused operation would round once only."""
    (a, b), found, factor, is_on = arguments
    if is_on:
        found[item] = a[item] * factor + b[item]


@njit
def _read_records(item: int, arguments: tuple[Any, ...]) -> None:
    rows, found = arguments
    found[item, 0] = rows[item].centroid[1]
    found[item, 1] = rows[item].label_probabilities[3] + rows[item].extent[2] + np.float64(rows[item].track_id)


def test_kernels_round_products_and_sums(backend: Backend) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 1000))
    found = backend.empty(1000, np.float64)
    backend.run(_mix, 1000, tuple(backend.upload([a, b])), found, 1 / 3, True)
    assert_array_equal(backend.tensor(found).cpu().numpy(), a * (1 / 3) + b)


@njit
def _count_in_room(item: int, arguments: tuple[Any, ...]) -> None:
    """Write the sum of a row of scratch memory, filled with the item index, which other items in it would change."""
    room, found = arguments
    row = room[item % len(room)]
    for column in range(len(row)):
        row[column] = item
    found[item] = 0
    for column in range(len(row)):
        found[item] += row[column]


@pytest.mark.parametrize("num_items", [1, 63, 500, 10_000])
def test_threads_do_each_item_once_in_room_of_their_own(num_items: int) -> None:
    backend = open_backend("cpu", num_threads=3)
    for _ in range(3):
        room, found = np.zeros((backend.rows_at_once(num_items), 2000), np.int64), np.zeros(num_items, np.int64)
        backend.run(_count_in_room, num_items, room, found)
        assert_array_equal(found, 2000 * np.arange(num_items))


def test_few_items_are_done_by_the_calling_thread() -> None:
    backend = ProcessorBackend(3)
    seen: list[tuple[int, int, str]] = []

    def loop(first: int, step: int, _: int) -> None:
        seen.append((first, step, threading.current_thread().name))

    backend.run_loop(loop, 3 * 64 - 1)
    assert seen == [(0, 1, threading.current_thread().name)]
    seen.clear()
    backend.run_loop(loop, 3 * 64)
    assert sorted((first, step) for first, step, _ in seen) == [(0, 3), (1, 3), (2, 3)]
    others = {name for first, _, name in seen if first > 0}
    assert all(name.startswith("l5kit kernels") for name in others)


@pytest.mark.parametrize("failing", [0, 2])
def test_an_error_in_a_thread_is_raised_when_all_have_ended(failing: int) -> None:
    ended = []

    def loop(first: int, _step: int, _num_items: int) -> None:
        if first == failing:
            raise ZeroDivisionError(f"in thread {first}")
        time.sleep(0.05)
        ended.append(first)

    with pytest.raises(ZeroDivisionError, match=f"in thread {failing}"):
        ProcessorBackend(3).run_loop(loop, 1000)
    assert sorted(ended) == [first for first in range(3) if first != failing]


@pytest.mark.process
def test_copies_and_forked_processes_have_threads_of_their_own() -> None:
    backend, found = ProcessorBackend(2), np.zeros(1000, np.int64)
    backend.run(_count_in_room, 1000, np.zeros((2, 50), np.int64), found)
    for copy in (pickle.loads(pickle.dumps(backend)), deepcopy(backend)):
        again = np.zeros(1000, np.int64)
        copy.run(_count_in_room, 1000, np.zeros((2, 50), np.int64), again)
        assert copy.num_threads == 2
        assert_array_equal(again, found)
    if not hasattr(os, "fork"):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads
        process = multiprocessing.get_context("fork").Process(
            target=backend.run, args=(_count_in_room, 1000, np.zeros((2, 50), np.int64), np.zeros(1000, np.int64))
        )
        process.start()
    process.join(60)
    assert process.exitcode == 0


def test_nothing_runs_for_no_item(backend: Backend) -> None:
    found = backend.full(3, 7, np.float64)
    backend.run(_mix, 0, (found, found), found, 2.0, True)
    assert backend.tensor(found).cpu().tolist() == [7, 7, 7]


def test_loops_are_kept_on_disk_and_made_anew_with_their_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(expression: str) -> tuple[list[float], int]:
        """Return what a kernel of a file writes, and how many of its loops came from disk."""
        source = f"from numba import njit\n\n@njit(cache=True)\ndef write(item, arguments):\n    {expression}\n"
        (tmp_path / "kept_kernel.py").write_text(source)
        monkeypatch.delitem(sys.modules, "kept_kernel", raising=False)
        importlib.invalidate_caches()
        kernel, found = importlib.import_module("kept_kernel").write, np.zeros(3)
        open_backend("cpu").run(kernel, 3, found)
        loop: Any = _loop_of(kernel)
        return found.tolist(), sum(loop.stats.cache_hits.values())

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert run("arguments[0][item] = item + 1") == ([1, 2, 3], 0)
    assert run("arguments[0][item] = item + 1") == ([1, 2, 3], 1)
    assert run("arguments[0][item] = item + 2") == ([2, 3, 4], 0)


def test_shared_arrays_are_those_of_the_processor_or_copies(backend: Backend) -> None:
    parts = (Pair(np.arange(3), 2.5), (np.ones((2, 2)), 1))
    (first, factor), (second, number) = shared = backend.shared(parts)
    assert isinstance(shared[0], Pair)
    assert (factor, number) == (2.5, 1)
    assert backend.tensor(first).tolist() == [0, 1, 2]
    assert backend.tensor(second).tolist() == [[1, 1], [1, 1]]
    assert (first is parts[0].array) == backend.is_serial


def test_records_are_read(backend: Backend) -> None:
    rows = np.zeros(5, DEVICE_AGENT_DTYPE)
    rows["centroid"][:, 1], rows["track_id"], rows["label_probabilities"][:, 3] = np.arange(5), np.arange(5) + 10, 0.5
    rows["extent"][:, 2] = 0.25
    array, found = backend.empty(5, DEVICE_AGENT_DTYPE), backend.empty((5, 2), np.float64)
    backend.put(array, 0, rows[:2])
    backend.put(array, 2, rows[2:])
    backend.run(_read_records, 5, array, found)
    assert_array_equal(backend.tensor(found).cpu().numpy(), np.stack([np.arange(5), np.arange(5) + 10.75], axis=1))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int32, np.int64, np.float32, np.float64])
def test_arrays_come_back_as_they_were_sent(backend: Backend, dtype: type) -> None:
    arrays = [np.arange(12).reshape(3, 4).astype(dtype)[:, ::2], np.zeros((0, 2), dtype), np.ones((), dtype)]
    sent = backend.upload(arrays)
    arrays[0][:] = 0
    assert_array_equal(backend.tensor(sent[0]).cpu().numpy(), np.arange(12).reshape(3, 4)[:, ::2].astype(dtype))
    assert tuple(sent[1].shape) == (0, 2)
    assert backend.tensor(sent[2]).item() == 1
    assert backend.tensor(backend.zeros((2, 2), dtype)).sum().item() == 0


def test_tensors_and_arrays_share_memory(backend: Backend) -> None:
    tensor = torch.arange(6.0, device=backend.device, dtype=torch.float64)
    found = backend.array(tensor)
    backend.run(_mix, 6, (found, found), found, 1.0, True)
    backend.wait()
    assert tensor.cpu().tolist() == [0, 2, 4, 6, 8, 10]


def test_what_is_made_ahead_is_handed_over(backend: Backend) -> None:
    ready = backend.make_ahead(lambda: {"a": [torch.ones(3, device=backend.device) * 2], "b": 1})
    made = ready()
    assert made["b"] == 1
    assert made["a"][0].cpu().tolist() == [2, 2, 2]  # type: ignore[index]


@pytest.mark.parametrize("device", ["tpu", "cuda:", "cuda:x", "cpu:0", 3])
def test_devices_that_there_are_not_are_refused(device: object) -> None:
    with pytest.raises(InvalidArgumentError, match="device is '"):
        open_backend(device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there_is_told() -> None:
    with pytest.raises(MissingDependencyError, match="sees no GPU"):
        open_backend("cuda")


def test_another_gpu_than_the_current_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("is_available", True), ("device_count", 2), ("current_device", 0)):
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    with pytest.raises(InvalidArgumentError, match=r"'cuda:1', but the current GPU of torch is 0, .*set_device\(1\)"):
        open_backend("cuda:1")
    with pytest.raises(InvalidArgumentError, match="'cuda:2', but there are 2 GPUs"):
        open_backend("cuda:2")


@NO_GPU
def test_gpus_are_counted() -> None:
    with pytest.raises(InvalidArgumentError, match="counted from 0"):
        open_backend("cuda:99")
