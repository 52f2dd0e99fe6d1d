"""Traffic lights of lanes: active faces in windows of a log, and the lanes that they control."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float32Array, Int32Array, Int64Array, RecordArray, UInt32Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes, require_starts
from l5kit.data.index.windows import WindowRows, read_only_field
from l5kit.data.labels import TL_FACE_LABEL_TO_INDEX
from l5kit.data.texts import code_points

LIGHT_COLORS: Final = ("GREEN", "YELLOW", "RED")
"""Colours of faces; if several faces of a lane are active, the colour that comes last here counts."""

_ACTIVE = TL_FACE_LABEL_TO_INDEX["ACTIVE"]


@dataclass(frozen=True)
class LaneLights(ReadOnlyArrays):
    """The M faces of a map that have a colour and control lanes.

    Attributes:
        face_ids: Their ids as code points, padded with 0, ascending, shape (M, length).
        ranks: Their colours: 1 plus the index in :data:`LIGHT_COLORS`, shape (M,).
        lane_starts: Start of each face in ``lane_rows``, and the end of the last one, shape (M + 1,).
        lane_rows: The lanes that each face controls, rows of ``bounds_info["lanes"]``.
    """

    face_ids: UInt32Array
    ranks: Int64Array
    lane_starts: Int64Array
    lane_rows: Int64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        num_faces = len(self.ranks)
        require_shapes(self, face_ids=(num_faces, *self.face_ids.shape[1:]), ranks=(num_faces,))
        require_starts(self, "lane_starts", num_parts=num_faces, end=len(self.lane_rows))

    @classmethod
    def of_faces(cls, faces: Mapping[str, tuple[str, Int64Array]]) -> "LaneLights":
        """Return the faces of a map.

        Args:
            faces: Colour (one of :data:`LIGHT_COLORS`) and controlled lanes of each face, by id.
        """
        ids = sorted(faces)
        colors, lanes = [faces[face][0] for face in ids], [faces[face][1] for face in ids]
        return cls(
            code_points(np.array(ids, dtype=np.str_)).copy(),
            np.array([LIGHT_COLORS.index(color) + 1 for color in colors], dtype=np.int64),
            np.cumsum([0, *map(len, lanes)], dtype=np.int64),
            np.concatenate([np.empty(0, np.int64), *lanes]),
        )

    @cached_property
    def arrays(self) -> "LightArrays":
        """The arrays that kernels need."""
        return LightArrays(self.ranks, self.lane_starts, self.lane_rows)

    def id_of(self, face: int) -> str:
        """Return the id of a face."""
        return "".join(map(chr, self.face_ids[face].tolist())).rstrip("\0")

    def lanes_of(self, face: int) -> Int64Array:
        """Return the lanes that a face controls, ascending, as a read-only view."""
        return self.lane_rows[self.lane_starts[face] : self.lane_starts[face + 1]]

    def number_faces(self, tl_faces: RecordArray) -> Int32Array:
        """Return the index of each face of a log among these faces, -1 if it is inactive or not among them.

        Args:
            tl_faces: TL_FACE_DTYPE, (N,).

        Returns:
            Shape (N,).
        """
        indices = np.empty(len(tl_faces), np.int32)
        if len(tl_faces):
            ids, statuses = read_only_field(tl_faces, "face_id"), read_only_field(tl_faces, "traffic_light_face_status")
            _number_faces(code_points(ids), statuses, self.face_ids, indices)
        return indices

    def find_active(self, tl_faces: WindowRows) -> tuple[Int64Array, Int64Array]:
        """Return the active faces in the newest frame of each window.

        Args:
            tl_faces: The traffic light faces of B windows; without frames no face is active.

        Returns:
            The faces of each window, window by window, and the start of each window's faces, shape (B + 1,).
        """
        first, end, num_active = tl_faces.starts, tl_faces.stops, 0
        most = _count_newest(first, end)
        active, starts = np.empty(most, np.int64), np.zeros(len(first) + 1, np.int64)
        if most and len(self.ranks):
            for rows, part in tl_faces.parts():
                num_active = _find_active(
                    code_points(read_only_field(rows, "face_id")),
                    read_only_field(rows, "traffic_light_face_status"),
                    first[part],
                    end[part],
                    self.face_ids,
                    active,
                    starts[part.start : part.stop + 1],
                )
        return active[:num_active], starts


@kernel_jit
def _count_newest(starts: Int64Array, stops: Int64Array) -> int:
    """Return the number of rows in the newest frames of windows, given as (B, F); 0 without frames."""
    count = 0
    for window in range(len(starts) if starts.shape[1] else 0):
        count += stops[window, 0] - starts[window, 0]
    return count


@kernel_jit
def _find_active(
    ids: UInt32Array,
    statuses: Float32Array,
    starts: Int64Array,
    stops: Int64Array,
    face_ids: UInt32Array,
    active: Int64Array,
    active_starts: Int64Array,
) -> int:
    """Write the active faces among the newest rows of windows to ``active``, starting at ``active_starts[0]``.

    Return the end of the written part.
    """
    num_active = active_starts[0]
    for window in range(len(starts)):
        for row in range(starts[window, 0], stops[window, 0]):
            if statuses[row, _ACTIVE] > 0:
                face = _find_face(ids, row, face_ids)
                if face >= 0:
                    active[num_active] = face
                    num_active += 1
        active_starts[window + 1] = num_active
    return int(num_active)


@kernel_jit
def _number_faces(ids: UInt32Array, statuses: Float32Array, face_ids: UInt32Array, indices: Int32Array) -> None:
    """Write the index of each id among ascending ids, -1 if it is not among them or its face is inactive."""
    for row in range(len(indices)):
        indices[row] = _find_face(ids, row, face_ids) if statuses[row, _ACTIVE] > 0 else -1


@kernel_jit
def _find_face(ids: UInt32Array, row: int, face_ids: UInt32Array) -> int:
    """Return the index of an id (a row of N ids) among ascending ids, or -1."""
    low, high = 0, len(face_ids)
    while low < high:
        middle = (low + high) // 2
        order = np.int64(0)
        for i in range(max(face_ids.shape[1], ids.shape[1])):
            a = np.int64(face_ids[middle, i]) if i < face_ids.shape[1] else np.int64(0)
            b = np.int64(ids[row, i]) if i < ids.shape[1] else np.int64(0)
            if a != b:
                order = a - b
                break
        if order == 0:
            return middle
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return -1


class LightArrays(NamedTuple):
    """The arrays of :class:`LaneLights` that kernels need: ranks of faces, and the lanes that each face controls."""

    ranks: Int64Array
    lane_starts: Int64Array
    lane_rows: Int64Array


@kernel_jit
def rank_of_lane(lane: int, face_bounds: Int64Array, faces: Int32Array, lights: LightArrays) -> int:
    """Return the highest rank of the active faces that control a lane, 0 for none; for use inside kernels.

    Args:
        lane: The lane.
        face_bounds: Start and end of the faces of a frame, (2,).
        faces: Faces of a log, numbered by :meth:`LaneLights.number_faces`.
        lights: Ranks and lanes of the faces.
    """
    ranks, lane_starts, lane_rows = LightArrays(*lights)
    rank = np.int64(0)
    for row in range(face_bounds[0], face_bounds[1]):
        face = faces[row]
        if face < 0 or ranks[face] <= rank:
            continue
        for index in range(lane_starts[face], lane_starts[face + 1]):
            if lane_rows[index] == lane:
                rank = ranks[face]
                break
    return int(rank)
