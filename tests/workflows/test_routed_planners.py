"""Planners with a route by a key: support, identification from weights, and training to closed loop."""

import numpy as np
import pytest
import torch

from l5kit.configs.runs import WORKFLOWS
from l5kit.data import ChunkedDataset, LocalDataManager
from l5kit.data.scene_records import SceneRecords
from l5kit.dataset.sample_batch import collate
from l5kit.errors import ConfigError
from l5kit.kinematic.baselines import current_velocities
from l5kit.planning.checkpoint import read_checkpoint
from l5kit.planning.network_inputs import network_inputs
from l5kit.planning.network_plans import read_plans
from l5kit.planning.vectorized.elements import collect_elements
from l5kit.planning.vectorized.route_elements import collect_route, positions_on_route
from l5kit.simulation.engine.actions import PlannedPoses
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import EgoSeat, SceneSimulation
from l5kit.training import train
from l5kit.workflows import TrainingConfig, make_model, open_samples
from l5kit.workflows.architectures import architecture_of
from l5kit.workflows.drivers import load_driver
from l5kit.workflows.trained_network import load_network
from support.models import one_thread
from support.tolerances import NETWORK
from support.workflows import small_config

__all__ = ["one_thread"]

PLANNERS = pytest.mark.parametrize("workflow", ["vector_planner", "urban_driver", "safepathnet"])


def config_of(workflow, **model_params):
    cfg = small_config(workflow, train_params={"max_num_steps": 2})
    cfg["model_params"] |= {"route": True, **model_params}
    return cfg


@PLANNERS
def test_a_training_with_a_route_drives(workflow, city, tmp_path):
    cfg = config_of(workflow, past_dropout=0.5)
    cfg["train_data_loader"] |= {"perturb_kind": "recovery", "perturb_probability": 0.5}
    result = train(cfg, tmp_path / "planner", data_folder=city)
    config = TrainingConfig.from_cfg(read_checkpoint(result.weights).config)
    samples = open_samples(config, config.params.val_loader, LocalDataManager(city), perturbed=False)
    network = load_network(result.weights, config, samples, allow_pickle=False)
    seen = collate(samples.__getitems__([20, 120, 220]))
    assert seen["route_availability"].any(dim=1).all()
    with torch.no_grad():
        plans = read_plans(network(network_inputs(seen)), 3)
    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    batch = SceneBatch.of_scenes([SceneRecords.read(log, scene) for scene in range(3)], start=20, num_frames=3)
    driver = load_driver(result.weights, whom="ego", data_folder=city)
    simulation = SceneSimulation(batch, ego=EgoSeat(driver, PlannedPoses()), keeps_plans=True, strict=True)
    driven = simulation.run().plans[:, :2]
    poses = plans.in_world(seen["world_from_agent"].numpy(), seen["yaw"].numpy())
    np.testing.assert_allclose(driven[:, 0], poses, rtol=0, atol=NETWORK)
    assert np.isfinite(driven).all()


@PLANNERS
def test_weights_tell_whether_they_see_a_route(workflow):
    for route in (True, False):
        model = make_model(TrainingConfig.from_cfg(config_of(workflow, route=route)))
        found = architecture_of({name: tuple(value.shape) for name, value in model.state_dict().items()})
        assert found.workflows == (workflow,)
        assert found.settings.get("model_params.route", False) == route
        assert (model.route_embedding is not None) == route


SEES_ROUTE = {
    "raster_planner": True,
    "vector_planner": True,
    "urban_driver": True,
    "safepathnet": True,
    "route_planner": True,
    "agent_motion": False,
    "agent_motion_multimodal": False,
    "simnet": False,
    "motion_tokens": False,
    "query_centric": False,
}


def test_it_is_known_of_all_workflows_whether_they_see_a_route():
    assert set(SEES_ROUTE) == set(WORKFLOWS)


@pytest.mark.parametrize("workflow", SEES_ROUTE)
def test_a_route_is_seen_or_refused(workflow):
    if SEES_ROUTE[workflow]:
        sizes = [
            sum(
                weights.numel()
                for weights in make_model(TrainingConfig.from_cfg(config_of(workflow, route=route))).parameters()
            )
            for route in (False, True)
        ]
        assert sizes[0] < sizes[1]
    else:
        TrainingConfig.from_cfg(config_of(workflow, route=False))
        with pytest.raises(
            ConfigError, match=rf"^model_params\.route: {workflow} predicts agents.*remove it, or train"
        ):
            TrainingConfig.from_cfg(config_of(workflow))


def test_an_unroll_with_a_route_needs_a_past():
    with pytest.raises(ConfigError, match=r"history_num_frames_ego: velocities need past frames.*remove route"):
        TrainingConfig.from_cfg(config_of("urban_driver", history_num_frames_ego=0))


def test_places_that_an_unroll_finds_are_those_of_samples(city):
    """The points of a route are up to 4 m apart, those of the lanes that samples know a fraction of that."""
    config = TrainingConfig.from_cfg(config_of("urban_driver"))
    samples = open_samples(config, config.params.val_loader, LocalDataManager(city), perturbed=False)
    batch = collate(samples.__getitems__(list(range(10, len(samples), 10))))
    route, elements = collect_route(batch), collect_elements(batch, with_boundaries=False)
    agents, available = elements.agents, elements.agents_available
    velocities_mps = current_velocities(agents[..., :2], available, 0.1)
    positions, has_position = positions_on_route(route, agents[:, :, 0], velocities_mps, available[:, :, 0])
    assert not (route.has_position & ~has_position)[route.available[:, 0, 1]].any()
    # next to the part that samples show; beyond it the route continues straight
    is_beside = route.has_position & has_position & (route.positions[..., 1].abs() < 10)
    reach_m = 2.0 * (route.available[:, 0].sum(dim=1) - 1).clamp(max=10)
    is_beside &= (route.positions[..., 0] > -0.1) & (route.positions[..., 0] < reach_m.unsqueeze(1))
    assert is_beside.sum() > 30
    apart = (positions - route.positions)[is_beside].abs()
    assert (apart[:, 0] < 0.5).float().mean() > 0.9
    assert (apart[:, 1] < 0.15).float().mean() > 0.9
    assert (apart[:, 4] < 0.15).float().mean() > 0.9
    assert (apart[:, 5] == 0).float().mean() > 0.9
    own = is_beside[:, 0]
    assert (positions - route.positions)[own, 0, 2].abs().max() < 0.5
