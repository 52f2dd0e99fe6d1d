"""Realism of agents: distributions of traffic features, simulated against logged."""

from l5kit.evaluation.realism.report import (
    FeatureDistance,
    RateComparison,
    RealismReport,
    compare_counts,
    compare_traffic,
    jensen_shannon_distance,
    wasserstein_distance,
)
from l5kit.evaluation.realism.road_edges import RoadEdges, find_road_edges
from l5kit.evaluation.realism.traffic_counts import (
    EVENTS,
    FEATURES,
    Feature,
    TrafficCounts,
    count_traffic,
    count_values,
)
from l5kit.evaluation.realism.traffic_values import TrafficValues, measure_traffic
from l5kit.evaluation.resampling import Estimate, Resampling

__all__ = [
    "EVENTS",
    "FEATURES",
    "Estimate",
    "Feature",
    "FeatureDistance",
    "RateComparison",
    "RealismReport",
    "Resampling",
    "RoadEdges",
    "TrafficCounts",
    "TrafficValues",
    "compare_counts",
    "compare_traffic",
    "count_traffic",
    "count_values",
    "find_road_edges",
    "jensen_shannon_distance",
    "measure_traffic",
    "wasserstein_distance",
]
