"""Choice of episodes: scene and first frame of the next episode, for one environment or many."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import numpy as np
from gymnasium.utils import seeding

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit._warning import warn_caller
from l5kit.data.record_sequence import column_of
from l5kit.data.records import FRAME_INTERVAL
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import CorruptedDataError, InvalidArgumentError

FIRST_FRAME = 1
"""Frame of the first action of an episode; the frame before it gives the speed."""

FEWEST_FRAMES = FIRST_FRAME + 2

_MOST_SCENES_MEASURED = 10

_FORGETTING = 0.1

_SELDOM = 0.01
"""Scenes with a smaller share of failed episodes are treated as without failures."""


class EpisodeStart(NamedTuple):
    """Start of an episode.

    Attributes:
        scene: Scene of the episode.
        first_frame: First frame of the episode, counted in the scene.
        num_frames: Number of frames of the episode.
    """

    scene: int
    first_frame: int
    num_frames: int


@dataclass
class EpisodeChoice:
    """Rules for drawing episodes, and the scenes that are skipped.

    Attributes:
        lengths: Number of frames of each scene of the log, int64 (S,).
        max_scene_id: Episodes are of scenes with smaller ids.
        overfit_id: The only scene; None for several.
        is_anywhere: Whether episodes start at a random frame of their scene.
        num_frames: Frames of an episode; None for all of the scene.
        first_frame: First frame of episodes without a random or requested start.
        check_scene: Raises ``CorruptedDataError`` for a damaged scene; called once for each.
        strict: Whether a damaged scene is an error. Else it is skipped with a warning.
        damaged: Scenes that were found to be damaged; they are skipped.
        too_short: Scenes with too few frames; they are skipped, as others have enough.
    """

    lengths: Int64Array = field(repr=False)
    max_scene_id: int
    overfit_id: int | None
    is_anywhere: bool
    num_frames: int | None
    first_frame: int = 0
    check_scene: Callable[[int], None] = field(default=lambda _: None, repr=False)
    strict: bool = False
    damaged: set[int] = field(default_factory=set)
    too_short: set[int] = field(default_factory=set)
    _checked: set[int] = field(default_factory=set, repr=False)

    @property
    def measured_scenes(self) -> list[int]:
        """Scenes used to measure the scales of actions: the first ones that are not damaged.

        Raises:
            CorruptedDataError: The only scene is damaged, or all are, or one is and ``strict`` is set.
        """
        return self._first_sound(_MOST_SCENES_MEASURED)

    @property
    def sound_scenes(self) -> list[int]:
        """All scenes that are not damaged; each is checked.

        Raises:
            CorruptedDataError: As in ``measured_scenes``.
        """
        return self._first_sound(None)

    def _first_sound(self, most: int | None) -> list[int]:
        if self.overfit_id is not None:
            return [self.overfit_id] if self._is_sound(self.overfit_id, is_needed=True) else []
        sound = (scene for scene in range(self.max_scene_id) if self._is_sound(scene, is_needed=False))
        scenes = list(islice(sound, most))
        if not scenes:
            raise self._no_scene_left()
        return scenes

    @property
    def longest(self) -> int:
        """Number of frames of the longest episode."""
        return int(self.lengths.max()) if self.num_frames is None else self.num_frames

    def draw(
        self, generator: np.random.Generator, wanted: Mapping[str, int], *, next_id: int | None = None
    ) -> EpisodeStart:
        """Return the start of the next episode; damaged scenes are skipped, each with a warning.

        Args:
            generator: Random generator.
            wanted: Result of :func:`~l5kit.environment.gym_types.read_options`.
            next_id: Next scene, if scenes are taken in order; the last one is repeated. None draws a scene.

        Raises:
            InvalidArgumentError: The scene or frame does not exist, or too few frames are left.
            CorruptedDataError: The requested scene is damaged, or all are, or one is and ``strict`` is set.
        """
        requested = wanted.get("scene_id")
        is_free = not wanted and self.overfit_id is None
        while True:
            # always draw, so that the generator advances in the same way
            scene = int(generator.integers(0, self.max_scene_id))
            if requested is not None:
                if not 0 <= requested < len(self.lengths):
                    raise InvalidArgumentError(
                        f"options['scene_id'] is {requested}; there are scenes 0 to {len(self.lengths) - 1}"
                    )
                scene = int(requested)
            elif self.overfit_id is not None:
                scene = self.overfit_id
            elif next_id is not None:
                scene = min(next_id, self.max_scene_id - 1)
            is_sound = self._is_sound(scene, is_needed=requested is not None or self.overfit_id is not None)
            if is_sound and not (is_free and self._is_too_short(scene)):
                return self.draw_start(generator, scene, requested=wanted.get("start_frame_index"))
            # ordered scenes continue after the skipped one; random ones are drawn again
            if next_id is not None:
                next_id = scene + 1
            is_last = next_id is not None and next_id >= self.max_scene_id
            if is_last or (self.damaged | self.too_short).issuperset(range(self.max_scene_id)):
                raise self._no_scene_left()

    def _is_too_short(self, scene: int) -> bool:
        """Return whether a scene has too few frames while others have enough; warn the first time."""
        needed = FEWEST_FRAMES if self.num_frames is None else self.num_frames
        needed += 0 if self.is_anywhere else max(self.first_frame, 0)
        # if all scenes are too short, the configuration is wrong: an error later
        if self.lengths[scene] >= needed or self.lengths[: self.max_scene_id].max() < needed:
            return False
        if scene not in self.too_short:
            self.too_short.add(scene)
            warn_caller(
                f"scene {scene} is left out: it has {int(self.lengths[scene])} frames, and episodes need {needed}; "
                "reduce num_simulation_steps to use all scenes"
            )
        return True

    def _no_scene_left(self) -> CorruptedDataError:
        return CorruptedDataError(
            f"no scene is left: {len(self.damaged)} of {self.max_scene_id} are damaged, and {len(self.too_short)} too "
            "short; run l5kit validate on the dataset and restore it from its source"
        )

    def _is_sound(self, scene: int, *, is_needed: bool) -> bool:
        """Return whether a scene is not damaged; raise if it is damaged but needed."""
        if scene in self._checked:
            return True
        if scene not in self.damaged or is_needed or self.strict:
            try:
                self.check_scene(scene)
            except CorruptedDataError as error:
                if is_needed or self.strict:
                    raise CorruptedDataError(f"scene {scene} is damaged: {error}") from error
                self.damaged.add(scene)
                warn_caller(f"scene {scene} is left out: {error}")
            else:
                self._checked.add(scene)
        return scene in self._checked

    def draw_start(self, generator: np.random.Generator, scene: int, *, requested: int | None = None) -> EpisodeStart:
        """Return the start of an episode in a scene; with random starts a frame is always drawn, even if unused.

        Args:
            generator: Random generator.
            scene: The scene.
            requested: Requested first frame; None for the usual one.

        Raises:
            InvalidArgumentError: The scene has too few frames, or the frame does not exist.
        """
        available = int(self.lengths[scene])
        if requested is not None and requested < 0:
            raise InvalidArgumentError(f"options['start_frame_index'] is {requested}; it must be 0 or more")
        first_frame = self.first_frame
        if self.is_anywhere:
            needed = available if self.num_frames is None else self.num_frames
            if needed > available:
                raise InvalidArgumentError(
                    f"num_simulation_steps is {needed}, but scene {scene} has {available} frames; take fewer"
                )
            first_frame = int(generator.integers(0, available - needed + 1))
        if requested is not None:
            first_frame = requested
        # a requested or configured start must leave enough frames
        num_frames = available - first_frame if self.num_frames is None else self.num_frames
        if first_frame < 0:
            raise InvalidArgumentError(f"start_frame_index of sim_cfg is {first_frame}; it must be 0 or more")
        if num_frames < FEWEST_FRAMES:
            raise InvalidArgumentError(
                f"an episode needs {FEWEST_FRAMES} frames or more, got {max(num_frames, 0)} of scene {scene}; change "
                "num_simulation_steps or start_frame_index of sim_cfg"
            )
        if first_frame + num_frames > available:
            raise InvalidArgumentError(
                f"start_frame_index {first_frame} and num_simulation_steps {num_frames} need "
                f"{first_frame + num_frames} frames, but scene {scene} has {available}"
            )
        return EpisodeStart(scene, first_frame, num_frames)


class EpisodeDraws:
    """Draws of N environments; the same seed gives the same episodes, independently of other environments.

    Args:
        choice: Rules for drawing.
        num_envs: N.
        failed_share: Share of episodes, 0 to 1, that are of scenes with recent failures, in proportion to their failure
            rates. Above 0, the draws of an environment depend on the results of all of them.
    """

    def __init__(self, choice: EpisodeChoice, num_envs: int, *, failed_share: float = 0.0) -> None:
        self._choice, self._failed_share = choice, failed_share
        self._failures: Float64Array = np.zeros(len(choice.lengths))
        self._generators = [seeding.np_random(None)[0] for _ in range(num_envs)]

    def seed(self, slots: Int64Array, seed: int | Sequence[int | None] | None) -> None:
        """Seed the generators of environments (B,).

        Args:
            slots: The environments.
            seed: One for each of the N environments, or a number for the first one and the next numbers for the rest;
                None keeps the generators.

        Raises:
            InvalidArgumentError: The number or type of seeds is wrong.
        """
        seeds: Sequence[int | None]
        num_envs = len(self._generators)
        if seed is None:
            seeds = [None] * num_envs
        elif isinstance(seed, int | np.integer):
            seeds = [int(seed) + index for index in range(num_envs)]
        elif not isinstance(seed, Sequence | np.ndarray) or isinstance(seed, str):
            raise InvalidArgumentError(f"seed is {seed!r}; pass a whole number, a list of them, or None")
        elif len(seed) != num_envs:
            raise InvalidArgumentError(f"seed must be one for each of {num_envs} environments, got {len(seed)}")
        else:
            seeds = [int(each) if isinstance(each, np.integer) else each for each in seed]
        # build all generators before any is replaced, so that an invalid seed changes nothing
        seeded = {slot: seeding.np_random(seeds[slot])[0] for slot in slots.tolist() if seeds[slot] is not None}
        for slot, generator in seeded.items():
            self._generators[slot] = generator

    def draw(self, slots: Int64Array, wanted: Mapping[str, int]) -> Int64Array:
        """Return scenes, first frames and frame counts of the next episodes of environments (B,), (3, B).

        Args:
            slots: The environments.
            wanted: Requested scene and frame, as :func:`~l5kit.environment.gym_types.read_options` returns them.

        Raises:
            InvalidArgumentError: The scene or frame does not exist, or too few frames are left.
            CorruptedDataError: The requested scene is damaged, or all are.
        """
        # Without a request, a share of the episodes is of scenes with failures, drawn with probabilities in proportion
        # to their failure rates.
        failures = np.where(self._failures > _SELDOM, self._failures, 0.0)
        shares_failed = not wanted and self._failed_share != 0 and bool(failures.any())
        starts = []
        for slot in slots.tolist():
            generator, requested = self._generators[slot], wanted
            if shares_failed and generator.random() < self._failed_share:
                requested = {"scene_id": int(generator.choice(len(failures), p=failures / failures.sum()))}
            starts.append(self._choice.draw(generator, requested))
        return np.ascontiguousarray(np.array(starts, np.int64).T)

    def note(self, scenes: Int64Array, is_failed: BoolArray) -> None:
        """Update the failure rates of scenes (B,): exponential means over about ten episodes each."""
        if self._failed_share == 0:
            return
        for scene, failed in zip(scenes.tolist(), is_failed.tolist(), strict=True):
            self._failures[scene] += _FORGETTING * (failed - self._failures[scene])


def frames_of_scenes(log: ChunkedDataset) -> Int64Array:
    """Return the number of frames of each scene of a log, (S,); 0 if the log lacks its frames."""
    bounds = np.asarray(column_of(log.scenes, FRAME_INTERVAL), np.int64)
    starts, stops = bounds[:, 0], bounds[:, 1]
    is_there = (starts >= 0) & (starts <= stops) & (stops <= len(log.frames))
    return np.where(is_there, stops - starts, 0)
