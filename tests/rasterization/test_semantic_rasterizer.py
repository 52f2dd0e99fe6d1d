import itertools
import pickle
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from l5kit.data.map.api import InterpolationMethod, MapAPI
from l5kit.data.proto.road_network_pb2 import GlobalId, MapFragment
from l5kit.geometry.transform import transform_point, transform_points
from l5kit.rasterization import SemanticRasterizer, SemBoxRasterizer
from l5kit.rasterization.semantic_rasterizer import (
    COLORS,
    CV2_SHIFT_VALUE,
    CV2_SUB_VALUES,
    INTERPOLATION_POINTS,
    RasterEls,
    cv2_subpixel,
    indices_in_bounds,
)
from support.logs import make_faces
from support.maps import FIXTURE_S_MAP, WORLD_TO_ECEF
from support.rasters import HISTORY_NUM_FRAMES, THRESHOLD, crc, make_context, make_window, to_bytes


def make_rasterizer(map_path: str, **options: object) -> SemanticRasterizer:
    return SemanticRasterizer(make_context(), map_path, WORLD_TO_ECEF, image_dtype="uint8", **options)  # type: ignore[arg-type]


def draw_map_slowly(
    map_api: MapAPI, context: object, matrix: np.ndarray, colors_of_faces: dict[str, str]
) -> np.ndarray:
    """Return the picture of the map with every lane in range handed to OpenCV, lane by lane."""
    width, height = context.raster_size_px  # type: ignore[attr-defined]
    picture = np.full((height, width, 3), 255, np.uint8)
    center = transform_point(np.array([0.5 * width, 0.5 * height]), np.linalg.inv(matrix))
    radius = 0.5 * np.linalg.norm(context.raster_size_px * context.pixel_size_m)  # type: ignore[attr-defined]
    lines: dict[str, list[np.ndarray]] = {}
    lanes = map_api.bounds_info["lanes"]
    for index in indices_in_bounds(center, lanes["bounds"], radius):
        lane_id = lanes["ids"][index]
        lane = map_api.get_lane_as_interpolation(lane_id, INTERPOLATION_POINTS, InterpolationMethod.INTER_ENSURE_LEN)
        left = cv2_subpixel(transform_points(lane["xyz_left"][:, :2], matrix)).astype(np.int32)
        right = cv2_subpixel(transform_points(lane["xyz_right"][::-1, :2], matrix)).astype(np.int32)
        cv2.fillPoly(picture, [np.vstack((left, right))], COLORS["ROAD"], **CV2_SUB_VALUES)
        found = {colors_of_faces.get(control) for control in map_api.get_lane_traffic_control_ids(lane_id)}
        color = next((name for name in ("RED", "YELLOW", "GREEN") if name in found), "LANE_NOTL")
        lines.setdefault(color, []).extend([left, right])
    for color, group in lines.items():
        cv2.polylines(picture, group, False, COLORS[color], **CV2_SUB_VALUES)
    crosswalks = map_api.bounds_info["crosswalks"]
    outlines = [
        cv2_subpixel(transform_points(map_api.get_crosswalk_coords(crosswalks["ids"][i])["xyz"][:, :2], matrix))
        for i in indices_in_bounds(center, crosswalks["bounds"], radius)
    ]
    cv2.polylines(picture, [o.astype(np.int32) for o in outlines], True, COLORS["CROSSWALK"], **CV2_SUB_VALUES)
    return picture


@pytest.mark.parametrize(
    ("set_origin_to_bottom", "crc_all", "crc_map", "crc_rgb", "crc_without_lights", "num_white", "num_road"),
    [
        (True, 0xB3B64057, 0xF4AE7CFC, 0x9375AB55, 0x8DF24ADC, 22141, 1644),
        (False, 0xACC1E9C7, 0x4875493C, 0x6985E2E5, 0xF1EDD6B0, 22142, 1643),
    ],
    ids=["bottom", "top"],
)
def test_known_rasters_of_fixture_s(
    fixture_s_map: str,
    set_origin_to_bottom: bool,
    crc_all: int,
    crc_map: int,
    crc_rgb: int,
    crc_without_lights: int,
    num_white: int,
    num_road: int,
) -> None:
    context = make_context(set_origin_to_bottom)
    rasterizer = SemBoxRasterizer(context, THRESHOLD, HISTORY_NUM_FRAMES, fixture_s_map, WORLD_TO_ECEF)
    raster = rasterizer.rasterize(*make_window(15))
    assert raster.shape == (112, 224, 11)
    pixels = to_bytes(raster).transpose(2, 0, 1)
    assert crc(pixels[-3:]) == crc_map
    assert crc(pixels) == crc_all
    assert crc(rasterizer.to_rgb(raster)) == crc_rgb
    without_lights = to_bytes(rasterizer.rasterize(*make_window(15, with_lights=False)))[..., -3:]
    assert crc(without_lights.transpose(2, 0, 1)) == crc_without_lights
    assert (without_lights == 255).all(axis=-1).sum() == num_white
    assert (without_lights == COLORS["ROAD"]).all(axis=-1).sum() == num_road


@settings(max_examples=60, deadline=None)
@given(
    offset_m=st.tuples(st.floats(-40, 40), st.floats(-40, 40)),
    yaw_rad=st.floats(-4, 4),
    raster_size=st.sampled_from([(224, 112), (50, 90), (7, 5), (400, 300)]),
    set_origin_to_bottom=st.booleans(),
    red_is_on=st.booleans(),
)
def test_map_at_random_poses_equals_a_slow_drawing_of_all_lanes(
    fixture_s_map: str,
    offset_m: tuple[float, float],
    yaw_rad: float,
    raster_size: tuple[int, int],
    set_origin_to_bottom: bool,
    red_is_on: bool,
) -> None:
    context = make_context(set_origin_to_bottom, raster_size)
    rasterizer = SemanticRasterizer(context, fixture_s_map, WORLD_TO_ECEF)
    matrix = context.raster_from_world(np.array([-186.0, 0.0]) + offset_m, yaw_rad)
    center = transform_point(0.5 * context.raster_size_px, np.linalg.inv(matrix))
    picture = rasterizer.render_semantic_map(center, matrix, make_faces("F1") if red_is_on else None)
    expected = draw_map_slowly(rasterizer.mapAPI, context, matrix, {"F1": "RED"} if red_is_on else {})
    assert_array_equal(picture, expected)


def test_street_map_at_random_poses_equals_a_slow_drawing_of_all_lanes(shared_data: Path) -> None:
    rng = np.random.default_rng(0)
    context = make_context(raster_size=(160, 120))
    rasterizer = SemanticRasterizer(context, str(shared_data / "semantic_synth.pb"), WORLD_TO_ECEF)
    lows, highs = rasterizer.mapAPI.bounds_info["lanes"]["bounds"].transpose(1, 0, 2)
    for _ in range(20):
        matrix = context.raster_from_world(rng.uniform(lows.min(axis=0), highs.max(axis=0)), rng.uniform(-4, 4))
        center = transform_point(0.5 * context.raster_size_px, np.linalg.inv(matrix))
        picture = rasterizer.render_semantic_map(center, matrix)
        assert_array_equal(picture, draw_map_slowly(rasterizer.mapAPI, context, matrix, {}))


def edit_map(folder: Path, *, controls_of_l2: tuple[str, ...]) -> str:
    fragment = MapFragment()
    fragment.ParseFromString(FIXTURE_S_MAP)
    fragment.elements[1].element.lane.traffic_controls.extend(
        GlobalId(id=control.encode()) for control in controls_of_l2
    )
    path = folder / "edited.pb"
    path.write_bytes(fragment.SerializeToString())
    return str(path)


def test_i2_red_comes_before_green_in_any_order_of_faces(fixture_s_map: str) -> None:
    frames, agents, _, _ = make_window(15, num_history=0)
    rasterizer = make_rasterizer(fixture_s_map)
    red, green, both, reverse = (
        rasterizer.rasterize(frames, agents, [faces])
        for faces in (make_faces("F1"), make_faces("F2"), make_faces("F1", "F2"), make_faces("F2", "F1", "F1"))
    )
    assert (green != red).any()
    assert_array_equal(both, red)
    assert_array_equal(reverse, red)


def test_active_faces_color_only_the_lanes_that_they_control(fixture_s_map: str) -> None:
    frames, agents, faces, _ = make_window(15, num_history=0)
    lit = make_rasterizer(fixture_s_map).rasterize(frames, agents, faces)
    dark = make_rasterizer(fixture_s_map).rasterize(frames, agents, [faces[0][:0]])
    rows, columns = np.nonzero((lit != dark).any(axis=-1))
    assert len(rows) > 20
    assert (lit[rows, columns, 1] <= dark[rows, columns, 1]).all()  # red has less green than the default colour
    matrix = make_context().raster_from_world(frames[0]["ego_translation"], 0.15)
    world_m = transform_points(np.stack([columns, rows], axis=-1).astype(float), np.linalg.inv(matrix))
    low, high = np.array([[-193.8, -1.6], [-176.6, 2.4]])  # bounds of L1
    assert (world_m > low - 0.5).all()
    assert (world_m < high + 0.5).all()


@pytest.mark.parametrize("control", ["T1", "nowhere"], ids=["light", "not in the map"])
def test_i3_active_control_without_a_color_counts_as_none(tmp_path: Path, fixture_s_map: str, control: str) -> None:
    frames, agents, _, _ = make_window(15, num_history=0)
    edited = make_rasterizer(edit_map(tmp_path, controls_of_l2=(control,)))
    picture = edited.rasterize(frames, agents, [make_faces(control)])
    assert_array_equal(picture, make_rasterizer(fixture_s_map).rasterize(frames, agents, [make_faces()]))


def test_i3_active_u_turn_face_has_the_color_that_the_map_gives_it(tmp_path: Path) -> None:
    rasterizer, context = make_rasterizer(edit_map(tmp_path, controls_of_l2=("F3",))), make_context()
    matrix = context.raster_from_world(np.array([-190.0, 0.0]), 0.0)
    center = transform_point(0.5 * context.raster_size_px, np.linalg.inv(matrix))
    color = rasterizer.mapAPI.get_face_color_or_none("F3")
    colors_of_faces = {} if color is None else {"F3": color}
    picture = rasterizer.render_semantic_map(center, matrix, make_faces("F3"))
    assert_array_equal(picture, draw_map_slowly(rasterizer.mapAPI, context, matrix, colors_of_faces))


def test_i15_no_list_of_faces_is_like_no_faces(fixture_s_map: str) -> None:
    frames, agents, faces, _ = make_window(15, num_history=0)
    rasterizer = make_rasterizer(fixture_s_map)
    assert_array_equal(rasterizer.rasterize(frames, agents, []), rasterizer.rasterize(frames, agents, [faces[0][:0]]))


def test_lights_are_those_of_the_newest_frame(fixture_s_map: str) -> None:
    rasterizer = make_rasterizer(fixture_s_map)
    frames, agents, _, _ = make_window(15)
    window = frames[:2], agents[:2]
    red, off = make_faces("F1"), make_faces()
    always, never = rasterizer.rasterize(*window, [red, red]), rasterizer.rasterize(*window, [off, off])
    assert (always != never).any()
    assert_array_equal(rasterizer.rasterize(*window, [red, off]), always)
    assert_array_equal(rasterizer.rasterize(*window, [off, red]), never)


def test_overlapping_lanes_leave_no_hole(fixture_s_map: str) -> None:
    context = make_context()
    matrix = context.raster_from_world(np.array([-193.0, 0.0]), 0.0)
    center = transform_point(0.5 * context.raster_size_px, np.linalg.inv(matrix))
    picture = SemanticRasterizer(context, fixture_s_map, WORLD_TO_ECEF).render_semantic_map(center, matrix)
    column, row = transform_point(np.array([-186.0, 1.0]), matrix).astype(int)  # inside both L1 and L2
    assert tuple(picture[row, column]) == COLORS["ROAD"]


def test_far_from_the_map_the_picture_is_white(fixture_s_map: str) -> None:
    matrix = make_context().raster_from_world(np.array([5000.0, 0.0]), 0.0)
    picture = make_rasterizer(fixture_s_map).render_semantic_map(np.array([5000.0, 0.0]), matrix)
    assert (picture == 255).all()


def test_map_without_lanes_is_white(tmp_path: Path) -> None:
    path = tmp_path / "empty.pb"
    path.write_bytes(MapFragment(name="empty").SerializeToString())
    frames, agents, faces, _ = make_window(15, num_history=0)
    assert (make_rasterizer(str(path)).rasterize(frames, agents, faces) == 255).all()


def test_to_rgb_restores_the_bytes(fixture_s_map: str) -> None:
    window = make_window(15)
    as_floats = SemanticRasterizer(make_context(), fixture_s_map, WORLD_TO_ECEF)
    picture = make_rasterizer(fixture_s_map).rasterize(*window)
    assert_array_equal(as_floats.to_rgb(as_floats.rasterize(*window), anything=1), picture)
    assert_array_equal(as_floats.to_rgb(picture), picture)
    assert not np.shares_memory(as_floats.to_rgb(picture), picture)


def test_a_pickled_rasterizer_is_small_and_draws_the_same(fixture_s_map: str) -> None:
    rasterizer, window = make_rasterizer(fixture_s_map), make_window(15)
    content = pickle.dumps(rasterizer)
    assert len(content) < 10_000
    assert_array_equal(pickle.loads(content).rasterize(*window), rasterizer.rasterize(*window))


@pytest.mark.parametrize("flip", [1, -1])
def test_a_map_drawing_of_ones_own_is_used(fixture_s_map: str, flip: int) -> None:
    class Gray(SemanticRasterizer):
        def render_semantic_map(self, *arguments: object) -> np.ndarray:
            picture = super().render_semantic_map(*arguments) // 2  # type: ignore[arg-type]
            return np.pad(picture, [(1, 3), (2, 0), (0, 0)], constant_values=9)[1:-3, 2:][::flip]  # a view of another

    window = make_window(15)
    gray = Gray(make_context(), fixture_s_map, WORLD_TO_ECEF, image_dtype="uint8").rasterize(*window)
    drawn = make_rasterizer(fixture_s_map).rasterize(*window) // 2
    assert_array_equal(gray, drawn[::flip])
    assert not np.array_equal(drawn, drawn[::-1])


def test_missing_map_is_a_file_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        make_rasterizer(str(tmp_path / "nothing.pb"))


@pytest.mark.parametrize(
    ("center", "expected"),
    [((0.0, 0.0), [0, 2]), ((2.5, 0.0), [0, 1, 2]), ((3.0, 0.0), [1, 2]), ((9.0, 9.0), [2]), ((0.0, -3.0), [2])],
)
def test_indices_in_bounds_are_strict(center: tuple[float, float], expected: list[int]) -> None:
    bounds = np.array([[[-1, -1], [1, 1]], [[4, -1], [6, 1]], [[-50, -50], [50, 50]]], dtype=float)
    assert indices_in_bounds(np.array([*center, 7.0]), bounds, 2.0).tolist() == expected
    for row, (low, high) in enumerate(bounds):
        for axis, edge in itertools.product((0, 1), (low - 2.0, high + 2.0)):
            on_edge = np.array([5.0, 0.0]) if row == 1 else np.zeros(2)
            on_edge[axis] = edge[axis]
            assert row not in indices_in_bounds(on_edge, bounds, 2.0)


def test_indices_in_bounds_of_no_bounds() -> None:
    assert indices_in_bounds(np.zeros(2), np.empty((0, 2, 2)), 1.0).tolist() == []


@pytest.mark.parametrize(("coord", "expected"), [(-0.001, 0), (-1.5, -768), (1.9999, 1023), (2.0, 1024)])
def test_cv2_subpixel_cuts_off_toward_zero(coord: float, expected: int) -> None:
    units = cv2_subpixel(np.array([[coord]]))
    assert units.dtype == np.int64
    assert units.tolist() == [[expected]]


def test_public_constants() -> None:
    assert CV2_SUB_VALUES == {"shift": 9, "lineType": cv2.LINE_AA}
    assert CV2_SHIFT_VALUE == 512
    assert INTERPOLATION_POINTS == 20
    assert [element.value for element in (RasterEls.LANE_NOTL, RasterEls.ROAD, RasterEls.CROSSWALK)] == [0, 1, 2]
    assert COLORS == {
        "GREEN": (0, 255, 0),
        "RED": (255, 0, 0),
        "YELLOW": (255, 255, 0),
        "CROSSWALK": (255, 117, 69),
        "LANE_NOTL": (255, 217, 82),
        "ROAD": (17, 17, 31),
    }
