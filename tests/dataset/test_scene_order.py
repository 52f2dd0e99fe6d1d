"""Orders of samples by scenes: every sample once, reads near each other, and random enough."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.dataset import AgentDataset, EgoDataset, RankSampler, loader
from l5kit.dataset.batch_loader import BatchPlan
from l5kit.dataset.scene_order import SCENES_PER_WINDOW, SceneOrder, SceneRanges, permuted
from l5kit.errors import InvalidArgumentError
from support.logs import make_several_scenes_log
from support.samples import make_cfg

SCENES = SceneRanges.of_runs(100_000, 50)
"""2,000 scenes of 50 samples, which make four windows."""


def order_of(ranges, **how):
    return SceneOrder.of_epoch(ranges, **{"seed": 1, "epoch": 0, **how})


def whole(order):
    return order.samples_at(np.arange(order.ranges.num_samples))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 17, 1000, 4099])
def test_a_keyed_permutation_has_every_number_once(size):
    images = [permuted(np.arange(size), np.full(size, size), np.full(size, key, np.uint64)) for key in (0, 1, 2**63)]
    for image in images:
        assert_array_equal(np.sort(image), np.arange(size))
    assert size < 10 or len({tuple(image) for image in images}) == 3


def test_all_orders_of_four_things_are_about_as_likely():
    keys = np.repeat(np.arange(24_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15), 4)
    images = permuted(np.tile(np.arange(4), 24_000), np.full(96_000, 4), keys).reshape(-1, 4)
    _, counts = np.unique(images, axis=0, return_counts=True)
    assert len(counts) == 24
    assert abs(counts - 1000).max() < 5 * np.sqrt(1000)


@pytest.mark.parametrize("lengths", [[5], [0, 3, 0, 1, 0], [1] * 20, [7, 0, 1000, 2] * 300], ids=len)
def test_every_sample_comes_once_and_epochs_differ(lengths):
    ends = np.cumsum(lengths)
    ranges = SceneRanges(ends - lengths, ends)
    orders = [whole(order_of(ranges, epoch=epoch)) for epoch in (0, 0, 1)]
    for order in orders:
        assert_array_equal(np.sort(order), np.arange(ends[-1]))
    assert_array_equal(orders[0], orders[1])
    assert ends[-1] < 10 or (orders[0] != orders[2]).any()


def test_any_place_is_computed_alone():
    order = order_of(SCENES, epoch=3)
    places = np.array([99_999, 0, 51_234, 25_600])
    assert_array_equal(order.samples_at(places), whole(order)[places])


def test_samples_that_are_read_together_lie_in_few_scenes():
    scenes = whole(order_of(SCENES)).reshape(-1, 1000) // 50
    assert max(len(np.unique(part)) for part in scenes[:25]) <= SCENES_PER_WINDOW
    num_windows_of_scene = [len(np.unique(np.flatnonzero(scenes.ravel() == scene) // 25_600)) for scene in (0, 7, 1999)]
    assert num_windows_of_scene == [1, 1, 1]


def test_batches_are_nearly_as_mixed_as_those_of_a_whole_shuffle():
    batches = whole(order_of(SCENES))[: 1562 * 64].reshape(-1, 64) // 50
    num_scenes = np.mean([len(np.unique(batch)) for batch in batches])
    assert num_scenes == pytest.approx(512 * (1 - (1 - 1 / 512) ** 64), abs=0.5)  # 60.2; of 2,000 scenes 63.0


def test_places_tell_nothing_about_samples():
    first, second = (whole(order_of(SCENES, epoch=epoch)) for epoch in (0, 1))
    places = np.argsort(first), np.argsort(second)
    one_sigma = 1 / np.sqrt(2000 / 8)  # blocks of eight scenes move as one
    assert abs(np.corrcoef(np.arange(100_000), first)[0, 1]) < 4 * one_sigma
    assert abs(np.corrcoef(*places)[0, 1]) < 4 * one_sigma
    # within a window neighbours are as far apart in the row of its samples as any two of them: a third on average
    ranks = np.argsort(np.argsort(first[:25_600]))
    assert np.mean(np.abs(np.diff(ranks))) / 25_600 == pytest.approx(1 / 3, abs=0.01)
    parts = np.histogram2d(np.arange(25_600), ranks, bins=10)[0]
    assert ((parts - 256) ** 2 / 256).sum() < 126.1  # chi squared of 81 degrees, one run in 1,000


def test_weights_change_how_often_scenes_come():
    weights = np.ones(2000)
    weights[:500], weights[500:600] = 3.0, 0.0
    scenes, counts = np.unique(whole(order_of(SCENES, weights=weights)) // 50, return_counts=True)
    times = np.zeros(2000)
    times[scenes] = counts / 50
    one = 2000 / (500 * 3 + 1400)
    assert counts.sum() == 100_000
    np.testing.assert_allclose(times[:500], 3 * one, atol=0.021)
    np.testing.assert_allclose(times[500:600], 0)
    np.testing.assert_allclose(times[600:], one, atol=0.021)


def test_samples_of_a_weighted_scene_come_equally_often():
    ranges = SceneRanges(np.array([0, 10]), np.array([10, 30]))
    sums = np.zeros(30)
    for epoch in range(200):
        counts = np.bincount(whole(order_of(ranges, weights=np.array([2.5, 1.0]), epoch=epoch)), minlength=30)
        assert counts[:10].max() - counts[:10].min() <= 1
        assert counts[10:].max() - counts[10:].min() <= 1
        sums += counts
    np.testing.assert_allclose(sums[:10] / 200, 30 * 2.5 / 45, atol=0.15)
    np.testing.assert_allclose(sums[10:] / 200, 30 / 45, atol=0.15)


@pytest.mark.parametrize("factor", [1e308, 5e-324, 1e-300], ids=str)
def test_weights_may_be_as_large_or_small_as_numbers_are(factor):
    ranges = SceneRanges(np.array([0, 5, 9, 20]), np.array([5, 9, 20, 20]))
    for weights, expected in (([1, 1, 1, 1], np.ones(20)), ([0, 1, 0, 0], [*[0] * 5, *[5] * 4, *[0] * 11])):
        places = whole(order_of(ranges, weights=factor * np.array(weights)))
        assert_array_equal(np.bincount(places, minlength=20), expected)
    of_empty_scene = np.array([factor, factor, factor, 1e308])
    assert_array_equal(np.bincount(whole(order_of(ranges, weights=of_empty_scene)), minlength=20), np.ones(20))


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0], [1.0, -1.0], [1.0, np.nan]], ids=str)
def test_impossible_weights_are_refused(weights):
    with pytest.raises(InvalidArgumentError, match="scene_weights"):
        RankSampler(20, shuffle=True, scenes=SceneRanges.of_runs(20, 10), scene_weights=np.array(weights))


def test_weights_need_a_shuffle():
    with pytest.raises(InvalidArgumentError, match="scene_weights need a shuffle by scenes, but shuffle is False"):
        RankSampler(20, scenes=SceneRanges.of_runs(20, 10), scene_weights=np.ones(2))


@pytest.mark.parametrize("world_size", [1, 3])
def test_ranks_share_an_order_that_none_of_them_makes(world_size):
    shares = [
        RankSampler(100_000, shuffle=True, shuffle_by="scenes", scenes=SCENES, seed=1, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    given = np.full(100_000, -1)
    for rank, share in enumerate(shares):
        given[rank::world_size] = list(share)
    assert_array_equal(given, whole(order_of(SCENES)))


@pytest.mark.parametrize("how", [{}, {"shuffle": True}, {"shuffle": True, "shuffle_by": "scenes"}], ids=str)
def test_an_epoch_is_entered_at_a_batch(how):
    sampler = RankSampler(5000, seed=2, rank=1, world_size=2, **how)
    plan = BatchPlan(sampler, 7, drop_last=True, seed=2, rank=1)
    assert list(plan.orders(4, first=300)) == list(plan.orders(4))[300:]


def test_some_scenes_alone_are_given():
    chosen = SceneRanges.of_runs(100, 10).chosen(np.array([2, 5]))
    samples = [*range(20, 30), *range(50, 60)]
    assert list(RankSampler(20, scenes=chosen)) == samples
    for how in ("samples", "scenes"):
        order = list(RankSampler(20, shuffle=True, shuffle_by=how, scenes=chosen))
        assert sorted(order) == samples != order


@pytest.mark.parametrize("kind", [EgoDataset, AgentDataset])
def test_datasets_know_where_their_scenes_start(kind):
    dataset = kind(make_cfg(), make_several_scenes_log(), None)
    starts = dataset.scene_starts()
    expected = [dataset.get_scene_indices(scene) for scene in range(len(dataset.dataset.scenes))]
    assert_array_equal(np.concatenate(expected), np.arange(len(dataset)))
    assert starts.tolist() == [0, *itertools.accumulate(map(len, expected))]
    ranges = SceneRanges.of(dataset)
    assert_array_equal(ranges.samples_at(np.arange(len(dataset))), np.arange(len(dataset)))
    batches = loader(dataset, 4, shuffle=True, shuffle_by="scenes", threads=0, seed=3)
    order = whole(SceneOrder.of_epoch(ranges, seed=3, epoch=0))
    assert batches.sampler is not None
    assert list(batches.sampler) == order.tolist()
