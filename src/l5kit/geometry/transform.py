"""Poses, rotations and transforms of points; ECEF and geodetic coordinates."""

import math

import numpy as np
from numpy.typing import ArrayLike
from pymap3d.ecef import ecef2geodetic, geodetic2ecef

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, FloatArray, NumericArray
from l5kit.errors import InvalidArgumentError

GIMBAL_LOCK_COSINE = 4.0 * np.finfo(np.float64).eps
"""Cosine of the pitch below which heading and roll cannot be told apart."""

FLOAT32_REACH_M = 2.0**14
"""World coordinates up to here are rounded to float32 where L5Kit 1.5 did so, by half a millimetre at most."""


def round_world(coordinates: FloatArray) -> FloatArray:
    """Return world coordinates as states of the AV hold them: rounded to float32, as in L5Kit 1.5, where that is exact.

    Those beyond ``FLOAT32_REACH_M``, such as UTM coordinates, keep float64: float32 would move them by up to 0.25 m.

    Args:
        coordinates: Metres, or angles in radians beside them, any shape.

    Returns:
        float32; float64 of the same values where one of them is beyond the reach.
    """
    rounded = coordinates.astype(np.float32)
    is_beyond = np.abs(coordinates) > FLOAT32_REACH_M
    return np.where(is_beyond, coordinates, rounded) if np.count_nonzero(is_beyond) else rounded


def compute_agent_pose(agent_centroid_m: ArrayLike, agent_yaw_rad: float) -> Float64Array:
    """Return the pose of an agent, world_from_agent.

    Sine and cosine are taken in the precision of ``agent_yaw_rad``: in float32 for a ``np.float32``, else in float64.

    Args:
        agent_centroid_m: World position in metres, shape (2,).
        agent_yaw_rad: World heading in radians.

    Returns:
        Shape (3, 3), ``[[cos, -sin, x], [sin, cos, y], [0, 0, 1]]``.

    Raises:
        InvalidArgumentError: ``agent_centroid_m`` has another shape than (2,).
    """
    centroid_m = np.asarray(agent_centroid_m)
    if centroid_m.shape != (2,):
        raise InvalidArgumentError(f"agent_centroid_m has shape {centroid_m.shape}; pass x and y, shape (2,)")
    cos, sin = np.cos(agent_yaw_rad), np.sin(agent_yaw_rad)
    return np.array([[cos, -sin, centroid_m[0]], [sin, cos, centroid_m[1]], [0.0, 0.0, 1.0]], dtype=np.float64)


def compute_agent_poses(centroids_m: FloatArray, yaws_rad: FloatArray) -> Float64Array:
    """Return the poses of many agents, to the bit as :func:`compute_agent_pose` returns each.

    Args:
        centroids_m: World positions in metres, shape (N, 2).
        yaws_rad: World headings in radians, shape (N,); sine and cosine are taken in their precision.

    Returns:
        Shape (N, 3, 3).
    """
    # cosine and sine by NumPy, whose float32 has other bits than that of kernels
    poses = np.empty((len(yaws_rad), 3, 3))
    write_poses(np.cos(yaws_rad), np.sin(yaws_rad), np.asarray(centroids_m), poses)
    return poses


@kernel_jit
def write_poses(cos: FloatArray, sin: FloatArray, centroids_m: FloatArray, poses: Float64Array) -> None:
    """Write poses (N, 3, 3) from cosines and sines (N,) of headings and from positions (N, 2)."""
    for i in range(len(poses)):
        poses[i, 0, 0], poses[i, 0, 1], poses[i, 0, 2] = cos[i], -sin[i], centroids_m[i, 0]
        poses[i, 1, 0], poses[i, 1, 1], poses[i, 1, 2] = sin[i], cos[i], centroids_m[i, 1]
        poses[i, 2, 0], poses[i, 2, 1], poses[i, 2, 2] = 0.0, 0.0, 1.0


def rotation33_as_yaw(rotation: ArrayLike) -> float:
    """Return the heading of a rotation, the angle of the rotated x axis in the xy plane.

    Roll and pitch are dropped. When the rotated x axis is vertical (gimbal lock) the result is 0.0.

    Args:
        rotation: Rotation matrix, shape (3, 3).

    Returns:
        Yaw in radians, in [-pi, pi].

    Raises:
        InvalidArgumentError: The shape is not (3, 3).
    """
    matrix = np.asarray(rotation, dtype=np.float64)
    if matrix.shape != (3, 3):
        raise InvalidArgumentError(f"rotation has shape {matrix.shape}; pass one rotation matrix, shape (3, 3)")
    cos, sin = float(matrix[0, 0]), float(matrix[1, 0])
    return math.atan2(sin, cos) if math.sqrt(cos * cos + sin * sin) > GIMBAL_LOCK_COSINE else 0.0


def rotations33_as_yaws(rotations: ArrayLike) -> Float64Array:
    """Return the headings of many rotations, by the rule of :func:`rotation33_as_yaw`.

    Args:
        rotations: Rotation matrices, shape (N, 3, 3).

    Returns:
        Yaws in radians, shape (N,).

    Raises:
        InvalidArgumentError: The shape is not (N, 3, 3).
    """
    matrices = np.asarray(rotations, dtype=np.float64)
    if matrices.ndim != 3 or matrices.shape[1:] != (3, 3):
        raise InvalidArgumentError(f"rotations has shape {matrices.shape}; pass rotation matrices, shape (N, 3, 3)")
    cos, sin = matrices[:, 0, 0], matrices[:, 1, 0]
    return np.where(np.sqrt(cos * cos + sin * sin) > GIMBAL_LOCK_COSINE, np.arctan2(sin, cos), 0.0)


@kernel_jit
def yaw_of_x_axis(cos: float, sin: float) -> float:
    """Return the heading of a rotation by the x and y of its rotated x axis, as :func:`rotation33_as_yaw` does."""
    return math.atan2(sin, cos) if math.sqrt(cos * cos + sin * sin) > GIMBAL_LOCK_COSINE else 0.0


def yaw_as_rotation33(yaw: float) -> Float64Array:
    """Return the rotation by an angle about the z axis.

    Args:
        yaw: Angle in radians, counter-clockwise seen from above.

    Returns:
        Rotation matrix, shape (3, 3).
    """
    cos, sin = math.cos(yaw), math.sin(yaw)
    return np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])


def yaws_as_rotations33(yaws: ArrayLike) -> Float64Array:
    """Return the rotations by many angles about the z axis.

    Args:
        yaws: Angles in radians, shape (N,).

    Returns:
        Rotation matrices, shape (N, 3, 3).

    Raises:
        InvalidArgumentError: ``yaws`` is not one-dimensional.
    """
    yaws_rad = np.asarray(yaws, dtype=np.float64)
    if yaws_rad.ndim != 1:
        raise InvalidArgumentError(f"yaws has shape {yaws_rad.shape}; pass angles of shape (N,)")
    cos, sin = np.cos(yaws_rad), np.sin(yaws_rad)
    rotations = np.zeros((len(yaws_rad), 3, 3))
    rotations[:, 0, 0], rotations[:, 0, 1] = cos, -sin
    rotations[:, 1, 0], rotations[:, 1, 1] = sin, cos
    rotations[:, 2, 2] = 1.0
    return rotations


def yaws_of_rotations(yaws_rad: Float64Array) -> Float64Array:
    """Return headings as those of their rotations, in [-pi, pi].

    To the bit ``rotations33_as_yaws(yaws_as_rotations33(yaws_rad))``, without the matrices.

    Args:
        yaws_rad: Angles in radians, (N,).
    """
    return np.arctan2(np.sin(yaws_rad), np.cos(yaws_rad))


def vertical_flip(tm: ArrayLike, y_dim_size: float) -> NumericArray:
    """Return a transform whose y output is mirrored inside a picture.

    Args:
        tm: Transform, shape (3, 3); it is not changed.
        y_dim_size: Height of the picture, in the unit of the output (pixels).

    Returns:
        Shape (3, 3): row 1 negated, then ``y_dim_size`` added to element (1, 2).

    Raises:
        InvalidArgumentError: ``tm`` has another shape than (3, 3).
    """
    matrix = np.asarray(tm)
    if matrix.shape != (3, 3):
        raise InvalidArgumentError(f"tm has shape {matrix.shape}; pass one transform of shape (3, 3)")
    # floats keep their type, also beside a NumPy number
    dtype = matrix.dtype if matrix.dtype.kind == "f" else np.result_type(matrix, y_dim_size)
    flipped = matrix.astype(dtype, copy=True)
    flipped[1] *= -1
    flipped[1, 2] += y_dim_size
    return flipped


def transform_points(points: ArrayLike, transf_matrix: ArrayLike) -> NumericArray:
    """Return points moved by one transform, or batches of points by one transform each.

    The result is ``points @ R.T + t`` with ``R`` and ``t`` the left columns and the last column of the matrix; there is
    no perspective divide and the last row is not read. The dtype follows NumPy's promotion.

    Args:
        points: Shape (N, F) or (B, N, F), with F in {2, 3}.
        transf_matrix: Shape (F + 1, F + 1), or (B, F + 1, F + 1) with points of shape (B, N, F).

    Returns:
        Array shaped like ``points``.

    Raises:
        InvalidArgumentError: The shapes do not fit as above.
    """
    points_array, matrix = np.asarray(points), np.asarray(transf_matrix)
    num_dims = points_array.shape[-1] if points_array.ndim else 0
    allowed_matrix = (num_dims + 1, num_dims + 1)
    if points_array.ndim not in (2, 3) or num_dims not in (2, 3):
        raise InvalidArgumentError(
            f"points has shape {points_array.shape}; allowed are (N, F) and (B, N, F) with F 2 or 3"
        )
    if matrix.ndim not in (2, 3) or matrix.shape[-2:] != allowed_matrix:
        raise InvalidArgumentError(
            f"transf_matrix has shape {matrix.shape}; points of shape {points_array.shape} need {allowed_matrix}"
            " or one such matrix for each batch entry"
        )
    if matrix.ndim == 3 and (points_array.ndim != 3 or len(matrix) != len(points_array)):
        raise InvalidArgumentError(
            f"transf_matrix has shape {matrix.shape}, one matrix for each of {len(matrix)} batch entries, but points"
            f" has shape {points_array.shape}; pass points of shape ({len(matrix)}, N, {num_dims}) or one matrix"
        )

    # with row vectors: points times the transposed rotation, and the last column added
    rotation_transposed = matrix[..., :num_dims, :num_dims].swapaxes(-1, -2)
    if matrix.ndim == 3:
        batched: NumericArray = points_array @ rotation_transposed + matrix[:, None, :num_dims, num_dims]
        return batched
    # one product over all points: NumPy would start a small one for every batch entry
    moved: NumericArray = points_array.reshape(-1, num_dims) @ rotation_transposed + matrix[:num_dims, num_dims]
    return moved.reshape(points_array.shape)


def transform_point(point: ArrayLike, transf_matrix: ArrayLike) -> NumericArray:
    """Return one point moved by a transform; see :func:`transform_points`.

    Args:
        point: Shape (F,), with F in {2, 3}.
        transf_matrix: Shape (F + 1, F + 1).

    Returns:
        Shape (F,).

    Raises:
        InvalidArgumentError: The shapes do not fit as above.
    """
    point_array = np.asarray(point)
    if point_array.ndim != 1:
        raise InvalidArgumentError(f"point has shape {point_array.shape}; pass one point of shape (2,) or (3,)")
    moved: NumericArray = transform_points(point_array[None, :], transf_matrix)[0]
    return moved


def ecef_to_geodetic(point: ArrayLike) -> Float64Array:
    """Return the WGS-84 latitude, longitude (degrees) and altitude (metres), in this order, of an ECEF position.

    Args:
        point: Earth-centred, Earth-fixed position in metres, shape (3,).

    Returns:
        Shape (3,).

    Raises:
        InvalidArgumentError: ``point`` has another shape than (3,).
    """
    position_m = np.asarray(point, dtype=np.float64)
    if position_m.shape != (3,):
        raise InvalidArgumentError(f"point has shape {position_m.shape}; pass x, y and z in metres, shape (3,)")
    x_m, y_m, z_m = position_m.tolist()
    return np.array(ecef2geodetic(x_m, y_m, z_m), dtype=np.float64)


def geodetic_to_ecef(lla_point: ArrayLike) -> Float64Array:
    """Return the ECEF position of a WGS-84 latitude, longitude and altitude.

    Args:
        lla_point: Latitude and longitude in degrees and optionally the altitude in metres (else 0), shape (2,) or (3,).

    Returns:
        Earth-centred, Earth-fixed position in metres, shape (3,).

    Raises:
        InvalidArgumentError: ``lla_point`` has another shape, or the latitude is beyond a pole.
    """
    lla = np.asarray(lla_point, dtype=np.float64)
    if lla.shape not in ((2,), (3,)):
        raise InvalidArgumentError(
            f"lla_point has shape {lla.shape}; pass latitude, longitude and optionally altitude, shape (2,) or (3,)"
        )
    latitude_deg, longitude_deg, altitude_m = (*lla.tolist(), 0.0)[:3]
    if abs(latitude_deg) > 90.0:  # which the formulas would take for a place on the other side of the pole
        raise InvalidArgumentError(
            f"lla_point has the latitude {latitude_deg}, its first number; allowed are -90 to 90 degrees"
        )
    return np.array(geodetic2ecef(latitude_deg, longitude_deg, altitude_m), dtype=np.float64)
