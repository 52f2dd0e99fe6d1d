"""Tracks: road users from other datasets and simulations, converted to the agent rows of scenes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import BoolArray, Float32Array, Int32Array, Int64Array, NumericArray
from l5kit.data.array_shapes import require_shapes
from l5kit.data.index.track_ids import as_record_track_ids
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.data.scene_arrays import AgentRows, FaceRows, require_ids
from l5kit.errors import InvalidArgumentError


@dataclass(frozen=True)
class Observations:
    """Observations of road users in any order, N: one per track and frame in which the track is visible.

    Attributes:
        frame_indices: Frame index within the scene, int64, (N,).
        track_ids: Track ids, by convention from 1 on, (N,).
        positions_m: World x and y of the middle of the box, (N, 2).
        headings_rad: World heading, counter-clockwise from x, (N,); wrapped to -pi to pi.
        velocities_mps: World x and y, (N, 2).
        sizes_m: Length along the heading, width and height, (N, 3).
        label_probabilities: Probability of each of ``PERCEPTION_LABELS``, (N, 17); see :func:`label_probabilities_of`.

    Raises:
        InvalidArgumentError: An array has another shape, or a frame or track is not a whole number from 0 on.
    """

    frame_indices: Int64Array
    track_ids: NumericArray
    positions_m: NumericArray
    headings_rad: NumericArray
    velocities_mps: NumericArray
    sizes_m: NumericArray
    label_probabilities: NumericArray

    def __post_init__(self) -> None:
        _require_frame_indices(self.frame_indices)
        size = len(self.frame_indices)
        require_shapes(self, track_ids=(size,), headings_rad=(size,), sizes_m=(size, 3))
        require_shapes(self, positions_m=(size, 2), velocities_mps=(size, 2))
        require_shapes(self, label_probabilities=(size, len(PERCEPTION_LABELS)))
        object.__setattr__(self, "track_ids", as_record_track_ids("track_ids", self.track_ids))

    def to_agent_rows(self, num_frames: int) -> AgentRows:
        """Return the agent rows of a scene, sorted by frame and track.

        Args:
            num_frames: Number of frames of the scene.

        Raises:
            InvalidArgumentError: A frame is not in the scene, or has a track twice.
        """
        is_wrong = (self.frame_indices < 0) | (self.frame_indices >= num_frames)
        if is_wrong.any():
            raise InvalidArgumentError(
                f"frame_indices has {int(self.frame_indices[is_wrong][0])}, but the scene has {num_frames} frames"
            )
        # sort by frame, then track, so that duplicates of a track in a frame are neighbours
        order = np.lexsort((self.track_ids, self.frame_indices))
        frames, tracks = self.frame_indices[order], self.track_ids[order]
        is_twice = (frames[1:] == frames[:-1]) & (tracks[1:] == tracks[:-1])
        if is_twice.any():
            index = int(np.argmax(is_twice))
            raise InvalidArgumentError(
                f"track {int(tracks[index])} is in frame {int(frames[index])} twice; give each track one number"
            )
        headings_rad = self.headings_rad[order]
        return AgentRows(
            starts=_starts(frames, num_frames),
            track_ids=tracks,
            centroids_m=self.positions_m[order].astype(np.float64),
            yaws_rad=np.arctan2(np.sin(headings_rad), np.cos(headings_rad)).astype(np.float32),
            extents_m=self.sizes_m[order].astype(np.float32),
            velocities_mps=self.velocities_mps[order].astype(np.float32),
            label_probabilities=self.label_probabilities[order].astype(np.float32),
        )


@dataclass(frozen=True)
class Tracks:
    """Tracks (K) over the F frames of a scene, with the frames in which each is visible.

    Attributes:
        track_ids: Track ids, by convention from 1 on, (K,).
        is_valid: Mask of visible frames, bool, (K, F); :func:`spans_as_mask` creates it from first and end frames.
        positions_m: World x and y of the box centre, (K, F, 2); invalid entries are ignored, here and below.
        headings_rad: World heading, counter-clockwise from x, (K, F).
        velocities_mps: World x and y, (K, F, 2).
        sizes_m: Length along the heading, width and height, (K, 3), or per frame, (K, F, 3).
        label_probabilities: Probability of each of ``PERCEPTION_LABELS``, (K, 17), or per frame, (K, F, 17).

    Raises:
        InvalidArgumentError: An array has another shape, or a track id is not a whole number from 0 on.
    """

    track_ids: NumericArray
    is_valid: BoolArray
    positions_m: NumericArray
    headings_rad: NumericArray
    velocities_mps: NumericArray
    sizes_m: NumericArray
    label_probabilities: NumericArray

    def __post_init__(self) -> None:
        if self.is_valid.ndim != 2 or self.is_valid.dtype != np.bool_:
            raise InvalidArgumentError(
                f"is_valid must be bool of shape (tracks, frames), got {self.is_valid.dtype} of {self.is_valid.shape}"
            )
        shape = self.is_valid.shape
        of_sizes, of_labels = (shape[: array.ndim - 1] for array in (self.sizes_m, self.label_probabilities))
        require_shapes(self, track_ids=shape[:1], headings_rad=shape, sizes_m=(*of_sizes, 3))
        require_shapes(self, positions_m=(*shape, 2), velocities_mps=(*shape, 2))
        require_shapes(self, label_probabilities=(*of_labels, len(PERCEPTION_LABELS)))
        object.__setattr__(self, "track_ids", as_record_track_ids("track_ids", self.track_ids))

    def to_observations(self) -> Observations:
        """Return one observation for each track and frame in which it is visible."""
        tracks, frames = np.nonzero(self.is_valid)
        return Observations(
            frame_indices=frames,
            track_ids=self.track_ids[tracks],
            positions_m=self.positions_m[tracks, frames],
            headings_rad=self.headings_rad[tracks, frames],
            velocities_mps=self.velocities_mps[tracks, frames],
            sizes_m=self.sizes_m[(tracks, frames)[: self.sizes_m.ndim - 1]],
            label_probabilities=self.label_probabilities[(tracks, frames)[: self.label_probabilities.ndim - 1]],
        )

    def to_agent_rows(self) -> AgentRows:
        """Return the agent rows of the scene, sorted by frame and track.

        Raises:
            InvalidArgumentError: Two tracks have the same id and are visible in the same frame.
        """
        return self.to_observations().to_agent_rows(self.is_valid.shape[1])


def spans_as_mask(spans: ArrayLike, num_frames: int) -> BoolArray:
    """Return a mask of visible frames, (K, F), for tracks visible from a first frame up to an end frame.

    Args:
        spans: First frame and end frame (exclusive) of each track, (K, 2).
        num_frames: Number of frames of the scene, F.

    Raises:
        InvalidArgumentError: A span lies outside the scene.
    """
    bounds = np.asarray(spans, np.int64).reshape(-1, 2)
    is_wrong = (bounds[:, 0] < 0) | (bounds[:, 1] < bounds[:, 0]) | (bounds[:, 1] > num_frames)
    if is_wrong.any():
        raise InvalidArgumentError(
            f"spans has {bounds[is_wrong][0].tolist()}, but a span is [first frame, end frame) within the {num_frames} "
            "frames of the scene"
        )
    frames = np.arange(num_frames)
    return (bounds[:, :1] <= frames) & (frames < bounds[:, 1:])


def label_probabilities_of(labels: ArrayLike) -> Float32Array:
    """Return probabilities of certain classes: 1 for the label, 0 for all others, float32, (N, 17).

    Args:
        labels: Indices of ``PERCEPTION_LABELS``, (N,).

    Raises:
        InvalidArgumentError: A label does not exist.
    """
    indices = np.asarray(labels, np.int64)
    is_wrong = (indices < 0) | (indices >= len(PERCEPTION_LABELS))
    if is_wrong.any():
        raise InvalidArgumentError(
            f"labels has {int(indices[is_wrong][0])}; allowed are 0 to {len(PERCEPTION_LABELS) - 1}, as in "
            "PERCEPTION_LABEL_TO_INDEX"
        )
    return np.eye(len(PERCEPTION_LABELS), dtype=np.float32)[indices]


def faces_of_frames(
    num_frames: int, frame_indices: Int64Array, *, face_ids: ArrayLike, light_ids: ArrayLike, statuses: NumericArray
) -> FaceRows:
    """Return traffic light faces as the rows of a scene, sorted by frame; the order within a frame is kept.

    Args:
        num_frames: Number of frames of the scene.
        frame_indices: Frame of each face, (M,).
        face_ids: Bulb ids, text of at most 16 characters, (M,).
        light_ids: Traffic light ids, text of at most 16 characters, (M,).
        statuses: One value for each of ``TL_FACE_LABELS``, above 0 for the current status, (M, 3).

    Raises:
        InvalidArgumentError: A frame is not in the scene, or an array has another shape.
    """
    _require_frame_indices(frame_indices)
    if len(frame_indices) and not 0 <= frame_indices.min() <= frame_indices.max() < num_frames:
        raise InvalidArgumentError(
            f"frame_indices must be from 0 to {num_frames - 1}, got {frame_indices.min()} to {frame_indices.max()}"
        )
    _require_shape("statuses", statuses, (len(frame_indices), 3))
    order = np.argsort(frame_indices, kind="stable")
    ids = {"face_ids": np.asarray(face_ids, np.str_), "light_ids": np.asarray(light_ids, np.str_)}
    for name, texts in ids.items():
        _require_shape(name, texts, frame_indices.shape)
        require_ids(name, texts)
    return FaceRows(
        starts=_starts(frame_indices[order], num_frames),
        face_ids=ids["face_ids"][order].astype("<U16"),
        light_ids=ids["light_ids"][order].astype("<U16"),
        statuses=statuses[order].astype(np.float32),
    )


def _require_frame_indices(frame_indices: ArrayLike) -> None:
    if not isinstance(frame_indices, np.ndarray) or frame_indices.ndim != 1 or frame_indices.dtype.kind not in "iu":
        got = f"{getattr(frame_indices, 'dtype', type(frame_indices).__name__)} of {np.shape(frame_indices)}"
        raise InvalidArgumentError(
            f"frame_indices must be an array of integers of shape (N,), the frame of each, got {got}"
        )


def _starts(frame_indices: Int64Array, num_frames: int) -> Int32Array:
    """Return the first row of each frame and the end of the last one, int32, for rows sorted by frame."""
    counts = np.bincount(frame_indices, minlength=num_frames)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def _require_shape(name: str, array: ArrayLike, wanted: tuple[int, ...]) -> None:
    if np.shape(array) != wanted:
        raise InvalidArgumentError(f"{name} must have shape {wanted}, got {np.shape(array)}")
