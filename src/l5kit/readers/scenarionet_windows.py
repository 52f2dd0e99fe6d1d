"""Windows of ScenarioNet that were cut out of one log: finding them, and joining them to one scene again."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.errors import CorruptedDataError
from l5kit.readers.joined_map import JoinedMap
from l5kit.readers.source_fields import SourceFields, as_floats
from l5kit.readers.source_map import SourceMap
from l5kit.readers.source_scene import LightState, SourceEgo, SourceLights, SourceScene, SourceTracks

_LOG_KEYS: Final = ("log_name", "source_file", "log_id")
_LONGEST_GAP: Final = 1.5
"""Maximum gap between consecutive windows, in steps."""

_SAME_PLACE_M: Final = 0.1
"""Maximum difference between the AV positions of two windows in a shared step."""


@dataclass(frozen=True)
class Window:
    """A scenario as a scene, and the ids of its tracks in the original dataset, by their ids in the scene."""

    scene: SourceScene
    originals: Mapping[str, str]


def windows_of_logs(metadata: Mapping[str, SourceFields | None]) -> list[list[str]]:
    """Group the names of scenarios into scenes; windows of one log are ordered by time.

    Windows are of one log if dataset, map and the name of the log (``log_name`` or ``source_file``) are the same. They
    are consecutive if one begins before the other ends, or a step later. If windows begin at the same time, their times
    are relative, so their order is unknown and they are not grouped.

    Args:
        metadata: Metadata of each scenario, or None.
    """
    logs: dict[tuple[str, ...], list[tuple[float, float, float, str]]] = defaultdict(list)
    alone = []
    for name, fields in metadata.items():
        times_s = None if fields is None else reported_times_s(fields)
        keys = [] if fields is None else [key for key in _LOG_KEYS if fields.has(key)]
        if fields is None or not keys or times_s is None or not np.isfinite(times_s).all():
            alone.append([name])
        else:
            log = str(fields.values[keys[0]]), str(fields.values.get("dataset")), str(fields.values.get("map"))
            logs[log].append((float(times_s[0]), float(times_s[-1]), float(np.median(np.diff(times_s))), name))
    groups = alone
    for windows in logs.values():
        windows.sort()
        group: list[str] = []
        # windows that begin at the same time have relative times, which do not define their order
        end_s, has_own_times = -np.inf, len({start_s for start_s, *_ in windows}) == len(windows)
        for start_s, last_s, step_s, name in windows:
            if group and (not has_own_times or start_s > end_s + _LONGEST_GAP * step_s):
                groups.append(group)
                group = []
            group.append(name)
            end_s = max(end_s, last_s)
        groups.append(group)
    return groups


def join_windows(name: str, windows: Sequence[Window]) -> SourceScene:
    """Return windows of one log as one scene; in a step that several have, the first one takes precedence.

    Args:
        name: Name of the scene.
        windows: In the order of their times.

    Raises:
        CorruptedDataError: Two windows have the AV at different positions in one step.
    """
    scenes = [window.scene for window in windows]
    times_ns, firsts = np.unique(np.concatenate([scene.timestamps_ns for scene in scenes]), return_index=True)
    steps = [np.searchsorted(times_ns, scene.timestamps_ns) for scene in scenes]

    # in steps that several windows have, they must agree on the position of the AV
    av_m = np.full((len(times_ns), 2), np.nan)
    for scene, at in zip(scenes, steps, strict=True):
        apart_m = np.abs(av_m[at] - scene.ego.positions_m[:, :2]).max(axis=1)
        if (apart_m > _SAME_PLACE_M).any():
            step = int(np.nanargmax(apart_m))
            raise CorruptedDataError(
                f"windows of one log must have the AV at one position, but {scene.name} has it {apart_m[step]:.2f} m "
                f"away from where another one has it at {scene.timestamps_ns[step]} ns; import them without --join"
            )
        av_m[at] = scene.ego.positions_m[:, :2]
    joined = JoinedMap(scenes[0].map.name)
    renamed = [joined.add(scene.map, scene=scene.name) for scene in scenes]
    remarks = dict.fromkeys(remark for scene in scenes for remark in scene.remarks)
    return SourceScene(
        name=name,
        timestamps_ns=times_ns,
        ego=SourceEgo(
            np.concatenate([scene.ego.positions_m for scene in scenes])[firsts],
            np.concatenate([scene.ego.yaws_rad for scene in scenes])[firsts],
            scenes[0].ego.size_m,
        ),
        tracks=_tracks_of(windows, steps, len(times_ns)),
        lights=_lights_of(scenes, steps, renamed, num_steps=len(times_ns)),
        map=SourceMap(
            joined.name, tuple(joined.lanes.values()), tuple(joined.areas.values()), tuple(joined.signs.values())
        ),
        remarks=(f"{len(scenes)} windows of one log are joined.", *remarks, *joined.remarks),
    )


def reported_times_s(metadata: SourceFields) -> Float64Array | None:
    """Return the times of the steps in the metadata, two or more, seconds; None if there are none."""
    try:
        times_s = as_floats(metadata.values.get("ts"), "ts").ravel()
    except TypeError:
        return None
    return times_s if len(times_s) > 1 else None


def _tracks_of(windows: Sequence[Window], steps: Sequence[Int64Array], num_steps: int) -> SourceTracks:
    """Return the tracks of all windows, merged by their original ids."""
    rows: dict[str, int] = {}
    classes: list[str] = []
    for window in windows:
        for track, kind in zip(window.scene.tracks.ids, window.scene.tracks.classes, strict=True):
            if rows.setdefault(window.originals[track], len(rows)) == len(classes):
                classes.append(kind)
    shape = len(rows), num_steps
    is_valid: BoolArray = np.zeros(shape, np.bool_)
    positions_m, velocities_mps = np.zeros((*shape, 2)), np.zeros((*shape, 2))
    yaws_rad, sizes_m = np.zeros(shape), np.ones((*shape, 3))
    for window, at in zip(reversed(windows), reversed(steps), strict=True):  # so that the first one wins
        tracks = window.scene.tracks
        row_of = np.array([rows[window.originals[track]] for track in tracks.ids], np.int64)
        seen, step = np.nonzero(tracks.is_valid)
        cells = row_of[seen], at[step]
        is_valid[cells] = True
        positions_m[cells] = tracks.positions_m[seen, step]
        velocities_mps[cells] = tracks.velocities_mps[seen, step]
        yaws_rad[cells] = tracks.yaws_rad[seen, step]
        sizes_m[cells] = tracks.sizes_m[seen, step]
    return SourceTracks(tuple(rows), tuple(classes), is_valid, positions_m, yaws_rad, velocities_mps, sizes_m)


def _lights_of(
    scenes: Sequence[SourceScene],
    steps: Sequence[Int64Array],
    renamed: Sequence[Mapping[str, str]],
    *,
    num_steps: int,
) -> SourceLights:
    """Return the lights of all windows, by the names of their lanes on the joined map."""
    states: dict[str, Int64Array] = {}
    positions_m: dict[str, Float64Array] = {}
    for scene, at, names in zip(reversed(scenes), reversed(steps), reversed(renamed), strict=True):
        for row, lane in enumerate(scene.lights.lane_ids):
            name = names.get(lane, lane)
            of_lane = states.setdefault(name, np.full(num_steps, LightState.ABSENT, np.int64))
            is_known = scene.lights.states[row] != LightState.ABSENT
            of_lane[at[is_known]] = scene.lights.states[row, is_known]
            positions_m[name] = scene.lights.positions_m[row]
    lanes = sorted(states)
    if not lanes:
        return SourceLights.none(num_steps)
    return SourceLights(
        tuple(lanes), np.array([states[lane] for lane in lanes]), np.array([positions_m[lane] for lane in lanes])
    )
