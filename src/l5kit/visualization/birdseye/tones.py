"""Colours of scenes from above, in a light and a dark theme; ``palette.js`` of the viewer page has the same ones.

Colours that must not be confused also differ for people without red or green cones: by at least 12 in CIELAB, and the
AV from any class by 20.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

import numpy as np

from l5kit._types import UInt8Array
from l5kit.configs.texts import did_you_mean
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.data.map.lane_lights import LIGHT_COLORS
from l5kit.errors import UnsupportedValueError

Rgb: TypeAlias = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""

Theme: TypeAlias = Literal["light", "dark"]
"""Colour theme of a picture."""

Style: TypeAlias = Literal["viewer", "channels"]
"""Look of pictures: that of the viewer page, or the colours of raster channels."""

STYLES: Final[tuple[Style, ...]] = get_args(Style)
THEMES: Final[tuple[Theme, ...]] = get_args(Theme)


def _rgb(digits: str) -> Rgb:
    red, green, blue = bytes.fromhex(digits)
    return red, green, blue


@dataclass(frozen=True)
class Tones:
    """Colours of a theme.

    Attributes:
        ground: Background.
        lane: Surface of lanes.
        border: Edges of lanes.
        lane_over_aerial: Opacity of lanes over an aerial picture.
        crosswalk: Stripes of crosswalks.
        crosswalk_ground: Ground between the stripes.
        light_tint: Opacity of the colour of a light over its lanes.
        past: Past paths of road users.
        ghost: Outlines of logged boxes in a simulation.
        plan: Plan of a planner.
        box_edge: Factor for the edges of boxes, see :func:`shade`.
        mark: Heading marks.
        label: Letters.
        halo: Outlines of letters.
    """

    ground: Rgb
    lane: Rgb
    border: Rgb
    lane_over_aerial: float
    crosswalk: Rgb
    crosswalk_ground: Rgb
    light_tint: float
    past: Rgb
    ghost: Rgb
    plan: Rgb
    box_edge: float
    mark: Rgb
    label: Rgb
    halo: Rgb


_TONES: Final[dict[Theme, Tones]] = {
    "light": Tones(
        ground=_rgb("f1f3f4"),
        lane=_rgb("d6dce4"),
        border=_rgb("a6b0bc"),
        lane_over_aerial=0.25,
        crosswalk=_rgb("ffffff"),
        crosswalk_ground=_rgb("c9d1da"),
        light_tint=0.5,
        past=_rgb("66758a"),
        ghost=_rgb("3b4856"),
        plan=_rgb("00838f"),
        box_edge=0.62,
        mark=_rgb("ffffff"),
        label=_rgb("1f2933"),
        halo=_rgb("ffffff"),
    ),
    "dark": Tones(
        ground=_rgb("12161b"),
        lane=_rgb("2a333d"),
        border=_rgb("4e5a67"),
        lane_over_aerial=0.35,
        crosswalk=_rgb("64707e"),
        crosswalk_ground=_rgb("2d3640"),
        light_tint=0.5,
        past=_rgb("8d9cb0"),
        ghost=_rgb("93a0b0"),
        plan=_rgb("8ff5ff"),
        box_edge=1.35,
        mark=_rgb("ffffff"),
        label=_rgb("e7ebf0"),
        halo=_rgb("12161b"),
    ),
}

EGO_RGB: Final = _rgb("d8392f")
"""Box and trajectory of the AV."""

_LIGHTS = {"GREEN": "00a88f", "YELLOW": "f2c230", "RED": "e02d3c"}
LIGHT_RGB: Final[tuple[Rgb, ...]] = tuple(_rgb(_LIGHTS[name]) for name in LIGHT_COLORS)
"""Tints of lanes by the colour of their light, in the order of ``LIGHT_COLORS``."""

_CLASSES = {
    "PERCEPTION_LABEL_DONTCARE": "a3a9b1",
    "PERCEPTION_LABEL_CAR": "1f77b4",
    "PERCEPTION_LABEL_VAN": "2a9da8",
    "PERCEPTION_LABEL_TRAM": "6f63b8",
    "PERCEPTION_LABEL_BUS": "3fa97a",
    "PERCEPTION_LABEL_TRUCK": "3a5a86",
    "PERCEPTION_LABEL_EMERGENCY_VEHICLE": "f0a830",
    "PERCEPTION_LABEL_OTHER_VEHICLE": "5f7f9e",
    "PERCEPTION_LABEL_BICYCLE": "9a6bd0",
    "PERCEPTION_LABEL_MOTORCYCLE": "c77bb0",
    "PERCEPTION_LABEL_CYCLIST": "cc33ff",
    "PERCEPTION_LABEL_MOTORCYCLIST": "d6579a",
    "PERCEPTION_LABEL_PEDESTRIAN": "66ccff",
    "PERCEPTION_LABEL_ANIMAL": "c3c95e",
    "AVRESEARCH_LABEL_DONTCARE": "a3a9b1",
}
_UNKNOWN_CLASS = "8a929c"

CLASS_RGB: Final[UInt8Array] = np.array(
    [_rgb(_CLASSES.get(name, _UNKNOWN_CLASS)) for name in PERCEPTION_LABELS], np.uint8
)
"""Colours of road users by their most probable class, in the order of ``PERCEPTION_LABELS``, (17, 3)."""
CLASS_RGB.setflags(write=False)


def tones_of(theme: str) -> Tones:
    """Return the colours of a theme.

    Raises:
        UnsupportedValueError: There is no such theme.
    """
    for name, tones in _TONES.items():
        if name == theme:
            return tones
    raise UnsupportedValueError(f"theme is {theme!r}{did_you_mean(theme, THEMES)}; use {' or '.join(THEMES)}")


def shade(color: Rgb, factor: float) -> Rgb:
    """Return a darker colour for a factor below 1, a lighter one for a factor from 1 to 2."""
    red, green, blue = (
        round(value * factor if factor <= 1 else value + (255 - value) * (factor - 1)) for value in color
    )
    return red, green, blue
