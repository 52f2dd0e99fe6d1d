"""Small valid datasets of random scenes, in memory, with the cases that are easily forgotten.

There are frames without agents and without faces, scenes of one frame, tracks that appear and end in the middle of a
scene, and ids that every scene uses anew.
"""

import numpy as np

from l5kit.data import AGENT_DTYPE, FRAME_DTYPE, TL_FACE_DTYPE
from support.logs import STEP_NS, intervals, log_of, make_frames, scenes_of, without_face_intervals

ARRAYS = ("scenes", "frames", "agents", "tl_faces")
INTERVAL_FIELDS = {
    "scenes": ("frame_index_interval",),
    "frames": ("agent_index_interval", "traffic_light_faces_index_interval"),
}


def random_dataset(rng, num_scenes=3, *, max_frames=8, max_tracks=5, max_faces=3, min_frames=1):
    """Return a dataset of scenes with ``min_frames`` to ``max_frames`` frames; equal ``rng`` states give equal ones."""
    num_frames = rng.integers(min_frames, max_frames + 1, size=num_scenes)
    frames = np.concatenate(
        [_make_frames(rng, int(count), scene) for scene, count in enumerate(num_frames)] or [_empty(FRAME_DTYPE)]
    )
    agents, agent_counts = _make_children(
        [_make_agents(rng, int(count), max_tracks) for count in num_frames], AGENT_DTYPE
    )
    faces, face_counts = _make_children(
        [_make_faces(rng, int(count), max_faces) for count in num_frames], TL_FACE_DTYPE
    )
    frames["agent_index_interval"] = intervals(agent_counts)
    frames["traffic_light_faces_index_interval"] = intervals(face_counts)
    starts_ns = 10**9 * (1 + 100 * np.arange(num_scenes))
    hosts = [f"host-{host}" for host in rng.integers(0, 3, size=num_scenes)]
    scenes = scenes_of(num_frames, hosts=hosts, start_ns=starts_ns, end_ns=starts_ns + num_frames * STEP_NS)
    return log_of(scenes, frames, agents, faces)


def without_traffic_lights(dataset):
    """Return the arrays of a dataset in the older layout: scenes, frames without face intervals, agents."""
    return np.asarray(dataset.scenes), without_face_intervals(dataset.frames), np.asarray(dataset.agents)


def write_three_arrays(dataset, path):
    """Write a dataset to a folder in the older layout, which has no traffic lights."""
    from zarr.storage import LocalStore

    from l5kit.data import layout

    group = layout.create_group(LocalStore(path), "w")
    for key, records in zip(("scenes", "frames", "agents"), without_traffic_lights(dataset), strict=True):
        array = layout.create_array(group, key, len(records), dtype=records.dtype)
        array[:] = records
    return str(path)


def assert_same_records(left, right, *, arrays=ARRAYS):
    """Compare arrays of two datasets, or of a dataset and a dict of arrays."""
    for name in arrays:
        first, second = np.asarray(getattr(left, name)), np.asarray(getattr(right, name))
        assert first.dtype == second.dtype, name
        assert first.tobytes() == second.tobytes(), name


def _empty(dtype):
    return np.empty(0, dtype=dtype)


def _make_children(rows_of_scenes, dtype):
    """Join rows by scene and frame, and count the rows of each frame."""
    rows_of_frames = [rows for scene in rows_of_scenes for rows in scene]
    counts = np.array([len(rows) for rows in rows_of_frames], dtype=np.int64)
    return np.concatenate([*rows_of_frames, _empty(dtype)]), counts


def _make_frames(rng, count, scene):
    steps = np.arange(count)
    positions_m = rng.uniform(-500, 500, (1, 3)) + steps[:, None] * rng.normal(0, 1, (1, 3))
    yaws_rad = rng.uniform(-np.pi, np.pi) + 0.01 * steps
    times_ns = 10**9 * (20 + 100 * scene) + STEP_NS * steps
    return make_frames(count, positions_m=positions_m, yaws_rad=yaws_rad, timestamps_ns=times_ns)[0]


def _make_agents(rng, num_frames, max_tracks):
    """Return the agents of each frame of a scene; each track lives in one random range of frames."""
    num_tracks = int(rng.integers(0, max_tracks + 1))
    births = rng.integers(0, num_frames, size=num_tracks)
    deaths = rng.integers(births, num_frames) + 1 if num_tracks else births
    extents = rng.uniform(0.5, 6, (num_tracks, 3))
    labels = rng.choice([1, 3, 12, 14], size=num_tracks)
    places, yaws = rng.uniform(-100, 100, (num_tracks, 2)), rng.uniform(-np.pi, np.pi, num_tracks)
    frames = []
    for frame in range(num_frames):
        alive = np.flatnonzero((births <= frame) & (frame < deaths))
        agents = np.zeros(len(alive), dtype=AGENT_DTYPE)
        agents["centroid"] = places[alive] + 0.3 * frame
        agents["extent"], agents["yaw"], agents["track_id"] = extents[alive], yaws[alive], alive + 1
        agents["velocity"] = 3
        agents["label_probabilities"][np.arange(len(alive)), labels[alive]] = 1
        frames.append(agents)
    return frames


def _make_faces(rng, num_frames, max_faces):
    frames = []
    for _ in range(num_frames):
        faces = np.zeros(int(rng.integers(0, max_faces + 1)), dtype=TL_FACE_DTYPE)
        faces["face_id"] = [f"F{number}" for number in rng.integers(0, 4, size=len(faces))]
        faces["traffic_light_id"] = "T0"
        faces["traffic_light_face_status"][np.arange(len(faces)), rng.integers(0, 3, size=len(faces))] = 1
        frames.append(faces)
    return frames
