"""Traffic on a device: the drives of the processor, ends of scenes, and what is refused."""

import numpy as np
import pytest

from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.environment.traffic.traffic_slots import TrafficSlots
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.simulation.drivers.intelligent import IntelligentDriver

torch = pytest.importorskip("torch")

NUM_STEPS = 99
DRIVERS = {
    "usual": IntelligentDriver(),
    "bends": IntelligentDriver(limit_part=0.7, max_lateral_mps2=1.5),
    "replay": None,
}
AV_SIZES_M = {0: (4.8, 1.9), 1: (4.8, 1.9), 2: (240.0, 240.0)}
"""Slots with one AV so large that vehicles beyond the end of the log appear inside it."""


def egos_of(bank, bank_rows, frames, slots):
    """Return boxes and velocities of logged AVs."""
    rows = bank.frame_starts[bank_rows[slots]] + frames[slots]
    sizes_m = np.array([AV_SIZES_M[slot % 3] for slot in slots.tolist()])
    boxes = np.column_stack([bank.ego_poses[rows], sizes_m])
    headings = np.stack([np.cos(boxes[:, 2]), np.sin(boxes[:, 2])], axis=-1)
    return boxes, bank.ego_motion[rows, :1] * headings


@pytest.fixture
def device(backend):
    """A device, or the processor as if it were one."""
    if backend.is_serial:
        pytest.skip("slots on the processor are what devices are compared with")
    return backend


class Twins:
    """The same traffic on the processor and on a device."""

    def __init__(self, bank, num_slots, driver, device):
        self.bank, self.device = bank, device.device
        self.slots = TrafficSlots(bank, num_slots, drives=driver)
        self.twin = TrafficSlots(bank, num_slots, drives=driver, backend=device)
        self.most_waiting = 0

    def start(self, slots, bank_rows, frames):
        self.slots.start(slots, bank_rows, frames)
        self.twin.start(slots, bank_rows, frames)

    def step(self, slots):
        boxes, velocities_mps = egos_of(self.bank, self.slots.bank_rows, self.slots.frames, slots)
        self.slots.step(slots, boxes, velocities_mps)
        self.twin.step(self.sent(slots), self.sent(boxes), self.sent(velocities_mps))
        boxes, _ = egos_of(self.bank, self.slots.bank_rows, self.slots.frames, slots)
        self.slots.enter(slots, boxes)
        self.twin.enter(self.sent(slots), self.sent(boxes))
        self.most_waiting = max(self.most_waiting, int((self.found(self.twin.vehicles.states) == 2).sum()))

    def check(self, slots):
        expected, found = self.slots.rows(slots), self.twin.rows(self.sent(slots))
        sizes, shape = self.found(found.sizes), (len(slots), self.twin.most)
        groups = self.found(found.groups).reshape(shape)
        np.testing.assert_array_equal(sizes, np.diff(expected.starts))
        is_there = np.arange(shape[1]) < sizes[:, None]
        assert (groups[~is_there] == -1).all()
        np.testing.assert_array_equal(groups[is_there], expected.groups)
        np.testing.assert_array_equal(self.found(found.track_rows).reshape(shape)[is_there], expected.track_rows)
        tolerance = 0.0 if self.device == "cpu" else 1e-4
        for name in ("boxes", "velocities_mps"):
            values = self.found(getattr(found, name)).reshape(*shape, -1)[is_there]
            np.testing.assert_allclose(values, getattr(expected, name), rtol=0, atol=tolerance)
        for name in ("num_driven", "bank_rows"):
            values = self.found(getattr(self.twin.current, name))[slots]
            np.testing.assert_array_equal(values, getattr(self.slots.current, name)[slots])
        np.testing.assert_array_equal(self.found(self.twin.frames), self.slots.frames)
        driven, of_twin = self.slots.driven_rows(slots), self.twin.driven_rows(slots)
        np.testing.assert_array_equal(of_twin.track_ids, driven.track_ids)
        np.testing.assert_array_equal(of_twin.is_hidden, driven.is_hidden)
        np.testing.assert_allclose(of_twin.poses, driven.poses, rtol=0, atol=tolerance)

    def found(self, array):
        return self.twin.backend.tensor(array).cpu().numpy()

    def sent(self, array):
        return torch.from_numpy(array).to(self.device)


@pytest.mark.parametrize("driver", DRIVERS)
def test_agents_are_where_the_processor_has_them(bank, device, driver):
    twins = Twins(bank, 5, DRIVERS[driver], device)
    every = np.arange(5)
    twins.start(every, np.array([0, 1, 2, 1, 0]), np.zeros(5, np.int64))
    most_driven = 0
    for step in range(NUM_STEPS):
        if step == 40:
            twins.start(np.array([3]), np.array([2]), np.array([10]))  # another scene, while the others go on
        twins.step(every if step < 85 else every[[4, 0, 2]])
        twins.check(every)
        most_driven = max(most_driven, int(twins.found(twins.twin.current.num_driven).sum()))
    assert most_driven > 20 if DRIVERS[driver] else most_driven == 0
    assert twins.most_waiting > 0 if DRIVERS[driver] else twins.most_waiting == 0


def boxes_of(twins, slots):
    """The boxes of the agents of slots, of as many rows each, copied from memory that is used again."""
    boxes = twins.found(twins.twin.rows(twins.sent(slots)).boxes)
    return boxes.reshape(len(slots), twins.twin.most, 5).copy()


def test_a_slot_in_its_last_frame_stays_as_it_is(bank, device):
    twins = Twins(bank, 2, DRIVERS["usual"], device)
    one, both = np.array([1]), np.arange(2)
    twins.start(both, both, np.array([97, 10]))
    for _ in range(2):
        twins.step(both)
    before = boxes_of(twins, both)
    boxes, velocities_mps = egos_of(bank, twins.slots.bank_rows, twins.slots.frames, both)
    twins.twin.step(twins.sent(both), twins.sent(boxes), twins.sent(velocities_mps))
    twins.slots.step(one, boxes[1:], velocities_mps[1:])
    twins.check(both)
    after = boxes_of(twins, both)
    np.testing.assert_array_equal(before[0], after[0])
    assert not np.array_equal(before[1], after[1])


def test_slots_that_have_not_started_have_nobody(bank, device):
    twin, every = TrafficSlots(bank, 3, drives=DRIVERS["usual"], backend=device), torch.arange(3, device=device.device)
    twin.start(np.array([1]), np.array([0]), np.array([0]))
    twin.step(every, _zeros((3, 5), device), _zeros((3, 2), device))
    twin.enter(every, _zeros((3, 5), device))
    assert device.tensor(twin.frames).tolist() == [-1, 1, -1]
    counts = device.tensor(twin.rows(every).sizes).tolist()
    assert counts[1] > 0
    assert (counts[0], counts[2]) == (0, 0)


def _zeros(shape, backend):
    return torch.zeros(shape, dtype=torch.float64, device=backend.device)


def test_what_does_not_fit_is_refused(city_log, road, bank, device):
    growing = SceneBank(city_log, road=road, drives_agents=True)
    with pytest.raises(InvalidArgumentError, match=r"bank has no scenes; call bank.prepare\(\)"):
        TrafficSlots(growing, 1, drives=None, backend=device)
    growing.prepare(np.array([0]))
    twin, zero = TrafficSlots(growing, 2, drives=DRIVERS["usual"], backend=device), np.zeros(1, np.int64)
    with pytest.raises(IndexOutOfRangeError, match=r"slots has 2; it may be 0 to 1"):
        twin.start(np.array([2]), zero, zero)
    with pytest.raises(IndexOutOfRangeError, match=r"frames has 100; it may be 0 to 99"):
        twin.start(zero, zero, zero + 100)
    with pytest.raises(IndexOutOfRangeError, match=r"bank_rows has 1; it may be 0 to 0"):
        twin.start(zero, zero + 1, zero)
    with pytest.raises(InvalidArgumentError, match=r"one number each"):
        twin.start(zero, zero, np.zeros(2, np.int64))
    every = torch.arange(2, device=device.device)
    boxes, velocities = _zeros((2, 5), device), _zeros((2, 2), device)
    with pytest.raises(InvalidArgumentError, match=r"ego_boxes is torch.float32 of shape \(2, 5\) .* torch.float64"):
        twin.step(every, boxes.float(), velocities)
    with pytest.raises(InvalidArgumentError, match=r"ego_velocities_mps is .* \(2, 3\) .* \(2, 2\)"):
        twin.step(every, boxes, _zeros((2, 3), device))
    with pytest.raises(InvalidArgumentError, match=r"slots is torch.int32"):
        twin.enter(every.int(), boxes)
    growing.prepare(np.array([1]))
    with pytest.raises(InvalidArgumentError, match=r"bank has 2 scenes, but 1 are on"):
        twin.start(zero, zero, zero)
    with pytest.raises(InvalidArgumentError, match=r"num_slots is 0"):
        TrafficSlots(bank, 0, drives=None, backend=device)
    with pytest.raises(InvalidArgumentError, match=r"unknown_limit_mps 5.0, the bank 10.0"):
        TrafficSlots(bank, 1, drives=IntelligentDriver(unknown_limit_mps=5.0), backend=device)
