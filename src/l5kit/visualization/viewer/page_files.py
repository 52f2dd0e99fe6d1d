"""Files of the viewer page, and assembly of the page from them."""

import base64
import json
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from typing import Final

_MEDIA_TYPE: Final = "text/javascript; charset=utf-8"
_LIBRARIES: Final = {"pixi.js": "vendor/pixi.min.mjs", "uplot": "vendor/uplot.js"}
"""Files of libraries by the names that modules import."""

_STYLES: Final = ("vendor/uPlot.min.css", "page.css")
PAGE: Final = "page.html"
"""The template of the page that shows one log."""

TWO_PAGES: Final = "beside.html"
"""The template of a page with two others side by side, at ``left/`` and ``right/``."""

OVERVIEW: Final = "overview.html"
"""The template of the overview of several planners, which requests ``api/overview``."""


@dataclass(frozen=True)
class PageFile:
    """A script that the page loads.

    Attributes:
        name: File name on a server, without folders.
        specifier: Name that scripts import.
        content: Its bytes.
        media_type: Its media type.
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
    """Return a page as HTML.

    Args:
        title: Window title.
        script_folder: URL of the server folder with :func:`page_files`; None to embed them in the page.
        nonce: Nonce for the scripts of the page that the content security policy allows.
        content: HTML elements with data for the scripts.
        template: :data:`PAGE`, :data:`TWO_PAGES` or :data:`OVERVIEW`.
    """
    folder = resources.files(__package__) / "page"
    imports = {file.specifier: f"{script_folder}/{file.name}" for file in page_files()}
    if script_folder is None:  # embed the scripts
        data = {file.specifier: base64.b64encode(file.content).decode("ascii") for file in page_files()}
        imports = {specifier: f"data:text/javascript;base64,{text}" for specifier, text in data.items()}
    page = (folder / template).read_text("utf-8")
    # file names may contain surrogates, which UTF-8 cannot encode
    shown_title = escape(title.encode("utf-8", "replace").decode("utf-8"))
    page = page.replace("<title>l5kit view</title>", f"<title>{shown_title}</title>")
    return fill_template(page, style=page_style(), imports=imports, nonce=nonce, content=content)


def page_style() -> str:
    """Return the concatenated style sheets of the page."""
    folder = resources.files(__package__) / "page"
    return "\n".join((folder / name).read_text("utf-8") for name in _STYLES)


def fill_template(template: str, *, style: str, imports: dict[str, str], nonce: str = "", content: str = "") -> str:
    """Return a page from a template with its styles, the URLs of its scripts and its data.

    Args:
        template: HTML with marks such as ``<!-- l5kit:style -->``.
        style: Style sheets.
        imports: URLs of scripts by the names that modules import.
        nonce: Nonce for the scripts of the page that the content security policy allows.
        content: HTML elements with data for the scripts.
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
