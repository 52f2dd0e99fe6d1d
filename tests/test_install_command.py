"""The command in errors that installs an extra works: in a clone, and where l5kit came from an index."""

import json
import re
from pathlib import Path

import pytest

from l5kit import errors
from l5kit.errors import install_command

CLONE = Path(errors.__file__).resolve().parents[2]
SOURCE = Path(errors.__file__).resolve().parent


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Let l5kit be an installed package, and set its origin."""
    site = tmp_path / "lib" / "site-packages" / "l5kit" / "errors.py"
    monkeypatch.setattr(errors, "__file__", str(site))

    class Distribution:
        told = None

        def read_text(self, name):
            assert name == "direct_url.json"
            return self.told

    monkeypatch.setattr(errors, "distribution", lambda _: Distribution)
    monkeypatch.setattr(Distribution, "read_text", lambda name: Distribution.told)
    return Distribution


def test_in_a_clone_it_installs_the_clone(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert install_command("viz") == f"pip install -e '{CLONE}[viz]'"
    monkeypatch.chdir(CLONE)
    assert install_command("viz", "rl") == "pip install -e '.[viz,rl]'"


@pytest.mark.parametrize("told", [None, "{}", "no json", json.dumps({"url": "https://server/l5kit2.whl"})])
def test_from_an_index_it_names_the_package(installed, told):
    installed.told = told
    assert install_command("viz") == "pip install 'l5kit2[viz]'"


def test_installed_from_a_clone_it_names_the_clone(installed, tmp_path):
    clone = tmp_path / "my clone"
    (clone / "src" / "l5kit").mkdir(parents=True)
    (clone / "pyproject.toml").touch()
    installed.told = json.dumps({"url": clone.as_uri(), "dir_info": {}})
    assert install_command("train") == f"pip install -e '{clone}[train]'"
    (clone / "pyproject.toml").unlink()
    assert install_command("train") == "pip install 'l5kit2[train]'"


def test_no_other_place_words_it_and_all_extras_exist():
    """One home: whoever writes an install hint of an extra calls the function, with the name of one."""
    texts = {file: file.read_text("utf-8") for file in SOURCE.rglob("*.py")}
    assert [file for file, text in texts.items() if "l5kit2[" in text] == [SOURCE / "errors.py"]
    called = {name for text in texts.values() for name in re.findall(r"install_command\(['\"](\w+)['\"]", text)}
    extras = (CLONE / "pyproject.toml").read_text("utf-8").partition("[project.optional-dependencies]")[2]
    assert len(called) > 10
    assert [name for name in called if not re.search(rf"^{name} = ", extras, re.MULTILINE)] == []
