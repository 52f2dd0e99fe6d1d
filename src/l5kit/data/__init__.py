"""The dataset on disk, its records and filters, and the semantic map."""

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
from l5kit.data.zarr_dataset import AGENT_DTYPE, FRAME_DTYPE, SCENE_DTYPE, TL_FACE_DTYPE, ChunkedDataset

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
    "filter_agents_by_distance",
    "filter_agents_by_frames",
    "filter_agents_by_labels",
    "filter_agents_by_track_id",
    "filter_tl_faces_by_frames",
    "filter_tl_faces_by_status",
    "get_agents_slice_from_frames",
    "get_frames_slice_from_scenes",
    "get_tl_faces_slice_from_frames",
]
