"""Drawings of vector samples."""

from collections.abc import Iterable, Mapping
from typing import Final
from xml.etree import ElementTree

import numpy as np

from l5kit._types import NumericArray
from l5kit.geometry.box import compute_box_corners

_HALF_SIDE_M: Final = 40.0
_SIDE_PX: Final = 448
_GROUND: Final = "#ffffff"
_BORDER: Final = "#c9ced6"
_CROSSWALK: Final = "#f3e9b5"
_LANE_TONES: Final = {1: "#2e9e4f", 2: "#d9a400", 3: "#d93a2b"}
"""Colours by traffic light state; lanes with an unknown state or no light are grey."""
_LANE: Final = "#7b8492"
_AGENT: Final = "#1f77b4"
_TARGET: Final = "#b53331"
_PAST: Final = "#ff8c00"
_FUTURE: Final = "#d100d1"
_PREDICTED: Final = "#00a9b5"


def draw_vector_sample(sample: Mapping[str, NumericArray], *, predicted_m: NumericArray | None = None) -> bytes:
    """Return a vector sample as an SVG of 80 m x 80 m around the target, which faces right.

    Lane midlines have the colour of their light, boundaries are light grey, crosswalks are yellow areas. Other agents
    are blue boxes with a line for their past, the target is a red box; its past is orange, its future magenta.

    Args:
        sample: A sample of a vector dataset; only available elements are drawn.
        predicted_m: Positions (..., 2) in the frame of the target, metres, drawn as cyan dots above all others.

    Returns:
        UTF-8 text of the drawing.
    """
    side = 2 * _HALF_SIDE_M
    box = f"{-_HALF_SIDE_M} {-_HALF_SIDE_M} {side} {side}"
    size = str(_SIDE_PX)
    svg = ElementTree.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=box, width=size, height=size)
    corner = str(-_HALF_SIDE_M)
    ElementTree.SubElement(svg, "rect", x=corner, y=corner, width=str(side), height=str(side), fill=_GROUND)
    # from bottom to top: the map, other agents with their past, the target, its path
    for crosswalk in _known_lines(sample["crosswalks"], sample["crosswalks_availabilities"]):
        ElementTree.SubElement(svg, "polygon", {"points": _points(crosswalk), "class": "crosswalk", "fill": _CROSSWALK})
    for boundary in _known_lines(sample["lanes"], sample["lanes_availabilities"]):
        _draw_line(svg, boundary, "boundary", _BORDER, width_m=0.2)
    for midline in _known_lines(sample["lanes_mid"], sample["lanes_mid_availabilities"]):
        _draw_line(svg, midline, "lane", _LANE_TONES.get(round(float(midline[0, 2])), _LANE), width_m=0.35)
    polylines, known = sample["other_agents_polyline"], sample["other_agents_polyline_availability"]
    extents_m = sample["all_other_agents_history_extents"]
    for polyline, is_known, extent_m in zip(polylines, np.asarray(known, np.bool_), extents_m, strict=True):
        if is_known[0]:
            _draw_line(svg, polyline[is_known], "past", _AGENT, width_m=0.35)
            _draw_box(svg, polyline[0], extent_m[0], "agent", _AGENT)
    _draw_box(svg, np.zeros(3), np.asarray(sample["extent"]), "target", _TARGET)
    _draw_dots(svg, _known(sample, "history_positions", "history_availabilities"), _PAST)
    _draw_dots(svg, _known(sample, "target_positions", "target_availabilities"), _FUTURE)
    if predicted_m is not None:
        _draw_dots(svg, np.asarray(predicted_m, np.float64).reshape(-1, 2), _PREDICTED)
    return ElementTree.tostring(svg, encoding="unicode").encode("utf-8")


def _draw_box(svg: ElementTree.Element, pose: NumericArray, extent_m: NumericArray, kind: str, tone: str) -> None:
    corners = compute_box_corners(np.asarray(pose[:2], np.float64), float(pose[2]), np.asarray(extent_m, np.float64))
    ElementTree.SubElement(
        svg, "polygon", {"points": _points(corners), "class": kind, "fill": tone, "fill-opacity": "0.75"}
    )


def _draw_line(svg: ElementTree.Element, line: NumericArray, kind: str, tone: str, *, width_m: float) -> None:
    ElementTree.SubElement(
        svg,
        "polyline",
        {"points": _points(line), "class": kind, "fill": "none", "stroke": tone, "stroke-width": str(width_m)},
    )


def _draw_dots(svg: ElementTree.Element, positions_m: NumericArray, tone: str) -> None:
    for x, y in _finite(positions_m).tolist():
        ElementTree.SubElement(svg, "circle", cx=f"{x:.2f}", cy=f"{-y:.2f}", r="0.45", fill=tone)


def _known_lines(lines: NumericArray, availabilities: NumericArray) -> Iterable[NumericArray]:
    for line, is_known in zip(lines, np.asarray(availabilities) > 0, strict=True):
        if is_known.any():
            yield line[is_known]


def _known(sample: Mapping[str, NumericArray], positions: str, availabilities: str) -> NumericArray:
    known: NumericArray = np.asarray(sample[positions])[np.asarray(sample[availabilities]) > 0]
    return known


def _points(line: NumericArray) -> str:
    """Return points (N, 2 or more) in SVG syntax, whose y axis points down."""
    return " ".join(f"{x:.2f},{-y:.2f}" for x, y in _finite(line[:, :2]).tolist())


def _finite(positions_m: NumericArray) -> NumericArray:
    finite: NumericArray = positions_m[np.isfinite(positions_m).all(axis=1)]
    return finite
