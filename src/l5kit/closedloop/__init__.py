"""Closed-loop simulation of a log: a planner drives its scenes, and its driving is scored and tabulated."""

from l5kit.closedloop.folder import ClosedLoopResult, read_result
from l5kit.closedloop.key_drives import KeyDrive, ScoredKeyDrive, read_key_drive, score_key_drive
from l5kit.closedloop.options import ClosedLoopOptions
from l5kit.closedloop.run import simulate
from l5kit.closedloop.session import open_session

__all__ = [
    "ClosedLoopOptions",
    "ClosedLoopResult",
    "KeyDrive",
    "ScoredKeyDrive",
    "open_session",
    "read_key_drive",
    "read_result",
    "score_key_drive",
    "simulate",
]
