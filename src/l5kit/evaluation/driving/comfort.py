"""Comfort of a drive: smoothed accelerations, jerks and turning of the AV, and whether they stay within bounds."""

from dataclasses import dataclass, fields

import numpy as np

from l5kit._types import BoolArray, Float64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes
from l5kit.evaluation.driving.ego_states import EgoStates
from l5kit.evaluation.driving.smoothing import smoothing_matrix

__all__ = ["COMFORT_BOUNDS", "ComfortSignals", "comfort", "comfort_of_frames", "find_comfort_signals", "is_comfortable"]

LEAST_FRAMES = 17
"""Shorter scenes have no score of comfort."""

_LEAST_SAMPLES = 4
"""The filters need as many frames."""

COMFORT_BOUNDS = {
    "accelerations_along_mps2": (-4.05, 2.40),
    "accelerations_across_mps2": (-4.89, 4.89),
    "jerks_mps3": (-8.37, 8.37),
    "jerks_along_mps3": (-4.13, 4.13),
    "yaw_rates_radps": (-0.95, 0.95),
    "yaw_accelerations_radps2": (-1.93, 1.93),
}
"""Lowest and highest comfortable value of each signal that has bounds."""


@dataclass(frozen=True, eq=False)
class ComfortSignals(ReadOnlyArrays):
    """Smoothed signals of S scenes of up to F frames, NaN where no frame is and in scenes of fewer than four, (S, F).

    Attributes:
        accelerations_mps2: Size of the acceleration.
        accelerations_along_mps2: Along the heading.
        accelerations_across_mps2: To the left of it.
        jerks_mps3: How fast the size of the acceleration changes.
        jerks_along_mps3: How fast the acceleration along the heading changes.
        jerks_across_mps3: How fast the acceleration across the heading changes.
        yaw_rates_radps: How fast the heading changes.
        yaw_accelerations_radps2: How fast that changes.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    accelerations_mps2: Float64Array
    accelerations_along_mps2: Float64Array
    accelerations_across_mps2: Float64Array
    jerks_mps3: Float64Array
    jerks_along_mps3: Float64Array
    jerks_across_mps3: Float64Array
    yaw_rates_radps: Float64Array
    yaw_accelerations_radps2: Float64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = self.accelerations_mps2.shape
        require_shapes(self, **{field.name: shape for field in fields(self)})


def find_comfort_signals(states: EgoStates) -> ComfortSignals:
    """Return the signals that comfort is judged by, of Savitzky-Golay filters with windows of frames.

    Accelerations: window 8, order 2. Jerks: first derivative, window 15, order 2, of these. Yaw rate: first derivative
    of the unwrapped heading, window 5, order 2; yaw acceleration: second derivative, window 5, order 3. The step is the
    mean of the time steps of the scene.
    """
    shape = states.is_there.shape
    signals = {field.name: np.full(shape, np.nan) for field in fields(ComfortSignals)}
    for num_frames in np.unique(states.num_frames).tolist():
        if num_frames >= _LEAST_SAMPLES:
            scenes = np.flatnonzero(states.num_frames == num_frames)
            for name, values in _signals_of(states, scenes.tolist(), num_frames).items():
                signals[name][scenes, :num_frames] = values
    return ComfortSignals(**signals)


def is_comfortable(signals: ComfortSignals) -> BoolArray:
    """Return whether all signals of a frame are within their bounds; true where they are NaN, (S, F)."""
    is_fine = np.ones(signals.accelerations_mps2.shape, np.bool_)
    for name, (least, most) in COMFORT_BOUNDS.items():
        values = getattr(signals, name)
        is_fine &= ~((values < least) | (values > most))
    return is_fine


def comfort(states: EgoStates) -> Float64Array:
    """Return the score of scenes: 1 where all frames are comfortable, else 0; NaN below 17 frames, (S,)."""
    return comfort_of_frames(is_comfortable(find_comfort_signals(states)), states)


def comfort_of_frames(is_fine: BoolArray, states: EgoStates) -> Float64Array:
    """Return the score of scenes as :func:`comfort` does, of frames (S, F) that :func:`is_comfortable` has judged."""
    return np.where(states.num_frames >= LEAST_FRAMES, is_fine.all(axis=1).astype(np.float64), np.nan)


def _signals_of(states: EgoStates, scenes: list[int], num_frames: int) -> dict[str, Float64Array]:
    """Return the signals of some scenes that have the same number of frames, (scenes, num_frames) each."""
    step_s = states.step_times_s[scenes][:, None]
    along, across = np.moveaxis(states.accelerations_mps2[scenes, :num_frames], -1, 0)
    yaws_rad = np.unwrap(states.yaws_rad[scenes, :num_frames], axis=1)
    smooth = smoothing_matrix(num_frames, 8, order=2).T
    slope = smoothing_matrix(num_frames, 15, order=2, derivative=1).T
    turn = smoothing_matrix(num_frames, 5, order=2, derivative=1).T
    bend = smoothing_matrix(num_frames, 5, order=3, derivative=2).T
    size, along, across = (_filtered(each, smooth) for each in (np.hypot(along, across), along, across))
    return {
        "accelerations_mps2": size,
        "accelerations_along_mps2": along,
        "accelerations_across_mps2": across,
        "jerks_mps3": _filtered(size, slope) / step_s,
        "jerks_along_mps3": _filtered(along, slope) / step_s,
        "jerks_across_mps3": _filtered(across, slope) / step_s,
        "yaw_rates_radps": _filtered(yaws_rad, turn) / step_s,
        "yaw_accelerations_radps2": _filtered(yaws_rad, bend) / step_s**2,
    }


def _filtered(values: Float64Array, matrix: Float64Array) -> Float64Array:
    """Return values (S, F) times a matrix (F, F), scene by scene, so that no bit depends on the other scenes."""
    filtered: Float64Array = np.matmul(values[:, None, :], matrix)[:, 0]
    return filtered
