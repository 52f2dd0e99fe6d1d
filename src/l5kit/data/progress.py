"""Progress of long work: a bar on terminals and in notebooks, a line once a minute elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from html import escape
from typing import Protocol

from l5kit.errors import without_secrets

Progress = Callable[[int, int], None]
"""Function called with the number of steps done and the total."""

TELL_EVERY_S = 60.0
"""Seconds between two lines if there is no bar, as in the log file of a batch job."""

_MIN_PAUSE_S = 0.2
"""Minimum seconds between two updates of a notebook bar, each of which is a message to the browser."""


def progress_of_part(progress: Progress | None, num_before: int, total: int) -> Progress | None:
    """Return a callable that reports the progress of a part as that of the whole work; None for None.

    Args:
        progress: Reports the progress of the whole work.
        num_before: Steps done before the part begins.
        total: Total number of steps.
    """
    return None if progress is None else lambda done, _: progress(num_before + done, total)


@contextmanager
def show_progress(title: str, *, visible: bool, in_bytes: bool = False, rate_of: str = "") -> Iterator[Progress]:
    """Yield a callable that moves a bar on standard error or in a notebook; the bar disappears at the end.

    If standard error is not a terminal, a line is printed once a minute.

    Args:
        title: Text before the bar.
        visible: Show the bar or the lines.
        in_bytes: Show bytes done and bytes per second; steps are bytes.
        rate_of: Unit of steps; on a terminal, show the number of steps done and the rate in this unit.
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
    """Protocol of a progress bar that is shown until closed."""

    def show(self, done: float, total: float, text: str = "") -> None:
        """Move the bar.

        Args:
            done: Steps done.
            total: Total number of steps.
            text: Text after the bar.
        """

    def close(self) -> None:
        """Remove the bar."""


def open_bar(title: str, *, in_bytes: bool = False, has_counts: bool = False) -> Bar | None:
    """Return a bar in the notebook or on standard error; None if that is not a terminal.

    Args:
        title: Text before the bar.
        in_bytes: Show bytes done and bytes per second.
        has_counts: On a terminal, show the number of steps done instead of the percentage.
    """
    if in_notebook():
        return NotebookBar(title)
    return _TerminalBar(title, in_bytes=in_bytes, has_counts=has_counts) if on_terminal() else None


class _TerminalBar:
    """Progress bar on standard error."""

    def __init__(self, title: str, *, in_bytes: bool, has_counts: bool) -> None:
        from rich import progress  # lazy, so that opening a dataset does not load it
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
    """Progress lines on standard error, at most one per minute."""

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
    """Return whether standard error is a terminal; it may be missing, as with ``pythonw``."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # closed
        return False


def tell(text: str) -> None:
    """Print a human-readable line on standard error, if there is one, without secrets of addresses."""
    if sys.stderr is not None:  # print would fall back to standard output
        with suppress(ValueError, OSError):  # closed
            sys.stderr.write(f"{without_secrets(text)}\n")


def in_notebook() -> bool:
    """Return whether this process is a notebook kernel (Jupyter, VS Code or Colab)."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookBar:
    """Progress bar in the output of a notebook cell; needs only the browser.

    Args:
        title: Text before the bar.
    """

    def __init__(self, title: str) -> None:
        from IPython.display import display  # only available in notebooks

        self._title = title
        self._shown_s = 0.0
        self._handle = display(_Bar(title, 0, 0, ""), display_id=True)  # type: ignore[no-untyped-call]

    def show(self, done: float, total: float, text: str = "") -> None:
        """Move the bar, at most five times a second.

        Args:
            done: Steps done.
            total: Total number of steps.
            text: Text after the bar.
        """
        now_s = time.monotonic()
        if now_s - self._shown_s >= _MIN_PAUSE_S:
            self._shown_s = now_s
            self._handle.update(_Bar(self._title, done, total, text))

    def close(self) -> None:
        """Remove the bar."""
        self._handle.update(_Bar("", 0, 0, ""))


class _Bar:
    """State of a bar at one moment; empty without a title."""

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
