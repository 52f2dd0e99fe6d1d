"""Reader of the Waymo Open Motion Dataset, from its TFRecord files of scenarios."""

import re
from dataclasses import dataclass
from itertools import groupby, repeat
from pathlib import Path, PurePosixPath

import numpy as np
from google.protobuf.message import DecodeError

from l5kit.errors import CorruptedDataError, DatasetNotFoundError
from l5kit.readers.motion import steps_seen
from l5kit.readers.reader import SceneRef, SourceInfo, naming_source
from l5kit.readers.scenario_tracks import ScenarioTracks
from l5kit.readers.source_bounds import (
    FURTHEST_FROM_AV_M,
    FURTHEST_M,
    GREATEST_ANGLE_RAD,
    GREATEST_SIZE_M,
    GREATEST_SPEED_MPS,
    as_times_ns,
)
from l5kit.readers.source_scene import LightState, SourceLights, SourceScene
from l5kit.readers.tfrecord import RecordSpan, list_records, read_record
from l5kit.readers.womd_map import read_map
from l5kit.readers.womd_rows import BOOL, DOUBLE, FLOAT, RowSchema, read_rows
from l5kit.readers.womd_scenario_pb2 import Scenario, Track

_SPLIT = re.compile(r"(?:^|_)((?:training|validation|testing)(?:_interactive|_20s)?)$")

_START_NS = 1_000_000_000
"""Start time of scenarios, as 0 is not a valid time of a log."""

_CLASSES = {
    "unset": "PERCEPTION_LABEL_UNKNOWN",
    "vehicle": "PERCEPTION_LABEL_CAR",
    "pedestrian": "PERCEPTION_LABEL_PEDESTRIAN",
    "cyclist": "PERCEPTION_LABEL_CYCLIST",
    "other": "PERCEPTION_LABEL_UNKNOWN",
}
"""Name of each number of ``object_type``, and its label."""

_INFO = SourceInfo(
    dataset="Waymo Open Motion Dataset",
    version="unknown",
    licence=(
        "Waymo Dataset License Agreement for Non-Commercial Use (waymo.com/open/terms), which also covers what is "
        "made from it; name the Waymo Open Dataset and Waymo LLC"
    ),
    step_time_s=0.1,
    label_mapping=_CLASSES,
    missing=(
        "Location and date of a scenario: each has its own frame, and times relative to its start.",
        "Which vehicles are trucks, buses or motorcycles: all are cars.",
        "Colours and kinds of painted lines and road edges, other than as boundaries of lanes.",
        "Single bulbs of traffic lights: one state for a lane, arrows like others; flashing red is red, and flashing "
        "yellow is yellow.",
        "Whether a solid line forbids changing to a neighbouring lane.",
    ),
    made_up=(
        "Boundaries where none is given or it is on the wrong side: the width of nearby points, or half a default "
        "width if a side has none at all.",
        "A start of each scenario one second after the beginning of 1970.",
        "The ground below the AV: half its height below the centre of its box.",
        "Poses of the AV in steps in which it is not seen, by interpolation.",
        "Junctions, if no lane is marked as part of one: lanes that diverge, merge or cross another.",
        "Stop lines of lights without a stop point: where their lane begins.",
    ),
)

_STATES = (
    LightState.UNKNOWN,
    LightState.RED,  # arrow stop
    LightState.YELLOW,  # arrow caution
    LightState.GREEN,  # arrow go
    LightState.RED,
    LightState.YELLOW,
    LightState.GREEN,
    LightState.RED,  # flashing stop
    LightState.YELLOW,  # flashing caution
)
"""Light state of each number of ``state``; greater numbers are unknown."""


_COLUMNS = RowSchema(3, (*zip(range(2, 5), repeat(DOUBLE)), *zip(range(5, 11), repeat(FLOAT)), (11, BOOL)))
"""Columns of the states of a track, and the validity."""

_CENTRE, _SIZE, _HEADING, _VELOCITY, _VALID = slice(0, 3), slice(3, 6), 6, slice(7, 9), 9
_NAMES = ("center_x", "center_y", "center_z", "length", "width", "height", "heading", "velocity_x", "velocity_y")
_GREATEST = np.array([*[FURTHEST_FROM_AV_M] * 3, *[GREATEST_SIZE_M] * 3, GREATEST_ANGLE_RAD, *[GREATEST_SPEED_MPS] * 2])
"""Maximum absolute values of a state; positions are relative to the AV."""
_GREATEST.setflags(write=False)


@dataclass(frozen=True)
class WomdReader:
    """Reader of a folder of TFRecord files of scenarios, such as ``training.tfrecord-00000-of-01000``.

    Splits are named after files or their folders, such as ``training`` or ``validation_interactive``, and otherwise
    ``sample``.

    Attributes:
        source: The folder, searched recursively.
        info: Facts that hold for all scenarios.
    """

    source: Path
    info = _INFO

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", Path(self.source))

    def list_scenes(self) -> list[SceneRef]:
        """Return the locations of the scenarios and of damaged stretches, for which :meth:`read` raises.

        Raises:
            DatasetNotFoundError: The folder does not exist, or has no TFRecord file.
        """
        if not self.source.is_dir():
            raise DatasetNotFoundError(f"there is no folder {self.source}; give the one with the TFRecord files")
        paths = [path for path in self.source.rglob("*.tfrecord*") if path.is_file()]
        if not paths:
            raise DatasetNotFoundError(
                f"there is no TFRecord file in {self.source}; the names of such files have .tfrecord in them"
            )
        refs = []
        for file in sorted(path.relative_to(self.source).as_posix() for path in paths):
            try:
                listed = list(list_records(self.source / file))
            except OSError:  # reported by read; other files are still listed
                listed = []

            # consecutive records without content are one stretch, as none of them is a scenario
            stretches: list[tuple[RecordSpan, int]] = []
            for has_content, run in groupby(listed, key=lambda record: getattr(record, "length", 1) > 0):
                records = [
                    each if isinstance(each, RecordSpan) else RecordSpan(each.number, each.start, 0) for each in run
                ]
                numbered = [(each, each.number) for each in records]
                stretches += numbered if has_content else [(records[0], records[-1].number)]

            # The split is in the name of the file, or else in that of its folder. An empty or unreadable file also gets
            # one reference.
            stems = PurePosixPath(file).name.partition(".tfrecord")[0], PurePosixPath(file).parent.name
            split = next((known[1] for stem in stems if (known := _SPLIT.search(stem))), "sample")
            for record, last in stretches or [(RecordSpan(0, 0, 0), 0)]:
                what = f"record {record.number}" if last == record.number else f"records {record.number} to {last}"
                key = record.number, record.start, record.length
                refs.append(SceneRef(split, f"{file}:{record.number:05d}", file, what, key))
        return sorted(refs)

    def read(self, ref: SceneRef) -> SourceScene:
        """Return a scenario with its map.

        Args:
            ref: One of :meth:`list_scenes`.

        Raises:
            SourceDataError: The record is damaged, no scenario, or holds impossible values.
        """
        with naming_source(ref.file, ref.record):
            return read_scenario(read_record(self.source / ref.file, RecordSpan(*ref.key)))


def read_scenario(content: bytes) -> SourceScene:
    """Return the scene of a serialized scenario.

    Args:
        content: A serialized ``Scenario``.

    Raises:
        CorruptedDataError: It is no scenario, or holds impossible values.
        InvalidArgumentError: It holds values that are out of range for a scene.
    """
    try:
        return _to_scene(Scenario.FromString(content))
    except DecodeError as error:
        raise CorruptedDataError(f"the record is no Scenario: {error}; {_WANTED}") from error


_WANTED = "of the two forms of the dataset, fetch the one with scenarios and not the one with tf.Example"


def _to_scene(scenario: Scenario) -> SourceScene:
    """Return the scene of a scenario; a record without id or tracks is of another kind."""
    name = scenario.scenario_id.decode("utf-8", errors="replace")
    if not name or not scenario.tracks:
        what = "tracks" if name else "scenario_id"
        raise CorruptedDataError(f"the record has no {what}, so it is no Scenario; {_WANTED}")
    tracks = read_tracks(scenario)
    steps = steps_seen(tracks.is_valid[tracks.ego_row], f"the AV, track {tracks.ids[tracks.ego_row]},")
    first_m = tracks.positions_m[tracks.ego_row, steps.start]
    times_s = np.array(scenario.timestamps_seconds)
    map_remarks: list[str] = []
    source_map = read_map(scenario, name, first_m, map_remarks)
    starts_m = {lane.lane_id: lane.centre_m[0] for lane in source_map.lanes}

    # state of the signal of each lane of the map in each step, ordered by lane id
    all_states = scenario.dynamic_map_states
    if len(all_states) not in (0, len(times_s)):
        raise CorruptedDataError(
            f"there are {len(all_states)} dynamic_map_states for {len(times_s)} times; allowed are 0, too"
        )
    seen = [(step, signal) for step, each in enumerate(all_states) for signal in each.lane_states]
    lit_lanes = sorted({signal.lane for _, signal in seen if str(signal.lane) in starts_m})
    rows = {lane: row for row, lane in enumerate(lit_lanes)}
    states = np.full((len(rows), len(times_s)), LightState.ABSENT, np.uint8)
    for step, signal in seen:
        if (row := rows.get(signal.lane)) is not None:
            states[row, step] = _STATES[signal.state] if 0 <= signal.state < len(_STATES) else LightState.UNKNOWN

    # A light is at the last given stop point of its lane. If there is none, or it is too far from the AV to be right,
    # the light is where the lane begins: signals control entry to their lane, and in files with stop points these are
    # there.
    lights_m = np.full((len(rows), 3), np.nan)
    points = {signal.lane: signal.stop_point for _, signal in seen if signal.HasField("stop_point")}
    for lane, point in points.items():
        if lane in rows:
            lights_m[rows[lane]] = point.x, point.y, point.z
    is_known = (np.abs(lights_m - first_m) <= FURTHEST_FROM_AV_M).all(axis=1)
    lane_ids = tuple(map(str, rows))
    for row in np.flatnonzero(~is_known).tolist():
        lights_m[row] = starts_m[lane_ids[row]]

    # The AV has its median size; in each step the ground is half of the AV's current height below its centre.
    remarks: list[str] = []
    sizes_m = tracks.sizes_m[tracks.ego_row, steps]
    if steps.stop - steps.start < len(times_s):
        first, last = steps.start, steps.stop - 1
        remarks.append(f"steps {first} to {last} of {len(times_s)} are kept: the AV is not seen in the others")
    if missing := tracks.missing_steps(steps):
        remarks.append(f"poses of the AV are interpolated in steps {', '.join(map(str, missing))}, where it is unseen")
    times_ns = as_times_ns("timestamps_seconds", times_s, ns_per_unit=1e9, start_ns=_START_NS)[steps]
    size_m = np.median(sizes_m[tracks.is_valid[tracks.ego_row, steps]], axis=0)
    return SourceScene(
        name=name,
        timestamps_ns=times_ns,
        ego=tracks.to_ego(steps, times_ns, size_m, ground_m=sizes_m[:, 2] / 2.0),
        tracks=tracks.to_source(steps, times_ns),
        lights=SourceLights(lane_ids, states[:, steps], lights_m),
        map=source_map,
        remarks=(*remarks, *tracks.remarks, *map_remarks),
    )


def read_tracks(scenario: Scenario) -> ScenarioTracks:
    """Return the tracks of a scenario.

    Raises:
        CorruptedDataError: A track is damaged, has another number of states than times or an impossible state, or there
            is no AV, or the AV is never observed.
        google.protobuf.message.DecodeError: A track is no valid message.
    """
    serialized = list(scenario.tracks)
    num_tracks, num_steps = len(serialized), len(scenario.timestamps_seconds)
    rows = read_rows(serialized, _COLUMNS, what="track")
    if (wrong := np.flatnonzero(rows.counts != num_steps)).size:
        raise CorruptedDataError(
            f"track {wrong[0]} has {rows.counts[wrong[0]]} states for {num_steps} times; each needs one for each time"
        )
    if not scenario.HasField("sdc_track_index") or not 0 <= scenario.sdc_track_index < num_tracks:
        raise CorruptedDataError(
            f"sdc_track_index, the track of the AV, must be from 0 to {num_tracks - 1}, got "
            f"{scenario.sdc_track_index if scenario.HasField('sdc_track_index') else 'none'}"
        )
    targets = np.array([wanted.track_index for wanted in scenario.tracks_to_predict], np.int64)
    is_wrong = (targets < 0) | (targets >= num_tracks)
    if is_wrong.any():
        raise CorruptedDataError(
            f"tracks_to_predict has track {targets[is_wrong][0]}; there are tracks 0 to {num_tracks - 1}"
        )
    is_target = np.zeros(num_tracks, np.bool_)
    is_target[targets] = True
    heads = [Track.FromString(track) for track in serialized]
    states, ids = rows.values.reshape(num_tracks, num_steps, _VALID + 1), tuple(str(head.id) for head in heads)
    is_valid, ego_row = states[..., _VALID] > 0, scenario.sdc_track_index

    # Positions, sizes and velocities must be finite and in range where tracks are observed; positions are relative to
    # the first position of the AV.
    seen = steps_seen(is_valid[ego_row], f"the AV, track {ids[ego_row]},")
    centre = np.zeros(_VALID)
    centre[_CENTRE] = states[ego_row, seen.start, _CENTRE]
    if not (np.abs(centre) <= FURTHEST_M).all():
        raise CorruptedDataError(f"the AV must be within {FURTHEST_M:g} m, got {centre[_CENTRE].tolist()}")
    is_wrong = is_valid[..., None] & ~(np.abs(states[..., :_VALID] - centre) <= _GREATEST)
    if is_wrong.any():
        row, step, column = np.argwhere(is_wrong)[0].tolist()
        from_av = " of that of the AV" if column < _CENTRE.stop else ""
        raise CorruptedDataError(
            f"{_NAMES[column]} of track {ids[row]} must be within {_GREATEST[column]:g}{from_av}, got "
            f"{states[row, step, column]} in step {step}"
        )
    types, names = [head.object_type for head in heads], list(_CLASSES)
    unknown = sorted({*types} - {*range(len(names))})
    return ScenarioTracks(
        ids=ids,
        classes=tuple(names[number] if 0 <= number < len(names) else names[0] for number in types),
        is_valid=is_valid,
        positions_m=states[..., _CENTRE],
        yaws_rad=states[..., _HEADING],
        velocities_mps=states[..., _VELOCITY],
        sizes_m=states[..., _SIZE],
        ego_row=ego_row,
        is_target=is_target,
        remarks=(f"tracks of unknown object_type {', '.join(map(str, unknown))} are treated as unset",)
        if unknown
        else (),
    )
