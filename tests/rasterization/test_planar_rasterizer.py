"""Common properties of all rasterizers: planes, dtypes, overrides, and user classes."""

import dataclasses
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.data.index.windows import Targets
from l5kit.errors import InvalidArgumentError, UnsupportedValueError
from l5kit.rasterization import (
    BoxRasterizer,
    Rasterizer,
    SatBoxRasterizer,
    SatelliteRasterizer,
    SemanticRasterizer,
    SemBoxRasterizer,
    StubRasterizer,
)
from l5kit.rasterization.draw_list import ShapeList, touched_rows
from l5kit.rasterization.planar_rasterizer import PlanarRasterizer
from support.maps import WORLD_TO_ECEF
from support.rasters import HISTORY_NUM_FRAMES, THRESHOLD, Window, join_windows, make_context, make_window

WORLD_TO_AERIAL = np.array([[2.5, 0.3, 0, 800], [-0.3, 2.5, 0, 150], [0, 0, 0, 0], [0, 0, 0, 1.0]])
BOXES = (THRESHOLD, HISTORY_NUM_FRAMES)
KINDS = ("box", "semantic", "satellite", "sem_box", "sat_box", "stub")
NUM_CHANNELS = {"box": 8, "semantic": 3, "satellite": 3, "sem_box": 11, "sat_box": 11, "stub": 3}

Make = Callable[..., PlanarRasterizer]


@pytest.fixture
def make(fixture_s_map: str) -> Make:
    texture = np.random.default_rng(0).integers(0, 256, (600, 400, 3), np.uint8)
    classes: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "box": (BoxRasterizer, BOXES),
        "semantic": (SemanticRasterizer, (fixture_s_map, WORLD_TO_ECEF)),
        "satellite": (SatelliteRasterizer, (texture, WORLD_TO_AERIAL)),
        "sem_box": (SemBoxRasterizer, (*BOXES, fixture_s_map, WORLD_TO_ECEF)),
        "sat_box": (SatBoxRasterizer, (*BOXES, texture, WORLD_TO_AERIAL)),
        "stub": (StubRasterizer, ()),
    }

    def make_one(kind: str, *, cls: Any = None, context: Any = None, **options: Any) -> PlanarRasterizer:
        own_class, arguments = classes[kind]
        rasterizer: PlanarRasterizer = (cls or own_class)(context or make_context(), *arguments, **options)
        return rasterizer

    return make_one


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("track_id", [None, 2], ids=["AV", "agent"])
def test_planes_are_the_raster_with_channels_first(make: Make, kind: str, track_id: int | None) -> None:
    rasterizer, window = make(kind), make_window(15, track_id)
    raster, planes = rasterizer.rasterize(*window), rasterizer.rasterize_planar(*window)
    assert raster.shape == (112, 224, NUM_CHANNELS[kind])
    assert rasterizer.num_channels() == NUM_CHANNELS[kind]
    assert raster.dtype == planes.dtype == np.float32
    assert planes.flags.c_contiguous
    assert planes.flags.writeable
    assert_array_equal(planes, raster.transpose(2, 0, 1))
    assert 0.0 <= planes.min() <= planes.max() <= 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_divided_by_255_are_the_floats(make: Make, kind: str) -> None:
    window = make_window(15, 2)
    planes = make(kind, image_dtype="uint8").rasterize_planar(*window)
    assert planes.dtype == np.uint8
    assert_array_equal(planes / np.float32(255), make(kind).rasterize_planar(*window))


@pytest.mark.parametrize("kind", KINDS)
def test_to_rgb_is_a_picture_of_the_size_of_the_raster(make: Make, kind: str) -> None:
    for options in ({}, {"image_dtype": "uint8"}):
        rasterizer = make(kind, **options)
        raster = rasterizer.rasterize(*make_window(15))
        before = raster.copy()
        picture = rasterizer.to_rgb(raster, unknown_option=1)
        assert picture.shape == (112, 224, 3)
        assert picture.dtype == np.uint8
        assert_array_equal(raster, before)


@pytest.mark.parametrize("kind", KINDS)
def test_each_call_returns_memory_of_its_own(make: Make, kind: str) -> None:
    rasterizer = make(kind)
    first = rasterizer.rasterize_planar(*make_window(15))
    expected = first.copy()
    second = rasterizer.rasterize_planar(*make_window(20))
    second[...] = 7
    assert_array_equal(first, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_pickled_rasterizers_draw_the_same(make: Make, kind: str) -> None:
    rasterizer, window = make(kind), make_window(15)
    copy = pickle.loads(pickle.dumps(rasterizer))
    assert_array_equal(copy.rasterize_planar(*window), rasterizer.rasterize_planar(*window))


@pytest.mark.parametrize("kind", KINDS)
def test_attributes_that_users_of_1_5_read(make: Make, kind: str) -> None:
    rasterizer = make(kind)
    assert rasterizer.raster_size.tolist() == [224, 112]
    assert rasterizer.pixel_size.tolist() == [0.25, 0.25]
    assert rasterizer.ego_center.tolist() == [0.25, 0.5]
    assert rasterizer.render_context == make_context()


def test_combined_rasterizers_show_their_parts(make: Make) -> None:
    sem_box, sat_box = make("sem_box"), make("sat_box")
    assert isinstance(sem_box, SemBoxRasterizer)
    assert isinstance(sat_box, SatBoxRasterizer)
    window = make_window(15, 300)
    for combined, parts in (
        (sem_box, (sem_box.box_rast, sem_box.sem_rast)),
        (sat_box, (sat_box.box_rast, sat_box.sat_rast)),
    ):
        expected = np.concatenate([part.rasterize(*window) for part in parts], axis=-1)
        assert_array_equal(combined.rasterize(*window), expected)


class Inverted(BoxRasterizer):
    """Overrides ``rasterize`` of a built-in class, as users of 1.5 do."""

    def rasterize(self, *arguments: Any) -> Any:
        return 1 - super().rasterize(*arguments)


def test_planes_come_from_an_overridden_rasterize(make: Make) -> None:
    window = make_window(15, 2)
    planes = make("box", cls=Inverted).rasterize_planar(*window)
    assert planes.flags.c_contiguous
    assert_array_equal(planes, 1 - make("box").rasterize_planar(*window))


def test_a_part_that_overrides_rasterize_is_honoured(make: Make) -> None:
    window = make_window(15, 2)
    combined, plain = make("sem_box"), make("sem_box").rasterize_planar(*window)
    combined.box_rast = make("box", cls=Inverted)  # type: ignore[attr-defined]
    for planes in (combined.rasterize_planar(*window), combined.rasterize(*window).transpose(2, 0, 1)):
        assert_array_equal(planes[:8], 1 - plain[:8])
        assert_array_equal(planes[8:], plain[8:])


def make_windows(track_id: int | None) -> list[Window]:
    """Return windows with all frames, with fewer, without lights, and without agents other than that of interest."""
    of_two_frames = make_window(1, None if track_id is None else 1)
    windows = [make_window(15, track_id), of_two_frames, make_window(20, track_id, with_lights=False)]
    frames, agents, faces, agent = make_window(18, track_id)
    windows.append((frames, [rows[rows["track_id"] == track_id] for rows in agents], faces, agent))
    windows.append((frames, agents, [], agent))
    windows.append(make_window(16, track_id, num_history=0))
    return windows


def rasterize_one_by_one(rasterizer: PlanarRasterizer, windows: list[Window]) -> Any:
    return np.stack([rasterizer.rasterize_planar(*window) for window in windows])


def rasterize_together(rasterizer: PlanarRasterizer, windows: list[Window], *, one_array: bool = True) -> Any:
    width, height = rasterizer.raster_size
    images = np.full((len(windows), rasterizer.num_channels(), height, width), 77, rasterizer.image_dtype)
    rasterizer.rasterize_windows(*join_windows(windows, one_array=one_array), images)
    return images


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("track_id", [None, 2], ids=["AV", "agent"])
@pytest.mark.parametrize("one_array", [True, False], ids=["one array", "an array for each"])
@pytest.mark.parametrize("image_dtype", ["float32", "uint8"])
@pytest.mark.parametrize("set_origin_to_bottom", [True, False], ids=["bottom", "top"])
def test_a_batch_equals_its_windows_one_by_one(
    make: Make, kind: str, track_id: int | None, one_array: bool, image_dtype: str, set_origin_to_bottom: bool
) -> None:
    rasterizer = make(kind, context=make_context(set_origin_to_bottom), image_dtype=image_dtype)
    windows = make_windows(track_id)
    together = rasterize_together(rasterizer, windows, one_array=one_array)
    assert_array_equal(together, rasterize_one_by_one(rasterizer, windows))
    assert kind == "stub" or len({image.tobytes() for image in together}) > 3


@pytest.mark.parametrize("options", [{"solid_boxes": True}, {"render_ego_history": False}], ids=str)
@pytest.mark.parametrize("kind", ["box", "sem_box"])
def test_a_batch_with_options_equals_its_windows_one_by_one(make: Make, kind: str, options: dict[str, bool]) -> None:
    rasterizer, windows = make(kind, **options), make_windows(2)
    assert_array_equal(rasterize_together(rasterizer, windows), rasterize_one_by_one(rasterizer, windows))


@pytest.mark.parametrize("kind", KINDS)
def test_no_window_is_an_empty_batch(make: Make, kind: str) -> None:
    rasterizer = make(kind)
    windows, targets = join_windows(make_windows(None), one_array=True)
    nobody = Targets(None, None, targets.centroids_m[:0], targets.yaws_rad[:0], targets.extents_m[:0])
    nothing = windows.taken(np.zeros(len(windows), np.bool_)), nobody
    rasterizer.rasterize_windows(*nothing, np.empty((0, rasterizer.num_channels(), 112, 224), np.float32))


@pytest.mark.parametrize("kind", KINDS)
def test_painters_write_every_byte_whatever_was_there(make: Make, kind: str) -> None:
    rasterizer, windows = make(kind, image_dtype="uint8"), make_windows(2)
    batch, targets = join_windows(windows, one_array=True)
    draw_list = rasterizer.draw_list(batch, targets)
    expected = rasterize_one_by_one(rasterizer, windows)
    for garbage in (0, 1, 254, 255):
        planes = np.full(expected.shape[1:], garbage, np.uint8)
        for index in (3, 0, 1, 0, 5):  # in any order, and again
            rasterizer.painter.paint(draw_list, index, planes)
            assert_array_equal(planes, expected[index])


@pytest.mark.parametrize("kind", KINDS)
def test_threads_may_share_a_rasterizer(make: Make, kind: str) -> None:
    rasterizer = make(kind)
    batches = [make_windows(2), make_windows(None)] * 4
    expected = [rasterize_one_by_one(rasterizer, windows) for windows in batches]
    with ThreadPoolExecutor(4) as threads:
        drawn = list(threads.map(lambda windows: rasterize_together(rasterizer, windows), batches))
    for images, images_of_one_thread in zip(drawn, expected, strict=True):
        assert_array_equal(images, images_of_one_thread)


@pytest.mark.parametrize("kind", KINDS)
def test_images_that_do_not_fit_a_batch_are_refused(make: Make, kind: str) -> None:
    rasterizer, batch = make(kind), join_windows(make_windows(None), one_array=True)
    shape = (len(batch[0]), rasterizer.num_channels(), 112, 224)
    for images in (
        np.empty((shape[0] - 1, *shape[1:]), np.float32),
        np.empty((*shape[:2], 224, 112), np.float32),
        np.empty(shape, np.uint8),
        np.empty((*shape[:3], 448), np.float32)[..., ::2],
    ):
        with pytest.raises(InvalidArgumentError, match=r"images has shape .* C-contiguous .* float32"):
            rasterizer.rasterize_windows(*batch, images)


class PlanarInverted(BoxRasterizer):
    """Overrides ``rasterize_planar`` of a built-in class."""

    def rasterize_planar(self, *arguments: Any) -> Any:
        return 1 - super().rasterize_planar(*arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_built_in_rasterizers_draw_planes(make: Make, kind: str) -> None:
    assert make(kind).draws_windows


@pytest.mark.parametrize("cls", [Inverted, PlanarInverted])
def test_rasterizers_with_a_drawing_of_their_own_draw_no_planes(make: Make, cls: Any) -> None:
    window = make_window(15, 2)
    own, plain = make("box", cls=cls), make("box").rasterize_planar(*window)
    assert not own.draws_windows
    assert_array_equal(own.rasterize_planar(*window), 1 - plain)
    combined = make("sem_box")
    combined.box_rast = own  # type: ignore[attr-defined]
    assert not combined.draws_windows
    assert_array_equal(combined.rasterize_planar(*window)[:8], 1 - plain)


class RowNumbers(Rasterizer):
    """A rasterizer of one's own: the row number in every one of two channels."""

    def rasterize(self, history_frames: Any, history_agents: Any, history_tl_faces: Any, agent: Any = None) -> Any:
        return np.broadcast_to(np.arange(4, dtype=np.float32)[:, None, None], (4, 6, 2))

    def to_rgb(self, in_im: Any, **kwargs: Any) -> Any:
        return np.zeros((4, 6, 3), np.uint8)

    def num_channels(self) -> int:
        return 2


def test_d15_planes_of_a_rasterizer_of_ones_own_are_contiguous() -> None:
    planes = RowNumbers().rasterize_planar(*make_window(15))
    assert planes.flags.c_contiguous
    assert_array_equal(planes, np.broadcast_to(np.arange(4)[None, :, None], (2, 4, 6)))


def test_i4_stub_has_rows_first(make: Make) -> None:
    stub = make("stub")
    raster = stub.rasterize(*make_window(15))
    assert raster.shape == (112, 224, 3)
    assert not raster.any()
    assert stub.to_rgb(raster).shape == (112, 224, 3)


@pytest.mark.parametrize("limit", [0, 2**60], ids=["streamed", "not streamed"])
def test_large_and_small_batches_hold_the_same_values(make: Make, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    rasterizer, windows = make("sem_box"), make_windows(2)
    expected = np.stack([make("sem_box", image_dtype="uint8").rasterize_planar(*window) for window in windows])
    monkeypatch.setattr("l5kit.rasterization.painter.STREAMED_NUM_BYTES", limit)
    assert_array_equal(rasterize_together(rasterizer, windows), expected / np.float32(255))


def test_unknown_image_dtype_is_refused() -> None:
    with pytest.raises(UnsupportedValueError, match="float64"):
        StubRasterizer(make_context(), image_dtype="float64")


@pytest.mark.parametrize("kind", KINDS)
def test_to_rgb_names_what_is_no_raster(make: Make, kind: str) -> None:
    rasterizer = make(kind)
    planar = rasterizer.rasterize_planar(*make_window(15))
    for wrong in (planar, np.zeros((112, 224, rasterizer.num_channels() + 1), np.float32), np.float32(0)):
        with pytest.raises(InvalidArgumentError, match=r"^in_im must be a raster of .*transpose\(1, 2, 0\)"):
            rasterizer.to_rgb(wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_repr_tells_class_size_and_channels(make: Make, kind: str) -> None:
    rasterizer = make(kind)
    name, num_channels = type(rasterizer).__name__, rasterizer.num_channels()
    assert repr(rasterizer) == f"<{name}: 224 x 112 pixels, {num_channels} channels, float32>"


@pytest.mark.parametrize("solid_boxes", [False, True])
def test_rows_that_no_box_is_said_to_touch_are_zero(solid_boxes: bool) -> None:
    rng = np.random.default_rng(5)
    rasterizer = BoxRasterizer(make_context(), 0.0, HISTORY_NUM_FRAMES, solid_boxes=solid_boxes, image_dtype="uint8")
    windows = make_windows(None)
    num_rows_told = num_rows = 0
    for _ in range(60):
        batch, targets = join_windows(windows, one_array=True)
        (rows,) = (array.copy() for array in batch.agents.arrays)
        rows["centroid"] += rng.normal(0, 20, rows["centroid"].shape)
        rows["extent"] *= rng.choice([0.01, 1.0, 5.0, 1000.0], (len(rows), 1))
        rows["yaw"] = rng.uniform(-4, 4, len(rows))
        batch = dataclasses.replace(batch, agents=dataclasses.replace(batch.agents, arrays=[rows]))
        draw_list = rasterizer.draw_list(batch, targets)
        assert isinstance(draw_list, ShapeList)
        images = rasterizer.rasterize_windows(batch, targets)
        is_told = np.zeros(images.shape[:3], np.bool_)
        for index, channel in np.ndindex(*images.shape[:2]):
            first, end = touched_rows(draw_list)[index, channel]
            is_told[index, channel, first:end] = True
        assert not images[~is_told].any()
        num_rows_told, num_rows = num_rows_told + np.count_nonzero(is_told), num_rows + is_told.size
    assert 0 < num_rows_told < num_rows
