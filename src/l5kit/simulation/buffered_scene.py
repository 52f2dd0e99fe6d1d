"""Buffered scene: one scene of a record buffer as a dataset, whose arrays are copied out on first access."""

from typing import Any

import numpy as np

from l5kit._types import RecordArray
from l5kit.data.record_buffer import RecordBuffer
from l5kit.data.records import AGENT_INTERVAL, FACE_INTERVAL, FRAME_INTERVAL, SCENE_DTYPE
from l5kit.data.scene_records import SceneRecords
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError


class _TakenArray:
    """Array of a buffered scene, copied out of the buffer on first access."""

    def __set_name__(self, owner: type["BufferedScene"], name: str) -> None:
        self._name = name

    def __get__(self, scene: "BufferedScene", owner: type["BufferedScene"]) -> RecordArray:
        return scene.array(self._name)

    def __set__(self, scene: "BufferedScene", array: RecordArray) -> None:
        scene.replace(self._name, array)


class BufferedScene(ChunkedDataset):
    """One scene of a buffer as a dataset in memory, which scripts of L5Kit 1.5 can read and change.

    Until its arrays are accessed, the scene is the content of the buffer. From then on it is the content of the handed
    out arrays, which may be written to and replaced; :meth:`put_back` copies them to the buffer.

    Args:
        buffer: The buffer.
        scene: Index of the scene in the buffer.
    """

    frames: Any = _TakenArray()
    """Frames of the scene, with intervals that count from 0."""

    agents: Any = _TakenArray()
    """Agents of all frames."""

    tl_faces: Any = _TakenArray()
    """Traffic light faces of all frames."""

    def __init__(self, buffer: RecordBuffer, scene: int) -> None:
        super().__init__("")
        self._facts = buffer.facts
        self._buffer, self._scene = buffer, scene
        self._taken: SceneRecords | None = None
        self._changed: dict[str, RecordArray] = {}

        start, stop = int(buffer.scene_starts[scene]), int(buffer.scene_stops[scene])
        record = np.zeros(1, SCENE_DTYPE)
        record[FRAME_INTERVAL] = 0, stop - start
        record["host"] = buffer.host_of(scene)
        if stop > start:
            record["start_time"] = buffer.frames["timestamp"][start]
            record["end_time"] = buffer.frames["timestamp"][stop - 1]
        self.scenes = record

    @property
    def is_taken(self) -> bool:
        """Whether the arrays were handed out and may differ from the buffer."""
        return self._taken is not None

    def put_back(self) -> None:
        """Copy arrays that were handed out, and may have been changed, to the buffer.

        Raises:
            InvalidArgumentError: The number of frames differs, or the intervals do not cover each row once.
        """
        if self._taken is None:
            return
        num_frames = int(self._buffer.scene_stops[self._scene] - self._buffer.scene_starts[self._scene])
        if len(self.frames) != num_frames:
            raise InvalidArgumentError(
                f"frames of a scene in simulation must stay {num_frames}, but there are {len(self.frames)} now"
            )
        scene = SceneRecords(self.frames, self.agents, self.tl_faces)
        rows = self._buffer.frame_rows(np.full(num_frames, self._scene), np.arange(num_frames))
        for field in ("timestamp", "ego_translation", "ego_rotation"):
            self._buffer.frames[field][rows] = scene.frames[field]
        self._buffer.replace_agents(rows, scene.agents, np.diff(scene.frames[AGENT_INTERVAL], axis=1)[:, 0])
        self._buffer.replace_tl_faces(rows, scene.tl_faces, np.diff(scene.frames[FACE_INTERVAL], axis=1)[:, 0])

    def array(self, name: str) -> RecordArray:
        """Return one of the arrays; this hands out all of them."""
        if self._taken is None:
            self._taken = self._buffer.scene(self._scene)
        array: RecordArray = self._changed.get(name, getattr(self._taken, name))
        return array

    def replace(self, name: str, array: RecordArray) -> None:
        """Replace one of the arrays."""
        if hasattr(self, "_changed"):  # the constructor of the base class sets empty arrays
            self.array(name)
            self._changed[name] = array
