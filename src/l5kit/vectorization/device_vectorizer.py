"""Vectorizer on a device: what is around the targets of windows, made by kernels of a backend."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from l5kit._overriding import overrides
from l5kit.data.device_log import DeviceLog, DeviceTargets, DeviceWindows
from l5kit.device.backend import Backend, DeviceArray
from l5kit.errors import InvalidArgumentError
from l5kit.vectorization.device_other_agents import ChoiceSizes, DeviceAgents, DeviceTracks, write_other_agents
from l5kit.vectorization.device_vector_map import DeviceVectorMap
from l5kit.vectorization.vectorizer import Vectorizer

__all__ = ["DeviceVectorizer", "PastPoses", "is_supported"]

_MOST_BYTES = 512 * 2**20
"""Memory of the kernels at most; larger batches are made in parts."""


class PastPoses(NamedTuple):
    """Where B targets were, as seen from where they are.

    Attributes:
        positions_m: (B, h + 1, 2) float32.
        yaws_rad: (B, h + 1, 1) float32.
        availabilities: (B, h + 1) float32.
    """

    positions_m: DeviceArray
    yaws_rad: DeviceArray
    availabilities: DeviceArray


def is_supported(vectorizer: object) -> bool:
    """Return whether a device gives what a vectorizer gives: one of this package, without routes or own methods."""
    return (
        type(vectorizer) is Vectorizer
        and not vectorizer.has_route
        and not overrides(vectorizer, "vectorize", "vectorize_windows", base=Vectorizer)
    )


class DeviceVectorizer:
    """Gives on a device what a vectorizer gives on the processor, from windows that lie there.

    Several threads may use it at once.

    Args:
        vectorizer: Which one; its attributes are read at every call. Its map is copied to the device.
        backend: The device.

    Raises:
        InvalidArgumentError: It is none that :func:`is_supported`.
    """

    def __init__(self, vectorizer: Vectorizer, backend: Backend) -> None:
        if not is_supported(vectorizer):
            raise InvalidArgumentError(
                f"vectorizer must be a Vectorizer of l5kit without methods of its own and without routes, got "
                f"{vectorizer!r}; devices have no other kind, so make its samples on the processor"
            )
        self._vectorizer = vectorizer
        self._backend = backend
        self._map = DeviceVectorMap(vectorizer.vector_map, backend)

    def vectorize(
        self,
        log: DeviceLog,
        windows: DeviceWindows,
        targets: DeviceTargets,
        past: PastPoses,
        *,
        most_rows: int,
    ) -> dict[str, DeviceArray]:
        """Return what is around the targets of B windows.

        Args:
            log: The log that the windows are of.
            windows: B windows of at most h + 1 history and F future frames.
            targets: Whom they are about.
            past: Where the targets were, as seen from where they are.
            most_rows: How many agents the history frames of a window have at most, together. Those beyond would be
                overlooked.

        Returns:
            One array for each key of :meth:`Vectorizer.vectorize_windows`, of the same shape and type. A track id of
            2**63 or more, which no sample holds and the processor refuses, comes out negative; for logs that have
            such, ``DeviceLog.has_large_ids`` is true.

        Raises:
            IndexError: There are more than h + 1 history frames or F future frames.
            InvalidArgumentError: Windows, targets and past differ in number.
        """
        num_windows, num_frames = windows.is_there.shape
        self._vectorizer.require_frames(windows.num_history, int(num_frames) - windows.num_history)
        if not num_windows == targets.yaws_rad.shape[0] == past.positions_m.shape[0]:
            raise InvalidArgumentError(
                f"windows, targets and past must be as many, got {num_windows}, {targets.yaws_rad.shape[0]} and "
                f"{past.positions_m.shape[0]}"
            )
        choice, vectorizer = self._vectorizer.agent_choice, self._vectorizer
        sizes = ChoiceSizes.of(rows=max(most_rows, 1), frames=windows.num_history, agents=choice.max_agents)
        num_kept = min(vectorizer.history_num_frames_agents + 1, windows.num_history)
        agents, polylines = self._no_agents(num_windows, choice.max_agents), self._map.polylines(num_windows)
        num_at_once = max(_MOST_BYTES // (sizes.num_bytes + self._map.num_bytes), 1)
        for first in range(0, num_windows, num_at_once):
            part = first, min(first + num_at_once, num_windows)
            write_other_agents(log, windows, targets, choice, agents, num_kept=num_kept, sizes=sizes, part=part)
            self._map.write(log, windows, targets, polylines, part=part)
        return {
            **_track_columns("all_other_agents_history", agents.past),
            **_track_columns("all_other_agents_future", agents.future),
            "all_other_agents_types": agents.types,
            "all_other_agents_track_ids": agents.track_ids,
            **self._polylines(past, agents.past),
            **vars(polylines),
        }

    def _no_agents(self, num_windows: int, num_agents: int) -> DeviceAgents:
        """Return windows without other agents."""
        backend, vectorizer = self._backend, self._vectorizer
        return DeviceAgents(
            DeviceTracks.of_no_track(backend, num_windows, num_agents, vectorizer.history_num_frames_max + 1),
            DeviceTracks.of_no_track(backend, num_windows, num_agents, vectorizer.future_num_frames),
            backend.zeros((num_windows, num_agents), np.int64),
            backend.zeros((num_windows, num_agents), np.int64),
        )

    def _polylines(self, past: PastPoses, others: DeviceTracks) -> dict[str, DeviceArray]:
        """Return x, y and heading of the targets and of other agents, and where they are known."""
        backend = self._backend
        shape, num_past = tuple(others.availabilities.shape), tuple(past.positions_m.shape[:2])
        of_target = backend.empty((*num_past, 3), np.float32), backend.empty(num_past, np.bool_)
        of_others = backend.empty((*shape, 3), np.float32), backend.empty(shape, np.bool_)
        given = others.positions_m, others.yaws_rad, others.availabilities
        num_windows, num_agents, num_frames = shape[0], shape[1], max(shape[2], num_past[1])
        backend.run(
            _join_poses,
            num_windows * (num_agents + 1) * num_frames,
            (num_agents, num_frames),
            tuple(past),
            given,
            of_target,
            of_others,
        )
        return {
            "agent_trajectory_polyline": of_target[0],
            "agent_polyline_availability": of_target[1],
            "other_agents_polyline": of_others[0],
            "other_agents_polyline_availability": of_others[1],
        }


def _track_columns(prefix: str, tracks: DeviceTracks) -> dict[str, DeviceArray]:
    return {
        f"{prefix}_positions": tracks.positions_m,
        f"{prefix}_yaws": tracks.yaws_rad,
        f"{prefix}_extents": tracks.extents_m,
        f"{prefix}_availability": tracks.availabilities,
    }


@njit(nogil=True, cache=True, error_model="numpy")
def _join_poses(item: int, arguments: Any) -> None:
    """Write the polyline of one frame of a target, whose number is 0, or of one of its other agents."""
    (num_agents, num_frames), past, others, (line, is_known), (other_lines, are_known) = arguments
    frame, number = item % num_frames, item // num_frames % (num_agents + 1)
    window, agent = item // num_frames // (num_agents + 1), number - 1
    if number > 0 and frame < other_lines.shape[2]:
        positions_m, yaws_rad, is_there = others
        for axis in range(2):
            other_lines[window, agent, frame, axis] = positions_m[window, agent, frame, axis]
        other_lines[window, agent, frame, 2] = yaws_rad[window, agent, frame, 0]
        are_known[window, agent, frame] = is_there[window, agent, frame]
    if number == 0 and frame < line.shape[1]:
        positions_m, yaws_rad, availabilities = past
        for axis in range(2):
            line[window, frame, axis] = positions_m[window, frame, axis]
        line[window, frame, 2] = yaws_rad[window, frame, 0]
        is_known[window, frame] = availabilities[window, frame] != 0
