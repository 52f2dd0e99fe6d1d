"""Parameters of environments: their episodes, what is seen, done and paid for in them, and who else is there."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from l5kit.configs.kinds import MAX_NUM_FRAMES, Count, Flag, Key, PositiveCount
from l5kit.configs.reading import Params

__all__ = ["EnvironmentParams"]

_EpisodeFrames = Annotated[int, Meta(ge=3, le=MAX_NUM_FRAMES)]
_End = Literal["collision", "off_road"]


@dataclass(frozen=True)
class EnvironmentParams(Params, section="gym_params"):
    """Scenes and starts of episodes, and the choices of what environments do."""

    max_scene_id: Annotated[
        PositiveCount | None, Key("scenes to train in: so many, from the first on", otherwise="all", default=None)
    ]
    max_val_scene_id: Annotated[PositiveCount | None, Key("scenes to evaluate in", otherwise="all", default=None)]
    overfit: Annotated[Flag, Key("whether all episodes are of one scene, of the data to train with", default=False)]
    overfit_id: Annotated[Count, Key("that scene", default=0)]
    randomize_start_frame: Annotated[
        Flag,
        Key(
            "whether episodes of training start anywhere in a scene; arguments of environments win, and `L5-CLE-v0` as "
            "in 1.5 ignores it",
            default=True,
        ),
    ]
    observation: Annotated[
        Literal["raster", "vectors", "compact"],
        Key("what is seen: a picture, polylines, or a few numbers of the AV, its route and those near it"),
    ] = "raster"
    actions: Annotated[
        Literal["poses", "kinematic", "bicycle", "curvature", "pose_change", "grid"],
        Key(
            "what is done: the next pose, steering and acceleration of a unicycle, acceleration and steering rate of a "
            "bicycle, acceleration and curvature, or one of a grid of these, or a change of the pose"
        ),
    ] = "poses"
    reward: Annotated[
        Literal["displacement", "driving"],
        Key("what is paid for: staying near the log, or the terms of the closed-loop score"),
    ] = "displacement"
    others: Annotated[Literal["log", "idm"], Key("who drives the other road users")] = "log"
    num_simulation_steps: Annotated[_EpisodeFrames | None, Key("frames of an episode; null for all of the scene")] = 33
    ends_at: Annotated[tuple[_End, ...], Key("what ends an episode before its last frame")] = ()
