"""Samples that a device makes are those of the processor: on its twin everywhere, on a GPU where there is one."""

import gc
import itertools
import pickle
import shutil
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import zarr
from torch.utils.data import ConcatDataset, Subset

from l5kit.data import ChunkedDataset, LocalDataManager, MapAPI
from l5kit.data.device_log import most_agents_of, upload_log
from l5kit.data.map.lane_lights import LaneLights
from l5kit.data.records import FRAME_DTYPE
from l5kit.dataset import (
    AgentDataset,
    EgoAgentDatasetVectorized,
    EgoDataset,
    EgoDatasetVectorized,
    collate,
    device_samples,
    loader,
)
from l5kit.dataset.batch_loader import BatchLoader, BatchPlan, BatchSource
from l5kit.dataset.device_samples import (
    BackendLoader,
    DeviceSamples,
    SendingLoader,
    can_load_on_device,
    makes_on_device,
)
from l5kit.dataset.joined import JoinedDataset
from l5kit.dataset.loading import BatchMakers, new_loader
from l5kit.device.backend import Backend
from l5kit.device.opening import open_backend
from l5kit.errors import InvalidArgumentError, MissingDependencyError, SampleError, UnsupportedValueError
from l5kit.kinematic import AckermanPerturbation
from l5kit.random import GaussianRandomGenerator
from l5kit.rasterization import BoxRasterizer, SemBoxRasterizer, build_rasterizer
from l5kit.vectorization.vectorizer import Vectorizer
from l5kit.vectorization.vectorizer_builder import build_vectorizer
from l5kit.warmup.workloads import VectorWorkload, Workload
from support.logs import make_several_scenes_log
from support.maps import WORLD_TO_ECEF, save_street_map
from support.samples import make_agent_dataset, make_cfg, make_stub
from support.vectors import make_vector_cfg

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU that torch sees")
KINDS = {"AV": EgoDataset, "agents": AgentDataset}

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=NO_GPU)])
def backend(request: pytest.FixtureRequest) -> Backend:
    return open_backend(request.param)


def city_cfg(map_type: str = "py_semantic", **raster: Any) -> dict[str, Any]:
    cfg = Workload("AgentDataset", map_type, future_num_frames=12, history_num_frames=4).config()
    cfg["raster_params"] |= {"raster_size": [96, 72], "semantic_map_key": "semantic_map/semantic_map.pb"} | raster
    return cfg


def open_city(city: Path, kind: str, cfg: dict[str, Any], perturbation: Any = None) -> EgoDataset:
    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    rasterizer = build_rasterizer(cfg, LocalDataManager(str(city)))
    return KINDS[kind](cfg, log, rasterizer, perturbation)


def perturb() -> AckermanPerturbation:
    return AckermanPerturbation(GaussianRandomGenerator(np.zeros(3), np.array([0.5, 0.3, 0.1])), perturb_prob=0.7)


def assert_same(batch: dict[str, Any], expected: dict[str, Any], device: str) -> None:
    assert list(batch) == list(expected)
    for key, values in expected.items():
        assert batch[key].device == torch.device(device), key
        assert batch[key].dtype == values.dtype, key
        assert torch.equal(batch[key].cpu(), values), key


def pick(dataset: Any, num: int) -> list[int]:
    return np.random.default_rng(1).choice(len(dataset), num, replace=False).tolist()


@pytest.mark.parametrize("is_resident", [True, False], ids=["log on the device", "records sent"])
@pytest.mark.parametrize("image_dtype", ["uint8", "float32"])
@pytest.mark.parametrize("kind", KINDS)
def test_samples_of_a_city_are_those_of_the_processor(
    city: Path, kind: str, image_dtype: str, is_resident: bool, backend: Backend
) -> None:
    dataset = open_city(city, kind, city_cfg(image_dtype=image_dtype))
    samples, indices = DeviceSamples(dataset, backend, is_resident=is_resident), pick(dataset, 24)
    expected = collate(dataset.__getitems__(indices))
    assert_same(samples.make(indices), expected, backend.device)
    assert samples.is_resident == is_resident
    assert len(torch.unique(expected["image"][:, -3:])) > 10  # lanes, boundaries and lights


@pytest.mark.parametrize("options", [{"solid_boxes": True}, {"disable_traffic_light_faces": True}], ids=str)
def test_options_of_rasters(city: Path, options: dict[str, Any], backend: Backend) -> None:
    dataset = open_city(city, "agents", city_cfg(**options))
    indices = pick(dataset, 16)
    expected = collate(dataset.__getitems__(indices))
    assert_same(DeviceSamples(dataset, backend).make(indices), expected, backend.device)


@pytest.mark.parametrize("history", [0, 3])
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_samples_at_the_ends_of_scenes(kind: str, steps: int, history: int, backend: Backend) -> None:
    """Scenes without frames, with one, and with frames without agents; the past of the AV is not drawn."""
    cfg = make_cfg(
        raster_size=[40, 24],
        history_num_frames=history,
        history_step_size=steps,
        future_step_size=steps,
        render_ego_history=False,
    )
    rasterizer = BoxRasterizer(make_stub(cfg).render_context, 0.5, history, render_ego_history=False)
    log = make_several_scenes_log()
    dataset = EgoDataset(cfg, log, rasterizer) if kind == "AV" else make_agent_dataset(cfg, log, rasterizer)
    indices = list(range(len(dataset)))
    assert len(indices) > 5
    expected = collate(dataset.__getitems__(indices))
    for is_resident in (True, False):
        samples = DeviceSamples(dataset, backend, is_resident=is_resident)
        assert_same(samples.make(indices), expected, backend.device)


def test_samples_without_pictures(backend: Backend) -> None:
    dataset = EgoDataset(make_cfg(), make_several_scenes_log(), None)
    expected = collate(dataset.__getitems__([0, 5, 22]))
    assert "image" not in expected
    assert_same(DeviceSamples(dataset, backend).make([0, 5, 22]), expected, backend.device)


def test_negative_indices_and_indices_that_there_are_not(backend: Backend) -> None:
    dataset = EgoDataset(make_cfg(), make_several_scenes_log(), None)
    samples = DeviceSamples(dataset, backend)
    assert_same(samples.make([-1]), collate(dataset.__getitems__([-1])), backend.device)
    with pytest.raises(IndexError, match="index 37 is out of range"):
        samples.make([0, 37])


def test_a_sample_that_cannot_be_made_is_named(backend: Backend) -> None:
    dataset = make_agent_dataset(make_cfg(), make_several_scenes_log(), None)
    dataset.dataset.agents["label_probabilities"][:] = 0
    with pytest.raises(SampleError, match="cannot make sample 2"):
        DeviceSamples(dataset, backend).make([2])


def test_a_log_whose_intervals_are_wrong_is_not_put_on_a_device(backend: Backend) -> None:
    log = make_several_scenes_log()
    log.frames["agent_index_interval"][3] = (5, 10_000)
    dataset = EgoDataset(make_cfg(), log, None)
    samples = DeviceSamples(dataset, backend, is_resident=True)
    assert not samples.is_resident
    assert_same(samples.make([12]), collate(dataset.__getitems__([12])), backend.device)


@pytest.mark.parametrize("is_resident", [True, False], ids=["log on the device", "records sent"])
def test_samples_of_damaged_records_are_refused_as_by_the_processor(is_resident: bool, backend: Backend) -> None:
    """Frame 3 has the agents of frame 2: they lie within the log, but are not those of the frame."""
    log = make_several_scenes_log()
    log.frames["agent_index_interval"][3] = log.frames["agent_index_interval"][2]
    dataset = EgoDataset(make_cfg(), log, None)
    samples = DeviceSamples(dataset, backend, is_resident=is_resident)
    with pytest.raises(SampleError) as expected:
        dataset[4]
    with pytest.raises(SampleError) as found:
        samples.make([15, 4])
    assert str(found.value) == str(expected.value)
    assert_same(samples.make([15]), collate(dataset.__getitems__([15])), backend.device)


@pytest.mark.parametrize("is_resident", [True, False], ids=["log on the device", "records sent"])
def test_pictures_may_have_channels_for_more_frames_than_samples(is_resident: bool, backend: Backend) -> None:
    cfg = make_cfg(raster_size=[40, 24], history_num_frames=1, future_num_frames=1)
    log, context = make_several_scenes_log(), make_stub(cfg).render_context
    dataset = make_agent_dataset(cfg, log, BoxRasterizer(context, 0.5, 6))
    indices = list(range(len(dataset)))
    batch = DeviceSamples(dataset, backend, is_resident=is_resident).make(indices)
    assert_same(batch, collate(dataset.__getitems__(indices)), backend.device)
    assert not batch["image"][:, 2:7].any()
    assert batch["image"][:, 1].any()
    assert not makes_on_device(make_agent_dataset(cfg, log, BoxRasterizer(context, 0.5, 0)))


class _Broken(AckermanPerturbation):
    def perturb(self, *frames: Any) -> Any:
        raise ZeroDivisionError("no number")


class _Late(AckermanPerturbation):
    def perturb(self, history: Any, future: Any) -> Any:
        history, future = super().perturb(history, future)
        history["timestamp"] += 5
        return history, future


def moving(kind: type[AckermanPerturbation]) -> AckermanPerturbation:
    return kind(GaussianRandomGenerator(np.zeros(3), np.ones(3)), perturb_prob=0.0)


@pytest.mark.parametrize("is_resident", [True, False], ids=["log on the device", "records sent"])
def test_perturbations_of_ones_own(is_resident: bool, backend: Backend) -> None:
    """Errors of any kind name the sample; the time of a sample is that of the log."""
    log = make_several_scenes_log()
    broken, late = (EgoDataset(make_cfg(), log, None, moving(kind)) for kind in (_Broken, _Late))
    with pytest.raises(SampleError, match=r"cannot make sample 3 .* ZeroDivisionError: no number"):
        DeviceSamples(broken, backend, is_resident=is_resident).make([3])
    samples = DeviceSamples(late, backend, is_resident=is_resident)
    assert_same(samples.make([3]), collate(late.__getitems__([3])), backend.device)


def test_samples_of_a_log_that_has_been_replaced(backend: Backend) -> None:
    dataset = EgoDataset(make_cfg(), make_several_scenes_log(), None)
    samples = DeviceSamples(dataset, backend, is_resident=True)
    dataset.dataset = make_several_scenes_log()
    dataset.dataset.frames["ego_translation"] += 7.0
    assert_same(samples.make([3]), collate(dataset.__getitems__([3])), backend.device)


class _OwnBatches(EgoDataset):
    def __getitems__(self, indices: Any, *, out: Any = None) -> Any:
        return super().__getitems__(list(indices)[:1], out=out)


@pytest.mark.parametrize(("field", "kind"), [("extent", "f8"), ("track_id", "i8")])
def test_logs_of_other_types_and_batches_of_ones_own_are_made_by_the_processor(field: str, kind: str) -> None:
    log = make_several_scenes_log()
    assert makes_on_device(EgoDataset(make_cfg(), log, None))
    assert not makes_on_device(_OwnBatches(make_cfg(), log, None))
    types = [(name, log.agents.dtype[name].base, log.agents.dtype[name].shape) for name in log.agents.dtype.names]
    types = [(name, kind if name == field else base, shape) for name, base, shape in types]
    log.agents = log.agents.astype(types)
    assert not makes_on_device(EgoDataset(make_cfg(), log, None))


@pytest.mark.parametrize("is_resident", [True, False], ids=["log on the device", "records sent"])
def test_tracks_that_samples_cannot_hold_are_refused(tmp_path: Path, is_resident: bool, backend: Backend) -> None:
    cfg, log = make_vector_cfg(), make_several_scenes_log()
    log.agents["track_id"][log.agents["track_id"] == 9] = 2**63
    vectorizer = Vectorizer(cfg, MapAPI(save_street_map(tmp_path), WORLD_TO_ECEF))
    dataset = EgoDatasetVectorized(cfg, log, vectorizer)
    samples = DeviceSamples(dataset, backend, is_resident=is_resident)
    with pytest.raises(SampleError) as expected:
        dataset[31]
    with pytest.raises(SampleError, match="track_id") as found:
        samples.make([2, 31])
    assert str(found.value) == str(expected.value)
    assert_same(samples.make([2]), collate(dataset.__getitems__([2])), backend.device)


class _OwnRasterizer(SemBoxRasterizer):
    pass


def test_what_a_device_does_not_know_is_made_by_the_processor(city: Path) -> None:
    dataset = open_city(city, "AV", city_cfg())
    assert makes_on_device(dataset)
    dataset.sample_function.rasterizer.__class__ = _OwnRasterizer
    assert not makes_on_device(dataset)
    satellite = open_city(city, "AV", city_cfg("py_satellite", satellite_map_key="aerial_map/aerial_map.png"))
    assert not makes_on_device(satellite)
    with pytest.raises(UnsupportedValueError, match="a device cannot make"):
        DeviceSamples(satellite, open_backend("cpu"))


def loaders(dataset: Any, backend: Backend, threads: int, **options: Any) -> Iterator[BatchLoader]:
    """Return a loader of the processor and one of the device for the same batches."""
    plain = loader(dataset, 8, threads=0, shuffle=True, seed=3, drop_last=True, pin_memory=False, **options)
    source = BatchSource(dataset, collate, pin_memory=False, prefetch=2)
    assert can_load_on_device(source)
    plan = BatchPlan(plain.sampler, 8, drop_last=True, seed=3, rank=0)
    return iter((plain, BackendLoader(plan, source, backend=backend, num_threads=threads)))


@pytest.mark.parametrize("threads", [0, 1, 3])
@pytest.mark.parametrize("which", ["perturbed", "subset", "joined"])
def test_loaders_give_the_same_batches(city: Path, which: str, threads: int, backend: Backend) -> None:
    av = open_city(city, "AV", city_cfg(), perturb())
    parts: dict[str, Any] = {
        "perturbed": av,
        "subset": Subset(Subset(av, list(range(0, 200, 2))), list(range(60, 10, -1))),
        "joined": JoinedDataset([av, open_city(city, "agents", city_cfg())]),
    }
    plain, of_device = loaders(parts[which], backend, threads)
    assert len(plain) == len(of_device)
    for epoch in (0, 1):
        plain.set_epoch(epoch)
        of_device.set_epoch(epoch)
        for batch, expected in itertools.islice(zip(of_device, plain, strict=True), 4):
            assert_same(batch, expected, backend.device)


def test_batches_that_a_device_cannot_make_are_sent(city: Path, backend: Backend) -> None:
    dataset = open_city(city, "AV", city_cfg("py_satellite", satellite_map_key="aerial_map/aerial_map.png"))
    plain = loader(dataset, 8, threads=0, pin_memory=False, sampler=range(40))
    plan = BatchPlan(range(40), 8, drop_last=False, seed=0, rank=0)
    source = BatchSource(dataset, collate, pin_memory=False, prefetch=1)
    assert not can_load_on_device(source)
    sending = SendingLoader(new_loader(plan, source, BatchMakers(1)), plan, source, backend=backend)
    batches = list(sending)
    assert len(batches) == 5
    for batch, expected in zip(batches, plain, strict=True):
        assert_same(batch, expected, backend.device)


def test_what_is_sent_may_be_nested(backend: Backend) -> None:
    plan = BatchPlan(range(4), 2, drop_last=False, seed=0, rank=0)
    source = BatchSource(list(range(4)), lambda items: {"a": [torch.tensor(items)], "b": (1, "x")}, False, 1)
    batches = list(SendingLoader(new_loader(plan, source, BatchMakers(0)), plan, source, backend=backend))
    assert [batch["a"][0].tolist() for batch in batches] == [[0, 1], [2, 3]]
    assert batches[0]["a"][0].device == torch.device(backend.device)
    assert batches[1]["b"] == (1, "x")


def test_other_datasets_and_collate_functions_are_not_made_on_a_device() -> None:
    dataset = EgoDataset(make_cfg(), make_several_scenes_log(), None)
    assert can_load_on_device(BatchSource(dataset, collate, False, 1))
    assert not can_load_on_device(BatchSource(dataset, list, False, 1))
    assert not can_load_on_device(BatchSource(ConcatDataset([dataset]), collate, False, 1))
    assert not can_load_on_device(BatchSource([1, 2], collate, False, 1))


def test_the_processor_is_no_device_of_its_own() -> None:
    dataset = EgoDataset(make_cfg(), make_several_scenes_log(), None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch = next(iter(loader(dataset, 4, device="cpu", threads=0)))
    assert batch["target_positions"].device == torch.device("cpu")


@pytest.fixture
def twin(monkeypatch: pytest.MonkeyPatch) -> Backend:
    """Let the processor act as the GPU that is requested by name."""
    backend = open_backend("cpu")
    monkeypatch.setattr("l5kit.device.opening.open_backend", lambda device: backend)
    return backend


def test_the_loader_lets_a_device_make_what_it_can(city: Path, twin: Backend) -> None:
    dataset = open_city(city, "AV", city_cfg())
    plain, of_device = (loader(dataset, 8, shuffle=True, seed=4, device=device) for device in (None, "cuda"))
    assert isinstance(of_device, BackendLoader)
    assert not isinstance(plain, BackendLoader)
    for batch, expected in itertools.islice(zip(of_device, plain, strict=True), 3):
        assert_same(batch, expected, "cpu")
    satellite = open_city(city, "AV", city_cfg("py_satellite", satellite_map_key="aerial_map/aerial_map.png"))
    assert isinstance(loader(satellite, 8, device="cuda"), SendingLoader)
    assert isinstance(loader(dataset, 8, device="cuda", collate_fn=list), SendingLoader)
    with pytest.raises(InvalidArgumentError, match="makes these batches itself; leave it out"):
        loader(dataset, 8, device="cuda", num_workers=2)


@pytest.mark.parametrize(("num_free", "is_resident"), [(4_000, False), (100_000_000, True)])
def test_a_log_lies_on_a_device_where_it_fits(
    num_free: int, is_resident: bool, twin: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(twin), "free_bytes", lambda self: num_free)
    dataset = EgoDataset(make_cfg(), make_several_scenes_log(), None)
    samples = DeviceSamples(dataset, twin)
    assert samples.is_resident == is_resident
    assert_same(samples.make([3, 30]), collate(dataset.__getitems__([3, 30])), "cpu")


@pytest.mark.parametrize("on_device", [False, True])
def test_trainings_let_a_device_make_batches_if_they_are_told_to(on_device: bool, twin: Backend) -> None:
    from l5kit.configs.runs import LoaderParams
    from l5kit.training.batches import EvaluationBatches, StepBatches

    dataset = EgoDataset(make_cfg(), make_several_scenes_log(), None)
    params = LoaderParams(key="a", batch_size=4, shuffle=True, threads=1, on_device=on_device)
    steps = StepBatches(dataset, params, seed=3, num_steps=4, steps_per_epoch=9, pin_memory=False, device="cuda")
    plain = StepBatches(dataset, params, seed=3, num_steps=4, steps_per_epoch=9, pin_memory=False)
    assert isinstance(steps._new_loader(0), BackendLoader) == on_device
    assert not isinstance(plain._new_loader(0), BackendLoader)
    for batch, expected in zip(steps, plain, strict=True):
        assert_same(batch, expected, "cpu")
    seen = EvaluationBatches(dataset, params, pin_memory=False, device="cuda")
    assert sum(len(batch["track_id"]) for batch in seen) == len(dataset)


def test_evaluations_are_the_same_each_time_and_send_a_log_once(twin: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    from l5kit.configs.runs import LoaderParams
    from l5kit.training.batches import EvaluationBatches

    monkeypatch.setattr("l5kit.dataset.device_samples.upload_log", Mock(wraps=upload_log))
    dataset = EgoDataset(make_cfg(), make_several_scenes_log(), None, perturb())
    params = LoaderParams(key="a", batch_size=4, shuffle=False, threads=0, max_num_batches=3, on_device=True)
    seen = EvaluationBatches(dataset, params, pin_memory=False, device="cuda")
    for batch, expected in zip(list(seen), list(seen), strict=True):
        assert_same(batch, expected, "cpu")
    assert device_samples.upload_log.call_count == 1


def test_each_process_has_its_own_part_of_an_evaluation(twin: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    from l5kit.configs.runs import LoaderParams
    from l5kit.training.batches import EvaluationBatches

    dataset = EgoDataset(make_cfg(), make_several_scenes_log(), None)
    params = LoaderParams(key="a", batch_size=4, shuffle=False, threads=0, on_device=True)
    seen = EvaluationBatches(dataset, params, pin_memory=False, device="cuda")
    assert sum(len(batch["track_id"]) for batch in seen) == len(dataset)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert sum(len(batch["track_id"]) for batch in seen) == len(dataset) // 2


def test_logs_on_devices_are_told_apart_by_log_device_and_lights(city: Path) -> None:
    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    green, red = (LaneLights.of_faces({name: ("RED", np.array([1]))}) for name in ("a", "b"))
    keys = [
        device_samples._key_of(SimpleNamespace(device=device), opened, lights)  # type: ignore[arg-type]
        for device in ("cpu", "cuda:0")
        for opened in (log, log[:1])
        for lights in (None, green, red)
    ]
    assert len(set(keys)) == len(keys)
    assert device_samples._key_of(SimpleNamespace(device="cpu"), make_several_scenes_log(), green) is None  # type: ignore[arg-type]


def test_the_most_agents_are_those_of_sound_frames_of_all_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("l5kit.data.device_log.ROWS_PER_BLOCK", 2)
    frames = np.zeros(5, FRAME_DTYPE)
    frames["agent_index_interval"] = [(0, 3), (3, 99), (-40, 5), (3, 10), (10, 11)]
    assert most_agents_of(frames, 11) == 7
    assert most_agents_of(frames[:0], 11) == 0


def test_threads_share_the_memory_of_batches(twin: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Mock(wraps=DeviceSamples)
    monkeypatch.setattr("l5kit.dataset.device_samples.DeviceSamples", made)
    dataset = EgoDataset(make_cfg(), make_several_scenes_log(), None)
    joined = JoinedDataset([Subset(dataset, range(5)), dataset])
    loader(joined, 4, device="cuda", threads=3)
    assert [call.kwargs for call in made.call_args_list] == [{"num_threads": 3}] * 2


def test_a_stored_log_lies_on_a_device_once_for_all_datasets_that_are_alive(
    city: Path, tmp_path: Path, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("l5kit.dataset.device_samples.upload_log", Mock(wraps=upload_log))
    folder = shutil.copytree(city, tmp_path / "city")
    samples = [DeviceSamples(open_city(folder, kind, city_cfg()), backend) for kind in ("AV", "agents", "AV")]
    upload = device_samples.upload_log
    assert upload.call_count == 1
    without_lights = city_cfg(disable_traffic_light_faces=True)
    samples.append(DeviceSamples(open_city(folder, "AV", without_lights), backend))
    assert upload.call_count == 2
    log = zarr.open_group(folder / "scenes" / "sample.zarr", mode="r+")
    agents = log["agents"][:100]
    agents["yaw"] += 1
    log["agents"][:100] = agents
    changed = open_city(folder, "agents", city_cfg())
    samples.append(DeviceSamples(changed, backend))
    assert upload.call_count == 3
    assert_same(samples[-1].make([0, 3]), collate(changed.__getitems__([0, 3])), backend.device)
    del samples
    gc.collect()
    assert len(device_samples._HELD) == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_loader_tells_that_there_is_no_gpu() -> None:
    dataset = EgoDataset(make_cfg(), make_several_scenes_log(), None)
    with pytest.raises(MissingDependencyError, match="leave device out"):
        loader(dataset, 4, device="cuda")


@NO_GPU
def test_a_device_needs_no_workers() -> None:
    dataset = EgoDataset(make_cfg(), make_several_scenes_log(), None)
    with pytest.raises(InvalidArgumentError, match="makes these batches itself"):
        loader(dataset, 4, device="cuda", num_workers=2)


@pytest.mark.parametrize("is_resident", [True, False], ids=["log on the device", "records sent"])
@pytest.mark.parametrize("is_moved", [False, True], ids=["plain", "perturbed"])
def test_large_batches_are_made_in_parts(
    city: Path, is_moved: bool, is_resident: bool, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, twin = (
        open_city(city, "AV" if is_moved else "agents", city_cfg(), perturb() if is_moved else None) for _ in range(2)
    )
    samples, indices = DeviceSamples(dataset, backend, is_resident=is_resident, num_threads=2), pick(dataset, 10)
    sizes: list[int] = []
    make = samples._make
    monkeypatch.setattr(
        samples, "_make", lambda dataset, positions: sizes.append(len(positions)) or make(dataset, positions)
    )
    monkeypatch.setattr("l5kit.dataset.device_samples._SMALL_BYTES", 0)
    most_agents = max(stop - start for start, stop in dataset.dataset.frames[:]["agent_index_interval"].tolist())
    needed = samples._maker.scratch_bytes(most_agents) + (0 if is_resident else 120 * most_agents * (4 + 1 + 12))
    monkeypatch.setattr(type(backend), "free_bytes", lambda self: 2 * 4 * 4 * needed)
    np.random.seed(3)  # noqa: NPY002 - by this it is decided which windows are perturbed
    expected = collate(twin.__getitems__(indices))
    np.random.seed(3)  # noqa: NPY002
    assert_same(samples.make(indices), expected, backend.device)
    assert sizes == [4, 4, 2]


@pytest.mark.parametrize("is_resident", [True, False], ids=["log on the device", "records sent"])
@pytest.mark.parametrize("which", ["AV", "agents", "evaluated", "perturbed"])
def test_vector_samples_are_those_of_the_processor(city: Path, which: str, is_resident: bool, backend: Backend) -> None:
    cfg = VectorWorkload("EgoAgentDatasetVectorized", "safepathnet").config()
    cfg["raster_params"]["semantic_map_key"] = "semantic_map/semantic_map.pb"
    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    vectorizer = build_vectorizer(cfg, LocalDataManager(str(city)))
    kind = EgoDatasetVectorized if which in ("AV", "perturbed") else EgoAgentDatasetVectorized
    dataset = kind(cfg, log, vectorizer, None, **({"eval_mode": True} if which == "evaluated" else {}))
    indices = [*pick(dataset, min(20, len(dataset))), 0, len(dataset) - 1]
    expected = collate(dataset.__getitems__(indices))
    samples = DeviceSamples(dataset, backend, is_resident=is_resident)
    assert_same(samples.make(indices), expected, backend.device)
    assert samples.is_resident == is_resident
    assert expected["all_other_agents_history_availability"].any()
    assert expected["lanes_mid_availabilities"].any()
    if which == "perturbed":
        moved = kind(cfg, log, vectorizer, perturb())
        plain, of_device = loaders(moved, backend, 1)
        for batch, expected in itertools.islice(zip(of_device, plain, strict=True), 3):
            assert_same(batch, expected, backend.device)


def test_speeds_of_vector_samples(city: Path, backend: Backend) -> None:
    """Of the past, if requested; and of agents, by their methods for frames."""
    cfg = VectorWorkload("EgoDatasetVectorized", "urban_driver").config()
    cfg["raster_params"]["semantic_map_key"] = "semantic_map/semantic_map.pb"
    cfg["model_params"]["speed_from_history"] = True
    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    dataset = EgoDatasetVectorized(cfg, log, build_vectorizer(cfg, LocalDataManager(str(city))))
    indices = pick(dataset, 10)
    assert_same(DeviceSamples(dataset, backend).make(indices), collate(dataset.__getitems__(indices)), backend.device)


def test_a_loader_can_be_pickled(backend: Backend) -> None:
    dataset = EgoDataset(make_cfg(), make_several_scenes_log(), None)
    plan = BatchPlan(range(6), 3, drop_last=False, seed=0, rank=0)
    of_device = BackendLoader(plan, BatchSource(dataset, collate, False, 1), backend=backend, num_threads=1)
    other = pickle.loads(pickle.dumps(of_device))
    for batch, expected in zip(other, of_device, strict=True):
        assert batch["frame_index"].device == torch.device(backend.device)
        assert torch.equal(batch["target_positions"], expected["target_positions"])


@pytest.mark.parametrize("threads", [1, 2])
def test_who_leaves_a_loader_early_waits_for_what_is_being_made(
    threads: int, twin: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = EgoDataset(make_cfg(), make_several_scenes_log(), None)
    batches = iter(loader(dataset, 4, device="cuda", threads=threads))
    next(batches)
    monkeypatch.setattr(type(twin), "wait", Mock())
    batches.close()  # type: ignore[attr-defined]
    assert type(twin).wait.call_count == 1  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("l5kit-loader")]


def test_a_device_without_memory_is_told_at_once(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = EgoDataset(make_cfg(), make_several_scenes_log(), None)
    samples = DeviceSamples(dataset, backend)
    monkeypatch.setattr(samples, "_make", Mock(side_effect=torch.cuda.OutOfMemoryError("there is none left")))
    monkeypatch.setattr(type(dataset), "__getitem__", Mock())
    with pytest.raises(torch.cuda.OutOfMemoryError, match="none left"):
        samples.make([0, 1, 2])
    assert type(dataset).__getitem__.call_count == 0


def test_what_lies_on_a_device_is_there_before_others_read_it(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that make batches have their own streams, which do not wait for that of the constructor."""
    done: list[str] = []
    upload, wait = type(backend).upload, type(backend).wait
    monkeypatch.setattr(type(backend), "upload", lambda self, arrays: done.append("sent") or upload(self, arrays))
    monkeypatch.setattr(type(backend), "wait", lambda self: done.append("waited") or wait(self))
    DeviceSamples(EgoDataset(make_cfg(), make_several_scenes_log(), None), backend)
    assert "sent" in done
    assert done[-1] == "waited"
