"""The traffic of made towns is physically plausible, and holds what a driver meets, over many seeds."""

import dataclasses

import numpy as np
import pytest

from l5kit.geometry.box_overlap import overlapping
from l5kit.synthetic.road_network import BIKE_LANE, CAR_LANE, RoadNetwork
from l5kit.synthetic.scene import Town, simulate_scene
from l5kit.synthetic.signals import RED
from l5kit.synthetic.vehicles import BIKE
from support.cities import PERIOD_S, MadeScene
from support.made_scene_summary import Manoeuvres, describe_scene

MAX_ACCEL_MPS2 = 2.3
MAX_BRAKE_MPS2 = 7.0
MAX_YAW_RATE_RADPS = 0.8
MAX_LATERAL_MPS2 = 6.0
GRACE_STEPS = 20
"""A vehicle's centre passes the stop line some time after its front, which may pass it at the end of yellow."""


def _steps(scene: MadeScene) -> tuple[np.ndarray, np.recarray, np.recarray]:
    """Return which slots hold the same vehicle before and after each step, and the states before and after."""
    vehicles = scene.simulation.log.vehicles
    before, after = vehicles[:-1], vehicles[1:]
    return (before.uid >= 0) & (before.uid == after.uid), before, after


def test_nothing_ever_overlaps(made_scenes: list[MadeScene]) -> None:
    for number, scene in enumerate(made_scenes):
        for frame in range(248):
            found = overlapping(scene.boxes_of(frame))
            assert not found.any(), f"scene {number}, frame {frame}: {scene.boxes_of(frame)[found]}"


def test_road_users_out_of_the_avs_sight_do_not_overlap_either(made_scenes: list[MadeScene]) -> None:
    for scene in made_scenes:
        log = scene.simulation.log
        for frame in range(0, 248, 35):
            vehicles = log.vehicles.box[frame][log.vehicles.uid[frame] >= 0]
            walkers = log.walkers.box[frame][log.walkers.active[frame] == 1]
            everything = np.concatenate([vehicles, walkers, scene.simulation.parked, scene.town.objects.clutter])
            near = np.hypot(*(everything[:, :2] - vehicles[0, :2]).T) < 190.0
            assert not overlapping(everything[near]).any()


def test_the_safety_net_is_hardly_ever_needed(made_scenes: list[MadeScene]) -> None:
    removed = sum(scene.simulation.num_removed for scene in made_scenes)
    assert removed <= len(made_scenes) // 10


def test_accelerations_are_bounded(made_scenes: list[MadeScene]) -> None:
    hard = total = 0
    for scene in made_scenes:
        same, before, after = _steps(scene)
        accel = ((after.speed_mps - before.speed_mps) / PERIOD_S)[same]
        assert accel.min() > -MAX_BRAKE_MPS2 - 1e-6
        assert accel.max() < MAX_ACCEL_MPS2
        hard, total = hard + int((accel < -4.0).sum()), total + len(accel)
    assert hard / total < 1e-3


def test_speeds_are_bounded(made_scenes: list[MadeScene]) -> None:
    for scene in made_scenes:
        vehicles, lanes = scene.simulation.log.vehicles, scene.town.network.lanes
        present = vehicles.uid >= 0
        assert vehicles.speed_mps[present].min() >= 0.0
        limit = lanes.speed_limit_mps[vehicles.lane]
        assert (vehicles.speed_mps[present] < 1.12 * limit[present] + 2.0).all()
        assert vehicles.speed_mps[present & (vehicles.kind == BIKE)].max(initial=0.0) < 7.0


def test_yaw_rate_and_lateral_acceleration_are_bounded(made_scenes: list[MadeScene]) -> None:
    for scene in made_scenes:
        same, before, after = _steps(scene)
        turned = (after.box[..., 2] - before.box[..., 2] + np.pi) % (2 * np.pi) - np.pi
        rate = np.abs(turned[same]) / PERIOD_S
        assert rate.max() < MAX_YAW_RATE_RADPS
        assert (rate * before.speed_mps[same]).max() < MAX_LATERAL_MPS2


def test_motion_agrees_with_speed_and_heading(made_scenes: list[MadeScene]) -> None:
    for scene in made_scenes:
        same, before, after = _steps(scene)
        step = (after.box[..., :2] - before.box[..., :2])[same] / PERIOD_S
        speed = (after.speed_mps + before.speed_mps)[same] / 2
        assert np.abs(np.hypot(*step.T) - speed).max() < 0.9
        yaw = ((after.box[..., 2] + before.box[..., 2]) / 2)[same]
        moves = (speed > 1.0) & (np.abs(after.box[..., 2] - before.box[..., 2])[same] < 1.0)
        direction = np.arctan2(step[:, 1], step[:, 0])
        gap = np.abs((direction - yaw + np.pi) % (2 * np.pi) - np.pi)
        assert gap[moves].max() < 0.1


def _distance_to_lane(network: RoadNetwork, lane: int, place: np.ndarray) -> float:
    return float(np.hypot(*(network.lane_points_m(lane) - place).T).min())


def test_vehicles_stay_on_their_lanes(made_scenes: list[MadeScene]) -> None:
    for scene in made_scenes:
        log = scene.simulation.log.vehicles
        for frame in range(0, 248, 31):
            for slot in np.nonzero(log.uid[frame] >= 0)[0]:
                off_m = _distance_to_lane(scene.town.network, log.lane[frame, slot], log.box[frame, slot, :2])
                assert off_m < (0.6 if log.old_lane[frame, slot] < 0 else 3.6)


def test_nobody_enters_on_red(made_scenes: list[MadeScene]) -> None:
    entered = 0
    for scene in made_scenes:
        network, log = scene.town.network, scene.simulation.log
        same, before, after = _steps(scene)
        step, slot = np.nonzero(same & (before.lane != after.lane) & (network.lanes.head[after.lane] >= 0))
        head = network.lanes.head[after.lane[step, slot]]
        late = step >= GRACE_STEPS
        was_red = log.head_state[np.maximum(step - GRACE_STEPS, 0), head] == RED
        assert not (was_red & (log.head_state[step, head] == RED) & late).any()
        entered += len(step)
    assert entered > 100


def test_bikes_keep_to_their_strip_and_cars_to_their_lanes(made_scenes: list[MadeScene]) -> None:
    for scene in made_scenes:
        log = scene.simulation.log.vehicles
        kinds = scene.town.network.lanes.kind[log.lane]
        is_bike = log.kind == BIKE
        present = log.uid >= 0
        assert (kinds[present & is_bike] >= BIKE_LANE).all()
        assert (kinds[present & ~is_bike] < BIKE_LANE).all()
        assert (log.old_lane[present & is_bike] == -1).all()


def test_pedestrians_walk_at_walking_pace_and_some_cross(made_scenes: list[MadeScene]) -> None:
    crossed = 0
    for scene in made_scenes:
        walkers = scene.simulation.log.walkers
        both = (walkers.active[:-1] == 1) & (walkers.active[1:] == 1)
        moved = np.hypot(*(walkers.box[1:] - walkers.box[:-1])[..., :2].transpose(2, 0, 1))[both]
        assert moved.max(initial=0.0) <= 0.1 * 1.65
        for corners in scene.town.network.crosswalks.corners_m:
            centre = corners.mean(axis=0)
            crossed += int((np.hypot(*(walkers.box[::20, :, :2] - centre).transpose(2, 0, 1)) < 2.0).sum())
    assert crossed > 20


def _total(parts: list[Manoeuvres]) -> dict[str, float]:
    names = [field.name for field in dataclasses.fields(Manoeuvres)]
    return {name: sum(getattr(part, name) for part in parts) for name in names}


def test_scenes_hold_what_a_driver_meets(made_scenes: list[MadeScene]) -> None:
    summaries = [describe_scene(scene.town.network, scene.simulation.log) for scene in made_scenes]
    av, others = _total([s.av for s in summaries]), _total([s.others for s in summaries])
    for name in ("left_turns", "right_turns", "red_stops", "lane_changes"):
        assert av[name] >= 3, (name, av)
        assert others[name] >= 2 * len(summaries), (name, others)
    assert av["cut_ins"] + sum(s.cut_ins_ahead_of_av for s in summaries) >= 3
    assert others["cut_ins"] >= len(summaries) // 2
    assert av["seconds_at_speed"] > 2.0 * len(summaries)


def test_av_drives(made_scenes: list[MadeScene]) -> None:
    moved_m = [np.hypot(*(s.simulation.log.vehicles.box[-1, 0] - s.simulation.log.vehicles.box[0, 0])[:2])
               for s in made_scenes]  # fmt: skip
    assert np.mean(np.array(moved_m) < 20.0) < 0.2, "few scenes are spent at a red light"
    assert np.mean(moved_m) > 60.0
    lanes = {int(s.town.network.lanes.kind[s.simulation.log.vehicles.lane[0, 0]]) for s in made_scenes}
    assert CAR_LANE in lanes


@pytest.mark.parametrize("num_frames", [1, 2])
def test_short_scenes(town: Town, num_frames: int) -> None:
    simulation = simulate_scene(town, num_frames=num_frames, rng=np.random.default_rng(0))
    assert simulation.log.vehicles.shape[0] == num_frames


def test_without_traffic_only_the_av_moves(town: Town) -> None:
    simulation = simulate_scene(town, num_frames=60, traffic_density=0.0, rng=np.random.default_rng(0))
    assert (simulation.log.vehicles.uid[:, 1:] == -1).all()
    assert simulation.log.walkers.shape[1] == 0
    assert len(simulation.parked) == 0


def test_more_density_more_traffic(town: Town) -> None:
    counts = []
    for density in (0.3, 0.9):
        rng = np.random.default_rng(3)
        log = simulate_scene(town, num_frames=20, traffic_density=density, rng=rng).log
        counts.append(int((log.vehicles.uid >= 0).sum()))
    assert counts[1] > 2 * counts[0]
