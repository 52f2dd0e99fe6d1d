"""Comparison of simulations, evaluations or trainings, with confidence intervals and significance tests."""

from l5kit.comparison.comparison import Comparison, ComparisonRow, SceneDifference, compare
from l5kit.comparison.figure import draw_comparison
from l5kit.comparison.folder import write_comparison
from l5kit.comparison.planners import IncomparableError

__all__ = [
    "Comparison",
    "ComparisonRow",
    "IncomparableError",
    "SceneDifference",
    "compare",
    "draw_comparison",
    "write_comparison",
]
