"""Comfort of a drive: smoothed accelerations, jerks and yaw rates of the AV, and whether they stay within bounds."""

import math
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, as_read_only, require_shapes
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.ego_states import EgoStates

LEAST_FRAMES = 17
"""Minimum number of frames of a scene with a comfort score."""

_LEAST_SAMPLES = 4
"""Minimum number of frames for the filters."""


class ComfortBounds(NamedTuple):
    """Lowest and highest comfortable value of each bounded signal."""

    accelerations_along_mps2: tuple[float, float] = (-4.05, 2.40)
    accelerations_across_mps2: tuple[float, float] = (-4.89, 4.89)
    jerks_mps3: tuple[float, float] = (-8.37, 8.37)
    jerks_along_mps3: tuple[float, float] = (-4.13, 4.13)
    yaw_rates_radps: tuple[float, float] = (-0.95, 0.95)
    yaw_accelerations_radps2: tuple[float, float] = (-1.93, 1.93)


COMFORT_BOUNDS: dict[str, tuple[float, float]] = ComfortBounds()._asdict()
"""The bounds by name, in the order of :class:`ComfortBounds`."""


class Filter(NamedTuple):
    """A matrix (F, F) that filters F samples, and the range of columns of each row that are not 0."""

    matrix: Float64Array
    firsts: Int64Array
    stops: Int64Array


class ComfortFilters(NamedTuple):
    """Filters for the number of samples of a drive; rates are per sample.

    Attributes:
        smooth: Smooths accelerations: window 8, order 2.
        slope: Smoothed accelerations to jerks: first derivative, window 15, order 2.
        turn: Unwrapped headings to yaw rates: first derivative, window 5, order 2.
        bend: Unwrapped headings to yaw accelerations: second derivative, window 5, order 3.
    """

    smooth: Filter
    slope: Filter
    turn: Filter
    bend: Filter


@dataclass(frozen=True, eq=False)
class ComfortSignals(ReadOnlyArrays):
    """Smoothed signals of S scenes of up to F frames, NaN in padding and in scenes of fewer than four frames, (S, F).

    Attributes:
        accelerations_mps2: Magnitude of the acceleration.
        accelerations_along_mps2: Acceleration along the heading.
        accelerations_across_mps2: Acceleration to the left.
        jerks_mps3: Rate of change of the magnitude of the acceleration.
        jerks_along_mps3: Rate of change of the acceleration along the heading.
        jerks_across_mps3: Rate of change of the acceleration to the left.
        yaw_rates_radps: Rate of change of the heading.
        yaw_accelerations_radps2: Rate of change of the yaw rate.

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


@lru_cache(maxsize=256)
def comfort_filters(num_samples: int) -> ComfortFilters:
    """Return the filters for a number of samples, at least four."""
    return ComfortFilters(
        smooth=_filter_of(smoothing_matrix(num_samples, 8, order=2)),
        slope=_filter_of(smoothing_matrix(num_samples, 15, order=2, derivative=1)),
        turn=_filter_of(smoothing_matrix(num_samples, 5, order=2, derivative=1)),
        bend=_filter_of(smoothing_matrix(num_samples, 5, order=3, derivative=2)),
    )


def _filter_of(matrix: Float64Array) -> Filter:
    is_used = matrix != 0
    stops = matrix.shape[1] - is_used[:, ::-1].argmax(axis=1)
    return Filter(matrix, as_read_only(is_used.argmax(axis=1)), as_read_only(stops))


def find_comfort_signals(states: EgoStates) -> ComfortSignals:
    """Return the signals of comfort, filtered by :class:`ComfortFilters`, with the mean time step of each scene."""
    shape = states.is_there.shape
    signals = {field.name: np.full(shape, np.nan) for field in fields(ComfortSignals)}
    # filter matrices have a fixed size, so scenes with the same number of frames are filtered together
    for num_frames in np.unique(states.num_frames).tolist():
        if num_frames < _LEAST_SAMPLES:
            continue
        scenes = np.flatnonzero(states.num_frames == num_frames)
        step_s = states.step_times_s[scenes][:, None]
        along, across = np.moveaxis(states.accelerations_mps2[scenes, :num_frames], -1, 0)
        yaws_rad = np.unwrap(states.yaws_rad[scenes, :num_frames], axis=1)
        smooth, slope, turn, bend = (each.matrix.T for each in comfort_filters(num_frames))
        size, along, across = (_filtered(each, smooth) for each in (np.hypot(along, across), along, across))
        of_scenes = {
            "accelerations_mps2": size,
            "accelerations_along_mps2": along,
            "accelerations_across_mps2": across,
            "jerks_mps3": _filtered(size, slope) / step_s,
            "jerks_along_mps3": _filtered(along, slope) / step_s,
            "jerks_across_mps3": _filtered(across, slope) / step_s,
            "yaw_rates_radps": _filtered(yaws_rad, turn) / step_s,
            "yaw_accelerations_radps2": _filtered(yaws_rad, bend) / step_s**2,
        }
        for name, values in of_scenes.items():
            signals[name][scenes, :num_frames] = values
    return ComfortSignals(**signals)


def is_comfortable(signals: ComfortSignals) -> BoolArray:
    """Return whether all signals of a frame are within their bounds; NaN counts as within, (S, F)."""
    is_fine = np.ones(signals.accelerations_mps2.shape, np.bool_)
    for name, (least, most) in COMFORT_BOUNDS.items():
        values = getattr(signals, name)
        is_fine &= ~((values < least) | (values > most))
    return is_fine


def comfort(states: EgoStates) -> Float64Array:
    """Return the score of scenes: 1 if all frames are comfortable, else 0; NaN for fewer than 17 frames, (S,)."""
    return comfort_of_frames(is_comfortable(find_comfort_signals(states)), states)


def comfort_of_frames(is_fine: BoolArray, states: EgoStates) -> Float64Array:
    """Return the score of :func:`comfort` from the result of :func:`is_comfortable`, (S, F)."""
    return np.where(states.num_frames >= LEAST_FRAMES, is_fine.all(axis=1).astype(np.float64), np.nan)


def _filtered(values: Float64Array, matrix: Float64Array) -> Float64Array:
    """Multiply values (S, F) by a matrix (F, F), scene by scene, so that no bit depends on the other scenes."""
    filtered: Float64Array = np.matmul(values[:, None, :], matrix)[:, 0]
    return filtered


@kernel_jit
def is_drive_comfortable(
    along_mps2: Float64Array,
    across_mps2: Float64Array,
    yaws_rad: Float64Array,
    step_s: float,
    filters: ComfortFilters,
    bounds: ComfortBounds,
) -> bool:
    """Return whether a drive of F frames is comfortable: :func:`comfort` for kernels, with an early exit.

    Args:
        along_mps2: Accelerations along the heading, (F,).
        across_mps2: Accelerations to the left, (F,).
        yaws_rad: Unwrapped headings, (F,).
        step_s: Time between frames.
        filters: Filters for F samples.
        bounds: Bounds of comfort.
    """
    size_mps2, smoothed = np.empty(len(along_mps2)), np.empty(len(along_mps2))
    for frame in range(len(size_mps2)):
        size_mps2[frame] = np.sqrt(along_mps2[frame] ** 2 + across_mps2[frame] ** 2)
    # Jerks are slopes of smoothed accelerations; the size of the acceleration itself has no bounds.
    nowhere, anything = size_mps2[:0], (-np.inf, np.inf)
    is_fine = _keeps(filters.smooth, along_mps2, 1.0, bounds.accelerations_along_mps2, smoothed)
    is_fine = is_fine and _keeps(filters.slope, smoothed, step_s, bounds.jerks_along_mps3, nowhere)
    is_fine = is_fine and _keeps(filters.smooth, across_mps2, 1.0, bounds.accelerations_across_mps2, smoothed)
    is_fine = is_fine and _keeps(filters.smooth, size_mps2, 1.0, anything, smoothed)
    is_fine = is_fine and _keeps(filters.slope, smoothed, step_s, bounds.jerks_mps3, nowhere)
    is_fine = is_fine and _keeps(filters.turn, yaws_rad, step_s, bounds.yaw_rates_radps, nowhere)
    return is_fine and _keeps(filters.bend, yaws_rad, step_s * step_s, bounds.yaw_accelerations_radps2, nowhere)


@kernel_jit
def _keeps(
    band: Filter, signal: Float64Array, unit: float, bounds: tuple[float, float], filtered: Float64Array
) -> bool:
    """Filter a signal into ``filtered``, which may be empty, and return whether all values are within bounds."""
    is_within = True
    for row in range(len(signal)):
        value = 0.0
        for column in range(band.firsts[row], band.stops[row]):
            value += band.matrix[row, column] * signal[column]
        value /= unit
        if row < len(filtered):
            filtered[row] = value
        is_within = is_within and bounds[0] <= value <= bounds[1]
    return is_within


@lru_cache(maxsize=256)
def smoothing_matrix(num_samples: int, window: int, *, order: int, derivative: int = 0) -> Float64Array:
    """Return the matrix of a Savitzky-Golay filter: times a signal, it gives the smoothed signal or its derivative.

    Polynomials are fitted to windows of the signal. The result is that of ``scipy.signal.savgol_filter`` with its
    defaults, which takes a second to import. Source: Savitzky and Golay, "Smoothing and Differentiation of Data by
    Simplified Least Squares Procedures" (1964).

    A window is centred on its sample; a window of even length is shifted right by half a sample, and evaluated at its
    centre. The first and last half windows are evaluated with the polynomials of the first and the last window.

    Args:
        num_samples: Number of samples of the signal, N.
        window: Number of samples of a window, at most N.
        order: Order of the polynomials, below the length of the window.
        derivative: Order of the derivative, for samples 1 apart; 0 for the signal itself.

    Returns:
        Read-only, float64 (N, N).

    Raises:
        InvalidArgumentError: The window is too short for the order.
    """
    length = min(window, num_samples)
    if not 0 <= derivative <= order < length:
        raise InvalidArgumentError(
            f"a polynomial of order {order} and its derivative {derivative} need windows of more than {order} samples, "
            f"got window {window} and {num_samples} samples"
        )
    matrix = np.zeros((num_samples, num_samples))
    half = length // 2
    for sample in range(num_samples):
        if half <= sample < num_samples - half:
            first, position = sample - (length - 1) // 2, (length - 1) / 2
        else:
            first = 0 if sample < half else num_samples - length
            position = sample - first
        # least squares: the pseudo-inverse of the powers gives each coefficient of the polynomial around the position
        # as a sum over the window; the derivative there is that coefficient times the factorial
        fit = np.linalg.pinv((np.arange(length)[:, None] - position) ** np.arange(order + 1))  # (order + 1, length)
        matrix[sample, first : first + length] = math.factorial(derivative) * fit[derivative]
    matrix.setflags(write=False)
    return matrix
