"""Perception noise: what a tracker makes of the true boxes of a made scene, as it was measured in a recorded one.

Errors of positions, headings and sizes are first-order processes: they last for a time, as those of trackers do. Tracks
are calm in most frames, and stirred in some, in which nearly all of the errors come. Velocities are what a tracker
makes of the noisy positions, what is hidden behind a car is not seen, tracks are lost and picked up again under another
id, and some cannot be told from clutter. docs/results/perception_noise.md says how all of it was measured, and what is
left out.
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
"""What has an error: metres along and across the heading, radians, and three shares of the size."""

MOVING_MPS = 2.0
"""Speed from which on an object has the errors of those that move; below, they are mixed."""

ANCHORING = 0.5
"""Share of a change of half the size by which the middle of a car moves away from the AV; measured 0.12 to 0.71."""

SKEW = 0.32
"""Parameter of a log-normal with the skewness of lengths, -1: boxes are cut short more often than they are too long."""

STIRRED_SHARE = 0.325
"""Mean share of stirred frames, in which a track gets nearly all of its errors; that of a track is up to twice this."""

STIRRED_MEMORY = 0.35
"""By how much it is likelier that a frame is stirred after one that was."""

CALM = 0.12
"""Fresh errors of calm frames as a share of what would be usual."""

VELOCITY_TIME_S = 0.4
"""Time with which velocities follow the positions."""

STILL_SHARE = 0.42
"""Share of parked cars whose velocity is exactly 0; clutter always has that."""

YOUNG_FRAMES = 10
"""Frames after its begin in which a track is lost more often."""

LOST_FRAMES = 5.4
"""Mean number of frames between the loss of a track and the next one of the same object, geometric from 0 on."""

BEGIN_UNKNOWN_FRAMES = 3.0
"""Mean number of frames after which a track that begins as unknown is told apart."""

TURN_UNKNOWN_FRAMES = 4.0
"""Mean number of frames for which a track is unknown in between."""

UNSURE_SHARE = 0.004
"""Share of objects whose class is not certain: 0.55 to 0.95, and the rest is UNKNOWN, or CAR for clutter."""

_SMALLEST_SHARE = 0.2
_UNKNOWN: Final = PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_UNKNOWN"]
_CAR: Final = PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_CAR"]


@dataclass(frozen=True)
class ClassNoise:
    """Noise of a class of objects.

    Attributes:
        standing: Deviation of each of :data:`QUANTITIES` of objects that stand, (6,).
        moving: The same of objects of :data:`MOVING_MPS` and more, (6,).
        times_s: Time after which errors have forgotten all but 1/e of what they were, (6,).
        dropout_rate: Chance a frame that the detector loses an object for 6 to 25 frames.
        loss_rates: Chance a frame that a track is lost, in its first :data:`YOUNG_FRAMES` frames and later, beside
            those whose object is hidden or dropped out.
        begins_unknown: Chance that a track begins with the class unknown.
        turns_unknown: Chance a frame that it becomes unknown for a while.
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
"""Noise of each class: with it benchmarks/perception_noise.py finds in made scenes what it finds in a recorded one.

It is the scene of the published dataset on which docs/results/perception_noise.md reports. Cyclists, of whom it has too
few, have the positions and sizes of pedestrians and the headings of cars.
"""


def perceive(scene: SceneRecords, rng: np.random.Generator) -> SceneRecords:
    """Return what a tracker with :data:`NOISE` would make of a scene of true boxes; the AV and all lights stay.

    The first piece of a track keeps its number; the next ones have new numbers, above all others of the scene.

    Args:
        scene: A made scene. Classes other than those of made scenes are taken to be cars.
        rng: Decides all; nothing else does.
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

    # the noise of tracks of some classes, (K,)
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
    # a few objects are taken for clutter with a part of the probability, and clutter for cars, in all their frames
    unsure = rng.random(len(label)) < UNSURE_SHARE
    certainty = np.where(unsure, rng.uniform(0.55, 0.95, len(label)), 1.0)[track, None]
    classes = np.eye(len(PERCEPTION_LABELS))
    mistaken = classes[np.where(label == _UNKNOWN, _CAR, _UNKNOWN)][track]
    probabilities = certainty * rows.label_probabilities + (1.0 - certainty) * mistaken
    unknown = (pieces.is_unknown[frame, track] & (label != _UNKNOWN)[track])[:, None]
    kept = pieces.is_tracked[frame, track]
    # first pieces keep the id of their track; the others get ids above all of them, in the order of their first frames,
    # which flat indices of frames x tracks have
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
    """Where rows (N,) are in arrays of frames x tracks, (T, K)."""

    frame: Int64Array
    track: Int64Array
    shape: tuple[int, int]

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return values of rows (N, ...) in frames x tracks, (T, K, ...), 0 where there is no row."""
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
    # calm and stirred frames, (T, K): a share for each track, and a chain of two states that forgets soon and has it
    num_frames, num_tracks = grid.shape
    shares = rng.uniform(0.0, 2.0 * STIRRED_SHARE, num_tracks)
    draws = rng.random(grid.shape)
    is_stirred = np.zeros(grid.shape, bool)
    is_stirred[0] = draws[0] < shares
    for frame in range(1, num_frames):
        chances = shares * (1.0 - STIRRED_MEMORY) + STIRRED_MEMORY * is_stirred[frame - 1]
        is_stirred[frame] = draws[frame] < chances

    # errors of deviation 1 over all tracks, (T, K, Q): x(t) = a x(t-1) + sqrt(1 - a^2) w, a = exp(-dt / time), keeps
    # the variance of w; fresh errors w of stirred frames have the variance `most`, with which the mean over calm and
    # stirred ones is 1
    most = (1.0 - (1.0 - STIRRED_SHARE) * CALM**2) / STIRRED_SHARE
    values = rng.standard_normal((num_frames, *noise.times_s.shape))
    values[0] *= np.sqrt(CALM**2 + shares * (most - CALM**2))[:, None]
    kept = np.exp(-FRAME_PERIOD_S / noise.times_s)
    fresh = np.sqrt(1.0 - kept**2)
    for frame in range(1, num_frames):
        sizes = np.where(is_stirred[frame], np.sqrt(most), CALM)[:, None]
        values[frame] = kept * values[frame - 1] + sizes * fresh * values[frame]
    errors = grid.gather(values)

    # deviations of standing and of moving objects are mixed below 2 m/s
    speed_mps = np.hypot(*rows.velocities_mps.astype(np.float64).T)
    moves = np.clip(speed_mps / MOVING_MPS, 0.0, 1.0)[:, None]
    deviations = noise.standing[grid.track] * (1.0 - moves) + noise.moving[grid.track] * moves
    # sizes: a log-normal of mean 1, turned over and scaled to deviation 1, so that boxes are rather cut short
    cut_shares = deviations[:, 3:] * (1.0 - np.exp(SKEW * errors[:, 3:] - SKEW**2 / 2)) / np.sqrt(np.expm1(SKEW**2))
    sizes_m = rows.extents_m * np.maximum(1.0 + cut_shares, _SMALLEST_SHARE)
    # A tracker sees the near side of a car: where it takes it for longer or wider, the middle moves away from the AV.
    # What this adds to the deviation of positions is taken out of their own error, variances being sums.
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
    """Return the velocities that a tracker makes of positions, from the true one on, (N, 2)."""
    spread_m, true_mps = grid.spread(positions_m), grid.spread(rows.velocities_mps.astype(np.float64))
    is_there = grid.spread(np.ones(len(positions_m), bool))
    # steps of positions are smoothed from the true velocity of the first frame on, and anew where a track begins again
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
    """Tracks after losses, (T, K): whether they are tracked, whether of unknown class, and in which piece."""

    is_tracked: BoolArray
    is_unknown: BoolArray
    piece: Int64Array


def _lose(is_there: BoolArray, noise: _TrackNoise, rng: np.random.Generator) -> _Pieces:
    """Lose tracks (T, K) and find them again, and take some for unknown."""
    # as many numbers are drawn whatever becomes of a track
    chances = rng.random((3, *is_there.shape))
    lost_frames = rng.geometric(1.0 / (1.0 + LOST_FRAMES), is_there.shape) - 1
    first_frames = rng.geometric(1.0 / BEGIN_UNKNOWN_FRAMES, is_there.shape)
    later_frames = rng.geometric(1.0 / TURN_UNKNOWN_FRAMES, is_there.shape)
    num_tracks = is_there.shape[1]
    age = np.where(is_there[0], YOUNG_FRAMES, 0)  # what is there at first has been there before
    lost, unknown, piece = (np.zeros(num_tracks, np.int64) for _ in range(3))
    made = _Pieces(np.zeros_like(is_there), np.zeros_like(is_there), np.zeros(is_there.shape, np.int64))
    was_there = np.maximum.accumulate(is_there, axis=0)
    for t in range(len(is_there)):
        if t > 0:  # what has been hidden or out of range is tracked anew
            returns = is_there[t] & ~is_there[t - 1] & was_there[t - 1]
            age, lost, unknown = (np.where(returns, 0, each) for each in (age, lost, unknown))
            piece = piece + returns
        is_tracked = is_there[t] & (lost == 0)
        begins = is_tracked & (age == 0)
        unknown = np.where(begins & (chances[0, t] < noise.begins_unknown), first_frames[t], unknown)
        turns = is_tracked & ~begins & (unknown == 0) & (chances[1, t] < noise.turns_unknown)
        unknown = np.where(turns, later_frames[t], unknown)
        made.is_tracked[t], made.is_unknown[t], made.piece[t] = is_tracked, is_tracked & (unknown > 0), piece
        # frames that a track stays unknown or lost count down, and a new track begins young
        unknown = np.maximum(unknown - is_tracked, 0)
        lost = np.maximum(lost - is_there[t], 0)
        age += is_tracked
        ends = is_tracked & (chances[2, t] < np.where(age <= YOUNG_FRAMES, *noise.loss_rates.T))
        lost, age = np.where(ends, lost_frames[t], lost), np.where(ends, 0, age)
        unknown, piece = np.where(ends, 0, unknown), piece + ends
    return made
