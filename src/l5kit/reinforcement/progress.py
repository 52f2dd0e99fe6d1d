"""Progress of a training of a driver: a bar on a terminal, lines elsewhere."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from l5kit.data.progress import Bar, open_bar

_LINE_EVERY_S = 30.0


@dataclass(frozen=True)
class Pace:
    """How a training goes at a moment.

    Attributes:
        step: Steps that are done.
        share_done: Of the whole training, 0 to 1.
        steps_per_s: Steps a second, without evaluations and checkpoints.
        environment_share: Share of that time in steps of the environments, 0 to 1.
        reward: Mean reward of the last episodes; None before the first has ended.
    """

    step: int
    share_done: float
    steps_per_s: float
    environment_share: float
    reward: float | None

    def __str__(self) -> str:
        reward = "-" if self.reward is None else f"{self.reward:.2f}"
        return (
            f"{self.step:,} steps, episode reward {reward}, {self.steps_per_s:,.0f} steps/s, "
            f"environment {self.environment_share:.0%}"
        )


class DriverProgress:
    """Shows a bar if standard error is a terminal or this is a notebook, and otherwise tells a line now and then.

    Args:
        tell: Takes a line for people.
        visible: Whether the pace is shown; evaluations are told in any case.
    """

    def __init__(self, *, tell: Callable[[str], None], visible: bool = True) -> None:
        self._tell, self._visible = tell, visible
        self._shown_s = time.perf_counter()
        self._bar: Bar | None = None

    def start(self) -> None:
        """Show the bar."""
        if self._visible:
            self._bar = open_bar("Training")

    def show(self, pace: Pace) -> None:
        """Show how it goes."""
        if self._bar is not None:
            self._bar.show(pace.share_done, 1.0, str(pace))
        elif self._visible and pace.steps_per_s > 0 and time.perf_counter() - self._shown_s >= _LINE_EVERY_S:
            self._tell(str(pace))
            self._shown_s = time.perf_counter()

    def tell(self, line: str) -> None:
        """Tell a line."""
        self._tell(line)

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
