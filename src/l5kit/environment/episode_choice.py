"""Choice of episodes: which scene is driven next, and from which of its frames on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from l5kit._types import Int64Array
from l5kit.configs.environment import EnvironmentParams
from l5kit.data.record_sequence import column_of
from l5kit.data.records import FRAME_INTERVAL
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError

__all__ = ["FEWEST_FRAMES", "FIRST_FRAME", "EpisodeChoice", "frames_of_scenes", "read_options"]

FIRST_FRAME = 1
"""Frame of the first action of an episode: the one before it tells the speed."""

FEWEST_FRAMES = FIRST_FRAME + 2

_OPTIONS = ("scene_id", "start_frame_index")
_MOST_SCENES_MEASURED = 10


@dataclass
class EpisodeChoice:
    """What is drawn, with the rules of an environment.

    Attributes:
        lengths: Number of frames of each scene of the log, int64 (S,).
        max_scene_id: Scenes that episodes are drawn from: those before this one.
        overfit_id: The only scene; None for several.
        is_anywhere: Whether episodes start anywhere in their scene.
        num_frames: Frames of an episode; None for all of the scene.
    """

    lengths: Int64Array = field(repr=False)
    max_scene_id: int
    overfit_id: int | None
    is_anywhere: bool
    num_frames: int | None

    @classmethod
    def from_params(
        cls,
        params: EnvironmentParams,
        lengths: Int64Array,
        *,
        train: bool,
        randomize_start: bool | None,
        num_frames: int | None,
    ) -> "EpisodeChoice":
        """Return what a configuration says, and arguments that win over it.

        Args:
            params: The configuration.
            lengths: Number of frames of each scene, (S,).
            train: Whether episodes are of the training data; those of validation start where they are told.
            randomize_start: Whether they start anywhere; None for the configuration.
            num_frames: Frames of an episode; None for all of the scene.

        Raises:
            InvalidArgumentError: The log does not have the scenes.
        """
        asked = params.max_scene_id if train else params.max_val_scene_id
        num_scenes = len(lengths) if asked is None else asked
        if not 1 <= num_scenes <= len(lengths):
            raise InvalidArgumentError(f"gym_params asks for {num_scenes} scenes, but the log has {len(lengths)}")
        if params.overfit and params.overfit_id >= len(lengths):
            raise InvalidArgumentError(
                f"gym_params.overfit_id is {params.overfit_id}; there are scenes 0 to {len(lengths) - 1}"
            )
        wanted = params.randomize_start_frame if randomize_start is None else bool(randomize_start)
        return cls(lengths, num_scenes, params.overfit_id if params.overfit else None, wanted and train, num_frames)

    @property
    def measured_scenes(self) -> list[int]:
        """The scenes that the scales of actions are measured in."""
        if self.overfit_id is not None:
            return [self.overfit_id]
        return list(range(min(self.max_scene_id, _MOST_SCENES_MEASURED)))

    def draw_scene(
        self, generator: np.random.Generator, *, asked: int | None = None, next_id: int | None = None
    ) -> int:
        """Return the scene of the next episode; one is drawn in any case, so that seeds go on alike.

        Args:
            generator: Draws.
            asked: A scene that is wanted.
            next_id: The next one of those that come in their order; the last one stays.

        Raises:
            InvalidArgumentError: There is no such scene.
        """
        drawn = int(generator.integers(0, self.max_scene_id))
        if asked is not None:
            if not 0 <= asked < len(self.lengths):
                raise InvalidArgumentError(
                    f"options['scene_id'] is {asked}; there are scenes 0 to {len(self.lengths) - 1}"
                )
            return int(asked)
        if self.overfit_id is not None:
            return self.overfit_id
        return drawn if next_id is None else min(next_id, self.max_scene_id - 1)

    def draw_start(self, generator: np.random.Generator, scene: int, *, asked: int | None = None) -> int | None:
        """Return the first frame of an episode; None for that which is set.

        Raises:
            InvalidArgumentError: The scene has too few frames, or there is no such frame.
        """
        if asked is not None and asked < 0:
            raise InvalidArgumentError(f"options['start_frame_index'] is {asked}; it must be 0 or more")
        if not self.is_anywhere:
            return asked
        available = int(self.lengths[scene])
        needed = available if self.num_frames is None else self.num_frames
        if needed > available:
            raise InvalidArgumentError(
                f"num_simulation_steps is {needed}, but scene {scene} has {available} frames; take fewer"
            )
        drawn = int(generator.integers(0, available - needed + 1))
        return drawn if asked is None else asked


def frames_of_scenes(log: ChunkedDataset) -> Int64Array:
    """Return the number of frames of each scene of a log, (S,)."""
    bounds = column_of(log.scenes, FRAME_INTERVAL)
    return np.asarray(bounds[:, 1] - bounds[:, 0], np.int64)


def read_options(options: Mapping[str, Any] | None) -> dict[str, int]:
    """Return what is asked of the next episode.

    Raises:
        InvalidArgumentError: There is no such option, or a value is no whole number.
    """
    asked = dict(options or {})
    unknown = asked.keys() - set(_OPTIONS)
    if unknown:
        raise InvalidArgumentError(
            f"options has {', '.join(sorted(map(str, unknown)))}; it may have {' and '.join(_OPTIONS)}"
        )
    for name, value in asked.items():
        if not isinstance(value, int | np.integer) or isinstance(value, bool):
            raise InvalidArgumentError(f"options[{name!r}] is {value!r}; it must be a whole number")
    return {name: int(value) for name, value in asked.items()}
