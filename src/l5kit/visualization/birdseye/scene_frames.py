"""Frames of scenes from above, with the look of the viewer page."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

import numpy as np

from l5kit._types import Float64Array, UInt8Array
from l5kit.data.frame_rows import parts_of_rows
from l5kit.data.kept import Kept
from l5kit.data.map.api import MapAPI
from l5kit.data.map.opened import SceneMaps
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.visualization.birdseye.canvas import Canvas, Stroke, View
from l5kit.visualization.birdseye.painting import Boxes, MapPainter, paint_boxes, paint_ghosts, paint_paths, paint_plan
from l5kit.visualization.birdseye.tones import CLASS_RGB, EGO_RGB, Rgb, Theme, tones_of
from l5kit.visualization.controlled_lanes import ControlledLanes
from l5kit.visualization.map_shapes import read_map_shapes
from l5kit.visualization.scene_content import SceneContent, read_scene_content

_PAST_FRAMES: Final = 20
_FUTURE_FRAMES: Final = 50
_EGO_PAST_FRAMES: Final = 50
_EGO_FUTURE_FRAMES: Final = 100
_LONGEST_GAP: Final = 5
"""Frames; a path is split where its agent was unseen for longer."""

_MOST_KEPT: Final = 8
"""Cached maps; consecutive scenes often share one map."""


@dataclass(frozen=True, eq=False)
class DriveMarks:
    """Marks that a simulation adds to a frame, in world coordinates.

    Attributes:
        agent_ghosts: Logged boxes of agents that are elsewhere in the simulation, (G, 5): x, y, yaw, length and width.
        ego_ghost: Logged box of the AV, (1, 5), or (0, 5).
        plan_m: Planned positions, (T, 2); empty for none.
    """

    agent_ghosts: Float64Array
    ego_ghost: Float64Array
    plan_m: Float64Array


class SceneFrames:
    """Draws frames of a dataset with the look of the viewer.

    Args:
        dataset: The opened dataset.
        maps: The maps of its scenes; None without maps.
        theme: Theme of the colours.
    """

    def __init__(self, dataset: ChunkedDataset, maps: SceneMaps | None, *, theme: Theme = "light") -> None:
        self.tones = tones_of(theme)
        self._dataset = dataset
        self._maps = maps
        self._drawn_maps: Kept[_DrawnMap] = Kept(_MOST_KEPT)
        self._scene = lru_cache(maxsize=1)(self._read)

    def paint(
        self,
        scene_index: int,
        frame_index: int,
        view: View,
        *,
        aerial: UInt8Array | None = None,
        with_trajectories: bool = True,
        marks: DriveMarks | None = None,
    ) -> UInt8Array:
        """Return the picture of a frame.

        Args:
            scene_index: The scene.
            frame_index: The frame, counted in the scene.
            view: Displayed part of the world.
            aerial: The aerial picture of the view, RGB ``[H, W, 3]``; None for the ground of the theme.
            with_trajectories: Whether past and future positions are drawn.
            marks: Marks of a simulation.

        Returns:
            RGB ``[H, W, 3]``.
        """
        scene, tones = self._scene(scene_index), self.tones
        canvas = Canvas(view, tones.ground if aerial is None else aerial)
        if scene.map_painter is not None:
            opacity = 1.0 if aerial is None else tones.lane_over_aerial
            scene.map_painter.paint(canvas, tones, lit=scene.lit(frame_index), opacity=opacity)

        # Past and future fade with the distance in time; the trajectory of the AV is wider and above the others.
        if with_trajectories:
            fading = {"opacity": 0.1, "end_opacity": 0.7}
            past = Stroke(tones.past, width_m=0.25, least_width_px=1.25, **fading)
            for _, paths in scene.paths(frame_index, frame_index - _PAST_FRAMES, frame_index):
                paint_paths(canvas, paths, past)
            for color, paths in scene.paths(frame_index, frame_index, frame_index + _FUTURE_FRAMES):
                future = Stroke(color, width_m=0.3, least_width_px=1.25, opacity=0.75, end_opacity=0.2)
                paint_paths(canvas, paths, future)
            ego_m = scene.content.ego_positions_m[:, :2]
            before_m = ego_m[max(frame_index - _EGO_PAST_FRAMES, 0) : frame_index + 1]
            after_m = ego_m[frame_index : frame_index + _EGO_FUTURE_FRAMES + 1]
            ego_future = Stroke(EGO_RGB, width_m=0.6, least_width_px=2.5, opacity=0.9, end_opacity=0.45)
            paint_paths(canvas, [before_m], Stroke(tones.past, width_m=0.45, least_width_px=1.25, **fading))
            paint_paths(canvas, [after_m], ego_future)
            canvas.settle()

        # boxes above trajectories, and the marks of a simulation above all
        paint_boxes(canvas, scene.boxes(frame_index), tones)
        if marks is not None:
            paint_plan(canvas, marks.plan_m, tones)
            paint_ghosts(canvas, marks.agent_ghosts, tones.ghost)
            paint_ghosts(canvas, marks.ego_ghost, EGO_RGB)
        return canvas.picture

    def _read(self, scene_index: int) -> "_Scene":
        if self._maps is None:
            return _Scene(read_scene_content(self._dataset, scene_index, map_api=None), None)
        (row,) = self._maps.rows_of_scenes(self._dataset, [scene_index]).tolist()
        drawn = self._drawn_maps.get(row, partial(_DrawnMap.read, self._maps, row))
        content = read_scene_content(
            self._dataset, scene_index, map_api=drawn.map_api, controlled=drawn.controlled_lanes
        )
        return _Scene(content, drawn.painter)


@dataclass(frozen=True, eq=False)
class _DrawnMap:
    """A map with its painter and controlled lanes."""

    map_api: MapAPI
    painter: MapPainter
    controlled_lanes: ControlledLanes

    @classmethod
    def read(cls, maps: SceneMaps, row: int) -> "_DrawnMap":
        map_api = maps.map_of([row])
        return cls(map_api, MapPainter(read_map_shapes(map_api.arrays)), ControlledLanes(map_api.arrays))


class _Scene:
    """A scene with the painter of its map, and its agent rows by track."""

    def __init__(self, content: SceneContent, map_painter: MapPainter | None) -> None:
        self.content = content
        self.map_painter = map_painter
        agents = content.agents
        self._frames = parts_of_rows(agents.starts)
        self._boxes = np.column_stack([agents.centroids_m, agents.yaws_rad, agents.extents_m[:, :2]]).astype(np.float64)
        self._colors = CLASS_RGB[agents.labels]

        # rows grouped by track, ordered by frame
        order = np.lexsort((self._frames, agents.track_ids))
        tracks, begins = np.unique(agents.track_ids[order], return_index=True)
        self._rows_of = dict(zip(tracks.tolist(), np.split(order, begins[1:]), strict=True)) if len(tracks) else {}

    def lit(self, frame_index: int) -> Mapping[int, int]:
        """Return the index of ``LIGHT_COLORS`` by row of the lane."""
        lights = self.content.lights
        rows = lights.rows_of(frame_index)
        return dict(zip(lights.lanes[rows].tolist(), lights.colors[rows].tolist(), strict=True))

    def boxes(self, frame_index: int) -> Boxes:
        """Return the boxes of a frame, the AV last."""
        content, rows = self.content, self.content.agents.rows_of(frame_index)
        pose = [*content.ego_positions_m[frame_index, :2], content.ego_yaws_rad[frame_index]]
        ego = np.array([*pose, *content.facts.ego_extent_m[:2]])
        return Boxes.with_ego(ego, self._boxes[rows], self._colors[rows])

    def paths(self, frame_index: int, first: int, last: int) -> list[tuple[Rgb, list[Float64Array]]]:
        """Return path pieces without gaps, between two frames, of the agents in a frame, with their colours."""
        agents = self.content.agents
        here = agents.rows_of(frame_index)
        paths = []
        for row, track in zip(range(here.start, here.stop), agents.track_ids[here].tolist(), strict=True):
            rows = self._rows_of[track]
            frames = self._frames[rows]
            kept = rows[np.searchsorted(frames, first) : np.searchsorted(frames, last, side="right")]
            gaps = np.flatnonzero(np.diff(self._frames[kept]) > _LONGEST_GAP) + 1
            red, green, blue = self._colors[row].tolist()
            paths.append(((red, green, blue), np.split(self._boxes[kept, :2], gaps)))
        return paths
