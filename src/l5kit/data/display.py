"""Notebook cards of objects: a table of facts, with a preview image if available.

The table has no dependencies. The image comes from ``l5kit.visualization.notebooks`` if that has been imported;
otherwise there is none.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from html import escape

_MAX_CELL = 300
_PREVIEWS = "l5kit.visualization.notebooks.preview"
_CELL = "padding:1px 10px 1px 0;text-align:left;vertical-align:top;border:0;background:none"
_RULE = "border:1px solid rgba(128,128,128,0.4);border-radius:4px"


def html_card(title: str, read_facts: Callable[[], Mapping[str, object]], *, subject: object = None) -> str:
    """Return a card with a title, a table of facts and, if available, a small image; never raises.

    Errors while reading facts are shown in the table instead. Colours are those of the notebook, to suit light and dark
    themes.

    Args:
        title: Title of the card.
        read_facts: Function that returns names and values of the facts.
        subject: Object of the preview image; None for no image.
    """
    try:
        facts = {name: _text(value) for name, value in read_facts().items()}
    except Exception as error:  # damaged datasets may raise anything; show the error
        facts = {"error": f"{type(error).__name__}: {error}"}

    # without a preview, show only the table
    picture, previews = "", sys.modules.get(_PREVIEWS)
    if previews is not None and subject is not None and "error" not in facts:
        with suppress(Exception):
            picture = str(previews.preview_html(subject))
    rows = "".join(
        f'<tr><th style="{_CELL};font-weight:normal;opacity:0.7">{_cell(name)}</th>'
        f'<td style="{_CELL}">{_cell(value)}</td></tr>'
        for name, value in facts.items()
    )
    return (
        f'<div style="display:inline-block;max-width:100%;padding:8px 12px;{_RULE}"><div style="font-weight:bold">'
        f'{_cell(title)}</div><div style="display:flex;flex-wrap:wrap;gap:12px;align-items:flex-start">'
        f'<table style="border-collapse:collapse;margin:4px 0;border:0">{rows}</table>{picture}</div></div>'
    )


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a titled table; cells are escaped and long ones truncated."""
    head = "".join(f'<th style="{_CELL}">{_cell(column)}</th>' for column in columns)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{_cell(_text(cell))}</td>' for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div style="display:inline-block;max-width:100%;overflow-x:auto;padding:8px 12px;{_RULE}">'
        f'<div style="font-weight:bold">{_cell(title)}</div>'
        '<table style="border-collapse:collapse;margin:4px 0;border:0">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def html_columns(title: str, columns: Mapping[str, object]) -> str:
    """Return a table of shape and dtype of each array."""
    shapes = [(key, tuple(getattr(value, "shape", ())), getattr(value, "dtype", "")) for key, value in columns.items()]
    return html_table(title, ("key", "shape", "type"), shapes)


def _text(value: object) -> str:
    """Return a value as human-readable text."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def _cell(text: str) -> str:
    """Return escaped text for a cell; surrogates in file names, which UTF-8 cannot encode, are replaced."""
    shown = text if len(text) <= _MAX_CELL else f"{text[:_MAX_CELL]}..."
    return escape(shown.encode("utf-8", "replace").decode("utf-8"))
