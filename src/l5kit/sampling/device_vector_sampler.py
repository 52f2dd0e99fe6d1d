"""Sampler of vectors on a device: the columns of vector samples whose windows lie on a device."""

from typing import Any

import torch

from l5kit._types import NumericArray
from l5kit.data.device_log import DeviceLog, DeviceWindows
from l5kit.data.track_ids import as_sample_track_ids
from l5kit.data.windows import Targets, Windows
from l5kit.device.backend import Backend
from l5kit.sampling.device_sampler import send_columns
from l5kit.sampling.device_windows import DeviceTrajectories, trace_on_device
from l5kit.sampling.vector_sampler import VectorSampler
from l5kit.vectorization.device_vectorizer import DeviceVectorizer, PastPoses, is_supported

__all__ = ["DeviceVectorSampler"]


class DeviceVectorSampler:
    """Makes on a device the samples that a ``VectorSampler`` makes on the processor.

    Args:
        sampler: What is made; its perturbation is left to the caller.
        backend: The device.
    """

    def __init__(self, sampler: VectorSampler, backend: Backend) -> None:
        self._sampler = sampler
        self._vectorizer = DeviceVectorizer(sampler.vectorizer, backend)

    @staticmethod
    def makes(sampler: VectorSampler) -> bool:
        """Return whether a device can make the samples of a sampler."""
        return is_supported(sampler.vectorizer)

    def scratch_bytes(self, most_agents: int) -> int:  # noqa: ARG002
        """Return 0: batches are cut into parts where they need much memory."""
        return 0

    def columns(
        self,
        log: DeviceLog,
        windows: DeviceWindows,
        here: tuple[Windows, Targets],
        added: dict[str, NumericArray],
        extent_m: tuple[float, float],
    ) -> dict[str, Any]:
        """Return the samples of B windows as tensors on the device; see ``DeviceAgentSampler.columns``.

        Raises:
            CorruptedDataError: An agent around a target has a track id that samples cannot hold.
        """
        backend, (_, targets) = log.backend, here
        of_pose = self._sampler.pose_columns(*here)
        sent, on_device = send_columns(backend, {**of_pose, **added}, targets, extent_m)
        found = trace_on_device(log, windows, on_device, self._sampler.times)
        for array in found.past.as_arrays():
            backend.tensor(array)[:, self._sampler.params.history_num_frames_ego + 1 :] = 0
        past = found.past
        surroundings = self._vectorizer.vectorize(
            log,
            windows,
            on_device,
            PastPoses(past.positions_m, past.yaws_rad, past.availabilities),
            most_rows=log.most_agents * windows.num_history,
        )
        if log.has_large_ids:
            as_sample_track_ids(backend.tensor(surroundings["all_other_agents_track_ids"]).cpu().numpy())
        of_states = {key: backend.tensor(sent[key]) for key in of_pose} | self._state_columns(backend, found)
        columns = {key: of_states[key] for key in self._sampler.state_keys}
        columns |= {key: backend.tensor(array) for key, array in surroundings.items()}
        return columns | {key: backend.tensor(sent[key]) for key in added}

    def _state_columns(self, backend: Backend, found: DeviceTrajectories) -> dict[str, torch.Tensor]:
        """Return where the targets were and will be."""
        past, future = found.past, found.future
        return {
            "target_positions": backend.tensor(future.positions_m),
            "target_yaws": backend.tensor(future.yaws_rad),
            "target_extents": backend.tensor(future.extents_m),
            "target_availabilities": backend.tensor(future.availabilities).to(torch.bool),
            "history_positions": backend.tensor(past.positions_m),
            "history_yaws": backend.tensor(past.yaws_rad),
            "history_extents": backend.tensor(past.extents_m),
            "history_availabilities": backend.tensor(past.availabilities).to(torch.bool),
            "speed": self._speeds(backend, found),
        }

    def _speeds(self, backend: Backend, found: DeviceTrajectories) -> torch.Tensor:
        """Return the speeds of the targets; see ``VectorSampler``."""
        velocities_mps, speeds_mps = backend.tensor(found.future_velocities_mps), backend.tensor(found.speeds_mps)
        if velocities_mps.shape[1] > 0 and not self._sampler.params.speed_from_history:
            x_mps, y_mps = velocities_mps[:, 0, 0], velocities_mps[:, 0, 1]
            squares = x_mps * x_mps + y_mps * y_mps
            return squares.double().sqrt().float()  # rounded once: roots of float32 are not the nearest ones in torch
        return speeds_mps  # zeros where there is no past
