"""A made log, of which runs are."""

import pytest

from support.cities import small_city


@pytest.fixture(scope="session")
def city_log(tmp_path_factory):
    """Path of the log of a small synthetic city, never written to."""
    return small_city(tmp_path_factory.mktemp("comparison") / "city").path / "scenes" / "sample.zarr"
