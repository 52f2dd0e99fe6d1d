"""Traffic on a device: the drives of the processor, ends of scenes, lights, and what is refused."""

import numpy as np
import pytest

from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.environment.traffic.traffic_slots import TrafficSlots
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.lanes.red_lights import rank_of_line
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.lanes.lane_following import mark_lights

torch = pytest.importorskip("torch")
from l5kit.environment.device.device_bank import DeviceBank  # noqa: E402
from l5kit.environment.device.device_traffic import DeviceTraffic  # noqa: E402

NUM_STEPS = 99
DRIVERS = {
    "usual": IntelligentDriver(),
    "bends": IntelligentDriver(limit_part=0.7, max_lateral_mps2=1.5),
    "replay": None,
}
AV_SIZES_M = {0: (4.8, 1.9), 1: (4.8, 1.9), 2: (240.0, 240.0)}
"""Of slots: one AV is so large that vehicles, which come from where the log ends, appear where it stands."""


def egos_of(bank, bank_rows, frames, slots):
    """Return boxes and velocities of logged AVs."""
    rows = bank.frame_starts[bank_rows[slots]] + frames[slots]
    sizes_m = np.array([AV_SIZES_M[slot % 3] for slot in slots.tolist()])
    boxes = np.column_stack([bank.ego_poses[rows], sizes_m])
    headings = np.stack([np.cos(boxes[:, 2]), np.sin(boxes[:, 2])], axis=-1)
    return boxes, bank.ego_motion[rows, :1] * headings


class Twins:
    """The same traffic on the processor and on a device."""

    def __init__(self, bank, num_slots, driver, backend):
        self.bank, self.device = bank, backend.device
        self.slots = TrafficSlots(bank, num_slots, drives=driver)
        self.twin = DeviceTraffic(bank, num_slots, drives=driver, backend=backend)
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
        self.most_waiting = max(self.most_waiting, int((self.twin.seats.states == 2).sum()))

    def check(self, slots):
        expected, found = self.slots.rows(slots), self.twin.rows(self.sent(slots))
        counts, groups = found.counts.cpu().numpy(), found.groups.cpu().numpy()
        np.testing.assert_array_equal(counts, np.diff(expected.starts))
        is_there = np.arange(groups.shape[1]) < counts[:, None]
        assert (groups[~is_there] == -1).all()
        np.testing.assert_array_equal(groups[is_there], expected.groups)
        np.testing.assert_array_equal(found.track_rows.cpu().numpy()[is_there], expected.track_rows)
        tolerance = 0.0 if self.device == "cpu" else 1e-4
        for name in ("boxes", "velocities_mps"):
            values = getattr(found, name).cpu().numpy()[is_there]
            np.testing.assert_allclose(values, getattr(expected, name), rtol=0, atol=tolerance)
        np.testing.assert_array_equal(self.twin.num_driven.cpu().numpy()[slots], self.slots.num_driven(slots))
        np.testing.assert_array_equal(self.twin.frames.cpu().numpy(), self.slots.frames)
        np.testing.assert_array_equal(self.twin.bank_rows.cpu().numpy()[slots], self.slots.bank_rows[slots])

    def sent(self, array):
        return torch.from_numpy(array).to(self.device)


@pytest.mark.parametrize("driver", DRIVERS)
def test_agents_are_where_the_processor_has_them(bank, backend, driver):
    twins = Twins(bank, 5, DRIVERS[driver], backend)
    every = np.arange(5)
    twins.start(every, np.array([0, 1, 2, 1, 0]), np.zeros(5, np.int64))
    most_driven = 0
    for step in range(NUM_STEPS):
        if step == 40:
            twins.start(np.array([3]), np.array([2]), np.array([10]))  # another scene, while the others go on
        twins.step(every if step < 85 else every[[4, 0, 2]])
        twins.check(every)
        most_driven = max(most_driven, int(twins.twin.num_driven.sum()))
    assert most_driven > 20 if DRIVERS[driver] else most_driven == 0
    assert twins.most_waiting > 0 if DRIVERS[driver] else twins.most_waiting == 0


def test_a_slot_in_its_last_frame_stays_as_it_is(bank, backend):
    twins = Twins(bank, 2, DRIVERS["usual"], backend)
    one, both = np.array([1]), np.arange(2)
    twins.start(both, both, np.array([97, 10]))
    for _ in range(2):
        twins.step(both)
    before = twins.twin.rows(twins.sent(both))
    boxes, velocities_mps = egos_of(bank, twins.slots.bank_rows, twins.slots.frames, both)
    twins.twin.step(twins.sent(both), twins.sent(boxes), twins.sent(velocities_mps))
    twins.slots.step(one, boxes[1:], velocities_mps[1:])
    twins.check(both)
    after = twins.twin.rows(twins.sent(both))
    assert torch.equal(before.boxes[0], after.boxes[0])
    assert not torch.equal(before.boxes[1], after.boxes[1])


def test_slots_that_have_not_started_have_nobody(bank, backend):
    twin = DeviceTraffic(bank, 3, drives=DRIVERS["usual"], backend=backend)
    twin.start(np.array([1]), np.array([0]), np.array([0]))
    twin.step(twin.every, torch.zeros((3, 5), dtype=torch.float64, device=backend.device), _zeros((3, 2), backend))
    twin.enter(twin.every, _zeros((3, 5), backend))
    assert twin.frames.tolist() == [-1, 1, -1]
    counts = twin.rows(twin.every).counts.tolist()
    assert counts[1] > 0
    assert (counts[0], counts[2]) == (0, 0)


def _zeros(shape, backend):
    return torch.zeros(shape, dtype=torch.float64, device=backend.device)


def test_lights_of_lines_are_those_of_the_map(bank, backend):
    on_device = DeviceBank.upload(bank, backend)
    starts, ranks, line_lights = (
        backend.tensor(each).cpu().numpy() for each in (*on_device.lights, on_device.paths[6])
    )
    assert len(ranks) < bank.num_lanes * len(bank.ego_poses) / 10
    of_lights, paths = (*bank.paths[:6], line_lights, bank.paths[7]), bank.paths
    num_lit, of_map = 0, np.zeros(bank.num_lanes, np.int64)
    for scene in range(len(bank)):
        pieces = range(*paths[3][bank.routes[scene : scene + 2]])
        for frame in range(bank.frame_starts[scene], bank.frame_starts[scene + 1], 9):
            colors = (np.array([frame]), *bank.colors)
            mark_lights(colors, 0, True, of_map)
            expected = [rank_of_line(paths[6], piece, of_map) for piece in pieces]
            mark_lights(colors, 0, False, of_map)
            of_frame = ranks[starts[frame] : starts[frame + 1]].astype(np.int64)
            assert [rank_of_line(of_lights[6], piece, of_frame) for piece in pieces] == expected
            num_lit += np.count_nonzero(expected)
    assert num_lit > 0


def test_what_does_not_fit_is_refused(city_log, road, bank, backend):
    growing = SceneBank(city_log, road=road, drives_agents=True)
    with pytest.raises(InvalidArgumentError, match=r"bank has no scenes; call bank.prepare\(\)"):
        DeviceTraffic(growing, 1, drives=None, backend=backend)
    growing.prepare(np.array([0]))
    twin, zero = DeviceTraffic(growing, 2, drives=DRIVERS["usual"], backend=backend), np.zeros(1, np.int64)
    with pytest.raises(IndexOutOfRangeError, match=r"slots has 2; it may be 0 to 1"):
        twin.start(np.array([2]), zero, zero)
    with pytest.raises(IndexOutOfRangeError, match=r"frames has 100; it may be 0 to 99"):
        twin.start(zero, zero, zero + 100)
    with pytest.raises(IndexOutOfRangeError, match=r"bank_rows has 1; it may be 0 to 0"):
        twin.start(zero, zero + 1, zero)
    with pytest.raises(InvalidArgumentError, match=r"one number each"):
        twin.start(zero, zero, np.zeros(2, np.int64))
    boxes, velocities = _zeros((2, 5), backend), _zeros((2, 2), backend)
    with pytest.raises(InvalidArgumentError, match=r"ego_boxes is torch.float32 of shape \(2, 5\) .* torch.float64"):
        twin.step(twin.every, boxes.float(), velocities)
    with pytest.raises(InvalidArgumentError, match=r"ego_velocities_mps is .* \(2, 3\) .* \(2, 2\)"):
        twin.step(twin.every, boxes, _zeros((2, 3), backend))
    with pytest.raises(InvalidArgumentError, match=r"slots is torch.int32"):
        twin.enter(twin.every.int(), boxes)
    growing.prepare(np.array([1]))
    with pytest.raises(InvalidArgumentError, match=r"bank has 2 scenes, but 1 are on"):
        twin.start(zero, zero, zero)
    with pytest.raises(InvalidArgumentError, match=r"num_slots is 0"):
        DeviceTraffic(bank, 0, drives=None, backend=backend)
    with pytest.raises(InvalidArgumentError, match=r"unknown_limit_mps 5.0, the bank 10.0"):
        DeviceTraffic(bank, 1, drives=IntelligentDriver(unknown_limit_mps=5.0), backend=backend)
