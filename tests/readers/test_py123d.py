"""The reader of py123d: round trips of logs of l5kit, logs as its package writes them, and damage by file and field.

Where ``L5KIT_REAL_PY123D`` names a data root of real logs, the whole import runs on its first ones, too.
"""

import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("msgpack")
pytest.importorskip("pyarrow")

from l5kit.data import ChunkedDataset
from l5kit.data.checks.path_validation import validate_path
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.interop import export_py123d
from l5kit.data.jobs.worker_processes import WorkerProcesses
from l5kit.data.map.opened import open_map
from l5kit.errors import DatasetNotFoundError
from l5kit.readers.formats import guess_format, open_reader
from l5kit.readers.importing import import_dataset
from l5kit.readers.py123d_log import LABEL_MAPPING, names_of_labels
from l5kit.readers.source_scene import LightState
from support import py123d_roots as roots
from support.cities import small_city

# --- round trips


def imported(root, out):
    result = import_dataset(open_reader("py123d", root), out)
    assert not result.failed
    (path,) = result.scenes.values()
    return ChunkedDataset(str(path)).open()


def require_same_records(before, after):
    """All that logs of py123d have room for is equal, and rows of a frame may be in another order."""
    assert len(before.frames) == len(after.frames)
    assert np.array_equal(before.frames["timestamp"] // 1000, after.frames["timestamp"] // 1000)
    assert np.array_equal(before.frames["ego_translation"], after.frames["ego_translation"])
    assert np.allclose(before.frames["ego_rotation"], after.frames["ego_rotation"], rtol=0, atol=1e-14)
    for first, second in zip(before.frames, after.frames, strict=True):
        rows = [
            np.sort(log.agents[slice(*frame["agent_index_interval"])], order="track_id")
            for log, frame in ((before, first), (after, second))
        ]
        labels = [of_frame["label_probabilities"].argmax(axis=1) for of_frame in rows]
        assert np.array_equal(*labels), "the label, which gets all of the probability"
        for name in set(before.agents.dtype.names) - {"label_probabilities"}:
            assert np.array_equal(rows[0][name], rows[1][name]), name


def test_fixture_s_comes_back_equal(tmp_path):
    data = roots.write_root_of_fixture_s(tmp_path)
    after = imported(tmp_path / "root", tmp_path / "back")
    require_same_records(ChunkedDataset(str(data / "scenes" / "fixture_s.zarr")).open(), after)


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    folder = tmp_path_factory.mktemp("city")
    small_city(folder / "city")
    log = ChunkedDataset(str(next((folder / "city" / "scenes").glob("*.zarr")))).open()
    export_py123d(log, folder / "root", files=find_dataset_files(folder / "city"), split="train")
    after = imported(folder / "root", folder / "back")
    return folder, log, after


def test_a_synthetic_city_comes_back_equal(city):
    _, before, after = city
    require_same_records(before, after)
    assert after.facts.ego_extent_m == before.facts.ego_extent_m
    assert [source["licence"] for source in after.facts.sources] == [
        "; ".join(source["licence"] for source in before.facts.sources)
        or "that of the dataset which l5kit has exported; see its facts"
    ]


def test_the_map_of_a_city_comes_back_with_its_lanes(city):
    folder, _, _ = city
    before, after = (open_map(find_dataset_files(folder / name)) for name in ("city", "back"))
    rows = {name: row for row, name in enumerate(after.bounds_info["lanes"]["ids"])}
    assert len(rows) == before.arrays.num_lanes
    for row in range(before.arrays.num_lanes):
        back = rows[f"l5kit_world/{row}"]
        assert np.allclose(before.arrays.left_line(row)[:, :2], after.arrays.left_line(back)[:, :2], atol=0.02)
        assert np.allclose(before.arrays.right_line(row)[:, :2], after.arrays.right_line(back)[:, :2], atol=0.02)
        ahead = {rows[f"l5kit_world/{other}"] for other in before.network.ahead_of(row).tolist()}
        assert set(after.network.ahead_of(back).tolist()) == ahead
        assert after.network.speed_limits_mps[back] == pytest.approx(before.network.speed_limits_mps[row])


def test_lights_of_lanes_come_back(city):
    folder, before, after = city
    lights = [open_map(find_dataset_files(folder / name)).arrays.lights for name in ("city", "back")]
    names = open_map(find_dataset_files(folder / "back")).bounds_info["lanes"]["ids"]
    for frame in (0, 50, 99):
        statuses = []
        for log, of_map in zip((before, after), lights, strict=True):
            faces = log.tl_faces[slice(*log.frames[frame]["traffic_light_faces_index_interval"])]
            statuses.append(_shown_by(faces, of_map))
        assert statuses[0] == {int(names[row].rpartition("/")[2]): shown for row, shown in statuses[1].items()}


def _shown_by(faces, lights):
    """The rank of the colour that each lane with a light shows."""
    lanes = {lights.id_of(face): (int(lights.ranks[face]), lights.lanes_of(face)) for face in range(len(lights.ranks))}
    shown = {}
    for face in faces:
        rank, rows = lanes[face["face_id"]]
        for row in rows.tolist():
            shown[row] = max(shown.get(row, 0), rank if face["traffic_light_face_status"][0] > 0 else 0)
    return shown


# --- logs of other origins


@pytest.fixture
def root(tmp_path):
    roots.write_log(tmp_path / "root")
    roots.write_map(tmp_path / "root")
    return tmp_path / "root"


def read_one(root):
    reader = open_reader("py123d", root)
    (ref,) = reader.list_scenes()
    return reader.read(ref)


def test_poses_are_moved_to_the_middle_and_the_ground(root):
    scene = read_one(root)
    assert scene.ego.positions_m[:, 0] == pytest.approx(0.8 * np.arange(roots.NUM_FRAMES))
    assert scene.ego.positions_m[0].tolist() == pytest.approx([0.0, 0.0, 0.0])
    assert scene.ego.size_m.tolist() == [5.0, 2.0, 1.6]
    assert scene.timestamps_ns[0] == 1_600_000_000_000_000_000


def test_boxes_have_the_classes_of_their_dataset(root):
    tracks = read_one(root).tracks
    assert tracks.ids == ("car", "bike", "cone")
    assert tracks.classes == ("NuPlan vehicle", "NuPlan cyclist", "NuPlan traffic cone")
    assert [LABEL_MAPPING[name] for name in tracks.classes] == [
        "PERCEPTION_LABEL_CAR",
        "PERCEPTION_LABEL_CYCLIST",
        "PERCEPTION_LABEL_UNKNOWN",
    ]
    assert tracks.sizes_m[0, 0].tolist() == [4.5, 1.9, 1.6]
    assert abs(tracks.yaws_rad[1, 0]) == pytest.approx(np.pi)
    assert tracks.velocities_mps[1, 3].tolist() == [-3.0, 0.0]


def test_the_map_and_its_lights_are_read(root):
    scene = read_one(root)
    lanes = {lane.lane_id: lane for lane in scene.map.lanes}
    assert (lanes["10"].successors, lanes["11"].predecessors) == (("11",), ("10",))
    assert (lanes["10"].is_in_junction, lanes["11"].is_in_junction) == (False, True)
    assert lanes["10"].speed_limit_mps == 13.5
    kinds = sorted((area.kind, area.area_id) for area in scene.map.areas)
    assert kinds == [
        ("crosswalk", "1"),
        ("drivable_area", "3"),
        ("drivable_area", "intersection 5"),
        ("speed_bump", "7"),
        ("walkway", "2"),
    ]
    assert [(sign.sign_id, sign.lane_ids) for sign in scene.map.signs] == [("4", ("10",))]
    assert scene.lights.lane_ids == ("11",)
    assert scene.lights.states[0, [0, -1]].tolist() == [LightState.RED, LightState.GREEN]


@pytest.mark.parametrize("label_class", ["DefaultBoxDetectionLabel", "NuScenesBoxDetectionLabel", "SomeNewLabel"])
def test_label_classes_are_told_apart(tmp_path, label_class):
    roots.write_log(tmp_path, label_class=label_class, location=None)
    scene = read_one(tmp_path)
    wanted = {
        "DefaultBoxDetectionLabel": ("Default ego", "Default vehicle", "Default two-wheeler"),
        "NuScenesBoxDetectionLabel": ("NuScenes car", "NuScenes truck", "NuScenes rigid bus"),
        "SomeNewLabel": ("unknown",) * 3,
    }
    assert scene.tracks.classes == wanted[label_class]
    assert any("SomeNewLabel are not known" in remark for remark in scene.remarks) == (label_class == "SomeNewLabel")
    assert set(names_of_labels(label_class)) <= set(LABEL_MAPPING)


def test_only_frames_with_boxes_are_kept_where_these_are_key_frames(tmp_path):
    roots.write_log(tmp_path, boxes_every=5, num_frames=21, location=None)
    reader = open_reader("py123d", tmp_path)
    assert reader.info.step_time_s == 0.5
    scene = reader.read(reader.list_scenes()[0])
    assert len(scene.timestamps_ns) == 5
    assert scene.tracks.is_valid.all()


def test_what_a_log_lacks_is_told(tmp_path):
    folder = roots.write_log(tmp_path, location=None)
    for name in (roots.BOXES, roots.LIGHTS):
        (folder / f"{name}.arrow").unlink()
    scene = read_one(tmp_path)
    assert (scene.tracks.ids, scene.lights.lane_ids, scene.map.lanes) == ((), (), ())
    assert set(scene.remarks) == {
        "There are no boxes: only the AV is recorded.",
        "There is no map.",
        "There are no traffic lights.",
    }


def test_velocities_that_are_missing_are_differences(root):
    def without_first(rows):
        return [[None, *row[1:]] for row in rows]

    file = root / "logs/nuplan_train/log-1" / f"{roots.BOXES}.arrow"
    roots.change_column(file, f"{roots.BOXES}.velocity_3d", without_first)
    scene = read_one(root)
    assert scene.tracks.velocities_mps[0, :, 0] == pytest.approx(np.full(roots.NUM_FRAMES, 8.0))


def test_maps_may_be_those_of_logs(root):
    (root / "maps/nuplan/nuplan_town.arrow").rename(root / "logs/nuplan_train/log-1/map.arrow")
    assert read_one(root).map.name == "nuplan_train/log-1"


def test_what_is_no_data_root_is_refused(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="there is no such folder"):
        open_reader("py123d", tmp_path / "none").list_scenes()
    with pytest.raises(DatasetNotFoundError, match=r"there is no logs/SPLIT/LOG/sync\.arrow in it"):
        open_reader("py123d", tmp_path).list_scenes()


def test_the_format_is_guessed(root):
    assert guess_format(root) == "py123d"


# --- damage


def _set(column, value, *, row=3, file=None):
    def change(folder):
        name = file or column.partition(".")[0]

        def replaced(values):
            values[row] = value(values[row]) if callable(value) else value
            return values

        roots.change_column(folder / f"{name}.arrow", column, replaced)

    return change


def _metadata(name, **changes):
    return lambda folder: roots.change_metadata(folder / f"{name}.arrow", **changes)


def _bytes(name, content):
    return lambda folder: (folder / f"{name}.arrow").write_bytes(content)


def _cut(folder):
    file = folder / f"{roots.BOXES}.arrow"
    file.write_bytes(file.read_bytes()[:-700])


NAN_BOX = [[float("nan"), 0, 0, 1, 0, 0, 0, 4, 2, 1]]
DAMAGE = {
    "no AV": (lambda folder: (folder / f"{roots.EGO}.arrow").unlink(), r"ego_state_se3\.arrow: there is no such file"),
    "cut off": (_cut, r"box_detections_se3\.arrow: it cannot be read as an Arrow file"),
    "empty file": (_bytes(roots.EGO, b""), r"ego_state_se3\.arrow: it cannot be read as an Arrow file"),
    "no pose at all": (_set("sync.timestamp_us", 0, row=0), r"sync\.timestamp_us must be from"),
    "times descend": (_set("sync.timestamp_us", 1_600_000_000_000_000), "times must ascend"),
    "no rotation": (_set(f"{roots.EGO}.imu_se3", [0.0] * 7), r"ego_state_se3\.arrow: rotation must be a quaternion"),
    "no number": (_set(f"{roots.EGO}.imu_se3", [float("nan")] * 3 + [1.0, 0, 0, 0]), "positions_m of the AV"),
    "a row that is not there": (_set("ego_state_se3", 99, file="sync"), r"sync\.arrow names row 99"),
    "no size": (_metadata(roots.EGO, length=None), r"length of the AV must be a number"),
    "no middle": (_metadata(roots.EGO, center_to_imu_se3=None), "center_to_imu_se3 is missing"),
    "a track twice": (
        _set(f"{roots.BOXES}.track_token", ["car", "car", "cone"]),
        r"box_detections_se3\.arrow: track 'car' has two boxes in frame 3",
    ),
    "lists of other lengths": (_set(f"{roots.BOXES}.label", [1]), "lists of label have other lengths"),
    "NaN box": (_set(f"{roots.BOXES}.bounding_box_se3", lambda row: NAN_BOX + row[1:]), "positions_m of track 'car'"),
    "other columns": (
        lambda folder: roots.write_arrow(folder / f"{roots.BOXES}.arrow", {"a": [1]}, {}),
        "there is no column bounding_box_se3; there are: a",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_fails_one_log_with_file_and_field(root, kind):
    change, message = DAMAGE[kind]
    for name in ("log-2", "log-3"):
        roots.write_log(root, name)
    change(root / "logs/nuplan_train/log-1")
    result = import_dataset(open_reader("py123d", root), root.parent / "out")
    assert result.num_scenes == 2
    (failed,) = result.failed
    assert failed.message.startswith("logs/nuplan_train/log-1/")
    with pytest.raises(ValueError, match=message):
        raise ValueError(failed.message)


def test_a_map_that_is_missing_fails_its_logs_by_name(root):
    (root / "maps/nuplan/nuplan_town.arrow").unlink()
    roots.write_log(root, "log-0", location=None)
    result = import_dataset(open_reader("py123d", root), root.parent / "out")
    assert (result.num_scenes, len(result.failed)) == (1, 1)
    assert result.failed[0].message.startswith(
        "maps/nuplan/nuplan_town.arrow: there is no such file, the map of the log"
    )


def test_an_object_of_a_map_is_named(root):
    def broken(rows):
        return [roots.pack({"outline": np.zeros((3, 3), "<c16")}), *rows[1:]]

    roots.change_column(root / "maps/nuplan/nuplan_town.arrow", "features", broken)
    roots.write_log(root, "log-0", location=None)
    result = import_dataset(open_reader("py123d", root), root.parent / "out")
    told = result.failed[0].message
    assert told.startswith("maps/nuplan/nuplan_town.arrow (object 10 of layer 0): an array must have one of the types")


# --- whole imports, and the package itself


@pytest.fixture(
    params=[
        "made",
        pytest.param(
            "real",
            marks=pytest.mark.skipif("L5KIT_REAL_PY123D" not in os.environ, reason="L5KIT_REAL_PY123D is not set"),
        ),
    ]
)
def source(request, root):
    if request.param == "real":
        return Path(os.environ["L5KIT_REAL_PY123D"])
    roots.write_log(root, "log-2")
    return root


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.process
def test_an_import_is_valid_and_the_same_for_any_number_of_processes(source, tmp_path):
    reader = open_reader("py123d", source)
    result = import_dataset(reader, tmp_path / "one", max_scenes=4)
    assert not result.failed
    for path in result.scenes.values():
        assert validate_path(path) == []
    with WorkerProcesses(2) as workers:
        import_dataset(reader, tmp_path / "two", max_scenes=4, workers=workers)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


def test_the_package_reads_what_was_exported(tmp_path):
    pytest.importorskip("py123d")
    from py123d.api.scene.arrow.arrow_scene_builder import ArrowSceneBuilder
    from py123d.api.scene.scene_filter import SceneFilter
    from py123d.common.execution.sequential_executor import SequentialExecutor

    data = roots.write_root_of_fixture_s(tmp_path)
    log = ChunkedDataset(str(data / "scenes" / "fixture_s.zarr")).open()
    builder = ArrowSceneBuilder(logs_root=tmp_path / "root" / "logs", maps_root=tmp_path / "root" / "maps")
    (scene,) = builder.get_scenes(SceneFilter(), SequentialExecutor())
    ego = scene.get_ego_state_se3_at_iteration(3)
    assert [ego.imu_se3.x, ego.imu_se3.y] == log.frames[3]["ego_translation"][:2].tolist()
    start, end = log.frames[3]["agent_index_interval"]
    assert len(scene.get_box_detections_se3_at_iteration(3)) == end - start


def test_the_package_reads_the_logs_of_these_tests(root):
    """They are like those it writes itself, except for logs of l5kit."""
    pytest.importorskip("py123d")
    from py123d.api.scene.arrow.arrow_scene_builder import ArrowSceneBuilder
    from py123d.api.scene.scene_filter import SceneFilter
    from py123d.common.execution.sequential_executor import SequentialExecutor

    (scene,) = ArrowSceneBuilder(logs_root=root / "logs", maps_root=root / "maps").get_scenes(
        SceneFilter(), SequentialExecutor()
    )
    found = read_one(root)
    middle = scene.get_ego_state_se3_at_iteration(2).center_se3
    assert [middle.x, middle.y, middle.z - 0.8] == pytest.approx(found.ego.positions_m[2].tolist())
    boxes = scene.get_box_detections_se3_at_iteration(2)
    assert [box.attributes.label.name for box in boxes] == ["VEHICLE", "BICYCLE", "TRAFFIC_CONE"]
    assert scene.get_map_api().location == "town"
