"""A scene as plain arrays: poses of the AV, agents and traffic light faces, a column for each thing that is known."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from l5kit._types import Float32Array, Float64Array, Int32Array, Int64Array, NumericArray
from l5kit.data.labels import PERCEPTION_LABELS, TL_FACE_LABELS
from l5kit.data.records import AGENT_DTYPE, AGENT_INTERVAL, FACE_INTERVAL, FRAME_DTYPE, TL_FACE_DTYPE
from l5kit.data.scene_records import SceneRecords
from l5kit.data.track_ids import as_record_track_ids
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import CorruptedDataError, InvalidArgumentError

_LONGEST_ID = 16


@dataclass(frozen=True)
class AgentRows:
    """The N agent rows of a scene of F frames, one frame after the other.

    Attributes:
        starts: First row of each frame and the end of the last one, int32, shape (F + 1,).
        track_ids: uint64, shape (N,).
        centroids_m: World x and y, float64, shape (N, 2).
        yaws_rad: World heading, counter-clockwise from x, float32, shape (N,).
        extents_m: Length, width and height, float32, shape (N, 3).
        velocities_mps: World x and y, float32, shape (N, 2).
        label_probabilities: Of each of ``PERCEPTION_LABELS``, float32, shape (N, 17).

    Raises:
        CorruptedDataError: The arrays are not of these shapes.
        InvalidArgumentError: Starts or track ids are no whole numbers, or a track id is negative.
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
        _require_shapes(self, num_rows, track_ids=(), centroids_m=(2,), yaws_rad=(), extents_m=(3,))
        _require_shapes(self, num_rows, velocities_mps=(2,), label_probabilities=(len(PERCEPTION_LABELS),))
        _require_integers("track_ids", self.track_ids)
        as_record_track_ids("track_ids", self.track_ids)

    @classmethod
    def of_records(cls, scene: SceneRecords) -> "AgentRows":
        """Return the agents of a scene."""
        agents = scene.agents
        return cls(
            starts=_starts(scene.frames[AGENT_INTERVAL]),
            track_ids=agents["track_id"].astype(np.uint64),
            centroids_m=agents["centroid"].astype(np.float64),
            yaws_rad=agents["yaw"].astype(np.float32),
            extents_m=agents["extent"].astype(np.float32),
            velocities_mps=agents["velocity"].astype(np.float32),
            label_probabilities=agents["label_probabilities"].astype(np.float32),
        )

    @property
    def labels(self) -> Int64Array:
        """Most probable of ``PERCEPTION_LABELS`` of each row, shape (N,)."""
        labels: Int64Array = self.label_probabilities.argmax(axis=1)
        return labels

    def rows_of(self, frame_index: int) -> slice:
        """Return the rows of one frame, counted in the scene."""
        return slice(int(self.starts[frame_index]), int(self.starts[frame_index + 1]))


@dataclass(frozen=True)
class FaceRows:
    """The M traffic light faces of a scene of F frames, one frame after the other.

    Attributes:
        starts: First row of each frame and the end of the last one, int32, shape (F + 1,).
        face_ids: Ids of the bulbs, as on the map, text of at most 16 characters, shape (M,).
        light_ids: Ids of their traffic lights, text of at most 16 characters, shape (M,).
        statuses: One value for each of ``TL_FACE_LABELS``, float32, shape (M, 3).

    Raises:
        CorruptedDataError: The arrays are not of these shapes.
        InvalidArgumentError: Starts are no whole numbers, or an id is no text of at most 16 characters.
    """

    starts: Int32Array
    face_ids: NumericArray
    light_ids: NumericArray
    statuses: Float32Array

    def __post_init__(self) -> None:
        num_rows = _num_rows(self.starts)
        require_rows(self, num_rows, ("starts",))
        _require_shapes(self, num_rows, face_ids=(), light_ids=(), statuses=(len(TL_FACE_LABELS),))
        require_ids("face_ids", self.face_ids)
        require_ids("light_ids", self.light_ids)

    @classmethod
    def of_records(cls, scene: SceneRecords) -> "FaceRows":
        """Return the traffic light faces of a scene."""
        faces = scene.tl_faces
        return cls(
            starts=_starts(scene.frames[FACE_INTERVAL]),
            face_ids=faces["face_id"].copy(),
            light_ids=faces["traffic_light_id"].copy(),
            statuses=faces["traffic_light_face_status"].astype(np.float32),
        )

    @classmethod
    def none(cls, num_frames: int) -> "FaceRows":
        """Return a scene without traffic light faces."""
        texts = np.zeros(0, "<U16")
        return cls(np.zeros(num_frames + 1, np.int32), texts, texts, np.zeros((0, 3), np.float32))


@dataclass(frozen=True, kw_only=True)
class SceneArrays:
    """A scene of F frames; all positions and headings are in the world frame.

    Attributes:
        host: The car that recorded it.
        timestamps_ns: int64, shape (F,).
        ego_positions_m: x, y and z of the AV, float64, shape (F, 3).
        ego_rotations: Axes of the AV in the world, float64, shape (F, 3, 3).
        agents: The agents.
        tl_faces: The traffic light faces.
        time_span_ns: Start and end of the scene; None for the times of the first and the last frame.

    Raises:
        CorruptedDataError: The arrays are not of these shapes.
        InvalidArgumentError: Timestamps are no whole numbers.
    """

    host: str
    timestamps_ns: Int64Array
    ego_positions_m: Float64Array
    ego_rotations: Float64Array
    agents: AgentRows
    tl_faces: FaceRows
    time_span_ns: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        others = {field.name for field in fields(self)} - {"timestamps_ns", "ego_positions_m", "ego_rotations"}
        require_rows(self, self.num_frames, tuple(others))
        _require_shapes(self, self.num_frames, timestamps_ns=(), ego_positions_m=(3,), ego_rotations=(3, 3))
        _require_integers("timestamps_ns", self.timestamps_ns)
        for rows in (self.agents, self.tl_faces):
            if len(rows.starts) != self.num_frames + 1:
                raise CorruptedDataError(
                    f"starts of {type(rows).__name__} must have {self.num_frames + 1} entries, one more than there are "
                    f"frames, got {len(rows.starts)}"
                )

    @classmethod
    def of_records(cls, scene: SceneRecords) -> "SceneArrays":
        """Return a scene of records as columns, all of them copies."""
        return cls(
            host=scene.host,
            timestamps_ns=scene.frames["timestamp"].astype(np.int64),
            ego_positions_m=scene.frames["ego_translation"].astype(np.float64),
            ego_rotations=scene.frames["ego_rotation"].astype(np.float64),
            agents=AgentRows.of_records(scene),
            tl_faces=FaceRows.of_records(scene),
            time_span_ns=scene.time_span_ns,
        )

    def to_records(self) -> SceneRecords:
        """Return the scene in the record types of the format; the inverse of :meth:`of_records`."""
        frames = np.zeros(self.num_frames, FRAME_DTYPE)
        frames["timestamp"] = self.timestamps_ns
        frames["ego_translation"], frames["ego_rotation"] = self.ego_positions_m, self.ego_rotations
        frames[AGENT_INTERVAL] = np.stack([self.agents.starts[:-1], self.agents.starts[1:]], axis=1)
        frames[FACE_INTERVAL] = np.stack([self.tl_faces.starts[:-1], self.tl_faces.starts[1:]], axis=1)
        agents = np.zeros(len(self.agents.track_ids), AGENT_DTYPE)
        agents["centroid"], agents["extent"] = self.agents.centroids_m, self.agents.extents_m
        agents["yaw"], agents["velocity"] = self.agents.yaws_rad, self.agents.velocities_mps
        agents["track_id"] = self.agents.track_ids
        agents["label_probabilities"] = self.agents.label_probabilities
        tl_faces = np.zeros(len(self.tl_faces.face_ids), TL_FACE_DTYPE)
        tl_faces["face_id"], tl_faces["traffic_light_id"] = self.tl_faces.face_ids, self.tl_faces.light_ids
        tl_faces["traffic_light_face_status"] = self.tl_faces.statuses
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
        # from the frame before to the frame after, one-sided at the ends
        num_frames, positions_m = self.num_frames, self.ego_positions_m[:, :2]
        if num_frames < 2:
            return np.zeros(num_frames)
        before = np.maximum(np.arange(num_frames) - 1, 0)
        after = np.minimum(np.arange(num_frames) + 1, num_frames - 1)
        seconds = (self.timestamps_ns[after] - self.timestamps_ns[before]) * 1e-9
        with np.errstate(over="ignore", invalid="ignore"):  # what is damaged becomes infinite or NaN
            steps_m = np.linalg.norm(positions_m[after] - positions_m[before], axis=1)
            speeds_mps: Float64Array = np.divide(steps_m, seconds, out=np.zeros_like(steps_m), where=seconds > 0)
        return speeds_mps


def read_scene_arrays(dataset: ChunkedDataset, scene_index: int) -> SceneArrays:
    """Return one scene of a log as plain arrays.

    Args:
        dataset: An opened dataset.
        scene_index: The scene; negative counts from the end.

    Raises:
        InvalidArgumentError: There is no such scene.
        CorruptedDataError: A file of the scene is damaged or missing, or its intervals are wrong.
    """
    return SceneArrays.of_records(SceneRecords.read(dataset, scene_index))


def require_rows(arrays: object, num_rows: int, others: Sequence[str]) -> None:
    """Refuse a dataclass with arrays of another length; ``others`` are its fields that have lengths of their own.

    Raises:
        CorruptedDataError: An array has another length.
    """
    lengths = {name: len(values) for name, values in vars(arrays).items() if name not in others}
    if wrong := {name: length for name, length in lengths.items() if length != num_rows}:
        raise CorruptedDataError(f"a scene needs {num_rows} rows in each array, got {wrong}")


def require_ids(name: str, ids: NumericArray) -> None:
    """Refuse ids of faces or lights that are no texts for which the format has room.

    Raises:
        InvalidArgumentError: One is none.
    """
    if ids.dtype.kind != "U":
        raise InvalidArgumentError(
            f"{name} must be text, got {ids.dtype}; ids.astype(str) makes text of numbers, for example"
        )
    if ids.dtype.itemsize > np.dtype("<U16").itemsize and np.strings.str_len(ids).max(initial=0) > _LONGEST_ID:
        longest = max(ids.tolist(), key=len)
        raise InvalidArgumentError(f"{name} has {longest!r}; the format has room for {_LONGEST_ID} characters")


def _num_rows(starts: NumericArray) -> int:
    """Return where the last frame ends."""
    if not isinstance(starts, np.ndarray) or starts.ndim != 1 or len(starts) == 0:
        raise CorruptedDataError(
            "starts must have shape (F + 1,), the first row of each frame and the end of the last one, got "
            f"{np.shape(starts)}; a scene without frames has [0]"
        )
    _require_integers("starts", starts)
    return int(starts[-1])


def _require_shapes(arrays: object, num_rows: int, **others: tuple[int, ...]) -> None:
    """Refuse a dataclass with arrays whose rows have other shapes, which NumPy would repeat or cut to fit."""
    for name, shape in others.items():
        array = getattr(arrays, name)
        if not isinstance(array, np.ndarray) or array.shape != (num_rows, *shape):
            raise CorruptedDataError(
                f"{type(arrays).__name__}: {name} must be an array of shape {(num_rows, *shape)}, got "
                f"{type(array).__name__} of {np.shape(array)}"
            )


def _require_integers(name: str, array: NumericArray) -> None:
    if array.dtype.kind not in "iu":
        raise InvalidArgumentError(
            f"{name} must be integers, got {array.dtype}; round and convert them, to nanoseconds where they are times"
        )


def _starts(intervals: Int64Array) -> Int32Array:
    """Return the first rows of frames whose intervals (F, 2) follow each other, and the end of the last one."""
    return np.concatenate([[0], intervals[:, 1]]).astype(np.int32)
