"""Loggers of services, to which points of curves go once, however often a training is taken up again.

A service cannot be told to forget what came after the last checkpoint. So a file in the folder of the training
remembers up to which step each curve has gone there; a training that goes on computes the same points again, and those
are left out.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from l5kit._files import replaced_when_complete
from l5kit.configs.texts import parse_json, read_text
from l5kit.training.lightning_parts import Logger, MLFlowLogger, WandbLogger, rank_zero_only


class SentPoints:
    """The points that have gone to a service, in a file: the last step of each curve.

    Args:
        path: The file; points of an earlier process are those that it tells of now.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        stored = parse_json(read_text(path, called=path.name), called=str(path)) if path.is_file() else None
        self._before = {str(name): int(at) for name, at in stored.items()} if isinstance(stored, dict) else {}
        self._steps = dict(self._before)

    def new_of(self, metrics: Mapping[str, float], step: int) -> dict[str, float]:
        """Return those values at a step that no earlier process has sent."""
        return {name: value for name, value in metrics.items() if step > self._before.get(name, -1)}

    def note(self, metrics: Mapping[str, float], step: int) -> None:
        """Remember values at a step, which have been sent."""
        self._steps |= {name: max(step, self._steps.get(name, -1)) for name in metrics}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_when_complete(self._path, argument="folder") as temporary:
            temporary.write_text(json.dumps(self._steps) + "\n", encoding="utf-8")


class _SendsOnce(Logger):
    """Stands before the logger of a service, which is told of new points only."""

    def __init__(self, *, sent: SentPoints, **options: Any) -> None:
        super().__init__(**options)
        self._sent = sent

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Send what is new at a step."""
        new = self._sent.new_of(metrics, step or 0)
        if new:
            super().log_metrics(new, step)  # type: ignore[safe-super]
            self._sent.note(new, step or 0)


class OnceWandbLogger(_SendsOnce, WandbLogger):
    """Weights & Biases, to which each point goes once.

    Args:
        sent: What has gone there.
        **options: Those of Lightning's logger.
    """


class OnceMLFlowLogger(_SendsOnce, MLFlowLogger):
    """MLflow, to which each point goes once.

    Args:
        sent: What has gone there.
        **options: Those of Lightning's logger.
    """
