"""Folders of simulations, in the layout of ``l5kit simulate``, made with the engine, for tests of what shows them."""

import csv
import json
from pathlib import Path

import numpy as np

from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.log_writer import write_log
from l5kit.data.map.opened import open_map
from l5kit.data.scene_records import SceneRecords
from l5kit.evaluation.driving.collisions import CollisionKind, find_collisions
from l5kit.evaluation.driving.comfort import find_comfort_signals, is_comfortable
from l5kit.evaluation.driving.lane_places import find_lane_places
from l5kit.evaluation.driving.map_scores import (
    find_distances_off_road,
    find_progress_along_lanes,
    find_speed_excess,
    limits_of_lanes,
    sum_over_last_second,
)
from l5kit.evaluation.driving.scene_score import score_scenes
from l5kit.evaluation.driving.scene_states import read_road_users
from l5kit.evaluation.driving.time_to_collision import find_times_to_collision
from l5kit.simulation.drivers.simple import ConstantVelocity
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat, SceneSimulation

METRICS = {
    "no_at_fault_collisions": "no_at_fault_collisions",
    "drivable_area_compliance": "drivable_area_compliance",
    "making_progress": "making_progress",
    "driving_direction_compliance": "driving_direction_compliance",
    "progress": "expert_progress_ratio",
    "time_to_collision": "time_to_collision",
    "speed_limit_compliance": "speed_limit_compliance",
    "comfort": "comfort",
}


class _FaultyInOneScene:
    """Constant velocity, which breaks in a frame of one scene."""

    def __init__(self, scene, frame):
        self.scene, self.frame = scene, frame
        self.driver = ConstantVelocity(30)

    def drive(self, state):
        actions = self.driver.drive(state)
        is_here = (state.scenes[state.actor_scenes] == self.scene) & (
            state.frame_indices[state.actor_scenes] == self.frame
        )
        actions.values[is_here] = np.nan
        return actions


def drive_city(city: Path, out: Path, *, faulty=(1, 30), drives_agents: bool = True) -> Path:
    """Drive all scenes of a made city with constant velocity; the AV of one scene breaks in a frame.

    Args:
        city: Folder of the city.
        out: Folder to make.
        faulty: Scene and frame that break; None for no such scene.
        drives_agents: Whether agents keep their velocity as well.
    """
    files = find_dataset_files(city)
    log = ChunkedDataset(files.dataset).open()
    road = RoadMap(open_map(files))
    scenes = [SceneRecords.read(log, index) for index in range(len(log.scenes))]
    batch = SceneBatch.of_scenes(scenes, facts=log.facts, road=road, start=5)
    agents = AgentSeat(ConstantVelocity(), control=AgentControl(near_m=30.0, far_m=50.0)) if drives_agents else None
    driver = _FaultyInOneScene(*(faulty or (-1, -1)))
    driven = SceneSimulation(batch, ego=EgoSeat(driver), agents=agents, keeps_plans=True).run()
    out.mkdir(parents=True)
    finished = driven.finished.tolist()
    with write_log(str(out / "simulated.zarr"), facts=log.facts) as writer:
        for scene in finished:
            writer.append(driven.records(scene))
    _write_tables(out, driven, road, files.dataset.name)
    plans = {
        f"scene_{scene}": driven.plans[scene][: int(batch.stops[scene] - batch.starts[scene])].astype(np.float32)
        for scene in finished
    }
    np.savez(out / "plans.npz", times_s=driven.plan_times_s, **plans)
    named = {"log": str(files.dataset), "map": str(files.semantic_map), "meta": str(files.meta)}
    run = {"files": named, "planner": "constant-velocity", "agents": "constant-velocity"}
    (out / "run.json").write_text(json.dumps(run))
    return out


def _write_tables(out, driven, road, log_name):
    batch, finished = driven.batch, driven.finished.tolist()
    states, expert = driven.ego_states(), driven.expert()
    users = read_road_users([driven.arrays(scene) for scene in finished])
    scores = score_scenes(states, users, road.driving, expert=expert)
    places = find_lane_places(states, road.driving)
    collisions = find_collisions(states, users, places)
    times_s = find_times_to_collision(states, users, places, collisions)
    off_road_m = find_distances_off_road(states, road.driving)
    excess_mps = find_speed_excess(states, limits_of_lanes(road.driving, places.lanes))
    scene_rows, frame_rows = [], []
    backward_m = sum_over_last_second(find_progress_along_lanes(states, road.driving, places), states)
    is_fine = is_comfortable(find_comfort_signals(states))
    for row, scene in enumerate(finished):
        metrics = {name: float(getattr(scores, field)[row]) for name, field in METRICS.items()}
        number = {"scene": int(batch.scene_indices[scene])}
        result = {"position": row, "score": float(scores.score[row])} | metrics
        scene_rows.append({"log": log_name} | number | result | {"failed_frame": "", "failed_track": "", "message": ""})
        track_ids = np.unique(driven.arrays(scene).agents.track_ids)
        gaps_m = np.linalg.norm(states.positions_m[row] - expert.positions_m[row], axis=1)
        for frame in range(int(states.num_frames[row])):
            place = row * states.is_there.shape[1] + frame
            met = np.arange(users.starts[place], users.starts[place + 1])
            met = met[collisions.kinds[met] > 0]
            columns = {
                "frame": int(batch.starts[scene]) + frame,
                "time_s": states.timestamps_s[row, frame],
                "speed_mps": states.speeds_mps[row, frame],
                "distance_to_log_m": gaps_m[frame],
                "distance_off_road_m": min(off_road_m[row, frame], 0.5),
                "time_to_collision_s": times_s[row, frame] if np.isfinite(times_s[row, frame]) else np.nan,
                "speed_excess_mps": excess_mps[row, frame],
                "way_along_lanes_m": backward_m[row, frame],
                "is_comfortable": int(is_fine[row, frame]),
                "collisions": len(met),
                "collision_track": int(track_ids[users.tracks[met[0]]]) if len(met) else "",
                "collision_kind": CollisionKind(collisions.kinds[met[0]]).name.lower() if len(met) else "",
                "collision_at_fault": int(collisions.is_at_fault[met[0]]) if len(met) else "",
            }
            frame_rows.append(number | columns)
    failed = [
        {"scene": f.scene_index, "frame": f.frame_index, "track": f.track_id, "message": f.message}
        for f in driven.faults.values()
    ]
    means = {name: _mean([row[name] for row in scene_rows]) for name in METRICS}
    summary = {"score": _mean([row["score"] for row in scene_rows]), "scenes": len(scene_rows), "metrics": means}
    summary |= {"failed": failed, "planner": "constant-velocity", "agents": "constant-velocity", "digests": {}}
    (out / "scores.json").write_text(json.dumps(summary))
    for fault in failed:
        row = {"log": log_name, "scene": fault["scene"], "failed_frame": fault["frame"]}
        scene_rows.append(row | {"failed_track": fault["track"], "message": fault["message"]})
    _write_csv(out / "scenes.csv", scene_rows)
    _write_csv(out / "frames.csv", frame_rows)


def _mean(values):
    known = [value for value in values if np.isfinite(value)]
    return float(np.mean(known)) if known else None


def _write_csv(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for row in rows:
            cells = {key: "" if isinstance(value, float) and np.isnan(value) else value for key, value in row.items()}
            writer.writerow(cells)
