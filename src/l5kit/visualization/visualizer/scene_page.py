"""Bokeh layout of a page that shows a scene: figure, slider, colour key and scripts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib import resources
from typing import Final, NamedTuple, TypeVar

import numpy as np
from bokeh.layouts import column, row
from bokeh.models import Column, ColumnDataSource, CustomJS, CustomJSHover, HoverTool, Range1d
from bokeh.models.annotations import Title
from bokeh.models.widgets import Div, Slider, Toggle
from bokeh.plotting import figure

from l5kit._types import Float64Array
from l5kit.visualization.visualizer.common import (
    HALF_SIDE_M,
    AgentVisualization,
    CWVisualization,
    EgoVisualization,
    FrameVisualization,
    LaneVisualization,
    MapLaneVisualization,
    TrajectoryVisualization,
)
from l5kit.visualization.visualizer.map_layers import LIGHT_TONES
from l5kit.visualization.visualizer.packed_layer import LayerElement, PackedLayer, list_to_columns, pack_layer

_WINDOW_MARGIN_PX = 16
_UNDER_PICTURE_PX = 150
"""Title, axis, slider and key."""
_BESIDE_PICTURE_PX = 100
"""Axis and tools."""
_CONTROLS_PX = 720
_LEAST_SIDE_PX = 160
_LEAST_HEIGHT_PX = 300
_MS_PER_FRAME = 100
_BOUNDARY_COLOR = "#7b8490"
_EGO_TONES = {"red": "#B53331"}
_CROSSWALK_TONES = {"yellow": "#B5B50D"}
"""Tones of the page for the colours of the scene builders; other colours are used unchanged."""


_Shape = TypeVar("_Shape", EgoVisualization, CWVisualization)


class _Line(NamedTuple):
    """World x and y of a line."""

    xs: Float64Array
    ys: Float64Array


class _Agent(NamedTuple):
    """An agent with its speed, NaN if unknown."""

    xs: Float64Array
    ys: Float64Array
    color: str
    track_id: int
    agent_type: str
    prob: float
    speed_mps: float

    @classmethod
    def of(cls, agent: AgentVisualization) -> "_Agent":
        """Return an agent of any kind with its speed."""
        return cls(*agent, getattr(agent, "speed_mps", math.nan))


_NOTHING = np.empty(0)
_ID = "track_id"
_NULL_LANE = LaneVisualization(_NOTHING, _NOTHING, "gray")
_NULL_CROSSWALK = CWVisualization(_NOTHING, _NOTHING, "gray")
_NULL_AGENT = _Agent(_NOTHING, _NOTHING, "gray", -2, "", 0.0, math.nan)
_NULL_LINE = _Line(_NOTHING, _NOTHING)
_NULL_TRAJECTORY = TrajectoryVisualization(_NOTHING, _NOTHING, "gray", "none", -2)
"""Elements of empty layers, which would lose their columns otherwise."""

_SPEED_TEXT = "return isFinite(value) ? value.toFixed(1) + ' m/s' : 'unknown'"

_LABEL_PREFIX: Final = "PERCEPTION_LABEL_"
_LIGHT_NAMES: Final = {tone: f"{name.lower()} light" for name, tone in LIGHT_TONES.items()}
_ENTRY: Final = (
    '<span style="display:inline-block;margin-right:14px;white-space:nowrap"><span style="display:inline-block;'
    "width:11px;height:11px;border-radius:3px;margin-right:5px;border:1px solid rgb(128 128 128 / 0.5);"
    'background:{color}"></span>{names}</span>'
)


@dataclass(frozen=True)
class _Layer:
    """A source of glyphs, and its contents in all frames."""

    source: ColumnDataSource
    packed: PackedLayer


def scene_layout(
    scene_index: int, frames: Sequence[FrameVisualization], *, frame_step: int, highest_px: int | None = None
) -> Column:
    """Return the figure above button, slider and colour key, fitted to the window; without controls for one frame.

    Args:
        scene_index: Scene number in the title.
        frames: Contents of the displayed frames, at least one.
        frame_step: Increment of the slider between two of them.
        highest_px: Largest height, for notebooks; None for a full page.
    """
    frames = [
        frame._replace(
            ego=_toned(frame.ego, _EGO_TONES),
            crosswalks=[_toned(shape, _CROSSWALK_TONES) for shape in frame.crosswalks],
        )
        for frame in frames
    ]
    # Sizes in CSS: as high as the window, but not much higher than it is wide. The picture is a square with axis and
    # tools; the layout is centred, and as wide as the picture or the controls need.
    highest = "" if highest_px is None else f", {highest_px}px"
    height = f"min(100vh - {_WINDOW_MARGIN_PX}px, 100vw + {_UNDER_PICTURE_PX}px{highest})"
    picture_width = f"calc({height} - {_UNDER_PICTURE_PX - _BESIDE_PICTURE_PX}px)"
    styles = {
        "height": height,
        "min-height": f"{_LEAST_HEIGHT_PX}px",
        "width": "100%",
        "max-width": f"max({_CONTROLS_PX}px, {picture_width})",
        "margin": "0 auto",
    }
    x, y = _origin_of(frames)
    plot = figure(
        title=Title(text=f"Scene {scene_index}", text_font_size="15px"),
        x_range=Range1d(start=x - HALF_SIDE_M, end=x + HALF_SIDE_M),
        y_range=Range1d(start=y - HALF_SIDE_M, end=y + HALF_SIDE_M),
        sizing_mode="stretch_both",
        styles={"width": f"min(100%, {picture_width})", "align-self": "center"},
        min_width=_LEAST_SIDE_PX,
        min_height=_LEAST_SIDE_PX,
        match_aspect=True,
        tools="pan,wheel_zoom,save,reset",
        active_scroll="wheel_zoom",
    )
    plot.grid.visible = False
    plot.xaxis.axis_label, plot.yaxis.axis_label = "world x (m)", "world y (m)"
    layers = _draw_layers(plot, frames)
    key = Div(text=_key_of(frames), sizing_mode="stretch_width", margin=(2, 5, 4, 5))
    if len(frames) == 1:
        _keep_in_view(plot, None, frames)
        return column(plot, key, sizing_mode="stretch_width", styles=styles)
    slider = _add_slider(layers, frames, frame_step)
    _keep_in_view(plot, slider, frames)
    button = Toggle(label="► Play", width=100, align="end", button_type="primary")
    play = {"button": button, "slider": slider, "interval_ms": _MS_PER_FRAME * frame_step}
    button.js_on_change("active", CustomJS(args=play, code=_script("scene_play.js")))
    controls = row(button, slider, sizing_mode="stretch_width")
    return column(plot, controls, key, sizing_mode="stretch_width", styles=styles)


def _key_of(frames: Sequence[FrameVisualization]) -> str:
    """Return a line with the colours of the boxes, crosswalks and lit lanes in any of the frames."""
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


def _add_slider(layers: Sequence[_Layer], frames: Sequence[FrameVisualization], frame_step: int) -> Slider:
    """Return the slider that selects the frame of the layers."""
    end = (len(frames) - 1) * frame_step
    slider = Slider(start=0, end=end, value=0, step=frame_step, title="frame", sizing_mode="stretch_width")
    # the script takes a layer as a dictionary with nested dictionaries of columns
    sources: list[dict[str, object]] = []
    for layer in layers:
        packed = layer.packed
        columns = {name: {"values": kept.values, "codes": kept.codes} for name, kept in packed.columns.items()}
        sources.append({**vars(packed), "columns": columns, "source": layer.source})
    shown = {"slider": slider, "layers": sources, "origin": _origin_of(frames)}
    slider.js_on_change("value", CustomJS(args=shown, code=_script("scene_page.js")))
    return slider


def _keep_in_view(plot: figure, slider: Slider | None, frames: Sequence[FrameVisualization]) -> None:
    """Make the view follow the AV with the slider, and fill a picture of any size."""
    seen = {
        "plot": plot,
        "slider": slider,
        "x_range": plot.x_range,
        "y_range": plot.y_range,
        "centers_x": np.array([frame.ego.center_x for frame in frames]),
        "centers_y": np.array([frame.ego.center_y for frame in frames]),
        "half_side": HALF_SIDE_M,
    }
    view = CustomJS(args=seen, code=_script("scene_view.js"))
    if slider is not None:
        slider.js_on_change("value", view)
    for size in ("inner_width", "inner_height"):
        plot.js_on_change(size, view)


def _draw_layers(plot: figure, frames: Sequence[FrameVisualization]) -> list[_Layer]:
    """Draw the first frame, from the bottom layer to the top, and return the layers."""
    origin_m = _origin_of(frames)
    lanes = _make_layer([frame.lanes for frame in frames], _NULL_LANE, origin_m)
    plot.patches("xs", "ys", color="color", alpha=0.5, line_width=0, name="lanes", source=lanes.source)
    # a layer for lane boundaries, if any lane of any frame has them
    lines = [
        [_Line(xs, ys) for lane in frame.lanes if isinstance(lane, MapLaneVisualization) for xs, ys in lane.boundaries]
        for frame in frames
    ]
    boundaries = [_make_layer(lines, _NULL_LINE, origin_m)] if any(lines) else []
    for layer in boundaries:
        plot.multi_line("xs", "ys", color=_BOUNDARY_COLOR, line_width=1, name="lane_boundaries", source=layer.source)
    crosswalks = _make_layer([frame.crosswalks for frame in frames], _NULL_CROSSWALK, origin_m)
    plot.patches("xs", "ys", color="color", alpha=0.5, line_width=0, name="crosswalks", source=crosswalks.source)
    ego = _make_layer([[frame.ego] for frame in frames], frames[0].ego, origin_m)
    plot.patches("xs", "ys", color="color", line_width=2, name="ego", source=ego.source)
    agents = _make_layer([list(map(_Agent.of, frame.agents)) for frame in frames], _NULL_AGENT, origin_m)
    boxes = plot.patches("xs", "ys", color="color", line_width=2, name="agents", source=agents.source)
    hover = HoverTool(
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
    plot.add_tools(hover)
    return [lanes, *boundaries, crosswalks, ego, agents, *_draw_trajectories(plot, frames)]


def _draw_trajectories(plot: figure, frames: Sequence[FrameVisualization]) -> list[_Layer]:
    """Draw the trajectories of the first frame, in a layer for each label of any frame, and return these layers."""
    colors = {line.legend_label: line.color for frame in reversed(frames) for line in frame.trajectories}
    layers = []
    for label, color in sorted(colors.items()):
        of_label = [[line for line in frame.trajectories if line.legend_label == label] for frame in frames]
        # the legend shows the colour of the first element, even if that is the null element
        layer = _make_layer(of_label, _NULL_TRAJECTORY._replace(color=color), _origin_of(frames))
        plot.multi_line(
            "xs", "ys", color="color", alpha=0.8, line_width=3, name=label, legend_label=label, source=layer.source
        )
        layers.append(layer)
    if layers:  # keep the legend legible on any background
        plot.legend.update(
            location="top_left",
            click_policy="hide",
            label_text_font_size="13px",
            label_text_color="#1a222c",
            background_fill_color="white",
            background_fill_alpha=0.9,
            border_line_color="#8a94a1",
            padding=6,
            spacing=1,
        )
    return layers


def _make_layer(
    frames: Sequence[Sequence[LayerElement]], null_element: LayerElement, origin_m: tuple[float, float]
) -> _Layer:
    first, packed = list_to_columns(frames[0], null_element), pack_layer(frames, null_element, origin_m=origin_m)
    if _ID in first:  # as texts, since JavaScript numbers have 53 bits
        first[_ID] = list(map(str, first[_ID]))
        packed.columns[_ID] = replace(packed.columns[_ID], values=list(map(str, packed.columns[_ID].values)))
    return _Layer(ColumnDataSource(first), packed)


def _toned(element: _Shape, tones: dict[str, str]) -> _Shape:
    return element._replace(color=tones.get(element.color, element.color))


def _origin_of(frames: Sequence[FrameVisualization]) -> tuple[float, float]:
    return frames[0].ego.center_x, frames[0].ego.center_y


def _script(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")
