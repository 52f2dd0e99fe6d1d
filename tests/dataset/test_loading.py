"""The loader: order, bits, errors, epochs and endings for all numbers of threads and workers."""

import gc
import os
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    Subset,
    WeightedRandomSampler,
    random_split,
)

from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import EgoDataset, batch_loader, loader, loading
from l5kit.dataset.sample_batch import Memory
from l5kit.errors import InvalidArgumentError, SampleError
from l5kit.kinematic import AckermanPerturbation
from l5kit.kinematic.perturbation import Perturbation
from l5kit.random import GaussianRandomGenerator, ReplayRandomGenerator
from l5kit.rasterization import build_rasterizer
from support.fixture_s import make_fixture_s, save_fixture_s
from support.logs import make_several_scenes_log
from support.samples import make_cfg, make_stub

needs_fork = pytest.mark.skipif(sys.platform != "linux", reason="fork is safe on Linux only")
FORK: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork"}
WAYS = [
    pytest.param({"threads": 0}, id="when asked for"),
    pytest.param({"threads": 1}, id="1 thread"),
    pytest.param({"threads": 3}, id="3 threads"),
    pytest.param({"threads": 2, "prefetch": 1}, id="2 threads, little ahead"),
    pytest.param(FORK, id="2 forked workers", marks=[needs_fork, pytest.mark.process]),
]


def make_perturbation(probability: float = 0.7) -> AckermanPerturbation:
    return AckermanPerturbation(GaussianRandomGenerator(np.zeros(3), np.ones(3)), probability)


def make_ego(perturbation: Any = None, log: ChunkedDataset | None = None, cls: Any = EgoDataset) -> Any:
    cfg = make_cfg(raster_size=[16, 8])
    return cls(cfg, log or make_fixture_s(), make_stub(cfg), perturbation)


def assert_equal_batches(found: Any, expected: Any) -> None:
    found, expected = list(found), list(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert list(one) == list(other)
        for key in other:
            assert one[key].dtype == other[key].dtype, key
            np.testing.assert_array_equal(one[key].numpy(), other[key].numpy(), err_msg=key)


def frames_of(batches: Any) -> list[int]:
    return [int(frame) for batch in batches for frame in batch["frame_index"]]


def loader_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("l5kit-loader")]


@pytest.mark.parametrize("options", WAYS)
def test_batches_are_those_of_torch(options: Any) -> None:
    dataset = make_ego()
    expected = list(DataLoader(dataset, batch_size=4))
    batches = loader(dataset, 4, **options)
    assert len(batches) == len(expected) == 8
    assert_equal_batches(batches, expected)


@pytest.mark.parametrize("options", WAYS)
def test_two_epochs_of_shuffled_and_perturbed_batches_are_the_same_bits(options: Any) -> None:
    same = loader(make_ego(make_perturbation()), 4, shuffle=True, seed=3, threads=1)
    other = loader(make_ego(make_perturbation()), 4, shuffle=True, seed=3, **options)
    first, second = list(same), list(same)
    assert_equal_batches(other, first)
    assert_equal_batches(other, second)
    assert sorted(frames_of(first)) == sorted(frames_of(second)) == list(range(30))
    assert frames_of(first) != frames_of(second)
    by_frame = [
        dict(zip(frames_of(e), torch.cat([b["centroid"] for b in e]).tolist(), strict=True)) for e in (first, second)
    ]
    differing = [by_frame[0][frame] != by_frame[1][frame] for frame in range(25)]
    assert np.mean(differing) > 0.5, "another epoch has other perturbations"


def test_a_seed_decides() -> None:
    epochs = [list(loader(make_ego(make_perturbation()), 4, shuffle=True, seed=seed)) for seed in (1, 1, 2)]
    assert_equal_batches(epochs[0], epochs[1])
    assert frames_of(epochs[0]) != frames_of(epochs[2])


def test_batches_of_one_epoch_have_perturbations_of_their_own() -> None:
    dataset = make_ego(make_perturbation(1.0))
    moves = [batch["centroid"][0].numpy() for batch in loader(Subset(dataset, [5] * 6), 1)]
    assert len(np.unique(np.round(moves, 9), axis=0)) == 6


def test_perturbations_of_several_datasets_draw_numbers_of_their_own() -> None:
    both = ConcatDataset([make_ego(make_perturbation(1.0)), make_ego(make_perturbation(1.0))])
    (batch,) = loader(Subset(both, [5, 30 + 5]), 2)
    first, second = batch["centroid"].numpy()
    assert not np.isclose(first, second).any()


@pytest.mark.parametrize("options", WAYS)
def test_set_epoch_comes_back_to_an_epoch(options: Any) -> None:
    batches = loader(make_ego(make_perturbation()), 4, shuffle=True, **options)
    first, second = list(batches), list(batches)
    batches.set_epoch(0)
    assert_equal_batches(batches, first)
    assert_equal_batches(batches, second)


def test_the_perturbation_of_the_dataset_is_left_alone() -> None:
    perturbation = make_perturbation()
    perturbation.reseed(4)
    list(loader(make_ego(perturbation), 4, threads=2))
    other = make_perturbation()
    other.reseed(4)
    assert perturbation.rng is not None
    assert other.rng is not None
    assert perturbation.rng.random() == other.rng.random()
    np.testing.assert_array_equal(perturbation.random_offset_generator(), other.random_offset_generator())


@pytest.mark.parametrize(
    ("drop_last", "sizes"), [pytest.param(False, [7, 7, 7, 7, 2], id="kept"), pytest.param(True, [7] * 4, id="dropped")]
)
def test_the_last_batch(drop_last: bool, sizes: list[int]) -> None:
    batches = loader(make_ego(), 7, drop_last=drop_last, threads=2)
    assert [len(batch["frame_index"]) for batch in batches] == sizes
    assert len(batches) == len(sizes)


def test_an_empty_dataset_has_no_batches() -> None:
    assert list(loader(Subset(make_ego(), []), 4, threads=2)) == []


@pytest.mark.parametrize("options", WAYS)
def test_several_iterations_at_once(options: Any) -> None:
    batches = loader(make_ego(make_perturbation()), 4, shuffle=True, **options)
    pairs = list(zip(batches, batches, strict=True))
    batches.set_epoch(0)
    assert_equal_batches(batches, [first for first, _ in pairs])
    assert_equal_batches(batches, [second for _, second in pairs])


class Broken(EgoDataset):
    """Cannot make sample 9."""

    def get_frame(self, scene_index: int, state_index: int, track_id: int | None = None) -> dict[str, Any]:
        if state_index == 9:
            raise ValueError("this frame is torn")
        return super().get_frame(scene_index, state_index, track_id)


@pytest.mark.parametrize("options", WAYS)
def test_an_error_comes_at_the_place_of_its_batch(options: Any) -> None:
    batches = iter(loader(make_ego(cls=Broken), 4, **options))
    assert frames_of([next(batches), next(batches)]) == list(range(8))
    with pytest.raises(SampleError, match=r"cannot make sample 9 \(scene 0, frame 9 of it.*this frame is torn"):
        next(batches)
    with pytest.raises(StopIteration):
        next(batches)
    assert loader_threads() == []


def test_the_cause_of_an_error_comes_from_a_thread() -> None:
    with pytest.raises(SampleError) as failed:
        list(loader(make_ego(cls=Broken), 4, threads=2))
    assert isinstance(failed.value.__cause__, ValueError)


def interrupt_at_the_first(batches: Any) -> None:
    for _ in batches:
        raise KeyboardInterrupt


@pytest.mark.parametrize("options", WAYS)
def test_a_loader_goes_on_after_an_error_or_a_break(options: Any) -> None:
    batches = loader(make_ego(), 4, **options)
    for batch in batches:
        assert len(batch["frame_index"]) == 4
        break
    with pytest.raises(KeyboardInterrupt):
        interrupt_at_the_first(batches)
    assert frames_of(batches) == list(range(30))
    assert loader_threads() == []


class Counting(Dataset[Any]):
    """Keeps which samples were made."""

    def __init__(self, length: int = 100) -> None:
        self.made: list[int] = []
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Any]:
        self.made.append(index)
        return {"frame_index": index}


@pytest.mark.parametrize(("threads", "prefetch"), [(1, 1), (1, 4), (3, 2)])
def test_few_batches_are_made_ahead(threads: int, prefetch: int) -> None:
    dataset = Counting()
    batches = iter(loader(dataset, 1, threads=threads, prefetch=prefetch))
    next(batches)
    next(batches)
    del batches  # which waits for the threads
    assert len(dataset.made) <= 2 + threads * prefetch
    assert loader_threads() == []


def test_without_threads_nothing_is_made_ahead() -> None:
    dataset = Counting()
    batches = iter(loader(dataset, 2, threads=0))
    assert next(batches)["frame_index"].tolist() == dataset.made == [0, 1]


def test_an_abandoned_iteration_leaks_nothing() -> None:
    dataset = make_ego()
    seen = weakref.ref(dataset)
    batches = iter(loader(dataset, 4, threads=2))
    next(batches)
    del dataset, batches
    gc.collect()
    assert seen() is None


class OwnFunction(EgoDataset):
    """Makes samples by a function that holds the perturbation."""

    def _get_sample_function(self) -> Any:
        inherited = super()._get_sample_function()
        return lambda *args: inherited(*args)


def test_a_sample_function_with_a_perturbation_is_refused_by_several_threads() -> None:
    dataset = make_ego(make_perturbation(), cls=OwnFunction)
    with pytest.raises(InvalidArgumentError, match=r"threads is 2.*custom sample function.*threads=1"):
        loader(dataset, 4, threads=2)
    expected = list(loader(make_ego(make_perturbation()), 4))
    assert_equal_batches(loader(dataset, 4, threads=1), expected)
    assert_equal_batches(loader(make_ego(cls=OwnFunction), 4, threads=2), list(loader(make_ego(), 4)))


class Shift(Perturbation):
    """Draws nothing, so that it has nothing to reseed."""

    def perturb(self, history_frames: Any, future_frames: Any) -> Any:
        history, future = history_frames.copy(), future_frames.copy()
        history["ego_translation"][0] += 1
        return history, future


def test_a_perturbation_that_draws_nothing() -> None:
    for batch in loader(make_ego(Shift()), 5, threads=2):
        recorded = make_fixture_s().frames["ego_translation"][batch["frame_index"].numpy(), :2]
        is_moved = (batch["centroid"].numpy() == recorded + 1).all(axis=1)
        np.testing.assert_array_equal(is_moved, batch["frame_index"].numpy() < 25)


def test_offsets_that_cannot_be_reseeded_are_shared_by_threads() -> None:
    offsets = ReplayRandomGenerator([(0.0, 0.1 * k, 0.0) for k in range(1, 31)])
    batches = list(loader(make_ego(AckermanPerturbation(offsets, 1.0)), 5, threads=2))
    recorded = make_fixture_s().frames["ego_translation"][:25, :2]
    moved_m = np.linalg.norm(torch.cat([batch["centroid"] for batch in batches])[:25].numpy() - recorded, axis=1)
    np.testing.assert_allclose(np.sort(moved_m), 0.1 * np.arange(1, 26), atol=1e-3)


class Wrapped(Dataset[Any]):
    """A dataset around another one, as users write them."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, index: int) -> Any:
        return self.inner[index]


class WrappedTwice(Wrapped):
    """A dataset that refers to itself and holds other datasets in a tuple and a dictionary."""

    def __init__(self, inner: Any) -> None:
        super().__init__((inner, Subset(inner, range(4))))
        self.by_name = {"itself": self, "inner": inner}

    def __len__(self) -> int:
        return 2 * len(self.inner[0])

    def __getitem__(self, index: int) -> Any:
        return self.inner[0][index // 2] if index % 2 else self.by_name["inner"][index // 2]


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda dataset: Subset(dataset, range(3, 20)), id="subset"),
        pytest.param(lambda dataset: ConcatDataset([dataset, dataset]), id="concatenated"),
        pytest.param(
            lambda dataset: Subset(ConcatDataset([dataset, make_ego(make_perturbation())]), range(50)), id="both"
        ),
        pytest.param(lambda dataset: random_split(dataset, [0.5, 0.5])[0], id="split"),
        pytest.param(Wrapped, id="of a user"),
        pytest.param(WrappedTwice, id="of a user, with a tuple and itself"),
    ],
)
def test_datasets_around_a_dataset(wrap: Any) -> None:
    dataset = wrap(make_ego(make_perturbation()))
    assert_equal_batches(loader(dataset, 4, threads=3), list(loader(dataset, 4, threads=0)))
    torch.testing.assert_close(
        next(iter(loader(dataset, 4)))["frame_index"], next(iter(DataLoader(dataset, batch_size=4)))["frame_index"]
    )


def test_a_sampler_decides_the_order() -> None:
    dataset = make_ego()
    assert frames_of(loader(dataset, 4, sampler=[5, 3, 3, 9, 1], threads=2)) == [5, 3, 3, 9, 1]
    sampler = WeightedRandomSampler([1.0] + [0.0] * 28 + [1.0], 9)
    assert set(frames_of(loader(dataset, 4, sampler=sampler))) <= {0, 29}


def test_a_sampler_is_told_the_epoch() -> None:
    dataset = make_ego()
    sampler = DistributedSampler(dataset, num_replicas=2, rank=1, seed=4)
    batches = loader(dataset, 4, sampler=sampler)
    list(batches)
    second = frames_of(batches)
    sampler.set_epoch(1)
    assert second == list(sampler)


def test_a_collate_function_of_the_user() -> None:
    batches = loader(make_ego(), 4, threads=2, collate_fn=lambda samples: [s["frame_index"] for s in samples])
    assert list(batches)[1] == [4, 5, 6, 7]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"batch_size": 0}, "batch_size is 0", id="empty batches"),
        pytest.param({"batch_size": 2.5}, "batch_size is 2.5.*whole number", id="half a sample"),
        pytest.param({"batch_size": "a"}, "batch_size is 'a'", id="a text"),
        pytest.param({"seed": None}, "seed is None", id="no seed"),
        pytest.param({"threads": -1}, "threads is -1", id="negative threads"),
        pytest.param({"num_workers": -1}, "num_workers is -1", id="negative workers"),
        pytest.param({"num_workers": 2, "threads": 2}, "threads is 2 and num_workers is 2", id="both"),
        pytest.param({"prefetch": 0}, "prefetch is 0", id="nothing ahead"),
        pytest.param({"seed": -3}, "seed is -3", id="negative seed"),
        pytest.param({"shuffle": True, "sampler": [1]}, "shuffle is True and a sampler", id="two orders"),
        pytest.param({"rank": 2, "world_size": 2}, "rank is 2", id="rank too high"),
        pytest.param({"rank": 1}, "pass both", id="rank alone"),
        pytest.param({"dataset": iter([1])}, "has no length", id="no length"),
    ],
)
def test_what_is_refused(options: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"dataset": [1, 2], "batch_size": 2} | options
    with pytest.raises(InvalidArgumentError, match=message):
        loader(**arguments)
    with pytest.raises(InvalidArgumentError, match="epoch is -1"):
        loader([1, 2], 2).set_epoch(-1)


class FakePin:
    """Stands for pinned memory where there is no CUDA: keeps what was drawn into it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.drawn: list[int] = []
        self.copied: list[int] = []
        monkeypatch.setattr(batch_loader, "allocate_pinned", self.allocate)
        monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: self.pin(tensor))

    def allocate(self, shape: Any, dtype: Any) -> Any:
        tensor = torch.from_numpy(np.empty(shape, dtype))
        self.drawn.append(tensor.data_ptr())
        return Memory(tensor.numpy(), tensor)

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.data_ptr() not in self.drawn:
            self.copied.append(tensor.data_ptr())
        return tensor


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize(
    ("has_cuda", "asked", "expected"),
    [(True, None, True), (False, None, False), (True, False, False), (False, True, True)],
)
def test_pictures_are_drawn_into_pinned_memory(
    has_cuda: bool, asked: Any, expected: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = FakePin(monkeypatch)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_cuda)
    batches = list(loader(make_ego(), 8, threads=threads, pin_memory=asked))
    pictures = [batch["image"].data_ptr() for batch in batches]
    assert sorted(pinned.drawn) == (sorted(pictures) if expected else [])
    others = {tensor.data_ptr() for batch in batches for tensor in batch.values()} - set(pictures)
    assert set(pinned.copied) == (others if expected else set())
    assert_equal_batches(batches, list(DataLoader(make_ego(), batch_size=8)))


@pytest.fixture
def saved_log(tmp_path: Path) -> ChunkedDataset:
    return ChunkedDataset(save_fixture_s(tmp_path)).open()


@pytest.mark.parametrize(
    "opening",
    [
        pytest.param({}, id="whole arrays"),
        pytest.param({"cache_size_bytes": 2000}, id="small cache"),
        pytest.param({"cached": False}, id="no cache"),
        pytest.param({"cached": "mmap"}, id="mapped"),
    ],
)
def test_threads_that_read_one_log_at_once(opening: Any, tmp_path: Path) -> None:
    scenes = [make_several_scenes_log(), make_fixture_s()] * 2
    path = str(tmp_path / "log.zarr")
    ChunkedDataset.concatenate(scenes).save(path)
    cfg = make_cfg(map_type="box_debug", raster_size=[32, 16])
    rasterizer = build_rasterizer(cfg, None)
    expected = list(loader(EgoDataset(cfg, ChunkedDataset.concatenate(scenes), rasterizer), 3, shuffle=True, threads=0))
    for _ in range(3):  # each time with caches that are empty
        dataset = EgoDataset(cfg, ChunkedDataset(path).open(**opening), rasterizer)
        assert_equal_batches(loader(dataset, 3, shuffle=True, threads=4), expected)


@pytest.mark.long
@pytest.mark.process
def test_spawned_workers_make_the_same_bits(saved_log: ChunkedDataset) -> None:
    dataset = make_ego(make_perturbation(), saved_log)
    expected = loader(dataset, 4, shuffle=True, threads=2)
    batches = loader(dataset, 4, shuffle=True, num_workers=1, multiprocessing_context="spawn")
    for _ in range(2):
        assert_equal_batches(batches, list(expected))


class WorkerOf(Dataset[Any]):
    """Tells which process made a sample."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return os.getpid()


@pytest.mark.process
@needs_fork
def test_workers_live_through_epochs() -> None:
    batches = loader(WorkerOf(), 1, **FORK)
    processes = [{int(batch) for batch in batches} for _ in range(3)]
    assert len(processes[0]) == 2
    assert processes[0] == processes[1] == processes[2]


@pytest.mark.parametrize(
    ("make", "num_batches"),
    [
        pytest.param(lambda dataset: DataLoader(dataset, batch_size=4), 8, id="dataset"),
        pytest.param(lambda dataset: DataLoader(Subset(dataset, range(8)), batch_size=4), 2, id="subset"),
        pytest.param(lambda dataset: DataLoader(random_split(dataset, [20, 10])[1], batch_size=5), 2, id="split"),
        pytest.param(lambda dataset: DataLoader(dataset, batch_size=3, sampler=range(6)), 2, id="sampler"),
        pytest.param(
            lambda dataset: DataLoader(dataset, batch_sampler=BatchSampler(range(9), 3, False)), 3, id="batch sampler"
        ),
    ],
)
def test_torchs_loader_gains_from_batches(make: Any, num_batches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    inherited = EgoDataset._make_batch

    def make_batch(self: Any, sampler: Any, indices: Any, out: Any) -> Any:
        sizes.append(len(indices))
        return inherited(self, sampler, indices, out)

    monkeypatch.setattr(EgoDataset, "_make_batch", make_batch)
    dataset = make_ego(log=make_fixture_s())
    batches = list(make(dataset))
    assert len(sizes) == len(batches) == num_batches
    for batch in batches:
        for k, frame in enumerate(batch["frame_index"].tolist()):
            for key, value in dataset[frame].items():
                np.testing.assert_array_equal(batch[key][k].numpy(), value, err_msg=key)


def test_torchs_loader_takes_concatenated_datasets() -> None:
    datasets = [make_ego(), make_ego(log=make_several_scenes_log())]
    batches = list(DataLoader(ConcatDataset(datasets), batch_size=8))
    singles = [dataset[index] for dataset in datasets for index in range(len(dataset))]
    for key in singles[0]:
        found = torch.cat([batch[key] for batch in batches]).numpy()
        np.testing.assert_array_equal(found, [sample[key] for sample in singles], err_msg=key)


def test_the_function_is_what_the_package_exports() -> None:
    assert loader is loading.loader
