"""The figure, slider and scripts of a page that shows a scene."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from bokeh.layouts import column, row
from bokeh.models import Column, ColumnDataSource, CustomJS, CustomJSHover, HoverTool, Range1d
from bokeh.models.renderers import GlyphRenderer
from bokeh.models.widgets import Slider, Toggle
from bokeh.plotting import figure

from l5kit.visualization.visualizer.common import (
    HALF_SIDE_M,
    AgentVisualization,
    CWVisualization,
    FrameVisualization,
    LaneVisualization,
    TrajectoryVisualization,
)
from l5kit.visualization.visualizer.packed_layer import PackedLayer, list_to_columns, pack_layer

__all__ = ["scene_layout"]

_SIDE_PX = 720
_MS_PER_FRAME = 100
_EGO_TONES = {"red": "#B53331"}
_CROSSWALK_TONES = {"yellow": "#B5B50D"}
"""What the page draws for the colours of the scene builders; other colours are taken as they are."""

_NOTHING = np.empty(0)
_NULL_LANE = LaneVisualization(_NOTHING, _NOTHING, "gray")
_NULL_CROSSWALK = CWVisualization(_NOTHING, _NOTHING, "gray")
_NULL_AGENT = AgentVisualization(_NOTHING, _NOTHING, "gray", -2, "", 0.0)
_NULL_TRAJECTORY = TrajectoryVisualization(_NOTHING, _NOTHING, "gray", "none", -2)
"""What stands in layers without elements, which would lose their columns otherwise."""

_SPEED_TEXT = "return isFinite(value) ? value.toFixed(1) + ' m/s' : 'unknown'"


@dataclass(frozen=True)
class _Layer:
    """A source that glyphs draw from, and what it shows in all frames."""

    source: ColumnDataSource
    packed: PackedLayer

    def as_argument(self) -> dict[str, Any]:
        """Return what the script of the page takes."""
        columns = {name: {"values": kept.values, "codes": kept.codes} for name, kept in self.packed.columns.items()}
        return {**vars(self.packed), "columns": columns, "source": self.source}


def scene_layout(scene_index: int, frames: Sequence[FrameVisualization], *, frame_step: int) -> Column:
    """Return the figure above button and slider, or alone for a single frame.

    Args:
        scene_index: Number in the title.
        frames: What is in each frame that is shown, at least one.
        frame_step: What the slider counts from one of them to the next.
    """
    plot = _empty_figure(scene_index, frames[0])
    layers = _draw_layers(plot, frames)
    if len(frames) == 1:
        return column(plot)
    end = (len(frames) - 1) * frame_step
    slider = Slider(start=0, end=end, value=0, step=frame_step, title="frame", sizing_mode="stretch_width")
    button = Toggle(label="► Play", width=100, align="end")
    show_frame = {
        "slider": slider,
        "x_range": plot.x_range,
        "y_range": plot.y_range,
        "layers": [layer.as_argument() for layer in layers],
        "origin": _origin_of(frames),
        "centers_x": np.array([frame.ego.center_x for frame in frames]),
        "centers_y": np.array([frame.ego.center_y for frame in frames]),
        "half_side": HALF_SIDE_M,
    }
    play = {"button": button, "slider": slider, "interval_ms": _MS_PER_FRAME * frame_step}
    slider.js_on_change("value", CustomJS(args=show_frame, code=_script("scene_page.js")))
    button.js_on_change("active", CustomJS(args=play, code=_script("scene_play.js")))
    return column(plot, row(button, slider, width=_SIDE_PX))


def _empty_figure(scene_index: int, frame: FrameVisualization) -> figure:
    x, y = frame.ego.center_x, frame.ego.center_y
    plot = figure(
        title=f"Scene {scene_index}",
        x_range=Range1d(start=x - HALF_SIDE_M, end=x + HALF_SIDE_M),
        y_range=Range1d(start=y - HALF_SIDE_M, end=y + HALF_SIDE_M),
        frame_width=_SIDE_PX,
        frame_height=_SIDE_PX,
        match_aspect=True,
        tools="pan,wheel_zoom,save,reset",
        active_scroll="wheel_zoom",
    )
    plot.grid.visible = False
    plot.xaxis.axis_label, plot.yaxis.axis_label = "world x (m)", "world y (m)"
    return plot


def _draw_layers(plot: figure, frames: Sequence[FrameVisualization]) -> list[_Layer]:
    """Draw the first frame, from the lowest layer to the highest, and return the layers."""
    origin_m = _origin_of(frames)
    crosswalk_frames = [[_toned(shape, _CROSSWALK_TONES) for shape in frame.crosswalks] for frame in frames]
    lanes = _make_layer([frame.lanes for frame in frames], _NULL_LANE, origin_m)
    crosswalks = _make_layer(crosswalk_frames, _NULL_CROSSWALK, origin_m)
    ego = _make_layer([[_toned(frame.ego, _EGO_TONES)] for frame in frames], None, origin_m)
    agents = _make_layer([frame.agents for frame in frames], _NULL_AGENT, origin_m)
    for name, layer in (("lanes", lanes), ("crosswalks", crosswalks)):
        plot.patches("xs", "ys", color="color", alpha=0.5, line_width=0, name=name, source=layer.source)
    plot.patches("xs", "ys", color="color", line_width=2, name="ego", source=ego.source)
    boxes = plot.patches("xs", "ys", color="color", line_width=2, name="agents", source=agents.source)
    plot.add_tools(_hover_over(boxes))
    return [lanes, crosswalks, ego, agents, *_draw_trajectories(plot, frames)]


def _draw_trajectories(plot: figure, frames: Sequence[FrameVisualization]) -> list[_Layer]:
    """Draw the trajectories of the first frame, a layer for each label of any frame, and return these layers."""
    colors = {line.legend_label: line.color for frame in reversed(frames) for line in frame.trajectories}
    layers = []
    for label, color in sorted(colors.items()):
        of_label = [[line for line in frame.trajectories if line.legend_label == label] for frame in frames]
        # the legend shows the colour of the first line, also where that is none
        layer = _make_layer(of_label, _NULL_TRAJECTORY._replace(color=color), _origin_of(frames))
        plot.multi_line(
            "xs", "ys", color="color", alpha=0.8, line_width=3, name=label, legend_label=label, source=layer.source
        )
        layers.append(layer)
    if layers:
        plot.legend.location, plot.legend.click_policy = "top_left", "hide"
    return layers


def _make_layer(frames: Sequence[Sequence[Any]], null_element: Any, origin_m: tuple[float, float]) -> _Layer:
    source = ColumnDataSource(list_to_columns(frames[0], null_element))
    return _Layer(source, pack_layer(frames, null_element, origin_m=origin_m))


def _hover_over(boxes: "GlyphRenderer[Any]") -> HoverTool:
    return HoverTool(
        renderers=[boxes],
        point_policy="follow_mouse",
        tooltips=[
            ("Type", "@agent_type"),
            ("Probability", "@prob{0.00%}"),
            ("Track id", "@track_id"),
            ("Speed", "@speed_mps{custom}"),
        ],
        formatters={"@speed_mps": CustomJSHover(code=_SPEED_TEXT)},
    )


def _toned(element: Any, tones: dict[str, str]) -> Any:
    return element._replace(color=tones.get(element.color, element.color))


def _origin_of(frames: Sequence[FrameVisualization]) -> tuple[float, float]:
    return frames[0].ego.center_x, frames[0].ego.center_y


def _script(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")
