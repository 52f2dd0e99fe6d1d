"""Metrics of a simulation: those of the requested scores, and those added by the user."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from l5kit.closedloop.tables import FRAME_COLUMNS, SCENE_COLUMNS
from l5kit.configs.own_code import digest_of_code, digest_of_object, is_own, read_own
from l5kit.configs.texts import did_you_mean
from l5kit.data.jobs.receipts import digest_of_json
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.metric import NUPLAN, Metric
from l5kit.evaluation.driving.scene_score import METRICS
from l5kit.evaluation.epdms.scene_metrics import EPDMS_METRICS
from l5kit.evaluation.epdms.terms import EPDMS

RequestedMetric = str | Metric
"""``FILE.py:NAME``, or a metric object."""


SCORES: Final[Mapping[str, tuple[Metric, ...]]] = {NUPLAN: METRICS, EPDMS: EPDMS_METRICS}
"""The available scores and their metrics."""


@dataclass(frozen=True)
class Measured:
    """The metrics and scores of a simulation.

    Attributes:
        metrics: All metrics, those of the scores first.
        added: Names of the metrics added by the user.
        digest: Digest of the added metrics; None without any.
        scores: Names of :data:`SCORES`; tables show the first as the score.
    """

    metrics: tuple[Metric, ...] = METRICS
    added: tuple[str, ...] = ()
    digest: str | None = None
    scores: tuple[str, ...] = (NUPLAN,)

    @property
    def needs_windows(self) -> bool:
        """Whether windows of scenes are scored, which requires keeping plans."""
        return EPDMS in self.scores


def find_scores(requested: str | Sequence[str]) -> tuple[str, ...]:
    """Return the requested scores, in the order of :data:`SCORES`.

    Args:
        requested: One or several names; a text may list several, separated by commas.

    Raises:
        InvalidArgumentError: A score is unknown, or none is named.
    """
    named = [name for text in ([requested] if isinstance(requested, str) else requested) for name in text.split(",")]
    for name in named or [""]:
        if name not in SCORES:
            raise InvalidArgumentError(
                f"score (--score) is {name!r}{did_you_mean(name, tuple(SCORES))}; allowed are {', '.join(SCORES)}, or "
                f"both: {','.join(SCORES)}"
            )
    return tuple(name for name in SCORES if name in named)


def open_metrics(requested: Sequence[RequestedMetric], scores: tuple[str, ...] = (NUPLAN,)) -> Measured:
    """Return the metrics of the requested scores together with those added by the user.

    Args:
        requested: Metrics, or ``FILE.py:NAME`` of a metric, a list of metrics, or a function that returns them.
        scores: As :func:`find_scores` returns them.

    Raises:
        InvalidArgumentError: An object is not a metric, its columns exist already, or it has a role in a score that
            was not requested.
        FileNotFoundError: The file does not exist.
    """
    added: list[Metric] = []
    sources: list[str] = []
    for each in [requested] if isinstance(requested, RequestedMetric) else requested:
        metrics, source = _open(each)
        added += metrics
        sources.append(source)
    of_scores = tuple(metric for name in scores for metric in SCORES[name])
    if not added:
        return Measured(of_scores, scores=scores)
    # a metric adds up to four columns to the tables; none may replace another
    taken = {*SCENE_COLUMNS, *FRAME_COLUMNS, *(metric.name for metric in of_scores)}
    for metric in added:
        if metric.role is not None and NUPLAN not in scores:
            raise InvalidArgumentError(
                f"metrics (--metrics) has {metric.name!r} with the role {metric.role!r} in the score {NUPLAN!r}, but "
                f"score (--score) is {', '.join(scores)}; add {NUPLAN}, or give it no role"
            )
        columns = {
            metric.name,
            f"first_{metric.name}_frame",
            metric.counted_as or metric.name,
            metric.column or metric.name,
        }
        if columns & taken:
            raise InvalidArgumentError(
                f"metrics (--metrics) has {metric.name!r}, but some of its columns {', '.join(sorted(columns))} "
                "exist already; give it another name"
            )
        taken |= columns
    facts = {"metrics": [metric.as_json() for metric in added], "sources": sources}
    return Measured((*of_scores, *added), tuple(metric.name for metric in added), digest_of_json(facts), scores)


def _open(requested: RequestedMetric) -> tuple[list[Metric], str]:
    """Return the metrics that a request names, and a digest of their code."""
    if isinstance(requested, Metric):
        return [requested], digest_of_object(requested) + digest_of_code(requested.of_frames)
    if not isinstance(requested, str) or not is_own(requested):
        raise InvalidArgumentError(
            f"metrics (--metrics) is {requested!r}; name a metric in a file of yours: FILE.py:NAME"
        )
    value, source = read_own(
        requested, "metrics (--metrics)", called="metric", is_one=lambda each: isinstance(each, Metric)
    )
    several = list(value) if isinstance(value, list | tuple) else [value]
    metrics = [each for each in several if isinstance(each, Metric)]
    if len(metrics) < len(several):
        raise InvalidArgumentError(
            f"metrics (--metrics) is {requested!r}, which gives {type(value).__name__}; it must be a "
            "l5kit.evaluation.driving.Metric, or a list of them"
        )
    return metrics, source
