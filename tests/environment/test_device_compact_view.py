"""Compact observations on a device: those of the processor, also after restarts and without a map."""

import numpy as np
import pytest

from l5kit.data import ChunkedDataset, find_dataset_files
from l5kit.data.map.opened import open_map
from l5kit.environment.episode_roads import EpisodeRoads
from l5kit.environment.observations.compact_layout import CompactLayout
from l5kit.environment.observations.compact_view import CompactView
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.engine.scene_batch import RoadMap
from l5kit.simulation.vehicle_models import KinematicBicycle

torch = pytest.importorskip("torch")
pytest.importorskip("gymnasium")
from l5kit.environment.device.device_compact_view import DeviceCompactView  # noqa: E402
from l5kit.environment.device.device_simulation import DeviceSimulation  # noqa: E402

LAYOUT = CompactLayout(num_agents=9, num_route_points=6, num_lane_points=40, reach_m=60.0)


def bank_of(city, *, has_map=True):
    files = find_dataset_files(city)
    road = RoadMap(open_map(files)) if has_map else None
    bank = SceneBank(ChunkedDataset(str(files.dataset)).open(), road=road, drives_agents=has_map)
    bank.prepare(np.array([2, 0, 1]))
    return bank


def _host(simulation, array):
    return simulation.backend.tensor(array).cpu().numpy()


def seen_by_processor(simulation, view, frames, is_new):
    """Return what a view of the processor sees of the AVs of a simulation, whose road users are as they were logged."""
    roads, every = view._roads, np.arange(len(simulation))
    boxes, motions = simulation.boxes.cpu().numpy().copy(), simulation.motions.cpu().numpy().copy()
    if is_new.any():
        scenes = simulation.bank.scenes[_host(simulation, simulation.traffic.bank_rows)[is_new]]
        roads.begin(every[is_new], scenes, frames[is_new] - 1)  # an episode begins at its second frame
    roads.enter(every, boxes, is_new=is_new)
    view.look(every, boxes, motions)
    roads.leave(every, boxes, motions[:, :1] * np.stack([np.cos(boxes[:, 2]), np.sin(boxes[:, 2])], axis=-1))
    return view.memory


@pytest.mark.parametrize("has_map", [True, False], ids=["map", "no map"])
def test_what_is_seen_is_what_the_processor_sees(city, backend, has_map):
    bank, driver = bank_of(city, has_map=has_map), IntelligentDriver() if has_map else None
    simulation = DeviceSimulation(bank, 4, model=KinematicBicycle(), drives=driver, backend=backend)
    simulation.reset([0, 1, 2, 0], [1, 7, 20, 40])
    device_view, view = (
        DeviceCompactView(simulation, LAYOUT),
        CompactView(EpisodeRoads(bank, 4, drives=driver), 4, LAYOUT),
    )
    is_new, num_lit = np.ones(4, np.bool_), 0
    for step in range(50):
        if step == 15:
            simulation.reset([1], [30], [2])
            is_new[2] = True
        seen = device_view.look().cpu().numpy()
        expected = seen_by_processor(simulation, view, _host(simulation, simulation.traffic.frames), is_new)
        np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-6 if backend.device == "cpu" else 1e-4)
        lanes = LAYOUT.split(seen)["lanes"]
        num_lit += (lanes[..., 5:7] > 0).sum()
        is_new[:] = False
        actions = np.random.default_rng(step).normal(0, [0.5, 0.05], (4, 2))
        simulation.step(torch.from_numpy(actions).to(backend.device))
    assert (num_lit > 0) == has_map
    assert (np.abs(LAYOUT.split(seen)["agents"]).sum(axis=(1, 2)) > 0).any()
    assert (LAYOUT.split(seen)["ego"][:, 5] == 1).all()


def test_slots_that_have_not_started_see_nothing(city, backend):
    simulation = DeviceSimulation(bank_of(city), 2, model=None, drives=None, backend=backend)
    simulation.reset([1], [0], [1])
    seen = DeviceCompactView(simulation).look()
    assert (seen != 0).any(dim=1).tolist() == [False, True]
