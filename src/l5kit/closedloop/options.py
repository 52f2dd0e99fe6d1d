"""Options of a closed-loop simulation: scenes and frames, how plans move the AV, workers and output."""

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
"""Arguments and options that determine the result, and their names in ``l5kit simulate``."""

_MOST_WORKERS: Final = 1024
"""Upper limit of threads: more than any machine can use, fewer than a system refuses."""


def with_option(name: str) -> str:
    """Return the name of an argument or option, followed by its command-line option, for messages."""
    return f"{name} ({_OF_COMMAND[name]})" if name in _OF_COMMAND else name


@dataclass(frozen=True)
class ClosedLoopOptions:
    """The options of a simulation; ``workers`` and later options do not change the result.

    Attributes:
        scenes: Scenes of the log, a slice or a list of indices; None for all.
        start_frame: First simulated frame of each scene; earlier frames are its past.
        num_frames: Maximum number of simulated frames per scene, including the first; None for all.
        moves: One of :data:`MOVES`, or ``FILE.py:NAME`` for a model in a user's file; None for the planner's default:
            plans of ``standing`` and ``idm`` are applied exactly, replayed agents follow the log, other plans are
            tracked.
        keeps_plans: Whether to keep the planner's plans.
        workers: Threads that simulate batches in parallel; 0 for one per core, 1024 at most; or an executor, whose
            workers must see log, map and folder under the same paths.
        batch_size: Scenes that step together.
        device: Device of networks: ``auto`` for CUDA if available, or a torch device.
        allow_pickle: Also read checkpoints that are whole pickled modules, which can run any code in the file.
        strict: Whether to stop at the first failed scene.
        overwrite: Whether to replace another simulation in the folder.
        show_bar: Whether to show a progress bar if standard error is a terminal.

    Raises:
        InvalidArgumentError: A value is out of range.
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
                f"workers must be at most {_MOST_WORKERS}, got {self.workers}; 0 uses one per core"
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
            InvalidArgumentError: An index is out of range or repeated, or no scene is chosen.
        """
        chosen: list[int] = []
        with contextlib.suppress(TypeError, ValueError):  # neither a slice nor a list of integers
            if self.scenes is None or isinstance(self.scenes, slice):
                chosen = sorted(range(num_scenes)[self.scenes or slice(None)])
            else:
                chosen = sorted(map(operator.index, self.scenes))
        if not chosen or not 0 <= chosen[0] <= chosen[-1] < num_scenes or len(set(chosen)) < len(chosen):
            raise InvalidArgumentError(
                f"{with_option('scenes')} is {self.scenes!r}; it must be a slice or a list of indices and choose at "
                f"least one of the {num_scenes} scenes of the log, none twice"
            )
        return np.array(chosen, np.int64)

    def as_facts(self, scenes: Int64Array) -> JsonObject:
        """Return the options that determine the result, as JSON; ``scenes`` (S,) are the chosen scenes."""
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
