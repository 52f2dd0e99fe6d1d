"""Episode of several actors: an AV and vehicles of its scene, all driven by actions, seen and paid in one step."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, Int64Array, NumericArray
from l5kit.environment.actors.actor_roads import ActorRoads
from l5kit.environment.actors.vehicle_choice import Actors
from l5kit.environment.episode_choice import EpisodeStart
from l5kit.environment.episodes import EpisodeParts, Episodes
from l5kit.environment.rewards.step_reward import StepOutcome
from l5kit.environment.slots.av_slots import as_columns

_AV = np.zeros(1, np.int64)


@dataclass(frozen=True, eq=False)
class ActorSteps:
    """What became of K actors in a step.

    Attributes:
        actors: Which they are, those that were there before it, int64 (K,).
        outcome: Rewards of the step, and what went wrong in it, of each of them.
        is_failed: Which have ended by what they did, (K,).
        is_at_end: Which have ended as the log of theirs, or the episode, goes no further, (K,).
        arrived: The actors that are new, (N,).
    """

    actors: Int64Array
    outcome: StepOutcome
    is_failed: BoolArray
    is_at_end: BoolArray
    arrived: Int64Array


class ActorEpisode(Episodes):
    """One episode in which the AV is slot 0 and vehicles are slots 1 to P, while they are there.

    A vehicle acts from when it is within 100 m of the AV until its log ends. Whoever has failed acts no more: a
    vehicle leaves the scene, the AV stands.

    Args:
        parts: What it is made of, with a compact view.
        roads: What is around the actors.

    Attributes:
        roads: As above.
        is_acting: Who is there, bool (1 + P,).
    """

    def __init__(self, parts: EpisodeParts, roads: ActorRoads) -> None:
        super().__init__(parts, len(roads))
        self.roads = roads
        self.is_acting: BoolArray = np.zeros(len(roads), np.bool_)

    @property
    def acting(self) -> Int64Array:
        """The actors that are there, ascending."""
        return np.flatnonzero(self.is_acting)

    def begin_at(self, start: EpisodeStart, actors: Actors) -> None:
        """Begin an episode, in which these may act."""
        self.roads.actors = actors
        self.is_acting[:] = False
        self.begin(_AV, *(np.array([each]) for each in (start.scene, start.first_frame, start.num_frames)))
        self.is_acting[0] = True
        self._admit()

    def step(self, actions: NumericArray) -> ActorSteps:
        """Move on by one frame.

        Args:
            actions: Those of the actors that are there, in their order, (K, ...).

        Raises:
            InvalidArgumentError: An action leads to a state that is not finite; nothing has moved.
        """
        actors = self.acting
        outcome = self.drive(actors, actions)
        # who has failed has not come to an end as well
        is_failed, is_at_end = outcome.is_failed, self.is_at_end[actors] & ~outcome.is_failed
        self.is_acting[actors[is_failed | is_at_end]] = False
        return ActorSteps(actors, outcome, is_failed, is_at_end, self._admit())

    def _admit(self) -> Int64Array:
        """Begin with the vehicles that have come near, and return which they are."""
        arrived, states = self.roads.arrive(self.avs.arrays)
        if len(arrived):
            self.frame_indices[arrived] = self.roads.episode_frame
            self.lengths[arrived] = self.roads.num_frames_of(arrived)
            self.avs.put(arrived, as_columns(states, np.zeros(len(arrived))))
            self.open(arrived)
            self.is_acting[arrived] = True
        return arrived
