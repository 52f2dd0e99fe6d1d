"""EPDMS, the score of NAVSIM v2: plans of four seconds are rolled out, with one score for each window."""

from l5kit.evaluation.epdms.plan_windows import EpdmsParams, PlanWindows, WindowRoutes
from l5kit.evaluation.epdms.scene_metrics import EPDMS_METRICS
from l5kit.evaluation.epdms.terms import EPDMS, TERMS, WindowTerm, score_windows

__all__ = [
    "EPDMS",
    "EPDMS_METRICS",
    "TERMS",
    "EpdmsParams",
    "PlanWindows",
    "WindowRoutes",
    "WindowTerm",
    "score_windows",
]
