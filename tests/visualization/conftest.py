"""A synthetic city for tests of pictures."""

import importlib.util

import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from support.cities import small_city

# These sample from datasets, which are torch datasets; the other modules run on Pythons without torch too.
collect_ignore = [] if importlib.util.find_spec("torch") else ["test_scene_pictures.py", "test_showcase.py"]


@pytest.fixture(scope="session")
def city_files(tmp_path_factory):
    """Files of a small synthetic city."""
    return find_dataset_files(small_city(tmp_path_factory.mktemp("visualization") / "city").path)


@pytest.fixture
def city_log(city_files):
    """Its dataset, opened."""
    return ChunkedDataset(city_files.dataset).open()
