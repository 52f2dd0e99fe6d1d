"""Mean errors of trajectories up to several times ahead, gathered batch by batch."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.metrics import displacements
from l5kit.evaluation.thresholds import MISS_THRESHOLD_M


@dataclass(frozen=True)
class HorizonScore:
    """Mean errors of trajectories up to one time ahead; of several modes the best one counts.

    Attributes:
        horizon_s: The time ahead.
        ade_m: Mean over the steps that are known up to it, then over the trajectories that have such; else NaN.
        fde_m: Error at this time, the mean over the trajectories whose truth is known at it; NaN without any.
        miss_rate: Share of the latter whose error at this time is above 2 m, or is not a number; NaN without any.
        num_trajectories: Trajectories behind ``ade_m``.
        num_final: Trajectories behind ``fde_m`` and ``miss_rate``.
    """

    horizon_s: float
    ade_m: float
    fde_m: float
    miss_rate: float
    num_trajectories: int
    num_final: int


class HorizonScores:
    """Gathers the errors of trajectories, batch by batch.

    Sums are kept in float64 on the CPU, so that the result does not depend on how the trajectories are batched.

    Args:
        horizons_s: Times ahead in seconds, multiples of the step.
        step_time_s: Seconds between two steps.

    Raises:
        InvalidArgumentError: A horizon is not a positive multiple of the step, or there is none.
    """

    def __init__(self, horizons_s: Sequence[float], *, step_time_s: float) -> None:
        self._horizons_s = tuple(float(horizon_s) for horizon_s in horizons_s)
        self._num_steps = [round(horizon_s / step_time_s) for horizon_s in self._horizons_s]
        for horizon_s, num_steps in zip(self._horizons_s, self._num_steps, strict=True):
            if num_steps < 1 or abs(num_steps * step_time_s - horizon_s) > 1e-6:
                raise InvalidArgumentError(
                    f"horizons_s holds {horizon_s}; it must be a positive multiple of {step_time_s} s"
                )
        if not self._num_steps:
            raise InvalidArgumentError("horizons_s is empty; pass at least one time in seconds")
        self._sums = torch.zeros(len(self._num_steps), 5, dtype=torch.float64)

    def add(self, ground_truth: torch.Tensor, pred: torch.Tensor, avails: torch.Tensor) -> None:
        """Add a batch of trajectories.

        Args:
            ground_truth: True positions in metres, (B, T, 2).
            pred: Predicted positions, (B, T, 2), or (B, M, T, 2) for several modes.
            avails: 1 where the truth is known, else 0, (B, T).

        Raises:
            InvalidArgumentError: The shapes do not fit, or T is below a horizon.
        """
        modes = pred[:, None] if pred.dim() == 3 else pred
        if (
            modes.dim() != 4
            or (modes.shape[0], *modes.shape[2:]) != tuple(ground_truth.shape)
            or avails.shape != ground_truth.shape[:2]
        ):
            raise InvalidArgumentError(
                f"ground_truth has shape {tuple(ground_truth.shape)}, pred (with modes) {tuple(modes.shape)}, avails "
                f"{tuple(avails.shape)}; they must be (B, T, 2), (B, M, T, 2) and (B, T)"
            )
        if ground_truth.shape[1] < max(self._num_steps):
            raise InvalidArgumentError(
                f"ground_truth has {ground_truth.shape[1]} steps, but the longest of horizons_s needs "
                f"{max(self._num_steps)}"
            )
        is_known = (avails > 0).cpu()
        errors_m = displacements(ground_truth.detach(), modes.detach(), avails).double().cpu()

        # of the nearest mode: the mean error up to each horizon where a step is known, and that at the horizon where
        # that one is; the number of steps is at least 1 below the bar, where the sum is 0
        for row, num_steps in enumerate(self._num_steps):
            known = is_known[:, :num_steps]
            counts = known.sum(dim=1)
            averages_m = (errors_m[:, :, :num_steps].sum(dim=-1) / counts.clamp(min=1)[:, None]).amin(dim=1)
            finals_m = errors_m[:, :, num_steps - 1].amin(dim=1)  # 0 where not known
            sums = (
                averages_m.sum(),
                (counts > 0).sum(),
                finals_m.sum(),
                known[:, -1].sum(),
                (known[:, -1] & ~(finals_m <= MISS_THRESHOLD_M)).sum(),  # NaN is a miss
            )
            self._sums[row] += torch.stack([value.double() for value in sums])

    def scores(self) -> tuple[HorizonScore, ...]:
        """Return the mean errors of all that was added, one for each horizon."""
        rows = zip(self._horizons_s, self._sums.tolist(), strict=True)
        return tuple(
            HorizonScore(
                horizon_s=horizon_s,
                ade_m=_ratio(ade_sum, num_trajectories),
                fde_m=_ratio(fde_sum, num_final),
                miss_rate=_ratio(num_missed, num_final),
                num_trajectories=int(num_trajectories),
                num_final=int(num_final),
            )
            for horizon_s, (ade_sum, num_trajectories, fde_sum, num_final, num_missed) in rows
        )


def _ratio(total: float, count: float) -> float:
    return total / count if count else float("nan")
