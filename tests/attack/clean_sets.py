"""The undamaged sets that are attacked: small made logs with map, aerial picture, meta.json and configuration."""

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import yaml

from attack.record_files import ATTRIBUTES, STANDARD, Records, write_log, zip_folder
from l5kit.data.map.builder import MapBuilder
from support.maps import WORLD_TO_ECEF
from support.random_logs import random_dataset
from support.samples import make_cfg
from support.vectors import make_vector_cfg

SMALL_CHUNKS = {"scenes": 3, "frames": 8, "agents": 16, "traffic_light_faces": 9}
USUAL_CHUNKS = {"scenes": 10_000, "frames": 10_000, "agents": 20_000, "traffic_light_faces": 10_000}
VARIED_LENGTHS = (12, 0, 1, 9, 14, 0, 8)
"""Frames of each scene: also none and one."""
EVEN_LENGTHS = (10, 9, 12, 8)
"""Scenes that are long enough to be chopped."""
CHOPPED_FRAMES = 4
LOG_NAME = "log.zarr"
NUM_HISTORY, NUM_FUTURE = 3, 4
CENTER_M = np.array([-400.0, 250.0])
"""Position of the scenes, away from the origin, so that an AV moved to the origin is a jump."""
_FACES = ("red", "green", "yellow", "uturn")
_PICTURE_PX = (240, 320)
_M_PER_PX = 0.5


@dataclass(frozen=True)
class CleanSet:
    """One kind of undamaged set.

    Attributes:
        name: What it is called in reports.
        lengths: Frames of each scene.
        chunk_lengths: Rows per chunk, by array.
        is_zip: Whether the log is a zip file.
        has_faces: Whether it is one of the newer layout, with traffic lights.
    """

    name: str
    lengths: tuple[int, ...]
    chunk_lengths: dict[str, int]
    is_zip: bool = False
    has_faces: bool = True

    def records(self) -> Records:
        """Return the rows of the log."""
        return Records(_make_arrays(self.lengths, has_faces=self.has_faces))

    def write(self, root: Path) -> None:
        """Write the whole set into a folder that does not exist; the log as a folder, also where it is to be a zip."""
        root.mkdir(parents=True)
        arrays = dict(self.records().arrays)
        if not self.has_faces:
            del arrays["traffic_light_faces"]
            arrays["frames"] = _without_face_interval(arrays["frames"])
        write_log(root / "scenes" / LOG_NAME, arrays, self.chunk_lengths)
        (root / "semantic_map").mkdir()
        _make_map().save(root / "semantic_map" / "semantic_map.pb")
        (root / "aerial_map").mkdir()
        cv2.imwrite(str(root / "aerial_map" / "aerial_map.png"), _make_picture())
        (root / "meta.json").write_text(json.dumps(make_meta()))
        (root / "config.yaml").write_text(yaml.safe_dump(raster_cfg("py_semantic")))


SETS = (
    CleanSet("varied, small chunks", VARIED_LENGTHS, SMALL_CHUNKS),
    CleanSet("even, small chunks", EVEN_LENGTHS, SMALL_CHUNKS),
    CleanSet("even, one chunk", EVEN_LENGTHS, USUAL_CHUNKS),
    CleanSet("varied, zip", VARIED_LENGTHS, SMALL_CHUNKS, is_zip=True),
    CleanSet("even, three arrays", EVEN_LENGTHS, SMALL_CHUNKS, has_faces=False),
)


def pack(root: Path, clean: CleanSet) -> Path:
    """Return the path of the log of a set, after it was made a zip file where that is wanted."""
    folder = root / "scenes" / LOG_NAME
    if not clean.is_zip:
        return folder
    target = folder.with_name(f"{LOG_NAME}.zip")
    if not target.exists():
        zip_folder(folder, target)
    return target


def raster_cfg(map_type: str) -> dict[str, Any]:
    """Return a configuration of tiny pictures whose keys are paths in a set."""
    cfg = make_cfg(
        raster_size=[32, 24],
        pixel_size=[1.5, 1.5],
        map_type=map_type,
        history_num_frames=NUM_HISTORY,
        future_num_frames=NUM_FUTURE,
        semantic_map_key="semantic_map/semantic_map.pb",
        satellite_map_key="aerial_map/aerial_map.png",
        dataset_meta_key="meta.json",
    )
    return copy.deepcopy(cfg)


def vector_cfg() -> dict[str, Any]:
    """Return a configuration of vector samples."""
    return make_vector_cfg(
        history_num_frames_ego=1,
        history_num_frames_agents=NUM_HISTORY,
        future_num_frames=NUM_FUTURE,
        semantic_map_key="semantic_map/semantic_map.pb",
        dataset_meta_key="meta.json",
    )


def make_meta() -> dict[str, Any]:
    """Return matrices that put the middle of the picture at the origin of the world."""
    rows, columns = _PICTURE_PX
    shift = np.array([rows / 2, columns / 2]) - CENTER_M / _M_PER_PX
    world_to_aerial = np.array(
        [[1 / _M_PER_PX, 0, 0, shift[0]], [0, 1 / _M_PER_PX, 0, shift[1]], [0, 0, 0, 0], [0, 0, 0, 1]]
    )
    return {
        "world_to_ecef": WORLD_TO_ECEF.tolist(),
        "ecef_to_aerial": (world_to_aerial @ np.linalg.inv(WORLD_TO_ECEF)).tolist(),
    }


def _make_map() -> MapBuilder:
    """Return nine parallel lanes, every third with a light, and two crosswalks."""
    builder = MapBuilder(WORLD_TO_ECEF)
    controls = {0: ["T0", "red", "green", "yellow"], 3: ["T0", "uturn"], 6: ["T0", "unknown"], 1: ["red"]}
    x, y = CENTER_M
    for i in range(9):
        left = np.array([[-40.0, 2.0, 0.0], [0.0, 2.0 + 0.3 * i, 0.0], [15.0 + i, 2.0, 0.0], [30.0, 3.0, 0.0]])
        right = np.array([[-40.0, -2.0, 0.0], [5.0, -2.0 - 0.3 * i, 0.0], [30.0, -1.0, 0.0]])
        shift = np.array([x, y + 4.0 * i - 12.0, 0.0])
        builder.add_lane(
            f"L{i}", left + shift, right + shift, traffic_controls=controls.get(i, []), lanes_ahead=[f"L{(i + 1) % 9}"]
        )
    for i, along in enumerate((6.0, -10.0)):
        corners = [[along, -10.0, 0.0], [along + 3, -10.0, 0.0], [along + 3.5, 0.0, 0.0], [along + 3, 10.0, 0.0]]
        builder.add_crosswalk(f"C{i}", np.array(corners) + [x, y, 0.0])
    builder.add_traffic_light("T0", np.array([x + 10.0, y, 4.0]))
    kinds = {"red": "red_face", "green": "green_face", "yellow": "left_arrow_yellow_face", "uturn": "red_u_turn"}
    for face, kind in kinds.items():
        builder.add_traffic_light_face(face, f"signal_{kind}")
    return builder


def _make_picture() -> np.ndarray:
    rng = np.random.default_rng(5)
    coarse = rng.integers(0, 256, (_PICTURE_PX[0] // 8, _PICTURE_PX[1] // 8, 3), dtype=np.uint8)
    return np.kron(coarse, np.ones((8, 8, 1), np.uint8))


def _make_arrays(lengths: tuple[int, ...], *, has_faces: bool) -> dict[str, np.ndarray]:
    """Return a log around the origin of the street map, so that its pictures hold lanes, lights and agents."""
    rng = np.random.default_rng(sum(lengths))
    log = random_dataset(rng, len(lengths), min_frames=14, max_frames=14, max_tracks=12, max_faces=2)
    arrays = {key: np.asarray(getattr(log, name)).astype(STANDARD[key]) for key, name in ATTRIBUTES.items()}
    frames, agents, faces = arrays["frames"], arrays["agents"], arrays["traffic_light_faces"]
    frames["ego_translation"] /= 30.0
    agents["centroid"] /= 8.0
    frames["ego_translation"][:, :2] += CENTER_M
    agents["centroid"] += CENTER_M
    faces["face_id"] = rng.choice(_FACES, len(faces))
    faces["traffic_light_id"] = "T0"
    kept = np.concatenate([np.arange(14 * scene, 14 * scene + length) for scene, length in enumerate(lengths)])
    is_empty = rng.random(len(kept)) < 0.1
    counts = {}
    for name, key in (
        ("agent_index_interval", "agents"),
        ("traffic_light_faces_index_interval", "traffic_light_faces"),
    ):
        bounds = frames[name][kept].copy()
        bounds[is_empty] = 0
        rows = np.concatenate([np.arange(start, stop) for start, stop in bounds])
        arrays[key] = arrays[key][rows if has_faces or key == "agents" else []]
        counts[name] = bounds[:, 1] - bounds[:, 0]
    arrays["frames"] = frames[kept]
    for name, count in counts.items():
        ends = np.cumsum(count)
        arrays["frames"][name] = np.stack([ends - count, ends], axis=1)
    if not has_faces:
        arrays["frames"]["traffic_light_faces_index_interval"] = 0
    ends = np.cumsum(lengths)
    arrays["scenes"]["frame_index_interval"] = np.stack([ends - lengths, ends], axis=1)
    arrays["scenes"]["end_time"] = arrays["scenes"]["start_time"] + 10**8 * np.array(lengths)
    return arrays


def _without_face_interval(frames: np.ndarray) -> np.ndarray:
    names = [name for name in frames.dtype.names if name != "traffic_light_faces_index_interval"]
    older = np.zeros(
        len(frames), np.dtype([(name, frames.dtype[name].base, frames.dtype[name].shape) for name in names])
    )
    for name in names:
        older[name] = frames[name]
    return older
