"""Trajectories of a batch: predictions with truth and past, all modes, kinematic baselines, and their errors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import torch

from l5kit.evaluation.horizon_scores import HorizonScore, HorizonScores
from l5kit.kinematic.baselines import BASELINES, Baseline, baseline_displacements

Batch = Mapping[str, torch.Tensor]
"""Tensors by name, (B, ...): a batch of samples, or outputs of a network."""

SCORE_NAMES = ("ade_m", "fde_m", "miss_rate")
"""Averaged values, by the names of :class:`l5kit.evaluation.horizon_scores.HorizonScore`."""


@dataclass(frozen=True)
class Trajectories:
    """N predicted trajectories with the truth and the past.

    Attributes:
        predicted_m: Predicted positions, (N, T, 2).
        truth_m: True positions in the same frame, (N, T, 2).
        is_known: Mask of known true positions, (N, T).
        past_m: Past positions, the current one first, (N, H + 1, 2).
        past_yaws_rad: Past headings, (N, H + 1).
        past_is_known: Mask of known past poses, (N, H + 1).
    """

    predicted_m: torch.Tensor
    truth_m: torch.Tensor
    is_known: torch.Tensor
    past_m: torch.Tensor
    past_yaws_rad: torch.Tensor
    past_is_known: torch.Tensor


def ego_trajectories(batch: Batch, outputs: Batch) -> Trajectories:
    """Return the trajectory of the target of each sample, that of the likeliest mode if there are several."""
    return Trajectories(
        predicted_m=outputs["positions"],
        truth_m=batch["target_positions"],
        is_known=batch["target_availabilities"] > 0,
        past_m=batch["history_positions"],
        past_yaws_rad=batch["history_yaws"][..., 0],
        past_is_known=batch["history_availabilities"] > 0,
    )


def agent_trajectories(batch: Batch, outputs: Batch) -> Trajectories:
    """Return the likeliest trajectories of all agents of each sample, one after the other."""
    return Trajectories(
        predicted_m=outputs["agent_positions"].flatten(0, 1),
        truth_m=batch["all_other_agents_future_positions"].flatten(0, 1),
        is_known=batch["all_other_agents_future_availability"].flatten(0, 1) > 0,
        past_m=batch["all_other_agents_history_positions"].flatten(0, 1),
        past_yaws_rad=batch["all_other_agents_history_yaws"][..., 0].flatten(0, 1),
        past_is_known=batch["all_other_agents_history_availability"].flatten(0, 1) > 0,
    )


@dataclass(frozen=True)
class Modes:
    """N predictions of M trajectories each.

    Attributes:
        predicted_m: Predicted positions, (N, M, T, 2).
        probabilities: Probability of each trajectory, (N, M).
    """

    predicted_m: torch.Tensor
    probabilities: torch.Tensor


def baseline_positions(
    trajectories: Trajectories, *, step_time_s: float, past_step_time_s: float
) -> dict[Baseline, torch.Tensor]:
    """Return the positions predicted by each baseline, (N, T, 2) in metres; empty for samples without a past.

    Args:
        trajectories: The agents.
        step_time_s: Duration of a future step, seconds.
        past_step_time_s: Duration of a past step, seconds.
    """
    # a baseline extrapolates a step, which needs the current pose and an earlier one
    if trajectories.past_m.shape[1] < 2:
        return {}
    past_m, past_yaws_rad = trajectories.past_m.float(), trajectories.past_yaws_rad.float()
    return {
        baseline: past_m[:, :1]
        + baseline_displacements(
            baseline,
            past_m,
            past_yaws_rad,
            trajectories.past_is_known,
            num_steps=trajectories.truth_m.shape[1],
            step_time_s=step_time_s,
            past_step_time_s=past_step_time_s,
        )
        for baseline in BASELINES
    }


TrajectoriesOf = Callable[[Batch, Batch], Trajectories]
"""Function of a batch and the outputs of a model for it."""


class TrajectoryScores:
    """Accumulator of errors of a model and of the kinematic baselines on the same trajectories.

    Args:
        horizons_s: Horizons in seconds.
        step_time_s: Duration of a future step, seconds.
        past_step_time_s: Duration of a past step, seconds.
    """

    def __init__(self, horizons_s: Sequence[float], *, step_time_s: float, past_step_time_s: float) -> None:
        self._step_time_s = step_time_s
        self._past_step_time_s = past_step_time_s
        self._model = HorizonScores(horizons_s, step_time_s=step_time_s)
        self._baselines = {name: HorizonScores(horizons_s, step_time_s=step_time_s) for name in BASELINES}
        self._has_past = False

    def add(self, trajectories: Trajectories) -> None:
        """Add the trajectories of a batch.

        Raises:
            InvalidArgumentError: A horizon is beyond the end of the trajectories.
        """
        truth_m, is_known = trajectories.truth_m.float(), trajectories.is_known
        self._model.add(truth_m, trajectories.predicted_m.float(), is_known)
        # only trajectories with a future are scored, so only their past counts
        if bool((trajectories.past_is_known[:, 1:] & is_known.any(dim=1, keepdim=True)).any()):
            self._has_past = True
        baselines = baseline_positions(
            trajectories, step_time_s=self._step_time_s, past_step_time_s=self._past_step_time_s
        )
        for name, baseline_m in baselines.items():
            self._baselines[name].add(truth_m, baseline_m, is_known)

    def mean_errors(self) -> tuple[tuple[HorizonScore, ...], dict[Baseline, tuple[HorizonScore, ...]]]:
        """Return the mean errors of the model, one for each horizon, and those of each baseline.

        There are no baselines if no trajectory had a past.
        """
        baselines = {name: scores.scores() for name, scores in self._baselines.items()} if self._has_past else {}
        return self._model.scores(), baselines

    def sums(self) -> torch.Tensor:
        """Return sums of errors and counts that add up over processes, float64.

        Returns:
            Those of the model, then of each of ``BASELINES``, (1 + baselines, horizons, 5).
        """
        baselines = [_sums_of(scores.scores()) * self._has_past for scores in self._baselines.values()]
        return torch.stack([_sums_of(self._model.scores()), *baselines])


def means_of(sums: torch.Tensor, horizons_s: Sequence[float], who: str) -> dict[str, float]:
    """Return mean errors by name, without those of empty sums.

    Args:
        sums: Sums of the model or of a baseline, as :meth:`TrajectoryScores.sums` returns them, (horizons, 5).
        horizons_s: Horizons in seconds.
        who: First part of the names.
    """
    means = {}
    for horizon_s, row in zip(horizons_s, sums.tolist(), strict=True):
        totals, counts = row[:3], (row[3], row[4], row[4])
        for name, total, count in zip(SCORE_NAMES, totals, counts, strict=True):
            if count:
                means[score_name(who, name, horizon_s)] = total / count
    return means


def score_name(who: str, name: str, horizon_s: float) -> str:
    """Return the name of a score in curves and files, such as ``val/ade_m/2s``."""
    return f"{who}/{name}/{horizon_s:g}s"


def _sums_of(scores: tuple[HorizonScore, ...]) -> torch.Tensor:
    """Return sums of ADE, FDE and misses, with the count of the first and that of the other two."""
    # means times counts, so that means over several processes can be computed; the last two share a count
    rows = []
    for score in scores:
        facts = asdict(score)
        counts = {"ade_m": score.num_trajectories, "fde_m": score.num_final, "miss_rate": score.num_final}
        sums = [facts[name] * counts[name] if counts[name] else 0.0 for name in SCORE_NAMES]
        rows.append([*sums, score.num_trajectories, score.num_final])
    return torch.tensor(rows, dtype=torch.float64)
