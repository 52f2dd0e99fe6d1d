"""Columns of the tables of scenes and frames: names, types, and how many digits of them make sense."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from l5kit._types import DType
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.evaluation.driving.scene_score import METRICS


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
"""``frames.csv``: one row for each frame of each scored scene; docs/reference/simulate.md says what each column is."""

_DTYPES = {"int": np.int64, "id": np.uint64, "float": np.float64, "bool": np.int8, "text": np.int8}

_APPEARED: Final = {"appeared_close": _INT, "first_appeared_frame": _INT, "first_appeared_track": _ID}


def frame_columns_of(metrics: Sequence[MetricFacts]) -> dict[str, Column]:
    """Return the columns of the table of frames with those of more metrics than the usual ones."""
    columns = dict(FRAME_COLUMNS)
    for metric in metrics:
        if metric.column is not None:
            columns.setdefault(metric.column, Column("float", metric.digits))
    return columns


def frame_dtype_of(columns: Mapping[str, Column]) -> DType:
    """Return the rows of frames in memory: kinds of collisions by number, and -1 for neither yes nor no.

    Where there is no yes or no, there is no track either.
    """
    return np.dtype([(name, _DTYPES[column.kind]) for name, column in columns.items()])


def scene_columns_of(metrics: Sequence[MetricFacts]) -> dict[str, Column]:
    """Return the columns of the table of scenes with those of metrics."""
    return {
        "log": _TEXT,
        "scene": _INT,
        "position": _INT,
        "frames": _INT,
        "score": Column("float", 6),
        **{metric.name: Column("float", 6) for metric in metrics},
        "collisions": _INT,
        "collisions_at_fault": _INT,
        **{metric.counted_as: _INT for metric in metrics if metric.counted_as is not None},
        "way_m": Column("float", 3),
        "expert_way_m": Column("float", 3),
        "route_m": Column("float", 3),
        "expert_route_m": Column("float", 3),
        "most_from_log_m": Column("float", 3),
        "driven_agents": _INT,
        "fallback_steps": _INT,
        **{f"first_{metric.name}_frame": _INT for metric in metrics if metric.fault is not None},
        **_APPEARED,
        "failed_frame": _INT,
        "failed_track": _ID,
        "message": _TEXT,
    }


SCENE_COLUMNS: Final[Mapping[str, Column]] = scene_columns_of(METRICS)
"""``scenes.csv``: one row for each scene, failed ones too; docs/reference/simulate.md describes every column."""
