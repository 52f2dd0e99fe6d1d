"""Kernels compile for a GPU, take no memory there, and round products and sums as the processor does."""

import queue
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock
from weakref import WeakValueDictionary

import pytest
import torch

from l5kit.dataset.device_samples import DeviceSamples
from l5kit.warmup.workloads import AGENT_BOX, AGENT_SEMANTIC, URBAN_DRIVER
from l5kit_bench.workplace import QUICK, Workplace, find_bench_files
from support.gpu_compiling import CompilingBackend, compiling_backend

KERNELS_OF_SAMPLES = {"_cut", "_trace", "_write_velocities"}
KERNELS_OF_RASTERS = {"_find_near", "_list_boxes_of_frame", "_order", "_paint_row", "_project"} | KERNELS_OF_SAMPLES
NUM_KERNELS_OF_VECTORS = 7

MOST_BYTES_OF_ARGUMENTS = 4096
"""More than these go only with newer drivers and GPUs."""


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[CompilingBackend]:
    # a log that another backend still holds is used where it is, and this one would compile nothing for it
    monkeypatch.setattr("l5kit.dataset.device_samples._HELD", WeakValueDictionary())
    with compiling_backend() as compiling:
        yield compiling


def bytes_of_arguments(assembly: str) -> int:
    """Return how many bytes of arguments a kernel takes; each lies at a multiple of its size."""
    entry = re.search(r"\.entry[^(]*\(([^)]*)\)", assembly)
    assert entry is not None
    num_bytes = 0
    for bits in re.findall(r"\.param \.[a-z]+(\d+)", entry[1]):
        size = int(bits) // 8
        num_bytes = -(-num_bytes // size) * size + size
    return num_bytes


def assert_compiled(backend: CompilingBackend, *, has_angles: bool = False) -> None:
    """Check what was compiled; sines and the like join products and sums wherever they are computed."""
    for name, assembly in backend.assembly.items():
        assert 8 < bytes_of_arguments(assembly) <= MOST_BYTES_OF_ARGUMENTS, name
        assert "malloc" not in assembly, name
        assert has_angles or "fma.rn" not in assembly, name


@pytest.mark.process  # numba-cuda asks the system for libraries
def test_kernels_are_not_compiled_when_they_are_linked(backend: CompilingBackend) -> None:
    """Whether they would be compiled with fused products and sums, whatever the earlier options of the compiler."""
    from l5kit.device.cuda import launcher_of
    from l5kit.rasterization.row_painting import _paint_row

    assert launcher_of(_paint_row).targetoptions["lto"] is False


@pytest.mark.process  # numba-cuda asks the system for libraries
def test_streams_of_cuda_are_used_again_and_two_at_once_differ(
    backend: CompilingBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after an error. The backend of the test is only for skipping where CUDA cannot be imported."""
    from l5kit.device import cuda

    streams = [Mock(), Mock()]
    monkeypatch.setattr(cuda, "_IDLE_STREAMS", defaultdict(queue.LifoQueue))
    monkeypatch.setattr(torch.cuda, "Stream", Mock(side_effect=streams))
    monkeypatch.setattr(torch.cuda, "device", lambda index: nullcontext())
    used: list[object] = []
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: used.append(stream) or nullcontext())
    gpu = cuda.CudaBackend("cuda:0")
    for _ in range(2):
        gpu.make_ahead(lambda: 1)
        with pytest.raises(ZeroDivisionError):
            gpu.make_ahead(lambda: 1 // 0)
    gpu.make_ahead(lambda: cuda.CudaBackend("cuda:0").make_ahead(lambda: 1))
    assert used == [streams[0]] * 5 + [streams[1]]


@pytest.mark.slow
@pytest.mark.process  # numba-cuda asks the system for libraries
def test_kernels_of_rasters_compile(city: Path, backend: CompilingBackend) -> None:
    with Workplace(find_bench_files(city), QUICK) as place, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for workload in (AGENT_SEMANTIC, AGENT_BOX):
            DeviceSamples(place.samples_of(workload), backend).make([0, 1])
    assert set(backend.assembly) == KERNELS_OF_RASTERS
    assert_compiled(backend)


@pytest.mark.slow
@pytest.mark.process  # numba-cuda asks the system for libraries
def test_kernels_of_vectors_compile(city: Path, backend: CompilingBackend) -> None:
    with Workplace(find_bench_files(city), QUICK) as place:
        DeviceSamples(place.samples_of(URBAN_DRIVER), backend).make([0, 1])
    assert len(backend.assembly) == len(KERNELS_OF_SAMPLES) + NUM_KERNELS_OF_VECTORS
    assert_compiled(backend)


@pytest.mark.slow
@pytest.mark.process  # numba-cuda asks the system for libraries
def test_kernels_of_simulations_and_environments_compile(
    city: Path, tmp_path: Path, backend: CompilingBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gymnasium")
    from l5kit.environment.device import device_env
    from l5kit_bench.device_traffic import TrafficBench
    from support.environments import data_of, write_config

    bench = TrafficBench.of_city(city, 0, lambda folder, num_scenes: None)
    for drives_avs in (False, True):
        bench.measure(backend, 2, 1, 1, drives_avs=drives_avs)
    monkeypatch.setattr(device_env, "open_backend", lambda device: backend)
    for actions, given in (
        ("bicycle", torch.zeros(2, 2)),
        ("grid", torch.zeros(2, dtype=torch.int64)),
        ("route", torch.zeros(2, 1)),
    ):
        config = write_config(tmp_path, observation="compact", reward="driving", actions=actions, others="idm")
        env = device_env.DeviceVectorEnv(2, config, data_of(city))
        env.reset(seed=1)
        env.step(given)
    of_traffic = {"start_slots", "begin_step", "move_vehicles", "enter_frame", "write_rows"}
    of_avs = {"set_avs", "move_avs", "choose_going", "follow_avs", "check_avs", "scale_actions", "choose_controls"}
    of_avs |= {"write_state", "judge_step", "_count_step"}
    assert set(backend.assembly) == of_traffic | of_avs
    assert_compiled(backend, has_angles=True)
