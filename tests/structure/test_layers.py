"""The house: a module imports only from packages on a lower line, and ``__init__`` files only hand names on."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "l5kit"

LINES = (
    ("errors", "_types", "_files", "_cache_folders", "_compiling", "_kernels", "_overriding", "_warning"),
    ("configs", "device", "geometry", "random"),
    ("data", "kinematic"),
    ("lanes",),
    ("rasterization", "vectorization"),
    ("sampling",),
    ("dataset",),
    ("planning", "evaluation"),
    ("prediction", "simulation"),
    ("cle", "workflows"),
    ("environment", "visualization"),
    (
        "synthetic",
        "training",
        "reinforcement",
        "openloop",
        "closedloop",
        "readers",
        "artifacts",
        "engines",
        "warmup",
        "comparison",
        "editing",
    ),
    ("cli",),
)
LAZY_IMPORT = "from l5kit.workflows.trained_model import load_model"
LINE_OF = {package: number for number, line in enumerate(LINES) for package in line} | {"__main__": len(LINES)}


IMPORTS_CLASSES_OF_USERS = "l5kit.configs.class_path"
"""The one module that imports by names which only a configuration knows."""


def imported_names(module, tree, *, is_init):
    """Every (dotted name, line number) that the source imports, wherever in the file it does."""
    own_package = module if is_init else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = own_package.split(".")[: len(own_package.split(".")) - node.level + 1]
                base = ".".join([*parents, base] if base else parents)
            yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            name = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else "l5kit.?"
            if (module, name) != (IMPORTS_CLASSES_OF_USERS, "l5kit.?"):
                yield f"{name}.", node.lineno


def module_name(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path) for path in SOURCE.rglob("*.py")}


def import_violation(module, imported, *, is_init):
    """The problem of one import, or None."""
    own = module.split(".")
    target = imported.split(".")
    if target[0] != "l5kit" or imported == "l5kit.__version__":
        return None
    if len(target) == 1:
        return "imports the package l5kit itself; import the module that has the name"
    if target[1] not in LINE_OF:
        return f"imports {imported}, which is in no line of the house"
    if target[1] != own[1]:
        if LINE_OF[target[1]] < LINE_OF[own[1]]:
            return None
        return f"imports {imported}, which does not stand on a lower line than {own[1]}"
    own_packages = {".".join(own[:end]) for end in range(2, len(own))}
    hands_on = imported.rpartition(".")[0] in own_packages and imported not in MODULES
    if not is_init and (hands_on or imported in own_packages):
        return f"imports {imported} through its own package; import the module that has the name"
    return None


def imports_of_its_package(module, source, modules=None):
    """The other modules of its package that a module imports, at run time and wherever in the file it does."""
    modules, tree = MODULES if modules is None else modules, ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            node.body = []
    found = set()
    for imported, _ in imported_names(module, tree, is_init=False):
        while imported and imported not in modules:
            imported = imported.rpartition(".")[0]
        if imported.split(".")[:2] == module.split(".")[:2]:
            found.add(imported)
    return found - {module}


def circles(imports):
    """The sets of modules that import each other, of modules and those that each of them imports."""
    reached = {module: set(others) for module, others in imports.items()}
    while True:
        more = {module: others.union(*(reached[each] for each in others)) for module, others in reached.items()}
        if more == reached:
            break
        reached = more
    return {
        frozenset(other for other in reached if other in reached[module] and module in reached[other])
        for module in reached
        if module in reached[module]
    }


LAZY_NAMES = "__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)"
"""Re-exports the names in the ``__init__.pyi`` next to it, each loaded on first use."""


def is_handing_on(statement):
    """Whether an ``__init__`` file may hold this statement."""
    if ast.unparse(statement) == ast.unparse(ast.parse(LAZY_NAMES)):
        return True
    if isinstance(statement, ast.Assign):
        return all(
            isinstance(target, ast.Name) and target.id in ("__all__", "__version__") for target in statement.targets
        )
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or isinstance(statement, (ast.Import, ast.ImportFrom))


def is_lazy_name(statement):
    """Whether a statement provides ``l5kit.load_model``, the one lazy name of the root package."""
    text = ast.unparse(statement)
    if isinstance(statement, ast.If):
        return text == f"if TYPE_CHECKING:\n    {LAZY_IMPORT} as load_model"
    return isinstance(statement, ast.FunctionDef) and statement.name == "__getattr__" and LAZY_IMPORT in text


def violations(module, source, *, is_init=False):
    """Everything in one module's source that goes against the house."""
    if module != "l5kit" and module.split(".")[1] not in LINE_OF:
        return [f"{module} is in no line of the house"]
    tree = ast.parse(source)
    found = []
    if module != "l5kit":
        for imported, line in imported_names(module, tree, is_init=is_init):
            problem = import_violation(module, imported, is_init=is_init)
            if problem:
                found.append(f"{module}:{line} {problem}")
    if is_init:
        found += [
            f"{module}:{statement.lineno} does more than hand names on"
            for statement in tree.body
            if not is_handing_on(statement) and not (module == "l5kit" and is_lazy_name(statement))
        ]
    return found


def test_all_modules_keep_to_the_house():
    paths = sorted(SOURCE.rglob("*.py"))
    assert len(paths) > 10
    found = [
        violation
        for path in paths
        for violation in violations(module_name(path), path.read_text("utf-8"), is_init=path.name == "__init__.py")
    ]
    assert not found, "\n".join(found)


def test_no_modules_of_a_package_import_each_other_in_a_circle():
    """``__init__`` files are left out: they are above the modules that they re-export."""
    paths = [path for path in SOURCE.rglob("*.py") if path.name != "__init__.py"]
    imports = {module_name(path): imports_of_its_package(module_name(path), path.read_text("utf-8")) for path in paths}
    imports = {module: others & imports.keys() for module, others in imports.items()}
    assert sum(map(len, imports.values())) > 500
    found = circles(imports)
    assert not found, "\n".join(", ".join(sorted(circle)) for circle in found)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("from l5kit.data.labels import x", {"l5kit.data.labels"}, id="a name"),
        pytest.param("from l5kit.data import labels", {"l5kit.data.labels"}, id="a module"),
        pytest.param("from .labels import x", {"l5kit.data.labels"}, id="relative"),
        pytest.param("def f():\n    import l5kit.data.labels", {"l5kit.data.labels"}, id="inside a function"),
        pytest.param("if TYPE_CHECKING:\n    from l5kit.data.labels import x", set(), id="for types only"),
        pytest.param("from l5kit.configs.config import x", set(), id="another package"),
        pytest.param("from l5kit.data.filter import x", set(), id="itself"),
    ],
)
def test_imports_within_a_package(source, expected):
    assert imports_of_its_package("l5kit.data.filter", source) == expected


def test_circles_are_those_that_import_each_other():
    imports = {"a": {"b", "e"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": {"f"}, "f": {"e"}, "g": set()}
    assert circles(imports) == {frozenset("abc"), frozenset("ef")}
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == set()


def test_contributing_shows_the_same_house():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    shown = re.findall(r"^L(\d+) +((?:[\w.]+ +)+?) {2,}", text, flags=re.MULTILINE)
    assert [int(number) for number, _ in shown] == list(range(len(LINES)))
    assert [tuple(name.removesuffix(".py") for name in names.split()) for _, names in shown] == list(LINES)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        pytest.param("l5kit.data.filter", "from l5kit.dataset.ego import EgoDataset", id="upwards"),
        pytest.param("l5kit.data.filter", "import l5kit.dataset.ego", id="upwards by plain import"),
        pytest.param("l5kit.data.filter", "from l5kit import dataset", id="upwards through the root"),
        pytest.param("l5kit.data.filter", "from ..dataset import ego", id="upwards by a relative import"),
        pytest.param("l5kit.data.filter", "from l5kit.kinematic.perturbation import Perturbation", id="sideways"),
        pytest.param("l5kit.errors", "from l5kit._types import BoolArray", id="sideways on the ground floor"),
        pytest.param("l5kit.data.filter", "def f():\n    from l5kit.cli import main", id="inside a function"),
        pytest.param(
            "l5kit.data.filter",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from l5kit.sampling.slicing import x",
            id="for types only",
        ),
        pytest.param("l5kit.data.filter", "importlib.import_module('l5kit.cli')", id="by name"),
        pytest.param("l5kit.data.filter", "importlib.import_module(name)", id="by a name that cannot be read"),
        pytest.param(IMPORTS_CLASSES_OF_USERS, "importlib.import_module('l5kit.cli')", id="by name for users"),
        pytest.param("l5kit.data.filter", "from l5kit.data import ChunkedDataset", id="own package"),
        pytest.param("l5kit.data.filter", "import l5kit.data", id="own package by plain import"),
        pytest.param("l5kit.data.filter", "from . import ChunkedDataset", id="own package by a relative import"),
        pytest.param("l5kit.data.proto.schema", "from l5kit.data import MapAPI", id="package around the own one"),
        pytest.param("l5kit.data.filter", "import l5kit", id="the root"),
        pytest.param("l5kit.data.filter", "from l5kit.misc import x", id="unknown package imported"),
        pytest.param("l5kit.misc.thing", "", id="unknown package"),
    ],
)
def test_the_checker_finds(module, source):
    assert len(violations(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        pytest.param("l5kit.dataset.ego", "from l5kit.data.filter import x\nfrom l5kit.data import y", id="downwards"),
        pytest.param("l5kit.data.filter", "from l5kit.data.labels import x", id="module of the own package"),
        pytest.param("l5kit.data.filter", "from .labels import x", id="module of the own package, relative"),
        pytest.param("l5kit.data.filter", "from l5kit.data import labels", id="module of the own package as a whole"),
        pytest.param(
            "l5kit.data.map.api", "from l5kit.data.proto import road_network_pb2", id="package inside the own"
        ),
        pytest.param("l5kit.data.filter", "import numpy.random\nfrom collections import abc", id="other libraries"),
        pytest.param("l5kit.cli.main", "from l5kit import __version__", id="the version"),
    ],
)
def test_the_checker_allows(module, source):
    assert violations(module, source) == []


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def f():\n    pass", id="a function"),
        pytest.param("import os\nos.environ['A'] = '1'", id="work"),
        pytest.param("SIZE = 3", id="a constant"),
        pytest.param("if True:\n    from l5kit.data.filter import x", id="a condition"),
        pytest.param("def __getattr__(name):\n    return 1", id="names made on demand"),
    ],
)
def test_the_checker_finds_in_init_files(source):
    assert len(violations("l5kit.data", source, is_init=True)) == 1


@pytest.mark.parametrize(
    ("module", "name"),
    [("l5kit", "simulate"), ("l5kit.workflows", "load_model")],
    ids=["another name", "another package"],
)
def test_only_load_model_is_made_when_it_is_asked_for(module, name):
    source = f"def __getattr__(name):\n    from l5kit.workflows.trained_model import {name}\n    return {name}"
    assert f"{module}:1 does more than hand names on" in violations(module, source, is_init=True)


def test_the_checker_allows_init_files_to_hand_names_on():
    source = '"""Text."""\n\nfrom l5kit.data.filter import f\nfrom l5kit.geometry import g\n\n__all__ = ["f", "g"]\n'
    assert violations("l5kit.data", source, is_init=True) == []
    assert len(violations("l5kit.data", "from l5kit.dataset import x", is_init=True)) == 1
