"""A simulated synthetic city, never written to."""

import pytest

from support.cities import small_city


@pytest.fixture(scope="session")
def driven_city(tmp_path_factory):
    """Folders of a city and of its simulation: scenes 0 and 2 were driven to their end, scene 1 breaks in frame 30."""
    from support.driven_folders import drive_city  # looking at logs needs no drivers

    root = tmp_path_factory.mktemp("simulated")
    city = small_city(root / "city").path
    return city, drive_city(city, root / "drives")
