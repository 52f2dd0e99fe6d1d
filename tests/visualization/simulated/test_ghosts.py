"""Ghosts of the log next to a simulated scene."""

import dataclasses

import numpy as np
import pytest

from l5kit.data.scene_arrays import SceneArrays
from l5kit.data.scene_records import SceneRecords
from l5kit.visualization.simulated.scene_drive import find_ghosts
from support.logs import make_agent, make_agents, make_frames

STEP_NS = 100_000_000


def scene(frames, *, first_frame=0, ego_y=0.0):
    """A scene with these agents ``{track: (x, y)}`` in each frame; the AV drives along x at 10 m/s."""
    agents = [make_agents(*(make_agent(track, place) for track, place in agents.items())) for agents in frames]
    numbers = np.arange(first_frame, first_frame + len(frames))
    records = SceneRecords(*make_frames(agents, positions_m=[(float(number), ego_y) for number in numbers]))
    return dataclasses.replace(SceneArrays.of_records(records), timestamps_ns=numbers * STEP_NS)


def ghosts_of(simulated, logged):
    ghosts = find_ghosts(simulated, logged)
    return [
        dict(zip(ghosts.track_ids[rows].tolist(), ghosts.centroids_m[rows].tolist(), strict=True))
        for rows in map(ghosts.rows_of, range(simulated.num_frames))
    ]


def test_the_av_of_the_log_is_found_by_time():
    simulated = scene([{}] * 3, first_frame=2, ego_y=4.0)
    ghosts = find_ghosts(simulated, scene([{}] * 4))
    np.testing.assert_array_equal(ghosts.ego_positions_m, [[2, 0], [3, 0], [np.nan, np.nan]])
    np.testing.assert_allclose(ghosts.ego_speeds_mps, [10, 10, np.nan])
    np.testing.assert_array_equal(ghosts.ego_yaws_rad, [0, 0, np.nan])
    assert ghosts.has_log


def test_agents_have_ghosts_where_they_were_moved_and_where_they_have_gone():
    logged = scene([{1: (0, 5), 2: (0, 9)}, {1: (1, 5), 2: (0, 9)}, {1: (2, 5), 2: (0, 9)}])
    simulated = scene([{1: (0, 5), 2: (0, 9)}, {2: (0, 9), 1: (1.06, 5)}, {2: (0, 9)}])
    assert ghosts_of(simulated, logged) == [{}, {1: [1, 5]}, {1: [2, 5]}]


def test_agents_of_a_simulation_that_starts_later_have_those_of_its_frames():
    logged = scene([{3: (9, 9)}, {1: (1, 5)}, {1: (2, 5)}])
    assert ghosts_of(scene([{1: (1, 5)}, {1: (2.5, 5)}], first_frame=1), logged) == [{}, {1: [2, 5]}]


def test_agents_that_were_never_moved_have_none_even_where_they_are_hidden():
    logged = scene([{1: (0, 5), 2: (0, 9)}] * 2)
    assert ghosts_of(scene([{1: (0.04, 5)}] * 2), logged) == [{}, {}]
    assert ghosts_of(scene([{}] * 2), logged) == [{}, {}]


def test_a_turn_is_a_move():
    logged = scene([{1: (0, 5)}])
    agents = dataclasses.replace(logged.agents, yaws_rad=logged.agents.yaws_rad + np.float32(0.03))
    assert ghosts_of(dataclasses.replace(logged, agents=agents), logged) == [{1: [0, 5]}]
    whole = dataclasses.replace(logged.agents, yaws_rad=logged.agents.yaws_rad + np.float32(2 * np.pi))
    assert ghosts_of(dataclasses.replace(logged, agents=whole), logged) == [{}]


@pytest.mark.parametrize("logged", [None, scene([]), scene([{1: (0, 0)}], first_frame=50)])
def test_without_frames_of_the_log_there_are_none(logged):
    ghosts = find_ghosts(scene([{1: (3, 3)}] * 2), logged)
    assert not ghosts.has_log
    assert np.isnan(ghosts.ego_positions_m).all()
    assert ghosts.starts.tolist() == [0, 0, 0]
