from . import (
    combine as combine,
    filter as filter,
    labels as labels,
    local_data_manager as local_data_manager,
    map_api as map_api,
    zarr_dataset as zarr_dataset,
    zarr_utils as zarr_utils,
)
from .artifact import describe_dataset as describe_dataset
from .checks.checksums import compute_checksums as compute_checksums
from .checks.finding import Finding as Finding
from .checks.path_validation import validate_path as validate_path
from .checks.validation import validate_dataset as validate_dataset
from .combine import get_combined_scenes as get_combined_scenes
from .dataset_files import (
    DatasetFiles as DatasetFiles,
    find_dataset_files as find_dataset_files,
    find_map_files as find_map_files,
)
from .digests.digest import dataset_digest as dataset_digest
from .download.downloading import download_dataset as download_dataset
from .filter import (
    filter_agents_by_distance as filter_agents_by_distance,
    filter_agents_by_frames as filter_agents_by_frames,
    filter_agents_by_labels as filter_agents_by_labels,
    filter_agents_by_track_id as filter_agents_by_track_id,
    filter_tl_faces_by_frames as filter_tl_faces_by_frames,
    filter_tl_faces_by_status as filter_tl_faces_by_status,
    get_agents_slice_from_frames as get_agents_slice_from_frames,
    get_frames_slice_from_scenes as get_frames_slice_from_scenes,
    get_tl_faces_slice_from_frames as get_tl_faces_slice_from_frames,
)
from .interop import (
    MapDifferences as MapDifferences,
    MapExport as MapExport,
    compare_maps as compare_maps,
    export_columns as export_columns,
    export_lanelet2 as export_lanelet2,
    export_opendrive as export_opendrive,
    export_openscenario as export_openscenario,
    export_parquet as export_parquet,
    export_py123d as export_py123d,
    to_arrow as to_arrow,
    to_arrow_batches as to_arrow_batches,
    to_dask_array as to_dask_array,
    to_dask_dataframe as to_dask_dataframe,
    to_pandas as to_pandas,
    to_polars as to_polars,
    to_xarray as to_xarray,
)
from .jobs.job_folder import JobFolder as JobFolder, open_job as open_job
from .labels import (
    PERCEPTION_LABELS as PERCEPTION_LABELS,
    PERCEPTION_LABEL_TO_INDEX as PERCEPTION_LABEL_TO_INDEX,
    TL_FACE_LABELS as TL_FACE_LABELS,
    TL_FACE_LABEL_TO_INDEX as TL_FACE_LABEL_TO_INDEX,
)
from .local_data_manager import DataManager as DataManager, LocalDataManager as LocalDataManager
from .log_facts import LogFacts as LogFacts
from .log_writer import write_log as write_log
from .digests.manifest import Manifest as Manifest
from .map.api import MapAPI as MapAPI
from .map.lane_routes import LaneRoute as LaneRoute
from .map.opened import SceneMaps as SceneMaps, open_map as open_map, open_maps as open_maps
from .progress import show_progress as show_progress
from .record_buffer import RecordBuffer as RecordBuffer
from .scene_arrays import FaceRows as FaceRows, SceneArrays as SceneArrays, read_scene_arrays as read_scene_arrays
from .jobs.scene_jobs import KeptWorkers as KeptWorkers, map_scenes as map_scenes
from .scene_records import SceneRecords as SceneRecords
from .scene_table import SceneTable as SceneTable, read_scene_table as read_scene_table
from .views import split_scenes as split_scenes
from .stores.decoded_store_list import build_decoded_store as build_decoded_store
from .stores.remote_reading import RemoteReading as RemoteReading
from .tracks import (
    Tracks as Tracks,
    faces_of_frames as faces_of_frames,
    label_probabilities_of as label_probabilities_of,
    spans_as_mask as spans_as_mask,
)
from .index.windows import WindowSteps as WindowSteps
from .zarr_dataset import (
    AGENT_DTYPE as AGENT_DTYPE,
    ChunkedDataset as ChunkedDataset,
    FRAME_DTYPE as FRAME_DTYPE,
    SCENE_DTYPE as SCENE_DTYPE,
    TL_FACE_DTYPE as TL_FACE_DTYPE,
)
from .zarr_utils import zarr_concat as zarr_concat
