"""States of the AV: what is refused, and speeds and accelerations of logged poses."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving import motion
from l5kit.evaluation.driving.ego_states import EgoBody
from l5kit.evaluation.driving.motion import rates_of_frames, split_along_headings, velocities_of_rows
from l5kit.evaluation.driving.scene_states import ego_states_of_poses
from support.driving import BODY, drive_along, stacked, straight_drive
from support.tolerances import FLOAT64, FLOAT64_LONG


def rates(values, times_s, is_there=None):
    there = np.ones((1, len(times_s)), bool) if is_there is None else np.array([is_there])
    found = rates_of_frames(np.array(values, float)[None, :, None], np.array([times_s], float), there)
    return found[0, :, 0].tolist()


@pytest.mark.parametrize(
    ("values", "times_s", "expected"),
    [
        pytest.param([0, 1, 4, 9], [0, 1, 2, 3], [1, 2, 4, 5], id="central, one-sided at both ends"),
        pytest.param([0, 1, 4], [0, 0.5, 2], [2, 2, 2], id="steps of different lengths"),
        pytest.param([5, 7], [0, 4], [0.5, 0.5], id="two frames"),
        pytest.param([5], [3], [0], id="one frame"),
    ],
)
def test_rates(values, times_s, expected):
    assert_allclose(rates(values, times_s), expected)


def test_frames_that_are_not_there_do_not_count():
    assert rates([0, 1, 4, np.nan], [0, 1, 2, np.nan], [True, True, True, False]) == [1, 2, 3, 0]


@pytest.mark.parametrize(
    ("tracks", "scenes", "expected_mps"),
    [
        pytest.param([0, 0, 0, 0], [0, 0, 0, 0], [1, 2, 4, 5], id="one track"),
        pytest.param([0, 1, 0, 1], [0, 0, 0, 0], [2, 4, 2, 4], id="two tracks in turn, with gaps"),
        pytest.param([0, 0, 0, 0], [0, 1, 0, 2], [2, 0, 2, 0], id="other scenes, and single rows"),
    ],
)
def test_velocities_of_rows(tracks, scenes, expected_mps):
    positions_m = np.array([[0.0, 0], [1, 0], [4, 0], [9, 0]])
    order = np.array([2, 0, 3, 1])  # rows come in any order
    found = velocities_of_rows(
        positions_m[order], np.arange(4.0)[order], np.array(tracks)[order], np.array(scenes)[order]
    )
    assert_allclose(found[:, 0], np.array(expected_mps)[order])
    assert not found[:, 1].any()


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("highest", [6, 2**40], ids=["numbered", "ids"])
def test_velocities_are_those_of_neighbours_in_time(is_sorted, highest):
    rng = np.random.default_rng(3)
    times_s, scenes = np.repeat(rng.uniform(0, 9, 40), 5), rng.integers(0, 3, 200)
    tracks = rng.choice(rng.integers(0, highest, 6), 200)
    positions_m = rng.normal(size=(200, 2))
    if is_sorted:
        order = np.lexsort((times_s, scenes))
        times_s, scenes = times_s[order], scenes[order]
    expected_mps = np.zeros((200, 2))
    order = np.lexsort((times_s, tracks, scenes))
    for place, row in enumerate(order):
        near = [
            order[other]
            for other in (place - 1, place, place + 1)
            if 0 <= other < 200 and (tracks[order[other]], scenes[order[other]]) == (tracks[row], scenes[row])
        ]
        seconds = times_s[near[-1]] - times_s[near[0]]
        expected_mps[row] = (positions_m[near[-1]] - positions_m[near[0]]) / seconds if seconds > 0 else 0
    assert_array_equal(velocities_of_rows(positions_m, times_s, tracks, scenes), expected_mps)


def test_one_kernel_takes_rows_of_any_array():
    table, numbers = np.arange(12.0).reshape(4, 3), np.zeros(4, np.int64)
    expected_mps = velocities_of_rows(table[:, :2].copy(), np.arange(4.0), numbers, numbers)
    for array in (table, numbers):
        array.setflags(write=False)
    assert_array_equal(velocities_of_rows(table[:, :2], table[:, 0] / 3, numbers, numbers), expected_mps)
    assert_array_equal(velocities_of_rows(table[:, :2], np.arange(4), numbers, numbers), expected_mps)
    assert_array_equal(expected_mps, np.full((4, 2), 3.0))
    assert [len(kernel.signatures) for kernel in (motion._is_in_order, motion._write_velocities)] == [1, 1]


def test_velocities_of_no_rows():
    none = np.zeros(0, np.int64)
    assert velocities_of_rows(np.zeros((0, 2)), np.zeros(0), none, none).shape == (0, 2)


def test_accelerations_are_along_and_to_the_left_of_the_heading():
    """On a circle of 10 m to the left at 5 m/s, it is 2.5 m/s^2 to the left."""
    angles = np.arange(30) * 0.05
    circle = drive_along(10 * np.stack([np.sin(angles), -np.cos(angles)], axis=-1), angles)
    assert_allclose(circle.speeds_mps[0, 2:-2], 5.0, rtol=1e-3)
    assert_allclose(circle.accelerations_mps2[0, 2:-2], np.broadcast_to([0, 2.5], (26, 2)), atol=0.01)


@given(st.floats(-4, 4), st.floats(-5, 5), st.floats(-5, 5))
def test_splitting_keeps_the_length(yaw_rad, x, y):
    along, across = split_along_headings(np.array([x, y]), np.array(yaw_rad))
    assert_allclose(np.hypot(along, across), np.hypot(x, y), atol=FLOAT64)
    assert_allclose(along * np.cos(yaw_rad) - across * np.sin(yaw_rad), x, atol=FLOAT64_LONG)


def test_facts_of_scenes():
    states = stacked(straight_drive(11, yaw_rad=np.pi / 2), straight_drive(1))
    assert states.num_frames.tolist() == [11, 1]
    assert_allclose(states.durations_s, [1, 0])
    assert_allclose(states.step_times_s, [0.1, np.nan])
    assert_allclose(states.rear_axles_m[0, 0], [0, -1], atol=FLOAT64)
    assert_allclose(states.boxes[0, 0], [0, 0, np.pi / 2, 4, 2])


def test_the_usual_body():
    body = EgoBody.of_extent()
    assert (body.length_m, body.width_m) == (4.87, 1.85)
    assert_allclose(body.rear_axle_to_centre_m, 1.375, atol=1e-3)
    with pytest.raises(InvalidArgumentError, match="must be above 0 metres, got 0 and 2"):
        EgoBody(0, 2, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"yaws_rad": np.zeros((1, 2))}, "shapes do not fit", id="shape"),
        pytest.param({"is_there": np.ones(3, bool)}, "shapes do not fit", id="no axis of scenes"),
        pytest.param({"is_there": np.array([[True, False, True]])}, "scene 0 has a gap", id="gap"),
        pytest.param({"is_there": np.zeros((1, 3), bool)}, "scene 0 has no frame", id="no frame"),
        pytest.param({"timestamps_s": np.array([[0, 0.1, 0.1]])}, "in scene 0 0.1 follows 0.1", id="time stands"),
        pytest.param({"speeds_mps": np.array([[0, np.nan, 0]])}, "1 values of speeds_mps are not finite", id="NaN"),
    ],
)
def test_what_is_refused(changes, message):
    with pytest.raises(InvalidArgumentError, match=message):
        dataclasses.replace(straight_drive(3), **changes)


def test_arguments_are_not_changed_and_states_cannot_be():
    positions_m, yaws_rad, times_s = np.zeros((1, 2, 2)), np.zeros((1, 2)), np.array([[0.0, 0.1]])
    states = ego_states_of_poses(positions_m, yaws_rad, timestamps_s=times_s, body=BODY)
    positions_m[:] = yaws_rad[:] = 7.0
    assert_array_equal(states.positions_m, 0)
    with pytest.raises(ValueError, match="read-only"):
        states.positions_m[:] = 1.0


def test_rates_of_other_shapes_are_refused():
    with pytest.raises(InvalidArgumentError, match=r"\(S, F, D\)"):
        rates_of_frames(np.zeros((1, 2)), np.zeros((1, 2)), np.ones((1, 2), bool))


def test_windows_are_parts_of_scenes():
    drives = stacked(straight_drive(8), straight_drive(5, speed_mps=3.0))
    found = drives.windows(np.array([0, 0, 1]), np.array([0, 4, 1]), 4)
    assert found.is_there.all()
    assert_array_equal(found.positions_m[1], drives.positions_m[0, 4:8])
    assert_array_equal(found.speeds_mps[2], drives.speeds_mps[1, 1:5])
    assert found.body == drives.body


@pytest.mark.parametrize(("scene", "first"), [(0, -1), (0, 5), (1, 2)])
def test_windows_that_reach_beyond_their_scene(scene, first):
    drives = stacked(straight_drive(8), straight_drive(5))
    with pytest.raises(InvalidArgumentError, match=rf"window 1 begins in frame {first} of a scene of {(8, 5)[scene]}"):
        drives.windows(np.array([0, scene]), np.array([0, first]), 4)
