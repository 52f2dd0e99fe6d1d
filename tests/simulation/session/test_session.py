"""Sessions: moments of any rate become the frames that planners see, and what cannot be is refused by name."""

import dataclasses

import numpy as np
import pytest

from l5kit.data import LogFacts, MapAPI
from l5kit.errors import InvalidArgumentError
from l5kit.simulation import (
    Actions,
    ConstantVelocity,
    Moment,
    Replay,
    RoadMap,
    RulePlanner,
    SeenObjects,
    Session,
    SessionError,
)
from support.driving import LINE_M, make_lit_road, make_ring_map
from support.maps import WORLD_TO_ECEF

SPEED_MPS = 8.0


@dataclasses.dataclass
class Looks:
    """A driver that keeps the past it is shown: times, and x of the AV and of track 7, oldest first."""

    past_s: list = dataclasses.field(default_factory=list)
    frames: list = dataclasses.field(default_factory=list)
    value: float = 0.0

    def drive(self, state):
        scene = state.buffer.scene(0)
        assert state.buffer_frames.tolist() == [len(scene.frames) - 1]
        assert not state.agents.boxes.flags.writeable
        tracks = [scene.agents[slice(*interval)] for interval in scene.frames["agent_index_interval"]]
        others = [rows["centroid"][rows["track_id"] == 7, 0] for rows in tracks]
        times_s = scene.frames["timestamp"] * 1e-9
        seen = [float(x[0]) if len(x) else np.nan for x in others]
        self.past_s.append(np.column_stack([times_s, scene.frames["ego_translation"][:, 0], seen]))
        self.frames.append(int(state.frame_indices[0]))
        return Actions(np.full((1, 2, 3), self.value))


def objects_at(x_m, track=7, **changes):
    given = {
        "track_ids": [track],
        "classes": ["CAR"],
        "positions_m": [[x_m, 3.0]],
        "headings_rad": [0.1],
        "sizes_m": [[4.0, 2.0]],
        "velocities_mps": [[5.0, 0.0]],
    }
    return SeenObjects(**(given | changes))


def moment_at(time_s, **changes):
    given = {
        "timestamp_ns": round(time_s * 1e9),
        "position_m": (SPEED_MPS * time_s, 0.0),
        "heading_rad": 0.0,
        "speed_mps": SPEED_MPS,
        "objects": objects_at(20 + 5 * time_s),
    }
    return Moment(**(given | changes))


def test_moments_a_step_apart_are_frames_as_they_are():
    driver = Looks()
    session = Session(driver)
    times_s = np.arange(30) * 0.1 + np.resize([0.0, 0.004, -0.003], 30)  # clocks of logs are no better
    for time_s in times_s:
        session.step(moment_at(time_s))
    last = driver.past_s[-1]
    np.testing.assert_allclose(last[:, 0], times_s[-11:])
    np.testing.assert_allclose(last[:, 1], SPEED_MPS * times_s[-11:])
    assert driver.frames == list(range(30))


@pytest.mark.parametrize("rate_hz", [50.0, 40.0, 30.0, 25.0, 15.0])
def test_the_past_is_a_step_apart_at_any_rate(rate_hz):
    driver = Looks()
    session = Session(driver)
    for number in range(round(3 * rate_hz)):
        session.step(moment_at(number / rate_hz))
    last, now_s = driver.past_s[-1], (round(3 * rate_hz) - 1) / rate_hz
    np.testing.assert_allclose(last[:, 0], now_s + 0.1 * np.arange(-10, 1), atol=1.1e-3)
    np.testing.assert_allclose(last[:, 1], SPEED_MPS * last[:, 0], atol=1.1e-3 * SPEED_MPS)
    np.testing.assert_allclose(last[:, 2], 20 + 5 * last[:, 0], atol=1e-2)
    # planners that count frames count steps: called within a step, they are called again in the same frame
    assert abs(driver.frames[-1] - 10 * now_s) <= 1
    assert max(np.diff(driver.frames)) == 1


def test_between_two_moments_headings_turn_the_short_way_and_lights_are_held():
    driver = Looks()
    session = Session(driver)
    for number, heading_rad in enumerate((3.1, -3.1, -3.0, -2.9)):
        session.step(
            moment_at(
                0.07 * number,
                heading_rad=heading_rad,
                objects=objects_at(1.0, headings_rad=[heading_rad]),
                active_faces=[f"face {number}"],
            )
        )
    scene = session._past.frames()
    np.testing.assert_allclose(scene.frames["timestamp"] * 1e-9, [0.01, 0.11, 0.21])
    turn_rad = 2 * np.pi - 6.2  # from 3.1 on to -3.1
    assert scene.agents["yaw"][0] == pytest.approx(3.1 + turn_rad / 7, abs=1e-6)
    assert scene.tl_faces["face_id"].tolist() == ["face 0", "face 1", "face 3"]


def test_who_comes_or_goes_is_where_the_nearer_moment_has_it():
    driver = Looks()
    session = Session(driver)
    for number, time_s in enumerate((0.0, 0.04, 0.08, 0.12, 0.16, 0.21)):
        objects = SeenObjects.none() if number == 2 else objects_at(float(number))
        session.step(moment_at(time_s, objects=objects))
    # 0.01 lies between two moments with track 7, and 0.11 between one without it and a nearer one with it
    np.testing.assert_allclose(driver.past_s[-1][:, 0], [0.01, 0.11, 0.21], atol=1e-9)
    np.testing.assert_allclose(driver.past_s[-1][:, 2], [0.25, 3.0, 5.0])


def test_memory_is_bounded():
    session = Session(ConstantVelocity(), past_s=2.0)
    for number in range(1000):
        session.step(moment_at(0.02 * number))
    assert len(session._past) <= 2.0 * 1.1 / 0.02 + 2


def test_a_moment_without_acceleration_and_steering_has_those_of_its_past():
    @dataclasses.dataclass
    class States:
        states: list = dataclasses.field(default_factory=list)

        def drive(self, state):
            self.states.append((float(state.ego.accelerations_mps2[0]), float(state.ego.steering_rad[0])))
            return Actions(np.zeros((1, 1, 3)))

    driver = States()
    session = Session(driver)
    for number in range(3):
        session.step(moment_at(0.1 * number, speed_mps=5.0 + 0.2 * number, heading_rad=0.01 * number))
    assert driver.states[0] == (0.0, 0.0)
    acceleration_mps2, steering_rad = driver.states[-1]
    assert acceleration_mps2 == pytest.approx(2.0)
    assert 0.0 < steering_rad < 0.2
    session.step(moment_at(0.3, acceleration_mps2=-1.0, steering_rad=0.3))
    assert driver.states[-1] == (-1.0, 0.3)


REFUSED = {
    "time goes back": (lambda: moment_at(0.05), r"-0\.05 s after the last moment; moments must be at least"),
    "the same time": (lambda: moment_at(0.1), "0 s after the last moment; moments must be at least"),
    "a gap": (lambda: moment_at(0.9), r"0\.8 s after the last moment; at most 0\.5 s are allowed \(longest_gap_s\)"),
    "a jump": (lambda: moment_at(0.2, position_m=(500.0, 0.0)), "position_m is .* m from that of the last moment"),
    "too many": (
        lambda: moment_at(
            0.2,
            objects=SeenObjects(
                track_ids=np.arange(3),
                classes=["CAR"] * 3,
                positions_m=np.zeros((3, 2)),
                headings_rad=np.zeros(3),
                sizes_m=np.ones((3, 2)),
                velocities_mps=np.zeros((3, 2)),
            ),
        ),
        "objects has 3 road users, more than the 2 of most_objects",
    ),
    "a track twice": (lambda: objects_at(0, track_ids=[4, 4], **_doubled()), "track 4 is in frame 0 twice"),
    "nan": (lambda: objects_at(np.nan), "positions_m of track 7 is"),
    "no size": (lambda: objects_at(0.0, sizes_m=[[4.0, 0.0]]), r"sizes_m of track 7 is .*above 0"),
    "one class too many": (
        lambda: objects_at(0.0, classes=["CAR", "CAR"]),
        "classes has 2 entries, but track_ids 1; each road user",
    ),
    "no class": (lambda: objects_at(0.0, classes=["CARR"]), "classes has 'CARR' .did you mean 'CAR'"),
    "no heading": (lambda: moment_at(0.2, heading_rad=np.inf), "heading_rad is inf"),
    "heading left out": (lambda: moment_at(0.2, heading_rad=None), "heading_rad is None"),
    "several speeds": (lambda: moment_at(0.2, speed_mps=np.zeros(2)), "speed_mps is array"),
    "more than 64 bits": (lambda: moment_at(0.2, timestamp_ns=2**63), "timestamp_ns must be .* in 64 bits"),
    "one text for faces": (lambda: moment_at(0.2, active_faces="face"), "active_faces is 'face'; it must be a list"),
    "a chance below 0": (
        lambda: objects_at(0.0, classes=np.full((1, 17), -0.5)),
        "label_probabilities of track 7 is .*at least 0",
    ),
    "no position": (lambda: moment_at(0.2, position_m=(np.nan, 0.0)), "position_m must be x and y"),
    "seconds": (lambda: moment_at(0.2, timestamp_ns=0.2), "timestamp_ns must be a whole number of nanoseconds"),
    "a colour": (lambda: moment_at(0.2, lights={"lane": "PURPLE"}), "lights has 'PURPLE' for lane 'lane'; allowed"),
    "a lane": (lambda: moment_at(0.2, lights={"lane": "RED"}), "lights has lane 'lane', which is not on the map"),
}


def _doubled():
    return {
        "classes": ["CAR", "CAR"],
        "positions_m": np.zeros((2, 2)),
        "headings_rad": [0, 0],
        "sizes_m": np.ones((2, 2)),
        "velocities_mps": np.zeros((2, 2)),
    }


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_is_refused_and_the_session_goes_on(kind):
    make, message = REFUSED[kind]
    driver = Looks()
    session = Session(driver, most_objects=2)
    for time_s in (0.0, 0.1):
        session.step(moment_at(time_s))
    with pytest.raises(InvalidArgumentError, match=message):
        session.step(make())
    session.step(moment_at(0.2))
    np.testing.assert_allclose(driver.past_s[-1][:, 0], [0.0, 0.1, 0.2], atol=1e-9)


def test_after_reset_there_is_no_past():
    driver = Looks()
    session = Session(driver)
    session.step(moment_at(5.0))
    session.reset()
    with pytest.raises(InvalidArgumentError, match="there is no moment yet"):
        session.plan()
    session.step(moment_at(0.0, position_m=(-900.0, 5.0)))
    assert driver.past_s[-1][:, 1].tolist() == [-900.0]


def test_plans_that_are_not_finite_are_an_error():
    session = Session(Looks(value=np.nan))
    with pytest.raises(SessionError, match="Looks returned a plan that is not finite at 0 ns"):
        session.step(moment_at(0.0))


def test_controls_need_a_model():
    class Controls:
        def drive(self, state):
            return Actions(np.zeros((1, 2)))

    with pytest.raises(InvalidArgumentError, match="gives controls; pass it in an EgoSeat with Controls"):
        Session(Controls()).step(moment_at(0.0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"route": np.zeros(3)}, r"route must be points \(N, 2\)", id="shape"),
        pytest.param({"route": [[0, 0], [np.nan, 1]]}, r"route has \[nan, 1.0\] in row 1", id="nan"),
        pytest.param({"route": [[0, 0], [0, 0]]}, "route is a line of 0 m", id="no length"),
        pytest.param({"past_s": -1.0}, "past_s is -1", id="past"),
        pytest.param({"longest_gap_s": 0.01}, "longest_gap_s is 0.01", id="gap"),
        pytest.param({"most_objects": -1}, "most_objects is -1", id="objects"),
        pytest.param({"threshold": 50}, "threshold is 50; it must be at least 0 and below 1", id="threshold"),
        pytest.param({"facts": "fast"}, "facts must be LogFacts", id="facts"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(InvalidArgumentError, match=message):
        Session(ConstantVelocity(), **arguments)


def test_who_replays_a_log_is_refused():
    with pytest.raises(InvalidArgumentError, match="planner replays a log"):
        Session(Replay())


def test_a_route_that_is_elsewhere_is_refused_and_can_be_replaced():
    session = Session(ConstantVelocity(), route=[[0.0, 100.0], [50.0, 100.0]])
    with pytest.raises(InvalidArgumentError, match=r"route is 100\.0 m from the AV"):
        session.step(moment_at(0.0))
    session.set_route([[-5.0, 0.0], [500.0, 0.0]])
    assert session.plan().poses[0, 0] == pytest.approx(0.1 * SPEED_MPS)


def test_a_route_begins_where_it_leads_the_way_that_the_av_heads():
    """It passes the AV against its heading first, and again at an offset of 2 m, along its heading."""
    poses, driver = [(5.0, 0.0, np.pi), (0.0, 0.0, np.pi), (0.0, 2.0, 0.0), (5.0, 2.0, 0.0)], Looks()
    Session(driver, route=poses).step(moment_at(0.0))
    assert driver.frames == [2]
    with pytest.raises(InvalidArgumentError, match="headings less than 90 degrees apart"):
        Session(driver, route=poses[:2]).step(moment_at(0.0))


def test_other_steps_than_a_tenth_of_a_second_are_possible():
    driver = Looks()
    session = Session(driver, facts=LogFacts(step_time_s=0.05))
    for number in range(40):
        session.step(moment_at(0.05 * number))
    assert len(driver.past_s[-1]) == 21
    assert driver.frames[-1] == 39


def drive(session, lights, num_steps, start_m):
    """Let an AV follow the plans of a session to the point, and return where it gets along x."""
    (x_m, y_m), yaw_rad, speed_mps, xs = start_m, 0.0, 8.0, []
    for number in range(num_steps):
        moment = moment_at(
            0.1 * number,
            position_m=(x_m, y_m),
            heading_rad=yaw_rad,
            speed_mps=speed_mps,
            objects=SeenObjects.none(),
            lights=lights,
        )
        pose = session.step(moment).poses[0]
        speed_mps = float(np.hypot(*(pose[:2] - [x_m, y_m])) / 0.1)
        x_m, y_m, yaw_rad = pose.tolist()
        xs.append((x_m, y_m))
    return np.array(xs)


def test_a_planner_drives_a_route_of_the_map_and_waits_at_a_red_light_of_a_lane(tmp_path):
    """The light is at x = 150, where the lane "first" ends."""
    road = RoadMap(make_lit_road(tmp_path, width_m=4.0))
    route = road.api.find_route((100.0, 0.0), (300.0, 0.0)).line_m
    reached = {
        bool(lights): drive(Session(RulePlanner(), road=road, route=route), lights, 80, (100.0, 0.0))[-1, 0]
        for lights in ({"first": "RED"}, {})
    }
    assert LINE_M - 10 < reached[True] < LINE_M
    assert reached[False] > LINE_M + 5
    with pytest.raises(InvalidArgumentError, match="lights has GREEN for lane 'first'; its lights on the map are: RED"):
        drive(Session(RulePlanner(), road=road), {"first": "GREEN"}, 1, (100.0, 0.0))


def test_without_a_route_a_planner_drives_on_for_minutes(tmp_path):
    make_ring_map(tmp_path, radius_m=30.0, num_lanes=4, is_one_junction=False)
    road = RoadMap(MapAPI(str(tmp_path / "ring.pb"), WORLD_TO_ECEF))
    session = Session(RulePlanner(), road=road)
    x_m, y_m, yaw_rad, speed_mps, ways_m = 30.0, 0.0, np.pi / 2, 5.0, 0.0
    for number in range(400):  # the route is made anew after 30 s
        moment = moment_at(
            0.1 * number,
            position_m=(x_m, y_m),
            heading_rad=yaw_rad,
            speed_mps=speed_mps,
            objects=SeenObjects.none(),
        )
        pose = session.step(moment).poses[0]
        step_m = float(np.hypot(*(pose[:2] - [x_m, y_m])))
        ways_m, speed_mps = ways_m + step_m, step_m / 0.1
        x_m, y_m, yaw_rad = pose.tolist()
        assert abs(np.hypot(x_m, y_m) - 30.0) < 3.0
    assert ways_m > 150
