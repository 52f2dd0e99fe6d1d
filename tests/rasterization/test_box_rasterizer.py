from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.data.filter import filter_agents_by_labels
from l5kit.data.records import AGENT_DTYPE
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.transform import transform_points
from l5kit.rasterization import BoxRasterizer, RenderContext
from l5kit.rasterization.box_rasterizer import _gather_boxes, draw_boxes, get_box_world_coords, get_ego_as_agent
from l5kit.rasterization.subpixel import CV2_SUB_VALUES, cv2_subpixel
from support.logs import make_agent, make_agents
from support.rasters import (
    HISTORY_NUM_FRAMES,
    THRESHOLD,
    crc,
    draw_boxes_slowly,
    join_windows,
    make_context,
    make_random_window,
    make_window,
    to_bytes,
)
from support.tolerances import FLOAT32


def make_rasterizer(**options: bool | str) -> BoxRasterizer:
    return BoxRasterizer(make_context(), THRESHOLD, HISTORY_NUM_FRAMES, **options)  # type: ignore[arg-type]


def agents_of(*boxes: tuple[tuple[float, float], float, tuple[float, float]]) -> np.ndarray:
    return make_agents(*(make_agent(0, centroid, yaw=yaw, extent=(*extent, 0)) for centroid, yaw, extent in boxes))


@pytest.mark.parametrize(
    ("frame_index", "track_id", "expected_crc", "expected_sums"),
    [
        (15, None, 0x29839360, [134661, 134721, 135166, 135272, 49403, 47052, 44099, 46714]),
        (15, 2, 0x5CE89F73, [142204, 140632, 141532, 138968, 43106, 43164, 38449, 38209]),
    ],
    ids=["AV", "agent 2"],
)
def test_known_rasters_of_fixture_s(
    frame_index: int, track_id: int | None, expected_crc: int, expected_sums: list[int]
) -> None:
    raster = make_rasterizer().rasterize(*make_window(frame_index, track_id))
    assert raster.shape == (112, 224, 8)
    assert raster.dtype == np.float32
    pixels = to_bytes(raster).transpose(2, 0, 1)
    assert pixels.sum(axis=(1, 2), dtype=np.int64).tolist() == expected_sums
    assert crc(pixels) == expected_crc


def test_known_picture_of_fixture_s() -> None:
    rasterizer = make_rasterizer()
    assert crc(rasterizer.to_rgb(rasterizer.rasterize(*make_window(15)))) == 0xA329CD34


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_frames=st.integers(1, 4),
    num_agents=st.sampled_from([0, 1, 5, 40]),
    spread_m=st.sampled_from([12.0, 40.0, 400.0]),
    raster_size=st.sampled_from([(64, 40), (33, 71), (1, 1)]),
    set_origin_to_bottom=st.booleans(),
    render_ego_history=st.booleans(),
    threshold=st.sampled_from([-1.0, 0.5, 1.0]),
)
def test_random_boxes_equal_a_slow_drawing_of_all_boxes(
    seed: int,
    num_frames: int,
    num_agents: int,
    spread_m: float,
    raster_size: tuple[int, int],
    set_origin_to_bottom: bool,
    render_ego_history: bool,
    threshold: float,
) -> None:
    window = make_random_window(seed, num_frames=num_frames, num_agents=num_agents, spread_m=spread_m)
    context = make_context(set_origin_to_bottom, raster_size)
    rasterizer = BoxRasterizer(context, threshold, 3, render_ego_history, image_dtype="uint8")
    expected = draw_boxes_slowly(
        window, context, threshold=threshold, num_history=3, render_ego_history=render_ego_history
    )
    assert_array_equal(rasterizer.rasterize_planar(*window), expected)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_windows=st.integers(1, 4),
    have_agents_of_interest=st.booleans(),
    one_array=st.booleans(),
    raster_size=st.sampled_from([(64, 40), (33, 71), (1, 1)]),
    solid_boxes=st.booleans(),
    render_ego_history=st.booleans(),
)
def test_a_batch_of_random_boxes_equals_its_windows_one_by_one(
    seed: int,
    num_windows: int,
    have_agents_of_interest: bool,
    one_array: bool,
    raster_size: tuple[int, int],
    solid_boxes: bool,
    render_ego_history: bool,
) -> None:
    rng = np.random.default_rng(seed)
    windows = [
        make_random_window(
            int(rng.integers(2**31)) * 2 + have_agents_of_interest,  # odd seeds have an agent of interest
            num_frames=int(rng.integers(1, 5)),
            num_agents=int(rng.integers(1, 30)),
            spread_m=float(rng.choice([12.0, 40.0, 400.0])),
        )
        for _ in range(num_windows)
    ]
    rasterizer = BoxRasterizer(
        make_context(raster_size=raster_size),
        THRESHOLD,
        4,
        render_ego_history,
        solid_boxes=solid_boxes,
        image_dtype="uint8",
    )
    images = np.full((num_windows, 10, raster_size[1], raster_size[0]), 77, np.uint8)
    rasterizer.rasterize_windows(*join_windows(windows, one_array=one_array), images)
    assert_array_equal(images, [rasterizer.rasterize_planar(*window) for window in windows])


def test_solid_boxes_equal_one_call_of_opencv_for_each_box() -> None:
    window, context = make_random_window(3, num_frames=1, num_agents=25, spread_m=14.0), make_context()
    frames, history_agents, _, agent = window
    matrix = context.raster_from_world(agent["centroid"], agent["yaw"])  # type: ignore[index]
    rows = filter_agents_by_labels(history_agents[0], THRESHOLD)
    others = np.concatenate([rows[rows["track_id"] != agent["track_id"]], get_ego_as_agent(frames[0])])  # type: ignore[index]
    expected = np.zeros((112, 224), np.uint8)
    for corners_m in get_box_world_coords(others):
        corners = cv2_subpixel(transform_points(corners_m, matrix)).astype(np.int32)
        cv2.fillPoly(expected, [corners], (255,), **CV2_SUB_VALUES)
    solid = BoxRasterizer(context, THRESHOLD, 0, solid_boxes=True, image_dtype="uint8").rasterize_planar(*window)
    assert_array_equal(solid[0], expected)


@pytest.mark.parametrize("side", ["left", "right", "top", "bottom"])
@pytest.mark.parametrize("distance_px", [0.3, 0.999, 1.0, 1.9, 2.0, 2.1, 6.0, 600.0])
def test_boxes_outside_the_picture_are_left_out_only_when_they_touch_nothing(side: str, distance_px: float) -> None:
    frames, _, _, _ = make_window(0, num_history=0)
    context = make_context()
    frames["ego_translation"] = 0.0
    frames["ego_rotation"] = np.eye(3)
    low, high = (-14.0, -14.0), (42.0, 14.0)  # the edges of the picture in metres around the AV
    reach = 1.0 + distance_px * 0.25
    centroid = {
        "left": (low[0] - reach, 3.0),
        "right": (high[0] + reach, 3.0),
        "bottom": (5.0, low[1] - reach),
        "top": (5.0, high[1] + reach),
    }[side]
    agents = agents_of((centroid, 0.0, (2.0, 2.0)), ((2.0, 5.0), 0.3, (4.0, 2.0)))
    agents["label_probabilities"][:, 3] = 1.0
    window = (frames, [agents], [], None)
    expected = draw_boxes_slowly(window, context, threshold=THRESHOLD, num_history=0, render_ego_history=True)
    raster = BoxRasterizer(context, THRESHOLD, 0, image_dtype="uint8").rasterize_planar(*window)
    assert_array_equal(raster, expected)


def test_i1_two_overlapping_boxes_cancel_and_three_fill_again() -> None:
    two = agents_of(((50, 50), 0.0, (20, 20)), ((60, 60), 0.0, (20, 20)))
    picture = draw_boxes((100, 100), np.eye(3), two, 255)
    assert [picture[55, 55], picture[45, 45], picture[65, 65]] == [0, 255, 255]
    three = agents_of(*[((50, 50), 0.0, (20, 20))] * 3)
    assert draw_boxes((100, 100), np.eye(3), three, 255)[50, 50] == 255


def test_i1_solid_boxes_fill_the_overlap() -> None:
    frames, _, _, _ = make_window(0, num_history=0)
    agents = agents_of(((5.0, 5.0), 0.0, (8, 8)), ((7.0, 7.0), 0.0, (8, 8)))
    agents["centroid"] += frames[0]["ego_translation"][:2]
    agents["label_probabilities"][:, 3] = 1.0
    window = (frames, [agents], [], None)
    context = make_context()
    with_hole = BoxRasterizer(context, 0.5, 0, image_dtype="uint8").rasterize_planar(*window)[0]
    solid = BoxRasterizer(context, 0.5, 0, solid_boxes=True, image_dtype="uint8").rasterize_planar(*window)[0]
    column, row = 56 + 6 * 4, 56 - 6 * 4  # the middle of the overlap, 6 m ahead and 6 m to the left
    assert with_hole[row, column] == 0
    assert solid[row, column] == 255
    assert (solid >= with_hole).all()
    assert (solid == 255).sum() > (with_hole == 255).sum()


def test_draw_boxes_returns_three_channels_for_a_color() -> None:
    agents = agents_of(((10, 5), 0.0, (8, 4)))
    picture = draw_boxes((20, 10), np.eye(3), agents, (1, 2, 3))
    assert picture.shape == (10, 20, 3)
    assert picture[5, 10].tolist() == [1, 2, 3]


@pytest.mark.parametrize(("color", "shape"), [(255, (10, 20)), ((1, 2, 3), (10, 20, 3))])
def test_draw_boxes_without_agents_is_black(color: int | tuple[int, int, int], shape: tuple[int, ...]) -> None:
    picture = draw_boxes(np.array([20, 10]), np.eye(3), agents_of(), color)
    assert picture.shape == shape
    assert picture.dtype == np.uint8
    assert not picture.any()


def test_corners_run_from_rear_right_over_rear_left_to_the_front() -> None:
    agents = agents_of(((1, 2), 0.0, (4, 2)), ((0, 0), np.pi / 2, (4, 2)))
    corners = get_box_world_coords(agents)
    assert_allclose(corners[0], [(-1, 1), (-1, 3), (3, 3), (3, 1)])
    assert_allclose(corners[1], [(1, -2), (-1, -2), (-1, 2), (1, 2)], atol=FLOAT32)


def test_get_ego_as_agent_sets_pose_and_extent_only() -> None:
    frame = make_window(20)[0][0]
    ego = get_ego_as_agent(frame)
    assert ego.shape == (1,)
    assert ego.dtype == np.dtype(AGENT_DTYPE)
    assert_allclose(ego["centroid"][0], (-185.0, 0.4))
    assert ego["yaw"][0] == np.float32(0.2)
    assert_array_equal(ego["extent"][0], np.array([4.87, 1.85, 1.8], np.float32))
    for field in ("velocity", "track_id", "label_probabilities"):
        assert not ego[field].any()


def test_i10_selected_agent_below_the_threshold_leaves_an_empty_channel() -> None:
    frames, agents, faces, agent = make_window(15, 2)
    agents = [rows.copy() for rows in agents]
    rows = agents[1]
    rows["label_probabilities"][rows["track_id"] == 2] = 0.0
    raster = make_rasterizer(image_dtype="uint8").rasterize_planar(frames, agents, faces, agent)
    assert [bool(plane.any()) for plane in raster[4:]] == [True, False, True, True]


def test_i11_selected_agent_is_removed_by_track_id() -> None:
    frames, agents, faces, _ = make_window(15, num_history=0)
    twice = np.concatenate([agents[0], agents[0][agents[0]["track_id"] == 2]])
    twice["centroid"][-1] += 6.0
    once = agents[0][agents[0]["track_id"] != 2]
    rasterizer = BoxRasterizer(make_context(), THRESHOLD, 0, image_dtype="uint8")
    agent = twice[-1]
    without = rasterizer.rasterize_planar(frames, [once], faces, agent)
    assert_array_equal(rasterizer.rasterize_planar(frames, [twice], faces, agent)[0], without[0])


def test_i11_track_id_0_is_not_taken_for_the_av() -> None:
    frames, agents, faces, _ = make_window(15, num_history=0)
    rows = agents[0].copy()
    rows["track_id"][rows["track_id"] == 2] = 0
    rasterizer = BoxRasterizer(make_context(), THRESHOLD, 0, image_dtype="uint8")
    as_0 = rasterizer.rasterize_planar(frames, [rows], faces, rows[rows["track_id"] == 0][0])
    as_2 = rasterizer.rasterize_planar(frames, agents, faces, agents[0][agents[0]["track_id"] == 2][0])
    assert_array_equal(as_0, as_2)


def test_without_ego_history_only_the_current_ego_channel_is_drawn() -> None:
    window = make_window(15)
    full = make_rasterizer().rasterize_planar(*window)
    current_only = make_rasterizer(render_ego_history=False).rasterize_planar(*window)
    assert_array_equal(current_only[:5], full[:5])
    assert not current_only[5:].any()


def test_without_ego_history_the_av_stays_among_the_agents_of_past_frames() -> None:
    window = make_window(15, 2)
    full = make_rasterizer().rasterize_planar(*window)
    current_only = make_rasterizer(render_ego_history=False).rasterize_planar(*window)
    assert_array_equal(current_only[:5], full[:5])
    assert not current_only[5:].any()
    frames, agents, faces, agent = window
    without_agents = make_rasterizer(render_ego_history=False).rasterize_planar(
        frames, [agents[0], *(rows[:0] for rows in agents[1:])], faces, agent
    )
    assert [bool(plane.any()) for plane in without_agents[:4]] == [True] * 4, "the AV is there"


@pytest.mark.parametrize(("distance_m", "is_seen"), [(9.0, True), (11.0, False)])
def test_a_long_box_whose_middle_lies_outside_reaches_into_the_picture(distance_m: float, is_seen: bool) -> None:
    context = make_context()  # 56 m by 28 m, with 42 m before the AV
    frames, _, faces, _ = make_window(15)
    frames = frames[:1].copy()
    frames["ego_translation"], frames["ego_rotation"] = (0, 0, 0), np.eye(3)
    agents = agents_of(((42.0 + distance_m, 0.0), 0.0, (20.0, 0.5)))
    agents["label_probabilities"][:, 3] = 1
    window = (frames, [agents], faces[:1], None)
    plane = BoxRasterizer(context, THRESHOLD, 0, image_dtype="uint8").rasterize_planar(*window)[0]
    expected = draw_boxes_slowly(window, context, threshold=THRESHOLD, num_history=0, render_ego_history=True)[0]
    assert_array_equal(plane, expected)
    assert bool(plane.any()) == is_seen


@pytest.mark.parametrize("one_array", [True, False])
def test_windows_far_from_each_other_show_what_is_around_each(one_array: bool) -> None:
    windows = [make_window(15, 2), make_window(15, 2)]
    for rows in (windows[1][0]["ego_translation"], *(rows["centroid"] for rows in windows[1][1])):
        rows[:, :2] += 500
    windows[1][3]["centroid"] += 500  # type: ignore[index]
    raster = make_rasterizer(image_dtype="uint8")
    planes = raster.rasterize_windows(*join_windows(windows, one_array=one_array))
    for found, window in zip(planes, windows, strict=True):
        assert_array_equal(found, raster.rasterize_planar(*window))
        assert found[0].any()


def test_missing_history_leaves_zero_channels() -> None:
    raster = make_rasterizer().rasterize_planar(*make_window(1))
    assert [bool(plane.any()) for plane in raster] == [True, True, False, False] * 2


def test_frames_without_agents_show_the_av_only() -> None:
    frames, agents, faces, _ = make_window(15)
    raster = make_rasterizer().rasterize_planar(frames, [rows[:0] for rows in agents], faces)
    assert not raster[:4].any()
    assert_array_equal(raster[4:], make_rasterizer().rasterize_planar(*make_window(15))[4:])


def test_i13_more_frames_than_channels_are_an_index_error() -> None:
    with pytest.raises(IndexError, match="history_num_frames is 3"):
        make_rasterizer().rasterize(*make_window(15, num_history=4))


def test_no_frame_is_an_index_error() -> None:
    frames, _, _, _ = make_window(15)
    with pytest.raises(IndexError, match="history_frames"):
        make_rasterizer().rasterize(frames[:0], [], [])


def test_negative_history_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="history_num_frames"):
        BoxRasterizer(make_context(), THRESHOLD, -1)


def test_i17_records_of_several_types_give_the_same_raster() -> None:
    frames, agents, faces, _ = make_window(15)
    reference = make_rasterizer().rasterize_planar(frames, agents, faces)
    wider = np.dtype([(name, np.dtype(AGENT_DTYPE)[name]) for name in np.dtype(AGENT_DTYPE).names], align=True)
    mixed = [agents[0], agents[1].astype(wider), agents[2].astype(wider), agents[3]]
    assert_array_equal(make_rasterizer().rasterize_planar(frames, mixed, faces), reference)


def test_arguments_are_not_changed() -> None:
    window, untouched = make_window(15, 2), make_window(15, 2)
    make_rasterizer().rasterize(*window)
    assert_array_equal(window[0], untouched[0])
    for rows, expected in zip(window[1], untouched[1], strict=True):
        assert_array_equal(rows, expected)


def test_e7_agents_of_all_frames_are_filtered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    filtered: list[int] = []

    def counting(*arguments: Any) -> Any:
        _, _, starts, stops, *_ = arguments[1]
        filtered.append(int((stops - starts).sum()))
        return _gather_boxes(*arguments)

    monkeypatch.setattr("l5kit.rasterization.box_rasterizer._gather_boxes", counting)
    window = make_window(15)
    make_rasterizer().rasterize(*window)
    assert filtered == [sum(len(agents) for agents in window[1])]


def test_to_rgb_fades_with_age_and_takes_colors() -> None:
    rasterizer = BoxRasterizer(RenderContext((3, 1), (1, 1), (0, 0), True), 0.5, 1)  # type: ignore[arg-type]
    raster = np.zeros((1, 3, 4), np.float32)
    raster[0, 0, 0] = 0.1  # newest agents, an anti-aliased edge
    raster[0, 1, 1] = 1.0  # older agents
    raster[0, 2, 2] = 1.0  # newest ego
    assert rasterizer.to_rgb(raster).tolist() == [[[0, 0, 255], [0, 0, 216], [0, 255, 0]]]
    colored = rasterizer.to_rgb(raster, agent_color=(1, 0, 0), ego_color=(0.5, 0, 0.5), unknown=3)
    assert colored.tolist() == [[[255, 0, 0], [216, 0, 0], [127, 0, 127]]]


def test_to_rgb_of_bytes_equals_that_of_floats() -> None:
    as_floats, as_bytes = make_rasterizer(), make_rasterizer(image_dtype="uint8")
    window = make_window(15)
    assert_array_equal(as_bytes.to_rgb(as_bytes.rasterize(*window)), as_floats.to_rgb(as_floats.rasterize(*window)))


def test_drawing_leaves_the_thread_count_of_opencv_alone() -> None:
    before = cv2.getNumThreads()
    make_rasterizer().rasterize(*make_window(15))
    assert cv2.getNumThreads() == before
