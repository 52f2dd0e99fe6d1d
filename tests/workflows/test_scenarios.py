"""Scenes that a training draws by their tags."""

from contextlib import nullcontext

import numpy as np
import pytest

from l5kit.configs.runs import LoaderParams
from l5kit.data import LocalDataManager
from l5kit.dataset.rank_sampler import choose_scenes
from l5kit.errors import ConfigError
from l5kit.evaluation.scene_tags import TAG_KINDS
from l5kit.workflows import TrainingConfig, scenarios
from support.workflows import small_config

NAMES = [kind.name for kind in TAG_KINDS]
KEY = "scenes/sample.zarr"


def test_the_largest_weight_of_the_tags_of_a_scene_counts():
    has_tag = np.zeros((4, len(NAMES)), np.bool_)
    has_tag[0, NAMES.index("left_turn")] = True
    has_tag[1, [NAMES.index("left_turn"), NAMES.index("standing")]] = True
    has_tag[2, NAMES.index("cut_in")] = True
    weights = {"left_turn": 3.0, "standing": 0.5}
    assert scenarios.weights_of_scenes(has_tag, weights).tolist() == [3.0, 3.0, 1.0, 1.0]
    assert scenarios.weights_of_scenes(has_tag, {**weights, "others": 0.0}).tolist() == [3.0, 3.0, 0.0, 0.0]
    assert scenarios.weights_of_scenes(has_tag[1:2], {"left_turn": 0.0, "standing": 0.5}).tolist() == [0.5]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scenario_weights": {"left_trun": 2}}, "no tag 'left_trun' .did you mean 'left_turn'.+; there are .*others"),
        ({"scenario_weights": {"left_turn": -1}}, "names with a finite number of at least 0 each, got"),
        ({"scenario_weights": {"left_turn": float("inf")}}, "names with a finite number"),
        ({"scenario_weights": {}}, "names with a finite number"),
        ({"scenario_weights": {"left_turn": 2}, "shuffle": False}, "scenario_weights: they need shuffling"),
        ({"scenario_weights": {"left_turn": 2}, "shuffle_by": "samples"}, "they need shuffling by scenes"),
        ({"shuffle_by": "scenes", "shuffle": False}, "shuffle_by: shuffle is false"),
        ({"shuffle_by": "frames"}, "shuffle_by: expected 'samples' or 'scenes', got 'frames'"),
        ({"fraction": 0}, "fraction: expected a finite number above 0 and at most 1, got 0"),
        ({"fraction": 1.1}, "fraction: expected a finite number above 0 and at most 1, got 1.1"),
        ({"subset_seed": -1}, "subset_seed: expected a whole number from 0 to 9.22337e.18, got -1"),
    ],
    ids=str,
)
def test_what_cannot_be_is_told(changes, message):
    cfg = small_config("vector_planner")
    cfg["train_data_loader"] |= changes
    with pytest.raises(ConfigError, match=message):
        TrainingConfig.from_cfg(cfg)


@pytest.mark.filterwarnings("ignore:computing the tags")
def test_scenes_are_looked_at_once(city, tmp_path, monkeypatch):
    monkeypatch.setenv("L5KIT_CACHE_DIR", str(tmp_path))
    cfg = small_config("vector_planner")
    weights = {"standing": 2.0, "left_turn": 3.0, "stop_at_red": 4.0, "others": 0.25}
    section = {"key": KEY, "batch_size": 2, "scenario_weights": weights, "fraction": 0.5, "subset_seed": 3}
    loader = LoaderParams.from_cfg({"train_data_loader": section})
    found = scenarios.open_choice(loader, cfg, LocalDataManager(city))
    assert (found.fraction, found.subset_seed) == (0.5, 3)
    assert set(found.weights) <= set(weights.values())
    monkeypatch.setattr(scenarios, "tag_scenes", None)
    np.testing.assert_array_equal(scenarios.open_choice(loader, cfg, LocalDataManager(city)).weights, found.weights)


@pytest.mark.filterwarnings("ignore:computing the tags")
def test_a_log_of_which_nothing_is_drawn_is_refused(city, tmp_path, monkeypatch):
    monkeypatch.setenv("L5KIT_CACHE_DIR", str(tmp_path))
    section = {"key": KEY, "batch_size": 2, "scenario_weights": dict.fromkeys((*NAMES, "others"), 0)}
    loader = LoaderParams.from_cfg({"train_data_loader": section})
    with pytest.raises(ConfigError, match=r"leave no scene of scenes/sample.zarr a weight above 0; give others"):
        scenarios.open_choice(loader, small_config("vector_planner"), LocalDataManager(city))


def test_weights_that_leave_nothing_are_told_before_scenes_are_looked_at(tmp_path):
    section = {"key": KEY, "batch_size": 2, "scenario_weights": {"others": 0}, "folders": ["town-1", "town-2"]}
    loader = LoaderParams.from_cfg({"train_data_loader": section})
    with pytest.raises(ConfigError, match=r"leave no scene of scenes/sample.zarr in town-1, town-2 a weight above 0"):
        scenarios.open_choice(loader, small_config("vector_planner"), LocalDataManager(tmp_path))


def test_a_share_of_which_nothing_is_drawn_is_told_by_the_keys(tmp_path, monkeypatch):
    monkeypatch.setattr(scenarios, "_weights_of_log", lambda *_: np.repeat([3.0, 0.0], 4))
    section = {"key": KEY, "batch_size": 2, "scenario_weights": {"left_turn": 3, "others": 0}, "fraction": 0.13}
    loaders = [LoaderParams.from_cfg({"train_data_loader": section | {"subset_seed": seed}}) for seed in range(12)]
    has_scene = [bool(choose_scenes(8, 0.13, seed=seed)[0] < 4) for seed in range(12)]
    assert 0 < sum(has_scene) < 12
    for seed, (loader, is_taken) in enumerate(zip(loaders, has_scene, strict=True)):
        part = f"no one of the 1 scenes that train_data_loader.fraction 0.13 and subset_seed {seed} take"
        with nullcontext() if is_taken else pytest.raises(ConfigError, match=part):
            scenarios.open_choice(loader, small_config("vector_planner"), LocalDataManager(tmp_path))
