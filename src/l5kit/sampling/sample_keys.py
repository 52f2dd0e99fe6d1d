"""Keys of samples: name, shape, dtype, frame and unit of each, and the datasets that have it.

All other facts about keys are derived from these tables: aliases, values that are Python numbers in single samples,
arrays of agents to which the AV adds a row, and ``docs/samples.md``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

SIZES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "F": "future steps, `future_num_frames`",
        "h": "past steps, `history_num_frames`; in vector samples the larger of those of the AV and of agents",
        "C": "channels of the rasterizer",
        "H": "rows of the raster",
        "W": "columns of the raster",
        "M": "rows for other agents, `other_agents_num`",
        "L": "lanes, `max_num_lanes`",
        "P": "points of a lane, `max_points_per_lane`",
        "X": "crosswalks, `max_num_crosswalks`",
        "Q": "points of a crosswalk, `max_points_per_crosswalk`",
        "R": "points of the route, of `route_params`",
    }
)
"""Meaning of the letters in shapes."""


@dataclass(frozen=True)
class SampleKey:
    """One key of a sample.

    Attributes:
        name: The key in the dictionary.
        shape: Sizes, numbers or sums with the letters of :data:`SIZES`, such as ``h + 1``; batches have one more axis
            in front.
        dtype: NumPy's name of the dtype.
        text: Description of the value.
        frame: Reference frame: ``target``, ``world`` or ``raster``; empty for none.
        unit: Its unit; empty for none.
        agent_dtype: The dtype in samples of agents, if it differs.
        python_type: The type in single samples if the value is a Python number.
        alias_of: Key with the same value.
        row_of_av: Corresponding key of the AV, for keys whose first row is the AV in samples of
            ``EgoAgentDatasetVectorized``.
        needs_history: Whether only samples with past steps have it.
        needs_route: Whether only samples with ``model_params.route`` have it.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str
    text: str
    frame: str = ""
    unit: str = ""
    agent_dtype: str | None = None
    python_type: type[int] | type[float] | None = None
    alias_of: str | None = None
    row_of_av: str | None = None
    needs_history: bool = False
    needs_route: bool = False

    def sizes(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape in numbers.

        Args:
            sizes: A number for each letter of :data:`SIZES`.
        """
        return tuple(sum(_number(part, sizes) for part in str(size).split("+")) for size in self.shape)


def _number(part: str, sizes: Mapping[str, int]) -> int:
    """Return ``3``, ``h`` or ``2 L`` as a number."""
    number = 1
    for factor in part.split():
        number *= int(factor) if factor.isdigit() else sizes[factor]
    return number


_TARGET: Final = "target"
_AVAILABLE: Final = "1 where the step is known, else 0; position, heading and extent are 0 there, too"

_FRAME_INDEX: Final = SampleKey("frame_index", (), "int64", "The current frame, counted in its scene.")
_IMAGE: Final = SampleKey(
    "image",
    ("C", "H", "W"),
    "float32",
    "The raster, values from 0 to 1; bytes from 0 to 255 with `image_dtype: uint8`. Only with a rasterizer.",
    frame="raster",
)
_TRANSFORMS: Final = (
    SampleKey("agent_from_world", (3, 3), "float64", "The frame of the target from world coordinates.", unit="m"),
    SampleKey("world_from_agent", (3, 3), "float64", "The pose of the target.", unit="m"),
)
_CENTROID: Final = SampleKey("centroid", (2,), "float64", "Position of the target.", frame="world", unit="m")
_YAW: Final = SampleKey("yaw", (), "float64", "Heading of the target.", frame="world", unit="rad", python_type=float)
_EXTENT: Final = SampleKey(
    "extent", (3,), "float64", "Length, width and height of the target.", unit="m", agent_dtype="float32"
)
_ORIGIN: Final = (
    SampleKey("scene_index", (), "int64", "The scene.", python_type=int),
    SampleKey("host_id", (70,), "uint8", "The vehicle that recorded the scene: text as bytes, padded with zeros."),
    SampleKey("timestamp", (), "int64", "Time of the current frame.", unit="ns"),
    SampleKey("track_id", (), "int64", "The target's track; -1 for the AV."),
)


def _along(name: str, steps: str, num_values: int, text: str, unit: str) -> SampleKey:
    """Return a key with some values of the target for each step, in its frame."""
    return SampleKey(name, (steps, num_values), "float32", text, frame=_TARGET, unit=unit)


_RASTER: Final = (
    _FRAME_INDEX,
    _IMAGE,
    _along("target_positions", "F", 2, "Future positions of the target, nearest step first.", "m"),
    _along("target_yaws", "F", 1, "Future headings of the target.", "rad"),
    _along(
        "target_velocities",
        "F",
        2,
        "Differences of successive positions over time; meaningless next to unknown steps, whose position is 0.",
        "m/s",
    ),
    SampleKey("target_availabilities", ("F",), "float32", f"{_AVAILABLE}."),
    _along("history_positions", "h + 1", 2, "Past positions of the target, current step first.", "m"),
    _along("history_yaws", "h + 1", 1, "Past headings of the target.", "rad"),
    _along(
        "history_velocities",
        "h",
        2,
        "Differences of successive positions over time; meaningless next to unknown steps, whose position is 0.",
        "m/s",
    ),
    SampleKey("history_availabilities", ("h + 1",), "float32", f"{_AVAILABLE}."),
    SampleKey("history_extents", ("h + 1", 2), "float32", "Length and width of the target in past steps.", unit="m"),
    SampleKey("future_extents", ("F", 2), "float32", "Length and width of the target in future steps.", unit="m"),
    SampleKey(
        "world_to_image", (3, 3), "float64", "Alias of `raster_from_world`.", unit="px", alias_of="raster_from_world"
    ),
    SampleKey("raster_from_world", (3, 3), "float64", "Pixels, column and row, from world coordinates.", unit="px"),
    SampleKey("raster_from_agent", (3, 3), "float64", "Pixels from the frame of the target.", unit="px"),
    *_TRANSFORMS,
    _CENTROID,
    _YAW,
    _EXTENT,
    SampleKey("curr_speed", (), "float32", "Length of the latest past velocity.", unit="m/s", needs_history=True),
    *_ORIGIN,
)


def _other(name: str, shape: tuple[int | str, ...], dtype: str, text: str, **rest: str) -> SampleKey:
    """Return a key with a row for each other agent."""
    return SampleKey(name, ("M", *shape), dtype, text, **rest)  # type: ignore[arg-type]


def _other_tracks(period: str, steps: str, of_av: str) -> tuple[SampleKey, ...]:
    """Return the keys of poses of other agents in the past or in the future."""
    name = f"all_other_agents_{period}"
    return (
        _other(
            f"{name}_positions",
            (steps, 2),
            "float32",
            "Positions of other agents.",
            frame=_TARGET,
            unit="m",
            row_of_av=f"{of_av}_positions",
        ),
        _other(
            f"{name}_yaws",
            (steps, 1),
            "float32",
            "Headings of other agents.",
            frame=_TARGET,
            unit="rad",
            row_of_av=f"{of_av}_yaws",
        ),
        _other(f"{name}_extents", (steps, 2), "float32", "Length and width.", unit="m", row_of_av=f"{of_av}_extents"),
        _other(
            f"{name}_availability",
            (steps,),
            "bool",
            "Whether the agent is known in this step.",
            row_of_av=f"{of_av}_availabilities",
        ),
    )


def _of_route(name: str, shape: tuple[int | str, ...], dtype: str, text: str, **about: str) -> SampleKey:
    return SampleKey(name, shape, dtype, text, needs_route=True, **about)  # type: ignore[arg-type]


_ROUTE: Final = (
    _of_route(
        "route_polyline",
        ("R", 3),
        "float32",
        "The route, starting at the target: x, y and heading.",
        frame=_TARGET,
        unit="m, rad",
    ),
    _of_route("route_availability", ("R",), "bool", "Whether the point exists; other keys are zero where it does not."),
    _of_route("route_limits", ("R",), "float32", "Speed limit; 10 where the map has none.", unit="m/s"),
    _of_route(
        "route_bend_speeds", ("R",), "float32", "Speed that this bend and later ones allow, at most 50.", unit="m/s"
    ),
    _of_route(
        "route_lights",
        ("R",),
        "int64",
        "The light of a stop line between the previous point and this one: 0 unknown, 1 green, 2 yellow, 3 red; 4 for "
        "no such line.",
    ),
    _of_route("route_in_junction", ("R",), "bool", "Whether the lane is part of a junction."),
    _of_route(
        "route_widths",
        ("R", 2),
        "float32",
        "Distances from the route to the left and right edge of its lane.",
        unit="m",
    ),
    _of_route("route_lanes", ("R",), "int64", "Row of the lane in the map (`map.network.ids`); -1 for none."),
    _of_route(
        "route_gaps",
        (2,),
        "float32",
        "Distances from the front of the target to the first yellow or red stop line, and to the end of the route, "
        "both at most the reach.",
        unit="m",
    ),
    _of_route(
        "goal_position",
        (2,),
        "float32",
        "Point of the route after `goal_distance_m`, or its end.",
        frame=_TARGET,
        unit="m",
    ),
    _of_route("goal_availability", (), "bool", "Whether there is a goal."),
    _of_route(
        "agent_route_place",
        (6,),
        "float32",
        "Position of the target along the route: 0; metres to the left; speed along and across; heading relative to "
        "the route; 1 if it reaches into the lane.",
        unit="m, m/s, rad",
    ),
    _of_route("agent_route_availability", (), "bool", "Whether the target has a route, and is within 30 m of it."),
    _of_route(
        "all_other_agents_route_places",
        ("M", 6),
        "float32",
        "Positions of other agents along the route, as of the target, but starting with the metres ahead of it.",
        unit="m, m/s, rad",
        row_of_av="agent_route_place",
    ),
    _of_route(
        "all_other_agents_route_availability",
        ("M",),
        "bool",
        "Whether the agent is in the current frame.",
        row_of_av="agent_route_availability",
    ),
    _of_route("lane_on_route", ("L",), "bool", "Whether the lane is part of the route ahead."),
    _of_route("lane_rows", ("L",), "int64", "Rows of the lanes in the map (`map.network.ids`); -1 for none."),
    _of_route("lane_limits", ("L",), "float32", "Speed limits of the lanes; 10 where the map has none.", unit="m/s"),
    _of_route(
        "lane_successors", ("L", "L"), "bool", "Whether the lane of the second axis follows the lane of the first."
    ),
    _of_route(
        "lane_neighbours",
        ("L", 2),
        "int64",
        "Indices, among the L lanes, of the lanes for a lane change to the left and right; -1 for none.",
    ),
)

_VECTOR: Final = (
    _EXTENT,
    SampleKey("type", (), "int64", "The most likely label of the target; that of a car for the AV.", python_type=int),
    *_TRANSFORMS,
    _along("target_positions", "F", 2, "Future positions of the target, nearest step first.", "m"),
    _along("target_yaws", "F", 1, "Future headings of the target.", "rad"),
    SampleKey("target_extents", ("F", 2), "float32", "Length and width of the target in future steps.", unit="m"),
    SampleKey("target_availabilities", ("F",), "bool", "Whether the step is known."),
    _along("history_positions", "h + 1", 2, "Past positions of the target, current step first.", "m"),
    _along("history_yaws", "h + 1", 1, "Past headings of the target.", "rad"),
    SampleKey("history_extents", ("h + 1", 2), "float32", "Length and width of the target in past steps.", unit="m"),
    SampleKey("history_availabilities", ("h + 1",), "bool", "Whether the step is known."),
    _CENTROID,
    _YAW,
    SampleKey("speed", (), "float32", "Speed in the next step; in the last one with `speed_from_history`.", unit="m/s"),
    *_other_tracks("history", "h + 1", "history"),
    *_other_tracks("future", "F", "target"),
    _other("all_other_agents_types", (), "int64", "The most likely label; 0 for no agent.", row_of_av="type"),
    _other("all_other_agents_track_ids", (), "int64", "The track; 0 for no agent.", row_of_av="track_id"),
    _along("agent_trajectory_polyline", "h + 1", 3, "Past of the target: x, y and heading.", "m, rad"),
    SampleKey("agent_polyline_availability", ("h + 1",), "bool", "Whether the step is known."),
    _other(
        "other_agents_polyline",
        ("h + 1", 3),
        "float32",
        "Past of other agents: x, y and heading.",
        frame=_TARGET,
        unit="m, rad",
        row_of_av="agent_trajectory_polyline",
    ),
    _other(
        "other_agents_polyline_availability",
        ("h + 1",),
        "bool",
        "Whether the agent is known in this step.",
        row_of_av="agent_polyline_availability",
    ),
    SampleKey(
        "lanes",
        ("2 L", "P", 3),
        "float32",
        "Alternating left and right boundaries of each lane: x, y and 0.",
        _TARGET,
        "m",
    ),
    SampleKey("lanes_availabilities", ("2 L", "P"), "bool", "Whether the point exists, and is near enough."),
    SampleKey(
        "lanes_mid",
        ("L", "P", 3),
        "float32",
        "Midline of each lane: x, y and the light: 0 unknown, 1 green, 2 yellow, 3 red, 4 none.",
        _TARGET,
        "m",
    ),
    SampleKey("lanes_mid_availabilities", ("L", "P"), "bool", "Whether the point exists, and is near enough."),
    SampleKey("crosswalks", ("X", "Q", 3), "float32", "Outline of each crosswalk: x, y and 0.", _TARGET, "m"),
    SampleKey("crosswalks_availabilities", ("X", "Q"), "bool", "Whether the point exists."),
    *_ROUTE,
    *_ORIGIN,
)

_VALID_TRACKS: Final = SampleKey(
    "all_valid_agents_track_ids",
    (50,),
    "float64",
    "For evaluation, the tracks that the agents mask selects in the frame; else zeros.",
)

KEYS_BY_DATASET: Final[Mapping[str, tuple[SampleKey, ...]]] = MappingProxyType(
    {
        "EgoDataset": _RASTER,
        "AgentDataset": _RASTER,
        "EgoDatasetVectorized": _VECTOR,
        "AgentDatasetVectorized": _VECTOR,
        "EgoAgentDatasetVectorized": (*_VECTOR, _VALID_TRACKS),
    }
)
"""The keys of the samples of each dataset, in their order."""

_ALL: Final = (*_RASTER, *_VECTOR, _VALID_TRACKS)

ALIASES: Final[Mapping[str, str]] = MappingProxyType({key.name: key.alias_of for key in _ALL if key.alias_of})
"""Keys that share the value of another key."""

PYTHON_SCALARS: Final = frozenset(key.name for key in _ALL if key.python_type)
"""Keys whose values are Python numbers in single samples."""

ROWS_OF_AV: Final[Mapping[str, str]] = MappingProxyType({key.name: key.row_of_av for key in _VECTOR if key.row_of_av})
"""Keys with rows of agents, and the corresponding keys of the AV."""
