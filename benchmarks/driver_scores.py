"""Scores of drivers by scene over several seeds: means with intervals, paired differences, and tables.

Intervals are bootstraps over scenes, with the mean over seeds of each scene. Differences are paired by scene, so scenes
that are hard for both drivers do not widen the interval. Failed scenes score 0; scenes without motion have no score.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from l5kit._types import Float64Array, JsonObject
from l5kit.evaluation.resampling import Estimate, estimate_of
from training_scores import RESAMPLING, SceneSums, shown

AGENTS = {"replay": "replayed", "idm": "`idm`"}
"""Drivers of other agents, and their titles in the table."""

BESIDE = "rules"
"""The row that other rows are compared with."""


@dataclass(frozen=True)
class RowRuns:
    """Results of one row of the table, one run for each seed.

    Attributes:
        name: Name of the row.
        runs: Contents of the files of its runs, by seed.
        stale: Facts of the runs that differ from the current ones; empty if the row is up to date.
    """

    name: str
    runs: Sequence[JsonObject]
    stale: tuple[str, ...] = ()

    def scores(self, agents: str) -> Float64Array:
        """Return the scores, NaN for missing ones, (seeds, scenes)."""
        return np.stack([scene_scores(run, agents) for run in self.runs])


def scene_scores(run: JsonObject, agents: str) -> Float64Array:
    """Return the scores of a run for one kind of other agents, town after town, NaN for missing ones, (S,)."""
    towns: Mapping[str, Sequence[float | None]] = run["scores"][agents]
    return np.concatenate([np.array(scores, np.float64) for _, scores in sorted(towns.items())])


def of_scenes(scores: Float64Array) -> Float64Array:
    """Return the means over seeds of scores (seeds, S), NaN for scenes without a score, (S,)."""
    counts = (~np.isnan(scores)).sum(axis=0)
    return np.where(counts > 0, np.nansum(scores, axis=0) / np.maximum(counts, 1), np.nan)


def mean_of(scores: Float64Array, *, lowest: float = 0.0) -> Estimate:
    """Return the mean over scenes of scores (seeds, S) with its interval, ignoring NaN.

    Args:
        scores: The scores, at most 1.
        lowest: The least possible score.
    """
    means = of_scenes(scores)
    is_known = ~np.isnan(means)
    sums = SceneSums({"score": np.where(is_known, means, 0.0)}, {"score": is_known.astype(float)})
    num_scenes = int(is_known.sum())
    return estimate_of(sums.means("score"), RESAMPLING, num_scenes=num_scenes, lowest=lowest, highest=1.0)


def difference_of(scores: Float64Array, others: Float64Array) -> Estimate:
    """Return the mean difference between scores (seeds, S) and other scores (other seeds, S), paired by scene.

    Only scenes with a score on both sides count.
    """
    return mean_of((of_scenes(scores) - of_scenes(others))[None], lowest=-1.0)


def leaves_out_zero(difference: Estimate) -> bool:
    """Return whether an interval excludes 0; without an interval, whether the difference is not 0."""
    if np.isnan(difference.low):
        return difference.value != 0
    return not difference.low <= 0.0 <= difference.high


def make_tables(rows: Sequence[RowRuns]) -> Iterator[str]:
    """Yield the lines of a table for each kind of other agents, and of one of the trainings.

    Args:
        rows: In the order of the table; those without runs are left out.
    """
    rows = [row for row in rows if row.runs]
    beside = next((row for row in rows if row.name == BESIDE), None)
    for agents, others in AGENTS.items():
        yield from ("", f"Others: {others}.", "")
        yield f"| driver | seeds | score (95 %) | worst seed | minus `{BESIDE}` (95 %) | the network drives |"
        yield "|---" * 6 + "|"
        for row in rows:
            yield f"| {' | '.join(driver_cells(row, agents, beside))} |"
    # rows with the same network share its training
    trained = {
        tuple(run["training"]["weights_sha256"] for run in row.runs): row
        for row in reversed(rows)
        if row.runs[0]["training"] is not None
    }
    if trained:
        yield from ("", "| trained | minutes of each seed | at most | steps | best step of each seed | machine |")
        yield "|---" * 6 + "|"
        for row in reversed(trained.values()):
            yield f"| {' | '.join(training_cells(row))} |"


def driver_cells(row: RowRuns, agents: str, beside: RowRuns | None) -> list[str]:
    """Return the cells of a driver for one kind of other agents."""
    scores = row.scores(agents)
    is_trained = row.runs[0]["training"] is not None
    of_seeds = [mean_of(each[None]).value for each in scores]
    name = f"`{row.name}`" + (f" (stale: {', '.join(row.stale)})" if row.stale else "")
    is_other = beside is not None and beside is not row and beside.scores(agents).shape[1] == scores.shape[1]
    shares = [run["network_share"][agents] for run in row.runs if run["network_share"] is not None]
    return [
        name,
        str(len(row.runs)) if is_trained else "",
        shown(mean_of(scores), ""),
        f"{min(of_seeds):.2f}" if is_trained else "",
        signed(difference_of(scores, beside.scores(agents))) if is_other else "",
        f"{np.mean(shares):.0%}" if shares else "",
    ]


def training_cells(row: RowRuns) -> list[str]:
    """Return the cells of the trainings of a row."""
    trainings = [run["training"] for run in row.runs]
    budget = trainings[0]["max_minutes"]
    over = " (over)" if max(each["minutes"] for each in trainings) > budget else ""
    return [
        f"`{row.name}`",
        ", ".join(f"{each['minutes']:.1f}" for each in trainings) + over,
        f"{budget:g}",
        f"{trainings[0]['steps']:,}",
        ", ".join("" if each["best_step"] is None else f"{each['best_step']:,}" for each in trainings),
        "; ".join(sorted({run["machine"] for run in row.runs})),
    ]


def signed(estimate: Estimate) -> str:
    """Return a difference with its sign and its interval."""
    if np.isnan(estimate.value):
        return ""
    if np.isnan(estimate.low):
        return f"{estimate.value:+.3f}"
    return f"{estimate.value:+.3f} ({estimate.low:+.3f} to {estimate.high:+.3f})"
