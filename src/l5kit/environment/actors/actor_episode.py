"""Episode of several actors: a simulated scene whose AV and vehicles are driven by actions, each seen and paid."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, Float32Array, Float64Array, Int64Array
from l5kit.data.read_only_views import shown_to
from l5kit.environment.action_kinds import ModelActions
from l5kit.environment.actors.action_seat import ActionDriver, ControlsOrPoses
from l5kit.environment.actors.logged_start import states_at_start
from l5kit.environment.actors.vehicle_choice import ActingVehicles
from l5kit.environment.observations.compact_state import (
    CompactLayout,
    LanePoints,
    RouteRows,
    VehicleRows,
    write_compact_states,
)
from l5kit.environment.rewards.step_reward import DrivenStep, StepReward, StepWorth
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.geometry.angle import angular_distance
from l5kit.lanes.path_places import follow_routes
from l5kit.lanes.red_lights import LightRows
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat, SceneSimulation
from l5kit.simulation.lanes.lane_following import SceneRows
from l5kit.simulation.vehicle_models import VehicleStates

__all__ = ["ActorEpisode", "ActorRules", "ActorSteps"]

_SEEN_MOTIONS = [0, 1, 3]
_ONE_SCENE = np.zeros(1, np.int64)


@dataclass(frozen=True, eq=False)
class ActorRules:
    """What all episodes have in common.

    Attributes:
        bank: Scenes of the log, with paths of vehicles.
        actions: What actions are.
        reward: What steps are worth; actor n has slot n.
        layout: What stands where in observations.
        lane_points: The lanes that are seen.
        others: Drives the other vehicles; None to replay them.
    """

    bank: SceneBank
    actions: ModelActions
    reward: StepReward
    layout: CompactLayout
    lane_points: LanePoints
    others: IntelligentDriver | None


@dataclass(frozen=True, eq=False)
class ActorSteps:
    """What became of K actors in a step.

    Attributes:
        actors: Which they are, those that were there before it, int64 (K,).
        worth: What the step is worth to each of them.
        is_failed: Which have ended by what they did, (K,).
        is_at_end: Which have ended as the log of theirs, or the episode, goes no further, (K,).
        arrived: The actors that are new, (N,).
    """

    actors: Int64Array
    worth: StepWorth
    is_failed: BoolArray
    is_at_end: BoolArray
    arrived: Int64Array


class ActorEpisode:
    """One episode in which the AV is actor 0 and vehicles are actors 1 to P, while they are there.

    A vehicle is an actor from when it is within 100 m of the AV until its log ends. Whoever has failed acts no more: a
    vehicle leaves the scene, the AV stands.

    Args:
        rules: As above.
        bank_row: The scene, counted in the bank.
        batch: The scene alone, from the first frame in which somebody acts.
        vehicles: Which may act.

    Attributes:
        vehicles: As above.
        simulation: The scene as it is now.
        is_acting: Who is there, bool (P + 1,).
    """

    def __init__(self, rules: ActorRules, bank_row: int, batch: SceneBatch, vehicles: ActingVehicles) -> None:
        self.vehicles, self._rules = vehicles, rules
        size = len(vehicles) + 1
        self._bank_row, self._first_row = bank_row, int(rules.bank.frame_starts[bank_row])
        self._first_frame = int(batch.starts[0])
        num_controls = len(rules.actions.lows)
        self._driver = ActionDriver(vehicles.tracks, len(batch.tracks), num_controls, rules.others)
        self.simulation, yaw_rates = self._simulate(batch)
        self.is_acting: BoolArray = np.zeros(size, np.bool_)
        self._has_come: BoolArray = np.zeros(size, np.bool_)
        self._routes = np.concatenate([rules.bank.routes[bank_row : bank_row + 1], vehicles.routes])
        self._last_frames = np.concatenate([batch.stops - 1, np.minimum(vehicles.last_frames, batch.stops[0] - 1)])
        self._boxes: Float64Array = np.zeros((size, 5))
        self._motions: Float64Array = np.zeros((size, 4))
        self._places: Float64Array = np.zeros((size, 3))
        self._own_rows: Int64Array = np.full(size, -1, np.int64)
        arrived = self._notice()
        self._motions[0, 2] = yaw_rates[0]
        self._begin_rewards(arrived)

    @property
    def frame_index(self) -> int:
        """The current frame, counted in the scene."""
        return int(self.simulation.frame_indices[0])

    @property
    def acting(self) -> Int64Array:
        """The actors that are there, ascending."""
        return np.flatnonzero(self.is_acting)

    def step(self, controls: Float64Array) -> ActorSteps:
        """Move on by one frame.

        Args:
            controls: Those of the actors that are there, in their order, (K, A).

        Raises:
            SimulationError: The scene cannot go on.
        """
        actors, before = self.acting, self._moment()
        self._driver.controls[actors], self._driver.acts = controls, self.is_acting.copy()
        self.simulation.step()
        arrived = self._notice()
        reward = self._rules.reward
        worth = reward.of_step(*shown_to(reward, "of_step", (actors, self._step_of(actors, before))))
        if len(arrived):
            self._begin_rewards(arrived)
        is_failed = worth.is_failed
        is_at_end = (self._last_frames[actors] <= self.frame_index) & ~is_failed
        self.is_acting[actors[is_failed | is_at_end]] = False
        return ActorSteps(actors, worth, is_failed, is_at_end, arrived)

    def _begin_rewards(self, arrived: Int64Array) -> None:
        """Let the reward begin with actors (K,)."""
        reward = self._rules.reward
        reward.begin(*shown_to(reward, "begin", (arrived, self._step_of(arrived, self._moment()))))

    def take_out(self, actors: Int64Array) -> None:
        """Let actors (K,) leave the scene, once all others have seen them for the last time; the AV stays."""
        vehicles = actors[actors > 0] - 1
        if len(vehicles):
            self.simulation.remove_tracks(self.vehicles.tracks[vehicles])

    def observe(self, actors: Int64Array) -> Float32Array:
        """Return what actors (K,) see, float32 (K, D)."""
        state, rules, size = self._state, self._rules, len(actors)
        out = np.empty((size, rules.layout.size), np.float32)
        write_compact_states(
            rules.layout,
            rules.lane_points,
            VehicleRows(
                self._boxes[actors],
                self._motions[actors][:, _SEEN_MOTIONS],
                np.zeros(size, np.int64),
                self._own_rows[actors],
            ),
            seen=(state.agents.scene_rows, state.ego_rows, self._lights(self.frame_index, 1)),
            routes=RouteRows(rules.bank.paths, self._routes[actors], self._places[actors]),
            out=out,
        )
        return out

    def _simulate(self, batch: SceneBatch) -> tuple[SceneSimulation, Float64Array]:
        """Return the simulation of the episode, and the yaw rate of its AV."""
        rules, first = self._rules, self._first_row + self._first_frame
        states, yaw_rates = states_at_start(
            rules.bank.ego_poses[first - 1 : first],
            rules.bank.ego_poses[first : first + 1],
            length_m=float(batch.facts.ego_extent_m[0]),
            step_time_s=batch.facts.step_time_s,
        )
        model = ControlsOrPoses(rules.actions.model)
        seat = AgentSeat(self._driver, model, AgentControl.of_traffic(tracks=self._may_be_driven))
        ego = EgoSeat(self._driver, model)
        return SceneSimulation(batch, ego=ego, agents=seat, ego_states=states, strict=True), yaw_rates

    def _may_be_driven(self, batch: SceneBatch) -> BoolArray:
        """Return which tracks are driven by anybody, (T,)."""
        others, may = self._rules.others, np.zeros(len(batch.tracks), np.bool_)
        if others is not None:
            may |= others.tracks(batch)
        may[self.vehicles.tracks] = True
        return may

    def _notice(self) -> Int64Array:
        """Look at the frame that is current now, and return the actors that are new in it."""
        state = self.simulation.agent_state(_ONE_SCENE)
        self._state = state
        of_vehicles = self._driver.actors_of(state)
        is_actor = of_vehicles > 0
        vehicles = of_vehicles[is_actor]
        self._own_rows[1:] = len(state.agents)
        rows = np.zeros(0, np.int64) if state.actors is None else state.actors[is_actor]
        self._own_rows[vehicles] = rows
        self._set_motions(np.zeros(1, np.int64), state.ego, state.ego_boxes)
        self._set_motions(vehicles, state.actor_states.taken(is_actor), state.agents.boxes[rows])
        there = np.concatenate([[0], vehicles])
        is_new = ~self._has_come
        self._has_come[there] = True
        places = self._places[there]
        # a route may come by the same place twice: at first an actor is looked for around where the log has it
        places[is_new[there], 0] = self._expert_arcs_m(self.frame_index)[there[is_new[there]]]
        follow_routes(self._rules.bank.paths, self._routes[there], self._boxes[there], places)
        self._places[there] = places
        arrived = np.sort(there[is_new[there] & (self._last_frames[there] > self.frame_index)])
        self.is_acting[arrived] = True
        return arrived

    def _set_motions(self, actors: Int64Array, states: VehicleStates, boxes: Float64Array) -> None:
        """Write the boxes and motions of actors (K,), some of which are new."""
        step_time_s = self.simulation.batch.facts.step_time_s
        turns = angular_distance(states.yaws_rad, self._boxes[actors, 2])
        yaw_rates = np.where(self._has_come[actors], turns / step_time_s, 0.0)
        self._boxes[actors] = boxes
        self._boxes[actors, 2] = states.yaws_rad
        columns = (states.speeds_mps, states.accelerations_mps2, yaw_rates, states.steering_rad)
        self._motions[actors] = np.stack(columns, axis=-1)

    def _moment(self) -> "_Moment":
        """Return how all actors stand."""
        frame = self.frame_index
        return _Moment(frame, self._boxes.copy(), self._motions.copy(), self._places.copy(), self._expert_arcs_m(frame))

    def _expert_arcs_m(self, frame: int) -> Float64Array:
        bank, vehicles = self._rules.bank, self.vehicles
        of_av = bank.expert_arcs_m[self._first_row + frame]
        return np.concatenate([[of_av], vehicles.expert_arcs_m[frame - self._first_frame]])

    def _log_poses(self) -> Float64Array:
        """Return where the log has all actors now, (P + 1, 3)."""
        frame = self.frame_index
        of_av = self._rules.bank.ego_poses[self._first_row + frame]
        return np.concatenate([of_av[None], self.vehicles.log_poses[frame - self._first_frame]])

    def _step_of(self, actors: Int64Array, before: "_Moment") -> DrivenStep:
        """Return the step that actors (K,) have done, each of them the AV of a slot of its own."""
        bank, now, batch = self._rules.bank, self._moment(), self.simulation.batch
        rows, track_rows = self._rows_around(actors)
        return DrivenStep(
            boxes=now.boxes[actors],
            boxes_before=before.boxes[actors],
            motions=now.motions[actors],
            motions_before=before.motions[actors],
            places=now.places[actors],
            places_before=before.places[actors],
            expert_arcs_m=now.expert_arcs_m[actors],
            expert_arcs_before_m=before.expert_arcs_m[actors],
            log_poses=self._log_poses()[actors],
            rows=rows,
            track_rows=track_rows,
            paths=bank.paths,
            routes=self._routes[actors],
            lights=self._lights(before.frame, len(actors)),
            step_time_s=batch.facts.step_time_s,
            driving_map=batch.driving_map,
        )

    def _lights(self, frame: int, size: int) -> LightRows:
        """Return the lights of a frame of the scene, as seen in some slots."""
        return LightRows(np.full(size, self._first_row + frame), np.full(size, self._bank_row), self._rules.bank.lights)

    def _rows_around(self, actors: Int64Array) -> tuple[SceneRows, Int64Array]:
        """Return who is around each of K actors, and numbers of them: all agents and the AV, the actor being nobody."""
        state, size = self._state, len(actors)
        _, groups, boxes, velocities_mps = state.agents.scene_rows
        ego_box, ego_velocity_mps = state.ego_rows
        num_rows = len(groups) + 1
        of_each = np.tile(np.append(groups, int(RoadUserGroup.VEHICLE)), (size, 1))
        own_rows = self._own_rows[actors]
        of_each[np.arange(size), np.where(own_rows < 0, num_rows - 1, own_rows)] = int(RoadUserGroup.NONE)
        rows = SceneRows(
            np.arange(size + 1) * num_rows,
            of_each.reshape(-1),
            np.tile(np.concatenate([boxes, ego_box]), (size, 1)),
            np.tile(np.concatenate([velocities_mps, ego_velocity_mps]), (size, 1)),
        )
        tracks = np.append(state.agents.track_rows, len(state.batch.tracks))
        return rows, np.tile(tracks, size)


@dataclass(frozen=True, eq=False)
class _Moment:
    """How all actors stand in a frame: boxes (A, 5), motions (A, 4), places (A, 3) and arcs of their log (A,)."""

    frame: int
    boxes: Float64Array
    motions: Float64Array
    places: Float64Array
    expert_arcs_m: Float64Array
