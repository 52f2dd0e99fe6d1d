"""Planner that follows routes of the map: the shortest one to the end of the log instead of the logged path."""

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from l5kit._types import Float64Array
from l5kit.closedloop.checkpoints import NetworkContext, open_checkpoint
from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.map.api import MapAPI
from l5kit.data.scene_records import SceneRecords
from l5kit.errors import InvalidArgumentError, RouteNotFoundError
from l5kit.geometry.transform import rotation33_as_yaw, yaw_as_rotation33
from l5kit.simulation.engine.actions import Actions
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.traffic_state import TrafficState

_KEPT = "batch with routes of the map"


class MapRoutedPlanner:
    """Lets a network drive along the shortest routes of the map, from the start of the AV to the end of its log.

    Routes are computed from logged poses. Instead of the log, the network is shown an AV that moves evenly along the
    route of the map; other agents and the past of the AV are those of the simulation. Without a route in the map, it
    follows the lanes straight ahead.

    Args:
        weights: The network.
        log: The log to drive.
    """

    def __init__(self, weights: Path, log: Path) -> None:
        files = find_dataset_files(log)
        context = NetworkContext(files, ChunkedDataset(files.dataset).open().facts, device="cpu")
        self._driver, self._digest = open_checkpoint(weights, whom="ego", context=context)

    def __getstate__(self) -> dict[str, str]:
        """Return the identity of this planner, which enters its digest."""
        return {"routes": "map", "network": self._digest}

    def drive(self, state: TrafficState) -> Actions:
        """Return the actions of the network on the routes of the map."""
        kept = state.memory.get(_KEPT)
        if kept is None or kept.source is not state.batch:
            kept = state.memory[_KEPT] = _RoutedBatch.of(state.batch)
        return self._driver.drive(replace(state, batch=kept.batch))


@dataclass(frozen=True, eq=False)
class _RoutedBatch:
    """A batch, and the same batch with AVs on the routes of the map."""

    source: SceneBatch
    batch: SceneBatch

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return itself, as it is immutable."""
        return self

    @classmethod
    def of(cls, batch: SceneBatch) -> Self:
        recorded = [
            along_map(records, batch.road.api, start=start)
            for records, start in zip(batch.recorded, batch.starts.tolist(), strict=True)
        ]
        return cls(batch, replace(batch, recorded=recorded))


def along_map(records: SceneRecords, map_api: MapAPI, *, start: int) -> SceneRecords:
    """Return a scene whose AV moves evenly along the shortest route, from its position in a frame to its last position.

    Args:
        records: The scene.
        map_api: The map.
        start: The frame.
    """
    frames = copy.deepcopy(records.frames)
    first, last = frames["ego_translation"][start, :2], frames["ego_translation"][-1, :2]
    heading_rad = rotation33_as_yaw(frames["ego_rotation"][start])
    try:
        line_m = map_api.find_route(first, last, heading_rad=heading_rad).line_m
    except (InvalidArgumentError, RouteNotFoundError):  # the AV is off all lanes, or no route exists
        line_m = first[None]
    positions_m, headings_rad = evenly_along(line_m, len(frames), heading_rad=heading_rad)
    frames["ego_translation"][:, :2] = positions_m
    frames["ego_rotation"] = np.stack([yaw_as_rotation33(heading) for heading in headings_rad.tolist()])
    return replace(records, frames=frames)


def evenly_along(line_m: Float64Array, count: int, *, heading_rad: float) -> tuple[Float64Array, Float64Array]:
    """Return evenly spaced points along a line with headings, (count, 2) and (count,).

    Args:
        line_m: Points (P, 2), at least one.
        count: Number of points.
        heading_rad: Heading of a line without length.
    """
    steps_m = np.linalg.norm(np.diff(line_m, axis=0), axis=1)
    is_new = np.concatenate([[True], steps_m > 0])
    points_m, arcs_m = line_m[is_new], np.concatenate([[0.0], np.cumsum(steps_m)])[is_new]
    if len(points_m) == 1:
        return np.repeat(points_m, count, axis=0), np.full(count, heading_rad)
    wanted_m = np.linspace(0.0, arcs_m[-1], count)
    positions_m = np.stack([np.interp(wanted_m, arcs_m, points_m[:, axis]) for axis in range(2)], axis=-1)
    edges = np.clip(np.searchsorted(arcs_m, wanted_m, side="right") - 1, 0, len(points_m) - 2)
    along_m = np.diff(points_m, axis=0)[edges]
    return positions_m, np.arctan2(along_m[:, 1], along_m[:, 0])
