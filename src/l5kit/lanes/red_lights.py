"""Traffic lights of lanes in all frames of scenes: red and yellow lanes, in the form used by steps of drivers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Int64Array, NumericArray, RecordArray
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes, require_starts
from l5kit.data.frame_rows import expand_ranges, parts_of_rows
from l5kit.data.index.windows import WindowRows
from l5kit.data.map.lane_lights import LIGHT_COLORS, LaneLights
from l5kit.data.records import FACE_INTERVAL
from l5kit.data.scene_records import SceneRecords

YELLOW = LIGHT_COLORS.index("YELLOW") + 1
"""Rank of a yellow light."""

RED = LIGHT_COLORS.index("RED") + 1
"""Rank of a red light."""

LINE_SLACK_M = 0.5
"""Distance by which the front of a vehicle may be past a red stop line that still counts, metres."""


@dataclass(frozen=True, eq=False)
class LaneColors(ReadOnlyArrays):
    """The yellow or red lanes in the F frames of S scenes, scene by scene.

    Attributes:
        scene_starts: Start of each scene in the frames, and the end of the last one, int64 (S + 1,).
        starts: Start of each frame in the rows, and the end of the last one, int64 (F + 1,).
        lanes: Lane of each row, int64 (M,).
        ranks: :data:`YELLOW` or :data:`RED`; if a lane has several rows, the highest counts, int64 (M,).

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    scene_starts: Int64Array
    starts: Int64Array
    lanes: Int64Array
    ranks: Int64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        require_shapes(self, ranks=self.lanes.shape)
        require_starts(self, "starts", num_parts=len(self.starts) - 1, end=len(self.lanes))
        require_starts(self, "scene_starts", num_parts=len(self.scene_starts) - 1, end=len(self.starts) - 1)

    def rows_of(self, scenes: Int64Array, frame_indices: Int64Array) -> "ColorRows":
        """Return the lights of a frame in each of some scenes, both (R,)."""
        return ColorRows(self.scene_starts[scenes] + frame_indices, self.starts, self.lanes, self.ranks)


def read_lane_colors(scenes: Sequence[SceneRecords], lights: LaneLights | None) -> LaneColors:
    """Return the yellow or red lanes in the frames of scenes.

    A face is on if the log says so; if several faces of a lane are on, the colour that comes last in ``LIGHT_COLORS``
    counts, as in rasters and vectors.

    Args:
        scenes: S scenes.
        lights: The faces of the map; None for no lights.
    """
    num_frames = np.array([len(scene.frames) for scene in scenes], np.int64)
    none = np.zeros(0, np.int64)
    parts = [_colors_of(scene.frames[FACE_INTERVAL], scene.tl_faces, lights) for scene in scenes]
    counts, lanes, ranks = (np.concatenate(column) for column in zip((none, none, none), *parts, strict=True))
    return LaneColors(
        scene_starts=np.concatenate([[0], np.cumsum(num_frames)]).astype(np.int64),
        starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        lanes=lanes,
        ranks=ranks,
    )


def _colors_of(
    intervals: Int64Array, faces: RecordArray, lights: LaneLights | None
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the number of rows of each frame of a scene, and the lanes and ranks of the rows."""
    none = np.zeros(0, np.int64)
    if lights is None or len(lights.ranks) == 0 or len(faces) == 0:
        return np.zeros(len(intervals), np.int64), none, none
    windows = WindowRows([faces], intervals[:, :1].copy(), intervals[:, 1:].copy())
    active, starts = lights.find_active(windows)
    # active faces that are yellow or red, by frame
    frames = parts_of_rows(starts)
    is_held = lights.ranks[active] >= YELLOW
    active, frames = active[is_held], frames[is_held]

    # each yields a row for every lane that it controls
    sizes = np.diff(lights.lane_starts)[active]
    slots = expand_ranges(lights.lane_starts[active], sizes)
    per_frame = np.bincount(frames, weights=sizes, minlength=len(intervals)).astype(np.int64)
    return per_frame, lights.lane_rows[slots], np.repeat(lights.ranks[active], sizes)


class ColorRows(NamedTuple):
    """The yellow or red lanes in the current frames of R scenes, for kernels.

    Attributes:
        frames: Index of the frame of each scene in ``starts``, (R,).
        starts: See :class:`LaneColors`; likewise the next two.
        lanes: (any,).
        ranks: (any,).
    """

    frames: Int64Array
    starts: Int64Array
    lanes: Int64Array
    ranks: Int64Array


class SceneLights(NamedTuple):
    """The lights of S scenes with F frames in total: per scene, the lanes that are yellow or red in any of its frames.

    Each frame has a rank per light of its scene, not per lane of the map.

    Attributes:
        starts: Start of each frame in the ranks, and the end of the last one, int64 (F + 1,).
        ranks: Ranks of all lights of the scene of a frame, 0 if neither yellow nor red, int8.
        lane_starts: Start of each scene in the lanes, and the end of the last one, int64 (S + 1,).
        lanes: The lane of each light, ascending within a scene, int64.
    """

    starts: Int64Array
    ranks: NumericArray
    lane_starts: Int64Array
    lanes: Int64Array


class LightRows(NamedTuple):
    """The lights of B slots.

    Attributes:
        frames: Frame of each slot, as an index into the frames of ``lights``, (B,).
        scenes: Scene of each slot in ``lights``, (B,).
        lights: The lights of all scenes.
    """

    frames: Int64Array
    scenes: Int64Array
    lights: SceneLights


def lights_of_scenes(colors: LaneColors) -> SceneLights:
    """Return the lanes of scenes that have lights, with their ranks in all frames."""
    num_frames = np.diff(colors.scene_starts)
    num_scenes, width = len(num_frames), int(colors.lanes.max(initial=-1)) + 1
    frames = parts_of_rows(colors.starts)
    keys = parts_of_rows(colors.scene_starts)[frames] * width + colors.lanes
    lights, of_rows = np.unique(keys, return_inverse=True)
    firsts = np.searchsorted(lights, np.arange(num_scenes + 1) * width).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(np.repeat(np.diff(firsts), num_frames))]).astype(np.int64)
    ranks = np.zeros(int(starts[-1]), np.int8)
    scenes = keys // max(width, 1)
    np.maximum.at(ranks, starts[frames] + of_rows - firsts[scenes], colors.ranks.astype(np.int8))
    return SceneLights(starts, ranks, firsts, lights % max(width, 1))


def lights_of_map(lights: LaneLights | None) -> SceneLights:
    """Return all lanes of a map with lights, switched off, for a single frame and scene; no lanes for None."""
    lanes = np.zeros(0, np.int64) if lights is None else np.unique(lights.lane_rows)
    bounds = np.array([0, len(lanes)], np.int64)
    return SceneLights(bounds, np.zeros(len(lanes), np.int8), bounds, lanes)


def lights_of_lines(lights: SceneLights, scenes: Int64Array, line_lanes: Int64Array) -> Int64Array:
    """Return the light at each stop line, as an index within its scene, -1 for none, (Q, 2).

    Args:
        lights: Lights of S scenes.
        scenes: The scene of each line, (Q,).
        line_lanes: Its lanes, -1 for none, (Q, 2).
    """
    width = 1 + max(int(lights.lanes.max(initial=-1)), int(line_lanes.max(initial=-1)))
    known, keys = parts_of_rows(lights.lane_starts) * width + lights.lanes, scenes[:, None] * width + line_lanes
    positions = np.searchsorted(known, keys)
    is_light = (line_lanes >= 0) & (np.append(known, -1)[positions] == keys)
    return np.where(is_light, positions - lights.lane_starts[scenes][:, None], -1).astype(np.int64)


@kernel_jit
def rank_of_lit_lane(lanes: Int64Array, ranks: NumericArray, lane: int) -> int:
    """Return the rank of the light of a lane, 0 for none.

    Args:
        lanes: Lanes of the lights of a scene, ascending.
        ranks: Ranks of these lights in a frame.
        lane: The lane.
    """
    first, stop = 0, len(lanes)
    while first < stop:
        middle = (first + stop) // 2
        if lanes[middle] < lane:
            first = middle + 1
        else:
            stop = middle
    return int(ranks[first]) if first < len(lanes) and lanes[first] == lane else 0


@kernel_jit
def rank_of_line(line_lanes: Int64Array, piece: int, ranks: NumericArray) -> int:
    """Return the rank of the light at the start of a piece of a path, 0 for none; the higher one of two.

    Args:
        line_lanes: Lanes, or lights of a scene, with a stop line at the start of each piece, -1 for none, (Q, 2).
        piece: The piece.
        ranks: Rank of each lane or light.
    """
    rank = 0
    for column in range(line_lanes.shape[1]):
        lane = line_lanes[piece, column]
        if 0 <= lane < len(ranks):
            rank = max(rank, ranks[lane])
    return rank
