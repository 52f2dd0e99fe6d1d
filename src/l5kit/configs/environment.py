"""Parameters of environments: which scenes their episodes are drawn from, and where in them they start."""

from dataclasses import dataclass
from typing import Annotated

from l5kit.configs.kinds import Count, Flag, Key, PositiveCount
from l5kit.configs.reading import Params

__all__ = ["EnvironmentParams"]


@dataclass(frozen=True)
class EnvironmentParams(Params, section="gym_params"):
    """Scenes and starts of episodes."""

    max_scene_id: Annotated[
        PositiveCount | None, Key("scenes to train in: so many, from the first on", otherwise="all", default=None)
    ]
    max_val_scene_id: Annotated[PositiveCount | None, Key("scenes to evaluate in", otherwise="all", default=None)]
    overfit: Annotated[Flag, Key("whether all episodes are of one scene, of the data to train with", default=False)]
    overfit_id: Annotated[Count, Key("that scene", default=0)]
    randomize_start_frame: Annotated[
        Flag, Key("whether episodes of training start anywhere in a scene; arguments of environments win", default=True)
    ]
