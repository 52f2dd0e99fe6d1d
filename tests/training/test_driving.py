"""Networks in training drive held-out scenes, and the best weights are those that drive best."""

import csv
import json
import math

import lightning.pytorch as pl
import pytest
import torch

from l5kit.closedloop.options import ClosedLoopOptions
from l5kit.closedloop.run import simulate
from l5kit.data import LocalDataManager
from l5kit.errors import ConfigError
from l5kit.planning.checkpoint import read_checkpoint
from l5kit.simulation.drivers.intelligent import POPULATIONS
from l5kit.simulation.engine.scene_simulation import SceneSimulation
from l5kit.training import train
from l5kit.training.best import BestScore, TopFile, TopWeights, evaluation_digest
from l5kit.workflows import TrainingConfig
from l5kit.workflows.driving_scores import DrivingEvaluation, means_of_driving
from l5kit.workflows.workflow import make_model
from support.models import one_thread
from support.workflows import small_config

__all__ = ["one_thread"]

pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:.*LeafSpec")

DRIVEN = {"key": "scenes/sample.zarr", "num_scenes": 2, "num_frames": 6}


def config_of(workflow, **driving):
    return TrainingConfig.from_cfg(small_config(workflow, val_driving=DRIVEN | driving))


def evaluation_of(config, city):
    return DrivingEvaluation(config, config.params.val_driving, LocalDataManager(city))


@pytest.mark.filterwarnings("ignore:.*model is in training mode")
@pytest.mark.parametrize(
    "workflow", ["raster_planner", "vector_planner", "urban_driver", "safepathnet", "query_centric"]
)
def test_planners_drive_and_nothing_finite_is_0(workflow, city):
    config = config_of(workflow)
    torch.manual_seed(3)
    state = torch.random.get_rng_state()
    evaluation = evaluation_of(config, city)
    assert torch.equal(torch.random.get_rng_state(), state)
    weights = make_model(config).state_dict()
    sums = evaluation.sums_of(weights, torch.device("cpu"))
    means = means_of_driving(sums)
    assert 0.0 <= means["driving/score"] <= 1.0
    assert means["driving/failed_scenes"] == 0
    assert (evaluation.sums_of(weights, torch.device("cpu")) == sums).all()
    lost = {name: value * math.nan if value.is_floating_point() else value for name, value in weights.items()}
    means = means_of_driving(evaluation.sums_of(lost, torch.device("cpu")))
    assert means == {"driving/score": 0.0, "driving/failed_scenes": 2.0}


@pytest.mark.parametrize("agents", ["replay", "yielding", "assertive"])
def test_the_others_are_the_population_that_is_named(agents, city, monkeypatch):
    seats = []

    def simulation(batch, *, ego, agents):
        seats.append(agents)
        return SceneSimulation(batch, ego=ego, agents=agents)

    monkeypatch.setattr("l5kit.workflows.driving_scores.SceneSimulation", simulation)
    config = config_of("vector_planner", num_scenes=1, agents=agents)
    evaluation_of(config, city).sums_of(make_model(config).state_dict(), torch.device("cpu"))
    drivers = [None if seat is None else seat.driver for seat in seats]
    assert drivers == [POPULATIONS.get(agents)]


def test_processes_share_the_scenes(city):
    config = config_of("vector_planner", num_scenes=3, agents="idm")
    weights = make_model(config).state_dict()
    place = torch.device("cpu")
    alone = evaluation_of(config, city).sums_of(weights, place)
    parts = [evaluation_of(config, city).sums_of(weights, place, rank=rank, world_size=4) for rank in range(4)]
    assert alone[-1].tolist() == [0.0, 3.0]
    torch.testing.assert_close(torch.from_numpy(sum(parts)), torch.from_numpy(alone))


class KilledError(Exception):
    """Stands for the end of the process."""


class Killer(pl.Callback):
    """Ends the training before a step."""

    def __init__(self, step):
        self._step = step

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.global_step == self._step:
            raise KilledError


def test_the_best_weights_drive_as_well_as_they_say_after_a_kill_too(city, tmp_path):
    steps = {"max_num_steps": 6, "eval_every_n_steps": 2, "checkpoint_every_n_steps": 2}
    run = steps | {"best_by": "closed_loop", "ema_decay": 0.5, "save_top_k": 2, "learning_rate": 0.01}
    cfg = small_config("vector_planner", train_params=run, val_driving=DRIVEN)
    options = {"data_folder": city, "tell": lambda _: None, "show_bar": False}
    result = train(cfg, tmp_path / "whole", **options)
    told = json.loads((result.folder / "result.json").read_text())
    assert told["best_by"] == result.best_by == "driving/score"
    assert told["driving_data"]["path"] == DRIVEN["key"]
    with (result.folder / "curves" / "version_0" / "metrics.csv").open() as table:
        curve = [float(row["driving/score"]) for row in csv.DictReader(table) if row["driving/score"]]
    assert len(curve) == 3
    assert result.best_score == max(curve)
    assert read_checkpoint(result.best_weights).facts["score_name"] == "driving/score"
    assert len(list(result.folder.glob("*_top_*"))) == 2

    by_command = ClosedLoopOptions(scenes=[0, 2], start_frame=10, num_frames=6, show_bar=False)
    driven = simulate(city, tmp_path / "driven", planner=str(result.best_weights), options=by_command)
    assert driven.scores["score"] == pytest.approx(result.best_score, abs=1e-5)

    with pytest.raises(KilledError):
        train(cfg, tmp_path / "killed", callbacks=(Killer(5),), **options)
    again = train(cfg, tmp_path / "killed", resume=True, **options)
    assert (again.scores, again.best_score, again.best_step) == (result.scores, result.best_score, result.best_step)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        pytest.param({"train_params": {"best_by": "closed_loop"}}, "add a section val_driving", id="nothing driven"),
        pytest.param({"val_driving": {"num_scenes": 3}}, "val_driving.key: this key is missing", id="no log"),
        pytest.param({"val_driving": DRIVEN | {"num_frames": 1}}, "1 frame is not driven", id="one frame"),
        pytest.param({"val_driving": DRIVEN | {"agents": "rules"}}, "or 'changing', got 'rules'", id="agents"),
        pytest.param(
            {"val_driving": DRIVEN, "train_params": {"strategy": "fsdp"}}, "not supported with .* 'fsdp'", id="parts"
        ),
    ],
)
def test_what_does_not_go_together_is_refused(changes, error):
    with pytest.raises(ConfigError, match=error):
        TrainingConfig.from_cfg(small_config("vector_planner", **changes))


def test_driving_needs_evaluations():
    cfg = small_config("vector_planner", val_driving=DRIVEN)
    del cfg["val_data_loader"]
    with pytest.raises(ConfigError, match=r"val_driving: .*add a val_data_loader"):
        TrainingConfig.from_cfg(cfg)


def test_scenes_and_networks_that_cannot_be_driven_are_refused(city):
    with pytest.raises(ConfigError, match=r"start_frame: 99, but no scene of scenes/sample.zarr has two frames"):
        evaluation_of(config_of("vector_planner", start_frame=99), city)
    with pytest.raises(ConfigError, match="a network of agent_motion does not drive the AV"):
        evaluation_of(config_of("agent_motion"), city)
    with pytest.raises(FileNotFoundError, match="elsewhere"):
        evaluation_of(config_of("vector_planner", folder="elsewhere"), city)


def test_the_largest_score_of_driving_is_the_best(tmp_path):
    best = BestScore().after(0.2, 1, is_largest_best=True)
    assert best == BestScore(0.2, 1)
    assert best.after(0.1, 2, is_largest_best=True).after(math.nan, 3, is_largest_best=True) == BestScore(0.2, 1, 2)
    assert best.after(0.3, 2, is_largest_best=True) == BestScore(0.3, 2)
    top = TopWeights(tmp_path, "net", 2, is_largest_best=True)
    top.keep(*(TopFile(score, step, f"{step}", "") for step, score in enumerate((0.1, 0.5, 0.3, 0.3))), is_main=True)
    assert [file.step for file in top.files] == [1, 2]
    assert top.file_for(0.2, 9, "") is None
    assert top.file_for(0.4, 9, "") is not None


def test_scores_of_driving_are_compared_for_the_same_scenes():
    cfg = small_config("vector_planner", val_driving=DRIVEN)
    digest = evaluation_digest(cfg, score="driving/score", section="val_driving")
    cfg["val_data_loader"]["batch_size"] = 3
    assert evaluation_digest(cfg, score="driving/score", section="val_driving") == digest
    cfg["val_driving"]["num_scenes"] = 3
    assert evaluation_digest(cfg, score="driving/score", section="val_driving") != digest
