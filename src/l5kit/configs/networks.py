"""Parameters of the trainable networks, read from a configuration dict."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Literal

from l5kit.configs.kinds import (
    Count,
    FilePath,
    Flag,
    Key,
    NetworkSize,
    Number,
    NumberFromZero,
    PositiveNumber,
    Probability,
    Text,
    ThreeNumbers,
)
from l5kit.configs.parameters import Route
from l5kit.configs.reading import Params

_WeightsScaling = Annotated[
    ThreeNumbers,
    Key(
        "weights of the errors of x, y and yaw in the loss",
        at="model_params.weights_scaling",
        null_is_missing=True,
        default=(1.0, 1.0, 1.0),
    ),
]
_AverageAvailableOnly = Annotated[
    Flag,
    Key(
        "whether planners average their loss over available steps only",
        at="model_params.average_available_only",
        default=False,
    ),
]
_NumModes = Annotated[
    NetworkSize,
    Key(
        "trajectories per sample of `agent_motion_multimodal` and `route_planner`, per agent of `query_centric`",
        at="model_params.num_modes",
        default=3,
    ),
]
_ModesWeight = Annotated[
    NumberFromZero,
    Key("weight of the cross entropy of modes in the loss", at="model_params.modes_weight", default=0.1),
]
MotionFeatures = Annotated[
    Flag,
    Key(
        "whether networks get speeds, accelerations and turn rates, fitted to the past, as input",
        at="model_params.motion_features",
        default=False,
    ),
]


def _of_model(text: str, *, unit: str = "") -> Key:
    """Return the key of an optional model argument, whose default is that of the model."""
    return Key(text, unit=unit, otherwise="the default of `SafePathNetModel`")


@dataclass(frozen=True)
class BackboneParams(Params, section="model_params"):
    """The network of a raster workflow."""

    model_architecture: Annotated[
        Text, Key("`resnet18`, `resnet34`, `resnet50`, `simple_cnn`, or `small_resnet`, which is new in 2.0")
    ]
    pretrained: Annotated[
        Flag | None,
        Key(
            "whether training starts from ImageNet weights",
            otherwise="yes if their file is in the torch hub cache",
            default=None,
        ),
    ]
    weights_file: Annotated[
        FilePath | None,
        Key("file with ImageNet weights", otherwise="the file in the torch hub cache", default=None),
    ]
    num_modes: _NumModes
    weights_scaling: _WeightsScaling
    motion_features: MotionFeatures
    average_available_only: _AverageAvailableOnly


@dataclass(frozen=True)
class VectorModelParams(Params, section="model_params"):
    """Common parameters of the vector networks."""

    weights_scaling: _WeightsScaling
    disable_other_agents: Annotated[
        Flag,
        Key("whether other agents are ignored", default=False),
    ]
    disable_map: Annotated[
        Flag,
        Key("whether lanes, crosswalks and boundaries are ignored", default=False),
    ]
    disable_lane_boundaries: Annotated[
        Flag,
        Key("whether lane boundaries are ignored", default=False),
    ]
    global_head_dropout: Annotated[
        Number,
        Key("dropout of the attention of planners", default=0.0),
    ]
    use_agent_labels: Annotated[
        Flag,
        Key("whether cars, cyclists and pedestrians have separate embeddings", default=False),
    ]
    agents_in_own_frame: Annotated[
        Flag,
        Key("whether the past of other agents is also embedded in their own frames", default=False),
    ]
    motion_features: MotionFeatures
    dim_features: Annotated[
        NetworkSize,
        Key(
            "features of an element, a multiple of 8; for `route_planner` features of the scene, and half as many of "
            "an element; `safepathnet` uses `dim_local` and `dim_global` instead",
            default=256,
        ),
    ]
    average_available_only: _AverageAvailableOnly


@dataclass(frozen=True)
class UnrollParams(Params, section="model_params"):
    """Parameters of unrolling Urban Driver in training."""

    detach_unroll: Annotated[
        Flag,
        Key("whether gradients are detached after each step", default=True),
    ]
    warmup_num_frames: Annotated[
        Count,
        Key("number of initial steps without a loss", default=0),
    ]
    discount_factor: Annotated[
        PositiveNumber,
        Key("weight of each step after the first ones relative to the one before it", default=0.8),
    ]


@dataclass(frozen=True, kw_only=True)
class SafePathNetParams(Params, section="model_params"):
    """The network of SafePathNet."""

    agent_num_trajectories: Annotated[NetworkSize, Key("trajectories of each agent")]
    cost_prob_coeff: Annotated[Number, Key("weight of the probabilities in the loss")] = 0.01
    yaw_residual: Annotated[
        Literal["doubled", "single"] | None,
        _of_model("`doubled`: yaws as in 1.5, needed for its weights; `single`: relative to the current yaw"),
    ] = None
    apply_weights_scaling: Annotated[Flag | None, _of_model("whether errors are weighted by `weights_scaling`")] = None
    normalize_targets: Annotated[Flag | None, _of_model("whether targets are divided by the reach of a car")] = None
    position_scale_m: Annotated[
        PositiveNumber | None, _of_model("unit of positions inside the network", unit="metres")
    ] = None
    dropout: Annotated[Number | None, _of_model("probability with which values are dropped in training")] = None
    dim_local: Annotated[NetworkSize | None, _of_model("features of points and polylines")] = None
    dim_global: Annotated[NetworkSize | None, _of_model("features inside the transformer")] = None
    dim_feedforward: Annotated[NetworkSize | None, _of_model("features inside its feed-forward networks")] = None
    nhead: Annotated[NetworkSize | None, _of_model("heads of its attention")] = None
    num_local_layers: Annotated[NetworkSize | None, _of_model("layers that embed polylines")] = None
    num_encoder_layers: Annotated[NetworkSize | None, _of_model("layers of the encoder")] = None
    num_decoder_layers: Annotated[NetworkSize | None, _of_model("layers of the decoder")] = None

    @property
    def options(self) -> Mapping[str, bool | float | str]:
        """Configured arguments of the model; the others keep the defaults of the model."""
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.default is None}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class MotionTokenParams(Params, section="model_params"):
    """Parameters of the motion token model."""

    token_num_steps: Annotated[NetworkSize, Key("number of predicted steps of a motion token")] = 5
    num_tokens: Annotated[NetworkSize, Key("largest number of motion tokens per agent class")] = 512
    num_rollouts: Annotated[NetworkSize, Key("rollouts per agent in evaluations; the first is greedy")] = 6
    temperature: Annotated[
        NumberFromZero, Key("temperature of token sampling: lower values prefer likelier tokens, 0 takes the likeliest")
    ] = 1.0
    sampling_seed: Annotated[Count, Key("seed of token sampling")] = 0
    token_noise_m: Annotated[
        NumberFromZero, Key("noise in the choice of the motion tokens to follow in training", unit="metres")
    ] = 0.0
    dim_tokens: Annotated[NetworkSize, Key("features of the motion token model")] = 128
    num_token_layers: Annotated[NetworkSize, Key("layers of attention over time, to the map, and between agents")] = 4
    num_token_heads: Annotated[NetworkSize, Key("heads of this attention")] = 8
    num_map_pieces: Annotated[NetworkSize, Key("number of nearest map pieces to which an agent attends")] = 32
    agents_radius_m: Annotated[PositiveNumber, Key("radius of attention between agents", unit="metres")] = 50.0
    token_dropout: Annotated[Probability, Key("probability with which values are dropped in training")] = 0.1


@dataclass(frozen=True, kw_only=True)
class QueryCentricParams(Params, section="model_params"):
    """Parameters of the query-centric model."""

    num_modes: _NumModes
    joint_modes: Annotated[
        Flag, Key("whether modes are joint over the scene, with one probability each; otherwise each agent has its own")
    ] = False
    mode_loss: Annotated[
        Literal["winner", "mixture"],
        Key(
            "`winner`: error of the mode nearest to the ground truth, its scales and cross entropy; `mixture`: the "
            "negative log-likelihood of a mixture of Laplace distributions"
        ),
    ] = "winner"
    modes_weight: _ModesWeight
    dim_queries: Annotated[NetworkSize, Key("features of the query-centric model")] = 128
    num_query_layers: Annotated[NetworkSize, Key("layers of attention to the map and between agents")] = 2
    num_query_heads: Annotated[NetworkSize, Key("heads of this attention")] = 8
    query_dropout: Annotated[Probability, Key("probability with which values are dropped in training")] = 0.1


@dataclass(frozen=True, kw_only=True)
class RoutePlannerParams(Params, section="model_params"):
    """Parameters of the route planner."""

    route: Route
    num_modes: _NumModes
    modes_weight: _ModesWeight
    decoder: Annotated[
        Literal["kinematic", "poses"],
        Key(
            "`kinematic`: accelerations and curvatures of each step, executed by a kinematic bicycle; `poses`: poses, "
            "as differences from constant velocity"
        ),
    ] = "kinematic"
    pooling: Annotated[
        Literal["max", "attention"],
        Key("pooling of the embeddings of agents and of lanes: max pooling, or attention"),
    ] = "max"
    loss_decay_s: Annotated[
        PositiveNumber | None,
        Key(
            "time after which a step of a plan has 1/e of the weight in the loss, as only the first steps are driven",
            unit="seconds",
            otherwise="equal weights",
        ),
    ] = None
    agents_along_route: Annotated[
        Flag, Key("whether agents are described along the route in addition to the frame of the AV")
    ] = True
