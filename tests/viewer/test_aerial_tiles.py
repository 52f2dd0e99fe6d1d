"""The aerial picture under the scenes of the viewer: where it lies, its tiles, and the part of it in exported files."""

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from l5kit.data.dataset_files import DatasetFiles
from l5kit.errors import ConfigError, CorruptedDataError, IndexOutOfRangeError
from l5kit.visualization.viewer.aerial_tiles import TILE_PX, AerialTiles

WORLD_TO_ECEF = np.eye(4)
WORLD_TO_ECEF[:3, 3] = (1000, 2000, 3000)
HEIGHT_M = 4.0
AERIAL_FROM_WORLD = np.array([[0.0, -2, 0.5, 600], [2, 0, 0.25, 200], [0, 0, 0, 0], [0, 0, 0, 1]])
"""Rows run south and columns east, two a metre; both depend on the height."""


def saved(folder, pixels_bgr, *, aerial_from_world=AERIAL_FROM_WORLD):
    """Write a picture and where it lies, and return its tiles."""
    folder.mkdir(exist_ok=True)
    cv2.imwrite(str(folder / "aerial.png"), pixels_bgr)
    ecef_to_aerial = aerial_from_world @ np.linalg.inv(WORLD_TO_ECEF)
    matrices = {"world_to_ecef": WORLD_TO_ECEF.tolist(), "ecef_to_aerial": ecef_to_aerial.tolist()}
    (folder / "meta.json").write_text(json.dumps(matrices))
    return AerialTiles(DatasetFiles(Path("log.zarr"), None, folder / "meta.json", folder / "aerial.png", ()))


@pytest.fixture(scope="module")
def picture():
    """1,301 x 2,101 pixels: black with a white block, rows 600 to 639 and columns 1,100 to 1,139."""
    pixels = np.zeros((1301, 2101, 3), np.uint8)
    pixels[600:640, 1100:1140] = 255
    return pixels


@pytest.fixture(scope="module")
def tiles(tmp_path_factory, picture):
    return saved(tmp_path_factory.mktemp("aerial"), picture)


def decoded(jpeg):
    return cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)


def test_places_are_those_that_the_satellite_rasterizer_crops_around(tiles):
    matrix = tiles.pixel_from_world(HEIGHT_M)
    assert matrix @ (10, 20, 1) == pytest.approx([2 * 10 + 0.25 * 4 + 200, -2 * 20 + 0.5 * 4 + 600])
    row, column = (AERIAL_FROM_WORLD @ (10, 20, HEIGHT_M, 1))[:2]
    assert matrix @ (10, 20, 1) == pytest.approx([column, row])


def test_facts_name_the_size_and_the_levels(tiles):
    facts = tiles.facts(HEIGHT_M)
    assert {name: facts[name] for name in ("width_px", "height_px", "tile_px", "num_levels")} == {
        "width_px": 2101,
        "height_px": 1301,
        "tile_px": 512,
        "num_levels": 3,  # 2101, 1051 and 526 columns
    }
    assert facts["pixel_from_world"] == tiles.pixel_from_world(HEIGHT_M).tolist()


@pytest.mark.parametrize(
    ("level", "column", "row", "shape"),
    [
        (0, 0, 0, (513, 513)),
        (0, 4, 2, (1301 - 1024, 2101 - 2048)),
        (1, 2, 1, (651 - 512, 1051 - 1024)),
        (2, 0, 0, (326, 513)),
    ],
)
def test_tiles_reach_a_pixel_into_the_next_ones(tiles, level, column, row, shape):
    assert decoded(tiles.tile(level, column, row)).shape[:2] == shape


@pytest.mark.parametrize("level", range(3))
def test_a_block_of_the_picture_is_at_its_place_in_all_levels(tiles, level):
    size = 2**level
    column, row = 1100 // size // TILE_PX, 600 // size // TILE_PX
    is_white = decoded(tiles.tile(level, column, row))[..., 0] > 127
    rows, columns = np.nonzero(is_white)
    assert (rows.min() + row * TILE_PX, columns.min() + column * TILE_PX) == (600 // size, 1100 // size)
    assert (rows.max() + row * TILE_PX, columns.max() + column * TILE_PX) == (640 // size - 1, 1140 // size - 1)


@pytest.mark.parametrize("place", [(3, 0, 0), (0, 5, 0), (0, 0, 3), (10**17, 0, 0), (0, 10**17, 0)], ids=str)
def test_there_are_no_other_tiles(tiles, place):
    with pytest.raises(IndexOutOfRangeError, match="has no tile"):
        tiles.tile(*place)


def test_a_cut_out_lies_where_the_whole_picture_does(tiles):
    positions_m = np.array([[445.0, -7.0], [465.0, -10.0], [np.nan, 0.0]])
    facts, jpeg = tiles.cut_out(positions_m, HEIGHT_M)
    image, matrix = decoded(jpeg), np.array(facts["pixel_from_world"])
    assert image.shape[:2] == (facts["height_px"], facts["width_px"])
    assert (facts["tile_px"], facts["num_levels"]) == (facts["width_px"], 1)
    whole = tiles.pixel_from_world(HEIGHT_M)
    low = np.floor(whole @ (445 - 100, -7 + 100, 1))
    assert matrix @ (0, 0, 1) == pytest.approx(whole @ (0, 0, 1) - low)
    rows, columns = np.nonzero(image[..., 0] > 127)
    assert (columns.min() + low[0], rows.min() + low[1]) == (1100, 600)


def test_a_large_cut_out_is_halved(tmp_path):
    pixels = np.zeros((2200, 2600, 3), np.uint8)
    pixels[800:840, 2000:2040] = 255
    tiles = saved(tmp_path, pixels)
    facts, jpeg = tiles.cut_out(np.array([[0.0, 0.0], [1100.0, -700.0]]), HEIGHT_M)
    rows, columns = np.nonzero(decoded(jpeg)[..., 0] > 127)
    world = np.linalg.solve(
        tiles.pixel_from_world(HEIGHT_M)[:, :2], (2000, 800) - tiles.pixel_from_world(HEIGHT_M)[:, 2]
    )
    place = np.array(facts["pixel_from_world"]) @ (*world, 1)
    assert max(facts["width_px"], facts["height_px"]) <= 2049
    assert place == pytest.approx([columns.min(), rows.min()])
    assert len(np.unique(columns)) == 20


@pytest.mark.parametrize("positions_m", [np.zeros((0, 2)), np.full((3, 2), np.nan), np.array([[9e5, 9e5]])], ids=str)
def test_there_is_no_cut_out_beside_the_picture(tiles, positions_m):
    assert tiles.cut_out(positions_m, HEIGHT_M) is None


def test_what_cannot_be_read_or_placed_is_refused(tmp_path, picture):
    tiles = saved(tmp_path, picture)
    (tmp_path / "aerial.png").write_bytes(b"no picture")
    with pytest.raises(CorruptedDataError, match=r"aerial\.png"):
        tiles.facts(0.0)
    with pytest.raises(ConfigError, match="flat"):
        saved(tmp_path, picture, aerial_from_world=np.diag([2.0, 0, 0, 1]))
    files = DatasetFiles(Path("log.zarr"), None, None, tmp_path / "aerial.png", ())
    with pytest.raises(ConfigError, match=r"meta\.json"):
        AerialTiles(replace(files))
