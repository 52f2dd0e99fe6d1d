"""Windows of ScenarioNet that were cut out of one log: which these are, and how they become one scene again."""

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
"""Windows follow each other if no more steps than that lie between them."""

_SAME_PLACE_M: Final = 0.1
"""By how much two windows may differ in where the AV is in a step that both have."""


@dataclass(frozen=True)
class Window:
    """A scenario as a scene, and what the dataset behind the set calls its tracks, by their ids in the scene."""

    scene: SourceScene
    originals: Mapping[str, str]


def windows_of_logs(metadata: Mapping[str, SourceFields | None]) -> list[list[str]]:
    """Return the names of scenarios that make up one scene each, those of one log in the order of their times.

    Windows are of one log if dataset, map and the name of the log (``log_name`` or ``source_file``) are the same, and
    they follow each other if one begins before the other ends, or a step later. Where times of all windows count from
    their own start, nothing tells their order, and they stay as they are.

    Args:
        metadata: What is told of each scenario; None where nothing is.
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
        # Where two windows begin at one time, times count from the start of each, and tell nothing of their order.
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
    """Return windows of one log as one scene; of a step that several have, the first one counts.

    Args:
        name: What the scene is called.
        windows: In the order of their times.

    Raises:
        CorruptedDataError: Two windows put the AV at different places in one step.
    """
    scenes = [window.scene for window in windows]
    times_ns, firsts = np.unique(np.concatenate([scene.timestamps_ns for scene in scenes]), return_index=True)
    steps = [np.searchsorted(times_ns, scene.timestamps_ns) for scene in scenes]

    # In steps that several windows have, the AV must be at one place.
    av_m = np.full((len(times_ns), 2), np.nan)
    for scene, at in zip(scenes, steps, strict=True):
        apart_m = np.abs(av_m[at] - scene.ego.positions_m[:, :2]).max(axis=1)
        if (apart_m > _SAME_PLACE_M).any():
            step = int(np.nanargmax(apart_m))
            raise CorruptedDataError(
                f"windows of one log must have the AV at one place, but {scene.name} has it {apart_m[step]:.2f} m away "
                f"from where another one has it at {scene.timestamps_ns[step]} ns; import them without --join"
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
    """Return the times of steps that metadata tells, two or more, seconds; None where there are none."""
    try:
        times_s = as_floats(metadata.values.get("ts"), "ts").ravel()
    except TypeError:
        return None
    return times_s if len(times_s) > 1 else None


def _tracks_of(windows: Sequence[Window], steps: Sequence[Int64Array], num_steps: int) -> SourceTracks:
    """Return the tracks of all windows; those of one original id are one."""
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
    for window, at in zip(reversed(windows), reversed(steps), strict=True):  # so that the first one counts
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
    """Return the lights of all windows, by the names that their lanes have on the joined map."""
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
