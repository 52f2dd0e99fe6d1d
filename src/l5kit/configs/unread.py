"""Keys that configurations of L5Kit 1.x have and that nothing of l5kit reads yet, or any more."""

from dataclasses import dataclass
from typing import Annotated

from l5kit.configs.kinds import Count, Flag, FrameCount, Key, Probability
from l5kit.configs.reading import Params

_IDLE = Key("no effect, as in 1.5", is_unused=True)


@dataclass(frozen=True)
class FormatKeys(Params):
    """What a configuration says of itself."""

    format_version: Annotated[Count, Key("4 for rasters, 7 for vectors in the examples of 1.5; nothing reads it")]


@dataclass(frozen=True)
class IdleKeys(Params, section="model_params"):
    """What the trainings of 1.5 did not read either, and what has no effect."""

    unroll_num_frames: Annotated[FrameCount, _IDLE]
    use_perturbation: Annotated[Flag, _IDLE]
    perturbation_probability: Annotated[Probability, _IDLE]
    use_gaussian_perturbation: Annotated[Flag, _IDLE]
    use_kinematic: Annotated[Flag, _IDLE]
    history_num_frames_train: Annotated[FrameCount, _IDLE]
    load_pretrained: Annotated[Flag, _IDLE]
