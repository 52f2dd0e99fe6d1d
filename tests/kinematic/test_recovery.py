"""Perturbed states of the AV with a way back: that a car could drive it, and that it is the same for a seed."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from l5kit.data.log_facts import EGO_EXTENT_M
from l5kit.data.records import AGENT_DTYPE
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.comfort import COMFORT_BOUNDS
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.geometry.transform import rotations33_as_yaws
from l5kit.kinematic import RecoveryLimits, RecoveryPerturbation
from l5kit.kinematic.recovery import REAR_AXLE_SHARE, AgentBoxes, AvPaths
from l5kit.simulation.vehicle_models import InvertibleBicycle
from support.logs import make_frames

LENGTH_M, WIDTH_M = EGO_EXTENT_M[:2]
REAR_M = REAR_AXLE_SHARE * LENGTH_M
UTM_M = np.array([691_234.56, 5_334_567.89])


def drive(speed_mps, *, curvature=0.0, acceleration_mps2=0.0, wave=0.0, hz=10, num=60, start_m=UTM_M, yaw_rad=0.7):
    """Return poses (num, 3) of the centre of a car whose rear axle is driven by speed and curvature, and its times.

    The curvature begins and ends as a sine, and speeds do not fall below 0.
    """
    fine_s = 1.0 / (100 * hz)
    times_s = np.arange(100 * num) * fine_s
    phases = 2 * math.pi * times_s / times_s[-1]
    speeds = np.maximum(speed_mps + acceleration_mps2 * times_s + wave * np.sin(phases), 0.0)
    yaws = yaw_rad + np.cumsum(speeds * curvature * np.sin(phases / 2)) * fine_s
    rear_m = start_m + np.cumsum(speeds[:, None] * np.stack([np.cos(yaws), np.sin(yaws)], -1), axis=0) * fine_s
    centre_m = rear_m + REAR_M * np.stack([np.cos(yaws), np.sin(yaws)], -1)
    return np.column_stack([centre_m, np.angle(np.exp(1j * yaws))])[::100], times_s[::100]


def paths_of(drives, *, num_history=6):
    """Return paths of drives of the same length, whose frame ``num_history - 1`` is the current one."""
    order = [*range(num_history - 1, -1, -1), *range(num_history, len(drives[0][0]))]
    poses = np.stack([poses[order] for poses, _ in drives])
    stamps_ns = np.stack([np.round(1e9 * times_s[order]).astype(np.int64) for _, times_s in drives])
    counts = np.tile([[num_history], [len(order) - num_history]], len(drives))
    return AvPaths(poses, stamps_ns, counts, num_history, (LENGTH_M, WIDTH_M))


def in_time(paths, poses):
    """Return poses (B, H + F, 3) and their seconds in the order of time."""
    order = [*range(paths.num_history - 1, -1, -1), *range(paths.num_history, poses.shape[1])]
    return poses[:, order], paths.timestamps_ns[:, order] * 1e-9


def driven(poses, times_s):
    """Return ways of the rear axle, speeds, accelerations along and across, and turns of each step, (B, steps)."""
    yaws = np.unwrap(poses[..., 2], axis=1)
    rear_m = poses[..., :2] - REAR_M * np.stack([np.cos(yaws), np.sin(yaws)], -1)
    middle, steps_m, steps_s = yaws[:, :-1] + np.diff(yaws) / 2, np.diff(rear_m, axis=1), np.diff(times_s)
    ways_m = steps_m[..., 0] * np.cos(middle) + steps_m[..., 1] * np.sin(middle)
    sideways_m = steps_m[..., 1] * np.cos(middle) - steps_m[..., 0] * np.sin(middle)
    speeds = ways_m / steps_s
    along = np.diff(speeds, axis=1) / (0.5 * (steps_s[:, 1:] + steps_s[:, :-1]))
    return ways_m, sideways_m, along, speeds * np.diff(yaws) / steps_s, np.diff(yaws)


drives = st.builds(
    dict,
    speed_mps=st.floats(0.0, 20.0),
    curvature=st.floats(-0.012, 0.012),
    acceleration_mps2=st.floats(-0.8, 0.8),
    wave=st.floats(0.0, 1.0),
    yaw_rad=st.floats(-math.pi, math.pi),
)


@given(each=st.lists(drives, min_size=2, max_size=5), hz=st.sampled_from([2, 5, 10]), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_past_present_and_future_are_those_of_a_car(each, hz, seed):
    paths = paths_of([drive(**drawn, hz=hz, num=8 * hz) for drawn in each])
    perturbation = RecoveryPerturbation(1.0, seed=seed)
    limits = perturbation.limits
    moved, is_moved = perturbation.move_paths(paths)
    ways_m, sideways_m, along, across, turns = driven(*in_time(paths, moved))
    of_log = driven(*in_time(paths, paths.poses))
    assert (ways_m > -1e-6).all(), "the AV never drives backwards"
    # half a second of an S is not along the heading in its middle
    slip = 0.15 if hz == 2 else 0.06
    assert (np.abs(sideways_m) < 0.01 + slip * ways_m).all(), "its rear axle moves where it heads to"
    noise = 1e-5  # of world coordinates of 5,000 km, differenced twice
    assert (along <= np.maximum(limits.acceleration_mps2, of_log[2].max(1, keepdims=True)) + noise).all()
    assert (-along <= np.maximum(limits.deceleration_mps2, -of_log[2].min(1, keepdims=True)) + noise).all()
    assert (np.abs(across) <= np.maximum(limits.lateral_mps2, np.abs(of_log[3]).max(1, keepdims=True)) + noise).all()
    bends = (np.abs(turns) - 1e-3)[ways_m > 0.06] / ways_m[ways_m > 0.06]
    assert (bends <= limits.curvature + 1e-4).all()
    # what is not moved is the log to the bit
    np.testing.assert_array_equal(moved[~is_moved], paths.poses[~is_moved])
    assert is_moved[:, 0].sum() == perturbation.counts.perturbed


@pytest.mark.parametrize("hz", [2, 5, 10])
@pytest.mark.parametrize("curvature", [0.0, 0.02])
def test_the_way_back_joins_the_log_and_the_state_is_the_one_that_was_drawn(hz, curvature):
    log = drive(8.0, curvature=curvature, hz=hz, num=9 * hz)
    paths = paths_of([log] * 50)
    perturbation = RecoveryPerturbation(1.0)
    moved, is_moved = perturbation.move_paths(paths)
    assert is_moved[:, 0].all()
    assert perturbation.counts.perturbed == 50
    assert not is_moved[:, -hz:].any(), "4 s and 25 m after the state all are back"
    offset_m = moved[:, 0, :2] - paths.poses[:, 0, :2]
    yaw = paths.poses[0, 0, 2]
    left_m, ahead_m = offset_m @ (-math.sin(yaw), math.cos(yaw)), offset_m @ (math.cos(yaw), math.sin(yaw))
    turned = np.angle(np.exp(1j * (moved[:, 0, 2] - yaw)))
    # those that are moved along the log only lie on its path, which a bend takes to the side
    only_along = np.abs(turned) < 1e-9 if curvature == 0 else np.zeros(50, bool)
    assert np.abs(left_m[only_along]).max(initial=0) < 1e-6
    assert np.abs(left_m).max() <= 2.0 + 4.0 * curvature + 0.2
    assert np.abs(ahead_m).max() <= 4.3
    assert 0.3 < left_m.std() < 0.9
    assert 0.6 < ahead_m.std() < 2.0
    assert turned.std() > 0.02


def test_a_draw_of_speed_is_the_speed_of_past_and_future():
    paths = paths_of([drive(8.0)] * 40)
    moved, _ = RecoveryPerturbation(1.0, std=(0.0, 0.0, 0.0, 2.0)).move_paths(paths)
    ways_m, *_ = driven(*in_time(paths, moved))
    before, after = 10 * ways_m[:, 4], 10 * ways_m[:, 5]
    np.testing.assert_allclose(before, after, atol=0.35)  # at most 3.5 m/s2 in a tenth of a second
    assert 1.0 < (before - 8.0).std() < 2.5
    np.testing.assert_allclose(moved[:, 0], paths.poses[:, 0], atol=1e-6)


def boxes_around(paths, *, gap_m, seed=0):
    """Return an agent on either side of the AV in each frame of the log, and one that drives through it."""
    rng = np.random.default_rng(seed)
    poses = paths.poses.reshape(-1, 3)
    left = np.stack([-np.sin(poses[:, 2]), np.cos(poses[:, 2])], -1)
    places = np.stack([poses[:, :2] + gap_m * left, poses[:, :2] - gap_m * left, poses[:, :2]], axis=1)
    num = len(poses)
    agents = np.zeros(3 * num, AGENT_DTYPE)
    agents["centroid"] = places.reshape(-1, 2)
    agents["extent"] = (4.5, 1.9, 1.6)
    agents["yaw"] = np.repeat(poses[:, 2], 3) + rng.normal(0, 0.05, 3 * num)
    agents.setflags(write=False)
    starts = 3 * np.arange(num).reshape(paths.timestamps_ns.shape)
    return AgentBoxes(slice(None), agents, starts, starts + 3)


def test_the_av_does_not_drive_through_agents_but_those_that_it_is_in_already():
    paths = paths_of([drive(speed, curvature=0.01) for speed in np.linspace(0, 15, 60)])
    boxes = boxes_around(paths, gap_m=2.6)
    perturbation = RecoveryPerturbation(1.0)
    moved, is_moved = perturbation.move_paths(paths, [boxes])
    assert perturbation.counts.overlapping > 20
    assert perturbation.counts.perturbed > 20
    for window, frame in np.argwhere(is_moved):
        av = (*moved[window, frame], LENGTH_M, WIDTH_M)
        for row in range(boxes.starts[window, frame], boxes.stops[window, frame] - 1):
            agent = boxes.rows[row]
            box = (*agent["centroid"], agent["yaw"], *agent["extent"][:2])
            assert not boxes_overlap(av, tuple(map(float, box)))
    free, _ = RecoveryPerturbation(1.0).move_paths(paths)
    assert not np.array_equal(free, moved)


def test_where_nothing_fits_the_log_is_kept():
    paths = paths_of([drive(8.0)] * 20)
    perturbation = RecoveryPerturbation(1.0, std=(2.0, 0.0, 0.0, 0.0), num_draws=3)
    moved, is_moved = perturbation.move_paths(paths, [boxes_around(paths, gap_m=1.9)])
    counts = perturbation.counts
    assert (counts.windows, counts.chosen) == (20, 20)
    assert counts.perturbed < 20
    assert counts.draws == counts.perturbed + counts.outside_limits + counts.overlapping
    np.testing.assert_array_equal(moved[~is_moved[:, 0]], paths.poses[~is_moved[:, 0]])
    assert "of 20 samples" in str(counts)


def test_limits_may_be_whole_numbers():
    paths = paths_of([drive(8.0)] * 20)
    limits = RecoveryLimits(deceleration_mps2=4, lateral_mps2=5)
    whole, same = (
        RecoveryPerturbation(1.0, limits=each).move_paths(paths)[0]
        for each in (limits, RecoveryLimits(deceleration_mps2=4.0, lateral_mps2=5.0))
    )
    np.testing.assert_array_equal(whole, same)


def test_a_batch_is_its_windows_one_by_one_to_the_bit():
    paths = paths_of([drive(speed, curvature=0.01) for speed in np.linspace(0, 15, 30)])
    boxes = boxes_around(paths, gap_m=2.3)
    whole = RecoveryPerturbation(0.6).move_paths(paths, [boxes])
    single = RecoveryPerturbation(0.6)
    for window in range(30):
        part = slice(window, window + 1)
        path = AvPaths(
            paths.poses[part], paths.timestamps_ns[part], paths.counts[:, part], paths.num_history, paths.size_m
        )
        alone = boxes._replace(starts=boxes.starts[part], stops=boxes.stops[part])
        moved, is_moved = single.move_paths(path, [alone])
        np.testing.assert_array_equal(moved[0], whole[0][window])
        np.testing.assert_array_equal(is_moved[0], whole[1][window])
    each = [boxes._replace(windows=slice(i, i + 1), starts=boxes.starts[i:i + 1], stops=boxes.stops[i:i + 1])
            for i in range(30)]  # fmt: skip
    np.testing.assert_array_equal(RecoveryPerturbation(0.6).move_paths(paths, each)[0], whole[0])


def test_seeds_decide_also_after_copies():
    paths = paths_of([drive(6.0)] * 8)

    def moved(perturbation, *seeds):
        for seed in seeds:
            perturbation.reseed(seed)
        return perturbation.move_paths(paths)[0].tolist()

    first = moved(RecoveryPerturbation(0.5, seed=3), 7)
    assert moved(RecoveryPerturbation(0.5, seed=3), 1, 7) == first
    assert moved(RecoveryPerturbation(0.5, seed=4), 7) != first != moved(RecoveryPerturbation(0.5, seed=3), 8)
    original = RecoveryPerturbation(0.5, seed=3)
    copied = copy.deepcopy(original)
    assert moved(copied, 7) == first == moved(pickle.loads(pickle.dumps(original)), 7)
    assert original.counts == copied.counts
    assert original.counts.windows == 8


def test_a_standing_av_is_seldom_given_speed_and_never_moved_aside_while_it_stands():
    paths = paths_of([drive(0.0)] * 200)
    moved, is_moved = RecoveryPerturbation(1.0).move_paths(paths)
    ways_m, *_ = driven(*in_time(paths, moved))
    starts = ways_m[:, 5] > 0.02
    assert 0.03 < starts.mean() < 0.3
    assert is_moved[:, 0].all()
    stands = (ways_m < 1e-9).all(axis=1)
    assert stands.any()
    assert (np.ptp(moved[stands], axis=1) < 1e-6).all()


@pytest.mark.parametrize("case", ["no future", "part of the future", "reversing", "stamps", "nan", "probability"])
def test_windows_that_stay_as_they_are(case):
    poses, times_s = drive(6.0)
    if case == "reversing":
        poses = poses[::-1].copy()
    elif case == "stamps":
        times_s[20] = times_s[19]
    elif case == "nan":
        poses[30] = np.nan
    paths = paths_of([(poses, times_s)] * 3)
    if case == "no future":
        paths = AvPaths(paths.poses[:, :6], paths.timestamps_ns[:, :6], paths.counts * [[1], [0]], 6, paths.size_m)
    elif case == "part of the future":
        paths = AvPaths(paths.poses, paths.timestamps_ns, paths.counts - [[0], [1]], 6, paths.size_m)
    perturbation = RecoveryPerturbation(0.0 if case == "probability" else 1.0)
    moved, is_moved = perturbation.move_paths(paths)
    assert not is_moved.any()
    assert perturbation.counts.perturbed == 0
    np.testing.assert_array_equal(moved, paths.poses)


def test_a_short_past_and_frames_of_a_window_alone():
    poses, times_s = drive(6.0, num=40)
    frames, *_ = make_frames(40, positions_m=[(x, y, 7.0) for x, y, _ in poses], yaws_rad=poses[:, 2],
                             timestamps_ns=np.round(1e9 * times_s))  # fmt: skip
    before = frames.copy()
    for num_history in (1, 2, 5):
        history, future = frames[num_history - 1 :: -1], frames[num_history:]
        moved_history, moved_future = RecoveryPerturbation(1.0).perturb(history, future)
        assert (len(moved_history), len(moved_future)) == (num_history, 40 - num_history)
        assert moved_history.dtype == frames.dtype
        assert (moved_history["ego_translation"][:, 2] == 7.0).all()
        assert (moved_history["ego_translation"][0] != history["ego_translation"][0]).any()
        assert np.isfinite(rotations33_as_yaws(moved_future["ego_rotation"])).all()
    np.testing.assert_array_equal(frames, before)
    with pytest.raises(InvalidArgumentError, match="history_frames is empty"):
        RecoveryPerturbation(1.0).perturb(frames[:0], frames)


def test_limits_are_those_that_drives_are_scored_by_and_models_hold():
    limits = RecoveryLimits()
    along, across = COMFORT_BOUNDS["accelerations_along_mps2"], COMFORT_BOUNDS["accelerations_across_mps2"]
    assert (-limits.deceleration_mps2, limits.acceleration_mps2) == along
    assert (-limits.lateral_mps2, limits.lateral_mps2) == across
    assert limits.curvature == InvertibleBicycle().max_curvature_1pm
    assert RecoveryPerturbation(1.0).length_m == LENGTH_M


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"perturb_prob": 1.5}, "perturb_prob is 1.5"),
        ({"std": (1.0, 2.0)}, r"std is \(1.0, 2.0\)"),
        ({"clip": (1.0, -2.0, 0.1, 0.1)}, "clip is"),
        ({"clip": (1.0, 2.0, 1.6, 0.1)}, "quarter turn"),
        ({"num_draws": 0}, "num_draws is 0"),
    ],
)
def test_arguments_out_of_range_are_refused(options, told):
    with pytest.raises(InvalidArgumentError, match=told):
        RecoveryPerturbation(**{"perturb_prob": 1.0, **options})
    with pytest.raises(InvalidArgumentError, match="above 0"):
        RecoveryLimits(curvature=0.0)
    with pytest.raises(InvalidArgumentError, match="above 0"):
        RecoveryLimits(acceleration_mps2=float("nan"))
