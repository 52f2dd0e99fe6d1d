"""Validation of a dataset: problems that would make samples wrong or impossible."""

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
from zarr.core.sync import sync

from l5kit._types import BoolArray, Int64Array, Log, RecordArray
from l5kit.data.checks.block_checks import (
    BlockCheck,
    BlockSource,
    CheckBlocks,
    CheckedBlock,
    RowFaults,
    TrackRuns,
    check_agents,
    check_frames,
    check_single_records,
    find_repeated,
    find_step_faults,
    in_order,
)
from l5kit.data.checks.checksums import compare_checksums
from l5kit.data.checks.finding import Finding, FindingList, Severity
from l5kit.data.checks.record_checks import check_face_records, check_scene_records
from l5kit.data.dataset_summary import find_other_step_time
from l5kit.data.index.interval_index import IntervalIndex
from l5kit.data.index.interval_run import IntervalFault, IntervalRun
from l5kit.data.index.log_index import LogIndex, check_scenes
from l5kit.data.jobs.scene_jobs import Workers, map_scenes
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.data.layout import ARRAYS, find_wrong_field
from l5kit.data.log_facts import LogFacts
from l5kit.data.progress import Progress
from l5kit.data.records import (
    AGENT_ARRAY_KEY,
    AGENT_INTERVAL,
    FACE_INTERVAL,
    FORMAT_VERSION,
    FRAME_ARRAY_KEY,
    FRAME_INTERVAL,
    SCENE_ARRAY_KEY,
    TL_FACE_ARRAY_KEY,
)
from l5kit.data.stores.consolidated import find_stale_metadata
from l5kit.data.stores.store import describe_file
from l5kit.errors import DatasetFormatError, InvalidArgumentError

_FACES_TITLE = "traffic light faces"


def validate_dataset(
    dataset: Log,
    *,
    checksums: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    unreadable: Iterable[str] = (),
    workers: Workers = 1,
) -> list[Finding]:
    """Check every file and record of a dataset; damage becomes findings, never exceptions.

    The checks cover: files present and decodable; intervals within the arrays, ascending from 0, without gaps;
    timestamps positive and ascending in each scene by at least a millisecond; finite and plausible values; an AV that
    moves by at most 150 m/s and is upright; rotation matrices; positive extents; label probabilities; states and names
    of traffic light faces; track ids that are unique in a frame and below 2**63. Flipped bits that leave plausible
    values are found only with ``checksums``.

    Args:
        dataset: Opened :class:`~l5kit.data.zarr_dataset.ChunkedDataset`, also in memory or a view.
        checksums: Digests to compare the files with, from :func:`~l5kit.data.checks.checksums.compute_checksums`.
        progress: Called with the number of blocks checked and their total.
        unreadable: Names on disk of arrays that could not be opened; their content is not checked.
        workers: Number of threads, or an executor; see :func:`~l5kit.data.jobs.scene_jobs.map_scenes`. The findings
            do not depend on it.

    Returns:
        The first ten findings of each check and, if there are more, one with their number; errors first.
    """
    findings = FindingList()
    _check_attributes(dataset, findings)
    _Validation(dataset, findings, frozenset(unreadable), progress, workers).run()
    if checksums is not None:
        # non-regular or unreadable files are findings, too
        try:
            compare_checksums(dataset, checksums, findings, workers=workers)
        except (OSError, InvalidArgumentError) as error:
            message = f"the files cannot be compared: {error}"
            findings.add(Finding(severity="error", check="checksum", message=message))
    return findings.as_list()


class _Validation:
    """A single pass over the records of a dataset."""

    def __init__(
        self,
        dataset: Log,
        findings: FindingList,
        unreadable: frozenset[str],
        progress: Progress | None,
        workers: Workers,
    ) -> None:
        self._dataset = dataset
        self._findings = findings
        self._sources: dict[str, BlockSource] = {}
        for key, (attribute, _, _) in ARRAYS.items():
            array = getattr(dataset, attribute)
            if key in unreadable:
                continue
            if find_wrong_field(array.dtype, key) is None:
                self._sources[key] = BlockSource(array, key, findings)
            else:
                self._add("error", key, "record type", f"{key} has records of another type: {array.dtype}")
        self._total = sum(len(source.present) for source in self._sources.values())
        self._num_done = 0
        self._progress = progress
        self._workers = workers
        self._scene_index = IntervalIndex.from_blocks([])
        self._frame_index = IntervalIndex.from_blocks([])
        self._previous_frame: tuple[int, RecordArray] | None = None  # row and record
        self._reported: dict[str, BoolArray] = {}  # by target array: intervals reported so far
        self._previous_tracks = np.empty((0, 3), dtype=np.uint64)  # frame, track id, row

    def run(self) -> None:
        """Check scenes, frames, agents and faces, in this order: each determines the used rows of the next."""
        (self._scene_index,) = self._walk(
            SCENE_ARRAY_KEY, partial(check_single_records, check_scene_records), (FRAME_INTERVAL,)
        )
        self._check_intervals(SCENE_ARRAY_KEY, self._scene_index, FRAME_ARRAY_KEY)
        agent_index, face_index = self._walk(
            FRAME_ARRAY_KEY, check_frames, (AGENT_INTERVAL, FACE_INTERVAL), self._scene_index
        )
        self._check_intervals(FRAME_ARRAY_KEY, agent_index, AGENT_ARRAY_KEY)
        self._check_intervals(FRAME_ARRAY_KEY, face_index, TL_FACE_ARRAY_KEY)
        scenes, frames = self._dataset.scenes, self._dataset.frames
        has_both = {SCENE_ARRAY_KEY, FRAME_ARRAY_KEY} <= self._sources.keys()

        # intervals that samples refuse and that were not reported yet
        if has_both:
            has_faces = FACE_INTERVAL in (frames.dtype.names or ())
            of_frames = [index.bounds_of_all(len(frames)) for index in (agent_index, face_index)[: 1 + has_faces]]
            checked = check_scenes(self._dataset, self._scene_index.bounds_of_all(len(scenes)))
            index = LogIndex.check(self._dataset, checked, of_frames, {})
            runs = (
                (SCENE_ARRAY_KEY, FRAME_ARRAY_KEY, index.scenes),
                (FRAME_ARRAY_KEY, AGENT_ARRAY_KEY, index.frames),
                (FRAME_ARRAY_KEY, TL_FACE_ARRAY_KEY, index.faces),
            )
            for key, target_key, run in runs:
                if run is None or run.faults is None or target_key not in self._sources:
                    continue
                wrong = ~run.is_sound & (run.faults != IntervalFault.UNREADABLE) & ~self._reported[target_key]
                self._findings.add_where(wrong, partial(self._fault, key, run))

        # the step time of damaged frames is meaningless, and may not be readable
        if has_both and not self._findings.has_errors:
            facts: LogFacts = getattr(self._dataset, "facts", None) or LogFacts()
            other = find_other_step_time(scenes, frames, step_time_s=facts.step_time_s)
            if other is not None:
                self._add("warning", FRAME_ARRAY_KEY, "step time", other)
        self._frame_index = agent_index
        self._walk(AGENT_ARRAY_KEY, check_agents, (), agent_index)
        self._frame_index = face_index
        self._walk(TL_FACE_ARRAY_KEY, partial(check_single_records, check_face_records), (), face_index)

    def _walk(
        self,
        key: str,
        check: BlockCheck,
        interval_fields: tuple[str, ...],
        owners: IntervalIndex | None = None,
    ) -> list[IntervalIndex]:
        """Check each block of an array, and return an index for each of its interval fields."""
        intervals: list[list[tuple[int, Int64Array]]] = [[] for _ in interval_fields]
        source = self._sources.get(key)
        if source is not None:
            # a missing chunk matters only if an interval refers to its rows
            used_end = source.length if owners is None else owners.used_end(source.length)
            source.report_missing(used_end, self._findings)

            # send workers only the owners of their own blocks, which are far fewer than those of the whole log
            job, progress = CheckBlocks(source, interval_fields, check), partial(self._tell, self._num_done)
            all_owners, length = self._scene_index if owners is None else owners, source.block_length

            def brief(numbers: Int64Array) -> IntervalIndex:
                return all_owners.part(int(numbers.min()) * length, (int(numbers.max()) + 1) * length)

            for checked in map_scenes(job, source.present, self._workers, unit="chunk", progress=progress, brief=brief):
                for block in checked:
                    if block.problem:
                        source.report(self._findings, "error", "decode", block.problem, row=block.start)
                    self._report_rows(key, block.result.faults)
                    # blocks come in order, so each can be joined to the previous one
                    if block.result.ends is not None:
                        self._take_steps(block, block.result.ends)
                    if block.result.tracks is not None:
                        self._take_tracks(block.start, block.result.tracks)
                    for blocks, values in zip(intervals, block.intervals, strict=False):
                        blocks.append((block.start, values))
            self._num_done += len(source.present)
        return [IntervalIndex.from_blocks(blocks) for blocks in intervals]

    def _tell(self, num_before: int, num_done: int, _: int) -> None:
        if self._progress is not None:
            self._progress(num_before + num_done, self._total)

    def _take_steps(self, block: CheckedBlock, ends: RecordArray) -> None:
        """Report bad steps within a block of frames, and the one to its first frame."""
        steps, first = block.result.steps, block.start
        # the step across the block boundary is checked here, as neither block has both frames
        if self._previous_frame is not None:
            row, record = self._previous_frame
            with np.errstate(all="ignore"):
                joint = find_step_faults(np.array([row, first]), np.append(record, ends[:1]), self._scene_index)
            steps = tuple(faults.after(ahead) for ahead, faults in zip(joint, steps, strict=True))
        self._report_rows(FRAME_ARRAY_KEY, steps)
        self._previous_frame = first + block.num_rows - 1, ends[1:]

    def _take_tracks(self, start: int, tracks: TrackRuns) -> None:
        """Report tracks that occur twice in a frame, whose agents may begin in earlier blocks."""
        if len(tracks.first) == 0:
            return
        repeated, last = tracks.repeated, tracks.last
        frame, before = tracks.first[0, 0], self._previous_tracks
        # A frame may span several blocks: include the tracks of its earlier blocks, and report a duplicate in the block
        # of the later row.
        if len(before) and before[0, 0] == frame:
            joint = find_repeated(np.concatenate([before, tracks.first]))
            repeated = in_order(np.concatenate([repeated[repeated[:, 0] != frame], joint[joint[:, 2] >= start]]))
            if last[0, 0] == frame:
                last = np.concatenate([before, last])
        rows, message = repeated[:, 2].astype(np.int64), "the track id occurs twice in one frame"
        self._report_rows(AGENT_ARRAY_KEY, [RowFaults("error", "track id", message, rows, len(rows))])
        self._previous_tracks = last

    def _check_intervals(self, key: str, index: IntervalIndex, target_key: str) -> None:
        """Check intervals of scenes or frames against the array that they refer to."""
        target = self._sources.get(target_key)
        title = _FACES_TITLE if target_key == TL_FACE_ARRAY_KEY else target_key
        starts, stops = index.bounds[:, 0], index.bounds[:, 1]
        checks: list[tuple[str, BoolArray]] = [("ends before it starts", stops < starts)]
        if target is not None:
            outside = (starts < 0) | (stops > target.length)
            checks.append((f"is not within the {target.length} rows", outside))

        # Check gaps only between neighbours: after an unread block of parents, an interval may start anywhere.
        checks.append(("does not start at row 0", (starts != 0) & (index.parents == 0)))
        gap = np.zeros(len(starts), np.bool_)
        gap[1:] = (index.parents[1:] == index.parents[:-1] + 1) & (starts[1:] != stops[:-1])
        checks.append(("does not start where the previous one ends", gap))

        # do not report these again when runs are checked
        reported = np.zeros(len(getattr(self._dataset, ARRAYS[key].attribute)), np.bool_)
        for problem, bad in checks:
            make = partial(self._interval_finding, key, f"the interval of {title} {problem}", index)
            self._findings.add_where(bad, make)
            reported[index.parents[bad]] = True
        self._reported[target_key] = reported

        # Rows after all intervals are unused: harmless, but probably lost scenes.
        if target is not None and (used_end := index.used_end(target.length)) < target.length:
            message = f"{target.length:,} rows, but the intervals of {key} end at {used_end:,}"
            self._add("warning", target.key, "unused rows", message, row=used_end)

    def _fault(self, key: str, run: IntervalRun, row: int) -> Finding:
        return self._finding(key, ("error", "interval", run.explain(row)), row)

    def _report_rows(self, key: str, faults: Iterable[RowFaults]) -> None:
        """Add a finding for each row of an array that fails a check."""
        for fault in faults:
            make = partial(self._finding, key, (fault.severity, fault.check, fault.message))
            self._findings.add_rows(fault.rows, fault.count, make)

    def _interval_finding(self, key: str, message: str, index: IntervalIndex, position: int) -> Finding:
        """Return the finding for a bad interval."""
        message = f"{message}: {index.bounds[position].tolist()}"
        return self._finding(key, ("error", "interval", message), int(index.parents[position]))

    def _finding(self, key: str, check: tuple[Severity, str, str], row: int) -> Finding:
        """Return a finding about a row of an array, with its frame and scene."""
        severity, name, message = check
        scene = frame = None
        if key == SCENE_ARRAY_KEY:
            scene = row
        else:
            frame = row if key == FRAME_ARRAY_KEY else _owner(self._frame_index, row)
            scene = None if frame is None else _owner(self._scene_index, frame)
        return Finding(
            severity=severity,
            check=f"{key}: {name}",
            message=message,
            file=self._sources[key].file_of(row),
            scene=scene,
            frame=frame,
            row=row,
        )

    def _add(self, severity: Severity, key: str, check: str, message: str, *, row: int | None = None) -> None:
        self._findings.add(Finding(severity=severity, check=f"{key}: {check}", message=message, row=row))


def _owner(index: IntervalIndex, row: int) -> int | None:
    owner = int(index.owners(np.array([row], dtype=np.int64))[0])
    return None if owner < 0 else owner


def _check_attributes(dataset: Log, findings: FindingList) -> None:
    """Check format version, labels, facts and traffic lights of a dataset with a zarr group."""
    root = getattr(dataset, "root", None)
    if root is None:
        return
    version, labels = root.attrs.get("format_version"), root.attrs.get("labels")
    messages = []
    if version not in (None, FORMAT_VERSION):
        messages.append(f"format_version is {version!r}; this l5kit knows version {FORMAT_VERSION}")
    if labels is not None and labels != PERCEPTION_LABELS:
        messages.append(f"labels differ from those of l5kit: {labels}")
    metadata_file, array_file = ("zarr.json",) * 2 if root.metadata.zarr_format == 3 else (".zattrs", ".zarray")
    if not sync(root.store.exists(f"{TL_FACE_ARRAY_KEY}/{array_file}")):
        messages.append(
            f"there is no array {TL_FACE_ARRAY_KEY!r}: an older dataset, read as one without traffic lights"
        )
    for message in messages:
        findings.add(Finding(severity="warning", check="format", message=message))
    for key in find_stale_metadata(root, ARRAYS):
        message = (
            f"the consolidated metadata differs from {key}, so readers of the two see different rows or attributes; "
            "consolidate again, or remove it"
        )
        findings.add(
            Finding(
                severity="error", check="consolidated metadata", message=message, file=describe_file(root.store, key)
            )
        )
    try:
        LogFacts.from_attributes(root.attrs.asdict(), file=describe_file(root.store, metadata_file))
    except DatasetFormatError as error:
        findings.add(Finding(severity="error", check="format", message=str(error)))
