"""Parameters of samples, rasters, vectors and maps, read from a configuration dict."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Literal, get_args, get_type_hints

from l5kit._types import Config
from l5kit.configs.kinds import (
    MAX_NUM_ELEMENTS,
    ElementCount,
    FilePath,
    Flag,
    FrameCount,
    Key,
    Number,
    NumberFromZero,
    NumberPair,
    OwnCode,
    PointCount,
    PositiveNumber,
    PositivePair,
    SizePair,
    StepSeconds,
    StepSize,
)
from l5kit.configs.reading import Params
from l5kit.errors import ConfigError

_ImageDtype = Literal["float32", "uint8"]
_OutOfBoundsMode = Literal["error", "pad"]

IMAGE_DTYPES: Final[tuple[str, ...]] = get_args(_ImageDtype)
OUT_OF_BOUNDS_MODES: Final[tuple[str, ...]] = get_args(_OutOfBoundsMode)

# keys of several classes
_HistoryNumFrames = Annotated[
    FrameCount,
    Key(
        "past frames in the raster and in `history_*`, in addition to the current frame",
        at="model_params.history_num_frames",
    ),
]
_HistoryNumFramesEgo = Annotated[
    FrameCount,
    Key("past frames of the AV, or of the agent that the sample is about", at="model_params.history_num_frames_ego"),
]
_HistoryNumFramesAgents = Annotated[
    FrameCount,
    Key(
        "past frames of other agents; all arrays have the length of the larger of both, plus 1 for the current frame",
        at="model_params.history_num_frames_agents",
    ),
]
FutureNumFrames = Annotated[FrameCount, Key("length of the target", at="model_params.future_num_frames")]
StepTime = Annotated[
    StepSeconds,
    Key(
        "time between two recorded frames; velocities are differences of positions divided by it",
        at="model_params.step_time",
        unit="seconds",
    ),
]
HistoryStepSize = Annotated[
    StepSize,
    Key("recorded frames per past step. New in 2.0", at="model_params.history_step_size", default=1),
]
Route = Annotated[
    Flag,
    Key(
        "whether samples of the AV contain its route, the lanes that the log follows from there: as keys of vector "
        "samples, or as one more channel of rasters; planners use it as input. New in 2.0",
        at="model_params.route",
        default=False,
    ),
]
FutureStepSize = Annotated[
    StepSize,
    Key("recorded frames per future step. New in 2.0", at="model_params.future_step_size", default=1),
]
_FILTER_AGENTS_THRESHOLD: Final = Key(
    "an agent is drawn and sampled if its probability of being a road user is above this",
    at="raster_params.filter_agents_threshold",
)
_FilterAgentsThreshold = Annotated[Number, _FILTER_AGENTS_THRESHOLD]
_ROUNDING: Final = 1e-9
_SemanticMapKey = Annotated[FilePath, Key("semantic map", at="raster_params.semantic_map_key")]
_DatasetMetaKey = Annotated[
    FilePath,
    Key("`meta.json` with the matrices `world_to_ecef` and `ecef_to_aerial`", at="raster_params.dataset_meta_key"),
]
_MAP_TYPE: Final = Key("contents of the raster, see below")


@dataclass(frozen=True)
class RasterGeometry(Params, section="raster_params"):
    """Size, scale and orientation of a raster."""

    raster_size_px: Annotated[SizePair, Key("width and height", at="raster_params.raster_size", unit="pixels")]
    pixel_size_m: Annotated[
        PositivePair,
        Key(
            "size of a pixel along columns and rows, which must be equal", at="raster_params.pixel_size", unit="metres"
        ),
    ]
    center_in_raster_ratio: Annotated[
        NumberPair,
        Key(
            "position of the AV or agent, as fractions of width and height, from 0 to 1 if inside",
            at="raster_params.ego_center",
        ),
    ]
    set_origin_to_bottom: Annotated[
        Flag,
        Key(
            "true: the left side of the agent is at the top of the raster, and the height of `ego_center` counts from "
            "the bottom; false: mirrored"
        ),
    ]


@dataclass(frozen=True)
class MapKeys(Params, section="raster_params"):
    """Paths of the semantic map and of meta.json, relative to the data folder."""

    semantic_map_key: _SemanticMapKey
    dataset_meta_key: _DatasetMetaKey


@dataclass(frozen=True, kw_only=True)
class RasterizerParams(Params, section="raster_params"):
    """Parameters of the rasterizers of all map types; each map type has its own subclass.

    Attributes:
        geometry: Size, scale and orientation of the raster.
    """

    map_type: Annotated[str, _MAP_TYPE]
    geometry: RasterGeometry
    image_dtype: Annotated[
        _ImageDtype,
        Key("values from 0 to 1, or the same raster as bytes from 0 to 255, in a quarter of the memory. New in 2.0"),
    ] = "float32"
    has_route: Route = False

    @classmethod
    def map_type_name(cls) -> str:
        """Return the map type of this class."""
        (name,) = get_args(get_type_hints(cls)["map_type"])
        return str(name)


@dataclass(frozen=True, kw_only=True)
class BoxParams(RasterizerParams):
    """Additional parameters of rasterizers that draw boxes."""

    filter_agents_threshold: _FilterAgentsThreshold
    history_num_frames: _HistoryNumFrames
    render_ego_history: Annotated[
        Flag,
        Key(
            "whether past boxes of the AV, or of the agent of the sample, are drawn",
            at="model_params.render_ego_history",
        ),
    ]
    solid_boxes: Annotated[
        Flag,
        Key(
            "true: boxes are filled where they overlap; false: a pixel covered by an even number of boxes stays empty, "
            "as in 1.5. New in 2.0"
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class SemanticParams(MapKeys, RasterizerParams):
    """Additional parameters of rasterizers that draw the semantic map."""


@dataclass(frozen=True, kw_only=True)
class SatelliteParams(RasterizerParams):
    """Additional parameters of rasterizers that draw the aerial picture."""

    satellite_map_key: Annotated[FilePath, Key("aerial picture")]
    dataset_meta_key: _DatasetMetaKey
    satellite_out_of_bounds: Annotated[
        _OutOfBoundsMode, Key("beyond the edge of the aerial picture: an error, as in 1.5, or black. New in 2.0")
    ] = "error"


@dataclass(frozen=True, kw_only=True)
class SemanticWithBoxes(SemanticParams, BoxParams):
    """Parameters of ``py_semantic``: boxes over the semantic map."""

    map_type: Annotated[Literal["py_semantic"], _MAP_TYPE]


@dataclass(frozen=True, kw_only=True)
class SatelliteWithBoxes(SatelliteParams, BoxParams):
    """Parameters of ``py_satellite``: boxes over the aerial picture."""

    map_type: Annotated[Literal["py_satellite"], _MAP_TYPE]


@dataclass(frozen=True, kw_only=True)
class BoxesAlone(BoxParams):
    """Parameters of ``box_debug``: only boxes."""

    map_type: Annotated[Literal["box_debug"], _MAP_TYPE]


@dataclass(frozen=True, kw_only=True)
class SemanticAlone(SemanticParams):
    """Parameters of ``semantic_debug``: only the semantic map."""

    map_type: Annotated[Literal["semantic_debug"], _MAP_TYPE]


@dataclass(frozen=True, kw_only=True)
class SatelliteAlone(SatelliteParams):
    """Parameters of ``satellite_debug``: only the aerial picture."""

    map_type: Annotated[Literal["satellite_debug"], _MAP_TYPE]


@dataclass(frozen=True, kw_only=True)
class StubParams(RasterizerParams):
    """Parameters of ``stub_debug``: an empty raster."""

    map_type: Annotated[Literal["stub_debug"], _MAP_TYPE]


@dataclass(frozen=True)
class OwnMapType(Params, section="raster_params"):
    """A rasterizer in a user's file."""

    map_type: Annotated[OwnCode, _MAP_TYPE]


@dataclass(frozen=True)
class SamplingParams(Params, section="model_params"):
    """How a sample is cut from a scene.

    Attributes:
        history_num_frames: Past steps, excluding the current frame.
        future_num_frames: Future steps.
        filter_agents_threshold: Strict lower bound of the summed probability of the kept classes.
    """

    history_num_frames: _HistoryNumFrames
    future_num_frames: FutureNumFrames
    step_time_s: StepTime
    history_step_size: HistoryStepSize
    future_step_size: FutureStepSize
    filter_agents_threshold: _FilterAgentsThreshold


@dataclass(frozen=True)
class _VectorSteps(Params):
    """Numbers of frames in a vector sample."""

    history_num_frames_ego: _HistoryNumFramesEgo
    history_num_frames_agents: _HistoryNumFramesAgents
    future_num_frames: FutureNumFrames

    @property
    def history_num_frames(self) -> int:
        """Past steps in all arrays; steps beyond the own number of a row are zero."""
        return max(self.history_num_frames_ego, self.history_num_frames_agents)


@dataclass(frozen=True)
class VectorSamplingParams(_VectorSteps, section="model_params"):
    """How a vector sample is cut from a scene.

    Attributes:
        history_num_frames_ego: Past steps of the target that are kept, excluding the current frame.
        history_num_frames_agents: Past steps of other agents that are kept.
        future_num_frames: Future steps.
        filter_agents_threshold: Strict lower bound of the summed probability of the kept classes, for the target.
    """

    step_time_s: StepTime
    history_step_size: HistoryStepSize
    future_step_size: FutureStepSize
    filter_agents_threshold: _FilterAgentsThreshold
    speed_from_history: Annotated[
        Flag,
        Key(
            "true: `speed` is taken from the last step; false: from the next step, as in 1.5, which looks ahead. "
            "New in 2.0"
        ),
    ] = False


@dataclass(frozen=True)
class LaneParams(Params, section="data_generation_params.lane_params"):
    """Limits on the map elements of a vector sample."""

    max_num_lanes: Annotated[ElementCount, Key("lanes, closest first")]
    max_points_per_lane: Annotated[PointCount, Key("points of each boundary and midline")]
    max_points_per_crosswalk: Annotated[ElementCount, Key("vertices of each crosswalk; the rest is dropped")]
    max_retrieval_distance_m: Annotated[
        PositiveNumber,
        Key(
            "lanes and crosswalks whose bounds are closer than this along both axes are included; lane points farther "
            "away are marked unavailable, but keep their coordinates",
            unit="metres",
        ),
    ]
    max_num_crosswalks: Annotated[ElementCount, Key("crosswalks, in the order of the map file")]


@dataclass(frozen=True)
class RouteParams(Params, section="data_generation_params.route_params"):
    """Points of the route ahead in a vector sample."""

    near_step_m: Annotated[
        PositiveNumber, Key("distance between points near the AV, along the route. New in 2.0", unit="metres")
    ] = 2.0
    near_m: Annotated[NumberFromZero, Key("distance up to which `near_step_m` holds. New in 2.0", unit="metres")] = 20.0
    far_step_m: Annotated[PositiveNumber, Key("distance between points farther away. New in 2.0", unit="metres")] = 4.0
    reach_m: Annotated[PositiveNumber, Key("distance of the farthest point. New in 2.0", unit="metres")] = 80.0
    goal_distance_m: Annotated[
        PositiveNumber, Key("distance to the goal along the route. New in 2.0", unit="metres")
    ] = 100.0

    def __post_init__(self) -> None:
        if self.reach_m < self.near_m:
            raise ConfigError(
                f"{self.section}.reach_m: {self.reach_m:g} metres, but near_m is {self.near_m:g} "
                "metres; give at least that, or a smaller near_m"
            )
        num_points = self.near_m / self.near_step_m + (self.reach_m - self.near_m) / self.far_step_m
        if num_points > MAX_NUM_ELEMENTS:
            raise ConfigError(
                f"{self.section}: reach_m of {self.reach_m:g} metres gives {num_points:,.0f} points, more "
                f"than {MAX_NUM_ELEMENTS:,}; give a smaller reach_m, or larger near_step_m and far_step_m"
            )

    @property
    def points_m(self) -> tuple[float, ...]:
        """Distances of the R points along the route from the target, starting at 0, in metres."""
        num_near = int(self.near_m / self.near_step_m + _ROUNDING)
        far_m = self.reach_m - num_near * self.near_step_m
        num_far = max(int(far_m / self.far_step_m + _ROUNDING), 0)
        near = [self.near_step_m * point for point in range(num_near + 1)]
        return (*near, *(near[-1] + self.far_step_m * (point + 1) for point in range(num_far)))

    @property
    def num_points(self) -> int:
        """Number of points, R."""
        return len(self.points_m)


@dataclass(frozen=True)
class VectorizerParams(_VectorSteps, section="data_generation_params"):
    """Contents of a sample from a vectorizer.

    Attributes:
        filter_agents_threshold: Strict lower bound of the summed probability of the kept classes; L5Kit 1.x did not
            read it here, so it may be missing, with its whole section.
        lanes: Limits on the map elements.
    """

    other_agents_num: Annotated[
        ElementCount,
        Key("rows for other agents. `EgoAgentDatasetVectorized` and `AgentDatasetVectorized` put the AV first"),
    ]
    max_agents_distance_m: Annotated[
        Number, Key("largest distance of other agents", at="data_generation_params.max_agents_distance", unit="metres")
    ]
    order_agents_by_distance: Annotated[
        Flag,
        Key(
            "true: closest first, agents of the current frame before agents of past frames; false: in the order of a "
            "Python set of their ids, as in 1.5. New in 2.0",
            default=False,
        ),
    ]
    filter_agents_threshold: Annotated[Number, replace(_FILTER_AGENTS_THRESHOLD, default=0.5)]
    lanes: LaneParams
    has_route: Route
    route: RouteParams = field(default_factory=RouteParams)
    order_agents_by_route: Annotated[
        Flag,
        Key(
            "true: the chosen agents are sorted by relevance to the route: agents ahead in its lane, nearest first, "
            "then agents ahead next to it, nearest to it first, then agents behind; samples without a route keep the "
            "other order. Needs `model_params.route`. New in 2.0"
        ),
    ] = False

    def __post_init__(self) -> None:
        if self.order_agents_by_route and not self.has_route:
            raise ConfigError(
                "data_generation_params.order_agents_by_route: true needs the route; set model_params.route to true"
            )


@dataclass(frozen=True)
class LabelFilter(Params):
    """Threshold for counting an agent as a road user."""

    filter_agents_threshold: _FilterAgentsThreshold


@dataclass(frozen=True)
class LightParams(Params, section="raster_params"):
    """Whether samples contain traffic lights."""

    disable_traffic_light_faces: Annotated[
        Flag, Key("true: all lanes are drawn without traffic lights. Read anew for every sample")
    ]


RASTERIZERS: Final[tuple[type[RasterizerParams], ...]] = (
    SemanticWithBoxes,
    SatelliteWithBoxes,
    BoxesAlone,
    SemanticAlone,
    SatelliteAlone,
    StubParams,
)
"""Parameter classes of all map types, for the schema."""


def read_filter_agents_threshold(cfg: Config) -> float:
    """Return ``raster_params.filter_agents_threshold`` with its type in the configuration."""
    return LabelFilter.from_cfg(cfg).filter_agents_threshold


def read_disable_traffic_light_faces(cfg: Config) -> bool:
    """Return ``raster_params.disable_traffic_light_faces``, which users may change between samples."""
    try:
        value = cfg["raster_params"]["disable_traffic_light_faces"]
    except (KeyError, TypeError):
        value = None
    if value is True or value is False:
        return value
    return LightParams.from_cfg(cfg).disable_traffic_light_faces
