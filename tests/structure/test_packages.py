"""The image and the conda package: they agree with the build file and with existing files."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import l5kit

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
BUILD = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]
RECIPE = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text("utf-8"))
NAMES_ON_CONDA = {"msgspec": "msgspec-python", "opencv-python-headless": "py-opencv", "torch": "pytorch"}


def on_conda(text):
    """A requirement as conda-forge names it, where OpenCV has its own version and not that of a wheel."""
    requirement = Requirement(text)
    (specifier,) = requirement.specifier
    version = specifier.version.removesuffix(".0.84")
    return f"{NAMES_ON_CONDA.get(requirement.name, requirement.name)} {specifier.operator}{version}"


def test_the_conda_package_needs_what_the_build_file_says():
    needs = RECIPE["requirements"]
    python = f"python {PROJECT['requires-python']}"
    assert needs["run"] == [python, *map(on_conda, PROJECT["dependencies"])]
    assert needs["host"] == [python, "pip", *map(on_conda, BUILD["requires"])]


def test_the_conda_package_is_of_this_version_and_licence_with_its_command():
    assert RECIPE["context"]["version"] == l5kit.__version__
    assert RECIPE["package"]["name"] == PROJECT["name"]
    assert RECIPE["build"]["python"]["entry_points"] == [
        f"{key} = {value}" for key, value in PROJECT["scripts"].items()
    ]
    about = RECIPE["about"]
    assert (about["license"], about["summary"]) == (PROJECT["license"], PROJECT["description"])
    assert about["repository"] == PROJECT["urls"]["Source"]
    assert all((ROOT / name).is_file() for name in about["license_file"])


def test_the_conda_package_is_built_of_this_checkout():
    assert (ROOT / "recipe" / RECIPE["source"]["path"]).resolve() == ROOT


# --- the image

INSTRUCTIONS = [
    line.split(maxsplit=1)
    for line in (ROOT / "Containerfile").read_text("utf-8").replace("\\\n", " ").splitlines()
    if line and not line.startswith("#")
]


def sources():
    return [source for word, rest in INSTRUCTIONS if word == "COPY" for source in rest.split()[:-1]]


def test_the_image_has_a_python_that_is_supported():
    (start,) = [rest for word, rest in INSTRUCTIONS if word == "FROM"]
    version = re.fullmatch(r"python:(3\.\d+)-slim", start)[1]
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]


@pytest.mark.parametrize("source", sources())
def test_what_the_image_copies_is_there_and_not_ignored(source):
    assert (ROOT / source).exists()
    assert f"!{source}" in (ROOT / ".dockerignore").read_text("utf-8").splitlines()


def test_the_image_has_all_that_the_build_of_the_package_reads():
    assert {"pyproject.toml", "src", PROJECT["readme"], "LICENSE", "NOTICE"} <= set(sources())


def test_the_image_installs_no_torch_and_extras_that_there_are():
    (install,) = [rest for word, rest in INSTRUCTIONS if word == "RUN" and "dependencies.py" in rest]
    words = shlex.split(install.partition(">")[0])
    assert words[:2] == ["python", ".ci/dependencies.py"]
    assert set(words[2:]) <= set(PROJECT["optional-dependencies"])


def test_the_image_runs_the_demo():
    last = dict(INSTRUCTIONS)
    assert last["ENTRYPOINT"] == '["l5kit"]'
    assert last["CMD"] == '["demo", "--out", "/out"]'
