"""Parameters of environments: episodes, observations, actions, rewards, and other road users."""

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from msgspec import Meta

from l5kit._types import Config
from l5kit.configs.kinds import (
    MAX_NUM_FRAMES,
    Count,
    ElementCount,
    Flag,
    Key,
    NumberFromZero,
    PositiveCount,
    PositiveNumber,
    Probability,
)
from l5kit.configs.reading import Params, read_params
from l5kit.errors import ConfigError

_EpisodeFrames = Annotated[int, Meta(ge=3, le=MAX_NUM_FRAMES)]
_HeldFrames = Annotated[int, Meta(ge=1, le=MAX_NUM_FRAMES)]
EndName = Literal["collision", "off_road", "red_light", "time_to_collision"]
"""Failures that can end an episode early."""


@dataclass(frozen=True, kw_only=True)
class CompactParams(Params, section="gym_params.compact"):
    """Contents of compact observations, with the names and defaults of ``CompactLayout``."""

    num_agents: Annotated[Count, Key("largest number of observed road users")] = 12
    num_route_points: Annotated[Count, Key("points of the route ahead")] = 10
    route_step_m: Annotated[PositiveNumber, Key("distance between them", unit="m")] = 5.0
    num_lane_points: Annotated[Count, Key("largest number of observed points of lanes")] = 24
    reach_m: Annotated[PositiveNumber, Key("distance up to which things are observed", unit="m")] = 50.0
    frame: Annotated[
        Literal["vehicle", "route"], Key("frame of road users and route: that of the vehicle, or along the route")
    ] = "vehicle"
    forecast: Annotated[
        Literal["velocity", "lanes"],
        Key("forecast of road users: at constant velocity, or vehicles along their lanes (with frame `route`)"),
    ] = "velocity"


@dataclass(frozen=True, kw_only=True)
class DrivingParams(Params, section="gym_params.driving"):
    """Weights of the reward `driving`, with the names and defaults of ``DrivingWeights``."""

    combines: Annotated[Literal["sum", "product"], Key("whether penalties are subtracted or scale progress")] = "sum"
    progress: Annotated[NumberFromZero, Key("weight of the progress along the route")] = 1.0
    collision: Annotated[NumberFromZero, Key("penalty for a collision at fault")] = 10.0
    contact: Annotated[NumberFromZero, Key("penalty for a collision that is not at fault")] = 0.0
    off_road: Annotated[NumberFromZero, Key("penalty for a second off the road")] = 5.0
    time_to_collision: Annotated[NumberFromZero, Key("penalty for a second below the least time to collision")] = 1.0
    off_route: Annotated[NumberFromZero, Key("penalty for a second off the route")] = 1.0
    speed: Annotated[NumberFromZero, Key("penalty for a second above the speed limit")] = 0.5
    comfort: Annotated[NumberFromZero, Key("penalty for a second of discomfort")] = 0.5
    red_light: Annotated[NumberFromZero, Key("penalty for passing a red light")] = 5.0
    end: Annotated[NumberFromZero, Key("penalty for a failure that ends the episode")] = 5.0
    most_offset_m: Annotated[NumberFromZero, Key("lateral distance up to which the AV is on its route", unit="m")] = 4.0
    progress_reference: Annotated[
        Literal["limit", "expert"], Key("reference of progress: the speed limit, or the log")
    ] = "limit"
    least_reference_mps: Annotated[PositiveNumber, Key("least value of this reference", unit="m/s")] = 2.0


@dataclass(frozen=True)
class EnvironmentParams(Params, section="gym_params"):
    """Scenes and episode starts, and the options of environments."""

    max_scene_id: Annotated[
        PositiveCount | None, Key("number of training scenes, from the first on", otherwise="all", default=None)
    ]
    max_val_scene_id: Annotated[PositiveCount | None, Key("number of evaluation scenes", otherwise="all", default=None)]
    overfit: Annotated[Flag, Key("whether all episodes are of one scene of the training data", default=False)]
    overfit_id: Annotated[Count, Key("index of this scene", default=0)]
    randomize_start_frame: Annotated[
        Flag,
        Key(
            "whether training episodes start anywhere in a scene; arguments of environments take precedence, and "
            "`L5-CLE-v0` as in 1.5 ignores it",
            default=True,
        ),
    ]
    observation: Annotated[
        Literal["raster", "vectors", "compact"],
        Key("observation: a raster, polylines, or a few numbers of the AV, its route and nearby road users"),
    ] = "raster"
    actions: Annotated[
        Literal["poses", "kinematic", "bicycle", "curvature", "pose_change", "grid", "route", "route_emergency"],
        Key(
            "action: the next pose, steering and acceleration of a unicycle, acceleration and steering rate of a "
            "bicycle, acceleration and curvature, or one of a grid of these, a change of the pose, or acceleration "
            "along the route, within comfort or with braking in emergencies"
        ),
    ] = "poses"
    reward: Annotated[
        Literal["displacement", "driving"],
        Key("reward: staying close to the log, or the terms of the closed-loop score"),
    ] = "displacement"
    others: Annotated[
        Literal["log", "idm", "cautious", "assertive", "policy"],
        Key(
            "drivers of the other road users: the log, a traffic population that reacts only to leaders and lights, "
            "or, in `l5kit train-rl`, the policy in training"
        ),
    ] = "log"
    max_vehicles: Annotated[
        ElementCount,
        Key("largest number of acting vehicles besides the AV, with `others: policy` or in `L5ParallelEnv`"),
    ] = 32
    num_simulation_steps: Annotated[_EpisodeFrames | None, Key("frames of an episode; null for the whole scene")] = 33
    frames_per_action: Annotated[
        _HeldFrames, Key("frames for which an action of a vehicle model is held; their rewards are added up")
    ] = 1
    ends_at: Annotated[tuple[EndName, ...], Key("failures that end an episode before its last frame")] = ()
    failed_share: Annotated[
        Probability,
        Key("share of training episodes drawn from scenes with recently failed episodes"),
    ] = 0.0
    compact: CompactParams = CompactParams()
    driving: DrivingParams = DrivingParams()

    @classmethod
    def from_cfg(cls, cfg: Config) -> Self:
        """Read and check a configuration.

        Raises:
            ConfigError: A key is of the wrong type or out of range, or two keys contradict each other.
        """
        params = read_params(cls, cfg)
        for name, value, wrong in (
            ("observation", params.observation, ("raster", "vectors")),
            ("actions", params.actions, ("poses", "kinematic")),
        ):
            if params.others == "policy" and value in wrong:
                raise ConfigError(
                    f"gym_params.{name}: {value!r} supports AVs only, but gym_params.others policy lets vehicles of "
                    "the log act as well; use observation compact with actions of a vehicle model, such as route, or "
                    "others idm"
                )
        return params
