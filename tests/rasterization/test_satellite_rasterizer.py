import pickle
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.errors import CorruptedDataError, InvalidArgumentError, UnsupportedValueError
from l5kit.rasterization import BoxRasterizer, SatBoxRasterizer, SatelliteRasterizer
from l5kit.rasterization.satellite_image import AerialImage, read_aerial_pixels
from support.rasters import HISTORY_NUM_FRAMES, THRESHOLD, crc, make_context, make_window, to_bytes

WORLD_TO_AERIAL = np.array([[2.5, 0.3, 0, 800], [-0.3, 2.5, 0, 150], [0, 0, 0, 0], [0, 0, 0, 1.0]])


def make_texture() -> np.ndarray:
    i, j = np.mgrid[:600, :400]
    return np.stack([7 * i + 3 * j, 2 * i + 11 * j, 5 * i + 13 * j], axis=-1).astype(np.uint8)


def make_rasterizer(**options: object) -> SatelliteRasterizer:
    return SatelliteRasterizer(make_context(), make_texture(), WORLD_TO_AERIAL, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("set_origin_to_bottom", "crc_of_planes", "some_pixels"),
    [
        (True, 0x40D31246, [(224, 90, 98), (240, 33, 227), (108, 194, 169)]),
        (False, 0x683984DE, [(227, 88, 68), (237, 35, 39), (103, 192, 164)]),
    ],
    ids=["bottom", "top"],
)
def test_known_rasters_of_fixture_s(
    set_origin_to_bottom: bool, crc_of_planes: int, some_pixels: list[tuple[int, int, int]]
) -> None:
    context = make_context(set_origin_to_bottom)
    raster = SatelliteRasterizer(context, make_texture(), WORLD_TO_AERIAL).rasterize(*make_window(15))
    assert raster.shape == (112, 224, 3)
    assert raster.dtype == np.float32
    pixels = to_bytes(raster)
    for (row, column), expected in zip([(0, 0), (-1, -1), (56, 112)], some_pixels, strict=True):
        assert tuple(pixels[row, column].tolist()) == expected
    assert crc(pixels.transpose(2, 0, 1)) == crc_of_planes


def test_scale_is_the_mean_of_both_axes() -> None:
    assert make_rasterizer().map_pixel_scale == pytest.approx(0.3971507353947688, rel=1e-15)
    uneven = np.array([[2.0, 0, 0, 0], [0, 4.0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1.0]])
    assert SatelliteRasterizer(make_context(), make_texture(), uneven).map_pixel_scale == 0.375


@pytest.mark.parametrize("set_origin_to_bottom", [True, False], ids=["bottom", "top"])
@pytest.mark.parametrize("track_id", [None, 2, 300], ids=["AV", "agent 2", "agent 300"])
def test_what_lies_at_the_agent_of_interest_is_drawn_at_the_ego_center(
    set_origin_to_bottom: bool, track_id: int | None
) -> None:
    frames, agents, faces, agent = make_window(15, track_id)
    position_m = frames[0]["ego_translation"][:2] if agent is None else agent["centroid"]
    north_up = np.array([[0.1, -2.5, 0, 300], [2.5, 0.1, 0, 680], [0, 0, 0, 0], [0, 0, 0, 1.0]])
    row, column = (north_up @ [*position_m, 0.0, 1.0])[:2].round().astype(int)
    map_im = np.zeros((600, 400, 3), np.uint8)
    map_im[row - 3 : row + 4, column - 3 : column + 4] = 255
    rasterizer = SatelliteRasterizer(make_context(set_origin_to_bottom), map_im, north_up)
    rows, columns = np.nonzero(rasterizer.rasterize(frames, agents, faces, agent)[..., 0] > 0.5)
    assert_allclose([rows.mean(), columns.mean()], [56, 56], rtol=0, atol=5)  # whole aerial pixels, 1.6 px each


def test_to_rgb_restores_the_bytes() -> None:
    as_bytes, as_floats, window = make_rasterizer(image_dtype="uint8"), make_rasterizer(), make_window(15)
    picture = as_bytes.rasterize(*window)
    assert picture.dtype == np.uint8
    assert_array_equal(as_floats.to_rgb(as_floats.rasterize(*window)), picture)
    assert_array_equal(as_bytes.to_rgb(picture), picture)


def make_far_window() -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray], None]:
    frames, agents, faces, _ = make_window(15)
    frames["ego_translation"][:, 0] += 80.0
    return frames, agents, faces, None


def test_i7_raster_beyond_the_picture_is_an_index_error_or_black() -> None:
    with pytest.raises(IndexError, match="satellite_out_of_bounds"):
        make_rasterizer().rasterize(*make_far_window())
    padded = make_rasterizer(out_of_bounds="pad", image_dtype="uint8").rasterize(*make_far_window())
    wide = SatelliteRasterizer(
        make_context(), np.pad(make_texture(), ((0, 800), (0, 800), (0, 0))), WORLD_TO_AERIAL, image_dtype="uint8"
    )
    assert (padded == 0).any()
    assert_array_equal(padded, wide.rasterize(*make_far_window()))


def test_sat_box_raster_is_boxes_then_picture() -> None:
    arguments = (THRESHOLD, HISTORY_NUM_FRAMES)
    rasterizer = SatBoxRasterizer(make_context(), *arguments, make_texture(), WORLD_TO_AERIAL)
    window = make_window(15, 2)
    raster = rasterizer.rasterize_planar(*window)
    assert rasterizer.num_channels() == len(raster) == 11
    assert_array_equal(raster[:8], BoxRasterizer(make_context(), *arguments).rasterize_planar(*window))
    assert_array_equal(raster[8:], make_rasterizer().rasterize_planar(*window))
    rgb = rasterizer.to_rgb(raster.transpose(1, 2, 0))
    boxes = rasterizer.box_rast.to_rgb(raster[:8].transpose(1, 2, 0))
    is_box = boxes.any(axis=-1)
    assert_array_equal(rgb[is_box], boxes[is_box])
    assert_array_equal(rgb[~is_box], to_bytes(raster[8:]).transpose(1, 2, 0)[~is_box])


def test_interpolation_is_passed_on() -> None:
    window = make_window(15)
    nearest = SatBoxRasterizer(
        make_context(), THRESHOLD, 3, make_texture(), WORLD_TO_AERIAL, cv2.INTER_NEAREST
    ).rasterize_planar(*window)
    assert (nearest[8:] != make_rasterizer().rasterize_planar(*window)).any()


@pytest.mark.parametrize(
    "map_im",
    [np.zeros((9, 9), np.uint8), np.zeros((9, 9, 4), np.uint8), np.zeros((9, 9, 3), np.float32)],
    ids=["gray", "four channels", "float"],
)
def test_pictures_that_are_not_rgb_bytes_are_refused(map_im: np.ndarray) -> None:
    with pytest.raises(InvalidArgumentError, match="map_im"):
        SatelliteRasterizer(make_context(), map_im, WORLD_TO_AERIAL)


def test_unknown_mode_is_refused() -> None:
    with pytest.raises(UnsupportedValueError, match="out_of_bounds"):
        make_rasterizer(out_of_bounds="wrap")


def save_texture(folder: Path) -> str:
    path = folder / "aerial.png"
    assert cv2.imwrite(str(path), make_texture()[..., ::-1])
    return str(path)


def test_files_are_read_as_rgb(tmp_path: Path) -> None:
    assert_array_equal(read_aerial_pixels(save_texture(tmp_path)), make_texture())


def test_a_rasterizer_made_from_a_file_pickles_without_its_pixels(tmp_path: Path) -> None:
    aerial = AerialImage.from_file(save_texture(tmp_path))
    rasterizer = SatelliteRasterizer(make_context(), aerial, WORLD_TO_AERIAL)
    content = pickle.dumps(rasterizer)
    assert len(content) < 10_000
    window = make_window(15)
    assert_array_equal(pickle.loads(content).rasterize(*window), rasterizer.rasterize(*window))


def test_a_rasterizer_made_from_pixels_pickles_with_them() -> None:
    copy = pickle.loads(pickle.dumps(make_rasterizer()))
    assert_array_equal(copy.map_im, make_texture())


def test_map_im_can_be_replaced(tmp_path: Path) -> None:
    aerial = AerialImage.from_file(save_texture(tmp_path))
    rasterizer = SatelliteRasterizer(make_context(), aerial, WORLD_TO_AERIAL)
    rasterizer.map_im = 255 - make_texture()
    assert_array_equal(pickle.loads(pickle.dumps(rasterizer)).map_im, 255 - make_texture())


@pytest.mark.parametrize("content", [b"", b"not a picture"], ids=["empty", "text"])
def test_i5_unreadable_picture_is_an_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.png"
    path.write_bytes(content)
    with pytest.raises(CorruptedDataError, match=r"broken\.png"):
        read_aerial_pixels(str(path))
