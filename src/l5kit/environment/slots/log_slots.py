"""Slots of a log: episodes that go on at the same time, whose AVs are moved and whose agents are replayed."""

from dataclasses import replace

import numpy as np

from l5kit._types import Float64Array, Int64Array, RecordArray
from l5kit.configs.parameters import read_disable_traffic_light_faces
from l5kit.data.record_bytes import as_bytes, join_records
from l5kit.data.record_sequence import rows_of
from l5kit.data.records import AGENT_INTERVAL, FRAME_INTERVAL, SCENE_DTYPE
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.sample_indices import LogArrays, SampleIndices
from l5kit.environment.traffic.traffic_slots import DrivenRows
from l5kit.geometry.transform import rotations33_as_yaws, yaws_as_rotations33
from l5kit.lanes.routes import FollowedRoutes
from l5kit.sampling.sample_columns import ColumnMemory, SampleColumns


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
        now, before = (self.of_frame(each) for each in (row, row - 1))
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


class LogSlots:
    """Episodes of N environments over one log.

    Frames are copied, and agents and lights are read from the log itself, so that an episode begins in no time.

    Args:
        dataset: Makes the samples of what is seen.
        num_slots: Number of environments, N.
        num_frames: Frames of the longest episode, F.

    Attributes:
        recorded: World x, y and heading of the AVs as logged, float64 (N, F, 3).
    """

    def __init__(self, dataset: BaseEgoDataset, num_slots: int, num_frames: int) -> None:
        log = dataset.dataset
        self.dataset, self._num_frames = dataset, num_frames
        self.recorded: Float64Array = np.zeros((num_slots, num_frames, 3))
        self._frames = np.zeros(num_slots * num_frames, log.frames.dtype)
        self._scenes = np.zeros(num_slots, SCENE_DTYPE)
        self._scenes[FRAME_INTERVAL] = (num_frames * np.arange(num_slots))[:, None]
        logged = LogArrays.of(log, has_tl_faces=not read_disable_traffic_light_faces(dataset.cfg))
        routes = dataset.scene_routes()
        none = np.zeros(num_slots, np.int64)
        self._routes = None if routes is None else FollowedRoutes(routes, none, none)
        self._log = replace(logged, scenes=self._scenes, frames=self._frames, routes=self._routes)
        self._agents: AgentSlots | None = None

    def drive_agents(self) -> None:
        """Keep agents of episodes from here on, so that :meth:`set_others` can move them."""
        self._agents = AgentSlots(self._frames, len(self.recorded), self._log.agents[:0])

    def start(self, slot: int, scene: int, first_frame: int, num_frames: int) -> None:
        """Begin an episode.

        Args:
            slot: The environment.
            scene: Its scene, which can be read.
            first_frame: The first frame, counted in the scene.
            num_frames: Number of frames, which the scene has.
        """
        log = self.dataset.dataset
        (record,) = rows_of(log.scenes, slice(scene, scene + 1), strict=True)
        # frames are copied, as AVs are written into them; their intervals name rows of the log unless others drive
        begin = int(record[FRAME_INTERVAL][0]) + first_frame
        frames = rows_of(log.frames, slice(begin, begin + num_frames), strict=True)
        base = slot * self._num_frames
        self._frames[base : base + num_frames] = frames
        if self._agents is not None:
            intervals = frames[AGENT_INTERVAL]
            agents = rows_of(log.agents, slice(int(intervals[0, 0]), int(intervals[-1, 1])), strict=True)
            self._agents.start(slot, slice(base, base + num_frames), intervals, agents)
        self._scenes[FRAME_INTERVAL][slot] = base, base + num_frames
        self._scenes["host"][slot] = record["host"]
        if self._routes is not None:
            self._routes.begin(slot, scene, first_frame)
        self.recorded[slot, :num_frames, :2] = frames["ego_translation"][:, :2]
        self.recorded[slot, :num_frames, 2] = rotations33_as_yaws(frames["ego_rotation"])

    def look(
        self,
        slots: Int64Array,
        frames: Int64Array,
        memory: ColumnMemory | None = None,
        *,
        dataset: BaseEgoDataset | None = None,
    ) -> SampleColumns:
        """Return samples of the AVs of slots (B,) in frames (B,), as a dataset makes them; None for the usual one."""
        maker = self.dataset if dataset is None else dataset
        log = self._log if self._agents is None else replace(self._log, agents=self._agents.agents)
        return maker.columns_of_log(log, SampleIndices(slots, frames), memory=memory)

    def agents_of_frame(self, slot: int, frame: int) -> RecordArray:
        """Return the agents of a frame of an episode now, ``AGENT_DTYPE``, a copy; none if all are those of the log."""
        row = slot * self._num_frames + frame
        return self._log.agents[:0] if self._agents is None else self._agents.of_frame(row)

    def recorded_frames(self, slot: int, num_frames: int) -> RecordArray:
        """Return the first frames of an episode, ``FRAME_DTYPE``, (F,), a copy."""
        base = slot * self._num_frames
        return self._frames[base : base + num_frames].copy()

    def set_ego(self, slots: Int64Array, frames: Int64Array, positions_m: Float64Array, yaws_rad: Float64Array) -> None:
        """Write the AVs of slots (B,) into frames (B,): world x and y (B, 2) and headings (B,)."""
        rows = slots * self._num_frames + frames
        self._frames["ego_translation"][rows, :2] = positions_m
        self._frames["ego_rotation"][rows] = yaws_as_rotations33(yaws_rad)

    def set_others(self, slots: Int64Array, frames: Int64Array, driven: DrivenRows) -> None:
        """Write agents that are driven, or hidden, into frames (B,) of slots (B,), which have those of the log.

        Args:
            slots: The environments.
            frames: The frames, counted in the episodes.
            driven: Who is driven or hidden in them.
        """
        if self._agents is None:
            return
        bounds = driven.starts.tolist()
        for index, (slot, frame) in enumerate(zip(slots.tolist(), frames.tolist(), strict=True)):
            part = slice(bounds[index], bounds[index + 1])
            if part.start < part.stop:
                self._agents.replace(slot, slot * self._num_frames + frame, driven, part)
