"""Samplers on a device: the columns of samples whose windows lie on a device."""

from collections.abc import Mapping
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
from l5kit.sampling.agent_sampler import AgentSampler, trajectory_columns
from l5kit.sampling.device_windows import trace_on_device
from l5kit.sampling.vector_sampler import VectorSampler
from l5kit.vectorization.vectorizer import Vectorizer

__all__ = ["DeviceAgentSampler", "lights_of", "send_columns"]


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
        sent, on_device = send_columns(backend, {**_arrays(of_pose), **added, **drawn}, targets, extent_m)
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


def send_columns(
    backend: Backend, columns: Mapping[str, NumericArray], targets: Targets, extent_m: tuple[float, float]
) -> tuple[dict[str, DeviceArray], DeviceTargets]:
    """Return columns, and what kernels ask of targets, on a device, all of it sent together.

    Args:
        backend: The device.
        columns: The columns, (B, ...).
        targets: Whom the windows of the batch are about.
        extent_m: Length and width of the AV.
    """
    track_ids = targets.track_ids
    of_targets = (
        np.zeros(len(targets), np.uint64) if track_ids is None else track_ids.astype(np.uint64),
        targets.centroids_m,
        targets.yaws_rad.astype(np.float32),
        targets.agent_from_world,
    )
    track_ids_there, centroids_m, yaws_rad, agent_from_world, *sent = backend.upload([*of_targets, *columns.values()])
    on_device = DeviceTargets(
        has_tracks=track_ids is not None,
        track_ids=track_ids_there,
        centroids_m=centroids_m,
        yaws_rad=yaws_rad,
        agent_from_world=agent_from_world,
        extent_m=extent_m,
    )
    return dict(zip(columns, sent, strict=True)), on_device


def _arrays(columns: dict[str, Column]) -> dict[str, NumericArray]:
    """Return columns of the processor as the arrays that they are."""
    return {key: np.asarray(column) for key, column in columns.items()}
