#!/usr/bin/env python3
"""Checks of the built site: nothing is fetched from elsewhere, and every public name has its place in the reference.

Usage: python docs/check_site.py site
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from public_names import public_modules

_FETCHING = {
    "script": ["src"],
    "img": ["src", "srcset"],
    "iframe": ["src"],
    "source": ["src"],
    "video": ["src"],
    "link": ["href"],
}
_NOT_FETCHED = {"canonical", "alternate", "prev", "next", "edit", "license"}
_ELSEWHERE = re.compile(r"^\s*(?:https?:)?//")
_ELSEWHERE_IN_STYLE = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)")


class _Assets(HTMLParser):
    """Addresses that a browser fetches for a page, and the ids of its elements."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids.add(values.get("id", ""))
        if not set(values.get("rel", "").split()) & _NOT_FETCHED:
            self.addresses += [values[name] for name in _FETCHING.get(tag, ()) if name in values]


def fetched_elsewhere(text: str, *, is_style: bool = False) -> list[str]:
    """Return the addresses on other servers that a browser fetches by itself to show a page or a style sheet."""
    if is_style:
        return _ELSEWHERE_IN_STYLE.findall(text)
    page = _Assets()
    page.feed(text)
    return [address for address in page.addresses if _ELSEWHERE.match(address)]


def faults(site: Path) -> Iterator[str]:
    """Yield what is wrong with a built site, one line each."""
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        for address in fetched_elsewhere(path.read_text("utf-8"), is_style=path.suffix == ".css"):
            yield f"{path}: fetches {address}"
    for module in public_modules().values():
        page = _Assets()
        page.feed((site / "reference" / module.name / "index.html").read_text("utf-8"))
        for name in module.defined:
            if f"{module.name}.{name}" not in page.ids:
                yield f"{module.name}.{name}: has no entry in the reference"


if __name__ == "__main__":
    found = list(faults(Path(sys.argv[1])))
    print("\n".join(found) or f"{sys.argv[1]} fetches nothing from elsewhere and has every public name")
    sys.exit(1 if found else 0)
