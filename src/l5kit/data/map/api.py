"""The semantic map of a dataset: lanes, crosswalks and traffic lights in world coordinates."""

import math
import operator
import os
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import Config, Float64Array, Int64Array, NumericArray, PickledState, RecordArray
from l5kit.configs.config import load_matrix, load_metadata
from l5kit.configs.parameters import MapKeys
from l5kit.configs.texts import require_regular_file
from l5kit.data.display import html_card
from l5kit.data.labels import TL_FACE_LABEL_TO_INDEX
from l5kit.data.local_data_manager import DataManager, require_data_manager
from l5kit.data.map.content import MapContent, share_map
from l5kit.data.map.element_kinds import TLFacesColors, face_colors, face_kinds, select_elements
from l5kit.data.map.geometry import resample_every, resample_line, world_from_local
from l5kit.data.map.lane_network import LaneNetwork, decode_reference
from l5kit.data.map.lane_routes import LaneRoute, LaneRouter
from l5kit.data.map.map_arrays import LaneLines, MapArrays
from l5kit.data.map.map_folder import is_map_index
from l5kit.data.map.queries import LaneLocator
from l5kit.data.proto.road_network_pb2 import GeoFrame, GlobalId, Lane, MapElement, MapFragment
from l5kit.errors import CorruptedDataError, IndexOutOfRangeError, InvalidArgumentError, UnsupportedValueError

CACHE_SIZE = int(1e5)
"""Number of interpolated lanes that a :class:`MapAPI` keeps."""

MAX_POINTS = 1_000_000
"""Largest number of points of an interpolated line: a point every ten centimetres of a lane of a hundred kilometres."""

ENCODING = "utf-8"
"""Encoding of element ids."""

_TL_FEATURES = {"unknown": 0, "green": 1, "yellow": 2, "red": 3, "none": 4}
_STATE_PRIORITY = ("RED", "YELLOW", "GREEN")


class InterpolationMethod(IntEnum):
    """How the points of an interpolated line are placed."""

    INTER_METER = 0
    """One point every ``step`` metres from the start; the end point of the line is normally left out."""
    INTER_ENSURE_LEN = 1
    """Exactly ``step`` points at equal distances, both ends included."""


class ElementBounds(TypedDict):
    """Ids (N,) of map elements and their bounds [[x_min, y_min], [x_max, y_max]], float64 (N, 2, 2), read-only."""

    bounds: Float64Array
    ids: list[str]


class MapAPI:
    """A semantic map, read once; all coordinates are world coordinates in metres.

    It wraps :attr:`arrays` and :attr:`network`, which all maps of a process that were read from the same file share,
    and the messages of the file. Returned arrays are read-only; dicts, lists and sets are new at each call. Lanes
    without points on one of their boundaries are missing from ``bounds_info`` but can be looked up by id. If several
    elements share an id, a lookup gives the last of them; a query for a lane, or for a crosswalk with points, gives the
    last lane or crosswalk among them. Altitude and bearing of the elements' frames are ignored, as in L5Kit 1.x, so
    heights are relative to the ellipsoid and do not compare with those of the AV.

    A pickled map holds only its path and matrix; the file is read again on first use, and must not have changed.

    Args:
        protobuf_map_path: File with a serialized ``MapFragment``.
        world_to_ecef: Transform from world to ECEF coordinates, shape (4, 4).
        more_paths: Files with further maps of the same world; their elements follow those of the first one. Ids should
            differ.

    Attributes:
        protobuf_map_path: The path as given.
        ecef_to_world: Inverse of ``world_to_ecef``, float64 (4, 4).

    Raises:
        FileNotFoundError: There is no such file.
        MapDecodeError: The file is not a semantic map; also protobuf's ``DecodeError``.
        CorruptedDataError: Ids or geometry of the map cannot be decoded.
        InvalidArgumentError: ``world_to_ecef`` is not an invertible 4x4 matrix.
    """

    def __init__(self, protobuf_map_path: str, world_to_ecef: NumericArray, *, more_paths: Sequence[str] = ()):
        matrix = np.asarray(world_to_ecef, dtype=np.float64)
        if matrix.shape != (4, 4) or not np.isfinite(matrix).all():
            raise InvalidArgumentError(f"world_to_ecef must be a finite 4x4 matrix, got shape {matrix.shape}: {matrix}")
        try:
            self.ecef_to_world: Float64Array = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
        except np.linalg.LinAlgError as error:
            raise InvalidArgumentError(f"world_to_ecef must be invertible, got {matrix}") from error
        self.ecef_to_world.setflags(write=False)
        self.protobuf_map_path = protobuf_map_path
        self._absolute_paths = tuple(os.path.abspath(path) for path in (protobuf_map_path, *more_paths))
        self._checksum: int | None = None
        self._interpolations: dict[tuple[str, float, int], tuple[NumericArray, NumericArray, NumericArray]] = {}
        self._content = self._read()

    def _read(self) -> MapContent:
        if is_map_index(self._absolute_paths[0]):
            raise InvalidArgumentError(
                f"{self.protobuf_map_path} is the index of many maps, and one map is needed here; pass the file of one "
                "of them, or read those of some scenes by SceneMaps (l5kit.data.map.opened)"
            )
        for path in self._absolute_paths:
            require_regular_file(path, called="map file")
        # Concatenated messages have their lists joined, so several files make one map.
        data = b"".join([Path(path).read_bytes() for path in self._absolute_paths])
        checksum = zlib.crc32(data)
        if self._checksum not in (None, checksum):
            raise CorruptedDataError(
                f"map file {' or '.join(self._absolute_paths)} has changed since this map was read; build the MapAPI "
                "again"
            )
        self._checksum = checksum
        key, path = "\n".join(self._absolute_paths), self.protobuf_map_path
        content, fragment = share_map(data, file=key, path=path, ecef_to_world=self.ecef_to_world)
        if fragment is not None:
            self._fragment = fragment
        for oddity in content.oddities:
            warnings.warn(oddity, RuntimeWarning, stacklevel=3)
        return content

    @cached_property
    def _content(self) -> MapContent:
        """The content of the file; set by the constructor, read again on first use after unpickling."""
        return self._read()

    @cached_property
    def _fragment(self) -> MapFragment:
        """The messages of the file; not shared with other maps, as callers may change them."""
        content = self._content
        own: MapFragment | None = vars(self).get("_fragment")  # of a file that was just parsed
        return content.parse() if own is None else own

    @property
    def arrays(self) -> MapArrays:
        """Lanes with geometry, crosswalks and lights as plain arrays."""
        return self._content.arrays

    @property
    def network(self) -> LaneNetwork:
        """Successors, neighbours and speed limits of the lanes, as plain arrays; read on first use.

        Raises:
            CorruptedDataError: A lane names an id that is not UTF-8 text.
        """
        return self._content.network

    @staticmethod
    def from_cfg(data_manager: DataManager, cfg: Config) -> "MapAPI":
        """Return the map that a configuration names.

        Args:
            data_manager: Finds the files of ``raster_params.semantic_map_key`` and ``.dataset_meta_key``.
            cfg: The configuration.

        Raises:
            TypeError: ``data_manager`` is something else, such as the path of a folder.
            ConfigError: A key or the matrix ``world_to_ecef`` is missing.
            FileNotFoundError: A file is missing.
        """
        require_data_manager(data_manager)
        return MapAPI(*find_map(data_manager, MapKeys.from_cfg(cfg)))

    def __repr__(self) -> str:
        """Return path and counts; an unpickled map is not read for this."""
        content = vars(self).get("_content")
        counts = f"{len(content.ids)} elements, {len(content.lanes)} lanes" if content else "not read yet"
        return f"<{type(self).__name__} {self.protobuf_map_path!r}: {counts}>"

    def _repr_html_(self) -> str:
        """Return a card for notebooks."""
        return html_card(type(self).__name__, self._card_facts, subject=self)

    def _card_facts(self) -> dict[str, object]:
        arrays = self.arrays
        return {
            "path": self.protobuf_map_path,
            "elements": len(self._content.ids),
            "lanes": len(self._content.lanes),
            "crosswalks": len(arrays.crosswalk_bounds_m),
        }

    def __getstate__(self) -> dict[str, object]:
        """Return path and matrix; a worker process reads the file again."""
        names = ("protobuf_map_path", "ecef_to_world", "_absolute_paths", "_checksum")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: PickledState) -> None:
        """Restore path and matrix; the file is read on first use."""
        self.__dict__.update(state, _interpolations={})
        self.ecef_to_world.setflags(write=False)

    # Elements

    @property
    def elements(self) -> Sequence[MapElement]:
        """Elements in file order, a protobuf container of ``MapElement``."""
        return self._fragment.elements

    @property
    def ids_to_el(self) -> dict[str, int]:
        """Position of each id in :attr:`elements`; the last one if several elements share an id."""
        return self._ids_to_el

    @cached_property
    def _ids_to_el(self) -> dict[str, int]:
        return dict(self._content.ids_to_el)

    def __getitem__(self, item: str | bytes | int) -> MapElement:
        """Return an element by id (text or bytes) or by position (any integer, negative ones from the end).

        Raises:
            KeyError: There is no element with this id.
            IndexError: The position is outside the map.
            TypeError: ``item`` is something else.
        """
        if isinstance(item, bytes):
            item = item.decode(ENCODING)
        if isinstance(item, str):
            return self.elements[self._position(item)]
        try:
            position = operator.index(item)
        except TypeError as error:
            raise TypeError(f"a map is indexed by id (str or bytes) or integer, got {type(item).__name__}") from error
        if not -len(self) <= position < len(self):
            raise IndexOutOfRangeError(f"element {position} does not exist: the map has {len(self)} elements")
        return self.elements[position]

    def _position(self, element_id: str) -> int:
        try:
            return self._content.ids_to_el[element_id]
        except KeyError as error:
            raise KeyError(f"the map {self.protobuf_map_path} has no element with id {element_id!r}") from error

    def __len__(self) -> int:
        return len(self._content.ids)

    def __iter__(self) -> Iterator[MapElement]:
        """Iterate over the elements in file order."""
        return iter(self.elements)

    def get_elements_of_kind(self, kind: str) -> Iterator[MapElement]:
        """Iterate over all elements of one kind, in file order.

        Args:
            kind: ``lane``, ``segment``, ``node``, ``junction``, ``segment_sequence``, ``traffic_control_element``,
                ``annotated_shape``; any kind of traffic control (``traffic_light``, ``stop_line``, ``signal_red_face``,
                ..., where ``crosswalk`` is short for ``pedestrian_crosswalk``) or shape (``building``, ``park``, ...).

        Raises:
            InvalidArgumentError: There is no such kind; the message lists all.
        """
        content = self._content
        return select_elements(self.elements, kind, kinds=content.kinds, control_kinds=content.control_kinds)

    @staticmethod
    def id_as_str(element_id: GlobalId) -> str:
        """Return the id of an element as text."""
        return decode_reference(element_id.id, "an element")

    @staticmethod
    def _undo_e7(value: float) -> float:
        """Return a latitude or longitude in degrees from one in 1e-7 degrees."""
        return value / 1e7

    def unpack_deltas_cm(
        self, dx: Sequence[float], dy: Sequence[float], dz: Sequence[float], frame: GeoFrame
    ) -> Float64Array:
        """Return the world coordinates of a line stored as deltas.

        Args:
            dx: Offsets to the east in centimetres, the first from the origin, the others from the previous vertex;
                (n,).
            dy: Offsets to the north, (n,).
            dz: Offsets upwards, (n,).
            frame: Local frame of the line; its origin is taken at height 0, altitude and bearing are ignored.

        Returns:
            World coordinates in metres, float64 (n, 3).

        Raises:
            InvalidArgumentError: The offsets differ in length, or the origin lies beyond a pole.
        """
        if not len(dx) == len(dy) == len(dz):
            raise InvalidArgumentError(f"dx, dy and dz must have the same length, got {len(dx)}, {len(dy)}, {len(dz)}")
        deltas_m = np.stack([np.asarray(deltas, dtype=np.float64) / 100.0 for deltas in (dx, dy, dz)], axis=-1)
        return world_from_local(
            np.cumsum(deltas_m, axis=0),
            offsets=np.array([0, len(deltas_m)], dtype=np.int64),
            origins_e7=np.array([[frame.origin.lat_e7, frame.origin.lng_e7]], dtype=np.int64),
            ecef_to_world=self.ecef_to_world,
        )

    # Lanes

    @staticmethod
    def is_lane(element: MapElement) -> bool:
        """Return whether an element is a lane, with geometry or without."""
        return element.element.HasField("lane")

    def _lane_index(self, element_id: str) -> int:
        """Return the position of a lane among the lanes of the map."""
        lane = self._content.lane_of_id.get(element_id)
        if lane is None:
            self._position(element_id)
            raise InvalidArgumentError(f"element {element_id!r} is not a lane; bounds_info['lanes']['ids'] lists them")
        return lane

    def _lane(self, element_id: str) -> Lane:
        """Return the message of a lane."""
        return self.elements[int(self._content.lanes[self._lane_index(element_id)])].element.lane

    def get_lane_coords(self, element_id: str) -> dict[str, Float64Array]:
        """Return the boundaries of a lane as stored.

        Returns:
            ``xyz_left`` and ``xyz_right``, float64 (n, 3) each, usually of different lengths, read-only.

        Raises:
            KeyError: There is no element with this id.
            InvalidArgumentError: It is not a lane.
        """
        lane, lines = self._lane_index(element_id), self._content.lane_lines
        return {"xyz_left": lines.line(2 * lane), "xyz_right": lines.line(2 * lane + 1)}

    def get_lane_traffic_control_ids(self, element_id: str) -> set[str]:
        """Return the ids of the traffic lights, faces and signs that control leaving a lane.

        Raises:
            KeyError: There is no element with this id.
        """
        is_lane = element_id in self._content.lane_of_id
        lane = self._lane(element_id) if is_lane else self[element_id].element.lane  # has no controls
        return {self.id_as_str(control) for control in lane.traffic_controls}

    @staticmethod
    def interpolate(xyz: NumericArray, step: float, method: InterpolationMethod | int) -> NumericArray:
        """Return points along a line, each coordinate interpolated linearly over the arc length.

        Args:
            xyz: Vertices, shape (n, d), n at least 1.
            step: Number of points for INTER_ENSURE_LEN (truncated: 2.5 gives 2), metres between them for INTER_METER.
            method: INTER_ENSURE_LEN gives equally spaced points, both ends included. INTER_METER gives points at 0,
                step, 2 step, ... strictly below the length of the line, so the end point is normally dropped.

        Returns:
            Shape (m, d), dtype of ``xyz``.

        Raises:
            InvalidArgumentError: The line has no points, or ``step`` is not positive or gives fewer than two points or
                more than a million.
            UnsupportedValueError: ``method`` is not an :class:`InterpolationMethod`.
        """
        points = np.ascontiguousarray(xyz, dtype=np.float64)
        if points.ndim != 2 or len(points) == 0:
            raise InvalidArgumentError(f"xyz must have shape (n, d) with n at least 1, got {points.shape}")
        if method == InterpolationMethod.INTER_ENSURE_LEN:
            return resample_line(points, _as_num_points(step)).astype(np.asarray(xyz).dtype, copy=False)
        if method == InterpolationMethod.INTER_METER:
            if not (step > 0 and math.isfinite(step)):
                raise InvalidArgumentError(f"step must be a positive number of metres for INTER_METER, got {step}")
            resampled = resample_every(points, step, max_points=MAX_POINTS)
            return resampled.astype(np.asarray(xyz).dtype, copy=False)
        raise UnsupportedValueError(f"method must be one of {list(InterpolationMethod)}, got {method!r}")

    def get_lane_as_interpolation(
        self, element_id: str, step: float, method: InterpolationMethod | int
    ) -> dict[str, NumericArray]:
        """Return boundaries and midline of a lane, interpolated by :meth:`interpolate`.

        With INTER_ENSURE_LEN the midline is the mean of the interpolated boundaries, interpolated once more. Otherwise
        both boundaries are resampled to the number of points of the longer one, averaged and then interpolated, so the
        three lines may differ in length.

        Returns:
            ``xyz_left``, ``xyz_right`` and ``xyz_midlane``, float64 (m, 3) each, read-only.

        Raises:
            KeyError: There is no element with this id.
            InvalidArgumentError: It is not a lane, has a boundary without points, or ``step`` is not allowed.
            UnsupportedValueError: ``method`` is not an :class:`InterpolationMethod`.
        """
        key = (element_id, step, method)
        lines = self._interpolations.get(key)
        if lines is None:
            coords = self.get_lane_coords(element_id)
            sides = left, right = coords["xyz_left"], coords["xyz_right"]
            if min(len(left), len(right)) == 0:
                message = f"lane {element_id!r} has a boundary without points and cannot be interpolated"
                raise InvalidArgumentError(message)
            try:
                new_left, new_right = self.interpolate(left, step, method), self.interpolate(right, step, method)
            except InvalidArgumentError as error:
                raise InvalidArgumentError(f"lane {element_id!r} of {self.protobuf_map_path}: {error}") from error

            # The midline averages the boundaries point by point, at equal fractions of their lengths.
            paired: Sequence[NumericArray] = new_left, new_right
            if method != InterpolationMethod.INTER_ENSURE_LEN:
                num_points = max(len(left), len(right))
                paired = [self.interpolate(side, num_points, InterpolationMethod.INTER_ENSURE_LEN) for side in sides]
            midline = (paired[0] + paired[1]) / 2
            lines = (new_left, new_right, self.interpolate(midline, step, method))
            for line in lines:
                line.setflags(write=False)

            # evict the oldest entry; another thread may already have removed it
            if len(self._interpolations) >= CACHE_SIZE:
                self._interpolations.pop(next(iter(self._interpolations)), None)
            self._interpolations[key] = lines
        return dict(zip(("xyz_left", "xyz_right", "xyz_midlane"), lines, strict=True))

    def lane_lines(self, num_points: int) -> LaneLines:
        """Return boundaries and midlines of all lanes of ``bounds_info`` with the same number of points each.

        The values are those of :meth:`get_lane_as_interpolation` with INTER_ENSURE_LEN. The arrays are shared between
        callers for as long as any of them keeps a reference.

        Args:
            num_points: Points per line, at least 2.

        Raises:
            InvalidArgumentError: ``num_points`` is less than 2.
        """
        return self.arrays.resampled(_as_num_points(num_points))

    @cached_property
    def lanes_by_control(self) -> Mapping[str, Int64Array]:
        """Rows in ``bounds_info["lanes"]`` (int64, ascending) of the lanes of each traffic control, by control id."""
        controls = self.arrays.controls
        return MappingProxyType({name: controls.lanes_of(row) for row, name in enumerate(controls.ids.to_list())})

    # Crosswalks and bounds

    @staticmethod
    def is_crosswalk(element: MapElement) -> bool:
        """Return whether an element is a crosswalk with at least one point."""
        control = element.element.traffic_control_element
        return control.HasField("pedestrian_crosswalk") and len(control.points_x_deltas_cm) > 0

    def get_crosswalk_coords(self, element_id: str) -> dict[str, Float64Array]:
        """Return the polygon of a crosswalk.

        Returns:
            ``xyz``, float64 (n, 3), read-only.

        Raises:
            KeyError: There is no element with this id.
            InvalidArgumentError: It is not a crosswalk, or has no points.
        """
        crosswalk = self._content.crosswalk_of_id.get(element_id)
        if crosswalk is None:
            self._position(element_id)
            raise InvalidArgumentError(
                f"element {element_id!r} is not a crosswalk with points; bounds_info['crosswalks']['ids'] lists them"
            )
        return {"xyz": self._content.crosswalk_lines.line(crosswalk)}

    @cached_property
    def crosswalk_polygons(self) -> tuple[Float64Array, ...]:
        """Polygons of the crosswalks of ``bounds_info``, in its order, float64 (n, 3) each, read-only."""
        return self.arrays.polygons()

    @cached_property
    def bounds_info(self) -> dict[str, ElementBounds]:
        """Result of :meth:`get_bounds`, computed once."""
        return self.get_bounds()

    def get_bounds(self) -> dict[str, ElementBounds]:
        """Return ids and axis-aligned bounds of all lanes and crosswalks that have points, in file order.

        Returns:
            ``lanes`` and ``crosswalks``, each with ``ids`` (list of str) and ``bounds``, float64 (N, 2, 2), read-only,
            [[x_min, y_min], [x_max, y_max]] in world coordinates, for lanes over both boundaries.
        """
        arrays = self.arrays
        return {
            "lanes": {"bounds": arrays.lane_bounds_m, "ids": arrays.lane_ids.to_list()},
            "crosswalks": {"bounds": arrays.crosswalk_bounds_m, "ids": arrays.crosswalk_ids.to_list()},
        }

    # Traffic lights

    def is_traffic_light(self, element_id: str) -> bool:
        """Return whether an element is a traffic light (not one of its faces).

        Raises:
            KeyError: There is no element with this id.
        """
        return self[element_id].element.traffic_control_element.HasField("traffic_light")

    @cached_property
    def _color_by_face(self) -> dict[str, str]:
        """Upper-case colour of each id whose element is a coloured face."""
        colors = face_colors()
        content = self._content
        kinds, ids = content.control_kinds, content.ids
        faces = np.flatnonzero(np.isin(kinds, list(colors))).tolist()
        return {ids[face]: colors[int(kinds[face])].name for face in faces if content.ids_to_el[ids[face]] == face}

    def is_traffic_face_color(self, element_id: str, color: str) -> bool:
        """Return whether an element is a traffic light face of a colour; see :meth:`is_traffic_face`.

        Args:
            element_id: Id of the element.
            color: ``red``, ``green`` or ``yellow``.

        Raises:
            KeyError: There is no element with this id.
            InvalidArgumentError: There is no such colour.
        """
        if color.upper() not in TLFacesColors.__members__:
            raise InvalidArgumentError(f"color must be one of red, green and yellow, got {color!r}")
        return self.is_traffic_face(element_id) and self._color_by_face[element_id] == color.upper()

    def is_traffic_face(self, element_id: str) -> bool:
        """Return whether an element is a traffic light face of any colour, round or an arrow.

        U-turn and flashing faces do not count, as in L5Kit 1.5, but they do have a colour (:meth:`get_color_for_face`),
        which is used for drawing lanes.

        Raises:
            KeyError: There is no element with this id.
        """
        return int(self._content.control_kinds[self._position(element_id)]) in face_kinds()

    def get_color_for_face(self, face_id: str) -> str:
        """Return the colour of a traffic light face: ``RED``, ``GREEN`` or ``YELLOW``.

        Raises:
            KeyError: There is no element with this id.
            InvalidArgumentError: The element is not a coloured face (a ``ValueError``).
        """
        self._position(face_id)
        color = self._color_by_face.get(face_id)
        if color is None:
            raise InvalidArgumentError(f"element {face_id!r} is not a traffic light face with a colour")
        return color

    def get_face_color_or_none(self, face_id: str) -> str | None:
        """Return the colour of a traffic light face; None if the map does not know the id or it has no colour."""
        return self._color_by_face.get(face_id)

    def get_tl_feature_for_lane(self, lane_id: str, active_tl_face_to_color: Mapping[str, str]) -> int:
        """Return the traffic light state of a lane as a number: unknown 0, green 1, yellow 2, red 3, no light 4.

        If several faces are active, the highest number counts. A lane with a light but no active face is unknown.
        Controls that are not in the map are ignored.

        Args:
            lane_id: Id of the lane.
            active_tl_face_to_color: Lower-case colour of each active face, by id; ``unknown`` and ``none`` are accepted
                as colours too.

        Raises:
            KeyError: There is no lane with this id, or a colour of one of its faces has no number.
        """
        controls = self.get_lane_traffic_control_ids(lane_id)
        if not any(control in self.ids_to_el and self.is_traffic_light(control) for control in controls):
            return _TL_FEATURES["none"]
        active = controls & active_tl_face_to_color.keys() & self.ids_to_el.keys()
        return max((_TL_FEATURES[active_tl_face_to_color[face]] for face in active), default=_TL_FEATURES["unknown"])

    def get_lane_tl_state(self, lane_id: str, tl_faces: RecordArray) -> str:
        """Return the traffic light state of a lane in a frame.

        Args:
            lane_id: Id of the lane.
            tl_faces: Faces of the frame, records of ``TL_FACE_DTYPE``, shape (n,).

        Returns:
            Colour of the lane's active faces, ``RED`` before ``YELLOW`` before ``GREEN``; ``UNKNOWN`` when the lane has
            a traffic light or face but none is active; ``NONE`` when it has neither.

        Raises:
            KeyError: There is no element with this id.
        """
        controls = {control for control in self.get_lane_traffic_control_ids(lane_id) if control in self.ids_to_el}
        if not any(self.is_traffic_light(control) or control in self._color_by_face for control in controls):
            return "NONE"
        is_active = tl_faces["traffic_light_face_status"][:, TL_FACE_LABEL_TO_INDEX["ACTIVE"]] > 0
        active_faces = controls.intersection(tl_faces["face_id"][is_active].tolist())
        colors = {self._color_by_face.get(face) for face in active_faces}
        return next((color for color in _STATE_PRIORITY if color in colors), "UNKNOWN")

    # The road network

    @cached_property
    def _locator(self) -> LaneLocator:
        return LaneLocator(self.arrays)

    @cached_property
    def _router(self) -> LaneRouter:
        return LaneRouter(self.arrays, self.network, self._locator)

    def _network_row(self, lane_id: str) -> int:
        """Return the row of a lane in the network."""
        self._lane_index(lane_id)
        return self._content.row_of_lane_id[lane_id]

    def get_lanes_ahead(self, lane_id: str) -> list[str]:
        """Return the ids of the lanes that follow a lane without a lane change, in stored order.

        Raises:
            KeyError: There is no element with this id.
            InvalidArgumentError: It is not a lane.
        """
        holder = f"map file {self.protobuf_map_path}: lane {lane_id!r}"
        return [decode_reference(ahead.id, holder) for ahead in self._lane(lane_id).lanes_ahead]

    def get_lanes_behind(self, lane_id: str) -> list[str]:
        """Return the ids of the lanes from which a lane is entered without a lane change, in file order.

        Raises:
            KeyError: There is no element with this id.
            InvalidArgumentError: It is not a lane.
        """
        behind = self.network.behind_of(self._network_row(lane_id))
        return [self.network.ids[row] for row in behind.tolist()]

    def get_lane_left(self, lane_id: str) -> str | None:
        """Return the id of the lane that a vehicle may change to on the left, None if that is not allowed.

        Raises:
            KeyError: There is no element with this id.
            InvalidArgumentError: It is not a lane.
        """
        return self.id_as_str(self._lane(lane_id).adjacent_lane_change_left) or None

    def get_lane_right(self, lane_id: str) -> str | None:
        """Return the id of the lane that a vehicle may change to on the right, None if that is not allowed.

        Raises:
            KeyError: There is no element with this id.
            InvalidArgumentError: It is not a lane.
        """
        return self.id_as_str(self._lane(lane_id).adjacent_lane_change_right) or None

    def get_lane_speed_limit(self, lane_id: str) -> float | None:
        """Return the speed limit of a lane in metres per second, None if unknown.

        A lane of a segment has the limit of its direction; if a segment has no limit for the backward direction, the
        forward one holds for both. A lane inside a junction has the lowest known limit of the lanes outside that it
        connects, directly or via other junction lanes.

        Raises:
            KeyError: There is no element with this id.
            InvalidArgumentError: It is not a lane.
        """
        limit_mps = float(self.network.speed_limits_mps[self._network_row(lane_id)])
        return None if math.isnan(limit_mps) else limit_mps

    def get_nearest_lane(self, point_m: NumericArray) -> tuple[str, float]:
        """Return the lane nearest to a point, and its distance.

        Args:
            point_m: World x and y in metres (a z is ignored), shape (2,) or (3,).

        Returns:
            Id of the lane, and the distance in metres from the point to the lane's area in the xy plane, 0 inside. Ties
            (a point inside a crossing) go to the lane with the nearest midline.

        Raises:
            InvalidArgumentError: The point has another shape or is not finite, or the map has no lane with geometry.
        """
        point = _as_point(point_m)
        if self.arrays.num_lanes == 0:
            raise InvalidArgumentError(f"the map {self.protobuf_map_path} has no lane with geometry")
        row, distance_m = self._locator.nearest(point)
        return self.arrays.lane_ids[row], distance_m

    def get_lanes_within(self, point_m: NumericArray, radius_m: float) -> list[str]:
        """Return the ids of all lanes within a distance of a point, nearest first.

        Args:
            point_m: World x and y in metres (a z is ignored), shape (2,) or (3,).
            radius_m: Largest distance from the point to a lane's area, at least 0.

        Returns:
            Ids ordered by distance; ties are ordered by distance to the midline.

        Raises:
            InvalidArgumentError: The point has another shape or is not finite, or the radius is negative.
        """
        point = _as_point(point_m)
        if not radius_m >= 0:
            raise InvalidArgumentError(f"radius_m must be at least 0 metres, got {radius_m}")
        ids = self.arrays.lane_ids
        return [ids[row] for row in self._locator.within(point, radius_m).tolist()]

    def find_route(
        self,
        start_m: ArrayLike,
        goal_m: ArrayLike,
        *,
        heading_rad: float | None = None,
        reach_m: float = 5.0,
    ) -> LaneRoute:
        """Return the shortest route along lanes between two points.

        The route follows :meth:`get_lanes_ahead`, :meth:`get_lane_left` and :meth:`get_lane_right`. A lane change costs
        as much as driving 20 m, so changes that save only a few metres are avoided. If the goal lies behind the start
        on the same lane, the route leads around and back. The route starts on the lane that contains the start, or on
        the nearest one, and likewise ends at the goal; if several lanes contain a point, as inside a junction, the
        combination with the shortest route is used. The first route of a map takes longer, as it builds the lane graph.

        Args:
            start_m: World x and y in metres (a z is ignored), shape (2,) or (3,).
            goal_m: End of the route, likewise.
            heading_rad: World heading of the vehicle at the start; lanes whose direction differs by more than 45
                degrees are ignored. None for all lanes.
            reach_m: Largest allowed distance from start and goal to the area of a lane, at least 0.

        Raises:
            InvalidArgumentError: A point has another shape or is not finite, the heading is not finite, the reach is
                negative, or no suitable lane is within reach of one of the points.
            RouteNotFoundError: No route leads from the start to the goal.
        """
        points_m = _as_point(start_m, name="start_m"), _as_point(goal_m, name="goal_m")
        if not reach_m >= 0:
            raise InvalidArgumentError(f"reach_m must be at least 0 metres, got {reach_m}")
        if heading_rad is not None and not math.isfinite(heading_rad):
            raise InvalidArgumentError(f"heading_rad must be finite, or None for any heading, got {heading_rad}")
        return self._router.find(*points_m, heading_rad=heading_rad, reach_m=reach_m)


def find_map(data_manager: DataManager, keys: MapKeys) -> tuple[str, Float64Array]:
    """Return the path of the semantic map, or of the index of several, and the matrix ``world_to_ecef``, (4, 4).

    Args:
        data_manager: Finds the files.
        keys: Their keys in the configuration.

    Raises:
        ConfigError: The matrix is missing.
        FileNotFoundError: A file is missing.
    """
    map_path = data_manager.require(keys.semantic_map_key)
    meta_path = data_manager.require(keys.dataset_meta_key)
    return map_path, load_matrix(load_metadata(meta_path), "world_to_ecef", path=meta_path)


def _as_num_points(step: float) -> int:
    """Return a number of points, truncated to an integer and checked."""
    if not 2 <= step < MAX_POINTS + 1:
        raise InvalidArgumentError(f"a line is interpolated to 2 to {MAX_POINTS:,} points, got {step}")
    return int(step)


def _as_point(point_m: ArrayLike, *, name: str = "point_m") -> Float64Array:
    point = np.asarray(point_m, dtype=np.float64)
    if point.shape not in ((2,), (3,)) or not np.isfinite(point).all():
        raise InvalidArgumentError(f"{name} must be x and y in metres, shape (2,) or (3,), got {point_m!r}")
    return point[:2]
