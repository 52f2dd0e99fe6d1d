"""Packages with lazy names: each is loaded on first use, as the ``__init__.pyi`` next to the ``__init__`` says."""

import ast
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "l5kit"
SURFACE = json.loads((Path(__file__).parent / "surface.json").read_text("utf-8"))["surface"]
STUBS = sorted(SOURCE.rglob("__init__.pyi"))
NEEDS = {"environment": ("gymnasium", "pettingzoo", "stable_baselines3")}


def names_of(stub):
    """The names that a stub hands on, each with the module that has it."""
    for node in ast.parse(stub.read_text("utf-8")).body:
        assert isinstance(node, ast.ImportFrom), "a stub only hands names on"
        yield from ((alias.asname, node.module) for alias in node.names if alias.asname == alias.name)


def test_there_are_doors():
    assert len(STUBS) > 8


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: stub.parent.name)
def test_a_door_has_the_names_of_its_stub_and_each_is_that_of_its_module(stub):
    for library in NEEDS.get(stub.parent.name, ()):
        pytest.importorskip(library)
    package = importlib.import_module(f"l5kit.{stub.parent.name}")
    names = dict(names_of(stub))
    assert set(names) == set(package.__all__)
    for name, module in names.items():
        home = importlib.import_module(f"{package.__name__}.{module or name}")
        assert getattr(package, name) is (getattr(home, name) if module else home)
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        package.nothing_of_this_name  # noqa: B018


HANDS_ON_A_LIBRARY = {"dataset/torch_parts.py", "training/lightning_parts.py"}
"""Modules that import an optional library for others."""


def test_packages_and_modules_of_1_5_say_what_is_public():
    """An ``__all__`` in an inner module would promise nothing; names without an underscore are for other modules."""
    of_1_5 = {name.replace(".", "/") for name in SURFACE}
    listing = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if path.name != "__init__.py" and re.search(r"^__all__\b", path.read_text("utf-8"), flags=re.MULTILINE)
    }
    allowed = {name for name in listing if f"l5kit/{name.removesuffix('.py')}" in of_1_5}
    assert listing - allowed - HANDS_ON_A_LIBRARY == set(), "drop __all__ of modules inside packages"


@pytest.mark.process
@pytest.mark.parametrize("package", ["data", "simulation", "planning", "prediction", "vectorization", "evaluation"])
def test_a_door_loads_nothing_before_a_name_is_used(package):
    source = (
        f"import sys, l5kit.{package}\n"
        f"print([name for name in sys.modules if name in ('torch', 'zarr') or name.startswith('l5kit.{package}.')])"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
