"""ROS 2 node with a planner of l5kit; everything except the node itself works without ROS.

    python examples/ros2_node.py city/semantic_map/semantic_map.pb --planner rules

The node takes the pose of the AV (``nav_msgs/Odometry``) and boxes of road users (``vision_msgs/Detection3DArray``),
and publishes the plan as a ``nav_msgs/Path``. Messages become plain dataclasses first, so
``PlannerLoop`` does not depend on ROS. For other messages, change :func:`odometry_of` and :func:`objects_of`.
"""

import argparse
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from l5kit.closedloop import open_session
from l5kit.errors import InvalidArgumentError
from l5kit.simulation import Moment, Plan, SeenObjects, Session


@dataclass(frozen=True)
class Odometry:
    """State of the AV: time in nanoseconds, pose of its centre in the map frame, and speed."""

    stamp_ns: int
    x_m: float
    y_m: float
    yaw_rad: float
    speed_mps: float


@dataclass(frozen=True)
class Detection:
    """A road user in the map frame."""

    track_id: int
    kind: str
    x_m: float
    y_m: float
    yaw_rad: float
    length_m: float
    width_m: float
    velocity_mps: tuple[float, float]


@dataclass(frozen=True)
class PathMessage:
    """A plan: times in nanoseconds, and poses x, y and yaw in the map frame."""

    stamps_ns: tuple[int, ...]
    poses: tuple[tuple[float, float, float], ...]


@dataclass
class PlannerLoop:
    """Planning loop: keeps the latest detections, and plans for each pose of the AV.

    Attributes:
        session: The planner.
        oldest_s: No plan is made if detections are older than this at the time of the pose, seconds.
        detections: The latest detections.
        detected_ns: Their time; None before the first ones.
        problems: Reasons why no plan was made, newest last.
    """

    session: Session
    oldest_s: float = 0.3
    detections: tuple[Detection, ...] = ()
    detected_ns: int | None = None
    problems: list[str] = field(default_factory=list)

    def on_detections(self, stamp_ns: int, detections: list[Detection]) -> None:
        """Keep the detections of the perception."""
        self.detected_ns, self.detections = stamp_ns, tuple(detections)

    def on_odometry(self, odometry: Odometry) -> PathMessage | None:
        """Return the plan for a pose of the AV; None without a plan, with the reason appended to ``problems``."""
        if self.detected_ns is None or odometry.stamp_ns - self.detected_ns > 1e9 * self.oldest_s:
            self._note(f"no detections for {self.oldest_s} s")
            return None
        try:
            return path_of(self.session.step(self._moment(odometry)))
        except InvalidArgumentError as error:  # a gap, a jump, or an invalid message: restart with the next one
            self.session.reset()
            self._note(str(error))
            return None

    def _moment(self, odometry: Odometry) -> Moment:
        seen = self.detections
        return Moment(
            timestamp_ns=odometry.stamp_ns,
            position_m=(odometry.x_m, odometry.y_m),
            heading_rad=odometry.yaw_rad,
            speed_mps=odometry.speed_mps,
            objects=SeenObjects(
                track_ids=np.array([each.track_id for each in seen], np.int64),
                classes=[each.kind for each in seen],
                positions_m=np.array([(each.x_m, each.y_m) for each in seen]).reshape(-1, 2),
                headings_rad=[each.yaw_rad for each in seen],
                sizes_m=np.array([(each.length_m, each.width_m) for each in seen]).reshape(-1, 2),
                velocities_mps=np.array([each.velocity_mps for each in seen]).reshape(-1, 2),
            ),
        )

    def _note(self, problem: str) -> None:
        self.problems = [*self.problems[-99:], problem]


def path_of(plan: Plan) -> PathMessage:
    """Return a plan as a message."""
    stamps_ns = plan.timestamp_ns + np.rint(plan.times_s * 1e9).astype(np.int64)
    return PathMessage(tuple(stamps_ns.tolist()), tuple(map(tuple, plan.poses.tolist())))


def yaw_of(quaternion: Any) -> float:
    """Return the heading of a quaternion with x, y, z and w."""
    x, y, z, w = quaternion.x, quaternion.y, quaternion.z, quaternion.w
    return math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def stamp_ns_of(header: Any) -> int:
    """Return the time of a header, nanoseconds."""
    return int(header.stamp.sec) * 1_000_000_000 + int(header.stamp.nanosec)


def odometry_of(message: Any) -> Odometry:
    """Convert a ``nav_msgs/Odometry``, whose twist is in the frame of the vehicle."""
    pose = message.pose.pose
    return Odometry(
        stamp_ns_of(message.header),
        pose.position.x,
        pose.position.y,
        yaw_of(pose.orientation),
        message.twist.twist.linear.x,
    )


def objects_of(message: Any, velocities_mps: dict[int, tuple[float, float]]) -> list[Detection]:
    """Convert a ``vision_msgs/Detection3DArray`` with numeric ids; it has no velocities, so they are passed."""
    detections = []
    for detection in message.detections:
        box, track_id = detection.bbox, int(detection.id)
        detections.append(
            Detection(
                track_id,
                detection.results[0].hypothesis.class_id,
                box.center.position.x,
                box.center.position.y,
                yaw_of(box.center.orientation),
                box.size.x,
                box.size.y,
                velocities_mps.get(track_id, (0.0, 0.0)),
            )
        )
    return detections


def run_node(loop: PlannerLoop) -> None:
    """Run the node until it is stopped; needs ROS 2 with rclpy, nav_msgs, vision_msgs and geometry_msgs."""
    import rclpy
    from geometry_msgs.msg import PoseStamped
    from nav_msgs.msg import Odometry as OdometryMessage
    from nav_msgs.msg import Path
    from rclpy.node import Node
    from vision_msgs.msg import Detection3DArray

    class PlannerNode(Node):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__("l5kit_planner")
            self.before: dict[int, tuple[int, float, float]] = {}
            self.publisher = self.create_publisher(Path, "plan", 1)
            self.create_subscription(Detection3DArray, "detections", self.on_detections, 1)
            self.create_subscription(OdometryMessage, "odometry", self.on_odometry, 1)

        def on_detections(self, message: Any) -> None:
            stamp_ns = stamp_ns_of(message.header)
            positions = {
                int(each.id): (stamp_ns, each.bbox.center.position.x, each.bbox.center.position.y)
                for each in message.detections
            }
            velocities = {
                track: tuple(
                    (b - a) * 1e9 / max(now[0] - self.before[track][0], 1)
                    for a, b in zip(self.before[track][1:], now[1:], strict=True)
                )
                for track, now in positions.items()
                if track in self.before
            }
            self.before = positions
            loop.on_detections(stamp_ns, objects_of(message, velocities))

        def on_odometry(self, message: Any) -> None:
            path = loop.on_odometry(odometry_of(message))
            if path is None:
                self.get_logger().warning(loop.problems[-1])
                return
            plan_message = Path(header=message.header)
            for stamp_ns, (x, y, yaw) in zip(path.stamps_ns, path.poses, strict=True):
                pose = PoseStamped()
                pose.header.frame_id = message.header.frame_id
                pose.header.stamp.sec, pose.header.stamp.nanosec = divmod(stamp_ns, 1_000_000_000)
                pose.pose.position.x, pose.pose.position.y = x, y
                pose.pose.orientation.z, pose.pose.orientation.w = math.sin(yaw / 2), math.cos(yaw / 2)
                plan_message.poses.append(pose)
            self.publisher.publish(plan_message)

    rclpy.init()
    rclpy.spin(PlannerNode())


def main() -> None:
    """Open the planner and run the node."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("map")
    parser.add_argument("--planner", default="rules")
    options = parser.parse_args()
    run_node(PlannerLoop(open_session(options.planner, map_path=options.map)))


if __name__ == "__main__":
    main()
