"""Colours of recordings, as RGB from 0 to 255."""

import numpy as np

from l5kit._types import UInt8Array
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.data.map.lane_lights import LIGHT_COLORS
from l5kit.visualization.visualizer.zarr_utils import COLORS


def _table(hex_colors: list[str]) -> UInt8Array:
    table = np.array([list(bytes.fromhex(color.removeprefix("#"))) for color in hex_colors], dtype=np.uint8)
    table.setflags(write=False)
    return table


CLASS_RGB = _table([COLORS.get(label, COLORS["PERCEPTION_LABEL_CAR"]) for label in PERCEPTION_LABELS])
"""Colours of ``PERCEPTION_LABELS``, shape (17, 3); classes without an own colour get that of cars."""

LIGHT_RGB = _table([COLORS[color] for color in LIGHT_COLORS])
"""Colours of ``LIGHT_COLORS``, shape (3, 3)."""

EGO_RGB = (255, 0, 0)
LANE_RGB = (80, 80, 80)
BOUNDARY_RGB = (150, 150, 150)
CROSSWALK_RGB = (220, 200, 80)
MARK_RGB = (255, 255, 255)


def class_title(label: str) -> str:
    """Return the short name of a label, such as ``car``."""
    return label.rpartition("LABEL_")[2].replace("_", " ").lower()
