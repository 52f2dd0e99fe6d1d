"""Fixtures shared by all tests."""

from pathlib import Path

import pytest
from hypothesis import settings

from fixture_s_map import FIXTURE_S_MAP

settings.register_profile("l5kit", deadline=None, derandomize=True)
settings.load_profile("l5kit")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(autouse=True)
def _own_cache_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what the tests cache out of the user's cache folder."""
    monkeypatch.setenv("L5KIT_CACHE_DIR", str(tmp_path_factory.mktemp("l5kit-cache")))


def _require(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"needs the recorded data of L5Kit 1.5, and {path} does not exist")
    return path


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with one real scene, its maps and its meta.json (never written to)."""
    return _require(SHARED / "data")


@pytest.fixture(scope="session")
def shared_golden() -> Path:
    """Folder with samples recorded from L5Kit 1.5."""
    return _require(SHARED / "golden")


@pytest.fixture(scope="session")
def fixture_s_map(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path of the semantic map of fixture S."""
    path = Path(tmp_path_factory.mktemp("map")) / "semantic_map.pb"
    path.write_bytes(FIXTURE_S_MAP)
    return str(path)
