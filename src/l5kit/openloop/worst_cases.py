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
    # NaN comes last in the order, so that it is cut off.
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
    samples = setup.samples
    if not isinstance(samples, EgoDataset):  # samples of the same log that have rasters
        samples = context_rasters(setup.config.mapping, samples.dataset, setup.data_manager)
    for number in range(len(rows)):
        row = rows.taken(np.array([number]))
        (predicted,) = predicted_batches(setup, row.sample_index)
        if not isinstance(samples.rasterizer, Rasterizer):
            raise TypeError(f"{samples!r} makes no rasters")

        # The picture is magnified by a whole factor to a size for people, and positions with it.
        scene, frame, track_id = int(row.scene_index[0]), int(row.frame_index[0]), int(row.track_id[0])
        is_av = track_id == EGO_TRACK_ID
        sample = samples.get_frame(scene, frame, None if is_av else track_id)
        picture = sample_picture(sample, samples.rasterizer, with_trajectories=False)
        factor = max(1, -(-_LEAST_SIDE_PX // min(picture.shape[:2])))
        magnified = np.repeat(np.repeat(picture, factor, axis=0), factor, axis=1)
        raster_from_world = np.diag([factor, factor, 1.0]) @ np.asarray(sample["raster_from_world"], np.float64)
        trajectories = _in_picture(predicted, int(row.agent_index[0]), raster_from_world)

        # Whose trajectory it is, and the errors of the network and of the baselines that have any.
        label = label_name(int(row.label_index[0]))
        lines = [f"scene {scene}, frame {frame}, {label if is_av else f'track {track_id} ({label.lower()})'}"]
        titles = ("network", *(BASELINE_TITLES[baseline] for baseline in BASELINES))
        ades_m, fdes_m = (row.ade_m[0], *row.baseline_ade_m[0]), (row.fde_m[0], *row.baseline_fde_m[0])
        for who, ade_m, fde_m in zip(titles, ades_m, fdes_m, strict=True):
            if not np.isnan(ade_m):
                lines.append(f"{who}: ADE {ade_m:.2f} m" + ("" if np.isnan(fde_m) else f", FDE {fde_m:.2f} m"))
        stem = f"scene{scene}_frame{frame}_{'av' if is_av else f'track{track_id}'}"
        yield stem, case_picture(magnified, trajectories, caption=lines)


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
        # the determinant is by how much areas grow: the square of lengths, in whatever direction
        px_per_m=float(np.sqrt(np.abs(np.linalg.det(raster_from_sample)))),
    )
