"""A made city to train on, in one thread."""

import pytest

from support.cities import small_city
from support.models import one_thread

__all__ = ["one_thread"]


@pytest.fixture(scope="session")
def city(tmp_path_factory):
    """Folder of a small made city, never written to."""
    return small_city(tmp_path_factory.mktemp("training") / "city").path
