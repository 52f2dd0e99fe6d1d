"""Hooks of the site: pages made from the code and from other files, and links that lead out of the docs.

mkdocs calls the functions ``on_*`` (``hooks`` in ``mkdocs.yml``). Nothing is written into this folder.
"""

import json
import os
import posixpath
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

from command_page import command_page  # noqa: E402 - this folder is no package
from included_pages import SOURCE_URL, included_pages  # noqa: E402
from moved_sections import MOVED  # noqa: E402
from reference_pages import reference_nav, reference_pages  # noqa: E402

NOTEBOOKS = ROOT / "examples" / "notebooks"

_NOT_RUN = re.compile(r"^<!-- not run:(?P<reason>[^\n]*)-->$", flags=re.MULTILINE)
_NOTEBOOK_LINK = re.compile(r"\]\((?:\.\./)+examples/notebooks/(?=\w+\.ipynb)")
_CARD_LINK = re.compile(r"\]\((?:\.\./)+src/l5kit/weights/(?P<name>\w+)/README\.md")
_NAMED_AS_FILE = re.compile(r"\[(?P<page>\w+\.md)\]\((?=(?P=page))")
_MADE_FROM_CODE = {"src/l5kit": "reference/index.md", "src/l5kit/cli": "reference/command.md"}
"""Pages of the site for links to the code, which elsewhere lead to the code itself."""
_LINK_OUT = re.compile(r"\]\((?P<path>(?:\.\./)+[^)#\s]+)")

_FOLLOW_MOVED = """// Old addresses of sections that are on another page now; made by docs/site_hooks.py.
(() => {
  const moved = %s;
  const page = location.pathname.slice(new URL(__md_scope).pathname.length).replace(/index\\.html$/, "");
  const target = moved[page + location.hash];
  if (target) location.replace(new URL(target, __md_scope));
})();
"""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the navigation, and offer other versions if the site is one of several."""
    config.nav = filled_nav(config.nav, generated_nav())
    if os.environ.get("L5KIT_DOCS_VERSIONED"):
        config.extra["version"] = {"provider": "mike"}
    return config


@event_priority(100)  # before mkdocs-jupyter looks for notebooks
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files of this folder."""
    for path, text in generated_pages().items():
        files.append(File.generated(config, path, content=text))
    for path in notebooks():
        files.append(
            File(f"notebooks/{path.name}", str(path.parents[1] / ""), config.site_dir, config.use_directory_urls)
        )
    script = _FOLLOW_MOVED % json.dumps({address_of(old): address_of(new) for old, new in MOVED.items()}, indent=1)
    files.append(File.generated(config, "assets/moved.js", content=script))
    return files


def address_of(link: str) -> str:
    """Return the address in the site of a page of this folder, such as ``logs.md#facts``."""
    page, hash_sign, anchor = link.partition("#")
    return page.removesuffix("index.md").removesuffix(".md") + "/" + hash_sign + anchor


def search_boost(page: str) -> float:
    """Return the weight of a page in the search: guides above packages, these above the modules inside them."""
    module = page.removesuffix("/index.md").removesuffix(".md").removeprefix("reference/")
    if module.startswith("l5kit"):
        return 1.0 if module.count(".") <= 1 else 0.2
    return 0.5 if page.startswith(("releases/", "results/")) else 2.0


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Show why a block is not run, name pages by their titles, and point links out of the docs to the repository."""
    page.meta.setdefault("search", {"boost": search_boost(page.file.src_uri)})
    markdown = _NAMED_AS_FILE.sub(lambda found: f"[{title_of(found['page'])}](", markdown)
    markdown = _NOT_RUN.sub(r'<p class="not-run">Not run in the tests:\g<reason></p>\n', markdown)
    up = "../" * page.file.src_uri.count("/")
    markdown = _NOTEBOOK_LINK.sub(f"]({up}notebooks/", markdown)
    markdown = _CARD_LINK.sub(rf"]({up}weights/\g<name>.md", markdown)
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))
    return _LINK_OUT.sub(lambda found: f"]({link_out(folder, found['path'])}", markdown)


def title_of(page: str) -> str:
    """Return the first heading of a page of this folder, or its name if there is no such page."""
    path = ROOT / "docs" / page
    return path.read_text("utf-8").partition("# ")[2].partition("\n")[0] if path.exists() else page


def generated_pages() -> dict[str, str]:
    """Return the text of every page that is not a file of this folder, by its path."""
    return reference_pages() | {"reference/command.md": command_page()} | included_pages()


def notebooks() -> list[Path]:
    """Return the notebooks shown with their stored outputs."""
    return sorted(NOTEBOOKS.glob("*.ipynb"))


def generated_nav() -> dict[str, list[object]]:
    """Return the generated parts of the navigation, by their placeholders in ``mkdocs.yml``."""
    return {
        "NOTEBOOKS": [f"notebooks/{path.name}" for path in notebooks()],
        "REFERENCE": reference_nav(),
        "WEIGHTS": sorted(path for path in included_pages() if path.startswith("weights/")),
        "RELEASES": sorted((path for path in included_pages() if path.startswith("releases/")), reverse=True),
    }


def filled_nav(entry: object, parts: dict[str, list[object]]) -> object:
    """Return the navigation with its placeholders replaced, without titles that have no page."""
    if isinstance(entry, list):
        return [filled for filled in (filled_nav(value, parts) for value in entry) if filled]
    if isinstance(entry, dict):
        return {title: value for title, old in entry.items() if (value := filled_nav(old, parts))}
    return parts.get(str(entry), entry)


def link_out(folder: str, target: str) -> str:
    """Return the address in the repository of a file that a page in ``folder`` links to; the file must exist."""
    path = posixpath.normpath(posixpath.join(folder, target))
    if path in _MADE_FROM_CODE:
        return posixpath.relpath(posixpath.join("docs", _MADE_FROM_CODE[path]), folder)
    if path.startswith("docs/"):
        return target
    if not (ROOT / path).exists():
        raise FileNotFoundError(f"a page in {folder} links to {target}, which is not in the repository")
    return SOURCE_URL + path
