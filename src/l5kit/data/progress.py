"""A progress bar for long work."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int], None]
"""Called with the number of steps that are done and their total."""


def _show_nothing(done: int, total: int) -> None:
    """Take progress and show nothing."""


@contextmanager
def show_progress(title: str, *, visible: bool, in_bytes: bool = False) -> Iterator[Progress]:
    """Give a callable that moves a bar on standard error; the bar vanishes at the end.

    Args:
        title: Text before the bar.
        visible: Show it, if standard error is a terminal.
        in_bytes: Show how many bytes are done, and how many in a second; steps are bytes then.
    """
    if not (visible and sys.stderr.isatty()):
        yield _show_nothing
        return
    from rich.console import Console  # here, so that opening a dataset does not load it
    from rich.progress import DownloadColumn, TransferSpeedColumn
    from rich.progress import Progress as ProgressBar

    columns = (*ProgressBar.get_default_columns(), *((DownloadColumn(), TransferSpeedColumn()) if in_bytes else ()))
    with ProgressBar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
