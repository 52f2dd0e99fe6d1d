"""Road users around the AV in several scenes, as rows of plain arrays, and groups of their classes."""

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.data.array_shapes import ReadOnlyArrays, as_kernel_array, as_read_only, require_shapes, require_starts
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX, PERCEPTION_LABELS
from l5kit.errors import InvalidArgumentError

_VEHICLES = ("CAR", "VAN", "TRAM", "BUS", "TRUCK", "EMERGENCY_VEHICLE", "OTHER_VEHICLE")
_VULNERABLE = ("BICYCLE", "MOTORCYCLE", "CYCLIST", "MOTORCYCLIST", "PEDESTRIAN")
_OTHERS = ("ANIMAL",)


class RoadUserGroup(IntEnum):
    """Groups that scores distinguish; agents that are no road users are :attr:`NONE`."""

    NONE = -1
    """Unknown, not set, do not care, or hidden by a simulation."""
    VEHICLE = 0
    """Cars, vans, trams, buses, trucks, emergency and other vehicles."""
    VULNERABLE = 1
    """Bicycles, motorcycles, their riders, and pedestrians."""
    OTHER = 2
    """Other objects: animals, and unknown objects if included."""


STATIONARY_MPS = 0.5
"""Speed from which a tracked road user counts as moving; trackers report small speeds for objects at rest."""

_NONE, _OTHER = int(RoadUserGroup.NONE), int(RoadUserGroup.OTHER)


class RoadUserArrays(NamedTuple):
    """N rows of road users as kernel arguments; fields as in :class:`RoadUsers`."""

    starts: Int64Array
    tracks: Int64Array
    groups: Int64Array
    boxes: Float64Array
    velocities_mps: Float64Array


@dataclass(frozen=True, eq=False)
class RoadUsers(ReadOnlyArrays):
    """The N rows of road users in S scenes of up to F frames, ordered by scene and frame.

    Attributes:
        starts: First row of each frame and the end of the last one, int64 (S * F + 1,); frame f of scene s has the
            index s * F + f, and padding has no rows.
        tracks: Track of each row, numbered from 0 within its scene, int64 (N,).
        groups: The :class:`RoadUserGroup` of each row, not NONE, int64 (N,).
        labels: Index of the label in ``PERCEPTION_LABELS``, -1 if unknown, int64 (N,).
        boxes: World x and y of the centre, yaw, length and width, metres and radians, float64 (N, 5).
        velocities_mps: World x and y, float64 (N, 2).

    Raises:
        InvalidArgumentError: Shapes do not fit, a track or group is invalid, or a value is not finite.
    """

    starts: Int64Array
    tracks: Int64Array
    groups: Int64Array
    labels: Int64Array
    boxes: Float64Array
    velocities_mps: Float64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        size = len(self.tracks)
        require_shapes(self, tracks=(size,), groups=(size,), labels=(size,), boxes=(size, 5), velocities_mps=(size, 2))
        require_starts(self, "starts", num_parts=len(self.starts) - 1, end=size)
        if (np.diff(self.starts) < 0).any():
            raise InvalidArgumentError("RoadUsers: starts must not decrease from one frame to the next")
        if size and (self.tracks.min() < 0 or self.groups.min() < 0 or self.groups.max() > RoadUserGroup.OTHER):
            raise InvalidArgumentError(
                f"RoadUsers: tracks must be at least 0 and groups 0 to {int(RoadUserGroup.OTHER)}, got tracks from "
                f"{self.tracks.min()} and groups from {self.groups.min()} to {self.groups.max()}"
            )
        for name in ("boxes", "velocities_mps"):
            is_broken = ~np.isfinite(getattr(self, name)).all(axis=1)
            if is_broken.any():
                raise InvalidArgumentError(
                    f"RoadUsers: {int(is_broken.sum())} rows of {name} are not finite; leave such rows out"
                )

    @classmethod
    def none(cls, num_scenes: int, num_frames: int) -> "RoadUsers":
        """Return scenes without road users."""
        rows, starts = np.zeros(0, np.int64), np.zeros(num_scenes * num_frames + 1, np.int64)
        return cls(starts, rows, rows, rows, np.zeros((0, 5)), np.zeros((0, 2)))

    def __len__(self) -> int:
        return len(self.tracks)

    @property
    def arrays(self) -> RoadUserArrays:
        """The rows as kernel arguments."""
        return RoadUserArrays(self.starts, self.tracks, self.groups, self.boxes, self.velocities_mps)

    @property
    def num_tracks(self) -> int:
        """Upper bound of the track numbers, exclusive."""
        return int(self.tracks.max(initial=-1)) + 1

    @property
    def speeds_mps(self) -> Float64Array:
        """Speeds of the rows, (N,)."""
        speeds_mps: Float64Array = np.hypot(self.velocities_mps[:, 0], self.velocities_mps[:, 1])
        return speeds_mps

    @property
    def frames_of_rows(self) -> Int64Array:
        """Index s * F + f of the frame of each row, (N,)."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def are(self, *labels: str) -> BoolArray:
        """Return which rows have one of the given labels, such as ``PERCEPTION_LABEL_PEDESTRIAN``, (N,)."""
        return np.isin(self.labels, [PERCEPTION_LABEL_TO_INDEX[label] for label in labels])

    def windows(self, firsts: Int64Array, num_frames: int, bounds_m: Float64Array) -> "RoadUsers":
        """Return the rows of windows of scenes as new scenes, without rows outside of given bounds.

        Args:
            firsts: Index s * F + f of the first frame of each of W windows, (W,).
            num_frames: T, the number of frames of a window, which lies within one scene.
            bounds_m: Lowest and highest world x and y of each window, (W, 2, 2); boxes entirely outside are left out.

        Returns:
            W scenes of T frames; tracks keep their numbers.
        """
        # buffer for all rows of the windows, filled with those within the bounds
        rows = np.empty(int((self.starts[firsts + num_frames] - self.starts[firsts]).sum()), np.int64)
        starts = np.zeros(len(firsts) * num_frames + 1, np.int64)
        rows = rows[: _write_rows_within(self.starts, self.boxes, firsts, num_frames, bounds_m, rows, starts)]
        names = ("tracks", "groups", "labels", "boxes", "velocities_mps")
        return RoadUsers(starts, *(getattr(self, name).take(rows, axis=0) for name in names))

    def require_frames_of(self, shape: tuple[int, ...]) -> None:
        """Require as many frames as states of shape (S, F) have.

        Raises:
            InvalidArgumentError: The number of frames is not S * F.
        """
        if len(self.starts) != shape[0] * shape[1] + 1:
            raise InvalidArgumentError(
                f"RoadUsers: starts has {len(self.starts)} entries, but states of {shape[0]} scenes of {shape[1]} "
                f"frames need {shape[0] * shape[1] + 1}"
            )


def classify_rows(
    label_probabilities: NumericArray,
    extents_m: NumericArray,
    *,
    threshold: float = 0.5,
    include_unknown: bool = False,
) -> Int64Array:
    """Return the group of each row of agents: that of its most probable label, if that is probable enough.

    Args:
        label_probabilities: Probability of each of ``PERCEPTION_LABELS``, (N, 17).
        extents_m: Length and width, metres, (N, >= 2).
        threshold: Rows whose highest probability is not above it are unknown.
        include_unknown: Whether unknown rows count as other objects instead of NONE.

    Returns:
        Values of :class:`RoadUserGroup`, int64 (N,). Rows hidden by a simulation, without extent or with a negative
        probability, are always NONE.

    Raises:
        InvalidArgumentError: A shape is wrong.
    """
    size = len(label_probabilities)
    if label_probabilities.shape != (size, len(PERCEPTION_LABELS)) or extents_m.shape[:1] != (size,):
        raise InvalidArgumentError(
            f"label_probabilities must have shape (N, {len(PERCEPTION_LABELS)}) and extents_m (N, >= 2), got "
            f"{label_probabilities.shape} and {extents_m.shape}"
        )
    probabilities = np.ascontiguousarray(label_probabilities)
    if probabilities.dtype != np.float32:
        probabilities = probabilities.astype(np.float64)
    groups = np.empty(size, np.int64)
    write_groups(
        np.arange(size),
        as_read_only(probabilities),
        as_kernel_array(extents_m[:, :2], np.float64),
        groups_of_labels(),
        float(probabilities.dtype.type(threshold)),
        include_unknown,
        groups,
    )
    return groups


@cache
def groups_of_labels() -> Int64Array:
    """Return the group of each of ``PERCEPTION_LABELS``, read-only (17,)."""
    groups = np.full(len(PERCEPTION_LABELS), RoadUserGroup.NONE, np.int64)
    named = {RoadUserGroup.VEHICLE: _VEHICLES, RoadUserGroup.VULNERABLE: _VULNERABLE, RoadUserGroup.OTHER: _OTHERS}
    for group, labels in named.items():
        groups[[PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{label}"] for label in labels]] = group
    groups.setflags(write=False)
    return groups


@kernel_jit
def class_of_row(
    row: int, probabilities: NumericArray, extents_m: NumericArray, group_of_label: Int64Array, threshold: float
) -> tuple[int, int, bool]:
    """Return the label of a row, -1 if unknown, its group, and whether a simulation has hidden it.

    The group is that of :func:`classify_rows` without unknown rows. This is a single function, as another call would
    take as long as reading the labels.
    """
    # count the labels above the threshold without branches; there is usually one at most
    num_labels, best, num_above, num_fine = probabilities.shape[1], 0, 0, 0
    for label in range(num_labels):
        probability = probabilities[row, label]
        is_above = probability > threshold
        best = label if is_above else best
        num_above += is_above
        num_fine += probability >= 0
    is_hidden = extents_m[row, 0] == 0 and extents_m[row, 1] == 0
    if num_fine < num_labels:  # some are negative or NaN
        for label in range(num_labels):
            is_hidden = is_hidden or probabilities[row, label] < 0
        return -1, _NONE, is_hidden
    if num_above > 1:  # the first of the highest
        best = 0
        for label in range(num_labels):
            best = label if probabilities[row, label] > probabilities[row, best] else best
    if num_above == 0 or is_hidden:
        return -1, _NONE, is_hidden
    return best, group_of_label[best], is_hidden


@kernel_jit
def with_unknown(group: int, is_hidden: bool, include_unknown: bool) -> int:
    """Return a group of :func:`class_of_row`, but OTHER for unknown rows if these are included."""
    return _OTHER if include_unknown and group == _NONE and not is_hidden else group


@kernel_jit
def write_groups(
    rows: Int64Array,
    probabilities: NumericArray,
    extents_m: NumericArray,
    group_of_label: Int64Array,
    threshold: float,
    include_unknown: bool,
    groups: Int64Array,
) -> None:
    """Write the groups of the given rows (K,) of agents, by the rule of :func:`classify_rows`."""
    for index in range(len(rows)):
        _, group, is_hidden = class_of_row(rows[index], probabilities, extents_m, group_of_label, threshold)
        groups[index] = with_unknown(group, is_hidden, include_unknown)


@kernel_jit
def _write_rows_within(
    starts: Int64Array,
    boxes: Float64Array,
    firsts: Int64Array,
    num_frames: int,
    bounds_m: Float64Array,
    rows: Int64Array,
    window_starts: Int64Array,
) -> int:
    """Write the rows within the bounds of windows, and the starts of their frames; return the number of rows."""
    count = 0
    for window in range(len(firsts)):
        low_x, low_y = bounds_m[window, 0]
        high_x, high_y = bounds_m[window, 1]
        for frame in range(num_frames):
            for row in range(starts[firsts[window] + frame], starts[firsts[window] + frame + 1]):
                x, y = boxes[row, 0], boxes[row, 1]
                reach_m = 0.5 * (boxes[row, 3] + boxes[row, 4])  # at least half the diagonal
                if low_x - reach_m <= x <= high_x + reach_m and low_y - reach_m <= y <= high_y + reach_m:
                    rows[count] = row
                    count += 1
            window_starts[window * num_frames + frame + 1] = count
    return count
