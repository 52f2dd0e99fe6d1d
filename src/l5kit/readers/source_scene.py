"""Scene of another dataset as returned by a reader: AV, road users and lights as plain arrays, validated.

Positions are in metres in the frame of the scene's map, with x and y right-handed and z up. Angles are in radians,
counter-clockwise from x. Times are integer nanoseconds. :mod:`l5kit.readers.source_bounds` defines the allowed ranges.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.data.array_shapes import require_shapes
from l5kit.data.texts import as_unicode
from l5kit.errors import InvalidArgumentError
from l5kit.readers.motion import velocities_of
from l5kit.readers.source_bounds import (
    FIRST_TIME_NS,
    FURTHEST_FROM_AV_M,
    FURTHEST_M,
    GREATEST_ANGLE_RAD,
    GREATEST_AV_SPEED_MPS,
    GREATEST_SIZE_M,
    GREATEST_SPEED_MPS,
    LAST_TIME_NS,
    SHORTEST_STEP_NS,
    is_within,
    require_text,
    require_within,
)
from l5kit.readers.source_map import SourceMap

_BOUNDS_OF_TRACKS = {
    "positions_m": (FURTHEST_M, "m"),
    "yaws_rad": (GREATEST_ANGLE_RAD, "rad"),
    "velocities_mps": (GREATEST_SPEED_MPS, "m/s"),
    "sizes_m": (GREATEST_SIZE_M, "m"),
}


class LightState(IntEnum):
    """State of the light of a lane in one step."""

    ABSENT = 0
    """No information on the light in this step."""
    UNKNOWN = 1
    """The light is observed, but its colour is unknown."""
    RED = 2
    YELLOW = 3
    GREEN = 4


@dataclass(frozen=True)
class SourceEgo:
    """The AV over the T steps of a scene, with a pose in each of them.

    Attributes:
        positions_m: x and y of the centre of its box, and z of the ground (0 if unknown), float64, (T, 3).
        yaws_rad: Heading, (T,).
        size_m: Length, width and height, (3,), each above 0.
        rotations: Rotation matrices, (T, 3, 3), if the source has more than the heading; else None.

    Raises:
        InvalidArgumentError: An array has the wrong shape, or a value is not finite or out of range.
    """

    positions_m: Float64Array
    yaws_rad: Float64Array
    size_m: Float64Array
    rotations: Float64Array | None = None

    def __post_init__(self) -> None:
        _as_floats(self, "positions_m", "yaws_rad", "size_m")
        require_shapes(self, positions_m=(len(self.positions_m), 3), yaws_rad=(len(self.positions_m),), size_m=(3,))
        if self.rotations is not None:
            _as_floats(self, "rotations")
            require_shapes(self, rotations=(len(self.positions_m), 3, 3))
            if not np.isfinite(self.rotations).all():
                raise InvalidArgumentError("rotations of the AV must be finite, and are not in some steps")
        for name, limit, unit in (("positions_m", FURTHEST_M, "m"), ("yaws_rad", GREATEST_ANGLE_RAD, "rad")):
            is_right = is_within(getattr(self, name), limit).reshape(len(self.positions_m), -1).all(axis=1)
            if not is_right.all():
                step = int(np.argmin(is_right))
                raise InvalidArgumentError(
                    f"{name} of the AV must be finite and within {limit:g} {unit}, got "
                    f"{getattr(self, name)[step].tolist()} in step {step}"
                )
        if not ((self.size_m.astype(np.float32) > 0) & (self.size_m <= GREATEST_SIZE_M)).all():
            raise InvalidArgumentError(
                f"size_m of the AV must be above 0 and up to {GREATEST_SIZE_M:g} m, got {self.size_m.tolist()}"
            )


@dataclass(frozen=True)
class SourceTracks:
    """The N road users of a scene other than the AV, over its T steps.

    Attributes:
        ids: Ids in the source, text, unique, of length N.
        classes: Class names of the source, of length N; each is in ``label_mapping`` of
            :class:`~l5kit.readers.reader.SourceInfo`.
        is_valid: Whether a road user is observed in a step, bool, (N, T); gaps remain gaps. Values of the other arrays
            are undefined elsewhere.
        positions_m: x and y of the centre of the box, float64, (N, T, 2).
        yaws_rad: Heading of the box, (N, T).
        velocities_mps: x and y, (N, T, 2).
        sizes_m: Length along the heading, width and height, (N, T, 3), or (N, 3) if constant over the steps.
        is_target: Whether the source asks to predict the track's future, bool, (N,); None if unknown.

    Raises:
        InvalidArgumentError: An array has the wrong shape, an id is not text or used twice, or in a valid step a value
            is not finite or out of range, or a size is not above 0.
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    is_valid: BoolArray
    positions_m: Float64Array
    yaws_rad: Float64Array
    velocities_mps: Float64Array
    sizes_m: Float64Array
    is_target: BoolArray | None = None

    def __post_init__(self) -> None:
        _as_floats(self, "positions_m", "yaws_rad", "velocities_mps", "sizes_m")
        object.__setattr__(self, "ids", tuple(self.ids))
        object.__setattr__(self, "classes", tuple(self.classes))
        if self.is_valid.ndim != 2 or self.is_valid.dtype != np.bool_:
            raise InvalidArgumentError(
                f"is_valid must be bool of shape (tracks, steps), got {self.is_valid.dtype} of {self.is_valid.shape}"
            )
        shape = (len(self.ids), self.is_valid.shape[1])
        of_sizes = shape if self.sizes_m.ndim == 3 else shape[:1]
        require_shapes(self, is_valid=shape, positions_m=(*shape, 2), yaws_rad=shape, velocities_mps=(*shape, 2))
        require_shapes(self, sizes_m=(*of_sizes, 3))
        if len(self.classes) != len(self.ids):
            raise InvalidArgumentError(f"there are {len(self.classes)} classes for {len(self.ids)} tracks")
        if self.is_target is not None:
            require_shapes(self, is_target=shape[:1])

        seen: set[str] = set()
        for name in self.ids:
            require_text("the id of a track", name)
            if name in seen:
                raise InvalidArgumentError(f"track {name!r} occurs twice")
            seen.add(name)

        # Values are checked where a track is observed; a constant size if it is observed at all.
        for name, (limit, unit) in _BOUNDS_OF_TRACKS.items():
            values = getattr(self, name)
            steps = self.is_valid if name != "sizes_m" or values.ndim == 3 else self.is_valid.any(axis=1)
            is_right = is_within(values, limit) & (values.astype(np.float32) > 0 if name == "sizes_m" else True)
            # reduced without a loop over the last axis, which would take several times as long
            is_wrong = ~is_right & steps.reshape(*steps.shape, *[1] * (is_right.ndim - steps.ndim))
            if is_wrong.any():
                index = np.argwhere(is_wrong)[0].tolist()[: steps.ndim]
                where = f"track {self.ids[index[0]]!r}" + (f", step {index[1]}" if len(index) > 1 else "")
                wanted = "finite, above 0 and up to" if name == "sizes_m" else "finite and within"
                raise InvalidArgumentError(
                    f"{name} of {where} must be {wanted} {limit:g} {unit}, got {values[tuple(index)].tolist()}"
                )

    @classmethod
    def none(cls, num_steps: int) -> "SourceTracks":
        """Return the tracks of a scene without road users."""
        flat, pairs = np.zeros((0, num_steps)), np.zeros((0, num_steps, 2))
        return cls((), (), flat.astype(bool), pairs, flat, pairs, np.zeros((0, 3)))


def tracks_of_boxes(
    ids: Sequence[str],
    classes: Sequence[str],
    cells: tuple[Int64Array, Int64Array],
    timestamps_ns: Int64Array,
    *,
    positions_m: Float64Array,
    yaws_rad: Float64Array,
    sizes_m: Float64Array,
    velocities_mps: Float64Array | None = None,
) -> SourceTracks:
    """Return the tracks of M boxes that a source lists one by one, at most one per track and step.

    Args:
        ids: Ids of the tracks in the source, of length N.
        classes: Class of each track.
        cells: Track and step of each box, (M,) each.
        timestamps_ns: Time of each step, (T,).
        positions_m: x and y of the centre of each box, (M, 2).
        yaws_rad: Heading of each box, (M,).
        sizes_m: Length, width and height of each box, (M, 3).
        velocities_mps: Velocity of each box, (M, 2); None to derive it from positions.
    """
    shape = len(ids), len(timestamps_ns)
    is_valid = np.zeros(shape, np.bool_)
    is_valid[cells] = True
    # values of steps without the track are undefined
    grid_m, grid_rad, grid_mps = np.zeros((*shape, 2)), np.zeros(shape), np.zeros((*shape, 2))
    grid_sizes_m = np.ones((*shape, 3))
    grid_m[cells], grid_rad[cells], grid_sizes_m[cells] = positions_m, yaws_rad, sizes_m
    if velocities_mps is None:
        grid_mps = velocities_of(grid_m, is_valid, timestamps_ns)
    else:
        grid_mps[cells] = velocities_mps
    return SourceTracks(tuple(ids), tuple(classes), is_valid, grid_m, grid_rad, grid_mps, grid_sizes_m)


@dataclass(frozen=True)
class SourceLights:
    """The lights of L lanes over the T steps of a scene.

    Attributes:
        lane_ids: The lane that each light controls, unique, of length L. Lights of lanes missing in the map are
            dropped.
        states: A :class:`LightState` in each step, uint8, (L, T).
        positions_m: x, y and z of each light, or NaN if unknown (it is then placed at the end of the lane), float64,
            (L, 3). Vehicles wait at the start of the lane if the light is nearer to its first than to its last point,
            or if the lane is in a junction, else at its end.

    Raises:
        InvalidArgumentError: An array has the wrong shape, a lane is repeated or has no id, or a state is invalid.
    """

    lane_ids: tuple[str, ...]
    states: NumericArray
    positions_m: Float64Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "lane_ids", tuple(self.lane_ids))
        object.__setattr__(self, "states", np.asarray(self.states, np.uint8))
        _as_floats(self, "positions_m")
        size = len(self.lane_ids)
        require_shapes(self, states=(size, *self.states.shape[1:2]), positions_m=(size, 3))
        if len(set(self.lane_ids)) != size:
            twice = next(lane for lane in self.lane_ids if self.lane_ids.count(lane) > 1)
            raise InvalidArgumentError(f"lane {twice!r} has two lights; give each lane one")
        if (self.states > max(LightState)).any():
            raise InvalidArgumentError(f"states must be of LightState, 0 to {max(LightState)}, got {self.states.max()}")
        for lane in self.lane_ids:
            require_text("the lane of a light", lane)

    @classmethod
    def none(cls, num_steps: int) -> "SourceLights":
        """Return the lights of a scene without observed lights."""
        return cls((), np.zeros((0, num_steps), np.uint8), np.zeros((0, 3)))


@dataclass(frozen=True)
class SourceScene:
    """One scene of another dataset, T steps long.

    Attributes:
        name: Name in the source.
        timestamps_ns: Time of each step, since 1970 if known, ascending, int64, (T,), T at least 1.
        ego: The AV.
        tracks: The other road users, without the AV.
        lights: The lights.
        map: The map around the scene, or the whole map; pieces with the same name share a frame and are merged by ids.
        remarks: What was dropped or repaired while reading the scene, one sentence each, with the names of the source.

    Raises:
        InvalidArgumentError: There is no step, times do not ascend or are out of range, the parts differ in their
            number of steps, something is too far from the AV, or the AV jumps.
    """

    name: str
    timestamps_ns: Int64Array
    ego: SourceEgo
    tracks: SourceTracks
    lights: SourceLights
    map: SourceMap
    remarks: Sequence[str] = ()

    def __post_init__(self) -> None:
        times_ns = self.timestamps_ns
        if times_ns.ndim != 1 or times_ns.dtype != np.int64 or not len(times_ns):
            raise InvalidArgumentError(
                f"timestamps_ns must be int64 of shape (steps,) with a step at least, got {times_ns.dtype} of "
                f"{times_ns.shape}"
            )
        is_wrong = (times_ns < FIRST_TIME_NS) | (times_ns > LAST_TIME_NS)
        if is_wrong.any():
            step = int(np.argmax(is_wrong))
            raise InvalidArgumentError(
                f"timestamps_ns must be from {FIRST_TIME_NS} to {LAST_TIME_NS}, got {times_ns[step]} in step {step}"
            )
        steps_ns = np.diff(times_ns)
        if (steps_ns <= 0).any():
            step = int(np.argmax(steps_ns <= 0)) + 1
            raise InvalidArgumentError(
                f"times must ascend, but step {step} is at {times_ns[step]} ns after {times_ns[step - 1]} ns"
            )
        if (steps_ns < SHORTEST_STEP_NS).any():
            step = int(np.argmax(steps_ns < SHORTEST_STEP_NS)) + 1
            raise InvalidArgumentError(
                f"times must be {SHORTEST_STEP_NS} ns apart at least, but step {step} is {steps_ns[step - 1]} ns after "
                "the previous one"
            )
        lengths = len(self.ego.yaws_rad), self.tracks.is_valid.shape[1], self.lights.states.shape[1]
        if set(lengths) != {len(times_ns)}:
            raise InvalidArgumentError(
                f"AV, tracks and lights have {lengths} steps, but there are {len(times_ns)} times"
            )
        object.__setattr__(self, "remarks", tuple(map(as_unicode, self.remarks)))

        # tracks and map elements must be near the AV
        first_m = self.ego.positions_m[0]
        self.map.require_near(first_m)
        for lane, position_m in zip(self.lights.lane_ids, self.lights.positions_m, strict=True):
            if np.isfinite(position_m).all():
                what = f"the light of lane {lane!r}"
                require_within("positions_m", what, position_m, FURTHEST_FROM_AV_M, unit="m", around=first_m)
        is_near = is_within(self.tracks.positions_m, FURTHEST_FROM_AV_M, around=first_m[:2])
        is_wrong = self.tracks.is_valid[..., None] & ~is_near
        if is_wrong.any():
            track, step, _ = np.argwhere(is_wrong)[0].tolist()
            raise InvalidArgumentError(
                f"positions_m of track {self.tracks.ids[track]!r} must be within {FURTHEST_FROM_AV_M:g} m of the first "
                f"position of the AV, {first_m[:2].tolist()}, got {self.tracks.positions_m[track, step].tolist()} in "
                f"step {step}"
            )
        require_within("positions_m", "the AV", self.ego.positions_m, FURTHEST_FROM_AV_M, unit="m", around=first_m)

        # an AV that jumps between steps indicates damaged data
        steps_m = np.linalg.norm(np.diff(self.ego.positions_m, axis=0), axis=1)
        speeds_mps = steps_m / (np.diff(self.timestamps_ns) / 1e9)
        if (speeds_mps > GREATEST_AV_SPEED_MPS).any():
            step = int(np.argmax(speeds_mps > GREATEST_AV_SPEED_MPS)) + 1
            raise InvalidArgumentError(
                f"positions_m of the AV must be reached with {GREATEST_AV_SPEED_MPS:g} m/s at most, got "
                f"{speeds_mps[step - 1]:g} m/s from {self.ego.positions_m[step - 1].tolist()} to "
                f"{self.ego.positions_m[step].tolist()} in step {step}"
            )


def _as_floats(holder: object, *names: str) -> None:
    for name in names:
        object.__setattr__(holder, name, np.asarray(getattr(holder, name), np.float64))
