"""Simulation of scenes: drivers move the AVs and the agents of a batch, all scenes at once, frame by frame."""

from dataclasses import dataclass, field, fields, replace

import numpy as np

from l5kit._types import Float64Array, Int64Array
from l5kit.data.progress import Progress
from l5kit.data.record_buffer import RecordBuffer
from l5kit.data.record_bytes import as_bytes
from l5kit.errors import L5KitError
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.geometry.angle import angular_distance
from l5kit.simulation.engine.actions import ActionModel, KeptPlans, PlannedPoses, TrackedPlans
from l5kit.simulation.engine.agent_control import AgentControl, find_blocked
from l5kit.simulation.engine.agent_rows import AgentsNow, read_agents
from l5kit.simulation.engine.asking import OwnMemory, Refusal, decide
from l5kit.simulation.engine.driven_scenes import DrivenScenes, EgoMotion, SceneFault
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.starting import fill_velocities, start_of_ego
from l5kit.simulation.engine.traffic_state import Driver, DriverMemory, TrafficState
from l5kit.simulation.vehicle_models import VehicleStates


class SimulationError(L5KitError, RuntimeError):
    """A scene cannot continue, and the simulation is strict.

    Args:
        fault: The scene, frame and reason.

    Attributes:
        fault: The scene, frame and reason.
    """

    def __init__(self, fault: SceneFault) -> None:
        super().__init__(str(fault))
        self.fault = fault


@dataclass(frozen=True)
class EgoSeat:
    """Driver of the AVs, and the action model for its actions.

    Attributes:
        driver: Decides the actions.
        model: Turns actions into poses.
    """

    driver: Driver
    model: ActionModel = field(default_factory=TrackedPlans)


@dataclass(frozen=True)
class AgentSeat:
    """Driver of agents, the selection of driven agents, and the action model.

    Attributes:
        driver: Decides the actions.
        model: Turns actions into poses.
        control: Selects the driven agents.
    """

    driver: Driver
    model: ActionModel = field(default_factory=PlannedPoses)
    control: AgentControl = field(default_factory=AgentControl)


class SceneSimulation:
    """Simulation that advances all scenes of a batch by one frame per step, until the last one has ended.

    In each step the drivers see the current frame, then AVs and agents are moved into the next one. A scene leaves the
    batch when it ends or cannot continue, without effect on the others. Each scene is computed separately, so its
    numbers do not depend on the batch.

    Args:
        batch: The scenes.
        ego: Driver of the AVs; None to replay them.
        agents: Driver of agents; None to replay them.
        keeps_plans: Whether to keep the plans of the drivers of the AVs.
        strict: Whether an error in a scene stops the simulation.

    Attributes:
        batch: The scenes as logged.
        buffer: Current records of all scenes.
        frame_indices: Current frame of each scene, (S,).
        faults: Errors by scene of the batch.
    """

    def __init__(
        self,
        batch: SceneBatch,
        *,
        ego: EgoSeat | None = None,
        agents: AgentSeat | None = None,
        keeps_plans: bool = False,
        strict: bool = False,
    ) -> None:
        self.batch = batch
        # reserve room for agents that continue beyond their log; otherwise the first one would copy all rows
        spare_agents = 0 if agents is None else sum([len(scene.agents) for scene in batch.recorded]) // 2
        self.buffer = RecordBuffer(batch.recorded, facts=batch.facts, spare_agents=spare_agents)
        fill_velocities(self.buffer)
        self.frame_indices: Int64Array = batch.starts.copy()
        self.faults: dict[int, SceneFault] = {}
        self._ego_seat, self._agent_seat, self._strict = ego, agents, strict
        self._ego_states, yaw_rates_radps = start_of_ego(batch)
        self._ego_memory: DriverMemory = {}
        self._agent_memory: DriverMemory = {}
        self._egos_apart: dict[int, OwnMemory] = {}
        self._agents_apart: dict[int, OwnMemory] = {}
        self._seen: tuple[TrafficState, Int64Array] | None = None  # state and driven agents prepared for the next step
        self._kept = np.zeros((4, len(batch.tracks)))  # heading, speed, acceleration and steering of driven tracks
        self._tracks = (AgentControl() if agents is None else agents.control).begin(batch)
        shape = (len(batch), int((batch.stops - batch.starts).max()))
        self._motion: EgoMotion | None = None
        if ego is not None and ego.model.has_motion:
            self._motion = EgoMotion(np.zeros(shape), np.zeros((*shape, 2)), np.zeros(shape))
            self._note_motion(np.arange(len(batch)), self._ego_states, yaw_rates_radps)
        self._plans = KeptPlans(shape) if keeps_plans else None
        self._by_fallback: Int64Array = np.full(shape, -1, np.int64)

    @property
    def running(self) -> Int64Array:
        """Scenes of the batch with frames left, ascending, (R,)."""
        is_running = self.frame_indices + 1 < self.batch.stops
        is_running[list(self.faults)] = False
        return np.flatnonzero(is_running)

    def run(self, *, progress: Progress | None = None) -> DrivenScenes:
        """Advance all scenes to their ends.

        Args:
            progress: Called with the number of finished steps and the total.

        Raises:
            SimulationError: A scene cannot continue, and the simulation is strict.
        """
        num_steps = int((self.batch.stops - self.batch.starts).max()) - 1
        done = 0
        while self.step():
            done += 1
            if progress is not None:
                progress(done, num_steps)
        return self.result()

    def result(self) -> DrivenScenes:
        """Return the driven scenes so far."""
        plans, plan_times_s = (None, None) if self._plans is None else self._plans.joined()
        return DrivenScenes(
            batch=self.batch,
            buffer=self.buffer,
            faults=dict(self.faults),
            motion=self._motion,
            plans=plans,
            plan_times_s=plan_times_s,
            was_driven=self._tracks.was_driven.copy(),
            by_fallback=self._by_fallback.copy(),
        )

    def step(self) -> bool:
        """Advance each running scene by one frame; return False if no scene is running.

        Raises:
            SimulationError: A scene cannot continue, and the simulation is strict.
        """
        scenes = self.running
        if len(scenes) == 0:
            return False
        seen, self._seen = self._seen, None
        if seen is None or not np.array_equal(seen[0].scenes, scenes):
            state, chosen = self.state(scenes), None
        else:
            state, chosen = seen
        # both see the current frame before either writes into the next one
        moved_agents = self._decide_agents(state, chosen)
        moved_egos = self._decide_egos(state)
        if moved_agents is not None:
            self._write_agents(scenes, state.agents, *moved_agents)
        egos = self._ego_states
        if moved_egos is None:
            # replayed AVs: their next frames are in the buffer already
            motion, frames = self.batch.logged_motion, self.frame_indices[scenes] + 1
            for name in ("positions_m", "yaws_rad", "speeds_mps"):
                getattr(egos, name)[scenes] = getattr(motion, name)[scenes, frames]
            egos.accelerations_mps2[scenes] = motion.accelerations_mps2[scenes, frames, 0]
        else:
            driven, moved = moved_egos
            yaw_rates_radps = angular_distance(moved.yaws_rad, egos.yaws_rad[driven]) / self.batch.facts.step_time_s
            self.buffer.set_ego(self._rows(driven, ahead=1), moved.positions_m, moved.yaws_rad)
            for each in fields(VehicleStates):
                getattr(egos, each.name)[driven] = getattr(moved, each.name)
            self._note_motion(driven, moved, yaw_rates_radps, ahead=1)
        # a scene that failed in this step keeps its frame
        if self.faults:
            scenes = scenes[~np.isin(scenes, list(self.faults))]
        self.frame_indices[scenes] += 1
        if self._agent_seat is not None and self._agent_seat.control.waits_for_room:
            self._withhold_agents(scenes, state.agents, self._agent_seat.control)
        return True

    def state(self, scenes: Int64Array | None = None) -> TrafficState:
        """Return the state of scenes as the driver of the AVs sees it; ``scenes`` None for all running ones."""
        scenes = self.running if scenes is None else scenes
        egos, frames = self._ego_states.taken(scenes), self.buffer.frames[self._rows(scenes)]
        agents = read_agents(self.buffer.agents, frames, self.batch.tracks, scenes, self.batch.threshold)
        return TrafficState(
            batch=self.batch,
            scenes=scenes,
            frame_indices=self.frame_indices[scenes],
            step_time_s=self.batch.facts.step_time_s,
            ego=egos,
            agents=agents,
            actors=None,
            actor_states=egos,
            memory=self._ego_memory,
            buffer=self.buffer,
        )

    def _rows(self, scenes: Int64Array, ahead: int = 0) -> Int64Array:
        rows: Int64Array = self.buffer.scene_starts[scenes] + self.frame_indices[scenes] + ahead
        return rows

    def _decide_agents(self, state: TrafficState, actors: Int64Array | None) -> tuple[Int64Array, VehicleStates] | None:
        """Return rows and new states of the agents that move; None if agents are replayed.

        Args:
            state: The current state.
            actors: Rows of the driven agents, if already known.
        """
        seat = self._agent_seat
        if seat is None:
            return None
        agents = state.agents
        if actors is None:
            actors = self._choose(agents, state.ego, seat.control)

        # agents driven in the last step keep their state of the model, as records are rounded and lack the steering
        tracks = agents.track_rows[actors]
        states = VehicleStates.of_boxes(agents.boxes[actors], agents.velocities_mps[actors])
        remains = np.flatnonzero(self._tracks.is_driven[tracks])
        kept = (states.yaws_rad, states.speeds_mps, states.accelerations_mps2, states.steering_rad)
        for values, kept_values in zip(kept, self._kept[:, tracks[remains]], strict=True):
            values[remains] = kept_values

        agent_state = replace(state, actors=actors, actor_states=states, memory=self._agent_memory)
        self._tracks.note(tracks)
        if len(actors) == 0:
            return actors, agent_state.actor_states
        decision, refusals = decide(seat.driver, seat.model, agent_state, self._agents_apart)
        self._refuse(refusals, agent_state)
        return actors[decision.actors], decision.moved

    def _decide_egos(self, state: TrafficState) -> tuple[Int64Array, VehicleStates] | None:
        """Return scenes and new states of the AVs that move; None if AVs are replayed."""
        seat = self._ego_seat
        if seat is None:
            return None
        decision, refusals = decide(seat.driver, seat.model, state, self._egos_apart)
        self._refuse(refusals, state)
        for actors, actions in decision.given:
            actor_scenes = state.scenes[actors]
            frames = self.frame_indices[actor_scenes] - self.batch.starts[actor_scenes]
            if actions.is_fallback is not None:
                self._by_fallback[actor_scenes, frames] = actions.is_fallback
            if self._plans is not None:
                self._plans.keep(actor_scenes, frames, actions, self.batch.facts.step_time_s)
        return state.scenes[decision.actors], decision.moved

    def _choose(self, agents: AgentsNow, ego: VehicleStates, control: AgentControl) -> Int64Array:
        """Return the rows of the agents that the driver moves."""
        return control.choose(agents, ego.positions_m, records=self.buffer.agents, tracks=self._tracks)

    def _write_agents(self, scenes: Int64Array, agents: AgentsNow, rows: Int64Array, moved: VehicleStates) -> None:
        """Write agents that have moved into the next frames of their scenes."""
        if self._agent_seat is None or len(rows) == 0:
            return
        tracks, control = agents.track_rows[rows], self._agent_seat.control
        of_rows = scenes[agents.scenes_of_rows[rows]]
        remains = np.ones(len(rows), np.bool_)
        if self.faults:
            remains &= ~np.isin(of_rows, list(self.faults))
        if control.leaves_with_log:
            remains &= self.batch.tracks.last_frames[tracks] > self.frame_indices[of_rows]
        if not remains.all():
            rows, moved, tracks, of_rows = rows[remains], moved.taken(remains), tracks[remains], of_rows[remains]
        self._kept[:, tracks] = moved.motions
        before = as_bytes(self.buffer.agents)[agents.buffer_rows[rows]].view(self.buffer.agents.dtype)
        records = control.moved_records(before, moved)
        try:
            self.buffer.put_agents(self._rows(of_rows, ahead=1), records)
        except L5KitError:
            # one of the scenes fails to store its agents: write scene by scene, so that the others continue
            for scene in np.unique(of_rows).tolist():
                is_of = of_rows == scene
                try:
                    self.buffer.put_agents(self._rows(of_rows[is_of], ahead=1), records[is_of])
                except L5KitError as error:
                    self._note_fault(scene, None, str(error), error)

    def _note_motion(
        self, scenes: Int64Array, states: VehicleStates, yaw_rates_radps: Float64Array, ahead: int = 0
    ) -> None:
        """Store speeds and accelerations of AVs moved by a vehicle model."""
        if self._motion is not None:
            frames = self.frame_indices[scenes] - self.batch.starts[scenes] + ahead
            self._motion.speeds_mps[scenes, frames] = np.abs(states.speeds_mps)
            self._motion.accelerations_mps2[scenes, frames, 0] = states.accelerations_mps2
            self._motion.accelerations_mps2[scenes, frames, 1] = states.speeds_mps * yaw_rates_radps
            self._motion.steering_rad[scenes, frames] = states.steering_rad

    def _withhold_agents(self, scenes: Int64Array, before: AgentsNow, control: AgentControl) -> None:
        """Remove agents that would appear on top of a box from the current frames."""
        if len(scenes) == 0:
            return
        state = self.state(scenes)
        agents = state.agents
        was_there = np.zeros(len(self.batch.tracks), np.bool_)
        was_there[before.track_rows] = True
        chosen = self._choose(agents, state.ego, control)
        is_new = np.zeros(len(agents), np.bool_)
        is_new[chosen] = ~was_there[agents.track_rows[chosen]]
        if is_new.any():
            is_there = agents.groups != RoadUserGroup.NONE
            blocked = find_blocked(agents.starts, agents.boxes, state.ego_boxes, is_there, is_new)
            if len(blocked):
                of_rows = scenes[agents.scenes_of_rows[blocked]]
                ids = self.buffer.agents["track_id"][agents.buffer_rows[blocked]]
                self.buffer.remove_agents(self._rows(of_rows), ids)
                state = replace(state, agents=agents.without(blocked))
                chosen = self._choose(state.agents, state.ego, control)
        # reused by the next step, unless a scene has ended with this one
        self._seen = state, chosen

    def _refuse(self, refusals: list[Refusal], state: TrafficState) -> None:
        """Record why scenes cannot continue."""
        for each in refusals:
            track_row = -1 if each.actor is None else int(state.actor_tracks[each.actor])
            track_id = None if track_row < 0 else int(self.batch.tracks.track_ids[track_row])
            self._note_fault(int(state.scenes[each.scene]), track_id, each.message, each.cause)

    def _note_fault(self, scene: int, track_id: int | None, message: str, cause: Exception | SystemExit | None) -> None:
        frame = int(self.frame_indices[scene])
        fault = SceneFault(int(self.batch.scene_indices[scene]), frame, track_id, message)
        if self._strict:
            raise SimulationError(fault) from cause
        self.faults.setdefault(scene, fault)
