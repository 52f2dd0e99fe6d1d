"""Computation of the agents mask: number of frames before and after each agent row in which its track stays valid."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import (
    Float32Array,
    Float64Array,
    Int64Array,
    NumericArray,
    RecordArray,
    UInt8Array,
    UInt32Array,
)
from l5kit.data.filter import kept_probability
from l5kit.data.index.log_index import LogIndex, check_scenes
from l5kit.data.index.windows import read_only_field
from l5kit.data.jobs.scene_jobs import Workers, map_scenes
from l5kit.data.record_sequence import rows_of
from l5kit.data.records import AGENT_INTERVAL, FRAME_INTERVAL
from l5kit.data.stores.npy_files import release_pages
from l5kit.data.user_cache import scratch_array
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.kept_index import kept_end_rows
from l5kit.dataset.select_agents.thresholds import MIN_AREA_M2, MaskThresholds
from l5kit.errors import CorruptedDataError
from l5kit.geometry.relative_pose import turn_between

_DENSE_IDS_PER_ROW = 4


class RowVerdict(IntEnum):
    """Verdict of the mask on an agent row."""

    VALID = 0
    """The row continues the segment of its track, or starts the first one."""
    LABEL = 1
    """Rejected: the summed probability of the kept classes is not above the threshold."""
    AV_DISTANCE = 2
    """Rejected: too far from the AV."""
    HOLE = 3
    """The row starts a new segment: its track was not in the frame before."""
    YAW = 4
    """The row starts a new segment: the heading has jumped."""
    EXTENT = 5
    """The row starts a new segment: the size has jumped."""


_REPORT_KEYS = {
    RowVerdict.LABEL: "reject_th_agent_filter_probability_threshold",
    RowVerdict.AV_DISTANCE: "reject_th_AV_distance",
    RowVerdict.HOLE: "reject_th_hole",
    RowVerdict.YAW: "reject_th_yaw",
    RowVerdict.EXTENT: "reject_th_extent",
}


@dataclass(frozen=True)
class ValidAgents:
    """The mask of consecutive agent rows.

    Attributes:
        counts: (N, 2) uint32: valid frames of the track before and after each row; (0, 0) for rejected rows.
        verdicts: (N,) uint8, values of :class:`RowVerdict`.
        rows: First row and end row in the agents of the dataset.
    """

    counts: UInt32Array
    verdicts: UInt8Array
    rows: tuple[int, int]

    def report(self) -> Counter[str]:
        """Return the numbers of rows that were rejected or started a new segment, by reason, and the number of rows."""
        occurrences = np.bincount(self.verdicts, minlength=len(RowVerdict))
        report = Counter({key: int(occurrences[verdict]) for verdict, key in _REPORT_KEYS.items()})
        report["total_reject"] = int(occurrences.sum() - occurrences[RowVerdict.VALID])
        report["total_agent_frames"] = len(self.verdicts)
        return report


def get_valid_agents(
    frames_range: Sequence[int] | Int64Array,
    dataset: ChunkedDataset,
    th_agent_filter_probability_threshold: float,
    th_yaw_degree: float,
    th_extent_ratio: float,
    th_distance_av: float,
) -> tuple[UInt32Array, Counter[str], tuple[int, int]]:
    """Return the mask of the agents of one scene.

    Args:
        frames_range: First frame and end frame of the scene.
        dataset: An opened dataset.
        th_agent_filter_probability_threshold: Strict lower bound of the summed probability of the kept classes.
        th_yaw_degree: Strict upper bound of the change of heading between two frames, degrees.
        th_extent_ratio: Strict upper bound of the ratio of areas between two frames.
        th_distance_av: Strict upper bound of the distance to the AV, metres.

    Returns:
        Mask (N, 2) uint32, counts by reason of rejection, and the rows of the agents.
    """
    thresholds = MaskThresholds(th_agent_filter_probability_threshold, th_yaw_degree, th_extent_ratio, th_distance_av)
    valid = find_valid_agents(dataset, int(frames_range[0]), int(frames_range[1]), thresholds=thresholds)
    return valid.counts, valid.report(), valid.rows


def find_valid_agents(
    dataset: ChunkedDataset, first_frame: int, end_frame: int, *, thresholds: MaskThresholds
) -> ValidAgents:
    """Return the mask of the agents in frames [first_frame, end_frame) of one scene.

    Raises:
        CorruptedDataError: The agents of these frames are not successive rows.
    """
    frames = rows_of(dataset.frames, slice(first_frame, end_frame), strict=True)
    if len(frames) == 0:
        return ValidAgents(np.zeros((0, 2), np.uint32), np.zeros(0, np.uint8), (0, 0))
    intervals = frames[AGENT_INTERVAL]
    first_row, end_row = int(intervals[0, 0]), int(intervals[-1, 1])
    _check_intervals(intervals, first_frame, min(end_row, len(dataset.agents)))
    agents = rows_of(dataset.agents, slice(first_row, end_row), strict=True)

    # dense indices of tracks: ids in a narrow range are used as such, others are sorted
    frame_rows, agent_rows = _for_kernel(frames), _for_kernel(agents)
    track_ids = agent_rows["track_id"]
    lowest = track_ids.min()
    num_slots = int(track_ids.max()) - int(lowest) + 1
    if num_slots <= _DENSE_IDS_PER_ROW * len(track_ids):
        slots = (track_ids - lowest).astype(np.int64)
    else:
        unique_ids, inverse = np.unique(track_ids, return_inverse=True)
        slots, num_slots = inverse.astype(np.int64), len(unique_ids)

    # past and future frames of each row, and its verdict
    counts, verdicts = np.zeros((len(slots), 2), np.uint32), np.zeros(len(slots), np.uint8)
    _mark_rows_kernel(
        frame_rows[AGENT_INTERVAL] - first_row,
        read_only_field(frame_rows, "ego_translation"),
        (slots, num_slots),
        _AgentFields(
            probabilities=read_only_field(agent_rows, "label_probabilities"),
            centroids_m=read_only_field(agent_rows, "centroid"),
            yaws_rad=read_only_field(agent_rows, "yaw"),
            extents_m=read_only_field(agent_rows, "extent"),
        ),
        (
            np.float32(thresholds.probability),
            float(thresholds.distance_av_m),
            float(thresholds.yaw_degree),
            float(thresholds.extent_ratio),
        ),
        counts,
        verdicts,
    )
    return ValidAgents(counts[: len(agents)], verdicts[: len(agents)], (first_row, end_row))


def _for_kernel(records: RecordArray) -> RecordArray:
    """Return records for which the kernel is compiled only once, whatever their number and origin.

    They are read-only, and padded to at least two with empty records, which belong to no frame, as columns of a single
    record would be contiguous and so have a different array type.
    """
    missing = max(2 - len(records), 0)
    shown = np.concatenate([records, np.zeros(missing, records.dtype)]) if missing else records.view()
    shown.flags.writeable = False
    return shown


def compute_agents_mask(
    dataset: ChunkedDataset,
    thresholds: MaskThresholds,
    *,
    progress: Callable[[int, int], None] | None = None,
    workers: Workers = 1,
) -> tuple[UInt32Array, Counter[str]]:
    """Return the mask of all agents of a dataset, (N, 2) uint32, and the counts by reason.

    Args:
        dataset: An opened dataset.
        thresholds: Conditions for a valid row.
        progress: Called with the number of finished scenes and of all scenes.
        workers: Number of threads, or an executor; see :func:`~l5kit.data.jobs.scene_jobs.map_scenes`.

    Raises:
        CorruptedDataError: A scene is damaged.
    """
    mask, report, _ = compute_readable_mask(dataset, thresholds, progress=progress, strict=True, workers=workers)
    return mask, report


def compute_readable_mask(
    dataset: ChunkedDataset,
    thresholds: MaskThresholds,
    *,
    progress: Callable[[int, int], None] | None = None,
    strict: bool = False,
    workers: Workers = 1,
) -> tuple[UInt32Array, Counter[str], dict[int, CorruptedDataError]]:
    """Return the mask of all agents of a dataset, the counts by reason, and the damage of damaged scenes.

    The agents of damaged scenes are rejected.

    Args:
        dataset: An opened dataset.
        thresholds: Conditions for a valid row.
        progress: Called with the number of finished scenes and of all scenes.
        strict: Raise at the first damaged scene.
        workers: Number of threads, or an executor; the mask is the same.

    Raises:
        CorruptedDataError: The scenes cannot be read, or a scene is damaged and ``strict``.
    """
    mask = scratch_array((len(dataset.agents), 2), np.uint32)
    report: Counter[str] = Counter()
    errors: dict[int, CorruptedDataError] = {}
    is_whole = kept_end_rows(dataset) is not None  # known to be sound, so no index is needed
    index = None if is_whole else LogIndex.of(dataset).without_faces()
    scenes = check_scenes(dataset) if index is None else index.scenes
    is_sound = scenes.is_sound if index is None else index.is_scene_sound()
    unsound = np.flatnonzero(~is_sound).tolist()
    sound = np.flatnonzero(is_sound[: unsound[0] if strict and unsound else None])
    for made in map_scenes(_MaskOfScenes(dataset, thresholds), sound, workers, progress=progress):
        for scene, valid in made.items():
            if isinstance(valid, _MaskOfScene):
                mask[slice(*valid.rows)] = valid.counts
                report.update(valid.report)
                continue
            errors[scene] = valid
            if strict:
                raise valid
        release_pages(mask)
    for scene in unsound:
        errors[scene] = CorruptedDataError(index.explain_scene(scene) if index else scenes.explain(scene))
        if strict:
            raise errors[scene]
    return mask, report, dict(sorted(errors.items()))


@dataclass(frozen=True)
class _MaskOfScene:
    """The counts (N, 2) of consecutive agent rows, their first and end row, and the counts by reason.

    Counts have the smallest dtype that holds them, usually a byte, which shrinks messages of workers to a quarter.
    """

    counts: NumericArray
    rows: tuple[int, int]
    report: Counter[str]


@dataclass(frozen=True)
class _MaskOfScenes:
    """Masks of some sound scenes, by scene.

    Attributes:
        dataset: An opened dataset.
        thresholds: Conditions for a valid row.
    """

    dataset: ChunkedDataset
    thresholds: MaskThresholds

    def __call__(self, scenes: Int64Array) -> dict[int, _MaskOfScene | CorruptedDataError]:
        first = int(scenes.min())
        records = rows_of(self.dataset.scenes, slice(first, int(scenes.max()) + 1), strict=True)
        bounds = records[FRAME_INTERVAL][scenes - first].astype(np.int64)
        made: dict[int, _MaskOfScene | CorruptedDataError] = {}
        for scene, (first_frame, end_frame) in zip(scenes.tolist(), bounds.tolist(), strict=True):
            try:
                valid = find_valid_agents(self.dataset, first_frame, end_frame, thresholds=self.thresholds)
            except CorruptedDataError as error:
                made[scene] = error
                continue
            # the smallest dtype for sending between processes and threads
            smallest = np.min_scalar_type(int(valid.counts.max(initial=0)))
            made[scene] = _MaskOfScene(valid.counts.astype(smallest), valid.rows, valid.report())
        return made


def _check_intervals(intervals: Int64Array, first_frame: int, end_row: int) -> None:
    """Refuse intervals (F, 2) that are not consecutive up to ``end_row``; the kernel does not check them."""
    is_wrong = (intervals[:, 1] < intervals[:, 0]) | (intervals[:, 1] > end_row) | (intervals[:, 0] < 0)
    is_wrong[1:] |= intervals[1:, 0] != intervals[:-1, 1]
    if is_wrong.any():
        frame = int(np.argmax(is_wrong))
        raise CorruptedDataError(
            f"agent_index_interval {intervals[frame].tolist()} of frame {first_frame + frame} must start where that of "
            f"the previous frame ends, and end at row {end_row} at the latest; "
            "run l5kit validate on the dataset and restore it from its source"
        )


class _AgentFields(NamedTuple):
    """Columns of the records of N agents, as in ``AGENT_DTYPE``."""

    probabilities: Float32Array
    centroids_m: Float64Array
    yaws_rad: Float32Array
    extents_m: Float32Array


@kernel_jit
def _mark_rows_kernel(
    intervals: Int64Array,
    ego_translations_m: Float64Array,
    tracks: tuple[Int64Array, int],
    agents: _AgentFields,
    thresholds: tuple[np.float32, float, float, float],
    counts: UInt32Array,
    verdicts: UInt8Array,
) -> None:
    """Write the counts (N, 2) and verdicts (N,) of the rows of consecutive frames.

    ``tracks`` holds the track index of each row and the number of tracks; ``thresholds`` holds those of
    :class:`MaskThresholds`: probability, distance to the AV in metres, change of heading in degrees, ratio of areas.
    """
    slots, num_slots = tracks
    probabilities, centroids_m, yaws_rad, extents_m = agents
    th_probability, th_distance_m, th_yaw_degree, th_extent_ratio = thresholds
    previous = np.full(len(slots), -1, np.int64)
    newest = np.full((num_slots, 2), -1, np.int64)  # newest row of each track, and its frame
    for frame in range(len(intervals)):
        for row in range(intervals[frame, 0], intervals[frame, 1]):
            slot = slots[row]
            if not kept_probability(probabilities[row]) > th_probability:
                verdicts[row], newest[slot, 0] = RowVerdict.LABEL, -1
                continue
            # rejected rows end the segment of their track
            dx = ego_translations_m[frame, 0] - centroids_m[row, 0]
            dy = ego_translations_m[frame, 1] - centroids_m[row, 1]
            if not np.sqrt(dx * dx + dy * dy) < th_distance_m:
                verdicts[row], newest[slot, 0] = RowVerdict.AV_DISTANCE, -1
                continue
            # a row continues the segment of its track if it was in the previous frame, and has not jumped
            past = newest[slot, 0]
            if past >= 0:
                if frame != newest[slot, 1] + 1:
                    verdicts[row] = RowVerdict.HOLE
                elif not _yaw_change_degree(yaws_rad[row], yaws_rad[past]) < th_yaw_degree:
                    verdicts[row] = RowVerdict.YAW
                elif not _is_similar_size(
                    extents_m[row, 0] * extents_m[row, 1], extents_m[past, 0] * extents_m[past, 1], th_extent_ratio
                ):
                    verdicts[row] = RowVerdict.EXTENT
                else:
                    previous[row] = past
                    counts[row, 0] = counts[past, 0] + 1
            newest[slot, 0], newest[slot, 1] = row, frame

    # backwards, each row passes the number of its later frames to the previous row
    for row in range(len(slots) - 1, -1, -1):
        if previous[row] >= 0:
            counts[previous[row], 1] = counts[row, 1] + 1


@kernel_jit
def _yaw_change_degree(yaw_a: np.float32, yaw_b: np.float32) -> Any:
    """Return the angle between two headings in degrees, 0 to 180, in float64."""
    return np.degrees(turn_between(np.float64(yaw_a), np.float64(yaw_b)))


@kernel_jit
def _is_similar_size(area_a: np.float32, area_b: np.float32, th_ratio: float) -> bool | np.bool_:
    """Return whether the ratio of two areas is below the threshold; see ``in_extent_ratio``."""
    small, large = min(area_a, area_b), max(area_a, area_b)
    return not np.float64(small) < MIN_AREA_M2 and np.float64(large / small) < th_ratio
