"""Sampler of pictures: samples of the AV or of agents with a raster, one by one or in batches."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from l5kit._types import Column, NumericArray, Records, Sample
from l5kit.configs.parameters import SamplingParams
from l5kit.data.log_facts import EGO_EXTENT_M
from l5kit.data.windows import Targets, Windows
from l5kit.errors import UnsupportedValueError
from l5kit.kinematic.perturbation import Perturbation
from l5kit.lanes.route_map import RouteMap
from l5kit.rasterization.pictures import RasterPictures, channels_first, channels_last
from l5kit.rasterization.rasterizer import Rasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.rasterization.window_rasterizer import WindowRasterizer
from l5kit.sampling.poses import Trajectories, trajectories
from l5kit.sampling.sample_columns import ColumnMemory, sample_of
from l5kit.sampling.targets import trace_targets
from l5kit.sampling.window_sampler import WindowSampler


@dataclass(frozen=True)
class AgentSampler(WindowSampler):
    """Makes samples with fixed parameters.

    Attributes:
        params: How a sample is cut out of a scene.
        render_context: Geometry of the raster.
        rasterizer: Draws the picture, in batches if it is a
            :class:`l5kit.rasterization.window_rasterizer.WindowRasterizer`; None for samples without one.
        perturbation: Moves the AV's frames; None for the log as it is.
        ego_extent_m: Length, width and height of the AV in single samples; windows of batches have theirs.
    """

    params: SamplingParams
    render_context: RenderContext
    rasterizer: Rasterizer | WindowRasterizer | None
    perturbation: Perturbation | None
    ego_extent_m: tuple[float, float, float] = EGO_EXTENT_M

    def __call__(
        self,
        state_index: int,
        frames: Records,
        agents: Records,
        tl_faces: Records | None,
        selected_track_id: int | None = None,
    ) -> Sample:
        """Return one sample; arguments, result and errors as in :func:`l5kit.sampling.generate_agent_sample`."""
        windows, track_ids = self._cut_single(
            state_index, frames, agents, tl_faces=tl_faces, track_id=selected_track_id
        )
        if self.makes_batches:
            sample = sample_of(self._columns(windows, track_ids, None), 0)
            if "image" in sample:
                sample["image"] = channels_last(sample["image"])
        else:
            targets = self.perturb_and_find(windows, track_ids)
            picture = {"image": self._draw_single(windows, targets)}
            sample = picture | sample_of(self._state_columns(windows, targets), 0)
        return {"frame_index": state_index} | sample

    @property
    def route_map(self) -> RouteMap | None:
        """The lanes of routes; None where pictures have no route."""
        return getattr(self.rasterizer, "route_map", None)  # only those that draw routes know of them

    @property
    def makes_batches(self) -> bool:
        """Whether :meth:`make_columns` can be used: it cannot with a rasterizer that draws only single windows."""
        drawing = self._window_rasterizer
        return self.rasterizer is None or (drawing is not None and drawing.draws_windows)

    @cached_property
    def _window_rasterizer(self) -> WindowRasterizer | None:
        return self.rasterizer if isinstance(self.rasterizer, WindowRasterizer) else None

    def _columns(
        self, windows: Windows, track_ids: NumericArray | None, memory: ColumnMemory | None
    ) -> dict[str, Column]:
        targets = self.perturb_and_find(windows, track_ids)
        if self.rasterizer is None:
            return self._state_columns(windows, targets)
        return {"image": self._draw(windows, targets, memory)} | self._state_columns(windows, targets)

    def _draw(self, windows: Windows, targets: Targets, memory: ColumnMemory | None) -> Column:
        """Return the pictures (B, C, H, W); those of a device lie in memory of their rasterizer."""
        rasterizer = self._window_rasterizer
        if rasterizer is None:
            raise UnsupportedValueError(f"{self.rasterizer!r} draws no batches; make the samples one by one")
        images = None
        if memory is not None and rasterizer.image_device == "cpu":
            images = memory("image", rasterizer.images_shape(len(windows)), rasterizer.image_dtype)
        return rasterizer.rasterize_windows(windows, targets, images)

    def _state_columns(self, windows: Windows, targets: Targets) -> dict[str, Column]:
        """Return where the targets are, were and will be, in the order of the keys of a sample."""
        states = trace_targets(windows, targets)
        found = trajectories(states, targets, self.times, num_history=windows.num_history)
        return self.state_columns(found, self.pose_columns(windows, targets))

    def state_columns(self, found: Trajectories, of_pose: Mapping[str, Any]) -> dict[str, Any]:
        """Return where targets are, were and will be, by key: arrays, or tensors where ``found`` has tensors."""
        past, future = found.past, found.future
        columns = {
            "target_positions": future.positions_m,
            "target_yaws": future.yaws_rad,
            "target_velocities": found.future_velocities_mps,
            "target_availabilities": future.availabilities,
            "history_positions": past.positions_m,
            "history_yaws": past.yaws_rad,
            "history_velocities": found.past_velocities_mps,
            "history_availabilities": past.availabilities,
            "history_extents": past.extents_m,
            "future_extents": future.extents_m,
            **of_pose,
        }
        if found.past_velocities_mps.shape[1] > 0:
            columns["curr_speed"] = found.speeds_mps
        return columns

    def pose_columns(self, windows: Windows, targets: Targets) -> dict[str, Column]:  # noqa: ARG002
        """Return where the targets (B,) are now: the columns that need no other frame."""
        world_from_agent, agent_from_world = targets.world_from_agent, targets.agent_from_world
        raster_from_world = self.render_context.raster_from_local @ agent_from_world
        return {
            "world_to_image": raster_from_world,
            "raster_from_world": raster_from_world,
            "raster_from_agent": raster_from_world @ world_from_agent,
            "agent_from_world": agent_from_world,
            "world_from_agent": world_from_agent,
            "centroid": targets.centroids_m,
            "yaw": targets.yaws_rad.astype(np.float64, copy=False),
            "extent": targets.extents_m,
        }

    def _draw_single(self, windows: Windows, targets: Targets) -> RasterPictures:
        """Return the picture of one window, or several by name, by a rasterizer of any kind, channels last."""
        rasterizer: Any = self.rasterizer
        frames = windows.history(0)
        window = (
            frames,
            windows.agents.frames_of(0, len(frames)),
            windows.tl_faces.frames_of(0, len(frames)),
            None if targets.rows is None else windows.agents.take(targets.rows)[0],
        )
        if hasattr(rasterizer, "rasterize_planar"):
            planes = rasterizer.rasterize_planar(*window)
        else:  # a user's own, not derived from Rasterizer
            planes = channels_first(rasterizer.rasterize(*window))
        return channels_last(planes)
