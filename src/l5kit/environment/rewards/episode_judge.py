"""Episode judge: what steps of all slots of a simulation are worth, summed over their episodes, and which are over."""

import itertools
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from l5kit._types import Int64Array
from l5kit.device.backend import DeviceArray
from l5kit.environment.rewards.driving_reward import DrivingReward
from l5kit.environment.rewards.step_faults import FaultArrays, surface_arrays
from l5kit.environment.rewards.step_judge import JudgeRoom, StepArrays, WorthArrays, judge_step
from l5kit.environment.slots.slot_simulation import SlotSimulation
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.environment.traffic.traffic_steps import SlotPlaces

__all__ = ["GOES_ON", "IS_BAD", "IS_OVER", "EpisodeArrays", "EpisodeJudge"]

GOES_ON, IS_OVER, IS_BAD = range(3)
"""States of an environment after a step: the last one has been given an action that is none."""


class EpisodeArrays(NamedTuple):
    """How the episodes of N slots stand, with T terms.

    Attributes:
        sums: Totals and terms of the episodes so far, float64 (N, 1 + T).
        is_terminated: Whether the last step has ended the task, bool (N,).
        is_truncated: Whether it has reached the last frame of an episode without that, bool (N,).
        states: ``GOES_ON``, ``IS_OVER`` or ``IS_BAD``, int8 (N,).
    """

    sums: DeviceArray
    is_terminated: DeviceArray
    is_truncated: DeviceArray
    states: DeviceArray


class EpisodeJudge:
    """Judges the steps of all slots of a simulation by the rules and numbers of a driving reward.

    Args:
        reward: Has weights, and says what ends episodes; it stays as it is.
        simulation: The AVs.
        step_time_s: Seconds of a step.

    Attributes:
        worth: What the last steps were worth, as kernels take it, in memory that is used again, like the next one.
        episodes: How the episodes stand.
    """

    def __init__(self, reward: DrivingReward, simulation: SlotSimulation, *, step_time_s: float) -> None:
        backend, size, driving_map = simulation.backend, len(simulation), simulation.roads.driving_map
        self._simulation = simulation
        self._rules = backend.shared(reward.rules(step_time_s))
        self._surface = backend.shared(surface_arrays(driving_map))
        self._memory = FaultArrays(
            tracks=backend.zeros((size, _most_tracks(simulation.bank)), np.int64),
            num_tracks=backend.zeros(size, np.int64),
            areas=backend.full((size, 4), -1, np.int64),
        )
        self._room = JudgeRoom.make(backend, size, driving_map)
        self.worth = WorthArrays.make(backend, size)
        self.episodes = EpisodeArrays(
            sums=backend.zeros((size, 1 + len(reward.terms)), np.float64),
            is_terminated=backend.zeros(size, np.bool_),
            is_truncated=backend.zeros(size, np.bool_),
            states=backend.zeros(size, np.int8),
        )
        backend.wait()  # for what other streams may read

    def judge(self, last_frames: DeviceArray, is_bad: DeviceArray) -> None:
        """Judge the step that all slots have just done, all of which have started.

        Args:
            last_frames: The last frame of each episode, counted in its scene, int64 (N,) on the device.
            is_bad: Whose action was none, bool (N,) on the device.
        """
        simulation, backend, size = self._simulation, self._simulation.backend, len(self._simulation)
        own = (self._memory, self._surface, self._rules, self._room, self.worth)
        backend.run(judge_step, size, simulation.slots, simulation.is_new, self._step(), *own)
        ends = (simulation.traffic.places, last_frames, is_bad)
        backend.run(_count_step, size, simulation.is_new, ends, self.worth, self.episodes)

    def _step(self) -> StepArrays:
        """Return the step that all slots have done."""
        roads, avs = self._simulation.roads, self._simulation.avs
        bank, rows = roads.traffic.arrays, roads.rows(roads.every)
        return StepArrays(
            boxes=avs.boxes,
            motions=avs.motions,
            motions_before=avs.motions_before,
            places=roads.now.places,
            places_before=roads.before.places,
            expert_arcs_m=roads.now.expert_arcs_m,
            expert_arcs_before_m=roads.before.expert_arcs_m,
            rows=rows.scene_rows,
            sizes=rows.sizes,
            track_rows=rows.track_rows,
            paths=bank.paths,
            routes=roads.now.routes,
            light_frames=roads.before.frames,
            light_starts=bank.lights.starts,
            light_ranks=bank.lights.ranks,
        )


def _most_tracks(bank: SceneBank) -> int:
    """Return how many tracks the scene has that has most of them, at least 1; each collides once at most."""
    bounds: Int64Array = bank.rows.starts[bank.frame_starts]
    tracks = bank.rows.tracks
    counts = [len(np.unique(tracks[first:end])) for first, end in itertools.pairwise(bounds.tolist())]
    return max(1, *counts)


@njit(nogil=True, cache=True, error_model="numpy")
def _count_step(item: int, arguments: tuple[Any, ...]) -> None:
    """Add what a step was worth to the sums of its episode, and write whether that is over.

    Arguments: which episodes begin, (N,); places of all slots, last frames of episodes, counted in their scenes, and
    which actions were none; WorthArrays; EpisodeArrays, which are written.
    """
    is_new, (places, last_frames, is_bad), worth, episodes = arguments
    worth, episodes = WorthArrays(*worth), EpisodeArrays(*episodes)
    sums, terms, begins, is_failed = episodes.sums[item], worth.terms[item], is_new[item], worth.is_failed[item]
    is_at_end = not begins and SlotPlaces(*places).frames[item] >= last_frames[item]
    sums[0] = worth.totals[item] + (0.0 if begins else sums[0])
    for column in range(len(terms)):
        sums[1 + column] = terms[column] + (0.0 if begins else sums[1 + column])
    episodes.is_terminated[item], episodes.is_truncated[item] = is_failed, is_at_end and not is_failed
    episodes.states[item] = GOES_ON
    if is_bad[item] and not begins:
        episodes.states[item] = IS_BAD
    elif is_failed or is_at_end:
        episodes.states[item] = IS_OVER
