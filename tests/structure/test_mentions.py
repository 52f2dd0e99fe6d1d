"""Names mentioned in documents, docstrings and comments exist: modules, names of l5kit, files, and targets of roles.

Scripts of pages name the modules and functions that they mirror.
"""

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = sorted((SOURCE / "l5kit").rglob("*.py"))
SCRIPTS = [path for path in sorted((SOURCE / "l5kit").rglob("*.js")) if "vendor" not in path.parts]

NAME = re.compile(r"(?<![\w./:@-])l5kit((?:\.[A-Za-z_]\w*)+)(?![\w/-])")
FILE = re.compile(r"(?<![\w/.~$}-])((?:[A-Za-z_][\w-]*/)+[\w.-]+\.(?:py|pyi|md|js|ts|ipynb))(?![\w/])")
ROLE = re.compile(r":(?:func|class|meth|attr|data|mod|exc):`[~.]*([\w.]+)`")
MODULE = re.compile(r"([\w/]+\.py)\b`?(?: \(([^)]*)\))?")
MIRRORED = re.compile(r"[Mm]irrors `((?!np\.)[\w.]+)`(?:,? and `([\w.]+)`)?")
"""Python names in a script: a module, with names of it in parentheses, and names of any module."""

FOLDERS = ("src", "tests", "benchmarks", "examples", "docs", ".ci", "recipe")

NO_NAMES = re.compile(r"\.(json|md|yaml|toml|schema)$|^l5kit\.(readthedocs|github)\b")
"""Files and addresses that begin with the name of the package."""

MADE = {"reference/command.md", "reference/index.md", "compact/config.yaml"}
"""Pages that are made with the site."""

WITH_KEYS_OF_OTHERS = {
    "l5kit.artifacts.mlflow_store",
    "l5kit.visualization.recording.recording_files",
    "l5kit.visualization.recording.mcap_messages",
    "l5kit.workflows.exported_network",
}
"""Modules that write keys such as ``l5kit.state``, which are no names of Python."""

OF_OTHERS = {"docs/metrics.md": "a document of NAVSIM"}


def module_of(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES_OF_MODULES = {module_of(path) for path in MODULES}


@cache
def defined_in(module):
    """The names that a module has at its top, and the members and fields of each class by ``Class.member``."""
    path = SOURCE / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    stub = path.with_suffix(".pyi")
    found = set()
    for tree in [ast.parse(each.read_text("utf-8")) for each in (path, stub) if each.is_file()]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                found |= {alias.asname or alias.name for alias in node.names}
        for node in tree.body:
            found |= names_of(node)
            if isinstance(node, ast.ClassDef):
                found |= {f"{node.name}.{name}" for each in ast.walk(node) for name in names_of(each)}
    return found


def names_of(node):
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return {
        part.id if isinstance(part, ast.Name) else part.attr
        for part in parts
        if hasattr(part, "id") or hasattr(part, "attr")
    }


def is_there(name):
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    depth = max(depth for depth in range(1, len(parts) + 1) if ".".join(parts[:depth]) in NAMES_OF_MODULES)
    module, rest = ".".join(parts[:depth]), parts[depth:]
    if not rest:
        return True
    # a member of a class may be inherited, so only the class is checked in other cases
    known = defined_in(module)
    return rest[0] in known


def lost_names(text):
    named = {f"l5kit{found[1]}" for found in NAME.finditer(text)}
    return sorted(name for name in named if not NO_NAMES.search(name) and not is_there(name))


@cache
def endings_of_files():
    """All files of the repository, by their paths and by the ends of these."""
    paths = [path.relative_to(ROOT).parts for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
    return {"/".join(parts[start:]) for parts in paths for start in range(len(parts))}


def lost_files(text):
    return sorted({found[1] for found in FILE.finditer(text)} - endings_of_files() - MADE - OF_OTHERS.keys())


@cache
def names_anywhere():
    """All names of modules and of their classes: a bare one in a role is found with one search."""
    return {end_of(name) for module in NAMES_OF_MODULES for name in defined_in(module)}


def lost_roles(text):
    """Targets of roles that nothing in l5kit, nor a library of Python, has the name of."""
    lost = set()
    for name in {found[1] for found in ROLE.finditer(text)}:
        first = name.partition(".")[0]
        if first == "l5kit":
            lost |= set() if is_there(name) else {name}
        elif first not in names_anywhere() and first not in sys.stdlib_module_names:
            lost.add(name)
    return sorted(lost)


def lost_mirrors(script):
    """Modules that a script names and that are gone, and names that the module, or for a bare one none, has."""
    text, lost = re.sub(r"\n *\* ", " ", script), set()
    for file, names in MODULE.findall(text):
        homes = [module_of(path) for path in MODULES if path.as_posix().endswith(f"/{file}")]
        known = {end_of(name) for home in homes for name in defined_in(home)}
        lost |= {name for name in re.findall(r"[\w.]+", names) if end_of(name) not in known} if homes else {file}
    for names in MIRRORED.findall(text):
        lost |= {name for name in names if name and end_of(name) not in names_anywhere()}
    return sorted(lost)


def end_of(name):
    return name.rpartition(".")[2]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_name_what_is_there(path):
    text = path.read_text("utf-8")
    assert lost_names(text) + lost_files(text) == []


def test_modules_name_what_is_there():
    found = {}
    for path in MODULES:
        text, module = path.read_text("utf-8"), module_of(path)
        names = [] if module in WITH_KEYS_OF_OTHERS else lost_names(text)
        if lost := names + lost_files(text) + lost_roles(text):
            found[module] = lost
    assert found == {}


def test_scripts_mirror_what_is_there():
    found = {path.name: lost for path in SCRIPTS if (lost := lost_mirrors(path.read_text("utf-8")))}
    assert found == {}


def test_the_checker_finds_what_is_lost():
    assert lost_names("`l5kit.data.gone`, l5kit.data.zarr_dataset.ChunkedDataset, l5kit.nothing.x and l5kit.yaml") == [
        "l5kit.data.gone",
        "l5kit.nothing.x",
    ]
    assert lost_files("see `data/gone.py` and `data/index/windows.py`, or http://x/docs/a.md") == ["data/gone.py"]
    text = ":func:`never_made`, :class:`ChunkedDataset`, :meth:`~l5kit.data.filter.nothing`, :class:`~l5kit.MapAPI`"
    assert lost_roles(text) == ["l5kit.MapAPI", "l5kit.data.filter.nothing", "never_made"]
    script = " * Mirrors `data/gone.py` (f) and `data/filter.py` (filter_gone,\n * filter_agents_by_frames).\n"
    assert lost_mirrors(script) == ["data/gone.py", "filter_gone"]
    assert lost_mirrors("/** Mirrors `FrameRows.append` and `never_made`. */ /** Mirrors `np.unwrap`. */") == [
        "never_made"
    ]
