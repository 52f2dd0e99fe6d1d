"""Frozen parameters that constructors make once from a configuration dict.

Each class reads only the keys it needs; other keys are ignored, since configurations of L5Kit 1.x carry many.
A missing or ill-typed key raises :class:`l5kit.errors.ConfigError`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from l5kit.configs.reading import Section

SEMANTIC_MAP_TYPES = ("py_semantic", "semantic_debug")
SATELLITE_MAP_TYPES = ("py_satellite", "satellite_debug")
BOX_MAP_TYPES = ("py_semantic", "py_satellite", "box_debug")
MAP_TYPES = ("py_semantic", "semantic_debug", "py_satellite", "satellite_debug", "box_debug", "stub_debug")
IMAGE_DTYPES = ("float32", "uint8")
OUT_OF_BOUNDS_MODES = ("error", "pad")

MAX_RASTER_SIDE_PX = 16_384
"""Pixels along a side of a raster; one channel of a square that large takes a gigabyte."""

MAX_NUM_FRAMES = 100_000
"""Frames of a sample before or after the current one, and frames of a step: nearly three hours at 10 a second."""

MAX_NUM_ELEMENTS = 10_000
"""Agents, lanes, crosswalks, and points of each, in a vector sample."""


@dataclass(frozen=True)
class RasterGeometry:
    """Size, scale and orientation of a raster.

    Attributes:
        raster_size_px: Width (columns) and height (rows).
        pixel_size_m: Metres per pixel along columns and rows.
        center_in_raster_ratio: Where the agent of interest sits, as fractions of width and height.
        set_origin_to_bottom: Whether the left side of the agent is up in the raster (else down).
    """

    raster_size_px: tuple[int, int]
    pixel_size_m: tuple[float, float]
    center_in_raster_ratio: tuple[float, float]
    set_origin_to_bottom: bool

    @classmethod
    def from_cfg(cls, cfg: Mapping[str, Any]) -> "RasterGeometry":
        """Read the four geometry keys of ``raster_params``."""
        section = Section.of(cfg, "raster_params")
        return cls(
            raster_size_px=section.integer_pair("raster_size", minimum=1, maximum=MAX_RASTER_SIDE_PX),
            pixel_size_m=section.number_pair("pixel_size", above=0.0),
            center_in_raster_ratio=section.number_pair("ego_center"),
            set_origin_to_bottom=section.boolean("set_origin_to_bottom"),
        )


@dataclass(frozen=True)
class RasterizerParams:
    """What a rasterizer of one map type is built from; what its map type does not need is None.

    Attributes:
        geometry: Size, scale and orientation of the raster.
        map_type: One of :data:`MAP_TYPES`.
        filter_agents_threshold: Strict lower bound of the summed probability of the classes that are drawn.
        history_num_frames: Past frames that are drawn.
        render_ego_history: Whether past boxes of the agent of interest are drawn.
        semantic_map_key: Path of the semantic map relative to the data folder.
        satellite_map_key: Path of the aerial picture relative to the data folder.
        dataset_meta_key: Path of meta.json relative to the data folder.
        solid_boxes: Whether overlapping boxes are filled (L5Kit 1.x leaves holes where they overlap).
        image_dtype: ``float32`` (0 to 1) or ``uint8`` (0 to 255).
        satellite_out_of_bounds: ``error`` or ``pad`` (with black) for crops that leave the aerial picture.
    """

    geometry: RasterGeometry
    map_type: str
    filter_agents_threshold: float | None
    history_num_frames: int | None
    render_ego_history: bool | None
    semantic_map_key: str | None
    satellite_map_key: str | None
    dataset_meta_key: str | None
    solid_boxes: bool = False
    image_dtype: str = "float32"
    satellite_out_of_bounds: str = "error"

    @classmethod
    def from_cfg(cls, cfg: Mapping[str, Any]) -> "RasterizerParams":
        """Read what the map type of the configuration needs.

        Raises:
            UnsupportedConfigError: ``raster_params.map_type`` is none of :data:`MAP_TYPES`, whatever its type.
            ConfigError: A needed key is missing or of the wrong type.
        """
        raster = Section.of(cfg, "raster_params")
        map_type = raster.variant("map_type", allowed=MAP_TYPES)
        has_boxes, is_semantic = map_type in BOX_MAP_TYPES, map_type in SEMANTIC_MAP_TYPES
        is_satellite = map_type in SATELLITE_MAP_TYPES
        model = Section.of(cfg, "model_params") if has_boxes else None
        return cls(
            geometry=RasterGeometry.from_cfg(cfg),
            map_type=map_type,
            filter_agents_threshold=raster.number("filter_agents_threshold") if has_boxes else None,
            history_num_frames=_history_num_frames(model) if model else None,
            render_ego_history=model.boolean("render_ego_history") if model else None,
            semantic_map_key=raster.path("semantic_map_key") if is_semantic else None,
            satellite_map_key=raster.path("satellite_map_key") if is_satellite else None,
            dataset_meta_key=raster.path("dataset_meta_key") if is_semantic or is_satellite else None,
            solid_boxes=raster.boolean("solid_boxes", default=False),
            image_dtype=raster.text("image_dtype", allowed=IMAGE_DTYPES, default="float32"),
            satellite_out_of_bounds=raster.text(
                "satellite_out_of_bounds", allowed=OUT_OF_BOUNDS_MODES, default="error"
            ),
        )


@dataclass(frozen=True)
class SamplingParams:
    """How a sample is cut out of a scene.

    Attributes:
        history_num_frames: Past steps, the current frame not counted.
        future_num_frames: Future steps.
        step_time_s: Time between two recorded frames.
        history_step_size: Recorded frames per past step.
        future_step_size: Recorded frames per future step.
        filter_agents_threshold: Strict lower bound of the summed probability of the kept classes.
    """

    history_num_frames: int
    future_num_frames: int
    step_time_s: float
    history_step_size: int
    future_step_size: int
    filter_agents_threshold: float

    @classmethod
    def from_cfg(cls, cfg: Mapping[str, Any]) -> "SamplingParams":
        """Read the keys of ``model_params`` and ``raster_params`` that EgoDataset and AgentDataset need."""
        model = Section.of(cfg, "model_params")
        return cls(
            history_num_frames=_history_num_frames(model),
            future_num_frames=model.integer("future_num_frames", minimum=0, maximum=MAX_NUM_FRAMES),
            step_time_s=model.number("step_time", above=0.0),
            history_step_size=model.integer("history_step_size", minimum=1, maximum=MAX_NUM_FRAMES, default=1),
            future_step_size=model.integer("future_step_size", minimum=1, maximum=MAX_NUM_FRAMES, default=1),
            filter_agents_threshold=read_filter_agents_threshold(cfg),
        )


@dataclass(frozen=True)
class VectorSamplingParams:
    """How a vector sample is cut out of a scene.

    Attributes:
        history_num_frames_ego: Past steps of the target that are kept, the current frame not counted.
        history_num_frames_agents: Past steps of other agents that are kept.
        future_num_frames: Future steps.
        step_time_s: Time between two recorded frames.
        history_step_size: Recorded frames per past step.
        future_step_size: Recorded frames per future step.
        filter_agents_threshold: Strict lower bound of the summed probability of the kept classes, for the target.
        speed_from_history: Whether ``speed`` is that of the past step; else that of the future one, as in L5Kit 1.x.
    """

    history_num_frames_ego: int
    history_num_frames_agents: int
    future_num_frames: int
    step_time_s: float
    history_step_size: int
    future_step_size: int
    filter_agents_threshold: float
    speed_from_history: bool = False

    @property
    def history_num_frames(self) -> int:
        """Past steps in all arrays; what is not kept is zero."""
        return max(self.history_num_frames_ego, self.history_num_frames_agents)

    @classmethod
    def from_cfg(cls, cfg: Mapping[str, Any]) -> "VectorSamplingParams":
        """Read the keys of ``model_params`` and ``raster_params`` that the vector datasets need."""
        model = Section.of(cfg, "model_params")
        return cls(
            history_num_frames_ego=model.integer("history_num_frames_ego", minimum=0, maximum=MAX_NUM_FRAMES),
            history_num_frames_agents=model.integer("history_num_frames_agents", minimum=0, maximum=MAX_NUM_FRAMES),
            future_num_frames=model.integer("future_num_frames", minimum=0, maximum=MAX_NUM_FRAMES),
            step_time_s=model.number("step_time", above=0.0),
            history_step_size=model.integer("history_step_size", minimum=1, maximum=MAX_NUM_FRAMES, default=1),
            future_step_size=model.integer("future_step_size", minimum=1, maximum=MAX_NUM_FRAMES, default=1),
            filter_agents_threshold=read_filter_agents_threshold(cfg),
            speed_from_history=model.boolean("speed_from_history", default=False),
        )


@dataclass(frozen=True)
class LaneParams:
    """How much of the map is in a vector sample.

    Attributes:
        max_num_lanes: Lanes, closest first.
        max_points_per_lane: Points of each boundary and midline, at least 2.
        max_points_per_crosswalk: Vertices of each crosswalk.
        max_retrieval_distance_m: How far around the target elements are looked for, and points are available.
        max_num_crosswalks: Crosswalks, in the order of the map file.
    """

    max_num_lanes: int
    max_points_per_lane: int
    max_points_per_crosswalk: int
    max_retrieval_distance_m: float
    max_num_crosswalks: int

    @classmethod
    def from_section(cls, section: Section) -> "LaneParams":
        """Read ``data_generation_params.lane_params``."""
        return cls(
            max_num_lanes=section.integer("max_num_lanes", minimum=0, maximum=MAX_NUM_ELEMENTS),
            max_points_per_lane=section.integer("max_points_per_lane", minimum=2, maximum=MAX_NUM_ELEMENTS),
            max_points_per_crosswalk=section.integer("max_points_per_crosswalk", minimum=0, maximum=MAX_NUM_ELEMENTS),
            max_retrieval_distance_m=section.number("max_retrieval_distance_m", above=0.0),
            max_num_crosswalks=section.integer("max_num_crosswalks", minimum=0, maximum=MAX_NUM_ELEMENTS),
        )


@dataclass(frozen=True)
class VectorizerParams:
    """What a vectorizer puts into a sample.

    Attributes:
        history_num_frames_ego: Past steps of the target, the current frame not counted.
        history_num_frames_agents: Past steps of other agents that are kept.
        future_num_frames: Future steps.
        other_agents_num: Rows for other agents.
        max_agents_distance_m: Strict upper bound of their distance from the target.
        order_agents_by_distance: Whether they come closest first; else in the order of L5Kit 1.x.
        filter_agents_threshold: Strict lower bound of the summed probability of the kept classes.
        lanes: How much of the map.
    """

    history_num_frames_ego: int
    history_num_frames_agents: int
    future_num_frames: int
    other_agents_num: int
    max_agents_distance_m: float
    order_agents_by_distance: bool
    filter_agents_threshold: float
    lanes: LaneParams

    @property
    def history_num_frames(self) -> int:
        """Past steps in all arrays; what is not kept is zero."""
        return max(self.history_num_frames_ego, self.history_num_frames_agents)

    @classmethod
    def from_cfg(cls, cfg: Mapping[str, Any]) -> "VectorizerParams":
        """Read ``model_params``, ``data_generation_params`` and ``raster_params.filter_agents_threshold``.

        The last one may be missing, as L5Kit 1.x did not read it here: it is 0.5 then.
        """
        model, generation = Section.of(cfg, "model_params"), Section.of(cfg, "data_generation_params")
        raster = Section.of(cfg, "raster_params") if "raster_params" in cfg else Section("raster_params", {})
        return cls(
            history_num_frames_ego=model.integer("history_num_frames_ego", minimum=0, maximum=MAX_NUM_FRAMES),
            history_num_frames_agents=model.integer("history_num_frames_agents", minimum=0, maximum=MAX_NUM_FRAMES),
            future_num_frames=model.integer("future_num_frames", minimum=0, maximum=MAX_NUM_FRAMES),
            other_agents_num=generation.integer("other_agents_num", minimum=0, maximum=MAX_NUM_ELEMENTS),
            max_agents_distance_m=generation.number("max_agents_distance"),
            order_agents_by_distance=generation.boolean("order_agents_by_distance", default=False),
            filter_agents_threshold=raster.number("filter_agents_threshold", default=0.5),
            lanes=LaneParams.from_section(generation.section("lane_params")),
        )


@dataclass(frozen=True)
class MapKeys:
    """Where the semantic map and meta.json lie, relative to the data folder."""

    semantic_map_key: str
    dataset_meta_key: str

    @classmethod
    def from_cfg(cls, cfg: Mapping[str, Any]) -> "MapKeys":
        """Read both keys of ``raster_params``."""
        section = Section.of(cfg, "raster_params")
        return cls(section.path("semantic_map_key"), section.path("dataset_meta_key"))


def read_filter_agents_threshold(cfg: Mapping[str, Any]) -> float:
    """Return ``raster_params.filter_agents_threshold`` in the type it has in the configuration."""
    return Section.of(cfg, "raster_params").number("filter_agents_threshold")


def read_disable_traffic_light_faces(cfg: Mapping[str, Any]) -> bool:
    """Return ``raster_params.disable_traffic_light_faces``; it is read for every sample, as users change it."""
    try:
        value = cfg["raster_params"]["disable_traffic_light_faces"]
    except (KeyError, TypeError):
        value = None
    if value is True or value is False:
        return value
    return Section.of(cfg, "raster_params").boolean("disable_traffic_light_faces")


__all__ = [
    "BOX_MAP_TYPES",
    "IMAGE_DTYPES",
    "MAP_TYPES",
    "OUT_OF_BOUNDS_MODES",
    "SATELLITE_MAP_TYPES",
    "SEMANTIC_MAP_TYPES",
    "LaneParams",
    "MapKeys",
    "RasterGeometry",
    "RasterizerParams",
    "SamplingParams",
    "VectorSamplingParams",
    "VectorizerParams",
    "read_disable_traffic_light_faces",
    "read_filter_agents_threshold",
]


def _history_num_frames(model: Section) -> int:
    return model.integer("history_num_frames", minimum=0, maximum=MAX_NUM_FRAMES)
