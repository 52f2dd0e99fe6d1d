"""One prediction drawn beside the truth and the baseline, with a caption and a legend."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np

from l5kit._types import Float64Array, UInt8Array
from l5kit.kinematic.baselines import BASELINE_TITLES, Baseline
from l5kit.visualization.text import draw_text, fitted_text, text_size_px
from l5kit.visualization.utils import PREDICTED_POINTS_COLOR, TARGET_POINTS_COLOR

BASELINE_RGB: Final = (170, 170, 170)
"""Grey, beside the magenta of truth and the cyan of predictions."""

DRAWN_BASELINE: Final[Baseline] = "ctra"
"""The best of them."""

_BASELINE_RADIUS_PX: Final = 7
_TRUTH_RADIUS_PX: Final = 10
_PREDICTION_RADIUS_PX: Final = 4
"""Of the dots at the ends, which are seen as rings where they lie over each other."""

_EDGE_RGB: Final = (0, 0, 0)
_SCALE_M: Final = 10
_GROUND_RGB: Final = (24, 28, 34)
_INK_RGB: Final = (235, 238, 242)
_TEXT_SIZE_PX: Final = 15
_MARGIN_PX: Final = 10
_SHIFT: Final = 4
"""Binary places of a pixel that OpenCV draws with."""
_FAR_OUTSIDE_PX: Final = 1e5
_FAINTEST: Final = 0.3
"""Opacity of a trajectory of probability 0; the likeliest one has 1."""


@dataclass(frozen=True)
class CaseTrajectories:
    """A prediction in a picture, as (column, row); all start where the agent is.

    Attributes:
        start_px: Where the agent is, (2,).
        truth_px: Known true positions, (K, 2).
        modes_px: Predicted trajectories, (M, T, 2).
        probabilities: How likely each is, (M,).
        baseline_px: Where ``DRAWN_BASELINE`` gets to, (T, 2), or None.
        px_per_m: Pixels of a metre.
    """

    start_px: Float64Array
    truth_px: Float64Array
    modes_px: Float64Array
    probabilities: Float64Array
    baseline_px: Float64Array | None
    px_per_m: float


def case_picture(background: UInt8Array, trajectories: CaseTrajectories, *, caption: Sequence[str]) -> UInt8Array:
    """Return a copy of a picture with the trajectories, over a legend and lines of text.

    Args:
        background: RGB (H, W, 3).
        trajectories: What is drawn: the likeliest prediction strongest.
        caption: Lines of text.

    Returns:
        RGB, higher than the background.
    """
    canvas = background.copy()
    _draw_line(canvas, trajectories, trajectories.truth_px, TARGET_POINTS_COLOR, radius_px=_TRUTH_RADIUS_PX, width_px=7)
    legend = [("truth", TARGET_POINTS_COLOR), ("prediction", PREDICTED_POINTS_COLOR)]
    if trajectories.baseline_px is not None:
        _draw_line(canvas, trajectories, trajectories.baseline_px, BASELINE_RGB, radius_px=_BASELINE_RADIUS_PX)
        legend.append((BASELINE_TITLES[DRAWN_BASELINE], BASELINE_RGB))

    # The likeliest prediction is drawn last, over all others, and strongest.
    strengths = trajectories.probabilities / trajectories.probabilities.max()
    *others, likeliest = np.argsort(strengths, kind="stable").tolist()
    for mode in others:
        opacity = _FAINTEST + (1 - _FAINTEST) * float(strengths[mode])
        points_px = trajectories.modes_px[mode]
        _draw_line(canvas, trajectories, points_px, PREDICTED_POINTS_COLOR, radius_px=2, width_px=1, opacity=opacity)
    points_px = trajectories.modes_px[likeliest]
    _draw_line(canvas, trajectories, points_px, PREDICTED_POINTS_COLOR, radius_px=_PREDICTION_RADIUS_PX)

    # A bar of some metres in the lower left corner.
    row, end = len(canvas) - _MARGIN_PX, _MARGIN_PX + round(_SCALE_M * trajectories.px_per_m)
    for color, thickness in ((_INK_RGB, 5), (_EDGE_RGB, 3)):
        cv2.line(canvas, (_MARGIN_PX, row), (end, row), color, thickness=thickness)
    position = np.array([[end + _MARGIN_PX, row - _TEXT_SIZE_PX]])
    texts = [f"{_SCALE_M} m"]
    canvas = draw_text(canvas, texts, position, rgb_color=_EDGE_RGB, size_px=_TEXT_SIZE_PX, outline_rgb=_INK_RGB)

    # Below it the legend, and under that the lines of text.
    line_px, width_px = text_size_px("", size_px=_TEXT_SIZE_PX)[1] + 4, canvas.shape[1]
    panel = np.full((2 * _MARGIN_PX + line_px * (1 + len(caption)), width_px, 3), _GROUND_RGB, dtype=np.uint8)
    column = _MARGIN_PX
    for name, rgb_color in legend:
        cv2.circle(panel, (column + 5, _MARGIN_PX + line_px // 2), 5, rgb_color, thickness=-1, lineType=cv2.LINE_AA)
        position = np.array([[column + 16, _MARGIN_PX]])
        panel = draw_text(panel, [name], position, rgb_color=_INK_RGB, size_px=_TEXT_SIZE_PX)
        column += 16 + text_size_px(name, size_px=_TEXT_SIZE_PX)[0] + 2 * _MARGIN_PX
    lines = [fitted_text(line, width_px=width_px - 2 * _MARGIN_PX, size_px=_TEXT_SIZE_PX) for line in caption]
    positions = np.array([[_MARGIN_PX, _MARGIN_PX + line_px * (1 + number)] for number in range(len(lines))])
    panel = draw_text(panel, lines, positions, rgb_color=_INK_RGB, size_px=_TEXT_SIZE_PX)
    return np.concatenate([canvas, panel])


def _draw_line(
    canvas: UInt8Array,
    trajectories: CaseTrajectories,
    points_px: Float64Array,
    rgb_color: tuple[int, int, int],
    *,
    radius_px: int,
    width_px: int = 3,
    opacity: float = 1.0,
) -> None:
    """Draw a line from where the agent is, with a dot at its end, into a picture."""
    # A layer with the line and its dot, each first with a dark edge, is mixed into the picture as a whole. OpenCV takes
    # whole numbers, here of sixteenths of a pixel; points far outside would overflow.
    layer = canvas.copy()
    points_px = np.concatenate([trajectories.start_px[None], points_px])
    points = np.round(np.clip(points_px, -_FAR_OUTSIDE_PX, _FAR_OUTSIDE_PX) * 2**_SHIFT).astype(np.int32)
    end = (int(points[-1, 0]), int(points[-1, 1]))
    for color, edge_px in ((_EDGE_RGB, 1), (rgb_color, 0)):
        thickness = width_px + 2 * edge_px
        cv2.polylines(layer, [points], False, color, thickness=thickness, lineType=cv2.LINE_AA, shift=_SHIFT)
        radius = (radius_px + edge_px) * 2**_SHIFT
        cv2.circle(layer, end, radius, color, thickness=-1, lineType=cv2.LINE_AA, shift=_SHIFT)
    cv2.addWeighted(layer, opacity, canvas, 1 - opacity, 0, dst=canvas)
