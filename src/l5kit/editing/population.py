"""Denser or sparser traffic than in the log."""

from dataclasses import dataclass, replace

import numpy as np

from l5kit._types import Float64Array, Int64Array
from l5kit.configs.texts import did_you_mean
from l5kit.data.frame_rows import parts_of_rows
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.data.scene_arrays import SceneArrays
from l5kit.data.tracks import Observations
from l5kit.editing.av_path import finite_poses
from l5kit.editing.new_agents import boxes_of_frame, boxes_of_rows, has_room, join_rows, next_track_id, take_rows
from l5kit.editing.scene_edit import ImpossibleEditError, SceneEdit, SceneSetting, require_in_range
from l5kit.errors import InvalidArgumentError

_VEHICLES = ("CAR", "VAN", "BUS", "TRUCK", "OTHER_VEHICLE", "MOTORCYCLIST", "CYCLIST")
_DRIVEN_M = 10.0
"""Least distance driven by a track that may be copied."""

_DELAYS_S = (1.5, 12.0)
_TRIES_PER_COPY = 40
_NEAR_M = 30.0
"""Within this distance of the AV, no copy appears or disappears unless its original does."""

_NAMES = {
    name.removeprefix("PERCEPTION_LABEL_").lower(): index
    for name, index in PERCEPTION_LABEL_TO_INDEX.items()
    if name.startswith("PERCEPTION_LABEL_")
}


@dataclass(frozen=True)
class DenserTraffic(SceneEdit):
    """More moving vehicles: copies of logged ones, some seconds earlier or later on the same path.

    A copy is kept if it has room in all of its frames, relative to the logged AV and all other agents, and neither
    appears nor disappears within 30 m of the AV. Vehicles and delays are drawn with the seed.

    Attributes:
        factor: Number of moving vehicles after the edit over that before, 1 or more, as far as there is room.

    Raises:
        InvalidArgumentError: The factor is out of range.
    """

    factor: float = 2.0

    def __post_init__(self) -> None:
        require_in_range(self, factor=(1.0, 20.0))

    def apply(self, scene: SceneArrays, setting: SceneSetting) -> SceneArrays:
        """Return the scene with the copies; see :meth:`SceneEdit.apply`."""
        finite_poses(scene)
        rng = np.random.default_rng(setting.seed)

        # the rows of each moving vehicle
        logged, labels = scene.agents, scene.agents.labels
        vehicles = [PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{name}"] for name in _VEHICLES]
        rows_of_tracks = [
            rows
            for rows in logged.rows_of_tracks()
            if np.linalg.norm(logged.centroids_m[rows[-1]] - logged.centroids_m[rows[0]]) >= _DRIVEN_M
            and labels[rows[0]] in vehicles
        ]
        if not rows_of_tracks:
            raise ImpossibleEditError("no vehicle moves in the scene, so there is none to copy")

        # boxes by frame, to which copies are added
        boxes = [boxes_of_frame(scene, frame, setting) for frame in range(scene.num_frames)]
        step_s = setting.facts.step_time_s
        frames_of_rows = parts_of_rows(logged.starts)
        agents, wanted = logged, round((self.factor - 1.0) * len(rows_of_tracks))
        next_id = next_track_id(scene, wanted)
        num_copies = 0

        # try shifted tracks until there are enough copies, or no tries left
        for _ in range(_TRIES_PER_COPY * wanted):
            if num_copies == wanted:
                break
            rows = rows_of_tracks[int(rng.integers(len(rows_of_tracks)))]
            delay = round(float(rng.uniform(*_DELAYS_S)) * float(rng.choice([-1.0, 1.0])) / step_s)
            frames = frames_of_rows[rows] + delay
            is_inside = (frames >= 0) & (frames < scene.num_frames)
            rows, frames = rows[is_inside], frames[is_inside]
            copy = boxes_of_rows(logged, rows)
            if len(frames) < 2 or not _fits(scene, boxes, frames=frames, copy=copy, logged=frames_of_rows[rows]):
                continue
            copied = Observations(
                frame_indices=frames,
                track_ids=np.full(len(rows), next_id + num_copies),
                positions_m=logged.centroids_m[rows],
                headings_rad=logged.yaws_rad[rows],
                velocities_mps=logged.velocities_mps[rows],
                sizes_m=logged.extents_m[rows],
                label_probabilities=logged.label_probabilities[rows],
            )
            agents = join_rows(agents, copied.to_agent_rows(scene.num_frames))
            for frame, box in zip(frames.tolist(), copy, strict=True):
                boxes[frame] = np.concatenate([boxes[frame], box[None]])
            num_copies += 1
        if num_copies == 0 and wanted > 0:
            raise ImpossibleEditError("there is no room for a copy of a vehicle; the traffic is too dense already")
        return replace(scene, agents=agents)


@dataclass(frozen=True)
class FewerAgents(SceneEdit):
    """Fewer agents: a share of the tracks of some classes is removed, drawn with the seed.

    Attributes:
        share: Share of the tracks to remove, above 0 and up to 1; rounded to whole tracks.
        labels: Classes, such as ``pedestrian`` or ``car``, by the most probable label in the first frame of a track;
            empty for all.

    Raises:
        InvalidArgumentError: The share is out of range, or there is no such class.
    """

    share: float = 1.0
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_in_range(self, share=(1e-6, 1.0))
        if isinstance(self.labels, str):
            raise InvalidArgumentError(
                f"FewerAgents: labels must be several names, got {self.labels!r}; ({self.labels!r},) has one"
            )
        object.__setattr__(self, "labels", tuple(self.labels))
        for label in self.labels:
            if label not in _NAMES:
                raise InvalidArgumentError(
                    f"FewerAgents: labels has {label!r}{did_you_mean(label, _NAMES)}; allowed are {', '.join(_NAMES)}"
                )

    def apply(self, scene: SceneArrays, setting: SceneSetting) -> SceneArrays:
        """Return the scene without these agents; see :meth:`SceneEdit.apply`."""
        ids, firsts = np.unique(scene.agents.track_ids, return_index=True)
        wanted = [_NAMES[label] for label in self.labels] or list(_NAMES.values())
        candidates = ids[np.isin(scene.agents.labels[firsts], wanted)]
        count = round(self.share * len(candidates))
        if count == 0:
            raise ImpossibleEditError(
                f"the scene has {len(candidates)} tracks of {', '.join(self.labels) or 'any class'}, and a share of "
                f"{self.share:g} of them is none"
            )
        removed = np.random.default_rng(setting.seed).choice(candidates, count, replace=False)
        return replace(scene, agents=take_rows(scene.agents, ~np.isin(scene.agents.track_ids, removed)))


def _fits(
    scene: SceneArrays, boxes: list[Float64Array], *, frames: Int64Array, copy: Float64Array, logged: Int64Array
) -> bool:
    """Return whether a copy has room in its frames, and appears and disappears far from the AV or as in the log.

    Args:
        scene: The scene.
        boxes: Boxes of the AV and all agents in each frame, (n, 5) each.
        frames: Frames of the copy, (m,).
        copy: Boxes of the copy, (m, 5).
        logged: Frames of the original, (m,).
    """
    last = scene.num_frames - 1
    for end, scene_end in ((0, 0), (-1, last)):
        is_new_end = frames[end] != scene_end and logged[end] in (0, last)
        apart_m = np.hypot(*(copy[end, :2] - scene.ego_positions_m[frames[end], :2]))
        if is_new_end and apart_m < _NEAR_M:
            return False
    return all(has_room(box, boxes[frame]) for frame, box in zip(frames.tolist(), copy, strict=True))
