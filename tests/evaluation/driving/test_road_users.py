"""Road users: groups of classes, what is refused, and the rows and states of recorded scenes."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX, PERCEPTION_LABELS
from l5kit.data.scene_arrays import read_scene_arrays
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving import road_users
from l5kit.evaluation.driving.road_users import RoadUserGroup, RoadUsers, classify_rows
from l5kit.evaluation.driving.scene_states import read_ego_states, read_road_users
from support.driving import road_users_at
from support.fixture_s import make_fixture_s
from support.logs import log_of, make_agent, make_frames, scenes_of

VEHICLE, VULNERABLE, OTHER, NONE = (RoadUserGroup[name] for name in ("VEHICLE", "VULNERABLE", "OTHER", "NONE"))
GROUP_OF = {
    **dict.fromkeys(["CAR", "VAN", "TRAM", "BUS", "TRUCK", "EMERGENCY_VEHICLE", "OTHER_VEHICLE"], VEHICLE),
    **dict.fromkeys(["BICYCLE", "MOTORCYCLE", "CYCLIST", "MOTORCYCLIST", "PEDESTRIAN"], VULNERABLE),
    **dict.fromkeys(["NOT_SET", "UNKNOWN", "DONTCARE"], NONE),
    "ANIMAL": OTHER,
}


def probabilities_of(label, probability=1.0):
    column = label if isinstance(label, int) else PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{label}"]
    probabilities = np.zeros((1, len(PERCEPTION_LABELS)), np.float32)
    probabilities[0, column] = probability
    return probabilities


def group_of(probabilities, extent_m=(4, 2), **options):
    return classify_rows(probabilities, np.array([extent_m], np.float32), **options)[0]


@pytest.mark.parametrize(("label", "group"), GROUP_OF.items())
def test_group_of_a_label(label, group):
    assert group_of(probabilities_of(label)) == group
    assert group_of(probabilities_of(label), include_unknown=True) == (OTHER if group == NONE else group)


def test_every_label_has_a_group():
    assert len(GROUP_OF) + 1 == len(PERCEPTION_LABELS)
    assert group_of(probabilities_of(PERCEPTION_LABELS.index("AVRESEARCH_LABEL_DONTCARE"))) == NONE


@pytest.mark.parametrize(
    ("probability", "threshold", "group"),
    [(0.5, 0.5, NONE), (0.51, 0.5, VEHICLE), (0.4, 0.3, VEHICLE), (0.0, 0.0, NONE)],
    ids=["at the threshold", "above it", "above a lower one", "nothing known"],
)
def test_the_label_must_be_probable(probability, threshold, group):
    assert group_of(probabilities_of("CAR", probability), threshold=threshold) == group


@pytest.mark.parametrize(
    ("probabilities", "group"),
    [
        pytest.param({"CAR": 0.3, "PEDESTRIAN": 0.4}, VULNERABLE, id="the second is higher"),
        pytest.param({"CAR": 0.4, "PEDESTRIAN": 0.3}, VEHICLE, id="the first is higher"),
        pytest.param({"CAR": 0.4, "PEDESTRIAN": 0.4}, VEHICLE, id="of equals the first"),
        pytest.param({"UNKNOWN": 0.5, "CAR": 0.5}, NONE, id="of equals the first, which is nobody"),
        pytest.param({"CAR": 0.3, "ANIMAL": 0.5, "PEDESTRIAN": 0.4}, OTHER, id="the middle one is higher"),
    ],
)
def test_of_several_probable_labels_the_highest_counts(probabilities, group):
    joined = sum(probabilities_of(label, probability) for label, probability in probabilities.items())
    assert group_of(joined, threshold=0.2) == group
    assert group_of(joined, (0, 0), threshold=0.2) == NONE


@pytest.mark.parametrize("include_unknown", [False, True])
def test_hidden_rows_never_count(include_unknown):
    assert group_of(probabilities_of("CAR"), (0, 0), include_unknown=include_unknown) == NONE
    hidden = np.full((1, len(PERCEPTION_LABELS)), -1.0, np.float32)
    assert group_of(hidden, include_unknown=include_unknown) == NONE


def test_a_label_without_a_number_is_unknown():
    probabilities = probabilities_of("CAR")
    probabilities[0, 0] = np.nan
    assert group_of(probabilities) == NONE
    assert group_of(probabilities, include_unknown=True) == OTHER


def test_the_first_of_two_labels_counts():
    assert group_of(probabilities_of("CAR", 0.6) + probabilities_of("PEDESTRIAN", 0.6)) == VEHICLE


def test_one_kernel_takes_rows_of_any_array():
    probabilities, extents_m = probabilities_of("CAR"), np.array([(4, 2, 1.5)], np.float32)
    assert classify_rows(probabilities, extents_m) == VEHICLE
    known = road_users.write_groups.signatures
    for array in (probabilities, extents_m):
        array.setflags(write=False)
    pairs_m = extents_m[:, :2].astype(np.float64)
    pairs_m.setflags(write=False)
    assert classify_rows(probabilities, extents_m) == classify_rows(probabilities, pairs_m) == VEHICLE
    assert road_users.write_groups.signatures == known


def test_classes_of_another_shape_are_refused():
    with pytest.raises(InvalidArgumentError, match=r"\(N, 17\)"):
        classify_rows(np.zeros((2, 3)), np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"tracks": np.array([-1])}, "tracks must be at least 0", id="track"),
        pytest.param({"groups": np.array([NONE])}, "groups 0 to 2", id="group"),
        pytest.param({"groups": np.array([3])}, "groups 0 to 2", id="unknown group"),
        pytest.param({"boxes": np.full((1, 5), np.nan)}, "1 rows of boxes are not finite", id="NaN"),
        pytest.param({"boxes": np.zeros((1, 4))}, "shapes do not fit", id="shape"),
        pytest.param({"starts": np.array([0, 1, 0, 1])}, "must not decrease", id="starts"),
        pytest.param({"starts": np.array([0, 0])}, "go from 0 to 1", id="end"),
    ],
)
def test_what_is_refused(changes, message):
    with pytest.raises(InvalidArgumentError, match=message):
        dataclasses.replace(road_users_at([[{"at": (0, 0)}]]), **changes)


def test_states_of_a_recorded_scene():
    scene = read_scene_arrays(make_fixture_s(), 0)
    states = read_ego_states([scene])
    assert states.is_there.shape == (1, 30)
    assert_allclose(states.timestamps_s[0], 0.1 * np.arange(30), atol=1e-9)
    assert_allclose(states.speeds_mps, np.hypot(5, 0.2))
    assert_allclose(states.yaws_rad[0], 0.01 * np.arange(30), atol=1e-7)
    assert_allclose(states.accelerations_mps2, 0, atol=1e-9)


def test_road_users_of_a_recorded_scene():
    """Of fixture S: a car all along, one for 20 frames, a pedestrian of 0.4, a truck from frame 12 on."""
    users = read_road_users([read_scene_arrays(make_fixture_s(), 0)])
    assert_array_equal(np.diff(users.starts), [1] * 5 + [2] * 7 + [3] * 13 + [2] * 5)
    assert set(users.groups.tolist()) == {VEHICLE}
    assert_array_equal(users.tracks[users.starts[12] : users.starts[13]], [0, 1, 3])
    assert_allclose(users.speeds_mps[users.tracks == 0], 4.0)
    assert_allclose(users.velocities_mps[users.tracks == 1], np.broadcast_to([0, 3.0], (20, 2)), atol=1e-9)
    assert_allclose(users.boxes[0], [-185, 0.3, 0.02, 4.5, 1.9], rtol=1e-6)
    assert len(read_road_users([read_scene_arrays(make_fixture_s(), 0)], threshold=0.3)) == len(users) + 30


def scene_of(agents, num_frames):
    records = make_frames(agents, positions_m=[(k, 0, 0) for k in range(num_frames)])
    return read_scene_arrays(log_of(scenes_of([num_frames]), *records), 0)


def test_a_velocity_that_is_known_is_kept_and_unknown_objects_stand_still():
    moving = [make_agent(5, (k, 0), velocity=(7, 0)) for k in range(3)]
    unknown = [make_agent(9, (k, 9), velocity=(7, 0), label=1) for k in range(3)]
    scene = scene_of(list(zip(moving, unknown, strict=True)), 3)
    users = read_road_users([scene])
    assert_array_equal(users.velocities_mps, [[7, 0]] * 3)
    assert users.labels.tolist() == [PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_CAR"]] * 3
    with_unknown = read_road_users([scene], include_unknown=True)
    assert with_unknown.groups.tolist() == [VEHICLE, OTHER] * 3
    assert_array_equal(with_unknown.velocities_mps, [[7, 0], [0, 0]] * 3)


def test_scenes_of_different_lengths():
    short = scene_of([[make_agent(1, (0, 0))], []], 2)
    long = scene_of([[], [make_agent(4, (0, 0)), make_agent(1, (0, 9))], [make_agent(4, (3, 0))]], 3)
    states, users = read_ego_states([short, long]), read_road_users([short, long])
    assert states.is_there.tolist() == [[True, True, False], [True, True, True]]
    assert users.starts.tolist() == [0, 1, 1, 1, 1, 3, 4]
    assert users.tracks.tolist() == [0, 1, 0, 1]
    assert_allclose(users.velocities_mps[:, 0], [0, 30, 0, 30])
    users.require_frames_of(states.is_there.shape)


def test_no_scenes():
    assert read_ego_states([]).num_scenes == 0
    assert len(read_road_users([])) == 0
    assert RoadUsers.none(2, 3).num_tracks == 0


def test_windows_have_the_rows_of_their_frames_within_their_bounds():
    """Boxes of 4 m x 2 m at x = 0, 10, 20, ...: one reaches up to 3 m, half its length and width, from its centre."""
    rows, num = np.arange(6), 6
    boxes = np.column_stack([10.0 * rows, 0 * rows, 0 * rows, 0 * rows + 4.0, 0 * rows + 2.0])
    starts = np.array([0, 2, 2, 3, 5, 5, 6])  # two scenes of three frames
    users = RoadUsers(starts, rows, np.full(num, VEHICLE), rows, boxes, np.zeros((num, 2)))
    bounds_m = np.array([[[-99, -1], [99, 1]], [[12.5, -1], [27.5, 1]], [[33, 0], [36.9, 0]], [[-99, 3.5], [99, 9]]])
    windows = users.windows(np.array([0, 0, 3, 3]), 3, bounds_m)
    assert windows.starts.tolist() == [0, 2, 2, 3, 4, 4, 5, 6, 6, 6, 6, 6, 6]
    assert windows.tracks.tolist() == [0, 1, 2, 1, 2, 3]
    assert_array_equal(windows.boxes, boxes[windows.tracks])
    part = users.windows(np.array([3, 1]), 2, bounds_m[[2, 0]])
    assert (part.starts.tolist(), part.tracks.tolist()) == ([0, 1, 1, 1, 2], [3, 2])
