"""Scene views: some scenes of a dataset, random parts of it, or the first frames of its scenes, without copying it."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from l5kit._types import Int64Array, RecordArray, Records
from l5kit.data.log_index import check_scenes
from l5kit.data.record_sequence import require_within, rows_of
from l5kit.data.record_view import Segments, view_of
from l5kit.data.records import AGENT_INTERVAL, FACE_INTERVAL, FRAME_INTERVAL
from l5kit.errors import CorruptedDataError, InvalidArgumentError

if TYPE_CHECKING:
    from l5kit.data.zarr_dataset import ChunkedDataset

_SUM_TOLERANCE = 1e-9
_CHILD_INTERVALS = {"agents": AGENT_INTERVAL, "tl_faces": FACE_INTERVAL}


def view_of_scenes(dataset: "ChunkedDataset", scene_indices: Int64Array) -> "ChunkedDataset":
    """Return a view of some scenes of a dataset, in the given order, with all interval fields shifted.

    Args:
        dataset: Opened dataset.
        scene_indices: The scenes, (N,), not negative. Consecutive ones are kept in one piece.

    Raises:
        CorruptedDataError: Intervals of these scenes are wrong, or a file that holds them is damaged.
    """
    indices = np.asarray(scene_indices, dtype=np.int64)
    intervals = _scene_intervals(dataset, indices)
    # scenes that follow each other, and whose frames do, are one piece: a view looks its rows up among few ranges
    breaks = (np.diff(indices) != 1) | (intervals[1:, 0] != intervals[:-1, 1])
    first = np.concatenate(([0], np.flatnonzero(breaks) + 1)) if len(indices) else np.empty(0, dtype=np.int64)
    last = np.concatenate((first[1:], [len(indices)])) - 1 if len(indices) else first
    frames = np.stack([intervals[first, 0], intervals[last, 1]], axis=1)
    scenes = np.stack([indices[first], indices[last] + 1], axis=1)
    shifts = {FRAME_INTERVAL: _new_starts(frames) - frames[:, 0]}
    return dataset.in_memory(
        scenes=view_of([dataset.scenes], _segments(scenes, shifts), "scenes"),
        **_frame_views(dataset, frames),
        facts=dataset.own_facts,
    )


def view_of_first_frames(dataset: "ChunkedDataset", num_frames: int) -> "ChunkedDataset":
    """Return a view of the first frames of every scene of a dataset; host and times of the scenes stay.

    Args:
        dataset: Opened dataset.
        num_frames: Frames of each scene; a scene with fewer keeps them all.

    Raises:
        CorruptedDataError: Intervals of scenes are wrong, or a file that holds them is damaged.
    """
    frames = _scene_intervals(dataset, np.arange(len(dataset.scenes)))
    frames[:, 1] = np.minimum(frames[:, 1], frames[:, 0] + num_frames)
    scenes = np.array(rows_of(dataset.scenes, slice(0, len(dataset.scenes)), strict=True))
    starts = _new_starts(frames)
    scenes[FRAME_INTERVAL] = np.stack([starts, starts + frames[:, 1] - frames[:, 0]], axis=1)
    return dataset.in_memory(scenes=scenes, **_frame_views(dataset, frames), facts=dataset.own_facts)


def split_scenes(dataset: "ChunkedDataset", fractions: Sequence[float], *, seed: int = 0) -> "list[ChunkedDataset]":
    """Return views of disjoint, randomly chosen scenes of a dataset, without copying it.

    Args:
        dataset: Opened dataset.
        fractions: Share of the scenes in each view, such as ``(0.9, 0.1)``; each above 0, together at most 1.
        seed: Decides which scenes; the same seed, fractions and number of scenes give the same views.

    Returns:
        One view for each fraction, with its scenes in the order of the dataset. If the fractions add up to 1, every
        scene is in one of them.

    Raises:
        InvalidArgumentError: A fraction is not above 0, they add up to more than 1, or a view would have no scene.
    """
    shares = np.asarray(fractions, dtype=np.float64)
    if shares.ndim != 1 or len(shares) == 0 or not (shares > 0).all() or shares.sum() > 1 + _SUM_TOLERANCE:
        raise InvalidArgumentError(f"fractions must be above 0 and add up to at most 1, got {fractions!r}")
    num_scenes = len(dataset.scenes)
    # rounded where the shares add up to, not share by share, so that all together lose no scene
    bounds = np.concatenate(([0], np.floor(np.cumsum(shares) * num_scenes + 0.5))).astype(np.int64)
    if not (np.diff(bounds) > 0).all():
        raise InvalidArgumentError(
            f"fractions {fractions!r} of {num_scenes} scenes give {np.diff(bounds).tolist()} scenes; "
            "each must be at least one: use larger fractions or more scenes"
        )
    order = np.random.default_rng(seed).permutation(num_scenes)
    return [view_of_scenes(dataset, np.sort(order[start:stop])) for start, stop in pairwise(bounds)]


def _scene_intervals(dataset: "ChunkedDataset", scene_indices: Int64Array) -> Int64Array:
    """Return a copy of the frame intervals of some scenes, (N, 2), all as they should be."""
    run = check_scenes(dataset)
    wrong = scene_indices[~run.is_sound[scene_indices]]
    if len(wrong):
        raise CorruptedDataError(
            f"{run.explain(int(wrong[0]))}; leave this scene out, or restore the dataset from its source "
            "(l5kit validate lists all that is wrong)"
        )
    return run.bounds[scene_indices]


def _frame_views(dataset: "ChunkedDataset", frames: Int64Array) -> dict[str, Records]:
    """Return views of the frames in ranges (S, 2), and of what they hold."""
    views, shifts = {}, {}
    filled = frames[:, 1] > frames[:, 0]
    opening = _records_at(dataset.frames, frames[filled, 0])
    closing = _records_at(dataset.frames, frames[filled, 1] - 1)
    for attribute, field in _CHILD_INTERVALS.items():
        ranges = np.zeros_like(frames)
        if field in (opening.dtype.names or ()):
            ranges[filled] = np.stack([opening[field][:, 0], closing[field][:, 1]], axis=1)
        array = getattr(dataset, attribute)
        is_wrong = (ranges[:, 0] < 0) | (ranges[:, 1] < ranges[:, 0]) | (ranges[:, 1] > len(array))
        if is_wrong.any():
            require_within(array, slice(*ranges[int(np.argmax(is_wrong))].tolist()))

        # intervals count from the start of the view: where a range is now, less where it had been
        shifts[field] = _new_starts(ranges) - ranges[:, 0]
        views[attribute] = view_of([array], _segments(ranges, {}), attribute)
    return {"frames": view_of([dataset.frames], _segments(frames, shifts), "frames"), **views}


def _records_at(frames: Records, rows: Int64Array) -> RecordArray:
    """Return single frames; a file that is missing is an error."""
    records = np.zeros(len(rows), dtype=frames.dtype)
    for position in np.argsort(rows, kind="stable"):
        row = int(rows[position])
        records[position] = rows_of(frames, slice(row, row + 1), strict=True)[0]
    return records


def _new_starts(ranges: Int64Array) -> Int64Array:
    """Return where each of some ranges (S, 2) starts when they are strung together."""
    lengths = ranges[:, 1] - ranges[:, 0]
    starts: Int64Array = np.cumsum(lengths) - lengths
    return starts


def _segments(ranges: Int64Array, shifts: dict[str, Int64Array]) -> Segments:
    return Segments(np.zeros(len(ranges), dtype=np.int64), ranges[:, 0].copy(), ranges[:, 1].copy(), shifts)
