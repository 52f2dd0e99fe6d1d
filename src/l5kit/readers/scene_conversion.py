"""Conversion of a scene of another dataset to the records of a log, in the frame of its map."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from l5kit._types import Int64Array
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX, TL_FACE_LABEL_TO_INDEX
from l5kit.data.scene_arrays import FaceRows, SceneArrays
from l5kit.data.scene_records import SceneRecords
from l5kit.data.tracks import Tracks, faces_of_frames, label_probabilities_of
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.transform import yaws_as_rotations33
from l5kit.readers.reader import SourceInfo
from l5kit.readers.source_map import SourceMap
from l5kit.readers.source_scene import LightState, SourceLights, SourceScene

FACE_COLORS = {LightState.RED: "red", LightState.YELLOW: "yellow", LightState.GREEN: "green"}
"""Faces of each light of an imported log."""

_LONGEST_HOST = 16
_LARGEST_NUMBER = 2**63
_WIDEST_STEP_ERROR = 0.25
"""Allowed relative deviation of a scene's median step from that of the source."""


def to_records(scene: SourceScene, info: SourceInfo) -> SceneRecords:
    """Return the records of a scene, in the frame of its map.

    Args:
        scene: The scene.
        info: Facts of its source.

    Raises:
        InvalidArgumentError: A class is not one of the source, or the median step is not that of the source.
    """
    if len(scene.timestamps_ns) > 1:
        median_s = float(np.median(np.diff(scene.timestamps_ns))) / 1e9
        if abs(median_s - info.step_time_s) > _WIDEST_STEP_ERROR * info.step_time_s:
            raise InvalidArgumentError(
                f"steps are {median_s:g} s apart, those of the source are {info.step_time_s:g} s; a log has one step "
                "time"
            )
    tracks, labels = scene.tracks, info.label_mapping
    for track, name in zip(tracks.ids, tracks.classes, strict=True):
        if name not in labels:
            raise InvalidArgumentError(
                f"track {track!r} has the class {name!r}, none of the source: {', '.join(labels)}"
            )
    agents = Tracks(
        track_ids=track_ids_of(tracks.ids),
        is_valid=tracks.is_valid,
        positions_m=tracks.positions_m,
        headings_rad=tracks.yaws_rad,
        velocities_mps=tracks.velocities_mps,
        sizes_m=tracks.sizes_m,
        label_probabilities=label_probabilities_of(
            [PERCEPTION_LABEL_TO_INDEX[labels[name]] for name in tracks.classes]
        ),
    )
    return SceneArrays(
        host=scene.map.name[:_LONGEST_HOST],
        timestamps_ns=scene.timestamps_ns,
        ego_positions_m=scene.ego.positions_m,
        ego_rotations=yaws_as_rotations33(scene.ego.yaws_rad) if scene.ego.rotations is None else scene.ego.rotations,
        agents=agents.to_agent_rows(),
        tl_faces=_faces_of(scene.lights, scene.map),
    ).to_records()


def track_ids_of(ids: Sequence[str]) -> Int64Array:
    """Return the number of each track in a log: its id if all ids are whole numbers, else 1, 2, ... in order."""
    if all(track.isascii() and track.isdecimal() and str(int(track)) == track for track in ids):
        values = [int(track) for track in ids]
        if max(values, default=0) < _LARGEST_NUMBER and min(values, default=1) > 0:
            return np.array(values, np.int64)
    return np.arange(1, len(ids) + 1)


def light_id(map_name: str, lane_id: str) -> str:
    """Return the id of the light of a lane: a hash of 13 characters, as names of lanes do not fit into records."""
    digest = hashlib.blake2b(f"{map_name}\0{lane_id}".encode(), digest_size=8).digest()
    return base64.b32encode(digest).decode("ascii").rstrip("=").lower()


def face_id(map_name: str, lane_id: str, color: str) -> str:
    """Return the id of one face of the light of a lane, 15 characters."""
    return f"{light_id(map_name, lane_id)}-{color[0]}"


def with_lights_renamed(records: SceneRecords, map_name: str, renamed: Mapping[str, str]) -> SceneRecords:
    """Return the records of a scene with the lights of lanes that are renamed on the joined map.

    Args:
        records: From :func:`to_records`.
        map_name: Name of the map.
        renamed: New name of a lane by its id in the scene.
    """
    if not renamed:
        return records
    before, faces = records.tl_faces, records.tl_faces.copy()
    for lane, name in renamed.items():
        faces["traffic_light_id"][before["traffic_light_id"] == light_id(map_name, lane)] = light_id(map_name, name)
        for color in FACE_COLORS.values():
            faces["face_id"][before["face_id"] == face_id(map_name, lane, color)] = face_id(map_name, name, color)
    return replace(records, tl_faces=faces)


def _faces_of(lights: SourceLights, source_map: SourceMap) -> FaceRows:
    """Return three faces for each light of a lane of the map, in each step with information on it."""
    # rows are ordered by step, and within a step by lane
    map_name, known = source_map.name, {lane.lane_id for lane in source_map.lanes}
    is_known = np.array([lane in known for lane in lights.lane_ids], np.bool_)
    steps, lanes = np.nonzero((lights.states != LightState.ABSENT).T & is_known)

    # Ids and states of the faces of each light: a face is active if the light has its colour, inactive if the light has
    # another colour, and unknown if the light is.
    colors = list(FACE_COLORS.items())
    names = np.array(
        [[face_id(map_name, lane, color) for _, color in colors] for lane in lights.lane_ids], np.str_
    ).reshape(-1, len(colors))
    holders = np.array([light_id(map_name, lane) for lane in lights.lane_ids], np.str_)
    states = np.repeat(lights.states[lanes, steps], len(colors))
    shown = np.tile(np.array([state for state, _ in colors]), len(steps))
    is_on = np.where(states == shown, TL_FACE_LABEL_TO_INDEX["ACTIVE"], TL_FACE_LABEL_TO_INDEX["INACTIVE"])
    columns = np.where(states == LightState.UNKNOWN, TL_FACE_LABEL_TO_INDEX["UNKNOWN"], is_on)
    return faces_of_frames(
        lights.states.shape[1],
        np.repeat(steps, len(colors)),
        face_ids=names[lanes].ravel(),
        light_ids=np.repeat(holders[lanes], len(colors)),
        statuses=np.eye(3, dtype=np.float32)[columns],
    )
