"""Open-loop evaluation: what a trained network predicts on a log, scored, tabled and drawn."""

from l5kit.openloop.files import OpenLoopResult
from l5kit.openloop.run import evaluate
from l5kit.openloop.setup import OpenLoopOptions

__all__ = ["OpenLoopOptions", "OpenLoopResult", "evaluate"]
