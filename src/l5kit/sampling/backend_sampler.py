"""Sampler on a backend: columns of samples of windows on a device, with rasters or vectors."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from l5kit._types import NumericArray
from l5kit.data.device_log import DeviceLog
from l5kit.data.index.track_ids import as_sample_track_ids
from l5kit.data.index.windows import TargetArrays, Targets, WindowArrays, Windows
from l5kit.data.map.lane_lights import LaneLights
from l5kit.device.backend import Backend, DeviceArray
from l5kit.geometry.transform import transform_points
from l5kit.rasterization.backend_rasterizer import BackendRasterizer
from l5kit.rasterization.semantic_rasterizer import SemanticRasterizer
from l5kit.sampling.samplers import AgentSampler, VectorSampler
from l5kit.sampling.tracks import trajectories_on_device
from l5kit.vectorization.vector_map import send_map
from l5kit.vectorization.vectorizer import Vectorizer

_BYTES_PER_FRAME = 160
"""Bytes of a frame of a window: rows, AV and target."""


class BackendSampler:
    """Maker of the samples of a sampler on a backend, for windows on it.

    Args:
        sampler: The sampler of a dataset that a device can serve
            (:func:`~l5kit.dataset.device_samples.makes_on_device`); the caller applies its perturbation.
        backend: The backend, to which the map is sent.
    """

    def __init__(self, sampler: AgentSampler | VectorSampler, backend: Backend) -> None:
        self._sampler = sampler
        rasterizer: Any = sampler.rasterizer if isinstance(sampler, AgentSampler) else None
        self._rasterizer = None if rasterizer is None else BackendRasterizer(rasterizer, backend)
        self._context = None if rasterizer is None else rasterizer.render_context
        self._map = send_map(sampler.vectorizer.vector_map, backend) if isinstance(sampler, VectorSampler) else None

    def scratch_bytes(self, most_agents: int) -> int:
        """Return the bytes of memory for making a sample, without the sample itself.

        Args:
            most_agents: Largest number of agents in a frame of the log.
        """
        if self._map is not None:
            return 0  # vectorizers split batches that need much memory
        steps = self._sampler.steps
        of_states = _BYTES_PER_FRAME * (steps.history_num_frames + steps.future_num_frames + 1)
        return of_states + (0 if self._rasterizer is None else self._rasterizer.scratch_bytes(most_agents))

    def columns(
        self,
        log: DeviceLog,
        windows: WindowArrays,
        here: tuple[Windows, Targets],
        added: Mapping[str, NumericArray],
    ) -> dict[str, Any]:
        """Return the samples of B windows as tensors on the backend, one for each key.

        Args:
            log: The log of the windows.
            windows: The windows.
            here: The windows on the host, possibly with the newest frame only, and their targets.
            added: Host columns to include, (B, ...).

        Raises:
            CorruptedDataError: An agent around a target has a track id beyond the range of vector samples.
        """
        backend = log.backend
        of_pose = {key: np.asarray(column) for key, column in self._sampler.pose_columns(*here).items()}

        # only needed for drawing: pixels from world metres, and the world positions of the raster centres
        drawing: dict[str, NumericArray] = {}
        if self._context is not None:
            matrices = self._context.raster_from_local @ here[1].drawn_frames
            middles_px = np.full((len(here[1]), 1, 2), 0.5 * self._context.raster_size_px)
            centers_m = transform_points(middles_px, np.linalg.inv(matrices))[:, 0]
            drawing = {"_raster_from_world": matrices, "_centers_m": centers_m}
        sent, targets = send_columns(backend, {**of_pose, **added, **drawing}, here[1])
        columns: dict[str, Any] = {}
        if self._rasterizer is not None:
            columns["image"] = self._rasterizer.rasterize(log, windows, targets, *(sent[key] for key in drawing))
        tracked = trajectories_on_device(log, windows, targets, self._sampler.times).mapped(backend.tensor)

        # past steps of targets that samples do not keep are also removed from polylines
        surroundings: dict[str, Any] = {}
        if isinstance(self._sampler, VectorSampler) and self._map is not None:
            self._sampler.forget_older(tracked)
            most_rows = log.most_agents * windows.num_history
            surroundings = self._sampler.vectorizer.vectorize_on_device(
                self._map, log, windows, targets, tracked.past, most_rows=most_rows
            )
            if log.has_large_ids:
                as_sample_track_ids(surroundings["all_other_agents_track_ids"].cpu().numpy())
        columns |= self._sampler.state_columns(tracked, {key: backend.tensor(sent[key]) for key in of_pose})
        return columns | surroundings | {key: backend.tensor(sent[key]) for key in added}


def lights_of(sampler: Any) -> LaneLights | None:
    """Return the lights of the map that a sampler draws or vectorizes; None without any."""
    if isinstance(sampler, VectorSampler):
        return sampler.vectorizer.vector_map.lights if isinstance(sampler.vectorizer, Vectorizer) else None
    rasterizer = getattr(sampler, "rasterizer", None)
    of_map = getattr(rasterizer, "sem_rast", rasterizer)
    return of_map.lights if isinstance(of_map, SemanticRasterizer) else None


def send_columns(
    backend: Backend, columns: Mapping[str, NumericArray], targets: Targets
) -> tuple[dict[str, DeviceArray], TargetArrays]:
    """Return columns, and the targets for kernels, on a backend, sent together.

    Args:
        backend: The backend.
        columns: The columns, (B, ...).
        targets: Targets of the windows of the batch.
    """
    has_tracks, *arrays = targets.arrays
    sent = backend.upload([*arrays, *columns.values()])
    of_targets, of_columns = sent[: len(arrays)], sent[len(arrays) :]
    return dict(zip(columns, of_columns, strict=True)), TargetArrays(has_tracks, *of_targets)
