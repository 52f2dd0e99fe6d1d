"""States of the AV in the frames of several scenes, the input of driving scores."""

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
    """The box of the AV, and the position of its rear axle.

    Attributes:
        length_m: Length along the heading, metres.
        width_m: Width, metres.
        rear_axle_to_centre_m: Distance from the rear axle forward to the centre of the box, metres.

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
        """Return a body with the rear axle at its usual position for a car of this length."""
        return cls(length_m, width_m, REAR_AXLE_SHARE * length_m)


class EgoArrays(NamedTuple):
    """The AV in S scenes of up to F frames, as kernel arguments; fields as in :class:`EgoStates`."""

    times_s: Float64Array
    num_frames: Int64Array
    boxes: Float64Array
    speeds_mps: Float64Array


@dataclass(frozen=True, eq=False)
class EgoStates(ReadOnlyArrays):
    """The AV in S scenes of up to F frames; values in padding have no meaning.

    Attributes:
        timestamps_s: Times in seconds, with any origin, increasing from frame to frame, float64 (S, F).
        is_there: Mask of the frames of a scene, at least one, followed by padding, bool (S, F).
        positions_m: World x and y of the centre of the box, float64 (S, F, 2).
        yaws_rad: World headings, counter-clockwise from x, float64 (S, F).
        speeds_mps: Speeds, at least 0, float64 (S, F).
        accelerations_mps2: Accelerations along the heading, and to the left, float64 (S, F, 2).
        body: The box of the AV.

    Raises:
        InvalidArgumentError: Shapes do not fit, a scene has no frame or a gap, or values outside of padding are not
            finite or times do not increase.
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
                    f"EgoStates: {int(is_broken.sum())} values of {name} are not finite in frames that exist; leave "
                    "such scenes out"
                )

    @property
    def arrays(self) -> EgoArrays:
        """The states as kernel arguments."""
        return EgoArrays(self.timestamps_s, self.num_frames, self.boxes, self.speeds_mps)

    @property
    def num_scenes(self) -> int:
        """Number of scenes, S."""
        return len(self.is_there)

    @property
    def num_frames(self) -> Int64Array:
        """Number of frames of each scene, (S,)."""
        counts: Int64Array = self.is_there.sum(axis=1, dtype=np.int64)
        return counts

    @property
    def step_times_s(self) -> Float64Array:
        """Mean time step of each scene, NaN for a single frame, (S,)."""
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
        """Return the scenes with the given indices, (K,), padded to the longest of them."""
        num_frames = int(self.num_frames[scenes].max(initial=0))
        return self._with(lambda name: getattr(self, name)[scenes, :num_frames])

    def windows(self, scenes: Int64Array, firsts: Int64Array, num_frames: int) -> "EgoStates":
        """Return windows of equal length as scenes; they may overlap.

        Args:
            scenes: Scene of each of W windows, (W,).
            firsts: First frame of each window, (W,).
            num_frames: Number of frames of a window.

        Raises:
            InvalidArgumentError: A window exceeds its scene.
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
        """Append later frames of the same scenes; all frames of both must exist, (S, F + any)."""
        return self._with(lambda name: np.concatenate([getattr(self, name), getattr(later, name)], axis=1))

    def _with(self, array_of: Callable[[str], Any]) -> "EgoStates":
        """Return a copy with other arrays, which a function returns by the name of the field."""
        return replace(self, **{each.name: array_of(each.name) for each in fields(self)[:-1]})

    @property
    def boxes(self) -> Float64Array:
        """World x and y, yaw, length and width of the box, (S, F, 5)."""
        boxes = np.empty((*self.is_there.shape, 5))
        boxes[..., :2], boxes[..., 2] = self.positions_m, self.yaws_rad
        boxes[..., 3:] = self.body.length_m, self.body.width_m
        return boxes


def require_frames(is_there: BoolArray, timestamps_s: Float64Array) -> None:
    """Refuse scenes without a frame, with a gap, or with times that do not increase.

    Raises:
        InvalidArgumentError: A scene has no frame, a gap, or times that do not increase.
    """
    has_gap: BoolArray = np.any(is_there[:, 1:] & ~is_there[:, :-1], axis=1)
    is_empty: BoolArray = ~np.any(is_there, axis=1)
    if (has_gap | is_empty).any():
        scene = int(np.argmax(has_gap | is_empty))
        raise InvalidArgumentError(
            f"is_there: scene {scene} has {'no frame' if is_empty[scene] else 'a gap'}; the frames of a scene, at "
            "least one, must come first, followed by padding"
        )
    is_wrong: BoolArray = is_there[:, 1:] & ~(np.diff(timestamps_s, axis=1) > 0)
    if is_wrong.any():
        scene, frame = (int(index[0]) for index in np.nonzero(is_wrong))
        first_s, second_s = timestamps_s[scene, frame : frame + 2].tolist()
        raise InvalidArgumentError(
            f"timestamps_s must increase from frame to frame, but in scene {scene} {second_s} follows {first_s}"
        )
