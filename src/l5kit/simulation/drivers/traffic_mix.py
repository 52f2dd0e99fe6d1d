"""Traffic mix: agents of several kinds in one scene, each of them driven by one of several drivers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.errors import InvalidArgumentError
from l5kit.random.counter_draws import counter_uniforms
from l5kit.simulation.drivers.intelligent import IntelligentDriver, drive_by_style
from l5kit.simulation.engine.actions import Actions, PlannedPoses
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.asking import ask
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat
from l5kit.simulation.engine.traffic_state import DriverMemory, TrafficState
from l5kit.simulation.vehicle_models import VehicleStates

_MEMORY: Final = "traffic mix"
_STYLES: Final = "styles"
_NUM_COLUMNS: Final = 6
"""x, y, yaw, speed, acceleration and steering."""


@dataclass(frozen=True)
class MixedStates:
    """Vehicles in the states that a mix has found, with whatever model each of its members has.

    An action is a state without its length: x, y, yaw, speed, acceleration and steering, (K, 6).
    """

    has_motion = False

    def move(self, states: VehicleStates, actions: Actions, step_time_s: float) -> VehicleStates:  # noqa: ARG002
        """Return the states that the actions are; see :class:`l5kit.simulation.engine.actions.ActionModel`."""
        x_y, yaws, speeds, accelerations, steering = np.split(actions.values, (2, 3, 4, 5), axis=1)
        columns = (yaws[:, 0], speeds[:, 0], accelerations[:, 0], steering[:, 0], states.lengths_m)
        return VehicleStates(np.ascontiguousarray(x_y), *map(np.ascontiguousarray, columns))


@dataclass(frozen=True, eq=False)
class TrafficMix:
    """Several drivers for the agents of a scene, by weights; each agent has the same one as long as it is there.

    Which one an agent gets depends on the seed, the scene of the log and its track, and on nothing else: it is the
    same in any batch, for any number of workers, and for all planners. Members that are intelligent drivers drive
    together, as one driver with parameters by agent, so that those who give way see what the others are about to do.

    Whom members are asked for is bounded by their own ``AgentControl.tracks``; all other rules of control are those of
    :meth:`l5kit.simulation.engine.agent_control.AgentControl.of_traffic`.

    Attributes:
        members: Seats of the drivers by name; None for agents that are replayed.
        weights: How many of the agents each member gets, on average, in parts of the sum; of the same names.
        seed: At least 0, below 2 to the power of 64.

    Raises:
        InvalidArgumentError: There is no member, names differ, a weight is not above 0, or the seed out of range.
    """

    members: Mapping[str, AgentSeat | None]
    weights: Mapping[str, float]
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.members or set(self.members) != set(self.weights):
            raise InvalidArgumentError(
                f"TrafficMix: members are {sorted(self.members)} and weights those of {sorted(self.weights)}; give "
                "each member a weight, and at least one"
            )
        for name, weight in self.weights.items():
            if not 0 < weight < math.inf:
                raise InvalidArgumentError(
                    f"TrafficMix: the weight of {name!r} is {weight}; it must be above 0 and finite"
                )
        if not 0 <= self.seed < 2**64:
            raise InvalidArgumentError(f"TrafficMix: seed is {self.seed}; it must be at least 0 and below 2**64")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the members, in the order in which they are counted, which is that of the alphabet."""
        return tuple(sorted(self.members))

    @property
    def seat(self) -> AgentSeat:
        """The mix with whom it drives."""
        reaches_m = [seat.control.near_m for seat in self.members.values() if seat is not None]
        control = AgentControl.of_traffic(tracks=self.tracks)
        return AgentSeat(self, MixedStates(), replace(control, near_m=min([control.near_m, *reaches_m])))

    def assign(self, batch: SceneBatch) -> Int64Array:
        """Return the number of the member in :attr:`names` that each track of a batch gets, (T,)."""
        tracks = batch.tracks
        scenes = batch.scene_indices[tracks.scenes_of_tracks]
        parts = np.cumsum([self.weights[name] for name in self.names])
        uniforms = counter_uniforms(self.seed, scenes, tracks.track_ids) if len(tracks) else np.zeros(0)
        chosen: Int64Array = np.searchsorted(parts[:-1], uniforms * parts[-1], side="right")
        return chosen

    def tracks(self, batch: SceneBatch) -> BoolArray:
        """Return which tracks of a batch are driven, (T,)."""
        assigned: Int64Array = batch.once(self.assign)
        is_driven = np.zeros(len(assigned), np.bool_)
        for number, name in enumerate(self.names):
            seat = self.members[name]
            if seat is not None:
                may = True if seat.control.tracks is None else seat.control.tracks(batch)
                is_driven |= (assigned == number) & may
        return is_driven

    def drive(self, state: TrafficState) -> Actions:
        """Return the states of agents after the next step, (K, 6), for :class:`MixedStates`.

        Raises:
            InvalidArgumentError: It is to drive AVs.
        """
        if state.actors is None:
            raise InvalidArgumentError("TrafficMix drives agents; name one driver for the AVs")
        assigned = state.batch.once(self.assign)
        memories: dict[str, DriverMemory] = state.memory.setdefault(_MEMORY, {})
        members = assigned[state.actor_tracks]
        values: Float64Array = np.empty((len(state), _NUM_COLUMNS))
        for key, indices in self._parties.items():
            actors = np.flatnonzero(np.isin(members, indices))
            if len(actors) == 0:
                continue
            part = replace(
                state,
                actors=np.asarray(state.actors)[actors],
                actor_states=state.actor_states.taken(actors),
                memory=memories.setdefault(key, {}),
            )
            seats = [seat for seat in (self.members[self.names[number]] for number in indices) if seat is not None]
            model, drivers = seats[0].model, [seat.driver for seat in seats]
            styled = [driver for driver in drivers if isinstance(driver, IntelligentDriver)]
            if styled and isinstance(model, PlannedPoses):
                # the style of a track is the rank of its member among those that drive together
                styles: Int64Array = np.searchsorted(indices, assigned).clip(max=len(indices) - 1)
                actions = drive_by_style(part, styled, styles)
            else:
                actions = ask(drivers[0], part)
            moved = model.move(part.actor_states, actions, state.step_time_s)
            values[actors] = np.column_stack([moved.positions_m, *moved.motions])
        return Actions(values)

    @cached_property
    def _parties(self) -> dict[str, list[int]]:
        """The indices of members that drive together, by a name; nobody of those who are replayed."""
        parties: dict[str, list[int]] = {}
        for number, name in enumerate(self.names):
            seat = self.members[name]
            if seat is not None:
                is_style = isinstance(seat.driver, IntelligentDriver) and isinstance(seat.model, PlannedPoses)
                parties.setdefault(_STYLES if is_style else f"member {name}", []).append(number)
        return parties
