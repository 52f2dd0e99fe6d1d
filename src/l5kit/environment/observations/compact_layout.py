"""Layout of compact observations: columns with their frames, units and scales."""

import math
from dataclasses import dataclass, fields
from functools import cached_property
from types import MappingProxyType
from typing import Any

from l5kit._types import Float32Array
from l5kit.configs.environment import CompactParams
from l5kit.configs.texts import did_you_mean
from l5kit.errors import InvalidArgumentError

BOUND = 5.0
"""All values are clipped to the range from -BOUND to BOUND."""

SPEED_SCALE_MPS = 20.0
ACCELERATION_SCALE_MPS2 = 5.0
SIZE_SCALE_M = 10.0
OFFSET_SCALE_M = 5.0

EGO_COLUMNS = (
    "speed",
    "acceleration",
    "steering",
    "length",
    "width",
    "has_route",
    "offset",
    "heading_cos",
    "heading_sin",
    "speed_limit",
    "line_distance",
    "line_is_red",
    "line_is_yellow",
    "end_distance",
)
"""Columns of the part ``ego``."""

ROUTE_COLUMNS = ("x", "y", "cos", "sin")
"""Columns of each point of the part ``route``."""

AGENT_COLUMNS = (
    "x",
    "y",
    "cos",
    "sin",
    "velocity_x",
    "velocity_y",
    "length",
    "width",
    "is_vehicle",
    "is_vulnerable",
    "is_other",
    "is_there",
)
"""Columns of each road user of the part ``agents``."""

ROUTE_FRAME_ROUTE_COLUMNS = ("bend_speed", "speed_limit", "cos", "sin")
"""Columns of each point of the part ``route`` in the frame of the route."""

ROUTE_FRAME_AGENT_COLUMNS = (
    "along",
    "across",
    "velocity_along",
    "velocity_across",
    "length_along",
    "length_across",
    "time_to_route",
    "along_then",
    *AGENT_COLUMNS[8:],
)
"""Columns of each road user of the part ``agents`` in the frame of the route."""

FRAMES = ("vehicle", "route")
"""Frames of road users and points of the route."""

FORECASTS = ("velocity", "lanes")
"""Forecasts of road users until they reach the route: at constant velocity, or along lanes for vehicles."""

LANE_COLUMNS = ("x", "y", "cos", "sin", "speed_limit", "is_red", "is_yellow", "is_there")
"""Columns of each point of the part ``lanes``."""

MOST_NORMALISED = 5.0
"""Bound of normalised observations in networks."""

SET_PARTS = ("agents", "lanes")
"""Parts that are unordered sets of rows, whose last column is 1 for used rows."""

_MOST_COLUMNS = 1_000_000


@dataclass(frozen=True)
class CompactLayout:
    """Sizes of a compact observation, a row of D float32 values between -5 and 5, most of them between -1 and 1.

    The default frame is that of the vehicle: its centre is the origin, x points ahead and y to the left. Positions are
    metres divided by ``reach_m``, directions the cosine and sine of the angle to the heading of the vehicle. The parts
    follow each other in this order; ``EGO_COLUMNS``, ``ROUTE_COLUMNS``, ``AGENT_COLUMNS`` and ``LANE_COLUMNS`` name
    their columns.

    ``ego``, shape (14,): speed / 20 m/s; acceleration / 5 m/s2; steering in radians; length and width / 10 m; 1 with a
    route, else 0 and zeros in the rest; offset to the left of the route / 5 m; cosine and sine of the heading minus
    that of the route; speed limit there / 20 m/s; distance from the front to the next red or yellow stop line / reach,
    1 if there is none within reach; 1 if it is red; 1 if it is yellow; distance to the end of the route / reach, at
    most 1.

    ``route``, shape (num_route_points, 4): points of the route ahead, the first one ``route_step_m`` from the vehicle;
    the end of the route is repeated. x and y / reach; direction of the route there.

    ``agents``, shape (num_agents, 12): the road users whose centres are within reach, nearest first; those at the same
    distance in the order of their rows, the AV last. x and y / reach; direction of the heading; velocity minus that of
    the vehicle / 20 m/s; length and width / 10 m; one-hot class (vehicle, vulnerable, other); 1. Unused rows are zeros.

    ``lanes``, shape (num_lane_points, 8): the points of lane centre lines within reach, about 4 m apart, nearest first.
    x and y / reach; direction of the lane; speed limit / 20 m/s; 1 if the light of the lane is red; 1 if it is
    yellow; 1. Unused rows are zeros.

    In the frame of the route (a Frenet frame) two parts have other columns, named by ``ROUTE_FRAME_ROUTE_COLUMNS`` and
    ``ROUTE_FRAME_AGENT_COLUMNS``. Each point of ``route`` has the speed with a lateral acceleration of 2 m/s2 in its
    bend / 20 m/s, at most 1; the speed limit there / 20 m/s; direction of the route. Each road user has its distance
    along the route from the vehicle / reach; its offset to the left of the route / 5 m; its velocity along the route
    there minus the speed of the vehicle, and across it, / 20 m/s; the extent of its box along the route and across it
    / 10 m; the time until it enters the corridor of the vehicle, as wide as the vehicle, at its constant velocity
    across / 5 s, at most 1; its distance along the route from the vehicle at that time if both keep their velocities
    / reach; the rest as above. Rows are sorted by relevance: by the distance to the route ahead, where metres across,
    and metres behind the vehicle, count twice. A vehicle without a route uses a straight one.

    With ``forecast="lanes"`` a vehicle on a lane is assumed to follow that lane at constant speed: the time until it
    enters the corridor, and its position then, are those of this forecast. If that is within 5 s, its velocities along
    and across the route are those at that time.

    Attributes:
        num_agents: Largest number of road users, 0 or more.
        num_route_points: Number of points of the route ahead, 0 or more.
        route_step_m: Distance between them along the route, above 0.
        num_lane_points: Largest number of points of lanes, 0 or more.
        reach_m: Distance up to which road users, lanes and stop lines are observed, above 0.
        frame: ``vehicle`` or ``route``.
        forecast: ``velocity`` or, in the frame of the route, ``lanes``.

    Raises:
        InvalidArgumentError: A number is out of range, ``forecast="lanes"`` is combined with the frame of the vehicle,
            or the last point of the route would be farther away than 5 times the reach, where it would be clipped.
    """

    num_agents: int = CompactParams.num_agents
    num_route_points: int = CompactParams.num_route_points
    route_step_m: float = CompactParams.route_step_m
    num_lane_points: int = CompactParams.num_lane_points
    reach_m: float = CompactParams.reach_m
    frame: str = CompactParams.frame
    forecast: str = CompactParams.forecast

    def __post_init__(self) -> None:
        for name, known in (("frame", FRAMES), ("forecast", FORECASTS)):
            value = getattr(self, name)
            if value not in known:
                raise InvalidArgumentError(
                    f"{name} is {value!r}{did_you_mean(value, known)}; pass {' or '.join(known)}"
                )
        if self.forecast == "lanes" and self.frame != "route":
            raise InvalidArgumentError(
                f"forecast is 'lanes', but frame {self.frame!r} has no forecasts; pass frame='route'"
            )
        for name in ("num_agents", "num_route_points", "num_lane_points"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_COLUMNS:
                raise InvalidArgumentError(f"{name} is {value!r}; pass a whole number from 0 to {_MOST_COLUMNS}")
        for name in ("route_step_m", "reach_m"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise InvalidArgumentError(f"{name} is {value!r}; pass metres above 0")
        if self.num_route_points * self.route_step_m > BOUND * self.reach_m:
            raise InvalidArgumentError(
                f"num_route_points is {self.num_route_points} and route_step_m {self.route_step_m}; the last point "
                f"must be at most {BOUND:g} times reach_m ({self.reach_m}) away"
            )

    def __reduce__(self) -> tuple[type["CompactLayout"], tuple[Any, ...]]:
        """Return the class and its fields, as cached properties cannot be pickled."""
        return type(self), tuple(getattr(self, each.name) for each in fields(self))

    @cached_property
    def size(self) -> int:
        """Number of values of an observation, D."""
        return sum(math.prod(shape) for _, shape in self.parts.values())

    @cached_property
    def parts(self) -> MappingProxyType[str, tuple[slice, tuple[int, ...]]]:
        """Columns and shape of each part, by name, in order."""
        shapes: dict[str, tuple[int, ...]] = {
            "ego": (len(EGO_COLUMNS),),
            "route": (self.num_route_points, len(ROUTE_COLUMNS)),
            "agents": (self.num_agents, len(AGENT_COLUMNS)),
            "lanes": (self.num_lane_points, len(LANE_COLUMNS)),
        }
        parts, start = {}, 0
        for name, shape in shapes.items():
            size = math.prod(shape)
            parts[name] = (slice(start, start + size), shape)
            start += size
        return MappingProxyType(parts)

    def split(self, observation: Float32Array) -> dict[str, Float32Array]:
        """Return views of the parts of observations (..., D), by name, (..., *shape of the part).

        Raises:
            InvalidArgumentError: The last axis has another length.
        """
        if observation.ndim == 0 or observation.shape[-1] != self.size:
            raise InvalidArgumentError(
                f"observation has shape {observation.shape}; the last axis must be {self.size} long with this layout"
            )
        lead = observation.shape[:-1]
        return {name: observation[..., columns].reshape(*lead, *shape) for name, (columns, shape) in self.parts.items()}
