"""Draw lists say all that a painter needs, are checked, and travel."""

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.data.index.windows import Targets
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError, UnsupportedValueError
from l5kit.rasterization import (
    BoxRasterizer,
    SatBoxRasterizer,
    SatelliteRasterizer,
    SemanticRasterizer,
    SemBoxRasterizer,
    StubRasterizer,
)
from l5kit.rasterization.draw_list import (
    CLOSED_LINE,
    FILLED,
    OPEN_LINE,
    BlankList,
    CropList,
    DrawList,
    PictureList,
    ShapeList,
    StackedList,
    touched_rows,
)
from l5kit.rasterization.painter import Painter, RecycledMemory
from l5kit.rasterization.planar_rasterizer import PlanarRasterizer
from l5kit.rasterization.satellite_image import AerialImage
from support.maps import WORLD_TO_ECEF
from support.painters import SlowPainter
from support.rasters import HISTORY_NUM_FRAMES, THRESHOLD, is_opencv_5, join_windows, make_context, make_window

WORLD_TO_AERIAL = np.array([[2.5, 0.3, 0, 800], [-0.3, 2.5, 0, 150], [0, 0, 0, 0], [0, 0, 0, 1.0]])
TEXTURE = np.random.default_rng(0).integers(0, 256, (600, 400, 3), np.uint8)
KINDS = ("box", "solid", "semantic", "satellite", "sem_box", "sat_box", "stub", "own map")
LIST_OF_KIND = {
    "box": ShapeList,
    "solid": ShapeList,
    "semantic": ShapeList,
    "satellite": CropList,
    "sem_box": StackedList,
    "sat_box": StackedList,
    "stub": BlankList,
    "own map": PictureList,
}


class OwnMap(SemanticRasterizer):
    """Overrides the drawing of the map, as users of 1.5 do."""

    def render_semantic_map(self, *arguments: Any) -> Any:
        return 255 - super().render_semantic_map(*arguments)


def make_rasterizer(kind: str, map_path: str, *, at_bottom: bool = True) -> PlanarRasterizer:
    context, boxes = make_context(at_bottom), (THRESHOLD, HISTORY_NUM_FRAMES)
    of_map, of_picture = (map_path, WORLD_TO_ECEF), (TEXTURE, WORLD_TO_AERIAL)
    padded: dict[str, Any] = {"out_of_bounds": "pad"}
    made: dict[str, PlanarRasterizer] = {
        "box": BoxRasterizer(context, *boxes),
        "solid": BoxRasterizer(context, *boxes, solid_boxes=True),
        "semantic": SemanticRasterizer(context, *of_map),
        "satellite": SatelliteRasterizer(context, *of_picture, **padded),
        "sem_box": SemBoxRasterizer(context, *boxes, *of_map),
        "sat_box": SatBoxRasterizer(context, *boxes, *of_picture, **padded),
        "stub": StubRasterizer(context),
        "own map": OwnMap(context, *of_map),
    }
    return made[kind]


def make_batch(track_id: int | None = 2) -> Any:
    frames = (15, 18, 20, 15 if track_id is None else 16)
    windows = [make_window(frame, track_id, with_lights=frame != 18) for frame in frames]
    if track_id is None:
        windows.append(make_window(0))
    return join_windows(windows, one_array=True)


def make_list(kind: str, map_path: str, track_id: int | None = 2, *, at_bottom: bool = True) -> DrawList:
    draw_list = make_rasterizer(kind, map_path, at_bottom=at_bottom).draw_list(*make_batch(track_id))
    assert type(draw_list) is LIST_OF_KIND[kind]
    return draw_list


def paint(painter: Any, draw_list: DrawList, dtype: Any = np.uint8) -> np.ndarray:
    images = np.full((len(draw_list), *draw_list.planes_shape), 77, dtype)
    painter.paint_batch(draw_list, images)
    return images


@pytest.mark.parametrize("track_id", [None, 2], ids=["AV", "agent"])
@pytest.mark.parametrize("at_bottom", [True, False], ids=["bottom", "top"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_painter_written_from_the_description_gives_the_same_bits(
    kind: str, at_bottom: bool, track_id: int | None, fixture_s_map: str
) -> None:
    if is_opencv_5() and kind in ("satellite", "sat_box"):
        pytest.skip("OpenCV 5 turns pictures by another method")
    draw_list = make_list(kind, fixture_s_map, track_id, at_bottom=at_bottom)
    for dtype in (np.uint8, np.float32):
        images = paint(Painter(), draw_list, dtype)
        assert_array_equal(images, paint(SlowPainter(), draw_list, dtype))
        assert kind == "stub" or len({image.tobytes() for image in images}) >= len(images) - 1 > 2


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_shapes_of_all_kinds_on_any_background(dtype: Any) -> None:
    """Two colours of two channels, in planes 1 and 2 of three, and rows that no shape touches."""
    rng = np.random.default_rng(4)
    height, width = 40, 56
    shapes, rows = [], np.zeros((30, 3, 2), np.int64)
    points = rng.uniform((-20, 12), (70, 28), (30 * 4 * 5, 2)) * 512
    for shape in range(120):
        kind = (FILLED, OPEN_LINE, CLOSED_LINE)[shape % 3]
        shapes.append((kind, shape, shape + 1 + (kind == FILLED and shape < 119), shape % 2, shape % 2))
    rows[:, :, 0], rows[:, :, 1] = 8, 33
    ends = 5 * np.arange(1, 121)
    for background in (0, 1, 255):
        draw_list = ShapeList(
            points=points.astype(np.int32),
            contours=np.stack([ends - 5, ends], axis=-1),
            shapes=np.array(shapes, np.int64),
            starts=np.arange(31) * 4,
            colors=np.array([(200, 3), (40, 255)], np.uint8),
            planes_shape=(3, height, width),
            background=background,
            rows=rows,
        )
        planes = np.empty((3, height, width), np.uint8)
        images = paint(Painter(), draw_list, dtype)
        for index, image in enumerate(images):
            paint_two_channels(draw_list, index, planes)
            assert_array_equal(image, planes if dtype == np.uint8 else planes / np.float32(255))
    assert draw_list.most_points == 10


def paint_two_channels(draw_list: ShapeList, index: int, planes: np.ndarray) -> None:
    """Paint plane by plane, as OpenCV knows anti-aliasing for one, three and four channels only."""
    for plane in range(3):
        numbers = range(*draw_list.starts[index : index + 2])
        drawn = [number for number in numbers if plane - draw_list.shapes[number, 4] in (0, 1)]
        shapes, colors = draw_list.shapes[drawn].copy(), []
        for row in shapes:
            colors.append([draw_list.colors[row[3], plane - row[4]]])
            row[3], row[4] = len(colors) - 1, 0
        single = dataclasses.replace(
            draw_list,
            shapes=shapes,
            starts=np.array([0, len(shapes)]),
            colors=np.array(colors, np.uint8).reshape(-1, 1),
            planes_shape=(1, *draw_list.planes_shape[1:]),
            rows=None,
        )
        SlowPainter().paint(single, 0, planes[plane : plane + 1])


def test_filled_shapes_follow_the_even_odd_rule_and_shapes_cover_one_another() -> None:
    squares = np.array([(2, 2), (12, 2), (12, 12), (2, 12), (6, 6), (16, 6), (16, 16), (6, 16)], np.int32) * 512
    contours = np.array([(0, 4), (4, 8)])
    common: dict[str, Any] = {"points": squares, "contours": contours, "starts": np.array([0, 1])}
    common |= {"colors": np.array([[9]], np.uint8), "planes_shape": (1, 20, 20), "background": 1}
    one = ShapeList(**common, shapes=np.array([(FILLED, 0, 2, 0, 0)]))
    two = ShapeList(
        **common | {"starts": np.array([0, 2])}, shapes=np.array([(FILLED, i, i + 1, 0, 0) for i in (0, 1)])
    )
    places = [(4, 4), (9, 9), (14, 14), (4, 14)]
    assert [[int(paint(Painter(), shapes)[0, 0][place]) for place in places] for shapes in (one, two)] == [
        [9, 1, 9, 1],
        [9, 9, 9, 1],
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_lists_hold_plain_data_and_paint_the_same_after_pickling(kind: str, fixture_s_map: str) -> None:
    draw_list = make_list(kind, fixture_s_map)
    for part in draw_list.parts if isinstance(draw_list, StackedList) else [draw_list]:
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            assert value is None or isinstance(value, np.ndarray | int | str | tuple | AerialImage), field.name
    copied = pickle.loads(pickle.dumps(draw_list))
    assert (len(copied), copied.planes_shape) == (len(draw_list), draw_list.planes_shape)
    assert_array_equal(paint(Painter(), copied), paint(Painter(), draw_list))


def test_an_aerial_picture_of_a_file_travels_as_its_path(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "aerial.png"), TEXTURE[..., ::-1])
    picture = AerialImage.from_file(str(tmp_path / "aerial.png"))
    rasterizer = SatelliteRasterizer(make_context(), picture, WORLD_TO_AERIAL, out_of_bounds="pad")
    draw_list = rasterizer.draw_list(*make_batch())
    content = pickle.dumps(draw_list)
    assert len(content) < 3000 < TEXTURE.nbytes
    assert_array_equal(paint(Painter(), pickle.loads(content)), paint(Painter(), draw_list))


@pytest.mark.parametrize("kind", KINDS)
def test_a_rasterizer_draws_by_the_painter_it_is_given(kind: str, fixture_s_map: str) -> None:
    class Inverting(Painter):
        def paint_batch(self, draw_list: DrawList, images: np.ndarray, /) -> None:
            super().paint_batch(draw_list, images)
            np.subtract(1, images, out=images)

    rasterizer, batch = make_rasterizer(kind, fixture_s_map), make_batch()
    plain = rasterizer.rasterize_windows(*batch)
    rasterizer.painter = Inverting()
    inverted = rasterizer.rasterize_windows(*batch)
    assert_array_equal(inverted, plain if kind == "stub" else 1 - plain)  # the stub has nothing painted


@pytest.mark.parametrize("kind", KINDS)
def test_no_window_is_an_empty_list(kind: str, fixture_s_map: str) -> None:
    windows, targets = make_batch(None)
    nobody = Targets(None, None, targets.centroids_m[:0], targets.yaws_rad[:0], targets.extents_m[:0])
    nothing = make_rasterizer(kind, fixture_s_map).draw_list(windows.taken(np.zeros(len(windows), np.bool_)), nobody)
    assert len(nothing) == len(touched_rows(nothing)) == len(paint(Painter(), nothing)) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_not_touched_are_black(kind: str, fixture_s_map: str) -> None:
    draw_list = make_list(kind, fixture_s_map)
    rows, images = touched_rows(draw_list), paint(Painter(), draw_list)
    assert rows.shape == (*images.shape[:2], 2)
    numbers = np.arange(images.shape[2])
    is_touched = (rows[..., :1] <= numbers) & (numbers < rows[..., 1:])
    assert not images[~is_touched].any()
    assert is_touched.mean() == {"stub": 0, "semantic": 1, "satellite": 1, "own map": 1}.get(kind, is_touched.mean())
    assert kind == "stub" or is_touched.any()


@pytest.mark.parametrize(
    ("name", "planes"),
    [
        ("rows", np.zeros((8, 111, 224), np.uint8)),
        ("planes", np.zeros((7, 112, 224), np.uint8)),
        ("type", np.zeros((8, 112, 224), np.int8)),
        ("order", np.zeros((8, 224, 112), np.uint8).transpose(0, 2, 1)),
    ],
)
def test_planes_that_do_not_fit_are_refused(name: str, planes: np.ndarray, fixture_s_map: str) -> None:
    draw_list = make_list("box", fixture_s_map)
    expected = r"needs a C-contiguous array of shape \(8, 112, 224\) and uint8"
    with pytest.raises(InvalidArgumentError, match=f"^planes has shape .* {expected}"):
        Painter().paint(draw_list, 0, planes)
    with pytest.raises(
        InvalidArgumentError, match=r"^images has shape .* shape \(4, 8, 112, 224\) and uint8 or float32"
    ):
        Painter().paint_batch(draw_list, np.stack([planes] * 4)[:, :, ::-1])


def make_shapes(**changes: Any) -> ShapeList:
    """Return two windows: a triangle, and a line in another colour."""
    fields: dict[str, Any] = {
        "points": np.array([(0, 0), (900, 0), (900, 900), (0, 0), (2000, 500)], np.int32),
        "contours": np.array([(0, 3), (3, 5)]),
        "shapes": np.array([(FILLED, 0, 1, 0, 0), (OPEN_LINE, 1, 2, 1, 2)]),
        "starts": np.array([0, 1, 2]),
        "colors": np.array([[7, 8], [9, 10]], np.uint8),
        "planes_shape": (4, 5, 6),
        "rows": np.array([[(0, 5)] * 4] * 2),
    }
    return ShapeList(**fields | changes)


def test_a_list_of_shapes_tells_its_size() -> None:
    shapes = make_shapes()
    assert (len(shapes), shapes.planes_shape, shapes.most_points) == (2, (4, 5, 6), 3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("points", np.zeros((5, 3), np.int32)),
        ("points", np.zeros((5, 2), np.int64)),
        ("points", np.zeros((10, 2), np.int32)[::2]),
        ("contours", np.array([0, 3, 5])),
        ("contours", np.array([(0, 3), (3, 6)])),
        ("contours", np.array([(0, 3), (5, 3)])),
        ("contours", np.array([(-1, 3), (3, 5)])),
        ("shapes", np.array([(FILLED, 0, 1, 0), (OPEN_LINE, 1, 2, 1)])),
        ("shapes", np.array([(3, 0, 1, 0, 0)] * 2)),
        ("shapes", np.array([(-1, 0, 1, 0, 0)] * 2)),
        ("shapes", np.array([(FILLED, 0, 3, 0, 0)] * 2)),
        ("shapes", np.array([(FILLED, -1, 1, 0, 0)] * 2)),
        ("shapes", np.array([(FILLED, 1, 0, 0, 0)] * 2)),
        ("shapes", np.array([(FILLED, 0, 1, 2, 0)] * 2)),
        ("shapes", np.array([(FILLED, 0, 1, -1, 0)] * 2)),
        ("shapes", np.array([(FILLED, 0, 1, 0, 3)] * 2)),
        ("shapes", np.array([(FILLED, 0, 1, 0, -1)] * 2)),
        ("shapes", np.array([(FILLED, 0, 1, 0, 0)] * 2, np.int32)),
        ("starts", np.empty(0, np.int64)),
        ("starts", np.array([0, 2, 1])),
        ("starts", np.array([0, 1, 3])),
        ("starts", np.array([-1, 1, 2])),
        ("colors", np.array([7, 8], np.uint8)),
        ("colors", np.array([[7, 8], [9, 10]])),
        ("background", 256),
        ("background", -1),
        ("rows", np.array([[(0, 5)] * 3] * 2)),
        ("rows", np.array([[(0, 6)] * 4] * 2)),
        ("rows", np.array([[(-1, 5)] * 4] * 2)),
        ("rows", np.array([[(0, 5)] * 4, [(0, 5), (0, 5), (3, 2), (0, 5)]])),
    ],
)
def test_shapes_that_would_draw_elsewhere_are_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"^ShapeList: .*{field.removesuffix('s')}"):
        make_shapes(**{field: value})


@pytest.mark.parametrize("field", ["points", "contours", "shapes", "starts", "colors", "rows"])
def test_what_was_checked_stays_as_it_was(field: str) -> None:
    """Numbers that are written later would be read by the painter as places in memory."""
    first = make_shapes()
    shapes = make_shapes(**{field: (given := getattr(first, field).copy())})
    expected = paint(Painter(), first)
    given.fill(77)
    assert_array_equal(paint(Painter(), shapes), expected)
    for checked in (shapes, pickle.loads(pickle.dumps(shapes)), dataclasses.replace(shapes, background=3)):
        with pytest.raises(ValueError, match="read-only"):
            getattr(checked, field).fill(77)


def test_arrays_that_somebody_vouches_for_are_not_copied() -> None:
    checked = make_shapes()
    points = checked.points.copy()
    vouched = make_shapes(points=points, known_most_points=3)
    assert vouched.points is points
    copied = pickle.loads(pickle.dumps(vouched))
    assert (copied.most_points, copied.points.flags.writeable) == (3, True)


@pytest.mark.parametrize(
    "changes",
    [
        {"planes_shape": (4, 5.5, 6)},
        {"planes_shape": (4, -5, 6)},
        {"planes_shape": (4, 5)},
        {"background": 1.5},
        {"background": float("nan")},
        {"points": [(0, 0)]},
    ],
    ids=str,
)
def test_sizes_and_backgrounds_that_are_no_whole_numbers_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^ShapeList: .*{next(iter(changes))}"):
        make_shapes(**{"rows": None} | changes)


def test_sizes_are_kept_as_plain_numbers() -> None:
    sizes = [np.int64(4), np.int32(5), 6]
    shapes = make_shapes(planes_shape=sizes)
    sizes[1] = 10**6
    assert shapes.planes_shape == (4, 5, 6)


def test_parts_of_a_stacked_list_cannot_be_changed() -> None:
    parts: list[DrawList] = [BlankList(2, (3, 5, 6))]
    stacked = StackedList(parts)
    parts[0] = BlankList(2, (8, 500, 600))
    assert not paint(Painter(), stacked).any()


@pytest.mark.parametrize("index", [-1, 2, 10**12])
@pytest.mark.parametrize("kind", ["shapes", "crops", "pictures", "blank", "stacked"])
def test_a_window_that_is_not_there_is_not_painted(kind: str, index: int) -> None:
    draw_list: DrawList = {
        "shapes": make_shapes(),
        "crops": make_crops(),
        "pictures": PictureList(np.zeros((2, 3, 4, 5), np.uint8)),
        "blank": BlankList(2, (3, 4, 5)),
        "stacked": StackedList((make_shapes(), make_shapes())),
    }[kind]
    with pytest.raises(IndexOutOfRangeError, match=f"^index {index} is out of range for a draw list of 2 windows"):
        Painter().paint(draw_list, index, np.empty(draw_list.planes_shape, np.uint8))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_pictures_that_cannot_be_written_are_refused(dtype: Any) -> None:
    images = np.zeros((2, 4, 5, 6), dtype)
    images.setflags(write=False)
    with pytest.raises(InvalidArgumentError, match=r"^images has shape .*, read-only; .* that can be written"):
        Painter().paint_batch(make_shapes(), images)


def test_the_place_of_a_fault_is_named() -> None:
    rows = np.array([[(0, 5)] * 4, [(0, 5), (0, 5), (3, 2), (0, 5)]])
    with pytest.raises(InvalidArgumentError, match="rows of plane 2 of window 1 must ascend"):
        make_shapes(rows=rows)
    with pytest.raises(InvalidArgumentError, match=r"got points int32 .*, starts int32"):
        make_shapes(starts=np.array([0, 1, 2], np.int32))
    with pytest.raises(InvalidArgumentError, match=r"shape 1, \[1, 1, 3, 1, 2\], must be of kind 0, 1 or 2"):
        make_shapes(shapes=np.array([(FILLED, 0, 1, 0, 0), (OPEN_LINE, 1, 3, 1, 2)]))


@pytest.mark.parametrize(("first", "end", "is_enough"), [(7, 24, True), (6, 25, True), (8, 24, False), (7, 23, False)])
def test_rows_hold_the_shapes_and_three_rows_around(first: int, end: int, is_enough: bool) -> None:
    """Points in rows 10 to 20 touch rows 8 to 22 at most."""
    points = np.array([(2, 10), (30, 12), (9, 20)], np.int32) * 512
    fields: dict[str, Any] = {
        "points": points,
        "contours": np.array([(0, 3)]),
        "shapes": np.array([(FILLED, 0, 1, 0, 1)]),
        "starts": np.array([0, 1]),
        "colors": np.array([[255]], np.uint8),
        "planes_shape": (2, 40, 40),
        "rows": np.array([[(0, 0), (first, end)]]),
    }
    if not is_enough:
        with pytest.raises(InvalidArgumentError, match=r"rows of plane 1 of window 0 must .* its shapes and 3 rows"):
            ShapeList(**fields)
        return
    drawn = np.flatnonzero(paint(Painter(), ShapeList(**fields))[0, 1].any(axis=1))
    assert 8 <= drawn[0] < 10 < 20 < drawn[-1] <= 22
    ShapeList(**fields | {"points": points + np.int32(60 * 512)})  # outside of the picture, which needs no rows


def spoil(memory: RecycledMemory) -> None:
    with memory.black((3, 4)) as planes:
        planes.fill(7)
        raise KeyError


def test_black_memory_is_lent_again_only_when_it_was_left_black() -> None:
    memory = RecycledMemory()
    with memory.black((2, 30)) as first, memory.black((2, 30)) as other:
        assert not np.shares_memory(first, other)
        lent = [first.ctypes.data, other.ctypes.data]
    with memory.black((60, 1)) as again:
        assert again.ctypes.data in lent
        assert not again.any()
    with pytest.raises(KeyError):
        spoil(memory)
    with memory.black((3, 4)) as fresh:
        assert not fresh.any()


@pytest.mark.parametrize(
    ("sizes", "lent"), [((60, 40), [60, 40]), ((60, 41), [41]), ((60, 41, 59), [41, 59]), ((200,), [200])]
)
def test_little_black_memory_is_kept_but_the_last_piece_always(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...], lent: list[int]
) -> None:
    monkeypatch.setattr("l5kit.rasterization.painter._MAX_BLACK_BYTES", 100)
    memory, blocks = RecycledMemory(), [np.zeros(size, np.uint8) for size in sizes]
    for block in blocks:
        memory.keep_black(block)
    assert [block.nbytes for block in blocks if memory.take_black(block.nbytes) is block] == lent


def make_crops(**changes: Any) -> CropList:
    fields: dict[str, Any] = {
        "picture": AerialImage(TEXTURE),
        "centers": np.full((2, 2), 200.0),
        "angles_rad": np.zeros(2),
        "num_aerial_pixels": (20, 20),
        "planes_shape": (3, 9, 10),
        "interpolation": cv2.INTER_LINEAR,
        "out_of_bounds": "error",
        "upside_down": False,
    }
    return CropList(**fields | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"centers": np.zeros((2, 3))},
        {"angles_rad": np.zeros(3)},
        {"num_aerial_pixels": (0, 20)},
        {"planes_shape": (4, 9, 10)},
    ],
    ids=str,
)
def test_crops_that_cannot_be_painted_are_refused(changes: dict[str, Any]) -> None:
    assert len(make_crops()) == 2
    with pytest.raises(InvalidArgumentError, match=f"^CropList: .*{next(iter(changes))}"):
        make_crops(**changes)
    with pytest.raises(UnsupportedValueError, match="wrap"):
        make_crops(out_of_bounds="wrap")


def test_a_crop_beyond_the_picture_is_an_index_error_unless_it_is_padded() -> None:
    away = np.array([(200.0, 200.0), (590.0, 200.0)])
    with pytest.raises(IndexError, match="satellite_out_of_bounds: pad"):
        paint(Painter(), make_crops(centers=away))
    assert paint(Painter(), make_crops(centers=away, out_of_bounds="pad"))[1].any()


def test_stacked_lists_must_be_of_the_same_windows_and_size() -> None:
    crops = make_crops()
    assert StackedList((BlankList(2, (4, 9, 10)), crops)).planes_shape == (7, 9, 10)
    for other in (BlankList(3, (4, 9, 10)), BlankList(2, (4, 8, 10)), BlankList(2, (4, 9, 11))):
        with pytest.raises(InvalidArgumentError, match=r"^StackedList: parts must have the same .*\(2, 9, 10\)"):
            StackedList((crops, other))
    with pytest.raises(InvalidArgumentError, match=r"got \[\]"):
        StackedList(())


@pytest.mark.parametrize("pictures", [np.zeros((2, 3, 4), np.uint8), np.zeros((2, 3, 4, 5), np.float32)])
def test_pictures_must_be_bytes_of_four_axes(pictures: np.ndarray) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^PictureList: pictures must be uint8 \(B, channels"):
        PictureList(pictures)  # type: ignore[arg-type]
