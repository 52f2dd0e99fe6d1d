"""Columns of the tables of scenes and frames: names, types, and how many digits of them make sense."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from l5kit._types import DType
from l5kit.evaluation.driving.scene_score import MAP_METRICS, METRICS

__all__ = ["FRAME_COLUMNS", "FRAME_DTYPE", "METRICS", "NEED_MAP", "SCENE_COLUMNS", "Column"]

NEED_MAP: Final = tuple(name for name, of in METRICS.items() if of in MAP_METRICS)
"""Those that need a map."""


@dataclass(frozen=True)
class Column:
    """What a column holds; what is not known is empty in CSV and null in Parquet.

    Attributes:
        kind: Whole numbers, ids of tracks (whole numbers up to 2**64 - 1), numbers, yes or no as 1 or 0, or texts.
        digits: Digits behind the point in CSV; Parquet has all.
    """

    kind: Literal["int", "id", "float", "bool", "text"]
    digits: int = 0


_INT, _ID, _BOOL, _TEXT = Column("int"), Column("id"), Column("bool"), Column("text")

FRAME_COLUMNS: Final[Mapping[str, Column]] = {
    "scene": _INT,
    "frame": _INT,
    "time_s": Column("float", 3),
    "x_m": Column("float", 3),
    "y_m": Column("float", 3),
    "yaw_rad": Column("float", 5),
    "speed_mps": Column("float", 3),
    "acceleration_mps2": Column("float", 3),
    "lateral_acceleration_mps2": Column("float", 3),
    "distance_to_log_m": Column("float", 3),
    "distance_off_road_m": Column("float", 3),
    "time_to_collision_s": Column("float", 2),
    "speed_limit_mps": Column("float", 3),
    "speed_excess_mps": Column("float", 3),
    "progress_m": Column("float", 3),
    "way_along_lanes_m": Column("float", 3),
    "is_comfortable": _BOOL,
    "collisions": _INT,
    "collision_track": _ID,
    "collision_kind": _TEXT,
    "collision_at_fault": _BOOL,
    "appeared_close": _INT,
    "appeared_track": _ID,
    "by_fallback": _BOOL,
}
"""``frames.csv``: one row for each frame of each scored scene; docs/closed_loop.md says what each column is."""

_DTYPES = {"int": np.int64, "id": np.uint64, "float": np.float64, "bool": np.int8, "text": np.int8}

FRAME_DTYPE: Final[DType] = np.dtype([(name, _DTYPES[column.kind]) for name, column in FRAME_COLUMNS.items()])
"""The rows in memory: kinds of collisions by number, and -1 for neither yes nor no, where there is no track either."""

_COUNTED: Final = {
    "collisions_at_fault": "no_at_fault_collisions",
    "frames_off_road": "drivable_area_compliance",
    "frames_wrong_way": "driving_direction_compliance",
    "frames_near_collision": "time_to_collision",
    "frames_too_fast": "speed_limit_compliance",
    "frames_uncomfortable": "comfort",
}
_APPEARED: Final = {"appeared_close": _INT, "first_appeared_frame": _INT, "first_appeared_track": _ID}

SCENE_COLUMNS: Final[Mapping[str, Column]] = {
    "log": _TEXT,
    "scene": _INT,
    "position": _INT,
    "frames": _INT,
    "score": Column("float", 6),
    **dict.fromkeys(METRICS, Column("float", 6)),
    "collisions": _INT,
    **dict.fromkeys(_COUNTED, _INT),
    "way_m": Column("float", 3),
    "expert_way_m": Column("float", 3),
    "route_m": Column("float", 3),
    "expert_route_m": Column("float", 3),
    "most_from_log_m": Column("float", 3),
    "driven_agents": _INT,
    "fallback_steps": _INT,
    **{f"first_{metric}_frame": _INT for metric in _COUNTED.values()},
    **_APPEARED,
    "failed_frame": _INT,
    "failed_track": _ID,
    "message": _TEXT,
}
"""``scenes.csv``: one row for each scene, those that failed included; docs/closed_loop.md says what each column is."""
