"""Model inputs of a frame as pictures: the raster sample as PNG, the vector sample as SVG."""

import threading
from functools import cached_property
from typing import Final

import cv2

from l5kit._types import Config
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.ego_vectorized import EgoDatasetVectorized
from l5kit.vectorization.vectorizer_builder import build_vectorizer
from l5kit.visualization.sample_config import SampleForm, sample_config
from l5kit.visualization.scene_pictures import ScenePainter
from l5kit.visualization.viewer.vector_drawing import draw_vector_sample

_FORM: Final = SampleForm()
_VECTOR_SIZES: Final[Config] = {
    "other_agents_num": 30,
    "max_agents_distance": 35,
    "lane_params": {
        "max_num_lanes": 30,
        "max_points_per_lane": 20,
        "max_points_per_crosswalk": 20,
        "max_retrieval_distance_m": 35,
        "max_num_crosswalks": 20,
    },
}


class SamplePictures:
    """Draws samples of a dataset in the usual form for training: 224 x 224 pixels of 0.5 m, polylines within 35 m.

    The painters are made at the first request of their kind; thread-safe.

    Args:
        files: Paths of the map, the aerial picture and meta.json.
        dataset: The opened dataset.
    """

    def __init__(self, files: DatasetFiles, dataset: ChunkedDataset) -> None:
        self._files = files
        self._dataset = dataset
        self._painters: dict[str, ScenePainter] = {}
        self._lock = threading.Lock()

    def raster_png(self, scene_index: int, frame_index: int, track_id: int | None, *, map_kind: str) -> bytes:
        """Return the raster of a sample with past (orange) and future (magenta) positions.

        Args:
            scene_index: The scene.
            frame_index: The frame, counted in the scene.
            track_id: The agent; None for the AV.
            map_kind: ``semantic``, ``satellite`` or ``box``.

        Raises:
            UnsupportedValueError: There is no such kind.
            FileNotFoundError: A file that this kind needs is missing.
            IndexOutOfRangeError: There is no such scene or frame.
            TrackNotFoundError: The agent is not in the frame, or does not pass the label filter.
        """
        painter = self._painter(map_kind)
        picture = painter.picture(scene_index, frame_index, track_id, with_caption=False)
        return bytes(cv2.imencode(".png", picture[:, :, ::-1])[1])

    def vector_svg(self, scene_index: int, frame_index: int, track_id: int | None) -> bytes:
        """Return the vector sample as a drawing; see :meth:`raster_png`.

        Raises:
            FileNotFoundError: There is no semantic map.
            IndexOutOfRangeError: There is no such scene or frame.
            TrackNotFoundError: The agent is not in the frame, or does not pass the label filter.
        """
        # refuse missing frames before making a dataset of samples, which loads a map
        self._painter("box").require_frame(scene_index, frame_index)
        with self._lock:
            samples = self._vector_samples
        return draw_vector_sample(samples.get_frame(scene_index, frame_index, track_id))

    def _painter(self, map_kind: str) -> ScenePainter:
        with self._lock:
            if map_kind not in self._painters:
                self._painters[map_kind] = ScenePainter(
                    self._files, self._dataset, map_kind=map_kind, form=_FORM, style="channels"
                )
            return self._painters[map_kind]

    @cached_property
    def _vector_samples(self) -> EgoDatasetVectorized:
        cfg = sample_config(self._files, map_kind="semantic", form=_FORM, step_time_s=self._dataset.facts.step_time_s)
        num_past = _FORM.history_num_frames
        cfg["model_params"] |= {"history_num_frames_ego": num_past, "history_num_frames_agents": num_past}
        cfg["data_generation_params"] = _VECTOR_SIZES
        return EgoDatasetVectorized(cfg, self._dataset, build_vectorizer(cfg, LocalDataManager("")))
