"""Sampler of vectors: samples of the AV or of agents with polylines of what is around, one by one or in batches."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from l5kit._types import Column, Int64Array, NumericArray, Records, Sample
from l5kit.configs.parameters import VectorSamplingParams
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.data.log_facts import EGO_EXTENT_M
from l5kit.data.windows import Targets, Windows
from l5kit.kinematic.perturbation import Perturbation
from l5kit.lanes.route_map import RouteMap
from l5kit.sampling.poses import Trajectories, trajectories
from l5kit.sampling.sample_columns import ColumnMemory, sample_of
from l5kit.sampling.targets import trace_targets
from l5kit.sampling.window_sampler import WindowSampler
from l5kit.vectorization.vectorizer import Vectorizer

AV_TYPE = PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_CAR"]
"""Label of the AV in ``type`` of a sample."""

_STATE_KEYS: Final = (
    "extent",
    "type",
    "agent_from_world",
    "world_from_agent",
    "target_positions",
    "target_yaws",
    "target_extents",
    "target_availabilities",
    "history_positions",
    "history_yaws",
    "history_extents",
    "history_availabilities",
    "centroid",
    "yaw",
    "speed",
)


@dataclass(frozen=True)
class VectorSampler(WindowSampler):
    """Makes vector samples with fixed parameters.

    Attributes:
        params: How a sample is cut out of a scene.
        vectorizer: Gives what is around the target: a :class:`Vectorizer`, or anything with its ``vectorize``.
        perturbation: Moves the AV's frames; None for the log as it is.
        ego_extent_m: Length, width and height of the AV in single samples; windows of batches have theirs.
    """

    params: VectorSamplingParams
    vectorizer: Any
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
        """Return one sample; see :func:`l5kit.sampling.agent_sampling_vectorized.generate_agent_sample_vectorized`."""
        windows, track_ids = self._cut_single(
            state_index, frames, agents, tl_faces=tl_faces, track_id=selected_track_id
        )
        if self.makes_batches:
            sample = sample_of(self._columns(windows, track_ids, None), 0)
        else:
            targets = self.perturb_and_find(windows, track_ids)
            found = self._trajectories(windows, targets)
            sample = sample_of(self.state_columns(found, self.pose_columns(windows, targets)), 0)
            sample |= self._vectorize_single(windows, targets, sample)
        if selected_track_id is None:
            sample["type"] = int(sample["type"])
        return sample

    @property
    def route_map(self) -> RouteMap | None:
        """The lanes of routes; None where samples tell of no route."""
        return getattr(self.vectorizer, "route_map", None)  # a vectorizer of one's own need not know of routes

    @property
    def makes_batches(self) -> bool:
        """Whether :meth:`make_columns` can be used: it cannot with a vectorizer that takes only single windows."""
        return isinstance(self.vectorizer, Vectorizer) and self.vectorizer.vectorizes_windows

    def _columns(
        self,
        windows: Windows,
        track_ids: NumericArray | None,
        memory: ColumnMemory | None,  # noqa: ARG002
    ) -> dict[str, Column]:
        targets = self.perturb_and_find(windows, track_ids)
        found = self._trajectories(windows, targets)
        surroundings: dict[str, Column] = self.vectorizer.vectorize_windows(windows, targets, found.past)
        return self.state_columns(found, self.pose_columns(windows, targets)) | surroundings

    def _trajectories(self, windows: Windows, targets: Targets) -> Trajectories:
        """Return where the targets were, as far as it is kept, and will be."""
        states = trace_targets(windows, targets)
        found = trajectories(states, targets, self.times, num_history=windows.num_history)
        self.forget_older(found)
        return found

    def forget_older(self, found: Trajectories) -> None:
        """Write zeros to the steps of the past that are not kept of targets."""
        for array in found.past.as_arrays():
            array[:, self.params.history_num_frames_ego + 1 :] = 0

    def state_columns(self, found: Trajectories, of_pose: Mapping[str, Any]) -> dict[str, Any]:
        """Return who targets are, where they were and will be: arrays, or tensors where ``found`` has tensors."""
        past, future = found.past, found.future
        is_of_future = found.future_velocities_mps.shape[1] > 0 and not self.params.speed_from_history
        columns = {
            **of_pose,
            "target_positions": future.positions_m,
            "target_yaws": future.yaws_rad,
            "target_extents": future.extents_m,
            "target_availabilities": future.flags,
            "history_positions": past.positions_m,
            "history_yaws": past.yaws_rad,
            "history_extents": past.extents_m,
            "history_availabilities": past.flags,
            "speed": found.next_speeds_mps if is_of_future else found.speeds_mps,
        }
        return {key: columns[key] for key in _STATE_KEYS}

    def pose_columns(self, windows: Windows, targets: Targets) -> dict[str, NumericArray]:
        """Return who the targets (B,) are and where they are now: the columns that need no other frame."""
        return {
            "extent": targets.extents_m,
            "type": _types(windows, targets),
            "agent_from_world": targets.agent_from_world,
            "world_from_agent": targets.world_from_agent,
            "centroid": targets.centroids_m,
            "yaw": targets.yaws_rad.astype(np.float64, copy=False),
        }

    def _vectorize_single(self, windows: Windows, targets: Targets, sample: Sample) -> Sample:
        """Return what a vectorizer of any kind gives for one window."""
        history, future = windows.history(0), windows.future(0)
        of_future = windows.agents.frames(windows.num_history, windows.num_history + len(future))
        surroundings: Sample = self.vectorizer.vectorize(
            None if targets.track_ids is None else int(targets.track_ids[0]),
            sample["centroid"],
            sample["yaw"],
            sample["agent_from_world"],
            history,
            windows.agents.frames_of(0, len(history)),
            windows.tl_faces.frames_of(0, len(history)),
            sample["history_positions"],
            sample["history_yaws"],
            sample["history_availabilities"],
            future,
            of_future.frames_of(0, len(future)),
        )
        return surroundings


def _types(windows: Windows, targets: Targets) -> Int64Array:
    """Return the most likely label of each target, (B,)."""
    if targets.rows is None:
        return np.full(len(targets), AV_TYPE, np.int64)
    rows = windows.agents.take(targets.rows)
    labels: Int64Array = rows["label_probabilities"].argmax(axis=1).astype(np.int64)
    return labels
