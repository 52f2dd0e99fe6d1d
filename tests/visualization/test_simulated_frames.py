"""Content of each frame of a simulation and of an episode of the gym environment."""

import math

import numpy as np
import pytest

from l5kit.data.log_facts import LogFacts
from l5kit.visualization.visualizer.zarr_utils import (
    _get_in_out_as_trajectories,
    episode_out_to_visualizer_scene_gym_cle,
    simulation_out_to_visualizer_scene,
)
from support.logs import make_agent, make_agents, make_faces, make_frames
from support.maps import make_map
from support.simulations import InOutCase, SimulationCase

TURNED_AT_10_20 = [[0, -1, 10], [1, 0, 20], [0, 0, 1]]
"""World from the frame of an agent at (10, 20) that looks along y."""


def in_out(track_id=-1, *, at=(0.0, 0.0), available=(1, 1), targets_m=((2, 0), (4, 0)), predicted_m=((1, 0), (2, 0))):
    """An agent that looks along x."""
    world_from_agent = [[1, 0, at[0]], [0, 1, at[1]], [0, 0, 1]]
    return InOutCase.make(
        track_id, world_from_agent=world_from_agent, targets_m=targets_m, available=available, predicted_m=predicted_m
    )


def simulation(num_frames, *, velocity=(3, 4), **in_outs):
    agents = [make_agents(make_agent(1, (k, 5), velocity=velocity), make_agent(2, (k, 9))) for k in range(num_frames)]
    frames, agents, faces = make_frames(
        agents, [make_faces(R=1)] * num_frames, positions_m=[(k, 0) for k in range(num_frames)]
    )
    return SimulationCase(frames, agents, faces, **in_outs)


def lines_of(content):
    """Label, colour, track and points of each trajectory."""
    return [
        (line.legend_label, line.color, line.track_id, np.stack([line.xs, line.ys], axis=1).tolist())
        for line in content.trajectories
    ]


def test_positions_of_a_model_become_world_positions():
    case = InOutCase.make(
        3,
        world_from_agent=TURNED_AT_10_20,
        targets_m=[[1, 0], [2, 0], [3, 1]],
        available=[1, 0, 1],
        predicted_m=[[1, 0], [0, 5]],
    )
    replay_m, simulated_m = _get_in_out_as_trajectories(case)
    assert replay_m.tolist() == [[10, 21], [9, 23]]
    assert simulated_m.tolist() == [[10, 21], [5, 20]]


def test_a_simulated_av_is_as_large_as_its_log_says():
    case = simulation(3, facts=LogFacts((8.0, 4.0, 3.0)), ego_ins_outs=[in_out()] * 3)
    ego = simulation_out_to_visualizer_scene(case, None)[0].ego
    assert sorted(zip(ego.xs, ego.ys, strict=True)) == [(-4, -2), (-4, 2), (4, -2), (4, 2)]
    episode = simulation(3, facts=LogFacts((8.0, 4.0, 3.0)), ego_ins_outs=[in_out()])
    assert max(episode_out_to_visualizer_scene_gym_cle(episode, None)[0].ego.xs) == 1 + 4


def test_a_simulated_av_has_two_trajectories_a_frame():
    frames = simulation_out_to_visualizer_scene(
        simulation(2, ego_ins_outs=[in_out(at=(0, 0)), in_out(at=(1, 0), available=(1, 0))]), None
    )
    assert lines_of(frames[0]) == [
        ("ego_replay", "blue", -1, [[2, 0], [4, 0]]),
        ("ego_simulated", "red", -1, [[1, 0], [2, 0]]),
    ]
    assert lines_of(frames[1]) == [
        ("ego_replay", "blue", -1, [[3, 0]]),
        ("ego_simulated", "red", -1, [[2, 0], [3, 0]]),
    ]


def test_m2_simulated_agents_have_trajectories_in_their_frames_also_after_one_without():
    agents_ins_outs = [[in_out(2, at=(0, 9)), in_out(1, at=(0, 5))], [], [in_out(1, at=(2, 5))]]
    frames = simulation_out_to_visualizer_scene(simulation(3, agents_ins_outs=agents_ins_outs), None)
    assert lines_of(frames[0]) == [
        ("agent_replay", "orange", 2, [[2, 9], [4, 9]]),
        ("agent_simulated", "purple", 2, [[1, 9], [2, 9]]),
        ("agent_replay", "orange", 1, [[2, 5], [4, 5]]),
        ("agent_simulated", "purple", 1, [[1, 5], [2, 5]]),
    ]
    assert lines_of(frames[1]) == []
    assert [line.track_id for line in frames[2].trajectories] == [1, 1]


def test_a_replayed_scene_has_frames_without_trajectories(tmp_path):
    frames = simulation_out_to_visualizer_scene(simulation(2), make_map(tmp_path / "map.pb"))
    assert [frame.ego.center_x for frame in frames] == [0, 1]
    assert [len(frame.agents) for frame in frames] == [2, 2]
    assert [frame.lanes[0].color for frame in frames] == ["#FF3300", "#FF3300"]
    assert [frame.trajectories for frame in frames] == [[], []]


def test_agents_are_above_the_threshold_of_the_configuration():
    case = simulation(1)
    case.simulated_agents["label_probabilities"][0, 3] = 0.6
    for threshold, shown in ((0.5, [1, 2]), (0.7, [2])):
        case.agents_th = threshold
        (content,) = simulation_out_to_visualizer_scene(case, None)
        assert [agent.track_id for agent in content.agents] == shown


def test_m9_the_speed_of_agents_that_were_moved_is_not_known():
    frames = simulation_out_to_visualizer_scene(simulation(3, agents_ins_outs=[[in_out(1)], [], []]), None)
    assert [frame.agents[0].speed_mps for frame in frames] == [5, pytest.approx(math.nan, nan_ok=True), 5]


@pytest.mark.parametrize(
    ("in_outs", "message"),
    [
        ({"ego_ins_outs": [in_out()] * 2}, "sim_out.ego_ins_outs has 2 items; allowed are 3"),
        ({"agents_ins_outs": [[]] * 4}, "sim_out.agents_ins_outs has 4 items; allowed are 3"),
    ],
)
def test_items_that_are_not_of_every_frame_are_refused(in_outs, message):
    with pytest.raises(ValueError, match=message):
        simulation_out_to_visualizer_scene(simulation(3, **in_outs), None)


def test_g9_an_episode_shows_each_action_in_its_frame_ten_times_as_long():
    case = simulation(4, ego_ins_outs=[in_out(at=(1, 0)), in_out(at=(2, 0), predicted_m=[[0, 3]])])
    frames = episode_out_to_visualizer_scene_gym_cle(case, None)
    assert [frame.ego.center_x for frame in frames] == [1, 2]
    assert lines_of(frames[0]) == [
        ("ego_simulated (10x scale)", "green", -1, [[1, 0], [11, 0]]),
        ("ego_replay (10x scale)", "yellow", -1, [[1, 0], [21, 0]]),
    ]
    assert lines_of(frames[1]) == [
        ("ego_simulated (10x scale)", "green", -1, [[2, 0], [2, 30]]),
        ("ego_replay (10x scale)", "yellow", -1, [[2, 0], [22, 0]]),
    ]


def test_an_episode_leaves_out_a_log_that_has_no_next_step():
    case = simulation(3, ego_ins_outs=[in_out(at=(1, 0), available=(0, 0))])
    (content,) = episode_out_to_visualizer_scene_gym_cle(case, None)
    assert [line.legend_label for line in content.trajectories] == ["ego_simulated (10x scale)"]


def test_an_episode_shows_simulated_agents_threshold_and_lights(tmp_path):
    case = simulation(
        4,
        ego_ins_outs=[in_out(at=(1, 0)), in_out(at=(2, 0))],
        agents_ins_outs=[[in_out(1, at=(1, 5))], []],
        agents_th=0.5,
    )
    case.simulated_agents["label_probabilities"][1::2, 3] = 0.4
    frames = episode_out_to_visualizer_scene_gym_cle(case, make_map(tmp_path / "map.pb"))
    assert [[agent.track_id for agent in frame.agents] for frame in frames] == [[1], [1]]
    assert [frame.agents[0].speed_mps for frame in frames] == [5, pytest.approx(math.nan, nan_ok=True)]
    assert lines_of(frames[0])[2:] == [
        ("agent_replay", "orange", 1, [[3, 5], [5, 5]]),
        ("agent_simulated", "purple", 1, [[2, 5], [3, 5]]),
    ]
    assert {frame.lanes[0].color for frame in frames} == {"#FF3300"}


@pytest.mark.parametrize("num_frames", [0, 1, 2])
def test_an_episode_without_an_action_has_no_frames(num_frames):
    assert episode_out_to_visualizer_scene_gym_cle(simulation(num_frames), None) == []


def test_an_episode_needs_the_actions_of_the_av():
    with pytest.raises(ValueError, match="ego_ins_outs is empty"):
        episode_out_to_visualizer_scene_gym_cle(simulation(3), None)
