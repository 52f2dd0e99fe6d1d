"""Errors of predicted trajectories, beside those of the kinematic baselines."""

from collections.abc import Sequence
from dataclasses import asdict

import torch

from l5kit.evaluation.horizon_scores import HorizonScore, HorizonScores
from l5kit.kinematic.baselines import BASELINES, Baseline
from l5kit.workflows.trajectories import Trajectories, baseline_positions

SCORE_NAMES = ("ade_m", "fde_m", "miss_rate")
"""What is averaged, by the names of :class:`l5kit.evaluation.horizon_scores.HorizonScore`."""


class TrajectoryScores:
    """Gathers errors of a model and of the kinematic baselines on the same trajectories.

    Args:
        horizons_s: Times ahead in seconds.
        step_time_s: Seconds between two future steps.
        past_step_time_s: Seconds between two past ones.
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
            InvalidArgumentError: A horizon lies beyond them.
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

    def network_scores(self) -> tuple[HorizonScore, ...]:
        """Return the mean errors of the model, one for each horizon."""
        return self._model.scores()

    def baseline_scores(self) -> dict[Baseline, tuple[HorizonScore, ...]]:
        """Return those of the baselines; nothing if no past was known to go on from."""
        return {name: scores.scores() for name, scores in self._baselines.items()} if self._has_past else {}

    def sums(self) -> torch.Tensor:
        """Return what adds up over processes, float64: sums of errors and counts.

        Returns:
            Those of the model, then of each of ``BASELINES``, (1 + baselines, horizons, 5).
        """
        baselines = [_sums_of(scores.scores()) * self._has_past for scores in self._baselines.values()]
        return torch.stack([_sums_of(self._model.scores()), *baselines])


def means_of(sums: torch.Tensor, horizons_s: Sequence[float], who: str) -> dict[str, float]:
    """Return mean errors by name, without those that nothing was added to.

    Args:
        sums: Of the model or of a baseline, as :meth:`TrajectoryScores.sums` gives them, (horizons, 5).
        horizons_s: Times ahead in seconds.
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
    """Return sums of ADE, FDE and misses, and the counts behind the first and the other two."""
    # means times counts, as means over several processes are those of the sums; the last two share a count
    rows = []
    for score in scores:
        facts = asdict(score)
        counts = {"ade_m": score.num_trajectories, "fde_m": score.num_final, "miss_rate": score.num_final}
        sums = [facts[name] * counts[name] if counts[name] else 0.0 for name in SCORE_NAMES]
        rows.append([*sums, score.num_trajectories, score.num_final])
    return torch.tensor(rows, dtype=torch.float64)
