"""Showcase of a dataset: a contact sheet of eventful samples, and a film of the most eventful seconds."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from l5kit._types import Int64Array, JsonObject, UInt8Array
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.agent import AgentDataset
from l5kit.dataset.ego import EgoDataset
from l5kit.errors import InvalidArgumentError
from l5kit.rasterization.rasterizer_builder import build_rasterizer
from l5kit.visualization.contact_sheet import contact_sheet
from l5kit.visualization.sample_config import SampleForm, available_map_kinds, sample_config
from l5kit.visualization.sample_pictures import sample_picture
from l5kit.visualization.scene_pictures import Overlay, ScenePainter, num_frames_of

_FORM = SampleForm(raster_size_px=(480, 340), pixel_size_m=0.2, ego_center=(0.3, 0.5))
FILM_FORM = SampleForm(raster_size_px=(600, 400), pixel_size_m=0.18, ego_center=(0.3, 0.5))
"""Form of the pictures on a page."""

_FRAMES_BEFORE_EVENT = 25
_CANDIDATES_PER_CHOICE = 24
_MARGIN_OF_PART = 0.1
"""Share skipped at both ends of each part, so that choices in neighbouring parts differ."""
_TURN_WEIGHT_PER_RAD = 4.0

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Film:
    """A few seconds of a scene.

    Attributes:
        pictures: RGB ``[H, W, 3]``, all of one size.
        title: Scene and frames.
        scene_index: The scene.
        frames_per_s: Pictures per second of real time.
    """

    pictures: list[UInt8Array]
    title: str
    scene_index: int
    frames_per_s: float


def eventful_indices(dataset: EgoDataset, count: int) -> Int64Array:
    """Return one index from each of ``count`` equal parts of a dataset, ascending.

    In each part, evenly spread samples are compared by the length of the target trajectory (metres) times one plus four
    times its change of heading (radians). A dataset with fewer samples gives fewer indices.

    Args:
        dataset: Any raster dataset; ``rasterizer=None`` makes this fast.
        count: Number of parts.
    """
    bounds = np.unique(np.linspace(0, len(dataset), count + 1).astype(np.int64))
    chosen = []
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        margin = int(_MARGIN_OF_PART * (end - start))
        candidates = np.unique(np.linspace(start + margin, end - 1 - margin, _CANDIDATES_PER_CHOICE).astype(np.int64))
        scores = np.zeros(len(candidates))
        for row, index in enumerate(candidates.tolist()):
            sample = dataset[index]
            is_known = np.asarray(sample["target_availabilities"]) > 0
            if is_known.any():  # trajectories start at the origin of the frame of the AV or agent
                positions_m = np.vstack([np.zeros((1, 2)), np.asarray(sample["target_positions"])[is_known]])
                length_m = float(np.linalg.norm(np.diff(positions_m, axis=0), axis=1).sum())
                turn_rad = float(np.abs(np.asarray(sample["target_yaws"])[is_known]).max())
                scores[row] = length_m * (1.0 + _TURN_WEIGHT_PER_RAD * turn_rad)
        chosen.append(int(candidates[int(np.argmax(scores))]))
    return np.array(chosen, dtype=np.int64)


def draw_contact_sheet(
    files: DatasetFiles, dataset: ChunkedDataset, *, columns: int = 3, progress: Progress | None = None
) -> UInt8Array:
    """Return one picture with eventful samples of ``EgoDataset`` and ``AgentDataset`` over every available map kind.

    Each class has one row per map kind, with the same moments in each.

    Args:
        files: Paths of the map, the aerial picture and meta.json.
        dataset: The opened dataset, with at least one frame.
        columns: Samples per row.
        progress: Called with the number of finished pictures and an upper bound of their total.

    Raises:
        InvalidArgumentError: The dataset has no frames.
        SampleError: A sample cannot be made.
    """
    _require_frames(dataset)
    kinds = available_map_kinds(files)
    rasterizers = {kind: build_rasterizer(_config(files, kind, dataset), LocalDataManager("")) for kind in kinds}
    pictures, titles = [], []
    for dataset_class in (EgoDataset, AgentDataset):
        # choose moments with fast samples without rasters, common to all kinds of map
        plain = dataset_class(_config(files, kinds[0], dataset), dataset, None)
        indices = eventful_indices(plain, columns).tolist()
        for kind in kinds:
            samples = dataset_class(_config(files, kind, dataset), dataset, rasterizers[kind])
            for index in indices:
                sample = samples[index]
                pictures.append(sample_picture(sample, rasterizers[kind]))
                whereabouts = f"scene {int(sample['scene_index'])}, frame {int(sample['frame_index'])}"
                track_id = int(sample["track_id"])
                whereabouts += f", track {track_id}" if track_id >= 0 else ""
                titles.append(f"{dataset_class.__name__}, {kind}: {whereabouts}")
                if progress is not None:
                    progress(len(pictures), 2 * len(kinds) * columns)
    return contact_sheet(pictures, titles=titles, columns=columns)


def draw_film(
    files: DatasetFiles,
    dataset: ChunkedDataset,
    *,
    num_frames: int = 100,
    overlay: Overlay | None = None,
    progress: Progress | None = None,
) -> Film:
    """Return pictures of consecutive frames around the most eventful moment of the AV.

    Args:
        files: Paths of the map, the aerial picture and meta.json.
        dataset: The opened dataset, with at least one frame.
        num_frames: Number of pictures, or all frames of a shorter scene.
        overlay: Additional drawings over each picture.
        progress: Called with the numbers of finished and of all pictures.

    Raises:
        InvalidArgumentError: The dataset has no frames.
        SampleError: A frame cannot be drawn.
    """
    _require_frames(dataset)
    kind = available_map_kinds(files)[0]
    painter = ScenePainter(files, dataset, map_kind=kind, form=FILM_FORM, overlay=overlay)
    plain = EgoDataset(_config(files, kind, dataset), dataset, None)
    moment = plain[int(eventful_indices(plain, 1)[0])]
    scene_index = int(moment["scene_index"])
    length = num_frames_of(dataset, scene_index)
    start = int(np.clip(int(moment["frame_index"]) - _FRAMES_BEFORE_EVENT, 0, max(length - num_frames, 0)))
    frames = range(start, min(start + num_frames, length))
    pictures = list(painter.film(scene_index, frames, progress=progress))
    title = f"scene {scene_index}, frames {start} to {frames[-1]}"
    return Film(pictures, title, scene_index, 1 / dataset.facts.step_time_s)


def _require_frames(dataset: ChunkedDataset) -> None:
    if len(dataset.frames) == 0:
        raise InvalidArgumentError(f"dataset {dataset.path!r} has no frames to draw")


def _config(files: DatasetFiles, map_kind: str, dataset: ChunkedDataset) -> JsonObject:
    return sample_config(files, map_kind=map_kind, form=_FORM, step_time_s=dataset.facts.step_time_s)
