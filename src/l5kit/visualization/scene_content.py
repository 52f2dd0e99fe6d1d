"""One scene of a log as plain arrays, for whatever shows or records it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from l5kit._types import (
    BoolArray,
    Float32Array,
    Float64Array,
    Int32Array,
    Int64Array,
    NumericArray,
    RecordArray,
    UInt8Array,
)
from l5kit.data.filter import filter_tl_faces_by_frames
from l5kit.data.map_api import MapAPI
from l5kit.data.texts import shown_texts
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.inclusion import InclusionRule
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import RowVerdict, ValidAgents, find_valid_agents
from l5kit.dataset.utils import AGENT_MIN_FRAME_FUTURE, AGENT_MIN_FRAME_HISTORY
from l5kit.errors import CorruptedDataError
from l5kit.visualization.controlled_lanes import ControlledLanes

__all__ = ["MASK_RULE", "AgentRows", "LaneLightRows", "SceneContent", "read_scene_content"]

MASK_RULE = InclusionRule(MaskThresholds(0.5), AGENT_MIN_FRAME_HISTORY, AGENT_MIN_FRAME_FUTURE, has_custom_mask=False)
"""Which agents are told to be in the agents mask: those that ``AgentDataset`` takes with the usual configuration."""


@dataclass(frozen=True)
class AgentRows:
    """The N agent rows of a scene of F frames, one frame after the other.

    Attributes:
        starts: First row of each frame and the end of the last one, int32, shape (F + 1,).
        track_ids: uint64, shape (N,).
        centroids_m: World x and y, float64, shape (N, 2).
        yaws_rad: World heading, counter-clockwise from x, float32, shape (N,).
        extents_m: Length, width and height, float32, shape (N, 3).
        velocities_mps: World x and y, float32, shape (N, 2).
        label_probabilities: Of each of ``PERCEPTION_LABELS``, float32, shape (N, 17).
        is_in_mask: Whether :data:`MASK_RULE` takes the row, bool, shape (N,).
        reasons: Why rows are or are not in the mask, each text once.
        reason_indices: Which of ``reasons`` holds for each row, int32, shape (N,).
    """

    starts: Int32Array
    track_ids: NumericArray
    centroids_m: Float64Array
    yaws_rad: Float32Array
    extents_m: Float32Array
    velocities_mps: Float32Array
    label_probabilities: Float32Array
    is_in_mask: BoolArray
    reasons: tuple[str, ...]
    reason_indices: Int32Array

    def __post_init__(self) -> None:
        _require_rows(self, int(self.starts[-1]), ("starts", "reasons"))

    @property
    def labels(self) -> Int64Array:
        """Most probable of ``PERCEPTION_LABELS`` of each row, shape (N,)."""
        labels: Int64Array = self.label_probabilities.argmax(axis=1)
        return labels

    def rows_of(self, frame_index: int) -> slice:
        """Return the rows of one frame, counted in the scene."""
        return slice(int(self.starts[frame_index]), int(self.starts[frame_index + 1]))


@dataclass(frozen=True)
class LaneLightRows:
    """The lanes that show a colour in each of F frames, one frame after the other; M rows.

    Attributes:
        starts: First row of each frame and the end of the last one, int32, shape (F + 1,).
        lanes: Rows of ``bounds_info["lanes"]`` of the map, int32, shape (M,).
        colors: Indices of ``LIGHT_COLORS`` (green, yellow, red), uint8, shape (M,).
    """

    starts: Int32Array
    lanes: Int32Array
    colors: UInt8Array

    def __post_init__(self) -> None:
        _require_rows(self, int(self.starts[-1]), ("starts",))

    def rows_of(self, frame_index: int) -> slice:
        """Return the rows of one frame, counted in the scene."""
        return slice(int(self.starts[frame_index]), int(self.starts[frame_index + 1]))


@dataclass(frozen=True)
class SceneContent:
    """A scene of F frames; all positions and headings are in the world frame.

    Attributes:
        scene_index: Number of the scene in the dataset.
        host: The car that recorded it.
        timestamps_ns: int64, shape (F,).
        ego_positions_m: x, y and z of the AV, float64, shape (F, 3).
        ego_yaws_rad: Heading of the AV, counter-clockwise from x, float64, shape (F,).
        ego_speeds_mps: Ground speed of the AV from its positions (central differences), float64, shape (F,); 0 for a
            single frame.
        agents: The agents.
        lights: The lanes that show a colour; none without a map.
    """

    scene_index: int
    host: str
    timestamps_ns: Int64Array
    ego_positions_m: Float64Array
    ego_yaws_rad: Float64Array
    ego_speeds_mps: Float64Array
    agents: AgentRows
    lights: LaneLightRows

    def __post_init__(self) -> None:
        _require_rows(self, self.num_frames, ("scene_index", "host", "agents", "lights"))

    @property
    def num_frames(self) -> int:
        """Number of frames, F."""
        return len(self.timestamps_ns)

    @property
    def times_s(self) -> Float64Array:
        """Seconds since the first frame, shape (F,)."""
        seconds: Float64Array = (self.timestamps_ns - self.timestamps_ns[0]) * 1e-9
        return seconds


def read_scene_content(
    dataset: ChunkedDataset, scene_index: int, *, map_api: MapAPI | None, controlled: ControlledLanes | None = None
) -> SceneContent:
    """Return one scene of a log.

    Args:
        dataset: An opened dataset.
        scene_index: The scene; negative counts from the end.
        map_api: The map, for the lights of lanes; None leaves them out.
        controlled: The lanes of that map, if they are there already.

    Raises:
        InvalidArgumentError: There is no such scene.
        CorruptedDataError: A file of the scene is damaged or missing, its intervals are wrong, or it has no frame.
    """
    scene = dataset.get_scene_dataset(scene_index)
    frames = np.asarray(scene.frames)
    if len(frames) == 0:
        raise CorruptedDataError(f"scene {scene_index} has no frame; l5kit validate lists what is wrong in the dataset")
    if map_api is not None and controlled is None:
        controlled = ControlledLanes(map_api)
    timestamps_ns = frames["timestamp"].astype(np.int64)
    positions_m = frames["ego_translation"].astype(np.float64)
    rotations = frames["ego_rotation"].astype(np.float64)
    return SceneContent(
        scene_index=int(scene_index) % len(dataset.scenes),
        host=shown_texts(scene.scenes["host"])[0],
        timestamps_ns=timestamps_ns,
        ego_positions_m=positions_m,
        ego_yaws_rad=np.arctan2(rotations[:, 1, 0], rotations[:, 0, 0]),
        ego_speeds_mps=_speeds_mps(positions_m[:, :2], timestamps_ns),
        agents=_agent_rows(scene, frames),
        lights=_light_rows(frames, scene.tl_faces, controlled),
    )


def _agent_rows(scene: ChunkedDataset, frames: RecordArray) -> AgentRows:
    valid = find_valid_agents(scene, 0, len(frames), thresholds=MASK_RULE.thresholds)  # checks the intervals as well
    agents = np.asarray(scene.agents)
    is_in_mask, reasons, reason_indices = _explain(valid)
    return AgentRows(
        starts=np.concatenate([[0], frames["agent_index_interval"][:, 1]]).astype(np.int32),
        track_ids=agents["track_id"].astype(np.uint64),
        centroids_m=agents["centroid"].astype(np.float64),
        yaws_rad=agents["yaw"].astype(np.float32),
        extents_m=agents["extent"].astype(np.float32),
        velocities_mps=agents["velocity"].astype(np.float32),
        label_probabilities=agents["label_probabilities"].astype(np.float32),
        is_in_mask=is_in_mask,
        reasons=reasons,
        reason_indices=reason_indices,
    )


def _explain(valid: ValidAgents) -> tuple[BoolArray, tuple[str, ...], Int32Array]:
    """Return which rows are in the mask, the texts why, and the text of each row."""
    if len(valid.verdicts) == 0:
        return np.zeros(0, np.bool_), (), np.zeros(0, np.int32)
    cases, case_of_row = np.unique(np.column_stack([valid.verdicts, valid.counts]), axis=0, return_inverse=True)
    texts: dict[str, int] = {}
    is_taken, text_of_case = np.zeros(len(cases), np.bool_), np.zeros(len(cases), np.int32)
    for index, (verdict, past, future) in enumerate(cases.tolist()):
        is_taken[index] = MASK_RULE.takes(RowVerdict(verdict), past, future)
        reason = MASK_RULE.explain(RowVerdict(verdict), past, future, is_included=bool(is_taken[index]))
        text_of_case[index] = texts.setdefault(reason, len(texts))
    case_of_row = case_of_row.reshape(-1)
    return is_taken[case_of_row], tuple(texts), text_of_case[case_of_row]


def _light_rows(frames: RecordArray, tl_faces: RecordArray, controlled: ControlledLanes | None) -> LaneLightRows:
    if controlled is None:
        nothing = np.zeros(0)
        return LaneLightRows(np.zeros(len(frames) + 1, np.int32), nothing.astype(np.int32), nothing.astype(np.uint8))
    by_frame = [controlled.ranks_by_lane(faces) for faces in filter_tl_faces_by_frames(frames, tl_faces)]
    return LaneLightRows(
        starts=np.cumsum([0, *map(len, by_frame)]).astype(np.int32),
        lanes=np.array([lane for ranks in by_frame for lane in ranks], dtype=np.int32),
        colors=np.array([rank for ranks in by_frame for rank in ranks.values()], dtype=np.uint8),
    )


def _speeds_mps(positions_m: Float64Array, timestamps_ns: Int64Array) -> Float64Array:
    """Return the speeds along positions (F, 2): central differences, one-sided ones at the ends."""
    if len(positions_m) < 2:
        return np.zeros(len(positions_m))
    before = np.maximum(np.arange(len(positions_m)) - 1, 0)
    after = np.minimum(np.arange(len(positions_m)) + 1, len(positions_m) - 1)
    seconds = (timestamps_ns[after] - timestamps_ns[before]) * 1e-9
    with np.errstate(over="ignore", invalid="ignore"):  # what is damaged becomes infinite or NaN
        distances_m = np.linalg.norm(positions_m[after] - positions_m[before], axis=1)
        speeds_mps: Float64Array = np.divide(distances_m, seconds, out=np.zeros_like(distances_m), where=seconds > 0)
    return speeds_mps


def _require_rows(rows: object, num_rows: int, others: Sequence[str]) -> None:
    """Refuse arrays of another length; ``others`` are the fields that have lengths of their own."""
    lengths = {name: len(values) for name, values in vars(rows).items() if name not in others}
    if wrong := {name: length for name, length in lengths.items() if length != num_rows}:
        raise CorruptedDataError(f"a scene needs {num_rows} rows in each array, got {wrong}")
