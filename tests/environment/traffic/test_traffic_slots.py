"""Traffic of many environments: the same drives as in simulations, restarts, waiting, and what is refused."""

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.scene_records import SceneRecords, join_scenes
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.environment.traffic.traffic_slots import TrafficSlots
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.evaluation.driving.road_users import classify_rows
from l5kit.simulation.drivers.intelligent import _MEMORY, IntelligentDriver
from l5kit.simulation.drivers.lane_seat import LaneSeat
from l5kit.simulation.drivers.simple import ConstantVelocity, FullThrottle, Standing
from l5kit.simulation.engine.actions import PlannedPoses
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat, SceneSimulation
from support.logs import intervals

NUM_STEPS = 45
DRIVERS = {
    "usual": IntelligentDriver(),
    "bends": IntelligentDriver(limit_part=0.7, max_lateral_mps2=1.5),
}
EGOS = {
    "standing": EgoSeat(Standing(), PlannedPoses()),
    "tracked": EgoSeat(ConstantVelocity()),
    "throttle": EgoSeat(FullThrottle()),
    "log": None,
}


@pytest.fixture(scope="module")
def scenes(city_log):
    return [SceneRecords.read(city_log, scene) for scene in range(len(city_log.scenes))]


@pytest.fixture(scope="module")
def bank(city_log, road):
    bank = SceneBank(city_log, road=road, drives_agents=True)
    assert bank.prepare(np.array([2, 0, 1, 2])).tolist() == [0, 1, 2, 0]
    return bank


class OfWholeScenes:
    """A driver that looks at all frames of scenes, also at those before the first one that is simulated."""

    def __init__(self, driver, whole):
        self.driver, self.whole = driver, whole

    def drive(self, state):
        if _MEMORY not in state.memory:
            limit_mps = self.driver.unknown_limit_mps
            state.memory[_MEMORY] = LaneSeat.of_agents(self.whole, limit_mps, has_avs=False)
        return self.driver.drive(state)

    def tracks(self, batch):
        return self.driver.tracks(self.whole)


class Twin:
    """Slots, and simulations of the same episodes, all of which make the same steps."""

    def __init__(self, bank, num_slots, driver, ego, *, scenes, road):
        self.slots, self.bank = TrafficSlots(bank, num_slots, drives=driver), bank
        self.driver, self.ego, self.scenes, self.road = driver, ego, scenes, road
        self.simulations = {}

    def start(self, slot, scene, frame):
        recorded = [self.scenes[scene]]
        whole = SceneBatch.of_scenes(recorded, facts=self.bank.log.facts, road=self.road)
        of_whole = OfWholeScenes(self.driver, whole)
        seat = AgentSeat(of_whole, control=AgentControl.of_traffic(tracks=of_whole.tracks))
        batch = SceneBatch.of_scenes(recorded, facts=self.bank.log.facts, road=self.road, start=frame)
        self.simulations[slot] = SceneSimulation(batch, ego=self.ego, agents=seat, strict=True)
        bank_row = self.bank.scenes.tolist().index(scene)
        self.slots.start(np.array([slot]), np.array([bank_row]), np.array([frame]))

    def egos(self):
        states = [each.state(np.zeros(1, np.int64)) for each in self.simulations.values()]
        speeds_mps = np.array([state.ego.speeds_mps[0] for state in states])
        boxes = np.concatenate([state.ego_boxes for state in states])
        return boxes, speeds_mps[:, None] * np.stack([np.cos(boxes[:, 2]), np.sin(boxes[:, 2])], axis=-1)

    def step(self):
        slots = np.array(list(self.simulations))
        self.slots.step(slots, *self.egos())
        for each in self.simulations.values():
            each.step()
        self.slots.enter(slots, self.egos()[0])

    def names_with_paths(self, slot):
        """Return the tracks of the scene of a slot that have a path."""
        bank_row = self.slots.bank_rows[slot]
        paths = slice(self.bank.routes[bank_row] + 1, self.bank.routes[bank_row + 1])
        return self.bank.track_ids[self.bank.path_tracks[paths]]

    def check(self, *, is_in_order=True):
        slots = np.array(list(self.simulations))
        rows, driven = self.slots.rows(slots), self.slots.driven_rows(slots)
        for place, (slot, simulation) in enumerate(self.simulations.items()):
            state = simulation.state(np.zeros(1, np.int64))
            own, agents = slice(*rows.starts[place : place + 2]), state.agents
            names = simulation.batch.tracks.track_ids[agents.track_rows]
            order = np.flatnonzero((agents.groups >= 0) | np.isin(names, self.names_with_paths(slot)))
            found_names, found = self.bank.track_ids[rows.track_rows[own]], slice(None)
            if not is_in_order:
                order, found = order[np.argsort(names[order])], np.argsort(found_names)
            np.testing.assert_array_equal(found_names[found], names[order])
            np.testing.assert_array_equal(rows.groups[own][found], agents.groups[order])
            np.testing.assert_allclose(rows.boxes[own][found], agents.boxes[order], rtol=0, atol=1e-9)
            velocities_mps = rows.velocities_mps[own][found]
            np.testing.assert_allclose(velocities_mps, agents.velocities_mps[order], rtol=0, atol=1e-9)
            of_slot = slice(*driven.starts[place : place + 2])
            is_hidden, driven_ids = driven.is_hidden[of_slot], driven.track_ids[of_slot]
            assert not np.isin(driven_ids[is_hidden], names).any()
            assert self.slots.num_driven(np.array([slot])).tolist() == [(~is_hidden).sum()]
            where = [found_names.tolist().index(each) for each in driven_ids[~is_hidden].tolist()]
            np.testing.assert_array_equal(driven.poses[of_slot][~is_hidden], rows.boxes[own][where, :3])


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("ego", EGOS)
def test_agents_are_where_a_simulation_has_them(bank, scenes, road, ego, driver):
    twin = Twin(bank, 5, DRIVERS[driver], EGOS[ego], scenes=scenes, road=road)
    for slot, scene, frame in ((4, 0, 0), (0, 1, 10), (2, 0, 30), (1, 2, 5)):
        twin.start(slot, scene, frame)
    moved_m = 0.0
    for step in range(NUM_STEPS):
        if step == 20:
            twin.start(2, 2, 3)  # another scene, and the same one at another frame
            twin.start(4, 0, 0)
        twin.check()
        twin.step()
        moved_m = max(moved_m, _way_from_log(twin))
    twin.check()
    assert moved_m > 3.0
    assert twin.slots.num_driven(np.array([0, 1, 2, 4])).sum() > 5


def _way_from_log(twin):
    """Return how far the farthest agent is from where the log has it in this frame."""
    slots = twin.slots
    logged = TrafficSlots(twin.bank, len(slots), drives=None)
    used = np.array(list(twin.simulations))
    logged.start(used, slots.bank_rows[used], slots.frames[used])
    log_rows, rows = logged.rows(used), slots.rows(used)
    places = {}
    for each in (log_rows, rows):
        of_slots = np.repeat(used, np.diff(each.starts)).tolist()
        for slot, track, box in zip(of_slots, each.track_rows.tolist(), each.boxes, strict=True):
            places.setdefault((slot, track), []).append(box[:2])
    return max(np.linalg.norm(pair[0] - pair[1]) for pair in places.values() if len(pair) == 2)


def test_agents_that_the_log_loses_for_a_while_drive_on(bank, city_log, road, scenes):
    vehicles = bank.path_tracks[bank.routes[1] + 1 : bank.routes[2]]  # scene 0 is the second one of the bank
    lost = bank.track_ids[vehicles[::2]]
    records = scenes[0]
    frames = np.repeat(np.arange(len(records.frames)), np.diff(records.frames["agent_index_interval"], axis=1)[:, 0])
    starts = 12 + records.agents["track_id"] % 5
    is_left = ~(np.isin(records.agents["track_id"], lost) & (frames >= starts) & (frames < starts + 6))
    cut = records.frames.copy()
    cut["agent_index_interval"] = intervals(np.bincount(frames[is_left], minlength=len(cut)))
    holed = SceneRecords(cut, records.agents[is_left], records.tl_faces)
    joined = join_scenes([holed])
    arrays = {name: getattr(joined, name) for name in ("scenes", "frames", "agents", "tl_faces")}
    of_holed = SceneBank(ChunkedDataset.in_memory(**arrays, facts=city_log.facts), road=road, drives_agents=True)
    of_holed.prepare(np.array([0]))
    twin = Twin(of_holed, 1, DRIVERS["usual"], EGOS["tracked"], scenes=[holed], road=road)
    twin.start(0, 0, 0)
    num_beyond_log = 0
    for _ in range(NUM_STEPS):
        twin.step()
        twin.check(is_in_order=False)
        row = of_holed.frame_starts[0] + twin.slots.frames[0]
        of_log = of_holed.rows[0][row + 1] - of_holed.rows[0][row]
        num_beyond_log += len(twin.slots.rows(np.array([0])).groups) > of_log
    assert num_beyond_log > 5


def test_paths_that_come_later_have_bends_too(city_log, road):
    def drive(groups):
        growing = SceneBank(city_log, road=road, drives_agents=True)
        slots = TrafficSlots(growing, 2, drives=DRIVERS["bends"])
        for group in groups:
            growing.prepare(np.array(group))
            last = np.array([len(growing) - 1])
            slots.start(np.array([0]), last, np.array([0]))
            for _ in range(20):
                box = [[*growing.ego_poses[growing.frame_starts[last[0]]], 4.0, 2.0]]
                slots.step(np.array([0]), np.array(box), np.zeros((1, 2)))
        return slots.rows(np.array([0])).boxes

    assert drive([[2], [0, 1]]).tobytes() == drive([[2, 0, 1]]).tobytes()


def test_vehicles_are_driven_on_while_scenes_with_more_of_them_come(city_log, road, scenes):
    records = scenes[0]
    frames = np.repeat(np.arange(len(records.frames)), np.diff(records.frames["agent_index_interval"], axis=1)[:, 0])
    is_left = records.agents["track_id"] % 2 == 0
    cut = records.frames.copy()
    cut["agent_index_interval"] = intervals(np.bincount(frames[is_left], minlength=len(cut)))
    joined = join_scenes([SceneRecords(cut, records.agents[is_left], records.tl_faces), records])
    arrays = {name: getattr(joined, name) for name in ("scenes", "frames", "agents", "tl_faces")}
    log = ChunkedDataset.in_memory(**arrays, facts=city_log.facts)

    def drive(groups):
        growing = SceneBank(log, road=road, drives_agents=True)
        slots, both = TrafficSlots(growing, 2, drives=DRIVERS["usual"]), np.arange(2)
        for number, group in enumerate(groups):
            growing.prepare(np.array(group, np.int64))
            slots.start(both[number : number + 1], np.array([number]), np.array([0]))
            started = both[: number + 1]
            for _ in range(15):
                rows = growing.frame_starts[slots.bank_rows[started]] + slots.frames[started]
                boxes = np.column_stack([growing.ego_poses[rows], np.full((len(rows), 2), 2.0)])
                slots.step(started, boxes, np.zeros((len(rows), 2)))
        num_vehicles = np.diff(growing.routes)
        assert num_vehicles[0] < num_vehicles[1]
        return slots.num_driven(both), slots.rows(both).boxes

    found, expected = drive([[0], [1]]), drive([[0, 1], []])
    assert found[0][0] > 0
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def test_agents_wait_behind_an_av_that_stands_where_they_appear(bank):
    slots = TrafficSlots(bank, 3, drives=DRIVERS["usual"])
    num_hidden = 0
    for bank_row in range(3):
        place = _entering_row(bank, bank_row)
        if place is None:
            continue
        frame, row = place
        one = np.array([bank_row])
        slots.start(one, one, np.array([frame - 1]))
        box = bank.rows[4][row : row + 1].copy()
        slots.step(one, box + [500, 0, 0, 0, 0], np.zeros((1, 2)))
        slots.enter(one, box)
        hidden = slots.driven_rows(one)
        assert bank.track_ids[bank.rows[7][row]] in hidden.track_ids[hidden.is_hidden]
        assert bank.rows[7][row] not in slots.rows(one).track_rows
        slots.enter(one, box + [30, 30, 0, 0, 0])
        assert bank.rows[7][row] in slots.rows(one).track_rows
        num_hidden += 1
    assert num_hidden > 0


def _entering_row(bank, bank_row):
    """Return a frame of a scene and a row of the bank, whose vehicle appears then."""
    first = bank.frame_starts[bank_row]
    for frame in range(1, int(bank.frame_starts[bank_row + 1] - first)):
        for row in range(*bank.rows[0][first + frame : first + frame + 2]):
            if bank.rows[1][row] >= 0 and bank.rows[2][row] and bank.rows[3][row] >= 0:
                return frame, row
    return None


def groups_of(agents):
    return classify_rows(agents["label_probabilities"], agents["extent"])


def test_replayed_agents_are_those_of_the_log(bank, scenes):
    slots = TrafficSlots(bank, 2, drives=None)
    both = np.array([1, 0])
    slots.start(both, np.array([0, 1]), np.array([7, 50]))  # scenes 2 and 0
    for step in range(10):
        rows = slots.rows(both)
        for place, (scene, frame) in enumerate(((2, 7 + step), (0, 50 + step))):
            records = scenes[scene]
            agents = records.agents[slice(*records.frames["agent_index_interval"][frame])]
            paths = slice(bank.routes[place] + 1, bank.routes[place + 1])
            names = bank.track_ids[bank.path_tracks[paths]]
            agents = agents[np.isin(agents["track_id"], names) | (groups_of(agents) >= 0)]
            own = slice(*rows.starts[place : place + 2])
            np.testing.assert_array_equal(rows.boxes[own, :2], agents["centroid"])
            np.testing.assert_array_equal(bank.track_ids[rows.track_rows[own]], agents["track_id"])
        slots.step(both, np.zeros((2, 5)), np.zeros((2, 2)))
        slots.enter(both, np.zeros((2, 5)))
    assert slots.frames.tolist() == [60, 17]
    assert slots.num_driven(both).tolist() == [0, 0]
    assert slots.driven_rows(both).starts.tolist() == [0, 0, 0]


def test_a_slot_does_not_depend_on_the_others_of_a_call(bank):
    def drive(groups):
        slots = TrafficSlots(bank, 6, drives=DRIVERS["usual"])
        every = np.arange(6)
        slots.start(every, every % 3, 5 * every)
        for _ in range(20):
            for group in groups:
                chosen = np.array(group)
                frames = bank.frame_starts[slots.bank_rows[chosen]] + slots.frames[chosen]
                boxes = np.column_stack([bank.ego_poses[frames], np.full((len(chosen), 2), 3.0)])
                slots.step(chosen, boxes, np.zeros((len(chosen), 2)))
                slots.enter(chosen, boxes)
        return slots.rows(every)

    together, apart = drive([range(6)]), drive([[3], [5, 0], [1, 4, 2]])
    assert together.boxes.tobytes() == apart.boxes.tobytes()
    assert together.velocities_mps.tobytes() == apart.velocities_mps.tobytes()
    assert together.track_rows.tobytes() == apart.track_rows.tobytes()


def test_what_is_not_there_is_refused(bank, city_log, road):
    slots, one = TrafficSlots(bank, 2, drives=DRIVERS["usual"]), np.array([1])
    with pytest.raises(IndexOutOfRangeError, match=r"no scene has started in slot 1"):
        slots.rows(one)
    with pytest.raises(IndexOutOfRangeError, match=r"slots has 2; it may be 0 to 1"):
        slots.start(np.array([2]), np.array([0]), np.array([0]))
    with pytest.raises(IndexOutOfRangeError, match=r"frames has 100; it may be 0 to 99"):
        slots.start(one, np.array([0]), np.array([100]))
    with pytest.raises(IndexOutOfRangeError, match=r"bank_rows has 3; it may be 0 to 2"):
        slots.start(one, np.array([3]), np.array([0]))
    slots.start(one, np.array([0]), np.array([99]))
    with pytest.raises(IndexOutOfRangeError, match=r"next frame of slots has 100"):
        slots.step(one, np.zeros((1, 5)), np.zeros((1, 2)))
    slots.start(one, np.array([0]), np.array([0]))
    with pytest.raises(InvalidArgumentError, match=r"ego_boxes must have shape \(1, 5\), got \(1, 3\)"):
        slots.step(one, np.zeros((1, 3)), np.zeros((1, 2)))
    with pytest.raises(InvalidArgumentError, match=r"drives_agents=True"):
        TrafficSlots(SceneBank(city_log, road=road, drives_agents=False), 1, drives=DRIVERS["usual"])
    with pytest.raises(InvalidArgumentError, match=r"unknown_limit_mps 5.0, the bank 10.0"):
        TrafficSlots(bank, 1, drives=IntelligentDriver(unknown_limit_mps=5.0))
