"""What datasets have in common that know which agent rows can be trained on."""

import operator
import warnings
import zlib
from typing import Any, Self

import numpy as np

from l5kit._types import BoolArray, Int64Array, UInt32Array
from l5kit.configs.parameters import read_filter_agents_threshold
from l5kit.data.filter import _get_label_filter
from l5kit.data.record_sequence import RecordSequence, blocks_of, column_of
from l5kit.dataset.base import BaseEgoDataset, checked_index
from l5kit.dataset.inclusion import InclusionRule
from l5kit.dataset.mask_cache import load_or_compute_mask
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.utils import AGENT_MIN_FRAME_FUTURE, AGENT_MIN_FRAME_HISTORY
from l5kit.errors import InvalidArgumentError


class MaskedAgentsDataset(BaseEgoDataset):
    """Base of the datasets that take some of the agent rows; a subclass calls ``_take_agents`` in its constructor.

    Attributes:
        agents_mask: The rows that are taken, bool (N,), read-only.
        agents_indices: Their row numbers, ascending.
        cumulative_sizes_agents: End agent row of each frame.
    """

    @property
    def mask_indices(self) -> Int64Array:
        """For each agent row its index in this dataset, or -1, (N,)."""
        indices = np.full(len(self.agents_mask), -1, dtype=np.int64)
        indices[self.agents_indices] = np.arange(len(self.agents_indices))
        return indices

    def load_agents_mask(self) -> UInt32Array:
        """Return the agents mask of the log for the configured probability, (N, 2) uint32.

        It holds, for each agent row, the valid frames of its track before and after. It is read from the dataset or the
        cache folder where it is there, else computed, with a ``RuntimeWarning``.
        """
        return load_or_compute_mask(self.dataset, MaskThresholds(read_filter_agents_threshold(self.cfg)))

    def get_scene_dataset(self, scene_index: int) -> Self:
        """Return a dataset of the same class over a copy of one scene in memory, with the same agents of it.

        Raises:
            ValueError: There is no such scene.
        """
        scene = self.dataset.get_scene_dataset(scene_index)
        first_frame = self._first_frame(int(scene_index) % len(self.dataset.scenes))
        first_row = self._first_row(first_frame)
        other = self._over(scene)
        other._select(self.agents_mask[first_row : first_row + len(scene.agents)].copy())
        return other

    def get_scene_agent_indices(self, scene_idx: int) -> Int64Array:
        """Return the running numbers of the agent rows of a scene among those taken; negative counts from the end.

        Raises:
            InvalidArgumentError: There is no such scene.
        """
        scene_index = checked_index("scene_idx", scene_idx, len(self.cumulative_sizes))
        return self._indices_of_frames(self._first_frame(scene_index), int(self.cumulative_sizes[scene_index]))

    def get_frame_agent_indices(self, frame_idx: int) -> Int64Array:
        """Return the running numbers of the agent rows of a frame among those taken; negative counts from the end.

        Raises:
            InvalidArgumentError: There is no such frame.
        """
        frame_index = checked_index("frame_idx", frame_idx, len(self.dataset.frames))
        return self._indices_of_frames(frame_index, frame_index + 1)

    def _take_agents(self, agents_mask: BoolArray | None, *, min_frame_history: int, min_frame_future: int) -> None:
        """Take the rows of a user's mask, or those with enough valid frames before and after."""
        self.min_frame_history = operator.index(min_frame_history)
        self.min_frame_future = operator.index(min_frame_future)
        self._rule = InclusionRule(
            MaskThresholds(read_filter_agents_threshold(self.cfg)),
            min_frame_history,
            min_frame_future,
            agents_mask is not None,
        )
        if agents_mask is not None:
            _require_row_mask(agents_mask, len(self.dataset.agents))
            _warn("a custom agents_mask is used; min_frame_history and min_frame_future have no effect")
            self._select(np.array(agents_mask))
            return
        for name, minimum, usual in (
            ("min_frame_history", min_frame_history, AGENT_MIN_FRAME_HISTORY),
            ("min_frame_future", min_frame_future, AGENT_MIN_FRAME_FUTURE),
        ):
            if minimum != usual:
                _warn(f"{name} is {minimum}; the usual value is {usual}")
        self._select(self._mask_of_minima())

    def _indices_of_frames(self, first_frame: int, end_frame: int) -> Int64Array:
        end_row = int(self.cumulative_sizes_agents[end_frame - 1]) if end_frame > 0 else 0
        bounds = np.searchsorted(self.agents_indices, [self._first_row(first_frame), end_row])
        return np.arange(bounds[0], bounds[1], dtype=np.int64)

    def _first_frame(self, scene_index: int) -> int:
        return int(self.cumulative_sizes[scene_index - 1]) if scene_index > 0 else 0

    def _first_row(self, frame_index: int) -> int:
        return int(self.cumulative_sizes_agents[frame_index - 1]) if frame_index > 0 else 0

    def _mask_of_minima(self) -> BoolArray:
        """Return the rows with enough valid frames before and after, bool (N,)."""
        counts = self.load_agents_mask()
        mask: BoolArray = (counts[:, 0] >= self.min_frame_history) & (counts[:, 1] >= self.min_frame_future)
        if self._rule.takes_isolated_rows:
            # (0, 0) stands for a rejected row as well as for a valid one without neighbours
            threshold = self._rule.thresholds.probability
            for start, rows in blocks_of(self.dataset.agents):
                mask[start : start + len(rows)] &= _get_label_filter(rows["label_probabilities"], threshold)
        return mask

    def _select(self, mask: BoolArray) -> None:
        """Take the rows of a mask."""
        mask.setflags(write=False)
        self.agents_mask = mask
        self.agents_indices: Int64Array = np.flatnonzero(mask)
        self.cumulative_sizes_agents: Int64Array = np.ascontiguousarray(
            column_of(self.dataset.frames, "agent_index_interval", strict=True)[:, 1]
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what another process can read from files; a mask that it cannot find there is packed."""
        state = super().__getstate__()
        for name in ("agents_mask", "agents_indices", "cumulative_sizes_agents"):
            del state[name]
        if not self._can_read_mask_again():
            state["_packed_mask"] = zlib.compress(np.packbits(self.agents_mask).tobytes(), level=1)
        return state

    def _can_read_mask_again(self) -> bool:
        has_same_threshold = read_filter_agents_threshold(self.cfg) == self._rule.thresholds.probability
        return not self._rule.has_custom_mask and has_same_threshold and isinstance(self.dataset.agents, RecordSequence)

    def __setstate__(self, state: dict[str, Any]) -> None:
        packed = state.pop("_packed_mask", None)
        super().__setstate__(state)
        if packed is None:
            self._select(self._mask_of_minima())
        else:
            bits = np.frombuffer(zlib.decompress(packed), dtype=np.uint8)
            self._select(np.unpackbits(bits, count=len(self.dataset.agents)).astype(np.bool_))


def _require_row_mask(mask: Any, num_agents: int) -> None:
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (num_agents,):
        found = f"{mask.dtype} of shape {mask.shape}" if isinstance(mask, np.ndarray) else type(mask).__name__
        raise InvalidArgumentError(
            f"agents_mask must be a bool array of shape ({num_agents},), one value per agent row, got {found}"
        )


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=4)
