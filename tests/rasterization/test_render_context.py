import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.configs.parameters import RasterGeometry
from l5kit.data.index.windows import Targets
from l5kit.errors import InvalidArgumentError, UnsupportedConfigError
from l5kit.geometry.transform import compute_agent_pose
from l5kit.rasterization import RenderContext
from l5kit.rasterization.semantic_rasterizer import write_middles
from support.tolerances import FLOAT64_LONG, NETWORK


def make_context(set_origin_to_bottom: bool) -> RenderContext:
    return RenderContext(np.array([200, 200]), np.array([1.0, 1.0]), np.array([0.5, 0.5]), set_origin_to_bottom)


@pytest.mark.parametrize(
    ("set_origin_to_bottom", "expected"),
    [(True, [(100, 98), (110, 88), (90, 108)]), (False, [(100, 102), (110, 112), (90, 92)])],
    ids=["bottom", "top"],
)
def test_raster_from_world_puts_points_on_whole_pixels(
    set_origin_to_bottom: bool, expected: list[tuple[int, int]]
) -> None:
    matrix = make_context(set_origin_to_bottom).raster_from_world(np.array([0.0, -2.0]), 0.0)
    world = np.array([(0.0, 0.0, 1.0), (10.0, 10.0, 1.0), (-10.0, -10.0, 1.0)])
    assert_array_equal((world @ matrix.T)[:, :2], expected)


@pytest.mark.parametrize(
    ("set_origin_to_bottom", "expected"),
    [(True, [[4, 0, 56], [0, -4, 84], [0, 0, 1]]), (False, [[4, 0, 56], [0, 4, 28], [0, 0, 1]])],
    ids=["bottom", "top"],
)
def test_raster_from_local_of_a_raster_that_is_not_square(
    set_origin_to_bottom: bool, expected: list[list[int]]
) -> None:
    context = RenderContext((224, 112), [0.25, 0.25], (0.25, 0.25), set_origin_to_bottom)  # type: ignore[arg-type]
    assert_array_equal(context.raster_from_local, expected)


@given(
    st.tuples(st.floats(-2000, 2000), st.floats(-2000, 2000)),
    st.floats(-10, 10),
    st.booleans(),
)
def test_agent_of_interest_sits_at_the_center_and_points_right(
    position_m: tuple[float, float], yaw_rad: float, set_origin_to_bottom: bool
) -> None:
    context = RenderContext(np.array([300, 100]), np.array([0.5, 0.5]), np.array([0.25, 0.3]), set_origin_to_bottom)
    matrix = context.raster_from_world(np.array(position_m), yaw_rad)
    ahead = np.array(position_m) + [np.cos(yaw_rad), np.sin(yaw_rad)]
    row = 70 if set_origin_to_bottom else 30
    assert_allclose((matrix @ [*position_m, 1.0])[:2], [75, row], atol=1e-8)
    assert_allclose((matrix @ [*ahead, 1.0])[:2], [77, row], atol=1e-8)
    left = np.array(position_m) + [-np.sin(yaw_rad), np.cos(yaw_rad)]
    assert_allclose((matrix @ [*left, 1.0])[:2], [75, row + (-2 if set_origin_to_bottom else 2)], atol=1e-8)


def test_only_x_and_y_of_the_position_count() -> None:
    context = make_context(True)
    assert_array_equal(
        context.raster_from_world(np.array([3.0, 4.0, 99.0]), 0.3), context.raster_from_world(np.array([3.0, 4.0]), 0.3)
    )


def test_i12_float32_heading_is_rounded_like_in_1_5() -> None:
    context, yaw = make_context(True), np.float32(0.7)
    narrow, wide = context.raster_from_world([500.0, 900.0], yaw), context.raster_from_world([500.0, 900.0], float(yaw))
    assert narrow[0, 0] != wide[0, 0]
    assert_allclose(narrow, wide, rtol=0, atol=NETWORK)


@pytest.mark.parametrize("pair", [[0.5, 0.5], (0.5, 0.5), np.array([0.5, 0.5])], ids=["list", "tuple", "array"])
def test_pairs_become_read_only_arrays(pair: object) -> None:
    context = RenderContext([10, 20], pair, pair, True)  # type: ignore[arg-type]
    for array in (context.raster_size_px, context.pixel_size_m, context.center_in_raster_ratio):
        assert isinstance(array, np.ndarray)
        assert not array.flags.writeable


def test_the_array_passed_in_stays_writeable() -> None:
    pixel_size = np.array([0.5, 0.5])
    RenderContext(np.array([10, 20]), pixel_size, np.array([0.5, 0.5]), True)
    assert pixel_size.flags.writeable


def test_pixels_that_are_not_square_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="square"):
        RenderContext(np.array([10, 10]), np.array([0.5, 0.25]), np.array([0.5, 0.5]), True)


def test_pixels_of_a_configuration_that_are_not_square_are_refused_by_their_key() -> None:
    geometry = RasterGeometry((10, 10), (0.5, 0.25), (0.5, 0.5), True)
    with pytest.raises(UnsupportedConfigError, match=r"raster_params\.pixel_size.*\[0\.5, 0\.25\]"):
        RenderContext.from_geometry(geometry)


@pytest.mark.parametrize(
    ("size", "pixel", "center", "named"),
    [
        ((10,), (1, 1), (0, 0), "raster_size_px"),
        ((10, 0), (1, 1), (0, 0), "raster_size_px"),
        ((10.5, 10), (1, 1), (0, 0), "raster_size_px"),
        ((10, 10), (0, 0), (0, 0), "pixel_size_m"),
        ((10, 10), (1, 1), ("a", "b"), "center_in_raster_ratio"),
    ],
)
def test_bad_pairs_are_named(size: object, pixel: object, center: object, named: str) -> None:
    with pytest.raises(InvalidArgumentError, match=named):
        RenderContext(size, pixel, center, True)  # type: ignore[arg-type]


def test_contexts_compare_by_value_and_pickle() -> None:
    context = make_context(True)
    assert context == make_context(True)
    assert hash(context) == hash(make_context(True))
    assert context != make_context(False)
    assert pickle.loads(pickle.dumps(context)) == context


def test_from_geometry_takes_the_pairs_of_a_configuration() -> None:
    geometry = RasterGeometry((200, 200), (1.0, 1.0), (0.5, 0.5), set_origin_to_bottom=True)
    assert RenderContext.from_geometry(geometry) == make_context(True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("set_origin_to_bottom", [False, True])
def test_many_transforms_equal_those_of_each_pose_to_the_bit(dtype: type, set_origin_to_bottom: bool) -> None:
    rng = np.random.default_rng(3)
    context = RenderContext(np.array([224, 112]), np.array([0.3, 0.3]), np.array([0.25, 0.5]), set_origin_to_bottom)
    positions_m = rng.uniform(-4000, 4000, (3000, 2))
    yaws_rad = rng.uniform(-7, 7, (3000, 2)).astype(dtype)[:, 0]  # a strided column, as of records
    yaws_rad[:4] = [0.0, -0.0, np.pi / 2, -np.pi]
    many = context.raster_from_world_many(positions_m, yaws_rad)
    assert many.shape == (3000, 3, 3)
    assert many.dtype == np.float64
    one_by_one = [context.raster_from_world(*pose) for pose in zip(positions_m, yaws_rad, strict=True)]
    assert_array_equal(many, one_by_one)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pictures_show_targets_in_the_precision_of_their_headings(dtype: type) -> None:
    rng = np.random.default_rng(4)
    targets = Targets(
        track_ids=None,
        rows=None,
        centroids_m=rng.uniform(-4000, 4000, (500, 2)),
        yaws_rad=rng.uniform(-7, 7, 500).astype(dtype),
        extents_m=np.ones((500, 3)),
    )
    one_by_one = [compute_agent_pose(*pose) for pose in zip(targets.centroids_m, targets.yaws_rad, strict=True)]
    assert_array_equal(targets.drawn_frames, np.linalg.inv(one_by_one))


def test_many_transforms_of_no_pose() -> None:
    context = RenderContext(np.array([3, 2]), np.array([1.0, 1.0]), np.array([0.5, 0.5]), True)
    assert context.raster_from_world_many(np.empty((0, 2)), np.empty(0)).shape == (0, 3, 3)


@pytest.mark.parametrize("set_origin_to_bottom", [False, True])
def test_middles_of_pictures_are_the_places_that_are_drawn_there(set_origin_to_bottom: bool) -> None:
    rng = np.random.default_rng(4)
    context = RenderContext(np.array([224, 112]), np.array([0.3, 0.3]), np.array([0.25, 0.5]), set_origin_to_bottom)
    matrices = context.raster_from_world_many(rng.uniform(-4000, 4000, (50, 2)), rng.uniform(-7, 7, 50))
    middles_m = np.full((50, 2), np.nan)
    write_middles(matrices, context.raster_size_px, middles_m)
    drawn_px = np.einsum("nij,nj->ni", matrices, np.column_stack([middles_m, np.ones(50)]))
    assert_allclose(drawn_px, np.tile([112.0, 56.0, 1.0], (50, 1)), rtol=FLOAT64_LONG)
