"""Pieces of maps, one for each scene, joined by the ids of their elements, and packed for the disk."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from l5kit._types import Float64Array, JsonObject
from l5kit.readers.source_map import SourceArea, SourceLane, SourceMap, SourceSign

_NEAR_M = 0.05
"""Up to here, lines of one id in two pieces are the same."""


@dataclass
class JoinedMap:
    """The pieces of one map, put together one by one.

    Attributes:
        name: Name of the map.
        lanes: By their ids, in the order in which they came.
        areas: By kind and id.
        signs: By id.
        lights: Where the light of a lane stands, None where that is not known, by the id of the lane.
        remarks: Where pieces contradict each other.
    """

    name: str
    lanes: dict[str, SourceLane] = field(default_factory=dict)
    areas: dict[tuple[str, str], SourceArea] = field(default_factory=dict)
    signs: dict[str, SourceSign] = field(default_factory=dict)
    lights: dict[str, Float64Array | None] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def add(self, piece: SourceMap, *, scene: str) -> dict[str, str]:
        """Join a piece, and return the new names of those of its lanes that got one, by their ids in the piece.

        What has the id of another lane, area or sign that lies elsewhere, as where ids hold for one piece alone, gets a
        name of its own in this piece.

        Args:
            piece: A piece of this map.
            scene: Name of the scene that it came with, for remarks.
        """
        names = self._names_of(
            "Lane",
            {lane.lane_id: lane.centre_m for lane in piece.lanes},
            known=lambda name: self.lanes[name].centre_m if name in self.lanes else None,
            is_same=_is_same_line,
            scene=scene,
        )
        for lane in piece.lanes:
            renamed = _renamed(lane, names)
            known = self.lanes.get(renamed.lane_id)
            self.lanes[renamed.lane_id] = renamed if known is None else _joined(known, renamed)

        # Areas have ids of their own for each kind, and are not changed by what is around them.
        for kind in dict.fromkeys(area.kind for area in piece.areas):
            of_kind = {area.area_id: area for area in piece.areas if area.kind == kind}
            area_names = self._names_of(
                kind.replace("_", " ").capitalize(),
                {name: area.outline_m for name, area in of_kind.items()},
                known=lambda name, kind=kind: (  # type: ignore[misc]
                    self.areas[kind, name].outline_m if (kind, name) in self.areas else None
                ),
                is_same=_meet,
                scene=scene,
            )
            for name, area in of_kind.items():
                self.areas.setdefault((kind, area_names[name]), replace(area, area_id=area_names[name]))

        # Signs follow the new names of the lanes that they control.
        sign_names = self._names_of(
            "Sign",
            {sign.sign_id: sign.position_m for sign in piece.signs},
            known=lambda name: self.signs[name].position_m if name in self.signs else None,
            is_same=_is_same_line,
            scene=scene,
        )
        for sign in piece.signs:
            name, lane_ids = sign_names[sign.sign_id], tuple(names.get(lane, lane) for lane in sign.lane_ids)
            self.signs.setdefault(name, replace(sign, sign_id=name, lane_ids=lane_ids))
        return {lane: name for lane, name in names.items() if name != lane}

    def add_lights(self, lights: Mapping[str, Sequence[float] | None], renamed: Mapping[str, str]) -> dict[str, str]:
        """Join the lights of the scene of a piece, and return the new names of those of its lanes that have a light.

        Args:
            lights: Where the light of each lane stands, None where that is not known, by the id of the lane in the
                piece.
            renamed: What :meth:`add` has returned for the piece.
        """
        for lane, position_m in lights.items():
            name = renamed.get(lane, lane)
            self.lights[name] = self.lights.get(name) if position_m is None else np.array(position_m)
        return {lane: renamed[lane] for lane in lights if lane in renamed}

    def _names_of(
        self,
        what: str,
        lines: Mapping[str, Float64Array],
        *,
        known: Callable[[str], Float64Array | None],
        is_same: Callable[[Float64Array, Float64Array], bool],
        scene: str,
    ) -> dict[str, str]:
        """Return the id of each element of a piece, or another one where the id is that of one elsewhere."""

        def is_free(name: str, line: Float64Array) -> bool:
            other = known(name)
            return other is None or is_same(other, line)

        # Those that may keep their name do so first, so that no other one takes it.
        names = {name: name for name, line in lines.items() if is_free(name, line)}
        taken = set(names)
        for name in [name for name in lines if name not in names]:
            number = 2
            while f"{name}~{number}" in taken or not is_free(f"{name}~{number}", lines[name]):
                number += 1
            names[name] = f"{name}~{number}"
            taken.add(names[name])
            if known(names[name]) is None:  # else it is that of an earlier piece, and was told then
                self.remarks.append(
                    f"{what} {name} of map {self.name} lies elsewhere in scene {scene} than in one before, and is "
                    f"called {names[name]} there."
                )
        return names


def _renamed(lane: SourceLane, names: Mapping[str, str]) -> SourceLane:
    """Return a lane with the new names of itself and of the lanes around it; itself where none has one."""
    neighbours = [name for name in (lane.left_neighbour, lane.right_neighbour) if name is not None]
    named = (lane.lane_id, *lane.successors, *lane.predecessors, *neighbours)
    if all(names.get(name, name) == name for name in named):
        return lane

    def other(name: str | None) -> str | None:
        return None if name is None else names.get(name, name)

    return replace(
        lane,
        lane_id=names[lane.lane_id],
        successors=tuple(names.get(name, name) for name in lane.successors),
        predecessors=tuple(names.get(name, name) for name in lane.predecessors),
        left_neighbour=other(lane.left_neighbour),
        right_neighbour=other(lane.right_neighbour),
    )


def _joined(known: SourceLane, lane: SourceLane) -> SourceLane:
    """Return a lane with what both of its pieces know of the lanes around it."""
    is_in_junction = lane.is_in_junction if known.is_in_junction is None else known.is_in_junction
    return replace(
        known,
        successors=tuple(dict.fromkeys(known.successors + lane.successors)),
        predecessors=tuple(dict.fromkeys(known.predecessors + lane.predecessors)),
        left_neighbour=known.left_neighbour or lane.left_neighbour,
        right_neighbour=known.right_neighbour or lane.right_neighbour,
        is_in_junction=is_in_junction,
    )


def pack_map(piece: SourceMap) -> tuple[JsonObject, Float64Array]:
    """Return a map as JSON and the points of all its lines, one line after the other, (P, 3)."""
    lanes = [
        {
            "id": lane.lane_id,
            "lines": [None if line is None else len(line) for line in (lane.centre_m, lane.left_m, lane.right_m)],
            "successors": list(lane.successors),
            "predecessors": list(lane.predecessors),
            "neighbours": [lane.left_neighbour, lane.right_neighbour],
            "speed_limit_mps": lane.speed_limit_mps,
            "kind": lane.kind,
            "is_in_junction": lane.is_in_junction,
        }
        for lane in piece.lanes
    ]
    areas = [
        {
            "id": area.area_id,
            "kind": area.kind,
            "corners": len(area.outline_m),
            "holes": [len(hole) for hole in area.holes_m],
        }
        for area in piece.areas
    ]
    signs = [{"id": sign.sign_id, "lanes": list(sign.lane_ids)} for sign in piece.signs]
    of_lanes = [line for lane in piece.lanes for line in (lane.centre_m, lane.left_m, lane.right_m) if line is not None]
    of_areas = [ring for area in piece.areas for ring in (area.outline_m, *area.holes_m)]
    of_signs = [sign.position_m[None] for sign in piece.signs]
    points = np.concatenate([np.zeros((0, 3)), *of_lanes, *of_areas, *of_signs])
    return {"name": piece.name, "lanes": lanes, "areas": areas, "signs": signs}, points


def unpack_map(content: JsonObject, points: Float64Array) -> SourceMap:
    """Return the map that :func:`pack_map` has packed."""
    offset = 0

    def take(count: int) -> Float64Array:
        nonlocal offset
        offset += count
        return points[offset - count : offset]

    lanes = []
    for lane in content["lanes"]:
        centre, left, right = (None if count is None else take(count) for count in lane["lines"])
        lanes.append(
            SourceLane(
                lane_id=lane["id"],
                centre_m=np.zeros((0, 3)) if centre is None else centre,
                left_m=left,
                right_m=right,
                successors=tuple(lane["successors"]),
                predecessors=tuple(lane["predecessors"]),
                left_neighbour=lane["neighbours"][0],
                right_neighbour=lane["neighbours"][1],
                speed_limit_mps=lane["speed_limit_mps"],
                kind=lane["kind"],
                is_in_junction=lane["is_in_junction"],
            )
        )
    areas = [
        SourceArea(area["id"], area["kind"], take(area["corners"]), tuple(take(count) for count in area["holes"]))
        for area in content["areas"]
    ]
    signs = [SourceSign(sign["id"], take(1)[0], tuple(sign["lanes"])) for sign in content["signs"]]
    return SourceMap(content["name"], tuple(lanes), tuple(areas), tuple(signs))


def _is_same_line(first: Float64Array, second: Float64Array) -> bool:
    return first.shape == second.shape and bool(np.abs(first - second).max() <= _NEAR_M)


def _meet(first: Float64Array, second: Float64Array) -> bool:
    """Return whether the boxes around two outlines meet: pieces may have cut one area in different ways."""
    lowest = np.maximum(first[:, :2].min(axis=0), second[:, :2].min(axis=0))
    return bool((lowest <= np.minimum(first[:, :2].max(axis=0), second[:, :2].max(axis=0)) + _NEAR_M).all())
