"""The nuScenes reader compared with the tables, which these tests read independently.

The same tests run on real files if L5KIT_REAL_NUSCENES names a folder of a version, such as nuscenes/v1.0-mini.
"""

import json
import math
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from l5kit.errors import DatasetNotFoundError
from l5kit.readers.motion import yaws_of
from l5kit.readers.nuscenes import EGO_MIDDLE_AHEAD_M, LABEL_MAPPING, NuscenesReader
from l5kit.readers.reader import SourceDataError
from support.nuscenes_folders import (
    GAP_OF_BARRIER,
    NUM_SAMPLES,
    RIDDEN_FROM,
    SCENES,
    city_map,
    pick,
    quaternion,
    tables,
    token,
    write_folder,
)

NUM_REAL_SCENES = 3


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("L5KIT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("nuscenes"))


@pytest.fixture(scope="module", params=["written", "real"])
def source(request, written):
    if request.param == "written":
        return written
    real = os.environ.get("L5KIT_REAL_NUSCENES")
    if not real:
        pytest.skip("L5KIT_REAL_NUSCENES names no folder")
    return Path(real)


@pytest.fixture(scope="module")
def scenes(source, tmp_path_factory):
    reader = NuscenesReader(source)
    return [reader.read(ref) for ref in reader.list_scenes()[:NUM_REAL_SCENES]]


@pytest.fixture(scope="module")
def truth(source):
    """The tables as dictionaries by token."""
    files = [file for file in source.glob("*.json") if file.stem not in ("visibility", "map")]
    return {file.stem: {record["token"]: record for record in json.loads(file.read_text())} for file in files}


def samples_of(truth, name):
    """The key frames of a scene, in their order."""
    (scene,) = [scene for scene in truth["scene"].values() if scene["name"] == name]
    found, at = [], scene["first_sample_token"]
    while at:
        found.append(truth["sample"][at])
        at = found[-1]["next"]
    return found


def rotation_matrix(q):
    w, x, y, z = np.array(q) / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


# --- content of the tables


def test_scenes_have_the_key_frames_of_the_tables_at_their_times(scenes, truth):
    for scene in scenes:
        times_us = [sample["timestamp"] for sample in samples_of(truth, scene.name)]
        np.testing.assert_array_equal(scene.timestamps_ns, np.array(times_us) * 1000)


def test_the_av_is_where_the_lidar_key_frame_says(scenes, truth):
    lidars = {s["token"] for s in truth["sensor"].values() if s["channel"] == "LIDAR_TOP"}
    lidars = {s["token"] for s in truth["calibrated_sensor"].values() if s["sensor_token"] in lidars}
    pose_of = {
        data["sample_token"]: truth["ego_pose"][data["ego_pose_token"]]
        for data in truth["sample_data"].values()
        if data["is_key_frame"] and data["calibrated_sensor_token"] in lidars
    }
    for scene in scenes:
        poses = [pose_of[sample["token"]] for sample in samples_of(truth, scene.name)]
        rotations = [rotation_matrix(pose["rotation"]) for pose in poses]
        middles_m = [
            pose["translation"] + rotation @ (EGO_MIDDLE_AHEAD_M, 0, 0)
            for pose, rotation in zip(poses, rotations, strict=True)
        ]
        np.testing.assert_allclose(scene.ego.positions_m[:, :2], np.array(middles_m)[:, :2], atol=1e-9)
        np.testing.assert_allclose(scene.ego.positions_m[:, 2], [pose["translation"][2] for pose in poses])
        yaws_rad = [math.atan2(rotation[1, 0], rotation[0, 0]) for rotation in rotations]
        np.testing.assert_allclose(scene.ego.yaws_rad, yaws_rad, atol=1e-9)


def test_boxes_are_those_of_the_tables(scenes, truth):
    of_sample = {}
    for box in truth["sample_annotation"].values():
        of_sample.setdefault(box["sample_token"], []).append(box)
    for scene in scenes:
        tracks, rows = scene.tracks, {name: row for row, name in enumerate(scene.tracks.ids)}
        num_boxes = 0
        for step, sample in enumerate(samples_of(truth, scene.name)):
            for box in of_sample.get(sample["token"], ()):
                place = rows[box["instance_token"]], step
                assert tracks.is_valid[place]
                np.testing.assert_allclose(tracks.positions_m[place], box["translation"][:2], atol=1e-3)
                width, length, height = box["size"]
                np.testing.assert_allclose(tracks.sizes_m[place], (length, width, height))
                turned = rotation_matrix(box["rotation"])
                assert abs(tracks.yaws_rad[place] - math.atan2(turned[1, 0], turned[0, 0])) < 1e-9
                num_boxes += 1
        assert tracks.is_valid.sum() == num_boxes > 0


def test_classes_are_those_of_the_instances(scenes, truth):
    for scene in scenes:
        for name, kind in zip(scene.tracks.ids, scene.tracks.classes, strict=True):
            category = truth["category"][truth["instance"][name]["category_token"]]["name"]
            assert kind.removesuffix(" with rider") == category
            assert kind in LABEL_MAPPING


def test_velocities_are_differences_of_neighbouring_key_frames(scenes):
    for scene in scenes:
        tracks = scene.tracks
        times_s = (scene.timestamps_ns - scene.timestamps_ns[0]) / 1e9
        for row, step in np.argwhere(tracks.is_valid[:, 1:-1]) + (0, 1):
            seen = [at for at in (step - 1, step, step + 1) if tracks.is_valid[row, at]]
            if len(seen) == 1:
                assert (tracks.velocities_mps[row, step] == 0).all()
                continue
            way_m = tracks.positions_m[row, seen[-1]] - tracks.positions_m[row, seen[0]]
            speed_mps = way_m / (times_s[seen[-1]] - times_s[seen[0]])
            np.testing.assert_allclose(tracks.velocities_mps[row, step], speed_mps, atol=1e-6)


def test_maps_have_the_lanes_and_crossings_near_the_scene(scenes, source):
    for scene in scenes:
        content = json.loads((source.parent / "maps" / "expansion" / f"{scene.map.name}.json").read_text())
        nodes = {node["token"]: (node["x"], node["y"]) for node in content["node"]}
        polygons = {polygon["token"]: polygon for polygon in content["polygon"]}
        known = {lane["token"] for lane in content["lane"] + content["lane_connector"]}
        assert scene.map.lanes
        for lane in scene.map.lanes:
            assert lane.lane_id in known
            first, last = (content["arcline_path_3"][lane.lane_id][end] for end in (0, -1))
            np.testing.assert_allclose(lane.centre_m[0, :2], first["start_pose"][:2], atol=1e-9)
            if any(last["end_pose"]):
                np.testing.assert_allclose(lane.centre_m[-1, :2], last["end_pose"][:2], atol=1e-3)
            assert list(lane.successors) == content["connectivity"][lane.lane_id]["outgoing"]
            assert list(lane.predecessors) == content["connectivity"][lane.lane_id]["incoming"]
        crossings = {crossing["token"]: crossing for crossing in content["ped_crossing"]}
        for area in scene.map.areas:
            if area.kind == "crosswalk":
                names = polygons[crossings[area.area_id]["polygon_token"]]["exterior_node_tokens"]
                np.testing.assert_allclose(
                    area.outline_m[:, :2], [nodes[name] for name in names][: len(area.outline_m)]
                )


# --- what is known of the written folder alone


@pytest.fixture(scope="module")
def first_scene(written):
    reader = NuscenesReader(written)
    return reader.read(reader.list_scenes()[0])


def track(scene, name):
    return scene.tracks.ids.index(token("instance", scene.name, name))


def test_scenes_are_listed_by_name_with_the_split_of_the_makers(written):
    refs = NuscenesReader(written).list_scenes()
    assert [(ref.name, ref.split) for ref in refs] == [("scene-0061", "train"), ("scene-0103", "val")]
    assert refs[0].file == "v1.0-mini/scene.json"
    assert (NuscenesReader(written).source / refs[0].file).is_file()


def test_scenes_tell_all_files_that_they_are_made_of(written):
    """Scenes are read again once a table, or the map of their city, has changed."""
    of_all = {f"v1.0-mini/{path.name}" for path in written.glob("*.json")}
    for ref in NuscenesReader(written).list_scenes():
        assert {ref.file, *ref.others} == of_all | {f"maps/expansion/{SCENES[ref.name]}.json"}
        assert all((written.parent / file).is_file() for file in ref.others)


def test_the_folder_around_one_version_will_do(written):
    assert NuscenesReader(written.parent).list_scenes() == NuscenesReader(written).list_scenes()


def test_gaps_stay_gaps_and_single_boxes_stand(first_scene):
    seen = first_scene.tracks.is_valid
    assert not seen[track(first_scene, "barrier"), GAP_OF_BARRIER]
    assert seen[track(first_scene, "barrier")].sum() == NUM_SAMPLES - 2
    pedestrian = track(first_scene, "pedestrian")
    assert np.flatnonzero(seen[pedestrian]).tolist() == [3]
    assert (first_scene.tracks.velocities_mps[pedestrian, 3] == 0).all()
    np.testing.assert_allclose(first_scene.tracks.velocities_mps[track(first_scene, "car")], [(10, 1)] * 8, atol=1e-6)


def test_a_bicycle_that_is_ridden_once_is_a_cyclist(first_scene):
    assert first_scene.tracks.classes[track(first_scene, "bicycle")] == "vehicle.bicycle with rider"
    assert LABEL_MAPPING["vehicle.bicycle with rider"] == "PERCEPTION_LABEL_CYCLIST"


def test_a_bicycle_that_nobody_rides_is_a_bicycle(tmp_path):
    records = tables()
    for box in records["sample_annotation"]:
        box["attribute_tokens"] = []
    reader = NuscenesReader(write_folder(tmp_path, records=records))
    scene = reader.read(reader.list_scenes()[0])
    assert scene.tracks.classes[track(scene, "bicycle")] == "vehicle.bicycle"
    assert RIDDEN_FROM < NUM_SAMPLES


def lanes_of(scene):
    names = {token(scene.map.name, name): name for name in ("east", "turn", "north")}
    return {names[lane.lane_id]: lane for lane in scene.map.lanes}


def test_lanes_have_centre_lines_sides_and_neighbours_along_the_road(first_scene):
    lanes = lanes_of(first_scene)
    east, turn, north = lanes["east"], lanes["turn"], lanes["north"]
    x, y = 340.0, 1100.0
    np.testing.assert_allclose(east.left_m[:, :2], [(x, y + 2), (x + 30, y + 2), (x + 60, y + 2)])
    np.testing.assert_allclose(east.right_m[:, :2], [(x, y - 2), (x + 60, y - 2)])
    np.testing.assert_allclose(north.left_m[:, :2], [(x + 68, y + 10), (x + 68, y + 50)])
    np.testing.assert_allclose(north.right_m[:, :2], [(x + 72, y + 10), (x + 72, y + 50)])
    np.testing.assert_allclose(turn.centre_m[[0, -1], :2], [(x + 60, y), (x + 70, y + 10)], atol=1e-9)
    assert (turn.left_m, turn.right_m) == (None, None)
    assert (turn.is_in_junction, east.is_in_junction) == (True, False)
    assert east.successors == (turn.lane_id,)
    assert north.predecessors == (turn.lane_id,)
    assert {lane.kind for lane in lanes.values()} == {"vehicle"}


def test_areas_and_signs_are_those_of_the_map(first_scene):
    kinds = sorted(area.kind for area in first_scene.map.areas)
    assert kinds == ["carpark", "crosswalk", "drivable_area", "drivable_area", "walkway"]
    cut_out = [len(area.holes_m) for area in first_scene.map.areas if area.kind == "drivable_area"]
    assert cut_out == [1, 0]
    (sign,) = first_scene.map.signs
    assert sign.lane_ids == (token("singapore-onenorth", "east"),)
    np.testing.assert_allclose(sign.position_m, (399.5, 1100.0, 0.0))
    assert first_scene.lights.lane_ids == ()


def test_what_is_far_from_the_scene_is_not_in_its_map(tmp_path):
    maps = {city: city_map(city) for city in SCENES.values()}
    for node in maps["singapore-onenorth"]["node"]:
        node["x"] += 1000.0
    for paths in maps["singapore-onenorth"]["arcline_path_3"].values():
        for path in paths:
            path["start_pose"][0] += 1000.0
    reader = NuscenesReader(write_folder(tmp_path, maps=maps))
    assert reader.read(reader.list_scenes()[0]).map.lanes == ()
    assert len(reader.read(reader.list_scenes()[1]).map.lanes) == 3


def test_the_reader_tells_what_is_missing_and_made_up(written):
    info = NuscenesReader(written).info
    assert (info.dataset, info.version, info.step_time_s) == ("nuScenes", "v1.0-mini", 0.5)
    assert "CC BY-NC-SA 4.0" in info.licence
    assert any("states are not recorded" in text for text in info.missing)
    assert any("Zoe" in text for text in info.made_up)
    assert pickle.loads(pickle.dumps(info)) == info


def test_a_pickled_reader_reads_the_same(written):
    reader = NuscenesReader(written)
    ref = reader.list_scenes()[1]
    again = pickle.loads(pickle.dumps(reader)).read(ref)
    np.testing.assert_array_equal(again.tracks.positions_m, reader.read(ref).tracks.positions_m)
    assert len(pickle.dumps(reader)) < 1000


# --- faults


def read_all(folder):
    """The readable scenes, and the errors of the others, by name."""
    reader = NuscenesReader(folder)
    scenes, errors = {}, {}
    for ref in reader.list_scenes():
        try:
            scenes[ref.name] = reader.read(ref)
        except SourceDataError as error:
            errors[ref.name] = error
    return scenes, errors


def changed(change):
    records = tables()
    change(records)
    return records


def sample(records, step):
    return pick(records["sample"], token=token("sample", "scene-0061", step))


def box(records, name, step):
    return pick(records["sample_annotation"], token=token("box", "scene-0061", name, step))


def lidar_of(records, step):
    return pick(
        records["sample_data"],
        sample_token=token("sample", "scene-0061", step),
        is_key_frame=True,
        calibrated_sensor_token=token("mounted", "scene-0061", "LIDAR_TOP"),
    )


FAULTS = [
    pytest.param(
        lambda r: sample(r, 3).update(timestamp=sample(r, 2)["timestamp"]),
        ("sample.json", token("sample", "scene-0061", 3), "is not after"),
        id="time stands",
    ),
    pytest.param(
        lambda r: sample(r, 3).update(timestamp=1),
        ("sample.json", token("sample", "scene-0061", 3), "is not after"),
        id="time goes backwards",
    ),
    pytest.param(
        lambda r: sample(r, 3).update(next="gone"), ("sample.json", "step 4", "'gone' is not in the table"), id="next"
    ),
    pytest.param(
        lambda r: sample(r, 3).update(next=token("sample", "scene-0103", 0)),
        ("sample.json", "step 4", "of another scene"),
        id="next of another scene",
    ),
    pytest.param(
        lambda r: sample(r, 3).update(next=""), ("scene.json", "scene-0061", "8 key frames of it, of which 4"), id="end"
    ),
    pytest.param(
        lambda r: sample(r, 7).update(next=token("sample", "scene-0061", 0)),
        ("sample.json", token("sample", "scene-0061", 0), "is not after"),
        id="in a circle",
    ),
    pytest.param(
        lambda r: sample(r, 7).update(scene_token="gone"), ("sample.json", "step 7", "another scene"), id="scene token"
    ),
    pytest.param(
        lambda r: pick(r["scene"], name="scene-0061").update(nbr_samples=9),
        ("scene.json", "scene-0061", "nbr_samples is 9"),
        id="number of samples",
    ),
    pytest.param(
        lambda r: r.update(sample=[s for s in r["sample"] if s["scene_token"] != token("scene", "scene-0061")]),
        ("sample.json", "scene-0061, step 0", "not in the table"),
        id="samples lost",
    ),
    pytest.param(
        lambda r: (
            r.update(sample=[s for s in r["sample"] if s["scene_token"] != token("scene", "scene-0061")]),
            pick(r["scene"], name="scene-0061").update(nbr_samples=0, first_sample_token=""),
        ),
        ("scene.json", "scene-0061", "no key frames"),
        id="empty scene",
    ),
    pytest.param(
        lambda r: pick(r["scene"], name="scene-0061").update(log_token="gone"),
        ("scene.json", "scene-0061", "log_token 'gone'"),
        id="log token",
    ),
    pytest.param(
        lambda r: lidar_of(r, 5).update(ego_pose_token="gone"),
        ("sample_data.json", token("sample", "scene-0061", 5), "ego_pose_token 'gone' is not in ego_pose.json"),
        id="pose token",
    ),
    pytest.param(
        lambda r: lidar_of(r, 5).update(is_key_frame=False),
        ("sample_data.json", token("sample", "scene-0061", 5), "no LIDAR_TOP"),
        id="no lidar",
    ),
    pytest.param(
        lambda r: pick(r["ego_pose"], token=lidar_of(r, 5)["ego_pose_token"]).update(rotation=[0, 0, 0, 0]),
        ("ego_pose.json", "scene-0061", "step 5"),
        id="rotation of length 0",
    ),
    pytest.param(
        lambda r: pick(r["ego_pose"], token=lidar_of(r, 5)["ego_pose_token"]).update(rotation=[1e308, 1e308, 0, 0]),
        ("ego_pose.json", "scene-0061", "length 1, got [1e+308, 1e+308, 0.0, 0.0] in step 5"),
        id="rotation of any length",
    ),
    pytest.param(
        lambda r: r["ego_pose"].append(pick(r["ego_pose"], token=lidar_of(r, 5)["ego_pose_token"])),
        ("sample_data.json", token("sample", "scene-0061", 5), "is repeated in ego_pose.json"),
        id="pose twice",
    ),
    pytest.param(
        lambda r: r["sample_data"].append(lidar_of(r, 5) | {"ego_pose_token": lidar_of(r, 6)["ego_pose_token"]}),
        ("sample_data.json", token("sample", "scene-0061", 5), "two poses of LIDAR_TOP"),
        id="two lidars",
    ),
    pytest.param(
        lambda r: sample(r, 0).update(timestamp=2**63 // 1000 * 1001),
        ("sample.json", token("sample", "scene-0061", 0), "must be from 1 to 9200000000000000 microseconds"),
        id="time overflows",
    ),
    pytest.param(
        lambda r: sample(r, 0).update(timestamp=-(10**30)),
        ("sample.json", token("sample", "scene-0061", 0), "got -1000000000000000000000000000000"),
        id="time before all",
    ),
    pytest.param(
        lambda r: pick(r["log"], token=token("log", "scene-0061")).update(location="../../elsewhere"),
        ("log.json", "", "must be the name of a city"),
        id="city elsewhere",
    ),
    pytest.param(
        lambda r: box(r, "car", 2).update(translation=[1e30, 0, 0]),
        ("sample_annotation.json", "scene-0061", "must be finite and within 1e+07 m, got [1e+30, 0.0]"),
        id="too far",
    ),
    pytest.param(
        lambda r: box(r, "car", 2).update(size=[1.9, 1000.0, 1.5]),
        ("sample_annotation.json", "scene-0061", "must be finite, above 0 and up to 100 m, got [1000.0, 1.9, 1.5]"),
        id="too long",
    ),
    pytest.param(
        lambda r: box(r, "car", 2).update(rotation=[9.9, 0, 0, 0.1]),
        ("sample_annotation.json", "scene-0061", "must be a quaternion of length 1, got [9.9, 0.0, 0.0, 0.1]"),
        id="box of any rotation",
    ),
    pytest.param(
        lambda r: box(r, "car", 2).update(instance_token="gone"),
        ("sample_annotation.json", "record 2", "not in instance.json"),
        id="instance token",
    ),
    pytest.param(
        lambda r: box(r, "car", 2).update(sample_token="gone"),
        ("sample_annotation.json", "record 2", "'gone' is not in sample.json"),
        id="sample token",
    ),
    pytest.param(
        lambda r: box(r, "car", 2).update(sample_token=token("sample", "scene-0061", 3)),
        ("sample_annotation.json", "record", f"{token('instance', 'scene-0061', 'car')!r} has two boxes"),
        id="two boxes of an instance",
    ),
    pytest.param(
        lambda r: box(r, "car", 2).update(size=[1.9, 0.0, 1.5]),
        ("sample_annotation.json", "scene-0061", "above 0"),
        id="no length",
    ),
    pytest.param(
        lambda r: pick(r["instance"], token=token("instance", "scene-0061", "car")).update(category_token="gone"),
        ("instance.json", token("instance", "scene-0061", "car"), "not in category.json"),
        id="category token",
    ),
]


@pytest.mark.parametrize(("change", "told"), FAULTS)
def test_a_fault_is_named_with_file_and_record_and_the_other_scene_goes_on(tmp_path, change, told):
    file, record, problem = told

    scenes, errors = read_all(write_folder(tmp_path, records=changed(change)))

    assert list(scenes) == ["scene-0103"]
    assert len(scenes["scene-0103"].timestamps_ns) == NUM_SAMPLES
    error = errors["scene-0061"]
    assert error.file == f"v1.0-mini/{file}"
    assert record in error.record
    assert problem in error.problem


def test_a_class_that_nobody_knows_is_told(tmp_path):
    def rename(records):
        pick(records["category"], name="vehicle.car")["name"] = "vehicle.boat"

    scenes, errors = read_all(write_folder(tmp_path, records=changed(rename)))
    assert not scenes
    assert all("'vehicle.boat' is not known" in str(error) for error in errors.values())


def test_a_box_of_nobody_is_told_with_the_first_scene(tmp_path):
    scenes, errors = read_all(
        write_folder(tmp_path, records=changed(lambda r: box(r, "car", 2).update(sample_token="a", instance_token="b")))
    )
    assert not errors
    assert any("(record 2)" in text for text in scenes["scene-0061"].remarks)
    assert not scenes["scene-0103"].remarks


def test_an_instance_that_has_lost_a_box_is_told_in_its_scene(tmp_path):
    def lose(records):
        records["sample_annotation"].remove(box(records, "car", 7))

    scenes, errors = read_all(write_folder(tmp_path, records=changed(lose)))
    assert not errors
    (text,) = scenes["scene-0061"].remarks
    assert "nbr_annotations differs by 1" in text
    assert token("instance", "scene-0061", "car") in text
    assert not scenes["scene-0103"].remarks


def test_scenes_without_boxes_have_no_tracks(tmp_path):
    scenes, errors = read_all(
        write_folder(
            tmp_path, records=changed(lambda r: r.update(sample_annotation=[], instance=[])), version="v1.0-test"
        )
    )
    assert not errors
    assert len(scenes) == 2
    assert all(scene.tracks.ids == () for scene in scenes.values())


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        pytest.param(lambda text: text[: len(text) // 2], "cut off", id="cut off"),
        pytest.param(lambda text: text.replace('"token"', "token", 1), "no JSON", id="no JSON"),
        pytest.param(lambda text: b"\xff\xfe" + text.encode(), "must hold a list", id="other bytes"),
        pytest.param(lambda text: "{}", "must hold a list", id="no list"),
        pytest.param(lambda text: "", "must hold a list", id="empty"),
        pytest.param(lambda text: text.replace('"translation"', '"trans"', 1), "record 0.*translation", id="field"),
        pytest.param(
            lambda text: text.replace('"instance_token": "', '"instance_token": 7, "x": "', 1), "record 0", id="type"
        ),
    ],
)
def test_a_damaged_table_is_named(tmp_path, damage, told):
    folder = write_folder(tmp_path)
    file = folder / "sample_annotation.json"
    text = damage(file.read_text())
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SourceDataError, match=f"v1.0-mini/sample_annotation.json.*{told}"):
        NuscenesReader(folder).list_scenes()


def test_a_table_that_is_a_folder_is_named(tmp_path):
    folder = write_folder(tmp_path)
    (folder / "log.json").unlink()
    (folder / "log.json").mkdir()
    with pytest.raises(SourceDataError, match=r"v1.0-mini/log.json: the table cannot be read: Is a directory"):
        NuscenesReader(folder).list_scenes()


@pytest.mark.parametrize("name", ["scene", "sample", "ego_pose", "sample_data", "calibrated_sensor", "category", "log"])
def test_a_missing_table_is_named(tmp_path, name):
    folder = write_folder(tmp_path)
    (folder / f"{name}.json").unlink()
    with pytest.raises(SourceDataError, match=f"v1.0-mini/{name}.json: the table is missing"):
        NuscenesReader(folder).list_scenes()


DOUBLED = ["scene", "log", "sample", "sensor", "calibrated_sensor", "category", "attribute", "instance"]


@pytest.mark.parametrize("name", DOUBLED)
def test_tokens_of_two_records_are_refused(tmp_path, name):
    records = changed(lambda r: r[name].append(r[name][0]))
    with pytest.raises(
        SourceDataError, match=rf"v1.0-mini/{name}.json \(record \d+\): token .* of a record before, too"
    ):
        NuscenesReader(write_folder(tmp_path, records=records)).list_scenes()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda r: r["instance"][0].update(nbr_annotations=10**30), "instance.json .record 0"),
        (lambda r: r["sample"][0].update(token="x" * 10**6), "sample.json .record 0.*length <= 256"),
        (lambda r: r["scene"][0].update(log_token="x" * 10**6), "scene.json .record 0.*length <= 256"),
        (lambda r: r["log"][0].update(location=None), "log.json .record 0.*location"),
    ],
    ids=["number", "token", "log", "location"],
)
def test_values_that_would_take_all_memory_or_no_number_are_refused(tmp_path, change, told):
    with pytest.raises(SourceDataError, match=told):
        NuscenesReader(write_folder(tmp_path, records=changed(change))).list_scenes()


def test_a_table_without_bottom_is_named(tmp_path):
    folder = write_folder(tmp_path)
    (folder / "sample.json").write_text('[{"x": ' + "[" * 100_000 + "]" * 100_000 + "}]")
    with pytest.raises(SourceDataError, match=r"v1.0-mini/sample.json \(record 0\)"):
        NuscenesReader(folder).list_scenes()


def test_scenes_of_one_name_are_refused(tmp_path):
    records = changed(lambda r: r["scene"][1].update(name="scene-0061"))
    with pytest.raises(SourceDataError, match=r"scene.json \(scene 'scene-0061'\): occurs twice"):
        NuscenesReader(write_folder(tmp_path, records=records)).list_scenes()


def test_an_unknown_version_is_refused(tmp_path):
    reader = NuscenesReader(write_folder(tmp_path, version="v2.0-mini"))
    with pytest.raises(SourceDataError, match=r"v2\.0-mini: is no known version"):
        reader.list_scenes()


def test_several_versions_and_none_are_told(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="no nuScenes at"):
        NuscenesReader(tmp_path)
    for version in ("v1.0-mini", "v1.0-test"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "scene.json").write_text("[]")
    with pytest.raises(DatasetNotFoundError, match=r"v1\.0-mini, v1\.0-test"):
        NuscenesReader(tmp_path)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("scene.json", "this is a file; check the spelling of the path"),
        ("none", "there is no folder v1.0-... with scene.json; check the spelling of the path"),
    ],
)
def test_a_file_in_place_of_the_folder_is_told_as_such(tmp_path, name, told):
    given = write_folder(tmp_path) / name
    with pytest.raises(DatasetNotFoundError) as caught:
        NuscenesReader(given)
    assert str(caught.value) == f"no nuScenes at {str(given)!r}: {told}"


def broken_map(change):
    maps = {city: city_map(city) for city in SCENES.values()}
    change(maps["singapore-onenorth"])
    return maps


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(lambda m: m.update(version="1.0"), "'1.0', must be from 1.3", id="old"),
        pytest.param(lambda m: m.update(version="2.0"), "'2.0', must be from 1.3", id="new"),
        pytest.param(lambda m: m.update(version="new"), "must be numbers", id="no version"),
        pytest.param(lambda m: m.pop("version"), "'1.0', must be from 1.3", id="none told"),
        pytest.param(lambda m: m.pop("node"), "damaged.*node", id="no nodes"),
        pytest.param(lambda m: m["lane"].append(m["lane"][0]), "twice", id="a lane twice"),
    ],
)
def test_a_map_that_cannot_be_read_is_named_and_the_other_city_goes_on(tmp_path, change, told):
    scenes, errors = read_all(write_folder(tmp_path, maps=broken_map(change)))
    assert list(scenes) == ["scene-0103"]
    with pytest.raises(SourceDataError, match=f"maps/expansion/singapore-onenorth.json.*{told}"):
        raise errors["scene-0061"]


def test_a_missing_map_is_named(tmp_path):
    scenes, errors = read_all(write_folder(tmp_path, maps={"boston-seaport": city_map("boston-seaport")}))
    assert list(scenes) == ["scene-0103"]
    assert "maps/expansion/singapore-onenorth.json: is missing; the map expansion" in str(errors["scene-0061"])


EAST = token("singapore-onenorth", "east")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(lambda m: m["arcline_path_3"].pop(EAST), "no arc line path", id="no path"),
        pytest.param(lambda m: m["arcline_path_3"].update({EAST: []}), "no length", id="empty path"),
        pytest.param(lambda m: m["arcline_path_3"][EAST][0].update(shape="LSZ"), "'LSZ'", id="unknown shape"),
        pytest.param(lambda m: m["arcline_path_3"][EAST][0].pop("radius"), "radius", id="no radius"),
        pytest.param(
            lambda m: m["arcline_path_3"][EAST][0].update(segment_length=[0, 0, 0]), "no length", id="no length"
        ),
        pytest.param(
            lambda m: m["arcline_path_3"][EAST][0].update(segment_length=[0, 1e12, 0]),
            "segment_length is 1e+12 m with a curvature of 0 1/m, which takes more than 10000 points",
            id="absurd length",
        ),
    ],
)
def test_a_lane_without_geometry_is_left_out_and_told(tmp_path, change, told):
    scenes, errors = read_all(write_folder(tmp_path, maps=broken_map(change)))
    assert not errors
    assert {lane.lane_id for lane in scenes["scene-0061"].map.lanes} == {
        token("singapore-onenorth", name) for name in ("turn", "north")
    }
    (text,) = scenes["scene-0061"].remarks
    assert f"lane {EAST!r} is left out" in text
    assert told in text
    assert not scenes["scene-0103"].remarks


def test_a_lane_whose_polygon_is_none_has_no_sides(tmp_path):
    def cross(content):
        outline = content["polygon"][0]["exterior_node_tokens"]
        outline[:] = [outline[0], outline[2], outline[5], outline[1]]

    scenes, _ = read_all(write_folder(tmp_path, maps=broken_map(cross)))
    lane = lanes_of(scenes["scene-0061"])["east"]
    assert (lane.left_m, lane.right_m) == (None, None)
    assert len(lane.centre_m) > 2


def test_an_area_without_corners_is_left_out_and_told(tmp_path):
    scenes, errors = read_all(
        write_folder(tmp_path, maps=broken_map(lambda m: m["ped_crossing"][0].update(polygon_token="gone")))
    )
    assert not errors
    assert any("crosswalk" in text and "'gone'" in text for text in scenes["scene-0061"].remarks)
    assert "crosswalk" not in {area.kind for area in scenes["scene-0061"].map.areas}


# --- the index


def settle(folder):
    """Let the tables be as old as ones that were unpacked a while ago."""
    for file in folder.glob("*.json"):
        os.utime(file, (1e9, 1e9))


def test_the_index_is_kept_and_made_anew_when_a_table_changes(tmp_path, monkeypatch):
    from l5kit.readers import nuscenes_cache

    folder = write_folder(tmp_path / "source")
    monkeypatch.setattr(nuscenes_cache, "_TICK_NS", -(10**12))  # files count as settled at once
    cache = tmp_path / "cache"
    monkeypatch.setenv("L5KIT_CACHE_DIR", str(cache))
    first = read_all(folder)[0]["scene-0061"]
    (kept,) = (cache / "nuscenes").iterdir()

    monkeypatch.setattr(nuscenes_cache, "build_index", lambda folder: pytest.fail("it was kept"))
    second = read_all(folder)[0]["scene-0061"]
    np.testing.assert_array_equal(first.tracks.positions_m, second.tracks.positions_m)
    monkeypatch.undo()

    monkeypatch.setattr(nuscenes_cache, "_TICK_NS", -(10**12))
    monkeypatch.setenv("L5KIT_CACHE_DIR", str(cache))
    records = changed(lambda r: box(r, "car", 0).update(translation=[381.0, 1102.0, 3.0]))
    (folder / "sample_annotation.json").write_text(json.dumps(records["sample_annotation"]))
    third = read_all(folder)[0]["scene-0061"]
    np.testing.assert_array_equal(third.tracks.positions_m[track(third, "car"), 0], (381.0, 1102.0))
    assert [place.name for place in (cache / "nuscenes").iterdir()] != [kept.name]
    assert len(list((cache / "nuscenes").iterdir())) == 1


def test_no_index_is_kept_of_tables_that_were_just_written(tmp_path, monkeypatch):
    monkeypatch.setenv("L5KIT_CACHE_DIR", str(tmp_path / "cache"))
    read_all(write_folder(tmp_path / "source"))
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("piece_bytes", [300, 1000, 4096])
def test_tables_are_the_same_in_pieces_of_any_size(tmp_path, monkeypatch, piece_bytes):
    from l5kit.readers import nuscenes_tables

    folder = write_folder(tmp_path)
    whole = read_all(folder)[0]["scene-0103"]
    monkeypatch.setattr(nuscenes_tables, "PIECE_BYTES", piece_bytes)
    pieces = read_all(folder)[0]["scene-0103"]
    np.testing.assert_array_equal(whole.tracks.positions_m, pieces.tracks.positions_m)
    np.testing.assert_array_equal(whole.ego.positions_m, pieces.ego.positions_m)


def test_headings_of_tilted_boxes_are_those_of_their_front():
    turns = np.array([quaternion(yaw, pitch) for yaw in (-3.0, 0.0, 1.5) for pitch in (0.0, 0.4)])
    np.testing.assert_allclose(yaws_of(turns), [-3.0, -3.0, 0.0, 0.0, 1.5, 1.5], atol=1e-12)
    np.testing.assert_allclose(yaws_of(2.0 * turns), yaws_of(turns))
