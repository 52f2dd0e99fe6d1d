"""Fixtures of the raster tests."""

from pathlib import Path

import pytest

from raster_cases import save_fixture_s_map


@pytest.fixture(scope="session")
def fixture_s_map(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path of the semantic map of fixture S."""
    return save_fixture_s_map(Path(tmp_path_factory.mktemp("map")))
