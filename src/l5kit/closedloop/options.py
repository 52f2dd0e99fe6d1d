"""Options of a closed-loop simulation: which scenes and frames, how planners move the AV, and how it is carried out."""

import contextlib
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit._types import Int64Array, JsonObject
from l5kit.configs.own_code import is_own
from l5kit.configs.texts import did_you_mean
from l5kit.data.jobs.scene_jobs import Workers
from l5kit.errors import InvalidArgumentError

MOVES: Final = ("tracked", "poses")
"""How plans move the AV: tracked with a bicycle model, or applied exactly."""

_OF_COMMAND: Final = {
    "planner": "--planner",
    "fallback": "--fallback",
    "agents": "--agents",
    "scenes": "--scenes",
    "start_frame": "--start-frame",
    "num_frames": "--frames",
    "moves": "--moves",
    "keeps_plans": "--plans",
    "scored_by": "--score",
}
"""Arguments and options that decide what a simulation gives, and what they are called in ``l5kit simulate``."""

_MOST_WORKERS: Final = 1024
"""More threads than any machine has use for, and fewer than a system refuses."""


def with_option(name: str) -> str:
    """Return the name of an argument or option with that of the command behind it, for messages."""
    return f"{name} ({_OF_COMMAND[name]})" if name in _OF_COMMAND else name


@dataclass(frozen=True)
class ClosedLoopOptions:
    """The options of a simulation; ``workers`` and later options do not change the result.

    Attributes:
        scenes: Which scenes of the log, a slice or their numbers; None for all.
        start_frame: First frame of each scene that is simulated; those before are its past.
        num_frames: Frames that are simulated of each scene, at most, with the first one; None for all.
        moves: One of :data:`MOVES`, or ``FILE.py:NAME`` for a model of a file of the user; None for the default of the
            planner: plans of ``standing`` and ``idm`` are applied exactly, replayed agents follow the log, other plans
            are tracked.
        keeps_plans: Whether what the planner has planned is kept.
        workers: Threads that simulate batches at the same time; 0 for one on each core, 1024 at most; or an executor,
            whose workers must see log, map and folder under the same paths.
        batch_size: Scenes that step at once.
        device: What networks run on: ``auto``, for CUDA where it is there, or a device of torch.
        allow_pickle: Also read checkpoints that are whole pickled modules, which can run any code that is in them.
        strict: Whether the first scene that fails stops all.
        overwrite: Whether another simulation in the folder is replaced.
        show_bar: Whether a bar is shown, if standard error is a terminal.

    Raises:
        InvalidArgumentError: A value is out of its range.
    """

    scenes: slice | Sequence[int] | None = None
    start_frame: int = 0
    num_frames: int | None = None
    moves: str | None = None
    keeps_plans: bool = True
    workers: Workers = 1
    batch_size: int = 32
    device: str = "auto"
    allow_pickle: bool = False
    strict: bool = False
    overwrite: bool = False
    show_bar: bool = True

    def __post_init__(self) -> None:
        for name, least in (("start_frame", 0), ("num_frames", 1), ("workers", 0), ("batch_size", 1)):
            value = getattr(self, name)
            is_left_out = value is None and name in ("num_frames", "workers")
            if is_left_out or (name == "workers" and not isinstance(value, int | float | np.number)):
                continue
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise InvalidArgumentError(f"{name} must be a whole number of at least {least}, got {value!r}")
        if isinstance(self.workers, int) and self.workers > _MOST_WORKERS:
            raise InvalidArgumentError(
                f"workers must be at most {_MOST_WORKERS}, got {self.workers}; 0 is one for each core"
            )
        if self.moves is not None and self.moves not in MOVES and not is_own(str(self.moves)):
            raise InvalidArgumentError(
                f"moves is {self.moves!r}{did_you_mean(self.moves, MOVES)}; allowed are {', '.join(MOVES)}, or "
                "FILE.py:NAME"
            )

    def scenes_of(self, num_scenes: int) -> Int64Array:
        """Return the chosen scenes of a log, ascending, (S,).

        Args:
            num_scenes: Scenes of the log.

        Raises:
            InvalidArgumentError: There is no such scene, one is named twice, or none is chosen.
        """
        chosen: list[int] = []
        with contextlib.suppress(TypeError, ValueError):  # what is no slice of whole numbers, and no list of such
            if self.scenes is None or isinstance(self.scenes, slice):
                chosen = sorted(range(num_scenes)[self.scenes or slice(None)])
            else:
                chosen = sorted(map(operator.index, self.scenes))
        if not chosen or not 0 <= chosen[0] <= chosen[-1] < num_scenes or len(set(chosen)) < len(chosen):
            raise InvalidArgumentError(
                f"{with_option('scenes')} is {self.scenes!r}; it must be a slice or a list of numbers, and choose "
                f"some of the {num_scenes} scenes of the log, none twice"
            )
        return np.array(chosen, np.int64)

    def as_facts(self, scenes: Int64Array) -> JsonObject:
        """Return what decides what a simulation gives, as JSON holds it; ``scenes`` (S,) are those that are chosen."""
        first, last = int(scenes[0]), int(scenes[-1])
        step = int(scenes[1]) - first if len(scenes) > 1 else 1
        is_even = np.array_equal(scenes, np.arange(first, last + 1, step))
        return {
            "scenes": f"{first}:{last + 1}:{step}" if is_even else scenes.tolist(),
            "start_frame": self.start_frame,
            "num_frames": self.num_frames,
            "moves": self.moves,
            "keeps_plans": self.keeps_plans,
        }
