"""Log slots: records of many episodes in progress, whose AVs move and whose agents are replayed or driven."""

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
    """Agents of N episodes: logged ones, except in frames with driven agents.

    The rows of an episode are contiguous, in the order of its frames; a frame with changed agents gets new rows after
    all others.

    Args:
        frames: Frames of all episodes, whose intervals refer to rows here, ``FRAME_DTYPE``, (N F,).
        num_slots: N.
        empty: Empty agents, ``AGENT_DTYPE``, (0,).

    Attributes:
        agents: Rows of all episodes, some of them unused, ``AGENT_DTYPE``. Read the attribute again after each change:
            a full array is replaced by a larger one.
    """

    def __init__(self, frames: RecordArray, num_slots: int, empty: RecordArray) -> None:
        self.agents: RecordArray = np.zeros(0, empty.dtype)
        self._frames, self._num_slots = frames, num_slots
        self._room = 0
        self._counts: Int64Array = np.zeros(num_slots, np.int64)

    def start(self, slot: int, rows: slice, intervals: Int64Array, agents: RecordArray) -> None:
        """Begin an episode.

        Args:
            slot: Slot of the episode.
            rows: Rows of its frames.
            intervals: Rows of their agents in the log, (F, 2).
            agents: These agents, frame by frame.
        """
        self._counts[slot] = 0
        self._make_room(2 * len(agents))
        self._frames[AGENT_INTERVAL][rows] = intervals - intervals[:1, :1] + self._put(slot, agents)

    def replace(self, slot: int, row: int, driven: DrivenRows, part: slice) -> None:
        """Replace the agents of a frame: logged agents without hidden ones, and driven agents at their current poses.

        Args:
            slot: Slot of the episode.
            row: Row of the frame.
            driven: Driven and hidden agents.
            part: Part of them that belongs to this episode.
        """
        # Keep logged agents that are not hidden. Driven agents that the log no longer has in this frame are copied from
        # the frame before.
        now, before = (self.of_frame(each) for each in (row, row - 1))
        ids, is_hidden = driven.track_ids[part], driven.is_hidden[part]
        kept = now[~np.isin(now["track_id"], ids[is_hidden])]
        is_there = np.isin(ids, kept["track_id"]) | is_hidden
        added = before[np.isin(before["track_id"], ids[~is_there])]
        agents = join_records([kept, added])

        # current poses of driven agents
        order = np.argsort(agents["track_id"])
        rows = order[np.searchsorted(agents["track_id"], ids[~is_hidden], sorter=order)]
        poses = driven.poses[part][~is_hidden]
        agents["centroid"][rows], agents["yaw"][rows] = poses[:, :2], poses[:, 2]
        agents["velocity"][rows] = driven.velocities_mps[part][~is_hidden]
        begin = self._put(slot, agents)
        self._frames[AGENT_INTERVAL][row] = begin, begin + len(agents)

    def of_frame(self, row: int) -> RecordArray:
        """Return a copy of the agents of a frame."""
        begin, end = self._frames[AGENT_INTERVAL][row].tolist()
        copied: RecordArray = as_bytes(self.agents)[begin:end].copy().view(self.agents.dtype)
        return copied

    def _put(self, slot: int, agents: RecordArray) -> int:
        """Append agents to an episode, and return the row of the first."""
        self._make_room(int(self._counts[slot]) + len(agents))
        begin = slot * self._room + int(self._counts[slot])
        as_bytes(self.agents)[begin : begin + len(agents)] = as_bytes(agents)
        self._counts[slot] += len(agents)
        return begin

    def _make_room(self, needed: int) -> None:
        """Ensure room for ``needed`` rows in each episode."""
        if needed <= self._room:
            return
        # grow by at least half, and shift all episodes and their intervals
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

    Frames are copied, while agents and lights are read from the log itself, so that an episode begins instantly.

    Args:
        dataset: Dataset of the observed samples.
        num_slots: Number of environments, N.
        num_frames: Frames of the longest episode, F.

    Attributes:
        recorded: Logged world x, y and heading of the AVs, float64 (N, F, 3).
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
        """Keep copies of agents in later episodes, so that :meth:`set_others` can move them."""
        self._agents = AgentSlots(self._frames, len(self.recorded), self._log.agents[:0])

    def start(self, slot: int, scene: int, first_frame: int, num_frames: int) -> None:
        """Begin an episode.

        Args:
            slot: Slot of the episode.
            scene: Its scene, which must be readable.
            first_frame: The first frame, counted in the scene.
            num_frames: Number of frames, which the scene must have.
        """
        log = self.dataset.dataset
        (record,) = rows_of(log.scenes, slice(scene, scene + 1), strict=True)
        # frames are copied, as AVs are written into them; their intervals refer to the log unless agents are driven
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
        """Return samples of the AVs of slots (B,) in frames (B,), from ``dataset`` or, for None, the usual dataset."""
        maker = self.dataset if dataset is None else dataset
        log = self._log if self._agents is None else replace(self._log, agents=self._agents.agents)
        return maker.columns_of_log(log, SampleIndices(slots, frames), memory=memory)

    def agents_of_frame(self, slot: int, frame: int) -> RecordArray:
        """Return a copy of the current agents of a frame, ``AGENT_DTYPE``; empty if no agents are driven."""
        row = slot * self._num_frames + frame
        return self._log.agents[:0] if self._agents is None else self._agents.of_frame(row)

    def recorded_frames(self, slot: int, num_frames: int) -> RecordArray:
        """Return a copy of the first frames of an episode, ``FRAME_DTYPE``, (F,)."""
        base = slot * self._num_frames
        return self._frames[base : base + num_frames].copy()

    def set_ego(self, slots: Int64Array, frames: Int64Array, positions_m: Float64Array, yaws_rad: Float64Array) -> None:
        """Write the AVs of slots (B,) into frames (B,): world x and y (B, 2) and headings (B,)."""
        rows = slots * self._num_frames + frames
        self._frames["ego_translation"][rows, :2] = positions_m
        self._frames["ego_rotation"][rows] = yaws_as_rotations33(yaws_rad)

    def set_others(self, slots: Int64Array, frames: Int64Array, driven: DrivenRows) -> None:
        """Write driven and hidden agents into frames (B,) of slots (B,), which hold the logged ones.

        Args:
            slots: The slots.
            frames: The frames, counted in the episodes.
            driven: Driven and hidden agents in these frames.
        """
        if self._agents is None:
            return
        bounds = driven.starts.tolist()
        for index, (slot, frame) in enumerate(zip(slots.tolist(), frames.tolist(), strict=True)):
            part = slice(bounds[index], bounds[index + 1])
            if part.start < part.stop:
                self._agents.replace(slot, slot * self._num_frames + frame, driven, part)
