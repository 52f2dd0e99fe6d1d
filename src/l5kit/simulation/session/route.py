"""Routes of sessions: where the AV is to drive, as the frames of a log that drives there."""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import Float64Array
from l5kit.data.records import AGENT_DTYPE, FRAME_DTYPE, TL_FACE_DTYPE
from l5kit.data.scene_records import SceneRecords
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.transform import yaws_as_rotations33
from l5kit.simulation.session.moments import FURTHEST_M

_FURTHEST_FROM_ROUTE_M: Final = 30.0
_LINE_STEP_M: Final = 0.3
"""Distance of the poses that are made of a line. Paths reach as far as one gets in a step for each of them with the
limits, so that this is as slow as limits may be: 3 m/s for steps of 0.1 s."""

_MOST_POSES: Final = 1_000_000


def as_route(route: ArrayLike) -> Float64Array:
    """Return the poses of a route, (N, 3).

    Args:
        route: World x, y and heading where an AV drives, a step apart, (N, 3); or the points of a line of any distance,
            (N, 2), of which there must be two at different places.

    Raises:
        InvalidArgumentError: The shape is another one, a value is not finite, or the route is too long.
    """
    values = np.asarray(route, np.float64)
    if values.ndim != 2 or values.shape[1] not in (2, 3) or len(values) == 0:
        raise InvalidArgumentError(
            f"route must be points (N, 2) or poses (N, 3), N at least 1, got shape {values.shape}; "
            "find_route(...).line_m of a map is one, for example"
        )
    if not (np.abs(values) <= FURTHEST_M).all():
        row = int(np.argmin((np.abs(values) <= FURTHEST_M).all(axis=1)))
        raise InvalidArgumentError(f"route has {values[row].tolist()} in row {row}; all must be finite")
    if values.shape[1] == 3:
        return values
    steps_m = np.hypot(*np.diff(values, axis=0).T)
    values = values[np.append(True, steps_m > 1e-6)]
    arcs_m = np.append(0.0, np.cumsum(steps_m[steps_m > 1e-6]))
    if len(values) < 2 or arcs_m[-1] / _LINE_STEP_M > _MOST_POSES:
        raise InvalidArgumentError(
            f"route is a line of {arcs_m[-1]:g} m; it must be above 0 and at most {_MOST_POSES * _LINE_STEP_M:g} m long"
        )
    along_m = np.arange(0.0, arcs_m[-1], _LINE_STEP_M)
    edges = np.clip(np.searchsorted(arcs_m, along_m, side="right") - 1, 0, len(values) - 2)
    edges_m = np.diff(values, axis=0)[edges]
    points_m = [np.interp(along_m, arcs_m, values[:, axis]) for axis in range(2)]
    return np.column_stack([*points_m, np.arctan2(edges_m[:, 1], edges_m[:, 0])])


def route_ahead(pose: Float64Array, speed_mps: float, *, step_time_s: float, duration_s: float) -> Float64Array:
    """Return the route of an AV that nobody tells where to go: its pose (3,), and that of a step later, held.

    Paths follow the lane of it, and then the straightest ones, as far as one gets with the limits.
    """
    ahead_m = speed_mps * step_time_s
    later = pose + [ahead_m * np.cos(pose[2]), ahead_m * np.sin(pose[2]), 0.0]
    return np.concatenate([pose[None], np.repeat(later[None], max(round(duration_s / step_time_s), 1), axis=0)])


def nearest_pose(route: Float64Array, pose: Float64Array) -> int:
    """Return which pose of a route is nearest to one, the first of several, among those with a similar heading.

    Raises:
        InvalidArgumentError: It is more than 30 m away.
    """
    distances_m = np.hypot(*(route[:, :2] - pose[:2]).T)
    is_along = np.cos(route[:, 2] - pose[2]) > 0
    nearest = int(np.argmin(np.where(is_along, distances_m, np.inf)))
    if not is_along.any() or distances_m[nearest] > _FURTHEST_FROM_ROUTE_M:
        raise InvalidArgumentError(
            f"route is {distances_m.min():.1f} m from the AV at {pose.tolist()}; it must come by within "
            f"{_FURTHEST_FROM_ROUTE_M:g} m with headings less than 90 degrees apart. Pass another one to set_route()"
        )
    return nearest


def scene_of_route(route: Float64Array, *, step_ns: int) -> SceneRecords:
    """Return a scene in which the AV drives a route (N, 3), and nobody else is there."""
    frames = np.zeros(len(route), FRAME_DTYPE)
    frames["timestamp"] = step_ns * np.arange(1, len(route) + 1)
    frames["ego_translation"][:, :2] = route[:, :2]
    frames["ego_rotation"] = yaws_as_rotations33(route[:, 2])
    return SceneRecords(frames, np.zeros(0, AGENT_DTYPE), np.zeros(0, TL_FACE_DTYPE))
