"""Sessions of planners by name: fed with what happens in a simulation, they plan what its AV is driven by."""

import dataclasses

import numpy as np
import pytest

from l5kit.closedloop import open_session
from l5kit.closedloop.checkpoints import NetworkContext
from l5kit.closedloop.planners import open_planner
from l5kit.data import ChunkedDataset, LogFacts, find_dataset_files
from l5kit.data.map.opened import open_map
from l5kit.errors import InvalidArgumentError
from l5kit.simulation import EgoSeat, RoadMap, SceneBatch, SceneSimulation
from support.models import one_thread
from support.moments import moment_of, route_of
from support.networks import save_network

__all__ = ["one_thread"]

pytestmark = pytest.mark.filterwarnings("ignore:the agents mask of")


@dataclasses.dataclass
class Overheard:
    """A driver whose actions are kept."""

    driver: object
    given: list = dataclasses.field(default_factory=list)

    def drive(self, state):
        self.given.append(self.driver.drive(state))
        return self.given[-1]


@pytest.fixture(scope="module")
def log(city):
    return ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()


@pytest.fixture(scope="module")
def files(city):
    return find_dataset_files(city)


@pytest.fixture
def planner_of(city, files, log, tmp_path_factory):
    """Return a function that gives a planner of a simulation, and what a session takes for it."""

    def make(name, fallback):
        if name.endswith("_network"):
            name = str(save_network(name.removesuffix("_network"), city, tmp_path_factory.mktemp("weights")))
        context = NetworkContext(files, log.facts, device="cpu")
        return open_planner(name, context=context, fallback=fallback), name

    return make


@pytest.mark.parametrize(
    ("name", "fallback"),
    [
        pytest.param("rules", None, id="rules"),
        pytest.param("idm", None, id="idm"),
        pytest.param("constant-velocity", None, id="constant velocity"),
        pytest.param("route_planner", None, id="network"),
        pytest.param("route_planner", "rules", id="network with rules behind it"),
        pytest.param("route_policy", None, id="policy"),
        pytest.param("vector_planner_network", None, id="network without a route"),
        pytest.param("raster_planner_network", None, id="network of pictures"),
    ],
)
def test_a_session_plans_what_drives_in_a_simulation(name, fallback, planner_of, files, log, scenes):
    """To the bit, in all frames, with agents that come and go, and lights that change."""
    planner, requested = planner_of(name, fallback)
    overheard = Overheard(planner.seat.driver)
    scene = scenes[1].cut(0, 40)
    batch = SceneBatch.of_scenes([scene], facts=log.facts, road=RoadMap(open_map(files)))
    simulation = SceneSimulation(batch, ego=EgoSeat(overheard, planner.seat.model), strict=True)
    session = open_session(
        requested,
        map_path=files.semantic_map,
        meta_path=files.meta,
        route=route_of(scene),
        fallback=fallback,
        facts=log.facts,
        device="cpu",
    )
    num_lights, num_moves = 0, 0
    while len(simulation.running):
        moment = moment_of(simulation.state())
        plan = session.step(moment)
        simulation.step()
        actions = overheard.given[-1]
        planned = plan.poses if actions.is_plan else plan.controls
        np.testing.assert_array_equal(planned, actions.values[0])
        assert plan.timestamp_ns == moment.timestamp_ns
        if actions.is_plan:
            np.testing.assert_array_equal(plan.times_s, actions.times_of(log.facts.step_time_s))
        else:  # the first of the poses is where the simulation goes
            np.testing.assert_allclose(plan.poses[0, :2], simulation.state(np.array([0])).ego.positions_m[0], atol=1e-9)
        num_lights += len(moment.active_faces)
        num_moves += 1
    assert num_moves == 39
    assert num_lights > 0


def test_an_onnx_file_plans_in_a_session(city, files, log, scenes, tmp_path):
    from l5kit.workflows import export_network

    exported = export_network("route_planner", tmp_path / "planner.onnx", log=log).file
    sessions = [
        open_session(name, map_path=files.semantic_map, meta_path=files.meta, facts=log.facts, device="cpu")
        for name in ("route_planner", str(exported))
    ]
    batch = SceneBatch.of_scenes([scenes[0].cut(0, 5)], facts=log.facts)
    simulation = SceneSimulation(batch, strict=True)
    while len(simulation.running):
        moment = moment_of(simulation.state())
        plans = [session.step(moment).poses for session in sessions]
        np.testing.assert_allclose(plans[1], plans[0], rtol=0, atol=1e-3)
        simulation.step()


def test_a_session_takes_the_meta_json_near_the_map(files, log):
    assert open_session("rules", map_path=files.semantic_map, facts=log.facts).facts == log.facts


def test_who_replays_a_log_cannot_plan_in_a_session():
    with pytest.raises(InvalidArgumentError, match="'replay', which replays a log, but a session has none"):
        open_session("replay")


def test_a_missing_map_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="map_path: there is no file"):
        open_session("rules", map_path=tmp_path / "map.pb")
    with pytest.warns(UserWarning, match="'rules' drives straight on without a map"):
        open_session("rules")


def test_a_network_of_another_step_is_refused(files):
    with pytest.raises(InvalidArgumentError, match=r"trained with steps of 0\.1 s; pass LogFacts\(step_time_s=0\.1\)"):
        open_session(
            "route_planner", map_path=files.semantic_map, meta_path=files.meta, facts=LogFacts(step_time_s=0.2)
        )
