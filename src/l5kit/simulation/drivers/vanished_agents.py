"""Vanished agents: road users that stood still a second ago and are not seen now, which most likely stand there yet."""

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Int64Array
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.simulation.engine.agent_rows import read_agents
from l5kit.simulation.engine.traffic_state import TrafficState
from l5kit.simulation.lanes.lane_following import SceneRows

_BACK_S = 1.0
_STANDS_MPS = 0.5


def rows_with_vanished(state: TrafficState) -> SceneRows:
    """Return the agents of R scenes, and behind those of each scene who stood there a second ago and is not seen now.

    Somebody whose track goes on, or on whose place another road user is, has not vanished. A track that is of something
    unknown now, for which trackers take cars for some frames, does not go on: it would be in nobody's way.
    """
    scenes, buffer, tracks = state.scenes, state.buffer, state.agents.tracks
    num_back = max(round(_BACK_S / state.step_time_s), 1)
    frames = buffer.scene_starts[scenes] + np.maximum(state.buffer_frames - num_back, 0)
    past = read_agents(buffer.agents, buffer.frames[frames], tracks, scenes, state.batch.threshold)
    is_seen = np.zeros(len(tracks) + 1, np.bool_)  # the last one is that of agents without a track
    is_seen[state.agents.track_rows[state.agents.groups >= 0]] = True
    is_seen[-1] = True
    return _join(state.agents.scene_rows, past.scene_rows, past.track_rows, is_seen)


@njit(nogil=True, cache=True, error_model="numpy")
def _join(now: SceneRows, past: SceneRows, past_tracks: Int64Array, is_seen: BoolArray) -> SceneRows:
    """Return rows with those of the past that have vanished."""
    size = len(now.groups) + len(past.groups)
    starts, groups = np.zeros(len(now.starts), np.int64), np.empty(size, np.int64)
    boxes, velocities_mps = np.empty((size, 5)), np.empty((size, 2))
    count = 0
    for scene in range(len(starts) - 1):
        own = slice(now.starts[scene], now.starts[scene + 1])
        end = count + own.stop - own.start
        groups[count:end], boxes[count:end], velocities_mps[count:end] = (
            now.groups[own],
            now.boxes[own],
            now.velocities_mps[own],
        )
        count = end
        for row in range(past.starts[scene], past.starts[scene + 1]):
            velocity = past.velocities_mps[row]
            stood = velocity[0] * velocity[0] + velocity[1] * velocity[1] < _STANDS_MPS * _STANDS_MPS
            is_gone = past.groups[row] >= 0 and stood and not is_seen[past_tracks[row]]
            # nor is there anybody else now in the same place
            for other in range(own.start, own.stop):
                is_gone = is_gone and not (now.groups[other] >= 0 and boxes_overlap(past.boxes[row], now.boxes[other]))
            if is_gone:
                groups[count], boxes[count], velocities_mps[count] = past.groups[row], past.boxes[row], 0.0
                count += 1
        starts[scene + 1] = count
    return SceneRows(starts, groups[:count], boxes[:count], velocities_mps[:count])
