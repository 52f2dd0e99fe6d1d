"""Thresholds of the agents mask, and its conditions for single agents with the functions of L5Kit 1.x."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import FloatArray, UInt32Array
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.angle import angular_distance

TH_YAW_DEGREE = 30
"""Largest change of heading between two frames, in degrees."""

TH_EXTENT_RATIO = 1.1
"""Largest ratio of the areas of a track's box in two frames."""

TH_DISTANCE_AV = 50
"""Largest distance to the AV, in metres."""

MIN_AREA_M2 = 0.01
"""Area below which the size of a box is meaningless."""


@dataclass(frozen=True)
class MaskThresholds:
    """Conditions for a valid agent row; all bounds are strict.

    Attributes:
        probability: Lower bound of the summed probability of the kept classes.
        yaw_degree: Upper bound of the change of heading since the previous frame, degrees.
        extent_ratio: Upper bound of the ratio of areas since the previous frame.
        distance_av_m: Upper bound of the distance to the AV.
    """

    probability: float
    yaw_degree: float = TH_YAW_DEGREE
    extent_ratio: float = TH_EXTENT_RATIO
    distance_av_m: float = TH_DISTANCE_AV

    def __post_init__(self) -> None:
        for name in ("probability", "yaw_degree", "extent_ratio", "distance_av_m"):
            if not isinstance(getattr(self, name), (int, float)):
                raise InvalidArgumentError(f"threshold {name} must be a number, got {getattr(self, name)!r}")

    def as_attributes(self) -> dict[str, float]:
        """Return the thresholds in the form stored with a mask."""
        return {
            "th_agent_filter_probability_threshold": self.probability,
            "th_yaw_degree": self.yaw_degree,
            "th_extent_ratio": self.extent_ratio,
            "th_distance_av": self.distance_av_m,
        }


def in_consecutive_frame(frame_idx: int, past_frame_idx: int) -> bool:
    """Return whether a frame directly follows another."""
    return bool(frame_idx == past_frame_idx + 1)


def in_av_distance(av_translation: ArrayLike, agent_centroid: ArrayLike, th: float) -> bool:
    """Return whether two positions, x and y in metres, are strictly closer than ``th``."""
    offset_m = np.asarray(av_translation, dtype=np.float64)[:2] - np.asarray(agent_centroid, dtype=np.float64)[:2]
    return math.sqrt(offset_m[0] * offset_m[0] + offset_m[1] * offset_m[1]) < th


def in_angular_distance(yaw1: float, yaw2: float, th: float) -> bool:
    """Return whether two headings in radians differ by strictly less than ``th`` degrees."""
    return bool(np.degrees(abs(angular_distance(float(yaw1), float(yaw2)))) < th)


def in_extent_ratio(extent1: FloatArray, extent2: FloatArray, th: float) -> bool:
    """Return whether the ratio of two areas, length times width, is strictly below ``th``.

    Areas and their ratio keep the precision of the extents (float32). Areas below 0.01 square metres do not count as
    similar to anything.
    """
    area1, area2 = extent1[0] * extent1[1], extent2[0] * extent2[1]
    small, large = min(area1, area2), max(area1, area2)
    return not float(small) < MIN_AREA_M2 and float(large / small) < th


def update_mask(mask: UInt32Array, agent_list: Sequence[int]) -> None:
    """Write the segment of one track into a mask (N, 2).

    Args:
        mask: Changed in place: row i of a segment of n gets (i, n - 1 - i).
        agent_list: Rows of the segment, in chronological order.
    """
    length = len(agent_list)
    rows = np.asarray(agent_list, dtype=np.int64)
    mask[rows, 0] = np.arange(length)
    mask[rows, 1] = np.arange(length)[::-1]
