"""Track table: all tracks of the scenes of a batch, with class and logged frames."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Int64Array, NumericArray
from l5kit.configs.texts import did_you_mean
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes, require_starts
from l5kit.data.index.track_ids import number_tracks
from l5kit.data.records import AGENT_INTERVAL
from l5kit.data.scene_records import SceneRecords
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.road_users import RoadUserGroup, class_of_row, groups_of_labels

Classes = Literal["cars", "vehicles", "all"]
"""Cars by the label of each row, as in L5Kit 1.5; all vehicles, or all road users, by the class of the track."""

CLASSES: tuple[str, ...] = get_args(Classes)


def require_classes(name: str, value: str) -> None:
    """Refuse an argument that is not one of ``CLASSES``.

    Raises:
        InvalidArgumentError: The value is not one of ``CLASSES``.
    """
    if value not in CLASSES:
        raise InvalidArgumentError(
            f"{name} is {value!r}{did_you_mean(value, CLASSES)}; it must be one of {', '.join(CLASSES)}"
        )


@dataclass(frozen=True, eq=False)
class TrackTable(ReadOnlyArrays):
    """The T tracks of S scenes, one scene after the other, sorted by id within each.

    Attributes:
        starts: First track of each scene and the end of the last one, int64 (S + 1,).
        track_ids: Track ids of the log, uint64 (T,).
        groups: Most frequent ``RoadUserGroup`` of the rows of a track, ignoring NONE; NONE without others, int64 (T,).
        first_frames: First frame of the scene that has the track, int64 (T,).
        last_frames: Last frame of the scene that has the track, int64 (T,).

    Raises:
        InvalidArgumentError: The shapes do not match.
    """

    starts: Int64Array
    track_ids: NumericArray
    groups: Int64Array
    first_frames: Int64Array
    last_frames: Int64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        size = (len(self.track_ids),)
        require_shapes(self, groups=size, first_frames=size, last_frames=size)
        require_starts(self, "starts", num_parts=len(self.starts) - 1, end=len(self.track_ids))

    @classmethod
    def of_scenes(cls, scenes: Sequence[SceneRecords], *, threshold: float = 0.5) -> "TrackTable":
        """Return the tracks of scenes.

        Args:
            scenes: S scenes.
            threshold: A row has a class if the probability of its label is above this.
        """
        # ids, groups, first and last frames of the tracks of each scene
        parts: list[tuple[NumericArray, Int64Array, Int64Array, Int64Array]] = []
        for scene in scenes:
            ids, track_indices = number_tracks(scene.agents["track_id"])
            first_frames = np.full(len(ids), len(scene.frames), np.int64)
            last_frames = np.full(len(ids), -1, np.int64)
            counts = np.zeros((len(ids), len(RoadUserGroup) - 1), np.int64)
            probabilities, extents_m = scene.agents["label_probabilities"], scene.agents["extent"]
            for column in (probabilities, extents_m):
                column.setflags(write=False)  # so that the kernel is compiled for one type only
            _note_rows(
                np.ascontiguousarray(scene.frames[AGENT_INTERVAL]),
                track_indices,
                (probabilities, extents_m),
                (groups_of_labels(), float(np.float32(threshold))),
                first_frames,
                last_frames,
                counts,
            )
            groups = np.where(counts.any(axis=1), counts.argmax(axis=1), int(RoadUserGroup.NONE))
            parts.append((ids, groups, first_frames, last_frames))

        # concatenated over all scenes
        starts = np.cumsum([0, *(len(part[0]) for part in parts)], dtype=np.int64)
        columns = [np.concatenate(each) for each in zip(*parts, strict=True)]
        if not columns:
            none = np.zeros(0, np.int64)
            return cls(starts, none.astype(np.uint64), none, none.copy(), none.copy())
        return cls(starts, *columns)

    def __len__(self) -> int:
        return len(self.track_ids)

    @property
    def scenes_of_tracks(self) -> Int64Array:
        """Scene of each track, (T,)."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def is_of(self, *groups: RoadUserGroup) -> BoolArray:
        """Return the mask of tracks of some groups, (T,)."""
        return np.isin(self.groups, groups)

    def is_of_classes(self, classes: Classes) -> BoolArray:
        """Return the mask of tracks of some classes, (T,); all of them for ``cars``, which is decided by row."""
        if classes == "cars":
            return np.ones(len(self), np.bool_)
        if classes == "vehicles":
            return self.is_of(RoadUserGroup.VEHICLE)
        return ~self.is_of(RoadUserGroup.NONE)


@kernel_jit
def _note_rows(
    intervals: Int64Array,
    track_indices: Int64Array,
    columns: tuple[NumericArray, NumericArray],
    classes: tuple[Int64Array, float],
    first_frames: Int64Array,
    last_frames: Int64Array,
    counts: Int64Array,
) -> None:
    """Record first and last frames of tracks, and count their rows of each group."""
    probabilities, extents_m = columns
    for frame in range(len(intervals)):
        for row in range(intervals[frame, 0], intervals[frame, 1]):
            track = track_indices[row]
            first_frames[track] = min(first_frames[track], frame)
            last_frames[track] = max(last_frames[track], frame)
            _, group, _ = class_of_row(row, probabilities, extents_m, classes[0], classes[1])
            if group >= 0:
                counts[track, group] += 1
