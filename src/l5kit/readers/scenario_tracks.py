"""All tracks of a scenario as arrays, including the AV, from which the AV and the road users of a scene are taken."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import require_shapes
from l5kit.readers.motion import filled_poses, velocities_of
from l5kit.readers.source_scene import SourceEgo, SourceTracks


@dataclass(frozen=True)
class ScenarioTracks:
    """K tracks of a scenario over its T steps.

    Attributes:
        ids: Ids in the source, of length K.
        classes: Class names of the source, of length K.
        is_valid: Whether a track is observed, bool, (K, T).
        positions_m: Centre of the box, x, y and z, (K, T, 3).
        yaws_rad: Heading, (K, T).
        velocities_mps: x and y, NaN if missing, (K, T, 2).
        sizes_m: Length, width and height, (K, T, 3).
        ego_row: Row of the AV.
        is_target: Whether the source asks to predict the track, bool, (K,); None if unknown.
        remarks: What was inferred or repaired.
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    is_valid: BoolArray
    positions_m: Float64Array
    yaws_rad: Float64Array
    velocities_mps: Float64Array
    sizes_m: Float64Array
    ego_row: int
    is_target: BoolArray | None
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape = len(self.ids), self.is_valid.shape[1]
        require_shapes(self, is_valid=shape, positions_m=(*shape, 3), yaws_rad=shape, velocities_mps=(*shape, 2))
        require_shapes(self, sizes_m=(*shape, 3))

    def missing_steps(self, steps: slice) -> list[int]:
        """Return the steps without the AV among some steps, counted in the scenario."""
        missing: list[int] = (np.flatnonzero(~self.is_valid[self.ego_row, steps]) + steps.start).tolist()
        return missing

    def to_ego(
        self, steps: slice, times_ns: Int64Array, size_m: Float64Array, *, ground_m: Float64Array | float = 0.0
    ) -> SourceEgo:
        """Return the AV in some steps, with missing poses interpolated.

        Args:
            steps: From the first to the last step in which it is observed.
            times_ns: Time of each of these steps.
            size_m: Its length, width and height, (3,).
            ground_m: Distance of the ground below the positions, for all or for each step.
        """
        poses = np.column_stack([self.positions_m[self.ego_row, steps], self.yaws_rad[self.ego_row, steps]])
        poses[:, 2] -= ground_m
        whole = filled_poses(poses, self.is_valid[self.ego_row, steps], times_ns)
        return SourceEgo(whole[:, :3], whole[:, 3], size_m)

    def to_source(self, steps: slice, times_ns: Int64Array) -> SourceTracks:
        """Return the road users observed in some steps, without the AV; derive missing velocities from positions."""
        others = np.flatnonzero(self.is_valid[:, steps].any(axis=1))
        others = others[others != self.ego_row]
        is_valid, positions_m = self.is_valid[others, steps], self.positions_m[others, steps, :2]
        velocities_mps = self.velocities_mps[others, steps]
        if np.isnan(velocities_mps[is_valid]).any():
            made = velocities_of(positions_m, is_valid, times_ns)
            velocities_mps = np.where(np.isnan(velocities_mps), made, velocities_mps)
        return SourceTracks(
            ids=tuple(self.ids[row] for row in others),
            classes=tuple(self.classes[row] for row in others),
            is_valid=is_valid,
            positions_m=positions_m,
            yaws_rad=self.yaws_rad[others, steps],
            velocities_mps=velocities_mps,
            sizes_m=self.sizes_m[others, steps],
            is_target=None if self.is_target is None else self.is_target[others],
        )
