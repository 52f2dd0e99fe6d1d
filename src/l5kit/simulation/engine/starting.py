"""Start of a simulation: initial states of the AVs, and preparation of the records."""

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.data.index.track_ids import number_tracks
from l5kit.data.record_buffer import RecordBuffer
from l5kit.data.records import AGENT_INTERVAL
from l5kit.evaluation.driving.ego_states import EgoStates
from l5kit.evaluation.driving.motion import velocities_of_rows
from l5kit.geometry.angle import angular_distance
from l5kit.simulation.engine.scene_batch import EgoLog, SceneBatch
from l5kit.simulation.vehicle_models import VehicleGeometry, VehicleStates

_LEAST_WAY_M = 1.0


def start_of_ego(batch: SceneBatch) -> tuple[VehicleStates, Float64Array]:
    """Return the states of the AVs of S scenes in their first simulated frames, and their yaw rates, rad/s, (S,)."""
    return logged_states(batch, np.arange(len(batch)), batch.starts)


def logged_states(batch: SceneBatch, rows: Int64Array, now: Int64Array) -> tuple[VehicleStates, Float64Array]:
    """Return the states of the AV in K frames of the log, and its yaw rates, rad/s, (K,); see :func:`states_of_poses`.

    Args:
        batch: Scenes.
        rows: Indices of the scenes in the batch, (K,).
        now: Frame indices in these scenes, (K,).
    """
    return states_of_poses(batch.ego_log, rows, now, length_m=float(batch.facts.ego_extent_m[0]))


def states_of_poses(
    log: EgoLog | EgoStates, rows: Int64Array, now: Int64Array, *, length_m: float
) -> tuple[VehicleStates, Float64Array]:
    """Return the states of AVs derived from poses, and their yaw rates, rad/s, (K,).

    Speeds and yaw rates are differences over the frames before and after, one-sided at the ends of a scene;
    accelerations are differences of the speeds of the two steps around the frame, 0 at the ends of a scene. The
    steering follows from the yaw rate, and is 0 below 0.6 m/s.

    Args:
        log: The poses.
        rows: Indices of the scenes, (K,).
        now: Frame indices in these scenes, (K,).
        length_m: Length of the AV.
    """
    lengths = log.is_there.sum(axis=1)[rows]
    before, after = np.maximum(now - 1, 0), np.minimum(now + 1, lengths - 1)
    yaws_rad = log.yaws_rad[rows, now]
    headings = np.stack([np.cos(yaws_rad), np.sin(yaws_rad)], axis=-1)

    def speeds_between(first: Int64Array, second: Int64Array) -> Float64Array:
        steps_m = log.positions_m[rows, second] - log.positions_m[rows, first]
        return _over(
            np.copysign(np.hypot(steps_m[:, 0], steps_m[:, 1]), (steps_m * headings).sum(axis=1)),
            log.timestamps_s[rows, second] - log.timestamps_s[rows, first],
        )

    seconds = log.timestamps_s[rows, after] - log.timestamps_s[rows, before]
    speeds_mps = speeds_between(before, after)
    yaw_rates = _over(angular_distance(log.yaws_rad[rows, after], log.yaws_rad[rows, before]), seconds)
    has_both = (before < now) & (now < after)
    changes = np.where(has_both, speeds_between(now, after) - speeds_between(before, now), 0.0)
    states = VehicleStates(
        positions_m=log.positions_m[rows, now],
        yaws_rad=yaws_rad,
        speeds_mps=speeds_mps,
        accelerations_mps2=_over(changes, seconds / 2),
        steering_rad=VehicleGeometry().steering_of(yaw_rates, speeds_mps, length_m=length_m),
        lengths_m=np.full(len(rows), length_m),
    )
    return states, yaw_rates


def fill_velocities(buffer: RecordBuffer) -> None:
    """Fill in velocities from position differences for moving tracks without any velocity in their scene."""
    for scene in range(buffer.num_scenes):
        frames = buffer.frames[buffer.scene_starts[scene] : buffer.scene_stops[scene]]
        if len(frames) == 0:
            continue

        # agents of all frames of the scene, which are contiguous
        intervals = frames[AGENT_INTERVAL]
        agents = buffer.agents[int(intervals[0, 0]) : int(intervals[-1, 1])]
        tracks, track_indices = number_tracks(agents["track_id"])
        has_velocity, is_broken = np.zeros(len(tracks), np.bool_), np.zeros(len(tracks), np.bool_)
        low_m, high_m = np.full((len(tracks), 2), np.inf), np.full((len(tracks), 2), -np.inf)
        positions_m, velocities_mps = agents["centroid"], agents["velocity"]
        for column in (positions_m, velocities_mps):
            column.setflags(write=False)  # so that the kernel is compiled for one type only
        _bound_tracks(track_indices, positions_m, velocities_mps, has_velocity, is_broken, low_m, high_m)

        # tracks that move farther than a parked car with a jittering box
        is_silent = ~has_velocity & ~is_broken & (np.hypot(*(high_m - low_m).T) >= _LEAST_WAY_M)
        rows: BoolArray = is_silent[track_indices]
        if rows.any():
            times_s = (frames["timestamp"] - frames["timestamp"][0]) * 1e-9
            rows_s = np.repeat(times_s, intervals[:, 1] - intervals[:, 0])[rows]
            one_scene = np.zeros(int(rows.sum()), np.int64)
            agents["velocity"][rows] = velocities_of_rows(
                positions_m[rows], rows_s, tracks=track_indices[rows], scenes=one_scene
            )


@kernel_jit
def _bound_tracks(
    track_indices: Int64Array,
    positions_m: NumericArray,
    velocities_mps: NumericArray,
    has_velocity: BoolArray,
    is_broken: BoolArray,
    low_m: Float64Array,
    high_m: Float64Array,
) -> None:
    """Record which tracks have a velocity in any row, which have a NaN position, and the bounds of their positions."""
    for row in range(len(track_indices)):
        track = track_indices[row]
        has_velocity[track] |= velocities_mps[row, 0] != 0 or velocities_mps[row, 1] != 0
        for axis in range(2):
            value_m = positions_m[row, axis]
            is_broken[track] |= np.isnan(value_m)
            low_m[track, axis] = min(low_m[track, axis], value_m)
            high_m[track, axis] = max(high_m[track, axis], value_m)


def _over(values: Float64Array, seconds: Float64Array) -> Float64Array:
    """Return values per second, 0 if no time passes."""
    rates: Float64Array = np.divide(values, seconds, out=np.zeros(len(values)), where=seconds > 0)
    return rates
