"""Shapes of Foxglove scenes; needs foxglove-sdk."""

from collections.abc import Iterable, Sequence
from typing import Any

from foxglove.messages import (
    Color,
    CubePrimitive,
    FrameTransform,
    KeyValuePair,
    LinePrimitive,
    Point3,
    Pose,
    Quaternion,
    SceneEntity,
    SceneEntityDeletion,
    Timestamp,
    TriangleListPrimitive,
    Vector3,
)

from l5kit._types import Float64Array, NumericArray
from l5kit.visualization.recording.nearby_map import NearbyLane
from l5kit.visualization.recording.scene_elements import SCENE_FRAME, Boxes

UPRIGHT = Quaternion(w=1.0)

END_OF_TIMES_NS = 2**32 * 1_000_000_000
"""First time, in 2106, beyond the range of the schemas."""


def as_timestamp(time_ns: int) -> Timestamp:
    """Return a time in nanoseconds, from 0 to :data:`END_OF_TIMES_NS`, in the form of the schemas."""
    return Timestamp(*divmod(time_ns, 1_000_000_000))


def as_color(rgb: Sequence[int] | NumericArray, alpha: float = 1.0) -> Color:
    """Return a colour from RGB values of 0 to 255."""
    red, green, blue = (int(part) / 255 for part in rgb)
    return Color(r=red, g=green, b=blue, a=alpha)


def as_points(points_m: NumericArray) -> list[Point3]:
    """Return points on the ground, (n, 2)."""
    return [Point3(x=x_m, y=y_m) for x_m, y_m in points_m.tolist()]


def as_quaternion(xyzw: Float64Array) -> Quaternion:
    """Return a rotation from x, y, z and w, (4,)."""
    x, y, z, w = xyzw.tolist()
    return Quaternion(x=x, y=y, z=z, w=w)


def line(points: list[Point3], color: Color, *, width_m: float, height_m: float = 0.0) -> LinePrimitive:
    """Return a line through points, at a height above them."""
    return LinePrimitive(pose=_raised(height_m), thickness=width_m, points=points, color=color)


def area(lane: NearbyLane, color: Color, *, height_m: float = 0.0) -> TriangleListPrimitive:
    """Return the area of a lane, at a height above the ground."""
    return TriangleListPrimitive(
        pose=_raised(height_m),
        points=as_points(lane.vertices_m),
        color=color,
        indices=lane.triangles.reshape(-1).tolist(),
    )


def box(boxes: Boxes, row: int, color: Color) -> CubePrimitive:
    """Return a box."""
    x_m, y_m, z_m = boxes.centers_m[row].tolist()
    pose = Pose(position=Vector3(x=x_m, y=y_m, z=z_m), orientation=as_quaternion(boxes.quaternions[row]))
    length_m, width_m, height_m = boxes.sizes_m[row].tolist()
    return CubePrimitive(pose=pose, size=Vector3(x=length_m, y=width_m, z=height_m), color=color)


def transform(parent: str, child: str, time_ns: int, position_m: Float64Array, rotation: Quaternion) -> FrameTransform:
    """Return the pose of a frame in its parent, from the position of its origin, (2,), and its rotation."""
    x_m, y_m = position_m.tolist()
    return FrameTransform(
        timestamp=as_timestamp(time_ns),
        parent_frame_id=parent,
        child_frame_id=child,
        translation=Vector3(x=x_m, y=y_m),
        rotation=rotation,
    )


def entity(name: str, time_ns: int, **parts: Any) -> SceneEntity:
    """Return an entity of a scene.

    Args:
        name: Its id; a later entity with the same topic and id replaces it.
        time_ns: The time of the frame.
        **parts: Lists of shapes and facts, by the fields of ``SceneEntity``.
    """
    return SceneEntity(id=name, timestamp=as_timestamp(time_ns), frame_id=SCENE_FRAME, **parts)


def facts(**values: str) -> list[KeyValuePair]:
    """Return key-value pairs for the panel of a selected entity."""
    return [KeyValuePair(key=key, value=value) for key, value in values.items()]


def deletions(names: Iterable[str], time_ns: int) -> list[SceneEntityDeletion]:
    """Return deletions of entities."""
    return [SceneEntityDeletion(id=name, timestamp=as_timestamp(time_ns)) for name in names]


def _raised(height_m: float) -> Pose:
    return Pose(position=Vector3(z=height_m), orientation=UPRIGHT)
