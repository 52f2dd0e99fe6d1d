"""Reasons why an agent of a frame is, or is not, in a dataset."""

from dataclasses import dataclass

from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import RowVerdict


@dataclass(frozen=True)
class AgentInclusion:
    """Reasons why an agent of a frame is, or is not, in a dataset.

    Attributes:
        track_id: The track.
        agent_index: Its row of the agents.
        dataset_index: Its index in the dataset; None if it is not in it.
        reason: What decided, in words.
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
    """The rule by which a dataset takes an agent row or leaves it out.

    Attributes:
        thresholds: Those of the agents mask.
        min_frame_history: Least number of valid frames before.
        min_frame_future: Least number of valid frames after.
        has_custom_mask: Whether the user's mask decides alone.
    """

    thresholds: MaskThresholds
    min_frame_history: int
    min_frame_future: int
    has_custom_mask: bool

    @property
    def takes_isolated_rows(self) -> bool:
        """Whether no neighbours are needed, so that (0, 0) in the agents mask does not tell who is taken."""
        return self.min_frame_history <= 0 and self.min_frame_future <= 0

    def explain(
        self, verdict: RowVerdict, past: int, future: int, *, is_included: bool, is_left_out: bool = False
    ) -> str:
        """Return in words why a row is taken or left out.

        Args:
            verdict: What the computation of the agents mask says of the row.
            past: Valid frames of its track before it.
            future: Valid frames after it.
            is_included: Whether the dataset takes it.
            is_left_out: Whether the user's mask takes it and the dataset does not, as there is no sample of it.
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
        """Return whether a row is taken if the agents mask is the one of ``thresholds``; arguments as above."""
        if self.takes_isolated_rows:
            return verdict != RowVerdict.LABEL
        return past >= self.min_frame_history and future >= self.min_frame_future


_START_OF_SEGMENT = {
    RowVerdict.HOLE: "; its track was not seen in the frame before",
    RowVerdict.YAW: "; its heading has just jumped",
    RowVerdict.EXTENT: "; its size has just jumped",
}
