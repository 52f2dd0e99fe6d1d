"""Open-loop evaluation: scores, tables and pictures of the predictions of a trained network on a log."""

from l5kit.openloop.files import OpenLoopResult
from l5kit.openloop.run import evaluate
from l5kit.openloop.setup import OpenLoopOptions

__all__ = ["OpenLoopOptions", "OpenLoopResult", "evaluate"]
