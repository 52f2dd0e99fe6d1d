"""The ROS 2 node without ROS: messages as namespaces, and the loop with a planner of the map."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace as Message

import numpy as np
import pytest

from l5kit.closedloop import open_session
from l5kit.data import find_dataset_files
from l5kit.simulation import ConstantVelocity, Session

FILE = Path(__file__).resolve().parents[2] / "examples" / "ros2_node.py"


@pytest.fixture(scope="module")
def node():
    spec = importlib.util.spec_from_file_location("ros2_node", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def header_at(time_s):
    return Message(stamp=Message(sec=int(time_s), nanosec=round(time_s % 1 * 1e9)), frame_id="map")


def pose_at(x, y, yaw):
    return Message(
        position=Message(x=x, y=y, z=0.0), orientation=Message(x=0.0, y=0.0, z=np.sin(yaw / 2), w=np.cos(yaw / 2))
    )


def test_messages_become_plain_values(node):
    twist = Message(twist=Message(linear=Message(x=7.0)))
    message = Message(header=header_at(12.25), pose=Message(pose=pose_at(3.0, 4.0, -2.0)), twist=twist)
    odometry = node.odometry_of(message)
    assert odometry.stamp_ns == 12_250_000_000
    assert (odometry.x_m, odometry.y_m, odometry.speed_mps) == (3.0, 4.0, 7.0)
    assert odometry.yaw_rad == pytest.approx(-2.0)
    box = Message(center=pose_at(20.0, 1.0, 0.5), size=Message(x=4.5, y=1.8, z=1.5))
    detection = Message(id="7", bbox=box, results=[Message(hypothesis=Message(class_id="CAR"))])
    (seen,) = node.objects_of(Message(detections=[detection]), {7: (5.0, 0.0)})
    assert (seen.track_id, seen.kind, seen.length_m, seen.velocity_mps) == (7, "CAR", 4.5, (5.0, 0.0))
    assert seen.yaw_rad == pytest.approx(0.5)


def odometry_at(node, time_s, x_m=None):
    return node.Odometry(round(time_s * 1e9), 8.0 * time_s if x_m is None else x_m, 0.0, 0.0, 8.0)


def test_the_loop_plans_at_the_rate_of_the_odometry(node):
    loop = node.PlannerLoop(Session(ConstantVelocity()))
    for step in range(50):
        if step % 5 == 0:
            car = node.Detection(7, "CAR", 30.0, 0.0, 0.0, 4.5, 1.8, (0.0, 0.0))
            loop.on_detections(20_000_000 * step, [car])
        path = loop.on_odometry(odometry_at(node, 0.02 * step))
        assert path.stamps_ns[0] == 20_000_000 * step + 100_000_000
        assert path.poses[0] == pytest.approx((8.0 * (0.02 * step + 0.1), 0.0, 0.0))
    assert loop.problems == []


def test_what_keeps_the_loop_from_planning_is_noted_and_it_goes_on(node):
    loop = node.PlannerLoop(Session(ConstantVelocity()))
    assert loop.on_odometry(odometry_at(node, 0.0)) is None
    loop.on_detections(0, [])
    assert loop.on_odometry(odometry_at(node, 0.0)) is not None
    assert loop.on_odometry(odometry_at(node, 0.5)) is None
    loop.on_detections(100_000_000, [])
    assert loop.on_odometry(odometry_at(node, 0.1, x_m=700.0)) is None
    assert loop.on_odometry(odometry_at(node, 0.12, x_m=700.2)) is not None
    assert ["no detections" in problem for problem in loop.problems] == [True, True, False]
    assert "position_m is" in loop.problems[-1]


def test_the_planner_that_drives_on_lanes_plans_with_the_map(node, city):
    files = find_dataset_files(city)
    loop = node.PlannerLoop(open_session("rules", map_path=files.semantic_map))
    loop.on_detections(0, [])
    path = loop.on_odometry(odometry_at(node, 0.0))
    assert len(path.poses) == 40
    assert np.isfinite(path.poses).all()
