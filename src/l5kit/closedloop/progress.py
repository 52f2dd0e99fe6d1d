"""A bar that shows how far a simulation is, and how many scenes are done in a second."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from l5kit.data.progress import Progress, in_notebook, on_terminal, show_progress

__all__ = ["show_scenes"]


@contextmanager
def show_scenes(title: str, *, visible: bool) -> Iterator[Progress]:
    """Give a callable that moves a bar on standard error, or in a notebook; the bar vanishes at the end.

    Args:
        title: Text before the bar.
        visible: Show it, if standard error is a terminal or this is a notebook.
    """
    if in_notebook() or not (visible and on_terminal()):
        with show_progress(title, visible=visible) as progress:
            yield progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as ProgressBar

    start_s = time.perf_counter()
    texts = [TextColumn(text) for text in ("{task.description}", "{task.fields[speed]}")]
    columns = (texts[0], BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), texts[1])
    with ProgressBar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None, speed="")

        def show(done: int, total: int) -> None:
            rate = done / max(time.perf_counter() - start_s, 1e-9)
            bar.update(task, completed=done, total=total, speed=f"{rate:.1f} scenes/s")

        yield show
