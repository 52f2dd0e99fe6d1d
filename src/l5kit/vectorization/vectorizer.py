"""Vectorizer: windows of a log and the map around them as polylines."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np

from l5kit._overriding import overrides
from l5kit._types import BoolArray, Config, Float32Array, FloatArray, Int64Array, NumericArray, RecordArray
from l5kit.configs.parameters import VectorizerParams
from l5kit.data.device_log import DeviceLog
from l5kit.data.index.track_ids import as_sample_track_ids
from l5kit.data.index.windows import (
    NewArray,
    RelativePoses,
    SeenTargets,
    TargetArrays,
    Targets,
    WindowArrays,
    WindowRows,
    Windows,
)
from l5kit.data.map.api import MapAPI
from l5kit.data.records import AGENT_DTYPE, FRAME_DTYPE, TL_FACE_DTYPE
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.lanes.route_map import RouteMap, build_route_map
from l5kit.vectorization.other_agents import (
    AgentChoice,
    OtherAgents,
    sizes_of_choice,
    write_on_device,
    write_other_agents,
)
from l5kit.vectorization.route_columns import RouteColumns, agents_by_route
from l5kit.vectorization.vector_map import SentMap, VectorMap, write_map_on_device

_MOST_BYTES: Final = 512 * 2**20
"""Upper bound of the memory of kernels on a device; larger batches are split."""


class Vectorizer:
    """Vectorizer of the agents, lanes and crosswalks around a target: arrays of fixed shapes, in the target's frame.

    It makes batches; a single window is a batch of one. Several threads may share it.

    Args:
        cfg: Configuration with ``model_params`` and ``data_generation_params``.
        mapAPI: The map.

    Raises:
        ConfigError: A key of the configuration is missing or of the wrong type.

    Attributes:
        mapAPI: The map.
        other_agents_num: Rows for other agents, M; read at every call, like the next five.
        max_agents_distance: Strict upper bound of the distance of other agents, metres.
        history_num_frames_agents: Past steps of other agents that are kept.
        history_num_frames_max: Past steps h in all arrays.
        future_num_frames: Future steps F.
        filter_agents_threshold: Strict lower bound of the summed probability of the kept classes of other agents.
        order_agents_by_distance: Whether other agents are ordered by distance: those of the current frame, then those
            of the past. Otherwise they have the order of L5Kit 1.5, that of a Python set of their ids.
        order_agents_by_route: Whether the selected agents are ordered by their relevance to the route, if there is one;
            read at every call.
    """

    def __init__(self, cfg: Config, mapAPI: MapAPI) -> None:  # noqa: N803
        params = VectorizerParams.from_cfg(cfg)
        self.mapAPI = mapAPI
        self.other_agents_num = params.other_agents_num
        self.max_agents_distance = params.max_agents_distance_m
        self.history_num_frames_agents = params.history_num_frames_agents
        self.history_num_frames_max = params.history_num_frames
        self.future_num_frames = params.future_num_frames
        self.filter_agents_threshold = params.filter_agents_threshold
        self.order_agents_by_distance = params.order_agents_by_distance
        self.order_agents_by_route = params.order_agents_by_route
        self._lane_params = params.lanes
        self._route_params = params.route if params.has_route else None
        self._map = VectorMap.build(mapAPI.arrays, params.lanes)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {self.other_agents_num} agents, {self._lane_params.max_num_lanes} lanes of "
            f"{self.mapAPI!r}>"
        )

    @cached_property
    def _map(self) -> VectorMap:
        """The polylines of the map; set by the constructor, built again after unpickling."""
        return VectorMap.build(self.mapAPI.arrays, self._lane_params)

    @property
    def has_route(self) -> bool:
        """Whether samples have routes."""
        return self._route_params is not None

    @cached_property
    def route_map(self) -> RouteMap | None:
        """The lanes of routes; None for samples without a route."""
        return None if self._route_params is None else build_route_map(self.mapAPI)

    @property
    def lane_cfg_params(self) -> Config:
        """The keys of ``data_generation_params.lane_params``, read-only: they are fixed when a vectorizer is built."""
        return MappingProxyType(asdict(self._lane_params))

    @property
    def vector_map(self) -> VectorMap:
        """The polylines of the map, in the form of kernels."""
        return self._map

    @property
    def agent_choice(self) -> AgentChoice:
        """Selection of other agents, from the current attributes.

        Raises:
            InvalidArgumentError: ``other_agents_num`` is negative.
        """
        if self.other_agents_num < 0:
            raise InvalidArgumentError(f"other_agents_num must be 0 or more, got {self.other_agents_num}")
        return AgentChoice(
            max_agents=self.other_agents_num,
            max_distance_m=self.max_agents_distance,
            threshold=self.filter_agents_threshold,
            is_by_distance=self.order_agents_by_distance,
        )

    @property
    def vectorizes_windows(self) -> bool:
        """Whether :meth:`vectorize_windows` agrees with :meth:`vectorize`: not if a subclass overrides the latter."""
        return getattr(self.vectorize, "__func__", None) is Vectorizer.vectorize

    def vectorize(
        self,
        selected_track_id: int | None,
        agent_centroid_m: FloatArray,
        agent_yaw_rad: float,
        agent_from_world: NumericArray,
        history_frames: RecordArray,
        history_agents: Sequence[RecordArray],
        history_tl_faces: Sequence[RecordArray],
        history_position_m: Float32Array,
        history_yaws_rad: Float32Array,
        history_availability: BoolArray,
        future_frames: RecordArray,
        future_agents: Sequence[RecordArray],
    ) -> dict[str, NumericArray]:
        """Return the surroundings of the target of one window.

        Args:
            selected_track_id: The target; None for the AV.
            agent_centroid_m: Its world position in the current frame, (2,).
            agent_yaw_rad: Its world heading.
            agent_from_world: Transform from the world to its frame, (3, 3).
            history_frames: Frames, newest first, at most h + 1.
            history_agents: The agents of each.
            history_tl_faces: The traffic light faces of each; only those of the first are used.
            history_position_m: The past of the target in its frame, (h + 1, 2).
            history_yaws_rad: Its headings, (h + 1, 1).
            history_availability: Mask of its known past, (h + 1,).
            future_frames: Frames, nearest first, at most F.
            future_agents: The agents of each.

        Returns:
            One array for each key, as in :meth:`vectorize_windows` without the first axis.

        Raises:
            IndexError: There are more than h + 1 history frames or F future frames.
        """
        num_history, num_future = len(history_frames), len(future_frames)
        self.require_frames(num_history, num_future)
        no_rows = np.empty(0, AGENT_DTYPE)
        missing = [no_rows] * (self.history_num_frames_max + 1 - len(history_agents))
        agents = WindowRows.from_frames([*history_agents, *missing, *future_agents], no_rows.dtype)
        windows = Windows(
            frames=np.zeros((1, agents.num_frames), FRAME_DTYPE),  # unused
            counts=np.array([[num_history], [num_future]], dtype=np.int64),
            agents=agents,
            tl_faces=WindowRows.from_frames(history_tl_faces[:1], np.dtype(TL_FACE_DTYPE)),
            num_history=self.history_num_frames_max + 1,
        )
        target = SeenTargets(
            track_ids=None if selected_track_id is None else np.array([selected_track_id], dtype=np.uint64),
            rows=None,
            centroids_m=np.array([agent_centroid_m], dtype=np.float64),
            yaws_rad=np.array([agent_yaw_rad], dtype=np.float64),
            extents_m=np.full((1, 3), np.nan),
            seen_from=np.array([agent_from_world], dtype=np.float64),
        )
        positions_m = np.asarray(history_position_m)[None]
        past = RelativePoses(
            positions_m=positions_m,
            yaws_rad=np.asarray(history_yaws_rad)[None],
            extents_m=np.zeros_like(positions_m),
            availabilities=np.asarray(history_availability)[None],
        )
        return {key: column[0] for key, column in self.vectorize_windows(windows, target, past).items()}

    def vectorize_windows(self, windows: Windows, targets: Targets, past: RelativePoses) -> dict[str, NumericArray]:
        """Return the surroundings of the targets of B windows.

        Args:
            windows: B windows of at most h + 1 history and F future frames; only the faces of the newest frame are
                used.
            targets: Their targets.
            past: Past of the targets in their current frames, (B, h + 1).

        Returns:
            ``all_other_agents_history_positions`` (B, M, h + 1, 2), ``..._yaws`` (B, M, h + 1, 1), ``..._extents`` (B,
            M, h + 1, 2), float32, and ``..._availability`` (B, M, h + 1), bool; ``all_other_agents_future_...``
            likewise with F in place of h + 1; ``all_other_agents_types`` (label) and ``all_other_agents_track_ids`` (B,
            M) int64; ``agent_trajectory_polyline`` (B, h + 1, 3) float32, x, y and heading of the target, and
            ``other_agents_polyline`` (B, M, h + 1, 3); ``lanes`` (B, 2 L, P, 3), alternating left and right boundaries,
            ``lanes_mid`` (B, L, P, 3), whose third value is the state of the light (0 unknown, 1 green, 2 yellow, 3
            red, 4 no light), and ``crosswalks`` (B, X, Q, 3), float32. Keys that end in ``_polyline`` come with
            ``..._polyline_availability``, the last three with ``..._availabilities``, bool. All values are in metres
            and radians in the frame of the target, and zero if unavailable. With ``model_params.route`` also the keys
            of ``docs/samples.md`` for routes and the lane graph; windows that are not
            :class:`~l5kit.lanes.routes.RoutedWindows` have no route.

        Raises:
            IndexError: There are more than h + 1 history frames or F future frames.
            InvalidArgumentError: Windows, targets and past differ in number.
            CorruptedDataError: An agent around a target has a track id beyond the range of samples.
        """
        self.require_frames(windows.num_history, windows.num_future)
        _require_as_many(len(windows), len(targets), past)

        # other agents, and the trajectories of all
        choice, num_kept = self.agent_choice, self._num_kept(windows.num_history)
        agents = self._no_agents(np.zeros, len(windows), choice.max_agents)
        write_other_agents(windows, targets, choice, agents, num_kept=num_kept)
        lane_rows = np.empty((len(windows), self._lane_params.max_num_lanes), np.int64)
        if np.count_nonzero(agents.track_ids < 0):
            as_sample_track_ids(agents.track_ids)  # refuse ids beyond the range of samples, which are negative here
        columns: dict[str, NumericArray] = _agent_columns(past, agents, np)

        # the map, and positions of its lanes and the agents along the route
        columns |= self._map_columns(windows, targets, lane_rows)
        if self._route_params is not None and self.route_map is not None:
            maker = RouteColumns(self._route_params, self.route_map, self._map.lights)
            is_there = agents.past.availabilities[:, :, 0].copy()
            columns |= maker.columns(windows, targets, agents.track_ids, is_there=is_there, lane_rows=lane_rows)
            if self.order_agents_by_route:
                columns |= agents_by_route(columns)
        return columns

    def _map_columns(self, windows: Windows, targets: Targets, lane_rows: Int64Array) -> dict[str, NumericArray]:
        """Return the map around targets; ``lane_rows`` (B, L) receives the rows of its lanes."""
        return self._map.columns(targets, windows.tl_faces, lane_rows)

    @property
    def runs_on_devices(self) -> bool:
        """Whether :meth:`vectorize_on_device` can be used: it supports neither routes nor methods of subclasses."""
        return (
            type(self) is Vectorizer
            and not self.has_route
            and not overrides(self, "vectorize", "vectorize_windows", base=Vectorizer)
        )

    def vectorize_on_device(
        self,
        sent_map: SentMap,
        log: DeviceLog,
        windows: WindowArrays,
        targets: TargetArrays,
        past: RelativePoses,
        *,
        most_rows: int,
    ) -> dict[str, Any]:
        """Return the surroundings of the targets of B windows on a device; several threads may do so at the same time.

        Args:
            sent_map: :attr:`vector_map` on the device.
            log: The log of the windows.
            windows: B windows of at most h + 1 history and F future frames.
            targets: Their targets.
            past: Past of the targets in their current frames, as tensors.
            most_rows: Largest total number of agents in the history frames of a window; excess ones are ignored.

        Returns:
            One tensor for each key of :meth:`vectorize_windows`, of the same shape and dtype. A track id of 2**63 or
            more, which samples cannot hold and the host refuses, becomes negative; for logs with such ids,
            ``DeviceLog.has_large_ids`` is true.

        Raises:
            IndexError: There are more than h + 1 history frames or F future frames.
            InvalidArgumentError: Windows, targets and past differ in number, or this vectorizer does not support
                devices.
        """
        import torch

        if not self.runs_on_devices:
            raise InvalidArgumentError(
                f"{self!r} overrides methods or has routes, which devices do not support; make its samples on the host"
            )
        backend, (num_windows, num_frames) = log.backend, map(int, windows.is_there.shape)
        self.require_frames(windows.num_history, num_frames - windows.num_history)
        _require_as_many(num_windows, targets.yaws_rad.shape[0], past)
        choice, num_kept = self.agent_choice, self._num_kept(windows.num_history)
        sizes = sizes_of_choice(max(most_rows, 1), windows.num_history, choice.max_agents)
        agents = self._no_agents(backend.zeros, num_windows, choice.max_agents)
        polylines = self._map.polylines(backend.zeros, num_windows)

        # scratch memory bounds the number of windows that are processed together
        num_at_once = max(_MOST_BYTES // (sizes.num_bytes + self._map.bytes_per_window), 1)
        for first in range(0, num_windows, num_at_once):
            part = first, min(first + num_at_once, num_windows)
            write_on_device(log, windows, targets, choice, agents, num_kept=num_kept, sizes=sizes, part=part)
            write_map_on_device(sent_map, log, windows, targets, polylines, part=part)
        polylines_there = {key: backend.tensor(array) for key, array in polylines._asdict().items()}
        return _agent_columns(past, agents.mapped(backend.tensor), torch) | polylines_there

    def _no_agents(self, zeros: NewArray, num_windows: int, num_agents: int) -> OtherAgents:
        """Return windows without other agents, in arrays from ``zeros``."""
        num_history, num_future = self.history_num_frames_max + 1, self.future_num_frames
        return OtherAgents.of_none(zeros, num_windows, num_agents, num_history=num_history, num_future=num_future)

    def _num_kept(self, num_history: int) -> int:
        """Return the number of history frames of windows in which other agents are kept."""
        return min(self.history_num_frames_agents + 1, num_history)

    def require_frames(self, num_history: int, num_future: int) -> None:
        """Refuse windows with more frames than samples have.

        Raises:
            IndexError: There are more than h + 1 history frames or F future frames.
        """
        if num_history > self.history_num_frames_max + 1 or num_future > self.future_num_frames:
            raise IndexOutOfRangeError(
                f"{num_history} history and {num_future} future frames do not fit into samples of "
                f"{self.history_num_frames_max + 1} and {self.future_num_frames} frames; build the vectorizer from the "
                "configuration of the samples"
            )

    def __copy__(self) -> Self:
        """Return a vectorizer that shares the map."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the polylines, which the receiving process can resample from the map."""
        return {name: value for name, value in vars(self).items() if name not in ("_map", "route_map")}


def _require_as_many(num_windows: int, num_targets: int, past: RelativePoses) -> None:
    """Refuse windows, targets and pasts of different lengths."""
    num_past = int(past.availabilities.shape[0])
    if not num_windows == num_targets == num_past:
        raise InvalidArgumentError(
            f"windows, targets and past must have the same length, got {num_windows}, {num_targets} and {num_past}"
        )


def _agent_columns(past: RelativePoses, agents: OtherAgents, arrays: Any) -> dict[str, Any]:
    """Return the columns of targets and other agents, with ``numpy`` or ``torch`` as the module of arrays."""
    return {
        **_track_columns("all_other_agents_history", agents.past),
        **_track_columns("all_other_agents_future", agents.future),
        "all_other_agents_types": agents.types,
        "all_other_agents_track_ids": agents.track_ids,
        "agent_trajectory_polyline": arrays.concatenate([past.positions_m, past.yaws_rad], axis=-1),
        "agent_polyline_availability": past.flags,
        "other_agents_polyline": arrays.concatenate([agents.past.positions_m, agents.past.yaws_rad], axis=-1),
        "other_agents_polyline_availability": agents.past.flags,
    }


def _track_columns(prefix: str, tracks: RelativePoses) -> dict[str, NumericArray]:
    return {
        f"{prefix}_positions": tracks.positions_m,
        f"{prefix}_yaws": tracks.yaws_rad,
        f"{prefix}_extents": tracks.extents_m,
        f"{prefix}_availability": tracks.availabilities,
    }
