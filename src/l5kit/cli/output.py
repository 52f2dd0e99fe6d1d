"""Output of commands: tables on standard output, or JSON for machines; remarks on standard error; checks of paths."""

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
"""Maximum number of scenes listed one by one, such as failed ones; a file has all of them."""

_WIDTH_WITHOUT_TERMINAL = 120


def print_json(content: object) -> None:
    """Print JSON on standard output, which must contain nothing else.

    Numbers that are not finite become null, paths become absolute, and addresses lose their secrets.
    """
    text = json.dumps(reported_values(content), indent=2, default=_as_text, allow_nan=False)
    print(text, file=getattr(sys.stdout, "behind", sys.stdout))


class _Aside(io.TextIOBase):
    """Standard output of a command with JSON: redirects what user code prints to standard error.

    Attributes:
        behind: The stream for JSON.
    """

    def __init__(self, behind: TextIO) -> None:
        self.behind = behind

    def write(self, text: str, /) -> int:
        """Write to standard error, if there is one."""
        if sys.stderr is not None:
            with suppress(ValueError, OSError):
                sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush both streams."""
        self.behind.flush()


@contextmanager
def only_json() -> Iterator[None]:
    """Reserve standard output for :func:`print_json` within the block.

    Output of libraries and child processes goes to standard error, too, as the file descriptor is redirected.
    """
    # JSON goes to a duplicate of the descriptor of standard output. The descriptor itself becomes standard error, or
    # the null device if there is none, so that output of other processes and libraries cannot get into the JSON.
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
            with suppress(OSError):  # the reader is gone; print_json reports it
                behind.flush()
            os.dup2(kept, number)
            with suppress(OSError):
                behind.close()


def _file_of(stream: TextIO | None) -> int | None:
    """Return the descriptor of a standard stream of the process; None if the stream was replaced."""
    is_of_process = any(stream is each for each in (sys.__stdout__, sys.__stderr__))
    if stream is None or not is_of_process:
        return None
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None


@contextmanager
def standing_in_for_streams() -> Iterator[None]:
    """Provide standard output and error within the block, as null devices if the process has none.

    A process started without them, as by ``2>&-`` or ``pythonw``, would otherwise reuse their descriptors for its own
    files.
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
    """Print a line on standard output without wrapping it, and without secrets of addresses."""
    print(without_secrets(text))


def remark(text: str) -> None:
    """Print a line on standard error; standard output is for results."""
    tell(text)


def remark_notes(notes: Iterable[str]) -> None:
    """Print notes on standard error, one per line."""
    for note in notes:
        remark(f"note: {note}")


def remark_some(label: str, texts: Sequence[str], *, listed_in: object) -> None:
    """Print the first few texts on standard error, one per line, and where all are listed."""
    for text in texts[:MOST_LISTED]:
        remark(f"{label}: {' '.join(text.split())}")
    if len(texts) > MOST_LISTED:
        remark(f"{label}: {len(texts) - MOST_LISTED} more, listed in {listed_in}")


def remark_cut(option: str, requested: slice | None, num_there: int, *, owner: str) -> None:
    """Report that an option asked for more than there is; all that exists was taken.

    Args:
        option: The option, such as ``--scenes``.
        requested: Its value; None if it was not given.
        num_there: Number of existing items.
        owner: Owner of the items, such as ``the log``.
    """
    if requested is None or requested.stop is None:
        return
    step = requested.step or 1
    text = f"{'' if requested.start is None else requested.start}:{requested.stop}{f':{step}' if step > 1 else ''}"
    num_requested = len(range(requested.start or 0, requested.stop, step))
    if num_there < num_requested:
        remark(f"note: {option} {text} takes {num_there} of {num_requested}, as {owner} has no more")


def require_writable(out: Path, *, option: str) -> None:
    """Check before any work is done that a file can be written; ``option`` is its name in errors.

    Raises:
        FileNotFoundError: Its folder does not exist.
        IsADirectoryError: It is a folder.
        PermissionError: Its folder is not writable.
        InvalidArgumentError: It exists and was not written by l5kit.
    """
    require_file_path(out, argument=option)
    _require_access(out.parent, out, option=option)
    require_own_file(out, argument=option)


def require_writable_folder(out: Path, *, option: str = "--out") -> None:
    """Check before any work is done that a folder, which need not exist, can be written to.

    Raises:
        NotADirectoryError: It lies in a file.
        PermissionError: The folder, or its first existing parent, is not writable.
    """
    there = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    if there != out and not there.is_dir():
        raise NotADirectoryError(f"{option} {str(out)!r}: {str(there)!r} is a file; choose another folder")
    if there.is_dir():
        _require_access(there, out, option=option)


def _require_access(folder: Path, out: Path, *, option: str) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{option} {str(out)!r}: the folder {str(folder)!r} is not writable; choose one that is")


def print_facts(title: str, facts: Mapping[str, object]) -> None:
    """Print names and values, one per line, with numbers formatted for people."""
    table = Table(show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, without_secrets(_for_people(value)))
    _print_titled(title, table)


def _for_people(value: object) -> str:
    """Return a value as text: thousands separated, other numbers with four digits, and no Python syntax."""
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
    """Return a number for a table; a dash for None."""
    return "-" if value is None else f"{value:.3f}"


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with the first column aligned to the left and the others to the right."""
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
