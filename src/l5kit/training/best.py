"""The best score of a training: which weights have it, and for how many evaluations none was better."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from l5kit._types import Config

_UNSEEN = ("threads", "num_workers", "on_device")
"""Keys of a loader that decide how fast samples come, not which."""


@dataclass(frozen=True)
class BestScore:
    """The best score so far: the smallest, or of scores like those of driving the largest.

    Attributes:
        score: The score; infinite before the first evaluation.
        step: Steps after which it was reached; None where nobody has noted it.
        num_worse: Evaluations since then.
    """

    score: float = math.inf
    step: int | None = None
    num_worse: int = 0

    def after(self, score: float, step: int, *, is_largest_best: bool = False) -> "BestScore":
        """Return the best score when there is one more; a score that is not finite is never better."""
        is_better = score > self.score if is_largest_best else score < self.score
        if math.isfinite(score) and (is_better or not math.isfinite(self.score)):
            return BestScore(score, step)
        return BestScore(self.score, self.step, self.num_worse + 1)

    def as_dict(self) -> dict[str, float | int | None]:
        """Return it as what JSON and a state of a training can hold."""
        return {"score": self.score, "step": self.step, "num_worse": self.num_worse}

    @classmethod
    def of(cls, facts: Mapping[str, object]) -> "BestScore | None":
        """Return what :meth:`as_dict` gave, or None where ``facts`` holds no such thing."""
        score, step, num_worse = (facts.get(key) for key in ("score", "step", "num_worse"))
        if not isinstance(score, float) or math.isnan(score):
            return None
        if step is not None and (not isinstance(step, int) or step < 0):
            return None
        return cls(score, step, num_worse if isinstance(num_worse, int) else 0)


def evaluation_digest(cfg: Config, *, score: str | None, section: str = "val_data_loader") -> str:
    """Return a text that two evaluations have in common if their scores can be compared.

    Args:
        cfg: The configuration of the training.
        score: Name of the score.
        section: Says what is evaluated.
    """
    loader = {key: value for key, value in (cfg.get(section) or {}).items() if key not in _UNSEEN}
    text = json.dumps([score, loader], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
