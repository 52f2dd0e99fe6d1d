"""Tables of people's own logs, with a column map and a map of GeoJSON, as docs/own_logs.md describes them."""

import json
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

NUM_STEPS = 40
COLUMNS = {
    "time": "t",
    "track": "id",
    "x": "px",
    "y": "py",
    "heading": "yaw",
    "length": "l",
    "width": "w",
    "class": "k",
}
CLASSES = {"car": "CAR", "man": "PEDESTRIAN"}


@dataclass
class Table:
    """The AV at 8 m/s along x, a car ahead, and a pedestrian who is hidden for a while."""

    columns: dict = field(default_factory=dict)

    @classmethod
    def make(cls, *, step_s=0.1, num_steps=NUM_STEPS, start_s=0.0):
        rows = []
        for step in range(num_steps):
            time_s = round(start_s + step * step_s, 6)
            moved_m = 8.0 * step * step_s
            rows.append((time_s, "ego", moved_m, 0.0, 0.0, 4.8, 1.9, "car"))
            rows.append((time_s, "7", 20.0 + moved_m, 0.0, 0.0, 4.5, 1.8, "car"))
            if not 10 <= step < 20:
                rows.append((time_s, "8", 30.0, -4.0 + 1.0 * step * step_s, np.pi / 2, 0.6, 0.6, "man"))
        names = ("t", "id", "px", "py", "yaw", "l", "w", "k")
        return cls({name: [row[number] for row in rows] for number, name in enumerate(names)})

    def write(self, file, *, delimiter=","):
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".parquet":
            pq.write_table(pa.table(self.columns), file)
            return
        lines = [delimiter.join(self.columns)]
        lines += [delimiter.join(map(str, row)) for row in zip(*self.columns.values(), strict=True)]
        file.write_text("\n".join(lines) + "\n")


def write_columns(folder, **changes):
    content = {"columns": COLUMNS, "av": "ego", "classes": CLASSES} | changes
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "columns.yaml"
    file.write_text(yaml.safe_dump({key: value for key, value in content.items() if value is not None}))
    return file


def feature(shape, coordinates, **properties):
    return {"type": "Feature", "properties": properties, "geometry": {"type": shape, "coordinates": coordinates}}


FEATURES = [
    feature("LineString", [[-20, 0], [20, 0]], id="in", width=3.2, speed_limit_kmh=36),
    feature("LineString", [[20.1, 0], [60, 0]], id="on", left="beside"),
    feature("LineString", [[20, 4], [60, 4]], id="beside", lane_kind="bus", junction=False),
    feature("Polygon", [[[5, -3], [8, -3], [8, 3], [5, 3], [5, -3]]], kind="crosswalk"),
    feature("Point", [18, -3, 0.5], lanes=["in"]),
]


def write_map(folder, features):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "map.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
