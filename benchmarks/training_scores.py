"""Scores of trained networks on test towns: sums of errors by scene, means with intervals over scenes, and tables.

The bootstrap draws scenes instead of samples, as samples of one scene are correlated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Self

import numpy as np
import torch

from l5kit._types import Config, Float64Array
from l5kit.evaluation.metrics import MISS_THRESHOLD_M, neg_multi_log_likelihood
from l5kit.evaluation.resampling import Estimate, Resampling, estimate_of
from l5kit.kinematic.baselines import BASELINES
from l5kit.openloop import OpenLoopOptions
from l5kit.openloop.prediction import PredictedBatch, predicted_batches, rows_of_batch
from l5kit.openloop.setup import set_up
from l5kit.workflows.samples import spread_indices

RESAMPLING = Resampling(num_draws=2000)
NAMES = {"constant_velocity": "constant velocity", "ctrv": "CTRV", "ctra": "CTRA"}


@dataclass(frozen=True)
class SceneSums:
    """Sums and counts of averaged values, for each of S scenes.

    Attributes:
        sums: Sums by name, (S,) each.
        counts: Numbers of summed values, (S,) each.
    """

    sums: Mapping[str, Float64Array]
    counts: Mapping[str, Float64Array]

    def added(self, other: Self) -> Self:
        """Return the sums of two runs over the same scenes."""
        return type(self)(*({name: a[name] + b[name] for name in a} for a, b in self._pairs(other)))

    def followed_by(self, other: Self) -> Self:
        """Return the sums of these scenes and of another town's."""
        return type(self)(*({name: np.concatenate([a[name], b[name]]) for name in a} for a, b in self._pairs(other)))

    def _pairs(self, other: Self) -> tuple[tuple[Mapping[str, Float64Array], Mapping[str, Float64Array]], ...]:
        return (self.sums, other.sums), (self.counts, other.counts)

    def means(self, name: str) -> Float64Array:
        """Return the mean over all scenes, followed by those of the bootstrap draws, (1 + draws,)."""
        sums, counts = RESAMPLING.sums(np.stack([self.sums[name], self.counts[name]], axis=1)).T
        with np.errstate(invalid="ignore"):
            return sums / counts

    def estimate(self, name: str) -> Estimate:
        """Return the mean over all scenes with its interval."""
        return estimate_of(self.means(name), RESAMPLING, num_scenes=len(self.sums[name]))

    def best_baseline(self, error: str) -> str:
        """Return the name of the baseline with the least error."""
        return min(BASELINES, key=lambda name: float(self.means(f"{name}/{error}")[0]))

    def ratio(self, error: str) -> Estimate:
        """Return the error relative to that of the best baseline, over the same draws."""
        best = self.means(f"{self.best_baseline(error)}/{error}")
        return estimate_of(self.means(error) / best, RESAMPLING, num_scenes=len(self.sums[error]))

    def as_dict(self) -> dict[str, dict[str, list[float]]]:
        """Return the sums as JSON."""
        return {
            "sums": {name: values.tolist() for name, values in self.sums.items()},
            "counts": {name: values.tolist() for name, values in self.counts.items()},
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Mapping[str, Sequence[float]]]) -> Self:
        """Return the sums of a dictionary of :meth:`as_dict`."""
        return cls(*({name: np.array(values) for name, values in facts[key].items()} for key in ("sums", "counts")))


def score_town(weights: Path, cfg: Config, town: Path, *, key: str, max_samples: int) -> SceneSums:
    """Return the sums of errors of a network and of the baselines, on samples spread over a town.

    Args:
        weights: The network.
        cfg: Its training configuration.
        town: Data folder with log and map.
        key: The log.
        max_samples: Limit of samples, evenly spread.
    """
    options = OpenLoopOptions(key=key, device="cpu", show_bar=False)
    setup = set_up(weights, cfg, data_folder=town, options=options)
    sums: dict[str, Float64Array] = {}
    counts: dict[str, Float64Array] = {}
    for predicted in predicted_batches(setup, spread_indices(len(setup.samples), max_samples)):
        rows = rows_of_batch(setup.samples, predicted)
        columns = {"ade_m": rows.ade_m, "fde_m": rows.fde_m, "miss_rate": misses(rows.fde_m)}
        for place, name in enumerate(BASELINES):
            ade_m, fde_m = rows.baseline_ade_m[:, place], rows.baseline_fde_m[:, place]
            columns |= {f"{name}/ade_m": ade_m, f"{name}/fde_m": fde_m, f"{name}/miss_rate": misses(fde_m)}
        columns |= mode_columns(predicted)
        for name, values in columns.items():
            is_known = np.isfinite(values)
            for totals, parts in ((sums, np.where(is_known, values, 0.0)), (counts, is_known.astype(float))):
                totals.setdefault(name, np.zeros(setup.data.num_scenes))
                np.add.at(totals[name], rows.scene_index, parts)
    return SceneSums(sums, counts)


def misses(fde_m: Float64Array) -> Float64Array:
    """Return 1 for missed final positions, NaN for unknown ones."""
    return np.where(np.isnan(fde_m), np.nan, fde_m > MISS_THRESHOLD_M)


def mode_columns(predicted: PredictedBatch) -> dict[str, Float64Array]:
    """Return errors of the best of several trajectories and their likelihood; empty for networks with one."""
    if predicted.modes.probabilities.shape[1] == 1:
        return {}
    trajectories = predicted.trajectories
    rows = trajectories.is_known.any(dim=1)
    is_known, truth_m = trajectories.is_known[rows], trajectories.truth_m[rows].double()
    modes_m = predicted.modes.predicted_m[rows].double()
    errors_m = torch.linalg.vector_norm(modes_m - truth_m[:, None], dim=-1) * is_known[:, None]
    ade_m = (errors_m.sum(dim=-1) / is_known.sum(dim=-1)[:, None]).amin(dim=1)
    fde_m = torch.where(is_known[:, -1], errors_m[..., -1].amin(dim=1), torch.nan).numpy()
    nll = neg_multi_log_likelihood(truth_m, modes_m, predicted.modes.probabilities[rows].double(), is_known)
    return {"min_ade_m": ade_m.numpy(), "min_fde_m": fde_m, "min_miss_rate": misses(fde_m), "nll": nll.numpy()}


def make_tables(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the lines of the tables of all runs: errors, misses, trajectories, trainings.

    Args:
        rows: For each run ``workflow``, ``seed``, ``horizon_s``, ``num_modes``, ``minutes``, ``steps``, ``rate_factor``
            and ``scenes``.
    """
    runs: dict[str, list[Mapping]] = {}
    for row in rows:
        runs.setdefault(row["workflow"], []).append(row)
    pooled = {}
    for workflow, of_workflow in runs.items():
        parts = [SceneSums.from_dict(row["scenes"]) for row in of_workflow]
        pooled[workflow] = parts[0]
        for part in parts[1:]:
            pooled[workflow] = pooled[workflow].added(part)
    lines = []
    for title, error, unit in (("ADE", "ade_m", " m"), ("FDE", "fde_m", " m"), ("misses", "miss_rate", "%")):
        lines += ["", f"| {title} | horizon | network | {' | '.join(NAMES.values())} | network / best baseline |"]
        lines.append("|---" * (len(NAMES) + 4) + "|")
        for workflow, sums in pooled.items():
            names = (error, *(f"{name}/{error}" for name in NAMES))
            cells = [f"`{workflow}`", f"{runs[workflow][0]['horizon_s']:g} s"]
            cells += [shown(sums.estimate(name), unit) for name in names]
            lines.append(f"| {' | '.join(cells)} | {shown(sums.ratio(error), '')} |")
    if any("nll" in sums.sums for sums in pooled.values()):
        lines += ["", "| several trajectories | k | minADE_k | minFDE_k | misses of all k | NLL |", "|---" * 6 + "|"]
    for workflow, sums in pooled.items():
        if "nll" in sums.sums:
            units = {"min_ade_m": " m", "min_fde_m": " m", "min_miss_rate": "%", "nll": ""}
            cells = [shown(sums.estimate(name), unit) for name, unit in units.items()]
            lines.append(f"| `{workflow}` | {runs[workflow][0]['num_modes']} | {' | '.join(cells)} |")
    lines += [
        "",
        "| trainings | seeds | ADE of each seed | learning rate | steps | minutes of each |",
        "|---" * 6 + "|",
    ]
    return [*lines, *(training_line(workflow, of_workflow) for workflow, of_workflow in runs.items())]


def training_line(workflow: str, runs: Sequence[Mapping]) -> str:
    """Return the line of the trainings of a workflow."""
    ades_m = [SceneSums.from_dict(run["scenes"]).estimate("ade_m").value for run in runs]
    cells = (
        f"`{workflow}`",
        str(len(runs)),
        ", ".join(f"{ade_m:.2f} m" for ade_m in ades_m),
        f"{runs[0]['rate_factor']:g} of the configured",
        str(runs[0]["steps"]),
        f"{mean(run['minutes'] for run in runs):.1f}",
    )
    return f"| {' | '.join(cells)} |"


def shown(estimate: Estimate, unit: str) -> str:
    """Return a number with its interval, or an empty cell."""
    if np.isnan(estimate.value):
        return ""
    if unit == "%":
        return f"{estimate.value:.0%} ({estimate.low:.0%} to {estimate.high:.0%})"
    return f"{estimate.value:.2f}{unit} ({estimate.low:.2f} to {estimate.high:.2f})"
