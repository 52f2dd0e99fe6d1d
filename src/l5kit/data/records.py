"""Record types, array names and chunk lengths of the dataset format, version 2.

The types are lists, as in L5Kit 1.x: pass them wherever NumPy takes a dtype. All records are packed and little endian.
"""

import numpy as np

from l5kit.data.labels import PERCEPTION_LABELS, TL_FACE_LABELS

FORMAT_VERSION = 2
"""Value of the attribute ``format_version`` of every dataset."""

SCENE_ARRAY_KEY = "scenes"
FRAME_ARRAY_KEY = "frames"
AGENT_ARRAY_KEY = "agents"
TL_FACE_ARRAY_KEY = "traffic_light_faces"

SCENE_CHUNK_SIZE = (10_000,)
FRAME_CHUNK_SIZE = (10_000,)
AGENT_CHUNK_SIZE = (20_000,)
TL_FACE_CHUNK_SIZE = (10_000,)

FRAME_INTERVAL = "frame_index_interval"
"""Field of ``scenes`` with their rows of ``frames`` [start, end)."""

AGENT_INTERVAL = "agent_index_interval"
"""Field of ``frames`` with their rows of ``agents`` [start, end)."""

FACE_INTERVAL = "traffic_light_faces_index_interval"
"""Field of ``frames`` with their rows of ``traffic_light_faces`` [start, end); missing in the older layout."""

SCENE_DTYPE = [
    (FRAME_INTERVAL, np.int64, (2,)),
    ("host", "<U16"),
    ("start_time", np.int64),
    ("end_time", np.int64),
]
"""A scene: rows of ``frames`` [start, end), recording car, start and end in nanoseconds."""

FRAME_DTYPE = [
    ("timestamp", np.int64),
    (AGENT_INTERVAL, np.int64, (2,)),
    (FACE_INTERVAL, np.int64, (2,)),
    ("ego_translation", np.float64, (3,)),
    ("ego_rotation", np.float64, (3, 3)),
]
"""A frame: time in nanoseconds, rows of ``agents`` and faces [start, end), pose of the AV in the world, metres."""

AGENT_DTYPE = [
    ("centroid", np.float64, (2,)),
    ("extent", np.float32, (3,)),
    ("yaw", np.float32),
    ("velocity", np.float32, (2,)),
    ("track_id", np.uint64),
    ("label_probabilities", np.float32, (len(PERCEPTION_LABELS),)),
]
"""An agent in a frame: world position m; length, width, height m; world yaw rad; world velocity m/s; track; labels."""

TL_FACE_DTYPE = [
    ("face_id", "<U16"),
    ("traffic_light_id", "<U16"),
    ("traffic_light_face_status", np.float32, (len(TL_FACE_LABELS),)),
]
"""A traffic light face in a frame: id of the bulb, id of its traffic light, one value per status."""
