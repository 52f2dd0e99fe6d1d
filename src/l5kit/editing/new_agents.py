"""Agents added by edits: classes and sizes, tracks, and the room for them."""

from dataclasses import fields, replace
from typing import Final, NamedTuple

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.index.track_ids import NUM_TRACK_IDS
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.data.scene_arrays import AgentRows, SceneArrays
from l5kit.data.tracks import Tracks, label_probabilities_of
from l5kit.editing.scene_edit import ImpossibleEditError, SceneSetting
from l5kit.geometry.box_overlap import boxes_overlap

MARGIN_M: Final = 0.3
"""Least distance between an added agent and all others in its first frame, metres."""

SEARCH_M: Final = 20
"""Length beyond the wanted distance that is searched for room, in steps of a metre."""


class AgentKind(NamedTuple):
    """Class and size of an added agent: length, width and height, metres."""

    label: str
    size_m: tuple[float, float, float]


KINDS: Final[dict[str, AgentKind]] = {
    "car": AgentKind("PERCEPTION_LABEL_CAR", (4.6, 1.9, 1.6)),
    "van": AgentKind("PERCEPTION_LABEL_VAN", (5.5, 2.0, 2.3)),
    "bus": AgentKind("PERCEPTION_LABEL_BUS", (12.0, 2.55, 3.2)),
    "truck": AgentKind("PERCEPTION_LABEL_TRUCK", (9.0, 2.5, 3.5)),
    "trailer": AgentKind("PERCEPTION_LABEL_OTHER_VEHICLE", (3.5, 1.9, 2.5)),
    "pedestrian": AgentKind("PERCEPTION_LABEL_PEDESTRIAN", (0.6, 0.6, 1.75)),
    "cone": AgentKind("PERCEPTION_LABEL_UNKNOWN", (0.4, 0.4, 0.8)),
}
"""Kinds of added agents by name. Cones have the unknown class, as in all datasets that l5kit reads."""

VEHICLES: Final = ("car", "van", "bus", "truck")
"""Motor vehicles of :data:`KINDS`."""


def add_agents(
    scene: SceneArrays,
    kinds: list[AgentKind],
    *,
    positions_m: Float64Array,
    yaws_rad: Float64Array,
    is_there: BoolArray | None = None,
) -> SceneArrays:
    """Return a scene with K more agents, with track ids that follow the highest one.

    Velocities are finite differences of the positions, and 0 for equal timestamps.

    Args:
        scene: The scene.
        kinds: Kind of each agent.
        positions_m: World x and y in all F frames, (K, F, 2).
        yaws_rad: World headings, (K, F).
        is_there: Frames in which each agent is present, (K, F); None for all.

    Raises:
        ImpossibleEditError: No track ids are left.
    """
    shape = yaws_rad.shape
    velocities_mps = np.zeros((*shape, 2))
    if scene.num_frames > 1:
        # over two steps, at the ends over one; exactly 0 at rest
        after = np.minimum(np.arange(scene.num_frames) + 1, scene.num_frames - 1)
        before = np.maximum(np.arange(scene.num_frames) - 1, 0)
        seconds = (scene.times_s[after] - scene.times_s[before])[:, None]
        np.divide(positions_m[:, after] - positions_m[:, before], seconds, out=velocities_mps, where=seconds > 0)
    first_id = next_track_id(scene, shape[0])
    added = Tracks(
        track_ids=first_id + np.arange(shape[0]),
        is_valid=np.ones(shape, np.bool_) if is_there is None else is_there,
        positions_m=positions_m,
        headings_rad=yaws_rad,
        velocities_mps=velocities_mps,
        sizes_m=np.array([kind.size_m for kind in kinds]),
        label_probabilities=label_probabilities_of([PERCEPTION_LABEL_TO_INDEX[kind.label] for kind in kinds]),
    )
    return replace(scene, agents=join_rows(scene.agents, added.to_agent_rows()))


def next_track_id(scene: SceneArrays, count: int) -> int:
    """Return the first of ``count`` unused track ids, which follow the highest one of a scene.

    Raises:
        ImpossibleEditError: The ids exceed the range of samples.
    """
    first_id = int(scene.agents.track_ids.max(initial=0)) + 1
    if first_id + count > NUM_TRACK_IDS:
        raise ImpossibleEditError(
            f"the scene has track {first_id - 1}, and added tracks would get higher ids, but samples only allow ids "
            f"below {NUM_TRACK_IDS}; number the tracks of the log from 1 on"
        )
    return first_id


def join_rows(rows: AgentRows, others: AgentRows) -> AgentRows:
    """Return the rows of a scene with other rows appended in each frame."""
    num_frames = len(rows.starts) - 1
    frames = np.concatenate([np.repeat(np.arange(num_frames), np.diff(each.starts)) for each in (rows, others)])
    order = np.argsort(frames, kind="stable")
    joined = {
        each.name: np.concatenate([getattr(rows, each.name), getattr(others, each.name)])[order]
        for each in fields(AgentRows)
        if each.name != "starts"
    }
    return AgentRows(starts=rows.starts + others.starts, **joined)


def take_rows(rows: AgentRows, is_kept: BoolArray) -> AgentRows:
    """Return selected rows of a scene."""
    num_before = np.concatenate([[0], np.cumsum(is_kept)])
    taken = {each.name: getattr(rows, each.name)[is_kept] for each in fields(AgentRows) if each.name != "starts"}
    return AgentRows(starts=num_before[rows.starts].astype(np.int32), **taken)


def boxes_of_rows(agents: AgentRows, rows: Int64Array | slice) -> Float64Array:
    """Return the boxes of rows: world x, y, yaw, length and width, (n, 5)."""
    return np.column_stack([agents.centroids_m[rows], agents.yaws_rad[rows], agents.extents_m[rows, :2]])


def boxes_of_frame(scene: SceneArrays, frame: int, setting: SceneSetting) -> Float64Array:
    """Return the boxes of the AV and all agents in a frame, like :func:`boxes_of_rows`, (1 + n, 5)."""
    x, y = scene.ego_positions_m[frame, :2]
    length_m, width_m, _ = setting.facts.ego_extent_m
    others = boxes_of_rows(scene.agents, scene.agents.rows_of(frame))
    return np.concatenate([[[x, y, scene.ego_yaws_rad[frame], length_m, width_m]], others])


def centre_ahead_m(kind: AgentKind, ahead_m: float, setting: SceneSetting) -> float:
    """Return the distance from the centre of the AV to that of an agent, with a gap of ``ahead_m`` between them."""
    return ahead_m + 0.5 * (setting.facts.ego_extent_m[0] + kind.size_m[0])


def has_room(box: Float64Array, others: Float64Array, *, margin_m: float = MARGIN_M) -> bool:
    """Return whether a box (5,), enlarged by a margin on all sides, overlaps none of the others (n, 5)."""
    large = box + np.array([0.0, 0.0, 0.0, 2 * margin_m, 2 * margin_m])
    reach_m = 0.5 * (np.hypot(large[3], large[4]) + np.hypot(others[:, 3], others[:, 4]))
    is_near = np.hypot(*(others[:, :2] - large[:2]).T) <= reach_m
    return not any(boxes_overlap(large, other) for other in others[is_near])
