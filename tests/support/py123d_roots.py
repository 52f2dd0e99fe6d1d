"""Data roots of py123d, written as its package does: Arrow files with msgpack in their schema; and damage to them."""

import json
import struct

import msgpack
import numpy as np
import pyarrow as pa

from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.interop import export_py123d
from support.fixture_s import save_fixture_s
from support.maps import FIXTURE_S_MAP, WORLD_TO_ECEF

SYNC, EGO, BOXES, LIGHTS = "sync", "ego_state_se3", "box_detections_se3", "traffic_light_detections"


def write_root_of_fixture_s(folder, *, split="val"):
    """Export fixture S, and return the folder of the dataset it was exported from."""
    data = folder / "data"
    for name in ("scenes", "semantic_map"):
        (data / name).mkdir(parents=True)
    save_fixture_s(data / "scenes")
    (data / "semantic_map" / "semantic_map.pb").write_bytes(FIXTURE_S_MAP)
    (data / "meta.json").write_text(json.dumps({"world_to_ecef": WORLD_TO_ECEF.tolist()}))
    log = ChunkedDataset(data / "scenes" / "fixture_s.zarr").open()
    export_py123d(log, folder / "root", files=find_dataset_files(data), split=split)
    return data


def pack(values):
    """A dictionary as py123d packs it."""

    def as_dict(value):
        return {b"__ndarray__": True, b"dtype": value.dtype.str, b"shape": value.shape, b"data": value.tobytes()}

    return msgpack.packb(values, default=as_dict, use_bin_type=True)


def write_arrow(file, columns, metadata):
    file.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns).replace_schema_metadata({b"metadata": pack(metadata)})
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read_arrow(file):
    """The table of a file, in memory, and its metadata."""
    table = pa.ipc.open_file(pa.BufferReader(file.read_bytes())).read_all()
    return table, msgpack.unpackb(table.schema.metadata[b"metadata"], raw=False, strict_map_key=False)


def change_column(file, name, change):
    """Change the values of a column, which are plain lists."""
    table, _ = read_arrow(file)
    number, kind = table.column_names.index(name), table.schema.field(name).type
    values = change(table.column(name).to_pylist())
    changed = table.set_column(number, pa.field(name, kind), pa.array(values, kind))
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, changed.schema) as writer:
        writer.write_table(changed)


def change_metadata(file, **changes):
    """Change the metadata of a file; None removes a key."""
    table, metadata = read_arrow(file)
    told = {key: value for key, value in (metadata | changes).items() if value is not None}
    changed = table.replace_schema_metadata({b"metadata": pack(told)})
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, changed.schema) as writer:
        writer.write_table(changed)


NUM_FRAMES = 20
LANE_IDS = {"in": 10, "inside": 11}


def write_log(
    root,
    name="log-1",
    *,
    dataset="nuplan",
    label_class="NuPlanBoxDetectionLabel",
    step_us=100_000,
    num_frames=NUM_FRAMES,
    boxes_every=1,
    location="town",
    start_us=1_600_000_000_000_000,
):
    """A log at 8 m/s along x whose poses are those of the rear axle; boxes of a car, a cyclist and a cone; a light."""
    folder = root / "logs" / f"{dataset}_train" / name
    times_us = start_us + step_us * np.arange(num_frames)
    rows = pa.array(np.arange(num_frames))
    boxed = np.arange(num_frames) % boxes_every == 0
    box_rows = pa.array(np.where(boxed, np.cumsum(boxed) - 1, 0), mask=~boxed)
    sync = {"sync.uuid": pa.array([bytes(16)] * num_frames, pa.binary(16)), "sync.timestamp_us": pa.array(times_us)}
    map_metadata = {"dataset": dataset, "location": location, "map_has_z": True, "map_is_per_log": False}
    told = {"dataset": dataset, "split": f"{dataset}_train", "log_name": name, "location": location, "version": "0.7.0"}
    write_arrow(
        folder / "sync.arrow",
        sync | {EGO: rows, BOXES: box_rows, LIGHTS: rows},
        told | {"map_metadata": map_metadata if location else None},
    )
    x_m = 8.0 * (times_us - start_us) / 1e6
    poses = [[x - 1.5, 0.0, 0.4, 1.0, 0.0, 0.0, 0.0] for x in x_m]
    vehicle = {"vehicle_name": "pacifica", "width": 2.0, "length": 5.0, "height": 1.6, "wheel_base": 3.0}
    middle = {"center_to_imu_se3": [1.5, 0, 0.4, 1, 0, 0, 0], "rear_axle_to_imu_se3": [0, 0, 0, 1, 0, 0, 0]}
    write_arrow(
        folder / f"{EGO}.arrow",
        {
            f"{EGO}.timestamp_us": pa.array(times_us),
            f"{EGO}.imu_se3": pa.array(poses, pa.list_(pa.float64(), 7)),
            f"{EGO}.dynamic_state_se3": pa.array([[8.0] + [0.0] * 8] * num_frames, pa.list_(pa.float64(), 9)),
        },
        vehicle | middle,
    )
    cone = [9, -3, 0, 1, 0, 0, 0, 0.4, 0.4, 1]
    boxes = [
        [[x + 20, 0, 0.8, 1, 0, 0, 0, 4.5, 1.9, 1.6], [x + 5, 4, 0.8, 0, 0, 0, 1, 1.8, 0.7, 1.7], cone]
        for x in x_m[boxed]
    ]
    count = len(boxes)
    write_arrow(
        folder / f"{BOXES}.arrow",
        {
            f"{BOXES}.timestamp_us": pa.array(times_us[boxed]),
            f"{BOXES}.bounding_box_se3": pa.array(boxes, pa.list_(pa.list_(pa.float64(), 10))),
            f"{BOXES}.track_token": pa.array([["car", "bike", "cone"]] * count, pa.list_(pa.string())),
            f"{BOXES}.label": pa.array([[0, 1, 3]] * count, pa.list_(pa.uint16())),
            f"{BOXES}.velocity_3d": pa.array(
                [[[8.0, 0, 0], [-3.0, 0, 0], [0, 0, 0]]] * count, pa.list_(pa.list_(pa.float64(), 3))
            ),
            f"{BOXES}.num_lidar_points": pa.array([[5, 5, 5]] * count, pa.list_(pa.int32())),
        },
        {"box_detection_label_class": f"py123d.parser.registry.{label_class}"},
    )
    statuses = [[2] if frame < num_frames // 2 else [0] for frame in range(num_frames)]
    write_arrow(
        folder / f"{LIGHTS}.arrow",
        {
            f"{LIGHTS}.timestamp_us": pa.array(times_us),
            f"{LIGHTS}.lane_id": pa.array([[LANE_IDS["inside"]]] * num_frames, pa.list_(pa.int32())),
            f"{LIGHTS}.status": pa.array(statuses, pa.list_(pa.uint8())),
        },
        {},
    )
    return folder


def _wkb_of(outline):
    """A polygon of one ring as well-known binary, with heights; a short line where there is none."""
    if outline is None:
        return struct.pack("<BII", 1, 2, 2) + np.arange(4.0).tobytes()
    return struct.pack("<BIII", 1, 0x80000003, 1, len(outline)) + outline.astype("<f8").tobytes()


def _band(left_y, right_y, start_x, end_x, z=2.0):
    left, right = (np.array([[x, y, z] for x in np.linspace(start_x, end_x, 5)]) for y in (left_y, right_y))
    return left, right, 0.5 * (left + right), np.concatenate([left, right[::-1], left[:1]])


def write_map(root, *, dataset="nuplan", location="town", limit_mps=13.5):
    """Two lanes, the second in an intersection, and an object of most layers."""
    rows = []
    for number, (name, x) in enumerate({"in": (-50, 60), "inside": (60, 90)}.items()):
        left, right, centre, outline = _band(1.8, -1.8, *x)
        shared = {"left_boundary": left, "right_boundary": right, "outline": outline}
        lane = shared | {
            "lane_type": 2,
            "lane_group_id": 100 + number,
            "centerline": centre,
            "left_lane_id": None,
            "right_lane_id": None,
            "predecessor_ids": [10] if number else [],
            "successor_ids": [] if number else [11],
            "speed_limit_mps": limit_mps,
        }
        group = shared | {
            "lane_ids": [LANE_IDS[name]],
            "intersection_id": 5 if number else None,
            "predecessor_ids": [],
            "successor_ids": [],
        }
        rows += [(LANE_IDS[name], 0, lane), (100 + number, 1, group)]
    square = np.array([(70.0, -4, 2), (74, -4, 2), (74, 4, 2), (70, 4, 2), (70, -4, 2)])
    rows += [
        (5, 2, {"outline": _band(8, -8, 60, 90)[3], "intersection_type": 1, "lane_group_ids": [101]}),
        (1, 3, {"outline": square}),
        (2, 4, {"outline": square + [0, 9, 0]}),
        (3, 6, {"outline": square - [40, 0, 0]}),
        (4, 7, {"outline": square - [12, 0, 0], "stop_zone_type": 2, "lane_ids": [10]}),
        (6, 8, {"road_edge_type": 1}),
        (7, 10, {"outline": square - [60, 0, 0], "speed_bump_type": 0}),
    ]
    write_arrow(
        root / "maps" / dataset / f"{dataset}_{location}.arrow",
        {
            "object_id": pa.array([row[0] for row in rows], pa.int64()),
            "map_layer": pa.array([row[1] for row in rows], pa.int8()),
            "features": pa.array([pack(row[2]) for row in rows], pa.binary()),
            "wkb": pa.array([_wkb_of(row[2].get("outline")) for row in rows], pa.binary()),
        },
        {"dataset": dataset, "location": location, "map_has_z": True, "map_is_per_log": False, "version": "0.7.0"},
    )
