"""The build file says what is there."""

import importlib
import json
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import l5kit

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
ENTRY_POINTS = sorted(
    [*PROJECT["scripts"].items()]
    + [item for group in PROJECT.get("entry-points", {}).values() for item in group.items()]
)


def pinned():
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(requirement.name): requirement.specifier for requirement in requirements}


def wanted():
    """Every requirement of the package, its extras and the development tools."""
    lists = [
        PROJECT["dependencies"],
        *PROJECT["optional-dependencies"].values(),
        *PYPROJECT["dependency-groups"].values(),
    ]
    return [Requirement(text) for requirements in lists for text in requirements]


@pytest.mark.parametrize(("name", "target"), ENTRY_POINTS)
def test_entry_points_lead_somewhere(name, target):
    module, _, attribute = target.partition(":")
    assert callable(getattr(importlib.import_module(module), attribute))


def test_the_installed_entry_points_are_those_of_the_build_file():
    found = {(entry.name, entry.value) for entry in metadata.distribution("l5kit2").entry_points}
    assert found == set(ENTRY_POINTS)


def test_types_are_handed_on():
    assert (ROOT / "src" / "l5kit" / "py.typed").is_file()


def test_the_version_is_the_first_of_the_changelog():
    (first, *_) = re.findall(r"^## \[?([^\]\s]+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)
    assert first == l5kit.__version__ == metadata.version("l5kit2")


@pytest.mark.parametrize("requirement", wanted(), ids=str)
def test_everything_directly_used_is_pinned_to_a_version_that_the_package_allows(requirement):
    specifiers = pinned()[canonicalize_name(requirement.name)]
    (pin,) = specifiers
    assert pin.operator == "=="
    assert requirement.specifier.contains(pin.version, prereleases=False)


def test_opencv_is_held_at_4_for_bit_equality_but_not_by_the_package():
    (pin,) = pinned()["opencv-python-headless"]
    assert pin.version.startswith("4.")
    (ours,) = [Requirement(text) for text in PROJECT["dependencies"] if text.startswith("opencv")]
    assert ours.specifier.contains("5.0.0")


# --- the package page

URL = PROJECT["urls"]["Source"]
PICTURES_URL = URL.replace("https://github.com/", "https://raw.githubusercontent.com/") + "/main/"
PAGES_URL = f"{URL}/blob/main/"
LINKS = re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)\)", (ROOT / "README.md").read_text("utf-8"))


@pytest.mark.parametrize(("mark", "target"), LINKS, ids=lambda value: str(value)[-40:])
def test_links_of_the_readme_lead_somewhere_from_the_package_page_too(mark, target):
    assert target.startswith("https://")
    start = PICTURES_URL if mark else PAGES_URL
    if mark or target.startswith(URL):
        path, _, _ = target.removeprefix(start).partition("#")
        assert target.startswith(start)
        assert (ROOT / path).is_file()


def test_the_licence_expression_names_the_licences_of_everything_that_is_shipped():
    """A library that is added to the viewer's page needs a licence text and a place in NOTICE and expression."""
    expression = set(PROJECT["license"].split(" AND "))
    notice = (ROOT / "NOTICE").read_text("utf-8")
    assert set(re.findall(r"\((MIT|ISC|BSD-3-Clause|Apache-2.0)\)", notice)) | {"Apache-2.0"} == expression
    for path in (ROOT / "src/l5kit/visualization/viewer/page/vendor").glob("*.LICENSE.txt"):
        assert path.name in notice
        for library in re.findall(r"^==== (\S+) \S+ ====$", path.read_text("utf-8"), flags=re.MULTILINE):
            assert library in notice, f"{library} of {path.name}"


def test_networks_that_ship_are_under_a_licence_of_the_package_and_are_in_the_notice():
    assert "src/l5kit/weights" in (ROOT / "NOTICE").read_text("utf-8")
    for card in (ROOT / "src" / "l5kit" / "weights").glob("*/card.json"):
        assert json.loads(card.read_text("utf-8"))["licence"] in PROJECT["license"].split(" AND ")


def test_the_licence_has_its_copyright_line():
    (line,) = [line for line in (ROOT / "LICENSE").read_text("utf-8").splitlines() if line.startswith("   Copyright ")]
    assert line.strip() == (ROOT / "NOTICE").read_text("utf-8").splitlines()[1]


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert (str(citation["version"]), citation["title"]) == (l5kit.__version__, "l5kit")
    assert citation["repository-code"] == URL
