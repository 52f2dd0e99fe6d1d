"""The map of the tests of realism."""

import pytest

from l5kit.evaluation.realism.road_edges import RoadEdges, find_road_edges
from support.driving import make_road_map


@pytest.fixture(scope="session")
def road_edges(tmp_path_factory: pytest.TempPathFactory) -> RoadEdges:
    return find_road_edges(make_road_map(tmp_path_factory.mktemp("road")))
