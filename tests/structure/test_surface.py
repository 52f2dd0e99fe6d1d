"""What scripts for L5Kit 1.5 import is there, and can be called as they call it.

``surface.json`` lists the public modules and names of 1.5, ``signatures.json`` the documented parameters.
"""

import importlib
import importlib.util
import inspect
import json
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SURFACE = json.loads((HERE / "surface.json").read_text("utf-8"))["surface"]
SIGNATURES = json.loads((HERE / "signatures.json").read_text("utf-8"))["signatures"]

# What is still to be built. This list only shrinks: a test fails as soon as something in it exists.
PENDING_MODULES = (
    "l5kit.cle",
    "l5kit.environment",
    "l5kit.simulation",
)


def is_pending(module):
    return any(module == pending or module.startswith(f"{pending}.") for pending in PENDING_MODULES)


BUILT = sorted(module for module in SURFACE if not is_pending(module))


@pytest.mark.parametrize("module", BUILT)
def test_every_public_name_is_there(module):
    imported = importlib.import_module(module)
    assert [name for name in SURFACE[module] if not hasattr(imported, name)] == []


@pytest.mark.parametrize("module", PENDING_MODULES)
def test_a_pending_module_does_not_exist_yet(module):
    assert any(listed == module or listed.startswith(f"{module}.") for listed in SURFACE)
    spec = importlib.util.find_spec(module)
    # an empty folder left over from another branch is a spec without an origin
    assert spec is None or spec.origin is None, f"{module} is built: take it out of PENDING_MODULES"


def test_the_module_and_the_function_select_agents_are_both_reached():
    """Row A7 of the defects: attribute access gives the function, an import from the path gives the module."""
    dataset = importlib.import_module("l5kit.dataset")
    module = importlib.import_module("l5kit.dataset.select_agents")
    assert dataset.select_agents is module.select_agents
    assert module.TH_YAW_DEGREE == 30


def parameters_of(qualified_name):
    """The parameters that a caller gives, without ``self``."""
    module_name, _, path = qualified_name.partition(":")
    owner, found = None, importlib.import_module(module_name)
    for part in path.split("."):
        owner, found = found, getattr(found, part)
    parameters = list(inspect.signature(found).parameters.values())
    is_method = inspect.isclass(owner) and inspect.isfunction(inspect.getattr_static(owner, path.rpartition(".")[2]))
    return parameters[1:] if is_method else parameters


def call_violations(ours, theirs):
    """Why a call that fits the parameters ``theirs`` (name, kind, default) may not mean the same with ours."""
    found = []
    named = [row for row in theirs if row[1] == "positional_or_keyword"]
    for position, (name, _, default) in enumerate(named):
        if position >= len(ours) or ours[position].name != name:
            found.append(f"parameter {position} must be {name}")
        elif ours[position].kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            found.append(f"{name} must be allowed by position and by name")
        elif default is not None and repr(ours[position].default) != default:
            found.append(f"{name} must default to {default}, not to {ours[position].default!r}")
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for parameter in ours[len(named) :]:
        if parameter.default is inspect.Parameter.empty and parameter.kind not in variable:
            found.append(f"the additional parameter {parameter.name} must have a default")
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in ours)
    if any(kind == "var_keyword" for _, kind, _ in theirs) and not takes_any:
        found.append("further keyword arguments must be accepted")
    return found


@pytest.mark.parametrize("qualified_name", sorted(SIGNATURES))
def test_every_call_of_1_5_fits(qualified_name):
    assert call_violations(parameters_of(qualified_name), SIGNATURES[qualified_name]) == []


def test_all_functions_of_the_surface_have_their_signature_listed():
    listed = {name.partition(":")[2].partition(".")[0] for name in SIGNATURES}
    abstract = {"DataManager", "Perturbation", "RandomGenerator", "Rasterizer"}
    missing = {
        f"{module}.{name}"
        for module in BUILT
        for name in SURFACE[module]
        if inspect.isroutine(found := getattr(importlib.import_module(module), name, None))
        | (inspect.isclass(found) and name not in abstract and not hasattr(found, "__members__"))
        and name not in listed
    }
    assert missing == set()


THEIRS = [["a", "positional_or_keyword", None], ["b", "positional_or_keyword", "1"]]


@pytest.mark.parametrize(
    "ours",
    [
        pytest.param(lambda a, b=1: 0, id="the same"),
        pytest.param(lambda a, b=1, c=2: 0, id="one more with a default"),
        pytest.param(lambda a, b=1, *, c=2: 0, id="one more by keyword"),
        pytest.param(lambda a=None, b=1: 0, id="a required one became optional"),
        pytest.param(lambda a, b=1, **rest: 0, id="any more"),
    ],
)
def test_the_checker_allows(ours):
    assert call_violations(list(inspect.signature(ours).parameters.values()), THEIRS) == []


@pytest.mark.parametrize(
    "ours",
    [
        pytest.param(lambda a: 0, id="one is gone"),
        pytest.param(lambda x, b=1: 0, id="another name"),
        pytest.param(lambda a, b=2: 0, id="another default"),
        pytest.param(lambda a, b: 0, id="no default"),
        pytest.param(lambda a, *, b=1: 0, id="by keyword only"),
        pytest.param(lambda a, b=1, *, c: 0, id="one more that is required"),
    ],
)
def test_the_checker_finds(ours):
    assert len(call_violations(list(inspect.signature(ours).parameters.values()), THEIRS)) == 1


def test_the_checker_finds_missing_keyword_arguments():
    theirs = [["rest", "var_keyword", None]]
    assert call_violations([], theirs) == ["further keyword arguments must be accepted"]
