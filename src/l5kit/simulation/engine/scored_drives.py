"""Scores of driven scenes, for tables of simulations and for evaluations of networks in training alike."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.scene_arrays import SceneArrays
from l5kit.evaluation.driving.ego_states import EgoStates
from l5kit.evaluation.driving.scene_score import SceneDetails, detail_scenes
from l5kit.evaluation.driving.scene_states import read_road_users
from l5kit.simulation.engine.driven_scenes import DrivenScenes

LEAST_WAY_M: Final = 0.1
"""A scene in which neither the planner nor the log comes so far has no score."""


@dataclass(frozen=True, eq=False)
class ScoredDrives:
    """Driven scenes of one length, S of them, and how well they were driven.

    Attributes:
        scenes: The scenes of the batch, (S,).
        arrays: Where others were, by which they are scored.
        details: The metrics, and what they come from.
        distances_m: How far the centres of the AVs have come, (S,).
        expert_distances_m: The same of the log, (S,).
    """

    scenes: Int64Array
    arrays: list[SceneArrays]
    details: SceneDetails
    distances_m: Float64Array
    expert_distances_m: Float64Array

    @property
    def has_score(self) -> BoolArray:
        """Where somebody drives, (S,): where nobody does, whoever stands would get all points."""
        return (self.details.states.num_frames > 1) & (
            np.maximum(self.distances_m, self.expert_distances_m) >= LEAST_WAY_M
        )


def score_drives(driven: DrivenScenes, truth: Mapping[int, SceneArrays] | None = None) -> Iterator[ScoredDrives]:
    """Yield all scenes that were driven to their end, those of one length together.

    So no sum runs over frames that only another scene has.

    Args:
        driven: The scenes.
        truth: By scene of the batch, where others truly were in the frames that were driven; None for where they were
            in the simulation.
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
    """Return how far the centres of the AVs have come, all frames being there, (S,)."""
    steps_m = np.diff(states.positions_m, axis=1)
    distances_m: Float64Array = np.sqrt((steps_m**2).sum(axis=-1)).sum(axis=1)
    return distances_m
