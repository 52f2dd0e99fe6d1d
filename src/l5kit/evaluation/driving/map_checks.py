"""Checks of maps, and of logs on them: faults of readable maps that affect planners, traffic and scores."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.spatial import cKDTree

from l5kit._types import BoolArray, Float64Array, Int64Array, Log
from l5kit.data.checks.finding import Finding, FindingList
from l5kit.data.log_facts import LogFacts
from l5kit.data.map.api import MapAPI
from l5kit.data.map.lane_network import LaneNetwork
from l5kit.data.map.map_arrays import MapArrays
from l5kit.data.map.opened import SceneMaps
from l5kit.data.records import FRAME_INTERVAL
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import L5KitError
from l5kit.evaluation.driving.map_scores import MOST_OFF_ROAD_M, distances_of_boxes_off_road
from l5kit.geometry.transform import rotations33_as_yaws
from l5kit.lanes.driving_map import DrivingMap, build_driving_map
from l5kit.lanes.lane_choice import find_lanes_of_track

LOOK_AHEAD_M = 30.0
"""A lane without successors is a dead end if another lane begins ahead of its end within this distance."""

LOOK_AHEAD_RAD = np.pi / 6
"""Half of the angle within which a lane is ahead of the end of another."""

LARGEST_STEP_M = 1.0
"""Largest distance from the end of a centre line to the start of its successor; more is a gap."""

NARROWEST_LANE_M = 1.0
"""Smallest plausible median width of a lane; a car is about 2 m wide, bicycle lanes have at least 1.2 m."""

WIDEST_LANE_M = 10.0
"""Largest plausible median width of a lane."""

SMALLEST_LIMIT_MPS = 1.0
"""Lower speed limits suggest a wrong unit or a missing limit."""

LARGEST_LIMIT_MPS = 70.0
"""Higher speed limits, above 250 km/h, suggest a wrong unit."""

LONGEST_OFF_LANES_S = 1.0
"""Total time that the AV of a log may be on no lane, such as when passing a parked truck."""


_USUAL_WIDTH_M = 3.5
_NUM_POINTS = 48


def check_map(map_api: MapAPI, *, driving_map: DrivingMap | None = None) -> list[Finding]:
    """Return warnings about faults of a readable map that affect drivers, traffic and scores.

    Args:
        map_api: The map; only relative positions matter.
        driving_map: Result of :func:`~l5kit.lanes.driving_map.build_driving_map`; computed by default.
    """
    arrays = map_api.arrays
    driving = build_driving_map(map_api) if driving_map is None else driving_map
    messages = [*_check_lights(arrays, driving), *_check_neighbours(arrays, driving)]
    messages += _check_widths_and_limits(arrays, map_api.network)
    return [Finding(severity="warning", check=f"map: {name}", message=message) for name, message in messages]


def check_log_on_map(
    log: Log,
    driving_map: DrivingMap,
    *,
    facts: LogFacts | None = None,
    scenes: Sequence[int] | None = None,
) -> Iterator[Finding]:
    """Yield warnings about scenes whose logged AV leaves all lanes or the drivable surface of a map.

    Args:
        log: A log whose scenes and frames are undamaged.
        driving_map: The map.
        facts: Size of the AV and time of a step; those of L5Kit 1.5 by default.
        scenes: Indices of the scenes on this map; all by default.
    """
    facts = facts or LogFacts()
    for scene in range(len(log.scenes)) if scenes is None else scenes:
        frames = log.frames[slice(*log.scenes[scene][FRAME_INTERVAL].tolist())]
        positions_m = np.ascontiguousarray(frames["ego_translation"][:, :2], np.float64)
        yaws_rad = np.asarray(rotations33_as_yaws(frames["ego_rotation"]), np.float64)
        num_frames = len(yaws_rad)
        is_off = find_lanes_of_track(driving_map, positions_m, yaws_rad) < 0
        if (off_s := np.count_nonzero(is_off) * facts.step_time_s) > LONGEST_OFF_LANES_S:
            message = (
                f"the AV of the log is on no lane for {off_s:.1f} s of {num_frames * facts.step_time_s:.1f} s, "
                f"starting at frame {int(np.argmax(is_off))} of the scene: its route has no lanes there"
            )
            yield Finding(severity="warning", check="map: route off lanes", message=message, scene=scene)

        # the rule and the bound of drivable_area_compliance
        sizes_m = np.broadcast_to(facts.ego_extent_m[:2], (num_frames, 2))
        boxes = np.column_stack([positions_m, yaws_rad, sizes_m])
        is_off_road = distances_of_boxes_off_road(boxes, driving_map) >= MOST_OFF_ROAD_M
        if is_off_road.any():
            message = (
                f"a corner of the AV of the log is {MOST_OFF_ROAD_M:g} m or more off the drivable area in "
                f"{np.count_nonzero(is_off_road)} of {num_frames} frames, starting at frame "
                f"{int(np.argmax(is_off_road))} of the scene: its replay scores 0 there"
            )
            yield Finding(severity="warning", check="map: drivable area", message=message, scene=scene)


def check_maps(maps: SceneMaps, log: ChunkedDataset | None = None) -> list[Finding]:
    """Return the faults of all maps of a dataset, and where its log leaves them.

    Args:
        maps: The maps, in the world frame of the log.
        log: An opened undamaged log; None to check the maps only.

    Returns:
        The first ten findings of each check, followed by the number of further ones; errors first.
    """
    findings = FindingList()
    rows = None if log is None else maps.rows_of_scenes(log, range(len(log.scenes)))
    for row in range(len(maps)):
        try:
            map_api = maps.map_of([row])
            map_api.bounds_info  # noqa: B018 - reads all elements, not only lanes
            driving_map = build_driving_map(map_api)
        except L5KitError as error:
            findings.add(Finding(severity="error", check="map", message=str(error), file=maps.path))
            continue
        for finding in check_map(map_api, driving_map=driving_map):
            findings.add(replace(finding, file=map_api.protobuf_map_path))
        if log is not None and rows is not None:
            scenes = np.flatnonzero(rows == row).tolist()
            for finding in check_log_on_map(log, driving_map, facts=log.facts, scenes=scenes):
                findings.add(finding)
    return findings.as_list()


def _check_lights(arrays: MapArrays, driving_map: DrivingMap) -> Iterator[tuple[str, str]]:
    """Yield faults of lanes with a traffic light: no stop line, or no face with a colour."""
    has_light, has_face = arrays.has_light.copy(), np.zeros(arrays.num_lanes, np.bool_)
    has_face[arrays.lights.lane_rows] = True
    has_light |= has_face
    # a stop line is at the transition from one lane of a path to the next
    num_after, num_before = _count_neighbours(driving_map)
    is_passed = np.where(driving_map.has_line_at_start, num_before, num_after) > 0
    if (without := has_light & ~is_passed).any():
        yield (
            "stop lines",
            f"{np.count_nonzero(without)} of {np.count_nonzero(has_light)} lanes with a traffic light have no stop "
            f"line, such as {_first(arrays, without)}: no lane precedes a lane with the light at its start, or "
            "follows one with the light at its end, so vehicles do not stop at red there",
        )
    # lanes list faces separately from their light, and only faces have a state in a log
    if (without := has_light & ~has_face).any():
        yield (
            "light faces",
            f"{np.count_nonzero(without)} of {np.count_nonzero(has_light)} lanes with a traffic light list no face "
            f"with a colour, such as {_first(arrays, without)}: their light is never red",
        )


def _check_neighbours(arrays: MapArrays, driving_map: DrivingMap) -> Iterator[tuple[str, str]]:
    """Yield forks outside of junctions, lanes that end where others continue, and successors that begin elsewhere."""
    lines_m, (num_after, num_before) = driving_map.centre_lines_m, _count_neighbours(driving_map)
    num_forks = np.count_nonzero(num_after > 1) + np.count_nonzero(num_before > 1)
    if num_forks and not driving_map.is_in_junction.any():
        yield (
            "junctions",
            f"no lane is part of a junction, although lanes fork or merge {num_forks} times: tags, times to collision "
            "and rewards treat all lanes as open road; import the dataset again, or mark junctions",
        )

    # A lane without successor leaves the map, unless another begins ahead of its end and continues in its direction.
    # A lane that begins right at the end is ahead even if the tiny offset points elsewhere.
    is_dead_end, starts_m = np.zeros(len(lines_m), np.bool_), lines_m[:, 0]
    ends = np.flatnonzero(num_after == 0)
    near = cKDTree(starts_m).query_ball_point(lines_m[ends, -1], LOOK_AHEAD_M) if len(ends) else []
    headings = _directions(lines_m[:, 1] - lines_m[:, 0])
    for rows, lane in zip(near, ends.tolist(), strict=True):
        direction = _directions(lines_m[lane, -1] - lines_m[lane, -2])
        offsets_m = starts_m[rows] - lines_m[lane, -1]
        lengths_m = np.linalg.norm(offsets_m, axis=1)
        is_ahead = (offsets_m @ direction >= np.cos(LOOK_AHEAD_RAD) * lengths_m) | (lengths_m <= LARGEST_STEP_M)
        is_dead_end[lane] = (is_ahead & (headings[rows] @ direction > 0.0)).any()
    if is_dead_end.any():
        yield (
            "dead ends",
            f"{np.count_nonzero(is_dead_end)} of {len(lines_m)} lanes have no successor although another lane "
            f"begins within {LOOK_AHEAD_M:g} m ahead of them, such as {_first(arrays, is_dead_end)}: routes end there",
        )

    before = np.repeat(np.arange(len(lines_m)), num_after)
    steps_m = np.linalg.norm(lines_m[driving_map.ahead_rows, 0] - lines_m[before, -1], axis=-1)
    if (is_far := steps_m > LARGEST_STEP_M).any():
        widest = int(np.argmax(steps_m))
        names = arrays.lane_ids[int(before[widest])], arrays.lane_ids[int(driving_map.ahead_rows[widest])]
        yield (
            "gaps",
            f"{np.count_nonzero(is_far)} of {len(steps_m)} successors of lanes begin more than {LARGEST_STEP_M:g} m "
            f"off the end of the lane, such as {names[1]!r} after {names[0]!r}, by {steps_m[widest]:.1f} m: paths jump",
        )


def _directions(steps_m: Float64Array) -> Float64Array:
    """Normalize steps (..., 2) to length 1; steps of length 0 stay 0."""
    directions: Float64Array = steps_m / np.maximum(np.linalg.norm(steps_m, axis=-1, keepdims=True), 1e-9)
    return directions


def _check_widths_and_limits(arrays: MapArrays, network: LaneNetwork) -> Iterator[tuple[str, str]]:
    """Yield lanes with odd widths or limits, swapped boundaries, or without a limit where others have one."""
    if arrays.num_lanes == 0:
        return
    # distance between the boundaries across the lane, positive if the left one is to the left
    lines = arrays.resampled(_NUM_POINTS)
    along = np.gradient(lines.xyz_midlane[..., :2], axis=1)
    lengths_m = np.maximum(np.linalg.norm(along, axis=-1), 1e-9)
    across_m = (lines.xyz_left - lines.xyz_right)[..., :2]
    widths_m = np.median((along[..., 0] * across_m[..., 1] - along[..., 1] * across_m[..., 0]) / lengths_m, axis=1)
    for name, is_odd, what in (
        ("widths", (widths_m >= 0) & (widths_m < NARROWEST_LANE_M), f"are narrower than {NARROWEST_LANE_M:g} m"),
        ("widths", widths_m > WIDEST_LANE_M, f"are wider than {WIDEST_LANE_M:g} m"),
        ("sides", widths_m < 0, "have their left boundary on the right"),
    ):
        if is_odd.any():
            worst = int(np.flatnonzero(is_odd)[np.argmax(np.abs(widths_m[is_odd] - _USUAL_WIDTH_M))])
            yield (
                name,
                f"{np.count_nonzero(is_odd)} of {len(widths_m)} lanes {what}, such as {arrays.lane_ids[worst]!r} with "
                f"{abs(widths_m[worst]):.2f} m",
            )

    # lanes in junctions have no limit of their own
    limits_mps = network.speed_limits_mps[: arrays.num_lanes]
    is_road = ~network.is_in_junction[: arrays.num_lanes]
    is_known = limits_mps > 0
    # a source without any limits is reported by its import, and not a fault of the map
    if (without := is_road & ~is_known).any() and (is_road & is_known).any():
        yield (
            "speed limits",
            f"{np.count_nonzero(without)} of {np.count_nonzero(is_road)} lanes outside of junctions have the limit 0, "
            f"which means unknown, such as {_first(arrays, without)}: drivers use their own limit there",
        )
    if (is_odd := is_known & ~((limits_mps >= SMALLEST_LIMIT_MPS) & (limits_mps <= LARGEST_LIMIT_MPS))).any():
        limit_mps = float(limits_mps[np.flatnonzero(is_odd)[0]])
        yield (
            "speed limits",
            f"{np.count_nonzero(is_odd)} lanes have a limit below {SMALLEST_LIMIT_MPS:g} or above "
            f"{LARGEST_LIMIT_MPS:g} m/s, such as {_first(arrays, is_odd)} with {limit_mps:g}: is the unit right?",
        )


def _count_neighbours(driving_map: DrivingMap) -> tuple[Int64Array, Int64Array]:
    """Return the numbers of successors and predecessors of each lane, (L,) each."""
    num_before = np.bincount(driving_map.ahead_rows, minlength=driving_map.num_lanes)
    return np.diff(driving_map.ahead_starts), num_before


def _first(arrays: MapArrays, is_wrong: BoolArray) -> str:
    """Return the id of the first faulty lane, quoted for a message."""
    return repr(arrays.lane_ids[int(np.argmax(is_wrong))])
