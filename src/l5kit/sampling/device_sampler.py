"""Samplers on a device: the columns of samples whose windows lie on a device."""

from typing import Any

import numpy as np

from l5kit._types import Column, NumericArray
from l5kit.data.device_log import DeviceLog, DeviceTargets, DeviceWindows
from l5kit.data.map.lane_lights import LaneLights
from l5kit.data.windows import Targets, Windows
from l5kit.device.backend import Backend, DeviceArray
from l5kit.geometry.transform import transform_points
from l5kit.rasterization.device_rasterizer import DeviceRasterizer, draws_on_device
from l5kit.rasterization.semantic_rasterizer import SemanticRasterizer
from l5kit.sampling.agent_sampler import AgentSampler
from l5kit.sampling.device_windows import DeviceTrajectories, trace_on_device
from l5kit.sampling.vector_sampler import VectorSampler
from l5kit.vectorization.vectorizer import Vectorizer

__all__ = ["DeviceAgentSampler", "lights_of", "send_columns", "target_arrays"]


_BYTES_PER_FRAME = 160
"""Of a window: where its rows, the AV and the target are."""


class DeviceAgentSampler:
    """Makes on a device the samples that an ``AgentSampler`` makes on the processor.

    Args:
        sampler: What is made; its perturbation is left to the caller.
        backend: The device.
    """

    def __init__(self, sampler: AgentSampler, backend: Backend) -> None:
        self._sampler = sampler
        rasterizer: Any = sampler.rasterizer
        self._rasterizer = None if rasterizer is None else DeviceRasterizer(rasterizer, backend)
        self._context = None if rasterizer is None else rasterizer.render_context

    def scratch_bytes(self, most_agents: int) -> int:
        """Return how much memory a sample takes while it is made, beside what it holds.

        Args:
            most_agents: The most agents of any frame of the log.
        """
        steps = self._sampler.steps
        of_states = _BYTES_PER_FRAME * (steps.history_num_frames + steps.future_num_frames + 1)
        return of_states + (0 if self._rasterizer is None else self._rasterizer.scratch_bytes(most_agents))

    @staticmethod
    def makes(sampler: AgentSampler) -> bool:
        """Return whether a device can make the samples of a sampler.

        It leaves pictures that have channels for fewer frames than samples have to the processor, which draws those of
        short pasts and refuses the others.
        """
        rasterizer: Any = sampler.rasterizer
        if rasterizer is None:
            return True
        boxes = getattr(rasterizer, "box_rast", rasterizer)
        num_history = getattr(boxes, "history_num_frames", sampler.steps.history_num_frames)
        return draws_on_device(rasterizer) and num_history >= sampler.steps.history_num_frames

    def columns(
        self,
        log: DeviceLog,
        windows: DeviceWindows,
        here: tuple[Windows, Targets],
        added: dict[str, NumericArray],
        extent_m: tuple[float, float],
    ) -> dict[str, Any]:
        """Return the samples of B windows as tensors on the device, one for each key.

        Args:
            log: The log of the windows.
            windows: The windows.
            here: On the processor, the windows, of which the newest frame may be the only one, and whom they are about.
            added: Columns of the processor that come with them, (B, ...).
            extent_m: Length and width of the AV.
        """
        backend, (_, targets) = log.backend, here
        of_pose = self._sampler.pose_columns(targets)
        drawn = self._drawing_arrays(targets)
        sent = send_columns(backend, {**_arrays(of_pose), **added, **target_arrays(targets), **drawn})
        on_device = DeviceTargets(
            has_tracks=targets.track_ids is not None,
            track_ids=sent.pop("_track_ids"),
            centroids_m=sent.pop("_centroids_m"),
            yaws_rad=sent.pop("_yaws_rad"),
            agent_from_world=sent.pop("_agent_from_world"),
            extent_m=extent_m,
        )
        columns: dict[str, Any] = {}
        if self._rasterizer is not None:
            matrices, centers_m = sent.pop("_raster_from_world"), sent.pop("_centers_m")
            columns["image"] = self._rasterizer.rasterize(log, windows, on_device, matrices, centers_m)
        found = trace_on_device(log, windows, on_device, self._sampler.times)
        columns |= {key: backend.tensor(array) for key, array in trajectory_columns(found).items()}
        columns |= {key: backend.tensor(sent[key]) for key in of_pose}
        if windows.num_history > 1:
            columns["curr_speed"] = backend.tensor(found.speeds_mps)
        return columns | {key: backend.tensor(sent[key]) for key in added}

    def _drawing_arrays(self, targets: Targets) -> dict[str, NumericArray]:
        """Return what only drawing needs: pixels from world metres, and the middles of the pictures in the world."""
        if self._context is None:
            return {}
        matrices = self._context.raster_from_world_many(targets.centroids_m, targets.yaws_rad)
        middles_px = np.full((len(targets), 1, 2), 0.5 * self._context.raster_size_px)
        centers_m = transform_points(middles_px, np.linalg.inv(matrices))[:, 0]
        return {"_raster_from_world": matrices, "_centers_m": centers_m}


def lights_of(sampler: Any) -> LaneLights | None:
    """Return the lights of the map that a sampler draws or makes lines of; None without any."""
    if isinstance(sampler, VectorSampler):
        return sampler.vectorizer.vector_map.lights if isinstance(sampler.vectorizer, Vectorizer) else None
    rasterizer = getattr(sampler, "rasterizer", None)
    of_map = getattr(rasterizer, "sem_rast", rasterizer)
    return of_map.lights if isinstance(of_map, SemanticRasterizer) else None


def trajectory_columns(found: DeviceTrajectories) -> dict[str, DeviceArray]:
    """Return past and future of samples, one array for each key."""
    past, future = found.past, found.future
    return {
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
    }


def target_arrays(targets: Targets) -> dict[str, NumericArray]:
    """Return what kernels ask of targets, under names that no column has."""
    track_ids = targets.track_ids
    return {
        "_track_ids": np.zeros(len(targets), np.uint64) if track_ids is None else track_ids.astype(np.uint64),
        "_centroids_m": targets.centroids_m,
        "_yaws_rad": targets.yaws_rad.astype(np.float32),
        "_agent_from_world": targets.agent_from_world,
    }


def send_columns(backend: Backend, columns: dict[str, NumericArray]) -> dict[str, DeviceArray]:
    """Return columns on a device, sent together."""
    return dict(zip(columns, backend.upload(list(columns.values())), strict=True))


def _arrays(columns: dict[str, Column]) -> dict[str, NumericArray]:
    """Return columns of the processor as the arrays that they are."""
    return {key: np.asarray(column) for key, column in columns.items()}
