"""Transforms, angles, boxes, image crops and voxel grids."""

from l5kit.geometry.angle import angle_between_vectors, angular_distance, compute_yaw_around_north_from_direction
from l5kit.geometry.box import compute_box_corners, compute_box_outline, within_range
from l5kit.geometry.image import crop_rectangle_from_image
from l5kit.geometry.transform import (
    compute_agent_pose,
    ecef_to_geodetic,
    geodetic_to_ecef,
    rotation33_as_yaw,
    transform_point,
    transform_points,
    vertical_flip,
    yaw_as_rotation33,
    yaws_as_rotations33,
)
from l5kit.geometry.voxel import normalize_intensity, points_within_bounds, voxel_coords_to_intensity_grid

__all__ = [
    "angle_between_vectors",
    "angular_distance",
    "compute_agent_pose",
    "compute_box_corners",
    "compute_box_outline",
    "compute_yaw_around_north_from_direction",
    "crop_rectangle_from_image",
    "ecef_to_geodetic",
    "geodetic_to_ecef",
    "normalize_intensity",
    "points_within_bounds",
    "rotation33_as_yaw",
    "transform_point",
    "transform_points",
    "vertical_flip",
    "voxel_coords_to_intensity_grid",
    "within_range",
    "yaw_as_rotation33",
    "yaws_as_rotations33",
]
