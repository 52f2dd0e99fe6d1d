"""States of the AV in the frames of several scenes: what scores of driving look at."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes
from l5kit.data.log_facts import EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.box import REAR_AXLE_SHARE


@dataclass(frozen=True)
class EgoBody:
    """The box of the AV, and where its rear axle is.

    Attributes:
        length_m: Metres along the heading.
        width_m: Metres across it.
        rear_axle_to_centre_m: How far the centre of the box is ahead of the rear axle, metres.

    Raises:
        InvalidArgumentError: A size is not above 0.
    """

    length_m: float
    width_m: float
    rear_axle_to_centre_m: float

    def __post_init__(self) -> None:
        if not (self.length_m > 0 and self.width_m > 0):
            raise InvalidArgumentError(
                f"EgoBody: length_m and width_m must be above 0 metres, got {self.length_m} and {self.width_m}"
            )

    @classmethod
    def of_extent(cls, length_m: float = EGO_EXTENT_LENGTH, width_m: float = EGO_EXTENT_WIDTH) -> "EgoBody":
        """Return a body whose rear axle is where that of a usual car of this length is."""
        return cls(length_m, width_m, REAR_AXLE_SHARE * length_m)


class EgoArrays(NamedTuple):
    """The AV in S scenes of up to F frames, as kernels take it; fields as in :class:`EgoStates`."""

    times_s: Float64Array
    num_frames: Int64Array
    boxes: Float64Array
    speeds_mps: Float64Array


@dataclass(frozen=True, eq=False)
class EgoStates(ReadOnlyArrays):
    """The AV in S scenes of up to F frames; what stands in a frame that is not there means nothing.

    Attributes:
        timestamps_s: Seconds since any moment, growing from frame to frame, float64 (S, F).
        is_there: Which frames a scene has, at least one, the first ones, bool (S, F).
        positions_m: World x and y of the centre of its box, float64 (S, F, 2).
        yaws_rad: World heading, counter-clockwise from x, float64 (S, F).
        speeds_mps: At least 0, float64 (S, F).
        accelerations_mps2: Along the heading, and to the left of it, float64 (S, F, 2).
        body: Its box.

    Raises:
        InvalidArgumentError: Shapes do not fit, a scene has no frame or a gap, or values of frames that are there are
            not finite or times do not grow.
    """

    timestamps_s: Float64Array
    is_there: BoolArray
    positions_m: Float64Array
    yaws_rad: Float64Array
    speeds_mps: Float64Array
    accelerations_mps2: Float64Array
    body: EgoBody

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = (*self.is_there.shape, 0, 0)[:2]
        require_shapes(self, is_there=shape, timestamps_s=shape, yaws_rad=shape, speeds_mps=shape)
        require_shapes(self, positions_m=(*shape, 2), accelerations_mps2=(*shape, 2))
        require_frames(self.is_there, self.timestamps_s)
        for name in ("positions_m", "yaws_rad", "speeds_mps", "accelerations_mps2"):
            is_broken = ~np.isfinite(getattr(self, name)[self.is_there])
            if is_broken.any():
                raise InvalidArgumentError(
                    f"EgoStates: {int(is_broken.sum())} values of {name} are not finite in frames that are there; "
                    "leave such scenes out"
                )

    @property
    def arrays(self) -> EgoArrays:
        """The states as kernels take them."""
        return EgoArrays(self.timestamps_s, self.num_frames, self.boxes, self.speeds_mps)

    @property
    def num_scenes(self) -> int:
        """Number of scenes, S."""
        return len(self.is_there)

    @property
    def num_frames(self) -> Int64Array:
        """Frames of each scene, (S,)."""
        counts: Int64Array = self.is_there.sum(axis=1, dtype=np.int64)
        return counts

    @property
    def step_times_s(self) -> Float64Array:
        """Mean time between two frames of each scene, NaN for a single frame, (S,)."""
        steps = self.num_frames - 1
        step_times_s: Float64Array = np.full(self.num_scenes, np.nan)
        return np.divide(self.durations_s, steps, out=step_times_s, where=steps > 0)

    @property
    def durations_s(self) -> Float64Array:
        """Time from the first frame of each scene to the last, (S,)."""
        last = np.maximum(self.num_frames - 1, 0)
        ends_s = np.take_along_axis(self.timestamps_s, last[:, None], axis=1)[:, 0]
        durations_s: Float64Array = ends_s - self.timestamps_s[:, 0]
        return durations_s

    @property
    def directions(self) -> Float64Array:
        """Unit vectors along the headings, (S, F, 2)."""
        return np.stack([np.cos(self.yaws_rad), np.sin(self.yaws_rad)], axis=-1)

    @property
    def rear_axles_m(self) -> Float64Array:
        """World x and y of the middle of the rear axle, (S, F, 2)."""
        rear_axles_m: Float64Array = self.positions_m - self.body.rear_axle_to_centre_m * self.directions
        return rear_axles_m

    def taken(self, scenes: Int64Array) -> "EgoStates":
        """Return some of the scenes, rows (K,), padded to the longest of them."""
        num_frames = int(self.num_frames[scenes].max(initial=0))
        return self._with(lambda name: getattr(self, name)[scenes, :num_frames])

    def windows(self, scenes: Int64Array, firsts: Int64Array, num_frames: int) -> "EgoStates":
        """Return parts of scenes as scenes, all of one length; they may overlap.

        Args:
            scenes: The scene of each of W windows, (W,).
            firsts: Its first frame, (W,).
            num_frames: Frames of each.

        Raises:
            InvalidArgumentError: A window reaches beyond the frames of its scene.
        """
        lengths = self.num_frames[scenes]
        is_outside = (firsts < 0) | (firsts + num_frames > lengths)
        if is_outside.any():
            window = int(np.argmax(is_outside))
            raise InvalidArgumentError(
                f"windows of {num_frames} frames must lie within their scenes, but window {window} begins in frame "
                f"{int(firsts[window])} of a scene of {int(lengths[window])} frames"
            )
        frames = firsts[:, None] + np.arange(num_frames)
        return self._with(lambda name: getattr(self, name)[scenes[:, None], frames])

    def followed_by(self, later: "EgoStates") -> "EgoStates":
        """Return the same scenes with more frames behind their own, all of which are there, (S, F + any)."""
        return self._with(lambda name: np.concatenate([getattr(self, name), getattr(later, name)], axis=1))

    def _with(self, array_of: Callable[[str], Any]) -> "EgoStates":
        """Return an AV of the same box with other arrays, which a function finds by the names of the fields."""
        return replace(self, **{each.name: array_of(each.name) for each in fields(self)[:-1]})

    @property
    def boxes(self) -> Float64Array:
        """World x and y, yaw, length and width of its box, (S, F, 5)."""
        boxes = np.empty((*self.is_there.shape, 5))
        boxes[..., :2], boxes[..., 2] = self.positions_m, self.yaws_rad
        boxes[..., 3:] = self.body.length_m, self.body.width_m
        return boxes


def require_frames(is_there: BoolArray, timestamps_s: Float64Array) -> None:
    """Refuse scenes without a frame, with a gap, or whose times do not grow.

    Raises:
        InvalidArgumentError: A scene has no frame, a gap, or times that do not grow.
    """
    has_gap: BoolArray = np.any(is_there[:, 1:] & ~is_there[:, :-1], axis=1)
    is_empty: BoolArray = ~np.any(is_there, axis=1)
    if (has_gap | is_empty).any():
        scene = int(np.argmax(has_gap | is_empty))
        raise InvalidArgumentError(
            f"is_there: scene {scene} has {'no frame' if is_empty[scene] else 'a gap'}; the frames of a scene, one at "
            "least, come first and those that are not there behind them"
        )
    is_wrong: BoolArray = is_there[:, 1:] & ~(np.diff(timestamps_s, axis=1) > 0)
    if is_wrong.any():
        scene, frame = (int(index[0]) for index in np.nonzero(is_wrong))
        first_s, second_s = timestamps_s[scene, frame : frame + 2].tolist()
        raise InvalidArgumentError(
            f"timestamps_s must grow from frame to frame, but in scene {scene} {second_s} follows {first_s}"
        )
