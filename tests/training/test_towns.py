"""Trainings in several towns with a map each, and evaluations in another one."""

import json
import shutil
from functools import partial

import numpy as np
import pytest
import torch

from l5kit.configs.config import load_config_data
from l5kit.configs.runs import LoaderParams
from l5kit.data import LocalDataManager
from l5kit.data.digests.digest import dataset_digest
from l5kit.data.loader_folders import folders_of, log_keys_of
from l5kit.dataset import collate
from l5kit.dataset.joined import JoinedDataset
from l5kit.dataset.rank_sampler import SceneChoice
from l5kit.errors import ConfigError, InvalidArgumentError
from l5kit.openloop import evaluate
from l5kit.openloop.setup import OpenLoopOptions
from l5kit.synthetic import make_city
from l5kit.training import SampleDataModule, train
from l5kit.workflows import TrainingConfig, open_samples
from l5kit.workflows.scenarios import open_choice
from support.models import one_thread
from support.workflows import small_config

__all__ = ["one_thread"]

KEY = "scenes/sample.zarr"


@pytest.fixture(scope="module")
def towns(city, tmp_path_factory):
    """Folder with the towns ``old`` of 300 frames and ``new`` of 60, which have other roads."""
    folder = tmp_path_factory.mktemp("towns")
    shutil.copytree(city, folder / "old")
    make_city(folder / "new", seed=12, num_scenes=2, num_frames=30, town_size=300.0)
    return folder


def samples_of(towns, workflow, folders, **changes):
    cfg = small_config(workflow)
    cfg["val_data_loader"] |= {"folders": folders, **changes}
    config = TrainingConfig.from_cfg(cfg)
    return open_samples(config, config.params.val_loader, LocalDataManager(towns), perturbed=False)


@pytest.mark.parametrize("workflow", ["vector_planner", "agent_motion"])
def test_joined_samples_are_those_of_each_town_with_its_map(towns, workflow):
    joined = samples_of(towns, workflow, ["old", "new"])
    old, new = (samples_of(towns, workflow, [name]).parts[0] for name in ("old", "new"))
    assert len(joined) == len(old) + len(new)
    indices = [len(old) + 7, 3, len(old), -1, len(old) - 1]
    expected = collate([new[7], old[3], new[0], new[-1], old[-1]])
    batch = collate(joined.__getitems__(indices))
    assert batch.keys() == expected.keys()
    for key, value in expected.items():
        assert torch.equal(batch[key], value), key
    assert joined[indices[0]]["timestamp"] == new[7]["timestamp"]
    assert [joined.part_of(index) for index in (0, len(old), -1)] == [(0, 0), (1, 0), (1, len(new) - 1)]
    only = collate(joined.__getitems__([2, 5]))
    assert torch.equal(only["target_positions"], collate([old[2], old[5]])["target_positions"])


def test_places_beyond_the_joined_samples_are_refused(towns):
    joined = samples_of(towns, "vector_planner", ["old", "new"])
    assert joined.__getitems__([]) == []
    for index in (len(joined), -len(joined) - 1):
        with pytest.raises(IndexError):
            joined[index]
        with pytest.raises(IndexError):
            joined.__getitems__([0, index])
    with pytest.raises(InvalidArgumentError, match="parts is empty"):
        JoinedDataset([])


def test_scenes_are_limited_in_each_town(towns):
    joined = samples_of(towns, "vector_planner", ["old", "new"], max_scene_id=1)
    assert [len(part) for part in joined.parts] == [100, 30]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        pytest.param([], "folders: expected a non-empty path or a list of paths", id="none"),
        pytest.param([1], "folders: expected a non-empty path or a list of paths", id="a number"),
        pytest.param("", "folders: expected a non-empty path or a list of paths", id="no name"),
    ],
)
def test_folders_are_a_pattern_or_a_list_of_paths(given, error):
    cfg = small_config("vector_planner")
    cfg["train_data_loader"]["folders"] = given
    with pytest.raises(ConfigError, match=error):
        LoaderParams.from_cfg(cfg)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        pytest.param("*", ["new", "old"], id="all"),
        pytest.param("o*", ["old"], id="one"),
        pytest.param("old", ["old"], id="a name"),
        pytest.param(["old", "*"], ["old", "new"], id="none twice"),
        pytest.param(["old", "old"], ["old", "old"], id="as it is listed"),
        pytest.param(["[no]*"], ["new", "old"], id="letters"),
    ],
)
def test_a_pattern_finds_folders_in_their_order(given, found, towns):
    loader = LoaderParams.from_cfg({"train_data_loader": {"key": KEY, "batch_size": 1, "folders": given}})
    data_manager = LocalDataManager(towns)
    assert folders_of(loader, data_manager) == found
    assert log_keys_of(loader, data_manager) == [f"{name}/{KEY}" for name in found]


def test_a_pattern_that_finds_nothing_tells_what_is_there(towns):
    with pytest.raises(ConfigError, match=r"no folder in .* is called 'town_\*'; there are new, old"):
        samples_of(towns, "vector_planner", "town_*")


@pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:.*LeafSpec")
def test_a_training_keeps_the_folders_that_its_pattern_has_found(towns, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(towns / "new", data / "town_0")
    cfg = small_config("vector_planner", train_params={"max_num_steps": 1, "checkpoint_every_n_steps": 1})
    cfg["train_data_loader"] |= {"folders": "town_*"}
    del cfg["val_data_loader"]
    training = partial(train, cfg, tmp_path / "out", data_folder=data, tell=lambda _: None, show_bar=False)
    result = training()
    assert load_config_data(str(result.folder / "config.yaml"))["train_data_loader"]["folders"] == ["town_0"]
    assert training(resume=True).num_steps == 1
    shutil.copytree(towns / "new", data / "town_1")
    with pytest.raises(ConfigError, match=r"folders: \['town_0'\] became \['town_0', 'town_1'\]"):
        training(resume=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:.*LeafSpec")
def test_a_training_on_two_towns_is_evaluated_in_a_third_place(towns, tmp_path):
    cfg = small_config("vector_planner")
    cfg["train_params"] |= {"max_num_steps": 2}
    cfg["train_data_loader"] |= {"folders": ["old", "new"], "shuffle": True}
    cfg["val_data_loader"] |= {"folders": ["new"], "max_num_batches": None}
    result = train(cfg, tmp_path / "out", data_folder=towns, tell=lambda _: None, show_bar=False)
    told = json.loads((result.folder / "result.json").read_text())
    assert [(data["path"], data["digest"]) for data in told["data"]] == [
        (f"{name}/{KEY}", dataset_digest(towns / name / KEY)) for name in ("old", "new")
    ]
    assert [data["path"] for data in told["eval_data"]] == [f"new/{KEY}"]

    options = OpenLoopOptions(horizons_s=(0.4,), num_worst=0, show_bar=False)
    evaluated = evaluate(result.weights, tmp_path / "scores", data_folder=towns / "new", options=options)
    assert evaluated.num_samples == 60
    assert np.isclose(evaluated.network[0].ade_m, result.scores["val/ade_m/0.4s"])


def test_scenes_of_joined_towns_are_chosen_and_weighted(towns):
    joined = samples_of(towns, "vector_planner", ["old", "new"])
    starts = [part.scene_starts() for part in joined.parts]
    assert joined.scene_starts().tolist() == [*starts[0].tolist(), *(len(joined.parts[0]) + starts[1][1:]).tolist()]
    num_scenes = [len(of_part) - 1 for of_part in starts]
    weights = np.repeat([0.0, 1.0], num_scenes)
    weighted = SceneChoice(weights=weights).sampler_of(joined, shuffle=True, seed=0, drop_last=False)
    assert len(weighted) == len(joined)
    assert min(weighted) >= len(joined.parts[0])
    half = SceneChoice(fraction=0.5).sampler_of(joined, shuffle=True, seed=0, drop_last=False)
    scene_of = np.searchsorted(joined.scene_starts(), list(half), side="right") - 1
    assert len(set(scene_of)) == round(sum(num_scenes) / 2)


@pytest.mark.filterwarnings("ignore:computing the tags")
def test_what_happens_is_looked_up_in_each_town(towns, tmp_path, monkeypatch):
    monkeypatch.setenv("L5KIT_CACHE_DIR", str(tmp_path))
    cfg = small_config("vector_planner")
    cfg["train_data_loader"] |= {"scenario_weights": {"standing": 2.0, "left_turn": 3.0, "others": 0.25}}

    def weights_in(folders):
        cfg["train_data_loader"]["folders"] = folders
        return open_choice(LoaderParams.from_cfg(cfg), cfg, LocalDataManager(towns)).weights.tolist()

    assert weights_in(["old", "new"]) == weights_in(["old"]) + weights_in(["new"])


def test_perturbations_of_joined_towns_are_seeded_by_the_batch(towns):
    cfg = small_config("raster_planner")
    cfg["train_data_loader"] |= {"folders": ["old", "new"], "shuffle": True, "perturb_probability": 1.0}
    del cfg["val_data_loader"]
    firsts = []
    for threads in (0, 2):
        cfg["train_data_loader"]["threads"] = threads
        data = SampleDataModule.from_cfg(cfg, towns)
        data.setup()
        firsts.append(next(iter(data.train_dataloader()))["target_positions"])
    assert torch.equal(*firsts)
