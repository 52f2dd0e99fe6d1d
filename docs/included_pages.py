"""Pages made of files outside this folder: release notes, how to work on l5kit, and cards of the networks that ship."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

WEIGHTS = ROOT / "src" / "l5kit" / "weights"

SOURCE_URL = "https://github.com/l5kit/l5kit/blob/main/"

_LINK = re.compile(r"\]\((?P<target>(?!https?:|#)[^)]+)\)")
_VERSION = re.compile(r"^## \[(?P<version>[^\]]+)\] - (?P<date>\S+)$", flags=re.MULTILINE)


def included_pages() -> dict[str, str]:
    """Return the text of each page by its path in the site."""
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    # the cards next to the weights; they have no links to other files
    cards = {f"weights/{path.parent.name}.md": path.read_text("utf-8") for path in WEIGHTS.glob("*/README.md")}
    return release_pages(changelog) | {"contributing.md": seen_from(contributing, up="")} | cards


def release_pages(changelog: str) -> dict[str, str]:
    """Return a page of notes for each version of a changelog, and the list of versions."""
    pages = {f"releases/{version}.md": seen_from(text, up="../") for version, _, text in _sections(changelog)}
    lines = [f"- [l5kit {version}]({version}.md), {date}" for version, date, _ in _sections(changelog)]
    head = ["# Releases", "", "What a user notices of each version, the newest first.", ""]
    return {"releases/index.md": "\n".join([*head, *lines, ""])} | pages


def seen_from(text: str, *, up: str) -> str:
    """Return a document of the root as a page of this folder, or with ``up="../"`` of a folder in it."""
    return _LINK.sub(lambda found: f"]({_led_anew(found['target'], up)})", text)


def _led_anew(target: str, up: str) -> str:
    return up + target.removeprefix("docs/") if target.startswith("docs/") else SOURCE_URL + target


def _sections(changelog: str) -> Iterator[tuple[str, str, str]]:
    """Version, date and page of each section."""
    heads = list(_VERSION.finditer(changelog))
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        text = changelog[head.end() : following.start() if following else None]
        title = f"# l5kit {head['version']}\n\n*{head['date'].capitalize()}*\n"
        yield head["version"], head["date"], title + re.sub(r"^###", "##", text, flags=re.MULTILINE)
