"""The aerial image of a synthetic city shows the roads of its map."""

import json

import cv2
import numpy as np
import pytest

from l5kit._types import Float64Array, UInt8Array
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.rasterization.satellite_image import get_sat_image_crop_scaled
from l5kit.synthetic import CityFolder
from l5kit.synthetic.aerial import ASPHALT_BGR, draw_aerial
from l5kit.synthetic.road_network import CAR_LANE
from l5kit.synthetic.scene import Town, build_town
from support.tolerances import FLOAT32, NETWORK

RESOLUTION_M = 0.5


@pytest.fixture(scope="module")
def picture(city: CityFolder) -> UInt8Array:
    return np.asarray(cv2.imread(str(city.aerial_map)), np.uint8)


@pytest.fixture(scope="module")
def aerial_from_world(city: CityFolder) -> Float64Array:
    meta = json.loads(city.meta.read_text())
    return np.array(meta["ecef_to_aerial"]) @ np.array(meta["world_to_ecef"])


def _pixels(aerial_from_world: Float64Array, points_m: Float64Array, *, z_m: float = 271.0) -> Float64Array:
    """Return row and column of places in the world, (n, 2)."""
    homogeneous = np.column_stack([points_m, np.full(len(points_m), z_m), np.ones(len(points_m))])
    return (homogeneous @ aerial_from_world.T)[:, :2]


def test_matrices_have_the_published_form(city: CityFolder) -> None:
    meta = json.loads(city.meta.read_text())
    world_to_ecef, ecef_to_aerial = np.array(meta["world_to_ecef"]), np.array(meta["ecef_to_aerial"])
    assert world_to_ecef.shape == ecef_to_aerial.shape == (4, 4)
    np.testing.assert_allclose(world_to_ecef[:3, :3] @ world_to_ecef[:3, :3].T, np.eye(3), atol=1e-8)
    assert (ecef_to_aerial[2] == 0).all()
    assert ecef_to_aerial[3].tolist() == [0, 0, 0, 1]
    scale = 1 / np.linalg.norm(ecef_to_aerial[:2, :3], axis=1)
    np.testing.assert_allclose(scale, RESOLUTION_M, rtol=FLOAT32)


def test_first_aerial_coordinate_is_the_row_and_north_is_up(aerial_from_world: Float64Array) -> None:
    origin, east, north = _pixels(aerial_from_world, np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]]))
    np.testing.assert_allclose(east - origin, [0.0, 20.0], atol=NETWORK)
    np.testing.assert_allclose(north - origin, [-20.0, 0.0], atol=NETWORK)


def test_height_does_not_move_pixels(aerial_from_world: Float64Array) -> None:
    place = np.array([[30.0, -20.0]])
    low, high = (_pixels(aerial_from_world, place, z_m=z) for z in (0.0, 300.0))
    np.testing.assert_allclose(low, high, atol=NETWORK)


def test_lanes_lie_on_asphalt_and_blocks_do_not(picture: UInt8Array, aerial_from_world: Float64Array) -> None:
    town = build_town(300.0, seed=11)
    lanes = np.nonzero(town.network.lanes.kind == CAR_LANE)[0]
    points = np.concatenate([town.network.lane_points_m(lane)[5:-5] for lane in lanes])
    rows, columns = np.rint(_pixels(aerial_from_world, points)).astype(int).T
    away = np.abs(picture[rows, columns].astype(int) - ASPHALT_BGR).max(axis=1)
    assert (away < 12).mean() > 0.97
    block = _pixels(aerial_from_world, points + [45.0, 45.0])
    rows, columns = np.rint(block).astype(int).T
    assert (np.abs(picture[rows, columns].astype(int) - ASPHALT_BGR).max(axis=1) < 12).mean() < 0.4


def test_crosswalks_show_bars(picture: UInt8Array, aerial_from_world: Float64Array) -> None:
    town = build_town(300.0, seed=11)
    for corners in town.network.crosswalks.corners_m:
        middle = np.linspace(corners[[0, 3]].mean(axis=0), corners[[1, 2]].mean(axis=0), 60)
        rows, columns = np.rint(_pixels(aerial_from_world, middle)).astype(int).T
        grey = picture[rows, columns].mean(axis=1)
        assert (grey > 170).any()
        assert (grey < 110).any()


def test_rasters_of_the_av_stay_inside(
    city: CityFolder, picture: UInt8Array, aerial_from_world: Float64Array, town: Town
) -> None:
    frames = ChunkedDataset(str(city.scenes["sample"])).open().frames[::7]
    for frame in frames:
        centre = _pixels(aerial_from_world, frame["ego_translation"][None, :2] + [20.0, 20.0])[0]
        crop = get_sat_image_crop_scaled(
            picture, (224, 224), centre, yaw=0.7, sat_pixel_scale=RESOLUTION_M, pixel_size=np.array([0.5, 0.5])
        )
        assert crop.shape == (224, 224, 3)


def test_picture_is_the_same_for_the_same_seed_and_scales(town: Town) -> None:
    first, again = (
        draw_aerial(town.plan, town.network, resolution_m=1.0, rng=np.random.default_rng(4)) for _ in range(2)
    )
    coarse = draw_aerial(town.plan, town.network, resolution_m=2.0, rng=np.random.default_rng(4))
    assert (first.image == again.image).all()
    assert abs(first.image.shape[0] - 2 * coarse.image.shape[0]) <= 2
