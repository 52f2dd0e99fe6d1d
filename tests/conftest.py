"""Fixtures shared by all tests, and how the tests share the cores of a machine."""

import multiprocessing.process
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from support.maps import FIXTURE_S_MAP
from support.processes.interrupts import take_back_ctrl_c

settings.register_profile("l5kit", deadline=None, derandomize=True)
settings.load_profile("l5kit")

SHARED = Path(__file__).resolve().parents[2] / "shared"

if os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the other workers have the other cores


def pytest_configure() -> None:
    """Let tests that send Ctrl-C do so in the background, too."""
    take_back_ctrl_c()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give the tests of a file to one worker, which makes its fixtures once, and all with a browser to one."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", 1)[0]
            return "browser" if file.endswith("_in_browser.py") else file

    return ByFile(config, log)


@pytest.fixture(scope="module")
def playwright() -> Iterator[Any]:
    """Fixtures that start browsers."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="module")
def browser(playwright: Any) -> Iterator[Any]:
    """Headless Chromium."""
    from support.browser import CHROMIUM, OPTIONS

    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def plain_browser(playwright: Any) -> Iterator[Any]:
    """A browser without WebGL."""
    from support.browser import CHROMIUM, WITHOUT_WEBGL

    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=WITHOUT_WEBGL)
    yield browser
    browser.close()


@pytest.fixture(autouse=True)
def _own_cache_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what the tests cache out of the user's cache folder."""
    monkeypatch.setenv("L5KIT_CACHE_DIR", str(tmp_path_factory.mktemp("l5kit-cache")))


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:
    """Start the global generators of each test alike, so that a test fails always or never."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - the generator that code of 1.5 draws from
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _processes_are_told_of(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse processes of tests that are not marked, so that ``make check`` can leave out all that start some."""
    if any(request.node.get_closest_marker(name) for name in ("browser", "long", "process")):
        return

    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("this test starts a process: mark it with pytest.mark.process")

    start = subprocess.Popen.__init__

    def start_of_fonts(process: Any, command: Any, *arguments: Any, **options: Any) -> None:
        if command[0] != "fc-list":  # with which Matplotlib lists the fonts, once on a new machine, whoever imports it
            refuse()
        start(process, command, *arguments, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", start_of_fonts)
    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", refuse)


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
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a small synthetic city, never written to."""
    from support.cities import small_city  # most tests need none

    return small_city(tmp_path_factory.mktemp("small") / "city").path


@pytest.fixture(scope="session")
def fixture_s_map(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path of the semantic map of fixture S."""
    path = Path(tmp_path_factory.mktemp("map")) / "semantic_map.pb"
    path.write_bytes(FIXTURE_S_MAP)
    return str(path)
