"""Overlay of a simulation on pictures of its scenes: outlines of logged boxes, and plans."""

from functools import lru_cache
from typing import Final

import numpy as np

from l5kit._types import Float64Array, UInt8Array
from l5kit.data.scene_arrays import read_scene_arrays
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.geometry.box import compute_box_corners
from l5kit.geometry.transform import transform_points
from l5kit.simulation.folder.simulation_folder import SimulationFolder
from l5kit.visualization.annotations import draw_box_outlines
from l5kit.visualization.birdseye.scene_frames import DriveMarks
from l5kit.visualization.birdseye.tones import EGO_RGB, tones_of
from l5kit.visualization.simulated.scene_drive import DriveReader, SceneDrive
from l5kit.visualization.utils import draw_trajectory

EGO_GHOST_COLOR: Final = EGO_RGB
AGENT_GHOST_COLOR: Final = tones_of("dark").ghost
PLAN_COLOR: Final = tones_of("dark").plan
"""RGB of the outlines of the AV (red) and of agents (grey), and of plans (cyan): the dark theme of the viewer, since
the roads of rasters are dark."""

_HALO = (30, 34, 40)
_RADIUS_M = 0.45
_LEAST_RADIUS_PX = 2


class DriveOverlay:
    """Draws the log and the plans over pictures of simulated scenes.

    Args:
        folder: The simulation.
        dataset: Its driven scenes, opened.
        with_ghosts: Whether the boxes of the log are outlined.
        with_plans: Whether plans are drawn.

    Attributes:
        notes: Why the log is not drawn; empty if it is.
    """

    def __init__(
        self, folder: SimulationFolder, dataset: ChunkedDataset, *, with_ghosts: bool, with_plans: bool
    ) -> None:
        self._dataset = dataset
        self._reader = DriveReader(folder)
        self._with_ghosts, self._with_plans = with_ghosts, with_plans
        self._drive = lru_cache(maxsize=1)(self._read)
        self.notes = self._reader.notes if with_ghosts else []

    def marks(self, scene_index: int, frame_index: int) -> DriveMarks:
        """Return the marks for a frame.

        Args:
            scene_index: The scene, counted among the driven ones.
            frame_index: The frame, counted in the scene.
        """
        drive = self._drive(scene_index)
        nothing = np.zeros((0, 5))
        plan_m = np.zeros((0, 2))
        if self._with_plans and drive.plans is not None:
            poses = drive.plans.poses[frame_index].astype(np.float64)
            plan_m = poses[np.isfinite(poses[:, :2]).all(axis=1), :2]
        if not self._with_ghosts:
            return DriveMarks(nothing, nothing, plan_m)
        # the AV has no ghost in frames that the log lacks
        ghosts, rows = drive.ghosts, drive.ghosts.rows_of(frame_index)
        agents = np.column_stack([ghosts.centroids_m[rows], ghosts.yaws_rad[rows], ghosts.extents_m[rows, :2]])
        if not np.isfinite(ghosts.ego_yaws_rad[frame_index]):
            return DriveMarks(agents, nothing, plan_m)
        pose = [*ghosts.ego_positions_m[frame_index], ghosts.ego_yaws_rad[frame_index]]
        return DriveMarks(agents, np.array([[*pose, *self._dataset.facts.ego_extent_m[:2]]]), plan_m)

    def draw(self, picture: UInt8Array, marks: DriveMarks, *, raster_from_world: Float64Array) -> UInt8Array:
        """Return a picture in the style ``channels`` with the marks; plans are cyan dots.

        Args:
            picture: RGB ``[H, W, 3]``.
            marks: The marks.
            raster_from_world: Matrix from world coordinates to pixels, (3, 3).
        """
        px_per_m = float(np.sqrt(abs(np.linalg.det(raster_from_world[:2, :2]))))
        if len(marks.plan_m):
            points_px = transform_points(marks.plan_m, raster_from_world)
            draw_trajectory(picture, points_px, PLAN_COLOR, radius=max(_LEAST_RADIUS_PX, round(_RADIUS_M * px_per_m)))
        for boxes, color in ((marks.agent_ghosts, AGENT_GHOST_COLOR), (marks.ego_ghost, EGO_GHOST_COLOR)):
            if len(boxes):
                corners_m = compute_box_corners(boxes[:, :2], boxes[:, 2], boxes[:, 3:])
                corners_px = transform_points(corners_m.reshape(-1, 2), raster_from_world).reshape(-1, 4, 2)
                picture = draw_box_outlines(picture, corners_px, rgb_color=_HALO, thickness=4)
                picture = draw_box_outlines(picture, corners_px, rgb_color=color, thickness=2)
        return picture

    def _read(self, scene_index: int) -> SceneDrive:
        return self._reader.read(scene_index, read_scene_arrays(self._dataset, scene_index))
