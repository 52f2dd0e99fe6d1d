"""Random datasets for devices: logs with all that a recording may hold, sound or not, and samplers of every kind."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from l5kit.configs.parameters import RasterGeometry
from l5kit.data import ChunkedDataset
from l5kit.data.map.api import MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.dataset import AgentDataset, EgoAgentDatasetVectorized, EgoDataset, EgoDatasetVectorized, collate
from l5kit.dataset.device_samples import DeviceSamples, makes_on_device
from l5kit.device.backend import Backend
from l5kit.kinematic import AckermanPerturbation, Perturbation, RecoveryPerturbation
from l5kit.random import GaussianRandomGenerator
from l5kit.rasterization import BoxRasterizer, SemanticRasterizer, SemBoxRasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.rasterization.stub_rasterizer import StubRasterizer
from l5kit.vectorization.vectorizer import Vectorizer
from support.logs import log_of, write_with_chunks
from support.maps import WORLD_TO_ECEF, save_street_map
from support.random_logs import random_dataset, without_traffic_lights
from support.samples import make_cfg
from support.vectors import make_vector_cfg

_STRANGE = np.array([np.nan, np.inf, -np.inf, 1e300, -1e300, 1e30, 1e18, 4e15, 1e9, -1e9, 8.2e6, 0.0, -0.0])
"""Places, sizes and headings; some are no numbers, or beyond what integers of 64, 32 or 23 bits hold."""

_LARGE_IDS = np.array([2**64 - 1, 2**63, 2**63 - 1, 2**62, 2**61 - 1, 0], np.uint64)
_SIZES_PX = [[1, 1], [2, 2], [17, 1], [1, 50], [3, 200], [40, 24], [64, 64], [96, 72]]
_CENTERS = [[0.25, 0.5], [0.5, 0.5], [0.0, 0.0], [1.0, 1.0], [-1.0, 0.5], [3.0, -2.0]]


class DeviceCases:
    """Makes random datasets, and compares what a device makes of them with what the processor makes.

    Args:
        folder: Where maps and logs are written.
        backend: The device.
    """

    def __init__(self, folder: Path, backend: Backend) -> None:
        self._folder, self._backend = folder, backend
        paths = [_save_random_map(np.random.default_rng(seed), folder / f"map-{seed}.pb") for seed in range(4)]
        self._maps = [*paths, save_street_map(folder)]

    def find_difference(self, seed: int) -> str | None:
        """Return in words how the device differs in a case, None where it does not.

        A case that cannot be built, and one that is left to the processor, differ in nothing.
        """
        rng = np.random.default_rng(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            dataset = self._dataset(rng, is_wrong=bool(rng.random() < 0.3))
            if not makes_on_device(dataset) or len(dataset) == 0:
                return None
            indices = rng.integers(-len(dataset), len(dataset), rng.choice([1, 3, 10])).tolist()
            expected = _outcome(lambda: collate(dataset.__getitems__(indices)), dataset)
            for is_resident in (True, False):
                found = _outcome(
                    lambda on=is_resident: DeviceSamples(dataset, self._backend, is_resident=on).make(indices), dataset
                )
                difference = _difference(found, expected)
                if difference:
                    return f"seed {seed}, {dataset!r}, indices {indices}, is_resident {is_resident}: {difference}"
        return None

    def _dataset(self, rng: Any, *, is_wrong: bool) -> Any:
        log = self._log(rng, is_wrong=is_wrong)
        threshold = float(rng.choice([0.0, 0.5, 0.9, 1.0]))
        steps = {name: int(rng.integers(1, 4)) for name in ("history_step_size", "future_step_size")}
        shared = {
            **steps,
            "filter_agents_threshold": threshold,
            "disable_traffic_light_faces": bool(rng.random() < 0.2),
            "future_num_frames": int(rng.choice([0, 1, 5])),
        }
        mask = rng.random(len(log.agents)) < 0.7
        is_sound = ~np.isnan(log.agents["label_probabilities"][:]).any(axis=1)
        moved = _perturbation(rng) if rng.random() < 0.25 else None
        if rng.random() < 0.5:
            cfg = _picture_cfg(rng, shared)
            rasterizer = self._rasterizer(rng, cfg)
            if rng.random() < 0.5:
                return EgoDataset(cfg, log, rasterizer, moved)
            return AgentDataset(cfg, log, rasterizer, None, mask & is_sound, strict_mask=bool(rng.random() < 0.5))
        cfg = _vector_cfg(rng, shared)
        vectorizer = Vectorizer(cfg, MapAPI(str(rng.choice(self._maps)), WORLD_TO_ECEF))
        if rng.random() < 0.5:
            return EgoDatasetVectorized(cfg, log, vectorizer, moved)
        evaluation = {"eval_mode": bool(rng.random() < 0.3), "eval_frame_index": int(rng.choice([0, 2]))}
        return EgoAgentDatasetVectorized(cfg, log, vectorizer, moved, mask & is_sound, **evaluation)

    def _rasterizer(self, rng: Any, cfg: dict[str, Any]) -> Any:
        context = RenderContext.from_geometry(RasterGeometry.from_cfg(cfg))
        history = cfg["model_params"]["history_num_frames"] if rng.random() < 0.85 else int(rng.choice([0, 2, 8]))
        threshold = float(rng.choice([-1.0, 0.0, 0.5, 1.0]))
        options: dict[str, Any] = {"image_dtype": str(rng.choice(["uint8", "float32"]))}
        boxes = {"render_ego_history": bool(rng.random() < 0.6), "solid_boxes": bool(rng.random() < 0.4)} | options
        path = str(rng.choice(self._maps))
        kind = rng.choice(["boxes", "map", "both", "both", "black", "none"])
        if kind == "boxes":
            return BoxRasterizer(context, threshold, history, **boxes)
        if kind == "map":
            return SemanticRasterizer(context, path, WORLD_TO_ECEF, **options)
        if kind == "both":
            return SemBoxRasterizer(context, threshold, history, path, WORLD_TO_ECEF, **boxes)
        return StubRasterizer(context, **options) if kind == "black" else None

    def _log(self, rng: Any, *, is_wrong: bool) -> ChunkedDataset:
        most_tracks = 600 if rng.random() < 0.03 else int(rng.choice([0, 3, 8, 30]))
        log = random_dataset(
            rng,
            int(rng.integers(1, 4)),
            max_frames=int(rng.choice([1, 4, 12])),
            max_tracks=most_tracks,
            max_faces=int(rng.choice([0, 3, 9])),
        )
        log.frames["ego_translation"] -= log.frames["ego_translation"][:1]
        _crowd(rng, log)
        if rng.random() < 0.5:
            _make_strange(rng, log)
        if is_wrong:
            _make_intervals_wrong(rng, log)
        elif rng.random() < 0.1:
            return log_of(*without_traffic_lights(log))
        elif rng.random() < 0.25:
            return ChunkedDataset(write_with_chunks(log, str(self._folder / f"log-{rng.integers(2**60)}"))).open()
        return log


def _crowd(rng: Any, log: ChunkedDataset) -> None:
    """Bring agents near the AV, in all sizes, and several of one track into a frame."""
    agents = log.agents
    if rng.random() < 0.5:
        for frame in log.frames:
            rows = slice(*frame["agent_index_interval"].tolist())
            size = len(agents[rows])
            agents["centroid"][rows] = frame["ego_translation"][:2] + rng.normal(0, rng.choice([1, 5, 20]), (size, 2))
            agents["extent"][rows] *= rng.lognormal(0, 1.5, (size, 1))
    rows = rng.integers(0, len(agents), 4 if len(agents) else 0)
    if rng.random() < 0.3:
        agents["track_id"][rows] = rng.integers(0, 4, len(rows))
    if rng.random() < 0.3:
        agents["label_probabilities"][rows] = rng.random((len(rows), 17))


def _make_strange(rng: Any, log: ChunkedDataset) -> None:
    """Give agents and the AV places, sizes, headings and numbers that no recording should have."""
    agents, frames = log.agents, log.frames
    for name in ("centroid", "extent", "yaw", "label_probabilities"):
        if len(agents) and rng.random() < 0.4:
            column = agents[name].reshape(len(agents), -1)
            rows, places = rng.integers(0, len(agents), 3), rng.integers(0, column.shape[1], 3)
            column[rows, places] = rng.choice(_STRANGE, 3)
            agents[name] = column.reshape(agents[name].shape)
    if len(agents):
        agents["extent"][rng.integers(len(agents))] *= rng.choice([-1, 0, 1e4, 1e10])
        if rng.random() < 0.3:
            agents["track_id"][rng.integers(0, len(agents), 3)] = rng.choice(_LARGE_IDS, 3)
    for name, place in (("ego_translation", (rng.integers(2),)), ("ego_rotation", tuple(rng.integers(0, 2, 2)))):
        if rng.random() < 0.3:
            frames[name][(rng.integers(len(frames)), *place)] = rng.choice(_STRANGE)


def _make_intervals_wrong(rng: Any, log: ChunkedDataset) -> None:
    """Let intervals overlap, lie behind the end or before the start, run backwards, or be empty anywhere."""
    frames, lengths = log.frames, {"agent": len(log.agents), "traffic_light_faces": len(log.tl_faces)}
    for _ in range(int(rng.integers(1, 4))):
        kind, row = rng.choice(list(lengths)), rng.integers(len(frames))
        length, intervals = lengths[kind], frames[f"{kind}_index_interval"]
        anywhere = int(rng.integers(0, 10**6))
        choices = [
            np.sort(rng.integers(0, length + 1, 2)),
            (anywhere, anywhere),
            (length // 2, length + 3),
            (-2, 1),
            intervals[row, ::-1].copy(),
            intervals[rng.integers(len(frames))].copy(),
        ]
        intervals[row] = choices[rng.integers(len(choices))]
    if rng.random() < 0.2:
        log.scenes["frame_index_interval"][rng.integers(len(log.scenes))] = rng.integers(-1, len(frames) + 2, 2)


def _picture_cfg(rng: Any, shared: dict[str, Any]) -> dict[str, Any]:
    return make_cfg(
        history_num_frames=int(rng.choice([0, 1, 3, 6])),
        raster_size=_SIZES_PX[rng.integers(len(_SIZES_PX))],
        pixel_size=[float(rng.choice([0.05, 0.25, 0.5, 2.0, 10.0]))] * 2,
        ego_center=_CENTERS[rng.integers(len(_CENTERS))],
        set_origin_to_bottom=bool(rng.random() < 0.7),
        **shared,
    )


def _vector_cfg(rng: Any, shared: dict[str, Any]) -> dict[str, Any]:
    return make_vector_cfg(
        history_num_frames_ego=int(rng.choice([0, 1, 4, 11])),
        history_num_frames_agents=int(rng.choice([0, 3, 12])),
        other_agents_num=int(rng.choice([1, 4, 20])),
        max_agents_distance=float(rng.choice([0.5, 35, 1000])),
        max_num_lanes=int(rng.choice([1, 3, 30])),
        max_points_per_lane=int(rng.choice([2, 20])),
        max_points_per_crosswalk=int(rng.choice([1, 5, 20])),
        max_retrieval_distance_m=float(rng.choice([1, 35, 500])),
        max_num_crosswalks=int(rng.choice([1, 2, 20])),
        order_agents_by_distance=bool(rng.random() < 0.5),
        speed_from_history=bool(rng.random() < 0.3),
        **shared,
    )


def _perturbation(rng: Any) -> Perturbation:
    if rng.random() < 0.5:
        return RecoveryPerturbation(0.7)
    return AckermanPerturbation(GaussianRandomGenerator(np.zeros(3), np.array([0.5, 0.3, 0.1])), perturb_prob=0.7)


def _save_random_map(rng: Any, path: Path) -> str:
    """Write a map of lanes anywhere and of any length, with some of six faces each, and of crosswalks."""
    builder = MapBuilder(WORLD_TO_ECEF)
    kinds = ("red_face", "green_face", "yellow_face", "left_arrow_yellow_face", "red_u_turn", "red_face")
    faces = [f"F{i}" for i in range(len(kinds))]
    for face, kind in zip(faces, kinds, strict=True):
        builder.add_traffic_light_face(face, f"signal_{kind}")
    for i in range(int(rng.integers(0, 40))):
        start_m, yaw_rad, length_m = rng.uniform(-120, 120, 2), rng.uniform(-3, 3), rng.choice([3.0, 60.0, 400.0])
        along = np.array([np.cos(yaw_rad), np.sin(yaw_rad)])
        lines = []
        for offset_m in (2.0, -2.0):
            steps_m = np.sort(rng.uniform(0, length_m, int(rng.integers(2, 9))))
            middle_m = start_m + offset_m * along[::-1] * (-1, 1)
            points_m = middle_m + steps_m[:, None] * along + rng.normal(0, 0.3, (len(steps_m), 2))
            lines.append(np.column_stack([points_m, np.zeros(len(steps_m))]))
        controls = rng.choice(faces, int(rng.integers(0, 4)), replace=False).tolist()
        builder.add_lane(f"L{i}", *lines, traffic_controls=controls)
    for i in range(int(rng.integers(0, 12))):
        corners_m = rng.uniform(-100, 100, 2) + rng.normal(0, rng.choice([2.0, 40.0]), (int(rng.integers(3, 30)), 2))
        builder.add_crosswalk(f"C{i}", np.column_stack([corners_m, np.zeros(len(corners_m))]))
    builder.save(path)
    return str(path)


def _outcome(make: Any, dataset: Any) -> Any:
    """Return a batch, or the error; the perturbation draws the same each time."""
    if dataset.perturbation is not None:
        dataset.perturbation.reseed(5)
    try:
        return make()
    except Exception as error:
        return error


def _difference(found: Any, expected: Any) -> str | None:
    """Return in words how a batch or an error differs from the one that is expected."""
    if isinstance(found, Exception) or isinstance(expected, Exception):
        return None if repr(found) == repr(expected) else f"{found!r} in place of {expected!r}"
    if list(found) != list(expected):
        return f"keys {list(found)} in place of {list(expected)}"
    for key, values in expected.items():
        if found[key].dtype != values.dtype or found[key].shape != values.shape:
            return f"{key} is {found[key].dtype} {found[key].shape} in place of {values.dtype} {values.shape}"
        left, right = _without_nan(found[key]), _without_nan(values)
        if left != right:
            return f"{key} has other values"
    return None


def _without_nan(values: torch.Tensor) -> tuple[bytes, bytes]:
    """Return numbers to the bit, and where there is none; of what is no number the bits are left open."""
    array = values.cpu().numpy()
    is_nan = np.isnan(array)
    return np.where(is_nan, 0, array).astype(array.dtype).tobytes(), is_nan.tobytes()
