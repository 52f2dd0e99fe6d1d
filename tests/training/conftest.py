"""A made city to train on, in one thread."""

import pytest

from model_cases import one_thread
from synthetic_city import small_city

__all__ = ["one_thread"]


@pytest.fixture(scope="session")
def city(tmp_path_factory):
    """Folder of a small made city, never written to."""
    return small_city(tmp_path_factory.mktemp("training") / "city").path
