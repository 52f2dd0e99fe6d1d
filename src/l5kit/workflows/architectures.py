"""Architectures of networks, identified by the names and shapes of their weights."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from l5kit._types import JsonObject
from l5kit.planning.checkpoint import without_wrappers

Shapes = Mapping[str, tuple[int, ...]]

_PREFIXES = ("model.", "network.", "residual.")
"""Prefixes that wrappers add to names of weights.

The last one is of :class:`KinematicResidual`; ``network.`` is also used by :class:`PastDropout`.
"""

_BUFFERS = (
    *("running_mean", "running_var", "num_batches_tracked"),
    *("weights_scaling", "xy_scale", "agent_std", "other_agent_std", "static_embedding"),
    *("vocabulary", "vocabulary_sizes"),
)
_BACKBONE = "model."
_MOTION_HEAD = "motion_head.layers.layers.2.weight"
"""Last layer of raster networks with motion inputs."""

_NUM_MAP_CHANNELS = 3
_NUM_VALUES = 3
"""Values of a step of a planner: x, y and yaw."""

_NUM_QUERY_VALUES = 5
"""Values of a step of the query-centric model: x, y, their scales and yaw."""

_MODES, _LEAST_STEPS = range(2, 11), 5
"""Assumed numbers of modes, and minimum number of steps, of outputs."""

_DIM_FEATURES = 256
"""Default number of features of an element of the vector planners."""

_OF_VECTOR_INPUTS = (
    *("history_num_frames_ego", "history_num_frames_agents"),
    *("use_agent_labels", "agents_in_own_frame", "disable_map", "disable_lane_boundaries", "disable_other_agents"),
)
"""Keys that change the inputs of a vector network, but not its weights."""

_RESNETS: Final = {(False, 2): "resnet18", (False, 6): "resnet34", (True, 6): "resnet50", (True, 23): "resnet101"}
"""Names of ResNets by whether blocks are bottlenecks and the blocks of the third layer."""

_PLANNER = "l5kit.planning.rasterized.model.RasterizedPlanningModel"
_MULTIMODAL = "l5kit.planning.rasterized.multimodal_model.RasterizedMultiModalPlanningModel"
_MOTION = "l5kit.prediction.rasterized.motion_model.RasterizedMotionModel"
_VECTOR = "l5kit.planning.vectorized.open_loop_model.VectorizedModel"
_UNROLL = "l5kit.planning.vectorized.closed_loop_model.VectorizedUnrollModel"
_TOKENS = "l5kit.prediction.vectorized.motion_tokens_model.MotionTokenModel"
_QUERIES = "l5kit.prediction.vectorized.query_centric_model.QueryCentricModel"
_ROUTES = "l5kit.planning.vectorized.route_model.RoutePlannerModel"
_SAFEPATHNET = "l5kit.prediction.vectorized.safepathnet_model.SafePathNetModel"


@dataclass(frozen=True)
class Architecture:
    """Architecture that weights belong to.

    Attributes:
        model_class: Module and name of its class.
        workflows: Workflows that train such a network; empty for a class without a workflow.
        settings: Required settings of a configuration, by key; ``num_channels`` is that of the rasters.
        readings: Other settings with the same shapes.
        not_in_weights: Keys that matter but do not affect any shape.
        is_residual: Whether the network predicts differences to a kinematic baseline.
    """

    model_class: str
    workflows: tuple[str, ...]
    settings: JsonObject
    readings: tuple[JsonObject, ...] = ()
    not_in_weights: tuple[str, ...] = ()
    is_residual: bool = False


def is_buffer(name: str) -> bool:
    """Return whether a name is that of a buffer of the networks of l5kit, which no optimizer changes."""
    return name.rpartition(".")[2] in _BUFFERS


def architecture_of(shapes: Shapes, model_class: str | None = None) -> Architecture | None:
    """Return the architecture of weights with these names and shapes; None for one that l5kit does not know.

    Args:
        shapes: Shapes by name, with or without the prefixes of wrappers.
        model_class: Module and name of the class, if the file has it; it decides between several readings.
    """
    # remove the prefixes of nested wrappers, which all names share
    stripped, is_residual = {without_wrappers(name, "module"): shape for name, shape in shapes.items()}, False
    while stripped:
        prefix = next((prefix for prefix in _PREFIXES if all(name.startswith(prefix) for name in stripped)), None)
        if prefix is None:
            break
        stripped = {name.removeprefix(prefix): shape for name, shape in stripped.items()}
        is_residual |= prefix == "residual."
    # rasters last, as weights of other networks could be mistaken for those of a backbone
    architecture = (
        _of_tokens(stripped)
        or _of_queries(stripped)
        or _of_routes(stripped)
        or _of_vectors(stripped)
        or _of_rasters(stripped, (model_class or "").rpartition(".")[2])
    )
    if architecture is None or not is_residual:
        return architecture
    not_in_weights = (*architecture.not_in_weights, "model_params.kinematic_residual")
    return dataclasses.replace(architecture, not_in_weights=not_in_weights, is_residual=True)


def _of_tokens(shapes: Shapes) -> Architecture | None:
    """Return a motion token model, which stores its tokens: three values of each, by class of agents."""
    vocabulary, tokens = shapes.get("tokeniser.vocabulary", ()), shapes.get("token_own", ())
    if len(vocabulary) != 3 or len(tokens) != 3:
        return None
    layers = {name.split(".")[2] for name in shapes if name.startswith("decoder.layers.")}
    settings = {
        "model_params.num_tokens": vocabulary[1],
        "model_params.dim_tokens": tokens[2],
        "model_params.num_token_layers": len(layers),
    }
    own = ("token_num_steps", "num_token_heads", "num_map_pieces", "agents_radius_m", "future_num_frames")
    not_in_weights = tuple(f"model_params.{key}" for key in (*own, "kinematic_residual", *_OF_VECTOR_INPUTS))
    return Architecture(_TOKENS, ("motion_tokens",), settings, not_in_weights=not_in_weights)


def _of_queries(shapes: Shapes) -> Architecture | None:
    """Return a query-centric model, which predicts five values of a step for each of its modes."""
    modes, last = shapes.get("decoder.modes", ()), shapes.get("decoder.proposals.3.weight", ())
    if len(modes) != 2 or len(last) != 2 or last[0] % _NUM_QUERY_VALUES:
        return None
    layers = {name.split(".")[2] for name in shapes if name.startswith("encoder.to_map.")}
    settings: JsonObject = {
        "model_params.num_modes": modes[0],
        "model_params.dim_queries": modes[1],
        "model_params.num_query_layers": len(layers),
        "model_params.joint_modes": "decoder.propose.together.relations.weight" in shapes,
        "model_params.future_num_frames": last[0] // _NUM_QUERY_VALUES,
    }
    if "encoder.history.motion.norm.weight" in shapes:
        settings = {**settings, "model_params.motion_features": True}
    own = ("num_query_heads", "kinematic_residual", "residual_unit_m")
    inputs = tuple(key for key in _OF_VECTOR_INPUTS if key not in ("use_agent_labels", "agents_in_own_frame"))
    not_in_weights = tuple(f"model_params.{key}" for key in (*own, *inputs))
    return Architecture(_QUERIES, ("query_centric",), settings, not_in_weights=not_in_weights)


def _of_routes(shapes: Shapes) -> Architecture | None:
    """Return a route planner, whose last layers are named after their outputs: controls or poses, and modes."""
    modes = shapes.get("decoder.heads.modes.weight", ())
    decoder, num_values = ("kinematic", 2) if "decoder.heads.controls.weight" in shapes else ("poses", 3)
    last = shapes.get(f"decoder.heads.{'controls' if decoder == 'kinematic' else 'poses'}.weight", ())
    if len(modes) != 2 or len(last) != 2:
        return None
    settings: JsonObject = {
        "model_params.num_modes": modes[0],
        "model_params.dim_features": modes[1],
        "model_params.decoder": decoder,
        "model_params.pooling": "attention" if "agents.query.weight" in shapes else "max",
        "model_params.future_num_frames": last[0] // (num_values * modes[0]),
    }
    own = ("route", "agents_along_route", "past_dropout", "history_num_frames_ego", "history_num_frames_agents")
    lanes = "data_generation_params.lane_params.max_points_per_lane"
    disabled = ("disable_map", "disable_other_agents")
    not_in_weights = (*(f"model_params.{key}" for key in (*own, *disabled)), lanes)
    return Architecture(_ROUTES, ("route_planner",), settings, not_in_weights=not_in_weights)


def _of_vectors(shapes: Shapes) -> Architecture | None:
    """Return a vector network, whose first layer takes three values of a point."""
    local, scale = shapes.get("input_embed.weight", ()), shapes.get("xy_scale", ())
    if len(local) != 2 or len(scale) != 2:
        return None
    last = "global_head.agent_prediction_model.layers.2.weight"
    inputs = tuple(f"model_params.{key}" for key in _OF_VECTOR_INPUTS)
    known: JsonObject = {"model_params.motion_features": True} if "motion_embedding.norm.weight" in shapes else {}
    if "route_embedding.norm.weight" in shapes:
        known = {**known, "model_params.route": True}
    # SafePathNet has an embedding for each trajectory; the others differ in the number of steps of their outputs
    trajectories = shapes.get("global_head.transformer.agents_embedding", ())
    if len(trajectories) == 2 and len(shapes.get(last, ())) == 2:
        graph = "global_head.transformer.transformer_global_graph."
        settings = {
            "model_params.future_num_frames": scale[0],
            "model_params.agent_num_trajectories": trajectories[0],
            "model_params.dim_local": local[0],
            "model_params.dim_global": shapes[f"{graph}encoder_projection_layer.weight"][0],
            "model_params.dim_feedforward": shapes[f"{graph}encoder.layers.0.linear1.weight"][0],
            **known,
        }
        not_in_weights = (*inputs, "model_params.yaw_residual", "data_generation_params.other_agents_num")
        return Architecture(_SAFEPATHNET, ("safepathnet",), settings, not_in_weights=not_in_weights)
    if "global_head.encoder.in_proj_weight" not in shapes:
        return None
    if local[0] != _DIM_FEATURES:
        known = {**known, "model_params.dim_features": local[0]}
    if scale[0] == 1:
        residuals = ("model_params.velocity_residual", "model_params.kinematic_residual")
        not_in_weights = (*inputs, "model_params.future_num_frames", *residuals)
        return Architecture(_UNROLL, ("urban_driver",), known, not_in_weights=not_in_weights)
    settings = {"model_params.future_num_frames": scale[0], **known}
    return Architecture(_VECTOR, ("vector_planner",), settings, not_in_weights=inputs)


def _of_rasters(shapes: Shapes, class_name: str) -> Architecture | None:
    """Return a raster network, whose backbone has the prefix ``model.`` or none."""
    has_scaling = "weights_scaling" in shapes
    backbone = {name.removeprefix(_BACKBONE): shape for name, shape in shapes.items() if name != "weights_scaling"}
    # identify a backbone by its unique weights, with the names of its first and last layer
    first, last = "conv1.weight", "fc.weight"
    if {"0.weight", "4.weight", "9.weight"} <= backbone.keys():
        name: str | None = "simple_cnn"
        first, last = "0.weight", "9.weight"
    elif {"stem.0.weight", "squeeze.weight"} <= backbone.keys():
        name, first = "small_resnet", "stem.0.weight"
    else:
        num_blocks = len({key.split(".")[1] for key in backbone if key.startswith("layer3.")})
        name = _RESNETS.get(("layer1.0.conv3.weight" in backbone, num_blocks))
    if name is None or len(backbone.get(first, ())) != 4 or len(backbone.get(last, ())) != 2:
        return None
    num_channels, num_outputs = backbone[first][1], backbone[last][0]
    common: JsonObject = {"model_params.model_architecture": name, "num_channels": num_channels}
    if len(shapes.get(_MOTION_HEAD, ())) == 2:
        num_outputs = shapes[_MOTION_HEAD][0]
        common["model_params.motion_features"] = True

    # past frames of a raster of map and boxes, or of boxes alone: two channels for each frame, including the current
    # one
    num_of_boxes = num_channels if num_channels % 2 == 0 else num_channels - _NUM_MAP_CHANNELS
    num_past = num_of_boxes // 2 - 1 if num_of_boxes >= 2 else None
    if num_past is not None:
        common["model_params.history_num_frames"] = num_past

    # V T outputs for one trajectory, or (V T + 1) M for M trajectories with logits; both if both divide. Planners weigh
    # their values (V = 3 with the yaw), predictions of agents do not (V = 2).
    num_values = _NUM_VALUES if has_scaling else 2
    several: tuple[JsonObject, ...] = tuple(
        {"model_params.future_num_frames": (each - 1) // num_values, "model_params.num_modes": modes}
        for each, modes in ((num_outputs // modes, modes) for modes in _MODES if num_outputs % modes == 0)
        if (each - 1) % num_values == 0 and (each - 1) // num_values >= _LEAST_STEPS
    )
    if num_outputs % num_values or (has_scaling and class_name == _MULTIMODAL.rpartition(".")[2]):
        settings = common | several[0] if len(several) == 1 else common
        readings = several if len(several) > 1 else ()
        model_class, workflows = (_MULTIMODAL, ()) if has_scaling else (_MOTION, ("agent_motion_multimodal",))
        return Architecture(model_class, workflows, settings, readings) if several else None
    settings = {**common, "model_params.future_num_frames": num_outputs // num_values}
    if has_scaling:
        return Architecture(_PLANNER, ("raster_planner", "simnet"), settings, several)
    of_motion = ("agent_motion", "agent_motion_multimodal") if several else ("agent_motion",)
    return Architecture(_MOTION, of_motion, settings, several)
