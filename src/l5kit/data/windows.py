"""Windows of a log: frames around current ones, with their agents and traffic light faces, and whom they are about."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from l5kit._types import BoolArray, Float32Array, Float64Array, FloatArray, Int64Array, NumericArray, RecordArray
from l5kit.data.array_shapes import refuse_shapes
from l5kit.data.log_facts import EGO_EXTENT_M
from l5kit.data.records import AGENT_DTYPE, TL_FACE_DTYPE
from l5kit.data.window_rows import WindowRows
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.transform import compute_agent_transforms


@dataclass(frozen=True)
class Windows:
    """B windows of a log: up to H history frames, newest first, and up to F future frames, nearest first, with rows.

    They can be made of a dataset (:func:`l5kit.data.window_cutting.cut_windows`), of the buffer of a simulation, or of
    arrays at hand (:meth:`of_frames`); what draws or samples them does not know which.

    Attributes:
        frames: FRAME_DTYPE, (B, H + F); what stands in a place that a window has no frame for means nothing.
        counts: History frames, at least one, and future frames that each window has, (2, B).
        agents: AGENT_DTYPE, the agents of each frame, (B, H + F).
        tl_faces: TL_FACE_DTYPE, the traffic light faces of the first frames, (B, any); (B, 0) for none at all.
        num_history: H, the current frame included.
        ego_extent_m: Length, width and height of the AV in all of them, a fact of the log.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    frames: RecordArray
    counts: Int64Array
    agents: WindowRows
    tl_faces: WindowRows
    num_history: int
    ego_extent_m: tuple[float, float, float] = EGO_EXTENT_M

    def __post_init__(self) -> None:
        shape = self.frames.shape
        if self.agents.starts.shape != shape or self.counts.shape != (2, shape[0]):
            refuse_shapes(self, frames=self.agents.starts.shape, counts=(2, shape[0]))
        if len(self.tl_faces.starts) != shape[0] or not self.num_history <= shape[1]:
            raise InvalidArgumentError(
                f"Windows: frames {shape} do not fit tl_faces of {len(self.tl_faces)} windows and {self.num_history} "
                "history frames"
            )

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def num_future(self) -> int:
        """F."""
        return int(self.frames.shape[1]) - self.num_history

    @property
    def current_frames(self) -> RecordArray:
        """The newest frame of each window, a view, (B,)."""
        return self.frames[:, 0]

    def history(self, window: int) -> RecordArray:
        """Return the history frames that a window has, newest first, a view."""
        return self.frames[window, : self.counts[0, window]]

    def future(self, window: int) -> RecordArray:
        """Return the future frames that a window has, nearest first, a view."""
        return self.frames[window, self.num_history : self.num_history + self.counts[1, window]]

    def taken(self, windows: Int64Array | BoolArray) -> "Windows":
        """Return some of the windows, copies but for the rows."""
        return Windows(
            self.frames[windows],
            np.ascontiguousarray(self.counts[:, windows]),
            self.agents.taken(windows),
            self.tl_faces.taken(windows),
            self.num_history,
            self.ego_extent_m,
        )

    @classmethod
    def of_frames(
        cls, frames: RecordArray, agents: Sequence[RecordArray], tl_faces: Sequence[RecordArray]
    ) -> "Windows":
        """Return one window of history frames, as a batch of one.

        Args:
            frames: FRAME_DTYPE, newest first, (H,).
            agents: The agents of each frame, AGENT_DTYPE.
            tl_faces: The traffic light faces of the first frames, TL_FACE_DTYPE; may be empty.

        Raises:
            InvalidArgumentError: There are more or fewer arrays of agents than frames.
        """
        return cls(
            frames=frames[None],
            counts=np.array([[len(frames)], [0]], dtype=np.int64),
            agents=WindowRows.from_frames(agents, np.dtype(AGENT_DTYPE)),
            tl_faces=WindowRows.from_frames(tl_faces, np.dtype(TL_FACE_DTYPE)),
            num_history=len(frames),
        )


class WindowArrays(NamedTuple):
    """B windows of C frames as kernels take them, of NumPy or of a device; those of the past first, newest first.

    Attributes:
        is_there: Which frames a window has, bool (B, C).
        starts: First agent of each frame, int64 (B, C); equal to the end where there is no frame.
        stops: End agent of each frame, int64 (B, C).
        face_bounds: First and end face of the newest frame, int64 (B, 2).
        av_positions_m: World x and y of the AV, float64 (B, C, 2).
        av_headings: Its yaw, cosine and sine of it, float32 (B, C, 3).
        av_size_m: Its length and width, as exact as agents have theirs.
        num_history: How many of the columns are frames of the past, the current one included.
    """

    is_there: BoolArray
    starts: Int64Array
    stops: Int64Array
    face_bounds: Int64Array
    av_positions_m: Float64Array
    av_headings: Float32Array
    av_size_m: tuple[float, float]
    num_history: int


class TargetArrays(NamedTuple):
    """Whom B windows are about, as kernels take it, of NumPy or of a device.

    Attributes:
        has_tracks: Whether they are agents; else the AV in all windows.
        track_ids: Their tracks, uint64 (B,); 0 for the AV.
        centroids_m: World x and y, float64 (B, 2).
        yaws_rad: World headings, float32 (B,).
        agent_from_world: Their frames, float64 (B, 3, 3).
    """

    has_tracks: bool
    track_ids: NumericArray
    centroids_m: Float64Array
    yaws_rad: Float32Array
    agent_from_world: Float64Array


@dataclass(frozen=True)
class Targets:
    """Whom B windows are about, in their current frames: the AV in all of them, or an agent in each.

    Attributes:
        track_ids: One track for each window, (B,), in the type of the agents' field; None for the AV.
        rows: Their rows, each in the array of agents of its window, (B,), negative where there is none; None for the
            AV, and where nobody asks.
        centroids_m: World positions, (B, 2) float64.
        yaws_rad: World headings, (B,): float64 for the AV, the type of the agents' field for agents.
        extents_m: Length, width and height, (B, 3): float64 for the AV, the type of the agents' field for agents.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    track_ids: NumericArray | None
    rows: Int64Array | None
    centroids_m: Float64Array
    yaws_rad: FloatArray
    extents_m: FloatArray

    def __post_init__(self) -> None:
        shape = (size,) = self.yaws_rad.shape
        if self.centroids_m.shape != (size, 2) or self.extents_m.shape != (size, 3):
            refuse_shapes(self, centroids_m=(size, 2), extents_m=(size, 3))
        if self.track_ids is not None and self.track_ids.shape != shape:
            refuse_shapes(self, track_ids=shape)
        if self.rows is not None and self.rows.shape != shape:
            refuse_shapes(self, rows=shape)

    def __len__(self) -> int:
        return len(self.yaws_rad)

    @property
    def arrays(self) -> TargetArrays:
        """The targets as kernels take them."""
        has_tracks = self.track_ids is not None
        track_ids = np.zeros(len(self), np.uint64) if self.track_ids is None else self.track_ids.astype(np.uint64)
        return TargetArrays(
            has_tracks, track_ids, self.centroids_m, self.yaws_rad.astype(np.float32), self.agent_from_world
        )

    @property
    def is_found(self) -> BoolArray:
        """Which of them have a row, (B,); the others hold anything."""
        return np.ones(len(self), np.bool_) if self.rows is None else self.rows >= 0

    @property
    def world_from_agent(self) -> Float64Array:
        """Their poses, (B, 3, 3)."""
        return self._transforms()[0]

    @property
    def agent_from_world(self) -> Float64Array:
        """Their frames, which all that is in a sample is relative to, (B, 3, 3)."""
        return self._transforms()[1]

    def _transforms(self) -> tuple[Float64Array, Float64Array]:
        """Return poses and frames, computed when they are first asked for (without the lock of a cached property)."""
        known: dict[str, tuple[Float64Array, Float64Array]] = vars(self)
        if "transforms" not in known:
            known["transforms"] = compute_agent_transforms(
                self.centroids_m, self.yaws_rad.astype(np.float64, copy=False)
            )
        return known["transforms"]


@dataclass(frozen=True)
class SeenTargets(Targets):
    """Targets whose frames somebody gives, which need not be those of their positions and headings.

    Attributes:
        seen_from: Their frames from world coordinates, (B, 3, 3) float64.
    """

    seen_from: Float64Array

    @property
    def agent_from_world(self) -> Float64Array:
        """The given frames."""
        return self.seen_from
