"""The metrics of the competition for predictions of several trajectories, up to several times ahead."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from l5kit.evaluation.metrics import (
    average_displacement_error_mean,
    average_displacement_error_oracle,
    final_displacement_error_mean,
    final_displacement_error_oracle,
    neg_multi_log_likelihood,
    prob_true_mode,
    rmse,
    time_displace,
)
from l5kit.workflows.trajectories import Modes, Trajectories


@dataclass(frozen=True)
class ModeScore:
    """Means up to one time ahead, over the predictions with a known step; NaN without any.

    The metrics are those of :mod:`l5kit.evaluation.metrics` on the steps up to this time; averages and last
    steps are over those that are known.

    Attributes:
        horizon_s: The time ahead.
        nll: Negative log-likelihood, the score of the competition.
        rmse: Root of twice that over the steps.
        ade_oracle_m: ADE of the best trajectory.
        ade_mean_m: ADE averaged over the trajectories.
        fde_oracle_m: FDE of the best trajectory, over the predictions whose truth is known at this time.
        fde_mean_m: FDE averaged over the trajectories, likewise.
        time_displace_m: Distance at this time, weighted with how likely each is given the truth; likewise.
        prob_true_mode: How likely each trajectory is given the truth.
    """

    horizon_s: float
    nll: float
    rmse: float
    ade_oracle_m: float
    ade_mean_m: float
    fde_oracle_m: float
    fde_mean_m: float
    time_displace_m: float
    prob_true_mode: tuple[float, ...]


class ModeScores:
    """Gathers the metrics batch by batch, in float64 on the CPU.

    Args:
        horizons_s: Times ahead in seconds.
        num_modes: Trajectories of a prediction.
        step_time_s: Seconds between two steps.
    """

    def __init__(self, horizons_s: Sequence[float], *, num_modes: int, step_time_s: float) -> None:
        self._horizons_s = tuple(horizons_s)
        self._num_steps = [round(horizon_s / step_time_s) for horizon_s in horizons_s]
        self._of_known = torch.zeros(len(self._num_steps), 4 + num_modes + 1, dtype=torch.float64)
        self._of_final = torch.zeros(len(self._num_steps), 3 + 1, dtype=torch.float64)

    def add(self, trajectories: Trajectories, modes: Modes) -> None:
        """Add the predictions of a batch."""
        for index, num_steps in enumerate(self._num_steps):
            is_known = trajectories.is_known[:, :num_steps]
            rows = is_known.any(dim=1)
            is_final = is_known[rows, -1]
            arguments = (
                trajectories.truth_m[rows, :num_steps].double(),
                modes.predicted_m[rows, :, :num_steps].double(),
                modes.probabilities[rows].double(),
                is_known[rows],
            )
            of_known = (
                neg_multi_log_likelihood(*arguments),
                rmse(*arguments),
                average_displacement_error_oracle(*arguments, only_available=True),
                average_displacement_error_mean(*arguments, only_available=True),
            )
            columns = torch.cat([torch.stack(of_known, dim=1), prob_true_mode(*arguments)], dim=1)  # (N, 4 + M)
            self._of_known[index] += _sum_with_count(columns)

            # What is of the last step is over the predictions whose truth is known there.
            finals = tuple(argument[is_final] for argument in arguments)
            of_final = (
                final_displacement_error_oracle(*finals),
                final_displacement_error_mean(*finals),
                time_displace(*finals)[:, -1],
            )
            self._of_final[index] += _sum_with_count(torch.stack(of_final, dim=1))

    def scores(self) -> tuple[ModeScore, ...]:
        """Return the means of all that was added, one for each horizon."""
        scores = []
        for horizon_s, of_known, of_final in zip(self._horizons_s, self._of_known, self._of_final, strict=True):
            nll, root, ade_oracle_m, ade_mean_m, *probabilities = _means(of_known)
            fde_oracle_m, fde_mean_m, time_displace_m = _means(of_final)
            score = ModeScore(
                horizon_s=horizon_s,
                nll=nll,
                rmse=root,
                ade_oracle_m=ade_oracle_m,
                ade_mean_m=ade_mean_m,
                fde_oracle_m=fde_oracle_m,
                fde_mean_m=fde_mean_m,
                time_displace_m=time_displace_m,
                prob_true_mode=tuple(probabilities),
            )
            scores.append(score)
        return tuple(scores)


def _sum_with_count(columns: torch.Tensor) -> torch.Tensor:
    """Return sums over N rows of columns (N, K), and N, (K + 1,), on the CPU."""
    return torch.cat([columns.sum(dim=0), columns.new_tensor([len(columns)])]).cpu()


def _means(sums: torch.Tensor) -> list[float]:
    means: list[float] = (sums[:-1] / sums[-1]).tolist()
    return means
