"""Velocities from positions, and where a track is as seen from a pose."""

from typing import Any

import numpy as np
import pytest

from l5kit.data.records import FRAME_DTYPE
from l5kit.errors import L5KitError
from l5kit.geometry import compute_agent_pose
from l5kit.sampling import compute_agent_velocity, get_relative_poses
from support.fixture_s import make_fixture_s_arrays
from support.logs import make_agent, make_agents, make_frames
from support.tolerances import FLOAT32, FLOAT32_LONG

HISTORY_M = np.array([[0, 0], [-1, 0], [0, 0]], np.float32)
FUTURE_M = np.array([[1, 0.1], [2, 0.2], [0, 0]], np.float32)


@pytest.mark.parametrize("step_time", [0.1, np.float64(0.1)], ids=["float", "float64"])
def test_velocities_of_the_known_answer(step_time: float) -> None:
    history_mps, future_mps = compute_agent_velocity(HISTORY_M, FUTURE_M, step_time)
    np.testing.assert_allclose(history_mps, [(10, 0), (-10, 0)], atol=FLOAT32)
    np.testing.assert_allclose(future_mps, [(10, 1), (10, 1), (-20, -2)], atol=FLOAT32_LONG)
    assert history_mps.dtype == future_mps.dtype == np.float32


def test_a_float64_step_time_gives_the_same_bits_as_a_float() -> None:
    positions_m = np.random.default_rng(0).uniform(-50, 50, (40, 2)).astype(np.float32)
    for found, expected in zip(
        compute_agent_velocity(positions_m, positions_m, np.float64(0.3)),
        compute_agent_velocity(positions_m, positions_m, 0.3),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)


def test_velocities_of_no_steps_are_empty() -> None:
    history_mps, future_mps = compute_agent_velocity(HISTORY_M[:1], FUTURE_M[:0], 0.1)
    assert (history_mps.shape, future_mps.shape) == ((0, 2), (0, 2))


def test_velocities_leave_the_positions_alone() -> None:
    history_m, future_m = HISTORY_M.copy(), FUTURE_M.copy()
    compute_agent_velocity(history_m, future_m, 0.1)
    np.testing.assert_array_equal(history_m, HISTORY_M)
    np.testing.assert_array_equal(future_m, FUTURE_M)


@pytest.mark.parametrize("step_time", [0.0, -0.1, 2.2e-16, float("nan")])
def test_a_step_time_that_is_not_positive_is_an_assertion_error(step_time: float) -> None:
    with pytest.raises(AssertionError, match="step_time must be a positive number of seconds"):
        compute_agent_velocity(HISTORY_M, FUTURE_M, step_time)


def agents_of(frames: Any, agents: Any) -> list[Any]:
    return [agents[slice(*frame["agent_index_interval"])] for frame in frames]


def test_poses_of_the_av() -> None:
    _, frames, agents, _ = make_fixture_s_arrays()
    agent_from_world = np.linalg.inv(compute_agent_pose((-190.0, 0.2), 0.1))
    frames = frames[11:13]
    positions_m, yaws_rad, extents_m, availabilities = get_relative_poses(
        3, frames, None, agents_of(frames, agents), agent_from_world, np.float64(0.1)
    )
    np.testing.assert_allclose(positions_m, [(0.4994988, -0.0300166), (0.9989975, -0.0600333), (0, 0)], atol=FLOAT32)
    np.testing.assert_allclose(yaws_rad, [[0.00999999], [0.01999998], [0]], atol=1e-7)
    np.testing.assert_array_equal(extents_m, np.array([(4.87, 1.85), (4.87, 1.85), (0, 0)], np.float32))
    assert availabilities.tolist() == [1, 1, 0]
    assert {array.dtype for array in (positions_m, yaws_rad, extents_m, availabilities)} == {np.dtype(np.float32)}


def test_yaws_are_subtracted_in_float32() -> None:
    _, frames, agents, _ = make_fixture_s_arrays()
    yaw_rad = np.float32(3.1)
    _, yaws_rad, _, _ = get_relative_poses(1, frames[20:21], 300, agents_of(frames[20:21], agents), np.eye(3), 0.1)
    pi, two_pi = np.float32(np.pi), np.float32(2 * np.pi)
    assert yaws_rad[0, 0] == (yaw_rad - np.float32(0.1) + pi) % two_pi - pi


def test_poses_of_a_track_that_comes_and_goes() -> None:
    _, frames, agents, _ = make_fixture_s_arrays()
    frames = frames[[3, 5, 24, 26]]
    rows = agents_of(frames, agents)
    positions_m, _, extents_m, availabilities = get_relative_poses(5, frames, 2, rows, np.eye(3), 0.0)
    assert availabilities.tolist() == [0, 1, 1, 0, 0]
    np.testing.assert_allclose(positions_m, [(0, 0), (-186, -8), (-186, -2.3), (0, 0), (0, 0)], atol=FLOAT32_LONG)
    np.testing.assert_array_equal(extents_m[1:3], np.array([(4.2, 1.8)] * 2, np.float32))


def test_e5_rows_below_the_label_threshold_count() -> None:
    _, frames, agents, _ = make_fixture_s_arrays()
    assert get_relative_poses(1, frames[:1], 7, agents_of(frames[:1], agents), np.eye(3), 0.0)[3].tolist() == [1]


def test_the_first_of_several_rows_of_a_track_counts() -> None:
    rows = make_agents(*(make_agent(track, (x_m, 0)) for track, x_m in ((4, 1), (7, 2), (7, 3))))
    positions_m, *_ = get_relative_poses(1, make_frames(1)[0], 7, [rows], np.eye(3), 0.0)
    assert positions_m.tolist() == [[2, 0]]


@pytest.mark.parametrize("track_id", [None, 1, 2**63, -1])
def test_no_frames_give_zeros(track_id: int | None) -> None:
    poses = get_relative_poses(2, np.empty(0, FRAME_DTYPE), track_id, [], np.eye(3), 0.0)
    assert [array.shape for array in poses] == [(2, 2), (2, 1), (2, 2), (2,)]
    assert not any(array.any() for array in poses)


def test_more_frames_than_asked_for_are_an_index_error() -> None:
    _, frames, agents, _ = make_fixture_s_arrays()
    with pytest.raises(IndexError, match="frames holds 4 frames, but at most num_frames = 3 are allowed") as raised:
        get_relative_poses(3, frames[:4], None, agents_of(frames[:4], agents), np.eye(3), 0.0)
    assert isinstance(raised.value, L5KitError)


def test_the_arguments_stay_as_they_are() -> None:
    _, frames, agents, _ = make_fixture_s_arrays()
    frames, agents = frames.copy(), agents.copy()
    frames.setflags(write=False)
    agents.setflags(write=False)
    agent_from_world = np.eye(3)
    agent_from_world.setflags(write=False)
    get_relative_poses(30, frames, 1, agents_of(frames, agents), agent_from_world, 0.0)
