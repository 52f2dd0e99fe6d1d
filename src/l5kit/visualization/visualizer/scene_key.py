"""The key of a page: what is drawn in which colour, as HTML."""

from collections.abc import Sequence
from html import escape
from typing import Final

from l5kit.visualization.visualizer.common import FrameVisualization
from l5kit.visualization.visualizer.map_layers import LIGHT_TONES

_LABEL_PREFIX: Final = "PERCEPTION_LABEL_"
_LIGHT_NAMES: Final = {tone: f"{name.lower()} light" for name, tone in LIGHT_TONES.items()}
_ENTRY: Final = (
    '<span style="display:inline-block;margin-right:14px;white-space:nowrap"><span style="display:inline-block;'
    "width:11px;height:11px;border-radius:3px;margin-right:5px;border:1px solid rgb(128 128 128 / 0.5);"
    'background:{color}"></span>{names}</span>'
)


def scene_key(frames: Sequence[FrameVisualization]) -> str:
    """Return a line that names the colours of the boxes, crosswalks and lit lanes that are in any of the frames."""
    shown = dict.fromkeys((frame.ego.color, "AV") for frame in frames)
    classes = dict.fromkeys((box.color, box.agent_type) for frame in frames for box in frame.agents)
    shown |= {(color, label.removeprefix(_LABEL_PREFIX).replace("_", " ").lower()): None for color, label in classes}
    shown |= dict.fromkeys((shape.color, "crosswalk") for frame in frames for shape in frame.crosswalks)
    lane_colors = {lane.color for frame in frames for lane in frame.lanes}
    shown |= {(color, name): None for color, name in _LIGHT_NAMES.items() if color in lane_colors}
    names: dict[str, list[str]] = {}
    for color, name in shown:
        if name:
            names.setdefault(color, []).append(name)
    entries = [
        _ENTRY.format(color=escape(color), names=escape(", ".join(of_color))) for color, of_color in names.items()
    ]
    return "".join(entries)
