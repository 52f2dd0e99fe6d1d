"""Entering of agents: which of those that would appear in a frame find no room there."""

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.geometry.box_overlap import boxes_overlap


def find_blocked(
    starts: Int64Array, boxes: Float64Array, ego_boxes: Float64Array, is_there: BoolArray, is_new: BoolArray
) -> Int64Array:
    """Return the agents that would appear where a box stands, ascending, (K,).

    Of several that appear at the same place, the first in the order of the rows does.

    Args:
        starts: First of the N rows of each of R scenes and the end of the last one, (R + 1,).
        boxes: World x and y, yaw, length and width, (N, 5).
        ego_boxes: Those of the AVs, (R, 5).
        is_there: Which rows are road users that take room, (N,).
        is_new: Which of the rows appear, (N,).
    """
    is_blocked = np.zeros(len(boxes), np.bool_)
    if is_new.any():
        mark_blocked(starts, boxes, ego_boxes, is_there, is_new, is_blocked)
    return np.flatnonzero(is_blocked)


@njit(nogil=True, cache=True, error_model="numpy")
def mark_blocked(
    starts: Int64Array,
    boxes: Float64Array,
    ego_boxes: Float64Array,
    is_there: BoolArray,
    is_new: BoolArray,
    is_blocked: BoolArray,
) -> None:
    """Mark the rows that appear where a box stands; arguments as for :func:`find_blocked`."""
    for scene in range(len(starts) - 1):
        ends = starts[scene], starts[scene + 1]
        mark_blocked_rows(ends[0], ends[1], boxes, ego_boxes[scene], is_there, is_new, is_blocked)


@njit(nogil=True, cache=True, error_model="numpy")
def mark_blocked_rows(
    first: int,
    stop: int,
    boxes: Float64Array,
    ego_box: Float64Array,
    is_there: BoolArray,
    is_new: BoolArray,
    is_blocked: BoolArray,
) -> None:
    """Mark the rows of a scene that appear where a box stands; they are those from ``first`` to ``stop``."""
    for row in range(first, stop):
        if not is_new[row]:
            continue
        is_blocked[row] = boxes_overlap(boxes[row], ego_box)
        for other in range(first, stop):
            if is_blocked[row]:
                break
            # of those that appear only the ones before it, and only if they found room themselves
            stands = is_there[other] and other != row and not is_blocked[other]
            if stands and (other < row or not is_new[other]):
                is_blocked[row] = boxes_overlap(boxes[row], boxes[other])
