"""Datasets in which scenes have a map each: imported into a folder of maps, and equal to one map with all of them."""

import json
import pickle
import shutil

import numpy as np
import pytest

from l5kit.closedloop import simulate
from l5kit.configs import load_training_config
from l5kit.data import ChunkedDataset, LocalDataManager, MapAPI
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.map.map_folder import MapIndex, MapIndexWriter
from l5kit.data.map.opened import MOST_MAPS_AT_ONCE, SceneMaps, open_map, open_maps
from l5kit.dataset import AgentDataset, EgoDataset, EgoDatasetVectorized
from l5kit.errors import ConfigError, CorruptedDataError, IndexOutOfRangeError, InvalidArgumentError
from l5kit.evaluation.scene_tags import tag_scenes
from l5kit.rasterization import build_rasterizer
from l5kit.readers.map_writing import WORLD_TO_ECEF
from l5kit.vectorization import build_vectorizer
from l5kit.visualization.scene_pictures import ScenePainter
from l5kit.visualization.viewer.viewed_log import ViewedLog
from support.many_maps import NUM_SCENES, import_both
from support.source_scenes import NUM_STEPS


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same scenes, whose maps lie in one place in the source, with one map and with many."""
    return import_both(tmp_path_factory.mktemp("many"))


def log_in(folder):
    return ChunkedDataset(str(folder / "scenes" / "val.zarr")).open()


def config(name, folder, **changes):
    cfg = load_training_config(name)
    index = folder / "maps" / "index.json"
    key = "maps/index.json" if index.exists() else "semantic_map/semantic_map.pb"
    cfg["raster_params"] = cfg["raster_params"] | {"semantic_map_key": key, "dataset_meta_key": "meta.json"}
    cfg["model_params"] = cfg["model_params"] | changes
    return cfg


def maps_in(folder):
    return open_maps(find_dataset_files(folder))


def test_the_folder_has_an_index_and_a_file_for_each_map(folders):
    index = MapIndex.read(folders["apart"] / "maps" / "index.json")
    assert index.names == tuple(f"m{number}" for number in range(NUM_SCENES))
    assert not (folders["apart"] / "semantic_map").exists()
    assert sorted(path.name for path in (folders["apart"] / "maps" / "000").iterdir()) == [
        f"{number:06d}.pb" for number in range(NUM_SCENES)
    ]
    told = json.loads((folders["apart"] / "import.json").read_text())
    assert told["map_offsets_m"] == json.loads((folders["one"] / "import.json").read_text())["map_offsets_m"]


def test_records_are_those_of_one_map(folders):
    one, apart = log_in(folders["one"]), log_in(folders["apart"])
    for name in ("scenes", "frames", "agents", "tl_faces"):
        assert np.array_equal(getattr(one, name)[:], getattr(apart, name)[:])


def test_each_scene_has_its_map(folders):
    maps, log = maps_in(folders["apart"]), log_in(folders["apart"])
    assert maps.rows_of_scenes(log, range(NUM_SCENES)).tolist() == list(range(NUM_SCENES))
    for scene in range(NUM_SCENES):
        assert set(maps.of_scenes(log, [scene]).bounds_info["lanes"]["ids"]) == {
            f"m{scene}/{lane}" for lane in ("in", "on", "beside")
        }


@pytest.mark.parametrize("scene", [-1, NUM_SCENES])
def test_scenes_that_the_log_does_not_have_are_on_no_map(folders, scene):
    with pytest.raises(IndexOutOfRangeError, match=f"scene {scene} does not exist: the log has {NUM_SCENES} scenes"):
        maps_in(folders["apart"]).of_scenes(log_in(folders["apart"]), [0, scene])


def test_scenes_together_have_the_map_of_all_of_them(folders):
    maps, log = maps_in(folders["apart"]), log_in(folders["apart"])
    together, one = maps.of_scenes(log, range(NUM_SCENES)), open_map(find_dataset_files(folders["one"]))
    assert together.arrays.lane_ids.to_list() == one.arrays.lane_ids.to_list()
    assert np.array_equal(together.arrays.lane_lines.points, one.arrays.lane_lines.points)
    assert together.network.ahead_rows.tolist() == one.network.ahead_rows.tolist()
    again = pickle.loads(pickle.dumps(together))
    assert again.arrays.lane_ids.to_list() == one.arrays.lane_ids.to_list()


def equal_columns(first, second):
    assert first.keys() == second.keys()
    for key, column in first.items():
        assert np.array_equal(np.asarray(column), np.asarray(second[key]), equal_nan=True), key


SPREAD = [scene * NUM_STEPS + frame for frame in (3, 7) for scene in (4, 0, 2, 1, 3)]
"""Samples of all scenes, mixed."""


def test_vectors_of_many_maps_are_those_of_one(folders):
    columns = []
    for maps in ("one", "apart"):
        vectorizer = build_vectorizer(config("vector_planner", folders[maps]), LocalDataManager(folders[maps]))
        samples = EgoDatasetVectorized(config("vector_planner", folders[maps]), log_in(folders[maps]), vectorizer)
        columns.append(samples.make_columns(SPREAD))
    equal_columns(*columns)
    assert columns[1]["lanes_mid"].any()
    single = samples[SPREAD[0]]
    assert np.array_equal(single["lanes_mid"], columns[1]["lanes_mid"][0])


@pytest.mark.parametrize("map_type", ["py_semantic", "semantic_debug"])
@pytest.mark.parametrize("kind", [EgoDataset, AgentDataset])
def test_rasters_of_many_maps_are_those_of_one(folders, map_type, kind):
    columns = []
    for maps in ("one", "apart"):
        cfg = config("raster_planner", folders[maps])
        cfg["raster_params"]["map_type"] = map_type
        rasterizer = build_rasterizer(cfg, LocalDataManager(folders[maps]))
        samples = kind(cfg, log_in(folders[maps]), rasterizer)
        indices = SPREAD if kind is EgoDataset else [0, len(samples) // 2, len(samples) - 1]
        columns.append(samples.make_columns(indices))
    equal_columns(*columns)
    assert np.array_equal(samples[indices[0]]["image"], columns[1]["image"][0])
    assert rasterizer.to_rgb(samples[indices[0]]["image"].transpose(1, 2, 0)).any()


def test_workers_get_rasterizer_and_vectorizer(folders):
    data_manager = LocalDataManager(folders["apart"])
    rasterizer = pickle.loads(pickle.dumps(build_rasterizer(config("raster_planner", folders["apart"]), data_manager)))
    vectorizer = pickle.loads(pickle.dumps(build_vectorizer(config("vector_planner", folders["apart"]), data_manager)))
    assert rasterizer.num_channels() > 3
    cfg = config("vector_planner", folders["apart"])
    assert EgoDatasetVectorized(cfg, log_in(folders["apart"]), vectorizer).make_columns(SPREAD)["lanes_mid"].any()


def test_simulations_on_many_maps_are_those_on_one(folders, tmp_path):
    tables = []
    for maps in ("one", "apart"):
        result = simulate(folders[maps], tmp_path / maps, planner="idm", agents="idm")
        tables.append((result.folder / "scenes.csv").read_text())
    assert tables[0] == tables[1]
    assert tables[0].count("\n") == NUM_SCENES + 1


def test_what_takes_one_map_refuses_many_by_name(folders):
    files = find_dataset_files(folders["apart"])
    with pytest.raises(InvalidArgumentError, match="has 5 maps; import fewer scenes, or with one map"):
        open_map(files)
    with pytest.raises(InvalidArgumentError, match="is the index of many maps"):
        MapAPI.from_cfg(LocalDataManager(folders["apart"]), config("vector_planner", folders["apart"]))
    for name, build in (("vector_planner", build_vectorizer), ("raster_planner", build_rasterizer)):
        with pytest.raises(ConfigError, match=r"model_params.route: .* there are 5"):
            build(config(name, folders["apart"], route=True), LocalDataManager(folders["apart"]))


def test_a_map_that_is_missing_or_changed_is_an_error(folders, tmp_path):
    copied = tmp_path / "copied"
    shutil.copytree(folders["apart"], copied)
    (copied / "maps" / "000" / "000001.pb").unlink()
    file = copied / "maps" / "000" / "000002.pb"
    file.write_bytes(file.read_bytes() + b"\x0a\x00")
    maps = maps_in(copied)
    assert len(maps.map_of([0])) > 0
    with pytest.raises(CorruptedDataError, match=r"map 'm1' is missing: .*000001.pb"):
        maps.map_of([1])
    with pytest.raises(CorruptedDataError, match="map 'm2' has changed since its index was written"):
        maps.map_of([0, 2])


def index_of(folder, *bounds_m):
    writer = MapIndexWriter(folder)
    for number, bounds in enumerate(bounds_m):
        writer.add(f"m{number}", np.array(bounds, float), lambda path: path.write_bytes(b""))
    writer.finish()
    return folder / "index.json"


def test_places_are_on_the_map_around_them_or_on_the_nearest(tmp_path):
    index = MapIndex.read(index_of(tmp_path, [[0, 0], [10, 10]], [[20, 0], [30, 10]], [[0, 20], [30, 30]]))
    points_m = np.array([[5.0, 5], [25, 5], [15, 25], [14, 5], [16, 5], [1e6, 1e6], [np.nan, 0], [0, 0], [10, 10]])
    assert index.rows_at(points_m).tolist() == [0, 1, 2, 0, 1, 2, 0, 0, 0]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param("[]", "is not an index of maps", id="no index"),
        pytest.param('{"format": "maps", "version": 1, "maps": []}', "is 'maps' of version 1", id="another format"),
        pytest.param('{"format": "l5kit maps", "version": 2, "maps": []}', "of version 2", id="another version"),
        pytest.param('{"format": "l5kit maps", "version": 1, "maps": []}', "must list maps", id="no map"),
    ],
)
def test_files_that_are_no_index_are_refused(tmp_path, content, problem):
    (tmp_path / "index.json").write_text(content)
    with pytest.raises(CorruptedDataError, match=problem):
        MapIndex.read(tmp_path / "index.json")


def test_maps_that_meet_or_lie_outside_are_refused(tmp_path):
    path = index_of(tmp_path, [[0, 0], [10, 10]], [[50, 0], [60, 10]], [[10, 5], [30, 8]])
    with pytest.raises(CorruptedDataError, match="the bounds of maps 'm0' and 'm2' meet"):
        MapIndex.read(path)
    above = index_of(tmp_path, [[0, 0], [10, 10]], [[5, 10], [15, 20]])
    with pytest.raises(CorruptedDataError, match="the bounds of maps 'm0' and 'm1' meet"):
        MapIndex.read(above)
    content = json.loads(path.read_text())
    content["maps"] = [content["maps"][0] | {"file": "../other.pb"}]
    path.write_text(json.dumps(content))
    with pytest.raises(CorruptedDataError, match="map 'm0' is outside its folder"):
        MapIndex.read(path)


def test_only_so_many_maps_are_one(tmp_path):
    boxes = [[[20.0 * number, 0], [20.0 * number + 10, 10]] for number in range(MOST_MAPS_AT_ONCE + 1)]
    maps = SceneMaps(MapIndex.read(index_of(tmp_path, *boxes)), WORLD_TO_ECEF)
    with pytest.raises(InvalidArgumentError, match=f"{MOST_MAPS_AT_ONCE + 1} maps are needed at once"):
        maps.map_of(range(len(maps)))


def test_tags_of_many_maps_are_those_of_one(folders):
    tables = [tag_scenes(log_in(folders[maps]), maps_in(folders[maps])) for maps in ("one", "apart")]
    assert tables[0].names == tables[1].names
    assert all(np.array_equal(tables[0].has(name), tables[1].has(name)) for name in tables[0].names)
    assert not tables[1].errors


def test_pictures_take_the_map_of_their_scene(folders, monkeypatch):
    monkeypatch.setattr("l5kit.data.map.opened.MOST_MAPS_AT_ONCE", 1)
    painters = [
        ScenePainter(find_dataset_files(folders[maps]), log_in(folders[maps]), map_kind="semantic")
        for maps in ("one", "apart")
    ]
    of_one, of_many = ([painter.picture(scene, 5) for scene in (0, 3, 0)] for painter in painters)
    assert np.array_equal(of_many, of_one)
    assert not np.array_equal(of_many[0], of_many[1])


def test_the_viewer_draws_many_maps(folders):
    viewed = {maps: ViewedLog(find_dataset_files(folders[maps])) for maps in ("one", "apart")}
    try:
        assert len(viewed["apart"].notes) == len(viewed["one"].notes)
        assert viewed["apart"].map_bytes == viewed["one"].map_bytes
        assert viewed["apart"].scene_bytes(2) == viewed["one"].scene_bytes(2)
    finally:
        for each in viewed.values():
            each.close()
