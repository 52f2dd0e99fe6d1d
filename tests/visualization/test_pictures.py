"""Boxes, labels, text and contact sheets."""

import numpy as np
import pytest

from l5kit.errors import InvalidArgumentError
from l5kit.visualization import contact_sheet, draw_box_labels, draw_box_outlines
from l5kit.visualization.text import draw_text, fitted_text, text_size_px

COLOR = (10, 200, 30)
BOX = np.array([[[10.0, 5], [30, 5], [30, 15], [10, 15]]])


def gray(height=40, width=60, value=100):
    return np.full((height, width, 3), value, dtype=np.uint8)


def test_box_outline_is_at_its_corners_and_not_inside():
    image = gray()
    drawn = draw_box_outlines(image, BOX, rgb_color=COLOR)
    for column, row in ((10, 5), (30, 5), (30, 15), (10, 15), (20, 5), (30, 10)):
        np.testing.assert_allclose(drawn[row, column].astype(int), COLOR, atol=25)
    assert drawn[10, 20].tolist() == [100, 100, 100]
    assert (image == 100).all()


@pytest.mark.parametrize("corners", [np.zeros((0, 4, 2)), BOX + 1e12], ids=["no box", "far outside"])
def test_nothing_to_outline_changes_nothing(corners):
    np.testing.assert_array_equal(draw_box_outlines(gray(), corners, rgb_color=COLOR), gray())


def test_labels_stand_over_their_boxes_and_inside_the_picture():
    boxes = np.concatenate([BOX + np.array([40, 30]), BOX + np.array([0, 60])])
    drawn = draw_box_labels(gray(100, 150), boxes, texts=["car 7", "ped"])
    rows, columns = np.nonzero((drawn != 100).any(axis=2))
    assert (drawn == 255).all(axis=2).any()
    for box in boxes:
        over = (rows < box[:, 1].min()) & (rows > box[:, 1].min() - 20)
        over &= (columns > box[:, 0].min() - 20) & (columns < box[:, 0].max() + 20)
        assert over.any()
    assert (rows < boxes[..., 1].max()).all()


def test_a_label_at_the_edge_is_moved_into_the_picture():
    at_corner = draw_box_labels(gray(), BOX - np.array([18, 9]), texts=["car"])
    inside = draw_box_labels(gray(), BOX, texts=["car"])
    assert (at_corner == 255).sum() == (inside == 255).sum() > 0


def test_a_box_outside_gets_no_label():
    np.testing.assert_array_equal(draw_box_labels(gray(), BOX + 500, texts=["car"]), gray())


@pytest.mark.parametrize(
    ("corners", "texts"),
    [
        pytest.param(BOX, [], id="no text"),
        pytest.param(BOX[:, :3], ["a"], id="three corners"),
        pytest.param(BOX * np.nan, ["a"], id="not finite"),
    ],
)
def test_bad_boxes_are_refused(corners, texts):
    with pytest.raises(InvalidArgumentError):
        draw_box_labels(gray(), corners, texts=texts)


def test_text_fits_what_it_says():
    width, height = text_size_px("agents", size_px=15)
    drawn = draw_text(gray(60, 200), ["agents"], np.array([[20, 10]]), rgb_color=(0, 0, 0), size_px=15)
    rows, columns = np.nonzero((drawn != 100).any(axis=2))
    assert 20 <= columns.min() <= columns.max() <= 20 + width
    assert 10 <= rows.min() <= rows.max() <= 10 + height


def test_letters_that_the_typeface_lacks_become_question_marks():
    place = np.array([[5, 5]])
    np.testing.assert_array_equal(
        draw_text(gray(), ["größe"], place, rgb_color=(0, 0, 0)),
        draw_text(gray(), ["gr??e"], place, rgb_color=(0, 0, 0)),
    )


def test_long_text_ends_in_an_ellipsis():
    text = "a title that is far too long"
    short = fitted_text(text, width_px=90, size_px=15)
    assert short.endswith("...")
    assert text.startswith(short[:-3])
    assert text_size_px(short, size_px=15)[0] <= 90
    assert fitted_text(text, width_px=900, size_px=15) == text
    assert fitted_text(text, width_px=2, size_px=15) == ""


def found(sheet, picture):
    """Upper left corner (row, column) of the picture on the sheet."""
    height, width = picture.shape[:2]
    windows = np.lib.stride_tricks.sliding_window_view(sheet, (height, width, 3))[:, :, 0]
    places = np.argwhere((windows == picture).all(axis=(2, 3, 4)))
    assert len(places) == 1
    return tuple(places[0].tolist())


def test_contact_sheet_shows_every_picture_whole_in_reading_order():
    rng = np.random.default_rng(3)
    shapes = [(20, 30), (12, 30), (20, 16), (20, 30), (8, 8)]
    pictures = [rng.integers(0, 256, (*shape, 3), dtype=np.uint8) for shape in shapes]
    sheet = contact_sheet(pictures, titles=["a", "b", "c", "d", "e"], columns=3)
    places = [found(sheet, picture) for picture in pictures]
    middles = np.array(places) + np.array(shapes) / 2
    np.testing.assert_array_equal(middles[:3, 0], middles[0, 0])
    np.testing.assert_array_equal(middles[3:, 1], middles[:2, 1])
    assert (np.diff(middles[:3, 1]) == np.diff(middles[:3, 1])[0]).all()
    assert middles[3, 0] > middles[0, 0] + 20


def test_contact_sheet_has_its_titles_above_the_pictures():
    with_title = contact_sheet([gray()], titles=["ego"], columns=1)
    without = contact_sheet([gray()], titles=[""], columns=1)
    rows, _ = np.nonzero((with_title != without).any(axis=2))
    top, _ = found(with_title, gray())
    assert 0 < rows.min() <= rows.max() < top


def test_contact_sheet_is_no_wider_than_its_pictures():
    narrow = contact_sheet([gray(), gray()], titles=["a", "b"], columns=2)
    np.testing.assert_array_equal(contact_sheet([gray(), gray()], titles=["a", "b"], columns=9), narrow)


@pytest.mark.parametrize(
    ("images", "titles", "columns"),
    [
        pytest.param([], [], 2, id="no picture"),
        pytest.param([gray()], [], 2, id="no title"),
        pytest.param([gray()], ["a"], 0, id="no column"),
        pytest.param([gray().astype(float)], ["a"], 1, id="floats"),
    ],
)
def test_bad_sheets_are_refused(images, titles, columns):
    with pytest.raises(InvalidArgumentError):
        contact_sheet(images, titles=titles, columns=columns)
