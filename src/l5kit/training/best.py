"""Best weights of a training: their scores, the evaluations since the best one, and their files."""

import glob
import hashlib
import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from l5kit._types import Config
from l5kit.planning.checkpoint import read_checkpoint
from l5kit.planning.torch_files import CheckpointError

_UNSEEN = ("threads", "num_workers", "on_device")
"""Keys of a loader that affect its speed, but not its samples."""


@dataclass(frozen=True)
class BestScore:
    """Best score so far: the smallest one, or the largest one for scores such as that of driving.

    Attributes:
        score: The score; infinite before the first evaluation.
        step: Step at which it was reached; None if unknown.
        num_worse: Number of evaluations since then.
    """

    score: float = math.inf
    step: int | None = None
    num_worse: int = 0

    def after(self, score: float, step: int, *, is_largest_best: bool = False) -> "BestScore":
        """Return the best score after one more; a score that is not finite is never better."""
        is_better = score > self.score if is_largest_best else score < self.score
        if math.isfinite(score) and (is_better or not math.isfinite(self.score)):
            return BestScore(score, step)
        return BestScore(self.score, self.step, self.num_worse + 1)

    def as_dict(self) -> dict[str, float | int | None]:
        """Return it as plain values for JSON and training states."""
        return {"score": self.score, "step": self.step, "num_worse": self.num_worse}

    @classmethod
    def of(cls, facts: Mapping[str, object]) -> "BestScore | None":
        """Return the score in the output of :meth:`as_dict`; None if ``facts`` holds none."""
        score, step, num_worse = (facts.get(key) for key in ("score", "step", "num_worse"))
        if not isinstance(score, float) or math.isnan(score):
            return None
        if step is not None and (not isinstance(step, int) or step < 0):
            return None
        return cls(score, step, num_worse if isinstance(num_worse, int) else 0)


def evaluation_digest(cfg: Config, *, score: str | None, section: str = "val_data_loader") -> str:
    """Return a digest that is equal for evaluations whose scores are comparable.

    Args:
        cfg: The configuration of the training.
        score: Name of the score.
        section: Section of the configuration that defines the evaluation.
    """
    loader = {key: value for key, value in (cfg.get(section) or {}).items() if key not in _UNSEEN}
    text = json.dumps([score, loader], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class TopFile:
    """File of weights with a score.

    Attributes:
        score: Their score.
        step: Step at which it was reached; of equal scores, the first is the best.
        name: Name of the file.
        digest: Digest of the evaluation; scores with the same digest are comparable.
    """

    score: float
    step: int
    name: str
    digest: str


class TopWeights:
    """Best weights in a folder, up to a number.

    Args:
        folder: Folder of the training.
        name: Name of its weights.
        number: Number of files to keep; 0 for none, and existing files are left alone.
        is_largest_best: Whether larger scores are better.

    Attributes:
        files: Kept files, best first.
    """

    def __init__(self, folder: Path, name: str, number: int, *, is_largest_best: bool = False) -> None:
        self.files: tuple[TopFile, ...] = ()
        self._folder = folder
        self._name = name
        self._number = number
        self._sign = -1 if is_largest_best else 1

    def stored(self, key: str) -> tuple[TopFile, ...]:
        """Return the existing files; unreadable ones are skipped with a warning.

        Args:
            key: Key of the digest of the evaluation in the facts of weights.
        """
        if not self._number:
            return ()
        files = []
        for path in sorted(self._folder.glob(f"{glob.escape(self._name)}_top_*_steps_*.safetensors")):
            try:
                facts = read_checkpoint(path).facts
            except CheckpointError as error:
                warnings.warn(f"{error}; it no longer counts as one of the best weights", UserWarning, stacklevel=2)
                continue
            best, digest = BestScore.of(facts), facts.get(key)
            if best is not None and best.step is not None and isinstance(digest, str):
                files.append(TopFile(best.score, best.step, path.name, digest))
        return tuple(files)

    def file_for(self, score: float, step: int, digest: str) -> TopFile | None:
        """Return the file to write weights to; None if they are not among the best."""
        stem = f"{self._name}_top_{step}_steps_{score:.4f}"
        file = TopFile(score, step, f"{stem}.safetensors", digest)
        return file if file in self._kept_of((*self.files, file)) else None

    def keep(self, *written: TopFile, is_main: bool) -> None:
        """Add written files, and remove those that are no longer among the best.

        Args:
            *written: Complete files; they replace others of the same step.
            is_main: Whether this process removes files.
        """
        others = (*self.files, *written)
        self.files = self._kept_of(others)
        for file in others:
            self.remove(file, is_main=is_main)

    def remove(self, file: TopFile, *, is_main: bool) -> None:
        """Remove a file, unless a kept one has the same name."""
        if is_main and file.name not in {other.name for other in self.files}:
            (self._folder / file.name).unlink(missing_ok=True)

    def _kept_of(self, files: tuple[TopFile, ...]) -> tuple[TopFile, ...]:
        """Return the best files, at most one for each step: the last one given."""
        of_steps = {file.step: file for file in files}.values()
        return tuple(sorted(of_steps, key=lambda file: (self._sign * file.score, file.step))[: self._number])
