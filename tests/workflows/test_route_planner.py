"""The workflow route_planner: its keys, the past that it does not see, and its plans as a driver."""

import math

import pytest
import torch

from l5kit.configs.overrides import load_training_config, with_overrides
from l5kit.errors import ConfigError
from l5kit.planning.past_dropout import PastDropout
from l5kit.planning.vectorized.route_model import RoutePlannerModel
from l5kit.simulation.drivers.network import NetworkDriver
from l5kit.workflows import TrainingConfig, make_model
from l5kit.workflows.architectures import architecture_of
from l5kit.workflows.drivers import load_driver
from support.networks import save_network
from support.routes import route_batch
from support.workflows import small_config


def config_of(*changes, workflow="route_planner"):
    changes = [f"model_params.{change}" for change in changes]
    return TrainingConfig.from_cfg(with_overrides(small_config(workflow), changes))


def test_keys_reach_the_model():
    model = make_model(
        config_of(
            "route=true",
            "num_modes=5",
            "modes_weight=0.5",
            "loss_decay_s=2",
            "decoder=poses",
            "pooling=attention",
            "agents_along_route=false",
            "weights_scaling=[1,2,5]",
            "future_step_size=2",
        )
    )
    assert isinstance(model, RoutePlannerModel)
    assert (model.inputs.with_route, model.inputs.agents_along_route) == (True, False)
    assert (model.decoder.num_modes, model.decoder.kind, model.modes_weight) == (5, "poses", 0.5)
    assert (model.agents.attention is not None, model.decoder.step_time_s) == (True, pytest.approx(0.2))
    assert model.weights_scaling.tolist() == [1.0, 2.0, 5.0]
    assert (model.step_weights[1:] / model.step_weights[:-1]).tolist() == pytest.approx([math.exp(-0.1)] * 3)
    assert (model.criterion.beta, make_model(config_of("criterion=smooth_l1")).criterion.beta) == (0.1, 1.0)


def test_the_configurations_plan_four_seconds_along_the_route():
    for name in ("route_planner", "examples/route_planner_config.yaml"):
        config = TrainingConfig.from_cfg(load_training_config(name))
        model = make_model(config)
        assert model.decoder.num_steps * model.decoder.step_time_s == pytest.approx(4.0)
        assert (model.inputs.with_route, model.inputs.num_past) == (True, 0)
        assert sum(weight.numel() for weight in model.parameters()) < 750_000  # 3 MB
        batch = route_batch(
            2,
            num_agents=24,
            num_lanes=config.network.sizes.lanes.max_num_lanes,
            num_lane_points=config.network.sizes.lanes.max_points_per_lane,
            generator=torch.Generator().manual_seed(0),
        )
        assert model.eval()(batch)["positions"].shape == (2, 20, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("dim_features=60", "dim_features: expected a multiple of 8, got 60"),
        ("decoder=bicycle", "decoder"),
        ("kinematic_residual=ctra", "kinematic_residual: route_planner always starts from its current speed"),
        ("velocity_residual=true", "kinematic_residual: route_planner"),
        ("motion_features=true", "motion_features: route_planner always reads the speed"),
        ("history_num_frames_ego=0", "history_num_frames_ego: velocities need past frames"),
        ("past_dropout=1.5", "past_dropout"),
    ],
)
def test_keys_that_do_not_fit_are_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        config_of(change)


@pytest.mark.parametrize(
    ("workflow", "change", "is_hidden"),
    [
        ("route_planner", "past_dropout=null", False),
        ("route_planner", "past_dropout=1", False),  # it is not even given the past
        ("route_planner", "past_dropout=0.5", True),
        ("route_planner", "past_dropout=0", False),
        ("vector_planner", "past_dropout=null", False),
        ("vector_planner", "past_dropout=1", True),
        ("urban_driver", "past_dropout=0.5", True),
        ("safepathnet", "past_dropout=0.5", True),
    ],
)
def test_the_past_is_hidden_by_a_key(workflow, change, is_hidden):
    model = make_model(config_of(change, workflow=workflow))
    assert isinstance(model, PastDropout) == is_hidden
    if is_hidden:
        assert model.is_in_first_row == (workflow == "safepathnet")
    if workflow == "route_planner":
        sees_past = change in ("past_dropout=0.5", "past_dropout=0")
        network = model.network if is_hidden else model
        assert network.inputs.num_past == (3 if sees_past else 0)


@pytest.mark.parametrize(
    ("workflow", "message"),
    [("raster_planner", "set render_ego_history to false"), ("query_centric", "query_centric predicts agents from")],
)
def test_a_past_that_cannot_be_hidden_is_refused(workflow, message):
    with pytest.raises(ConfigError, match=f"past_dropout: .*{message}"):
        config_of("past_dropout=0.5", workflow=workflow)
    config_of("past_dropout=0", workflow=workflow)


@pytest.mark.parametrize("decoder", ["kinematic", "poses"])
def test_weights_tell_what_they_are_of(decoder):
    model = make_model(config_of("num_modes=4", f"decoder={decoder}", "past_dropout=0.5", "pooling=attention"))
    found = architecture_of({name: tuple(value.shape) for name, value in model.state_dict().items()})
    assert found.workflows == ("route_planner",)
    assert found.settings == {
        "model_params.num_modes": 4,
        "model_params.dim_features": 64,
        "model_params.decoder": decoder,
        "model_params.pooling": "attention",
        "model_params.future_num_frames": 4,
    }


def test_it_drives_the_av(city, tmp_path):
    driver = load_driver(save_network("route_planner", city, tmp_path), whom="ego", data_folder=city)
    assert isinstance(driver, NetworkDriver)
    assert isinstance(driver.model, RoutePlannerModel)
