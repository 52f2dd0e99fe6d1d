"""Comparison of runs: means with intervals, significant differences, and the scenes that were won and lost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from l5kit._types import BoolArray, Float64Array
from l5kit.comparison.planners import (
    CommonScenes,
    ComparedPlanner,
    RunFolders,
    find_common,
    find_common_metrics,
    find_groups,
    read_planners,
)
from l5kit.comparison.scored_run import TRAINING, SceneKey
from l5kit.configs.texts import did_you_mean
from l5kit.errors import InvalidArgumentError, MissingDependencyError, install_command
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.evaluation.resampling import PairedMean, Resampling, SceneValues, adjust_by_holm, paired_means

if TYPE_CHECKING:
    import pandas as pd

ALL_SCENES: Final = "all"
"""The tag of rows over all scenes."""

_DEFAULT_DRAWS: Final = Resampling(num_draws=10_000)
_DIGITS: Final = 9
"""Decimals of the differences that order scenes; equal ones stay in scene order. Tables have six."""


@dataclass(frozen=True)
class ComparisonRow:
    """A line of the table: a planner's metric over the scenes with a tag.

    Attributes:
        planner: Name of the planner.
        metric: The metric.
        tag: Selection of scenes: :data:`ALL_SCENES` or a tag.
        paired: The mean, and the difference to the reference.
        chance: The p-value, corrected for multiple comparisons (Holm); NaN for the reference.
        level: Level of the intervals; differences whose p-value is below 1 - level are significant.
    """

    planner: str
    metric: MetricFacts
    tag: str
    paired: PairedMean
    chance: float
    level: float

    @property
    def is_beyond_chance(self) -> bool:
        """Whether the planner differs significantly from the reference."""
        return bool(self.chance < 1.0 - self.level)

    @property
    def verdict(self) -> str:
        """``better`` or ``worse`` than the reference; empty if the difference is not significant."""
        if not self.is_beyond_chance:
            return ""
        return "better" if (self.paired.difference.value > 0) == (self.metric.better == "high") else "worse"

    def as_dict(self) -> dict[str, str | int | float | None]:
        """Return the cells of the row by column, None for unknown values."""
        mean, difference = self.paired.mean, self.paired.difference
        figures = {
            "mean": mean.value,
            "mean_low": mean.low,
            "mean_high": mean.high,
            "difference": difference.value,
            "difference_low": difference.low,
            "difference_high": difference.high,
            "p_value": self.paired.chance,
            "p_corrected": self.chance,
        }
        return {
            "tag": self.tag,
            "metric": self.metric.name,
            "unit": self.metric.unit,
            "planner": self.planner,
            "scenes": self.paired.num_scenes,
            **{name: None if np.isnan(value) else value for name, value in figures.items()},
            "verdict": self.verdict,
            "scenes_better": self.paired.num_better,
            "scenes_worse": self.paired.num_worse,
        }


@dataclass(frozen=True)
class SceneDifference:
    """A scene that a planner has won or lost.

    Attributes:
        scene: Log and scene number.
        value: Value of the planner.
        reference: Value of the reference.
        failures: Failures of the planner, in a few words.
        failures_of_reference: Failures of the reference.
        tags: Tags of the scene; empty if not requested.
    """

    scene: SceneKey
    value: float
    reference: float
    failures: str
    failures_of_reference: str
    tags: tuple[str, ...]

    @property
    def difference(self) -> float:
        """Value of the planner minus that of the reference."""
        return self.value - self.reference


@dataclass(frozen=True, eq=False)
class Comparison:
    """Planners compared over the scenes common to all of their runs.

    Attributes:
        planners: The P planners.
        reference: Name of the planner that the others are compared with.
        metrics: The M compared metrics; the first one is the score.
        common: The S common scenes, and the ones left out.
        values: Value of each planner in each scene, averaged over its runs.
        tags: Whether each scene has a tag, (S,) by tag; empty if not requested.
        rows: The table: by tag, by metric, by planner.
        resampling: Settings of the bootstrap.
        notes: Remarks on the comparison.
    """

    planners: tuple[ComparedPlanner, ...]
    reference: str
    metrics: tuple[MetricFacts, ...]
    common: CommonScenes = field(repr=False)
    values: SceneValues = field(repr=False)
    tags: Mapping[str, BoolArray] = field(repr=False)
    rows: tuple[ComparisonRow, ...] = field(repr=False)
    resampling: Resampling
    notes: tuple[str, ...] = field(repr=False)

    def __repr__(self) -> str:
        means = [f"{row.planner} {row.paired.mean.value:.3f}" for row in self.table(self.metrics[0].name)]
        return f"<Comparison by {self.metrics[0].name} over {len(self.common.scenes)} scenes: {', '.join(means)}>"

    @property
    def is_of_trainings(self) -> bool:
        """Whether trainings are compared, which keep means but no scores of scenes."""
        return self.planners[0].runs[0].kind == TRAINING

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the planners."""
        return tuple(planner.name for planner in self.planners)

    def table(self, metric: str | None = None, *, tag: str = ALL_SCENES) -> list[ComparisonRow]:
        """Return the rows of a metric, by default of all metrics, over the scenes with a tag."""
        return [row for row in self.rows if row.tag == tag and metric in (None, row.metric.name)]

    def values_of(self, planner: str, metric: str) -> Float64Array:
        """Return the value of a planner in each scene, (S,)."""
        values: Float64Array = self.values.values[self.names.index(planner), :, self._column_of(metric)]
        return values

    def seed_means(self, planner: str, metric: str) -> list[float]:
        """Return the mean of each run of a planner, over the scenes where all planners have a value."""
        # Scenes are weighted by the number of values they average, as in the mean of the planner.
        is_known = self.values.is_known[:, self._column_of(metric)]
        counts = self.values.counts[is_known, self._column_of(metric)]
        compared = self.planners[self.names.index(planner)]
        values = compared.seed_values(self.common.scenes, [metric])[:, is_known, 0]
        return [float(np.average(row, weights=counts)) if len(row) else np.nan for row in values]

    def gains(self, planner: str, metric: str | None = None) -> Float64Array:
        """Return by how much a planner is better than the reference in each scene, (S,).

        The gain is 0 in scenes where both have the same value or one of them has none.

        Args:
            planner: Name of the planner.
            metric: Name of the metric; the score by default.
        """
        facts = self.metrics[0 if metric is None else self._column_of(metric)]
        above = self.values_of(planner, facts.name) - self.values_of(self.reference, facts.name)
        gains: Float64Array = np.nan_to_num(above if facts.better == "high" else -above)
        return gains.round(_DIGITS)

    def differences(self, planner: str, metric: str | None = None) -> list[SceneDifference]:
        """Return the scenes in which a planner differs from the reference, the largest gain first.

        Args:
            planner: Name of the planner.
            metric: Name of the metric; the score by default.
        """
        name = metric or self.metrics[0].name
        mine, others = self.values_of(planner, name), self.values_of(self.reference, name)
        gains = self.gains(planner, metric)
        order = [index for index in np.argsort(-gains, kind="stable").tolist() if gains[index]]
        compared, reference = (self.planners[self.names.index(each)] for each in (planner, self.reference))
        return [
            SceneDifference(
                scene=self.common.scenes[index],
                value=float(mine[index]),
                reference=float(others[index]),
                failures=compared.failures(self.common.scenes[index]),
                failures_of_reference=reference.failures(self.common.scenes[index]),
                tags=self.tags_of(index),
            )
            for index in order
        ]

    def tags_of(self, index: int) -> tuple[str, ...]:
        """Return the tags of a scene, by its index in the common scenes."""
        return tuple(tag for tag, has in self.tags.items() if has[index])

    def to_pandas(self) -> "pd.DataFrame":
        """Return the table as a data frame: a row for each tag, metric and planner.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return _as_frame([row.as_dict() for row in self.rows], called="to_pandas")

    def scenes_to_pandas(self) -> "pd.DataFrame":
        """Return the values of planners in scenes: a row for each scene and planner, a column for each metric.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return _as_frame(list(self.scene_rows()), called="scenes_to_pandas")

    def scene_rows(self) -> Iterator[dict[str, str | int | float | None]]:
        """Yield the values of planners in scenes: a row for each scene and planner, a column for each metric."""
        for index, (log, scene) in enumerate(self.common.scenes):
            for planner, of_planner in zip(self.planners, self.values.values[:, index], strict=True):
                known = zip(self.metrics, of_planner.tolist(), strict=True)
                yield {
                    "log": log,
                    "scene": scene,
                    "planner": planner.name,
                    **{metric.name: None if np.isnan(value) else value for metric, value in known},
                    "failures": planner.failures((log, scene)),
                    **({"tags": ", ".join(self.tags_of(index))} if self.tags else {}),
                }

    def _column_of(self, metric: str) -> int:
        return [each.name for each in self.metrics].index(metric)


def compare(
    runs: RunFolders,
    *,
    reference: str | None = None,
    metrics: Sequence[str] = (),
    tags: bool = False,
    resampling: Resampling = _DEFAULT_DRAWS,
    show_bar: bool = True,
) -> Comparison:
    """Compare runs over the scenes that all of them have.

    Intervals come from a paired bootstrap: scenes are resampled, the same for all planners. The unit of resampling is
    the scene; several runs of a planner (its seeds) are first averaged within each scene. Means of open-loop errors are
    over samples, of which a scene has several. P-values are corrected (Holm) for all differences of the score together,
    for all of the other metrics together, and likewise for those by tag.

    Args:
        runs: Folders of ``l5kit simulate``, of ``l5kit evaluate``, or of trainings, whose final scores have no
            intervals; ``NAME=FOLDER,FOLDER`` names the seeds of a planner, as does a mapping of names to folders.
        reference: Name of the planner that the others are compared with; the first one by default. A single folder is
            named after itself.
        metrics: Names of the metrics to compare in addition to the score; by default all that the runs have in common.
        tags: Whether to compare also by scene tag; tags are computed from the log, at 25 ms per scene, and cached.
        resampling: Settings of the bootstrap.
        show_bar: Whether to show a progress bar, if standard error is a terminal.

    Raises:
        IncomparableError: Runs differ in data, frames, score or samples, or have no scene in common; the message
            names the difference.
        InvalidArgumentError: There are fewer than two planners, a folder holds no run, or there is no such planner or
            metric.
        CorruptedDataError: A file of a run is missing or damaged.
    """
    planners = read_planners(runs)
    names = [planner.name for planner in planners]
    if reference is None:
        reference = names[0]
    if reference not in names:
        raise InvalidArgumentError(
            f"reference is {reference!r}{did_you_mean(reference, names)}; the planners are {', '.join(names)}"
        )
    common = find_common(planners)
    measured, lacking = find_common_metrics(planners)
    known = [metric.name for metric in measured]
    for name in metrics:
        if name not in known:
            raise InvalidArgumentError(
                f"metrics has {name!r}{did_you_mean(name, known)}; the runs have {', '.join(known)} in common"
            )
    if metrics:
        measured = tuple(metric for metric in measured if metric is measured[0] or metric.name in metrics)
    groups = find_groups(planners[0].runs[0], common.scenes, show_bar=show_bar) if tags else {}

    # The first row of the mask selects all scenes, the others the scenes with each tag.
    values = _values_of(planners, common.scenes, measured)
    means = paired_means(
        values,
        np.stack([np.ones(len(common.scenes), np.bool_), *groups.values()]),
        measured,
        reference=names.index(reference),
        resampling=resampling,
    )
    notes = [*common.differences, *common.why]
    if lacking:
        notes.append(f"left out, as not all runs have it: {', '.join(lacking)}")
    if planners[0].runs[0].kind == TRAINING:
        notes.append(
            "trainings keep no scores of scenes, so there are no intervals; simulate or evaluate their weights to have "
            "some"
        )
    return Comparison(
        planners=planners,
        reference=reference,
        metrics=measured,
        common=common,
        values=values,
        tags=groups,
        rows=tuple(_rows_of(means, (ALL_SCENES, *groups), measured, names, resampling.level)),
        resampling=resampling,
        notes=tuple(notes),
    )


def _values_of(
    planners: Sequence[ComparedPlanner], scenes: Sequence[SceneKey], metrics: Sequence[MetricFacts]
) -> SceneValues:
    """Return the values of planners in scenes, averaged over their runs that have one."""
    names = [metric.name for metric in metrics]
    means = []
    for planner in planners:
        of_runs = planner.seed_values(scenes, names)
        num_known = (~np.isnan(of_runs)).sum(axis=0)  # np.nanmean would warn about scenes without any value
        sums = np.nansum(of_runs, axis=0)
        means.append(np.divide(sums, num_known, out=np.full(sums.shape, np.nan), where=num_known > 0))
    run = planners[0].runs[0]
    return SceneValues(np.stack(means), run.counts[run.cells(scenes, names)])


def _rows_of(
    means: Sequence[Sequence[Sequence[PairedMean]]],
    tags: Sequence[str],
    metrics: Sequence[MetricFacts],
    names: Sequence[str],
    level: float,
) -> Iterator[ComparisonRow]:
    """Yield the rows of the table, with p-values corrected within four families of hypotheses.

    These are the score over all scenes, the other metrics over all scenes, and both by tag.
    """
    # Families are corrected separately, so that many metrics or tags cannot hide a significant score.
    chances = np.array([[[each.chance for each in of_metric] for of_metric in of_tag] for of_tag in means])
    corrected = np.full(chances.shape, np.nan)
    for of_tags in (slice(0, 1), slice(1, None)):
        for of_metrics in (slice(0, 1), slice(1, None)):
            family = chances[of_tags, of_metrics]
            corrected[of_tags, of_metrics] = adjust_by_holm(family.ravel()).reshape(family.shape)
    for tag, of_tag, of_tag_corrected in zip(tags, means, corrected, strict=True):
        for metric, of_metric, of_metric_corrected in zip(metrics, of_tag, of_tag_corrected, strict=True):
            for name, paired, chance in zip(names, of_metric, of_metric_corrected.tolist(), strict=True):
                yield ComparisonRow(name, metric, tag, paired, chance, level)


def _as_frame(rows: Sequence[Mapping[str, str | int | float | None]], *, called: str) -> "pd.DataFrame":
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingDependencyError(f"{called} needs pandas: {install_command('pandas')}") from error
    return pd.DataFrame(rows)
