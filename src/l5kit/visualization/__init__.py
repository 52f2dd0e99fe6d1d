"""Scenes and samples shown in notebooks, trajectories drawn into rasters, and pictures written as files."""

from l5kit.visualization.annotations import draw_box_labels, draw_box_outlines
from l5kit.visualization.contact_sheet import contact_sheet
from l5kit.visualization.gif import write_gif
from l5kit.visualization.notebooks import describe, play, show
from l5kit.visualization.png import write_png
from l5kit.visualization.utils import (
    PREDICTED_POINTS_COLOR,
    REFERENCE_TRAJ_COLOR,
    TARGET_POINTS_COLOR,
    draw_reference_trajectory,
    draw_trajectory,
)
from l5kit.visualization.video import write_video

__all__ = [
    "PREDICTED_POINTS_COLOR",
    "REFERENCE_TRAJ_COLOR",
    "TARGET_POINTS_COLOR",
    "contact_sheet",
    "describe",
    "draw_box_labels",
    "draw_box_outlines",
    "draw_reference_trajectory",
    "draw_trajectory",
    "play",
    "show",
    "write_gif",
    "write_png",
    "write_video",
]
