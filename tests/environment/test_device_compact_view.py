"""Compact observations on a device: those of the processor, also after restarts and without a map."""

import numpy as np
import pytest

from l5kit.data import ChunkedDataset, find_dataset_files
from l5kit.data.map.opened import open_map
from l5kit.environment.episode_roads import AvArrays, EpisodeRoads
from l5kit.environment.observations.compact_layout import CompactLayout
from l5kit.environment.observations.compact_view import CompactView
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.engine.scene_batch import RoadMap
from l5kit.simulation.vehicle_models import KinematicBicycle

torch = pytest.importorskip("torch")
pytest.importorskip("gymnasium")
from l5kit.environment.slots.slot_simulation import SlotSimulation  # noqa: E402

LAYOUT = CompactLayout(num_agents=9, num_route_points=6, num_lane_points=40, reach_m=60.0)


def bank_of(city, *, has_map=True):
    files = find_dataset_files(city)
    road = RoadMap(open_map(files)) if has_map else None
    bank = SceneBank(ChunkedDataset(str(files.dataset)).open(), road=road, drives_agents=has_map)
    bank.prepare(np.array([2, 0, 1]))
    return bank


def _host(simulation, array):
    return simulation.backend.tensor(array).cpu().numpy()


def avs_of(simulation):
    """Return the AVs of a simulation in memory of the processor."""
    return AvArrays(*(_host(simulation, array).copy() for array in simulation.avs))


def look(view, roads, avs, begun):
    """Let the AVs of all slots enter, those of some of them begin, and look; road users are as they were logged."""
    every = np.arange(len(roads))
    for slots, begins in ((np.flatnonzero(~begun), False), (np.flatnonzero(begun), True)):
        roads.enter(slots, avs, begins=begins)
    view.look(every, avs)
    roads.leave(every, avs)
    return view.memory


@pytest.mark.parametrize("has_map", [True, False], ids=["map", "no map"])
def test_what_is_seen_is_what_the_processor_sees(city, backend, has_map):
    bank, driver = bank_of(city, has_map=has_map), IntelligentDriver() if has_map else None
    simulation = SlotSimulation(bank, 4, model=KinematicBicycle(), drives=driver, backend=backend)
    simulation.reset([0, 1, 2, 0], [1, 7, 20, 40])
    device_view, roads = CompactView(simulation.roads, LAYOUT), EpisodeRoads(bank, 4, drives=driver)
    view, begun, num_lit = CompactView(roads, LAYOUT), np.ones(4, np.bool_), 0
    for step in range(50):
        if step == 15:
            simulation.reset([1], [30], [2])
            begun[2] = True
        frames, rows = (_host(simulation, array) for array in simulation.traffic.current[:2])
        device_view.look(simulation.slots, simulation.avs)
        roads.start(np.flatnonzero(begun), bank.scenes[rows[begun]], frames[begun])
        seen, expected = _host(simulation, device_view.memory), look(view, roads, avs_of(simulation), begun)
        np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-6 if backend.device == "cpu" else 1e-4)
        lanes = LAYOUT.split(seen)["lanes"]
        num_lit += (lanes[..., 5:7] > 0).sum()
        begun[:] = False
        actions = np.random.default_rng(step).normal(0, [0.5, 0.05], (4, 2))
        simulation.step(torch.from_numpy(actions).to(backend.device))
    assert (num_lit > 0) == has_map
    assert (np.abs(LAYOUT.split(seen)["agents"]).sum(axis=(1, 2)) > 0).any()
    assert (LAYOUT.split(seen)["ego"][:, 5] == 1).all()


def test_slots_that_have_not_started_see_nothing(city, backend):
    simulation = SlotSimulation(bank_of(city), 2, model=None, drives=None, backend=backend)
    simulation.reset([1], [0], [1])
    view = CompactView(simulation.roads)
    view.look(simulation.slots, simulation.avs)
    assert (backend.tensor(view.memory) != 0).any(dim=1).tolist() == [False, True]
