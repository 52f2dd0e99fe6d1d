"""Logs, configurations and rasterizers that the tests of samples and datasets share."""

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from fixture_s import make_fixture_s_arrays
from l5kit._types import RecordArray
from l5kit.configs.parameters import RasterGeometry
from l5kit.data.records import AGENT_DTYPE, FRAME_DTYPE, SCENE_DTYPE, TL_FACE_DTYPE
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.rasterization.rasterizer import Rasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.rasterization.stub_rasterizer import StubRasterizer

THRESHOLDS = {"th_yaw_degree": 30, "th_extent_ratio": 1.1, "th_distance_av": 50}
FIXTURE_S_CFG: dict[str, Any] = {
    "format_version": 4,
    "model_params": {
        "history_num_frames": 3,
        "future_num_frames": 5,
        "step_time": 0.1,
        "render_ego_history": True,
    },
    "raster_params": {
        "raster_size": [224, 112],
        "pixel_size": [0.25, 0.25],
        "ego_center": [0.25, 0.5],
        "set_origin_to_bottom": True,
        "map_type": "stub_debug",
        "filter_agents_threshold": 0.5,
        "disable_traffic_light_faces": False,
    },
}


def make_cfg(**overrides: Any) -> dict[str, Any]:
    """Return the configuration of the known answers of fixture S with some keys replaced, whatever their section."""
    cfg = copy.deepcopy(FIXTURE_S_CFG)
    for key, value in overrides.items():
        in_model = key in cfg["model_params"] or key in ("history_step_size", "future_step_size")
        cfg["model_params" if in_model else "raster_params"][key] = value
    return cfg


def make_stub(cfg: dict[str, Any]) -> StubRasterizer:
    return StubRasterizer(RenderContext.from_geometry(RasterGeometry.from_cfg(cfg)))


def make_fixture_s_log() -> ChunkedDataset:
    scenes, frames, agents, tl_faces = make_fixture_s_arrays()
    return ChunkedDataset.in_memory(scenes=scenes, frames=frames, agents=agents, tl_faces=tl_faces)


def save_fixture_s(folder: Path) -> str:
    """Write fixture S as a dataset folder and return its path."""
    path = folder / "fixture_s.zarr"
    make_fixture_s_log().save(path)
    return str(path)


def make_log(frames_of_scenes: list[list[list[dict[str, Any]]]]) -> ChunkedDataset:
    """Return a log in memory from the agents (field values) of each frame of each scene.

    The AV stands at the origin; every frame has one traffic light face. Agents are cars of 4 by 2 m by default.
    """
    scenes, frames, agents, faces = [], [], [], []
    for scene_index, scene in enumerate(frames_of_scenes):
        first_frame = len(frames)
        for rows in scene:
            first_row = len(agents)
            agents.extend(make_agent_row(**fields) for fields in rows)
            faces.append(("F1", "T1", [1, 0, 0]))
            frames.append(
                (
                    len(frames) * 100_000_000,
                    (first_row, len(agents)),
                    (len(faces) - 1, len(faces)),
                    (0, 0, 0),
                    np.eye(3),
                )
            )
        scenes.append(((first_frame, len(frames)), f"host-{scene_index}", 0, 1))
    return ChunkedDataset.in_memory(
        scenes=np.array(scenes, SCENE_DTYPE),
        frames=np.array(frames, FRAME_DTYPE),
        agents=np.array(agents, AGENT_DTYPE),
        tl_faces=np.array(faces, TL_FACE_DTYPE),
    )


def make_agent_row(
    track_id: int,
    centroid: tuple[float, float] = (1.0, 2.0),
    yaw: float = 0.0,
    extent: tuple[float, float, float] = (4.0, 2.0, 1.5),
    probability: float = 1.0,
    label: int = 3,
) -> tuple[Any, ...]:
    probabilities = np.zeros(17, np.float32)
    probabilities[label] = probability
    probabilities[1] = 1 - probability
    return (centroid, extent, yaw, (0.0, 0.0), track_id, probabilities)


def make_several_scenes_log() -> ChunkedDataset:
    """Return four scenes: 20 frames, none, one frame, and 16 frames with empty frames and a track that comes late."""
    moving = [[{"track_id": 1, "centroid": (0.5 * k, 3.0)}, {"track_id": 2, "yaw": 0.01 * k}] for k in range(20)]
    late = [
        [] if k in (0, 7, 15) else [{"track_id": 1}] + ([{"track_id": 9, "centroid": (k, k)}] if k >= 8 else [])
        for k in range(16)
    ]
    return make_log([moving, [], [[{"track_id": 1}, {"track_id": 5}]], late])


def make_agent_dataset(
    cfg: dict[str, Any], log: ChunkedDataset, rasterizer: Rasterizer | None = None, **options: Any
) -> Any:
    """Return an AgentDataset without the warnings about masks and minima."""
    from l5kit.dataset import AgentDataset  # needs torch, which the other cases do without

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return AgentDataset(cfg, log, rasterizer, **options)


def assert_samples_equal(sample: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(sample) == list(expected)
    for key, value in expected.items():
        np.testing.assert_array_equal(sample[key], value, err_msg=key)
        assert np.asarray(sample[key]).dtype == np.asarray(value).dtype, key


def rows_as_bytes(rows: RecordArray) -> bytes:
    return np.ascontiguousarray(rows).tobytes()
