"""Agent slots: agents of episodes that somebody drives, as records that rasters and vectors are made of."""

import numpy as np

from l5kit._types import Int64Array, RecordArray
from l5kit.data.record_bytes import as_bytes, join_records
from l5kit.data.records import AGENT_INTERVAL
from l5kit.environment.traffic.traffic_slots import DrivenRows


class AgentSlots:
    """Agents of N episodes: those of the log, but for frames in which somebody drives.

    The rows of an episode lie together, in the order of its frames; a frame whose agents have changed gets new rows
    behind them.

    Args:
        frames: Frames of all episodes, whose intervals name rows here, ``FRAME_DTYPE``, (N F,).
        num_slots: N.
        empty: No agents, ``AGENT_DTYPE``, (0,).

    Attributes:
        agents: The rows of all episodes, with some that are not in use, ``AGENT_DTYPE``. Take them anew after each
            change: the array is replaced by a larger one when it is full.
    """

    def __init__(self, frames: RecordArray, num_slots: int, empty: RecordArray) -> None:
        self.agents: RecordArray = np.zeros(0, empty.dtype)
        self._frames, self._num_slots = frames, num_slots
        self._room = 0
        self._counts: Int64Array = np.zeros(num_slots, np.int64)

    def start(self, slot: int, rows: slice, intervals: Int64Array, agents: RecordArray) -> None:
        """Begin an episode.

        Args:
            slot: Which one.
            rows: Its frames.
            intervals: Rows of their agents in the log, (F, 2).
            agents: These agents, one frame after the other.
        """
        self._counts[slot] = 0
        self._make_room(2 * len(agents))
        self._frames[AGENT_INTERVAL][rows] = intervals - intervals[:1, :1] + self._put(slot, agents)

    def replace(self, slot: int, row: int, driven: DrivenRows, part: slice) -> None:
        """Give a frame the agents of the log, those that are driven where they are now, and without the hidden ones.

        Args:
            slot: The episode.
            row: The frame.
            driven: Who is driven or hidden.
            part: Those of this episode.
        """
        # those of the log but for the hidden ones, and those who are driven on though the log has lost them, whose rows
        # come from the frame before
        now, before = (self._agents_of(each) for each in (row, row - 1))
        ids, is_hidden = driven.track_ids[part], driven.is_hidden[part]
        kept = now[~np.isin(now["track_id"], ids[is_hidden])]
        is_there = np.isin(ids, kept["track_id"]) | is_hidden
        added = before[np.isin(before["track_id"], ids[~is_there])]
        agents = join_records([kept, added])

        # the driven ones where they are now
        order = np.argsort(agents["track_id"])
        rows = order[np.searchsorted(agents["track_id"], ids[~is_hidden], sorter=order)]
        poses = driven.poses[part][~is_hidden]
        agents["centroid"][rows], agents["yaw"][rows] = poses[:, :2], poses[:, 2]
        agents["velocity"][rows] = driven.velocities_mps[part][~is_hidden]
        begin = self._put(slot, agents)
        self._frames[AGENT_INTERVAL][row] = begin, begin + len(agents)

    def of_frame(self, row: int) -> RecordArray:
        """Return the agents of a frame, a copy."""
        return self._agents_of(row)

    def _agents_of(self, row: int) -> RecordArray:
        begin, end = self._frames[AGENT_INTERVAL][row].tolist()
        copied: RecordArray = as_bytes(self.agents)[begin:end].copy().view(self.agents.dtype)
        return copied

    def _put(self, slot: int, agents: RecordArray) -> int:
        """Write agents behind the others of an episode, and return the row of the first."""
        self._make_room(int(self._counts[slot]) + len(agents))
        begin = slot * self._room + int(self._counts[slot])
        as_bytes(self.agents)[begin : begin + len(agents)] = as_bytes(agents)
        self._counts[slot] += len(agents)
        return begin

    def _make_room(self, needed: int) -> None:
        """See to it that each episode has room for so many rows."""
        if needed <= self._room:
            return
        # all episodes move apart, by half as much again at least, and intervals with them
        room = max(needed, self._room + self._room // 2)
        grown = np.zeros(self._num_slots * room, self.agents.dtype)
        num_frames = len(self._frames) // self._num_slots
        for slot in range(self._num_slots):
            count, old, new = int(self._counts[slot]), slot * self._room, slot * room
            as_bytes(grown)[new : new + count] = as_bytes(self.agents)[old : old + count]
            frames = slice(slot * num_frames, (slot + 1) * num_frames)
            self._frames[AGENT_INTERVAL][frames] += new - old
        self.agents, self._room = grown, room
