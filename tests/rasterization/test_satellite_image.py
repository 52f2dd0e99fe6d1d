import hashlib

import cv2
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.errors import InvalidArgumentError, UnsupportedValueError
from l5kit.rasterization import (
    get_sat_image_crop,
    get_sat_image_crop_scaled,
    get_sat_image_crop_scaled_from_ecef,
    turned_crop,
)
from l5kit.rasterization.satellite_image import (
    _get_sat_image_crop_without_rotation,
    _scale_crop,
    aerial_crop_size,
    write_scaled_crop,
)
from l5kit.rasterization.turned_crop import can_turn_and_scale
from support.rasters import is_opencv_5

CENTER = (500, 500)


@pytest.fixture(scope="module")
def quadrants() -> np.ndarray:
    """Four quarters: black, red (rows below 500, columns from 500), green (rows from 500, columns below 500), blue."""
    image = np.zeros((1001, 1001, 3), np.uint8)
    image[:500, 500:, 0] = 255
    image[500:, :500, 1] = 255
    image[500:, 500:, 2] = 255
    image.setflags(write=False)
    return image


def test_plain_crop_is_a_view_around_the_center(quadrants: np.ndarray) -> None:
    crop = get_sat_image_crop(quadrants, (100, 60), CENTER)
    assert crop.shape == (100, 60, 3)
    assert np.shares_memory(crop, quadrants)
    assert_array_equal(crop, quadrants[450:550, 470:530])


@pytest.mark.parametrize("yaw_rad", [None, 0.0, 0.3, -1.0, np.pi / 2, 2.0, np.pi])
def test_crops_around_the_middle_keep_a_quarter_of_each_color(quadrants: np.ndarray, yaw_rad: float | None) -> None:
    crop = get_sat_image_crop(quadrants, (200, 200), CENTER, yaw_rad)
    assert crop.shape == (200, 200, 3)
    assert_allclose(crop.mean(axis=(0, 1)) / 255, 0.25, atol=0.02)


def test_a_quarter_turn_brings_the_upper_right_to_the_upper_left(quadrants: np.ndarray) -> None:
    turned = get_sat_image_crop(quadrants, (200, 200), CENTER, 0.5 * np.pi)
    assert turned[0, 0].tolist() == [255, 0, 0]
    assert get_sat_image_crop(quadrants, (200, 200), CENTER, 0.0)[0, 0].tolist() == [0, 0, 0]


def test_crop_of_a_float_picture(quadrants: np.ndarray) -> None:
    floats = quadrants.astype(np.float32) / 255
    crop = get_sat_image_crop_scaled(floats, (50, 40), CENTER, 0.2)
    assert crop.dtype == np.float32
    assert crop.shape == (40, 50, 3)
    assert 0.0 <= crop.min() < crop.max() <= 1.0


def test_scaled_crop_takes_width_and_height(quadrants: np.ndarray) -> None:
    assert get_sat_image_crop_scaled(quadrants, (200, 100), CENTER).shape == (100, 200, 3)
    assert get_sat_image_crop_scaled(quadrants, (100, 200), CENTER, 0.4).shape == (200, 100, 3)


@pytest.mark.parametrize("pixel_size", [2.0, (2.0, 2.0), np.array([2.0, 2.0])], ids=["number", "tuple", "array"])
def test_scale_of_the_picture_and_of_the_result(pixel_size: object) -> None:
    image = np.zeros((1001, 1001, 3), np.uint8)
    image[450:550, 450:550] = 255
    crop = get_sat_image_crop_scaled(image, (500, 500), CENTER, sat_pixel_scale=5, pixel_size=pixel_size)  # type: ignore[arg-type]
    rows, columns = np.nonzero(crop[..., 0] > 127)
    assert abs(np.ptp(rows) + 1 - 250) <= 5
    assert abs(np.ptp(columns) + 1 - 250) <= 5


def test_crop_from_ecef_transforms_the_center(quadrants: np.ndarray) -> None:
    ecef_to_sat = np.eye(4)
    ecef_to_sat[:2, 3] = 480, 470
    from_ecef = get_sat_image_crop_scaled_from_ecef(
        quadrants, (60, 40), np.array([20.0, 30.0, 5.0]), ecef_to_sat, yaw=0.1, pixel_size=1.5
    )
    assert_array_equal(from_ecef, get_sat_image_crop_scaled(quadrants, (60, 40), CENTER, 0.1, pixel_size=1.5))


@pytest.mark.parametrize(
    "center", [(0, 1000), (49, 500), (500, 49), (951, 500), (500, 951), (-2000, 500)], ids=lambda center: str(center)
)
def test_i7_crops_that_leave_the_picture_are_an_index_error(quadrants: np.ndarray, center: tuple[int, int]) -> None:
    with pytest.raises(IndexError, match="satellite_out_of_bounds: pad"):
        get_sat_image_crop(quadrants, (100, 100), center)


@pytest.mark.parametrize(
    ("center", "is_inside"),
    [((50, 500), True), ((49.1, 500), True), ((49, 500), False), ((950, 500), True), ((951, 500), False)],
)
def test_i7_last_row_does_not_count_and_starts_are_cut_off_toward_zero(
    quadrants: np.ndarray, center: tuple[float, float], is_inside: bool
) -> None:
    if is_inside:
        assert get_sat_image_crop(quadrants, (100, 100), center).shape == (100, 100, 3)
    else:
        with pytest.raises(IndexError):
            get_sat_image_crop(quadrants, (100, 100), center)


@pytest.mark.parametrize(
    "center", [(10, 500), (500, 995), (0, 0), (1000, 1000), (951, 951), (3000, -800)], ids=lambda center: str(center)
)
def test_padded_crops_equal_crops_of_a_picture_with_a_black_frame(
    quadrants: np.ndarray, center: tuple[int, int]
) -> None:
    framed = np.pad(quadrants, ((4000, 4000), (4000, 4000), (0, 0)))
    shifted = (center[0] + 4000, center[1] + 4000)
    crop = get_sat_image_crop(quadrants, (100, 80), center, out_of_bounds="pad")
    assert_array_equal(crop, get_sat_image_crop(framed, (100, 80), shifted))
    turned = get_sat_image_crop_scaled(quadrants, (100, 80), center, 0.7, out_of_bounds="pad")
    assert_array_equal(turned, get_sat_image_crop_scaled(framed, (100, 80), shifted, 0.7))


def test_padding_changes_nothing_inside(quadrants: np.ndarray) -> None:
    assert_array_equal(
        get_sat_image_crop_scaled(quadrants, (90, 70), CENTER, 0.7, out_of_bounds="pad"),
        get_sat_image_crop_scaled(quadrants, (90, 70), CENTER, 0.7),
    )


@pytest.mark.parametrize(("crop_size", "center"), [((10,), CENTER), ((10, 10), (5,)), (10, CENTER)])
def test_sizes_and_centers_need_two_entries(quadrants: np.ndarray, crop_size: object, center: object) -> None:
    with pytest.raises(AssertionError):
        _get_sat_image_crop_without_rotation(quadrants, crop_size, center)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        get_sat_image_crop(quadrants, crop_size, center)  # type: ignore[arg-type]


def test_unknown_mode_is_refused(quadrants: np.ndarray) -> None:
    with pytest.raises(UnsupportedValueError, match="wrap"):
        get_sat_image_crop(quadrants, (10, 10), CENTER, out_of_bounds="wrap")


@pytest.mark.parametrize("pixel_size", [0.5, (0.5, 5.0), (5.0, 0.5)])
def test_a_crop_smaller_than_one_aerial_pixel_is_refused(pixel_size: object) -> None:
    with pytest.raises(InvalidArgumentError, match="less than one pixel"):
        get_sat_image_crop_scaled(
            np.zeros((50, 50, 3), np.uint8),
            (1, 1),
            (25, 25),
            yaw=0.1,
            sat_pixel_scale=2.0,
            pixel_size=pixel_size,  # type: ignore[arg-type]
        )


@pytest.mark.parametrize("scale_m", [1e-9, 1e-5, 0.0009])
def test_a_crop_far_larger_than_the_picture_is_refused_before_it_is_made(scale_m: float) -> None:
    for out_of_bounds in ("error", "pad"):
        with pytest.raises(InvalidArgumentError, match="pixels of an aerial picture that has 50 x 60"):
            get_sat_image_crop_scaled(
                np.zeros((50, 60, 3), np.uint8),
                (10, 10),
                (25, 25),
                yaw=0.1,
                sat_pixel_scale=scale_m,
                pixel_size=0.5,
                out_of_bounds=out_of_bounds,
            )


def test_a_crop_may_be_larger_than_a_small_picture() -> None:
    pixels = np.full((50, 60, 3), 7, np.uint8)
    crop = get_sat_image_crop_scaled(pixels, (100, 80), (25, 30), yaw=0.0, pixel_size=4.0, out_of_bounds="pad")
    assert crop.shape == (80, 100, 3)
    assert 0.01 < (crop == 7).mean() < 0.05


opencv_4_only = pytest.mark.skipif(is_opencv_5(), reason="OpenCV 5 turns pictures by another method")


@opencv_4_only
@pytest.mark.parametrize("seed", range(40))
def test_turned_and_scaled_as_opencv_4_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    picture = rng.integers(0, 256, (600, 700, 3), dtype=np.uint8)
    raster_size, pixel_size = tuple(rng.integers(1, 200, 2).tolist()), rng.uniform(0.4, 2.4, 2)
    yaw = [rng.uniform(-7, 7), rng.choice([0.0, 0.5, 1.0, 1.5, -0.5]) * np.pi, np.float32(rng.uniform(-4, 4))][seed % 3]
    center = rng.uniform((-50, -50), (650, 750))
    planes = np.empty((3, *raster_size[::-1]), np.uint8)
    size = aerial_crop_size(raster_size, picture.shape, 1.0, pixel_size)
    write_scaled_crop(planes, picture, center, yaw, size, out_of_bounds="pad", upside_down=bool(seed % 2))
    assert can_turn_and_scale(picture, yaw, size, max(raster_size)) == (size != (2 * max(raster_size),) * 2)
    turned = get_sat_image_crop(picture, size, center, yaw, out_of_bounds="pad")
    expected = _scale_crop(turned, raster_size[::-1], cv2.INTER_LINEAR)
    assert_array_equal(planes.transpose(1, 2, 0), expected[:: -1 if seed % 2 else 1])


def test_one_kernel_turns_crops_of_any_picture() -> None:
    picture = np.random.default_rng(5).integers(0, 256, (200, 220, 3), dtype=np.uint8)
    kept = picture.copy()
    kept.setflags(write=False)
    padded = np.pad(picture, ((30, 30), (30, 30), (0, 0)))
    crops = [
        get_sat_image_crop_scaled(picture, (40, 30), (25, 100), 0.3, out_of_bounds="pad"),  # filled up
        get_sat_image_crop_scaled(padded, (40, 30), (55, 130), 0.3),
        get_sat_image_crop_scaled(kept, (40, 30), (25, 100), 0.3, out_of_bounds="pad"),
        get_sat_image_crop_scaled(kept, (40, 30), (100, 100), 0.3),
        get_sat_image_crop_scaled(picture, (40, 30), (100, 100), 0.3),
    ]
    assert_array_equal(crops[0], crops[1])
    assert_array_equal(crops[0], crops[2])
    assert_array_equal(crops[3], crops[4])
    assert len(turned_crop._turn_and_scale.signatures) == 1


@opencv_4_only
def test_what_cannot_be_drawn_at_once_is_drawn_by_opencv(quadrants: np.ndarray) -> None:
    for picture, scale, yaw in (
        (quadrants, 0.5, 0.3),  # halved
        (quadrants, 0.4, None),
        (quadrants, 0.4, np.nan),
        (quadrants[..., :2], 0.4, 0.3),
        (quadrants[..., 0], 0.4, 0.3),
        (quadrants[::-1], 0.4, 0.3),
        (quadrants.astype(np.float32), 0.4, 0.3),
    ):
        crop = get_sat_image_crop_scaled(picture, (60, 40), CENTER, yaw, sat_pixel_scale=scale)
        turned = get_sat_image_crop(picture, np.round(np.array([60, 60]) / scale), CENTER, yaw)
        assert_array_equal(crop, _scale_crop(turned, (40, 60), cv2.INTER_LINEAR))


def test_a_turned_crop_is_the_same_on_every_opencv() -> None:
    picture = np.random.default_rng(7).integers(0, 256, (300, 300, 3), dtype=np.uint8)
    crop = get_sat_image_crop_scaled(picture, (64, 48), (150, 150), 0.6, pixel_size=1.3)
    assert hashlib.sha256(crop.tobytes()).hexdigest()[:16] == "f91d6024ab328b3c"
