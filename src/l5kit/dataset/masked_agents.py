"""Datasets of selected agent rows, and the reasons for the selection."""

import contextlib
import itertools
import operator
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from l5kit._overriding import overrides_package
from l5kit._types import BoolArray, Int64Array, NumericArray, UInt8Array, UInt32Array
from l5kit._warning import warn_caller
from l5kit.configs.parameters import read_filter_agents_threshold
from l5kit.data.filter import _get_label_filter
from l5kit.data.record_sequence import RecordSequence, column_of, rows_of
from l5kit.data.records import AGENT_INTERVAL
from l5kit.data.stores.npy_files import release_pages
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.base import BaseEgoDataset, checked_index
from l5kit.dataset.kept_index import (
    ROWS_AT_ONCE,
    AscendingNumbers,
    TakenRows,
    count_taken_before,
    keep_taken_rows,
    kept_end_rows,
)
from l5kit.dataset.mask_cache import mask_and_whether_kept
from l5kit.dataset.sample_indices import SampleIndices
from l5kit.dataset.select_agents.stored_mask import stored_mask_signature
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import RowVerdict, find_valid_agents
from l5kit.dataset.utils import AGENT_MIN_FRAME_FUTURE, AGENT_MIN_FRAME_HISTORY
from l5kit.errors import CorruptedDataError, InvalidArgumentError

_ROWS_READ_TOGETHER = 4_096
"""Span of rows that are read in one go if some are needed: smaller than a chunk, so no chunk is read in vain."""


@dataclass(frozen=True)
class AgentInclusion:
    """Whether an agent of a frame is in a dataset, and the reason.

    Attributes:
        track_id: The track.
        agent_index: Its row in the agents of the log.
        dataset_index: Its index in the dataset; None if it is not included.
        reason: The reason, in words.
    """

    track_id: int
    agent_index: int
    dataset_index: int | None
    reason: str

    @property
    def is_included(self) -> bool:
        """Whether the dataset has a sample of this agent in this frame."""
        return self.dataset_index is not None


@dataclass(frozen=True)
class InclusionRule:
    """Rule by which a dataset selects agent rows.

    Attributes:
        thresholds: Those of the agents mask.
        min_frame_history: Minimum number of valid frames before the sample.
        min_frame_future: Minimum number of valid frames after the sample.
        has_custom_mask: Whether a user's mask replaces these conditions.
    """

    thresholds: MaskThresholds
    min_frame_history: int
    min_frame_future: int
    has_custom_mask: bool

    @property
    def takes_isolated_rows(self) -> bool:
        """Whether no neighbours are needed, so that (0, 0) in the agents mask is ambiguous."""
        return self.min_frame_history <= 0 and self.min_frame_future <= 0

    def explain(
        self, verdict: RowVerdict, past: int, future: int, *, is_included: bool, is_left_out: bool = False
    ) -> str:
        """Return in words why a row is selected or not.

        Args:
            verdict: Verdict on the row in the computation of the agents mask.
            past: Valid frames of its track before it.
            future: Valid frames after it.
            is_included: Whether the dataset selects it.
            is_left_out: Whether the user's mask selects it, but the dataset dropped it because it has no sample.
        """
        if is_left_out:
            return f"the custom agents_mask takes it, but there is no sample of it: {self._not_a_road_user}"
        if self.has_custom_mask:
            return f"the custom agents_mask {'takes it' if is_included else 'leaves it out'}"
        if self.takes(verdict, past, future) != is_included:
            return f"the agents mask stored in the dataset {'takes it' if is_included else 'leaves it out'}"
        if verdict == RowVerdict.LABEL:
            return self._not_a_road_user
        if verdict == RowVerdict.AV_DISTANCE and not is_included:
            return f"not within {self.thresholds.distance_av_m} m of the AV"
        seen = f"valid in {past} frames before and {future} after"
        needed = f"{self.min_frame_history} and {self.min_frame_future} are needed"
        return f"{seen}; {needed}" + ("" if is_included else _START_OF_SEGMENT.get(verdict, ""))

    @property
    def _not_a_road_user(self) -> str:
        return f"not a road user: summed probability of the kept classes is not above {self.thresholds.probability}"

    def takes(self, verdict: RowVerdict, past: int, future: int) -> bool:
        """Return whether the agents mask of ``thresholds`` selects a row; arguments as for :meth:`explain`."""
        if self.takes_isolated_rows:
            return verdict != RowVerdict.LABEL
        return past >= self.min_frame_history and future >= self.min_frame_future


_START_OF_SEGMENT = {
    RowVerdict.HOLE: "; its track was not seen in the frame before",
    RowVerdict.YAW: "; its heading has just jumped",
    RowVerdict.EXTENT: "; its size has just jumped",
}


class MaskedAgentsDataset(BaseEgoDataset):
    """Base of the datasets of selected agent rows; a subclass calls ``_take_agents`` in its constructor.

    Attributes:
        agents_mask: Selected rows, bool (N,), read-only.
        agents_indices: Their row numbers, ascending.
        cumulative_sizes_agents: End agent row of each frame.
    """

    _left_out_bits: UInt8Array | None = None
    """Dropped rows of a user's mask, packed, ((N + 7) // 8,); None if there are none."""

    _is_mask_kept: bool = True
    """Whether another process finds the same mask on disk; false if it was computed and could not be cached."""

    _taken_lookup: AscendingNumbers | None = None
    """Lookup in ``agents_indices``."""

    _end_lookup: AscendingNumbers | None = None
    """Lookup in ``cumulative_sizes_agents``."""

    @property
    def mask_indices(self) -> Int64Array:
        """Index in this dataset for each agent row, or -1, (N,)."""
        indices = np.full(len(self.agents_mask), -1, dtype=np.int64)
        indices[self.agents_indices] = np.arange(len(self.agents_indices))
        return indices

    def load_agents_mask(self) -> UInt32Array:
        """Return the agents mask of the log for the configured probability, (N, 2) uint32.

        It holds the numbers of valid frames of the track before and after each agent row. It is read from the dataset
        or the cache folder if possible, otherwise computed, with a ``RuntimeWarning``.
        """
        thresholds = MaskThresholds(read_filter_agents_threshold(self.cfg))
        mask, is_kept = mask_and_whether_kept(self.dataset, thresholds)
        self._is_mask_kept = self._is_mask_kept and is_kept
        return mask

    def _over_scene(self, scene: ChunkedDataset, scene_index: int) -> Self:
        """Return a copy of this object that reads one of its scenes, with the same selected agents."""
        frames = self._log.frames_of(int(scene_index) % len(self.dataset.scenes), self.cumulative_sizes)
        rows = slice(*self._rows_of_frames(*frames))
        other = super()._over_scene(scene, scene_index)
        other._select(self.agents_mask[rows].copy())
        other._left_out_bits = np.packbits(self._is_left_out(rows)) if self._left_out_bits is not None else None
        return other

    def get_scene_agent_indices(self, scene_idx: int) -> Int64Array:
        """Return the indices of the selected agent rows of a scene; negative counts from the end.

        Raises:
            InvalidArgumentError: There is no such scene.
        """
        scene_index = checked_index("scene_idx", scene_idx, len(self.cumulative_sizes))
        return self._indices_of_frames(*self._log.frames_of(scene_index, self.cumulative_sizes))

    def get_frame_agent_indices(self, frame_idx: int) -> Int64Array:
        """Return the indices of the selected agent rows of a frame; negative counts from the end.

        Raises:
            InvalidArgumentError: There is no such frame.
        """
        frame_index = checked_index("frame_idx", frame_idx, len(self.dataset.frames))
        return self._indices_of_frames(frame_index, frame_index + 1)

    def passes_label_filter(self, rows: Int64Array) -> BoolArray:
        """Return which agent rows are road users and so have samples, (n,).

        Samples apply the same filter. A subclass with samples of other rows must return True for them, too. Unreadable
        rows pass: their samples raise errors that name the damaged file.

        Args:
            rows: Row numbers, ascending, (n,).
        """
        passes = np.ones(len(rows), np.bool_)
        borders = np.flatnonzero(np.diff(rows // _ROWS_READ_TOGETHER)) + 1
        for start, stop in itertools.pairwise([0, *borders.tolist(), len(rows)] if len(rows) else []):
            # read nearby rows together, including those in between
            near = rows[start:stop]
            with contextlib.suppress(CorruptedDataError):
                read = rows_of(self.dataset.agents, slice(int(near[0]), int(near[-1]) + 1), strict=True)
                labels = read["label_probabilities"][near - near[0]]
                passes[start:stop] = _get_label_filter(labels, self._rule.thresholds.probability)
        return passes

    def _take_agents(
        self, agents_mask: NumericArray | None, *, min_frame_history: int, min_frame_future: int, strict_mask: bool
    ) -> None:
        """Select the rows of a user's mask, or those with enough valid frames before and after."""
        self.min_frame_history = operator.index(min_frame_history)
        self.min_frame_future = operator.index(min_frame_future)
        self._rule = InclusionRule(
            MaskThresholds(read_filter_agents_threshold(self.cfg)),
            min_frame_history,
            min_frame_future,
            agents_mask is not None,
        )
        if agents_mask is not None:
            # refuse values other than 0 and 1: row numbers may have the right length by accident
            num_agents = len(self.dataset.agents)
            wanted = f"agents_mask must be a bool array of shape ({num_agents},), one value per agent row"
            is_array = isinstance(agents_mask, np.ndarray)
            if not is_array or agents_mask.dtype.kind not in "biu" or agents_mask.shape != (num_agents,):
                got = f"{agents_mask.dtype} of shape {agents_mask.shape}" if is_array else type(agents_mask).__name__
                raise InvalidArgumentError(f"{wanted}, got {got}")
            mask = agents_mask.astype(np.bool_)
            if agents_mask.dtype != np.bool_ and (is_other := agents_mask != mask).any():
                row = int(np.argmax(is_other))
                raise InvalidArgumentError(
                    f"{wanted}, or integers 0 and 1, got {agents_mask[row]} in row {row}; convert row numbers to a "
                    f"mask with mask = np.zeros({num_agents}, bool); mask[row_numbers] = True"
                )
            warn_caller("a custom agents_mask is used; min_frame_history and min_frame_future have no effect")
            # rows that fail the label filter have no samples
            rows = np.flatnonzero(mask)
            left_out = rows[:0] if strict_mask else rows[~self.passes_label_filter(rows)]
            num_left_out = len(left_out)
            if num_left_out:
                mask_of_them = np.zeros(len(mask), np.bool_)
                mask_of_them[left_out] = True
                self._left_out_bits = np.packbits(mask_of_them)
                mask[left_out] = False
                warn_caller(
                    f"{num_left_out} of the {num_left_out + np.count_nonzero(mask)} rows of agents_mask are left out: "
                    "the summed probability of their kept classes is not above filter_agents_threshold, "
                    f"{self._rule.thresholds.probability}, so they have no samples. Indices count the remaining "
                    "rows; strict_mask=True keeps all rows, and samples of these raise errors"
                )
            self._select(mask)
            return
        for name, minimum, usual in (
            ("min_frame_history", min_frame_history, AGENT_MIN_FRAME_HISTORY),
            ("min_frame_future", min_frame_future, AGENT_MIN_FRAME_FUTURE),
        ):
            if minimum != usual:
                warn_caller(f"{name} is {minimum}; the usual value is {usual}")
        kept = self._kept_rows()
        self._take(kept) if kept else self._select(self._mask_of_minima())

    def _indices_of_frames(self, first_frame: int, end_frame: int) -> Int64Array:
        bounds = self._taken_rows.search(np.array(self._rows_of_frames(first_frame, end_frame)))
        return np.arange(bounds[0], bounds[1], dtype=np.int64)

    def _rows_of_frames(self, first_frame: int, end_frame: int) -> tuple[int, int]:
        """Return first row and end row of the agents of successive frames.

        Raises:
            CorruptedDataError: One of the frames is damaged.
        """
        damage = self._log.damage
        if damage is not None:
            damage.require_frames(np.array([first_frame]), np.array([end_frame]))
            bounds = damage.frames.bounds[first_frame:end_frame]
            return (int(bounds[0, 0]), int(bounds[-1, 1])) if len(bounds) else (0, 0)
        start, stop = self._first_rows_of(np.array([first_frame, end_frame])).tolist()
        return start, stop

    def _first_rows_of(self, frames: Int64Array) -> Int64Array:
        """Return the first agent row of each frame (B,) or later, for an undamaged log."""
        rows = np.zeros(len(frames), np.int64)
        is_later = frames > 0
        rows[is_later] = self._end_rows.at(frames[is_later] - 1)
        return rows

    @property
    def _taken_rows(self) -> AscendingNumbers:
        return _looked_up(self.agents_indices, self._taken_lookup)

    @property
    def _end_rows(self) -> AscendingNumbers:
        return _looked_up(self.cumulative_sizes_agents, self._end_lookup)

    def _mask_of_minima(self) -> BoolArray:
        """Return the rows with enough valid frames before and after, bool (N,)."""
        return self._mask_of_counts(self.load_agents_mask(), 0)

    def _mask_of_counts(self, counts: NumericArray, first_row: int) -> BoolArray:
        """Return which rows from ``first_row`` on have enough valid frames, (n,), given their agents mask (n, 2)."""
        mask: BoolArray = (counts[:, 0] >= self.min_frame_history) & (counts[:, 1] >= self.min_frame_future)
        if self._rule.takes_isolated_rows:
            # (0, 0) means a rejected row as well as a valid one without neighbours
            rows = np.flatnonzero(mask)
            mask[rows[~self.passes_label_filter(first_row + rows)]] = False
        return mask

    def _kept_rows(self) -> TakenRows | None:
        """Return the cached rows with enough valid frames before and after; None without a cache."""
        thresholds = self._rule.thresholds
        key = (
            sorted(thresholds.as_attributes().items()),
            (self.min_frame_history, self.min_frame_future),
            stored_mask_signature(self.dataset, thresholds),
        )
        # a user's subclass may change the selection, which is not part of the cache key
        if overrides_package(self, "load_agents_mask", "passes_label_filter", package="l5kit.dataset"):
            return None

        def mask_blocks() -> Iterator[BoolArray] | None:
            counts = self.load_agents_mask()
            if not self._is_mask_kept:
                return None
            starts = range(0, len(counts), ROWS_AT_ONCE)
            return (self._mask_of_counts(_copied(counts, start), start) for start in starts)

        return keep_taken_rows(self.dataset, key, mask_blocks)

    def _is_left_out(self, rows: slice) -> BoolArray:
        """Return which of successive agent rows were dropped from a user's mask."""
        if self._left_out_bits is None:
            return np.zeros(rows.stop - rows.start, np.bool_)
        first_byte, end_byte = rows.start // 8, -(-rows.stop // 8)
        bits = np.unpackbits(self._left_out_bits[first_byte:end_byte])
        return bits[rows.start - 8 * first_byte :][: rows.stop - rows.start].astype(np.bool_)

    def _select(self, mask: BoolArray) -> None:
        """Select the rows of a mask."""
        mask.setflags(write=False)
        self._take(TakenRows(mask, AscendingNumbers(np.flatnonzero(mask))))

    def _take(self, taken: TakenRows) -> None:
        self.agents_mask, self.agents_indices = taken.mask, taken.indices.array
        self._taken_lookup = taken.indices
        damage = self._log.damage
        kept = kept_end_rows(self.dataset) if damage is None else None
        if kept is None:
            frames = self.dataset.frames
            bounds = column_of(frames, AGENT_INTERVAL, strict=True) if damage is None else damage.frames.bounds
            kept = AscendingNumbers(np.ascontiguousarray(bounds[:, 1]))
        self._end_lookup = kept
        self.cumulative_sizes_agents: Int64Array = kept.array

    def __getstate__(self) -> dict[str, object]:
        """Return the state without arrays that another process can read from files; any other mask is packed."""
        state = super().__getstate__()
        for name in ("agents_mask", "agents_indices", "cumulative_sizes_agents"):
            del state[name]
        for name in ("_taken_lookup", "_end_lookup"):
            state.pop(name, None)
        has_same_threshold = read_filter_agents_threshold(self.cfg) == self._rule.thresholds.probability
        is_on_disk = self._is_mask_kept and isinstance(self.dataset.agents, RecordSequence)
        if self._rule.has_custom_mask or not has_same_threshold or not is_on_disk:
            state["_packed_mask"] = zlib.compress(np.packbits(self.agents_mask).tobytes(), level=1)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        packed = state.pop("_packed_mask", None)
        super().__setstate__(state)
        if packed is None:
            kept = self._kept_rows()
            self._take(kept) if kept else self._select(self._mask_of_minima())
        else:
            bits = np.frombuffer(zlib.decompress(packed), dtype=np.uint8)
            self._select(np.unpackbits(bits, count=len(self.dataset.agents)).astype(np.bool_))


def _looked_up(array: Int64Array, kept: AscendingNumbers | None) -> AscendingNumbers:
    """Return the lookup in an array, which a user may have replaced."""
    return kept if kept is not None and kept.array is array else AscendingNumbers(array)


def _copied(counts: NumericArray, start: int) -> NumericArray:
    """Return a copy of a block of an agents mask, without keeping its pages in this process."""
    block = np.array(counts[start : start + ROWS_AT_ONCE])
    release_pages(counts)
    return block


class AgentRowsDataset(MaskedAgentsDataset):
    """Base of the datasets with one sample for each selected agent row, in the order of the log.

    Attributes:
        agents_mask: Selected rows, bool (N,), read-only.
        agents_indices: Their row numbers, ascending.
        cumulative_sizes_agents: End agent row of each frame.
    """

    def __len__(self) -> int:
        return len(self.agents_indices)

    def locate(self, positions: Int64Array) -> SampleIndices:
        """Return where the samples at indices (B,) of this dataset are in the log; see the base class."""
        rows = self._taken_rows.at(positions)
        damage = self._log.damage
        frames = self._end_rows.search(rows, "right") if damage is None else damage.find_frames(rows)
        return self._log.locate(frames, self.cumulative_sizes, rows)

    def get_scene_indices(self, scene_idx: int) -> Int64Array:
        """Return the indices of this dataset that belong to a scene; negative counts from the end.

        Raises:
            InvalidArgumentError: There is no such scene.
        """
        return self.get_scene_agent_indices(scene_idx)

    def scene_starts(self) -> Int64Array | None:
        """Return the first index of each scene and the end of the last one, (S + 1,); None if the log is damaged."""
        frames = super().scene_starts()
        if frames is None:
            return None
        rows, taken = self._first_rows_of(frames), self._taken_rows
        return count_taken_before(self.agents_mask, rows) if taken.is_read_in_pieces else taken.search(rows)

    def get_frame_indices(self, frame_idx: int) -> Int64Array:
        """Return the indices of this dataset that belong to a frame of the log; negative counts from the end.

        Raises:
            InvalidArgumentError: There is no such frame.
        """
        return self.get_frame_agent_indices(frame_idx)

    def explain_frame(self, frame_idx: int) -> list[AgentInclusion]:
        """Return whether the dataset has a sample of each agent of a frame, and why.

        Args:
            frame_idx: The frame, counted in the log; negative counts from the end.

        Raises:
            CorruptedDataError: The frame, or its scene, is damaged.
            InvalidArgumentError: There is no such frame.
        """
        frame_index = checked_index("frame_idx", frame_idx, len(self.dataset.frames))
        located = self._log.locate(np.array([frame_index]), self.cumulative_sizes)
        frames = self._log.frames_of(int(located.scene_indices[0]), self.cumulative_sizes)
        valid = find_valid_agents(self.dataset, *frames, thresholds=self._rule.thresholds)

        # reasons come from a newly computed mask of the scene, the selection from the mask in use
        first, end = self._rows_of_frames(frame_index, frame_index + 1)
        rows = np.arange(first, end)
        track_ids = rows_of(self.dataset.agents, slice(first, end), strict=True)["track_id"].tolist()
        indices, is_left_out = self._taken_rows.search(rows).tolist(), self._is_left_out(slice(first, end)).tolist()
        agents = []
        for row, track_id, index, left_out in zip(rows.tolist(), track_ids, indices, is_left_out, strict=True):
            is_included, in_scene = bool(self.agents_mask[row]), row - valid.rows[0]
            reason = self._rule.explain(
                RowVerdict(valid.verdicts[in_scene]),
                *valid.counts[in_scene].tolist(),
                is_included=is_included,
                is_left_out=left_out,
            )
            agents.append(AgentInclusion(track_id, row, index if is_included else None, reason))
        return agents
