"""Session: runs a planner online at 10 to 50 Hz on moments, which it sees like frames of a simulation."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import Float64Array
from l5kit.data.log_facts import LogFacts, require_facts
from l5kit.data.record_buffer import RecordBuffer
from l5kit.data.records import AGENT_DTYPE, FRAME_DTYPE, TL_FACE_DTYPE
from l5kit.data.scene_records import SceneRecords
from l5kit.errors import InvalidArgumentError, L5KitError
from l5kit.geometry.angle import angular_distance
from l5kit.geometry.transform import rotations33_as_yaws, yaws_as_rotations33
from l5kit.simulation.drivers.simple import Replay
from l5kit.simulation.engine.actions import Controls
from l5kit.simulation.engine.agent_rows import read_agents
from l5kit.simulation.engine.asking import ask
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch
from l5kit.simulation.engine.scene_simulation import EgoSeat
from l5kit.simulation.engine.track_table import TrackTable
from l5kit.simulation.engine.traffic_state import Driver, DriverMemory, TrafficState
from l5kit.simulation.session.moments import FURTHEST_M, Moment
from l5kit.simulation.session.past import KeptPast
from l5kit.simulation.vehicle_models import VehicleGeometry, VehicleStates

_LEAST_PAST_S: Final = 1.0
"""Least past that is kept: drivers search it for road users that have disappeared."""

_LONGEST_PAST_S: Final = 60.0
_AHEAD_S: Final = 60.0
_RENEWED_S: Final = 30.0
"""Without a given route, one of the first duration is made, and renewed after the second."""

_FURTHEST_FROM_ROUTE_M: Final = 30.0
_LINE_STEP_M: Final = 0.3
"""Spacing of the poses sampled from a line. Paths extend as far as the speed limits allow in one step per pose, so a
route is covered only where limits are at least 3 m/s, for steps of 0.1 s."""

_MOST_POSES: Final = 1_000_000


class SessionError(L5KitError, RuntimeError):
    """The planner of a session returned a plan that cannot be driven."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Planned motion of an AV.

    Attributes:
        timestamp_ns: Time of the moment that the plan starts from.
        times_s: Seconds from then, ascending, (T,).
        poses: Centre of the AV at these times: world x, y in metres and yaw in radians, (T, 3).
        controls: Controls of the vehicle model of the planner, (A,), of which the poses are a rollout; None for a
            planner of poses.
        is_fallback: Whether the poses come from the fallback.
    """

    timestamp_ns: int
    times_s: Float64Array
    poses: Float64Array
    controls: Float64Array | None = None
    is_fallback: bool = False


class Session:
    """Online planner: it takes what is known at each moment, keeps the past, and returns plans.

    The planner is called like the driver of the AV in a simulation, with the same samples of the same records: given
    the frames of a simulation it returns the same plans. Moments may arrive at any rate. The planner sees frames
    ``facts.step_time_s`` apart, as in its training: the moments themselves if they arrive at this rate, else frames
    interpolated between them (:meth:`~l5kit.simulation.session.past.KeptPast.frames`). A refused moment changes
    nothing. Memory is bounded by the past that the planner uses. A session is not thread-safe.

    Args:
        planner: A driver of AVs, or an ``EgoSeat`` with one; :func:`l5kit.closedloop.open_session` finds it by name.
        road: The map; None without one.
        facts: Size of the AV and step time; those of L5Kit 1.5 by default.
        route: Route in the world frame: points of a line, (N, 2), such as ``line_m`` of a route of the map; or poses
            one step apart, (N, 3), as in a log. None to follow the lane of the AV and then the straightest successors.
        past_s: History for the planner, seconds; None for the history of its samples, at least 1 s.
        longest_gap_s: Longest time between two moments.
        most_objects: Largest number of road users in a moment.
        threshold: A road user has a class if the probability of its label is above this.

    Raises:
        InvalidArgumentError: The route is invalid, a number is out of its range, the planner replays logs, or it was
            trained with another step time.
    """

    def __init__(
        self,
        planner: Driver | EgoSeat,
        *,
        road: RoadMap | None = None,
        facts: LogFacts | None = None,
        route: ArrayLike | None = None,
        past_s: float | None = None,
        longest_gap_s: float = 0.5,
        most_objects: int = 512,
        threshold: float = 0.5,
    ) -> None:
        require_facts(facts)
        self.facts = facts or LogFacts()
        self._seat = planner if isinstance(planner, EgoSeat) else EgoSeat(planner)
        # refuse drivers that need a log, and networks with another step time
        driver, step_time_s = self._seat.driver, self.facts.step_time_s
        if isinstance(driver, Replay):
            raise InvalidArgumentError(
                "planner replays a log, but a session has none; use another planner, such as rules"
            )
        training_step_s = getattr(getattr(driver, "dataset", None), "route_step_time_s", step_time_s)
        if abs(training_step_s - step_time_s) > 1e-6:
            raise InvalidArgumentError(
                f"facts.step_time_s is {step_time_s:g}, but the network was trained with steps of {training_step_s:g} "
                f"s; pass LogFacts(step_time_s={training_step_s:g}), as moments may come at any rate"
            )
        if past_s is not None and not 0 <= past_s <= _LONGEST_PAST_S:
            raise InvalidArgumentError(f"past_s is {past_s}; it must be from 0 to {_LONGEST_PAST_S:g} s, or None")
        if not self.facts.step_time_s <= longest_gap_s < np.inf:
            raise InvalidArgumentError(
                f"longest_gap_s is {longest_gap_s}; it must be a step, {self.facts.step_time_s} s, or more"
            )
        if not 0 <= threshold < 1:
            raise InvalidArgumentError(
                f"threshold is {threshold}; it must be at least 0 and below 1, or no road user is seen"
            )
        if most_objects < 0:
            raise InvalidArgumentError(f"most_objects is {most_objects}; it must be 0 or more")
        num_back = max(round((_LEAST_PAST_S if past_s is None else past_s) / self.facts.step_time_s), 1)
        self._step_ns = round(self.facts.step_time_s * 1e9)
        self._past = KeptPast(
            step_ns=self._step_ns,
            num_frames=1 + max(num_back, _num_back_of(self._seat.driver)),
            longest_gap_ns=round(longest_gap_s * 1e9),
        )
        self._road, self._most_objects, self._threshold = road, most_objects, threshold
        self._route = None if route is None else _as_route(route)
        self._moment: Moment | None = None
        self._batch: SceneBatch | None = None
        self._memory: DriverMemory = {}
        self._frame, self._frame_ns = 0, 0

    def step(self, moment: Moment) -> Plan:
        """Add a moment, and return the plan for it; see :meth:`observe` and :meth:`plan`."""
        self.observe(moment)
        return self.plan()

    def observe(self, moment: Moment) -> None:
        """Add a moment without planning.

        Raises:
            InvalidArgumentError: The time is not after the last moment, or too long after it, the AV has jumped, there
                are too many road users, or a lane of the lights is not on the map.
        """
        if len(moment.objects) > self._most_objects:
            raise InvalidArgumentError(
                f"objects has {len(moment.objects)} road users, more than the {self._most_objects} of most_objects; "
                "leave out distant ones, or allow more"
            )
        self._past.add(moment.to_records(self._road), speed_mps=moment.speed_mps)
        self._moment = moment

    def plan(self) -> Plan:
        """Return the planned motion of the AV from the last moment on.

        Raises:
            InvalidArgumentError: There is no moment yet, or the route is too far away.
            SessionError: The plan is not finite.
            Exception: Any error of the planner.
        """
        moment = self._moment
        if moment is None:
            raise InvalidArgumentError("there is no moment yet; pass one to observe() or step()")
        window = self._past.frames()

        # State of the AV; values that the moment lacks are derived from earlier frames.
        length_m, frames = float(self.facts.ego_extent_m[0]), window.frames
        acceleration_mps2, steering_rad = moment.acceleration_mps2, moment.steering_rad
        if acceleration_mps2 is None:
            acceleration_mps2 = self._past.acceleration_mps2()
        if steering_rad is None and len(frames) > 1:
            seconds = float(frames["timestamp"][-1] - frames["timestamp"][-2]) * 1e-9
            yaws_rad = rotations33_as_yaws(frames["ego_rotation"][-2:])
            rate, speed = np.array([angular_distance(yaws_rad[1], yaws_rad[0]) / seconds]), np.array([moment.speed_mps])
            steering_rad = float(VehicleGeometry().steering_of(rate, speed, length_m=length_m)[0])
        ego = VehicleStates(
            positions_m=np.asarray(moment.position_m, np.float64)[None, :2].copy(),
            yaws_rad=np.array([moment.heading_rad], np.float64),
            speeds_mps=np.array([moment.speed_mps], np.float64),
            accelerations_mps2=np.array([acceleration_mps2], np.float64),
            steering_rad=np.array([steering_rad or 0.0], np.float64),
            lengths_m=np.array([length_m]),
        )
        self._go_on(moment, ego)

        # ask the planner, and turn controls into poses
        state = self._state(window, ego)
        actions = ask(self._seat.driver, state)
        controls = None
        if not actions.is_plan:
            controls = actions.values[0].copy()
            if not isinstance(self._seat.model, Controls):
                raise InvalidArgumentError(
                    f"planner {type(self._seat.driver).__name__} gives controls; pass it in an EgoSeat with Controls "
                    "of its vehicle model"
                )
            actions = self._seat.model.plan(ego, actions, step_time_s=self.facts.step_time_s)
        if not np.isfinite(actions.values).all():
            raise SessionError(
                f"{type(self._seat.driver).__name__} returned a plan that is not finite at {moment.timestamp_ns} ns; "
                "use your own fallback until the next plan"
            )
        is_fallback = actions.is_fallback is not None and bool(actions.is_fallback[0])
        times_s = actions.times_of(self.facts.step_time_s)
        return Plan(int(moment.timestamp_ns), times_s, actions.values[0].copy(), controls, is_fallback)

    def set_route(self, route: ArrayLike | None) -> None:
        """Change the route from the next plan on, keeping the past; see ``route`` of the class."""
        self._route = None if route is None else _as_route(route)
        self._batch = None

    def reset(self) -> None:
        """Forget the past, for example after a gap; the route stays."""
        self._past.forget()
        self._moment, self._batch = None, None

    def _go_on(self, moment: Moment, ego: VehicleStates) -> None:
        """Advance the frame counter to a moment, and start the route if it is new or due for renewal.

        Planners with memory count frames. A second call within half a step gets the same frame number.
        """
        now_ns, half_ns = int(moment.timestamp_ns), self._step_ns // 2
        since_begin_s = 0.0 if self._batch is None else (self._frame - self._batch.starts[0]) * self.facts.step_time_s
        if self._batch is None or (self._route is None and since_begin_s >= _RENEWED_S):
            pose = ego.poses[0]
            start, route = 0, self._route
            if route is None:
                # Without a route: the pose of the AV, and its pose one step ahead, held. Paths follow the current lane
                # and then the straightest successors, as far as the speed limits allow.
                step_time_s = self.facts.step_time_s
                ahead_m = float(ego.speeds_mps[0]) * step_time_s
                later = pose + [ahead_m * np.cos(pose[2]), ahead_m * np.sin(pose[2]), 0.0]
                held = np.repeat(later[None], max(round(_AHEAD_S / step_time_s), 1), axis=0)
                route = np.concatenate([pose[None], held])
            else:
                # start at the pose nearest to the AV, the first if there are several, among those with a similar
                # heading
                distances_m = np.hypot(*(route[:, :2] - pose[:2]).T)
                is_along = np.cos(route[:, 2] - pose[2]) > 0
                start = int(np.argmin(np.where(is_along, distances_m, np.inf)))
                if not is_along.any() or distances_m[start] > _FURTHEST_FROM_ROUTE_M:
                    raise InvalidArgumentError(
                        f"route is {distances_m.min():.1f} m from the AV at {pose.tolist()}; it must pass within "
                        f"{_FURTHEST_FROM_ROUTE_M:g} m with headings less than 90 degrees apart. Pass another route to "
                        "set_route()"
                    )

            # the route as a log in which the AV drives it without other agents
            frames = np.zeros(len(route), FRAME_DTYPE)
            frames["timestamp"] = self._step_ns * np.arange(1, len(route) + 1)
            frames["ego_translation"][:, :2] = route[:, :2]
            frames["ego_rotation"] = yaws_as_rotations33(route[:, 2])
            self._batch = SceneBatch(
                scene_indices=np.zeros(1, np.int64),
                recorded=[SceneRecords(frames, np.zeros(0, AGENT_DTYPE), np.zeros(0, TL_FACE_DTYPE))],
                starts=np.array([start]),
                stops=np.array([len(route)]),
                facts=self.facts,
                road=self._road,
                threshold=self._threshold,
                is_live=True,
            )
            self._memory, self._frame, self._frame_ns = {}, int(self._batch.starts[0]), now_ns
        elif now_ns - self._frame_ns >= half_ns:
            # frames keep the rhythm of the steps while moments deviate by at most half a step
            self._frame += 1
            self._frame_ns = min(max(self._frame_ns + self._step_ns, now_ns - half_ns), now_ns + half_ns)

    def _state(self, window: SceneRecords, ego: VehicleStates) -> TrafficState:
        """Return the traffic state that the planner sees."""
        assert self._batch is not None
        buffer = RecordBuffer([window], facts=self.facts)
        current, scenes = len(window.frames) - 1, np.zeros(1, np.int64)
        tracks = TrackTable.of_scenes([window], threshold=self._threshold)
        return TrafficState(
            batch=self._batch,
            scenes=scenes,
            frame_indices=np.array([self._frame]),
            step_time_s=self.facts.step_time_s,
            ego=ego,
            agents=read_agents(buffer.agents, buffer.frames[current:], tracks, scenes, self._threshold),
            actors=None,
            actor_states=ego,
            memory=self._memory,
            buffer=buffer,
            first_frames=np.array([self._frame - current]),
        )


def _num_back_of(driver: Driver) -> int:
    """Return how many frames of history a driver uses, as far as its samples show."""
    inner = getattr(driver, "planner", None)
    steps = getattr(getattr(getattr(driver, "dataset", None), "sample_function", None), "steps", None)
    own = 0 if steps is None else steps.history_num_frames * steps.history_step_size
    return max(own, 0 if inner is None else _num_back_of(inner))


def _as_route(route: ArrayLike) -> Float64Array:
    """Return the poses of a route, (N, 3).

    Args:
        route: World x, y and heading of an AV, one step apart, (N, 3); or points of a line at any distance, (N, 2), at
            least two of them distinct.

    Raises:
        InvalidArgumentError: The shape is wrong, a value is not finite, or the route is too long.
    """
    values = np.asarray(route, np.float64)
    if values.ndim != 2 or values.shape[1] not in (2, 3) or len(values) == 0:
        raise InvalidArgumentError(
            f"route must be points (N, 2) or poses (N, 3), N at least 1, got shape {values.shape}; "
            "find_route(...).line_m of a map is one, for example"
        )
    if not (np.abs(values) <= FURTHEST_M).all():
        row = int(np.argmin((np.abs(values) <= FURTHEST_M).all(axis=1)))
        raise InvalidArgumentError(f"route has {values[row].tolist()} in row {row}; all must be finite")
    if values.shape[1] == 3:
        return values
    steps_m = np.hypot(*np.diff(values, axis=0).T)
    values = values[np.append(True, steps_m > 1e-6)]
    arcs_m = np.append(0.0, np.cumsum(steps_m[steps_m > 1e-6]))
    if len(values) < 2 or arcs_m[-1] / _LINE_STEP_M > _MOST_POSES:
        raise InvalidArgumentError(
            f"route is a line of {arcs_m[-1]:g} m; it must be above 0 and at most {_MOST_POSES * _LINE_STEP_M:g} m long"
        )
    along_m = np.arange(0.0, arcs_m[-1], _LINE_STEP_M)
    edges = np.clip(np.searchsorted(arcs_m, along_m, side="right") - 1, 0, len(values) - 2)
    edges_m = np.diff(values, axis=0)[edges]
    points_m = [np.interp(along_m, arcs_m, values[:, axis]) for axis in range(2)]
    return np.column_stack([*points_m, np.arctan2(edges_m[:, 1], edges_m[:, 0])])
