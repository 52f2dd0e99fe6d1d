"""Draws of scenes: a share of them, with weights, the same in all processes."""

import numpy as np
import pytest

from l5kit.dataset import EgoDataset, loader
from l5kit.dataset.rank_sampler import SceneChoice, choose_scenes
from l5kit.errors import InvalidArgumentError
from support.logs import make_several_scenes_log
from support.samples import make_cfg


@pytest.fixture(scope="module")
def samples():
    return EgoDataset(make_cfg(), make_several_scenes_log(), None)


@pytest.fixture(scope="module")
def scene_of(samples):
    scenes = range(len(samples.dataset.scenes))
    return np.repeat(list(scenes), [len(samples.get_scene_indices(scene)) for scene in scenes])


@pytest.mark.parametrize(("fraction", "expected"), [(0.5, 50), (0.004, 1), (0.126, 13), (1.0, 100)])
def test_a_share_of_the_scenes_is_chosen(fraction, expected):
    chosen = choose_scenes(100, fraction, seed=4)
    assert len(chosen) == expected == len(np.unique(chosen))
    assert set(chosen) <= set(choose_scenes(100, min(1.0, 2 * fraction), seed=4))
    assert expected == 100 or set(chosen) != set(choose_scenes(100, fraction, seed=5))


@pytest.mark.parametrize("how", [{}, {"shuffle": True}, {"shuffle": True, "shuffle_by": "scenes"}], ids=str)
def test_ranks_share_the_samples_of_the_scenes_that_are_chosen(samples, scene_of, how):
    num_scenes = len(samples.dataset.scenes)
    chosen = choose_scenes(num_scenes, 0.5, seed=7)
    assert 0 < len(chosen) < num_scenes
    given = []
    for rank in range(2):
        batches = loader(samples, 3, fraction=0.5, subset_seed=7, rank=rank, world_size=2, **how)
        given += list(batches.sampler)
    assert sorted(given) == np.flatnonzero(np.isin(scene_of, chosen)).tolist()
    assert SceneChoice(fraction=0.5, subset_seed=7).num_samples_of(samples) == len(given)


def test_weights_are_those_of_the_scenes_that_are_chosen(samples, scene_of):
    num_scenes = len(samples.dataset.scenes)
    first, *_ = choose_scenes(num_scenes, 0.5, seed=7)
    weights = np.zeros(num_scenes)
    weights[first] = 2.0
    batches = loader(samples, 3, shuffle=True, fraction=0.5, subset_seed=7, scene_weights=weights)
    assert set(scene_of[list(batches.sampler)]) == {first}


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"fraction": 0.0}, "fraction must be above 0 and at most 1, got 0.0"),
        ({"fraction": 1.5}, "fraction must be above 0 and at most 1, got 1.5"),
        ({"fraction": float("nan")}, "fraction must be above 0"),
        ({"subset_seed": -1}, "subset_seed must be at least 0, got -1"),
        ({"shuffle": True, "scene_weights": [1.0]}, "one for each scene, got shape"),
        ({"fraction": 0.5, "sampler": [0]}, "fraction 0.5 and a sampler"),
        ({"scene_weights": [1.0], "sampler": [0]}, "scene_weights and a sampler"),
    ],
    ids=str,
)
def test_impossible_choices_are_refused(samples, how, message):
    with pytest.raises(InvalidArgumentError, match=message):
        loader(samples, 2, **how)


@pytest.mark.parametrize("how", [{"fraction": 0.5}, {"shuffle": True, "scene_weights": [1.0]}], ids=str)
def test_scenes_of_other_datasets_are_not_known(how):
    with pytest.raises(InvalidArgumentError, match=r"need.* the scenes of the samples.*got range"):
        loader(range(10), 2, **how)
