"""The dataset that iterates over agents that can be trained on."""

from l5kit._types import Int64Array, JsonObject, NumericArray, Sample
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.base import checked_index
from l5kit.dataset.ego import EgoDataset
from l5kit.dataset.inclusion import AgentInclusion
from l5kit.dataset.kept_index import count_taken_before
from l5kit.dataset.masked_agents import MaskedAgentsDataset
from l5kit.dataset.sample_places import SamplePlaces
from l5kit.dataset.select_agents.valid_agents import RowVerdict, ValidAgents, find_valid_agents
from l5kit.dataset.utils import AGENT_MIN_FRAME_FUTURE, AGENT_MIN_FRAME_HISTORY
from l5kit.errors import InvalidArgumentError
from l5kit.kinematic.perturbation import Perturbation
from l5kit.rasterization.rasterizer import Rasterizer
from l5kit.rasterization.window_rasterizer import WindowRasterizer

MIN_FRAME_HISTORY = AGENT_MIN_FRAME_HISTORY
"""Name of ``AGENT_MIN_FRAME_HISTORY`` in releases before 1.5."""

MIN_FRAME_FUTURE = AGENT_MIN_FRAME_FUTURE
"""Name of ``AGENT_MIN_FRAME_FUTURE`` in releases before 1.5."""


class AgentDataset(MaskedAgentsDataset, EgoDataset):
    """Samples of agents with a picture, one per agent row that can be trained on.

    An agent row is taken if its track was valid in enough frames before and stays valid in enough after it, as the
    agents mask says (:mod:`l5kit.dataset.select_agents`).

    Args:
        cfg: Configuration with ``raster_params`` and ``model_params``.
        zarr_dataset: An opened dataset.
        rasterizer: Draws the pictures; None for samples without one.
        perturbation: Must be None; agents are not perturbed.
        agents_mask: The rows to take, bool or 0 and 1, (N,), in place of those of the agents mask; a
            ``RuntimeWarning`` is given. Rows that do not pass the label filter are left out, as there are no samples of
            them; another ``RuntimeWarning`` counts them.
        min_frame_history: Least number of valid frames before.
        min_frame_future: Least number of valid frames after.
        strict_mask: Take all rows of ``agents_mask``, whose probabilities are then not read: a sample of one that does
            not pass the label filter is a ``SampleError``.

    Attributes:
        agents_mask: The rows that are taken, bool (N,), read-only.
        agents_indices: Their row numbers, ascending.
        cumulative_sizes_agents: End agent row of each frame.
    """

    def __init__(
        self,
        cfg: JsonObject,
        zarr_dataset: ChunkedDataset,
        rasterizer: Rasterizer | WindowRasterizer | None,
        perturbation: Perturbation | None = None,
        agents_mask: NumericArray | None = None,
        min_frame_history: int = AGENT_MIN_FRAME_HISTORY,
        min_frame_future: int = AGENT_MIN_FRAME_FUTURE,
        *,
        strict_mask: bool = False,
    ) -> None:
        if perturbation is not None:
            raise InvalidArgumentError(f"AgentDataset takes no perturbation, got {perturbation!r}; pass None")
        super().__init__(cfg, zarr_dataset, rasterizer, perturbation)
        self._take_agents(
            agents_mask,
            min_frame_history=min_frame_history,
            min_frame_future=min_frame_future,
            strict_mask=strict_mask,
        )

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
