"""Scenes from rows of a table: tracks on the time steps of the scene, one of them the AV."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.readers.motion import filled_poses, headings_of, rows_around, steps_seen, velocities_of
from l5kit.readers.source_bounds import require_few_states, require_one_state
from l5kit.readers.source_map import SourceMap
from l5kit.readers.source_scene import SourceEgo, SourceLights, SourceScene, SourceTracks
from l5kit.readers.table_columns import NO_AV, OTHER_CLASS, TableColumns
from l5kit.readers.table_rows import TableRows

_LONGEST_BRACKET = 1.9
"""Rows of a track further apart than this multiple of its median step have a gap between them."""

_VEHICLES = ("CAR", "VAN", "BUS", "TRUCK", "EMERGENCY_VEHICLE", "OTHER_VEHICLE", "TRAM")
_MOST_NAMED = 10
_ADVICE = "; cut it with scene_seconds: 20, for example"
_LEAST_SEEN = 0.6
"""Least share of the times of a scene at which the AV has a row; below it, tracks have unsynchronized times."""


@dataclass(frozen=True)
class _Grid:
    """Values of N tracks in T steps: validity and each numeric column, (N, T)."""

    times_ns: Int64Array
    is_valid: BoolArray
    numeric: dict[str, Float64Array]


def scene_of_rows(
    name: str, rows: TableRows, chosen: Int64Array, *, columns: TableColumns, source_map: SourceMap, remarks: list[str]
) -> SourceScene:
    """Return a scene.

    Args:
        name: Name of the scene.
        rows: The table.
        chosen: Rows of the scene, (R,).
        columns: The column map.
        source_map: The map.
        remarks: Remarks so far, to which more are added.

    Raises:
        ValueError: The AV has no track, or a track has two rows in a step.
    """
    track_codes, tracks = np.unique(rows.tracks[chosen], return_inverse=True)
    ids = [rows.track_names[number] for number in track_codes]
    given_classes = [rows.classes[number] for number in track_codes]
    classes = [name if name in columns.classes else OTHER_CLASS for name in given_classes]
    values = {meaning: column[chosen] for meaning, column in rows.numeric.items()}
    if columns.step_s is None:
        grid = _shared_grid(rows.times_ns[chosen], tracks, ids, values)
    else:
        grid = _even_grid(rows.times_ns[chosen], tracks, ids, values, round(columns.step_s * 1e9))
    av = _row_of_av(ids, classes, grid.is_valid, columns, remarks)
    if unknown := sorted({*given_classes} - {*columns.classes, OTHER_CLASS}):
        more = " and others" if len(unknown) > _MOST_NAMED else ""
        remarks.append(f"Classes that classes: does not list are UNKNOWN: {', '.join(unknown[:_MOST_NAMED])}{more}.")
    steps = steps_seen(grid.is_valid[av], f"the AV, track {ids[av]!r},")
    if steps.stop - steps.start < len(grid.times_ns):
        remarks.append(f"Steps {steps.start} to {steps.stop - 1} of {len(grid.times_ns)} are kept, those with the AV.")

    # A log has a pose of the AV in each frame, so steps before its first row and after its last one are dropped.
    grid = _Grid(
        grid.times_ns[steps],
        grid.is_valid[:, steps],
        {meaning: column[:, steps] for meaning, column in grid.numeric.items()},
    )
    usual_m = np.array([columns.size_of(columns.label_mapping[kind]) for kind in classes]).reshape(-1, 3)
    positions_m, velocities_mps, yaws_rad, sizes_m = _boxes_of(grid, usual_m)
    seen = grid.is_valid[av]
    if np.mean(seen) < _LEAST_SEEN:
        raise ValueError(
            f"the AV, track {ids[av]!r}, has rows at {np.count_nonzero(seen)} of the {len(seen)} times of the scene: "
            "its tracks are not synchronized. Write step: 0.1 in the column map, which interpolates them to common ones"
        )
    if holes := np.count_nonzero(~seen):
        remarks.append(f"The AV is not seen in {holes} steps; its poses there are interpolated.")
    heights_m = grid.numeric["z"][av] if "z" in grid.numeric else np.zeros(len(seen))
    poses = filled_poses(np.column_stack([positions_m[av], heights_m, yaws_rad[av]]), seen, grid.times_ns)
    others = np.array([row for row in range(len(ids)) if row != av and grid.is_valid[row].any()], np.int64)
    return SourceScene(
        name=name,
        timestamps_ns=grid.times_ns,
        ego=SourceEgo(poses[:, :3], poses[:, 3], np.median(sizes_m[av][seen], axis=0)),
        tracks=SourceTracks(
            ids=tuple(ids[row] for row in others),
            classes=tuple(classes[row] for row in others),
            is_valid=grid.is_valid[others],
            positions_m=positions_m[others],
            yaws_rad=yaws_rad[others],
            velocities_mps=velocities_mps[others],
            sizes_m=sizes_m[others],
        ),
        lights=SourceLights.none(len(grid.times_ns)),
        map=source_map,
        remarks=tuple(remarks),
    )


def _row_of_av(
    ids: list[str], classes: list[str], is_valid: BoolArray, columns: TableColumns, remarks: list[str]
) -> int:
    """Return the row of the AV; without an AV, that of the vehicle that is seen the longest.

    Raises:
        ValueError: The AV has no track, or there is no vehicle.
    """
    if columns.av != NO_AV:
        if columns.av not in ids:
            shown = ", ".join(ids[:_MOST_NAMED]) + (" and others" if len(ids) > _MOST_NAMED else "")
            raise ValueError(
                f"there is no track {columns.av!r}, the AV of the column map; there are: {shown}. Without an AV write "
                f"av: {NO_AV}"
            )
        return ids.index(columns.av)
    mapping = columns.label_mapping
    is_vehicle = np.array([mapping[kind].removeprefix("PERCEPTION_LABEL_") in _VEHICLES for kind in classes], np.bool_)
    if not is_vehicle.any():
        raise ValueError("there is no vehicle that could be the AV")
    row = int(np.argmax(np.where(is_vehicle, is_valid.sum(axis=1), -1)))
    remarks.append(f"No AV is given; track {ids[row]!r}, the vehicle that is seen the longest, is used.")
    return row


def _shared_grid(
    row_times_ns: Int64Array, tracks: Int64Array, ids: list[str], values: dict[str, Float64Array]
) -> _Grid:
    """Return the tracks on the set of all times of the rows."""
    times_ns, steps = np.unique(row_times_ns, return_inverse=True)
    shape = len(ids), len(times_ns)
    require_few_states(*shape, advice=_ADVICE)
    require_one_state(
        ids, tracks, steps, len(times_ns), problem_of=lambda step: f"has two rows at {times_ns[step]} ns (step {step})"
    )
    is_valid = np.zeros(shape, np.bool_)
    is_valid[tracks, steps] = True
    numeric = {}
    for meaning, column in values.items():
        numeric[meaning] = np.zeros(shape)
        numeric[meaning][tracks, steps] = column
    return _Grid(times_ns, is_valid, numeric)


def _even_grid(
    row_times_ns: Int64Array, tracks: Int64Array, ids: list[str], values: dict[str, Float64Array], step_ns: int
) -> _Grid:
    """Return the tracks interpolated to even steps; gaps remain gaps."""
    times_ns = np.arange(row_times_ns.min(), row_times_ns.max() + step_ns // 100 + 1, step_ns, dtype=np.int64)
    shape = len(ids), len(times_ns)
    require_few_states(*shape, advice=_ADVICE)
    is_valid, numeric = np.zeros(shape, np.bool_), {meaning: np.zeros(shape) for meaning in values}
    order = np.lexsort((row_times_ns, tracks))  # rows of each track by time
    starts = np.searchsorted(tracks[order], np.arange(len(ids) + 1))
    start_ns, near_ns = times_ns[0], max(step_ns // 100, 1)
    for track in range(len(ids)):
        rows = order[starts[track] : starts[track + 1]]
        known_ns = row_times_ns[rows]
        gaps_ns = np.diff(known_ns)
        if (gaps_ns == 0).any():
            raise ValueError(f"track {ids[track]!r} has two rows at {known_ns[int(np.argmin(gaps_ns))]} ns")

        # A step is valid near a row, and between two rows that are at most 1.9 times the track's median interval apart,
        # or 1.9 steps if these are longer.
        before, after = rows_around(known_ns, times_ns)
        is_near = np.minimum(np.abs(known_ns[after] - times_ns), np.abs(known_ns[before] - times_ns)) <= near_ns
        longest_ns = _LONGEST_BRACKET * max(float(np.median(gaps_ns)), step_ns) if len(gaps_ns) else 0.0
        is_inside = (times_ns >= known_ns[0]) & (times_ns <= known_ns[-1])
        is_valid[track] = is_near | (is_inside & (known_ns[after] - known_ns[before] <= longest_ns))

        # headings are unwrapped, so that interpolation takes the short way round
        seconds, known_s = (times_ns - start_ns) / 1e9, (known_ns - start_ns) / 1e9
        for meaning, column in values.items():
            known = np.unwrap(column[rows]) if meaning == "heading" else column[rows]
            numeric[meaning][track] = np.interp(seconds, known_s, known)
    return _Grid(times_ns, is_valid, numeric)


def _boxes_of(grid: _Grid, usual_m: Float64Array) -> tuple[Float64Array, Float64Array, Float64Array, Float64Array]:
    """Return positions (N, T, 2), velocities (N, T, 2), headings (N, T) and sizes (N, T, 3) of tracks.

    Missing columns are derived: velocities from positions, headings from velocities; sizes default to the usual ones of
    each track, (N, 3).
    """
    numeric = grid.numeric
    positions_m = np.stack([numeric["x"], numeric["y"]], axis=-1)
    if "velocity_x" in numeric:
        velocities_mps = np.stack([numeric["velocity_x"], numeric["velocity_y"]], axis=-1)
    else:
        velocities_mps = velocities_of(positions_m, grid.is_valid, grid.times_ns)
    yaws_rad = numeric["heading"] if "heading" in numeric else headings_of(velocities_mps, grid.is_valid)
    sizes_m = np.repeat(usual_m[:, None], grid.is_valid.shape[1], axis=1)
    for axis, meaning in enumerate(("length", "width", "height")):
        if meaning in numeric:
            sizes_m[..., axis] = numeric[meaning]
    return positions_m, velocities_mps, yaws_rad, sizes_m
