"""Read-only arrays for drivers, rewards and kinds of actions of users."""

import dataclasses
import inspect
import pickle
from copy import deepcopy
from functools import cached_property

import numpy as np
import pytest

from l5kit.data.read_only_views import behind_view, read_only, shown_to
from l5kit.data.scene_records import SceneRecords
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.simulation.drivers.simple import ConstantVelocity
from l5kit.simulation.engine.actions import PlannedPoses
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat, SceneSimulation
from l5kit.simulation.engine.traffic_state import TrafficState


@pytest.fixture(scope="module")
def recorded(city):
    """Two scenes of a synthetic city, never written to."""
    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    return [SceneRecords.read(log, scene).cut(0, 12) for scene in range(2)]


class Kept:
    """Drives on, and keeps the first state that it sees."""

    def __init__(self):
        self.state = None

    def drive(self, state):
        self.state = self.state or state
        return ConstantVelocity(5).drive(state)


def simulation(recorded, ego, agents=None):
    seat = None if agents is None else AgentSeat(agents, control=AgentControl.of_traffic())
    return SceneSimulation(SceneBatch.of_scenes(recorded), ego=EgoSeat(ego), agents=seat)


def arrays_in(value, path="state", seen=None):
    """Yield every array that attributes lead to, with the way there, as a driver may write it."""
    seen = {} if seen is None else seen
    if id(value) in seen:
        return
    seen[id(value)] = value
    if isinstance(value, np.ndarray):
        yield path, value
    elif isinstance(value, (list, tuple)):
        for number, each in enumerate(value):
            yield from arrays_in(each, f"{path}[{number}]", seen)
    elif type(value).__module__.startswith("l5kit.") and not callable(value):
        names = [name for name in dir(type(value)) if not name.startswith("_")]
        names += [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else vars(value)
        for name in dict.fromkeys(names):
            member = inspect.getattr_static(type(value), name, None)
            is_read = member is None or isinstance(member, (property, cached_property)) or not callable(member)
            if is_read and not name.startswith("_") and hasattr(value, name):
                yield from arrays_in(getattr(value, name), f"{path}.{name}", seen)


@pytest.fixture(scope="module")
def states(recorded):
    """States shown to the driver of AVs, and to that of agents."""
    ego, agents = Kept(), Kept()
    simulation(recorded, ego, agents).step()
    return {"ego": ego.state, "agents": agents.state}


@pytest.mark.parametrize("whose", ["ego", "agents"])
def test_no_array_that_a_state_leads_to_can_be_written(states, whose):
    found = dict(arrays_in(states[whose]))
    assert len(found) > 40
    for name in ("state.ego.positions_m", "state.agents.boxes", "state.buffer.agents", "state.batch.tracks.starts"):
        assert name in found
    del found["state.buffer.scenes"]  # a new view for each caller
    assert [path for path, array in found.items() if array.flags.writeable] == []


def test_a_view_is_of_the_class_of_its_object_and_copies_nothing(recorded):
    state = simulation(recorded, Kept()).state()
    view = read_only(state)
    assert isinstance(view, TrafficState)
    assert len(view) == len(state)
    assert np.shares_memory(view.ego.positions_m, state.ego.positions_m)
    assert np.shares_memory(view.agents.boxes, state.agents.boxes)
    assert np.shares_memory(view.buffer.agents, state.buffer.agents)
    assert view.memory is state.memory
    assert behind_view(view) is state
    assert behind_view(state) is state
    assert read_only(view) is view
    assert not view.only(1).ego.positions_m.flags.writeable
    assert dataclasses.replace(view, step_time_s=0.2).actor_scenes.tolist() == [0, 1]
    np.testing.assert_array_equal(deepcopy(view).agents.boxes, state.agents.boxes)


def test_code_of_l5kit_sees_the_arrays_themselves(recorded):
    states = simulation(recorded, Kept()).state().ego
    assert shown_to(ConstantVelocity(5), "drive", states) is states
    assert shown_to(PlannedPoses(), "move", states) is states
    assert shown_to(Kept(), "drive", states) is not states


MEDDLING = {
    "moves the agents": "state.buffer.agents['centroid'] += 1000.0",
    "moves the agents that it sees": "state.agents.positions_m[:] += 1000.0",
    "removes the agents": "state.buffer.remove_agents([0], [1])",
    "moves the AV": "state.ego.positions_m[:] = 0.0",
    "moves its actors": "state.actor_states.speeds_mps[0] = 0.0",
    "sets the flag": "agents = state.buffer.agents; agents.setflags(write=True); agents['centroid'] += 1000.0",
    "sets the flag of a copy": "boxes = state.agents.boxes; boxes.flags.writeable = True; boxes += 1000.0",
    "goes on": "state.frame_indices[0] += 5",
    "changes the log": "state.batch.recorded[0].frames['ego_translation'][:] = 0.0",
    "changes the log of the AV": "state.batch.ego_log.positions_m[:] = 0.0",
    "changes the expert": "state.batch.expert.speeds_mps[:] = 0.0",
    "makes the scene shorter": "state.batch.stops[0] = 2",
}


@pytest.mark.parametrize("seat", ["ego", "agents"])
@pytest.mark.parametrize("line", MEDDLING.values(), ids=MEDDLING)
def test_a_driver_that_writes_into_its_state_fails_with_its_line_and_changes_nothing(recorded, tmp_path, seat, line):
    (tmp_path / "meddler.py").write_text(f"def meddle(state):\n    {line}\n")
    scope = {}
    exec(compile((tmp_path / "meddler.py").read_text(), "meddler.py", "exec"), scope)

    class Meddler(Kept):
        def drive(self, state):
            if state.frame_indices[0] == 2:
                scope["meddle"](state)
            return super().drive(state)

    drivers = (Meddler(), Kept()) if seat == "ego" else (Kept(), Meddler())
    driven = simulation(recorded, *drivers).run()
    honest = simulation(recorded, Kept(), Kept())
    honest.step()
    honest.step()
    assert sorted(driven.faults) == [0, 1]
    for scene, fault in driven.faults.items():
        assert "Meddler: " in fault.message
        assert "test_shown_state.py" in fault.message
        stop = fault.frame_index + 1
        ours, theirs = driven.records(scene).frames[:stop], honest.result().records(scene).frames[:stop]
        assert ours["ego_translation"].tobytes() == theirs["ego_translation"].tobytes()


def test_memory_is_for_writing(recorded):
    class Counts(Kept):
        def drive(self, state):
            state.memory["steps"] = state.memory.get("steps", 0) + 1
            state.memory.setdefault("array", np.zeros(3))[:] += 1
            self.memory = state.memory
            return super().drive(state)

    driver = Counts()
    assert not simulation(recorded, driver).run().faults
    assert driver.memory["steps"] == driver.memory["array"][0] == 11


def test_an_action_model_of_a_user_cannot_write_into_states(recorded):
    class Meddles:
        has_motion = False

        def move(self, states, actions, step_time_s):
            states.positions_m[:] = 0.0
            return PlannedPoses().move(states, actions, step_time_s)

    batch = SceneBatch.of_scenes(recorded)
    driven = SceneSimulation(batch, ego=EgoSeat(ConstantVelocity(5), model=Meddles())).run()
    assert sorted(driven.faults) == [0, 1]
    assert "read-only" in driven.faults[0].message


def test_views_of_other_things_are_these_themselves():
    for value in (3, "text", None, pickle, ValueError, {1, 2}):
        assert read_only(value) is value
    assert read_only({"a": np.zeros(2)})["a"].flags.writeable is False
