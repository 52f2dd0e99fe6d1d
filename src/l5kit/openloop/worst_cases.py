"""Pictures of the worst predictions with truth and baseline, a caption and a legend."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np
import torch

from l5kit._types import Config, Float64Array, Int64Array, UInt8Array
from l5kit.data.index.track_ids import EGO_TRACK_ID
from l5kit.dataset.ego import EgoDataset
from l5kit.geometry.transform import transform_points
from l5kit.kinematic.baselines import BASELINE_TITLES, BASELINES, Baseline
from l5kit.openloop.prediction import PredictedBatch, TrajectoryRows, label_name, predicted_batches
from l5kit.openloop.setup import OpenLoopSetup
from l5kit.rasterization.rasterizer import Rasterizer
from l5kit.rasterization.rasterizer_builder import build_rasterizer
from l5kit.visualization.sample_pictures import sample_picture
from l5kit.visualization.text import draw_text, fitted_text, text_size_px
from l5kit.visualization.utils import PREDICTED_POINTS_COLOR, TARGET_POINTS_COLOR

_PLACE_RASTER: Final[Config] = {
    "map_type": "py_semantic",
    "raster_size": [560, 448],
    "pixel_size": [0.2, 0.2],
    "ego_center": [0.35, 0.5],
    "set_origin_to_bottom": True,
    "image_dtype": "uint8",
}
"""Raster that shows the surroundings of samples that have none: 112 m by 90 m."""

BASELINE_RGB: Final = (170, 170, 170)
"""Grey, in contrast to the magenta of the truth and the cyan of predictions."""

_DRAWN_BASELINE: Final[Baseline] = "ctra"
"""The most accurate baseline."""

_BASELINE_RADIUS_PX: Final = 7
_TRUTH_RADIUS_PX: Final = 10
_PREDICTION_RADIUS_PX: Final = 4
"""Radii of the end dots; they differ so that overlapping dots show as rings."""

_EDGE_RGB: Final = (0, 0, 0)
_SCALE_M: Final = 10
_GROUND_RGB: Final = (24, 28, 34)
_INK_RGB: Final = (235, 238, 242)
_TEXT_SIZE_PX: Final = 15
_MARGIN_PX: Final = 10
_SHIFT: Final = 4
"""Fractional bits of the pixel coordinates passed to OpenCV."""
_FAR_OUTSIDE_PX: Final = 1e5
_FAINTEST: Final = 0.3
"""Opacity of a trajectory of probability 0; the likeliest one has 1."""

_LEAST_SIDE_PX: Final = 448


@dataclass(frozen=True)
class CaseTrajectories:
    """A prediction in pixel coordinates (column, row); all lines start at the agent.

    Attributes:
        start_px: Position of the agent, (2,).
        truth_px: Known true positions, (K, 2).
        modes_px: Predicted trajectories, (M, T, 2).
        probabilities: Probability of each mode, (M,).
        baseline_px: Positions of ``_DRAWN_BASELINE``, (T, 2), or None.
        px_per_m: Pixels per metre.
    """

    start_px: Float64Array
    truth_px: Float64Array
    modes_px: Float64Array
    probabilities: Float64Array
    baseline_px: Float64Array | None
    px_per_m: float


def worst_rows(rows: TrajectoryRows, num_rows: int, *, error_m: Float64Array, frames_apart: int) -> Int64Array:
    """Return the rows of the largest errors, largest first; rows of one agent are some time apart.

    Args:
        rows: All trajectories.
        num_rows: Maximum number of rows.
        error_m: Error of each row, (N,); rows with NaN are skipped.
        frames_apart: Minimum frames between two rows of one agent.
    """
    # NaN sorts last, so it is cut off.
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
    """Yield a name and a picture of each trajectory, after predicting it again.

    Samples with a raster are shown as the network sees them, magnified; for vectorized samples the semantic map around
    the agent is drawn.

    Args:
        setup: The network and the samples.
        rows: The trajectories.
    """
    # vectorized samples get a raster of the same log: the map with all agents and their past
    samples = setup.samples
    if not isinstance(samples, EgoDataset):
        cfg = setup.config.mapping
        model = cfg["model_params"]
        past = {"history_num_frames": model["history_num_frames_agents"], "render_ego_history": True}
        raster_params = {**cfg["raster_params"], **_PLACE_RASTER}
        cfg = {**cfg, "model_params": {**model, **past}, "raster_params": raster_params}
        samples = EgoDataset(cfg, samples.dataset, build_rasterizer(cfg, setup.data_manager))
    for number in range(len(rows)):
        row = rows.taken(np.array([number]))
        (predicted,) = predicted_batches(setup, row.sample_index)
        if not isinstance(samples.rasterizer, Rasterizer):
            raise TypeError(f"{samples!r} makes no rasters")

        # The picture is magnified by a whole factor for display, and the positions with it.
        scene, frame, track_id = int(row.scene_index[0]), int(row.frame_index[0]), int(row.track_id[0])
        is_av = track_id == EGO_TRACK_ID
        sample = samples.get_frame(scene, frame, None if is_av else track_id)
        picture = sample_picture(sample, samples.rasterizer, with_trajectories=False)
        factor = max(1, -(-_LEAST_SIDE_PX // min(picture.shape[:2])))
        magnified = np.repeat(np.repeat(picture, factor, axis=0), factor, axis=1)
        raster_from_world = np.diag([factor, factor, 1.0]) @ np.asarray(sample["raster_from_world"], np.float64)
        trajectories = _in_picture(predicted, int(row.agent_index[0]), raster_from_world)

        # Caption: the agent, and the errors of the network and of the baselines that have any.
        label = label_name(int(row.label_index[0]))
        lines = [f"scene {scene}, frame {frame}, {label if is_av else f'track {track_id} ({label.lower()})'}"]
        titles = ("network", *(BASELINE_TITLES[baseline] for baseline in BASELINES))
        ades_m, fdes_m = (row.ade_m[0], *row.baseline_ade_m[0]), (row.fde_m[0], *row.baseline_fde_m[0])
        for title, ade_m, fde_m in zip(titles, ades_m, fdes_m, strict=True):
            if not np.isnan(ade_m):
                lines.append(f"{title}: ADE {ade_m:.2f} m" + ("" if np.isnan(fde_m) else f", FDE {fde_m:.2f} m"))
        stem = f"scene{scene}_frame{frame}_{'av' if is_av else f'track{track_id}'}"
        yield stem, case_picture(magnified, trajectories, caption=lines)


def _in_picture(predicted: PredictedBatch, agent_index: int, raster_from_world: Float64Array) -> CaseTrajectories:
    """Return the trajectories of one agent of a single-sample batch, in pixels."""
    raster_from_sample = raster_from_world @ predicted.batch["world_from_agent"][0].cpu().numpy().astype(np.float64)

    def as_pixels(positions_m: torch.Tensor) -> Float64Array:
        flat = positions_m.double().cpu().numpy().reshape(-1, 2)
        return transform_points(flat, raster_from_sample).reshape(positions_m.shape)

    trajectories, modes = predicted.trajectories, predicted.modes
    baseline_m = predicted.baselines_m.get(_DRAWN_BASELINE)
    return CaseTrajectories(
        start_px=as_pixels(trajectories.past_m[agent_index, 0]),
        truth_px=as_pixels(trajectories.truth_m[agent_index][trajectories.is_known[agent_index]]),
        modes_px=as_pixels(modes.predicted_m[agent_index]),
        probabilities=modes.probabilities[agent_index].double().cpu().numpy(),
        baseline_px=None if baseline_m is None else as_pixels(baseline_m[agent_index]),
        # the determinant is the scale of areas, its root the mean scale of lengths
        px_per_m=float(np.sqrt(np.abs(np.linalg.det(raster_from_sample)))),
    )


def case_picture(background: UInt8Array, trajectories: CaseTrajectories, *, caption: Sequence[str]) -> UInt8Array:
    """Return a copy of a picture with the trajectories drawn in, above a legend and lines of text.

    Args:
        background: RGB (H, W, 3).
        trajectories: Trajectories to draw.
        caption: Lines of text.

    Returns:
        RGB, taller than the background.
    """
    canvas = background.copy()
    _draw_line(canvas, trajectories, trajectories.truth_px, TARGET_POINTS_COLOR, radius_px=_TRUTH_RADIUS_PX, width_px=7)
    legend = [("truth", TARGET_POINTS_COLOR), ("prediction", PREDICTED_POINTS_COLOR)]
    if trajectories.baseline_px is not None:
        _draw_line(canvas, trajectories, trajectories.baseline_px, BASELINE_RGB, radius_px=_BASELINE_RADIUS_PX)
        legend.append((BASELINE_TITLES[_DRAWN_BASELINE], BASELINE_RGB))

    # The likeliest prediction is drawn last, on top of the others and opaque.
    strengths = trajectories.probabilities / trajectories.probabilities.max()
    *others, likeliest = np.argsort(strengths, kind="stable").tolist()
    for mode in others:
        opacity = _FAINTEST + (1 - _FAINTEST) * float(strengths[mode])
        points_px = trajectories.modes_px[mode]
        _draw_line(canvas, trajectories, points_px, PREDICTED_POINTS_COLOR, radius_px=2, width_px=1, opacity=opacity)
    points_px = trajectories.modes_px[likeliest]
    _draw_line(canvas, trajectories, points_px, PREDICTED_POINTS_COLOR, radius_px=_PREDICTION_RADIUS_PX)

    # scale bar in the lower left corner
    row, end = len(canvas) - _MARGIN_PX, _MARGIN_PX + round(_SCALE_M * trajectories.px_per_m)
    for color, thickness in ((_INK_RGB, 5), (_EDGE_RGB, 3)):
        cv2.line(canvas, (_MARGIN_PX, row), (end, row), color, thickness=thickness)
    position = np.array([[end + _MARGIN_PX, row - _TEXT_SIZE_PX]])
    texts = [f"{_SCALE_M} m"]
    canvas = draw_text(canvas, texts, position, rgb_color=_EDGE_RGB, size_px=_TEXT_SIZE_PX, outline_rgb=_INK_RGB)

    # below the picture the legend, then the lines of text
    line_px, width_px = text_size_px("", size_px=_TEXT_SIZE_PX)[1] + 4, canvas.shape[1]
    panel = np.full((2 * _MARGIN_PX + line_px * (1 + len(caption)), width_px, 3), _GROUND_RGB, dtype=np.uint8)
    column = _MARGIN_PX
    for name, rgb_color in legend:
        cv2.circle(panel, (column + 5, _MARGIN_PX + line_px // 2), 5, rgb_color, thickness=-1, lineType=cv2.LINE_AA)
        position = np.array([[column + 16, _MARGIN_PX]])
        panel = draw_text(panel, [name], position, rgb_color=_INK_RGB, size_px=_TEXT_SIZE_PX)
        column += 16 + text_size_px(name, size_px=_TEXT_SIZE_PX)[0] + 2 * _MARGIN_PX
    lines = [fitted_text(line, width_px=width_px - 2 * _MARGIN_PX, size_px=_TEXT_SIZE_PX) for line in caption]
    positions = np.array([[_MARGIN_PX, _MARGIN_PX + line_px * (1 + number)] for number in range(len(lines))])
    panel = draw_text(panel, lines, positions, rgb_color=_INK_RGB, size_px=_TEXT_SIZE_PX)
    return np.concatenate([canvas, panel])


def _draw_line(
    canvas: UInt8Array,
    trajectories: CaseTrajectories,
    points_px: Float64Array,
    rgb_color: tuple[int, int, int],
    *,
    radius_px: int,
    width_px: int = 3,
    opacity: float = 1.0,
) -> None:
    """Draw a line from the agent's position, with a dot at its end, into a picture."""
    # A layer with the line and its dot, each over a dark edge, is blended into the picture as a whole. OpenCV takes
    # integers, here sixteenths of a pixel; points far outside would overflow.
    layer = canvas.copy()
    points_px = np.concatenate([trajectories.start_px[None], points_px])
    points = np.round(np.clip(points_px, -_FAR_OUTSIDE_PX, _FAR_OUTSIDE_PX) * 2**_SHIFT).astype(np.int32)
    end = (int(points[-1, 0]), int(points[-1, 1]))
    for color, edge_px in ((_EDGE_RGB, 1), (rgb_color, 0)):
        thickness = width_px + 2 * edge_px
        cv2.polylines(layer, [points], False, color, thickness=thickness, lineType=cv2.LINE_AA, shift=_SHIFT)
        radius = (radius_px + edge_px) * 2**_SHIFT
        cv2.circle(layer, end, radius, color, thickness=-1, lineType=cv2.LINE_AA, shift=_SHIFT)
    cv2.addWeighted(layer, opacity, canvas, 1 - opacity, 0, dst=canvas)
