"""Sanity of planners in held-out synthetic cities: scores, red lights and rear collisions.

In cities with perception noise, planners see noisy boxes and are scored against the true ones, with replayed agents.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from l5kit.closedloop.planners import open_planner, open_traffic
from l5kit.data import ChunkedDataset, MapAPI
from l5kit.data.scene_arrays import SceneArrays
from l5kit.data.scene_records import SceneRecords
from l5kit.evaluation.driving.ego_states import EgoStates
from l5kit.evaluation.driving.metric import MULTIPLIER
from l5kit.evaluation.driving.road_users import RoadUsers
from l5kit.evaluation.driving.scene_score import METRICS, SceneScores, score_scenes
from l5kit.evaluation.driving.scene_states import read_road_users
from l5kit.lanes.red_lights import LaneColors, read_lane_colors
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.engine.driven_scenes import DrivenScenes
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch
from l5kit.simulation.engine.scene_simulation import SceneSimulation
from l5kit.simulation.engine.traffic_state import Driver
from l5kit.simulation.intelligent_driver import AGENT_DRIVER, AV_DRIVER
from l5kit.synthetic import make_city
from support.lane_drives import SceneDrives, drives_of_agents, drives_of_av, find_rear_hits, find_red_crossings
from support.maps import WORLD_TO_ECEF

pytestmark = pytest.mark.slow

CITIES = [
    pytest.param((5309, 6, 200, 400.0), id="city 5309"),
    pytest.param((6427, 6, 200, 400.0), id="city 6427"),
    pytest.param((8513, 24, 248, 750.0), id="city 8513", marks=pytest.mark.long),
    pytest.param((9277, 24, 248, 500.0), id="city 9277", marks=pytest.mark.long),
]
"""Seed, scenes, frames and size in metres; these seeds are used nowhere else."""

NOISY_CITIES = [
    pytest.param((*city.values[0], "noise"), id=f"{city.id} with noise", marks=() if place == 0 else pytest.mark.long)
    for place, city in enumerate(CITIES)
]

without_noise = pytest.mark.parametrize("city", CITIES, indirect=True)
"""Marks tests of driven agents, which have no true boxes, and tests of reactions to visible boxes."""


@dataclass(frozen=True)
class Drive:
    """How a planner drove."""

    driven: DrivenScenes
    states: EgoStates
    scores: SceneScores


@dataclass
class City:
    """The scenes of a city, and the drives of planners in them, each simulated once."""

    batch: SceneBatch
    colors: LaneColors
    truth: list[SceneArrays] | None = None
    drives: dict[Any, Drive] = field(default_factory=dict)

    def drive(self, planner: str | Driver, *, agents: str = "replay", moves: str | None = None) -> Drive:
        key = (planner, agents, moves)
        if key not in self.drives:
            seats = {"ego": open_planner(planner, moves=moves).seat, "agents": open_traffic(agents).seat}
            driven = SceneSimulation(self.batch, **seats, strict=True).run()
            states, expert = driven.ego_states(), driven.expert()
            scores = score_scenes(states, self.road_users(driven), self.batch.driving_map, expert=expert)
            self.drives[key] = Drive(driven, states, scores)
        return self.drives[key]

    def road_users(self, driven: DrivenScenes) -> RoadUsers:
        """Return the road users around the AV: those of the simulation, or the true ones."""
        if self.truth is None:
            return driven.road_users()
        return read_road_users([self.truth[scene] for scene in driven.finished], threshold=self.batch.threshold)

    def score(self, planner: str | Driver) -> float:
        return float(self.drive(planner).scores.score.mean())

    @property
    def ways_of_log_m(self) -> np.ndarray:
        steps_m = np.diff(self.batch.expert.positions_m, axis=1)
        return np.linalg.norm(steps_m, axis=-1).sum(axis=1)


def read_scenes(path: Path) -> list[SceneRecords]:
    """Return all scenes of a log."""
    log = ChunkedDataset(str(path)).open()
    return [SceneRecords.read(log, scene) for scene in range(len(log.scenes))]


@pytest.fixture(scope="module", params=[*CITIES, *NOISY_CITIES])
def city(request, tmp_path_factory):
    seed, num_scenes, num_frames, town_size, *noise = request.param
    folder = tmp_path_factory.mktemp("sanity") / "city"
    size = {"num_scenes": num_scenes, "num_frames": num_frames, "town_size": town_size}
    made = make_city(folder, seed=seed, **size, noise=bool(noise))
    scenes = read_scenes(made.scenes["sample"])
    road = RoadMap(MapAPI(str(made.semantic_map), WORLD_TO_ECEF))
    truth = [SceneArrays.of_records(scene) for scene in read_scenes(made.truth["sample"])] if noise else None
    batch = SceneBatch.of_scenes(scenes, road=road)
    return City(batch, read_lane_colors(scenes, road.api.arrays.lights), truth)


def test_the_log_has_no_collision_at_fault_and_no_frame_off_road(city):
    scores = city.drive("replay").scores
    assert (scores.no_at_fault_collisions == 1).all()
    assert (scores.drivable_area_compliance == 1).all()


@pytest.mark.parametrize("planner", ["standing", "constant-velocity", "full-throttle"])
def test_the_log_scores_above_planners_that_see_nothing(city, planner):
    assert city.score("replay") > city.score(planner)


def test_of_the_multipliers_standing_fails_making_progress_only_where_the_log_drives_10_m(city):
    scores = city.drive("standing").scores
    for name in {metric.name for metric in METRICS if metric.role == MULTIPLIER} - {"making_progress"}:
        assert (getattr(scores, name) == 1).all(), name
    assert (scores.making_progress[city.ways_of_log_m < 10.0] != 0).all()
    assert (scores.making_progress[city.ways_of_log_m > 10.5] == 0).all()  # progress along centre lines is a bit less


def test_full_throttle_straight_on_collides_or_leaves_the_road_or_is_too_fast(city):
    scores = city.drive("full-throttle").scores
    names = ("no_at_fault_collisions", "drivable_area_compliance", "speed_limit_compliance")
    assert np.all(np.min([getattr(scores, name) for name in names], axis=0) < 1)


def test_the_intelligent_driver_scores_above_constant_velocity(city):
    assert city.score("idm") > city.score("constant-velocity")


def test_the_rule_based_planner_reaches_080_and_070_where_it_sees_noise(city):
    assert city.score("rules") >= (0.8 if city.truth is None else 0.7)


def drives_of_traffic(city: City, *, planner: str) -> list[SceneDrives]:
    """Return the drives of the vehicles of IDM traffic."""
    drive, tracks = city.drive(planner, agents="idm"), city.batch.tracks
    found = []
    for scene in range(len(city.batch)):
        rows = slice(tracks.starts[scene], tracks.starts[scene + 1])
        names = set(tracks.track_ids[rows][drive.driven.was_driven[rows]].tolist())
        found.append(drives_of_agents(drive.driven.records(scene), names, drive.states, scene))
    return found


def drives_of_idm(city: City, *, agents: str) -> list[SceneDrives]:
    """Return the drives of AVs of the intelligent driver, whose plans are driven as they are."""
    drive = city.drive("idm", agents=agents, moves="poses")
    return [drives_of_av(drive.driven.records(scene), drive.states, scene) for scene in range(len(city.batch))]


def red_crossings(city: City, drives: list[SceneDrives], braking_mps2: float) -> tuple[int, list]:
    """Return how often lines with lights were passed, and which AVs passed a red one though they could stop."""
    count, found = 0, []
    for scene, drive in enumerate(drives):
        first_frame = int(city.colors.scene_starts[scene])
        passed, at_red = find_red_crossings(drive, city.batch.driving_map, city.colors, first_frame, braking_mps2)
        count, found = count + passed, found + [(scene, *each) for each in at_red]
    return count, found


@without_noise
def test_traffic_runs_no_red_light_at_which_it_could_stop(city):
    num_passed, at_red = red_crossings(city, drives_of_traffic(city, planner="replay"), AGENT_DRIVER.max_braking_mps2)
    assert num_passed > 5
    assert at_red == []


@without_noise
def test_traffic_hits_nobody_from_behind_whom_it_could_avoid(city):
    hits = [
        find_rear_hits(drive, AGENT_DRIVER.max_braking_mps2)[1] for drive in drives_of_traffic(city, planner="replay")
    ]
    assert hits == [[]] * len(hits)


@without_noise
@pytest.mark.parametrize("agents", ["replay", "idm"])
def test_the_intelligent_driver_runs_no_red_light_at_which_it_could_stop(city, agents):
    """Its plans are driven as they are: behind tracker and bicycle a stop takes metres more than braking at b."""
    assert red_crossings(city, drives_of_idm(city, agents=agents), AV_DRIVER.max_braking_mps2)[1] == []


@without_noise
@pytest.mark.parametrize("agents", ["replay", "idm"])
def test_the_intelligent_driver_hits_nobody_from_behind_whom_it_could_avoid(city, agents):
    """Its plans are driven as they are, as above."""
    hits = [find_rear_hits(drive, AV_DRIVER.max_braking_mps2)[1] for drive in drives_of_idm(city, agents=agents)]
    assert hits == [[]] * len(hits)


@without_noise
def test_the_intelligent_driver_leaves_the_road_behind_the_tracker_only(city):
    assert (city.drive("idm", moves="poses").scores.drivable_area_compliance == 1).all()


@without_noise
def test_an_intelligent_driver_who_slows_down_for_bends_is_not_pushed_aside_in_them(city):
    states = city.drive(IntelligentDriver(max_lateral_mps2=2.0)).states
    after_s = 2.0  # some scenes begin in a bend, with the speed of the log
    is_late = states.is_there & (states.timestamps_s > after_s)
    assert np.abs(states.accelerations_mps2[is_late, 1]).max() < 2.5
    assert np.abs(city.drive("idm").states.accelerations_mps2[is_late, 1]).max() > 2.5
