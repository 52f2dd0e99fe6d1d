"""Reference pages: one for each public module, with every public name."""

import posixpath
from collections.abc import Iterator

from docstring_roles import plain_roles
from public_names import Module, origin, public_modules

FOLDER = "reference"


def reference_pages() -> dict[str, str]:
    """Return the text of each page by its path in the site."""
    pages = {page_path(module.name): "\n".join(_page(module)) + "\n" for module in public_modules().values()}
    return pages | {f"{FOLDER}/index.md": "\n".join(_overview()) + "\n"}


def reference_nav() -> list[object]:
    """Return the navigation of the reference: packages in packages, with their page in front."""
    return [
        f"{FOLDER}/index.md",
        {"The command": f"{FOLDER}/command.md"},
        {"l5kit": page_path("l5kit")},
        *(_entry(name) for name in children("l5kit")),
    ]


def page_path(module: str) -> str:
    """Return the path of the page of a module; that of a package is the index of its folder."""
    return f"{FOLDER}/{module}/index.md" if public_modules()[module].is_package else f"{FOLDER}/{module}.md"


def link_to(module: str, *, seen_from: str) -> str:
    """Return the link from a page at a path of the site to the page of a module."""
    return posixpath.relpath(page_path(module), posixpath.dirname(seen_from))


def children(package: str) -> list[str]:
    """Return the public modules directly in a package, sorted."""
    return [name for name in public_modules() if name.rpartition(".")[0] == package]


def missing_names() -> list[str]:
    """Return public names without a page: listed in ``__all__`` but found nowhere."""
    modules = public_modules()
    handed_on = [origin(source) for module in modules.values() for source in module.handed_on.values()]
    lost = [name for name in handed_on if name.rpartition(".")[2] not in _defined_in(name.rpartition(".")[0])]
    return sorted({*lost, *(f"{module.name}.{name}" for module in modules.values() for name in module.unknown)})


def _defined_in(module: str) -> dict[str, str]:
    found = public_modules().get(module)
    return found.defined if found else {}


def _entry(name: str) -> dict[str, object]:
    title = name.rpartition(".")[2]
    if not public_modules()[name].is_package:
        return {title: page_path(name)}
    return {title: [page_path(name), *map(_entry, children(name))]}


def _overview() -> Iterator[str]:
    yield "# Reference"
    yield ""
    yield "Every public name, from the docstrings."
    yield "[Architecture](../architecture.md) shows how the packages stand on one another."
    yield ""
    yield from _module_table(children("l5kit"), f"{FOLDER}/index.md")


def _page(module: Module) -> Iterator[str]:
    yield from ("---", f"title: {module.name}", "---", "")
    yield f"# {module.name.rpartition('.')[2]}"
    yield ""
    yield from _trail(module)
    yield from _docstrings(module)
    for names, code in module.together:
        yield "".join(f'<span id="{module.name}.{name}"></span>' for name in names)
        yield ""
        yield from ("```python", code, "```", "")
    yield from _handed_on(module)
    if below := children(module.name):
        yield from ("## Modules", "", *_module_table(below, page_path(module.name)), "")


def _docstrings(module: Module) -> Iterator[str]:
    yield f"::: {module.name}"
    yield "    options:"
    yield "      show_root_heading: false"
    yield "      show_root_toc_entry: false"
    yield "      heading_level: 2"
    yield f"      members: {list(module.defined) or 'false'}"
    yield ""


def _trail(module: Module) -> Iterator[str]:
    parts = module.name.split(".")
    above = [".".join(parts[:depth]) for depth in range(2, len(parts))]
    here = page_path(module.name)
    links = [f"[{name.rpartition('.')[2]}]({link_to(name, seen_from=here)})" for name in above]
    trail = " . ".join(["l5kit", *links, parts[-1]])
    yield f'<p class="trail" markdown>{trail}</p>'
    yield ""


def _handed_on(module: Module) -> Iterator[str]:
    if not module.handed_on:
        return
    if not module.is_package:
        yield from ("## From other modules", "")
    yield "| name | what it is |"
    yield "| --- | --- |"
    for name, source in module.handed_on.items():
        yield f"| [`{name}`][{origin(source)}] | {_cell(_summary(origin(source)))} |"
    yield ""


def _summary(full_name: str) -> str:
    module, _, name = full_name.rpartition(".")
    return public_modules()[module].defined[name]


def _module_table(names: list[str], seen_from: str) -> Iterator[str]:
    yield "| module | what it has |"
    yield "| --- | --- |"
    for name in names:
        yield f"| [`{name}`]({link_to(name, seen_from=seen_from)}) | {_cell(public_modules()[name].summary)} |"


def _cell(text: str) -> str:
    """Text of a docstring as Markdown for a table: roles and double backticks become code."""
    return plain_roles(text).replace("``", "`").replace("|", "\\|")
