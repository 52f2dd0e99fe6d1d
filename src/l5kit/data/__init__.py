"""The dataset on disk, its records and filters, and the semantic map."""

from l5kit.data.checks.checksums import compute_checksums
from l5kit.data.checks.finding import Finding
from l5kit.data.checks.path_validation import validate_path
from l5kit.data.checks.validation import validate_dataset
from l5kit.data.combine import get_combined_scenes
from l5kit.data.dataset_files import DatasetFiles, find_dataset_files
from l5kit.data.digest import dataset_digest
from l5kit.data.filter import (
    filter_agents_by_distance,
    filter_agents_by_frames,
    filter_agents_by_labels,
    filter_agents_by_track_id,
    filter_tl_faces_by_frames,
    filter_tl_faces_by_status,
    get_agents_slice_from_frames,
    get_frames_slice_from_scenes,
    get_tl_faces_slice_from_frames,
)
from l5kit.data.labels import (
    PERCEPTION_LABEL_TO_INDEX,
    PERCEPTION_LABELS,
    TL_FACE_LABEL_TO_INDEX,
    TL_FACE_LABELS,
)
from l5kit.data.local_data_manager import DataManager, LocalDataManager
from l5kit.data.log_facts import LogFacts
from l5kit.data.log_writer import write_log
from l5kit.data.manifest import Manifest
from l5kit.data.map.api import MapAPI
from l5kit.data.map.lane_routes import LaneRoute
from l5kit.data.record_buffer import RecordBuffer
from l5kit.data.scene_arrays import SceneArrays, read_scene_arrays
from l5kit.data.scene_split import split_scenes
from l5kit.data.stores.decoded_store_list import build_decoded_store
from l5kit.data.tracks import Tracks
from l5kit.data.zarr_dataset import AGENT_DTYPE, FRAME_DTYPE, SCENE_DTYPE, TL_FACE_DTYPE, ChunkedDataset
from l5kit.data.zarr_utils import zarr_concat

__all__ = [
    "AGENT_DTYPE",
    "FRAME_DTYPE",
    "PERCEPTION_LABELS",
    "PERCEPTION_LABEL_TO_INDEX",
    "SCENE_DTYPE",
    "TL_FACE_DTYPE",
    "TL_FACE_LABELS",
    "TL_FACE_LABEL_TO_INDEX",
    "ChunkedDataset",
    "DataManager",
    "DatasetFiles",
    "Finding",
    "LaneRoute",
    "LocalDataManager",
    "LogFacts",
    "Manifest",
    "MapAPI",
    "RecordBuffer",
    "SceneArrays",
    "Tracks",
    "build_decoded_store",
    "compute_checksums",
    "dataset_digest",
    "filter_agents_by_distance",
    "filter_agents_by_frames",
    "filter_agents_by_labels",
    "filter_agents_by_track_id",
    "filter_tl_faces_by_frames",
    "filter_tl_faces_by_status",
    "find_dataset_files",
    "get_agents_slice_from_frames",
    "get_combined_scenes",
    "get_frames_slice_from_scenes",
    "get_tl_faces_slice_from_frames",
    "read_scene_arrays",
    "split_scenes",
    "validate_dataset",
    "validate_path",
    "write_log",
    "zarr_concat",
]
