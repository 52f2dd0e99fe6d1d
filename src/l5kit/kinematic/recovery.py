"""Recovery perturbation: reachable off-log states of the AV, from which it drives back to the recorded path.

All functions work on arrays of B windows; the caller chooses which arrays of a log to pass.
"""

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array, RecordArray
from l5kit.configs.runs import RECOVERY_CLIP, RECOVERY_STD
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.box import REAR_AXLE_SHARE
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.geometry.transform import rotations33_as_yaws, yaws_as_rotations33
from l5kit.kinematic.perturbation import Perturbation
from l5kit.random.seeding import derive_rng

FourNumbers: TypeAlias = tuple[float, float, float, float]
"""Order of the four offsets from the log: metres to the left, metres ahead, radians to the left, and m/s."""

_TIME_BACK_S = 4.0
"""Time before and after the current frame in which the AV deviates from its logged progress along the path."""

_SECONDS_OF_DISTANCE = 1.5
_LEAST_DISTANCE_M = 6.0
"""The AV is back on the path after driving this time at its speed, but at least this distance.

Longer values teach late steering: planners trained to return over 2.5 s drove bends 0.2 m too far outside.
"""

_KNOT_DISTANCE_M = 0.5
"""Minimum distance between the logged points that define the path, so that noise of a slow AV does not bend it."""

_STANDING_MPS = 0.3
_SHARE_OF_STARTS = 0.3
"""A slower AV is stationary, and this share of the perturbations gives it a speed."""

_SHARE_OF_ONE_KIND = 0.3
"""Share of the draws that only move the AV along the path; the same share only moves it across."""

_NUMBERS_OF_DRAW = 6
_WINDOWS, _CHOSEN, _PERTURBED, _DRAWS, _OUTSIDE_LIMITS, _OVERLAPPING = range(6)
"""Indices of the fields of :class:`RecoveryCounts` in the tally."""

_YAW_NOISE_RAD = 1e-3
_LEAST_TURNING_M = 0.05
"""Smaller yaw differences, and curvatures of shorter steps, are noise."""

_REVERSING_M = -0.1
_LEAST_STRETCH = 0.2
"""Shorter (more negative) logged steps drive backwards; an offset path has at least this share of the logged length."""


@dataclass(frozen=True)
class RecoveryLimits:
    """Limits on the motion of a perturbed AV; the defaults are the comfort bounds of the driving score.

    If the log itself exceeds a limit within a window, its maximum there is the limit.

    Attributes:
        deceleration_mps2: Maximum braking, above 0.
        acceleration_mps2: Maximum acceleration along the heading, above 0.
        lateral_mps2: Maximum acceleration across the heading, above 0.
        curvature: Maximum curvature of the path of the rear axle in 1/m, above 0.

    Raises:
        InvalidArgumentError: A limit is not above 0.
    """

    deceleration_mps2: float = 4.05
    acceleration_mps2: float = 2.40
    lateral_mps2: float = 4.89
    curvature: float = 0.3

    def __post_init__(self) -> None:
        if not all(limit > 0 for limit in astuple(self)):  # rejects NaN too, unlike a test of the minimum
            raise InvalidArgumentError(f"RecoveryLimits: all limits must be above 0, got {self}")


@dataclass(frozen=True)
class AvPaths:
    """Logged poses of the AV in B windows of up to H history frames, newest first, and F future frames, nearest first.

    Attributes:
        poses: World x and y in metres and yaw in rad, float64 (B, H + F, 3).
        timestamps_ns: Times of the frames, int64 (B, H + F).
        counts: Number of history and future frames of each window, int64 (2, B); the remaining columns are undefined.
        num_history: H, at least 1.
        size_m: Length and width of the AV.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    poses: Float64Array
    timestamps_ns: Int64Array
    counts: Int64Array
    num_history: int
    size_m: tuple[float, float]

    def __post_init__(self) -> None:
        shape = self.timestamps_ns.shape
        if self.poses.shape != (*shape, 3) or self.counts.shape != (2, shape[0]) or self.num_history < 1:
            raise InvalidArgumentError(
                f"AvPaths: poses {self.poses.shape}, timestamps_ns {shape} and counts {self.counts.shape} must be "
                f"(B, C, 3), (B, C) and (2, B), and num_history at least 1; it is {self.num_history}"
            )


class AgentBoxes(NamedTuple):
    """Boxes of the other agents in the frames of some windows of :class:`AvPaths`.

    Attributes:
        windows: Indices of the windows.
        rows: Records with the fields ``centroid``, ``yaw`` and ``extent`` of agents, (N,), best read-only.
        starts: First row of each frame, int64 (b, H + F).
        stops: End row of each frame, exclusive, int64 (b, H + F).
    """

    windows: slice
    rows: RecordArray
    starts: Int64Array
    stops: Int64Array


class RecoveryCounts(NamedTuple):
    """Outcomes of the windows passed to a :class:`RecoveryPerturbation` and its copies.

    Copies in the threads of a process share their counts; other processes count separately.

    Attributes:
        windows: Windows with a complete future.
        chosen: Windows chosen for perturbation.
        perturbed: Windows actually perturbed; the other chosen windows stay as logged, as no draw was valid.
        draws: Number of draws.
        outside_limits: Draws from which no car could return within the limits.
        overlapping: Draws in which the AV overlapped an agent.
    """

    windows: int
    chosen: int
    perturbed: int
    draws: int
    outside_limits: int
    overlapping: int

    def __str__(self) -> str:
        """Return the shares as one line of text."""
        draws = max(self.draws, 1)
        return (
            f"perturbed {self.perturbed / max(self.windows, 1):.1%} of {self.windows:,} samples with a whole future; "
            f"of the draws {self.outside_limits / draws:.1%} were beyond the limits and "
            f"{self.overlapping / draws:.1%} through another agent, so that {self.chosen - self.perturbed:,} samples "
            "stayed as in the log"
        )


class _Tally:
    """Counts shared by all copies of their owner in this process."""

    def __init__(self) -> None:
        self.counts = np.zeros(len(RecoveryCounts._fields), np.int64)

    def __deepcopy__(self, memo: dict[int, object]) -> "_Tally":
        return self


class RecoveryPerturbation(Perturbation):
    """Perturbation that puts the AV into a reachable off-log state and drives it back to the log.

    Offset, heading, distance along the path and speed are drawn at random. The past leads smoothly from the log to that
    state and the future back: along the path within 4 s, across it over max(6 m, 1.5 s of driving). Curvature and
    acceleration are continuous at the current frame, paths never lead backwards, and the rear axle moves along the
    heading. A draw is rejected if it exceeds the limits, or if the AV overlaps an agent that it does not overlap in the
    log; after ``num_draws`` rejections the log is kept. The log is also kept if it drives backwards, is not finite, or
    has timestamps that do not ascend. Moved frames keep z and lose roll and pitch.

    Windows of a dataset supply the agents and the AV size. Every window consumes the same number of random numbers, so
    a batch gives the same bits as its windows one by one.

    Args:
        perturb_prob: Probability that a window is perturbed, in [0, 1].
        std: Standard deviations of the normal draws: metres to the left and ahead, radians, m/s.
        clip: Maximum absolute values, to which draws are clipped.
        limits: Limits on the motion of the AV.
        num_draws: Maximum number of draws per window, at least 1.
        seed: Seed of the draws.
        length_m: Length of the AV in metres, used by :meth:`perturb`, which gets only frames.

    Raises:
        InvalidArgumentError: An argument is out of range.
    """

    def __init__(
        self,
        perturb_prob: float,
        *,
        std: FourNumbers = RECOVERY_STD,
        clip: FourNumbers = RECOVERY_CLIP,
        limits: RecoveryLimits | None = None,
        num_draws: int = 10,
        seed: int = 0,
        length_m: float = 4.87,
    ) -> None:
        if not 0 <= perturb_prob <= 1:
            raise InvalidArgumentError(f"perturb_prob is {perturb_prob}; a probability lies in [0, 1]")
        for name, values in (("std", std), ("clip", clip)):
            if len(values) != 4 or not all(0 <= value < math.inf for value in values):
                raise InvalidArgumentError(
                    f"{name} is {values!r}; give four finite numbers of at least 0: metres to the left, metres ahead, "
                    "radians, m/s"
                )
        if clip[2] >= math.pi / 2:
            raise InvalidArgumentError(
                f"clip (recovery_clip) turns the AV by {clip[2]} rad; it must be less than a quarter turn"
            )
        if num_draws < 1:
            raise InvalidArgumentError(f"num_draws is {num_draws}; it must be at least 1")
        self.perturb_prob = perturb_prob
        self.std, self.clip = tuple(map(float, std)), tuple(map(float, clip))
        self.limits = RecoveryLimits() if limits is None else limits
        self.num_draws = num_draws
        self.seed = seed
        self.length_m = length_m
        self.rng = np.random.default_rng(seed)
        self._tally = _Tally()

    @property
    def counts(self) -> RecoveryCounts:
        """Outcomes of the windows so far."""
        return RecoveryCounts(*self._tally.counts.tolist())

    def reseed(self, seed: int) -> None:
        """Restart the random stream from ``seed`` and the seed of the constructor.

        Args:
            seed: At least 0.

        Raises:
            InvalidArgumentError: ``seed`` is negative.
        """
        self.rng = derive_rng(seed, random_seed=self.seed)

    def perturb(self, history_frames: RecordArray, future_frames: RecordArray) -> tuple[RecordArray, RecordArray]:
        """Return copies of the frames of one window, perturbed with probability ``perturb_prob``; agents are ignored.

        Args:
            history_frames: Frames with ``timestamp``, ``ego_translation`` and ``ego_rotation``, newest (the current
                one) first, at least one.
            future_frames: Frames with the same fields, nearest first.

        Returns:
            History and future frames with the order, lengths and record types of the arguments.

        Raises:
            InvalidArgumentError: ``history_frames`` is empty.
        """
        history, future = np.array(history_frames), np.array(future_frames)
        if len(history) == 0:
            raise InvalidArgumentError("history_frames is empty; its first frame must be the current one")
        frames = np.concatenate([history, future])[None]
        counts = np.array([[len(history)], [len(future)]], np.int64)
        self.move_frames(frames, counts, num_history=len(history), size_m=(self.length_m, 0.0))
        return frames[0, : len(history)], frames[0, len(history) :]

    def move_frames(
        self,
        frames: RecordArray,
        counts: Int64Array,
        *,
        num_history: int,
        size_m: tuple[float, float],
        agents: Sequence[AgentBoxes] = (),
    ) -> None:
        """Move the AV in the frames of B windows in place, each window with probability ``perturb_prob``.

        Args:
            frames: FRAME_DTYPE (B, H + F), history newest first, then the future.
            counts: Number of history and future frames, (2, B); windows with fewer than F future frames stay unchanged.
            num_history: H.
            size_m: Length and width of the AV.
            agents: Boxes of the other agents, together covering all windows; may be empty.
        """
        # columns without a frame may hold anything
        columns = np.arange(frames.shape[1])
        in_future = columns >= num_history
        is_there = columns - num_history * in_future < counts[in_future.astype(np.int64)].T
        poses = np.zeros((*frames.shape, 3))
        poses[is_there, :2] = frames["ego_translation"][is_there][:, :2]
        poses[is_there, 2] = rotations33_as_yaws(frames["ego_rotation"][is_there])
        paths = AvPaths(poses, frames["timestamp"], counts, num_history, size_m)
        moved, is_moved = self.move_paths(paths, agents)
        frames["ego_translation"][..., :2][is_moved] = moved[is_moved][:, :2]
        frames["ego_rotation"][is_moved] = yaws_as_rotations33(moved[is_moved][:, 2])

    def move_paths(self, paths: AvPaths, agents: Sequence[AgentBoxes] = ()) -> tuple[Float64Array, BoolArray]:
        """Return the perturbed poses of the AV, (B, H + F, 3), and a mask of the moved ones, (B, H + F).

        Args:
            paths: Logged poses of the AV.
            agents: As in :meth:`move_frames`.
        """
        num_windows, num_frames = paths.timestamps_ns.shape
        moved, is_moved = paths.poses.copy(order="C"), np.zeros((num_windows, num_frames), np.bool_)
        num_future = num_frames - paths.num_history
        is_whole = (paths.counts[1] == num_future) & (num_future > 0)

        # Draw one row of random numbers of fixed length for each complete window. The stream is then the same as for
        # windows one by one, however many draws each of them needs.
        uniforms = np.ones((num_windows, 1 + _NUMBERS_OF_DRAW * self.num_draws))
        uniforms[is_whole] = self.rng.random((int(is_whole.sum()), uniforms.shape[1]))

        # contiguous, to avoid compiling the kernel for other layouts
        poses, stamps_ns = np.ascontiguousarray(paths.poses), np.ascontiguousarray(paths.timestamps_ns)
        limits = tuple(map(float, astuple(self.limits)))
        counted = np.zeros_like(self._tally.counts)
        counted[_WINDOWS] = is_whole.sum()
        if not agents:
            rows = np.zeros(0, [("centroid", np.float64, 2), ("extent", np.float32, 3), ("yaw", np.float32)])
            none = np.zeros((num_windows, num_frames), np.int64)
            agents = (AgentBoxes(slice(None), rows, none, none),)
        for boxes in agents:
            part = boxes.windows
            counts = np.ascontiguousarray(paths.counts[:, part])
            starts, stops = np.ascontiguousarray(boxes.starts), np.ascontiguousarray(boxes.stops)
            drawing = _Drawing(float(self.perturb_prob), self.std, self.clip, limits, uniforms[part])
            _move_paths(
                _Logs(poses[part], stamps_ns[part], counts, is_whole[part], paths.num_history, *paths.size_m),
                _Boxes(boxes.rows, starts, stops),
                drawing,
                _Moved(moved[part], is_moved[part], counted),
            )
        self._tally.counts += counted  # a single NumPy call, which other threads cannot interrupt
        return moved, is_moved


class _Logs(NamedTuple):
    """Fields of :class:`AvPaths` for some windows, and a mask of windows with a complete future, (B,)."""

    poses: Float64Array
    stamps_ns: Int64Array
    counts: Int64Array
    is_whole: BoolArray
    num_history: int
    length_m: float
    width_m: float


class _Boxes(NamedTuple):
    """Fields of :class:`AgentBoxes` without ``windows``."""

    rows: RecordArray
    starts: Int64Array
    stops: Int64Array


class _Drawing(NamedTuple):
    """Fields of :class:`RecoveryPerturbation`, its limits in order, and uniform random numbers for each window."""

    probability: float
    std: tuple[float, ...]
    most: tuple[float, ...]
    limits: tuple[float, ...]
    uniforms: Float64Array


class _Moved(NamedTuple):
    """Result of :meth:`RecoveryPerturbation.move_paths` for some windows, and the counts of the tally."""

    poses: Float64Array
    is_moved: BoolArray
    counted: Int64Array


class _Car(NamedTuple):
    """Length and width of the AV, distance of its rear axle behind its centre, and maximum curvature in 1/m."""

    length_m: float
    width_m: float
    rear_m: float
    most_curvature: float


class _Log(NamedTuple):
    """Frames of a window in order of time, N.

    Attributes:
        car: The AV.
        window: The window.
        columns: Columns of the frames in the window, (N,).
        current: Index of the current frame.
        x_m: World x of the centre of the AV in the current frame.
        y_m: World y of that centre.
        times_s: Times relative to the current frame, (N,).
        poses: x and y of the rear axle relative to that centre, and unwrapped yaw, (N, 3).
        distances_m: Distance along the log relative to the current frame, (N,).
        knots: Distance, x, y and yaw of frames with a minimum spacing, (K, 4).
        speed_mps: Speed in the current frame.
    """

    car: _Car
    window: int
    columns: Int64Array
    current: int
    x_m: float
    y_m: float
    times_s: Float64Array
    poses: Float64Array
    distances_m: Float64Array
    knots: Float64Array
    speed_mps: float


class _Path(NamedTuple):
    """Poses of the rear axle relative to the logged centre, (N, 3), and a mask of the moved ones, (N,)."""

    poses: Float64Array
    is_moved: BoolArray


@kernel_jit
def _fading_offset(x: float, length: float, offset: float, slope: float) -> tuple[float, float]:
    """Return an offset and its slope at ``x``: the given values at 0, zero from ``length`` on and up to ``-length``.

    For x > 0 it is a cubic that ends flat; for x < 0 a quintic that starts flat and straight, with the same value,
    slope and second derivative at 0. So curvature and acceleration do not jump at 0.
    """
    q = abs(x) / length
    if q >= 1.0:
        return 0.0, 0.0
    left, rise = 1.0 - q, slope * length
    if x >= 0.0:
        value = (offset * (1.0 + 2.0 * q) + rise * q) * left * left
        return value, (6.0 * offset * q * (q - 1.0) + rise * left * (1.0 - 3.0 * q)) / length
    # (1 - q)^3 (a + b q + c q^2) of the distance q before 0
    a, b = offset, 3.0 * offset - rise
    c = 0.5 * (-6.0 * offset - 4.0 * rise + 6.0 * b - 6.0 * a)
    inner = a + b * q + c * q * q
    value = left**3 * inner
    return value, -left * left * (left * (b + 2.0 * c * q) - 3.0 * inner) / length


@kernel_jit
def _on_path(knots: Float64Array, distance_m: float, most_curvature: float) -> tuple[float, ...]:
    """Return x, y, yaw and curvature after a distance on the path through knots (distance, x, y, yaw).

    The path continues as an arc before the first and after the last knot.
    """
    last = len(knots) - 1
    if last == 0:
        yaw = knots[0, 3]
        gone = distance_m - knots[0, 0]
        return knots[0, 1] + gone * math.cos(yaw), knots[0, 2] + gone * math.sin(yaw), yaw, 0.0
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        if knots[middle, 0] <= distance_m:
            low = middle
        else:
            high = middle
    before, after = knots[low], knots[high]
    length = after[0] - before[0]
    curvature = (after[3] - before[3]) / length
    # beyond the ends: an arc, whose chord is sinc of half the turn times its length
    if distance_m < before[0] or distance_m > after[0]:
        end = before if distance_m < before[0] else after
        curvature = min(max(curvature, -most_curvature), most_curvature)
        gone = distance_m - end[0]
        half = 0.5 * curvature * gone
        chord = gone * (math.sin(half) / half if abs(half) > 1e-6 else 1.0)
        yaw = end[3] + half
        return end[1] + chord * math.cos(yaw), end[2] + chord * math.sin(yaw), end[3] + 2.0 * half, curvature
    # the rear axle moves along the heading, so headings are the tangents of the cubic between two knots
    u = (distance_m - before[0]) / length
    h_start, h_end = (1.0 + 2.0 * u) * (1.0 - u) ** 2, u * u * (3.0 - 2.0 * u)
    t_start, t_end = u * (1.0 - u) ** 2 * length, u * u * (u - 1.0) * length
    x = h_start * before[1] + h_end * after[1] + t_start * math.cos(before[3]) + t_end * math.cos(after[3])
    y = h_start * before[2] + h_end * after[2] + t_start * math.sin(before[3]) + t_end * math.sin(after[3])
    return x, y, before[3] + u * (after[3] - before[3]), curvature


@kernel_jit
def _extremes(path: Float64Array, times_s: Float64Array) -> tuple[float, float, float, float]:
    """Return the maximum braking, acceleration along and across, and curvature on a path (N, 3) of the rear axle."""
    braking = along = across = bend = 0.0
    speed_before, step_before = 0.0, 0.0
    for i in range(len(path) - 1):
        step_s = times_s[i + 1] - times_s[i]
        yaw = 0.5 * (path[i, 2] + path[i + 1, 2])
        distance_m = (path[i + 1, 0] - path[i, 0]) * math.cos(yaw) + (path[i + 1, 1] - path[i, 1]) * math.sin(yaw)
        turn = abs(path[i + 1, 2] - path[i, 2])
        speed = distance_m / step_s
        across = max(across, abs(speed) * turn / step_s)
        if abs(distance_m) > _LEAST_TURNING_M:
            bend = max(bend, (turn - _YAW_NOISE_RAD) / abs(distance_m))
        if i > 0:
            change = (speed - speed_before) / (0.5 * (step_s + step_before))
            along, braking = max(along, change), max(braking, -change)
        speed_before, step_before = speed, step_s
    return braking, along, across, bend


@kernel_jit
def _read_log(logs: _Logs, window: int, car: _Car) -> tuple[bool, _Log]:
    """Return whether the AV can be moved on the log of a window, and that log."""
    current, num = logs.counts[0, window] - 1, logs.counts[0, window] + logs.counts[1, window]
    columns, times_s, poses, distances_m = np.empty(num, np.int64), np.empty(num), np.empty((num, 3)), np.zeros(num)
    x_m, y_m = logs.poses[window, 0, 0], logs.poses[window, 0, 1]
    is_usable = True
    for i in range(num):
        column = current - i if i <= current else logs.num_history + i - current - 1
        columns[i], times_s[i] = column, (logs.stamps_ns[window, column] - logs.stamps_ns[window, 0]) * 1e-9
        yaw = logs.poses[window, column, 2]
        if i > 0:
            is_usable &= times_s[i] > times_s[i - 1]
            # unwrap the heading
            turn = yaw - poses[i - 1, 2]
            yaw -= 2.0 * math.pi * math.floor(turn / (2.0 * math.pi) + 0.5)
        poses[i, 0] = logs.poses[window, column, 0] - x_m - car.rear_m * math.cos(yaw)
        poses[i, 1] = logs.poses[window, column, 1] - y_m - car.rear_m * math.sin(yaw)
        poses[i, 2] = yaw
        is_usable &= math.isfinite(poses[i, 0] + poses[i, 1] + yaw)

    # signed distance driven by the rear axle
    for i in range(1, num):
        yaw = 0.5 * (poses[i - 1, 2] + poses[i, 2])
        step_m = (poses[i, 0] - poses[i - 1, 0]) * math.cos(yaw) + (poses[i, 1] - poses[i - 1, 1]) * math.sin(yaw)
        is_usable &= not step_m < _REVERSING_M
        distances_m[i] = distances_m[i - 1] + max(step_m, 0.0)
    distances_m -= distances_m[current]
    speed_mps = distances_m[current + 1] / times_s[current + 1]
    if current > 0:
        speed_mps = 0.5 * (speed_mps + distances_m[current - 1] / times_s[current - 1])
    knots = _find_knots(poses, distances_m, current)
    return is_usable, _Log(car, window, columns, current, x_m, y_m, times_s, poses, distances_m, knots, speed_mps)


@kernel_jit
def _find_knots(poses: Float64Array, distances_m: Float64Array, current: int) -> Float64Array:
    """Return frames with a minimum spacing, including the current one, as knots (distance, x, y, yaw), (K, 4)."""
    first = current  # first backwards from the current frame, then forwards
    is_knot = np.zeros(len(poses), np.bool_)
    is_knot[current] = True
    for i in range(current - 1, -1, -1):
        if distances_m[first] - distances_m[i] >= _KNOT_DISTANCE_M:
            first = i
            is_knot[i] = True
    last = current
    for i in range(current + 1, len(poses)):
        if distances_m[i] - distances_m[last] >= _KNOT_DISTANCE_M:
            last = i
            is_knot[i] = True
    frames = np.flatnonzero(is_knot)
    knots = np.empty((len(frames), 4))
    for knot in range(len(frames)):
        knots[knot, 0], knots[knot, 1:] = distances_m[frames[knot]], poses[frames[knot]]
    return knots


@kernel_jit
def _draw(drawing: _Drawing, uniforms: Float64Array, speed_mps: float) -> tuple[float, float, float, float]:
    """Return metres to the left and ahead, radians and m/s of a draw from six uniform numbers."""
    std, most = drawing.std, drawing.most
    # pairs of normal numbers (Box and Muller, 1958)
    far_a, far_b = math.sqrt(-2.0 * math.log(1.0 - uniforms[1])), math.sqrt(-2.0 * math.log(1.0 - uniforms[3]))
    angle_a, angle_b = 2.0 * math.pi * uniforms[2], 2.0 * math.pi * uniforms[4]
    left_m = min(max(std[0] * far_a * math.cos(angle_a), -most[0]), most[0])
    ahead_m = min(max(std[1] * far_a * math.sin(angle_a), -most[1]), most[1])
    turn_rad = min(max(std[2] * far_b * math.cos(angle_b), -most[2]), most[2])
    faster_mps = min(max(std[3] * far_b * math.sin(angle_b), -most[3]), most[3])

    # Some draws move the AV only along or only across the path. A stationary AV rarely gets a speed; none reverses.
    if uniforms[0] < _SHARE_OF_ONE_KIND:
        left_m, turn_rad = 0.0, 0.0
    elif uniforms[0] < 2.0 * _SHARE_OF_ONE_KIND:
        ahead_m, faster_mps = 0.0, 0.0
    if speed_mps < _STANDING_MPS:
        faster_mps = abs(faster_mps) if uniforms[5] < _SHARE_OF_STARTS else 0.0
    return left_m, ahead_m, turn_rad, max(faster_mps, -speed_mps)


@kernel_jit
def _lead_back(log: _Log, drawn: tuple[float, float, float, float]) -> tuple[bool, _Path]:
    """Return whether a draw gives a path of the AV, and that path."""
    left_m, ahead_m, turn_rad, faster_mps = drawn
    car, distances_m, current = log.car, log.distances_m, log.current
    path, is_moved = log.poses.copy(), np.zeros(len(log.poses), np.bool_)

    # along: an offset from the logged distance that fades over time; the AV waits instead of driving backwards
    along_m = np.empty(len(path))
    for i in range(len(path)):
        along_m[i] = distances_m[i] + _fading_offset(log.times_s[i], _TIME_BACK_S, ahead_m, faster_mps)[0]
    for i in range(current + 1, len(path)):
        along_m[i] = max(along_m[i], along_m[i - 1])
    for i in range(current - 1, -1, -1):
        along_m[i] = min(along_m[i], along_m[i + 1])

    # Across: an offset that fades with distance. The draw is for the centre; a turn moves the rear axle less.
    distance_m = max(_LEAST_DISTANCE_M, _SECONDS_OF_DISTANCE * (log.speed_mps + faster_mps))
    start_m = along_m[current]
    offset_m = left_m - car.rear_m * math.sin(turn_rad)
    bend = _on_path(log.knots, start_m, car.most_curvature)[3]
    slope = math.tan(turn_rad) * (1.0 - bend * offset_m)
    for i in range(len(path)):
        beside_m, steepness = _fading_offset(along_m[i] - start_m, distance_m, offset_m, slope)
        if beside_m == 0.0 and steepness == 0.0 and along_m[i] == distances_m[i]:
            continue
        x, y, yaw, bend = _on_path(log.knots, along_m[i], car.most_curvature)
        stretch = 1.0 - bend * beside_m  # inside a bend the offset path is shorter
        if stretch < _LEAST_STRETCH:
            return False, _Path(path, is_moved)
        path[i, 0], path[i, 1] = x - beside_m * math.sin(yaw), y + beside_m * math.cos(yaw)
        path[i, 2] = yaw + math.atan2(steepness, stretch)
        is_moved[i] = True
    return True, _Path(path, is_moved)


@kernel_jit
def _overlaps(log: _Log, path: _Path, boxes: _Boxes) -> bool:
    """Return whether the AV on its path overlaps an agent that it does not overlap in the log."""
    length_m, width_m, rear_m, _ = log.car
    own_reach = 0.5 * math.sqrt(length_m * length_m + width_m * width_m)
    for i in range(len(path.poses)):
        if not path.is_moved[i]:
            continue
        x_rear, y_rear, yaw = path.poses[i, 0], path.poses[i, 1], path.poses[i, 2]
        x, y = log.x_m + x_rear + rear_m * math.cos(yaw), log.y_m + y_rear + rear_m * math.sin(yaw)
        column = log.columns[i]
        for row in range(boxes.starts[log.window, column], boxes.stops[log.window, column]):
            agent = boxes.rows[row]
            length, width = np.float64(agent.extent[0]), np.float64(agent.extent[1])
            dx, dy = agent.centroid[0] - x, agent.centroid[1] - y
            reach = own_reach + 0.5 * (length + width)
            if dx * dx + dy * dy > reach * reach:
                continue
            # relative to the AV: differences of world coordinates are exact
            box = (dx, dy, np.float64(agent.yaw), length, width)
            if not boxes_overlap((0.0, 0.0, yaw, length_m, width_m), box):
                continue
            x_of_log, y_of_log, yaw_of_log = log.poses[i, 0], log.poses[i, 1], log.poses[i, 2]
            as_logged = (
                log.x_m + x_of_log + rear_m * math.cos(yaw_of_log) - x,
                log.y_m + y_of_log + rear_m * math.sin(yaw_of_log) - y,
                yaw_of_log,
                length_m,
                width_m,
            )
            if not boxes_overlap(as_logged, box):
                return True
    return False


@kernel_jit
def _move_paths(logs: _Logs, boxes: _Boxes, drawing: _Drawing, moved: _Moved) -> None:
    """Move the AV in some windows."""
    counted = moved.counted
    car = _Car(logs.length_m, logs.width_m, REAR_AXLE_SHARE * logs.length_m, drawing.limits[3])
    for window in range(len(logs.poses)):
        uniforms = drawing.uniforms[window]
        if not logs.is_whole[window] or uniforms[0] >= drawing.probability:
            continue
        counted[_CHOSEN] += 1
        is_usable, log = _read_log(logs, window, car)
        if not is_usable:
            continue
        of_log = _extremes(log.poses, log.times_s)
        for first in range(1, len(uniforms), _NUMBERS_OF_DRAW):
            counted[_DRAWS] += 1
            drawn = _draw(drawing, uniforms[first : first + _NUMBERS_OF_DRAW], log.speed_mps)
            is_drivable, path = _lead_back(log, drawn)
            if is_drivable:
                does = _extremes(path.poses, log.times_s)
                for i in range(4):
                    is_drivable &= does[i] <= max(drawing.limits[i], of_log[i])
            if not is_drivable:
                counted[_OUTSIDE_LIMITS] += 1
                continue
            if _overlaps(log, path, boxes):
                counted[_OVERLAPPING] += 1
                continue
            counted[_PERTURBED] += 1
            for i in range(len(path.poses)):
                if path.is_moved[i]:
                    x_rear, y_rear, yaw = path.poses[i, 0], path.poses[i, 1], path.poses[i, 2]
                    x, y = x_rear + car.rear_m * math.cos(yaw), y_rear + car.rear_m * math.sin(yaw)
                    moved.poses[window, log.columns[i]] = log.x_m + x, log.y_m + y, yaw
                    moved.is_moved[window, log.columns[i]] = True
            break
