"""Pictures and films of scenes that follow the AV or one agent."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from l5kit._types import Float64Array, UInt8Array
from l5kit.configs.texts import did_you_mean
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.filter import _get_label_filter
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.map.opened import open_maps
from l5kit.data.records import AGENT_INTERVAL, FRAME_INTERVAL
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.ego import EgoDataset
from l5kit.errors import IndexOutOfRangeError, TrackNotFoundError, UnsupportedValueError
from l5kit.rasterization.planar_rasterizer import to_uint8
from l5kit.rasterization.rasterizer import one_picture
from l5kit.rasterization.rasterizer_builder import build_rasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.visualization.birdseye.canvas import View
from l5kit.visualization.birdseye.scene_frames import DriveMarks, SceneFrames
from l5kit.visualization.birdseye.tones import STYLES, Style, Theme, tones_of
from l5kit.visualization.sample_config import SampleForm, sample_config
from l5kit.visualization.sample_pictures import captioned, sample_picture

PICTURE_FORM = SampleForm(
    raster_size_px=(640, 480), pixel_size_m=0.15, ego_center=(0.35, 0.5), history_num_frames=10, future_num_frames=50
)
"""Larger and finer rasters than those for training."""

_DOT_RADIUS_M = 0.45
_SMALLEST_DOT_RADIUS_PX = 2


class Overlay(Protocol):
    """Protocol of additional drawings over pictures of scenes."""

    def marks(self, scene_index: int, frame_index: int) -> DriveMarks:
        """Return the marks for a frame."""

    def draw(self, picture: UInt8Array, marks: DriveMarks, *, raster_from_world: Float64Array) -> UInt8Array:
        """Return a picture ``[H, W, 3]`` in the style ``channels`` with the marks; the matrix (3, 3) gives pixels."""


class ScenePainter:
    """Draws frames of a dataset, centred on the AV or an agent, with past and future trajectories.

    Args:
        files: Paths of the map, the aerial picture and meta.json.
        dataset: The opened dataset.
        map_kind: ``semantic``, ``satellite`` or ``box``.
        form: Size of the pictures and length of the trajectories.
        overlay: Additional drawings over each picture, below the caption.
        style: ``viewer`` for the look of the viewer page; ``channels`` for the input of networks, with the trajectories
            of the followed vehicle as dots.
        theme: ``light`` or ``dark``, for the style ``viewer``.

    Raises:
        UnsupportedValueError: There is no such kind of map, style or theme.
        FileNotFoundError: A file that this kind needs is missing.
    """

    def __init__(
        self,
        files: DatasetFiles,
        dataset: ChunkedDataset,
        *,
        map_kind: str,
        form: SampleForm = PICTURE_FORM,
        overlay: Overlay | None = None,
        style: Style = "viewer",
        theme: Theme = "light",
    ) -> None:
        if style not in STYLES:
            raise UnsupportedValueError(f"style is {style!r}{did_you_mean(style, STYLES)}; use {' or '.join(STYLES)}")
        cfg = sample_config(files, map_kind=map_kind, form=form, step_time_s=dataset.facts.step_time_s)
        self.tones = tones_of(theme)
        self.rasterizer = build_rasterizer(cfg, LocalDataManager(""))
        self.form = form
        self.map_kind = map_kind
        self._overlay = overlay
        self._frames: SceneFrames | None = None
        if style == "viewer":
            maps = None if map_kind == "box" else open_maps(files)
            self._frames = SceneFrames(dataset, maps, theme=theme)
        # The viewer style needs no rasterizer, except to crop the aerial picture.
        is_plain = style == "viewer" and map_kind != "satellite"
        self.samples = EgoDataset(cfg, dataset, None if is_plain else self.rasterizer)
        self.dot_radius_px = max(_SMALLEST_DOT_RADIUS_PX, round(_DOT_RADIUS_M / form.pixel_size_m))

    def picture(
        self,
        scene_index: int,
        frame_index: int,
        track_id: int | None = None,
        *,
        with_trajectories: bool = True,
        with_caption: bool = True,
    ) -> UInt8Array:
        """Return the picture of one frame.

        Args:
            scene_index: The scene.
            frame_index: The frame, counted in the scene.
            track_id: The agent in the centre; None for the AV.
            with_trajectories: Whether past and future positions are drawn.
            with_caption: Whether scene, frame, track and speed are written into the picture.

        Returns:
            RGB ``[H, W, 3]``.

        Raises:
            IndexOutOfRangeError: There is no such scene or frame.
            TrackNotFoundError: The agent is not in the frame, or does not pass the label filter.
        """
        self.require_frame(scene_index, frame_index)
        sample = self.samples.get_frame(scene_index, frame_index, track_id)
        marks = None if self._overlay is None else self._overlay.marks(scene_index, frame_index)
        if self._frames is not None:
            size_px, pixel_size_m = self.form.raster_size_px, np.full(2, self.form.pixel_size_m)
            context = RenderContext(
                np.array(size_px), pixel_size_m, np.array(self.form.ego_center), set_origin_to_bottom=True
            )
            raster_from_world = context.raster_from_world(sample["centroid"], float(sample["yaw"]))
            # the rasterizer has cropped the aerial picture into the last three planes of the sample
            aerial = None
            if self.map_kind == "satellite":
                aerial = to_uint8(np.asarray(one_picture(sample["image"]))[-3:].transpose(1, 2, 0))
            view = View(raster_from_world, size_px)
            picture = self._frames.paint(
                scene_index, frame_index, view, aerial=aerial, with_trajectories=with_trajectories, marks=marks
            )
        else:
            picture = sample_picture(
                sample, self.rasterizer, with_trajectories=with_trajectories, radius_px=self.dot_radius_px
            )
            if self._overlay is not None and marks is not None:
                picture = self._overlay.draw(picture, marks, raster_from_world=sample["raster_from_world"])
        if not with_caption:
            return picture
        # the speed is known only with the previous frame; otherwise samples contain 0
        subject, speed = "AV" if track_id is None else f"track {track_id}", ""
        if "curr_speed" in sample and np.any(sample["history_availabilities"][1:2]):
            speed = f"  {float(sample['curr_speed']):.1f} m/s"
        text = f"scene {scene_index}  frame {frame_index}  {subject}{speed}"
        if self._frames is None:
            return captioned(picture, text)
        return captioned(picture, text, ink_rgb=self.tones.label, outline_rgb=self.tones.halo)

    def film(
        self,
        scene_index: int,
        frame_indices: Sequence[int],
        track_id: int | None = None,
        *,
        with_trajectories: bool = True,
        with_caption: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> Iterator[UInt8Array]:
        """Yield the :meth:`picture` of each frame.

        Args:
            scene_index: The scene.
            frame_indices: The frames, counted in the scene.
            track_id: The agent in the centre; None for the AV.
            with_trajectories: Whether past and future positions are drawn.
            with_caption: Whether scene, frame, track and speed are written into the picture.
            progress: Called with the numbers of finished and of all pictures.
        """
        for done, frame_index in enumerate(frame_indices):
            if progress is not None:
                progress(done, len(frame_indices))
            yield self.picture(
                scene_index,
                int(frame_index),
                track_id,
                with_trajectories=with_trajectories,
                with_caption=with_caption,
            )

    def require_frame(self, scene_index: int, frame_index: int) -> None:
        """Refuse a frame that the dataset does not have.

        Raises:
            IndexOutOfRangeError: There is no such scene or frame.
        """
        num_frames = num_frames_of(self.samples.dataset, scene_index)
        if not 0 <= frame_index < num_frames:
            raise IndexOutOfRangeError(
                f"frame {frame_index} is out of range; scene {scene_index} has the frames 0 to {num_frames - 1}"
                if num_frames
                else f"frame {frame_index} is out of range; scene {scene_index} has no frames"
            )


def num_frames_of(dataset: ChunkedDataset, scene_index: int) -> int:
    """Return the number of frames of a scene.

    Raises:
        IndexOutOfRangeError: There is no such scene.
    """
    if not 0 <= scene_index < len(dataset.scenes):
        raise IndexOutOfRangeError(
            f"scene {scene_index} is out of range; the dataset has the scenes 0 to {len(dataset.scenes) - 1}"
            if len(dataset.scenes)
            else f"scene {scene_index} is out of range; the dataset has no scenes"
        )
    start, end = dataset.scenes[scene_index][FRAME_INTERVAL].tolist()
    return int(end - start)


def frames_to_draw(
    dataset: ChunkedDataset, scene_index: int, frames: slice, *, track_id: int | None, form: SampleForm
) -> list[int]:
    """Return the frames of a scene, counted in it, that are in a slice and show the agent to follow.

    A frame shows an agent if it passes the label filter.

    Args:
        dataset: An opened dataset.
        scene_index: The scene.
        frames: Slice of its frames.
        track_id: The agent; None for the AV, which is in all frames.
        form: Form with the label threshold for the agent.

    Raises:
        IndexOutOfRangeError: There is no such scene, or the slice is empty.
        TrackNotFoundError: The agent is in none of these frames; if it is nowhere in the scene, the message lists the
            tracks seen longest.
    """
    num_frames = num_frames_of(dataset, scene_index)
    taken = range(*frames.indices(num_frames))
    if len(taken) == 0:
        raise IndexOutOfRangeError(
            f"frames {frames.start}:{frames.stop} select none of the {num_frames} frames of scene {scene_index}"
        )
    if track_id is None:
        return list(taken)

    # frames of the rows of this agent
    scene, threshold = dataset.get_scene_dataset(scene_index), form.filter_agents_threshold
    shown = _get_label_filter(scene.agents["label_probabilities"], threshold)
    rows = np.flatnonzero(shown & (scene.agents["track_id"] == track_id))
    if len(rows) == 0:
        ids, counts = np.unique(scene.agents["track_id"][shown], return_counts=True)
        longest = ", ".join(map(str, ids[np.argsort(-counts, kind="stable")[:8]].tolist())) or "none"
        raise TrackNotFoundError(
            f"track {track_id} is in no frame of scene {scene_index} above the label threshold {threshold}; the tracks "
            f"seen longest are {longest}"
        )
    ends = scene.frames[AGENT_INTERVAL][:num_frames, 1]
    seen = np.searchsorted(ends, rows, side="right").tolist()
    kept = [frame_index for frame_index in seen if frame_index in taken]
    if not kept:
        raise TrackNotFoundError(
            f"track {track_id} is in none of these frames; scene {scene_index} shows it in {seen[0]} to {seen[-1]}"
        )
    return kept
