"""CPU time of a Waymo Open Motion scenario from bytes to arrays.

PYTHONPATH=src:tests python benchmarks/womd_scenario.py
"""

import argparse
import statistics
import time

import numpy as np

from l5kit.readers.womd import read_scenario, read_tracks
from l5kit.readers.womd_scenario_pb2 import Scenario
from support import womd

NUM_STEPS = 91
LANE_LENGTH_M = 30.0


def make_scenario(num_tracks: int, num_lanes: int) -> womd.Scenario:
    """A scenario as large as those of the dataset: 1 MB with 100 tracks and 180 lanes of 60 points."""
    rng = np.random.default_rng(0)
    scenario = womd.Scenario(scenario_id="made", sdc_track_index=0, current_time_index=10)
    scenario.timestamps_seconds.extend(np.arange(NUM_STEPS) * 0.1)
    for track in range(num_tracks):
        first = int(rng.integers(0, 60)) if track else 0
        last = int(rng.integers(first + 10, NUM_STEPS + 1)) if track % 3 else NUM_STEPS
        steps = np.arange(NUM_STEPS)
        womd.add_track(
            scenario,
            track + 1,
            1 + track % 3,
            start_m=rng.uniform(-90, 90, 2) + 2000,
            velocity_mps=rng.normal(0, 5, 2),
            valid=(steps >= first) & (steps < last),
        )
    for lane in range(num_lanes):
        add_lane_with_line(scenario, lane)
    for _ in range(NUM_STEPS):
        states = scenario.dynamic_map_states.add()
        for lane in range(16):
            states.lane_states.add(lane=lane + 1, state=womd.STOP).stop_point.x = 1.0
    return scenario


def add_lane_with_line(scenario: womd.Scenario, number: int) -> None:
    y_m = 4.0 * number + 2000
    lane = womd.add_lane(
        scenario,
        number + 1,
        womd.straight_line(y_m, end_m=LANE_LENGTH_M) + [2000, 0, 0],
        speed_limit_mph=25.0,
        type=2,
        entry_lanes=[max(number - 1, 1)],
        exit_lanes=[number + 2],
    )
    for first in (0, 20, 40):
        lane.left_boundaries.add(lane_start_index=first, lane_end_index=first + 19, boundary_feature_id=1000 + number)
    for first in (0, 30):
        lane.right_boundaries.add(lane_start_index=first, lane_end_index=first + 29, boundary_feature_id=999 + number)
    lane.left_neighbors.add(feature_id=number + 2, self_end_index=60)
    line = scenario.map_features.add(id=1000 + number).road_line
    womd.add_points(line.polyline, womd.straight_line(y_m + 2, start_m=-5.0, end_m=40.0) + [2000, 0, 0])


def read_naively(content: bytes) -> None:
    """States and points, read through protobuf objects."""
    scenario = womd.Scenario.FromString(content)
    names = [field.name for field in womd.MESSAGES["ObjectState"].DESCRIPTOR.fields]
    np.array([[[getattr(state, name) for name in names] for state in track.states] for track in scenario.tracks])
    for feature in scenario.map_features:
        for line in (feature.lane.polyline, feature.road_line.polyline):
            np.array([(point.x, point.y, point.z) for point in line])


def cpu_times_ms(function, count: int) -> str:
    function()
    times_ms = []
    for _ in range(count):
        start_s = time.process_time()
        function()
        times_ms.append(1e3 * (time.process_time() - start_s))
    return f"{statistics.median(times_ms):6.1f} ms, at best {min(times_ms):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tracks", type=int, default=100)
    parser.add_argument("--lanes", type=int, default=180)
    parser.add_argument("--count", type=int, default=40)
    options = parser.parse_args()
    content = make_scenario(options.tracks, options.lanes).SerializeToString()
    print(f"a scenario of {len(content) / 1e6:.2f} MB")
    print("protobuf parses all:      ", cpu_times_ms(lambda: womd.Scenario.FromString(content), options.count))
    print("tracks to arrays:         ", cpu_times_ms(lambda: read_tracks(Scenario.FromString(content)), options.count))
    print("all to a checked scene:   ", cpu_times_ms(lambda: read_scenario(content), options.count))
    print("states and points naively:", cpu_times_ms(lambda: read_naively(content), options.count))


if __name__ == "__main__":
    main()
