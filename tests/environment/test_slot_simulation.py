"""Simulations of slots, also on a device: AVs, traffic and checks, resets, ends, and what is refused."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from l5kit.environment.slots.av_slots import states_at_start
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.environment.traffic.traffic_slots import TrafficSlots
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.lanes.road_surface import write_corners
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.vehicle_models import InvertibleBicycle, KinematicBicycle, PoseChange, Unicycle

torch = pytest.importorskip("torch")
from l5kit.environment.slots.slot_simulation import SlotSimulation  # noqa: E402

MODELS = {"unicycle": Unicycle(), "curvature": InvertibleBicycle(), "bicycle": KinematicBicycle()}
DRIVERS = {"idm": IntelligentDriver(max_lateral_mps2=1.5), "replay": None}
SCENES, FRAMES = [1, 2, 0, 1, 2, 0], [1, 5, 20, 30, 80, 1]


@dataclass
class Processor:
    """Steps of a simulation, computed with the parts of environments on the processor."""

    bank: SceneBank
    model: object
    driver: object

    def start(self, scenes, frames):
        bank = self.bank
        self.every, bank_rows = np.arange(len(scenes)), bank.prepare(np.array(scenes))
        self.traffic = TrafficSlots(bank, len(scenes), drives=self.driver)
        self.traffic.start(self.every, bank_rows, np.array(frames))
        self.size_m = bank.log.facts.ego_extent_m[:2]
        rows, poses = bank.frame_starts[bank_rows] + frames, bank.ego_poses
        self.states = states_at_start(poses[rows - 1], poses[rows], length_m=self.size_m[0], step_time_s=0.1)[0]
        self.traffic.enter(self.every, self.boxes)

    @property
    def boxes(self):
        sizes_m = np.tile(self.size_m, (len(self.every), 1))
        return np.column_stack([self.states.positions_m, self.states.yaws_rad, sizes_m])

    def step(self, actions, slots):
        velocities_mps = self.states.velocities_mps
        moved = self.model.step(self.states, actions, 0.1)
        self.traffic.step(slots, self.boxes[slots], velocities_mps[slots])
        for name, values in vars(moved).items():
            getattr(self.states, name)[slots] = values[slots]
        self.traffic.enter(slots, self.boxes[slots])

    def faults(self):
        """Return which AVs collide, and how far they are off the road, each AV and its road users alone."""
        rows, road = self.traffic.rows(self.every), self.bank.road.driving
        boxes, is_collided, off_road_m = self.boxes, np.zeros(len(self.every), np.bool_), np.zeros(len(self.every))
        for slot in self.every:
            others = range(rows.starts[slot], rows.starts[slot + 1])
            is_collided[slot] = any(
                rows.groups[row] >= 0 and boxes_overlap(boxes[slot], rows.boxes[row]) for row in others
            )
            corners_m = np.empty((4, 2))
            write_corners(boxes[slot], corners_m)
            off_road_m[slot] = road.distances_to_surface_m(corners_m).max()
        return is_collided, off_road_m


def actions_of(step, num_slots):
    """Return actions of AVs that wander off their lanes."""
    return np.random.default_rng([step, num_slots]).normal([0.3, 0.0], [1.0, 0.15], (num_slots, 2))


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("model", MODELS)
def test_steps_are_those_of_the_processor(bank, backend, model, driver):
    processor = Processor(bank, MODELS[model], DRIVERS[driver])
    simulation = SlotSimulation(bank, 6, model=MODELS[model], drives=DRIVERS[driver], backend=backend)
    processor.start(SCENES, FRAMES)
    result = simulation.reset(SCENES, FRAMES)
    num_collided, num_off = 0, 0
    for step in range(99):
        is_collided, off_road_m = processor.faults()
        found = result.poses.cpu().numpy(), result.speeds_mps.cpu().numpy(), result.off_road_m.cpu().numpy()
        tolerance = 1e-9 if backend.device == "cpu" else 1e-4
        np.testing.assert_allclose(found[0], processor.boxes[:, :3], rtol=0, atol=tolerance)
        np.testing.assert_allclose(found[1], processor.states.speeds_mps, rtol=0, atol=tolerance)
        np.testing.assert_allclose(found[2], off_road_m, rtol=0, atol=tolerance)
        assert result.is_collided.tolist() == is_collided.tolist()
        assert result.is_over.tolist() == (processor.traffic.frames == 99).tolist()
        assert result.num_driven.tolist() == processor.traffic.num_driven(processor.every).tolist()
        num_collided, num_off = num_collided + is_collided.sum(), num_off + (off_road_m > 0).sum()
        slots = np.flatnonzero(processor.traffic.frames < 99)
        if len(slots):
            actions = actions_of(step, 6)
            processor.step(actions, slots)
            result = simulation.step(torch.from_numpy(actions).to(backend.device))
    assert result.is_over.sum() == 6
    assert num_collided > 3
    assert num_off > 3
    _check_agents(processor, simulation, tolerance)


def _check_agents(processor, simulation, tolerance):
    expected, found = processor.traffic.rows(processor.every), rows_of(simulation)
    np.testing.assert_allclose(found.boxes, expected.boxes, rtol=0, atol=tolerance)
    np.testing.assert_array_equal(found.track_rows, expected.track_rows)


def rows_of(simulation):
    """Return the agents of all slots, without the rows that are empty, in memory of the processor."""
    backend = simulation.backend
    rows = simulation.traffic.rows(backend.tensor(simulation.slots))
    columns = {name: backend.tensor(array).cpu().numpy().copy() for name, array in rows._asdict().items()}
    chosen = [np.arange(first, first + size) for first, size in zip(columns["starts"], columns["sizes"], strict=False)]
    kept = np.concatenate(chosen)
    of_rows = {name: columns[name][kept] for name in ("groups", "boxes", "track_rows")}
    return SimpleNamespace(sizes=columns["sizes"], **of_rows)


def drive_with_noise(bank, backend, noise_m):
    """Return where AVs and agents of three scenes have been, when all that are driven are pushed after each step."""
    simulation = SlotSimulation(bank, 3, model=MODELS["bicycle"], drives=DRIVERS["idm"], backend=backend)
    generator, places = torch.Generator(backend.device).manual_seed(7), []
    simulation.reset([0, 1, 2], [1, 1, 1])
    traffic, boxes = simulation.traffic, backend.tensor(simulation.traffic.vehicles.boxes)

    def push(*shape):
        return torch.rand(shape, generator=generator, device=backend.device, dtype=torch.float64) * 2 - 1

    for _ in range(98):
        simulation.step(0.1 * push(3, 2))
        simulation.boxes[:, :3] += noise_m * push(3, 3)
        boxes[..., :3] += noise_m * push(*boxes.shape[:2], 3)
        places.append((simulation.boxes.clone(), rows_of(simulation)))
    assert traffic.num_driven(np.arange(3)).sum() > 10
    return places


def test_what_is_rounded_otherwise_hardly_moves_anybody(bank, backend):
    """A GPU has other last bits of sines and cosines: here all are moved by ten thousand times as much."""
    exact, moved = (drive_with_noise(bank, backend, noise_m) for noise_m in (0.0, 1e-9))
    for (boxes, rows), (moved_boxes, moved_rows) in zip(exact, moved, strict=True):
        torch.testing.assert_close(moved_boxes, boxes, rtol=0, atol=1e-5)
        np.testing.assert_array_equal(moved_rows.sizes, rows.sizes)
        np.testing.assert_allclose(moved_rows.boxes, rows.boxes, rtol=0, atol=1e-5)


def test_replayed_avs_are_those_of_the_log(bank, backend):
    simulation = SlotSimulation(bank, 2, model=None, drives=DRIVERS["idm"], backend=backend)
    result = simulation.reset([0, 1], [0, 97])
    for step in range(5):
        frames = np.minimum([step, 97 + step], 99)
        rows = bank.frame_starts[[1, 2]] + frames
        np.testing.assert_array_equal(result.poses.cpu().numpy(), bank.ego_poses[rows])
        np.testing.assert_array_equal(simulation.motions.cpu().numpy(), bank.ego_motion[rows])
        assert backend.tensor(simulation.traffic.frames).tolist() == frames.tolist()
        assert result.is_over.tolist() == [False, step >= 2]
        result = simulation.step()


def test_slots_start_again_while_others_go_on(bank, backend):
    def drive(resets):
        simulation = SlotSimulation(bank, 3, model=MODELS["bicycle"], drives=DRIVERS["idm"], backend=backend)
        assert simulation.step(torch.zeros((3, 2), device=backend.device)).is_over.tolist() == [True] * 3
        for step in range(30):
            for of_step, slots, scenes, frames in resets:
                if of_step == step:
                    simulation.reset(scenes, frames, slots)
            actions = torch.from_numpy(actions_of(step, 3)).to(backend.device)
            actions[:] = actions[0]
            result = simulation.step(actions)
        return result.clone(), rows_of(simulation)

    again, rows = drive([(0, [0, 1, 2], [0, 1, 2], [1, 2, 3]), (12, [1], [2], [9])])
    alone, own_rows = drive([(0, [0], [0], [1]), (0, [2], [2], [3]), (12, [1], [2], [9])])
    assert torch.equal(again.poses, alone.poses)
    assert torch.equal(again.off_road_m, alone.off_road_m)
    np.testing.assert_array_equal(rows.sizes, own_rows.sizes)
    np.testing.assert_array_equal(rows.boxes, own_rows.boxes)


def test_how_things_stood_before_a_step_is_kept(bank, backend):
    simulation = SlotSimulation(bank, 2, model=MODELS["bicycle"], drives=None, backend=backend)
    roads, avs = simulation.roads, simulation.avs

    def found(*arrays):
        return [backend.tensor(array).cpu().numpy().copy() for array in arrays]

    def assert_same(arrays, expected):
        for array, other in zip(found(*arrays), expected, strict=True):
            np.testing.assert_array_equal(array, other)

    simulation.reset([0, 1], [1, 5])
    for _ in range(3):
        places, motions, boxes = found(*roads.now), found(avs.motions), found(avs.boxes)[0]
        simulation.step(torch.full((2, 2), 0.3, dtype=torch.float64, device=backend.device))
        assert_same(roads.before, places)
        assert_same([avs.motions_before], motions)
        turned_rad = found(avs.boxes)[0][:, 2] - boxes[:, 2]
        np.testing.assert_allclose(found(avs.motions)[0][:, 2], turned_rad / 0.1, atol=1e-9)
    simulation.reset([2], [9], [1])
    for before, now in zip(found(*roads.before), found(*roads.now), strict=True):
        np.testing.assert_array_equal(before[1], now[1])


def test_actions_of_32_bits_are_taken(bank, backend):
    found = []
    for dtype in (torch.float32, torch.float64):
        simulation = SlotSimulation(bank, 1, model=MODELS["unicycle"], drives=None, backend=backend)
        simulation.reset([0], [1])
        found.append(simulation.step(torch.tensor([[0.5, 0.25]], dtype=dtype, device=backend.device)).poses)
    assert torch.equal(*found)


def test_without_a_map_nothing_is_off_the_road(bank, backend):
    bare = SceneBank(bank.log, road=None, drives_agents=False)
    bare.prepare(np.array([0]))
    simulation = SlotSimulation(bare, 1, model=MODELS["unicycle"], drives=None, backend=backend)
    simulation.reset([0], [1])
    for _ in range(30):
        result = simulation.step(torch.tensor([[6.0, 0.0]], device=backend.device))
    assert result.off_road_m.tolist() == [0.0]
    assert result.speeds_mps.item() > 15


def test_what_does_not_fit_is_refused(bank, backend):
    simulation = SlotSimulation(bank, 2, model=MODELS["unicycle"], drives=None, backend=backend)
    with pytest.raises(IndexOutOfRangeError, match=r"scene_indices has 3, which is not on"):
        simulation.reset([0, 3], [1, 1])
    with pytest.raises(IndexOutOfRangeError, match=r"frame_indices of driven AVs has 0; .* 1 to 99"):
        simulation.reset([0, 1], [1, 0])
    with pytest.raises(IndexOutOfRangeError, match=r"frame_indices of driven AVs has 100; .* 1 to 99"):
        simulation.reset([0, 1], [1, 100])
    with pytest.raises(IndexOutOfRangeError, match=r"slots has 2; it may be 0 to 1"):
        simulation.reset([0], [1], [2])
    with pytest.raises(InvalidArgumentError, match=r"one number each for every slot"):
        simulation.reset([0], [1])
    with pytest.raises(InvalidArgumentError, match=r"actions is None, but AVs are driven"):
        simulation.step()
    with pytest.raises(InvalidArgumentError, match=r"actions is torch.float64 of shape \(2, 3\)"):
        simulation.step(torch.zeros((2, 3), dtype=torch.float64, device=backend.device))
    replayed = SlotSimulation(bank, 1, model=None, drives=None, backend=backend)
    with pytest.raises(IndexOutOfRangeError, match=r"frame_indices has -1; it may be 0 to 99"):
        replayed.reset([0], [-1])
    with pytest.raises(InvalidArgumentError, match=r"actions are given, but AVs are replayed"):
        replayed.step(torch.zeros((1, 2), device=backend.device))
    with pytest.raises(InvalidArgumentError, match=r"model is a PoseChange; .* Unicycle, InvertibleBicycle, Kinem"):
        SlotSimulation(bank, 1, model=PoseChange(), drives=None, backend=backend)
