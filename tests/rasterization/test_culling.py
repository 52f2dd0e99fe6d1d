import pytest

from l5kit.rasterization.subpixel import CULLING_MARGIN_PX, touches_picture

INSIDE = (2.0, 3.0), (4.0, 5.0)


@pytest.mark.parametrize("axis", [0, 1], ids=["columns", "rows"])
@pytest.mark.parametrize(
    ("low_px", "high_px", "expected"),
    [
        (-9.0, -CULLING_MARGIN_PX, False),
        (-9.0, -CULLING_MARGIN_PX + 0.01, True),
        (-9.0, 99.0, True),
        (1.0, 2.0, True),
    ],
)
def test_boxes_beyond_the_margin_before_the_picture_do_not_touch_it(
    axis: int, low_px: float, high_px: float, expected: bool
) -> None:
    low, high = list(INSIDE[0]), list(INSIDE[1])
    low[axis], high[axis] = low_px, high_px
    assert touches_picture(*low, *high, (8, 6)) is expected


@pytest.mark.parametrize(("axis", "size"), [(0, 8), (1, 6)], ids=["columns", "rows"])
def test_boxes_beyond_the_margin_behind_the_picture_do_not_touch_it(axis: int, size: int) -> None:
    for distance, expected in ((CULLING_MARGIN_PX, False), (CULLING_MARGIN_PX - 0.01, True)):
        low, high = list(INSIDE[0]), list(INSIDE[1])
        low[axis], high[axis] = size + distance, size + 9.0
        assert touches_picture(*low, *high, (8, 6)) is expected
