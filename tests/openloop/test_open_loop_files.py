"""Checkpoints that can be evaluated, and the output folder."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from l5kit import __version__
from l5kit.configs.config import save_config_data
from l5kit.data import ChunkedDataset
from l5kit.data.digests.digest import dataset_digest
from l5kit.data.jobs.receipts import find_loss
from l5kit.errors import ConfigError, InvalidArgumentError
from l5kit.evaluation import create_chopped_dataset
from l5kit.openloop.run import evaluate
from l5kit.openloop.setup import OpenLoopOptions, set_up
from l5kit.planning.checkpoint import CheckpointMismatchError, export_torchscript
from l5kit.planning.torch_files import CheckpointError
from l5kit.planning.weights_file import weights_of
from support.networks import save_network
from support.workflows import small_config

pytestmark = pytest.mark.filterwarnings("ignore:the agents mask of")

FEW = OpenLoopOptions(max_samples=3, num_worst=1)


@pytest.fixture
def planner(city, tmp_path_factory):
    """A file with an untrained network and its configuration."""
    return save_network("vector_planner", city, tmp_path_factory.mktemp("planner"))


def files_of(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_an_evaluation_is_replaced_only_if_asked_for_and_nothing_else_is(planner, city, tmp_path):
    first = evaluate(planner, tmp_path, data_folder=city, options=FEW)
    (picture,) = (tmp_path / "worst").iterdir()
    assert files_of(tmp_path) == ["receipt.json", "samples.csv", "scores.csv", "scores.json", f"worst/{picture.name}"]
    scores = json.loads((tmp_path / "scores.json").read_text())
    log = city / "scenes" / "sample.zarr"
    num_scenes = len(ChunkedDataset(str(log)).open().scenes)
    assert scores["data"] == {"path": str(log), "digest": dataset_digest(log), "num_scenes": num_scenes}
    assert scores["l5kit"] == __version__
    assert scores["configuration"]["workflow"] == "vector_planner"
    assert find_loss(tmp_path, reads_all=True) is None
    with pytest.raises(InvalidArgumentError, match="--overwrite"):
        evaluate(planner, tmp_path, data_folder=city, options=FEW)

    fewer = OpenLoopOptions(max_samples=2, num_worst=0, overwrite=True)
    assert evaluate(planner, tmp_path, data_folder=city, options=fewer).num_samples == first.num_samples - 1
    assert files_of(tmp_path) == ["receipt.json", "samples.csv", "scores.csv", "scores.json"]
    assert json.loads((tmp_path / "scores.json").read_text())["num_samples"] == 2
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidArgumentError, match=r"holds 'notes\.txt' in addition to an evaluation"):
        evaluate(planner, tmp_path, data_folder=city, options=fewer)
    assert json.loads((tmp_path / "scores.json").read_text())["num_samples"] == 2


def test_nothing_is_written_where_something_is_wrong(planner, city, tmp_path):
    for options in (OpenLoopOptions(horizons_s=(9.0,)), OpenLoopOptions(key="scenes/other.zarr")):
        with pytest.raises((InvalidArgumentError, FileNotFoundError)):
            evaluate(planner, tmp_path / "out", data_folder=city, options=options)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def old_planner(city, tmp_path_factory):
    """Folder of files as older versions wrote them, without a configuration, and one such file next to them."""
    folder = tmp_path_factory.mktemp("old")
    file, cfg = save_network("raster_planner", city, folder), small_config("raster_planner")
    model = set_up(file, cfg, data_folder=city, options=FEW).model
    torch.save({"state_dict": model.state_dict()}, folder / "weights.pth")
    torch.save(model, folder / "module.pt")
    export_torchscript(folder / "script.pt", model)
    return folder


@pytest.mark.parametrize("name", ["weights.pth", "module.pt", "script.pt"])
def test_older_files_need_a_configuration_and_score_the_same(name, old_planner, city, tmp_path):
    options = replace(FEW, allow_pickle=name == "module.pt")
    with pytest.raises(ConfigError, match=r"--config FILE.*--workflow NAME"):
        evaluate(old_planner / name, tmp_path / "out", data_folder=city, options=options)
    cfg = small_config("raster_planner")
    old = evaluate(old_planner / name, tmp_path / "out", cfg=cfg, data_folder=city, options=options)
    new = evaluate(old_planner / "raster_planner.safetensors", tmp_path / "new", data_folder=city, options=FEW)
    assert old.network == new.network


def test_whole_modules_are_read_only_where_that_is_allowed(old_planner, city, tmp_path):
    cfg = small_config("raster_planner")
    with pytest.raises(CheckpointError, match="allow_pickle=True"):
        evaluate(old_planner / "module.pt", tmp_path / "out", cfg=cfg, data_folder=city, options=FEW)


def test_a_configuration_that_does_not_say_what_was_trained_is_an_error(planner, city, tmp_path):
    cfg = small_config("vector_planner")
    del cfg["workflow"]
    with pytest.raises(ConfigError, match="--workflow"):
        evaluate(planner, tmp_path / "out", cfg=cfg, data_folder=city, options=FEW)


def test_weights_of_another_network_are_told_apart(planner, city, tmp_path):
    with pytest.raises(CheckpointMismatchError, match="missing in the file"):
        evaluate(planner, tmp_path / "out", cfg=small_config("safepathnet"), data_folder=city, options=FEW)


def test_the_folder_of_a_training_stands_for_its_final_weights(planner, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no config\.yaml"):
        weights_of(tmp_path)
    save_config_data(
        small_config("vector_planner", train_params={"output_name": "mine"}), str(tmp_path / "config.yaml")
    )
    shutil.copy(planner, tmp_path / "mine_20_steps.safetensors")
    with pytest.raises(FileNotFoundError, match=r"no mine\.safetensors; weights in it: .*mine_20_steps"):
        weights_of(tmp_path)
    shutil.copy(planner, tmp_path / "mine.safetensors")
    assert weights_of(tmp_path) == tmp_path / "mine.safetensors"
    with pytest.raises(FileNotFoundError, match="does not exist"):
        weights_of(tmp_path / "nothing")


def test_a_configuration_without_a_log_needs_a_key(planner, city, tmp_path):
    cfg = small_config("vector_planner")
    del cfg["val_data_loader"]
    with pytest.raises(ConfigError, match="--key"):
        evaluate(planner, tmp_path / "out", cfg=cfg, data_folder=city, options=FEW)
    options = replace(FEW, key="scenes/sample.zarr")
    assert evaluate(planner, tmp_path / "out", cfg=cfg, data_folder=city, options=options).num_samples == 3


def test_only_scenes_of_the_configured_log_are_left_out(planner, city):
    cfg = small_config("vector_planner")
    cfg["val_data_loader"]["max_scene_id"] = 1
    assert len(set_up(planner, cfg, data_folder=city, options=FEW).samples) == 100
    other = replace(FEW, key="./scenes/sample.zarr")
    assert len(set_up(planner, cfg, data_folder=city, options=other).samples) == 300


@pytest.mark.filterwarnings("ignore:the agents of", "ignore:.*has no agents")
def test_test_sets_are_for_networks_that_predict_their_agents(planner, city, tmp_path):
    test_set = tmp_path / "set"
    create_chopped_dataset(city / "scenes" / "sample.zarr", 0.5, 60, 30, 10, output_folder=test_set)
    options = replace(FEW, key=str(test_set))
    with pytest.raises(InvalidArgumentError, match="agent_motion, agent_motion_multimodal, simnet do"):
        evaluate(planner, tmp_path / "out", data_folder=city, options=options)
    motion = save_network("agent_motion", city, tmp_path)
    with pytest.raises(InvalidArgumentError, match=r"12 steps of 0.1 s.* 30 frames; .*--future 12"):
        evaluate(motion, tmp_path / "out", data_folder=city, options=options)
    with pytest.raises(InvalidArgumentError, match="--key TEST-SET"):
        evaluate(motion, tmp_path / "out", data_folder=test_set, options=FEW)


def test_all_agents_of_a_test_set_are_predicted(city, tmp_path):
    test_set = tmp_path / "set"
    with pytest.warns(RuntimeWarning):
        create_chopped_dataset(city / "scenes" / "sample.zarr", 0.5, 60, 12, 10, output_folder=test_set)
    motion = save_network("agent_motion", city, tmp_path)
    with pytest.raises(InvalidArgumentError, match="max_samples is 3, but all"):
        evaluate(motion, tmp_path / "out", data_folder=city, options=replace(FEW, key=str(test_set)))
