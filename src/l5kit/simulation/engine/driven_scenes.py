"""Driven scenes: result of a simulation of a batch, with the errors of failed scenes and scores of the others."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Float64Array, FloatArray, Int64Array, RecordArray
from l5kit.data.record_buffer import RecordBuffer
from l5kit.data.scene_arrays import SceneArrays
from l5kit.data.scene_records import SceneRecords
from l5kit.evaluation.driving.ego_states import EgoStates
from l5kit.evaluation.driving.road_users import RoadUsers
from l5kit.evaluation.driving.scene_score import SceneDetails, detail_scenes
from l5kit.evaluation.driving.scene_states import AgentColumns, join_road_users, read_road_users
from l5kit.simulation.engine.scene_batch import SceneBatch, stack_ego_frames


@dataclass(frozen=True)
class SceneFault:
    """Reason why a scene could not be driven to its end.

    Attributes:
        scene_index: Index of the scene in its log.
        frame_index: Current frame at the time of the error, counted in the scene.
        track_id: Agent concerned; None for the AV, or for no particular one.
        message: Description of the error.
    """

    scene_index: int
    frame_index: int
    track_id: int | None
    message: str

    def __str__(self) -> str:
        track = "" if self.track_id is None else f", track {self.track_id}"
        return f"scene {self.scene_index}, frame {self.frame_index}{track}: {self.message}"


@dataclass(frozen=True, eq=False)
class EgoMotion:
    """Speeds and accelerations of the AVs of S scenes of up to F frames, if a vehicle model provides them.

    Attributes:
        speeds_mps: At least 0, (S, F).
        accelerations_mps2: Along the heading and to the left of it, (S, F, 2).
        steering_rad: Angles of the front wheels, left positive, (S, F).
    """

    speeds_mps: Float64Array
    accelerations_mps2: Float64Array
    steering_rad: Float64Array


@dataclass(frozen=True, eq=False)
class DrivenScenes:
    """The scenes of a batch after a simulation.

    Attributes:
        batch: The scenes as logged.
        buffer: Final records of all frames, including those before the start of a scene.
        faults: Errors by scene of the batch; all other scenes were driven to their end.
        motion: Speeds and accelerations of the AVs from the start of each scene on; None for differences of poses.
        plans: Plans of the drivers of the AVs in each step, if kept: world poses (S, F, T, 3), NaN without a plan;
            float32, or float64 if some coordinates are too large for float32.
        plan_times_s: Times of the poses of plans, seconds from the frame of the plan, (T,).
        was_driven: Mask of the tracks that a driver moved in any frame, (T,).
        by_fallback: For each frame from the start on, whether the step from it was driven by a fallback, 1 or 0, and -1
            for drivers without fallback and frames without a step, (S, F).
    """

    batch: SceneBatch
    buffer: RecordBuffer
    faults: dict[int, SceneFault]
    motion: EgoMotion | None
    plans: FloatArray | None
    plan_times_s: Float64Array | None
    was_driven: BoolArray
    by_fallback: Int64Array

    @property
    def finished(self) -> Int64Array:
        """Scenes of the batch that were driven to their end, ascending, (K,)."""
        return np.array([scene for scene in range(len(self.batch)) if scene not in self.faults], np.int64)

    def records(self, scene: int) -> SceneRecords:
        """Return the simulated frames of a scene, with copies of their rows."""
        batch = self.batch
        return self.buffer.scene(scene).cut(int(batch.starts[scene]), int(batch.stops[scene]))

    def arrays(self, scene: int) -> SceneArrays:
        """Return the simulated frames of a scene, as plain arrays."""
        return SceneArrays.of_records(self.records(scene))

    def ego_states(self, scenes: Int64Array | None = None) -> EgoStates:
        """Return the driven states of the AVs, padded to the longest scene.

        Args:
            scenes: Scenes of the batch; None for those that were driven to their end.
        """
        chosen = self._chosen(scenes)
        states = stack_ego_frames([self._frames(scene) for scene in chosen.tolist()]).states(self.batch.body)
        if self.motion is None:
            return states
        frames = slice(states.is_there.shape[1])
        return replace(
            states,
            speeds_mps=self.motion.speeds_mps[chosen, frames],
            accelerations_mps2=self.motion.accelerations_mps2[chosen, frames],
        )

    def road_users(
        self, scenes: Int64Array | None = None, *, threshold: float | None = None, include_unknown: bool = False
    ) -> RoadUsers:
        """Return the road users of the simulated frames, like ``read_road_users`` of :meth:`arrays`.

        Args:
            scenes: Scenes of the batch; None for those that were driven to their end.
            threshold: A road user has a class if the probability of its label is above this; None for the value of the
                batch.
            include_unknown: Whether rows of unknown class count as other objects at rest; otherwise they are skipped.

        Raises:
            InvalidArgumentError: A road user has a value that is not finite.
        """
        chosen = self._chosen(scenes)
        frames = [self._frames(scene) for scene in chosen.tolist()]
        return join_road_users(
            (AgentColumns.of_records(each, self.buffer.agents) for each in frames),
            num_frames=max(map(len, frames), default=0),
            threshold=self.batch.threshold if threshold is None else threshold,
            include_unknown=include_unknown,
        )

    def expert(self, scenes: Int64Array | None = None) -> EgoStates:
        """Return the logged states of the AVs in the same scenes; ``scenes`` as in :meth:`ego_states`."""
        return self.batch.expert.taken(self._chosen(scenes))

    def _chosen(self, scenes: Int64Array | None) -> Int64Array:
        """Return scenes of the batch; None stands for those that were driven to their end."""
        return self.finished if scenes is None else np.asarray(scenes, np.int64)

    def _frames(self, scene: int) -> RecordArray:
        """Return the simulated frames of a scene, a view."""
        first = int(self.buffer.scene_starts[scene])
        return self.buffer.frames[first + int(self.batch.starts[scene]) : first + int(self.batch.stops[scene])]


LEAST_WAY_M: Final = 0.1
"""Least distance that planner or log must drive for a scene to have a score."""


@dataclass(frozen=True, eq=False)
class ScoredDrives:
    """Driven scenes of one length, S of them, with their scores.

    Attributes:
        scenes: Scenes of the batch, (S,).
        arrays: Boxes of the other road users, used for scoring.
        details: The metrics, and their inputs.
        distances_m: Distances driven by the centres of the AVs, (S,).
        expert_distances_m: The same for the log, (S,).
    """

    scenes: Int64Array
    arrays: list[SceneArrays]
    details: SceneDetails
    distances_m: Float64Array
    expert_distances_m: Float64Array

    @property
    def has_score(self) -> BoolArray:
        """Whether the AV moves here or in the log, (S,); a stationary planner would otherwise get a full score."""
        return (self.details.states.num_frames > 1) & (
            np.maximum(self.distances_m, self.expert_distances_m) >= LEAST_WAY_M
        )


def score_drives(driven: DrivenScenes, truth: Mapping[int, SceneArrays] | None = None) -> Iterator[ScoredDrives]:
    """Yield all scenes that were driven to their end, grouped by length.

    So no sum includes frames that only another scene has.

    Args:
        driven: The scenes.
        truth: True boxes of other road users in the driven frames, by scene of the batch; None for their simulated
            boxes.
    """
    lengths = driven.batch.stops - driven.batch.starts
    for length in np.unique(lengths[driven.finished]).tolist():
        scenes = driven.finished[lengths[driven.finished] == length]
        arrays = [driven.arrays(scene) if truth is None else truth[scene] for scene in scenes.tolist()]
        states, expert = driven.ego_states(scenes), driven.expert(scenes)
        road_users = read_road_users(arrays, threshold=driven.batch.threshold)
        details = detail_scenes(states, road_users, driven.batch.driving_map, expert=expert)
        yield ScoredDrives(scenes, arrays, details, _driven_distances(states), _driven_distances(expert))


def _driven_distances(states: EgoStates) -> Float64Array:
    """Return the distances driven by the centres of the AVs, given that all frames exist, (S,)."""
    steps_m = np.diff(states.positions_m, axis=1)
    distances_m: Float64Array = np.sqrt((steps_m**2).sum(axis=-1)).sum(axis=1)
    return distances_m
