"""Slots of a log: episodes that go on at the same time, whose AVs are moved and whose agents are replayed."""

from dataclasses import replace

import numpy as np

from l5kit._types import BoolArray, Float32Array, Float64Array, Int64Array, NumericArray
from l5kit.configs.parameters import read_disable_traffic_light_faces
from l5kit.data.log_index import require_readable_scene
from l5kit.data.record_sequence import rows_of
from l5kit.data.records import FRAME_INTERVAL, SCENE_DTYPE
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.sample_places import LogArrays, SamplePlaces
from l5kit.environment.episode_choice import FEWEST_FRAMES
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.transform import rotations33_as_yaws, yaws_as_rotations33
from l5kit.sampling.sample_columns import ColumnMemory, SampleColumns

__all__ = ["LogSlots"]


class LogSlots:
    """Episodes of N environments over one log.

    Frames are copied, and agents and lights are read from the log itself, so that an episode begins in no time.

    Args:
        dataset: Makes the samples of what is seen.
        num_slots: Number of environments, N.
        num_frames: Frames of the longest episode, F.

    Attributes:
        scene_indices: Scene of each episode, int64 (N,).
        lengths: Number of its frames, int64 (N,).
        recorded_m: World x and y of the AVs as logged, float32 (N, F, 2).
        recorded_yaws_rad: Their headings, float32 (N, F).
    """

    def __init__(self, dataset: BaseEgoDataset, num_slots: int, num_frames: int) -> None:
        log = dataset.dataset
        self.dataset, self._num_frames = dataset, num_frames
        self.scene_indices: Int64Array = np.zeros(num_slots, np.int64)
        self.lengths: Int64Array = np.zeros(num_slots, np.int64)
        self.recorded_m: Float32Array = np.zeros((num_slots, num_frames, 2), np.float32)
        self.recorded_yaws_rad: Float32Array = np.zeros((num_slots, num_frames), np.float32)
        self._frames = np.zeros(num_slots * num_frames, log.frames.dtype)
        self._scenes = np.zeros(num_slots, SCENE_DTYPE)
        self._scenes[FRAME_INTERVAL] = (num_frames * np.arange(num_slots))[:, None]
        logged = LogArrays.of(log, has_tl_faces=not read_disable_traffic_light_faces(dataset.cfg))
        self._log = replace(logged, scenes=self._scenes, frames=self._frames)
        self._is_readable: BoolArray = np.zeros(len(log.scenes), np.bool_)

    def start(self, slot: int, scene: int, first_frame: int, num_frames: int | None) -> None:
        """Begin an episode.

        Args:
            slot: The environment.
            scene: Its scene.
            first_frame: The first frame, counted in the scene.
            num_frames: Number of frames; None for all that follow.

        Raises:
            InvalidArgumentError: The scene does not have the frames, or they are fewer than three.
            CorruptedDataError: The scene is damaged.
        """
        log = self.dataset.dataset
        if not self._is_readable[scene]:
            require_readable_scene(log, scene)
            self._is_readable[scene] = True
        (record,) = rows_of(log.scenes, slice(scene, scene + 1), strict=True)
        start, stop = record[FRAME_INTERVAL].tolist()
        begin = start + first_frame
        end = stop if num_frames is None else begin + num_frames
        if end > stop or end - begin < FEWEST_FRAMES:
            raise InvalidArgumentError(
                f"start_frame_index {first_frame} and num_simulation_steps {num_frames} do not leave an episode of "
                f"{FEWEST_FRAMES} frames or more in scene {scene}, which has {stop - start}"
            )
        base, length = slot * self._num_frames, end - begin
        frames = rows_of(log.frames, slice(begin, end), strict=True)
        self._frames[base : base + length] = frames
        self._scenes[FRAME_INTERVAL][slot] = base, base + length
        self._scenes["host"][slot] = record["host"]
        self.scene_indices[slot], self.lengths[slot] = scene, length
        self.recorded_m[slot, :length] = frames["ego_translation"][:, :2]
        self.recorded_yaws_rad[slot, :length] = rotations33_as_yaws(frames["ego_rotation"])

    def look(self, slots: Int64Array, frames: Int64Array, memory: ColumnMemory | None = None) -> SampleColumns:
        """Return the samples of the AVs of slots (B,) in frames (B,)."""
        return self.dataset.columns_of_log(self._log, SamplePlaces(slots, frames), memory=memory)

    def set_ego(
        self, slots: Int64Array, frames: Int64Array, positions_m: Float64Array, yaws_rad: Float64Array
    ) -> tuple[Float32Array, Float32Array]:
        """Write the AVs of slots (B,) into frames (B,), and return where they are as states tell it.

        Args:
            slots: The environments.
            frames: The frames, counted in the episodes.
            positions_m: World x and y, (B, 2).
            yaws_rad: World headings, (B,).

        Returns:
            World x and y, float32 (B, 2), and headings, float32 (B,).
        """
        rows = slots * self._num_frames + frames
        self._frames["ego_translation"][rows, :2] = positions_m
        rotations = yaws_as_rotations33(yaws_rad)
        self._frames["ego_rotation"][rows] = rotations
        return positions_m.astype(np.float32), rotations33_as_yaws(rotations).astype(np.float32)

    def recorded(self, slots: Int64Array, frames: Int64Array) -> tuple[NumericArray, NumericArray]:
        """Return where the AVs of slots (B,) were in frames (B,) of the log: float32 (B, 2), and headings (B,)."""
        return self.recorded_m[slots, frames], self.recorded_yaws_rad[slots, frames]
