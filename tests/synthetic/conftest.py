"""Towns and simulated scenes that the tests of made cities share."""

import pytest

from l5kit.synthetic import CityFolder
from l5kit.synthetic.scene import Town, build_town
from support.cities import MadeScene, make_scenes, small_city


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the scenes of many seeds: the first test of them waits long, whichever it is."""
    for item in items:
        if "made_scenes" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def made_scenes() -> list[MadeScene]:
    """Scenes of many seeds; no test changes them."""
    return make_scenes()


@pytest.fixture(scope="session")
def town() -> Town:
    """A town of sixteen intersections."""
    return build_town(500.0, seed=1)


@pytest.fixture(scope="session")
def city(tmp_path_factory: pytest.TempPathFactory) -> CityFolder:
    """A small city on disk; no test changes it."""
    return small_city(tmp_path_factory.mktemp("made") / "city")
