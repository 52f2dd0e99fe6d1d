"""What commands give: human-readable tables on standard output, JSON for machines, remarks on standard error, files."""

import io
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.table import Table

from l5kit._files import require_file_path
from l5kit.configs.texts import reported_values
from l5kit.data.jobs.owned_outputs import require_own_file
from l5kit.data.progress import tell
from l5kit.data.stores.store import whole_path_of
from l5kit.errors import without_secrets

MOST_LISTED = 5
"""Scenes that are listed one by one, such as failed ones; a file has all of them."""

_WIDTH_WITHOUT_TERMINAL = 120


def print_json(content: object) -> None:
    """Print JSON on standard output, which must hold nothing else then.

    Numbers that are not finite become null, paths absolute, and addresses have no secrets.
    """
    text = json.dumps(reported_values(content), indent=2, default=_as_text, allow_nan=False)
    print(text, file=getattr(sys.stdout, "behind", sys.stdout))


class _Aside(io.TextIOBase):
    """Standard output while a command gives JSON: what code of users prints goes to standard error.

    Attributes:
        behind: The stream that JSON is printed on.
    """

    def __init__(self, behind: TextIO) -> None:
        self.behind = behind

    def write(self, text: str, /) -> int:
        """Write to standard error, where there is one."""
        if sys.stderr is not None:
            with suppress(ValueError, OSError):
                sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush both streams."""
        self.behind.flush()


@contextmanager
def only_json() -> Iterator[None]:
    """Let standard output hold in the block what :func:`print_json` prints, and nothing else.

    What processes and libraries print that this one starts or calls goes to standard error, too, as the file behind
    standard output is another one meanwhile.
    """
    # JSON goes to a copy of the file that standard output had; the file itself is standard error in the block, or
    # nowhere if there is none, so that what other processes and libraries write there is no part of the JSON
    stream = sys.stdout
    number = _file_of(stream)
    kept = None if number is None else os.dup(number)
    behind = stream if kept is None else os.fdopen(kept, "w", encoding=stream.encoding, errors=stream.errors)
    if number is not None:
        error_file = _file_of(sys.stderr)
        stream.flush()
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno() if error_file is None else error_file, number)
    sys.stdout = _Aside(behind)
    try:
        yield
    finally:
        sys.stdout = stream
        if kept is not None and number is not None:
            with suppress(OSError):  # whoever reads it has gone, which is reported where it is printed
                behind.flush()
            os.dup2(kept, number)
            with suppress(OSError):
                behind.close()


def _file_of(stream: TextIO | None) -> int | None:
    """Return the number of the file of a standard stream of this process; None where it has been put in its place."""
    is_of_process = any(stream is each for each in (sys.__stdout__, sys.__stderr__))
    if stream is None or not is_of_process:
        return None
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None


@contextmanager
def standing_in_for_streams() -> Iterator[None]:
    """Let there be a standard output and error in the block, which print nowhere if the process has none.

    A process that was started without them, as by ``2>&-`` or ``pythonw``, would open its own files in their place.
    """
    lacking = [name for name in ("stdout", "stderr") if getattr(sys, name) is None]
    with ExitStack() as stack:
        for name in lacking:
            setattr(sys, name, stack.enter_context(open(os.devnull, "w", encoding="utf-8")))
            stack.callback(setattr, sys, name, None)
        yield


def _as_text(value: object) -> str:
    return without_secrets(whole_path_of(value) if isinstance(value, Path) else str(value))


def print_line(text: str) -> None:
    """Print a line on standard output, never broken, addresses in it without secrets."""
    print(without_secrets(text))


def remark(text: str) -> None:
    """Print a line on standard error, so that standard output holds the result alone."""
    tell(text)


def remark_notes(notes: Iterable[str]) -> None:
    """Say what is missing or was left out, a sentence in each line."""
    for note in notes:
        remark(f"note: {note}")


def remark_some(label: str, texts: Sequence[str], *, listed_in: object) -> None:
    """Say things of one kind, one a line, the first few of them, and where all are listed."""
    for text in texts[:MOST_LISTED]:
        remark(f"{label}: {' '.join(text.split())}")
    if len(texts) > MOST_LISTED:
        remark(f"{label}: {len(texts) - MOST_LISTED} more, listed in {listed_in}")


def remark_cut(option: str, requested: slice | None, num_there: int, *, owner: str) -> None:
    """Say that an option asks for more than there is; the rest is taken.

    Args:
        option: The option, such as ``--scenes``.
        requested: What it was given; None where it was not.
        num_there: How many of these there are.
        owner: What has them, such as ``the log``.
    """
    if requested is None or requested.stop is None:
        return
    step = requested.step or 1
    text = f"{'' if requested.start is None else requested.start}:{requested.stop}{f':{step}' if step > 1 else ''}"
    num_requested = len(range(requested.start or 0, requested.stop, step))
    if num_there < num_requested:
        remark(f"note: {option} {text} takes {num_there} of {num_requested}, as {owner} has no more")


def require_writable(out: Path, *, option: str) -> None:
    """Find out before any work is done that a file could not be written; ``option`` is what names it.

    Raises:
        FileNotFoundError: Its folder does not exist.
        IsADirectoryError: It is a folder.
        PermissionError: Its folder may not be written to.
        InvalidArgumentError: It is there, and l5kit has not written it.
    """
    require_file_path(out, argument=option)
    _require_access(out.parent, out, option=option)
    require_own_file(out, argument=option)


def require_writable_folder(out: Path, *, option: str = "--out") -> None:
    """Find out before any work is done that nothing could be written to a folder, which need not be there.

    Raises:
        NotADirectoryError: It lies in a file.
        PermissionError: It, or the folder that it would be made in, may not be written to.
    """
    there = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    if there != out and not there.is_dir():
        raise NotADirectoryError(f"{option} {str(out)!r}: {str(there)!r} is a file; name another folder")
    if there.is_dir():
        _require_access(there, out, option=option)


def _require_access(folder: Path, out: Path, *, option: str) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(
            f"{option} {str(out)!r}: the folder {str(folder)!r} may not be written to; name one that may"
        )


def print_facts(title: str, facts: Mapping[str, object]) -> None:
    """Print names and values, one a line; numbers as people read them."""
    table = Table(show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, without_secrets(_for_people(value)))
    _print_titled(title, table)


def _for_people(value: object) -> str:
    """Return a value as text: thousands apart, four digits of what is no whole number, and nothing as Python has it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_for_people(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_for_people, value))
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (int, float)):
        return str(value)
    is_large = isinstance(value, int) or abs(value) >= 1e4
    return f"{value:,.0f}" if is_large and math.isfinite(value) else f"{value:.4g}"


def short_number(value: float | None) -> str:
    """Return a number for a table; a dash where there is none."""
    return "-" if value is None else f"{value:.3f}"


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose first column is aligned to the left and whose other ones to the right."""
    table = Table()
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", overflow="fold", no_wrap=index > 0)
    for row in rows:
        table.add_row(*row)
    _print_titled(title, table)


def print_texts(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of texts, all aligned to the left."""
    table = Table(*columns)
    for row in rows:
        table.add_row(*row)
    _print_titled(title, table)


def _print_titled(title: str, table: Table) -> None:
    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    console = Console(markup=False, highlight=False, width=width)
    console.print(without_secrets(title), style="bold", soft_wrap=True)
    console.print(table)
    console.print()
