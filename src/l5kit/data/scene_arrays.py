"""Scene arrays: poses of the AV, agents and traffic light faces of a scene as plain NumPy columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from l5kit._types import Float32Array, Float64Array, Int32Array, Int64Array, NumericArray, RecordArray
from l5kit.data.index.track_ids import as_record_track_ids
from l5kit.data.records import AGENT_DTYPE, AGENT_INTERVAL, FACE_INTERVAL, FRAME_DTYPE, TL_FACE_DTYPE
from l5kit.data.scene_records import SceneRecords
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import CorruptedDataError, InvalidArgumentError

_LONGEST_ID = 16

# columns, and the record fields that hold the same values
_FRAME_COLUMNS = {"timestamps_ns": "timestamp", "ego_positions_m": "ego_translation", "ego_rotations": "ego_rotation"}
_AGENT_COLUMNS = {
    "track_ids": "track_id",
    "centroids_m": "centroid",
    "yaws_rad": "yaw",
    "extents_m": "extent",
    "velocities_mps": "velocity",
    "label_probabilities": "label_probabilities",
}
_FACE_COLUMNS = {"face_ids": "face_id", "light_ids": "traffic_light_id", "statuses": "traffic_light_face_status"}


@dataclass(frozen=True)
class AgentRows:
    """Agent rows (N) of a scene of F frames, frame by frame.

    Attributes:
        starts: First row of each frame and the end of the last one, int32, shape (F + 1,).
        track_ids: uint64, shape (N,).
        centroids_m: World x and y, float64, shape (N, 2).
        yaws_rad: World heading, counter-clockwise from x, float32, shape (N,).
        extents_m: Length, width and height, float32, shape (N, 3).
        velocities_mps: World x and y, float32, shape (N, 2).
        label_probabilities: Probability of each of ``PERCEPTION_LABELS``, float32, shape (N, 17).

    Raises:
        CorruptedDataError: An array has another shape.
        InvalidArgumentError: Starts or track ids are not integers, or a track id is negative.
    """

    starts: Int32Array
    track_ids: NumericArray
    centroids_m: Float64Array
    yaws_rad: Float32Array
    extents_m: Float32Array
    velocities_mps: Float32Array
    label_probabilities: Float32Array

    def __post_init__(self) -> None:
        num_rows = _num_rows(self.starts)
        require_rows(self, num_rows, ("starts",))
        _require_shapes(self, num_rows, _AGENT_COLUMNS, AGENT_DTYPE)
        _require_integers("track_ids", self.track_ids)
        as_record_track_ids("track_ids", self.track_ids)

    @classmethod
    def of_records(cls, scene: SceneRecords) -> "AgentRows":
        """Return the agents of a scene."""
        return cls(_starts(scene.frames[AGENT_INTERVAL]), **_columns_of(scene.agents, _AGENT_COLUMNS))

    @property
    def labels(self) -> Int64Array:
        """Index of the most probable of ``PERCEPTION_LABELS`` for each row, shape (N,)."""
        labels: Int64Array = self.label_probabilities.argmax(axis=1)
        return labels

    def rows_of(self, frame_index: int) -> slice:
        """Return the rows of one frame, relative to the scene."""
        return slice(int(self.starts[frame_index]), int(self.starts[frame_index + 1]))

    def rows_of_tracks(self) -> list[Int64Array]:
        """Return the rows of each track in order of time, tracks in order of their ids."""
        order = np.argsort(self.track_ids, kind="stable")
        cuts = np.flatnonzero(np.diff(self.track_ids[order])) + 1
        return np.split(order, cuts) if len(order) else []


@dataclass(frozen=True)
class FaceRows:
    """Traffic light face rows (M) of a scene of F frames, frame by frame.

    Attributes:
        starts: First row of each frame and the end of the last one, int32, shape (F + 1,).
        face_ids: Ids of the bulbs, as on the map, text of at most 16 characters, shape (M,).
        light_ids: Ids of their traffic lights, text of at most 16 characters, shape (M,).
        statuses: One value for each of ``TL_FACE_LABELS``, float32, shape (M, 3).

    Raises:
        CorruptedDataError: An array has another shape.
        InvalidArgumentError: Starts are not integers, or an id is not text of at most 16 characters.
    """

    starts: Int32Array
    face_ids: NumericArray
    light_ids: NumericArray
    statuses: Float32Array

    def __post_init__(self) -> None:
        num_rows = _num_rows(self.starts)
        require_rows(self, num_rows, ("starts",))
        _require_shapes(self, num_rows, _FACE_COLUMNS, TL_FACE_DTYPE)
        require_ids("face_ids", self.face_ids)
        require_ids("light_ids", self.light_ids)

    @classmethod
    def of_records(cls, scene: SceneRecords) -> "FaceRows":
        """Return the traffic light faces of a scene."""
        return cls(_starts(scene.frames[FACE_INTERVAL]), **_columns_of(scene.tl_faces, _FACE_COLUMNS))

    @classmethod
    def none(cls, num_frames: int) -> "FaceRows":
        """Return a scene without traffic light faces."""
        texts = np.zeros(0, "<U16")
        return cls(np.zeros(num_frames + 1, np.int32), texts, texts, np.zeros((0, 3), np.float32))


@dataclass(frozen=True, kw_only=True)
class SceneArrays:
    """One scene of F frames; all positions and headings are in the world frame.

    Attributes:
        host: Name of the recording car.
        timestamps_ns: int64, shape (F,).
        ego_positions_m: x, y and z of the AV, float64, shape (F, 3).
        ego_rotations: Axes of the AV in the world, float64, shape (F, 3, 3).
        agents: The agents.
        tl_faces: The traffic light faces.
        time_span_ns: Start and end of the scene; None for the times of the first and the last frame.

    Raises:
        CorruptedDataError: An array has another shape.
        InvalidArgumentError: Timestamps are not integers.
    """

    host: str
    timestamps_ns: Int64Array
    ego_positions_m: Float64Array
    ego_rotations: Float64Array
    agents: AgentRows
    tl_faces: FaceRows
    time_span_ns: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        require_rows(self, self.num_frames, tuple(vars(self).keys() - _FRAME_COLUMNS.keys()))
        _require_shapes(self, self.num_frames, _FRAME_COLUMNS, FRAME_DTYPE)
        _require_integers("timestamps_ns", self.timestamps_ns)
        for rows in (self.agents, self.tl_faces):
            if len(rows.starts) != self.num_frames + 1:
                raise CorruptedDataError(
                    f"starts of {type(rows).__name__} must have {self.num_frames + 1} entries, one more than there are "
                    f"frames, got {len(rows.starts)}"
                )

    @classmethod
    def of_records(cls, scene: SceneRecords) -> "SceneArrays":
        """Return a scene given as records; all columns are copies."""
        return cls(
            host=scene.host,
            **_columns_of(scene.frames, _FRAME_COLUMNS),
            agents=AgentRows.of_records(scene),
            tl_faces=FaceRows.of_records(scene),
            time_span_ns=scene.time_span_ns,
        )

    def to_records(self) -> SceneRecords:
        """Return the scene in the record types of the format; the inverse of :meth:`of_records`."""
        frames = _records_of(self, _FRAME_COLUMNS, FRAME_DTYPE)
        for field, starts in ((AGENT_INTERVAL, self.agents.starts), (FACE_INTERVAL, self.tl_faces.starts)):
            frames[field] = np.stack([starts[:-1], starts[1:]], axis=1)
        agents = _records_of(self.agents, _AGENT_COLUMNS, AGENT_DTYPE)
        tl_faces = _records_of(self.tl_faces, _FACE_COLUMNS, TL_FACE_DTYPE)
        return SceneRecords(frames, agents, tl_faces, host=self.host, time_span_ns=self.time_span_ns)

    @property
    def num_frames(self) -> int:
        """Number of frames, F."""
        return len(self.timestamps_ns)

    @property
    def times_s(self) -> Float64Array:
        """Seconds since the first frame, shape (F,)."""
        seconds: Float64Array = np.multiply(self.timestamps_ns - self.timestamps_ns[:1], 1e-9)
        return seconds

    @cached_property
    def ego_yaws_rad(self) -> Float64Array:
        """Heading of the AV, counter-clockwise from x, float64, shape (F,)."""
        yaws_rad: Float64Array = np.arctan2(self.ego_rotations[:, 1, 0], self.ego_rotations[:, 0, 0])
        return yaws_rad

    @cached_property
    def ego_speeds_mps(self) -> Float64Array:
        """Ground speed of the AV from its positions (central differences), float64, (F,); 0 for a single frame."""
        # from the previous to the next frame, one-sided at the ends
        num_frames, positions_m = self.num_frames, self.ego_positions_m[:, :2]
        if num_frames < 2:
            return np.zeros(num_frames)
        before = np.maximum(np.arange(num_frames) - 1, 0)
        after = np.minimum(np.arange(num_frames) + 1, num_frames - 1)
        seconds = (self.timestamps_ns[after] - self.timestamps_ns[before]) * 1e-9
        with np.errstate(over="ignore", invalid="ignore"):  # damaged values become infinite or NaN
            steps_m = np.linalg.norm(positions_m[after] - positions_m[before], axis=1)
            speeds_mps: Float64Array = np.divide(steps_m, seconds, out=np.zeros_like(steps_m), where=seconds > 0)
        return speeds_mps


def read_scene_arrays(dataset: ChunkedDataset, scene_index: int) -> SceneArrays:
    """Return one scene of a log as plain arrays.

    Args:
        dataset: An opened dataset.
        scene_index: Scene index; negative values count from the end.

    Raises:
        InvalidArgumentError: The scene does not exist.
        CorruptedDataError: A file of the scene is damaged or missing, or its intervals are wrong.
    """
    return SceneArrays.of_records(SceneRecords.read(dataset, scene_index))


def require_rows(arrays: object, num_rows: int, others: Sequence[str]) -> None:
    """Refuse a dataclass with arrays of another length; ``others`` are the fields with different lengths.

    Raises:
        CorruptedDataError: An array has another length.
    """
    lengths = {name: len(values) for name, values in vars(arrays).items() if name not in others}
    if wrong := {name: length for name, length in lengths.items() if length != num_rows}:
        raise CorruptedDataError(f"a scene needs {num_rows} rows in each array, got {wrong}")


def require_ids(name: str, ids: NumericArray) -> None:
    """Refuse ids of faces or lights that are not text or too long for the format.

    Raises:
        InvalidArgumentError: An id is not allowed.
    """
    if ids.dtype.kind != "U":
        raise InvalidArgumentError(
            f"{name} must be text, got {ids.dtype}; ids.astype(str) makes text of numbers, for example"
        )
    if ids.dtype.itemsize > np.dtype("<U16").itemsize and np.strings.str_len(ids).max(initial=0) > _LONGEST_ID:
        longest = max(ids.tolist(), key=len)
        raise InvalidArgumentError(f"{name} has {longest!r}; the format has room for {_LONGEST_ID} characters")


def _num_rows(starts: NumericArray) -> int:
    """Return the end of the last frame."""
    if not isinstance(starts, np.ndarray) or starts.ndim != 1 or len(starts) == 0:
        raise CorruptedDataError(
            "starts must have shape (F + 1,), the first row of each frame and the end of the last one, got "
            f"{np.shape(starts)}; a scene without frames has [0]"
        )
    _require_integers("starts", starts)
    return int(starts[-1])


def _require_shapes(arrays: object, num_rows: int, columns: Mapping[str, str], dtype: DTypeLike) -> None:
    """Refuse columns whose rows differ in shape from the record fields: NumPy would broadcast or cut them."""
    for name, field in columns.items():
        array, shape = getattr(arrays, name), (num_rows, *np.dtype(dtype)[field].shape)
        if not isinstance(array, np.ndarray) or array.shape != shape:
            raise CorruptedDataError(
                f"{type(arrays).__name__}: {name} must be an array of shape {shape}, got "
                f"{type(array).__name__} of {np.shape(array)}"
            )


def _columns_of(records: RecordArray, columns: Mapping[str, str]) -> dict[str, Any]:
    """Return copies of record fields by column name."""
    return {name: records[field].copy() for name, field in columns.items()}


def _records_of(arrays: object, columns: Mapping[str, str], dtype: DTypeLike) -> RecordArray:
    """Return records with the columns of a dataclass as fields, and zeros in all other fields."""
    values = {field: getattr(arrays, name) for name, field in columns.items()}
    records = np.zeros(len(next(iter(values.values()))), dtype)
    for field, column in values.items():
        records[field] = column
    return records


def _require_integers(name: str, array: NumericArray) -> None:
    if array.dtype.kind not in "iu":
        raise InvalidArgumentError(
            f"{name} must be integers, got {array.dtype}; round and convert them, to nanoseconds where they are times"
        )


def _starts(intervals: Int64Array) -> Int32Array:
    """Return the first rows of frames with consecutive intervals (F, 2), and the end of the last frame."""
    return np.concatenate([[0], intervals[:, 1]]).astype(np.int32)
