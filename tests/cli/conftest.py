"""A synthetic city, copies of it to break, and the command in this process."""

import shutil

import pytest
from typer.testing import CliRunner

from l5kit._compiling import CompilationWatch
from l5kit.cli.main import make_app
from support.cities import small_city


@pytest.fixture(scope="session")
def city(tmp_path_factory):
    """Folder of a small synthetic city, never written to."""
    return small_city(tmp_path_factory.mktemp("cli") / "city").path


@pytest.fixture(scope="session")
def drives(city, tmp_path_factory):
    """Folder of a simulation of the city, never written to."""
    from support.driven_folders import drive_city  # looking at logs needs no drivers

    return drive_city(city, tmp_path_factory.mktemp("cli-simulation") / "drives")


@pytest.fixture
def city_copy(city, tmp_path):
    """Folder of a small synthetic city that a test may break."""
    return shutil.copytree(city, tmp_path / "copy")


class _SilentWatch(CompilationWatch):
    def __init__(self, _):
        super().__init__()


@pytest.fixture(autouse=True, scope="module")
def _no_news_of_compilation():
    """Let commands in this process say the same whether or not a test before them has compiled the kernels.

    It holds for a module, because fixtures of modules run commands as well.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("l5kit.cli.reporting.CompilationWatch", _SilentWatch)
        yield


@pytest.fixture
def l5kit():
    """Run the command with some arguments in this process; returns its exit code, stdout and stderr."""

    def run(*arguments):
        return CliRunner().invoke(make_app(), [str(argument) for argument in arguments], prog_name="l5kit")

    return run
