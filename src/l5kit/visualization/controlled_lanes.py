"""Lanes of a map that traffic lights control, and the colours that they show."""

from functools import cached_property

from l5kit._types import Int64Array, RecordArray
from l5kit.data.filter import filter_tl_faces_by_status
from l5kit.data.map.map_arrays import MapArrays


class ControlledLanes:
    """Colours of the lanes that traffic lights control, from active faces.

    Args:
        arrays: The map.
    """

    def __init__(self, arrays: MapArrays) -> None:
        self._lights = arrays.lights

    def ranks_by_lane(self, tl_faces: RecordArray) -> dict[int, int]:
        """Return the colours of lanes with an active face; the last colour of ``LIGHT_COLORS`` wins for each lane.

        Args:
            tl_faces: Faces of one frame, records of ``TL_FACE_DTYPE``.

        Returns:
            Index in ``LIGHT_COLORS`` by row of ``bounds_info["lanes"]``.
        """
        active = filter_tl_faces_by_status(tl_faces, "ACTIVE")["face_id"].tolist()
        lights = [self._lanes_by_face[face] for face in active if face in self._lanes_by_face]
        lights.sort(key=lambda light: light[0])  # so that the highest rank of a lane wins
        return {lane: rank for rank, lanes in lights for lane in lanes.tolist()}

    @cached_property
    def _lanes_by_face(self) -> dict[str, tuple[int, Int64Array]]:
        """Rank of the colour, an index in ``LIGHT_COLORS``, and controlled lanes of each coloured face."""
        lights = self._lights
        ranks = (lights.ranks - 1).tolist()
        return {lights.id_of(face): (rank, lights.lanes_of(face)) for face, rank in enumerate(ranks)}
