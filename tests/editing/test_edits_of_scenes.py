"""Edits of scenes that can be computed by hand: the AV, 4 x 2 m, drives along x at 10 m/s from x = 10 on."""

import dataclasses
import math

import numpy as np
import pytest

from l5kit.data import PERCEPTION_LABEL_TO_INDEX, faces_of_frames
from l5kit.editing import (
    AnotherGoal,
    BrakingLeader,
    Cones,
    CutIn,
    DenserTraffic,
    FewerAgents,
    ImpossibleEditError,
    ParkedVehicle,
    PedestrianStepsOut,
    RedLight,
    SceneSetting,
    SlowLeader,
)
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.lanes.red_lights import RED, read_lane_colors
from support.edited_scenes import FACTS, NUM_FRAMES, drive_ahead, fork_setting, lit_setting, track_of

ALONE = SceneSetting(FACTS)
"""No map: the path ends where the log does, half a metre behind x = 69."""


@pytest.fixture(scope="module")
def fork(tmp_path_factory):
    """Two lanes along x, and a fork at x = 100."""
    return fork_setting(tmp_path_factory.mktemp("fork"))


@pytest.fixture(scope="module")
def lit(tmp_path_factory):
    """A light whose line is at x = 60."""
    return lit_setting(tmp_path_factory.mktemp("lit"))


def label(name):
    return PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{name}"]


def first_meeting(scene, track):
    """The first frame in which the AV of the log overlaps a track, or None."""
    its = track_of(scene, track)
    for frame, xy, yaw, size in zip(its["frames"], its["xy"], its["yaw"], its["size"], strict=True):
        av = np.array([*scene.ego_positions_m[frame, :2], scene.ego_yaws_rad[frame], 4.0, 2.0])
        if boxes_overlap(av, np.array([*xy, yaw, *size[:2]], np.float64)):
            return int(frame)
    return None


# --- stationary objects


def test_a_parked_bus_stands_so_far_ahead_of_the_front_in_all_frames():
    edited = ParkedVehicle(ahead_m=40.0).apply(drive_ahead(), ALONE)
    bus = track_of(edited, 1)
    assert bus["frames"].tolist() == list(range(NUM_FRAMES))
    # the front is at 12, the rear of the bus at 52, its middle 6 m further
    np.testing.assert_allclose(bus["xy"], np.tile((58.0, 0.0), (NUM_FRAMES, 1)), atol=1e-9)
    np.testing.assert_allclose(bus["size"][0], (12.0, 2.55, 3.2), atol=1e-6)
    assert set(bus["label"]) == {label("BUS")}
    assert not bus["v"].any()
    assert not bus["yaw"].any()
    assert first_meeting(edited, 1) == 41  # the front passes x = 52 in frame 40


def test_what_is_parked_beside_the_path_is_not_met():
    edited = ParkedVehicle(ahead_m=20.0, left_m=-3.0, kind="car").apply(drive_ahead(), ALONE)
    np.testing.assert_allclose(track_of(edited, 1)["xy"][0], (34.3, -3.0))
    assert first_meeting(edited, 1) is None


def test_a_parked_vehicle_moves_on_to_where_there_is_room():
    # a car of 4 m at 58 leaves room from 58 + 6 + 2 + 0.3 on, which is the ninth metre
    edited = ParkedVehicle(ahead_m=40.0).apply(drive_ahead(others=[{"start": (58.0, 0.0)}]), ALONE)
    np.testing.assert_allclose(track_of(edited, 2)["xy"][0], (67.0, 0.0))


def test_no_vehicle_parks_where_there_is_no_room():
    full = drive_ahead(others=[{"start": (x, 0.0), "label": "UNKNOWN"} for x in range(40, 90, 5)])
    with pytest.raises(ImpossibleEditError, match=r"no room from 48\.0 m to 68\.0 m along the path of the AV"):
        ParkedVehicle(ahead_m=40.0).apply(full, ALONE)


def test_a_vehicle_is_never_put_onto_the_av():
    edited = ParkedVehicle(ahead_m=0.0, kind="car").apply(drive_ahead(), ALONE)
    np.testing.assert_allclose(track_of(edited, 1)["xy"][0], (15.3, 0.0))  # not at 14.3, which touches


def test_without_a_map_the_path_ends_with_the_log():
    with pytest.raises(ImpossibleEditError, match=r"168\.0 m along the path of the AV, which is known for 59\.5 m"):
        ParkedVehicle(ahead_m=160.0).apply(drive_ahead(), ALONE)


def test_on_a_map_the_path_goes_on_along_the_lanes(fork):
    edited = ParkedVehicle(ahead_m=160.0).apply(drive_ahead(), fork)
    np.testing.assert_allclose(track_of(edited, 1)["xy"][0], (178.0, 0.0), atol=0.01)


def test_cones_stand_in_a_slanting_row_with_a_trailer_behind():
    edit = Cones(ahead_m=20.0, length_m=10.0, count=3, from_left_m=-2.0, to_left_m=2.0)
    edited = edit.apply(drive_ahead(), ALONE)
    first = [track_of(edited, track)["xy"][0] for track in (1, 2, 3, 4)]
    # the first one begins at 12 + 20; the trailer a metre behind the last one, in the middle
    np.testing.assert_allclose(first, [(32.2, -2.0), (37.2, 0.0), (42.2, 2.0), (45.15, 0.0)])
    assert [int(track_of(edited, track)["label"][0]) for track in (1, 2, 3, 4)] == [
        *[label("UNKNOWN")] * 3,
        label("OTHER_VEHICLE"),
    ]
    assert first_meeting(edited, 4) is not None
    assert (
        len(np.unique(dataclasses.replace(edit, has_trailer=False).apply(drive_ahead(), ALONE).agents.track_ids)) == 3
    )


# --- moving objects


@pytest.mark.parametrize(("side", "sign"), [("right", -1.0), ("left", 1.0)])
def test_a_pedestrian_is_in_the_middle_when_the_front_gets_there(side, sign):
    edit = PedestrianStepsOut(ahead_m=30.0, side=side, aside_m=4.0, pace_mps=1.6)
    edited = edit.apply(drive_ahead(), ALONE)
    walker = track_of(edited, 1)
    # the front, from 12 on, is at 42 after 3 s; 4 m at 1.6 m/s take 2.5 s
    np.testing.assert_allclose(walker["xy"][:, 0], 42.0)
    np.testing.assert_allclose(walker["xy"][[0, 5, 30, 55, 59], 1], [sign * y for y in (4, 4, 0, -4, -4)], atol=1e-9)
    np.testing.assert_allclose(walker["yaw"], -sign * math.pi / 2, atol=1e-6)
    np.testing.assert_allclose(walker["v"][20], (0.0, -sign * 1.6), atol=1e-6)
    assert set(walker["label"]) == {label("PEDESTRIAN")}
    assert first_meeting(edited, 1) in (30, 31)


def test_a_pedestrian_who_is_early_is_not_met():
    edited = PedestrianStepsOut(ahead_m=45.0, late_s=-2.0).apply(drive_ahead(), ALONE)
    np.testing.assert_allclose(track_of(edited, 1)["xy"][25, 1], 0.0, atol=1e-9)  # 4.5 s less 2
    assert first_meeting(edited, 1) is None


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        pytest.param(PedestrianStepsOut(ahead_m=70.0), "does not reach 70 m ahead", id="too far"),
        pytest.param(PedestrianStepsOut(ahead_m=10.0), r"have to start 1\.5 s before the scene does", id="too near"),
    ],
)
def test_a_pedestrian_who_would_not_be_met_is_refused(edit, message):
    with pytest.raises(ImpossibleEditError, match=message):
        edit.apply(drive_ahead(), ALONE)


def test_a_slow_leader_always_drives_as_fast():
    edited = SlowLeader(ahead_m=20.0, speed_mps=3.0).apply(drive_ahead(), ALONE)
    leader = track_of(edited, 1)
    np.testing.assert_allclose(leader["xy"][[0, 50], 0], (34.3, 49.3))  # 12 + 20 + half of 4.6
    np.testing.assert_allclose(leader["v"], np.tile((3.0, 0.0), (NUM_FRAMES, 1)), atol=1e-5)
    assert first_meeting(edited, 1) == 29  # 20 m at 7 m/s take 2.86 s


def test_a_leader_begins_where_there_is_room():
    # another car at 34.3 needs 2 + 2.3 + 0.3 m to both sides
    edited = SlowLeader(ahead_m=20.0).apply(drive_ahead(others=[{"start": (34.3, 0.0)}]), ALONE)
    np.testing.assert_allclose(track_of(edited, 2)["xy"][[0, 50], 0], (39.3, 54.3))
    full = drive_ahead(others=[{"start": (x, 0.0)} for x in range(30, 70, 4)])
    with pytest.raises(ImpossibleEditError, match=r"no room for the car from 24\.3 m to 44\.3 m along the path"):
        SlowLeader(ahead_m=20.0).apply(full, ALONE)


def test_a_leader_leaves_the_scene_at_the_end_of_the_path(fork):
    edit = SlowLeader(ahead_m=20.0, speed_mps=10.0)
    # its front is at 26.6 m of 59.5 m
    assert track_of(edit.apply(drive_ahead(), ALONE), 1)["frames"].tolist() == list(range(33))
    assert len(track_of(edit.apply(drive_ahead(), fork), 1)["frames"]) == NUM_FRAMES


def test_a_braking_leader_drives_as_the_av_until_it_brakes(fork):
    edited = BrakingLeader(ahead_m=15.0, brakes_at_s=3.0, braking_mps2=5.0).apply(drive_ahead(), fork)
    leader = track_of(edited, 1)
    # 15 m ahead of the front until 3 s, then 10 m in 2 s to a stop
    np.testing.assert_allclose(leader["xy"][[0, 30, 40, 50, 59], 0], (29.3, 59.3, 66.8, 69.3, 69.3), atol=1e-6)
    assert first_meeting(edited, 1) in (55, 56)  # its rear is at 67, where the front is after 5.5 s


def test_nobody_brakes_in_front_of_an_av_that_stands():
    with pytest.raises(ImpossibleEditError, match=r"drives 0\.0 m/s at 3 s"):
        BrakingLeader().apply(drive_ahead(speed_mps=0.0), ALONE)
    with pytest.raises(ImpossibleEditError, match=r"the scene lasts 5\.9 s"):
        BrakingLeader(brakes_at_s=6.0).apply(drive_ahead(), ALONE)


def test_who_cuts_in_comes_from_the_lane_beside(fork):
    edit = CutIn(ahead_m=6.0, at_s=3.0, duration_s=2.0, apart_m=4.0, speed_share=0.6)
    edited = edit.apply(drive_ahead(), fork)
    other = track_of(edited, 1)
    # 6 m ahead of the front, then over 4 m to the right in 2 s, in which 10 m/s become 6
    expected = [(20.3, 4.0), (50.3, 4.0), (59.3, 2.0), (66.3, 0.0)]
    np.testing.assert_allclose(other["xy"][[0, 30, 40, 50]], expected, atol=1e-6)
    np.testing.assert_allclose(other["v"][52:, 0], 6.0, atol=1e-5)
    # half a wave over 4 m in 2 s needs 4.9 m/s2 to the side, and 2 m/s2 of braking come to that
    assert np.linalg.norm(np.diff(other["v"], axis=0), axis=1).max() < 0.1 * 5.4
    assert other["yaw"][40] < -0.1
    assert abs(other["yaw"][20]) < 1e-6
    assert first_meeting(edited, 1) is not None
    with pytest.raises(ImpossibleEditError, match="no lane of the same direction 4 m beside the AV"):
        dataclasses.replace(edit, side="right").apply(drive_ahead(), fork)


def test_a_pedestrian_who_would_start_after_the_scene_is_refused():
    with pytest.raises(ImpossibleEditError, match=r"start after 60\.1 s, but the scene lasts 5\.9 s"):
        PedestrianStepsOut(ahead_m=26.0, late_s=60.0).apply(drive_ahead(), ALONE)


@pytest.mark.parametrize("number", [np.int64(20), np.float32(20.0)], ids=repr)
def test_numbers_of_numpy_are_numbers(number):
    edit = ParkedVehicle(ahead_m=number)
    assert edit == ParkedVehicle(ahead_m=20)
    assert type(edit.ahead_m) in (int, float)


def test_velocities_are_finite_where_time_stands_still():
    scene = drive_ahead()
    times_ns = scene.timestamps_ns.copy()
    times_ns[10:13] = times_ns[10]
    edited = SlowLeader(speed_mps=3.0).apply(dataclasses.replace(scene, timestamps_ns=times_ns), ALONE)
    velocities = track_of(edited, 1)["v"]
    np.testing.assert_allclose(velocities[[5, 11, 30], 0], (3.0, 0.0, 3.0), atol=1e-5)
    assert np.isfinite(velocities).all()


@pytest.mark.parametrize("edit", [ParkedVehicle(), DenserTraffic()], ids=["parked", "denser"])
def test_who_is_added_has_a_number_that_samples_have(edit):
    scene = drive_ahead(others=[{"start": (40.0, 4.0), "speed": 10.0}])
    agents = dataclasses.replace(scene.agents, track_ids=np.full_like(scene.agents.track_ids, 2**63 - 1))
    with pytest.raises(ImpossibleEditError, match="track 9223372036854775807, and added tracks would get"):
        edit.apply(dataclasses.replace(scene, agents=agents), ALONE)


def test_nobody_cuts_in_across_the_lane():
    scene = drive_ahead(speed_mps=2.0, num_frames=100)
    # 1.83 m/s to the side at most, where 1.7 m/s along the path are left: arctan(1.83 / 1.7), and more behind that
    with pytest.raises(ImpossibleEditError, match=r"at 2\.0 m/s the vehicle would turn by 4[78] degrees .* duration_s"):
        CutIn().apply(scene, ALONE)
    assert np.abs(track_of(CutIn(duration_s=6.0).apply(scene, ALONE), 1)["yaw"]).max() < np.deg2rad(30.0)


# --- more or fewer


def test_denser_traffic_has_copies_of_drivers_at_other_times():
    scene = drive_ahead(others=[{"start": (40.0, 4.0), "speed": 10.0}, {"start": (5.0, 9.0)}])
    edited = DenserTraffic(factor=2.0).apply(scene, ALONE)
    assert np.unique(edited.agents.track_ids).tolist() == [1, 2, 3]  # stationary agents are not copied
    logged, copy = track_of(scene, 1), track_of(edited, 3)
    delay = int(copy["frames"][0] - np.flatnonzero(logged["xy"][:, 0] == copy["xy"][0, 0])[0])
    assert delay <= -15  # one that appears later would do so near the AV
    np.testing.assert_array_equal(copy["xy"], logged["xy"][-delay:])
    for name in ("xy", "yaw", "v"):
        np.testing.assert_array_equal(track_of(edited, 1)[name], logged[name])


def test_copies_have_room_in_all_frames():
    others = [{"start": (x, 4.0), "speed": 10.0} for x in (-60.0, -40.0, 40.0, 90.0)]
    setting = dataclasses.replace(ALONE, seed=5)
    scene = drive_ahead(others=others)
    edited = DenserTraffic(factor=4.0).apply(scene, setting)
    tracks = [track_of(edited, int(track)) for track in np.unique(edited.agents.track_ids)]
    assert len(tracks) > 5
    for frame in range(NUM_FRAMES):
        places = sorted(float(each["xy"][each["frames"] == frame][0, 0]) for each in tracks if frame in each["frames"])
        assert (np.diff(places) > 4.0).all()
    again = DenserTraffic(factor=4.0).apply(scene, setting)
    np.testing.assert_array_equal(again.agents.centroids_m, edited.agents.centroids_m)
    other = DenserTraffic(factor=4.0).apply(scene, dataclasses.replace(setting, seed=6))
    assert other.agents.centroids_m.tolist() != edited.agents.centroids_m.tolist()


def test_traffic_of_nobody_is_not_denser():
    with pytest.raises(ImpossibleEditError, match="no vehicle moves in the scene"):
        DenserTraffic().apply(drive_ahead(others=[{"start": (40.0, 4.0)}]), ALONE)


def test_fewer_agents_of_a_class_and_a_share():
    others = [{"start": (40.0 + i, 4.0), "label": "PEDESTRIAN" if i % 2 else "CAR"} for i in range(8)]
    scene = drive_ahead(others=others)
    assert np.unique(FewerAgents(labels=("pedestrian",)).apply(scene, ALONE).agents.track_ids).tolist() == [1, 3, 5, 7]
    assert len(FewerAgents().apply(scene, ALONE).agents.track_ids) == 0
    half = FewerAgents(share=0.5).apply(scene, ALONE)
    assert len(np.unique(half.agents.track_ids)) == 4
    assert np.diff(half.agents.starts).tolist() == [4] * NUM_FRAMES
    with pytest.raises(ImpossibleEditError, match="0 tracks of bus"):
        FewerAgents(labels=("bus",)).apply(scene, ALONE)
    with pytest.raises(InvalidArgumentError, match="did you mean 'pedestrian'"):
        FewerAgents(labels=("pedestrians",))


# --- the AV, and lights


def test_another_goal_takes_the_other_exit_of_a_fork(fork):
    scene = drive_ahead(start_m=(60.0, 0.0), num_frames=100)
    edited = AnotherGoal().apply(scene, fork)
    xy, yaws = edited.ego_positions_m[:, :2], edited.ego_yaws_rad
    np.testing.assert_allclose(xy[:11], scene.ego_positions_m[:11, :2], atol=0.2)  # braking for the bend begins there
    assert xy[-1, 1] > 20.0  # to the north, and no more to the east
    assert abs(yaws[-1] - math.pi / 2) < 0.02
    np.testing.assert_array_equal(edited.ego_positions_m[:, 2], scene.ego_positions_m[:, 2])
    assert (fork.driving_map.distances_to_surface_m(xy) == 0.0).all()
    speeds = edited.ego_speeds_mps
    assert speeds.max() < 10.01
    # sqrt(2 m/s2 * 20 m) in the bend
    in_bend = (xy[:, 0] > 104.0) & (xy[:, 1] < 16.0)
    assert in_bend.sum() > 10
    assert speeds[in_bend].max() < math.sqrt(2.0 * 20.0) + 0.3
    assert np.abs(np.diff(speeds)).max() < 0.17  # 1.5 m/s2, evenly
    np.testing.assert_array_equal(edited.agents.centroids_m, scene.agents.centroids_m)


def test_a_goal_that_is_named_is_where_the_av_stops(fork):
    scene = drive_ahead(start_m=(60.0, 0.5), num_frames=300)
    edited = AnotherGoal(goal_m=(120.0, 60.0)).apply(scene, fork)
    np.testing.assert_allclose(edited.ego_positions_m[0, :2], (60.0, 0.5), atol=1e-6)
    np.testing.assert_allclose(edited.ego_positions_m[-1, :2], (120.0, 60.0), atol=0.3)
    assert edited.ego_speeds_mps[-1] < 0.1


@pytest.mark.parametrize(
    ("start_x", "speed_mps", "least_mps2", "most_mps2"), [(60.0, 10.0, 1.4, 1.7), (90.0, 10.0, 2.9, 3.1)]
)
def test_the_av_brakes_as_hard_as_it_must_for_a_bend(fork, start_x, speed_mps, least_mps2, most_mps2):
    scene = drive_ahead(start_m=(start_x, 0.5), speed_mps=speed_mps, num_frames=100)
    edited = AnotherGoal().apply(scene, fork)
    steps_m = np.diff(edited.ego_positions_m[:, :2], axis=0)
    speeds = np.concatenate([[speed_mps], 10.0 * np.linalg.norm(steps_m, axis=1)])
    assert least_mps2 < -10.0 * np.diff(speeds).min() < most_mps2
    # it points in the direction of motion, also when it is 0.5 m off the centre
    slips = np.arctan2(steps_m[:, 1], steps_m[:, 0]) - edited.ego_yaws_rad[:-1]
    assert np.abs(slips[edited.ego_positions_m[:-1, 0] < 96.0]).max() < 0.01
    assert np.abs(slips).max() < 0.07


def test_an_av_that_cannot_brake_in_time_gets_no_other_goal(fork):
    scene = drive_ahead(start_m=(60.0, 0.0), speed_mps=20.0)
    with pytest.raises(ImpossibleEditError, match=r"drives 20\.0 m/s in the first frame, too fast"):
        AnotherGoal(goal_m=(75.0, 0.0)).apply(scene, fork)


def test_a_speed_takes_an_av_that_stands_to_the_fork(fork):
    scene = drive_ahead(start_m=(60.0, 0.0), speed_mps=0.0, num_frames=200)
    with pytest.raises(ImpossibleEditError, match=r"in the 0\.0 m that it drives"):
        AnotherGoal().apply(scene, fork)
    edited = AnotherGoal(speed_mps=5.0).apply(scene, fork)
    speeds = edited.ego_speeds_mps
    # 1.5 m/s2 for 3.3 s
    np.testing.assert_allclose(speeds[[10, 20, 40]], (1.5, 3.0, 5.0), atol=0.2)
    assert speeds.max() < 5.01
    assert edited.ego_positions_m[-1, 1] > 5.0


@pytest.mark.parametrize(
    ("edit", "start_m", "message"),
    [
        pytest.param(AnotherGoal(), (10.0, 4.0), "reaches no fork of lanes", id="no fork"),
        pytest.param(AnotherGoal(), (10.0, 0.0), "reaches no fork of lanes", id="a fork behind the log"),
        pytest.param(AnotherGoal(goal_m=(10.0, 4.0)), (60.0, 0.0), "the goal is not reached: no route", id="no way"),
        pytest.param(AnotherGoal(goal_m=(0.0, 999.0)), (60.0, 0.0), "the goal is not reached: goal", id="no lane"),
        pytest.param(AnotherGoal(), (10.0, -90.0), "the AV is on no lane", id="off all lanes"),
    ],
)
def test_a_goal_that_no_lane_leads_to_is_refused(fork, edit, start_m, message):
    with pytest.raises(ImpossibleEditError, match=message):
        edit.apply(drive_ahead(start_m=start_m), fork)


@pytest.mark.parametrize("edit", [AnotherGoal(), RedLight()], ids=["goal", "light"])
def test_edits_that_need_a_map_say_so(edit):
    with pytest.raises(ImpossibleEditError, match=f"{type(edit).__name__} needs a semantic map with lanes"):
        edit.apply(drive_ahead(), ALONE)


@pytest.mark.parametrize("has_rows", [False, True], ids=["a log without lights", "a log with green"])
def test_the_next_light_is_red_for_some_time(lit, has_rows):
    green = faces_of_frames(
        NUM_FRAMES,
        np.arange(NUM_FRAMES),
        face_ids=["green"] * NUM_FRAMES,
        light_ids=["lamp"] * NUM_FRAMES,
        statuses=np.tile([1.0, 0.0, 0.0], (NUM_FRAMES, 1)),
    )
    scene = drive_ahead(faces=green if has_rows else None)
    edited = RedLight(from_s=1.0, until_s=3.0).apply(scene, lit)
    colors = read_lane_colors([edited.to_records()], lit.map_api.arrays.lights)
    inside = lit.map_api.arrays.lane_ids.to_list().index("inside")
    red = np.repeat(np.arange(NUM_FRAMES), np.diff(colors.starts))
    assert red.tolist() == list(range(10, 30))
    assert set(colors.lanes.tolist()) == {inside}
    assert set(colors.ranks.tolist()) == {RED}
    assert set(edited.tl_faces.light_ids.tolist()) == {"lamp"}
    is_green = edited.tl_faces.face_ids == "green"
    assert is_green.sum() == (NUM_FRAMES if has_rows else 0)
    assert edited.tl_faces.statuses[is_green, 0].sum() == (NUM_FRAMES - 20 if has_rows else 0)


def test_a_light_that_is_behind_is_not_the_next_one(lit):
    with pytest.raises(ImpossibleEditError, match="no light with a red face is on the path of the AV, 15 m or more"):
        RedLight(from_s=4.0).apply(drive_ahead(), lit)


# --- all of them

EVERY = [
    ParkedVehicle(),
    Cones(),
    PedestrianStepsOut(),
    SlowLeader(),
    BrakingLeader(),
    CutIn(apart_m=4.0),
    DenserTraffic(),
    FewerAgents(share=0.5),
    AnotherGoal(),
]


@pytest.mark.parametrize("edit", EVERY, ids=lambda edit: type(edit).__name__)
def test_an_edit_changes_no_argument_and_draws_by_the_seed_alone(fork, edit):
    others = [{"start": (90.0, 4.0), "speed": 10.0}, {"start": (40.0, 9.0), "label": "PEDESTRIAN"}]
    scene = drive_ahead(start_m=(60.0, 0.0), others=others)
    before = scene.to_records()
    first, second = edit.apply(scene, fork).to_records(), edit.apply(scene, fork).to_records()
    for name in ("frames", "agents", "tl_faces"):
        assert getattr(scene.to_records(), name).tobytes() == getattr(before, name).tobytes()
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()
    assert any(getattr(first, name).tobytes() != getattr(before, name).tobytes() for name in ("frames", "agents"))


@pytest.mark.parametrize("edit", EVERY, ids=lambda edit: type(edit).__name__)
def test_a_scene_whose_poses_are_not_finite_is_refused(fork, edit):
    scene = drive_ahead(others=[{"start": (90.0, 4.0)}])
    positions_m = scene.ego_positions_m.copy()
    positions_m[7, 0] = np.nan
    if isinstance(edit, FewerAgents):
        return  # which does not look at the AV
    with pytest.raises(ImpossibleEditError):
        edit.apply(dataclasses.replace(scene, ego_positions_m=positions_m), fork)


@pytest.mark.parametrize(
    ("kind", "params", "message"),
    [
        (ParkedVehicle, {"ahead_m": -1.0}, "ahead_m must be a number from 0 to 500, got -1.0"),
        (ParkedVehicle, {"kind": "plane"}, "kind must be one of car, van, bus, truck, got 'plane'"),
        (ParkedVehicle, {"ahead_m": "40"}, "ahead_m must be a number"),
        (Cones, {"count": 0}, "count must be a number from 1 to 100, got 0"),
        (PedestrianStepsOut, {"side": "up"}, "side must be one of left, right, got 'up'"),
        (SlowLeader, {"speed_mps": math.nan}, "speed_mps must be a number from 0 to 60, got nan"),
        (CutIn, {"duration_s": 0.0}, "duration_s must be a number from 0.5"),
        (DenserTraffic, {"factor": 0.5}, "factor must be a number from 1 to 20, got 0.5"),
        (FewerAgents, {"share": 0.0}, "share must be a number"),
        (AnotherGoal, {"goal_m": (1.0,)}, "goal_m must be x and y in metres"),
        (AnotherGoal, {"goal_m": ("a", "b")}, "goal_m must be x and y in metres"),
        (Cones, {"count": 100}, r"100 cones of 0\.4 m do not fit into a row of 15\.3 m"),
        (FewerAgents, {"labels": "car"}, r"labels must be several names, got 'car'; \('car',\) has one"),
        (RedLight, {"from_s": 5.0, "until_s": 5.0}, "until_s must be later than from_s, both are 5"),
        (RedLight, {"from_s": 2.0, "until_s": 1.0}, "until_s must be a number from 2"),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(kind, params, message):
    with pytest.raises(InvalidArgumentError, match=f"{kind.__name__}: {message}"):
        kind(**params)
