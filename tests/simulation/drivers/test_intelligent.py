"""Intelligent drivers in synthetic cities: red lights, driven agents, and the same drive in any batch."""

from dataclasses import replace

import numpy as np
import pytest

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.lanes.red_lights import RED, read_lane_colors
from l5kit.simulation.drivers.intelligent import IntelligentDriver, intelligent_traffic
from l5kit.simulation.drivers.lane_seat import KeptStates
from l5kit.simulation.engine.actions import PlannedPoses
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat, SceneSimulation, SimulationError

DRIVER = IntelligentDriver()
SEATS = {"ego": EgoSeat(DRIVER), "agents": AgentSeat(DRIVER, control=AgentControl.of_traffic(tracks=DRIVER.tracks))}


def test_a_scene_does_not_depend_on_its_batch(scenes, city_road):
    together = SceneSimulation(SceneBatch.of_scenes(scenes, road=city_road), **SEATS, strict=True).run()
    assert together.was_driven.sum() > 20
    for number, scene in enumerate(scenes):
        alone = SceneSimulation(SceneBatch.of_scenes([scene], road=city_road), **SEATS, strict=True).run()
        assert alone.records(0).agents.tobytes() == together.records(number).agents.tobytes()
        assert alone.records(0).frames.tobytes() == together.records(number).frames.tobytes()


class Spy:
    """A driver, and where on their paths its vehicles were in each frame."""

    def __init__(self):
        self.seen = []

    def drive(self, state):
        actions = DRIVER.drive(state)
        seat = state.memory["intelligent driver"]
        tracks = state.actor_tracks
        halves = state.agents.boxes[state.actors, 3] / 2
        before = seat.kept.before[0][tracks]
        after = seat.motions[tracks]
        scenes = state.scenes[state.actor_scenes]
        self.seat = seat
        for row, track in enumerate(tracks.tolist()):
            begin = after[row, 0] if before[row, 0] == 0 else before[row, 0]
            frame = state.frame_indices[state.actor_scenes[row]]
            self.seen.append(
                (scenes[row], frame, track, begin + halves[row], after[row, 0] + halves[row], before[row, 4])
            )
        return actions


def test_asked_again_in_a_frame_a_driver_starts_from_what_it_kept():
    numbers, vehicles, frames = np.zeros((3, 2)), np.array([0, 2]), np.array([4, 7])
    kept = KeptStates(numbers)
    for _ in range(2):
        assert kept.begin(vehicles, frames).tolist() == [True, True]
        assert not numbers.any()
        numbers[vehicles] = 1.0
    assert kept.begin(vehicles, frames + 1).tolist() == [False, False]
    assert numbers[:, 0].tolist() == [1.0, 0.0, 1.0]
    kept.forget(vehicles[1:])
    assert kept.begin(vehicles, frames + 2).tolist() == [False, True]
    assert kept.begin(vehicles[:1], frames[:1] + 4).tolist() == [True]  # a frame was left out


def test_no_vehicle_runs_a_red_light_that_it_could_stop_at(scenes, city_road):
    batch = SceneBatch.of_scenes(scenes, road=city_road)
    spy = Spy()
    seat = AgentSeat(spy, control=AgentControl.of_traffic(tracks=DRIVER.tracks))
    SceneSimulation(batch, agents=seat, strict=True).run()
    colors, paths = read_lane_colors(scenes, city_road.api.arrays.lights), spy.seat.paths
    num_crossed = 0
    for scene, frame, track, front_m, after_m, speed in spy.seen:
        row = colors.scene_starts[scene] + frame
        held = slice(colors.starts[row], colors.starts[row + 1])
        red = set(colors.lanes[held][colors.ranks[held] == RED].tolist())
        for piece in range(paths.piece_starts[track], paths.piece_starts[track + 1]):
            line_m = paths.piece_arcs_m[piece]
            if paths.line_lanes[piece].max() >= 0 and front_m <= line_m - 1e-6 and after_m > line_m + 1e-6:
                num_crossed += 1
                if red & set(paths.line_lanes[piece].tolist()):
                    assert speed**2 / 2 / 2.0 > line_m - front_m
    assert num_crossed > 5


def test_a_scene_that_ends_before_others_changes_nothing_for_them(scenes, city_road):
    def records_of(parts):
        batch = SceneBatch.of_scenes(parts, road=city_road)
        driven = SceneSimulation(batch, ego=EgoSeat(DRIVER), agents=intelligent_traffic(DRIVER), strict=True).run()
        return [driven.records(scene) for scene in range(len(parts))]

    parts = [scenes[0].cut(0, 12), scenes[1].cut(0, 20)]
    for part, records in zip(parts, records_of(parts), strict=True):
        (alone,) = records_of([part])
        assert records.frames["ego_translation"].tobytes() == alone.frames["ego_translation"].tobytes()
        assert records.agents.tobytes() == alone.agents.tobytes()


def test_vehicles_are_driven_and_others_not(scenes, city_road):
    batch = SceneBatch.of_scenes(scenes, road=city_road)
    is_driven = DRIVER.tracks(batch)
    assert 0 < is_driven.sum() < batch.tracks.is_of(RoadUserGroup.VEHICLE).sum()
    assert (batch.tracks.groups[is_driven] == RoadUserGroup.VEHICLE).all()


def test_the_av_keeps_to_its_lanes(scenes, city_road):
    driven = SceneSimulation(SceneBatch.of_scenes(scenes, road=city_road), ego=EgoSeat(DRIVER), strict=True).run()
    states = driven.ego_states()
    assert np.isfinite(states.positions_m[states.is_there]).all()
    assert states.speeds_mps.max() < 20
    _, starts = city_road.driving.lanes_at(states.positions_m[states.is_there])
    assert (np.diff(starts) > 0).mean() > 0.99


def test_an_av_without_a_map_goes_straight_on_and_stops(scenes):
    batch = SceneBatch.of_scenes(scenes)
    states = SceneSimulation(batch, ego=EgoSeat(DRIVER, PlannedPoses()), strict=True).run().ego_states()
    first = states.positions_m[:, :1]
    ways_m = states.positions_m - first
    across_m = ways_m[..., 1] * np.cos(states.yaws_rad[:, :1]) - ways_m[..., 0] * np.sin(states.yaws_rad[:, :1])
    np.testing.assert_allclose(across_m, 0.0, atol=1e-6)
    assert (np.linalg.norm(ways_m, axis=-1) < 50.0).all()
    assert not DRIVER.tracks(batch).any()
    with pytest.raises(SimulationError, match="no map with lanes"):
        SceneSimulation(batch, agents=AgentSeat(DRIVER, control=AgentControl.of_traffic()), strict=True).run()


def test_an_av_on_no_lane_does_not_change_the_others(scenes, city_road):
    off_road = replace(scenes[1], frames=scenes[1].frames.copy())
    off_road.frames["ego_translation"][:, :2] += 5000.0
    batch = SceneBatch.of_scenes([scenes[0], off_road, scenes[2]], road=city_road)
    driven = SceneSimulation(batch, ego=EgoSeat(DRIVER), strict=True).run()
    alone = SceneSimulation(SceneBatch.of_scenes([scenes[2]], road=city_road), ego=EgoSeat(DRIVER), strict=True).run()
    assert driven.records(2).frames.tobytes() == alone.records(0).frames.tobytes()
    assert driven.ego_states().speeds_mps[1].max() < 20.0


@pytest.mark.parametrize("values", [{"limit_part": 0.0}, {"num_steps": 0}, {"unknown_limit_mps": np.nan}])
def test_wrong_values(values):
    with pytest.raises(InvalidArgumentError, match=next(iter(values))):
        IntelligentDriver(**values)
