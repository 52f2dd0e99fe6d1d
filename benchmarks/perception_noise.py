"""Perception noise of a log: deviation of tracks from smooth motion, its correlation time, and lost tracks.

Run ``python benchmarks/perception_noise.py LOG`` with a dataset of l5kit; ``--document FILE`` writes the tables into
docs/results/perception_noise.md, which states the method. True positions are unknown, so errors that are constant over
a whole track cannot be measured.
"""

import argparse
import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from l5kit.data import ChunkedDataset
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.data.scene_arrays import read_scene_arrays
from training_table import replace_table

START = "<!-- table: made by benchmarks/perception_noise.py -->"
STEP_S = 0.1
CLASSES = ("CAR", "CYCLIST", "PEDESTRIAN", "UNKNOWN")
SHORTEST = 20
"""Frames of the shortest track that is measured."""
PARKED_M = 1.0
"""Largest distance between the median positions in the first and last third of a parked track, metres."""
LAGS = np.arange(1, 31)
TIMES_S = np.geomspace(0.05, 3.0, 200)
WINDOW, DEGREE = 31, 3
"""Frames and degree of the polynomials fitted to moving tracks."""
RESUMED_FRAMES, RESUMED_M = 30, 1.0
YOUNG_FRAMES = 10
MOVING_MPS = 2.0
NEAR_M = (0.0, 20.0, 40.0, math.inf)


@dataclass(frozen=True, eq=False)
class Track:
    """A track of T successive frames: world positions (T, 2) and headings (T,), sizes (T, 3), velocities (T, 2)."""

    scene: int
    num_frames: int
    frames: np.ndarray
    xy_m: np.ndarray
    yaws_rad: np.ndarray
    sizes_m: np.ndarray
    velocities_mps: np.ndarray
    labels: np.ndarray
    av_m: np.ndarray

    @property
    def label(self) -> str:
        """The most frequent class of the track."""
        return Counter(self.labels.tolist()).most_common(1)[0][0]

    @property
    def distances_m(self) -> np.ndarray:
        """Distances to the AV, metres, (T,)."""
        return np.hypot(*(self.xy_m - self.av_m).T)

    @property
    def is_parked(self) -> bool:
        """Whether the track is stationary."""
        third = len(self.frames) // 3
        way_m = np.median(self.xy_m[-third:], axis=0) - np.median(self.xy_m[:third], axis=0)
        return bool(np.hypot(*way_m) < PARKED_M)

    @property
    def axis_rad(self) -> float:
        """Mean heading, modulo half a turn."""
        return float(np.angle(np.exp(2j * self.yaws_rad.astype(np.float64)).mean()) / 2)

    def along(self, vectors: np.ndarray, axis_rad: np.ndarray | float) -> np.ndarray:
        """Return vectors (T, 2) in the directions along and across a heading, (T, 2)."""
        cos, sin = np.cos(axis_rad), np.sin(axis_rad)
        return np.stack([vectors[:, 0] * cos + vectors[:, 1] * sin, vectors[:, 1] * cos - vectors[:, 0] * sin], axis=1)


def main() -> None:
    """Measure the log and print the tables."""
    parser = argparse.ArgumentParser(description="Perception noise of a log.")
    parser.add_argument("log", type=Path, help="a .zarr")
    parser.add_argument("--scenes", type=int, help="take the first of them only")
    parser.add_argument("--document", type=Path, help="file whose tables are replaced")
    options = parser.parse_args()
    tracks = list(read_tracks(options.log, options.scenes))
    lines = [f"{len({track.scene for track in tracks})} scenes, {len(tracks):,} tracks.", ""]
    lines += noise_table(tracks) + [""] + distance_table(tracks) + [""] + loss_table(tracks) + [""]
    lines += label_table(tracks) + [""] + fact_table(tracks)
    print("\n".join(lines))
    if options.document is not None:
        replace_table(options.document, [*lines, ""], start=START)


def read_tracks(path: Path, num_scenes: int | None) -> Iterator[Track]:
    """Yield the tracks of the first scenes of a log."""
    log = ChunkedDataset(str(path)).open()
    names = np.array([name.removeprefix("PERCEPTION_LABEL_") for name in PERCEPTION_LABELS])
    for scene in range(len(log.scenes))[:num_scenes]:
        arrays = read_scene_arrays(log, scene)
        rows = arrays.agents
        num_frames = len(arrays.timestamps_ns)
        frames = np.repeat(
            np.arange(num_frames), np.diff(np.append(rows.starts, len(rows.track_ids))[: num_frames + 1])
        )
        order = np.lexsort((frames, rows.track_ids))
        for found in np.split(order, 1 + np.flatnonzero(np.diff(rows.track_ids[order].astype(np.int64)))):
            yield Track(
                scene, num_frames, frames[found], rows.centroids_m[found], rows.yaws_rad[found].astype(np.float64),
                rows.extents_m[found].astype(np.float64), rows.velocities_mps[found].astype(np.float64),
                names[rows.label_probabilities[found].argmax(axis=1)],
                arrays.ego_positions_m[frames[found], :2],
            )  # fmt: skip


def wrap_angle(angles_rad: np.ndarray) -> np.ndarray:
    """Return angles from -pi to pi."""
    return np.arctan2(np.sin(angles_rad), np.cos(angles_rad))


def parked_errors(track: Track) -> dict[str, np.ndarray]:
    """Return the deviations of a parked track from its means, one value for each frame."""
    axis_rad = track.axis_rad
    moved = track.along(track.xy_m - track.xy_m.mean(axis=0), axis_rad)
    velocities = track.along(track.velocities_mps, axis_rad)
    turned = wrap_angle(2 * (track.yaws_rad - axis_rad)) / 2
    sizes = track.sizes_m / track.sizes_m.mean(axis=0) - 1.0
    return dict(zip(QUANTITIES, (*moved.T, turned, *sizes.T, *velocities.T), strict=True))


QUANTITIES = {
    "along": "m",
    "across": "m",
    "heading": "rad",
    "length": "",
    "width": "",
    "height": "",
    "velocity along": "m/s",
    "velocity across": "m/s",
}


def variograms(series: list[np.ndarray]) -> np.ndarray:
    """Return the median over tracks of half the mean squared difference at each of ``LAGS``, (L,)."""
    values = [
        [0.5 * ((each[lag:] - each[:-lag]) ** 2).mean() if len(each) >= lag + 10 else np.nan for lag in LAGS]
        for each in series
    ]
    return np.array(
        [np.median(found[~np.isnan(found)]) if (~np.isnan(found)).any() else np.nan for found in np.array(values).T]
    )


def fit_decay(measured: np.ndarray, expected: np.ndarray) -> tuple[float, float]:
    """Return deviation and correlation time of the best-fitting first-order process.

    Args:
        measured: Second moments, (L,).
        expected: Second moments of processes of deviation 1, for each of ``TIMES_S``, (K, L).
    """
    known = ~np.isnan(measured)
    if not known.any():
        return math.nan, math.nan
    measured, expected = measured[known], expected[:, known]
    variances = (expected @ measured) / (expected**2).sum(axis=1)
    errors = ((measured - variances[:, None] * expected) ** 2).sum(axis=1)
    best = int(errors.argmin())
    return math.sqrt(max(variances[best], 0.0)), float(TIMES_S[best])


EXPECTED_PARKED = 1.0 - np.exp(-LAGS * STEP_S / TIMES_S[:, None])


def moving_residuals(track: Track) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return residuals of a moving track to windowed polynomials, and its longitudinal accelerations, (T - W + 1,).

    The residual is that of the centre of each window; velocities are compared with the slope there.
    """
    half = WINDOW // 2
    times = (np.arange(WINDOW) - half) * STEP_S
    design = np.vander(times, DEGREE + 1, increasing=True)
    weights = np.linalg.pinv(design)
    yaws = np.unwrap(wrap_angle(2 * (track.yaws_rad - track.axis_rad))) / 2 + track.axis_rad
    values = np.column_stack([track.xy_m, yaws, track.sizes_m])
    windows = np.lib.stride_tricks.sliding_window_view(values, WINDOW, axis=0)
    fits = windows @ weights.T
    middle = slice(half, len(values) - half)
    away = values[middle] - fits[..., 0]
    axis = fits[:, 2, 0]
    heading = np.arctan2(fits[:, 1, 1], fits[:, 0, 1])
    moved = track.along(away[:, :2], heading)
    velocities = track.along(track.velocities_mps[middle] - fits[:, :2, 1], heading)
    accelerations = 2 * track.along(fits[:, :2, 2], heading)[:, 0]
    columns = (*moved.T, values[middle, 2] - axis, *(away[:, 3:] / track.sizes_m.mean(axis=0)).T, *velocities.T)
    return dict(zip(QUANTITIES, columns, strict=True)), accelerations


def expected_moving() -> np.ndarray:
    """Return covariances of residuals at lags 0 to 9 of processes of deviation 1, for each of ``TIMES_S``, (K, 10)."""
    times = (np.arange(WINDOW) - WINDOW // 2) * STEP_S
    middle_of_fit = np.linalg.pinv(np.vander(times, DEGREE + 1, increasing=True))[0]
    response = -middle_of_fit
    response[WINDOW // 2] += 1.0
    lags = np.arange(10)
    apart = np.arange(WINDOW)[:, None] - np.arange(WINDOW)
    found = np.empty((len(TIMES_S), len(lags)))
    for place, time_s in enumerate(TIMES_S):
        for lag in lags:
            found[place, lag] = response @ np.exp(-np.abs(apart + lag) * STEP_S / time_s) @ response
    return found


def covariances(series: list[np.ndarray]) -> np.ndarray:
    """Return the median over tracks of mean products at lags 0 to 9, (10,)."""
    return np.median([[(each[: len(each) - lag] * each[lag:]).mean() for lag in range(10)] for each in series], axis=0)


def is_measured(track: Track, name: str, *, parked: bool) -> bool:
    """Return whether a track counts as parked, or as moving, member of a class."""
    shortest = SHORTEST if parked else WINDOW + 10
    return track.label == name and len(track.frames) >= shortest and track.is_parked == parked


def noise_table(tracks: list[Track]) -> list[str]:
    """Return the table of deviations and times; moving tracks use the times of parked ones."""
    heads = [f"{name}, {unit}".removesuffix(", ") for name, unit in QUANTITIES.items()]
    lines = [f"| | tracks | frames | {' | '.join(heads)} |", "|---" * (len(QUANTITIES) + 3) + "|"]
    of_window = expected_moving()
    for name in CLASSES:
        parked = [track for track in tracks if is_measured(track, name, parked=True)]
        fits: list[tuple[float, float]] = []
        if parked:
            errors = [parked_errors(track) for track in parked]
            fits = [fit_decay(variograms([each[q] for each in errors]), EXPECTED_PARKED) for q in QUANTITIES]
            lines.append(row_of_fits(f"{name}, parked", parked, fits))
        moving = [track for track in tracks if is_measured(track, name, parked=False)]
        moving = [track for track in moving if np.median(np.hypot(*track.velocities_mps.T)) > MOVING_MPS]
        if moving and fits:
            residuals = [moving_residuals(track)[0] for track in moving]
            rows = [int(np.argmin(np.abs(TIMES_S - time_s))) for _, time_s in fits]
            found = [covariances([each[q] for each in residuals]) for q in QUANTITIES]
            again = [fit_decay(each, of_window[[row]])[0] for each, row in zip(found, rows, strict=True)]
            lines.append(row_of_fits(f"{name}, moving", moving, [(each, math.nan) for each in again]))
    return lines


def row_of_fits(name: str, tracks: list[Track], fits: list[tuple[float, float]]) -> str:
    """Return a row of the table of deviations."""
    cells = " | ".join(_as_cell(*fit) for fit in fits)
    return f"| {name} | {len(tracks)} | {sum(len(track.frames) for track in tracks):,} | {cells} |"


def _as_cell(sigma: float, time_s: float) -> str:
    if math.isnan(sigma) or sigma == 0:
        return "0" if sigma == 0 else ""
    return f"{sigma:.3f}" if math.isnan(time_s) else f"{sigma:.3f}, {time_s:.1f} s"


def distance_table(tracks: list[Track]) -> list[str]:
    """Return deviations of parked tracks by distance to the AV."""
    names = ("along", "across", "heading", "length", "width")
    lines = [f"| parked, from the AV | tracks | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for label in ("CAR", "UNKNOWN"):
        parked = [track for track in tracks if is_measured(track, label, parked=True)]
        for low, high in itertools.pairwise(NEAR_M):
            near = [track for track in parked if low <= np.median(track.distances_m) < high]
            if near:
                errors = [parked_errors(track) for track in near]
                fits = [fit_decay(variograms([each[q] for each in errors]), EXPECTED_PARKED) for q in names]
                cells = " | ".join(_as_cell(*fit) for fit in fits)
                lines.append(f"| {label}, {low:g} to {high:g} m | {len(near)} | {cells} |")
    return lines


def loss_table(tracks: list[Track]) -> list[str]:
    """Return how often tracks end and reappear near by under another id."""
    lines = ["| track of | age | frames | ends | seen again | a frame | lost for, frames |", "|---" * 7 + "|"]
    after = {id(track): gap for track, gap in resumptions(tracks)}
    for name in CLASSES:
        of_class = [track for track in tracks if track.label == name]
        for age, is_young in ((f"first {YOUNG_FRAMES} frames", True), ("later", False)):
            count = sum(_frames_at_risk(track, is_young) for track in of_class)
            ends = [t for t in of_class if (len(t.frames) <= YOUNG_FRAMES) == is_young and _ends_in_view(t)]
            gaps = [after[id(track)] for track in ends if id(track) in after]
            rate = len(gaps) / count if count else math.nan
            spread = "" if not gaps else f"{np.mean(gaps):.1f} ({np.median(gaps):g}, {np.quantile(gaps, 0.9):.0f})"
            lines.append(f"| {name} | {age} | {count:,} | {len(ends)} | {len(gaps)} | {rate:.4f} | {spread} |")
    return lines


def _frames_at_risk(track: Track, is_young: bool) -> int:
    count = len(track.frames[track.frames < track.num_frames - RESUMED_FRAMES - 1])
    return min(count, YOUNG_FRAMES) if is_young else max(count - YOUNG_FRAMES, 0)


def _ends_in_view(track: Track) -> bool:
    return bool(track.frames[-1] < track.num_frames - RESUMED_FRAMES - 1)


def resumptions(tracks: list[Track]) -> Iterator[tuple[Track, int]]:
    """Yield ended tracks and the frames until another begins at their predicted position, each used at most once."""
    starts: dict[tuple[int, int], list[Track]] = {}
    for track in tracks:
        if track.frames[0] > 0:
            starts.setdefault((track.scene, int(track.frames[0])), []).append(track)
    for track in sorted(tracks, key=lambda each: (each.scene, each.frames[-1])):
        if not _ends_in_view(track):
            continue
        last, velocity = int(track.frames[-1]), track.velocities_mps[-3:].mean(axis=0)
        for gap in range(RESUMED_FRAMES + 1):
            away_m = (gap + 1) * STEP_S * velocity
            limit_m = RESUMED_M + 0.1 * float(np.hypot(*away_m))
            others = starts.get((track.scene, last + 1 + gap), [])
            near = [each for each in others if np.hypot(*(each.xy_m[0] - track.xy_m[-1] - away_m)) < limit_m]
            if near:
                others.remove(near[0])
                yield track, gap
                break


def label_table(tracks: list[Track]) -> list[str]:
    """Return how often the class of a track changes."""
    began: Counter[tuple[str, str]] = Counter()
    waits: dict[str, list[int]] = {}
    changes: Counter[tuple[str, str]] = Counter()
    frames: Counter[str] = Counter()
    for track in tracks:
        frames.update(track.labels[:-1].tolist())
        at = 1 + np.flatnonzero(track.labels[1:] != track.labels[:-1])
        changes.update(zip(track.labels[at - 1].tolist(), track.labels[at].tolist(), strict=True))
        known = next((label for label in track.labels.tolist() if label != "UNKNOWN"), "UNKNOWN")
        began[known, str(track.labels[0])] += 1
        if known != track.labels[0]:
            waits.setdefault(known, []).append(int(at[0]))
    lines = ["| class | tracks | begin as UNKNOWN | for, frames | of all frames, change to |", "|---" * 5 + "|"]
    for name in CLASSES:
        count = sum(number for (known, _), number in began.items() if known == name)
        wait = waits.get(name, [])
        left = ", ".join(f"{to} {n / frames[name]:.4f}" for (of, to), n in sorted(changes.items()) if of == name)
        shown = f"{len(wait) / count:.1%} | {np.mean(wait):.1f}" if wait else "0% | "
        lines.append(f"| {name} | {count} | {shown} | {left} |")
    return lines


def fact_table(tracks: list[Track]) -> list[str]:
    """Return further statistics of cars."""
    lines = ["| cars | parked | moving |", "|---|---|---|"]
    groups = [[track for track in tracks if is_measured(track, "CAR", parked=parked)] for parked in (True, False)]
    rows = {
        "half turns of the heading, a frame": [
            f"{np.mean(np.concatenate([_turns(t) for t in g])):.4f}" for g in groups
        ],
        "move along by the half of a step of length, away from the AV": [f"{_anchoring(g, 0):.2f}" for g in groups],
        "move across by the half of a step of width, away from the AV": [f"{_anchoring(g, 1):.2f}" for g in groups],
        "tracks with speed 0 in most frames": [f"{np.mean([_stands(t) for t in g]):.0%}" for g in groups],
        "velocity follows steps of the place, 0, 5, 10 frames later": [_following(groups[0]), ""],
        "velocity lags by": ["", f"{_lag_s(groups[1]):.2f} s"],
        "change of length in a frame: median, 90 %, 99 %": [_changes(group) for group in groups],
        "skewness of length, width": [f"{_skewness(g, 0):.1f}, {_skewness(g, 1):.1f}" for g in groups],
    }
    return lines + [f"| {name} | {first} | {second} |" for name, (first, second) in rows.items()]


def _turns(track: Track) -> np.ndarray:
    return np.abs(wrap_angle(np.diff(track.yaws_rad))) > np.pi / 2


def _stands(track: Track) -> bool:
    return bool((track.velocities_mps == 0).all(axis=1).mean() > 0.5)


def _anchoring(tracks: list[Track], side: int) -> float:
    """Return the shift of the centre away from the AV per half change of a size; 1 if the near edge stays."""
    products = squares = 0.0
    for track in tracks:
        axis_rad = track.axis_rad if track.is_parked else track.yaws_rad
        away = np.sign(track.along(track.xy_m - track.av_m, axis_rad)[1:, side])
        steps = np.diff(track.xy_m, axis=0)
        if not track.is_parked:
            steps = steps - np.apply_along_axis(lambda x: np.convolve(x, np.ones(11) / 11, "same"), 0, steps)
        moved = track.along(steps, track.axis_rad if track.is_parked else track.yaws_rad[1:])[:, side]
        grown = np.diff(track.sizes_m[:, side]) / 2 * away
        usual = np.abs(grown) < 0.5
        products += float((moved * grown)[usual].sum())
        squares += float((grown**2)[usual].sum())
    return products / squares if squares else math.nan


def _following(tracks: list[Track]) -> str:
    pairs: dict[int, list[np.ndarray]] = {lag: [] for lag in (0, 5, 10)}
    for track in tracks:
        if not _stands(track) and len(track.frames) > SHORTEST:
            errors = parked_errors(track)
            steps, speeds = np.diff(errors["along"]), errors["velocity along"][1:]
            for lag, found in pairs.items():
                found.append(np.stack([steps[: len(steps) - lag], speeds[lag:] - speeds.mean()]))
    return ", ".join(f"{np.corrcoef(np.concatenate(found, axis=1))[0, 1]:.2f}" for found in pairs.values())


def _lag_s(tracks: list[Track]) -> float:
    found = [moving_residuals(track) for track in tracks if len(track.frames) >= WINDOW + 10]
    residuals = np.concatenate([each["velocity along"] for each, _ in found])
    accelerations = np.concatenate([each for _, each in found])
    usual = np.abs(accelerations) < 4.0
    return float(-(residuals * accelerations)[usual].sum() / (accelerations**2)[usual].sum())


def _changes(tracks: list[Track]) -> str:
    changes = np.concatenate([np.abs(np.diff(np.log(track.sizes_m[:, 0]))) for track in tracks])
    return ", ".join(f"{value:.1%}" for value in np.expm1(np.quantile(changes, [0.5, 0.9, 0.99])))


def _skewness(tracks: list[Track], side: int) -> float:
    away = [track.sizes_m[:, side] - track.sizes_m[:, side].mean() for track in tracks]
    joined = np.concatenate(away)
    if not joined.any():
        return 0.0
    return float((joined**3).mean() / (joined**2).mean() ** 1.5)


if __name__ == "__main__":
    main()
