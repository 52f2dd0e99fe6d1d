"""Perturbed initial states of the AV, from which it steers back to the recorded path."""

import warnings

import numpy as np

from l5kit._types import Float64Array, RecordArray
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.transform import rotations33_as_yaws, round_world, yaw_as_rotation33, yaws_as_rotations33
from l5kit.kinematic.ackerman_steering_model import fit_ackerman_model_exact
from l5kit.kinematic.perturbation import Perturbation
from l5kit.random.random_generator import RandomGenerator
from l5kit.random.seeding import derive_rng, split_seed


class AckermanPerturbation(Perturbation):
    """Perturbation that moves the current AV pose by a random offset and steers it back to the recorded path.

    The earlier history keeps the recorded path. The AV is moved even if an agent is the target of the sample. The path
    is first rounded by :func:`~l5kit.geometry.transform.round_world`; moved frames keep z but lose roll and pitch.

    By default, NumPy's global state decides whether a sample is perturbed, as in L5Kit 1.x; with ``rng``, or after
    ``reseed``, a private generator decides.

    Args:
        random_offset_generator: Returns three offsets per call: lateral (left) m, longitudinal (forward) m, yaw rad.
        perturb_prob: Probability that a sample is perturbed, in [0, 1]. 0 gives a ``RuntimeWarning``.
        min_displacement: If the recorded future is shorter than this, in metres, only the longitudinal offset applies.
        rng: Generator that decides whether to perturb.

    Raises:
        InvalidArgumentError: ``perturb_prob`` is not in [0, 1].
    """

    def __init__(
        self,
        random_offset_generator: RandomGenerator,
        perturb_prob: float,
        min_displacement: float = 0,
        *,
        rng: np.random.Generator | None = None,
    ) -> None:
        if not 0 <= perturb_prob <= 1:
            raise InvalidArgumentError(f"perturb_prob is {perturb_prob}; a probability lies in [0, 1]")
        if perturb_prob == 0:
            warnings.warn(
                "perturb_prob is 0, so nothing will be perturbed; pass no perturbation instead",
                RuntimeWarning,
                stacklevel=2,
            )
        self.random_offset_generator = random_offset_generator
        self.perturb_prob = perturb_prob
        self.min_displacement = min_displacement
        self.rng = rng

    def reseed(self, seed: int) -> None:
        """Restart the decision and the offsets with private generators seeded by ``seed``.

        Args:
            seed: At least 0.

        Raises:
            InvalidArgumentError: ``seed`` is negative.
        """
        decision_seed, offset_seed = split_seed(seed, 2)
        self.rng = derive_rng(decision_seed)
        if isinstance(self.random_offset_generator, RandomGenerator):  # L5Kit 1.x took any callable
            self.random_offset_generator.reseed(offset_seed)

    def perturb(self, history_frames: RecordArray, future_frames: RecordArray) -> tuple[RecordArray, RecordArray]:
        """Return copies of the frames, perturbed with probability ``perturb_prob``.

        In a perturbed sample the current frame has the moved pose and the future frames follow the fitted path (see
        :func:`fit_ackerman_model_exact`). Without future frames nothing is perturbed. The arguments are not changed.

        Args:
            history_frames: Frames with ``ego_translation`` and ``ego_rotation``, newest (the current one) first.
            future_frames: Frames with the same fields, nearest first.

        Returns:
            History and future frames with the order, lengths and record types of the arguments.

        Raises:
            InvalidArgumentError: The sample is to be perturbed but ``history_frames`` is empty, or the offset generator
                does not return three values.
        """
        history, future = np.array(history_frames), np.array(future_frames)
        # without a private generator, draw as in L5Kit 1.x
        uniform = float(np.random.rand()) if self.rng is None else float(self.rng.random())  # noqa: NPY002
        if uniform >= self.perturb_prob:
            return history, future
        if len(history) == 0:
            raise InvalidArgumentError("history_frames is empty; its first frame must be the current one")
        if len(future) == 0:
            return history, future
        path = np.concatenate([_frames_as_path(history[:1]), _frames_as_path(future)])
        step_lengths_m = np.hypot(*np.diff(path[:, :2], axis=0).T)

        # move the current pose by random offsets; an AV that hardly moves cannot steer back from a lateral offset
        offsets = np.asarray(self.random_offset_generator(), dtype=np.float64)
        if offsets.shape != (3,):
            raise InvalidArgumentError(
                f"random_offset_generator returned shape {offsets.shape}; it must return (lateral, longitudinal, yaw)"
            )
        lateral_m, longitudinal_m, yaw_rad = offsets
        if float(step_lengths_m.sum()) < self.min_displacement:
            lateral_m, yaw_rad = 0.0, 0.0
        shift_m = yaw_as_rotation33(path[0, 2])[:2, :2] @ (longitudinal_m, lateral_m)
        start = np.array([path[0, 0] + shift_m[0], path[0, 1] + shift_m[1], path[0, 2] + yaw_rad])
        _write_path(history[:1], start[None])

        # fit the drivable path from the moved pose that comes nearest to the recorded path, whatever its speeds
        x0, y0, r0 = start.tolist()
        gx, gy, gr = path[1:].T
        ones, zeros = np.ones_like(gx), np.zeros_like(gx)
        x, y, r, *_ = fit_ackerman_model_exact(
            x0, y0, r0, float(step_lengths_m[0]), gx, gy, gr, step_lengths_m, ones, ones, ones, zeros
        )
        _write_path(future, np.stack([x, y, r], axis=1))
        return history, future


def _frames_as_path(frames: RecordArray) -> Float64Array:
    """Return rounded x, y, yaw of the frames, (N, 3)."""
    yaws_rad = rotations33_as_yaws(frames["ego_rotation"])
    return round_world(np.column_stack([frames["ego_translation"][:, :2], yaws_rad])).astype(np.float64)


def _write_path(frames: RecordArray, path: Float64Array) -> None:
    """Write x, y, yaw (N, 3) into copied frames; z is kept."""
    frames["ego_translation"][:, :2] = path[:, :2]
    frames["ego_rotation"] = yaws_as_rotations33(path[:, 2])
