"""How far long work is: a bar on terminals and in notebooks, a line once a minute elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from html import escape

from l5kit.errors import without_secrets

__all__ = ["TELL_EVERY_S", "NotebookBar", "Progress", "in_notebook", "on_terminal", "show_progress", "tell"]

Progress = Callable[[int, int], None]
"""Called with the number of steps that are done and their total."""

TELL_EVERY_S = 60.0
"""Seconds between two lines where there is no bar, as in the file of a batch job."""

_MIN_PAUSE_S = 0.2
"""Between two changes of a bar in a notebook, each of which is a message to the browser."""


def _show_nothing(done: int, total: int) -> None:
    """Take progress and show nothing."""


@contextmanager
def show_progress(title: str, *, visible: bool, in_bytes: bool = False) -> Iterator[Progress]:
    """Give a callable that moves a bar on standard error, or in a notebook; the bar vanishes at the end.

    Where standard error is no terminal, a line once a minute says how far the work is.

    Args:
        title: Text before the bar.
        visible: Show the bar or the lines.
        in_bytes: Show how many bytes are done, and how many in a second; steps are bytes then.
    """
    if visible and in_notebook():
        notebook_bar = NotebookBar(title)
        try:
            yield notebook_bar.show
        finally:
            notebook_bar.close()
        return
    if not visible or not on_terminal():
        yield _Lines(title, in_bytes=in_bytes).show if visible else _show_nothing
        return
    from rich.console import Console  # here, so that opening a dataset does not load it
    from rich.progress import DownloadColumn, TransferSpeedColumn
    from rich.progress import Progress as ProgressBar

    columns = (*ProgressBar.get_default_columns(), *((DownloadColumn(), TransferSpeedColumn()) if in_bytes else ()))
    with ProgressBar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


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
    """Print a line for people on standard error, without secrets of addresses, and nowhere where there is none."""
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

    def show(self, done: int | float, total: int | float, text: str = "") -> None:
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
