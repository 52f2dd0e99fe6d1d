"""Open-loop evaluation: what a trained network predicts on a log, scored, tabled and drawn."""

from l5kit.openloop.options import OpenLoopOptions
from l5kit.openloop.result import OpenLoopResult
from l5kit.openloop.run import evaluate

__all__ = ["OpenLoopOptions", "OpenLoopResult", "evaluate"]
