"""Poses, rotations and transforms of points; ECEF and geodetic coordinates."""

import math

import numpy as np
from numpy.typing import ArrayLike
from pymap3d.ecef import ecef2geodetic, geodetic2ecef

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, FloatArray, NumericArray
from l5kit.errors import InvalidArgumentError

GIMBAL_LOCK_COSINE = 4.0 * np.finfo(np.float64).eps
"""Cosine of the pitch below which heading and roll cannot be distinguished."""

FLOAT32_REACH_M = 2.0**14
"""World coordinates up to here are rounded to float32 like in L5Kit 1.5, with an error of half a millimetre at most."""


def round_world(coordinates: FloatArray) -> FloatArray:
    """Return world coordinates rounded to float32 as in L5Kit 1.5, if that is precise enough.

    Coordinates beyond ``FLOAT32_REACH_M``, such as UTM coordinates, stay float64: float32 would shift them by up to
    0.25 m.

    Args:
        coordinates: Metres, possibly with angles in radians, any shape.

    Returns:
        float32; or float64, with only those beyond the reach unrounded.
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
        InvalidArgumentError: The shape of ``agent_centroid_m`` is not (2,).
    """
    centroid_m = np.asarray(agent_centroid_m)
    if centroid_m.shape != (2,):
        raise InvalidArgumentError(f"agent_centroid_m has shape {centroid_m.shape}; pass x and y, shape (2,)")
    cos, sin = np.cos(agent_yaw_rad), np.sin(agent_yaw_rad)
    return np.array([[cos, -sin, centroid_m[0]], [sin, cos, centroid_m[1]], [0.0, 0.0, 1.0]], dtype=np.float64)


def compute_agent_poses(centroids_m: FloatArray, yaws_rad: FloatArray) -> Float64Array:
    """Return the poses of many agents, with the same bits as :func:`compute_agent_pose` for each.

    Args:
        centroids_m: World positions in metres, shape (N, 2).
        yaws_rad: World headings in radians, shape (N,); sine and cosine are taken in their precision.

    Returns:
        Shape (N, 3, 3).
    """
    # NumPy computes cosine and sine, as those of kernels differ in float32 bits
    poses = np.empty((len(yaws_rad), 3, 3))
    write_poses(np.cos(yaws_rad), np.sin(yaws_rad), np.asarray(centroids_m), poses)
    return poses


@kernel_jit
def write_poses(cos: FloatArray, sin: FloatArray, centroids_m: FloatArray, poses: Float64Array) -> None:
    """Write poses (N, 3, 3) for cosines and sines (N,) of headings and for positions (N, 2)."""
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
    """Return the headings of many rotations, like :func:`rotation33_as_yaw`.

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
    """Return the heading of a rotation given x and y of its rotated x axis, like :func:`rotation33_as_yaw`."""
    return math.atan2(sin, cos) if math.sqrt(cos * cos + sin * sin) > GIMBAL_LOCK_COSINE else 0.0


def yaw_as_rotation33(yaw: float) -> Float64Array:
    """Return the rotation about the z axis by an angle.

    Args:
        yaw: Angle in radians, counter-clockwise seen from above.

    Returns:
        Rotation matrix, shape (3, 3).
    """
    cos, sin = math.cos(yaw), math.sin(yaw)
    return np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])


def yaws_as_rotations33(yaws: ArrayLike) -> Float64Array:
    """Return the rotations about the z axis by many angles.

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
    """Return headings wrapped into [-pi, pi], as a conversion to rotations and back would.

    The bits are those of ``rotations33_as_yaws(yaws_as_rotations33(yaws_rad))``, but without matrices.

    Args:
        yaws_rad: Angles in radians, (N,).
    """
    return np.arctan2(np.sin(yaws_rad), np.cos(yaws_rad))


def vertical_flip(tm: ArrayLike, y_dim_size: float) -> NumericArray:
    """Return a transform whose y output is mirrored inside an image.

    Args:
        tm: Transform, shape (3, 3); it is not changed.
        y_dim_size: Height of the image, in the unit of the output (pixels).

    Returns:
        Shape (3, 3): row 1 negated, then ``y_dim_size`` added to element (1, 2).

    Raises:
        InvalidArgumentError: The shape of ``tm`` is not (3, 3).
    """
    matrix = np.asarray(tm)
    if matrix.shape != (3, 3):
        raise InvalidArgumentError(f"tm has shape {matrix.shape}; pass one transform of shape (3, 3)")
    # floating point types are kept, also with NumPy scalars
    dtype = matrix.dtype if matrix.dtype.kind == "f" else np.result_type(matrix, y_dim_size)
    flipped = matrix.astype(dtype, copy=True)
    flipped[1] *= -1
    flipped[1, 2] += y_dim_size
    return flipped


def transform_points(points: ArrayLike, transf_matrix: ArrayLike) -> NumericArray:
    """Return points transformed by one matrix, or batches of points by one matrix each.

    The result is ``points @ R.T + t`` with ``R`` and ``t`` the left columns and the last column of the matrix; there is
    no perspective divide and the last row is not used. The dtype follows NumPy's promotion.

    Args:
        points: Shape (N, F) or (B, N, F), with F in {2, 3}.
        transf_matrix: Shape (F + 1, F + 1), or (B, F + 1, F + 1) with points of shape (B, N, F).

    Returns:
        Array of the same shape as ``points``.

    Raises:
        InvalidArgumentError: The shapes do not match those above.
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

    # row vectors: points times the transposed rotation, plus the last column
    rotation_transposed = matrix[..., :num_dims, :num_dims].swapaxes(-1, -2)
    if matrix.ndim == 3:
        batched: NumericArray = points_array @ rotation_transposed + matrix[:, None, :num_dims, num_dims]
        return batched
    # one product over all points, since NumPy would compute one small product for each batch entry
    moved: NumericArray = points_array.reshape(-1, num_dims) @ rotation_transposed + matrix[:num_dims, num_dims]
    return moved.reshape(points_array.shape)


def transform_point(point: ArrayLike, transf_matrix: ArrayLike) -> NumericArray:
    """Return one point transformed by a matrix; see :func:`transform_points`.

    Args:
        point: Shape (F,), with F in {2, 3}.
        transf_matrix: Shape (F + 1, F + 1).

    Returns:
        Shape (F,).

    Raises:
        InvalidArgumentError: The shapes do not match those above.
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
        InvalidArgumentError: The shape of ``point`` is not (3,).
    """
    position_m = np.asarray(point, dtype=np.float64)
    if position_m.shape != (3,):
        raise InvalidArgumentError(f"point has shape {position_m.shape}; pass x, y and z in metres, shape (3,)")
    x_m, y_m, z_m = position_m.tolist()
    return np.array(ecef2geodetic(x_m, y_m, z_m), dtype=np.float64)


def geodetic_to_ecef(lla_point: ArrayLike) -> Float64Array:
    """Return the ECEF position of a WGS-84 latitude, longitude and altitude.

    Args:
        lla_point: Latitude and longitude in degrees and optionally altitude in metres (else 0), shape (2,) or (3,).

    Returns:
        Earth-centred, Earth-fixed position in metres, shape (3,).

    Raises:
        InvalidArgumentError: ``lla_point`` has a wrong shape, or the latitude is beyond a pole.
    """
    lla = np.asarray(lla_point, dtype=np.float64)
    if lla.shape not in ((2,), (3,)):
        raise InvalidArgumentError(
            f"lla_point has shape {lla.shape}; pass latitude, longitude and optionally altitude, shape (2,) or (3,)"
        )
    latitude_deg, longitude_deg, altitude_m = (*lla.tolist(), 0.0)[:3]
    if abs(latitude_deg) > 90.0:  # the formulas would return a position on the other side of the pole
        raise InvalidArgumentError(
            f"lla_point has the latitude {latitude_deg}, its first number; allowed are -90 to 90 degrees"
        )
    return np.array(geodetic2ecef(latitude_deg, longitude_deg, altitude_m), dtype=np.float64)
