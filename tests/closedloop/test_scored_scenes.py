"""Rows of the tables: a drive into a parked car on a plane without a map, with numbers made by hand."""

import numpy as np
import pytest

from l5kit.closedloop import ClosedLoopOptions, simulate
from l5kit.closedloop.blocks import find_overflow
from l5kit.closedloop.scenes import FailedScene
from l5kit.closedloop.tables import FRAME_COLUMNS, frame_dtype_of
from l5kit.data.log_facts import LogFacts
from l5kit.data.log_writer import write_log
from support.crashes import PARKED, drive_into
from support.simulated_folders import rows_of


@pytest.fixture(scope="module")
def crash(tmp_path_factory):
    """Rows of the scene, and of the frames."""
    folder = tmp_path_factory.mktemp("crash")
    with write_log(folder / "log.zarr", facts=LogFacts(ego_extent_m=(5.0, 2.0, 1.5))) as writer:
        writer.append(drive_into(30.0))
    options = ClosedLoopOptions(show_bar=False, start_frame=2)
    result = simulate(folder / "log.zarr", folder / "out", planner="constant-velocity", options=options)
    return next(result.scenes()), rows_of(result.frames_table)


def test_the_collision_is_in_the_frame_in_which_boxes_first_overlap(crash):
    scene, frames = crash
    collided = [row for row in frames if row["collisions"] != "0"]
    assert len(collided) == 1  # once for each track
    assert collided[0]["frame"] == "26"  # the front is at 28.5, the rear of the car at 28
    assert (collided[0]["collision_track"], collided[0]["collision_kind"]) == (str(PARKED), "other_stopped")
    assert collided[0]["collision_at_fault"] == "1"
    assert (scene["collisions"], scene["collisions_at_fault"]) == (1, 1)
    assert scene["first_no_at_fault_collisions_frame"] == 26
    assert scene["no_at_fault_collisions"] == scene["score"] == 0


def test_time_to_collision_falls_until_then(crash):
    scene, frames = crash
    times = {int(row["frame"]): row["time_to_collision_s"] for row in frames}
    assert [times[frame] for frame in (16, 17, 25, 26)] == ["1.00", "0.90", "0.10", "0.00"]
    assert times[27] == ""
    assert (scene["first_time_to_collision_frame"], scene["frames_near_collision"]) == (17, 10)


def test_the_rest_of_the_rows(crash):
    scene, frames = crash
    assert (scene["log"], scene["scene"], scene["position"], scene["frames"]) == ("log.zarr", 0, 0, 38)
    assert (frames[0]["frame"], frames[0]["time_s"], frames[0]["x_m"]) == ("2", "0.000", "2.000")
    assert {row["speed_mps"] for row in frames} == {"10.000"}
    assert (scene["way_m"], scene["expert_way_m"], scene["most_from_log_m"]) == (37.0, 37.0, 0.0)
    assert (scene["drivable_area_compliance"], scene["route_m"], scene["driven_agents"]) == (None, None, 0)
    assert (scene["comfort"], scene["frames_uncomfortable"], scene["message"]) == (1.0, 0, None)


INFINITE = {
    "nothing": ({}, {}, None, None),
    "what is not known": ({"score": np.nan, "comfort": None}, {"speed_limit_mps": (3, np.nan)}, None, None),
    "a scene": ({"way_m": np.inf}, {}, None, "way_m"),
    "a frame": ({}, {"speed_limit_mps": (3, np.inf)}, 13, "speed_limit_mps"),
    "the first of several": (
        {"most_from_log_m": np.inf},
        {"distance_to_log_m": (2, np.inf), "speed_excess_mps": (1, -np.inf)},
        11,
        "most_from_log_m, distance_to_log_m, speed_excess_mps",
    ),
}


@pytest.mark.parametrize(("of_scene", "of_frames", "frame", "names"), INFINITE.values(), ids=INFINITE)
def test_an_infinite_number_in_a_row_is_named(of_scene, of_frames, frame, names):
    """Five frames of scene 4, from frame 10 on."""
    frames = np.zeros(5, frame_dtype_of(FRAME_COLUMNS))
    frames["frame"] = 10 + np.arange(5)
    for name, (place, value) in of_frames.items():
        frames[name][place] = value
    found = find_overflow({"scene": 4, "frames": 5, "score": 1.0} | of_scene, frames)
    assert found == (names and FailedScene(4, frame, None, f"the drive gives infinite values: {names}"))
