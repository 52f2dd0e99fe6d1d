"""Perception noise: boxes of a tracker from the true boxes of a synthetic scene, as measured in a recorded scene.

Errors of positions, headings and sizes are first-order processes: they persist for a time, as those of trackers do.
Tracks are calm in most frames and stirred in some, which have nearly all of the errors. Velocities follow the noisy
positions, objects occluded by a car are not seen, tracks are lost and continue under another id, and some cannot be
distinguished from clutter. docs/results/perception_noise.md describes the measurements and what the model omits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.frame_rows import parts_of_rows
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX, PERCEPTION_LABELS
from l5kit.data.scene_arrays import AgentRows, SceneArrays
from l5kit.data.scene_records import SceneRecords
from l5kit.data.tracks import Observations
from l5kit.synthetic.params import FRAME_PERIOD_S
from l5kit.synthetic.perception import DetectableObjects, detect

QUANTITIES: Final = ("along", "across", "heading", "length", "width", "height")
"""Quantities with errors: metres along and across the heading, radians, and the sizes as relative errors."""

MOVING_MPS = 2.0
"""Speed from which on objects have the errors of moving ones; below, errors are interpolated."""

ANCHORING = 0.5
"""Share of half a size error by which the centre of a car moves away from the AV; measured 0.12 to 0.71."""

SKEW = 0.32
"""Parameter of a log-normal with the skewness of lengths, -1: boxes are more often too short than too long."""

STIRRED_SHARE = 0.325
"""Mean share of stirred frames, which have nearly all errors of a track; that of a track is up to twice this."""

STIRRED_MEMORY = 0.35
"""Increase of the probability that a frame is stirred after a stirred one."""

CALM = 0.12
"""New errors of calm frames relative to average ones."""

VELOCITY_TIME_S = 0.4
"""Time constant with which velocities follow positions."""

STILL_SHARE = 0.42
"""Share of parked cars with a velocity of exactly 0, as for all clutter."""

YOUNG_FRAMES = 10
"""Number of first frames in which a track is lost more often."""

LOST_FRAMES = 5.4
"""Mean number of frames between the loss of a track and the next track of the object, geometric from 0."""

BEGIN_UNKNOWN_FRAMES = 3.0
"""Mean number of frames after which a track that starts as unknown gets its class."""

TURN_UNKNOWN_FRAMES = 4.0
"""Mean number of frames for which a track turns unknown."""

UNSURE_SHARE = 0.004
"""Share of objects of uncertain class: a probability of 0.55 to 0.95, the rest UNKNOWN, or CAR for clutter."""

_SMALLEST_SHARE = 0.2
_UNKNOWN: Final = PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_UNKNOWN"]
_CAR: Final = PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_CAR"]


@dataclass(frozen=True)
class ClassNoise:
    """Noise of a class of objects.

    Attributes:
        standing: Standard deviations of :data:`QUANTITIES` of standing objects, (6,).
        moving: Standard deviations for objects at :data:`MOVING_MPS` and more, (6,).
        times_s: Time constants of the errors, (6,).
        dropout_rate: Probability per frame that the detector loses an object for 6 to 25 frames.
        loss_rates: Probability per frame that a track is lost, in its first :data:`YOUNG_FRAMES` frames and later, in
            addition to occlusion and dropouts.
        begins_unknown: Probability that a track starts with the class unknown.
        turns_unknown: Probability per frame that it becomes unknown for a while.
    """

    standing: tuple[float, ...]
    moving: tuple[float, ...]
    times_s: tuple[float, ...]
    dropout_rate: float
    loss_rates: tuple[float, float]
    begins_unknown: float
    turns_unknown: float


NOISE: Mapping[str, ClassNoise] = MappingProxyType(
    {
        "PERCEPTION_LABEL_CAR": ClassNoise(
            standing=(0.50, 0.23, 0.052, 0.36, 0.42, 0.28),
            moving=(0.54, 0.135, 0.018, 0.26, 0.14, 0.145),
            times_s=(2.0, 2.2, 0.7, 1.5, 3.0, 1.7),
            dropout_rate=0.001,
            loss_rates=(0.026, 0.0055),
            begins_unknown=0.12,
            turns_unknown=0.0013,
        ),
        "PERCEPTION_LABEL_CYCLIST": ClassNoise(
            standing=(0.08, 0.18, 0.047, 0.34, 0.23, 0.11),
            moving=(0.08, 0.18, 0.047, 0.34, 0.23, 0.11),
            times_s=(1.1, 3.0, 0.6, 0.9, 1.0, 0.6),
            dropout_rate=0.002,
            loss_rates=(0.030, 0.004),
            begins_unknown=0.0,
            turns_unknown=0.0,
        ),
        "PERCEPTION_LABEL_PEDESTRIAN": ClassNoise(
            standing=(0.08, 0.18, 0.71, 0.34, 0.23, 0.11),
            moving=(0.08, 0.18, 0.36, 0.34, 0.23, 0.11),
            times_s=(1.1, 3.0, 0.2, 0.9, 1.0, 0.6),
            dropout_rate=0.003,
            loss_rates=(0.034, 0.0),
            begins_unknown=0.27,
            turns_unknown=0.0071,
        ),
        "PERCEPTION_LABEL_UNKNOWN": ClassNoise(
            standing=(0.095, 0.115, 0.42, 0.55, 0.54, 0.08),
            moving=(0.095, 0.115, 0.42, 0.55, 0.54, 0.08),
            times_s=(0.6, 1.5, 3.0, 3.0, 3.0, 0.3),
            dropout_rate=0.008,
            loss_rates=(0.054, 0.0),
            begins_unknown=0.0,
            turns_unknown=0.0,
        ),
    }
)
"""Noise of each class, calibrated so that benchmarks/perception_noise.py measures the same in synthetic and real data.

The real scene is that of the published dataset in docs/results/perception_noise.md. It has too few cyclists, so they
have the position and size errors of pedestrians and the heading errors of cars.
"""


def perceive(scene: SceneRecords, rng: np.random.Generator) -> SceneRecords:
    """Return a scene of true boxes as perceived by a tracker with :data:`NOISE`; the AV and all lights stay true.

    The first piece of a track keeps its id; further pieces get new ids, above all others of the scene.

    Args:
        scene: A synthetic scene. Classes other than those of synthetic scenes are treated as cars.
        rng: The only source of randomness.
    """
    arrays = SceneArrays.of_records(scene)
    rows = arrays.agents
    num_frames = len(scene.frames)
    if len(rows.track_ids) == 0:
        return scene
    frame = parts_of_rows(rows.starts)
    ids, track = np.unique(rows.track_ids, return_inverse=True)
    grid = _Grid(frame, track, (num_frames, len(ids)))
    label = np.zeros(len(ids), np.int64)
    label[track] = rows.label_probabilities.argmax(axis=1)

    # noise parameters of the class of each track, (K,)
    noises = [NOISE.get(PERCEPTION_LABELS[each], NOISE["PERCEPTION_LABEL_CAR"]) for each in label.tolist()]
    names = ("standing", "moving", "times_s", "dropout_rate", "loss_rates", "begins_unknown", "turns_unknown")
    columns = {name: np.array([getattr(each, name) for each in noises]) for name in names}
    noise = _TrackNoise(**columns, anchoring=np.where(label == _CAR, ANCHORING, 0.0))
    objects = DetectableObjects(
        exists=grid.spread(np.ones(len(frame), bool)),
        xy_m=grid.spread(rows.centroids_m),
        hides=label == _CAR,
        dropout_rate=noise.dropout_rate,
    )
    pieces = _lose(detect(objects, arrays.ego_positions_m[:, :2], rng), noise, rng)
    boxes = _blur(rows, arrays.ego_positions_m[frame, :2], grid, noise, rng)
    velocities = _follow(rows, boxes.positions_m, grid, label, rng)
    # a few objects have some probability of being clutter, or clutter of being cars, in all their frames
    unsure = rng.random(len(label)) < UNSURE_SHARE
    certainty = np.where(unsure, rng.uniform(0.55, 0.95, len(label)), 1.0)[track, None]
    classes = np.eye(len(PERCEPTION_LABELS))
    mistaken = classes[np.where(label == _UNKNOWN, _CAR, _UNKNOWN)][track]
    probabilities = certainty * rows.label_probabilities + (1.0 - certainty) * mistaken
    unknown = (pieces.is_unknown[frame, track] & (label != _UNKNOWN)[track])[:, None]
    kept = pieces.is_tracked[frame, track]
    # First pieces keep the id of their track. Others get ids above all of them, in the order of their first frames, the
    # order of flat indices of frames x tracks.
    piece = np.where(pieces.is_tracked, pieces.piece, 0)
    earlier = np.maximum.accumulate(piece, axis=0)
    begins = earlier > np.concatenate([np.zeros((1, len(ids)), np.int64), earlier[:-1]])
    new_ids = np.zeros(piece.shape, np.int64)
    new_ids[begins] = int(ids.max()) + 1 + np.arange(int(begins.sum()))
    track_ids = np.where(piece > 0, np.maximum.accumulate(new_ids, axis=0), ids.astype(np.int64))
    seen = Observations(
        frame_indices=frame[kept],
        track_ids=track_ids[frame, track][kept],
        positions_m=boxes.positions_m[kept],
        headings_rad=boxes.headings_rad[kept],
        velocities_mps=velocities[kept],
        sizes_m=boxes.sizes_m[kept],
        label_probabilities=np.where(unknown, classes[_UNKNOWN], probabilities)[kept],
    )
    noisy = replace(arrays, agents=seen.to_agent_rows(num_frames)).to_records()
    return replace(scene, frames=noisy.frames, agents=noisy.agents)


@dataclass(frozen=True)
class _Grid:
    """Frame and track of rows (N,) in arrays of frames x tracks, (T, K)."""

    frame: Int64Array
    track: Int64Array
    shape: tuple[int, int]

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return values of rows (N, ...) as frames x tracks, (T, K, ...), 0 without a row."""
        spread = np.zeros((*self.shape, *values.shape[1:]), values.dtype)
        spread[self.frame, self.track] = values
        return spread

    def gather(self, values: np.ndarray) -> np.ndarray:
        """Return the values of rows, (N, ...)."""
        gathered: np.ndarray = values[self.frame, self.track]
        return gathered


@dataclass(frozen=True)
class _TrackNoise:
    """Noise of K tracks: arrays (K, 6) and (K, 2) or (K,), as in :class:`ClassNoise`."""

    standing: Float64Array
    moving: Float64Array
    times_s: Float64Array
    dropout_rate: Float64Array
    loss_rates: Float64Array
    begins_unknown: Float64Array
    turns_unknown: Float64Array
    anchoring: Float64Array


@dataclass(frozen=True)
class _Boxes:
    """Noisy boxes of N rows: positions (N, 2), headings (N,), sizes (N, 3)."""

    positions_m: Float64Array
    headings_rad: Float64Array
    sizes_m: Float64Array


def _blur(rows: AgentRows, av_m: Float64Array, grid: _Grid, noise: _TrackNoise, rng: np.random.Generator) -> _Boxes:
    """Return noisy boxes of rows."""
    # Calm and stirred frames, (T, K): a share per track, and a Markov chain of two states with that share and a short
    # memory.
    num_frames, num_tracks = grid.shape
    shares = rng.uniform(0.0, 2.0 * STIRRED_SHARE, num_tracks)
    draws = rng.random(grid.shape)
    is_stirred = np.zeros(grid.shape, bool)
    is_stirred[0] = draws[0] < shares
    for frame in range(1, num_frames):
        chances = shares * (1.0 - STIRRED_MEMORY) + STIRRED_MEMORY * is_stirred[frame - 1]
        is_stirred[frame] = draws[frame] < chances

    # Errors of deviation 1 over all tracks, (T, K, Q): x(t) = a x(t-1) + sqrt(1 - a^2) w, a = exp(-dt / time), has the
    # variance of w. New errors w of stirred frames have the variance `most`, so that the mean over calm and stirred
    # frames is 1.
    most = (1.0 - (1.0 - STIRRED_SHARE) * CALM**2) / STIRRED_SHARE
    values = rng.standard_normal((num_frames, *noise.times_s.shape))
    values[0] *= np.sqrt(CALM**2 + shares * (most - CALM**2))[:, None]
    kept = np.exp(-FRAME_PERIOD_S / noise.times_s)
    fresh = np.sqrt(1.0 - kept**2)
    for frame in range(1, num_frames):
        sizes = np.where(is_stirred[frame], np.sqrt(most), CALM)[:, None]
        values[frame] = kept * values[frame - 1] + sizes * fresh * values[frame]
    errors = grid.gather(values)

    # interpolate between the deviations of standing and moving objects below 2 m/s
    speed_mps = np.hypot(*rows.velocities_mps.astype(np.float64).T)
    moves = np.clip(speed_mps / MOVING_MPS, 0.0, 1.0)[:, None]
    deviations = noise.standing[grid.track] * (1.0 - moves) + noise.moving[grid.track] * moves
    # sizes: a mirrored log-normal of mean 1, scaled to deviation 1, so that boxes are more often too short
    cut_shares = deviations[:, 3:] * (1.0 - np.exp(SKEW * errors[:, 3:] - SKEW**2 / 2)) / np.sqrt(np.expm1(SKEW**2))
    sizes_m = rows.extents_m * np.maximum(1.0 + cut_shares, _SMALLEST_SHARE)
    # A tracker sees the near side of a car: if its box is too long or too wide, the centre moves away from the AV. This
    # adds to the variance of positions, so it is subtracted from the variance of their own error.
    yaw = rows.yaws_rad.astype(np.float64)
    axes = np.stack([np.cos(yaw), np.sin(yaw), -np.sin(yaw), np.cos(yaw)], axis=1).reshape(-1, 2, 2)
    away = rows.centroids_m - av_m
    away = away / np.maximum(np.hypot(*away.T), 1e-6)[:, None]
    pushed = noise.anchoring[grid.track, None] * np.einsum("nij,nj->ni", axes, away) / 2
    anchored = (pushed * deviations[:, 3:5] * rows.extents_m[:, :2]) ** 2
    independent = np.sqrt(np.maximum(deviations[:, :2] ** 2 - anchored, 0.0))
    moved_m = independent * errors[:, :2] + pushed * (sizes_m[:, :2] - rows.extents_m[:, :2])
    return _Boxes(
        positions_m=rows.centroids_m + np.einsum("nij,ni->nj", axes, moved_m),
        headings_rad=yaw + deviations[:, 2] * errors[:, 2],
        sizes_m=sizes_m,
    )


def _follow(
    rows: AgentRows, positions_m: Float64Array, grid: _Grid, label: Int64Array, rng: np.random.Generator
) -> Float64Array:
    """Return velocities that a tracker derives from positions, starting with the true velocity, (N, 2)."""
    spread_m, true_mps = grid.spread(positions_m), grid.spread(rows.velocities_mps.astype(np.float64))
    is_there = grid.spread(np.ones(len(positions_m), bool))
    # smooth the steps of positions, starting with the true velocity in the first frame of each continuous track
    velocities = true_mps.copy()
    share = 1.0 - np.exp(-FRAME_PERIOD_S / VELOCITY_TIME_S)
    for frame in range(1, grid.shape[0]):
        goes_on = is_there[frame] & is_there[frame - 1]
        steps_mps = (spread_m[frame] - spread_m[frame - 1]) / FRAME_PERIOD_S
        smoothed = velocities[frame - 1] + share * (steps_mps - velocities[frame - 1])
        velocities[frame] = np.where(goes_on[:, None], smoothed, velocities[frame])
    is_stationary = (true_mps == 0).all(axis=(0, 2))
    is_still = is_stationary & ((label == _UNKNOWN) | ((label == _CAR) & (rng.random(len(label)) < STILL_SHARE)))
    velocities[:, is_still] = 0.0
    return grid.gather(velocities)


@dataclass(frozen=True)
class _Pieces:
    """Tracks after losses, (T, K): whether they are tracked, whether of unknown class, and the index of the piece."""

    is_tracked: BoolArray
    is_unknown: BoolArray
    piece: Int64Array


def _lose(is_there: BoolArray, noise: _TrackNoise, rng: np.random.Generator) -> _Pieces:
    """Lose and recover tracks (T, K), and give some the class unknown."""
    # draw the same number of random values whatever happens to a track
    chances = rng.random((3, *is_there.shape))
    lost_frames = rng.geometric(1.0 / (1.0 + LOST_FRAMES), is_there.shape) - 1
    first_frames = rng.geometric(1.0 / BEGIN_UNKNOWN_FRAMES, is_there.shape)
    later_frames = rng.geometric(1.0 / TURN_UNKNOWN_FRAMES, is_there.shape)
    num_tracks = is_there.shape[1]
    age = np.where(is_there[0], YOUNG_FRAMES, 0)  # objects of the first frame have been tracked before
    lost, unknown, piece = (np.zeros(num_tracks, np.int64) for _ in range(3))
    made = _Pieces(np.zeros_like(is_there), np.zeros_like(is_there), np.zeros(is_there.shape, np.int64))
    was_there = np.maximum.accumulate(is_there, axis=0)
    for t in range(len(is_there)):
        if t > 0:  # objects that return get a new track
            returns = is_there[t] & ~is_there[t - 1] & was_there[t - 1]
            age, lost, unknown = (np.where(returns, 0, each) for each in (age, lost, unknown))
            piece = piece + returns
        is_tracked = is_there[t] & (lost == 0)
        begins = is_tracked & (age == 0)
        unknown = np.where(begins & (chances[0, t] < noise.begins_unknown), first_frames[t], unknown)
        turns = is_tracked & ~begins & (unknown == 0) & (chances[1, t] < noise.turns_unknown)
        unknown = np.where(turns, later_frames[t], unknown)
        made.is_tracked[t], made.is_unknown[t], made.piece[t] = is_tracked, is_tracked & (unknown > 0), piece
        # count down the frames for which tracks stay unknown or lost; a new track starts young
        unknown = np.maximum(unknown - is_tracked, 0)
        lost = np.maximum(lost - is_there[t], 0)
        age += is_tracked
        ends = is_tracked & (chances[2, t] < np.where(age <= YOUNG_FRAMES, *noise.loss_rates.T))
        lost, age = np.where(ends, lost_frames[t], lost), np.where(ends, 0, age)
        unknown, piece = np.where(ends, 0, unknown), piece + ends
    return made
