"""Traffic mix: agents of a scene with different drivers."""

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
    """Action model for a mix, whose members have already applied their own models.

    An action is a state without the length: x, y, yaw, speed, acceleration and steering, (K, 6).
    """

    has_motion = False

    def move(self, states: VehicleStates, actions: Actions, step_time_s: float) -> VehicleStates:  # noqa: ARG002
        """Return the actions as states; see :class:`l5kit.simulation.engine.actions.ActionModel`."""
        x_y, yaws, speeds, accelerations, steering = np.split(actions.values, (2, 3, 4, 5), axis=1)
        columns = (yaws[:, 0], speeds[:, 0], accelerations[:, 0], steering[:, 0], states.lengths_m)
        return VehicleStates(np.ascontiguousarray(x_y), *map(np.ascontiguousarray, columns))


@dataclass(frozen=True, eq=False)
class TrafficMix:
    """Mix of several drivers for the agents of a scene, by weights; an agent keeps its driver.

    The driver of an agent depends only on the seed, the scene of the log and the track: it is the same in any batch,
    for any number of workers, and for all planners. Intelligent drivers among the members drive together, as one driver
    with parameters by agent, so that agents that give way see the intentions of the others.

    Members drive only tracks that their own ``AgentControl.tracks`` allows; all other rules of control are those of
    :meth:`l5kit.simulation.engine.agent_control.AgentControl.of_traffic`.

    Attributes:
        members: Seats of the drivers by name; None for replayed agents.
        weights: Average share of agents of each member, relative to the sum; the same names.
        seed: Seed, at least 0, below 2 to the power of 64.

    Raises:
        InvalidArgumentError: There are no members, names differ, a weight is not above 0, or the seed is out of range.
    """

    members: Mapping[str, AgentSeat | None]
    weights: Mapping[str, float]
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.members or set(self.members) != set(self.weights):
            raise InvalidArgumentError(
                f"TrafficMix: members are {sorted(self.members)} and weights those of {sorted(self.weights)}; pass "
                "at least one member, and a weight for each"
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
        """Names of the members in alphabetical order, by which they are numbered."""
        return tuple(sorted(self.members))

    @property
    def seat(self) -> AgentSeat:
        """The mix with its action model and control."""
        reaches_m = [seat.control.near_m for seat in self.members.values() if seat is not None]
        control = AgentControl.of_traffic(tracks=self.tracks)
        return AgentSeat(self, MixedStates(), replace(control, near_m=min([control.near_m, *reaches_m])))

    def assign(self, batch: SceneBatch) -> Int64Array:
        """Return the index in :attr:`names` of the member for each track of a batch, (T,)."""
        tracks = batch.tracks
        scenes = batch.scene_indices[tracks.scenes_of_tracks]
        parts = np.cumsum([self.weights[name] for name in self.names])
        uniforms = counter_uniforms(self.seed, scenes, tracks.track_ids) if len(tracks) else np.zeros(0)
        chosen: Int64Array = np.searchsorted(parts[:-1], uniforms * parts[-1], side="right")
        return chosen

    def tracks(self, batch: SceneBatch) -> BoolArray:
        """Return the mask of the driven tracks of a batch, (T,)."""
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
            InvalidArgumentError: The driver is used for AVs.
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
                # the style of a track is the rank of its member among the members that drive together
                styles: Int64Array = np.searchsorted(indices, assigned).clip(max=len(indices) - 1)
                actions = drive_by_style(part, styled, styles)
            else:
                actions = ask(drivers[0], part)
            moved = model.move(part.actor_states, actions, state.step_time_s)
            values[actors] = np.column_stack([moved.positions_m, *moved.motions])
        return Actions(values)

    @cached_property
    def _parties(self) -> dict[str, list[int]]:
        """Indices of members that drive together, by a key; without replayed members."""
        parties: dict[str, list[int]] = {}
        for number, name in enumerate(self.names):
            seat = self.members[name]
            if seat is not None:
                is_style = isinstance(seat.driver, IntelligentDriver) and isinstance(seat.model, PlannedPoses)
                parties.setdefault(_STYLES if is_style else f"member {name}", []).append(number)
        return parties
