"""Scenarios of ScenarioNet, written as its authors describe them: a pickle for each, a summary and a mapping.

Nothing of the reader is used. Sets from nuScenes have length and width exchanged and no limits, those from Waymo name
boundaries by segments, and those from nuPlan have polygons of lanes and lights by lane.
"""

import itertools
import pickle

import numpy as np

NUM_STEPS = 91
STEP_S = 0.1


def make_track(
    start_m, velocity_mps, *, kind="VEHICLE", size_m=(4.6, 1.9, 1.6), steps=None, num_steps=NUM_STEPS, step_s=STEP_S
):
    """A track that drives straight on; where it is not seen, all values are 0."""
    valid = np.zeros(num_steps, bool)
    valid[slice(*steps) if steps is not None else slice(None)] = True
    times_s = step_s * np.arange(num_steps)
    position = np.zeros((num_steps, 3), np.float32)
    position[:, :2] = np.array(start_m) + times_s[:, None] * np.array(velocity_mps)
    position[:, 2] = 0.8
    state = {
        "position": position,
        "heading": np.full(num_steps, np.arctan2(velocity_mps[1], velocity_mps[0]), np.float32),
        "velocity": np.tile(np.array(velocity_mps, np.float32), (num_steps, 1)),
        "length": np.full(num_steps, size_m[0], np.float32),
        "width": np.full(num_steps, size_m[1], np.float32),
        "height": np.full(num_steps, size_m[2], np.float32),
        "valid": valid,
    }
    for name, values in state.items():
        if name != "valid":
            values[~valid] = 0
    return {"type": kind, "state": state, "metadata": {"type": kind, "track_length": num_steps}}


def line(*points, z_m=0.0, step_m=5.0):
    """Points at most 5 m apart through x and y of some points."""
    parts = [np.array(points[:1], float)]
    for start, end in itertools.pairwise(points):
        count = max(1, int(np.ceil(np.hypot(*np.subtract(end, start)) / step_m)))
        parts.append(np.array(start) + np.arange(1, count + 1)[:, None] / count * np.subtract(end, start))
    flat = np.concatenate(parts)
    return np.column_stack([flat, np.full(len(flat), z_m)])


def polygon_around(left_y_m, right_y_m, *, start_m, end_m):
    """The polygon of a straight lane along x."""
    return np.array([(start_m, left_y_m), (end_m, left_y_m), (end_m, right_y_m), (start_m, right_y_m)], float)


def make_map(dataset):
    """A road of two lanes, one of which continues through a junction, and its surroundings."""
    stretch = {"lane_start_index": 0, "lane_end_index": 40, "boundary_type": "UNKNOWN"}
    of_waymo, of_nuplan = dataset == "waymo", dataset == "nuplan"
    lanes = {
        "1": {
            "type": "LANE_SURFACE_STREET",
            "polyline": line((-50, 0), (100, 0)),
            "exit_lanes": ["3"],
            "entry_lanes": [],
            "left_neighbor": [{"feature_id": "2", "self_start_index": 0, "self_end_index": 30}] if of_waymo else ["2"],
            "right_neighbor": [],
        },
        "2": {
            "type": "LANE_SURFACE_STREET",
            "polyline": line((-50, 4), (100, 4)),
            "exit_lanes": [],
            "entry_lanes": [],
            "left_neighbor": [],
            "right_neighbor": [],
        },
        "3": {
            "type": "LANE_SURFACE_UNSTRUCTURE" if not of_waymo else "LANE_SURFACE_STREET",
            "polyline": line((100, 0), (130, 0)),
            "entry_lanes": ["1"],
            "exit_lanes": [],
            "interpolating": of_waymo,
        },
        "bike": {"type": "LANE_BIKE_LANE", "polyline": line((-50, -6), (100, -6))[:, :2]},
    }
    if of_waymo:
        lanes["1"] |= {
            "speed_limit_mph": 25.0,
            "speed_limit_kmh": 40.2336,
            "left_boundaries": [stretch | {"boundary_feature_id": 20}],
            "right_boundaries": [stretch | {"boundary_feature_id": "21"}],
        }
    if of_nuplan:
        lanes["1"] |= {"speed_limit_kmh": 54.0, "polygon": polygon_around(1.8, -1.6, start_m=-50, end_m=100)}
    around = {
        "20": {"type": "ROAD_LINE_BROKEN_SINGLE_WHITE", "polyline": line((-60, 2), (120, 2))},
        "21": {"type": "ROAD_EDGE_BOUNDARY", "polyline": line((-60, -1.5), (120, -1.5))},
        "30": {"type": "CROSSWALK", "polygon": np.array([(90, -8, 0), (94, -8, 0), (94, 8, 0), (90, 8, 0)], float)},
        "31": {"type": "SPEED_BUMP", "polygon": np.array([(10, -2), (11, -2), (11, 2), (10, 2), (10, -2)], float)},
        "40": {"type": "STOP_SIGN", "position": np.array([100.0, 3.0, 0.0]), "lane": [2]},
        "50": {"type": "BOUNDARY_SIDEWALK", "polygon": np.array([(0, 8), (50, 8), (50, 12), (0, 12)], float)},
        "60": {"type": "GUARDRAIL", "polyline": line((0, 20), (50, 20))},
    }
    return lanes | around


def make_lights(num_steps=NUM_STEPS):
    """The light of lane 3: red, then nothing is seen, then green."""
    shown = ["LANE_STATE_STOP"] * (num_steps // 2) + [None] + ["LANE_STATE_ARROW_GO"] * num_steps
    light = {
        "type": "TRAFFIC_LIGHT",
        "lane": "3",
        "state": {"object_state": shown[:num_steps]},
        "stop_point": np.array([99.0, 0.0, 0.0], np.float32),
        "metadata": {},
    }
    lost = light | {"lane": "of another map"}
    return {"3": light, "999": lost}


def make_scenario(name="a", dataset="waymo", *, num_steps=NUM_STEPS, step_s=STEP_S, start_s=0.0, start_m=(0.0, 0.0)):
    """The AV at 8 m/s along x, a car ahead, a pedestrian who is hidden for a while, a cone, and a light."""
    made = {"num_steps": num_steps, "step_s": step_s}
    size_m = (1.73, 4.084, 1.562) if dataset == "nuscenes" else (4.8, 2.0, 1.6)
    car_m = (1.9, 4.5, 1.6) if dataset == "nuscenes" else (4.5, 1.9, 1.6)
    x_m, y_m = start_m
    tracks = {
        "ego": make_track((x_m, y_m), (8.0, 0.0), size_m=size_m, **made),
        "7": make_track((x_m + 20, y_m), (8.0, 0.0), size_m=car_m, **made),
        "8": make_track((40.0, -8.0), (0.0, 1.2), kind="PEDESTRIAN", size_m=(0.6, 0.7, 1.7), steps=(5, 9), **made),
        "9": make_track((30.0, -3.0), (0.0, 0.0), kind="TRAFFIC_CONE", size_m=(0.4, 0.4, 0.8), **made),
    }
    for track_id, track in tracks.items():
        track["metadata"]["original_id"] = track_id
    return {
        "id": name,
        "version": "MetaDrive v0.4.1.2",
        "length": num_steps,
        "metadata": {
            "ts": start_s + step_s * np.arange(num_steps),
            "sdc_id": "ego",
            "dataset": dataset,
            "coordinate": "metadrive",
            "map": "town" if dataset != "waymo" else None,
            "scenario_id": name,
            "track_length": num_steps,
            "tracks_to_predict": {"7": {"track_id": "7", "difficulty": 0}},
            "number_summary": {"num_objects": 4, "object_types": {"VEHICLE", "PEDESTRIAN"}, "mean": np.float64(2.5)},
        },
        "tracks": tracks,
        "dynamic_map_states": make_lights(num_steps) if dataset != "nuscenes" else {},
        "map_features": make_map(dataset),
    }


def file_name(scenario):
    return f"sd_{scenario['metadata']['dataset']}_v1.2_{scenario['id']}.pkl"


def write_set(folder, scenarios, *, subfolder="", has_summary=True, has_mapping=True, protocol=4):
    """Write a folder of scenarios with summary and mapping."""
    (folder / subfolder).mkdir(parents=True, exist_ok=True)
    for scenario in scenarios:
        (folder / subfolder / file_name(scenario)).write_bytes(pickle.dumps(scenario, protocol))
    if has_summary:
        summary = {file_name(scenario): scenario["metadata"] for scenario in scenarios}
        (folder / "dataset_summary.pkl").write_bytes(pickle.dumps(summary, protocol))
    if has_mapping:
        mapping = {file_name(scenario): subfolder for scenario in scenarios}
        (folder / "dataset_mapping.pkl").write_bytes(pickle.dumps(mapping, protocol))
