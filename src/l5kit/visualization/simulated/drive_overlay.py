"""What a simulation adds to pictures of its scenes: outlines of where the log was, and what was planned."""

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
from l5kit.visualization.simulated.scene_drive import DriveReader, SceneDrive
from l5kit.visualization.utils import draw_trajectory

EGO_GHOST_COLOR: Final = (216, 57, 47)
AGENT_GHOST_COLOR: Final = (185, 196, 209)
PLAN_COLOR: Final = (63, 213, 223)
"""RGB of the outlines of the AV (red) and of agents (grey), and of plans (cyan): those of the viewer in its dark theme,
as the roads of rasters are dark."""

_HALO = (30, 34, 40)


class DriveOverlay:
    """Draws over pictures of driven scenes.

    Args:
        folder: The simulation.
        dataset: Its driven scenes, opened.
        with_ghosts: Whether the boxes of the log are outlined.
        with_plans: Whether what was planned is drawn, as cyan dots.

    Attributes:
        notes: Why the log is not drawn; none where it is.
    """

    def __init__(
        self, folder: SimulationFolder, dataset: ChunkedDataset, *, with_ghosts: bool, with_plans: bool
    ) -> None:
        self._dataset = dataset
        self._reader = DriveReader(folder)
        self._with_ghosts, self._with_plans = with_ghosts, with_plans
        self._drive = lru_cache(maxsize=1)(self._read)
        self.notes = self._reader.notes if with_ghosts else []

    def draw(
        self,
        picture: UInt8Array,
        scene_index: int,
        frame_index: int,
        *,
        raster_from_world: Float64Array,
        dot_radius_px: int,
    ) -> UInt8Array:
        """Return a picture with what is drawn over it.

        Args:
            picture: RGB ``[H, W, 3]``.
            scene_index: The scene, counted among the driven ones.
            frame_index: The frame, counted in the scene.
            raster_from_world: Pixels from world coordinates, (3, 3).
            dot_radius_px: Of dots.
        """
        drive = self._drive(scene_index)
        if self._with_plans and drive.plans is not None:
            poses = drive.plans.poses[frame_index].astype(np.float64)
            planned_m = poses[np.isfinite(poses[:, :2]).all(axis=1), :2]
            points_px = transform_points(planned_m, raster_from_world) if len(planned_m) else planned_m
            draw_trajectory(picture, points_px, PLAN_COLOR, radius=dot_radius_px)
        return self._outlined(picture, drive, frame_index, raster_from_world) if self._with_ghosts else picture

    def _read(self, scene_index: int) -> SceneDrive:
        return self._reader.read(scene_index, read_scene_arrays(self._dataset, scene_index))

    def _outlined(
        self, picture: UInt8Array, drive: SceneDrive, frame_index: int, raster_from_world: Float64Array
    ) -> UInt8Array:
        ghosts = drive.ghosts
        rows = ghosts.rows_of(frame_index)
        agents = compute_box_corners(ghosts.centroids_m[rows], ghosts.yaws_rad[rows], ghosts.extents_m[rows])
        picture = _draw(picture, agents, raster_from_world, AGENT_GHOST_COLOR)
        if not np.isfinite(ghosts.ego_yaws_rad[frame_index]):
            return picture
        here = slice(frame_index, frame_index + 1)
        size_m = np.array([self._dataset.facts.ego_extent_m])
        ego = compute_box_corners(ghosts.ego_positions_m[here], ghosts.ego_yaws_rad[here], size_m)
        return _draw(picture, ego, raster_from_world, EGO_GHOST_COLOR)


def _draw(
    picture: UInt8Array, corners_m: Float64Array, raster_from_world: Float64Array, rgb_color: tuple[int, int, int]
) -> UInt8Array:
    """Return a picture with the outlines of boxes with corners (N, 4, 2) in the world."""
    if len(corners_m) == 0:
        return picture
    corners_px = transform_points(corners_m.reshape(-1, 2), raster_from_world).reshape(-1, 4, 2)
    with_halo = draw_box_outlines(picture, corners_px, rgb_color=_HALO, thickness=4)
    return draw_box_outlines(with_halo, corners_px, rgb_color=rgb_color, thickness=2)
