"""Realism of agents: distances between the distributions of traffic in simulated scenes and in the log."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from l5kit._types import Float64Array, NumericArray
from l5kit.data.scene_arrays import SceneArrays
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.ego_states import EgoBody
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.evaluation.realism.road_edges import RoadEdges, find_road_edges
from l5kit.evaluation.realism.traffic_counts import CELLS_PER_BIN, EVENTS, FEATURES, TrafficCounts, count_traffic
from l5kit.evaluation.resampling import Estimate, Resampling, estimate_of
from l5kit.lanes.driving_map import DrivingMap


def jensen_shannon_distance(first: NumericArray, second: NumericArray) -> Float64Array:
    """Return the Jensen-Shannon distance: the square root of the divergence to base 2.

    With shares p and q of the bins and m = (p + q) / 2 it is sqrt((KL(p, m) + KL(q, m)) / 2), where KL(p, m) sums
    p log2(p / m) over the bins with p > 0. It is symmetric, satisfies the triangle inequality, and ranges from 0 for
    equal shares to 1 if no bin is shared. Source: Endres and Schindelin, "A New Metric for Probability Distributions",
    2003.

    Args:
        first: Counts of bins, at least 0, (..., K).
        second: As ``first``.

    Returns:
        Distances, (...), NaN if either has no counts.

    Raises:
        InvalidArgumentError: The shapes differ.
    """
    p, q = _shares(first, second)
    middle = 0.5 * (p + q)
    divergences = 0.5 * (_relative_entropies(p, middle) + _relative_entropies(q, middle))
    distances: Float64Array = np.sqrt(np.clip(divergences, 0.0, 1.0))
    return distances


def wasserstein_distance(first: NumericArray, second: NumericArray, *, cell_width: float) -> Float64Array:
    """Return the Wasserstein distance of order 1: the mean distance by which shares must be moved to become the others.

    It is the area between the cumulative shares. Values counted into cells are placed at the centres of the cells,
    which changes the distance by at most the width of a cell.

    Args:
        first: Counts of cells of equal width, at least 0, (..., K).
        second: As ``first``.
        cell_width: Width of a cell, in any unit.

    Returns:
        Distances in that unit, (...), NaN if either has no counts.

    Raises:
        InvalidArgumentError: The shapes differ.
    """
    p, q = _shares(first, second)
    apart = np.abs(np.cumsum(p, axis=-1) - np.cumsum(q, axis=-1))
    distances: Float64Array = cell_width * apart[..., :-1].sum(axis=-1)
    return distances


def _shares(first: NumericArray, second: NumericArray) -> tuple[Float64Array, Float64Array]:
    """Return counts divided by their sums, NaN where these are 0."""
    if first.shape != second.shape or first.ndim == 0:
        raise InvalidArgumentError(
            f"counts to compare must have the same shape (..., K), got {first.shape} and {second.shape}"
        )
    sums = first.sum(axis=-1, keepdims=True), second.sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        p, q = first / sums[0], second / sums[1]
    return p, q


def _relative_entropies(shares: Float64Array, others: Float64Array) -> Float64Array:
    """Return the relative entropy in bits of shares (..., K) to others, which are above 0 wherever these are, (...)."""
    is_empty = shares == 0
    logs = np.log2(np.where(is_empty, 1.0, shares) / np.where(is_empty, 1.0, others))
    entropies: Float64Array = (shares * logs).sum(axis=-1)
    return entropies


@dataclass(frozen=True)
class FeatureDistance:
    """Distance of the simulated distribution of a feature to that of the log.

    Attributes:
        name: One of :data:`~l5kit.evaluation.realism.traffic_counts.FEATURES`.
        unit: Unit of the feature, and of the Wasserstein distance.
        num_simulated: Number of values in the simulated scenes; 0 if the feature cannot be computed, as without a map.
        num_logged: Number of values in the log.
        jensen_shannon: The Jensen-Shannon distance, from 0 to 1.
        wasserstein: The Wasserstein distance of order 1.
    """

    name: str
    unit: str
    num_simulated: int
    num_logged: int
    jensen_shannon: Estimate
    wasserstein: Estimate


@dataclass(frozen=True)
class RateComparison:
    """Rates of an event in the simulated scenes and in the log.

    Attributes:
        name: One of :data:`~l5kit.evaluation.realism.traffic_counts.EVENTS`.
        simulated: Rate in the simulated scenes, 0 to 1; NaN if it cannot be computed, as without a map.
        logged: Rate in the log.
        difference: Simulated minus logged, with the same scenes in each draw.
    """

    name: str
    simulated: Estimate
    logged: Estimate
    difference: Estimate


@dataclass(frozen=True)
class RealismReport:
    """Comparison of the traffic of simulated scenes with that of the log.

    Attributes:
        num_scenes: Number of compared scenes.
        num_simulated_tracks: Number of counted tracks in the simulated scenes.
        num_logged_tracks: Number of counted tracks in the log.
        features: One for each of :data:`~l5kit.evaluation.realism.traffic_counts.FEATURES`.
        rates: One for each of :data:`~l5kit.evaluation.realism.traffic_counts.EVENTS`.
    """

    num_scenes: int
    num_simulated_tracks: int
    num_logged_tracks: int
    features: tuple[FeatureDistance, ...]
    rates: tuple[RateComparison, ...]

    def as_dict(self) -> dict[str, object]:
        """Return plain values for JSON: features and rates by name, intervals as lists, None for unknown values."""
        return {
            "num_scenes": self.num_scenes,
            "num_simulated_tracks": self.num_simulated_tracks,
            "num_logged_tracks": self.num_logged_tracks,
            "features": {feature.name: _plain(feature) for feature in self.features},
            "rates": {rate.name: _plain(rate) for rate in self.rates},
        }

    def rows(self) -> list[dict[str, str | float | None]]:
        """Return a row for each number: what, measure, unit, value, low, high; None for unknown values."""
        rows = []
        for feature in self.features:
            rows.append(_row(feature.name, "jensen_shannon", "", feature.jensen_shannon))
            rows.append(_row(feature.name, "wasserstein", feature.unit, feature.wasserstein))
        for rate in self.rates:
            rows.extend(
                _row(rate.name, kind, "", getattr(rate, kind)) for kind in ("simulated", "logged", "difference")
            )
        return rows


def compare_traffic(
    simulated: Sequence[SceneArrays],
    logged: Sequence[SceneArrays],
    *,
    driven_tracks: Sequence[NumericArray] | None = None,
    driving_map: DrivingMap | RoadEdges | None = None,
    groups: Sequence[RoadUserGroup] = (RoadUserGroup.VEHICLE,),
    body: EgoBody | None = None,
    resampling: Resampling | None = None,
) -> RealismReport:
    """Compare the traffic of simulated scenes with that of the log.

    Args:
        simulated: S scenes as driven.
        logged: The same scenes as recorded, with the same frames.
        driven_tracks: Ids of the tracks to count in each scene, S arrays: those that were driven. All by default. The
            same tracks count in the log.
        driving_map: The map of the scenes, or its precomputed edges; without it, values that need a map are NaN.
        groups: Groups of road users to count; vehicles by default.
        body: The box of the AV, as a neighbour of the others; that of the published dataset by default.
        resampling: Resampling of scenes for the intervals.

    Raises:
        InvalidArgumentError: The scenes do not have the same frames, or as for :func:`count_traffic`.
    """
    if len(simulated) != len(logged):
        raise InvalidArgumentError(
            f"simulated and logged must be the same scenes, got {len(simulated)} and {len(logged)} of them"
        )
    for index, (driven, recorded) in enumerate(zip(simulated, logged, strict=True)):
        if driven.num_frames != recorded.num_frames:
            raise InvalidArgumentError(
                f"scene {index} has {driven.num_frames} frames simulated and {recorded.num_frames} logged; cut the "
                "logged scene to the simulated frames"
            )
    edges = find_road_edges(driving_map) if isinstance(driving_map, DrivingMap) else driving_map
    counts = [
        count_traffic(scenes, tracks=driven_tracks, groups=groups, edges=edges, body=body)
        for scenes in (simulated, logged)
    ]
    return compare_counts(*counts, resampling=resampling)


def compare_counts(
    simulated: TrafficCounts, logged: TrafficCounts, *, resampling: Resampling | None = None
) -> RealismReport:
    """Compare the counts of simulated scenes with those of logged ones.

    Args:
        simulated: Counts of S scenes as driven.
        logged: Counts of the same scenes as recorded.
        resampling: Resampling of scenes for the intervals.

    Raises:
        InvalidArgumentError: The numbers of scenes differ.
    """
    if simulated.num_scenes != logged.num_scenes:
        raise InvalidArgumentError(
            f"simulated and logged must be the same scenes, got {simulated.num_scenes} and {logged.num_scenes} of them"
        )
    resampling = Resampling() if resampling is None else resampling
    weights = resampling.weights(simulated.num_scenes)
    # events divided by chances, NaN without any chance
    rates = []
    for column, event in enumerate(EVENTS):
        with np.errstate(invalid="ignore"):
            driven, recorded = (
                (weights @ counts.events[:, column]) / (weights @ counts.chances[:, column])
                for counts in (simulated, logged)
            )
        estimate = partial(estimate_of, resampling=resampling, num_scenes=simulated.num_scenes, highest=1.0)
        rates.append(
            RateComparison(
                name=event,
                simulated=estimate(driven, lowest=0.0),
                logged=estimate(recorded, lowest=0.0),
                difference=estimate(driven - recorded, lowest=-1.0),
            )
        )
    # distances of features from their cells; bins are sums of cells, and sums of integers are exact
    features = []
    for feature, *cells in zip(FEATURES, simulated.cells, logged.cells, strict=True):
        counts = [weights @ each for each in cells]
        bins = [each.reshape(len(weights), feature.num_bins, CELLS_PER_BIN).sum(axis=-1) for each in counts]
        divergent = jensen_shannon_distance(bins[0], bins[1])
        moved = wasserstein_distance(counts[0], counts[1], cell_width=feature.cell_width)
        size = simulated.num_scenes
        features.append(
            FeatureDistance(
                name=feature.name,
                unit=feature.unit,
                num_simulated=int(cells[0].sum()),
                num_logged=int(cells[1].sum()),
                jensen_shannon=estimate_of(divergent, resampling, num_scenes=size, lowest=0.0, highest=1.0),
                wasserstein=estimate_of(moved, resampling, num_scenes=size, lowest=0.0),
            )
        )
    return RealismReport(
        num_scenes=simulated.num_scenes,
        num_simulated_tracks=int(simulated.chances[:, 0].sum()),
        num_logged_tracks=int(logged.chances[:, 0].sum()),
        features=tuple(features),
        rates=tuple(rates),
    )


def _plain(part: FeatureDistance | RateComparison) -> dict[str, object]:
    """Return the fields except the name; estimates as value and interval."""
    plain: dict[str, object] = {}
    for field in dataclasses.fields(part)[1:]:
        content = getattr(part, field.name)
        if isinstance(content, Estimate):
            low, high = _known(content.low), _known(content.high)
            content = {"value": _known(content.value), "interval": None if low is None else [low, high]}
        plain[field.name] = content
    return plain


def _row(name: str, measure: str, unit: str, estimate: Estimate) -> dict[str, str | float | None]:
    low, high = _known(estimate.low), _known(estimate.high)
    return {"what": name, "measure": measure, "unit": unit, "value": _known(estimate.value), "low": low, "high": high}


def _known(number: float) -> float | None:
    return None if np.isnan(number) else number
