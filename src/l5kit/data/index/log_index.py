"""Log index: frames of each scene and rows of each frame, checked before rows are looked up.

The check is one pass over scenes and frames. Damage stays local: trusted records stay readable, and the others are
refused with an error that names them.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from l5kit._types import BoolArray, Int64Array, Log, NumericArray, RecordArray, Records
from l5kit.data.index.interval_run import IntervalFault, IntervalRun, RunTitles
from l5kit.data.record_sequence import ROWS_PER_BLOCK, passing_rows, rows_of
from l5kit.data.records import AGENT_INTERVAL, FACE_INTERVAL, FRAME_INTERVAL
from l5kit.errors import CorruptedDataError

SCENES = RunTitles("scene", FRAME_INTERVAL, "frame")
FRAMES = RunTitles("frame", AGENT_INTERVAL, "agent row")
FACES = RunTitles("frame", FACE_INTERVAL, "traffic light face row")

_ADVICE = "l5kit validate lists all that is wrong; restore the dataset from its source"
_LONGEST_STEP_NS = 1_000_000_000
"""Time difference beyond which two frames are not of one scene."""

_LARGEST_STEP_RATIO = 1.5
"""Excess of a time step over its neighbours beyond which a frame may be missing."""


@dataclass(frozen=True)
class LogIndex:
    """The intervals of a log, checked.

    Attributes:
        scenes: Intervals of the scenes, rows of the frames.
        frames: Intervals of the frames, rows of the agents.
        faces: Intervals of the frames, rows of the traffic light faces; None for a log without faces.
        num_lost_faces: Number of faces that the frames refer to although the log has none.
    """

    scenes: IntervalRun
    frames: IntervalRun
    faces: IntervalRun | None
    num_lost_faces: int = 0

    @classmethod
    def of(cls, dataset: Log) -> "LogIndex":
        """Return the index of a dataset; an unreadable file does not affect records of other files.

        Raises:
            CorruptedDataError: No scene can be read.
        """
        fields = [titles.field for titles, _ in _arrays_of_frames(dataset)]
        bounds, read_errors = _read_intervals(dataset.frames, fields)
        return cls.check(dataset, check_scenes(dataset), bounds, read_errors)

    @classmethod
    def check(
        cls, dataset: Log, scenes: IntervalRun, of_frames: Sequence[Int64Array], read_errors: dict[int, str]
    ) -> "LogIndex":
        """Return the index of a dataset whose intervals were read before.

        Args:
            dataset: An opened dataset.
            scenes: Frames of the scenes, checked.
            of_frames: Agent rows of each frame, (F, 2), and traffic light faces likewise if frames have them; (-1, -1)
                for unreadable frames.
            read_errors: Errors of unreadable blocks of frames, by their first frame.
        """
        # frames after the last scene are unused, as in a preallocated log
        num_used = int(scenes.bounds[scenes.is_sound, 1].max(initial=0))
        runs = [
            IntervalRun.check(
                titles,
                bounds,
                len(array),
                is_break=partial(_are_blank, array),
                goes_on=partial(_goes_on_in_time, dataset.frames),
                num_used=num_used,
                read_errors=read_errors,
            )
            for (titles, array), bounds in zip(_arrays_of_frames(dataset), of_frames, strict=True)
        ]
        if len(runs) == 1:
            return cls(scenes, runs[0], None)
        if len(dataset.tl_faces) == 0:
            return cls(scenes, runs[0], None, num_lost_faces=int(of_frames[1].max(initial=0)))
        return cls(scenes, runs[0], runs[1])

    def without_faces(self) -> "LogIndex":
        """Return the index for samples without traffic lights."""
        return LogIndex(self.scenes, self.frames, None)

    @property
    def is_plain(self) -> bool:
        """Whether there is no fault and each frame belongs to a scene, so that the ends of scenes determine it."""
        return self.scenes.is_plain and not self._runs_of_frames

    @property
    def is_sound(self) -> bool:
        """Whether there is no fault."""
        return self.scenes.faults is None and not self._runs_of_frames

    @property
    def _runs_of_frames(self) -> list[IntervalRun]:
        """Damage of frames, if any."""
        return [run for run in (self.frames, self.faces) if run is not None and run.faults is not None]

    def find_scenes(self, frames: Int64Array) -> Int64Array:
        """Return the scene of each frame (N,).

        Raises:
            CorruptedDataError: A frame belongs to none.
        """
        scenes = self.scenes.owners(frames)
        if (scenes < 0).any():
            raise CorruptedDataError(f"{self.scenes.explain_row(int(frames[scenes < 0][0]))}; {_ADVICE}")
        return scenes

    def find_frames(self, agent_rows: Int64Array) -> Int64Array:
        """Return the frame of each agent row (N,).

        Raises:
            CorruptedDataError: A row belongs to none.
        """
        frames = self.frames.owners(agent_rows)
        if (frames < 0).any():
            row = int(agent_rows[frames < 0][0])
            suspect = self.frames.suspect(row)
            scene = "" if suspect is None else self._in_its_scene(suspect)
            raise CorruptedDataError(f"{scene}{self.frames.explain_row(row)}; {_ADVICE}")
        return frames

    def require_scenes(self, scenes: Int64Array) -> None:
        """Refuse untrusted scenes (N,).

        Raises:
            CorruptedDataError: The intervals of one are wrong, or may be.
        """
        if self.scenes.faults is None:
            return
        wrong = scenes[self.scenes.faults[scenes] > 0]
        if len(wrong):
            raise CorruptedDataError(f"{self.scenes.explain(int(wrong[0]))}; {_ADVICE}")

    def require_frames(self, starts: Int64Array, stops: Int64Array) -> None:
        """Refuse ranges of frames (N,) with an untrusted one.

        Raises:
            CorruptedDataError: The intervals of a frame are wrong, or may be.
        """
        for run in self._runs_of_frames:
            touched = np.flatnonzero(run.has_wrong(starts, stops))
            if len(touched):
                frames = slice(int(starts[touched[0]]), int(stops[touched[0]]))
                frame = frames.start + int(np.argmin(run.is_sound[frames]))
                raise CorruptedDataError(f"{self._in_its_scene(frame)}{run.explain(frame)}; {_ADVICE}")

    def require_scene(self, scene: int) -> None:
        """Refuse an untrusted scene, or one with an untrusted frame.

        Raises:
            CorruptedDataError: Intervals of the scene or of a frame are wrong, or may be.
        """
        self.require_scenes(np.array([scene]))
        self.require_frames(*self.scenes.bounds[[scene]].T)

    def is_scene_sound(self) -> BoolArray:
        """Return whether each scene and all its frames are trusted, (S,)."""
        sound = self.scenes.is_sound
        bounds = np.where(sound[:, None], self.scenes.bounds, 0)
        for run in self._runs_of_frames:
            sound = sound & ~run.has_wrong(bounds[:, 0], bounds[:, 1])
        return sound

    def explain_scene(self, scene: int) -> str:
        """Return in words the damage of a scene, or of the first of its untrusted frames."""
        try:
            self.require_scene(scene)
        except CorruptedDataError as error:
            return str(error)
        return f"scene {scene} is as it should be"

    def summary(self) -> str:
        """Return in words how much of a damaged log can be read, and its first fault."""
        wrong = np.flatnonzero(~self.is_scene_sound())
        if len(wrong) == 0:
            # frames that belong to no scene, and the fault of the first untrusted one
            num_unowned = np.count_nonzero(self.scenes.owners(np.arange(self.scenes.length)) < 0)
            fault, runs = "", self._runs_of_frames
            if runs:
                run = min(runs, key=lambda run: int(np.argmin(run.is_sound)))
                fault = f" ({run.explain(int(np.argmin(run.is_sound)))})"
            return f"{num_unowned} frames belong to no scene{fault}"
        shown = ", ".join(str(scene) for scene in wrong[:5].tolist()) + (", ..." if len(wrong) > 5 else "")
        text = self.explain_scene(int(wrong[0])).removesuffix(f"; {_ADVICE}")
        return f"{len(wrong)} of {len(self.scenes)} scenes are damaged ({shown}): {text}"

    def _in_its_scene(self, frame: int) -> str:
        scene = int(self.scenes.owners(np.array([frame]))[0])
        return "" if scene < 0 else f"scene {scene}, frame {frame - int(self.scenes.bounds[scene, 0])} of it: "


def require_readable_scene(dataset: Log, scene: int) -> None:
    """Refuse an untrusted scene, or one with an untrusted frame.

    This is the check of :class:`LogIndex` for readers of a single scene. An empty scene before unowned frames passes,
    although its interval may have lost them, as it has no frames that could be wrong.

    Args:
        dataset: An opened dataset.
        scene: The scene, not negative.

    Raises:
        CorruptedDataError: A file is damaged or missing, or an interval is wrong or may be.
    """
    run = check_scenes(dataset)
    start, stop = run.bounds[scene].tolist()
    if not run.is_sound[scene] and run.fault(scene) != IntervalFault.EMPTY:
        raise CorruptedDataError(f"{run.explain(scene)}; {_ADVICE}")
    if start == stop:
        return
    own = rows_of(dataset.frames, slice(start, stop), strict=True)
    for titles, array in _arrays_of_frames(dataset):
        if titles is FACES and len(array) == 0:
            continue
        around = _check_some(titles, dataset.frames, own[titles.field], start, array)
        frames = start - around.origin[0] + np.arange(stop - start)
        wrong = frames[~around.is_sound[frames]]
        falls = np.flatnonzero(own[titles.field][1:, 0] < own[titles.field][:-1, 1])
        if len(wrong):
            frame, reason = int(wrong[0]) - int(frames[0]), around.explain(int(wrong[0]))
        elif len(falls):  # empty frames that are consistent with frames of other scenes, which are then the wrong ones
            frame = int(falls[0]) + 1
            reason = f"{titles.field} of {titles.record} {start + frame} starts before the previous one ends"
        else:
            continue
        raise CorruptedDataError(f"scene {scene}, frame {frame} of it: {reason}; {_ADVICE}")


def _check_some(titles: RunTitles, frames: Records, intervals: NumericArray, start: int, array: Records) -> IntervalRun:
    """Return the run of some frames and their neighbours, the first of which is assumed to start at the right row.

    Args:
        titles: Names of the parts in messages.
        frames: All frames.
        intervals: The intervals of some successive frames, (F, 2).
        start: Index of the first of these.
        array: Array of the rows.
    """
    stop, length = start + len(intervals), len(array)
    before, behind = (_interval_at(frames, frame, titles.field) for frame in (start - 1, stop))
    if _is_empty_elsewhere(before, intervals[0]):
        before = before[:0]
    if _is_empty_elsewhere(behind, intervals[-1]):
        behind = behind[:0]
    if not ((before >= 0) & (before <= length) & (before[:, :1] <= before[:, 1:])).all():
        before = before[:0]  # it is the wrong one
    # the frames on both sides decide conflicts about the outer borders
    bounds = np.concatenate([before, intervals.astype(np.int64), behind])
    end = length if stop == len(frames) else min(length, int(bounds[:, 1].max(initial=0)))
    first_row = int(np.clip(bounds[0, 0], 0, length)) if start > 0 else 0
    first = start - len(before)
    return IntervalRun.check(
        titles,
        bounds,
        end,
        is_break=partial(_are_blank, array),
        goes_on=lambda ahead, behind: _goes_on_in_time(frames, ahead + first, behind + first),
        origin=(first, first_row),
    )


def _is_empty_elsewhere(beside: Int64Array, own: NumericArray) -> bool:
    """Return whether an interval (1, 2) next to a filled one is empty and not adjacent to it.

    Only later intervals of the log show which of the two is wrong, often the empty one.
    """
    is_empty = beside[:, 0] == beside[:, 1]
    return bool((is_empty & (own[0] < own[1]) & (beside[:, 0] != own[0]) & (beside[:, 0] != own[1])).any())


def _interval_at(frames: Records, frame: int, field: str) -> Int64Array:
    """Return the interval of one frame, (1, 2), (-1, -1) if it is unreadable; (0, 2) if there is no such frame."""
    if not 0 <= frame < len(frames):
        return np.empty((0, 2), np.int64)
    try:
        return rows_of(frames, slice(frame, frame + 1), strict=True)[field].astype(np.int64)
    except CorruptedDataError:
        return np.full((1, 2), -1, np.int64)


def require_readable_log(dataset: Log, *, has_all_frames: bool = False) -> None:
    """Refuse a log with untrusted scenes or frames; warn of one with frames that belong to no scene.

    Args:
        dataset: An opened dataset.
        has_all_frames: Refuse a log with frames that belong to no scene, too.

    Raises:
        CorruptedDataError: A file of scenes or of their frames is damaged, or an interval is wrong or may be.
    """
    index, path = LogIndex.of(dataset), dataset.path or "a log in memory"
    if not index.is_scene_sound().all() or (has_all_frames and not index.scenes.is_plain):
        raise CorruptedDataError(f"{path!r} is damaged: {index.summary()}; {_ADVICE}")
    if index.num_lost_faces:
        raise CorruptedDataError(
            f"{path!r} has no traffic light faces, although its frames name {index.num_lost_faces} of them; {_ADVICE}"
        )
    if not index.scenes.is_plain:
        warnings.warn(f"{path!r}: {index.summary()}, and are left out", RuntimeWarning, stacklevel=3)


def check_scenes(
    dataset: Log, bounds: Int64Array | None = None, read_errors: dict[int, str] | None = None
) -> IntervalRun:
    """Return the intervals of the scenes of a dataset, checked.

    Args:
        dataset: An opened dataset.
        bounds: The intervals, if they were read before, (S, 2); (-1, -1) for unreadable scenes.
        read_errors: Errors of unreadable blocks of scenes, by their first scene.

    Raises:
        CorruptedDataError: No scene can be read.
    """
    if bounds is None:
        (bounds,), read_errors = _read_intervals(dataset.scenes, [SCENES.field])
    if read_errors and (bounds == -1).all():
        raise CorruptedDataError(next(iter(read_errors.values())))
    is_break = partial(_are_breaks_in_time, dataset.frames)
    return IntervalRun.check(SCENES, bounds, len(dataset.frames), is_break=is_break, read_errors=read_errors)


def _arrays_of_frames(dataset: Log) -> list[tuple[RunTitles, Records]]:
    """Return the arrays whose rows the frames refer to."""
    arrays = [(FRAMES, dataset.agents), (FACES, dataset.tl_faces)]
    return [(titles, array) for titles, array in arrays if titles.field in (dataset.frames.dtype.names or ())]


def _read_intervals(array: Records, fields: list[str]) -> tuple[list[Int64Array], dict[int, str]]:
    """Return some interval fields of all records, (N, 2) each, and the errors of unreadable blocks of records.

    The intervals of unreadable records are (-1, -1).
    """
    columns: list[Int64Array] = [np.full((len(array), 2), -1, np.int64) for _ in fields]
    errors: dict[int, str] = {}
    for start, records in readable_blocks(array, errors):
        for field, column in zip(fields, columns, strict=True):
            column[start : start + len(records)] = records[field]
    return columns, errors


def readable_blocks(array: Records, errors: dict[int, str]) -> Iterator[tuple[int, RecordArray]]:
    """Yield first row and rows of all readable blocks of an array of a dataset, without keeping any.

    Args:
        array: NumPy array, or array of an opened dataset.
        errors: Receives the errors of the other blocks, by their first row.
    """
    chunk_length = getattr(array, "chunks", (ROWS_PER_BLOCK,))[0]
    for start, stop in _ranges(0, len(array), ROWS_PER_BLOCK):
        try:
            yield start, passing_rows(array, start, stop)
        except CorruptedDataError:
            for low, high in _ranges(start, stop, chunk_length):
                try:
                    yield low, passing_rows(array, low, high)
                except CorruptedDataError as error:
                    errors[low] = str(error)


def _ranges(start: int, stop: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges into which multiples of a length cut [start, stop)."""
    while start < stop:
        end = min(stop, start - start % length + length)
        yield start, end
        start = end


def _are_breaks_in_time(frames: Records, rows: Int64Array) -> BoolArray:
    """Return at which frames (N,) the time does not continue from the previous frame as within a scene."""
    breaks = np.ones(len(rows), np.bool_)
    for index, row in enumerate(rows.tolist()):
        if 0 < row < len(frames):
            try:
                before, after = rows_of(frames, slice(row - 1, row + 1), strict=True)["timestamp"].tolist()
            except CorruptedDataError:
                breaks[index] = False
            else:
                breaks[index] = not 0 < after - before <= _LONGEST_STEP_NS
    return breaks


def _goes_on_in_time(frames: Records, before: Int64Array, behind: Int64Array) -> BoolArray:
    """Return where the time continues between two frames, (N,) each, in steps like the neighbouring ones."""
    goes_on = np.zeros(len(before), np.bool_)
    for index, (first, last) in enumerate(zip(before.tolist(), behind.tolist(), strict=True)):
        around = slice(max(0, first - 1), min(len(frames), last + 2))
        with suppress(CorruptedDataError):
            # times of both frames, all in between and one on each side, whose steps show what is usual
            steps_ns = np.diff(rows_of(frames, around, strict=True)["timestamp"])
            between = slice(first - around.start, last - around.start)
            inside_ns, beside_ns = steps_ns[between], np.delete(steps_ns, between)
            usual_ns = beside_ns[(beside_ns > 0) & (beside_ns <= _LONGEST_STEP_NS)].min(initial=_LONGEST_STEP_NS)
            is_known = usual_ns < _LONGEST_STEP_NS
            goes_on[index] = is_known and inside_ns.min() > 0 and inside_ns.max() <= _LARGEST_STEP_RATIO * usual_ns
    return goes_on


def _are_blank(array: Records, rows: Int64Array) -> BoolArray:
    """Return which rows (N,) are all zeros, like rows that were never written."""
    blank = np.zeros(len(rows), np.bool_)
    for index, row in enumerate(rows.tolist()):
        if 0 <= row < len(array):
            with suppress(CorruptedDataError):
                blank[index] = not any(rows_of(array, slice(row, row + 1), strict=True).tobytes())
    return blank
