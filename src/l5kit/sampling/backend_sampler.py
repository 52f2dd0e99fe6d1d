"""Sampler on a backend: the columns of samples whose windows lie there, of pictures and of vectors."""

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
"""Of a window: where its rows, the AV and the target are."""


class BackendSampler:
    """Makes on a backend the samples that a sampler makes of windows in memory of the processor.

    Args:
        sampler: What is made, that of a dataset that a device can serve
            (:func:`~l5kit.dataset.device_samples.makes_on_device`); its perturbation is left to the caller.
        backend: The backend, to which the map is sent.
    """

    def __init__(self, sampler: AgentSampler | VectorSampler, backend: Backend) -> None:
        self._sampler = sampler
        rasterizer: Any = sampler.rasterizer if isinstance(sampler, AgentSampler) else None
        self._rasterizer = None if rasterizer is None else BackendRasterizer(rasterizer, backend)
        self._context = None if rasterizer is None else rasterizer.render_context
        self._map = send_map(sampler.vectorizer.vector_map, backend) if isinstance(sampler, VectorSampler) else None

    def scratch_bytes(self, most_agents: int) -> int:
        """Return how much memory a sample takes while it is made, beside what it holds.

        Args:
            most_agents: The most agents of any frame of the log.
        """
        if self._map is not None:
            return 0  # vectorizers cut batches into parts where they need much memory
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
            here: On the processor, the windows, of which the newest frame may be the only one, and whom they are about.
            added: Columns of the processor that come with them, (B, ...).

        Raises:
            CorruptedDataError: An agent around a target has a track id that vector samples cannot hold.
        """
        backend = log.backend
        of_pose = {key: np.asarray(column) for key, column in self._sampler.pose_columns(*here).items()}

        # what only drawing needs: pixels from world metres, and the middles of the pictures in the world
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

        # what samples do not keep of the past of targets is no part of the lines around them, either
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
    """Return the lights of the map that a sampler draws or makes lines of; None without any."""
    if isinstance(sampler, VectorSampler):
        return sampler.vectorizer.vector_map.lights if isinstance(sampler.vectorizer, Vectorizer) else None
    rasterizer = getattr(sampler, "rasterizer", None)
    of_map = getattr(rasterizer, "sem_rast", rasterizer)
    return of_map.lights if isinstance(of_map, SemanticRasterizer) else None


def send_columns(
    backend: Backend, columns: Mapping[str, NumericArray], targets: Targets
) -> tuple[dict[str, DeviceArray], TargetArrays]:
    """Return columns, and what kernels ask of targets, on a backend, all of it sent together.

    Args:
        backend: The backend.
        columns: The columns, (B, ...).
        targets: Whom the windows of the batch are about.
    """
    has_tracks, *arrays = targets.arrays
    sent = backend.upload([*arrays, *columns.values()])
    of_targets, of_columns = sent[: len(arrays)], sent[len(arrays) :]
    return dict(zip(columns, of_columns, strict=True)), TargetArrays(has_tracks, *of_targets)
