"""Draws of episodes of many environments, each of which has a generator of its own."""

from collections.abc import Mapping, Sequence

import numpy as np
from gymnasium.utils import seeding

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.environment.episode_choice import EpisodeChoice
from l5kit.errors import InvalidArgumentError

_FORGETTING = 0.1

_SELDOM = 0.01
"""Scenes in which a smaller share of episodes has failed are as all others."""


class EpisodeDraws:
    """What N environments draw; the same seed gives the same episodes, whatever the others do.

    Args:
        choice: What is drawn.
        num_envs: N.
        failed_share: Share of the episodes that are of scenes in which episodes have failed lately, the likelier the
            more of them have; what the environments draw then hangs on all of them. 0 to 1.
    """

    def __init__(self, choice: EpisodeChoice, num_envs: int, *, failed_share: float = 0.0) -> None:
        self._choice, self._failed_share = choice, failed_share
        self._failures: Float64Array = np.zeros(len(choice.lengths))
        self._generators = [seeding.np_random(None)[0] for _ in range(num_envs)]

    def seed(self, slots: Int64Array, seed: int | Sequence[int | None] | None) -> None:
        """Seed the generators of environments (B,).

        Args:
            slots: Which ones.
            seed: One for each of the N environments, a number for the first one and those that follow it, or None to go
                on.

        Raises:
            InvalidArgumentError: There are other numbers of seeds.
        """
        seeds = self._seeds_of(seed)
        seeded = {slot: seeding.np_random(seeds[slot])[0] for slot in slots.tolist() if seeds[slot] is not None}
        for slot, generator in seeded.items():
            self._generators[slot] = generator

    def draw(self, slots: Int64Array, wanted: Mapping[str, int]) -> Int64Array:
        """Return scenes, first frames and numbers of frames of the next episodes of environments (B,), (3, B).

        Args:
            slots: Which ones.
            wanted: What is asked of the episodes, as :func:`~l5kit.environment.episode_choice.read_options` returns it.

        Raises:
            InvalidArgumentError: There is no such scene or frame, or too few frames are left.
            CorruptedDataError: The scene that is wanted is damaged, or all are.
        """
        starts = [self._choice.draw(self._generators[slot], self._wanted_of(slot, wanted)) for slot in slots.tolist()]
        return np.ascontiguousarray(np.array(starts, np.int64).T)

    def note(self, scenes: Int64Array, is_failed: BoolArray) -> None:
        """Remember how episodes of scenes (B,) have ended: a mean that forgets, over about ten of them each."""
        if self._failed_share == 0:
            return
        for scene, failed in zip(scenes.tolist(), is_failed.tolist(), strict=True):
            self._failures[scene] += _FORGETTING * (failed - self._failures[scene])

    def _wanted_of(self, slot: int, wanted: Mapping[str, int]) -> Mapping[str, int]:
        """Return what is asked of the next episode of an environment: maybe a scene in which others have failed."""
        if wanted or self._failed_share == 0:
            return wanted
        # with a probability that is in proportion to how often episodes of the scene have failed
        failures = np.where(self._failures > _SELDOM, self._failures, 0.0)
        if not failures.any():
            return wanted
        generator = self._generators[slot]
        if generator.random() >= self._failed_share:
            return wanted
        return {"scene_id": int(generator.choice(len(self._failures), p=failures / failures.sum()))}

    def _seeds_of(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        num_envs = len(self._generators)
        if seed is None:
            return [None] * num_envs
        if isinstance(seed, int | np.integer):
            return [int(seed) + index for index in range(num_envs)]
        if not isinstance(seed, Sequence | np.ndarray) or isinstance(seed, str):
            raise InvalidArgumentError(f"seed is {seed!r}; pass a whole number, a list of them, or None")
        if len(seed) != num_envs:
            raise InvalidArgumentError(f"seed must be one for each of {num_envs} environments, got {len(seed)}")
        return [int(each) if isinstance(each, np.integer) else each for each in seed]
