"""How far long work is: a bar on terminals and in notebooks, a line once a minute elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from html import escape
from typing import Protocol

from l5kit.errors import without_secrets

Progress = Callable[[int, int], None]
"""Called with the number of steps that are done and their total."""

TELL_EVERY_S = 60.0
"""Seconds between two lines where there is no bar, as in the file of a batch job."""

_MIN_PAUSE_S = 0.2
"""Between two changes of a bar in a notebook, each of which is a message to the browser."""


def progress_of_part(progress: Progress | None, num_before: int, total: int) -> Progress | None:
    """Return what shows the progress of a part of some work as that of all; None for None.

    Args:
        progress: Shows how far all of it is.
        num_before: Steps that are done before the part begins.
        total: Steps of all.
    """
    return None if progress is None else lambda done, _: progress(num_before + done, total)


@contextmanager
def show_progress(title: str, *, visible: bool, in_bytes: bool = False, rate_of: str = "") -> Iterator[Progress]:
    """Give a callable that moves a bar on standard error, or in a notebook; the bar vanishes at the end.

    Where standard error is no terminal, a line once a minute says how far the work is.

    Args:
        title: Text before the bar.
        visible: Show the bar or the lines.
        in_bytes: Show how many bytes are done, and how many in a second; steps are bytes then.
        rate_of: On a terminal, show how many steps are done, and how many of what this names in a second.
    """
    if not visible:
        yield lambda _done, _total: None
        return
    bar = open_bar(title, in_bytes=in_bytes, has_counts=bool(rate_of))
    if bar is None:
        yield _Lines(title, in_bytes=in_bytes).show
        return
    start_s = time.perf_counter()

    def show(done: int, total: int) -> None:
        rate = done / max(time.perf_counter() - start_s, 1e-9)
        bar.show(done, total, f"{rate:.1f} {rate_of}/s" if rate_of and not in_notebook() else "")

    try:
        yield show
    finally:
        bar.close()


class Bar(Protocol):
    """A bar that is shown until it is closed."""

    def show(self, done: float, total: float, text: str = "") -> None:
        """Move the bar.

        Args:
            done: Steps that are done.
            total: All of them.
            text: Behind the bar.
        """

    def close(self) -> None:
        """Take the bar away."""


def open_bar(title: str, *, in_bytes: bool = False, has_counts: bool = False) -> Bar | None:
    """Return a bar in the notebook, or on standard error; None where that is no terminal.

    Args:
        title: Text before the bar.
        in_bytes: Show how many bytes are done, and how many in a second.
        has_counts: Show on a terminal how many steps are done, in place of their share.
    """
    if in_notebook():
        return NotebookBar(title)
    return _TerminalBar(title, in_bytes=in_bytes, has_counts=has_counts) if on_terminal() else None


class _TerminalBar:
    """A bar on standard error."""

    def __init__(self, title: str, *, in_bytes: bool, has_counts: bool) -> None:
        from rich import progress  # here, so that opening a dataset does not load it
        from rich.console import Console

        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn() if has_counts else progress.TaskProgressColumn(),
            progress.TimeRemainingColumn(),
            *((progress.DownloadColumn(), progress.TransferSpeedColumn()) if in_bytes else ()),
            progress.TextColumn("{task.fields[text]}"),
        )
        self._bars = progress.Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bars.add_task(title, total=None, text="")
        self._bars.start()

    def show(self, done: float, total: float, text: str = "") -> None:
        self._bars.update(self._task, completed=done, total=total, text=text)

    def close(self) -> None:
        self._bars.stop()


class _Lines:
    """A line on standard error for each minute in which the work has moved."""

    def __init__(self, title: str, *, in_bytes: bool) -> None:
        self._title, self._in_bytes = title, in_bytes
        self._shown_s = time.monotonic()

    def show(self, done: int, total: int) -> None:
        now_s = time.monotonic()
        if now_s - self._shown_s < TELL_EVERY_S:
            return
        self._shown_s = now_s
        counts = f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB" if self._in_bytes else f"{done:,} of {total:,}"
        tell(f"{self._title}: {counts}")


def on_terminal() -> bool:
    """Return whether standard error is a terminal, where bars are shown; there may be none, as with ``pythonw``."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # it was closed
        return False


def tell(text: str) -> None:
    """Print a human-readable line on standard error, without secrets of addresses, and nowhere where there is none."""
    if sys.stderr is not None:  # print would take standard output in its place
        with suppress(ValueError, OSError):  # it was closed
            sys.stderr.write(f"{without_secrets(text)}\n")


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook, of Jupyter, VS Code or Colab."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookBar:
    """A bar in the output of a cell; nothing but the browser is needed to see it.

    Args:
        title: Text before the bar.
    """

    def __init__(self, title: str) -> None:
        from IPython.display import display  # here: only notebooks have it

        self._title = title
        self._shown_s = 0.0
        self._handle = display(_Bar(title, 0, 0, ""), display_id=True)  # type: ignore[no-untyped-call]

    def show(self, done: float, total: float, text: str = "") -> None:
        """Move the bar, at most five times a second.

        Args:
            done: Steps that are done.
            total: All of them.
            text: Behind the bar.
        """
        now_s = time.monotonic()
        if now_s - self._shown_s >= _MIN_PAUSE_S:
            self._shown_s = now_s
            self._handle.update(_Bar(self._title, done, total, text))

    def close(self) -> None:
        """Take the bar away."""
        self._handle.update(_Bar("", 0, 0, ""))


class _Bar:
    """A bar as it is at a moment; one without a title is nothing."""

    def __init__(self, title: str, done: float, total: float, text: str) -> None:
        self._title, self._done, self._total, self._text = title, done, total, text

    def __repr__(self) -> str:
        return f"{self._title} {self._done:,} of {self._total:,} {self._text}".rstrip() if self._title else ""

    def _repr_html_(self) -> str:
        if not self._title:
            return ""
        attributes = f' value="{self._done}" max="{self._total}"' if self._total else ""
        count = f" {self._done:,} of {self._total:,}" if isinstance(self._total, int) and self._total else ""
        return f"<div>{escape(self._title)} <progress{attributes}></progress>{count} {escape(self._text)}</div>"
