"""AV slots: states of the AVs of many scenes, and steps of the AVs and the road users around them."""

import functools
from typing import Protocol, TypeAlias, TypeGuard, get_args

import numpy as np

from l5kit._types import Float64Array, Int64Array
from l5kit.data.array_shapes import as_read_only, map_tuple
from l5kit.device.backend import Backend, DeviceArray
from l5kit.environment.episode_roads import AvArrays, EpisodeRoads, RoutePositions
from l5kit.environment.rewards.step_reward import DrivenStep
from l5kit.environment.slots.av_steps import NUM_COLUMNS, REPLAY, ROUTE, choose_going, move_avs, set_avs
from l5kit.environment.traffic.prepared_scene import BankArrays
from l5kit.environment.traffic.traffic_kernels import TrafficRows
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.angle import angular_distance
from l5kit.lanes.red_lights import LightRows
from l5kit.simulation.vehicle_models import (
    InvertibleBicycle,
    KinematicBicycle,
    Unicycle,
    VehicleGeometry,
    VehicleStates,
)

MovingModel: TypeAlias = Unicycle | InvertibleBicycle | KinematicBicycle
"""Vehicle models that kernels can move AVs by; their actions are two numbers."""


class AvMover(Protocol):
    """Protocol of an object that moves the AVs."""

    def moved(self, avs: "AvSlots", slots: DeviceArray, actions: DeviceArray) -> DeviceArray:
        """Return the AVs of slots (B,) one step later, as in :func:`as_columns`, without changing ``avs``.

        Args:
            avs: All AVs.
            slots: Slots to move, each with a next frame; -1 for none.
            actions: Their actions, (B, ...).

        Raises:
            InvalidArgumentError: An action leads to a state that is not finite.
        """


class AvSlots:
    """AVs of N scenes, each at its own frame, with their surroundings, on the processor or a device.

    Args:
        num_slots: N.
        mover: Mover of the AVs.
        size_m: Length and width of an AV.
        step_time_s: Seconds of a step.
        roads: Road users and routes; None if they are not needed.
        backend: Backend of the arrays and kernels, from :func:`l5kit.device.opening.open_backend`.

    Attributes:
        mover: Mover of the AVs.
        step_time_s: Seconds of a step.
        roads: Road users and routes.
        backend: Backend of the arrays and kernels.
        arrays: The AVs as kernel arrays.
        is_new: Mask of AVs before their first step, bool (N,).
    """

    def __init__(
        self,
        num_slots: int,
        mover: AvMover,
        *,
        size_m: tuple[float, float],
        step_time_s: float,
        roads: EpisodeRoads | None,
        backend: Backend,
    ) -> None:
        self.mover, self.step_time_s, self.roads, self.backend = mover, float(step_time_s), roads, backend
        self._length_m = float(size_m[0])
        self.arrays = AvArrays(
            boxes=backend.upload_one(np.tile([0.0, 0.0, 0.0, *size_m], (num_slots, 1))),
            velocities_mps=backend.zeros((num_slots, 2)),
            motions=backend.zeros((num_slots, 4)),
            motions_before=backend.zeros((num_slots, 4)),
        )
        self.is_new: DeviceArray = backend.zeros(num_slots, np.bool_)
        backend.wait()  # for data that other streams may read

    def __len__(self) -> int:
        return int(self.is_new.shape[0])

    def start(self, slots: Int64Array, before: Float64Array, now: Float64Array) -> None:
        """Put the AVs of slots (B,) at their logged poses, with speeds and turn rates of the step before.

        Args:
            slots: The slots, all different; their road users are in the same frames.
            before: World x, y and yaw in the frames before, metres and radians, (B, 3).
            now: World x, y and yaw in the current frames, (B, 3).
        """
        states, yaw_rates = states_at_start(before, now, length_m=self._length_m, step_time_s=self.step_time_s)
        self.put(slots, as_columns(states, yaw_rates))

    def put(self, slots: Int64Array, columns: Float64Array) -> None:
        """Put the AVs of slots (B,) into states as in :func:`as_columns`, (B, ``NUM_COLUMNS``)."""
        self._set(*self.backend.upload([slots, columns]), begins=True)

    def move(self, slots: DeviceArray, actions: DeviceArray) -> None:
        """Move the AVs of slots (B,) by actions (B, ...), and their road users, to the next frames.

        Raises:
            InvalidArgumentError: An action leads to a state that is not finite; nothing has moved.
        """
        moved = self.mover.moved(self, slots, actions)
        if self.roads is not None:
            self.roads.leave(slots, self.arrays)
        self._set(slots, moved, begins=False)

    def states_of(self, slots: Int64Array | slice) -> VehicleStates:
        """Return the AVs of some slots as states for vehicle models, on the processor, without checking them again."""
        boxes, motions = self.arrays.boxes[slots], self.arrays.motions[slots]
        return VehicleStates(
            positions_m=boxes[:, :2],
            yaws_rad=boxes[:, 2],
            speeds_mps=motions[:, 0],
            accelerations_mps2=motions[:, 1],
            steering_rad=motions[:, 3],
            lengths_m=boxes[:, 3],
            is_known_to_fit=True,
        )

    def choose_going(self, states: DeviceArray, *, begins: bool = True) -> DeviceArray:
        """Return numbers of slots that continue, -1 for others, int64 (N,), in memory that is reused.

        Args:
            states: States of slots, 0 if they may continue, (N,).
            begins: Whether slots before their first step continue.
        """
        assert self.roads is not None
        self.backend.run(choose_going, len(self), states, self.is_new, begins, self.roads.going)
        return self.roads.going

    def step_of(self, slots: DeviceArray, *, boxes_before: DeviceArray, log_poses: DeviceArray) -> DrivenStep:
        """Return the last step of the AVs of slots (B,), for rewards.

        Args:
            slots: The slots.
            boxes_before: The AVs before the step, (B, 5).
            log_poses: World x, y and yaw of the logged AVs, (B, 3).
        """
        roads, size = self.roads, len(slots)
        if roads is None:
            rows, lights, now = _nothing_around(size)
            paths, driving_map, before = _NOTHING.paths, None, now
            own = AvArrays(*[each[slots] for each in self.arrays])
        else:
            rows, lights = roads.rows(slots), roads.lights_before(slots)
            paths, driving_map = roads.paths, roads.driving_map
            own = AvArrays(*(roads.taken(each, slots) for each in self.arrays))
            routes = (roads.now, roads.before)
            now, before = (RoutePositions(*(roads.taken(each, slots) for each in of)) for of in routes)
        return DrivenStep(
            boxes=own.boxes,
            boxes_before=boxes_before,
            motions=own.motions,
            motions_before=own.motions_before,
            route_positions=now.positions,
            route_positions_before=before.positions,
            expert_arcs_m=now.expert_arcs_m,
            expert_arcs_before_m=before.expert_arcs_m,
            log_poses=log_poses,
            rows=rows.scene_rows,
            track_rows=rows.track_rows,
            paths=paths,
            routes=now.routes,
            lights=lights,
            step_time_s=self.step_time_s,
            driving_map=driving_map,
        )

    def _set(self, slots: DeviceArray, columns: DeviceArray, *, begins: bool) -> None:
        """Put AVs into the current frames of their slots, and update the road users there."""
        self.backend.run(set_avs, len(slots), slots, columns, begins, self.arrays, self.is_new)
        if self.roads is not None:
            self.roads.enter(slots, self.arrays, begins=begins)


class ModelMover:
    """Mover of AVs by a vehicle model, or by the log, on the processor or a device.

    Args:
        num_slots: Number of AVs, N.
        model: The model; None to replay the AVs.
        step_time_s: Seconds of a step.
        backend: Backend that runs the kernels.
        follows_routes: Whether the first number of an action is an acceleration along the route, and the curvature is
            chosen to follow it; for an ``InvertibleBicycle``.

    Attributes:
        is_bad: Mask of invalid actions in the last call, whose AVs stay in place, bool (N,).

    Raises:
        InvalidArgumentError: Kernels do not support the model.
    """

    def __init__(
        self,
        num_slots: int,
        model: MovingModel | None,
        *,
        step_time_s: float,
        backend: Backend,
        follows_routes: bool = False,
    ) -> None:
        if model is not None and not is_moving(model):
            names = ", ".join(known.__name__ for known in get_args(MovingModel))
            raise InvalidArgumentError(f"model is a {type(model).__name__}; kernels only move AVs by {names}")
        step_s = float(step_time_s)
        kind, parameters = (REPLAY, (0.0,) * 5) if model is None else (model.kind, model.parameters(step_s))
        self._model, self._backend = (ROUTE if follows_routes else kind, parameters, step_s), backend
        self._columns: DeviceArray = backend.zeros((num_slots, NUM_COLUMNS))
        self.is_bad: DeviceArray = backend.zeros(num_slots, np.bool_)

    def moved(self, avs: AvSlots, slots: DeviceArray, actions: DeviceArray) -> DeviceArray:
        """Return the AVs of slots one step later, in memory that is reused; see :class:`AvMover`.

        Args:
            avs: The AVs.
            slots: The slots, (B,).
            actions: Controls of the model, float64 (B or more, 2).
        """
        roads = avs.roads
        assert roads is not None
        bank = roads.traffic.arrays
        of_log, of_routes = (roads.traffic.current, bank.starts, bank.ego), (bank.paths, roads.now)
        to_write = (self._columns, self.is_bad)
        self._backend.run(move_avs, len(slots), slots, avs.arrays, of_log, of_routes, actions, self._model, *to_write)
        return self._columns


def is_moving(model: object) -> TypeGuard[MovingModel]:
    """Return whether kernels can move AVs by a model: one of l5kit's own classes, not a subclass."""
    return type(model) in get_args(MovingModel)


def states_at_start(
    before: Float64Array, after: Float64Array, *, length_m: float, step_time_s: float
) -> tuple[VehicleStates, Float64Array]:
    """Return the states of AVs in the second frames of episodes, and their yaw rates, rad/s, (B,).

    Speeds and yaw rates are those of the step between the frames, as in all environments; accelerations are 0. The
    steering is derived from the yaw rate, 0 below 0.6 m/s.

    Args:
        before: World x, y and yaw in the first frames, metres and radians, (B, 3).
        after: World x, y and yaw in the second frames, (B, 3).
        length_m: Length of the AV.
        step_time_s: Seconds between the frames.
    """
    steps_m = after[:, :2] - before[:, :2]
    # negative if the AV has moved against its heading
    ahead_m = steps_m[:, 0] * np.cos(after[:, 2]) + steps_m[:, 1] * np.sin(after[:, 2])
    speeds_mps = np.copysign(np.sqrt(steps_m[:, 0] ** 2 + steps_m[:, 1] ** 2), ahead_m) / step_time_s
    yaw_rates = angular_distance(after[:, 2], before[:, 2]) / step_time_s
    steering_rad = VehicleGeometry().steering_of(yaw_rates, speeds_mps, length_m=length_m)
    size = len(after)
    lengths_m = np.full(size, length_m)
    states = VehicleStates(after[:, :2].copy(), after[:, 2].copy(), speeds_mps, np.zeros(size), steering_rad, lengths_m)
    return states, yaw_rates


def as_columns(states: VehicleStates, yaw_rates: Float64Array) -> Float64Array:
    """Return B AVs as rows of x, y, yaw, speed, acceleration, yaw rate (rad/s) and steering, (B, 7)."""
    columns = np.empty((len(states), NUM_COLUMNS))  # three times as fast as np.column_stack
    columns[:, :2], columns[:, 2], columns[:, 3] = states.positions_m, states.yaws_rad, states.speeds_mps
    columns[:, 4], columns[:, 5], columns[:, 6] = states.accelerations_mps2, yaw_rates, states.steering_rad
    return columns


_NOTHING = BankArrays.empty()


@functools.lru_cache(maxsize=8)
def _nothing_around(size: int) -> tuple[TrafficRows, LightRows, RoutePositions]:
    """Return empty road users, lights and routes of ``size`` slots, in read-only arrays."""
    none, starts, two = _NOTHING.rows, np.zeros(size + 1, np.int64), np.zeros(2, np.int64)
    rows = TrafficRows(starts[1:], starts, none.groups, none.boxes, none.velocities_mps, none.tracks)
    lights = LightRows(starts[1:], starts[1:], _NOTHING.lights._replace(starts=two, lane_starts=two))
    routes = RoutePositions(np.full(size, -1), np.full(size, -1), np.zeros((size, 3)), np.zeros(size))
    return map_tuple(as_read_only, (rows, lights, routes))
