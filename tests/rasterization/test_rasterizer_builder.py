import copy
import json
import pickle
import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.configs.parameters import RASTERIZERS
from l5kit.configs.schema import json_schema
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.dataset import EgoDataset
from l5kit.errors import ConfigError, CorruptedDataError, InvalidArgumentError
from l5kit.rasterization import (
    BoxRasterizer,
    SatBoxRasterizer,
    SatelliteRasterizer,
    SemanticRasterizer,
    SemBoxRasterizer,
    StubRasterizer,
    build_rasterizer,
)
from l5kit.rasterization.rasterizer_builder import MAP_TYPES, _load_satellite_map, count_channels
from support.fixture_s import make_fixture_s
from support.maps import FIXTURE_S_MAP, WORLD_TO_ECEF
from support.rasters import make_window

CLASSES = {
    "py_semantic": SemBoxRasterizer,
    "semantic_debug": SemanticRasterizer,
    "py_satellite": SatBoxRasterizer,
    "satellite_debug": SatelliteRasterizer,
    "box_debug": BoxRasterizer,
    "stub_debug": StubRasterizer,
}
ECEF_TO_AERIAL = np.array([[1.0, 2, 3, 4], [5, 6, 7, 8], [0, 0, 0, 0], [0, 0, 0, 1]])
CFG: dict[str, dict[str, Any]] = {
    "raster_params": {
        "raster_size": [64, 32],
        "pixel_size": [0.5, 0.5],
        "ego_center": [0.25, 0.5],
        "set_origin_to_bottom": True,
        "map_type": "py_semantic",
        "semantic_map_key": "semantic.pb",
        "satellite_map_key": "aerial.png",
        "dataset_meta_key": "meta.json",
        "filter_agents_threshold": 0.5,
    },
    "model_params": {"history_num_frames": 3, "render_ego_history": False},
}
NEEDED = {
    "stub_debug": {"raster_size", "pixel_size", "ego_center", "set_origin_to_bottom", "map_type"},
    "box_debug": {"filter_agents_threshold", "history_num_frames", "render_ego_history"},
    "semantic_debug": {"semantic_map_key", "dataset_meta_key"},
    "satellite_debug": {"satellite_map_key", "dataset_meta_key"},
}
NEEDED["box_debug"] |= NEEDED["stub_debug"]
NEEDED["semantic_debug"] |= NEEDED["stub_debug"]
NEEDED["satellite_debug"] |= NEEDED["stub_debug"]
NEEDED["py_semantic"] = NEEDED["box_debug"] | NEEDED["semantic_debug"]
NEEDED["py_satellite"] = NEEDED["box_debug"] | NEEDED["satellite_debug"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "semantic.pb").write_bytes(FIXTURE_S_MAP)
    meta = {"world_to_ecef": WORLD_TO_ECEF.tolist(), "ecef_to_aerial": ECEF_TO_AERIAL.tolist()}
    (folder / "meta.json").write_text(json.dumps(meta))
    pixels = np.zeros((400, 300, 3), np.uint8)
    pixels[..., 0], pixels[..., 2] = 1, 200  # blue, green, red
    assert cv2.imwrite(str(folder / "aerial.png"), pixels)
    (folder / "broken.png").write_bytes(b"no picture")
    return folder


def make_cfg(map_type: str, **raster_params: Any) -> dict[str, dict[str, Any]]:
    cfg = copy.deepcopy(CFG)
    cfg["raster_params"].update(map_type=map_type, **raster_params)
    return cfg


@pytest.mark.parametrize("map_type", CLASSES)
def test_class_of_each_map_type(folder: Path, map_type: str) -> None:
    rasterizer = build_rasterizer(make_cfg(map_type), LocalDataManager(str(folder)))
    assert type(rasterizer) is CLASSES[map_type]
    assert rasterizer.render_context.raster_size_px.tolist() == [64, 32]  # type: ignore[attr-defined]
    if hasattr(rasterizer, "box_rast"):
        assert rasterizer.box_rast.history_num_frames == 3
        assert rasterizer.box_rast.filter_agents_threshold == 0.5
        assert rasterizer.box_rast.render_ego_history is False


def test_the_table_has_the_map_types_that_the_schema_tells_of() -> None:
    assert {params.map_type_name(): params for params in RASTERIZERS} == MAP_TYPES


@pytest.mark.parametrize("map_type", CLASSES)
def test_i6_only_the_needed_keys_are_read(folder: Path, map_type: str) -> None:
    cfg = {
        section: {key: value for key, value in content.items() if key in NEEDED[map_type]}
        for section, content in make_cfg(map_type).items()
    }
    cfg = {section: content for section, content in cfg.items() if content}
    assert type(build_rasterizer(cfg, LocalDataManager(str(folder)))) is CLASSES[map_type]


@pytest.mark.parametrize(
    ("map_type", "key"), [(map_type, key) for map_type, keys in NEEDED.items() for key in sorted(keys)]
)
def test_missing_keys_are_named(folder: Path, map_type: str, key: str) -> None:
    cfg = make_cfg(map_type)
    for section in cfg.values():
        section.pop(key, None)
    with pytest.raises(ConfigError, match=key):
        build_rasterizer(cfg, LocalDataManager(str(folder)))
    with pytest.raises(KeyError):
        build_rasterizer(cfg, LocalDataManager(str(folder)))


def test_unknown_map_type_is_not_implemented(folder: Path) -> None:
    with pytest.raises(NotImplementedError, match="py_magic"):
        build_rasterizer(make_cfg("py_magic"), LocalDataManager(str(folder)))


@pytest.mark.parametrize(
    ("map_type", "key"),
    [("py_semantic", "semantic_map_key"), ("py_satellite", "satellite_map_key"), ("py_semantic", "dataset_meta_key")],
)
def test_missing_files_are_file_errors(folder: Path, map_type: str, key: str) -> None:
    with pytest.raises(FileNotFoundError):
        build_rasterizer(make_cfg(map_type, **{key: "nothing"}), LocalDataManager(str(folder)))


@pytest.mark.parametrize("out_of_bounds", ["error", "pad"])
@pytest.mark.parametrize("map_type", ["py_satellite", "satellite_debug"])
@pytest.mark.parametrize(
    ("factor", "said"), [(50, "64 pixels"), (1e6, "64 pixels"), (0.01, "pixels of 18"), (0, "pixels of inf")]
)
def test_a_meta_json_that_does_not_fit_the_aerial_picture_is_named(
    folder: Path, tmp_path: Path, map_type: str, factor: float, said: str, out_of_bounds: str
) -> None:
    ecef_to_aerial = np.vstack([factor * ECEF_TO_AERIAL[:3], ECEF_TO_AERIAL[3]])
    meta = {"world_to_ecef": WORLD_TO_ECEF.tolist(), "ecef_to_aerial": ecef_to_aerial.tolist()}
    (tmp_path / "meta.json").write_text(json.dumps(meta))
    cfg = make_cfg(map_type, dataset_meta_key=str(tmp_path / "meta.json"), satellite_out_of_bounds=out_of_bounds)
    with pytest.raises(ConfigError, match=rf"meta\.json and .*aerial\.png do not fit the raster: .*{said}"):
        build_rasterizer(cfg, LocalDataManager(str(folder)))


@pytest.mark.parametrize("factor", [1.0, -2.0])
def test_matrices_that_give_rows_and_columns_one_direction_are_refused(
    folder: Path, tmp_path: Path, factor: float
) -> None:
    matrix = ECEF_TO_AERIAL.copy()
    matrix[1, :3] = factor * matrix[0, :3]
    meta = {"world_to_ecef": WORLD_TO_ECEF.tolist(), "ecef_to_aerial": matrix.tolist()}
    (tmp_path / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(ConfigError, match=r"meta\.json and .* rows and columns of the image the same direction"):
        build_rasterizer(
            make_cfg("py_satellite", dataset_meta_key=str(tmp_path / "meta.json")), LocalDataManager(str(folder))
        )


@pytest.mark.parametrize(("key", "value"), [("raster_size", [16_384, 16_384]), ("history_num_frames", 100_000)])
def test_pictures_of_more_memory_than_anyone_wants_are_refused(folder: Path, key: str, value: Any) -> None:
    cfg = make_cfg("box_debug", raster_size=[640, 320])
    cfg["raster_params" if key == "raster_size" else "model_params"][key] = value
    with pytest.raises(ConfigError, match=r"a raster would take [\d.]+ GB"):
        build_rasterizer(cfg, LocalDataManager(str(folder)))


def test_a_picture_that_opencv_refuses_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "huge.pfm").write_bytes(b"PF\n100000 100000\n-1.0\n" + b"\0" * 100)
    with pytest.raises(CorruptedDataError, match=r"huge\.pfm is not an image that OpenCV can read"):
        build_rasterizer(
            make_cfg("py_satellite", satellite_map_key=str(tmp_path / "huge.pfm")), LocalDataManager(str(folder))
        )


@pytest.mark.parametrize("map_type", ["box_debug", "stub_debug"])
def test_meta_is_not_opened_without_a_map(tmp_path: Path, map_type: str) -> None:
    assert build_rasterizer(make_cfg(map_type), LocalDataManager(str(tmp_path))).num_channels() > 0


def test_i5_unreadable_picture_is_named(folder: Path) -> None:
    with pytest.raises(CorruptedDataError, match=r"broken\.png"):
        build_rasterizer(make_cfg("py_satellite", satellite_map_key="broken.png"), LocalDataManager(str(folder)))


def test_picture_and_matrix_reach_the_rasterizer(folder: Path) -> None:
    rasterizer = build_rasterizer(make_cfg("satellite_debug"), LocalDataManager(str(folder)))
    assert isinstance(rasterizer, SatelliteRasterizer)
    assert rasterizer.map_im.shape == (400, 300, 3)
    assert rasterizer.map_im[0, 0].tolist() == [200, 0, 1]
    assert_array_equal(_load_satellite_map(str(folder / "aerial.png")), rasterizer.map_im)
    assert_allclose(rasterizer.world_to_aerial, ECEF_TO_AERIAL @ WORLD_TO_ECEF)


def test_options_reach_every_part(folder: Path) -> None:
    options = {"solid_boxes": True, "image_dtype": "uint8", "satellite_out_of_bounds": "pad"}
    rasterizer = build_rasterizer(make_cfg("py_satellite", **options), LocalDataManager(str(folder)))
    assert isinstance(rasterizer, SatBoxRasterizer)
    assert rasterizer.box_rast.solid_boxes
    assert rasterizer.sat_rast.out_of_bounds == "pad"
    assert rasterizer.rasterize_planar(*make_window(15)).dtype == np.uint8
    semantic = build_rasterizer(make_cfg("py_semantic", **options), LocalDataManager(str(folder)))
    assert isinstance(semantic, SemBoxRasterizer)
    assert semantic.box_rast.solid_boxes
    assert semantic.rasterize(*make_window(15)).dtype == np.uint8


@pytest.mark.parametrize("map_type", CLASSES)
def test_built_rasterizers_pickle_small(folder: Path, map_type: str) -> None:
    options = {"satellite_out_of_bounds": "pad"}
    rasterizer = build_rasterizer(make_cfg(map_type, **options), LocalDataManager(str(folder)))
    content = pickle.dumps(rasterizer)
    assert len(content) < 100_000
    window = make_window(15)
    assert_array_equal(pickle.loads(content).rasterize(*window), rasterizer.rasterize(*window))


@pytest.mark.parametrize("map_type", ["py_semantic", "py_satellite"])
@pytest.mark.parametrize("wrong", ["folder", Path("folder"), None], ids=repr)
def test_what_is_no_data_manager_is_named(map_type: str, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"^data_manager must .*pass LocalDataManager\(folder\)"):
        build_rasterizer(make_cfg(map_type), wrong)


@pytest.mark.parametrize("map_type", ["box_debug", "stub_debug"])
def test_without_files_no_data_manager_is_needed(map_type: str) -> None:
    assert type(build_rasterizer(make_cfg(map_type), None)) is CLASSES[map_type]  # type: ignore[arg-type]


def test_a_misspelt_key_is_told_in_the_line_of_the_user(folder: Path) -> None:
    with pytest.warns(UserWarning, match=r"raster_params\.solid_boxs is not a known key") as caught:
        build_rasterizer(make_cfg("box_debug", solid_boxs=True), LocalDataManager(str(folder)))
    assert [warning.filename for warning in caught] == [__file__]


OWN_FILE = '''
import numpy as np

from l5kit.rasterization import Rasterizer


class Dots(Rasterizer):
    """Two channels, in which each agent is worth 1 at the place of its row; the first is that of the configuration."""

    def __init__(self, cfg, data_manager):
        self.value, self.folder = cfg["model_params"]["history_num_frames"], data_manager.root_folder

    def rasterize(self, history_frames, history_agents, history_tl_faces, agent=None):
        image = np.zeros((4, 4, 2), np.float32)
        image[..., 0] = self.value
        image[0, 0, 1] = len(history_agents[0])
        return image

    def to_rgb(self, in_im, **kwargs):
        return np.repeat((in_im[..., :1] > 0) * np.uint8(255), 3, axis=-1)

    def num_channels(self):
        return 2


def make_dots(cfg, data_manager):
    return Dots(cfg, data_manager)


def as_many_as_letters(cfg, data_manager):
    dots = Dots(cfg, data_manager)
    dots.num_channels = lambda: len(str(data_manager.root_folder))
    return dots


def nothing(cfg, data_manager):
    return 3


def alone():
    return None
'''


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    file = tmp_path / "own_rasters.py"
    file.write_text(OWN_FILE)
    return file


@pytest.mark.parametrize("name", ["Dots", "make_dots"])
def test_a_configuration_names_a_rasterizer_of_a_file(own_file: Path, name: str) -> None:
    cfg = make_cfg(f"{own_file}:{name}", disable_traffic_light_faces=True)
    cfg["model_params"] |= {"future_num_frames": 2, "step_time": 0.1}
    rasterizer = build_rasterizer(cfg, LocalDataManager("here"))
    assert (type(rasterizer).__name__, rasterizer.num_channels()) == ("Dots", 2)
    assert rasterizer.folder == Path("here")  # type: ignore[attr-defined]
    assert count_channels(cfg) == 2
    image = EgoDataset(cfg, make_fixture_s(), rasterizer)[0]["image"]
    assert image.shape == (2, 4, 4)
    assert (image[0] == 3).all()
    assert image[1, 0, 0] > 0


def test_channels_of_a_rasterizer_of_a_file_are_counted_with_the_folder_of_the_environment(
    own_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cfg = make_cfg(f"{own_file}:as_many_as_letters")
    monkeypatch.setenv("L5KIT_DATA_FOLDER", "abc")
    assert count_channels(cfg) == 3
    monkeypatch.delenv("L5KIT_DATA_FOLDER")
    assert count_channels(cfg) == 1  # the current folder, which is a point


def test_a_file_that_gives_no_rasterizer_is_refused(own_file: Path) -> None:
    manager = LocalDataManager("")
    with pytest.raises(InvalidArgumentError, match=r"gives int; .* lacks rasterize, to_rgb, num_channels"):
        build_rasterizer(make_cfg(f"{own_file}:nothing"), manager)
    with pytest.raises(InvalidArgumentError, match=r"alone of .* be called with \{'raster_params'.*LocalData"):
        build_rasterizer(make_cfg(f"{own_file}:alone"), manager)
    with pytest.raises(InvalidArgumentError, match=r"own_rasters\.py has no Missing; give a rasterizer"):
        build_rasterizer(make_cfg(f"{own_file}:Missing"), manager)
    with pytest.raises(FileNotFoundError, match=r"raster_params\.map_type is 'absent\.py:Dots', but there is no file"):
        build_rasterizer(make_cfg("absent.py:Dots"), manager)
    cfg = make_cfg(f"{own_file}:Dots")
    cfg["model_params"]["route"] = True
    with pytest.raises(ConfigError, match=r"model_params\.route: .* draws its channels itself"):
        build_rasterizer(cfg, manager)


def test_the_schema_takes_a_rasterizer_of_a_file() -> None:
    key = json_schema()["properties"]["raster_params"]["properties"]["map_type"]
    named, own = key["anyOf"]
    assert "py_semantic" in named["enum"]
    assert re.search(own["pattern"], "folder/my_rasters.py:make")
    assert not re.search(own["pattern"], "my_rasters.py")
