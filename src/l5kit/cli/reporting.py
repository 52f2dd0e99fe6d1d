"""How a command ends: errors and warnings in one line each on standard error, and the exit status.

0 is success, 1 an error or findings, 2 a wrong call, 130 an interruption from the keyboard.
"""

import sys
import warnings
from typing import Any

import typer
from typer.core import TyperCommand

from l5kit.errors import L5KitError

DEBUG_OPTION = "--debug"

_EXPECTED = (L5KitError, OSError)


class ReportingCommand(TyperCommand):
    """A command that takes ``--debug`` at any place and lets no traceback out without it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take ``--debug`` out of the arguments."""
        before_values = args[: args.index("--")] if "--" in args else args
        if DEBUG_OPTION in before_values:
            args = [word for word in before_values if word != DEBUG_OPTION] + args[len(before_values) :]
            request_traceback(ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; see the module for how it ends."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _print_warning
                return super().invoke(ctx)
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except Exception as error:
            if ctx.meta.get(DEBUG_OPTION):
                raise
            _print_line(f"error: {_in_one_line(error)}")
            raise typer.Exit(1) from None


def request_traceback(ctx: Any) -> None:
    """Let errors of this call be shown with their traceback."""
    ctx.meta[DEBUG_OPTION] = True


def _in_one_line(error: Exception) -> str:
    message = " ".join(str(error).split())
    if isinstance(error, _EXPECTED):
        return message or type(error).__name__
    return f"{type(error).__name__}: {message} (unexpected; {DEBUG_OPTION} shows where it happened)"


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _print_line(f"warning: {' '.join(str(message).split())}")


def _print_line(text: str) -> None:
    print(text, file=sys.stderr)
