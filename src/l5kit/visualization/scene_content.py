"""One scene of a log as plain arrays, with its agents mask and lane lights, for viewers and recordings."""

from dataclasses import dataclass, fields

import numpy as np

from l5kit._types import BoolArray, Int32Array, RecordArray, UInt8Array
from l5kit.data.filter import filter_tl_faces_by_frames
from l5kit.data.log_facts import LogFacts
from l5kit.data.map.api import MapAPI
from l5kit.data.scene_arrays import SceneArrays, require_rows
from l5kit.data.scene_records import SceneRecords
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.masked_agents import InclusionRule
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import RowVerdict, find_valid_agents
from l5kit.dataset.utils import AGENT_MIN_FRAME_FUTURE, AGENT_MIN_FRAME_HISTORY
from l5kit.errors import CorruptedDataError
from l5kit.visualization.controlled_lanes import ControlledLanes

MASK_RULE = InclusionRule(MaskThresholds(0.5), AGENT_MIN_FRAME_HISTORY, AGENT_MIN_FRAME_FUTURE, has_custom_mask=False)
"""Rule for the displayed agents mask: the agents of an ``AgentDataset`` with the usual configuration."""


@dataclass(frozen=True)
class MaskVerdicts:
    """Whether and why :data:`MASK_RULE` includes each of the N agent rows of a scene.

    Attributes:
        is_in_mask: Whether the row is in the mask, bool, shape (N,).
        reasons: Distinct reasons for rows being in the mask or not.
        reason_indices: Index in ``reasons`` for each row, int32, shape (N,).
    """

    is_in_mask: BoolArray
    reasons: tuple[str, ...]
    reason_indices: Int32Array

    def __post_init__(self) -> None:
        require_rows(self, len(self.is_in_mask), ("reasons",))


@dataclass(frozen=True)
class LaneLightRows:
    """Lanes with a lit colour in each of F frames, frame by frame; M rows.

    Attributes:
        starts: First row of each frame and the end of the last one, int32, shape (F + 1,).
        lanes: Rows of ``bounds_info["lanes"]`` of the map, int32, shape (M,).
        colors: Indices of ``LIGHT_COLORS`` (green, yellow, red), uint8, shape (M,).
    """

    starts: Int32Array
    lanes: Int32Array
    colors: UInt8Array

    def __post_init__(self) -> None:
        require_rows(self, int(self.starts[-1]), ("starts",))

    @classmethod
    def of_faces(
        cls, controlled: ControlledLanes | None, frames: RecordArray, tl_faces: RecordArray
    ) -> "LaneLightRows":
        """Return the lanes that the faces of frames control; without a map there are none."""
        lit: list[dict[int, int]] = [{} for _ in frames]
        if controlled is not None:
            lit = [controlled.ranks_by_lane(faces) for faces in filter_tl_faces_by_frames(frames, tl_faces)]
        return cls(
            starts=np.cumsum([0, *map(len, lit)]).astype(np.int32),
            lanes=np.array([lane for ranks in lit for lane in ranks], dtype=np.int32),
            colors=np.array([rank for ranks in lit for rank in ranks.values()], dtype=np.uint8),
        )

    def rows_of(self, frame_index: int) -> slice:
        """Return the rows of a frame of the scene."""
        return slice(int(self.starts[frame_index]), int(self.starts[frame_index + 1]))


@dataclass(frozen=True, kw_only=True)
class SceneContent(SceneArrays):
    """A scene with additional arrays for its display.

    Attributes:
        scene_index: Index of the scene in the dataset.
        facts: Properties of the whole log, such as the size of the AV.
        mask: Membership of agents in the agents mask.
        lights: Lanes with a lit colour; none without a map.
    """

    scene_index: int
    facts: LogFacts
    mask: MaskVerdicts
    lights: LaneLightRows


def read_scene_content(
    dataset: ChunkedDataset, scene_index: int, *, map_api: MapAPI | None, controlled: ControlledLanes | None = None
) -> SceneContent:
    """Return one scene of a log.

    Args:
        dataset: An opened dataset.
        scene_index: Index of the scene; negative values count from the end.
        map_api: The map, for lane lights; None for no lights.
        controlled: The controlled lanes of this map, if known.

    Raises:
        InvalidArgumentError: There is no such scene.
        CorruptedDataError: A file of the scene is damaged or missing, its intervals are wrong, or it has no frames.
    """
    scene = dataset.get_scene_dataset(scene_index)
    frames = np.asarray(scene.frames)
    if len(frames) == 0:
        raise CorruptedDataError(f"scene {scene_index} has no frames; l5kit validate lists all defects of the dataset")
    if map_api is not None and controlled is None:
        controlled = ControlledLanes(map_api.arrays)
    valid = find_valid_agents(scene, 0, len(frames), thresholds=MASK_RULE.thresholds)  # also checks the intervals
    arrays = SceneArrays.of_records(SceneRecords.of_scene_dataset(scene))

    # Rows with the same verdict and counts have the same reason, so a text is made once for each such case.
    cases, case_of_row = np.unique(np.column_stack([valid.verdicts, valid.counts]), axis=0, return_inverse=True)
    texts: dict[str, int] = {}
    is_taken, text_of_case = np.zeros(len(cases), np.bool_), np.zeros(len(cases), np.int32)
    for index, (verdict, past, future) in enumerate(cases.tolist()):
        is_taken[index] = MASK_RULE.takes(RowVerdict(verdict), past, future)
        reason = MASK_RULE.explain(RowVerdict(verdict), past, future, is_included=bool(is_taken[index]))
        text_of_case[index] = texts.setdefault(reason, len(texts))
    case_of_row = case_of_row.reshape(-1)
    return SceneContent(
        **{field.name: getattr(arrays, field.name) for field in fields(arrays)},
        scene_index=int(scene_index) % len(dataset.scenes),
        facts=dataset.facts,
        mask=MaskVerdicts(is_taken[case_of_row], tuple(texts), text_of_case[case_of_row]),
        lights=LaneLightRows.of_faces(controlled, frames, scene.tl_faces),
    )
