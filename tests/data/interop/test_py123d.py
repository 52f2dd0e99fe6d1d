"""A dataset as logs and a map of py123d, read back with pyarrow and msgpack alone."""

import json
import math
import struct
import uuid
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("msgpack")

import msgpack

from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.interop import export_py123d
from l5kit.data.interop.py123d_files import LightsOfLanes, split_of_log, write_scene
from l5kit.data.interop.py123d_map import read_areas
from l5kit.data.jobs.job_folder import open_job
from l5kit.data.jobs.scene_jobs import KeptWorkers
from l5kit.data.map.opened import open_map
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from l5kit.geometry.polygon import is_inside_polygon
from support.fixture_s import make_fixture_s, save_fixture_s
from support.logs import log_of, make_agent, make_frames, scenes_of
from support.maps import FIXTURE_S_MAP, WORLD_TO_ECEF

SQUARE = [[0.0, 0.0, 5.0], [4.0, 0.0, 5.0], [4.0, 3.0, 5.0], [0.0, 3.0, 5.0]]


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory):
    """Fixture S with its map and some areas, in the published layout."""
    folder = tmp_path_factory.mktemp("data")
    for name in ("scenes", "semantic_map"):
        (folder / name).mkdir()
    save_fixture_s(folder / "scenes")
    (folder / "semantic_map" / "semantic_map.pb").write_bytes(FIXTURE_S_MAP)
    (folder / "meta.json").write_text(json.dumps({"world_to_ecef": WORLD_TO_ECEF.tolist()}))
    kinds = ("drivable_area", "crosswalk", "walkway", "speed_bump", "carpark", "driveway", "lawn")
    areas = [{"id": kind, "kind": kind, "outline_m": SQUARE} for kind in kinds]
    (folder / "semantic_map" / "areas.json").write_text(json.dumps({"frame": "world", "areas": areas}))
    return folder


@pytest.fixture(scope="module")
def log(data_folder):
    return ChunkedDataset(data_folder / "scenes" / "fixture_s.zarr").open()


@pytest.fixture(scope="module")
def folder(data_folder, log, tmp_path_factory):
    folder = tmp_path_factory.mktemp("py123d") / "out"
    export_py123d(log, folder, files=find_dataset_files(data_folder), split="val")
    return folder


@pytest.fixture(scope="module")
def map_api(data_folder):
    return open_map(find_dataset_files(data_folder))


def read(file):
    """Table and metadata of a file, memory-mapped as py123d does."""
    with pa.memory_map(str(file)) as source:
        table = pa.ipc.open_file(source).read_all()
    return table, msgpack.unpackb(table.schema.metadata[b"metadata"], raw=False, strict_map_key=False)


def modality(folder, name, split="l5kit_val"):
    return read(folder / "logs" / split / "scene-000000" / f"{name}.arrow")


def array(column):
    return np.array(column.to_pylist())


def decode(content):
    """The features of an object of the map, with arrays as py123d writes them."""

    def as_array(found):
        if b"__ndarray__" in found:
            return np.frombuffer(found[b"data"], found[b"dtype"]).reshape(found[b"shape"])
        return found

    return msgpack.unpackb(content, object_hook=as_array, raw=False)


# --- logs


def test_files_lie_where_py123d_looks_for_them(folder):
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    names = ("sync", "ego_state_se3", "box_detections_se3", "traffic_light_detections")
    log_files = {f"logs/l5kit_val/scene-000000/{name}.arrow" for name in names}
    assert found == log_files | {"maps/l5kit/l5kit_world.arrow"}


SCHEMAS = {
    "ego_state_se3": {
        "timestamp_us": pa.int64(),
        "imu_se3": pa.list_(pa.float64(), 7),
        "dynamic_state_se3": pa.list_(pa.float64(), 9),
    },
    "box_detections_se3": {
        "timestamp_us": pa.int64(),
        "bounding_box_se3": pa.list_(pa.list_(pa.float64(), 10)),
        "track_token": pa.list_(pa.string()),
        "label": pa.list_(pa.uint16()),
        "velocity_3d": pa.list_(pa.list_(pa.float64(), 3)),
        "num_lidar_points": pa.list_(pa.int32()),
    },
    "traffic_light_detections": {
        "timestamp_us": pa.int64(),
        "lane_id": pa.list_(pa.int32()),
        "status": pa.list_(pa.uint8()),
    },
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_files_have_the_columns_of_py123d(folder, log, name):
    table, _ = modality(folder, name)
    assert {field.name: field.type for field in table.schema} == {
        f"{name}.{column}": kind for column, kind in SCHEMAS[name].items()
    }
    assert table[f"{name}.timestamp_us"].to_pylist() == (log.frames["timestamp"] // 1000).tolist()


def test_sync_names_the_row_of_each_file_for_each_frame(folder, log):
    table, metadata = modality(folder, "sync")
    assert table.schema.field("sync.uuid").type == pa.binary(16)
    assert table.column_names == ["sync.uuid", "sync.timestamp_us", *SCHEMAS]
    for name in SCHEMAS:
        assert table[name].to_pylist() == list(range(len(log.frames)))
    first_us = table["sync.timestamp_us"][0].as_py()
    space = uuid.UUID("123D123D-123D-123D-123D-123D123D123D")
    assert table["sync.uuid"][0].as_py() == uuid.uuid5(space, f"l5kit_val:scene-000000:{first_us}").bytes
    assert {key: metadata[key] for key in ("dataset", "split", "log_name", "location")} == {
        "dataset": "l5kit",
        "split": "l5kit_val",
        "log_name": "scene-000000",
        "location": "world",
    }
    assert metadata["map_metadata"]["map_is_per_log"] is False


def test_the_av_is_where_it_is_in_the_log(folder, log):
    table, metadata = modality(folder, "ego_state_se3")
    poses = array(table["ego_state_se3.imu_se3"])
    np.testing.assert_array_equal(poses[:, :3], log.frames["ego_translation"])
    half_yaws_rad = 0.005 * np.arange(len(log.frames))
    zeros = np.zeros(len(log.frames))
    turns = np.stack([np.cos(half_yaws_rad), zeros, zeros, np.sin(half_yaws_rad)], axis=1)
    np.testing.assert_allclose(poses[:, 3:], turns, atol=1e-7)
    length_m, width_m, height_m = log.facts.ego_extent_m
    assert (metadata["length"], metadata["width"], metadata["height"]) == (length_m, width_m, height_m)
    assert metadata["center_to_imu_se3"] == [0.0, 0.0, 0.5 * height_m, 1.0, 0.0, 0.0, 0.0]
    assert metadata["rear_axle_to_imu_se3"][0] == -0.5 * metadata["wheel_base"]


def test_the_motion_of_the_av_is_seen_from_it(tmp_path):
    """On a circle of 50 m at 10 m/s: 10 m/s ahead, 2 m/s2 to the left, 0.2 rad/s."""
    angles_rad = 0.02 * np.arange(20)
    positions_m = [(50 * math.sin(angle), 50 * (1 - math.cos(angle)), 7.0) for angle in angles_rad]
    times_ns = [10**9 + k * 10**8 for k in range(20)]
    records = make_frames(
        [[make_agent(1, (1.0, 2.0))]] * 20, positions_m=positions_m, yaws_rad=angles_rad, timestamps_ns=times_ns
    )
    export_py123d(log_of(scenes_of([20]), *records), tmp_path / "out")
    table, _ = modality(tmp_path / "out", "ego_state_se3", "l5kit_train")
    motion = array(table["ego_state_se3.dynamic_state_se3"])
    np.testing.assert_allclose(motion[1:-1, :3], [(10.0, 0.0, 0.0)] * 18, atol=1e-3)
    np.testing.assert_allclose(motion[1:-1, 3:6], [(0.0, 2.0, 0.0)] * 18, atol=1e-3)
    np.testing.assert_allclose(motion[:, 6:], [(0.0, 0.0, 0.2)] * 20, atol=1e-5)
    assert not modality(tmp_path / "out", "sync", "l5kit_train")[1]["map_metadata"]


def test_boxes_are_the_agents_of_the_frames(folder, log):
    table, metadata = modality(folder, "box_detections_se3")
    assert metadata["box_detection_label_class"].endswith(".DefaultBoxDetectionLabel")
    labels = {1: 1, 2: 1, 7: 4, 300: 1}
    columns = {name: table[f"box_detections_se3.{name}"].to_pylist() for name in SCHEMAS["box_detections_se3"]}
    for frame, bounds in enumerate(log.frames["agent_index_interval"].tolist()):
        agents = log.agents[slice(*bounds)]
        boxes = np.array(columns["bounding_box_se3"][frame])
        np.testing.assert_array_equal(boxes[:, :2], agents["centroid"])
        np.testing.assert_array_equal(boxes[:, 7:], agents["extent"])
        ground_m = log.frames[frame]["ego_translation"][2]
        np.testing.assert_allclose(boxes[:, 2], ground_m + 0.5 * agents["extent"][:, 2], rtol=1e-6)
        yaws_rad = np.arctan2(2 * boxes[:, 3] * boxes[:, 6], 1 - 2 * boxes[:, 6] ** 2)
        np.testing.assert_allclose(yaws_rad, agents["yaw"], atol=1e-6)
        assert columns["track_token"][frame] == [str(track) for track in agents["track_id"].tolist()]
        assert columns["label"][frame] == [labels[track] for track in agents["track_id"].tolist()]
        np.testing.assert_array_equal(np.array(columns["velocity_3d"][frame])[:, :2], agents["velocity"])
        assert columns["num_lidar_points"][frame] == [None] * len(agents)


def test_lanes_show_the_faces_that_control_them(folder, log, map_api):
    table, _ = modality(folder, "traffic_light_detections")
    ids = map_api.arrays.lane_ids.to_list()
    red = {"F1"}  # in all frames; F2, green, is off
    rows = {row: 2 for row, lane in enumerate(ids) if map_api.get_lane_traffic_control_ids(lane) & red}
    assert rows
    for lanes, statuses in zip(
        table["traffic_light_detections.lane_id"].to_pylist(),
        table["traffic_light_detections.status"].to_pylist(),
        strict=True,
    ):
        shown = dict(zip(lanes, statuses, strict=True))
        assert {lane: status for lane, status in shown.items() if status != 4} == rows
        assert lanes == sorted(set(lanes))


def test_of_several_colours_red_counts_and_lights_that_are_off_are_unknown():
    lights = LightsOfLanes({"g": (1, [3, 4]), "y": (2, [4]), "r": (3, [5, 4])})

    def faces(**on):
        made = np.zeros(len(on), [("face_id", "<U16"), ("traffic_light_face_status", "<f4", 3)])
        made["face_id"], made["traffic_light_face_status"][:, 0] = list(on), list(on.values())
        return made

    assert lights.statuses(faces(g=1, y=1, r=1)) == {3: 0, 4: 2, 5: 2}
    assert lights.statuses(faces(g=1, y=1, r=0)) == {3: 0, 4: 1, 5: 4}
    assert lights.statuses(faces(g=0, other=1)) == {3: 4, 4: 4}
    assert lights.statuses(faces()) == {}


# --- the map


@pytest.fixture(scope="module")
def objects(folder):
    """Features and polygon of each object, by layer and id."""
    table, metadata = read(folder / "maps" / "l5kit" / "l5kit_world.arrow")
    assert [(field.name, field.type) for field in table.schema] == [
        ("object_id", pa.int64()),
        ("map_layer", pa.int8()),
        ("features", pa.binary()),
        ("wkb", pa.binary()),
    ]
    assert (metadata["dataset"], metadata["location"], metadata["map_has_z"]) == ("l5kit", "world", False)
    return {(row["map_layer"], row["object_id"]): (decode(row["features"]), row["wkb"]) for row in table.to_pylist()}


def ring_of(content):
    """Corners of a polygon of one ring with heights, in little endian well-known binary."""
    order, kind, num_rings, num_points = struct.unpack("<BIII", content[:13])
    assert (order, kind, num_rings) == (1, 0x80000003, 1)
    return np.frombuffer(content[13:], "<f8").reshape(num_points, 3)


def test_lanes_have_the_lines_of_the_map_and_groups_of_their_own(objects, map_api):
    arrays, network = map_api.arrays, map_api.network
    assert sorted(number for layer, number in objects if layer == 0) == list(range(arrays.num_lanes))
    for row in range(arrays.num_lanes):
        lane, polygon = objects[0, row]
        left_m, right_m = arrays.left_line(row), arrays.right_line(row)
        np.testing.assert_array_equal(lane["left_boundary"][:, :2], left_m[:, :2])
        np.testing.assert_array_equal(lane["right_boundary"][:, :2], right_m[:, :2])
        ends_m = 0.5 * (left_m[[0, -1], :2] + right_m[[0, -1], :2])
        np.testing.assert_allclose(lane["centerline"][[0, -1], :2], ends_m)
        assert np.linalg.norm(np.diff(lane["centerline"], axis=0), axis=1).max() <= 2.0
        assert (lane["centerline"][:, 2] == 0).all()
        np.testing.assert_array_equal(ring_of(polygon), lane["outline"])
        np.testing.assert_array_equal(lane["outline"][0], lane["outline"][-1])
        assert len(lane["outline"]) == len(left_m) + len(right_m) + 1
        assert lane["successor_ids"] == network.ahead_of(row).tolist()
        assert lane["predecessor_ids"] == network.behind_of(row).tolist()
        limit_mps = float(network.speed_limits_mps[row])
        assert lane["speed_limit_mps"] == (None if math.isnan(limit_mps) else limit_mps)
        assert {"lane_type", "left_lane_id", "right_lane_id"} <= set(lane)
        group, _ = objects[1, lane["lane_group_id"]]
        assert group["lane_ids"] == [row]
        assert group["intersection_id"] is None


def test_crosswalks_and_areas_are_in_their_layers(objects, map_api):
    (polygon_m,) = map_api.arrays.polygons()
    np.testing.assert_array_equal(objects[3, 0][0]["outline"][: len(polygon_m), :2], polygon_m[:, :2])
    numbers = {layer: sorted(number for at, number in objects if at == layer) for layer in range(11)}
    assert {layer: found for layer, found in numbers.items() if layer > 2 and found} == {
        3: [0],
        4: [0],
        5: [0],
        6: [0, 1],
        10: [0],
    }
    square = [(x, y, 0.0) for x, y, _ in [*SQUARE, SQUARE[0]]]
    np.testing.assert_array_equal(ring_of(objects[5, 0][1]), square)
    assert objects[10, 0][0]["speed_bump_type"] == 0


# --- places and faults


def test_workers_write_the_same_bytes(folder, data_folder, log, tmp_path):
    with ThreadPoolExecutor(2) as pool:
        export_py123d(log, tmp_path / "out", files=find_dataset_files(data_folder), split="val", workers=pool)
    for file in folder.rglob("*.arrow"):
        assert (tmp_path / "out" / file.relative_to(folder)).read_bytes() == file.read_bytes()


def test_a_kept_job_writes_all_files_again_and_is_refused_for_another_split(folder, data_folder, log, tmp_path):
    for name in ("first", "second"):
        with open_job(tmp_path / "job", {}) as job:
            export_py123d(
                log,
                tmp_path / name,
                files=find_dataset_files(data_folder),
                split="val",
                workers=KeptWorkers(1, job),
            )
        for file in folder.rglob("*.arrow"):
            assert (tmp_path / name / file.relative_to(folder)).read_bytes() == file.read_bytes()
    with open_job(tmp_path / "job", {}) as job, pytest.raises(InvalidArgumentError, match="another export"):
        export_py123d(log, tmp_path / "third", split="val", workers=KeptWorkers(1, job))
    assert not (tmp_path / "third").exists()


def test_files_that_a_worker_left_when_it_died_are_written_anew(folder, log, tmp_path):
    name = "scene-000000"
    (tmp_path / name).mkdir()
    (tmp_path / name / "ego_state_se3.arrow").write_bytes(b"half")
    write_scene(tmp_path / name, log.view_scene(0), split="l5kit_val", name=name, lights=None)
    written = (tmp_path / name / "ego_state_se3.arrow").read_bytes()
    assert written == (folder / "logs" / "l5kit_val" / name / "ego_state_se3.arrow").read_bytes()


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("av2/scenes/val.zarr", "val"),
        ("scenes/validate.zarr/", "val"),
        ("test.zarr", "test"),
        ("train.zarr", "train"),
        ("sample.zarr", "train"),
    ],
)
def test_the_split_is_told_from_the_name_of_a_log(path, split):
    assert split_of_log(path) == split


def test_an_export_is_replaced_when_told_so_and_nothing_else_is(log, tmp_path):
    export_py123d(log, tmp_path / "out")
    assert not (tmp_path / "out" / "maps").exists()
    with pytest.raises(FileExistsError):
        export_py123d(log, tmp_path / "out")
    export_py123d(log, tmp_path / "out", split="test", overwrite=True)
    assert [path.name for path in (tmp_path / "out" / "logs").iterdir()] == ["l5kit_test"]
    (tmp_path / "out" / "logs" / "notes.txt").write_text("mine")
    with pytest.raises(InvalidArgumentError, match=r"holds .logs/notes\.txt. in addition to an export for py123d"):
        export_py123d(log, tmp_path / "out", overwrite=True)


@pytest.mark.parametrize(("given", "told"), [({"split": "a/b"}, "'a/b'"), ({"scenes": [0, 0]}, "each once")])
def test_what_cannot_be_written_is_refused(log, tmp_path, given, told):
    with pytest.raises(InvalidArgumentError, match=told):
        export_py123d(log, tmp_path / "out", **given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [("timestamp", 1_000_000_000, "times must ascend"), ("ego_rotation", np.zeros((3, 3)), "a rotation of the AV")],
)
def test_a_scene_that_py123d_could_not_read_is_told_and_nothing_is_left(tmp_path, field, value, told):
    log = make_fixture_s()
    log.frames[field][7] = value
    with pytest.raises(CorruptedDataError, match=f"scene-000000: {told}"):
        export_py123d(log, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_damaged_areas_are_told(data_folder, log, tmp_path):
    files = find_dataset_files(data_folder)
    copy = tmp_path / "semantic_map.pb"
    copy.write_bytes(files.semantic_map.read_bytes())
    (tmp_path / "areas.json").write_text('{"areas": [{"kind": "walkway"}]}')
    given = find_dataset_files(data_folder, map_path=copy)
    with pytest.raises(CorruptedDataError, match=r"areas\.json is damaged"):
        export_py123d(log, tmp_path / "out", files=given)


def test_areas_with_holes_are_cut(tmp_path):
    square = [[0.0, 0, 1], [10, 0, 1], [10, 10, 1], [0, 10, 1]]
    hole = [[4.0, 4, 1], [6, 4, 1], [6, 6, 1], [4, 6, 1]]
    areas = [
        {"kind": "walkway", "outline_m": square},
        {"kind": "drivable_area", "outline_m": square, "holes_m": [hole]},
    ]
    (tmp_path / "areas.json").write_text(json.dumps({"areas": areas}))
    whole, *cut = read_areas(tmp_path / "areas.json")
    assert np.array_equal(whole.outline_m, square)
    assert [area.kind for area in cut] == ["drivable_area"] * 4
    middle = np.array([5.0, 5.0])
    assert not any(is_inside_polygon(np.ascontiguousarray(area.outline_m[:, :2]), middle) for area in cut)
