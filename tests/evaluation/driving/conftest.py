"""The map of the tests of scores of driving."""

import pytest

from l5kit.lanes.driving_map import DrivingMap
from support.driving import make_road_map


@pytest.fixture(scope="session")
def road_map(tmp_path_factory: pytest.TempPathFactory) -> DrivingMap:
    return make_road_map(tmp_path_factory.mktemp("road"))
