"""A self-contained page of numbers, pictures and tables, about a dataset or compared runs."""

import base64
import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from l5kit._files import replaced_when_complete

_TEMPLATE = "report_page.html"
_MEDIA_TYPES = {".gif": "image/gif", ".png": "image/png", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class PageTable:
    """A table of the page.

    Attributes:
        title: Heading.
        columns: Column heads.
        rows: Cells, row by row; the first cell of a row is its name, the others are right-aligned.
        note: A sentence below the table.
        tones: ``better`` or ``worse`` for cells to be coloured, else empty; empty for a table without colours.
        num_texts: Number of last columns that are texts, which are left-aligned.
        is_long: Whether the table scrolls in a box of limited height and is sorted by a click on a column head.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    tones: Sequence[Sequence[str]] = ()
    num_texts: int = 0
    is_long: bool = False


@dataclass(frozen=True)
class PageFigure:
    """A picture of the page.

    Attributes:
        path: A PNG, GIF or SVG file, which is embedded in the page.
        title: Heading.
        caption: Description.
    """

    path: Path
    title: str
    caption: str


def write_page(
    output_filepath: str | os.PathLike[str],
    *,
    title: str,
    subtitle: str,
    facts: dict[str, str],
    figures: Sequence[PageFigure],
    tables: Sequence[PageTable],
    footer: str,
) -> None:
    """Write the page, complete or not at all.

    Args:
        output_filepath: The HTML file; an older one is replaced.
        title: Heading of the page.
        subtitle: A line below it.
        facts: Names and values in large type.
        figures: Pictures, in this order.
        tables: Tables, after the pictures.
        footer: The last line.

    Raises:
        FileNotFoundError: The folder of ``output_filepath`` or a picture does not exist.
    """
    template = Template(resources.files(__package__).joinpath(_TEMPLATE).read_text("utf-8"))
    # embed pictures as base64
    shown = []
    for figure in figures:
        data = base64.b64encode(figure.path.read_bytes()).decode("ascii")
        source = f"data:{_MEDIA_TYPES[figure.path.suffix]};base64,{data}"
        shown.append(
            f'<figure><h2>{escape(figure.title)}</h2><img src="{source}" alt="{escape(figure.title)}">'
            f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
        )
    page = template.substitute(
        title=escape(title),
        subtitle=escape(subtitle),
        facts="\n".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items()),
        figures="\n".join(shown),
        tables="\n".join(_table(table) for table in tables),
        footer=escape(footer),
    )
    with replaced_when_complete(output_filepath) as path:
        path.write_text(page, "utf-8")


def _table(table: PageTable) -> str:
    kinds = [""] * (len(table.columns) - table.num_texts) + ["text"] * table.num_texts
    heads = zip(table.columns, kinds, strict=True)
    head = "".join(f'<th scope="col"{_class_of(kind)}>{escape(column)}</th>' for column, kind in heads)
    tones = table.tones or [[""] * len(row) for row in table.rows]
    rows = []
    for cells, of_row in zip(table.rows, tones, strict=True):
        marked = zip(cells[1:], of_row[1:], kinds[1:], strict=True)
        others = "".join(f"<td{_class_of(tone or kind)}>{escape(cell)}</td>" for cell, tone, kind in marked)
        rows.append(f'<tr><th scope="row">{escape(cells[0])}</th>{others}</tr>')
    body = "\n".join(rows)
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    shape = "wide long" if table.is_long else "wide"
    return (
        f'<section><h2>{escape(table.title)}</h2><div class="{shape}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{note}</section>"
    )


def _class_of(name: str) -> str:
    return f' class="{name}"' if name else ""
