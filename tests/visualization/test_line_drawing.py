"""Drawings: the same shapes in an SVG and in pixels."""

from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from l5kit.errors import InvalidArgumentError
from l5kit.visualization.line_drawing import Area, Dot, Drawing, Line, Word

SVG = "{http://www.w3.org/2000/svg}"
RED, BLUE = (0xC8, 0x14, 0x14), (0x14, 0x14, 0xC8)


def drawing_of(*shapes):
    return Drawing(40, 30, shapes, "a < b")


def test_an_area_has_its_pixels_twice_as_large():
    image = drawing_of(Area(10, 5, 20, 10, "#c81414")).image()
    assert image.shape == (60, 80, 3)
    expected = np.full((60, 80), False)
    expected[10:30, 20:60] = True
    assert_array_equal((image == RED).all(axis=-1), expected)
    assert (image[~expected] == 255).all()


def test_an_area_beyond_the_border_is_cut():
    image = drawing_of(Area(-5, -5, 10, 10, "#c81414"), Area(35, 25, 10, 10, "#1414c8")).image()
    assert (image[:10, :10] == RED).all()
    assert (image[50:, 70:] == BLUE).all()


def test_later_shapes_are_over_earlier_ones():
    image = drawing_of(
        Area(0, 0, 40, 30, "#c81414"), Line(0, 15, 40, 15, "#1414c8", 4), Dot(20, 5, 3, "#1414c8")
    ).image()
    assert (image[30, 40] == BLUE).all()
    assert (image[10, 40] == BLUE).all()
    assert (image[50, 40] == RED).all()


@pytest.mark.parametrize(("anchor", "columns"), [("start", (40, 80)), ("end", (0, 41)), ("middle", (20, 60))])
def test_words_stand_where_their_anchor_says(anchor, columns):
    image = drawing_of(Word(20, 15, "ABC", "#000000", 10, anchor)).image()
    inked = np.flatnonzero((image < 128).any(axis=(0, 2)))
    assert columns[0] <= inked[0] <= inked[-1] < columns[1]
    rows = np.flatnonzero((image < 128).any(axis=(1, 2)))
    assert abs((rows[0] + rows[-1]) / 2 - 30) < 4, "centred at its height"


def test_svg_has_the_same_shapes_and_escapes_texts():
    drawing = drawing_of(Area(1, 2, 3, 4, "#c81414"), Dot(5, 6, 7, "#1414c8"), Word(8, 9, "<&>", "#000000"))
    root = ElementTree.fromstring(drawing.svg())
    assert (root.get("viewBox"), root.findtext(f"{SVG}title")) == ("0 0 40 30", "a < b")
    area = root.findall(f"{SVG}rect")[1]
    assert [area.get(name) for name in ("x", "y", "width", "height", "fill")] == ["1.0", "2.0", "3.0", "4.0", "#c81414"]
    assert root.find(f"{SVG}circle").get("r") == "7"
    assert root.findtext(f"{SVG}text") == "<&>"


def test_files_are_those_of_their_endings(tmp_path):
    drawing = drawing_of(Dot(5, 5, 2, "#c81414"))
    drawing.save(tmp_path / "a.svg")
    drawing.save(tmp_path / "a.PNG")
    assert (tmp_path / "a.svg").read_text("utf-8") == drawing.svg()
    with Image.open(tmp_path / "a.PNG") as picture:
        assert_array_equal(np.asarray(picture), drawing.image())
    with pytest.raises(InvalidArgumentError, match=r"allowed endings are \.png and \.svg"):
        drawing.save(tmp_path / "a.jpg")
