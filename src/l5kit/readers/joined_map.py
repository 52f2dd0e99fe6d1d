"""Pieces of maps, one per scene, merged by the ids of their elements, and serialized for the disk."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from l5kit._types import Float64Array
from l5kit.readers.source_map import SourceArea, SourceLane, SourceMap, SourceSign

_NEAR_M = 0.05
"""Maximum deviation up to which lines with the same id in two pieces are considered equal."""


@dataclass
class JoinedMap:
    """The pieces of one map, merged one by one.

    Attributes:
        name: Name of the map.
        lanes: Lanes by id, in order of first appearance.
        areas: Areas by kind and id.
        signs: Signs by id.
        lights: Position of the light of each lane, None if unknown, by the id of the lane.
        remarks: Contradictions between pieces.
    """

    name: str
    lanes: dict[str, SourceLane] = field(default_factory=dict)
    areas: dict[tuple[str, str], SourceArea] = field(default_factory=dict)
    signs: dict[str, SourceSign] = field(default_factory=dict)
    lights: dict[str, Float64Array | None] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def add(self, piece: SourceMap, *, scene: str) -> dict[str, str]:
        """Merge a piece, and return the new names of its renamed lanes, by their ids in the piece.

        An element whose id belongs to an element elsewhere on the map gets a new name in this piece, for sources whose
        ids are unique within a piece only.

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
            new = _renamed(lane, names)
            known = self.lanes.get(new.lane_id)
            if known is not None:  # merge the connections that both pieces know
                new = replace(
                    known,
                    successors=tuple(dict.fromkeys(known.successors + new.successors)),
                    predecessors=tuple(dict.fromkeys(known.predecessors + new.predecessors)),
                    left_neighbour=known.left_neighbour or new.left_neighbour,
                    right_neighbour=known.right_neighbour or new.right_neighbour,
                    is_in_junction=new.is_in_junction if known.is_in_junction is None else known.is_in_junction,
                )
            self.lanes[new.lane_id] = new

        # ids of areas are unique per kind, and areas refer to no other elements
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

        # signs follow the new names of the lanes that they control
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
        """Merge the lights of the scene of a piece, and return the new names of its lanes that have a light.

        Args:
            lights: Position of the light of each lane, None if unknown, by the id of the lane in the piece.
            renamed: The result of :meth:`add` for the piece.
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
        """Return the name of each element of a piece: its id, or a new name if the id is taken elsewhere."""

        def is_free(name: str, line: Float64Array) -> bool:
            other = known(name)
            return other is None or is_same(other, line)

        # elements that can keep their name come first, so that no other takes it
        names = {name: name for name, line in lines.items() if is_free(name, line)}
        taken = set(names)
        for name in [name for name in lines if name not in names]:
            number = 2
            while f"{name}~{number}" in taken or not is_free(f"{name}~{number}", lines[name]):
                number += 1
            names[name] = f"{name}~{number}"
            taken.add(names[name])
            if known(names[name]) is None:  # else an earlier piece already reported it
                self.remarks.append(
                    f"{what} {name} of map {self.name} is at another position in scene {scene} than before, and is "
                    f"called {names[name]} there."
                )
        return names


def _renamed(lane: SourceLane, names: Mapping[str, str]) -> SourceLane:
    """Return a lane with new names of itself and its connections, or the same object if none changes."""
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


def pack_map(piece: SourceMap) -> bytes:
    """Serialize a map."""

    # arrays, either the points of a line or one point, with their number of axes; NumPy scalars become Python ones
    def packed(value: NDArray[Any] | np.generic) -> object:
        return msgspec.msgpack.Ext(value.ndim, value.tobytes()) if isinstance(value, np.ndarray) else value.item()

    return msgspec.msgpack.encode(piece, enc_hook=packed)


def unpack_map(content: bytes) -> SourceMap:
    """Deserialize a map from :func:`pack_map`."""

    def line_of(num_axes: int, points: memoryview) -> Float64Array:
        return np.frombuffer(points, np.float64).reshape((-1, 3)[-num_axes:]).copy()

    decoded = msgspec.msgpack.decode(content, ext_hook=line_of)
    kinds: dict[str, type] = {"lanes": SourceLane, "areas": SourceArea, "signs": SourceSign}
    elements = {
        name: tuple(
            kind(**{field: tuple(value) if isinstance(value, list) else value for field, value in each.items()})
            for each in decoded[name]
        )
        for name, kind in kinds.items()
    }
    return SourceMap(decoded["name"], **elements)


def _is_same_line(first: Float64Array, second: Float64Array) -> bool:
    return first.shape == second.shape and bool(np.abs(first - second).max() <= _NEAR_M)


def _meet(first: Float64Array, second: Float64Array) -> bool:
    """Return whether the bounding boxes of two outlines intersect, as pieces may clip one area differently."""
    lowest = np.maximum(first[:, :2].min(axis=0), second[:, :2].min(axis=0))
    return bool((lowest <= np.minimum(first[:, :2].max(axis=0), second[:, :2].max(axis=0)) + _NEAR_M).all())
