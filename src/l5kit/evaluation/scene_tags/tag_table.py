"""Table of tags: for each scene what happens in it, and in which frames."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, Int64Array, JsonObject
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes, require_starts
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.scene_tags.tag_kinds import TAG_KINDS

_COLUMN_OF = {kind.name: column for column, kind in enumerate(TAG_KINDS)}


@dataclass(frozen=True, eq=False)
class SceneTags(ReadOnlyArrays):
    """The T tags of :data:`TAG_KINDS` of S scenes.

    Attributes:
        scenes: Number of each scene in its dataset, int64 (S,).
        is_known: Whether each tag could be told: not of damaged scenes, and some not without a map, bool (S, T).
        starts: First of the ``frames`` of each scene and tag, scene by scene, and the end of the last one, int64
            (S * T + 1,).
        frames: First frame of each event, counted in its scene, and the one behind its last, int64 (E, 2).
        errors: What is wrong with a damaged scene, by its number.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    scenes: Int64Array
    is_known: BoolArray
    starts: Int64Array
    frames: Int64Array
    errors: dict[int, str]

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = (len(self.scenes), len(TAG_KINDS))
        require_shapes(self, is_known=shape, frames=(len(self.frames), 2))
        require_starts(self, "starts", num_parts=shape[0] * shape[1], end=len(self.frames))

    @classmethod
    def of_rows(
        cls, scenes: Sequence[int] | Int64Array, rows: Sequence[dict[str, Int64Array]], errors: dict[int, str]
    ) -> "SceneTags":
        """Return the table of scenes.

        Args:
            scenes: Their numbers.
            rows: Frames (n, 2) of the events of each tag that is known, by name, for each scene.
            errors: As above.
        """
        none = np.zeros((0, 2), np.int64)
        parts = [row.get(name, none) for row in rows for name in _COLUMN_OF]
        known = [[name in row for name in _COLUMN_OF] for row in rows]
        return cls(
            scenes=np.array(scenes, np.int64),
            is_known=np.array(known, np.bool_).reshape(-1, len(TAG_KINDS)),
            starts=np.cumsum([0, *map(len, parts)], dtype=np.int64),
            frames=np.concatenate([none, *parts]),
            errors=dict(errors),
        )

    def __len__(self) -> int:
        return len(self.scenes)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, T."""
        return tuple(_COLUMN_OF)

    @property
    def counts(self) -> Int64Array:
        """How often each tag happens in each scene, 0 where it is not known, int64 (S, T)."""
        counts: Int64Array = np.diff(self.starts).reshape(self.is_known.shape)
        return counts

    def has(self, name: str) -> BoolArray:
        """Return which scenes have a tag, False where it is not known, bool (S,).

        Raises:
            InvalidArgumentError: There is no such tag.
        """
        return self.counts[:, _column(name)] > 0

    def frames_of(self, row: int, name: str) -> Int64Array:
        """Return the first frame of each event and the one behind its last, (n, 2).

        Args:
            row: Of the table, 0 to S - 1.
            name: A tag.

        Raises:
            InvalidArgumentError: There is no such tag.
        """
        cell = row * len(TAG_KINDS) + _column(name)
        return self.frames[self.starts[cell] : self.starts[cell + 1]]

    def as_json(self) -> JsonObject:
        """Return the table as JSON holds it: names and labels of the tags, and for each scene its events by name.

        ``unknown`` names the tags that could not be told of a scene, for scenes with such tags.
        """
        unknown = {
            str(scene): [name for name, known in zip(self.names, row, strict=True) if not known]
            for scene, row in zip(self.scenes.tolist(), self.is_known.tolist(), strict=True)
            if not all(row)
        }
        scenes = {
            str(scene): {name: events.tolist() for name in self.names if len(events := self.frames_of(row, name))}
            for row, scene in enumerate(self.scenes.tolist())
        }
        return {
            "tags": [{"name": kind.name, "label": kind.label, "needs_map": kind.needs_map} for kind in TAG_KINDS],
            "scenes": scenes,
            "unknown": unknown,
            "error": {str(scene): text for scene, text in self.errors.items()},
        }


def _column(name: str) -> int:
    """Return the column of a tag."""
    if name not in _COLUMN_OF:
        raise InvalidArgumentError(f"there is no tag {name!r}; there are {', '.join(_COLUMN_OF)}")
    return _COLUMN_OF[name]
