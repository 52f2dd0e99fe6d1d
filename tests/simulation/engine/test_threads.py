"""Blocks of scenes in threads: the same bits as one after the other, for all drivers."""

import numpy as np
import pytest

from l5kit.data.jobs.scene_jobs import map_scenes
from l5kit.evaluation.driving.scene_score import score_scenes
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.drivers.simple import ConstantVelocity
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat, SceneSimulation

IDM = IntelligentDriver()
SEATS = {
    "straight": (EgoSeat(ConstantVelocity()), AgentSeat(ConstantVelocity())),
    "idm": (EgoSeat(IDM), AgentSeat(IDM, control=AgentControl.of_traffic(tracks=IDM.tracks))),
}
SCENES = [0, 1, 2] * 4


@pytest.mark.parametrize("name", SEATS)
def test_threads_change_no_bit(scenes, city_road, name):
    ego, agents = SEATS[name]

    def drive(numbers):
        batch = SceneBatch.of_scenes([scenes[number] for number in numbers], scene_indices=numbers, road=city_road)
        driven = SceneSimulation(batch, ego=ego, agents=agents, strict=True).run()
        states, users = driven.ego_states(), driven.road_users()
        scores = score_scenes(states, users, city_road.driving, expert=driven.expert()).score
        records = [driven.records(scene) for scene in range(len(numbers))]
        return [
            (each.frames.tobytes(), each.agents.tobytes(), score) for each, score in zip(records, scores, strict=True)
        ]

    def drive_all(threads, block_size):
        numbers = np.array(SCENES)
        return [scene for block in map_scenes(drive, numbers, threads, block_size=block_size) for scene in block]

    expected = drive_all(1, 12)
    assert drive_all(4, 1) == expected
    assert drive_all(3, 5) == expected
    assert expected[:3] == expected[3:6]
    assert len({agents for _, agents, _ in expected}) == 3
