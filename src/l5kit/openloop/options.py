"""Options of an open-loop evaluation: which log and samples, on what device, and which pictures."""

import math
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final, Literal

from l5kit.configs.texts import did_you_mean
from l5kit.data.scene_jobs import KeptWorkers
from l5kit.errors import InvalidArgumentError

DEVICES: Final = ("auto", "cpu", "cuda")
"""What networks can be evaluated on; ``auto`` is CUDA where it is there."""

ERRORS: Final = ("fde", "ade")
"""What the worst cases can be chosen by."""


@dataclass(frozen=True)
class OpenLoopOptions:
    """The options of an evaluation.

    Attributes:
        key: Path of the log relative to the data folder, or a folder of ``l5kit chop`` there or anywhere; None for
            ``val_data_loader.key`` of the configuration.
        horizons_s: Times ahead of the scores in seconds; empty for every whole second and the end.
        max_samples: Samples that are taken, evenly spread over the log; None for all.
        batch_size: Samples of a batch; None for that of the configuration.
        threads: Threads that make batches; None for those of the configuration.
        workers: An executor of processes or of a cluster that makes and predicts batches, each with a network of its
            own, or one with a folder for the parts; 1 to predict here.
        device: One of :data:`DEVICES`.
        num_worst: Pictures of the worst cases.
        worst_by: Which error makes them the worst, one of :data:`ERRORS`.
        overwrite: Whether the files of an evaluation that is there are replaced.
        allow_pickle: Also read checkpoints that are whole pickled modules, which can run any code that is in them.
        show_bar: Whether a bar is shown, if standard error is a terminal.

    Raises:
        InvalidArgumentError: A value is out of its range.
    """

    key: str | None = None
    horizons_s: tuple[float, ...] = ()
    max_samples: int | None = None
    batch_size: int | None = None
    threads: int | None = None
    workers: Executor | KeptWorkers | Literal[1] = 1
    device: str = "auto"
    num_worst: int = 6
    worst_by: str = "fde"
    overwrite: bool = False
    allow_pickle: bool = False
    show_bar: bool = True

    def __post_init__(self) -> None:
        for name, least in (("max_samples", 1), ("batch_size", 1), ("threads", 0), ("num_worst", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidArgumentError(f"{name} must be at least {least}, got {value}")
        if not all(0 < horizon_s < math.inf for horizon_s in self.horizons_s):
            raise InvalidArgumentError(f"horizons_s must be seconds above 0, got {self.horizons_s}")
        if self.workers != 1 and not isinstance(self.workers, Executor | KeptWorkers):
            raise InvalidArgumentError(
                f"workers must be an executor of concurrent.futures or 1, got {self.workers!r}; threads are for threads"
            )
        for name, allowed in (("device", DEVICES), ("worst_by", ERRORS)):
            if getattr(self, name) not in allowed:
                raise InvalidArgumentError(
                    f"{name} is {getattr(self, name)!r}{did_you_mean(getattr(self, name), allowed)}; "
                    f"allowed are {', '.join(allowed)}"
                )
