"""Names that scripts for L5Kit 1.5 import exist, and accept their calls.

``surface.json`` lists the public modules and names of 1.5, ``parameters.json`` the parameters of all callables, in
order: ``name``, ``name=`` for one with a default, ``name=0.5`` if the default is documented, ``*`` and ``**``.
``kinds.json`` lists bases of its classes, fields of its named tuples and dataclasses, and members of its enumerations.
"""

import dataclasses
import importlib
import inspect
import json
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SURFACE = json.loads((HERE / "surface.json").read_text("utf-8"))["surface"]
PARAMETERS = json.loads((HERE / "parameters.json").read_text("utf-8"))["parameters"]
KINDS = json.loads((HERE / "kinds.json").read_text("utf-8"))["kinds"]


@pytest.mark.parametrize("module", sorted(SURFACE))
def test_every_public_name_is_there(module):
    imported = importlib.import_module(module)
    assert [name for name in SURFACE[module] if not hasattr(imported, name)] == []


def test_the_module_and_the_function_select_agents_are_both_reached():
    """Row A7 of the defects: attribute access gives the function, an import from the path gives the module."""
    dataset = importlib.import_module("l5kit.dataset")
    module = importlib.import_module("l5kit.dataset.select_agents")
    assert dataset.select_agents is module.select_agents
    assert module.TH_YAW_DEGREE == 30


def promised_calls():
    """Yield for each callable of ``parameters.json`` its qualified name, the method or None, and the parameters."""
    for qualified_name, row in PARAMETERS.items():
        for method, parameters in row.items() if isinstance(row, dict) else [(None, row)]:
            yield qualified_name, method, parameters


CALLS = {
    f"{name}.{method}" if method else name: (name, method, parameters) for name, method, parameters in promised_calls()
}


def parameters_of(qualified_name, method):
    """The parameters that a caller of 1.5 gives, without ``self``, and whether there was one."""
    module_name, _, name = qualified_name.rpartition(".")
    found = getattr(importlib.import_module(module_name), name)
    if method in (None, "__init__"):
        return list(inspect.signature(found).parameters.values()), method is not None
    parameters = list(inspect.signature(getattr(found, method)).parameters.values())
    is_bound_to_object = inspect.isfunction(inspect.getattr_static(found, method))
    return parameters[is_bound_to_object:], is_bound_to_object


def call_violations(ours, theirs):
    """Why a call that fits the parameters ``theirs``, spelled as in the file, may not mean the same with ours."""
    found = []
    named = [spelled.partition("=") for spelled in theirs if not spelled.startswith("*")]
    for position, (name, has_default, default) in enumerate(named):
        if position >= len(ours) or ours[position].name != name:
            found.append(f"parameter {position} must be {name}")
        elif ours[position].kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            found.append(f"{name} must be allowed by position and by name")
        elif has_default and ours[position].default is inspect.Parameter.empty:
            found.append(f"{name} must have a default")
        elif default and repr(ours[position].default) != default:
            found.append(f"{name} must default to {default}, not to {ours[position].default!r}")
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for parameter in ours[len(named) :]:
        if parameter.default is inspect.Parameter.empty and parameter.kind not in variable:
            found.append(f"the additional parameter {parameter.name} must have a default")
    for kind, sign, what in ((variable[1], "**", "keyword"), (variable[0], "*", "positional")):
        is_asked = any(spelled.startswith(sign) and not spelled.startswith(sign + "*") for spelled in theirs)
        if is_asked and not any(parameter.kind is kind for parameter in ours):
            found.append(f"further {what} arguments must be accepted")
    return found


@pytest.mark.parametrize("call", sorted(CALLS))
def test_every_call_of_1_5_fits(call):
    qualified_name, method, theirs = CALLS[call]
    ours, is_of_object = parameters_of(qualified_name, method)
    assert call_violations(ours, [spelled for spelled in theirs if spelled != "self"]) == []
    if "self" not in theirs and method is not None:
        assert not is_of_object, f"{method} must be callable on the class"


def class_of(qualified_name):
    module, _, name = qualified_name.rpartition(".")
    return getattr(importlib.import_module(module), name)


def kind_violations(ours, theirs):
    """The reason why a class cannot replace one of 1.5 of a kind, as a row of ``kinds.json`` spells it."""
    found = [f"it must derive from {base}" for base in theirs["bases"] if class_of(base) not in ours.__mro__]
    if "fields" in theirs and list(getattr(ours, "_fields", ())) != theirs["fields"]:
        found.append(f"it must be a named tuple of {theirs['fields']}")
    if "members" in theirs and {name: int(each) for name, each in ours.__members__.items()} != theirs["members"]:
        found.append(f"its members must be {theirs['members']}")
    if "dataclass_fields" in theirs:
        names = [each.name for each in dataclasses.fields(ours)] if dataclasses.is_dataclass(ours) else []
        if names[: len(theirs["dataclass_fields"])] != theirs["dataclass_fields"]:
            found.append(f"it must be a dataclass whose first fields are {theirs['dataclass_fields']}")
    return found


@pytest.mark.parametrize("qualified_name", sorted(KINDS))
def test_every_class_is_of_its_kind(qualified_name):
    assert kind_violations(class_of(qualified_name), KINDS[qualified_name]) == []


def test_the_kinds_of_all_classes_of_the_surface_are_listed():
    """Except for stand-alone classes, whose bases no caller could rely on."""
    alone = {
        "ChunkedDataset", "ClosedLoopEvaluator", "ClosedLoopSimulator", "EvaluationPlan", "MapAPI", "RenderContext",
        "SimulationDataset", "SimulationOutputCLE", "Vectorizer",
    }  # fmt: skip
    listed = {name.rpartition(".")[2] for name in KINDS} | alone
    missing = {
        f"{module}.{name}"
        for module, names in SURFACE.items()
        for name in names
        if inspect.isclass(getattr(importlib.import_module(module), name)) and name not in listed
    }
    assert missing == set()


@dataclasses.dataclass
class Pair:
    first: int
    second: int


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        pytest.param(Pair, {"bases": ["builtins.tuple"]}, id="another base"),
        pytest.param(Pair, {"bases": [], "fields": ["first", "second"]}, id="no named tuple"),
        pytest.param(Pair, {"bases": [], "dataclass_fields": ["second", "first"]}, id="another order"),
        pytest.param(inspect._ParameterKind, {"bases": ["enum.IntEnum"], "members": {"SUM": 0}}, id="other members"),
    ],
)
def test_the_checker_of_kinds_finds(ours, theirs):
    assert len(kind_violations(ours, theirs)) == 1


def is_enum_or_named_tuple(found):
    return hasattr(found, "__members__") or hasattr(found, "_fields")


def test_all_functions_of_the_surface_have_their_parameters_listed():
    listed = {name.rpartition(".")[2] for name in PARAMETERS}
    abstract = {"DataManager", "Perturbation", "RandomGenerator", "Rasterizer"}
    missing = {
        f"{module}.{name}"
        for module in SURFACE
        for name in SURFACE[module]
        if inspect.isroutine(found := getattr(importlib.import_module(module), name, None))
        | (inspect.isclass(found) and name not in abstract and not is_enum_or_named_tuple(found))
        and name not in listed
    }
    assert missing == set()


def test_the_list_of_parameters_is_whole():
    assert len(CALLS) > 400


THEIRS = ["a", "b=1"]


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


@pytest.mark.parametrize(
    ("theirs", "violation"),
    [
        pytest.param(["**rest"], "further keyword arguments must be accepted", id="by keyword"),
        pytest.param(["*rest"], "further positional arguments must be accepted", id="by position"),
    ],
)
def test_the_checker_finds_missing_further_arguments(theirs, violation):
    assert call_violations([], theirs) == [violation]


def test_the_checker_finds_a_missing_default_whatever_it_is():
    ours = list(inspect.signature(lambda a, b: 0).parameters.values())
    assert call_violations(ours, ["a", "b="]) == ["b must have a default"]
