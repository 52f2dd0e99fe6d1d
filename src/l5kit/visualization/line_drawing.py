"""Drawings of lines, dots, areas and words, as lists of shapes that are written as SVG or pictures."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias
from xml.etree import ElementTree

import cv2
import numpy as np

from l5kit._files import replaced_when_complete
from l5kit._types import UInt8Array
from l5kit.errors import InvalidArgumentError
from l5kit.visualization.images import write_png
from l5kit.visualization.text import draw_text, text_size_px

_FONT: Final = 'system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif'
_SCALE: Final = 2
"""Pixels of a picture per pixel of the drawing, for sharp prints and high-resolution screens."""

_SHIFT: Final = 4
"""Fractional bits of the positions for OpenCV."""


@dataclass(frozen=True)
class Area:
    """A rectangle: left upper corner, width and height in pixels, and a colour such as ``#1f77b4``."""

    x: float
    y: float
    width: float
    height: float
    color: str

    def add_to(self, root: ElementTree.Element) -> None:
        """Add it to an SVG."""
        size = {"width": f"{self.width:.1f}", "height": f"{self.height:.1f}"}
        ElementTree.SubElement(root, "rect", {"x": f"{self.x:.1f}", "y": f"{self.y:.1f}", **size, "fill": self.color})

    def paint(self, image: UInt8Array) -> None:
        """Draw it into a picture."""
        columns = slice(max(round(_SCALE * self.x), 0), max(round(_SCALE * (self.x + self.width)), 0))
        rows = slice(max(round(_SCALE * self.y), 0), max(round(_SCALE * (self.y + self.height)), 0))
        image[rows, columns] = _rgb(self.color)


@dataclass(frozen=True)
class Line:
    """A straight line between two points in pixels."""

    x: float
    y: float
    to_x: float
    to_y: float
    color: str
    width: float = 1.0

    def add_to(self, root: ElementTree.Element) -> None:
        """Add it to an SVG."""
        ends = {"x1": self.x, "y1": self.y, "x2": self.to_x, "y2": self.to_y}
        pen = {"stroke": self.color, "stroke-width": f"{self.width:g}"}
        ElementTree.SubElement(root, "line", {name: f"{value:.1f}" for name, value in ends.items()} | pen)

    def paint(self, image: UInt8Array) -> None:
        """Draw it into a picture."""
        ends = (_fixed(self.x), _fixed(self.y)), (_fixed(self.to_x), _fixed(self.to_y))
        cv2.line(image, *ends, _rgb(self.color), max(1, round(_SCALE * self.width)), cv2.LINE_AA, _SHIFT)


@dataclass(frozen=True)
class Dot:
    """A filled circle."""

    x: float
    y: float
    radius: float
    color: str

    def add_to(self, root: ElementTree.Element) -> None:
        """Add it to an SVG."""
        attributes = {"cx": f"{self.x:.1f}", "cy": f"{self.y:.1f}", "r": f"{self.radius:g}"}
        ElementTree.SubElement(root, "circle", {**attributes, "fill": self.color})

    def paint(self, image: UInt8Array) -> None:
        """Draw it into a picture."""
        center, radius = (_fixed(self.x), _fixed(self.y)), _fixed(self.radius)
        cv2.circle(image, center, radius, _rgb(self.color), cv2.FILLED, cv2.LINE_AA, _SHIFT)


@dataclass(frozen=True)
class Word:
    """A line of text; its height is centred at ``y``, and ``x`` is its start, middle or end."""

    x: float
    y: float
    text: str
    color: str
    size: int = 13
    anchor: Literal["start", "middle", "end"] = "start"

    @property
    def corner_px(self) -> tuple[float, float]:
        """Left upper corner in the picture."""
        width, height = text_size_px(self.text, size_px=_SCALE * self.size)
        back = {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor]
        return _SCALE * self.x - back * width, _SCALE * self.y - 0.56 * height

    def add_to(self, root: ElementTree.Element) -> None:
        """Add it to an SVG."""
        attributes = {"x": f"{self.x:.1f}", "y": f"{self.y:.1f}", "font-size": str(self.size)}
        look = {"fill": self.color, "text-anchor": self.anchor, "dominant-baseline": "central"}
        ElementTree.SubElement(root, "text", {**attributes, **look}).text = self.text


Shape: TypeAlias = Area | Line | Dot | Word


@dataclass(frozen=True)
class Drawing:
    """Shapes on a white ground, later ones above earlier ones; notebooks display it.

    Attributes:
        width: Width in pixels.
        height: Height in pixels.
        shapes: The shapes.
        title: Description for screen readers.
    """

    width: int
    height: int
    shapes: tuple[Shape, ...] = field(repr=False)
    title: str = ""

    def svg(self) -> str:
        """Return the drawing as the text of an SVG file."""
        size = {"width": str(self.width), "height": str(self.height), "viewBox": f"0 0 {self.width} {self.height}"}
        root = ElementTree.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size, "font-family": _FONT})
        ElementTree.SubElement(root, "title").text = self.title
        ElementTree.SubElement(root, "desc").text = "Written by l5kit"
        ElementTree.SubElement(root, "rect", width="100%", height="100%", fill="#ffffff")
        for shape in self.shapes:
            shape.add_to(root)
        return ElementTree.tostring(root, encoding="unicode")

    def image(self) -> UInt8Array:
        """Return the drawing as a picture with twice the pixels per side, RGB, uint8 (H, W, 3)."""
        image = np.full((_SCALE * self.height, _SCALE * self.width, 3), 255, np.uint8)
        for shape in self.shapes:
            if not isinstance(shape, Word):
                shape.paint(image)
        # words of one colour and size are drawn together, above all other shapes
        kinds = dict.fromkeys((each.color, each.size) for each in self._words())
        for color, size in kinds:
            words = [each for each in self._words() if (each.color, each.size) == (color, size)]
            corners = [word.corner_px for word in words]
            texts = [word.text for word in words]
            image = draw_text(image, texts, np.array(corners), rgb_color=_rgb(color), size_px=_SCALE * size)
        return image

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the drawing as a ``.png`` or ``.svg`` file, replacing an older one.

        Raises:
            InvalidArgumentError: The file has another extension.
            FileNotFoundError: The folder of the file does not exist.
        """
        ending = Path(path).suffix.lower()
        if ending == ".png":
            write_png(path, self.image())
        elif ending == ".svg":
            with replaced_when_complete(path, argument="path") as temporary:
                temporary.write_text(self.svg(), encoding="utf-8")
        else:
            raise InvalidArgumentError(f"path is {os.fspath(path)!r}; allowed endings are .png and .svg")

    def _words(self) -> Iterable[Word]:
        return (shape for shape in self.shapes if isinstance(shape, Word))

    def _repr_svg_(self) -> str:
        return self.svg()


def _fixed(value: float) -> int:
    """Return a coordinate in the fixed-point format of OpenCV."""
    return round(_SCALE * value * 2**_SHIFT)


def _rgb(color: str) -> tuple[int, int, int]:
    """Return red, green and blue of a colour such as ``#1f77b4``."""
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)
