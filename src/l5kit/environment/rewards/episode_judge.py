"""Episode judge: rewards of the steps of all slots, their sums over episodes, and the ends of episodes."""

import itertools
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Int64Array
from l5kit.device.backend import DeviceArray, KernelArguments
from l5kit.environment.rewards.driving_reward import DrivingReward
from l5kit.environment.rewards.step_faults import FaultArrays, surface_arrays
from l5kit.environment.rewards.step_judge import JudgeRoom, OutcomeArrays, judge_step, step_for_kernel
from l5kit.environment.slots.av_slots import AvSlots
from l5kit.environment.traffic.traffic_steps import SlotFrames

GOES_ON, IS_AT_END, IS_FAILED, IS_BAD = range(4)
"""States of an environment after a step: 0 while the episode continues; the last one means an invalid action."""


class EpisodeArrays(NamedTuple):
    """States of the episodes of N slots, with T terms.

    Attributes:
        sums: Totals and terms of the episodes so far, float64 (N, 1 + T).
        is_terminated: Whether the last step has ended the episode by a failure, bool (N,).
        is_truncated: Whether it has reached the last frame of the episode without a failure, bool (N,).
        states: ``GOES_ON``, ``IS_AT_END``, ``IS_FAILED`` or ``IS_BAD``, int8 (N,).
    """

    sums: DeviceArray
    is_terminated: DeviceArray
    is_truncated: DeviceArray
    states: DeviceArray


class EpisodeJudge:
    """Judge of the steps of all slots by the rules and weights of a driving reward.

    Args:
        reward: Driving reward with weights and failures that end episodes; not changed.
        avs: AVs with roads.

    Attributes:
        outcome: Rewards of the last actions as kernel arrays; memory is reused, also for ``episodes``.
        episodes: States of the episodes.
    """

    def __init__(self, reward: DrivingReward, avs: AvSlots) -> None:
        assert avs.roads is not None
        backend, size, driving_map = avs.backend, len(avs), avs.roads.driving_map
        self._avs, self._roads = avs, avs.roads
        self._rules = backend.shared(reward.rules(avs.step_time_s))
        self._surface = backend.shared(surface_arrays(driving_map))

        # each track of a scene can collide once, so the scene with the most tracks gives the capacity
        rows = avs.roads.bank.rows
        bounds: Int64Array = rows.starts[avs.roads.bank.frame_starts]
        counts = [len(np.unique(rows.tracks[first:end])) for first, end in itertools.pairwise(bounds.tolist())]
        self._memory = FaultArrays.make(backend, size, max(1, *counts))
        self._room = JudgeRoom.make(backend, size, driving_map)
        self._of_frame, self.outcome = OutcomeArrays.make(backend, size), OutcomeArrays.make(backend, size)
        self.episodes = EpisodeArrays(
            sums=backend.zeros((size, 1 + len(reward.terms))),
            is_terminated=backend.zeros(size, np.bool_),
            is_truncated=backend.zeros(size, np.bool_),
            states=backend.zeros(size, np.int8),
        )
        backend.wait()  # for data that other streams may read

    def judge(self, slots: DeviceArray, last_frames: DeviceArray, is_bad: DeviceArray, *, begins: bool) -> None:
        """Judge the last step of slots, whose episodes have all started.

        Args:
            slots: All slots, -1 for those that did not step.
            last_frames: Last frame of each episode, counted in its scene, int64 (N,) on the device.
            is_bad: Mask of invalid actions, bool (N,) on the device.
            begins: Whether this is the first frame of an action. Else rewards are added to those of its earlier frames.
        """
        avs, backend, boxes = self._avs, self._avs.backend, self._avs.arrays.boxes
        step = avs.step_of(self._roads.every, boxes_before=boxes, log_poses=boxes)  # these two are not used
        own = (self._memory, self._surface, self._rules, self._room, self._of_frame)
        backend.run(judge_step, len(slots), slots, avs.is_new, step_for_kernel(step), *own)
        ends = (self._roads.traffic.current, last_frames, is_bad)
        written = (self._of_frame, self.outcome, self.episodes)
        backend.run(_count_step, len(slots), slots, avs.is_new, ends, begins, *written)


@kernel_jit
def _count_step(item: int, arguments: KernelArguments) -> None:
    """Add the reward of a step to the sums of its episode, and write whether the episode is over.

    Arguments: slots (N,), -1 for none; mask of episodes that begin; current frames of all slots, last frames of
    episodes, counted in their scenes, and mask of invalid actions; whether actions begin, else their rewards add up;
    OutcomeArrays of the step; outputs: OutcomeArrays of the action, and EpisodeArrays.
    """
    slots, is_new, (current, last_frames, is_bad), begins, step, outcome, episodes = arguments
    if slots[item] < 0:
        return
    step, outcome, episodes = OutcomeArrays(*step), OutcomeArrays(*outcome), EpisodeArrays(*episodes)
    # sums are over the episode, outcomes over the frames of an action
    sums, terms, is_first, is_failed = episodes.sums[item], step.terms[item], is_new[item], step.is_failed[item]
    sums[0] = step.totals[item] + (0.0 if is_first else sums[0])
    outcome.totals[item] = step.totals[item] + (0.0 if begins else outcome.totals[item])
    for column in range(len(terms)):
        sums[1 + column] = terms[column] + (0.0 if is_first else sums[1 + column])
        outcome.terms[item, column] = terms[column] + (0.0 if begins else outcome.terms[item, column])
    for column in range(step.failures.shape[1]):
        was = not begins and outcome.failures[item, column]
        outcome.failures[item, column] = was or step.failures[item, column]
    outcome.is_failed[item] = is_failed

    # an episode that has just begun is never over, even if its action is invalid
    is_at_end = not is_first and SlotFrames(*current).frames[item] >= last_frames[item]
    episodes.is_terminated[item], episodes.is_truncated[item] = is_failed, is_at_end and not is_failed
    episodes.states[item] = GOES_ON
    if is_bad[item] and not is_first:
        episodes.states[item] = IS_BAD
    elif is_failed:
        episodes.states[item] = IS_FAILED
    elif is_at_end:
        episodes.states[item] = IS_AT_END
