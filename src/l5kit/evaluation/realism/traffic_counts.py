"""Counts of traffic features in bins, scene by scene, the input of comparisons."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes
from l5kit.data.scene_arrays import SceneArrays
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.ego_states import EgoBody
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.evaluation.driving.scene_states import read_ego_states, read_road_users
from l5kit.evaluation.realism.road_edges import RoadEdges
from l5kit.evaluation.realism.traffic_values import TrafficValues, measure_traffic

CELLS_PER_BIN = 20
"""Number of cells of a bin; Wasserstein distances are computed from cells."""


@dataclass(frozen=True)
class Feature:
    """A value of each subject in each frame, and the bins that it is counted into.

    Attributes:
        name: Attribute of :class:`~l5kit.evaluation.realism.traffic_values.TrafficValues` with the values.
        unit: Unit of the values, and of Wasserstein distances.
        lowest: Lower limit; lower values are clipped to it.
        highest: Upper limit; higher values are clipped to it.
        num_bins: Number of equal bins between the limits, for the Jensen-Shannon distance.

    Raises:
        InvalidArgumentError: The range is empty, or there are no bins.
    """

    name: str
    unit: str
    lowest: float
    highest: float
    num_bins: int

    def __post_init__(self) -> None:
        if not (self.lowest < self.highest and self.num_bins > 0):
            raise InvalidArgumentError(
                f"Feature {self.name}: lowest must be below highest and num_bins above 0, got {self.lowest}, "
                f"{self.highest} and {self.num_bins}"
            )

    @property
    def num_cells(self) -> int:
        """Number of cells of all bins."""
        return self.num_bins * CELLS_PER_BIN

    @property
    def cell_width(self) -> float:
        """Width of a cell in the unit of the feature."""
        return (self.highest - self.lowest) / self.num_cells

    def cells_of(self, values: Float64Array) -> Int64Array:
        """Return the cell of each value; values of any shape, without NaN."""
        inside = np.clip(values, self.lowest, self.highest)
        cells: Int64Array = np.floor((inside - self.lowest) / self.cell_width).astype(np.int64)
        return np.minimum(cells, self.num_cells - 1)


FEATURES = (
    Feature("speeds_mps", "m/s", 0.0, 40.0, 80),
    Feature("accelerations_mps2", "m/s²", -10.0, 10.0, 80),
    Feature("yaw_rates_radps", "rad/s", -1.0, 1.0, 80),
    Feature("nearest_gaps_m", "m", 0.0, 40.0, 80),
    Feature("times_to_collision_s", "s", 0.0, 5.0, 50),
    Feature("road_edge_distances_m", "m", -10.0, 10.0, 80),
)
"""All features, in the order of tables."""

EVENTS = ("collisions_by_track", "collisions_by_frame", "leaving_road_by_track", "off_road_by_frame")
"""Events whose rates are compared, in the order of tables."""

_SCENES_AT_A_TIME = 16


@dataclass(frozen=True, eq=False)
class TrafficCounts(ReadOnlyArrays):
    """Counts of S scenes.

    Attributes:
        cells: Number of values in each cell for each of :data:`FEATURES`, int64 (S, cells).
        events: Number of each of :data:`EVENTS`, int64 (S, 4): tracks that ever overlap another road user, rows that
            do, tracks that leave the road, rows off the road.
        chances: Number of possible events, int64 (S, 4): tracks, rows, tracks, rows; 0 for the last two without a map.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    cells: tuple[Int64Array, ...]
    events: Int64Array
    chances: Int64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        require_shapes(self, events=(self.num_scenes, len(EVENTS)), chances=(self.num_scenes, len(EVENTS)))
        expected = [(self.num_scenes, feature.num_cells) for feature in FEATURES]
        if [array.shape for array in self.cells] != expected:
            raise InvalidArgumentError(
                f"TrafficCounts: cells must have the shapes {expected}, got {[array.shape for array in self.cells]}"
            )

    @property
    def num_scenes(self) -> int:
        """Number of scenes, S."""
        return len(self.events)

    @classmethod
    def joined(cls, parts: Sequence["TrafficCounts"]) -> "TrafficCounts":
        """Join the counts of several blocks of scenes."""
        empty = np.zeros((0, len(EVENTS)), np.int64)
        return cls(
            tuple(
                np.concatenate([np.zeros((0, feature.num_cells), np.int64), *(part.cells[row] for part in parts)])
                for row, feature in enumerate(FEATURES)
            ),
            np.concatenate([empty, *(part.events for part in parts)]),
            np.concatenate([empty, *(part.chances for part in parts)]),
        )


def count_traffic(
    scenes: Sequence[SceneArrays],
    *,
    tracks: Sequence[NumericArray] | None = None,
    groups: Sequence[RoadUserGroup] = (RoadUserGroup.VEHICLE,),
    edges: RoadEdges | None = None,
    body: EgoBody | None = None,
) -> TrafficCounts:
    """Count recorded or simulated scenes, reading a few at a time.

    Args:
        scenes: S scenes, each with at least one frame.
        tracks: Ids of the tracks to count in each scene, S arrays; all by default. Other tracks still count as
            neighbours.
        groups: Groups of road users to count.
        edges: Edges of the road; without them, values that need a map are not counted.
        body: The box of the AV; that of the published dataset by default.

    Raises:
        InvalidArgumentError: ``tracks`` does not have one array per scene, or a value of a road user is not finite.
    """
    if tracks is not None and len(tracks) != len(scenes):
        raise InvalidArgumentError(
            f"tracks must have one array of ids for each of {len(scenes)} scenes, got {len(tracks)}"
        )
    parts = []
    for first in range(0, len(scenes), _SCENES_AT_A_TIME):
        block = [scenes[index] for index in range(first, min(first + _SCENES_AT_A_TIME, len(scenes)))]
        users = read_road_users(block)
        is_subject = np.isin(users.groups, [int(group) for group in groups])
        if tracks is not None:
            is_wanted = np.zeros((len(block), users.num_tracks), np.bool_)
            for row, (scene, wanted) in enumerate(zip(block, tracks[first : first + len(block)], strict=True)):
                ids = np.unique(scene.agents.track_ids)[: users.num_tracks]  # tracks are numbered in this order
                is_wanted[row, : len(ids)] = np.isin(ids, np.asarray(wanted))
            num_frames = max(scene.num_frames for scene in block)
            is_subject &= is_wanted[users.frames_of_rows // max(1, num_frames), users.tracks]
        values = measure_traffic(read_ego_states(block, body=body), users, is_subject=is_subject, edges=edges)
        parts.append(count_values(values, num_scenes=len(block)))
    return TrafficCounts.joined(parts)


def count_values(values: TrafficValues, *, num_scenes: int) -> TrafficCounts:
    """Return the counts of the values of scenes 0 to ``num_scenes`` - 1.

    Raises:
        InvalidArgumentError: A value is of another scene.
    """
    if values.scenes.max(initial=-1) >= num_scenes:
        raise InvalidArgumentError(f"num_scenes is {num_scenes}, but there are values of scene {values.scenes.max()}")
    num_tracks = int(values.tracks.max(initial=-1)) + 1
    keys = values.scenes * num_tracks + values.tracks

    def of_tracks(is_row: BoolArray) -> Int64Array:
        unique_keys = np.unique(keys[is_row])
        return np.bincount(unique_keys // max(1, num_tracks), minlength=num_scenes)

    def of_rows(is_row: BoolArray) -> Int64Array:
        return np.bincount(values.scenes[is_row], minlength=num_scenes)

    # a track leaves the road in a row off the road after one on it
    collides, off_road, leaves = values.is_colliding, values.is_off_road, np.zeros(len(keys), np.bool_)
    order = np.argsort(keys, kind="stable")
    was_on_road = (np.diff(keys[order]) == 0) & ~off_road[order][:-1]
    leaves[order[1:]] = off_road[order][1:] & was_on_road

    everyone = np.ones(len(keys), np.bool_)
    with_map = everyone & values.has_map
    events = [of_tracks(collides), of_rows(collides), of_tracks(leaves), of_rows(off_road)]
    chances = [of_tracks(everyone), of_rows(everyone), of_tracks(with_map), of_rows(with_map)]
    cells = []
    for feature in FEATURES:
        of_feature: Float64Array = getattr(values, feature.name)
        known = ~np.isnan(of_feature)
        in_scenes = values.scenes[known] * feature.num_cells + feature.cells_of(of_feature[known])
        counts = np.bincount(in_scenes, minlength=num_scenes * feature.num_cells)
        cells.append(counts.reshape(num_scenes, feature.num_cells))
    return TrafficCounts(tuple(cells), np.stack(events, axis=1), np.stack(chances, axis=1))
