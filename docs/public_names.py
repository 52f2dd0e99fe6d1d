"""Public names of l5kit by module, read from the source without importing it.

The names that packages re-export (``__all__`` of their ``__init__.py``, or all of the ``__init__.pyi`` next to it) are
public, and those of modules of 1.5. Other modules list those of their names that one of these re-exports; modules
without any have no page.
"""

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
MODULES_OF_1_5 = frozenset(json.loads((SOURCE.parent / "tests/structure/surface.json").read_text("utf-8"))["surface"])


@dataclass(frozen=True)
class Module:
    """A public module: what it defines, and what it re-exports.

    Attributes:
        name: With dots, such as ``l5kit.data.filter``.
        is_package: Whether it is a folder.
        summary: The first paragraph of its docstring.
        defined: The first paragraph of the docstring of each of its public names, in the order of the file.
        handed_on: Module that each re-exported name is imported from.
        together: The public names of each assignment to several at once, with its code.
        unknown: Requested names, or names in ``__all__``, that are neither defined here nor imported.
    """

    name: str
    is_package: bool
    summary: str
    defined: dict[str, str]
    handed_on: dict[str, str]
    together: list[tuple[list[str], str]]
    unknown: list[str]

    @property
    def names(self) -> set[str]:
        """All public names."""
        return {*self.defined, *self.handed_on, *self.unknown}


@cache
def public_modules() -> dict[str, Module]:
    """Return the public modules by name, sorted: packages of public modules, and modules with public names."""
    paths = {_module_name(path): path for path in (SOURCE / "l5kit").rglob("*.py")}
    paths = {name: path for name, path in sorted(paths.items()) if _may_be_public(name)}
    doors = {name: _read(name, path) for name, path in paths.items() if _is_door(name, path)}

    # a re-exported name is public where it is defined, and in the modules on the way there
    modules, asked = dict(doors), list(doors.values())
    while asked:
        wanted: dict[str, set[str]] = {}
        for source in (source for module in asked for source in module.handed_on.values()):
            home, _, name = source.rpartition(".")
            if home in paths and home not in doors:
                wanted.setdefault(home, set(modules[home].names if home in modules else ())).add(name)
        asked = [
            _read(home, paths[home], public=names)
            for home, names in wanted.items()
            if home not in modules or names != modules[home].names
        ]
        modules |= {module.name: module for module in asked}
    named = [name for name, module in modules.items() if module.names or name in MODULES_OF_1_5]
    return {name: modules[name] for name in sorted(modules) if _holds(name, named)}


def origin(full_name: str) -> str:
    """Return the module that defines a name, through all modules that re-export it."""
    module, _, name = full_name.rpartition(".")
    found = public_modules().get(module)
    return origin(found.handed_on[name]) if found and name in found.handed_on else full_name


def _module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _may_be_public(name: str) -> bool:
    parts = name.split(".")
    return not any(part.startswith("_") for part in parts) and parts[1:2] != ["cli"]


def _is_door(name: str, path: Path) -> bool:
    """Whether a module declares its public names itself: a package, or a module of 1.5."""
    return path.name == "__init__.py" or name in MODULES_OF_1_5


def _holds(name: str, named: list[str]) -> bool:
    """Whether a module has public names, or is a package of such modules."""
    return any(other == name or other.startswith(f"{name}.") for other in named)


def _read(name: str, path: Path, public: set[str] | None = None) -> Module:
    """Read a module; its public names are ``public``, or those that it lists, or all without an underscore."""
    tree = ast.parse(path.read_text("utf-8"))
    stub = path.with_suffix(".pyi")  # of a package whose names are loaded on first use
    handing_on = ast.parse(stub.read_text("utf-8")) if stub.is_file() else tree
    imported, defined = dict(_imported(handing_on, name)), dict(_defined(tree))
    ours = {key for key, source in imported.items() if source.startswith("l5kit.")}
    listed = sorted(imported) if handing_on is not tree else _listed(tree)
    if public is None:
        public = {key for key in defined if not key.startswith("_")} if listed is None else set(listed)
    return Module(
        name=name,
        is_package=path.name == "__init__.py",
        summary=_first_paragraph(ast.get_docstring(tree)),
        defined={key: text for key, text in defined.items() if key in public},
        handed_on={key: imported[key] for key in sorted(public & (ours - defined.keys()))},
        together=list(_together(tree, public)),
        unknown=sorted(public - imported.keys() - defined.keys()),
    )


def _first_paragraph(docstring: str | None) -> str:
    return " ".join((docstring or "").split("\n\n")[0].split())


def _listed(tree: ast.Module) -> list[str] | None:
    """The value of ``__all__``, if there is one."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and [name for name in _targets(node) if name == "__all__"]:
            return list(ast.literal_eval(node.value))
    return None


def _imported(tree: ast.Module, package: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if node.level and node.module is None:
                continue  # modules, which have their own pages
            module = f"{package}.{node.module}" if node.level else node.module
            yield from ((alias.asname or alias.name, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name, alias.name) for alias in node.names)


def _defined(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names defined at the top level, each with the first paragraph of its docstring."""
    for node, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, _first_paragraph(ast.get_docstring(node))
        else:
            yield from ((name, _text_of(following)) for name in _targets(node) if name != "__all__")


def _together(tree: ast.Module, public: set[str]) -> Iterator[tuple[list[str], str]]:
    """Assignments to a tuple, which tools that read docstrings ignore."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            yield [name for name in _targets(node) if name in public], ast.unparse(node)


def _targets(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [part.id for part in parts if isinstance(part, ast.Name)]


def _text_of(node: ast.stmt | None) -> str:
    """The docstring below a constant."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return _first_paragraph(node.value.value) if is_text else ""
