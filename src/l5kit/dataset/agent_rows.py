"""The base of the datasets with one sample for each agent row that can be trained on."""

from l5kit._types import Int64Array, Sample
from l5kit.dataset.base import checked_index
from l5kit.dataset.inclusion import AgentInclusion
from l5kit.dataset.kept_index import count_taken_before
from l5kit.dataset.masked_agents import MaskedAgentsDataset
from l5kit.dataset.sample_places import SamplePlaces
from l5kit.dataset.select_agents.valid_agents import RowVerdict, ValidAgents, find_valid_agents


class AgentRowsDataset(MaskedAgentsDataset):
    """Base of the datasets with one sample for each agent row that is taken, in the order of the log.

    Attributes:
        agents_mask: The rows that are taken, bool (N,), read-only.
        agents_indices: Their row numbers, ascending.
        cumulative_sizes_agents: End agent row of each frame.
    """

    def __len__(self) -> int:
        return len(self.agents_indices)

    def __getitem__(self, index: int) -> Sample:
        """Return the sample of an agent in a frame.

        Args:
            index: Running number of the agent row among those taken; negative counts from the end.

        Raises:
            IndexError: There is no such agent row.
            SampleError: The sample cannot be made; the cause is chained.
        """
        return self._make_item(index, *self._locate_item(index))

    def _place_of(self, position: int) -> tuple[int, int, int | None]:
        row = self._taken_rows.one_at(position)
        return *self._locate_frame(self._frame_of_row(row)), row

    def locate(self, positions: Int64Array) -> SamplePlaces:
        """Return where the samples at positions (B,) of this dataset lie in the log; see the base class."""
        rows = self._taken_rows.at(positions)
        return self._places_of_frames(self._frames_of_rows(rows), rows)

    def get_scene_indices(self, scene_idx: int) -> Int64Array:
        """Return the indices of this dataset that belong to a scene; negative counts from the end.

        Raises:
            InvalidArgumentError: There is no such scene.
        """
        return self.get_scene_agent_indices(scene_idx)

    def scene_starts(self) -> Int64Array | None:
        """Return the first index of each scene, and behind the last one, (S + 1,); None if the log is damaged."""
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
        """Return, for all agents of a frame, whether the dataset has a sample of it, and why or why not.

        Args:
            frame_idx: The frame, counted in the log; negative counts from the end.

        Raises:
            CorruptedDataError: The frame, or its scene, is damaged.
            InvalidArgumentError: There is no such frame.
        """
        frame_index = checked_index("frame_idx", frame_idx, len(self.dataset.frames))
        scene_index, _ = self._locate_frame(frame_index)
        frames = self._frames_of_scene(scene_index)
        valid = find_valid_agents(self.dataset, *frames, thresholds=self._rule.thresholds)
        return [self._explain_row(row, valid) for row in range(*self._rows_of_frames(frame_index, frame_index + 1))]

    def _explain_row(self, row: int, valid: ValidAgents) -> AgentInclusion:
        index = self._taken_rows.search_one(row) if self.agents_mask[row] else None
        in_scene = row - valid.rows[0]
        past, future = valid.counts[in_scene].tolist()
        reason = self._rule.explain(
            RowVerdict(valid.verdicts[in_scene]),
            past,
            future,
            is_included=index is not None,
            is_left_out=bool(self._is_left_out(slice(row, row + 1))[0]),
        )
        return AgentInclusion(self._track_of_row(row), row, index, reason)
