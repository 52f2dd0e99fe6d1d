"""Metrics of a simulation: those of the score, and those that the user adds."""

from collections.abc import Sequence
from dataclasses import dataclass

from l5kit.closedloop.columns import FRAME_COLUMNS, SCENE_COLUMNS
from l5kit.closedloop.own_code import digest_of_object, is_own, read_own, with_whole_file
from l5kit.data.receipts import digest_of_json
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.metric import Metric
from l5kit.evaluation.driving.scene_score import METRICS

__all__ = ["AskedMetric", "Measured", "open_metrics", "with_whole_files"]

AskedMetric = str | Metric
"""``FILE.py:NAME``, or a metric."""


@dataclass(frozen=True)
class Measured:
    """What is measured in a simulation.

    Attributes:
        metrics: All metrics, those of the score first.
        added: Names of those that the user adds.
        digest: Digest of what they are made of; None where there are none.
    """

    metrics: tuple[Metric, ...] = METRICS
    added: tuple[str, ...] = ()
    digest: str | None = None


def open_metrics(asked: Sequence[AskedMetric]) -> Measured:
    """Return what is measured where a user adds metrics.

    Args:
        asked: ``FILE.py:NAME`` for a metric, several of them, or what makes them; or metrics.

    Raises:
        InvalidArgumentError: Something named is no metric, or has the name of a column that is there already.
        FileNotFoundError: There is no such file.
    """
    added: list[Metric] = []
    sources: list[str] = []
    for each in [asked] if isinstance(asked, AskedMetric) else asked:
        found, source = _open(each)
        added += found
        sources.append(source)
    if not added:
        return Measured()
    taken = {*SCENE_COLUMNS, *FRAME_COLUMNS}
    for metric in added:
        columns = {
            metric.name,
            f"first_{metric.name}_frame",
            metric.counted_as or metric.name,
            metric.column or metric.name,
        }
        if columns & taken:
            raise InvalidArgumentError(
                f"metrics (--metrics) has {metric.name!r}, whose columns {', '.join(sorted(columns))} "
                "are not all new: some are there already; give it another name"
            )
        taken |= columns
    facts = {"metrics": [metric.as_json() for metric in added], "sources": sources}
    return Measured((*METRICS, *added), tuple(metric.name for metric in added), digest_of_json(facts))


def with_whole_files(asked: Sequence[AskedMetric]) -> tuple[AskedMetric, ...]:
    """Return metrics with the whole paths of their files, for a process with another working directory."""
    each_asked = [asked] if isinstance(asked, AskedMetric) else asked
    return tuple(with_whole_file(each) if isinstance(each, str) and is_own(each) else each for each in each_asked)


def _open(asked: AskedMetric) -> tuple[list[Metric], str]:
    """Return the metrics of one name, and what tells their code from that of others."""
    if isinstance(asked, Metric):
        return [asked], digest_of_object(asked)
    if not is_own(asked):
        raise InvalidArgumentError(f"metrics (--metrics) is {asked!r}; name a metric of a file of yours: FILE.py:NAME")
    found, source = read_own(
        asked, "metrics (--metrics)", called="metric", is_one=lambda each: isinstance(each, Metric)
    )
    several = list(found) if isinstance(found, list | tuple) else [found]
    metrics = [each for each in several if isinstance(each, Metric)]
    if len(metrics) < len(several):
        raise InvalidArgumentError(
            f"metrics (--metrics) is {asked!r}, which gives {type(found).__name__}; it must be a "
            "l5kit.evaluation.driving.Metric, or a list of them"
        )
    return metrics, source


def _is_metric(found: object) -> bool:
    return isinstance(found, Metric)
