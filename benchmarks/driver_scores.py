"""Scores of drivers by scene over several seeds: means with intervals, differences to another driver, and tables.

Scenes are drawn again (bootstrap), each with the mean of its scores over the seeds; a difference is that of each
scene, so that scenes that are hard for both do not widen it. A scene that fails has the score 0, one in which nobody
moves has none.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from l5kit._types import Float64Array, JsonObject
from l5kit.evaluation.resampling import Estimate, estimate_of
from training_scores import RESAMPLING, SceneSums, shown

AGENTS = {"replay": "replayed", "idm": "`idm`"}
"""Who drives the others, and what the table calls them."""

BESIDE = "rules"
"""The row that others are compared with."""


@dataclass(frozen=True)
class RowRuns:
    """What was measured of a row of the table, a run for each seed.

    Attributes:
        name: Of the row.
        runs: What the files of its runs hold, by seed.
        stale: What of today's facts is another one than that of a run; empty where the row is that of today.
    """

    name: str
    runs: Sequence[JsonObject]
    stale: tuple[str, ...] = ()

    def scores(self, agents: str) -> Float64Array:
        """Return the scores, NaN where there is none, (seeds, scenes)."""
        return np.stack([scene_scores(run, agents) for run in self.runs])


def scene_scores(run: JsonObject, agents: str) -> Float64Array:
    """Return the scores of a run among some others, town by town, NaN where there is none, (S,)."""
    towns: Mapping[str, Sequence[float | None]] = run["scores"][agents]
    return np.concatenate([np.array(scores, np.float64) for _, scores in sorted(towns.items())])


def of_scenes(scores: Float64Array) -> Float64Array:
    """Return the mean over the seeds of scores (seeds, S), NaN where no seed has one, (S,)."""
    counts = (~np.isnan(scores)).sum(axis=0)
    return np.where(counts > 0, np.nansum(scores, axis=0) / np.maximum(counts, 1), np.nan)


def mean_of(scores: Float64Array, *, lowest: float = 0.0) -> Estimate:
    """Return the mean over scenes of scores (seeds, S) with its interval; NaN is not counted.

    Args:
        scores: The scores, 1 at most.
        lowest: The least that is possible.
    """
    means = of_scenes(scores)
    is_known = ~np.isnan(means)
    sums = SceneSums({"score": np.where(is_known, means, 0.0)}, {"score": is_known.astype(float)})
    num_scenes = int(is_known.sum())
    return estimate_of(sums.means("score"), RESAMPLING, num_scenes=num_scenes, lowest=lowest, highest=1.0)


def difference_of(scores: Float64Array, others: Float64Array) -> Estimate:
    """Return the mean of what scores (seeds, S) are above others (other seeds, S), paired by scene.

    A scene counts where both have a score.
    """
    return mean_of((of_scenes(scores) - of_scenes(others))[None], lowest=-1.0)


def leaves_out_zero(difference: Estimate) -> bool:
    """Return whether 0 is outside of the interval; without one, whether there is a difference at all."""
    if np.isnan(difference.low):
        return difference.value != 0
    return not difference.low <= 0.0 <= difference.high


def make_tables(rows: Sequence[RowRuns]) -> Iterator[str]:
    """Yield the lines of a table for each kind of others, and of one of the trainings.

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
    # rows that drive one network have its training in common
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
    """Return the cells of a driver among some others."""
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
