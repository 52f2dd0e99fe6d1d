"""Simulation of scenes: batches, ends, faults, and the same drive as under the interface of 1.5."""

import numpy as np
import pytest

from l5kit.simulation.drivers.simple import ConstantVelocity, FullThrottle, Replay, Standing
from l5kit.simulation.engine.actions import Actions, PlannedPoses
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat, SceneSimulation, SimulationError


class Curve:
    """Half a metre ahead and a bit to the left."""

    def drive(self, state):
        states = state.actor_states
        poses = np.empty((len(states), 1, 3))
        poses[:, 0, 0] = states.positions_m[:, 0] + 0.5 * np.cos(states.yaws_rad)
        poses[:, 0, 1] = states.positions_m[:, 1] + 0.5 * np.sin(states.yaws_rad)
        poses[:, 0, 2] = states.yaws_rad + 0.01
        return Actions(poses)


SEATS = {
    "log": (None, None),
    "replay": (EgoSeat(Replay(), PlannedPoses()), None),
    "tracked": (EgoSeat(ConstantVelocity()), AgentSeat(ConstantVelocity())),
    "traffic": (EgoSeat(Standing(), PlannedPoses()), AgentSeat(Curve(), control=AgentControl.of_traffic())),
    "throttle": (
        EgoSeat(FullThrottle()),
        AgentSeat(ConstantVelocity(), control=AgentControl.of_traffic(classes="all")),
    ),
}


@pytest.mark.parametrize("name", SEATS)
def test_a_scene_does_not_depend_on_its_batch(scenes, name):
    ego, agents = SEATS[name]
    together = SceneSimulation(SceneBatch.of_scenes(scenes), ego=ego, agents=agents, strict=True).run()
    for number, scene in enumerate(scenes):
        alone = SceneSimulation(SceneBatch.of_scenes([scene]), ego=ego, agents=agents, strict=True).run()
        assert alone.records(0).agents.tobytes() == together.records(number).agents.tobytes()
        assert alone.records(0).frames.tobytes() == together.records(number).frames.tobytes()
        states, of_batch = alone.ego_states(), together.ego_states(np.array([number]))
        np.testing.assert_array_equal(states.speeds_mps, of_batch.speeds_mps)
        np.testing.assert_array_equal(states.accelerations_mps2, of_batch.accelerations_mps2)


def test_without_drivers_scenes_stay_as_logged(scenes):
    driven = SceneSimulation(SceneBatch.of_scenes(scenes)).run()
    for number, scene in enumerate(scenes):
        records = driven.records(number)
        assert records.frames.tobytes() == scene.frames.tobytes()
        assert records.agents.tobytes() == scene.agents.tobytes()


def test_the_driver_of_the_log_is_where_the_log_is(scenes):
    driven = SceneSimulation(SceneBatch.of_scenes(scenes), ego=EgoSeat(Replay(), PlannedPoses())).run()
    np.testing.assert_allclose(driven.ego_states().positions_m, driven.expert().positions_m, atol=1e-9)


def test_a_standing_car_stays_from_its_first_frame_on(scenes):
    batch = SceneBatch.of_scenes(scenes, start=20, num_frames=30)
    states = SceneSimulation(batch, ego=EgoSeat(Standing(), PlannedPoses())).run().ego_states()
    assert states.is_there.sum(axis=1).tolist() == [30] * len(scenes)
    assert (states.positions_m == states.positions_m[:, :1]).all()
    np.testing.assert_array_equal(states.positions_m[:, 0], batch.ego_log.positions_m[:, 20])


def test_scenes_of_different_length_and_start_run_together(scenes):
    batch = SceneBatch(
        scene_indices=np.array([5, 6, 7]), recorded=scenes, starts=np.array([0, 30, 99]), stops=np.array([40, 90, 100])
    )
    simulation = SceneSimulation(batch, ego=EgoSeat(ConstantVelocity()), agents=AgentSeat(Curve()))
    running = []
    while simulation.step():
        running.append(simulation.running.tolist())
    assert running[0] == [0, 1]
    assert len(running) == 59
    assert running[38] == [1]
    for number in range(3):
        start, stop = int(batch.starts[number]), int(batch.stops[number])
        alone = SceneBatch(np.array([0]), [scenes[number]], np.array([start]), np.array([stop]))
        one = SceneSimulation(alone, ego=EgoSeat(ConstantVelocity()), agents=AgentSeat(Curve())).run()
        assert one.records(0).agents.tobytes() == simulation.result().records(number).agents.tobytes()
        assert len(one.records(0).frames) == stop - start


def test_agents_of_traffic_keep_their_class_and_end_with_their_track(scenes):
    batch = SceneBatch.of_scenes(scenes[:1])
    control = AgentControl.of_traffic()
    driven = SceneSimulation(batch, agents=AgentSeat(ConstantVelocity(), control=control)).run()
    agents, frames = driven.records(0).agents, driven.records(0).frames
    frame_of_row = np.repeat(np.arange(len(frames)), np.diff(frames["agent_index_interval"], axis=1)[:, 0])
    tracks = batch.tracks
    moved = np.flatnonzero(driven.was_driven)
    assert len(moved) > 20
    for track in moved.tolist():
        rows = agents["track_id"] == tracks.track_ids[track]
        assert frame_of_row[rows].max() == tracks.last_frames[track]
        assert (agents["label_probabilities"][rows].argmax(axis=1) > 2).all()
        began = np.flatnonzero(rows)[0]
        speed = np.linalg.norm(agents["velocity"][began])
        np.testing.assert_allclose(np.linalg.norm(agents["velocity"][rows], axis=1), speed, atol=1e-4)


class Faulty:
    """Goes straight on, and fails on request."""

    def __init__(self, **faults):
        self.faults = faults

    def drive(self, state):
        plan = ConstantVelocity(3).drive(state)
        of_actors = state.scenes[state.actor_scenes]
        for actor, scene in enumerate(of_actors.tolist()):
            frame = state.frame_indices[state.actor_scenes[actor]]
            if self.faults.get("nan") == (scene, frame):
                plan.values[actor] = np.nan
            if self.faults.get("far") == (scene, frame):
                plan.values[actor] = 1e9
            if self.faults.get("raises") == (scene, frame):
                raise KeyError("speed")
            if self.faults.get("shape") == (scene, frame):
                return Actions(plan.values[1:])
            if self.faults.get("kind") == (scene, frame):
                return Actions(plan.values[:, 0, :2].copy())
        return plan


@pytest.mark.parametrize(
    ("fault", "message"),
    [("nan", "not finite"), ("far", "500 m"), ("raises", "KeyError: 'speed'"), ("shape", "actors"), ("kind", "plan")],
)
@pytest.mark.parametrize("whose", ["ego", "agents"])
def test_a_fault_ends_one_scene_and_no_other(scenes, fault, message, whose):
    driver, good = Faulty(**{fault: (1, 7)}), Faulty()
    control = AgentControl(near_m=50.0, far_m=60.0)

    def simulation(which, *, strict=False):
        ego, agents = (which, good) if whose == "ego" else (good, which)
        batch = SceneBatch.of_scenes(scenes, scene_indices=[10, 11, 12])
        seats = {"ego": EgoSeat(ego, PlannedPoses()), "agents": AgentSeat(agents, control=control)}
        return SceneSimulation(batch, **seats, strict=strict)

    driven = simulation(driver).run()
    assert list(driven.faults) == [1]
    assert (driven.faults[1].scene_index, driven.faults[1].frame_index) == (11, 7)
    assert message in driven.faults[1].message
    assert (driven.faults[1].track_id is not None) == (whose == "agents" and fault in ("nan", "far"))
    assert driven.finished.tolist() == [0, 2]
    whole = simulation(good).run()
    for scene in (0, 2):
        assert driven.records(scene).agents.tobytes() == whole.records(scene).agents.tobytes()
        assert driven.records(scene).frames.tobytes() == whole.records(scene).frames.tobytes()
    with pytest.raises(SimulationError, match="scene 11, frame 7"):
        simulation(driver, strict=True).run()


class Remembering:
    """Goes slower with each step that it remembers, and fails in scene 11."""

    def __init__(self, kind, fails_in=None):
        self.kind, self.fails_in = kind, fails_in

    def drive(self, state):
        memory, batch = state.memory, state.batch
        if self.kind == "steps":
            memory["steps"] = memory.get("steps", 0) + 1
            count = np.full(len(state), memory["steps"])
        else:
            if "counts" not in memory:
                self.fail(batch.scene_indices, "no memory" in self.kind)
                memory["counts"] = np.zeros(len(batch))
            memory["counts"][state.scenes] += 1
            count = memory["counts"][state.scenes]
        self.fail(batch.scene_indices[state.scenes], state.frame_indices[0] >= 7)
        poses = np.repeat(state.actor_states.positions_m[:, None], 3, axis=1)
        poses[..., 0] += 1 / count[:, None]
        return Actions(np.concatenate([poses, np.zeros((len(poses), 3, 1))], axis=-1))

    def fail(self, scene_indices, is_time):
        if is_time and self.fails_in in scene_indices:
            raise ValueError("not this one")


@pytest.mark.parametrize("kind", ["steps", "counts", "counts, no memory"])
def test_a_driver_that_is_asked_again_has_forgotten_the_failure(scenes, kind):
    batch = SceneBatch.of_scenes(scenes, scene_indices=[10, 11, 12], num_frames=15)
    driven = SceneSimulation(batch, ego=EgoSeat(Remembering(kind, fails_in=11), PlannedPoses())).run()
    assert list(driven.faults) == [1]
    assert driven.faults[1].frame_index == (0 if "no memory" in kind else 7)
    whole = SceneSimulation(batch, ego=EgoSeat(Remembering(kind), PlannedPoses()), strict=True).run()
    for scene in (0, 2):
        assert driven.records(scene).frames.tobytes() == whole.records(scene).frames.tobytes()


class Planning:
    """Stands; how long it plans, and in which steps, depends on scene and frame."""

    def __init__(self, step_s=None):
        self.step_s = step_s

    def drive(self, state):
        indices = state.batch.scene_indices[state.scenes]
        if len(set(indices)) > 1:
            raise ValueError("one at a time")
        size = 2 + int(indices[0]) + int(state.frame_indices[0] == 3)
        plan = Standing(size).drive(state).values
        plan[..., 0] += 0.1 * np.arange(1.0, size + 1)
        return Actions(plan, None if self.step_s is None or indices[0] else self.step_s * np.arange(1.0, size + 1))


def test_plans_of_any_length_are_kept_whole_in_any_batch(scenes):
    def drive(*numbers):
        batch = SceneBatch.of_scenes([scenes[each] for each in numbers], scene_indices=numbers, num_frames=6)
        return SceneSimulation(batch, ego=EgoSeat(Planning(), PlannedPoses()), keeps_plans=True).run()

    together = drive(0, 1, 2)
    np.testing.assert_allclose(together.plan_times_s, [0.1, 0.2, 0.3, 0.4, 0.5])
    has_pose = np.isfinite(together.plans[:, :5]).all(axis=-1).sum(axis=-1)
    assert has_pose.tolist() == [[2, 2, 2, 3, 2], [3, 3, 3, 4, 3], [4, 4, 4, 5, 4]]
    for number in range(3):
        alone = drive(number)
        size = len(alone.plan_times_s)
        np.testing.assert_array_equal(alone.plans[0], together.plans[number, :, :size])


def test_plans_of_other_times_are_brought_to_the_same(scenes):
    batch = SceneBatch.of_scenes(scenes[:2], num_frames=2)
    driven = SceneSimulation(batch, ego=EgoSeat(Planning(0.15), PlannedPoses()), keeps_plans=True).run()
    np.testing.assert_allclose(driven.plan_times_s, [0.1, 0.15, 0.2, 0.3])
    ahead_m = driven.plans[:, 0, :, 0] - driven.ego_states().positions_m[:, 0, :1]
    # 0.1 m each 0.15 s in the first scene, each 0.1 s in the second
    np.testing.assert_allclose(ahead_m, [[np.nan, 0.1, 0.1 + 0.1 / 3, 0.2], [0.1, 0.15, 0.2, 0.3]], atol=1e-3)


@pytest.mark.parametrize("column", ["yaws_rad", "speeds_mps", "accelerations_mps2", "steering_rad"])
def test_a_model_that_gives_no_numbers_is_a_fault_of_its_agent(scenes, column):
    class Broken(PlannedPoses):
        def move(self, states, actions, step_time_s):
            moved = super().move(states, actions, step_time_s)
            getattr(moved, column)[-1] = np.nan
            return moved

    batch = SceneBatch.of_scenes(scenes[:1], num_frames=5)
    seat = AgentSeat(ConstantVelocity(3), Broken(), AgentControl(near_m=50.0, far_m=60.0))
    (fault,) = SceneSimulation(batch, agents=seat).run().faults.values()
    assert (fault.frame_index, fault.track_id is None) == (0, False)
    assert "Broken is not finite" in fault.message
