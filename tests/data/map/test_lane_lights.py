"""Active faces of a map in windows of a log."""

import itertools

import numpy as np
import pytest

from l5kit.data.index.windows import WindowRows
from l5kit.data.map.api import MapAPI
from l5kit.data.map.lane_lights import LaneLights
from l5kit.data.records import TL_FACE_DTYPE
from support.logs import make_faces
from support.maps import WORLD_TO_ECEF


def faces_of(*faces: tuple[str, float], dtype: object = TL_FACE_DTYPE) -> np.ndarray:
    return np.concatenate([make_faces(), *(make_faces(**{name: [on, 1, 0]}) for name, on in faces)]).astype(dtype)


def make_lights(*face_ids: str) -> LaneLights:
    """Return faces, of which each controls the lane of its number."""
    ids = np.array(sorted(face_ids))
    numbers = np.arange(len(ids))
    return LaneLights(ids[:, None].view(np.uint32), np.ones_like(numbers), np.arange(len(ids) + 1), numbers)


def find_active(lights: LaneLights, *windows: list[np.ndarray]) -> list[list[int]]:
    parts = [WindowRows.from_frames(frames, np.dtype(TL_FACE_DTYPE)) for frames in windows]
    arrays = [part.arrays[0] for part in parts]
    rows = WindowRows(
        arrays, np.concatenate([part.starts for part in parts]), np.concatenate([part.stops for part in parts])
    )
    active, starts = lights.find_active(rows)
    return [active[first:end].tolist() for first, end in itertools.pairwise(starts)]


def test_faces_of_the_map_have_ranks_and_lanes(fixture_s_map: str) -> None:
    map_api = MapAPI(fixture_s_map, WORLD_TO_ECEF)
    lights = map_api.arrays.lights
    ranks = {"GREEN": 1, "YELLOW": 2, "RED": 3}
    found = {}
    for face, code_points in enumerate(lights.face_ids):
        face_id = "".join(chr(code) for code in code_points if code)
        found[face_id] = int(lights.ranks[face])
        lanes = lights.lane_rows[lights.lane_starts[face] : lights.lane_starts[face + 1]]
        assert lanes.tolist() == map_api.lanes_by_control[face_id].tolist()
    colors = {face: map_api.get_face_color_or_none(face) for face in map_api.lanes_by_control}
    assert found == {face: ranks[color] for face, color in colors.items() if color}
    assert found


@pytest.mark.parametrize("value", [1.0, 0.01, 0.0, -1.0, np.nan])
def test_faces_with_a_positive_value_are_active(value: float) -> None:
    expected = [0] if value > 0 else []
    assert find_active(make_lights("a"), [faces_of(("a", value))]) == [expected]


def test_only_faces_of_the_map_in_the_newest_frame_count() -> None:
    lights = make_lights("a", "ab", "b", "zz")
    newest = faces_of(("b", 1), ("ab", 1), ("a", 0), ("abc", 1), ("", 1), ("zzz", 1), ("b", 1))
    windows = [newest, faces_of(("a", 1))], [newest[:0], newest], [newest[1:2], newest]
    assert find_active(lights, *windows) == [[2, 1, 2], [], [1]]


def test_without_frames_of_faces_no_face_is_active() -> None:
    assert find_active(make_lights("a"), []) == [[]]


def test_a_map_without_lights_has_no_active_face() -> None:
    assert find_active(make_lights(), [faces_of(("a", 1))]) == [[]]


@pytest.mark.parametrize("width", [1, 3, 40])
def test_ids_may_have_other_lengths_than_those_of_the_map(width: int) -> None:
    dtype = [("face_id", f"<U{width}"), *TL_FACE_DTYPE[1:]]
    faces = faces_of(("a", 1), ("abcdefgh", 1), dtype=dtype)
    lights = make_lights("a", "abcdefgh", "abc")
    assert find_active(lights, [faces]) == [[0, {1: 0, 3: 1, 40: 2}[width]]]


def test_arrays_are_read_only() -> None:
    lights = make_lights("a")
    for array in (lights.face_ids, lights.ranks, lights.lane_starts, lights.lane_rows):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
