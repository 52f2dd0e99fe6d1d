"""Error reporting of commands: errors and warnings in one line each on standard error, and the exit status.

0 is success, 1 an error or findings, 2 a wrong call, 130 an interruption by Ctrl+C, 143 a training ended by SIGTERM.
Compilation of kernels, which delays the first samples on a machine, is also reported in one line.
"""

import errno
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from l5kit._compiling import ADVICE, COMPILING, CompilationWatch, interrupted_after_compiling
from l5kit.cli.output import only_json, standing_in_for_streams
from l5kit.configs.class_path import describe_error
from l5kit.configs.texts import did_you_mean
from l5kit.data.progress import tell
from l5kit.data.stores.store import is_url, path_of
from l5kit.errors import L5KitError, ending_behind, install_command, is_termination

_ALSO_CALLED: Final = {
    "folder": ("out",),
    "output_folder": ("out",),
    "target": ("out",),
    "path": ("path", "paths", "out"),
    "num_frames": ("frames",),
    "num_frames_to_copy": ("frames",),
    "num_frames_gt": ("future",),
    "min_frame_future": ("min_future",),
    "num_scenes": ("scenes",),
    "num_train_scenes": ("train_scenes",),
    "num_validate_scenes": ("validate_scenes",),
    "traffic_density": ("density",),
    "keeps_plans": ("plans",),
    "num_workers": ("workers",),
    "num_worst": ("worst",),
    "horizons_s": ("horizons",),
    "step_time_s": ("step",),
    "map_radius_m": ("map_radius",),
    "pixel_size_m": ("pixel_size",),
    "data_folder": ("data",),
    "local_data_folder": ("data",),
}
"""Arguments of the library, and the command parameters that set them."""

_VALUES: Final = (
    (re.compile(r"\bslice\((\w+), (\w+), None\)"), r"\1:\2"),
    (re.compile(r"\bslice\((\w+), (\w+), (\w+)\)"), r"\1:\2:\3"),
    (re.compile(r"\bNone(?=:\w)|(?<=\w:)None\b"), ""),
    (re.compile(r"\bnp\.\w+\(([^()]*)\)"), r"\1"),
    (re.compile(r"\b(?:Posix|Windows)Path\(('[^']*')\)"), r"\1"),
    (re.compile(r"\(([^(),]+),\)"), r"\1"),
    (re.compile(r"<class '(?:\w+\.)*(\w+)'>"), r"\1"),
    (re.compile(r"\bdtype\('([^']*)'\)"), r"\1"),
)
"""Values as Python prints them, and their replacements."""

DEBUG_OPTION = "--debug"
INTERRUPTED = 128 + signal.SIGINT

_EXPECTED = (L5KitError, OSError)

_WRONG_CALL: Any = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")
"""Exception of a wrong call; newer releases of typer bundle their own copy of click."""

_EXTRAS = {"lightning": "train", "gymnasium": "rl", "stable_baselines3": "rl"}
"""Extras by the library that they install."""

_PLAINER = {
    "Value error, ": "",
    "Input should be": "it must be",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    ", unable to parse string as an integer": "",
    ", unable to parse string as a number": "",
}
"""Phrases of newer releases of typer, and their replacements."""

_CHOICE: Final = re.compile(r"'(?P<given>[^']+)' is not one of (?P<known>'.+')")
"""Message of typer for a value that is not among the choices of an option."""

_SUGGESTION: Final = re.compile(r"\. Did you mean (?P<known>'.+')\?$| \(Possible options: (?P<options>[^()]+)\)$")
"""Suggestion that typer adds for an unknown command or option."""

_NOT_WRITABLE: Final = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EROFS)))
"""Messages of the system about disks, mostly without the name of a file."""

_MAY_BE_URLS = frozenset({"path", "paths", "map_path", "meta", "aerial", "data", "eval_data"})
"""Parameters that may be URLs, as they name data to be read."""

_CHECKPOINTS = frozenset({"checkpoint", "file"})
"""Parameters that are text, because pathlib would drop "./", which distinguishes folders from shipped networks."""

_AHEAD_OF_TIME = "warmup"
"""The command that only compiles kernels."""


_PLAIN_TYPES: Final = {"<bool>": None, "<path>": None, "<str>": None, "<text>": None} | {
    f"<{kind}{end}>": "N" for kind in ("int", "integer", "float") for end in ("", " range")
}
"""Help text for the value of an option without a metavar, by the text of typer; None for no text."""


def _with_plain_types(params: list[Any]) -> list[Any]:
    """Make the help show what to write after an option, and nothing after flags, if typer supports it."""
    for param in params:
        theirs = getattr(type(param), "display_type_rich", None)
        if theirs is not None:
            param.display_type_rich = partial(_plain_type, partial(theirs, param))
    return params


def _plain_type(theirs: Callable[..., str | None], ctx: object) -> str | None:
    shown = theirs(ctx=ctx)
    return _PLAIN_TYPES.get(shown, shown.strip("<>")) if shown is not None else None


class ReportingGroup(TyperGroup):
    """Group of commands that reports a wrong call in one line, like all other errors."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options as the help shows them."""
        return _with_plain_types(super().get_params(ctx))

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command, and end the process unless ``standalone_mode`` is False."""
        with standing_in_for_streams():
            # typer itself would print the error in a frame of several lines, and end the process
            if not kwargs.pop("standalone_mode", True):
                return super().main(*args, **kwargs, standalone_mode=False)  # type: ignore[misc]
            try:
                status = super().main(*args, **kwargs, standalone_mode=False)  # type: ignore[misc]
            except (KeyboardInterrupt, typer.Abort):
                status = INTERRUPTED
            except _WRONG_CALL as error:
                _print_wrong_call(error)
                status = error.exit_code
            if status == INTERRUPTED:
                tell("interrupted")
            sys.exit(status or 0)


class ReportingCommand(TyperCommand):
    """Command that accepts ``--debug`` anywhere, and shows tracebacks only with it."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments and options as the help shows them."""
        return _with_plain_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, and remove ``--debug`` wherever it is."""
        before_values = args[: args.index("--")] if "--" in args else args
        if DEBUG_OPTION in before_values:
            args = [word for word in before_values if word != DEBUG_OPTION] + args[len(before_values) :]
            request_traceback(ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and report its end as described in the module."""
        # the advice is to compile ahead of time, which is pointless for the command that does so
        note = COMPILING if ctx.info_name == _AHEAD_OF_TIME else f"{COMPILING}, {ADVICE}"
        watch = CompilationWatch(lambda: tell(f"note: {note}"))
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _print_warning
                watch.start()
                _refuse_urls(ctx)
                as_json = only_json() if ctx.params.get("as_json") else nullcontext()
                with interrupted_after_compiling(), as_json:
                    return super().invoke(ctx)
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except SystemExit as error:
            if is_termination(error):
                tell("terminated")
                raise
            if isinstance(error.__context__, BrokenPipeError):  # raised by rich if a reader such as head is gone
                raise typer.Exit(1) from None
            # l5kit itself never ends a command in this way; without an error it would look like success
            tell(f"error: code loaded by the command ended the process: {describe_error(error)}; nothing was done")
            raise typer.Exit(1) from None
        except Exception as error:
            if ctx.meta.get(DEBUG_OPTION):
                raise
            ending = ending_behind(error)
            if isinstance(ending, KeyboardInterrupt):
                raise typer.Exit(INTERRUPTED) from None
            if ending is not None:
                tell("terminated")
                raise ending from None
            # errors of the library name its arguments; replace these by what the user types: an option or its metavar
            names = {param.name: (param.opts[0], param.metavar or param.name.upper()) for param in ctx.command.params}
            flags = {name: flag if flag.startswith("-") else metavar for name, (flag, metavar) in names.items()}
            text = _describe_disk_error(error, ctx.params) or _in_one_line(error, ctx.command_path)
            tell(f"error: {in_plain_words(text, flags)}")
            raise typer.Exit(1) from None
        finally:
            watch.stop()


def _refuse_urls(ctx: Any) -> None:
    """Refuse URLs for parameters that must name a file or folder of this machine."""
    for param in ctx.command.params:
        value = ctx.params.get(param.name)
        kind = getattr(getattr(param, "type", None), "name", "")  # of older typer, which passes paths as text
        is_path = isinstance(value, Path) or (isinstance(value, str) and (kind == "path" or param.name in _CHECKPOINTS))
        if param.name not in _MAY_BE_URLS and is_path and is_url(path_of(value)):
            raise typer.BadParameter(
                f"{path_of(value)!r} is a URL, but only inputs may be URLs; give a file or folder of this machine, and "
                "upload it yourself",
                param_hint=param.opts[0],
            )


def request_traceback(ctx: typer.Context) -> None:
    """Request the traceback of an error in this call."""
    ctx.meta[DEBUG_OPTION] = True


def in_plain_words(message: str, flags: Mapping[str, str]) -> str:
    """Return a message with command options in place of Python arguments.

    Args:
        message: A message of the library.
        flags: What the user types for each parameter of the command, such as ``--out``, by parameter name.
    """
    for pattern, plain in _VALUES:
        message = pattern.sub(plain, message)
    # some arguments have another name in the library than in commands
    others = {name: next((flags[of] for of in known if of in flags), "") for name, known in _ALSO_CALLED.items()}
    typed = {name: flag for name, flag in {**flags, **others}.items() if flag}
    if not typed:
        return message
    argument = "|".join(sorted(map(re.escape, typed), key=len, reverse=True))
    # an argument followed by its option, an argument with a value to set, and an argument that starts the message
    message = re.sub(r"\b\w+ \((--[a-z][a-z-]*)\)(?= (?:is|must)\b)", r"\1", message)
    message = re.sub(
        rf"\b({argument})=(True|(?!False|None)['\w.-]+)",
        lambda match: typed[match[1]] if match[2] == "True" else f"{typed[match[1]]} {match[2].strip(chr(39))}",
        message,
    )
    return re.sub(rf"^({argument})(?= (?:is|must)\b)", lambda match: typed[match[1]], message)


def _print_wrong_call(error: Any) -> None:
    """Print the error of a wrong call and how to get help; a call without arguments prints the help itself."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    message = _joined(error.format_message()).rstrip(".")
    # typer names an option whose value is not a number or is out of bounds, but not the value, which pydantic knows
    errors_of = getattr(error.__cause__, "errors", None)
    first = errors_of()[0] if callable(errors_of) else {}
    if str(first.get("msg")).startswith("Input should be"):
        message += f", got {first['input']!r}"
    for theirs, ours in _PLAINER.items():
        message = message.replace(theirs, ours)
    choice = _CHOICE.search(message)
    if choice is not None:
        message += did_you_mean(choice["given"], re.findall("'([^']+)'", choice["known"]))
    # typer phrases each kind of misspelling differently; use one phrase for all, with the nearest name only
    suggestion = _SUGGESTION.search(message)
    if suggestion is not None:
        message = message[: suggestion.start()]
        given = message.split()[-1].strip("'")
        message += did_you_mean(given, re.findall("[^', ]+", suggestion["known"] or suggestion["options"]))
    command_path = getattr(error.ctx, "command_path", None) if hasattr(error, "ctx") else None
    tell(f"error: {message[:1].lower()}{message[1:]}; {command_path or 'l5kit'} --help shows how to call it")


def _describe_disk_error(error: BaseException | None, params: Mapping[str, object]) -> str:
    """Return a message with the path for a full or read-only disk; empty for other errors."""
    while error is not None:
        # libraries in other languages report it only as text
        reason = next((text for text in _NOT_WRITABLE if text in str(error)), None)
        if reason is not None:
            path = getattr(error, "filename", None) or params.get("out") or "the output"
            return f"cannot write {str(path)!r}: {reason}; free some space, or choose another location"
        error = error.__cause__ or error.__context__
    return ""


def _in_one_line(error: Exception, command: str) -> str:
    message = _joined("".join([str(error), *(f" ({note})" for note in getattr(error, "__notes__", []))]))
    if isinstance(error, _EXPECTED):
        return message or type(error).__name__
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("l5kit"):
        library = error.name.partition(".")[0]
        extra = _EXTRAS.get(library)
        how = f"pip install {library}" if extra is None else install_command(extra)
        return f"{command} needs {library}, which is not installed: {how}"
    return f"{type(error).__name__}: {message} (unexpected; {DEBUG_OPTION} shows where it happened)"


def _joined(text: str) -> str:
    return " ".join(text.split())


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    tell(f"warning: {_joined(str(message))}")
