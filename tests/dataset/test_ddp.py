"""Processes of a distributed training get different samples and perturbations."""

import itertools
import os
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.multiprocessing
from torch.utils.data import DataLoader, Subset

from l5kit.dataset import EgoDataset, RankSampler, loader, rank_generator
from l5kit.errors import InvalidArgumentError
from l5kit.kinematic import AckermanPerturbation
from l5kit.random import GaussianRandomGenerator
from support.fixture_s import make_fixture_s
from support.samples import make_cfg, make_stub

WORLD_SIZE = 2
FIRST_FRAMES = 24
"""Frames that have their whole future, and so can be perturbed."""

gloo = pytest.mark.skipif(
    sys.platform != "linux" or not torch.distributed.is_available(), reason="needs fork and torch.distributed"
)


def make_dataset() -> EgoDataset:
    perturbation = AckermanPerturbation(GaussianRandomGenerator(np.zeros(3), np.ones(3)), 1.0)
    cfg = make_cfg(raster_size=[16, 8])
    return EgoDataset(cfg, make_fixture_s(), make_stub(cfg), perturbation)


def moves_of(batches: Any) -> dict[int, list[float]]:
    """Return how far the AV was moved in each frame that was given, in metres along x and y."""
    recorded = make_fixture_s().frames["ego_translation"][:, :2]
    moves: dict[int, list[float]] = {}
    for batch in batches:
        for frame, centroid in zip(batch["frame_index"].tolist(), batch["centroid"].numpy(), strict=True):
            assert frame not in moves, "no sample twice"
            moves[frame] = (centroid - recorded[frame]).tolist()
    return moves


def run_rank(rank: int, port: int, folder: str) -> None:
    """Be one of the processes: save the moves of two epochs of the loader and of torch's loader with the recipe."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), USE_LIBUV="0")
    torch.distributed.init_process_group("gloo", rank=rank, world_size=WORLD_SIZE)
    torch.manual_seed(0)  # alike in all processes, as for equal weights
    dataset = make_dataset()
    options: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork"}
    threads = loader(dataset, 4, threads=2, shuffle=True, seed=7)
    workers = loader(dataset, 4, shuffle=True, seed=7, **options)
    sampler = RankSampler(len(dataset), seed=7, shuffle=True)
    plain: DataLoader[Any] = DataLoader(dataset, 4, sampler=sampler, generator=rank_generator(7), **options)
    found = {
        "threads": [moves_of(threads) for _ in range(2)],
        "workers": [moves_of(workers) for _ in range(2)],
        "plain": [moves_of(plain) for _ in range(2)],
        "num_batches": len(loader(dataset, 4, drop_last=True)),
    }
    torch.distributed.barrier()
    torch.save(found, Path(folder) / f"{rank}.pt")
    torch.distributed.destroy_process_group()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def run_ranks(folder: Path) -> list[dict[str, Any]]:
    folder.mkdir()
    torch.multiprocessing.start_processes(run_rank, (free_port(), str(folder)), nprocs=WORLD_SIZE, start_method="fork")
    return [torch.load(folder / f"{rank}.pt") for rank in range(WORLD_SIZE)]


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """Samples of each of two gloo processes, in each of two runs."""
    folder = tmp_path_factory.mktemp("ranks")
    return [run_ranks(folder / str(run)) for run in range(2)]


WAYS = pytest.mark.parametrize("way", ["threads", "workers", "plain"])


@pytest.mark.process
@gloo
@WAYS
def test_ranks_get_all_samples_and_none_twice(way: str, two_runs: Any) -> None:
    for epoch in range(2):
        frames = [set(found[way][epoch]) for found in two_runs[0]]
        assert frames[0].isdisjoint(frames[1])
        assert frames[0] | frames[1] == set(range(30))


@pytest.mark.process
@gloo
@WAYS
def test_ranks_workers_and_epochs_move_the_av_differently(way: str, two_runs: Any) -> None:
    moves = [
        move for found in two_runs[0] for epoch in found[way] for frame, move in epoch.items() if frame < FIRST_FRAMES
    ]
    assert len(moves) == 2 * FIRST_FRAMES
    assert len(np.unique(np.round(moves, 9), axis=0)) == len(moves)
    assert np.abs(moves).max(axis=1).min() > 0


@pytest.mark.process
@gloo
@WAYS
def test_a_run_gives_what_the_run_before_gave(way: str, two_runs: Any) -> None:
    assert [found[way] for found in two_runs[0]] == [found[way] for found in two_runs[1]]


@pytest.mark.process
@gloo
def test_threads_and_workers_give_the_same(two_runs: Any) -> None:
    for found in two_runs[0]:
        assert found["threads"] == found["workers"]
        assert found["num_batches"] == 15 // 4


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("num_samples", "world_size"), [(10, 3), (9, 3), (2, 3), (0, 2), (300, 7), (5, 1)])
def test_shares_are_disjoint_and_complete(num_samples: int, world_size: int, shuffle: bool) -> None:
    shares = [RankSampler(num_samples, shuffle=shuffle, rank=rank, world_size=world_size) for rank in range(world_size)]
    given = [list(share) for share in shares]
    assert [len(share) for share in shares] == [len(indices) for indices in given]
    assert sorted(itertools.chain(*given)) == list(range(num_samples))
    assert max(map(len, given)) - min(map(len, given)) <= 1


@pytest.mark.parametrize(("num_samples", "world_size"), [(10, 3), (9, 3), (2, 3), (300, 7)])
def test_shares_are_equally_large_where_the_last_are_dropped(num_samples: int, world_size: int) -> None:
    for epoch in range(3):
        given = []
        for rank in range(world_size):
            share = RankSampler(num_samples, shuffle=True, drop_last=True, rank=rank, world_size=world_size)
            share.set_epoch(epoch)
            given.append(list(share))
            assert len(share) == len(given[-1]) == num_samples // world_size
        indices = list(itertools.chain(*given))
        assert len(set(indices)) == len(indices)


def test_an_order_depends_on_seed_and_epoch() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        sampler = RankSampler(50, shuffle=True, seed=seed)
        sampler.set_epoch(epoch)
        return list(sampler)

    assert order(1, 2) == order(1, 2)
    assert len({tuple(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


def test_without_a_process_group_the_environment_says_who_we_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(RankSampler(5)) == [0, 1, 2, 3, 4]
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert list(RankSampler(5)) == [1, 3]
    assert list(RankSampler(5, rank=0, world_size=1)) == [0, 1, 2, 3, 4]


def test_generators_of_ranks_differ() -> None:
    draws = [
        torch.rand(1, generator=rank_generator(seed, rank=rank, world_size=3)).item()
        for seed in (0, 1)
        for rank in range(3)
    ]
    assert len(set(draws)) == 6
    again = torch.rand(1, generator=rank_generator(1, rank=2, world_size=3)).item()
    assert again == draws[-1]


def test_batches_of_ranks_have_perturbations_of_their_own() -> None:
    dataset = Subset(make_dataset(), [5] * 8)  # one frame, which different numbers alone move differently
    centroids = [
        np.concatenate([batch["centroid"].numpy() for batch in loader(dataset, 2, rank=rank, world_size=2)])
        for rank in range(2)
    ]
    assert len(np.unique(np.round(np.concatenate(centroids), 9), axis=0)) == 8


@pytest.mark.parametrize(("rank", "world_size"), [(2, 2), (-1, 2), (0, 0), (None, 2), (1, None)])
def test_a_wrong_place_is_refused(rank: Any, world_size: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="rank is"):
        RankSampler(5, rank=rank, world_size=world_size)
