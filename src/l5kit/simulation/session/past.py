"""Past of a session: moments of the last seconds, and the frames one step apart that planners see of them."""

from collections import deque
from typing import Final

import numpy as np

from l5kit._types import Int64Array, RecordArray
from l5kit.data.records import AGENT_INTERVAL, FACE_INTERVAL
from l5kit.data.scene_records import SceneRecords, intervals_of_counts
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.angle import angular_distance
from l5kit.geometry.transform import rotations33_as_yaws, yaws_as_rotations33

_SHORTEST_NS: Final = 1_000_000
"""Least time between moments; a moment this close to the time of a frame is used as that frame."""

_FASTEST_MPS: Final = 150.0
_SLACK_M: Final = 2.0


class KeptPast:
    """Recent moments as scenes of one frame, limited to the history that planners use.

    Args:
        step_ns: Time between two frames of the planner.
        num_frames: Largest number of frames of the planner, including the current one.
        longest_gap_ns: Longest time between two moments.
    """

    def __init__(self, *, step_ns: int, num_frames: int, longest_gap_ns: int) -> None:
        self._step_ns, self._num_frames, self._longest_gap_ns = step_ns, num_frames, longest_gap_ns
        self._moments: deque[tuple[int, SceneRecords]] = deque()
        self._speeds: deque[tuple[int, float]] = deque()

    def __len__(self) -> int:
        return len(self._moments)

    @property
    def now_ns(self) -> int:
        """Time of the last moment."""
        return self._moments[-1][0]

    def forget(self) -> None:
        """Forget all moments."""
        self._moments.clear()
        self._speeds.clear()

    def add(self, moment: SceneRecords, *, speed_mps: float) -> None:
        """Add a moment, and forget those beyond the history of the planner.

        Raises:
            InvalidArgumentError: Its time is not after that of the last moment, or too long after it, or the AV has
                jumped.
        """
        now_ns = int(moment.frames["timestamp"][0])
        if self._moments:
            last_ns, last = self._moments[-1]
            since_ns = now_ns - last_ns
            if since_ns < _SHORTEST_NS:
                raise InvalidArgumentError(
                    f"timestamp_ns is {now_ns}, {since_ns * 1e-9:g} s after the last moment; moments must be at least "
                    f"{_SHORTEST_NS * 1e-9:g} s apart. Call reset() to begin anew"
                )
            if since_ns > self._longest_gap_ns:
                raise InvalidArgumentError(
                    f"timestamp_ns is {now_ns}, {since_ns * 1e-9:g} s after the last moment; at most "
                    f"{self._longest_gap_ns * 1e-9:g} s are allowed (longest_gap_s). Call reset() to begin anew"
                )
            moved_m = float(np.hypot(*(moment.frames["ego_translation"] - last.frames["ego_translation"])[0, :2]))
            if moved_m > _SLACK_M + _FASTEST_MPS * since_ns * 1e-9:
                raise InvalidArgumentError(
                    f"position_m is {moved_m:.1f} m from that of the last moment, {since_ns * 1e-9:g} s before; an AV "
                    "does not jump. Call reset() to begin anew"
                )
        self._moments.append((now_ns, moment))
        # steps between frames may be a tenth longer, and one moment more is needed for interpolation
        oldest_ns = now_ns - (self._num_frames - 1) * (self._step_ns + self._step_ns // 10)
        while len(self._moments) > 1 and self._moments[1][0] <= oldest_ns:
            self._moments.popleft()
        self._speeds.append((now_ns, float(speed_mps)))
        while len(self._speeds) > 2 and self._speeds[1][0] <= now_ns - self._step_ns:
            self._speeds.popleft()

    def acceleration_mps2(self) -> float:
        """Return the acceleration of the AV over the last step, m/s2; 0 with a single moment."""
        (before_ns, before_mps), (now_ns, now_mps) = self._speeds[0], self._speeds[-1]
        return 0.0 if now_ns == before_ns else (now_mps - before_mps) / ((now_ns - before_ns) * 1e-9)

    def frames(self) -> SceneRecords:
        """Return the past as a scene of frames one step apart; the last frame is the last moment.

        Moments one step apart, within a tenth of it, are used as they are, like frames of a log. Otherwise frames are
        interpolated at the times of the steps: poses and velocities linearly between two moments; a road user that is
        in only one of the two keeps its state in the nearer moment; lights keep their last state.
        """
        recent = list(self._moments)[-self._num_frames :]
        gaps_ns = np.diff([time_ns for time_ns, _ in recent])
        if (np.abs(gaps_ns - self._step_ns) <= self._step_ns // 10).all():
            return _joined([moment for _, moment in recent])
        times_ns = np.array([time_ns for time_ns, _ in self._moments], np.int64)
        wanted_ns = self.now_ns - self._step_ns * np.arange(self._num_frames)[::-1]
        return _joined([self._at(int(each), times_ns) for each in wanted_ns[wanted_ns >= times_ns[0] - _SHORTEST_NS]])

    def _at(self, wanted_ns: int, times_ns: Int64Array) -> SceneRecords:
        """Return the frame at a time: the moment at that time, or an interpolated one."""
        nearest = int(np.argmin(np.abs(times_ns - wanted_ns)))
        if abs(int(times_ns[nearest]) - wanted_ns) <= _SHORTEST_NS:
            return self._moments[nearest][1]

        # interpolate the AV between the two moments, its heading along the shorter arc
        following = int(np.searchsorted(times_ns, wanted_ns))
        before, after = self._moments[following - 1][1], self._moments[following][1]
        before_ns, after_ns = times_ns[following - 1 : following + 1].tolist()
        part = (wanted_ns - before_ns) / (after_ns - before_ns)
        frames = before.frames.copy()
        frames["timestamp"] = wanted_ns
        frames["ego_translation"] += part * (after.frames["ego_translation"] - before.frames["ego_translation"])
        yaws_rad = [rotations33_as_yaws(each.frames["ego_rotation"]) for each in (before, after)]
        frames["ego_rotation"] = yaws_as_rotations33(yaws_rad[0] + part * angular_distance(yaws_rad[1], yaws_rad[0]))

        # interpolate agents that are in both moments; rows are sorted by track
        near, far, weight = (before, after, part) if part <= 0.5 else (after, before, 1 - part)
        agents = near.agents.copy()
        _, rows, others = np.intersect1d(agents["track_id"], far.agents["track_id"], return_indices=True)
        other = far.agents[others]
        for name in ("centroid", "velocity"):
            agents[name][rows] += weight * (other[name] - agents[name][rows])
        turns_rad = angular_distance(other["yaw"].astype(np.float64), agents["yaw"][rows].astype(np.float64))
        agents["yaw"][rows] = agents["yaw"][rows] + weight * np.asarray(turns_rad)
        frames[AGENT_INTERVAL] = 0, len(agents)
        return SceneRecords(frames, agents, before.tl_faces, host=before.host)


def _joined(moments: list[SceneRecords]) -> SceneRecords:
    """Return scenes of one frame joined to one scene."""
    frames: RecordArray = np.concatenate([each.frames for each in moments])
    frames[AGENT_INTERVAL] = intervals_of_counts(np.array([len(each.agents) for each in moments]))
    frames[FACE_INTERVAL] = intervals_of_counts(np.array([len(each.tl_faces) for each in moments]))
    agents = np.concatenate([each.agents for each in moments])
    return SceneRecords(frames, agents, np.concatenate([each.tl_faces for each in moments]), host=moments[0].host)
