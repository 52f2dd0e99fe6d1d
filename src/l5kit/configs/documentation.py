"""Markdown tables of the configuration keys, generated from the schema between two marks of a document.

``python -m l5kit.configs.documentation docs/configuration.md``, a part of ``make docs``, regenerates them.
"""

import json
import re
import sys
from pathlib import Path
from typing import Final

from l5kit.configs.parameters import RASTERIZERS
from l5kit.configs.reading import expected_text
from l5kit.configs.runs import WORKFLOWS
from l5kit.configs.schema import DOORS, SchemaKey, sections

_BLOCK: Final = re.compile(
    r"(<!-- keys of (?P<sections>[^>]*?) -->\n)(?P<table>.*?)(<!-- end of keys -->\n)", re.DOTALL
)
_HEAD: Final = "| key | value | default | read by | what it does |\n|---|---|---|---|---|\n"


def with_key_tables(document: str) -> str:
    """Return a document with its key tables regenerated from the schema.

    Args:
        document: Markdown; ``<!-- keys of SECTION, SECTION -->`` and ``<!-- end of keys -->`` enclose each table.
    """
    return _BLOCK.sub(lambda match: f"{match[1]}{_table(match['sections'].split(', '))}{match[4]}", document)


def _table(names: list[str]) -> str:
    """Return the table of the keys of several sections, each key once."""
    paths = ["" if name == "the top" else name for name in names]
    keys: dict[str, dict[str, SchemaKey]] = {}
    for path in paths:
        for name, key in sections()[path].items():
            keys.setdefault(name, {})[path] = key
    # readers that are listed under a common name
    groups = {
        "all map types": [params.map_type_name() for params in RASTERIZERS],
        "all workflows": list(WORKFLOWS),
        "workflows with rasters": [name for name in WORKFLOWS if "samples" in DOORS[name].also],
        "workflows with vectors": [name for name in WORKFLOWS if "vectorizer" in DOORS[name].also],
    }
    rows = []
    for name, of_sections in keys.items():
        first = next(iter(of_sections.values()))
        value = re.sub(r"'([^']*)'", r"`\1`", expected_text(first.schema(), first.key.unit))
        defaults = {section: _default(key) for section, key in of_sections.items()}
        default = next(iter(defaults.values()))
        if len(set(defaults.values())) > 1:
            default = "; ".join(f"{text} in `{section}`" for section, text in defaults.items())

        readers = list(first.read_by)
        for group, members in groups.items():
            if set(members) <= set(readers):
                readers = [group, *(reader for reader in readers if reader not in members)]
        coded = (*groups["all map types"], *WORKFLOWS)
        read_by = ", ".join(f"`{reader}`" if reader in coded else reader for reader in readers)
        only = f"; in `{next(iter(of_sections))}` only" if len(of_sections) < len(paths) else ""
        rows.append(f"| `{name}` | {value} | {default} | {read_by or 'nothing'} | {first.key.text}{only} |\n")
    return _HEAD + "".join(rows)


def _default(key: SchemaKey) -> str:
    """Return the default of a key for its readers, and which of them require it."""
    if not key.read_by:
        return ""
    others = {door: read for door, read in key.uses if not read.is_needed}
    if key.needed_by and not others:
        return "needed"
    read = next(iter(others.values()))
    default = key.key.otherwise or "`{}`".format(json.dumps(read.schema().get("default")).strip('"'))
    return f"needed; {default} for {', '.join(others)}" if key.needed_by else default


def main(paths: list[str]) -> None:
    """Regenerate the tables of documents in place."""
    for path in map(Path, paths):
        path.write_text(with_key_tables(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
