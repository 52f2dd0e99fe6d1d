"""Road users that appear close ahead of the AV, on made scenes with and without lanes."""

import numpy as np
import pytest

from l5kit.closedloop import ClosedLoopOptions, simulate
from l5kit.data.log_facts import LogFacts
from l5kit.data.log_writer import write_log
from l5kit.evaluation.driving.ego_states import EgoBody
from l5kit.evaluation.driving.road_users import RoadUsers
from l5kit.evaluation.driving.scene_states import ego_states_of_poses
from l5kit.lanes.lane_paths import TrackPoses, straight_paths
from l5kit.simulation.engine.appearances import find_gaps_at_appearance, stopping_gap_m
from support.crashes import PARKED, drive_into
from support.simulated_folders import rows_of

NUM_FRAMES, APPEARS = 20, 10
BODY = EgoBody.of_extent(5.0, 2.0)


def gap_of(x_m, y_m, *, speed_mps=10.0, first_frame=APPEARS, gone=(), path_yaw_rad=0.0, size_m=(4.0, 2.0)):
    """Return the gap at which a standing car appears, by frame; the AV drives along x, and is at 0 in frame 10."""
    times_s = 0.1 * np.arange(NUM_FRAMES)
    ego_x_m = speed_mps * (times_s - times_s[APPEARS])
    positions_m = np.stack([ego_x_m, np.zeros(NUM_FRAMES)], axis=-1)[None]
    states = ego_states_of_poses(
        positions_m,
        np.zeros((1, NUM_FRAMES)),
        timestamps_s=times_s[None],
        is_there=np.ones((1, NUM_FRAMES), np.bool_),
        body=BODY,
    )
    frames = np.array([frame for frame in range(first_frame, NUM_FRAMES) if frame not in gone])
    counts = np.bincount(frames, minlength=NUM_FRAMES)
    cars = RoadUsers(
        starts=np.concatenate([[0], np.cumsum(counts)]),
        tracks=np.zeros(len(frames), np.int64),
        groups=np.zeros(len(frames), np.int64),
        labels=np.full(len(frames), -1),
        boxes=np.tile((x_m, y_m, 0.0, *size_m), (len(frames), 1)),
        velocities_mps=np.zeros((len(frames), 2)),
    )
    first = np.array([[-1.0, 0.0]])  # paths are 50 m long
    paths = straight_paths(TrackPoses(np.array([0, 1]), first, np.array([path_yaw_rad]), np.ones(1)))
    gaps_m = find_gaps_at_appearance(states, cars, paths, path_of_scene=np.zeros(1, np.int64))
    return {int(frame): gap for frame, gap in zip(frames, gaps_m.tolist(), strict=True) if np.isfinite(gap)}


def test_the_gap_is_the_way_to_stop():
    assert stopping_gap_m(0.0) == 2.0
    assert stopping_gap_m(10.0) == pytest.approx(100 / 8.1 + 5.0 + 2.0)


@pytest.mark.parametrize("speed_mps", [0.0, 5.0, 10.0, 15.0])
def test_nearer_than_the_way_to_stop_counts_and_no_farther(speed_mps):
    front_to_centre_m = 2.5 + 2.0
    limit_m = speed_mps**2 / 8.1 + 0.5 * speed_mps + 2.0
    near, far = (gap_of(front_to_centre_m + limit_m + more_m, 0.0, speed_mps=speed_mps) for more_m in (-0.05, 0.05))
    assert near == {APPEARS: pytest.approx(limit_m - 0.05, abs=1e-6)}
    assert far == {}


@pytest.mark.parametrize("path_yaw_rad", [0.0, np.pi / 2], ids=["along a path", "off the path, along the heading"])
def test_only_what_reaches_into_the_corridor_ahead_counts(path_yaw_rad):
    half_corridor_m = 1.0 + 0.25
    for y_m in (half_corridor_m + 0.95, -half_corridor_m - 0.95):
        assert list(gap_of(14.0, y_m, path_yaw_rad=path_yaw_rad)) == [APPEARS]
    for y_m in (half_corridor_m + 1.05, -half_corridor_m - 1.05):
        assert gap_of(14.0, y_m, path_yaw_rad=path_yaw_rad) == {}
    assert gap_of(-14.0, 0.0, path_yaw_rad=path_yaw_rad) == {}


def test_who_is_there_at_first_does_not_appear_and_who_comes_back_does():
    assert gap_of(14.0, 0.0, first_frame=0) == {}
    assert list(gap_of(14.0, 0.0, first_frame=0, gone=range(5, APPEARS))) == [APPEARS]
    assert list(gap_of(14.0, 0.0, gone=[APPEARS + 1])) == [APPEARS, APPEARS + 2]


def test_the_corridor_follows_a_path_that_leads_away():
    turn_rad = np.radians(20.0)
    assert gap_of(14.0, 0.0, path_yaw_rad=turn_rad) == {}
    assert list(gap_of(14.0, 15.0 * np.tan(turn_rad), path_yaw_rad=turn_rad)) == [APPEARS]


def test_a_simulation_counts_and_names_who_appears_close(tmp_path):
    scene = drive_into(30.0)
    records = scene.to_records()
    counts = np.diff(records.frames["agent_index_interval"], axis=1)[:, 0]
    counts[:20] = 0  # the car appears in frame 20, when the front of the AV is 5.5 m before it
    ends = np.cumsum(counts)
    records.frames["agent_index_interval"] = np.stack([ends - counts, ends], axis=1)
    kept = type(records)(records.frames, records.agents[20:], records.tl_faces)
    with write_log(tmp_path / "log.zarr", facts=LogFacts(ego_extent_m=(5.0, 2.0, 1.5))) as writer:
        writer.append(scene)
        writer.append(kept)
    options = ClosedLoopOptions(show_bar=False)
    result = simulate(tmp_path / "log.zarr", tmp_path / "out", planner="constant-velocity", options=options)
    there, appears = result.scenes()
    assert (there["appeared_close"], there["first_appeared_frame"], there["first_appeared_track"]) == (0, None, None)
    assert (appears["appeared_close"], appears["first_appeared_frame"]) == (1, 20)
    assert appears["first_appeared_track"] == PARKED
    assert result.scores["totals"]["appeared_close"] == 1
    assert result.scores["appeared_close"] == [{"scene": 1, "count": 1, "frame": 20, "track": PARKED}]
    named = [
        (row["scene"], row["frame"], row["appeared_track"])
        for row in rows_of(result.frames_table)
        if row["appeared_track"]
    ]
    assert named == [("1", "20", str(PARKED))]
