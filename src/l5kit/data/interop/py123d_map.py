"""Export of the semantic map of a dataset as a map file of py123d: lanes with connectivity, crosswalks and areas."""

import json
import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from l5kit._types import Float64Array, JsonObject
from l5kit.data.interop.py123d_arrow import DATASET, VERSION, pack, write_arrow
from l5kit.data.map.api import MapAPI
from l5kit.data.map.geometry import resample_line
from l5kit.errors import CorruptedDataError
from l5kit.geometry.trapezoids import cut_into_trapezoids

LOCATION: Final = "world"
"""Name of the map location in py123d: all scenes of a data folder share one frame and one map."""

_LANE, _LANE_GROUP, _CROSSWALK = 0, 1, 3
_LAYER_OF_AREA: Final = {"walkway": 4, "carpark": 5, "drivable_area": 6, "driveway": 6, "speed_bump": 10}
_UNDEFINED_LANE: Final = 0
_UNKNOWN_BUMP: Final = 0
_LONGEST_STEP_M: Final = 2.0
_WKB_POLYGON_Z: Final = 0x80000003


@dataclass(frozen=True, eq=False)
class Area:
    """An area of a map.

    Attributes:
        kind: Its kind, as in the file of areas.
        outline_m: Corners of its polygon in order, world metres, (n, 3).
    """

    kind: str
    outline_m: Float64Array


def map_metadata() -> JsonObject:
    """Return the metadata of the map for py123d."""
    return {
        "dataset": DATASET,
        "split": None,
        "log_name": None,
        "location": LOCATION,
        "map_has_z": False,
        "map_is_per_log": False,
        "version": VERSION,
    }


def read_areas(file: Path) -> list[Area]:
    """Return the areas stored next to an imported semantic map; none if there is no such file.

    Areas with holes, which py123d does not support, are cut into trapezoids.

    Args:
        file: ``semantic_map/areas.json``.

    Raises:
        CorruptedDataError: It holds something else.
    """
    if not file.is_file():
        return []
    try:
        areas = []
        for area in json.loads(file.read_text("utf-8"))["areas"]:
            rings = [area["outline_m"], *area.get("holes_m", [])]
            outline_m, *holes_m = [np.array(ring, np.float64).reshape(-1, 3) for ring in rings]
            outlines_m = [outline_m]
            if holes_m:  # cut the remaining area in the plane
                cut = cut_into_trapezoids([outline_m[:, :2], *(hole[:, :2] for hole in holes_m)])
                outlines_m = [np.column_stack([corners, np.zeros(len(corners))]) for corners in cut]
            areas += [Area(str(area["kind"]), outline) for outline in outlines_m]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptedDataError(f"{file} is damaged ({error!r}); import the dataset again") from error
    return [area for area in areas if len(area.outline_m) > 2]


def write_map(file: Path, semantic_map: MapAPI, areas: list[Area]) -> None:
    """Write a map.

    Lane ids are rows of ``semantic_map.arrays``, and each lane forms its own group. All heights are 0, as heights of
    maps do not compare with those of logs.

    Args:
        file: The file, in an existing folder.
        semantic_map: The map.
        areas: Areas in addition to the map; kinds that py123d does not know are skipped.
    """
    import pyarrow as pa

    # all lanes, then a group for each of them with the same outline
    lanes = [_lane_of(semantic_map, row) for row in range(semantic_map.arrays.num_lanes)]
    rows = [_row(row, _LANE, features, outline_m) for row, (features, _, outline_m) in enumerate(lanes)]
    rows += [_row(row, _LANE_GROUP, features, outline_m) for row, (_, features, outline_m) in enumerate(lanes)]
    for row, polygon_m in enumerate(semantic_map.arrays.polygons()):
        outline_m = _closed(_at_height_0(polygon_m))
        if len(outline_m) > 3:
            rows.append(_row(row, _CROSSWALK, {"outline": outline_m}, outline_m))

    # ids of areas count from 0 per layer; crosswalk areas are skipped, as those of the map are already written
    counts: dict[int, int] = defaultdict(int)
    for area in areas:
        layer = _LAYER_OF_AREA.get(area.kind)
        if layer is None:
            continue
        outline_m = _closed(_at_height_0(area.outline_m))
        bump = {"speed_bump_type": _UNKNOWN_BUMP} if area.kind == "speed_bump" else {}
        rows.append(_row(counts[layer], layer, {"outline": outline_m, **bump}, outline_m))
        counts[layer] += 1
    kinds = {"object_id": pa.int64(), "map_layer": pa.int8(), "features": pa.binary(), "wkb": pa.binary()}
    values: Iterable[Sequence[object]] = zip(*rows, strict=True) if rows else [()] * len(kinds)
    columns = {name: pa.array(column, kind) for (name, kind), column in zip(kinds.items(), values, strict=True)}
    write_arrow(file, columns, map_metadata())


def _row(object_id: int, layer: int, features: JsonObject, outline_m: Float64Array) -> tuple[int, int, bytes, bytes]:
    """Return the values of the columns of the file for an object with a closed outline."""
    # well-known binary: little-endian, a polygon with heights, one ring, and its corners
    head = struct.pack("<BIII", 1, _WKB_POLYGON_Z, 1, len(outline_m))
    return object_id, layer, pack(features), head + outline_m.astype("<f8").tobytes()


def _lane_of(semantic_map: MapAPI, row: int) -> tuple[JsonObject, JsonObject, Float64Array]:
    """Return the features of a lane and of its group, and the outline of both."""
    arrays, network = semantic_map.arrays, semantic_map.network
    left_m, right_m = _at_height_0(arrays.left_line(row)), _at_height_0(arrays.right_line(row))
    outline_m = _closed(np.concatenate([left_m, right_m[::-1]]))
    limit_mps = float(network.speed_limits_mps[row])

    def known(rows: list[int]) -> list[int]:
        return [other for other in rows if 0 <= other < arrays.num_lanes]

    ahead, behind = known(network.ahead_of(row).tolist()), known(network.behind_of(row).tolist())
    shared = {
        "left_boundary": left_m,
        "right_boundary": right_m,
        "predecessor_ids": behind,
        "successor_ids": ahead,
        "outline": outline_m,
    }

    # centre line between both sides at equal fractions of length, with the finer of their resolutions
    longest_m = max(float(np.linalg.norm(np.diff(side_m, axis=0), axis=1).sum()) for side_m in (left_m, right_m))
    num_points = max(2, len(left_m), len(right_m), int(np.ceil(longest_m / _LONGEST_STEP_M)) + 1)
    centre_m = 0.5 * (resample_line(left_m, num_points) + resample_line(right_m, num_points))
    features = shared | {
        "lane_type": _UNDEFINED_LANE,
        "lane_group_id": row,
        "centerline": centre_m,
        "left_lane_id": next(iter(known([int(network.left_rows[row])])), None),
        "right_lane_id": next(iter(known([int(network.right_rows[row])])), None),
        "speed_limit_mps": limit_mps if limit_mps > 0 else None,
    }
    return features, shared | {"lane_ids": [row], "intersection_id": None}, outline_m


def _at_height_0(line_m: Float64Array) -> Float64Array:
    """Return a line with height 0."""
    return np.concatenate([line_m[:, :2], np.zeros((len(line_m), 1))], axis=1)


def _closed(outline_m: Float64Array) -> Float64Array:
    """Return a polygon with the first corner repeated at the end."""
    is_closed = bool((outline_m[0] == outline_m[-1]).all())
    return outline_m if is_closed else np.concatenate([outline_m, outline_m[:1]])
