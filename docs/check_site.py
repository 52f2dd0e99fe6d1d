#!/usr/bin/env python3
"""Check of the built site: no requests to other servers, no Markdown left over, no public name missing.

Usage: python docs/check_site.py site
"""

import functools
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
_BLOCKS = {"p", "td", "th", "li", "dd", "dt", "div", "blockquote", "section", "article", "body"}
_CELLS = {"td", "th"}
_AS_IT_IS = {"pre", "code", "script", "style", "svg", "math", "textarea", "title"}
_LEFT = {
    "a heading": re.compile(r"^#{1,6} \S", re.MULTILINE),
    "a table": re.compile(r"^\|.*\|$", re.MULTILINE),
    "a block of code": re.compile(r"^```", re.MULTILINE),
    "bold": re.compile(r"(?<![\w*])\*\*[^\s*][^*]*\*\*(?!\w)"),
    "a link": re.compile(r"\[[^\]]*\]\(\S+\)"),
    "a list": re.compile(r"\n(?:[-*+]|\d{1,2}\.) \S"),
}
"""Markdown inside the text of a block; of a list only after other lines, as one at the start is rendered."""


class _Page(HTMLParser):
    """What a browser fetches for a page, the ids of its elements, and the text and tag of each of its blocks.

    In texts, a letter takes the place of a piece of code.
    """

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: set[str] = set()
        self.blocks: list[tuple[str, str]] = []
        self._text: list[str] = []
        self._tag = "body"
        self._kept: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids.add(values.get("id", ""))
        if not set(values.get("rel", "").split()) & _NOT_FETCHED:
            self.addresses += [values[name] for name in _FETCHING.get(tag, ()) if name in values]
        if tag in _AS_IT_IS:
            self._kept.append(tag)
            self._text.append("x")
        elif tag in _BLOCKS:
            self._end_block(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._kept and tag == self._kept[-1]:
            self._kept.pop()
        elif tag in _BLOCKS:
            self._end_block("body")

    def handle_data(self, data: str) -> None:
        if not self._kept:
            self._text.append(data)

    def _end_block(self, tag: str) -> None:
        """Store the text of the current block, and start a new one."""
        text = "".join(self._text)
        if text.strip():
            self.blocks.append((text, self._tag))
        self._text, self._tag = [], tag


@functools.lru_cache(maxsize=1)
def _read(text: str) -> _Page:
    page = _Page()
    page.feed(text)
    page.close()
    return page


def fetched_elsewhere(text: str, *, is_style: bool = False) -> list[str]:
    """Return the addresses on other servers that a browser fetches on its own to show a page or a style sheet."""
    if is_style:
        return _ELSEWHERE_IN_STYLE.findall(text)
    return [address for address in _read(text).addresses if _ELSEWHERE.match(address)]


def left_as_markdown(text: str) -> list[str]:
    """Return Markdown of a heading, table, list, link and so on that was not rendered on a page, with its line."""
    found = []
    for block, tag in _read(text).blocks:
        lines = "\n".join(line.strip() for line in block.strip().splitlines())
        for kind, pattern in _LEFT.items():
            if (left := pattern.search(lines)) and not (kind == "a list" and tag in _CELLS):
                line = lines[left.start() :].strip().split("\n", 1)[0]
                found.append(f"{kind} did not become one: {line}")
    return found


def faults(site: Path) -> Iterator[str]:
    """Yield the faults of a built site, one line each."""
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        text, is_style = path.read_text("utf-8"), path.suffix == ".css"
        for address in fetched_elsewhere(text, is_style=is_style):
            yield f"{path}: fetches {address}"
        for line in [] if is_style else left_as_markdown(text):
            yield f"{path}: {line}"
    for module in public_modules().values():
        page = _read((site / "reference" / module.name / "index.html").read_text("utf-8"))
        for name in module.defined:
            if f"{module.name}.{name}" not in page.ids:
                yield f"{module.name}.{name}: has no entry in the reference"


if __name__ == "__main__":
    found = list(faults(Path(sys.argv[1])))
    print("\n".join(found) or f"{sys.argv[1]} fetches nothing, shows no Markdown and has every public name")
    sys.exit(1 if found else 0)
