"""Red lights for the AV."""

from dataclasses import dataclass, replace

import numpy as np

from l5kit._types import BoolArray
from l5kit.data.frame_rows import parts_of_rows
from l5kit.data.labels import TL_FACE_LABEL_TO_INDEX, TL_FACE_LABELS
from l5kit.data.map.api import MapAPI
from l5kit.data.scene_arrays import FaceRows, SceneArrays
from l5kit.data.tracks import faces_of_frames
from l5kit.editing.av_path import lane_path_of_log
from l5kit.editing.scene_edit import ImpossibleEditError, SceneEdit, SceneSetting, require_in_range
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.polygon import project_on_line
from l5kit.lanes.lane_paths import PATH_STEP_M
from l5kit.lanes.red_lights import RED

_ON = np.eye(len(TL_FACE_LABELS), dtype=np.float32)[TL_FACE_LABEL_TO_INDEX["ACTIVE"]]
_OFF = np.eye(len(TL_FACE_LABELS), dtype=np.float32)[TL_FACE_LABEL_TO_INDEX["INACTIVE"]]


@dataclass(frozen=True)
class RedLight(SceneEdit):
    """The next light of the AV is red for some time; the logged AV and all other agents drive as before.

    Of the faces that control the lane, the red ones are on in these frames and the others off. Lights of other
    directions are unchanged.

    Attributes:
        from_s: Start of the red light, seconds after the first frame.
        until_s: Time at which the light returns to its logged state; None for never.
        ahead_m: Least distance from the front of the logged AV at ``from_s`` to the stop line.

    Raises:
        InvalidArgumentError: A parameter is out of range, or the end is not after the start.
    """

    from_s: float = 0.0
    until_s: float | None = None
    ahead_m: float = 15.0

    def __post_init__(self) -> None:
        require_in_range(self, from_s=(0.0, 3600.0), ahead_m=(0.0, 500.0))
        if self.until_s is not None:
            require_in_range(self, until_s=(self.from_s, 7200.0))
            if self.until_s == self.from_s:
                raise InvalidArgumentError(f"RedLight: until_s must be later than from_s, both are {self.until_s:g}")

    def apply(self, scene: SceneArrays, setting: SceneSetting) -> SceneArrays:
        """Return the scene with the red light; see :meth:`SceneEdit.apply`."""
        map_api, driving_map = setting.require_map(self)
        until_s = np.inf if self.until_s is None else self.until_s
        is_red = (scene.times_s >= self.from_s) & (scene.times_s < until_s)
        if not is_red.any():
            raise ImpossibleEditError(f"the scene has no frame from {self.from_s:g} s to {until_s:g} s")
        paths, frame = lane_path_of_log(scene, driving_map), int(np.argmax(is_red))

        # the lane with the next light on the path of the AV, from its front on
        edge, share = project_on_line(paths.points_of(0), np.ascontiguousarray(scene.ego_positions_m[frame, :2]))
        least_m = PATH_STEP_M * (edge + share) + 0.5 * setting.facts.ego_extent_m[0] + self.ahead_m
        lights = map_api.arrays.lights
        lit = {int(lane) for face in np.flatnonzero(lights.ranks == RED).tolist() for lane in lights.lanes_of(face)}
        lanes_ahead = (
            int(lane)
            for arc_m, lanes in zip(paths.piece_arcs_m, paths.line_lanes.tolist(), strict=True)
            for lane in lanes
            if arc_m >= least_m and lane in lit
        )
        lane = next(lanes_ahead, None)
        if lane is None:
            raise ImpossibleEditError(
                f"no light with a red face is on the path of the AV, {self.ahead_m:g} m or more ahead of it at "
                f"{self.from_s:g} s; choose another from_s or a smaller ahead_m"
            )

        # ids of the faces that control the lane, and whether each is red
        lane_faces = [face for face in range(len(lights.ranks)) if lane in lights.lanes_of(face)]
        faces = {lights.id_of(face): int(lights.ranks[face]) == RED for face in lane_faces}
        return replace(scene, tl_faces=_turn_red(scene.tl_faces, is_red, faces, map_api))


def _turn_red(rows: FaceRows, is_red: BoolArray, faces: dict[str, bool], map_api: MapAPI) -> FaceRows:
    """Return the face rows of a scene with some faces turned red in some frames.

    Args:
        rows: Face rows of F frames.
        is_red: Frames to change, (F,).
        faces: Whether each face is a red one, by face id.
        map_api: The map, for the lights of faces that the log lacks.
    """
    frames = parts_of_rows(rows.starts)
    statuses = rows.statuses.copy()
    for face, is_on in faces.items():
        statuses[is_red[frames] & (rows.face_ids == face)] = _ON if is_on else _OFF

    # add red faces that the log lacks in a frame
    more: list[tuple[int, str, str]] = []
    for face in (name for name, is_on in faces.items() if is_on):
        is_known = rows.face_ids == face
        light = str(rows.light_ids[is_known][0]) if is_known.any() else _light_of(face, map_api)
        missing = np.setdiff1d(np.flatnonzero(is_red), frames[is_known])
        more += [(frame, face, light) for frame in missing.tolist()]
    return faces_of_frames(
        len(is_red),
        np.concatenate([frames, np.array([frame for frame, _, _ in more], np.int64)]),
        face_ids=[*rows.face_ids.tolist(), *(face for _, face, _ in more)],
        light_ids=[*rows.light_ids.tolist(), *(light for _, _, light in more)],
        statuses=np.concatenate([statuses, np.tile(_ON, (len(more), 1))]),
    )


def _light_of(face: str, map_api: MapAPI) -> str:
    """Return the id of the traffic light of a face; empty if the map lacks it."""
    for name in map_api.arrays.controls.ids.to_list():
        if name in map_api.ids_to_el and map_api.is_traffic_light(name):
            states = map_api[name].element.traffic_control_element.traffic_light.face_states
            if face in (map_api.id_as_str(each) for each in states):
                return name
    return ""
