"""Export of a semantic map as an OpenDRIVE map: roads with lane widths, junctions, signals and crosswalks."""

import json
import os
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from pymap3d.ecef import ecef2geodetic
from scipy.spatial import KDTree

from l5kit._files import replaced_when_complete
from l5kit._types import Float64Array
from l5kit.data.interop.exchanged_map import (
    CROSSWALK,
    LIGHT,
    ExchangedControl,
    ExchangedMap,
    MapExport,
    counted,
    lane_changes,
    require_lanes,
)
from l5kit.data.interop.opendrive_roads import (
    LARGEST_ERROR_M,
    Road,
    RoadCourse,
    RoadNet,
    curve_points,
    make_roads,
    simplified_rows,
)
from l5kit.data.interop.xml_text import quoted
from l5kit.data.jobs.owned_outputs import require_absent, require_own_file
from l5kit.data.map.api import MapAPI
from l5kit.data.map.builder import world_at

ID_CODE: Final = "l5kit:id"
KIND_CODE: Final = "l5kit:kind"
FACE_CODE: Final = "l5kit:face"
CONTROLS_CODE: Final = "l5kit:controls"
LIGHTS_CODE: Final = "l5kit:lights"
POINTS_CODE: Final = "l5kit:points"
MADE_UP_CODE: Final = "l5kit:made_up_junction"
"""Codes of ``userData``: ids in l5kit, kinds of controls, faces of lights, and other data without a counterpart."""

SIGNAL_TYPES: Final = {LIGHT: "1000001", "stop_sign": "206", "yield_sign": "205", "stop_line": "294"}
_LANE_TYPES: Final = {"ONLY_BUS": "bus", "ONLY_BIKE": "biking"}


def export_opendrive(semantic_map: MapAPI, path: str | os.PathLike[str], *, overwrite: bool = False) -> MapExport:
    """Write a semantic map as an OpenDRIVE map (``.xodr``, version 1.7).

    A road is a lane, or several parallel lanes connected by lane changes, in its direction of travel. Its reference
    line is a chain of cubic curves (``paramPoly3``) along its middle; boundaries are accurate to 5 cm, and mostly to 1
    cm.

    Args:
        semantic_map: The map.
        path: The file; it appears when it is complete.
        overwrite: Replace a file that l5kit has written.

    Returns:
        Counts of written elements, and a list of what the format cannot represent.

    Raises:
        FileExistsError: The file exists, and ``overwrite`` is False.
        InvalidArgumentError: The map has no lane with geometry, or the file was not written by l5kit.
        UnsupportedValueError: An id has a character that is not allowed in XML.
    """
    target = Path(path)
    require_absent(target, overwrite=overwrite)
    require_own_file(target, argument="path")
    exchanged = ExchangedMap.of_map(semantic_map)
    require_lanes(exchanged, "OpenDRIVE")
    roads = make_roads(exchanged.lanes)
    writer = _Writer(exchanged, RoadNet.of_roads(roads, exchanged.lanes))
    with replaced_when_complete(target, argument="path") as temporary:
        temporary.write_text(writer.text(), "utf-8", newline="\n")
    return writer.result()


@dataclass(frozen=True, eq=False)
class _Signal:
    """A control at a road: written in full at the first road with a lane that lists it, else as a reference."""

    control: ExchangedControl
    indices: tuple[int, ...]
    is_first: bool


@dataclass(frozen=True, eq=False)
class _Writer:
    exchanged: ExchangedMap
    net: RoadNet

    def text(self) -> str:
        """Return the content of the file."""
        points_m = np.concatenate([lane.left_m[:, :2] for lane in self.exchanged.lanes.values()])
        (west, south), (east, north) = points_m.min(axis=0), points_m.max(axis=0)

        # Georeference for PROJ: a transverse Mercator projection about the origin, and the rotation of the world
        # relative to it. Up to that rotation, world axes are those of the earth's tangent plane at the origin.
        georeference, world_to_ecef = "", self.exchanged.world_to_ecef
        if world_to_ecef is not None:
            with np.errstate(all="ignore"):  # for worlds without a geographic position, at the earth's centre
                latitude_deg, longitude_deg, _ = (float(value) for value in ecef2geodetic(*world_to_ecef[:3, 3]))
            if np.isfinite([latitude_deg, longitude_deg]).all():
                turned = world_at(latitude_deg, longitude_deg)[:3, :3].T @ world_to_ecef[:3, :3]
                heading_rad = float(np.arctan2(turned[1, 0], turned[0, 0]))
                proj = f"+proj=tmerc +lat_0={latitude_deg:.9f} +lon_0={longitude_deg:.9f} +k=1 +x_0=0 +y_0=0"
                georeference = (
                    f"<geoReference><![CDATA[{proj} +datum=WGS84 +units=m +no_defs]]></geoReference>"
                    f"<offset x='0' y='0' z='0' hdg='{heading_rad:.12g}'/>"
                )
        parts = [
            "<?xml version='1.0' encoding='UTF-8'?>",
            "<OpenDRIVE>",
            f"<header revMajor='1' revMinor='7' name='l5kit' version='1' vendor='l5kit' north='{north:.3f}' "
            f"south='{south:.3f}' east='{east:.3f}' west='{west:.3f}'>{georeference}</header>",
        ]
        parts += [self._road(number, road) for number, road in enumerate(self.net.roads)]
        parts += [self._junction(name) for name in self._junction_id]
        return "\n".join([*parts, "</OpenDRIVE>", ""])

    def result(self) -> MapExport:
        """Return counts of the written elements, and a list of what could not be represented."""
        controls, net = self.exchanged.controls, self.net
        errors_m = [road.course.error_m for road in net.roads]
        beside = {pair for road in net.roads for pair in zip(road.lanes, road.lanes[1:], strict=False)}
        apart = sum(pair not in beside for pair in lane_changes(self.exchanged.lanes))
        split = sum(name in net.made_up for name in net.junction_of.values())
        tilted = sum(road.course.tilt_m > LARGEST_ERROR_M for road in net.roads)
        worse = sum(error_m > LARGEST_ERROR_M for error_m in errors_m)
        left_out = [
            *self.exchanged.not_written,
            *counted(apart, "lane change", "lost, as the lanes fit no one road"),
            *counted(worse, "road", f"with boundaries that are off by more than 5 cm, up to {max(errors_m):.2f} m"),
            *counted(tilted, "road", "with a side that is more than 5 cm higher than the middle, written level"),
            *counted(split, "road", "written as parts of junctions that are made up, as roads part only there"),
        ]
        crosswalks = sum(control.kind == CROSSWALK for control in controls.values())
        num_lights = self.exchanged.num_lights
        return MapExport(len(self.exchanged.lanes), num_lights, crosswalks, max(errors_m), tuple(left_out))

    def _road(self, number: int, road: Road) -> str:
        course, junction = road.course, self.net.junction_of.get(number)

        # roads are entered at their start or end; a junction has no contact point
        links = []
        for tag, target, contact in (
            ("predecessor", self.net.predecessor.get(number), "end"),
            ("successor", self.net.successor.get(number), "start"),
        ):
            if isinstance(target, str):
                links.append(f"<{tag} elementType='junction' elementId='{self._junction_id[target]}'/>")
            elif target is not None:
                links.append(f"<{tag} elementType='road' elementId='{target}' contactPoint='{contact}'/>")

        # pieces of the reference line: u and v by powers of p from 0 to 1, ahead and to the left of its start
        pieces, arc_m = [], 0.0
        for (x, y, heading_rad), length_m, curve in zip(
            course.starts.tolist(), course.lengths_m.tolist(), course.coefficients.tolist(), strict=True
        ):
            values = " ".join(
                f"{name}{axis}='{value:.9g}'"
                for axis, row in zip("UV", curve, strict=True)
                for name, value in zip("abcd", row, strict=True)
            )
            pieces.append(
                f"<geometry s='{arc_m:.9f}' x='{x:.6f}' y='{y:.6f}' hdg='{heading_rad:.12f}' length='{length_m:.9f}'>"
                f"<paramPoly3 {values} pRange='normalized'/></geometry>"
            )
            arc_m += length_m

        signals = [self._signal(number, signal) for signal in self._signals_of.get(number, ())]
        return "".join(
            [
                f"<road name={quoted(road.lanes[0])} length='{_length(course):.9f}' id='{number}' ",
                f"junction='{-1 if junction is None else self._junction_id[junction]}' rule='RHT'>",
                f"<link>{''.join(links)}</link>",
                f"<planView>{''.join(pieces)}</planView>",
                f"<elevationProfile>{''.join(_records('elevation', 's', course.arcs_m, course.heights_m))}",
                f"</elevationProfile><lateralProfile/><lanes>{self._lanes(number, road)}</lanes>",
                f"<objects>{''.join(self._crosswalks_of.get(number, ()))}</objects>",
                f"<signals>{''.join(signals)}</signals>",
                _user_data(MADE_UP_CODE, "yes") if junction in self.net.made_up else "",
                "</road>",
            ]
        )

    @cached_property
    def _junction_id(self) -> dict[str, int]:
        """Ids of junctions, which follow those of the roads."""
        names = dict.fromkeys([*self.net.junction_of.values(), *self.net.connections])
        return {name: len(self.net.roads) + number for number, name in enumerate(names)}

    def _lanes(self, number: int, road: Road) -> str:
        """Return the lanes of a road, all to the right of the center lane, which is offset to the leftmost boundary."""
        course, lanes = road.course, [self.exchanged.lanes[name] for name in road.lanes]
        parts = _records("laneOffset", "s", course.arcs_m, course.offsets_m[0])
        parts.append("<laneSection s='0'><center><lane id='0' type='none' level='false'>")
        parts.append("<roadMark sOffset='0' type='solid' weight='standard' color='standard' laneChange='none'/></lane>")
        parts.append("</center><right>")
        before, after = self.net.predecessor.get(number), self.net.successor.get(number)
        for index, lane in enumerate(lanes):
            parts.append(
                f"<lane id='{-1 - index}' type='{_LANE_TYPES.get(lane.access, 'driving')}' level='false'><link>"
            )

            # lanes are linked directly only between two roads; links through a junction are in the junction
            if isinstance(before, int):
                pairs = self.net.ahead[before, number]
                parts += [f"<predecessor id='{-1 - ours}'/>" for ours, own in pairs if own == index]
            if isinstance(after, int):
                pairs = self.net.ahead[number, after]
                parts += [f"<successor id='{-1 - other}'/>" for own, other in pairs if own == index]
            widths_m = np.maximum(course.offsets_m[index] - course.offsets_m[index + 1], 0.0)
            parts += ["</link>", *_records("width", "sOffset", course.arcs_m, widths_m)]

            # road mark to its right, by the lane changes allowed across it; lane ids increase to the left
            right = lanes[index + 1] if index + 1 < len(lanes) else None
            may_right = right is not None and lane.change_right == right.lane_id
            may_left = right is not None and right.change_left == lane.lane_id
            change, line = {
                (True, True): ("both", "broken"),
                (True, False): ("decrease", "broken solid"),
                (False, True): ("increase", "solid broken"),
            }.get((may_right, may_left), ("none", "solid"))
            parts.append(
                f"<roadMark sOffset='0' type='{line}' weight='standard' color='standard' laneChange='{change}'/>"
            )
            if lane.speed_limit_mps is not None and not lane.is_in_junction:
                parts.append(f"<speed sOffset='0' max='{lane.speed_limit_mps:.9g}' unit='m/s'/>")
            parts.append(_user_data(ID_CODE, lane.lane_id))

            # The signals of a lane imply its controls and all faces of its lights; store the controls if they differ.
            controls = self.exchanged.controls
            known = [name for name in lane.controls if name in controls]
            signalled = {name for name in known if controls[name].kind != CROSSWALK}
            for name in known:
                if controls[name].kind == LIGHT:
                    signalled |= {face for face in controls[name].parts if face in controls}
            if set(known) != signalled:
                parts.append(_user_data(CONTROLS_CODE, json.dumps(known)))
            parts.append("</lane>")
        return "".join([*parts, "</right></laneSection>"])

    @cached_property
    def _signals_of(self) -> dict[int, list[_Signal]]:
        """Signals of each road: lights, faces without lights, signs and stop lines."""
        controls = self.exchanged.controls
        of_lights = self.exchanged.faces_of_lights
        users: dict[str, dict[int, list[int]]] = {
            name: defaultdict(list)
            for name, control in controls.items()
            if control.kind != CROSSWALK and name not in of_lights
        }
        for number, road in enumerate(self.net.roads):
            for index, lane in enumerate(road.lanes):
                for name in self.exchanged.lanes[lane].controls:
                    if name in users:
                        users[name][number].append(index)
        signals: dict[int, list[_Signal]] = defaultdict(list)
        for name, roads in users.items():
            if not roads:  # at the nearest road, but valid for no lane
                points_m = controls[name].points_m
                roads[self._nearest_road(points_m[0, :2]) if len(points_m) else 0] = []
            # the first road has the complete signal, the others refer to it
            for order, (number, indices) in enumerate(roads.items()):
                signals[number].append(_Signal(controls[name], tuple(indices), order == 0))
        return signals

    def _signal(self, number: int, signal: _Signal) -> str:
        """Return a signal at the end of the road that it controls, with its actual position."""
        control, course = signal.control, self.net.roads[number].course
        signal_id = self._number_of_control[control.control_id]
        valid = "".join(f"<validity fromLane='{-1 - index}' toLane='{-1 - index}'/>" for index in signal.indices)
        valid = valid or "<validity fromLane='0' toLane='0'/>"
        arc_m = _length(course)
        if not signal.is_first:
            return f"<signalReference s='{arc_m:.6f}' t='0' id='{signal_id}' orientation='+'>{valid}</signalReference>"

        # t is the offset to the left of the end of the reference line; a control without points is placed at that end
        ends_m, lefts = curve_points(course.starts[-1:], course.coefficients[-1:], np.ones(1))
        points_m = control.points_m if len(control.points_m) else np.array([[*ends_m[0], course.heights_m[-1]]])
        offset_m = float((points_m[0, :2] - ends_m[0]) @ lefts[0])
        is_light = control.kind == LIGHT or control.is_face
        kind = SIGNAL_TYPES.get(LIGHT if is_light else control.kind, "-1")

        # data that attributes of a signal cannot hold: ids, faces, and lines of several points
        data = _user_data(ID_CODE, control.control_id) + _user_data(KIND_CODE, control.kind)
        for face in control.parts:
            if face in self.exchanged.controls:
                part = self.exchanged.controls[face]
                data += _user_data(FACE_CODE, json.dumps([face, part.kind, part.points_m[:1].round(4).tolist()]))
        if len(control.points_m) > 1:
            data += _user_data(POINTS_CODE, json.dumps([control.points_m.round(4).tolist(), control.is_closed]))
        x, y, z = points_m[0].tolist()
        return (
            f"<signal s='{arc_m:.6f}' t='{offset_m:.4f}' id='{signal_id}' name={quoted(control.control_id)} "
            f"dynamic='{'yes' if is_light else 'no'}' orientation='+' zOffset='{z - course.heights_m[-1]:.4f}' "
            f"country='OpenDRIVE' type='{kind}' subtype='-1' value='-1' unit='m' height='1' width='0.3' hOffset='0'>"
            f"{valid}<positionInertial x='{x:.4f}' y='{y:.4f}' z='{z:.4f}' hdg='0'/>{data}</signal>"
        )

    @cached_property
    def _number_of_control(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.exchanged.controls)}

    @cached_property
    def _crosswalks_of(self) -> dict[int, list[str]]:
        """Crosswalks of each road, which is the nearest one, with corners in world axes."""
        objects: dict[int, list[str]] = defaultdict(list)
        for name, control in self.exchanged.controls.items():
            if control.kind != CROSSWALK or len(control.points_m) < 3:
                continue
            middle_m = control.points_m.mean(axis=0)
            number = self._nearest_road(middle_m[:2])

            # sample the reference line at four points per piece: precise enough, as corners are relative to the origin
            course = self.net.roads[number].course
            pieces = np.repeat(np.arange(len(course.lengths_m)), 4)
            parts = np.tile([0.0, 0.25, 0.5, 0.75], len(course.lengths_m))
            points_m, left = curve_points(course.starts[pieces], course.coefficients[pieces], parts)
            starts_m = np.concatenate([[0.0], np.cumsum(course.lengths_m)])
            headings_rad = np.arctan2(-left[:, 0], left[:, 1])
            arcs_m = starts_m[pieces] + parts * course.lengths_m[pieces]
            row = int(np.argmin(np.linalg.norm(points_m - middle_m[:2], axis=1)))
            offset_m = (middle_m[:2] - points_m[row]) @ left[row]
            origin_m = np.array(
                [*(points_m[row] + offset_m * left[row]), np.interp(arcs_m[row], course.arcs_m, course.heights_m)]
            )
            # rotate the object back by the heading of the road, so that its axes are those of the world
            corners = "".join(
                f"<cornerLocal u='{u:.4f}' v='{v:.4f}' z='{z:.4f}' height='0' id='{corner}'/>"
                for corner, (u, v, z) in enumerate((control.points_m - origin_m).tolist())
            )
            data = _user_data(ID_CODE, name)
            if control.parts:
                data += _user_data(LIGHTS_CODE, json.dumps(control.parts))
            objects[number].append(
                f"<object type='crosswalk' id='{self._number_of_control[name]}' name={quoted(name)} "
                f"s='{arcs_m[row]:.6f}' t='{offset_m:.6f}' zOffset='0' hdg='{-headings_rad[row]:.9f}' "
                f"orientation='none'><outlines><outline id='0' closed='true' outer='true'>{corners}</outline>"
                f"</outlines>{data}</object>"
            )
        return objects

    @cached_property
    def _nearest_road(self) -> Callable[[Float64Array], int]:
        """Finds the road with the piece that starts nearest to a point (2,)."""
        starts = [road.course.starts[:, :2] for road in self.net.roads]
        tree = KDTree(np.concatenate(starts))
        roads = [row for row, points in enumerate(starts) for _ in points]
        return lambda point_m: roads[int(tree.query(point_m)[1])]

    def _junction(self, name: str) -> str:
        """Return a junction: its connections from incoming to connecting roads, and their priorities."""
        parts = [f"<junction name={quoted(name)} id='{self._junction_id[name]}' type='default'>"]
        pairs = self.net.connections.get(name, [])
        for number, (incoming, connecting) in enumerate(pairs):
            lanes = "".join(
                f"<laneLink from='{-1 - ours}' to='{-1 - theirs}'/>"
                for ours, theirs in self.net.ahead[incoming, connecting]
            )
            parts.append(
                f"<connection id='{number}' incomingRoad='{incoming}' connectingRoad='{connecting}' "
                f"contactPoint='start'>{lanes}</connection>"
            )

        parts += [f"<priority high='{high}' low='{low}'/>" for high, low in self._priorities.get(name, ())]
        return "".join([*parts, "</junction>"])

    @cached_property
    def _priorities(self) -> dict[str, dict[tuple[int, int], None]]:
        """Pairs of roads, the first of which has priority, by junction; from lanes that yield."""
        road_of = {lane: number for number, road in enumerate(self.net.roads) for lane in road.lanes}
        pairs: dict[str, dict[tuple[int, int], None]] = defaultdict(dict)
        for name, lane in self.exchanged.lanes.items():
            for other in lane.yields_to:
                junction = self.net.junction_of.get(road_of[name])
                if other in road_of and junction is not None and self.net.junction_of.get(road_of[other]) == junction:
                    pairs[junction][road_of[other], road_of[name]] = None
        return pairs


def _length(course: RoadCourse) -> float:
    return float(course.lengths_m.sum())


def _records(tag: str, start: str, arcs_m: Float64Array, values: Float64Array) -> list[str]:
    """Return a function as records of cubic polynomials, at as few points as its linear approximation allows."""
    rows = simplified_rows(arcs_m, values)
    arcs_m, values = arcs_m[rows], values[rows]
    steps = np.maximum(np.diff(arcs_m), 1e-9)
    slopes = np.diff(values) / steps
    return [
        f"<{tag} {start}='{arc_m:.6f}' a='{value:.6f}' b='{slope:.9g}' c='0' d='0'/>"
        for arc_m, value, slope in zip(arcs_m[:-1].tolist(), values[:-1].tolist(), slopes.tolist(), strict=True)
    ]


def _user_data(code: str, value: str) -> str:
    return f"<userData code='{code}' value={quoted(value)}/>"
