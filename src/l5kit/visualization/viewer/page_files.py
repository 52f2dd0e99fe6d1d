"""The files of the page, and the page itself, put together from them."""

import base64
import json
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from typing import Final

_MEDIA_TYPE: Final = "text/javascript; charset=utf-8"
_LIBRARIES: Final = {"pixi.js": "vendor/pixi.min.mjs", "uplot": "vendor/uplot.js"}
"""Libraries by the name that modules import them under."""

_STYLES: Final = ("vendor/uPlot.min.css", "page.css")
PAGE: Final = "page.html"
"""The template of the page that shows one log."""

TWO_PAGES: Final = "beside.html"
"""That of the page which shows two others, at ``left/`` and ``right/``."""

OVERVIEW: Final = "overview.html"
"""That of the page of several planners, which requests ``api/overview``."""


@dataclass(frozen=True)
class PageFile:
    """A script that the page loads.

    Attributes:
        name: Under which a server offers it, without folders.
        specifier: Under which scripts import it.
        content: Its bytes.
        media_type: What it is.
    """

    name: str
    specifier: str
    content: bytes
    media_type: str = _MEDIA_TYPE


@cache
def page_files() -> tuple[PageFile, ...]:
    """Return all scripts of the page."""
    folder = resources.files(__package__) / "page"
    own = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".js"))
    paths = {f"l5kit/{name.removesuffix('.js')}": name for name in own} | _LIBRARIES
    return tuple(
        PageFile(path.rpartition("/")[2], specifier, (folder / path).read_bytes()) for specifier, path in paths.items()
    )


def compose_page(
    *, title: str, script_folder: str | None, nonce: str = "", content: str = "", template: str = PAGE
) -> str:
    """Return the page, or another one, as HTML.

    Args:
        title: Of the window.
        script_folder: Address of the folder in which a server offers :func:`page_files`; None puts them into the page.
        nonce: Mark of the scripts in the page that the server's security policy lets run.
        content: HTML that the scripts take data from.
        template: :data:`PAGE`, :data:`TWO_PAGES` or :data:`OVERVIEW`.
    """
    folder = resources.files(__package__) / "page"
    imports = {file.specifier: f"{script_folder}/{file.name}" for file in page_files()}
    if script_folder is None:  # scripts are inside the page
        data = {file.specifier: base64.b64encode(file.content).decode("ascii") for file in page_files()}
        imports = {specifier: f"data:text/javascript;base64,{text}" for specifier, text in data.items()}
    page = (folder / template).read_text("utf-8")
    # names of files may hold surrogates, which UTF-8 has no bytes for
    shown_title = escape(title.encode("utf-8", "replace").decode("utf-8"))
    page = page.replace("<title>l5kit view</title>", f"<title>{shown_title}</title>")
    return fill_template(page, style=page_style(), imports=imports, nonce=nonce, content=content)


def page_style() -> str:
    """Return the style sheets of the page, one after the other."""
    folder = resources.files(__package__) / "page"
    return "\n".join((folder / name).read_text("utf-8") for name in _STYLES)


def fill_template(template: str, *, style: str, imports: dict[str, str], nonce: str = "", content: str = "") -> str:
    """Return a page of a template with its styles, the addresses of its scripts and its data.

    Args:
        template: HTML with marks such as ``<!-- l5kit:style -->``.
        style: Style sheets.
        imports: Addresses of scripts by the name that modules import them under.
        nonce: Mark of the scripts in the page that the server's security policy lets run.
        content: HTML that the scripts take data from.
    """
    import_map = json.dumps({"imports": imports})
    parts = {
        '<script type="module">': f'<script type="module" nonce="{nonce}">',
        "<!-- l5kit:style -->": f"<style>\n{style}\n</style>",
        "<!-- l5kit:importmap -->": f'<script type="importmap" nonce="{nonce}">{import_map}</script>',
        "<!-- l5kit:data -->": content,
    }
    for mark, part in parts.items():
        template = template.replace(mark, part)
    return template
