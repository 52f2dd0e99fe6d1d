"""Seat of actors in the simulation: a driver that says what actions say, and drives others by a driver of theirs."""

from dataclasses import dataclass, field, fields, replace

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.simulation.engine.actions import Actions
from l5kit.simulation.engine.traffic_state import Driver, TrafficState
from l5kit.simulation.vehicle_models import PoseModel, VehicleModel, VehicleStates

__all__ = ["ActionDriver", "ControlsOrPoses"]

_POSE = 3


@dataclass(frozen=True)
class ControlsOrPoses:
    """Vehicles each of which takes controls of a model, or goes to a pose: an ``ActionModel``.

    Actions are 1 for controls and 0 for a pose, then the controls, then world x, y and yaw.

    Attributes:
        model: Says what the controls mean.
    """

    model: VehicleModel
    has_motion: bool = field(default=True, init=False)

    def move(self, states: VehicleStates, actions: Actions, step_time_s: float) -> VehicleStates:
        """Return the states one step later."""
        is_driven: BoolArray = actions.values[:, 0] == 1
        controls, poses = actions.values[:, 1:-_POSE], actions.values[:, -_POSE:]
        if is_driven.all():
            return self.model.step(states, controls, step_time_s)
        moved = PoseModel().step(states, poses, step_time_s)
        if not is_driven.any():
            return moved
        driven = self.model.step(states.taken(is_driven), controls[is_driven], step_time_s)
        columns = {each.name: getattr(moved, each.name).copy() for each in fields(VehicleStates)}
        for name, values in columns.items():
            values[is_driven] = getattr(driven, name)
        return VehicleStates(**columns)


class ActionDriver:
    """Driver of the AV (actor 0) and of vehicles of one scene: actors do what their controls say, or stand.

    Args:
        tracks: The row of each vehicle that may act in the table of tracks, (P,): actors 1 to P.
        num_tracks: Length of that table.
        num_controls: Controls of an actor.
        others: Drives the other vehicles; None where no others are driven.

    Attributes:
        controls: Controls of all actors, float64 (P + 1, A).
        acts: Which actors follow them; others stand, bool (P + 1,).
    """

    def __init__(self, tracks: Int64Array, num_tracks: int, num_controls: int, others: Driver | None) -> None:
        self.controls: Float64Array = np.zeros((len(tracks) + 1, num_controls))
        self.acts: BoolArray = np.zeros(len(tracks) + 1, np.bool_)
        self._others = others
        self._actors_of_tracks = np.full(num_tracks, -1, np.int64)
        self._actors_of_tracks[tracks] = np.arange(1, len(tracks) + 1)

    def actors_of(self, state: TrafficState) -> Int64Array:
        """Return which actor each vehicle is that is driven, -1 for another one, (K,)."""
        if state.actors is None:
            return np.zeros(len(state), np.int64)
        actors: Int64Array = self._actors_of_tracks[state.actor_tracks]
        return actors

    def drive(self, state: TrafficState) -> Actions:
        """Return what K vehicles do, as :class:`ControlsOrPoses` takes it, (K, A + 4)."""
        actors, states = self.actors_of(state), state.actor_states
        values = np.zeros((len(state), self.controls.shape[1] + 1 + _POSE))
        values[:, -_POSE:-1], values[:, -1] = states.positions_m, states.yaws_rad
        follows = (actors >= 0) & self.acts[actors]
        values[follows, 0] = 1
        values[follows, 1:-_POSE] = self.controls[actors[follows]]
        is_other = actors < 0
        if self._others is not None and state.actors is not None and is_other.any():
            asked = replace(state, actors=state.actors[is_other], actor_states=states.taken(is_other))
            values[is_other, -_POSE:] = self._others.drive(asked).values[:, 0]
        return Actions(values)
