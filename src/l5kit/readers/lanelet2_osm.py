"""Nodes, ways and relations of an OSM file, the storage format of Lanelet2 maps."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

import numpy as np
from pymap3d import geodetic2enu

from l5kit._types import Float64Array
from l5kit.data.map.builder import world_at
from l5kit.readers.reader import SourceDataError, naming_source
from l5kit.readers.source_bounds import FURTHEST_M, is_within
from l5kit.readers.xml_source import parse_xml, refuse_doctype

_POSITION_TAGS: Final = ("local_x", "local_y", "ele")
_FURTHEST_OFF_M: Final = 1.0
_LONGEST_REASON: Final = 300
"""Maximum characters of a Python error that are quoted in a message; attribute values may be long."""


@dataclass(frozen=True)
class Relation:
    """A relation of an OSM file.

    Attributes:
        tags: Its tags.
        members: Type, id and role of each member.
    """

    tags: dict[str, str]
    members: list[tuple[str, str, str]]

    def members_of(self, kind: str, role: str) -> list[str]:
        """Return the ids of the members of a type in a role."""
        return [ref for kind_of, ref, role_of in self.members if (kind_of, role_of) == (kind, role)]


@dataclass(frozen=True, eq=False)
class OsmFile:
    """The content of an OSM file.

    Attributes:
        row_of_node: Row of each node in ``positions_m``, by its id.
        positions_m: World coordinates of the nodes, float64 (N, 3).
        node_tags: Tags of nodes other than their coordinates, by id.
        ways: Nodes and tags of each way, by id.
        relations: Relations by id.
        world_to_ecef: Transform from the world to ECEF, (4, 4); None if only local coordinates are known.
        remarks: Remarks on the coordinates, one sentence each.
    """

    row_of_node: dict[str, int]
    positions_m: Float64Array
    node_tags: dict[str, dict[str, str]]
    ways: dict[str, tuple[list[str], dict[str, str]]]
    relations: dict[str, Relation]
    world_to_ecef: Float64Array | None
    remarks: tuple[str, ...]

    def points_m(self, nodes: list[str]) -> Float64Array:
        """Return the world coordinates of nodes, (n, 3).

        Raises:
            ValueError: A node is not in the file.
        """
        missing = next((node for node in nodes if node not in self.row_of_node), None)
        if missing is not None:
            raise ValueError(f"node {missing} is not in the file; export the map whole")
        return self.positions_m[[self.row_of_node[node] for node in nodes]]

    def nodes_of(self, way: str) -> list[str]:
        """Return the nodes of a way.

        Raises:
            ValueError: It is not in the file, or has fewer than two nodes.
        """
        nodes = self.way(way)[0]
        if len(nodes) < 2:
            raise ValueError(f"way {way} has less than two nodes; remove it or add the others")
        return nodes

    def way(self, way: str) -> tuple[list[str], dict[str, str]]:
        """Return the nodes and tags of a way.

        Raises:
            ValueError: It is not in the file.
        """
        if way not in self.ways:
            raise ValueError(f"way {way} is not in the file; export the map whole")
        return self.ways[way]


def read_osm(file: Path, *, origin: tuple[float, float] | None) -> OsmFile:
    """Read a file.

    Nodes are at ``local_x``, ``local_y`` and ``ele`` if all nodes have them; otherwise their latitude and longitude are
    projected to the plane at the origin, x east and y north, at the height ``ele``.

    Args:
        file: The file.
        origin: Latitude and longitude of x = y = 0 in degrees; None for the middle of the nodes. Only used if nodes
            have no local coordinates.

    Raises:
        SourceDataError: It cannot be read; the message names the element.
    """
    target = _Osm()
    try:
        parse_xml(file, target)
    except (ValueError, KeyError, TypeError) as error:
        reason = " ".join(str(error)[:_LONGEST_REASON].split())
        text = f"it has no {error.args[0]}" if isinstance(error, KeyError) else reason
        raise SourceDataError(file.name, target.current, text) from error
    with naming_source(file.name):
        if not target.coordinates:
            raise ValueError("it has no nodes; is it a Lanelet2 map?")
        positions_m, world_to_ecef, remarks = _placed(np.array(target.coordinates, np.float64), origin)
        is_off = ~is_within(positions_m, FURTHEST_M).all(axis=1)
        if is_off.any():
            node = list(target.row_of_node)[int(np.argmax(is_off))]
            raise ValueError(f"node {node} must be finite and within {FURTHEST_M:g} m of the origin")
    return OsmFile(
        target.row_of_node, positions_m, target.node_tags, target.ways, target.relations, world_to_ecef, remarks
    )


@dataclass
class _Osm:
    """Parser target that collects the elements; tags and references belong to the last node, way or relation begun."""

    current: str = ""
    row_of_node: dict[str, int] = field(default_factory=dict)
    coordinates: list[list[float]] = field(default_factory=list)
    node_tags: dict[str, dict[str, str]] = field(default_factory=dict)
    ways: dict[str, tuple[list[str], dict[str, str]]] = field(default_factory=dict)
    relations: dict[str, Relation] = field(default_factory=dict)
    _kind: str = ""
    _id: str = ""
    _tags: dict[str, str] = field(default_factory=dict)
    _nodes: list[str] = field(default_factory=list)
    _members: list[tuple[str, str, str]] = field(default_factory=list)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Handle the start of an element."""
        if tag == "nd":
            self._nodes.append(attributes["ref"])
        elif tag == "tag":
            key, value = attributes["k"], attributes["v"]
            if self._kind != "node":
                self._tags[key] = value
            elif key in _POSITION_TAGS:
                # NaN marks missing coordinates, so reading it from a file would move the whole map
                if not math.isfinite(metres := float(value)):
                    raise ValueError(f"{key} must be a finite number, got {value!r:.40}")
                self.coordinates[-1][2 + _POSITION_TAGS.index(key)] = metres
            else:
                self.node_tags.setdefault(self._id, self._tags)[key] = value
        elif tag == "member":
            self._members.append((attributes["type"], attributes["ref"], attributes.get("role", "")))
        elif tag in ("node", "way", "relation"):
            self.current = tag
            self._kind, self._id, self._tags = tag, attributes["id"], {}
            self.current = f"{tag} {self._id}"
            if self._id in (self.row_of_node if tag == "node" else self.ways if tag == "way" else self.relations):
                raise ValueError("this id is used twice; the file is damaged")
            # tags, nodes and members follow as separate elements, which fill the containers created here
            if tag == "node":
                self.row_of_node[self._id] = len(self.coordinates)
                degrees = [float(attributes.get(name) or "nan") for name in ("lat", "lon")]
                self.coordinates.append([*degrees, np.nan, np.nan, 0.0])
            elif tag == "way":
                self._nodes = []
                self.ways[self._id] = self._nodes, self._tags
            else:
                self._members = []
                self.relations[self._id] = Relation(self._tags, self._members)

    def doctype(self, *names: str | None) -> NoReturn:
        """Refuse a document type."""
        refuse_doctype(*names)

    def close(self) -> None:
        """Finish parsing; the results are in the attributes."""
        self.current = ""


def _placed(
    coordinates: Float64Array, origin: tuple[float, float] | None
) -> tuple[Float64Array, Float64Array | None, tuple[str, ...]]:
    """Return the world coordinates of nodes, the transform from the world to ECEF, and remarks.

    Args:
        coordinates: Latitude, longitude, local x and y (NaN if missing) and height of each node, (N, 5).
        origin: See :func:`read_osm`.
    """
    latitudes_deg, longitudes_deg = coordinates[:, 0], coordinates[:, 1]
    is_geodetic = bool((np.abs(latitudes_deg) <= 90).all() and (np.abs(longitudes_deg) <= 360).all())
    is_local = bool(np.isfinite(coordinates[:, 2:4]).all())
    if not is_local and not is_geodetic:
        raise ValueError("nodes must have lat and lon in degrees, or all of them local_x and local_y")
    # the origin is rounded to about a metre, for a short notation
    centre = [0.5 * float(degrees.min() + degrees.max()) for degrees in (latitudes_deg, longitudes_deg)]
    latitude_deg, longitude_deg = origin or (round(centre[0], 5), round(centre[1], 5))
    if not is_geodetic:
        return coordinates[:, 2:], None, ()
    zeros = np.zeros(len(coordinates))
    east_m, north_m, _ = geodetic2enu(latitudes_deg, longitudes_deg, zeros, latitude_deg, longitude_deg, 0.0)
    enu_m = np.stack([east_m, north_m], axis=1)
    ecef_from_enu = world_at(latitude_deg, longitude_deg)
    if not is_local:
        remark = f"The world's x = y = 0 is at latitude {latitude_deg}, longitude {longitude_deg}."
        return np.column_stack([enu_m, coordinates[:, 4]]), ecef_from_enu, (remark,)

    # Keep local coordinates, and georeference them by the rotation and translation that best fit those from degrees.
    # The rotation is that of Kabsch: in the plane, the angle of the sum of conj(local) * enu, relative to their means.
    # If a residual remains, one of the two is wrong, and degrees are not used.
    local, enu = coordinates[:, 2:4] @ (1.0, 1.0j), enu_m @ (1.0, 1.0j)
    turned = complex(((local - local.mean()).conj() * (enu - enu.mean())).sum())
    turn = turned / abs(turned) if abs(turned) > 0 else 1.0 + 0.0j
    shift = complex((enu - turn * local).mean())
    enu_from_local = np.eye(4)
    enu_from_local[:2, :2] = [[turn.real, -turn.imag], [turn.imag, turn.real]]
    enu_from_local[:2, 3] = shift.real, shift.imag
    furthest_m = float(np.abs(turn * local + shift - enu).max())
    if furthest_m > _FURTHEST_OFF_M:
        remark = f"Local coordinates are up to {furthest_m:.1f} m off latitudes and longitudes, which are ignored."
        return coordinates[:, 2:], None, (remark,)
    return coordinates[:, 2:], ecef_from_enu @ enu_from_local, ()
