"""Pictures of the trajectories that a network predicts worst."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import torch

from l5kit._types import Float64Array, Int64Array, UInt8Array
from l5kit.data.track_ids import EGO_TRACK_ID
from l5kit.dataset.ego import EgoDataset
from l5kit.geometry.transform import transform_points
from l5kit.kinematic.baselines import BASELINE_TITLES, BASELINES
from l5kit.openloop.case_pictures import DRAWN_BASELINE, CaseTrajectories, case_picture
from l5kit.openloop.prediction import PredictedBatch, predicted_batches
from l5kit.openloop.setup import OpenLoopSetup
from l5kit.openloop.trajectory_rows import TrajectoryRows, label_name
from l5kit.rasterization.rasterizer import Rasterizer
from l5kit.visualization.sample_pictures import sample_picture
from l5kit.workflows.samples import context_rasters

_LEAST_SIDE_PX: Final = 448


def worst_rows(rows: TrajectoryRows, num_rows: int, *, error_m: Float64Array, frames_apart: int) -> Int64Array:
    """Return the places of the largest errors, the largest first; of one agent only those that are some time apart.

    Args:
        rows: All trajectories.
        num_rows: How many to return, at most.
        error_m: Their errors, (N,); rows with NaN are left out.
        frames_apart: Least frames between two rows of one agent.
    """
    order = np.argsort(-error_m, kind="stable")[: np.count_nonzero(~np.isnan(error_m))]
    taken: list[int] = []
    for row in order.tolist():
        if len(taken) == num_rows:
            break
        others = rows.taken(np.array(taken, dtype=np.int64))
        is_same = (others.scene_index == rows.scene_index[row]) & (others.track_id == rows.track_id[row])
        if not np.any(is_same & (np.abs(others.frame_index - rows.frame_index[row]) < frames_apart)):
            taken.append(row)
    return np.array(taken, dtype=np.int64)


def draw_worst_cases(setup: OpenLoopSetup, rows: TrajectoryRows) -> Iterator[tuple[str, UInt8Array]]:
    """Yield a name and a picture of each of some trajectories, which are predicted once more.

    Samples with a raster are shown as the network sees them, magnified; those without one as their place on the
    semantic map.

    Args:
        setup: The network and the samples.
        rows: The trajectories.
    """
    samples = _samples_with_pictures(setup)
    for number in range(len(rows)):
        row = rows.taken(np.array([number]))
        (predicted,) = predicted_batches(setup, row.sample_index)
        background, raster_from_world = _background(samples, row)
        trajectories = _in_picture(predicted, int(row.agent_index[0]), raster_from_world)
        yield _file_stem(row), case_picture(background, trajectories, caption=_caption(row))


def _samples_with_pictures(setup: OpenLoopSetup) -> EgoDataset:
    """Return the samples themselves if they have rasters, else samples of the same log that do."""
    if isinstance(setup.samples, EgoDataset):
        return setup.samples
    return context_rasters(setup.config.mapping, setup.samples.dataset, setup.data_manager)


def _background(samples: EgoDataset, row: TrajectoryRows) -> tuple[UInt8Array, Float64Array]:
    """Return the picture of a place, magnified to a size for people, and where world positions are in it."""
    if not isinstance(samples.rasterizer, Rasterizer):
        raise TypeError(f"{samples!r} makes no rasters")
    track_id = int(row.track_id[0])
    sample = samples.get_frame(
        int(row.scene_index[0]), int(row.frame_index[0]), None if track_id == EGO_TRACK_ID else track_id
    )
    picture = sample_picture(sample, samples.rasterizer, with_trajectories=False)
    factor = max(1, -(-_LEAST_SIDE_PX // min(picture.shape[:2])))
    magnified = np.repeat(np.repeat(picture, factor, axis=0), factor, axis=1)
    return magnified, np.diag([factor, factor, 1.0]) @ np.asarray(sample["raster_from_world"], np.float64)


def _in_picture(predicted: PredictedBatch, agent_index: int, raster_from_world: Float64Array) -> CaseTrajectories:
    """Return the trajectories of an agent of the only sample of a batch in a picture."""
    raster_from_sample = raster_from_world @ predicted.batch["world_from_agent"][0].cpu().numpy().astype(np.float64)

    def as_pixels(positions_m: torch.Tensor) -> Float64Array:
        flat = positions_m.double().cpu().numpy().reshape(-1, 2)
        return transform_points(flat, raster_from_sample).reshape(positions_m.shape)

    trajectories, modes, baseline_m = predicted.trajectories, predicted.modes, predicted.baselines_m.get(DRAWN_BASELINE)
    return CaseTrajectories(
        start_px=as_pixels(trajectories.past_m[agent_index, 0]),
        truth_px=as_pixels(trajectories.truth_m[agent_index][trajectories.is_known[agent_index]]),
        modes_px=as_pixels(modes.predicted_m[agent_index]),
        probabilities=modes.probabilities[agent_index].double().cpu().numpy(),
        baseline_px=None if baseline_m is None else as_pixels(baseline_m[agent_index]),
        px_per_m=float(np.sqrt(np.abs(np.linalg.det(raster_from_sample)))),
    )


def _file_stem(row: TrajectoryRows) -> str:
    whom = "av" if row.track_id[0] == EGO_TRACK_ID else f"track{row.track_id[0]}"
    return f"scene{row.scene_index[0]}_frame{row.frame_index[0]}_{whom}"


def _caption(row: TrajectoryRows) -> list[str]:
    label = label_name(int(row.label_index[0]))
    whom = label if row.track_id[0] == EGO_TRACK_ID else f"track {row.track_id[0]} ({label.lower()})"
    lines = [f"scene {row.scene_index[0]}, frame {row.frame_index[0]}, {whom}"]
    titles = ("network", *(BASELINE_TITLES[baseline] for baseline in BASELINES))
    ades_m, fdes_m = (row.ade_m[0], *row.baseline_ade_m[0]), (row.fde_m[0], *row.baseline_fde_m[0])
    for who, ade_m, fde_m in zip(titles, ades_m, fdes_m, strict=True):
        if not np.isnan(ade_m):
            lines.append(f"{who}: ADE {ade_m:.2f} m" + ("" if np.isnan(fde_m) else f", FDE {fde_m:.2f} m"))
    return lines
