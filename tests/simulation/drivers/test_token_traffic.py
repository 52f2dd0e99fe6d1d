"""Token traffic: timing of tokens, their motion, and independence of the rest of the batch."""

import numpy as np
import pytest
import torch
from torch import nn

from l5kit.closedloop.planners import open_traffic
from l5kit.dataset import EgoAgentDatasetVectorized
from l5kit.errors import InvalidArgumentError, UnsupportedValueError
from l5kit.prediction.vectorized.motion_tokens_model import Rollouts
from l5kit.simulation.drivers.token_traffic import TokenTraffic
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat, SceneSimulation, SimulationError
from l5kit.workflows.drivers import DriverCheckpoint, load_driver
from support.models import one_thread
from support.networks import save_network

__all__ = ["one_thread"]

pytestmark = pytest.mark.filterwarnings("ignore:the agents mask of")

START, NUM_FRAMES = 20, 8


@pytest.fixture(scope="module")
def file(city, tmp_path_factory):
    """An untrained network whose tokens last two frames."""
    return save_network("motion_tokens", city, tmp_path_factory.mktemp("tokens"))


@pytest.fixture(scope="module")
def driver(file, city):
    return load_driver(file, whom="agents", data_folder=city, device="cpu")


def simulated(driver, scenes, which=(0, 1, 2), control=None):
    """The records of scenes whose agents a driver moves, and which tracks it did."""
    batch = SceneBatch.of_scenes(
        [scenes[scene] for scene in which], scene_indices=list(which), start=START, num_frames=NUM_FRAMES
    )
    seat = AgentSeat(driver, control=control or AgentControl.of_traffic())
    simulation = SceneSimulation(batch, agents=seat, strict=True).run()
    return [simulation.records(place).agents for place in range(len(which))], simulation.was_driven


class Northwards(nn.Module):
    """Moves all agents to the left of the AV by a metre a step, and records its calls and their numbers of scenes."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def roll_out(self, data_batch, *, num_rollouts, num_tokens, temperature, seed, first_is_greedy):
        assert (num_rollouts, num_tokens, first_is_greedy) == (1, 1, False)
        assert not [key for key in data_batch if "future" in key or key.startswith("target")]
        now = data_batch["all_other_agents_history_positions"][:, :, 0]
        known = data_batch["all_other_agents_history_availability"][:, :, 0]
        assert known.any(dim=0).all()  # empty rows are left out
        self.asked.append((data_batch["scene_index"].tolist(), int(known.sum())))
        yaws = data_batch["all_other_agents_history_yaws"][:, :, 0]
        steps = torch.arange(1.0, 4.0)[:, None] * torch.tensor([0.0, 1.0])
        ways = torch.cat((now[:, :, None] + steps, yaws[:, :, None].expand(-1, -1, 3, 1)), dim=-1)
        return Rollouts(ways[:, None], torch.zeros(len(ways), 1, ways.shape[1]))


def test_a_network_of_tokens_drives_agents_and_the_av(driver, file, city):
    assert isinstance(driver, TokenTraffic)
    assert isinstance(driver.dataset, EgoAgentDatasetVectorized)
    assert driver.num_steps == 2
    assert driver.step_time_s == pytest.approx(0.1)
    seat = open_traffic(driver).seat
    assert driver.reach_m == seat.control.near_m == 35
    assert not isinstance(load_driver(file, whom="ego", data_folder=city, device="cpu"), TokenTraffic)


def test_a_scene_is_driven_alike_in_any_batch(driver, scenes):
    together, was_driven = simulated(driver, scenes)
    assert was_driven.sum() > 5
    alone, _ = simulated(driver, scenes, which=(1,))
    assert alone[0].tobytes() == together[1].tobytes()
    again, _ = simulated(driver, scenes)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(again, together, strict=True))


def test_seed_and_temperature_of_the_configuration_count(file, city, scenes):
    def positions(**values):
        config = DriverCheckpoint(file, "agents", city).config.mapping
        cfg = {**config, "model_params": {**config["model_params"], **values}}
        changed = load_driver(file, whom="agents", data_folder=city, cfg=cfg, device="cpu")
        return simulated(changed, scenes, which=(0,))[0][0]["centroid"]

    usual = positions()
    assert not np.array_equal(positions(sampling_seed=1), usual)
    cold = positions(temperature=0.0)
    np.testing.assert_array_equal(positions(temperature=0.0, sampling_seed=1), cold)
    assert not np.array_equal(cold, usual)


def test_tokens_begin_together_and_are_followed_to_their_end(driver, scenes):
    model = Northwards()
    traffic = TokenTraffic(model, driver.dataset, num_steps=3, step_time_s=0.1)
    (agents,), was_driven = simulated(traffic, scenes, which=(0,))
    asked = [scene for scene, _ in model.asked]
    assert asked[0] == [0]
    assert 3 <= len(asked) <= NUM_FRAMES
    tracks = SceneBatch.of_scenes([scenes[0]], start=START).tracks
    rotations = scenes[0].frames["ego_rotation"][START:]
    rows = agents[agents["track_id"] == tracks.track_ids[np.flatnonzero(was_driven)[0]]]
    steps = np.diff(rows["centroid"], axis=0)
    for number, step in enumerate(steps[:7]):
        left = rotations[number // 3 * 3, :2, 1]  # of the frame in which the token was chosen
        np.testing.assert_allclose(step, left, atol=2e-3)


def test_several_scenes_can_be_asked_at_once(driver, scenes):
    model = Northwards()
    traffic = TokenTraffic(model, driver.dataset, num_steps=3, step_time_s=0.1, max_batch=2)
    together, _ = simulated(traffic, scenes)
    assert model.asked[0][0] == [0, 1]
    assert model.asked[1][0] == [2]
    single, _ = simulated(TokenTraffic(Northwards(), driver.dataset, num_steps=3, step_time_s=0.1), scenes)
    for one, other in zip(together, single, strict=True):
        np.testing.assert_allclose(one["centroid"], other["centroid"], atol=1e-3)


def test_whom_the_samples_leave_out_goes_straight_on(driver, scenes):
    class KnowsNobody(Northwards):
        def roll_out(self, data_batch, **options):
            data_batch["all_other_agents_track_ids"].fill_(-1)
            return super().roll_out(data_batch, **options)

    records, was_driven = simulated(
        TokenTraffic(KnowsNobody(), driver.dataset, num_steps=3, step_time_s=0.1), scenes, which=(0,)
    )
    batch = SceneBatch.of_scenes([scenes[0]], start=START, num_frames=NUM_FRAMES)
    ids = batch.tracks.track_ids[was_driven]
    rows = [records[0][records[0]["track_id"] == track] for track in ids]
    moving = [row for row in rows if len(row) == NUM_FRAMES and np.linalg.norm(row["velocity"][1]) > 1]
    assert moving
    for row in moving:
        steps = np.diff(row["centroid"], axis=0)
        np.testing.assert_allclose(steps[1:3], steps[:2], atol=1e-3)


def test_tokens_of_a_longer_step_are_followed_between_their_poses(driver, scenes):
    traffic = TokenTraffic(Northwards(), driver.dataset, num_steps=3, step_time_s=0.2)
    records, was_driven = simulated(traffic, scenes, which=(0,))
    batch = SceneBatch.of_scenes([scenes[0]], start=START, num_frames=NUM_FRAMES)
    rows = records[0][records[0]["track_id"] == batch.tracks.track_ids[np.flatnonzero(was_driven)[0]]]
    np.testing.assert_allclose(np.linalg.norm(np.diff(rows["centroid"], axis=0), axis=1)[:6], 0.5, atol=1e-3)


@pytest.mark.parametrize("options", [{"max_batch": 0}, {"num_steps": 0}, {"step_time_s": 0.0}, {"temperature": -0.1}])
def test_what_cannot_be_is_refused(driver, options):
    with pytest.raises(InvalidArgumentError, match="give at least 1 scene"):
        TokenTraffic(Northwards(), driver.dataset, **{"num_steps": 3, "step_time_s": 0.1, **options})


def test_others_than_agents_and_other_tokens_are_refused(driver, scenes):
    with pytest.raises(UnsupportedValueError, match="has no roll_out"):
        TokenTraffic(nn.Linear(1, 1), driver.dataset, num_steps=3, step_time_s=0.1)
    with pytest.raises(SimulationError, match="whole number of frames"):
        simulated(TokenTraffic(Northwards(), driver.dataset, num_steps=3, step_time_s=0.05), scenes, which=(0,))
    batch = SceneBatch.of_scenes([scenes[0]], start=START, num_frames=3)
    with pytest.raises(SimulationError, match="drives agents only"):
        SceneSimulation(batch, ego=EgoSeat(driver), strict=True).run()
