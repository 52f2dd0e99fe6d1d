"""Scenarios of Argoverse 2 motion forecasting, written as its makers define them, and read again row by row.

The definition is that of the package av2 (``datasets/motion_forecasting`` and ``map``): a row for each track and step,
the columns of a scenario repeated in all rows, and a map with dictionaries by id. Nothing of the reader is used.
"""

import json
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

NUM_STEPS = 110
START_NS = 315_986_559_459_579_000
STEP_NS = 100_000_000

_TYPES = {
    "observed": pa.bool_(),
    "track_id": pa.string(),
    "object_type": pa.string(),
    "object_category": pa.int64(),
    "timestep": pa.int64(),
    "position_x": pa.float64(),
    "position_y": pa.float64(),
    "heading": pa.float64(),
    "velocity_x": pa.float64(),
    "velocity_y": pa.float64(),
    "scenario_id": pa.string(),
    "start_timestamp": pa.float64(),
    "end_timestamp": pa.float64(),
    "num_timestamps": pa.int64(),
    "focal_track_id": pa.string(),
    "city": pa.string(),
    "map_id": pa.uint64(),
    "slice_id": pa.string(),
}


@dataclass
class MadeTrack:
    """A track that drives straight on."""

    track_id: str
    object_type: str = "vehicle"
    category: int = 1
    start: tuple = (0.0, 0.0)
    velocity: tuple = (5.0, 0.0)
    steps: range | list = field(default_factory=lambda: range(NUM_STEPS))

    def rows(self):
        heading = float(np.arctan2(self.velocity[1], self.velocity[0]))
        for step in self.steps:
            x, y = (self.start[axis] + self.velocity[axis] * step * 0.1 for axis in (0, 1))
            yield {
                "observed": step < 50,
                "track_id": self.track_id,
                "object_type": self.object_type,
                "object_category": self.category,
                "timestep": step,
                "position_x": x,
                "position_y": y,
                "heading": heading,
                "velocity_x": self.velocity[0],
                "velocity_y": self.velocity[1],
            }


AV = MadeTrack("AV", start=(100.0, -1.75), velocity=(8.0, 0.0))
TRACKS = (
    AV,
    MadeTrack("1001", category=3, start=(115.0, -1.75), velocity=(7.0, 0.1)),
    MadeTrack(
        "1002", "pedestrian", 2, start=(140.0, -6.0), velocity=(0.0, 1.3), steps=[*range(10, 40), *range(60, 90)]
    ),
    MadeTrack("1003", "bus", 1, start=(220.0, 1.75), velocity=(-9.0, 0.0), steps=range(5, 95)),
    MadeTrack("1004", "riderless_bicycle", 0, start=(120.0, 6.0), velocity=(0.0, 0.0)),
    MadeTrack("1005", "static", 0, start=(125.0, 6.0), velocity=(0.0, 0.0), steps=range(3)),
)


def scenario_rows(tracks=TRACKS):
    return [row for track in tracks for row in track.rows()]


def points(*corners):
    return [{"x": float(x), "y": float(y), "z": float(z)} for x, y, z in corners]


def lane(lane_id, start, end, *, side=0.0, **changes):
    """A lane along x from ``start`` to ``end``, 3.5 m wide, in the direction of the numbers, at 22 m height."""
    left, right = (side + 1.75, side - 1.75) if end > start else (side - 1.75, side + 1.75)
    return {
        "id": lane_id,
        "is_intersection": False,
        "lane_type": "VEHICLE",
        "centerline": points((start, side, 0.0), ((start + end) / 2, side, 0.0), (end, side, 0.0)),
        "left_lane_boundary": points((start, left, 22.0), (end, left, 22.0)),
        "right_lane_boundary": points((start, right, 22.0), ((start + end) / 2, right, 22.0), (end, right, 22.0)),
        "left_lane_mark_type": "DASHED_WHITE",
        "right_lane_mark_type": "NONE",
        "predecessors": [],
        "successors": [],
        "left_neighbor_id": None,
        "right_neighbor_id": None,
        **changes,
    }


def made_map():
    """A road with two lanes to the east, one to the west, a lane in a junction behind it, and a bicycle lane."""
    lanes = [
        lane(11, 90, 160, side=-1.75, successors=[31], left_neighbor_id=21, right_neighbor_id=12),
        lane(12, 90, 160, side=-5.25, left_neighbor_id=11, left_lane_mark_type="DASHED_WHITE"),
        lane(21, 160, 90, side=1.75, left_neighbor_id=11, left_lane_mark_type="DOUBLE_SOLID_YELLOW"),
        lane(31, 160, 190, side=-1.75, is_intersection=True, predecessors=[11], successors=[999]),
        lane(41, 90, 160, side=-8.75, lane_type="BIKE"),
    ]
    return {
        "lane_segments": {str(each["id"]): each for each in lanes},
        "pedestrian_crossings": {
            "51": {"id": 51, "edge1": points((140, -8, 22), (140, 4, 22)), "edge2": points((144, -8, 22), (144, 4, 22))}
        },
        "drivable_areas": {"61": {"id": 61, "area_boundary": points((80, -12, 22), (200, -12, 22), (200, 8, 22))}},
    }


def write_scenario(folder, name, *, rows=None, elements=None, city="austin", columns=None, without=(), dx=0.0):
    """Write both files of a scenario into a new folder.

    Args:
        folder: Parent folder.
        name: Id of the scenario.
        rows: One for each track and step; default :data:`TRACKS`.
        elements: The map; default :func:`made_map`.
        city: Its city.
        columns: Other values of the columns that are equal in all rows.
        without: Columns that are left out.
        dx: Offset of all x of the tracks.
    """
    place = folder / name
    place.mkdir(parents=True)
    common = {
        "scenario_id": name,
        "start_timestamp": float(START_NS),
        "end_timestamp": float(START_NS + (NUM_STEPS - 1) * STEP_NS),
        "num_timestamps": NUM_STEPS,
        "focal_track_id": "1001",
        "city": city,
        "map_id": 7,
        "slice_id": "slice",
        **(columns or {}),
    }
    content = [row | common | {"position_x": row["position_x"] + dx} for row in scenario_rows() if rows is None]
    content = content or [row | common for row in rows]
    schema = pa.schema([(key, kind) for key, kind in _TYPES.items() if key not in without])
    table = pa.table({key: [row[key] for row in content] for key in schema.names}, schema=schema)
    pq.write_table(table, place / f"scenario_{name}.parquet")
    (place / f"log_map_archive_{name}.json").write_text(json.dumps(made_map() if elements is None else elements))
    return place


def read_rows(file):
    """Return the rows of a scenario as dictionaries, one by one."""
    return pq.read_table(file).to_pylist()


SENSOR_STEPS = 20
SENSOR_HEADING_RAD = np.pi / 2
SENSOR_START_M = (100.0, 50.0)


def write_sensor_log(folder, name, *, city="PIT", num_steps=SENSOR_STEPS, boxes=None, has_map=True):
    """Write a sensor log: the AV drives north at 8 m/s, a car 20 m ahead does too, a cyclist next to it is stationary.

    Boxes are in the frame of the AV, whose poses are those of its rear axle, at twice the rate.
    """
    place = folder / name
    (place / "map").mkdir(parents=True)
    times_ns = START_NS + STEP_NS // 2 * np.arange(2 * num_steps)
    turn = np.cos(SENSOR_HEADING_RAD / 2), np.sin(SENSOR_HEADING_RAD / 2)
    moved_m = 8.0 * (times_ns - START_NS) / 1e9
    count = len(times_ns)
    poses = {
        "timestamp_ns": times_ns,
        "qw": np.full(count, turn[0]),
        "qx": np.zeros(count),
        "qy": np.zeros(count),
        "qz": np.full(count, turn[1]),
        "tx_m": np.full(count, SENSOR_START_M[0]),
        "ty_m": SENSOR_START_M[1] + moved_m,
        "tz_m": np.full(count, 22.3),
    }
    pyarrow.feather.write_feather(pa.table(poses), place / "city_SE3_egovehicle.feather")
    pyarrow.feather.write_feather(
        pa.table(sensor_boxes(num_steps) if boxes is None else boxes), place / "annotations.feather"
    )
    if has_map:
        content = made_map()
        for each in content["lane_segments"].values():
            del each["centerline"]
        (place / "map" / f"log_map_archive_{name}____{city}_city_31043.json").write_text(json.dumps(content))
    return place


def sensor_boxes(num_steps=SENSOR_STEPS):
    """Columns of boxes: a car ahead in all steps, a cyclist to the left of where the AV started, in every second."""
    half = np.pi / 4
    turn = np.cos(half), np.sin(half)
    rows = []
    for step in range(num_steps):
        time_ns = START_NS + step * STEP_NS
        rows.append((time_ns, "car", "REGULAR_VEHICLE", 4.5, 1.9, 1.6, 1.0, 0.0, 20.0, 0.0, 0.5))
        if step % 2 == 0:
            rows.append((time_ns, "bike", "BICYCLIST", 1.8, 0.7, 1.7, *turn, -0.8 * step, 5.0, 0.5))
    sizes, places = ("length_m", "width_m", "height_m"), ("tx_m", "ty_m", "tz_m")
    names = ("timestamp_ns", "track_uuid", "category", *sizes, "qw", "qz", *places)
    columns = {key: [row[number] for row in rows] for number, key in enumerate(names)}
    zeros = [0.0] * len(rows)
    return columns | {"qx": zeros, "qy": zeros, "num_interior_pts": [9] * len(rows)}
