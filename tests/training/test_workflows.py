"""Every workflow trains: its loss falls, it is scored against baselines, and its weights can be loaded."""

import csv
import json
import warnings

import pytest
import torch
from torch.utils.data import Subset

from l5kit import __version__
from l5kit.configs.overrides import load_training_config, with_overrides
from l5kit.configs.runs import WORKFLOWS
from l5kit.data import ChunkedDataset, LocalDataManager
from l5kit.data.digests.digest import dataset_digest
from l5kit.kinematic.baselines import BASELINES
from l5kit.planning.checkpoint import load_checkpoint, read_checkpoint
from l5kit.training import train
from l5kit.workflows import TrainingConfig, make_model, open_samples
from support.tolerances import FLOAT32_LONG
from support.workflows import small_config

pytestmark = pytest.mark.filterwarnings("ignore:the agents mask of")


def curve(folder, name):
    """The values of a curve that a training wrote, in their order."""
    (path,) = folder.glob("curves/*/metrics.csv")
    with open(path, newline="") as file:
        return [float(row[name]) for row in csv.DictReader(file) if row.get(name)]


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_the_loss_falls_and_the_weights_come_back(workflow, city, tmp_path):
    cfg = small_config(workflow)
    cfg["train_data_loader"]["shuffle"] = False
    cfg["train_params"] |= {"num_epochs": 5, "max_num_steps": 4, "learning_rate": 5e-4}  # the same four batches
    told = []
    result = train(cfg, tmp_path / "out", data_folder=city, tell=told.append)

    losses = curve(tmp_path / "out", "train/loss")
    assert len(losses) == result.num_steps == 20
    assert sum(losses[-4:]) < 0.8 * sum(losses[:4])

    horizon = f"{cfg['model_params']['future_num_frames'] / 10:g}s"
    names = {f"{who}/{name}/{horizon}" for who in ("val", *BASELINES) for name in ("ade_m", "fde_m", "miss_rate")}
    assert set(result.scores) == names
    assert len(told) == 1
    written = json.loads((tmp_path / "out" / "result.json").read_text())
    assert written["scores"] == dict(result.scores)

    checkpoint = read_checkpoint(result.weights)
    assert checkpoint.config == cfg
    key = cfg["train_data_loader"]["key"]
    num_scenes = len(ChunkedDataset(str(city / key)).open().scenes)
    assert written["data"] == {"path": key, "digest": dataset_digest(city / key), "num_scenes": num_scenes}
    assert written["eval_data"]["digest"] == dataset_digest(city / cfg["val_data_loader"]["key"])
    for weights in (result.weights, result.best_weights):
        told = read_checkpoint(weights).facts
        assert {name: told[name] for name in ("l5kit", "data", "eval_data")} == {
            "l5kit": __version__,
            "data": written["data"],
            "eval_data": written["eval_data"],
        }
    config = TrainingConfig.from_cfg(cfg)
    samples = open_samples(config, config.params.train_loader, LocalDataManager(city), perturbed=False)
    model = make_model(config, samples)
    assert not load_checkpoint(model, result.weights)
    assert not load_checkpoint(model, tmp_path / "out" / "last.ckpt", allow_pickle=True)


SHORT = (
    "train_data_loader.key=scenes/sample.zarr",
    "train_data_loader.shuffle=false",
    "train_data_loader.batch_size=8",
    "train_data_loader.threads=0",
    "val_data_loader.batch_size=8",
    "val_data_loader.max_num_batches=1",
    "train_params.max_num_steps=2",
    "train_params.eval_every_n_steps=12",
    "train_params.schedule=constant",
    "train_params.warmup_num_steps=0",
    "train_params.log_every_n_steps=1",
    "train_params.accelerator=cpu",
)


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_the_configuration_that_ships_trains_in_short(workflow, city, tmp_path):
    num_epochs, part = 6, "loss"
    if workflow == "safepathnet":  # most of its loss is of probabilities, which take long to be surer
        num_epochs, part = 12, "loss/agents_traj"
    cfg = with_overrides(load_training_config(workflow), [*SHORT, f"train_params.num_epochs={num_epochs}"])
    result = train(cfg, tmp_path / "out", data_folder=city, tell=lambda _: None)
    losses = curve(tmp_path / "out", f"train/{part}")
    assert len(losses) == 2 * num_epochs
    assert sum(losses[-2:]) < 0.95 * sum(losses[:2])  # the same two batches, again and again
    horizon_s = max(float(name.rpartition("/")[2].removesuffix("s")) for name in result.scores)
    assert horizon_s >= 2
    error_m, baseline_m = (result.scores[f"{who}/ade_m/{horizon_s:g}s"] for who in ("val", "constant_velocity"))
    assert error_m < 3 * baseline_m + 1  # which it starts from, as it predicts differences to it


def test_speed_and_share_of_the_loader_are_in_the_curves(city, tmp_path):
    cfg = small_config(
        "vector_planner", train_params={"max_num_steps": 6, "log_every_n_steps": 2, "accelerator": "cpu"}
    )
    train(cfg, tmp_path / "out", data_folder=city)
    assert len(curve(tmp_path / "out", "samples_per_s")) == 3
    assert all(0 < share < 1 for share in curve(tmp_path / "out", "loader_share"))


def test_the_baseline_is_that_of_the_evaluation(city, tmp_path):
    from l5kit.dataset import loader
    from l5kit.evaluation.horizon_scores import score_baselines

    cfg = small_config("raster_planner", train_params={"max_num_steps": 1, "accelerator": "cpu"})
    result = train(cfg, tmp_path / "out", data_folder=city)
    config = TrainingConfig.from_cfg(cfg)
    samples = open_samples(config, config.params.val_loader, LocalDataManager(city), perturbed=True)
    assert samples.perturbation is None
    chosen = [
        int((place + 0.5) * len(samples) / 16) for place in range(16)
    ]  # two batches of eight, spread over all scenes
    batches = loader(Subset(samples, chosen), 8, threads=0)
    scores = score_baselines(batches, horizons_s=[1.2], step_time_s=0.1, baselines=("constant_velocity",))
    (score,) = scores["constant_velocity"]
    assert result.scores["constant_velocity/ade_m/1.2s"] == pytest.approx(score.ade_m, rel=FLOAT32_LONG)
    assert result.scores["constant_velocity/fde_m/1.2s"] == pytest.approx(score.fde_m, rel=FLOAT32_LONG)


@pytest.mark.parametrize("workflow", [workflow for workflow in WORKFLOWS if workflow != "route_planner"])
def test_differences_to_constant_velocity_are_learned_as_they_should_be(workflow, city):
    changes = {"velocity_residual": True, "criterion": "smooth_l1", "history_step_size": 2, "future_step_size": 3}
    if workflow in ("agent_motion_multimodal", "motion_tokens"):
        del changes["criterion"]
    cfg = small_config(workflow)
    cfg["model_params"] |= {"pretrained": False} | changes
    config = TrainingConfig.from_cfg(cfg)
    samples = open_samples(config, config.params.train_loader, LocalDataManager(city), perturbed=False)
    model = make_model(config, samples)
    if workflow == "motion_tokens":
        assert model.tokeniser.base == "constant_velocity"
        return
    network = model if workflow in ("urban_driver", "query_centric") else model.residual
    assert isinstance(network.criterion, torch.nn.SmoothL1Loss) == (workflow != "agent_motion_multimodal")
    if workflow == "urban_driver":
        assert (model.is_residual, model.fits_motion) == (True, False)
        return
    if workflow == "query_centric":
        assert (model.residual_to, model.step_time_s) == ("constant_velocity", pytest.approx(0.3))
        return
    assert (model.past_step_time_s, model.step_time_s) == (pytest.approx(0.2), pytest.approx(0.3))
    assert model.num_steps == cfg["model_params"]["future_num_frames"]
    assert model.target_key.startswith("all_other_agents") == (workflow == "safepathnet")
    if workflow == "vector_planner":
        assert not network.normalize_targets


def test_agents_that_are_wanted_are_no_surprise(city):
    cfg = small_config("simnet", train_data_loader={"min_frame_history": 0, "min_frame_future": 3})
    config = TrainingConfig.from_cfg(cfg)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "the agents mask of")
        samples = open_samples(config, config.params.train_loader, LocalDataManager(city), perturbed=False)
    assert (samples.min_frame_history, samples.min_frame_future) == (0, 3)


def test_samples_without_a_past_have_no_baseline(city, tmp_path):
    cfg = small_config("raster_planner", train_params={"max_num_steps": 1, "accelerator": "cpu"})
    cfg["model_params"]["history_num_frames"] = 0
    result = train(cfg, tmp_path / "out", data_folder=city)
    assert all(name.startswith("val/") for name in result.scores)


def test_without_a_word_on_weights_a_missing_file_is_told(city, monkeypatch):
    monkeypatch.setattr(torch.hub, "_hub_dir", str(city / "nothing"))  # set_dir(get_dir()) would outlive the test
    cfg = small_config("simnet")
    del cfg["model_params"]["pretrained"]
    config = TrainingConfig.from_cfg(cfg)
    samples = open_samples(config, config.params.train_loader, LocalDataManager(city), perturbed=False)
    with pytest.warns(UserWarning, match=r"random weights: .*resnet18") as caught:
        make_model(config, samples)
    assert [warning.filename for warning in caught] == [__file__]
    cfg["model_params"]["pretrained"] = True
    with pytest.raises(FileNotFoundError, match="ImageNet"):
        make_model(TrainingConfig.from_cfg(cfg), samples)
    cfg["model_params"] |= {"pretrained": None, "model_architecture": "simple_cnn"}
    del cfg["model_params"]["pretrained"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_model(TrainingConfig.from_cfg(cfg), samples)


def test_only_so_many_scenes_are_taken(city):
    cfg = small_config("agent_motion")
    config = TrainingConfig.from_cfg(cfg)
    samples = open_samples(config, config.params.train_loader, LocalDataManager(city), perturbed=False)
    assert len(samples.dataset.scenes) == 2
    assert samples.agents_mask.sum() == len(samples) > 0
