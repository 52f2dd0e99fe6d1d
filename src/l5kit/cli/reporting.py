"""How a command ends: errors and warnings in one line each on standard error, and the exit status.

0 is success, 1 an error or findings, 2 a wrong call, 130 an interruption from the keyboard, 143 one of a training by
SIGTERM. That kernels are being compiled, for which the first samples on a machine wait, is reported in one line, too.
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
"""Arguments of the library, and parameters of commands that they come from."""

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
"""What Python writes for a value, and what is written in its place."""

DEBUG_OPTION = "--debug"
INTERRUPTED = 128 + signal.SIGINT

_EXPECTED = (L5KitError, OSError)

_WRONG_CALL: Any = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")
"""What a wrong call raises; newer releases of typer have it from a copy of click of their own."""

_EXTRAS = {"lightning": "train", "gymnasium": "rl", "stable_baselines3": "rl"}
"""The extra that brings a library."""

_PLAINER = {
    "Value error, ": "",
    "Input should be": "it must be",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    ", unable to parse string as an integer": "",
    ", unable to parse string as a number": "",
}
"""Words of newer releases of typer, and what is said in their place."""

_CHOICE: Final = re.compile(r"'(?P<given>[^']+)' is not one of (?P<known>'.+')")
"""What typer says of a value that is none of those of an option."""

_SUGGESTION: Final = re.compile(r"\. Did you mean (?P<known>'.+')\?$| \(Possible options: (?P<options>[^()]+)\)$")
"""What typer adds to a command or an option that does not exist."""

_NOT_WRITABLE: Final = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EROFS)))
"""What the system says of disks, mostly without the name of a file."""

_MAY_BE_URLS = frozenset({"path", "paths", "map_path", "meta", "aerial", "data", "eval_data"})
"""Parameters that name what is read from a dataset folder."""

_CHECKPOINTS = frozenset({"checkpoint", "file"})
"""Parameters that are text, because a path of pathlib would forget "./", which tells folders from shipped networks."""

_AHEAD_OF_TIME = "warmup"
"""The command that compiles and nothing else."""


_PLAIN_TYPES: Final = {"<bool>": None, "<path>": None, "<str>": None, "<text>": None} | {
    f"<{kind}{end}>": "N" for kind in ("int", "integer", "float") for end in ("", " range")
}
"""What help says of the value of an option without a name of its own."""


def _with_plain_types(params: list[Any]) -> list[Any]:
    """Let help show what to write after an option, and nothing after flags, where typer lets it be changed."""
    for param in params:
        theirs = getattr(type(param), "display_type_rich", None)
        if theirs is not None:
            param.display_type_rich = partial(_plain_type, partial(theirs, param))
    return params


def _plain_type(theirs: Callable[..., str | None], ctx: object) -> str | None:
    shown = theirs(ctx=ctx)
    return _PLAIN_TYPES.get(shown, shown.strip("<>")) if shown is not None else None


class ReportingGroup(TyperGroup):
    """The command before its commands: what is wrong with a call is reported in one line, as all other errors are."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options, as help shows them."""
        return _with_plain_types(super().get_params(ctx))

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command, and end the process unless ``standalone_mode`` is False."""
        with standing_in_for_streams():
            # typer itself would print what is wrong in a frame of several lines, and end the process
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
    """A command that takes ``--debug`` anywhere and lets no traceback out without it."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments and options, as help shows them."""
        return _with_plain_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take ``--debug`` out of the arguments."""
        before_values = args[: args.index("--")] if "--" in args else args
        if DEBUG_OPTION in before_values:
            args = [word for word in before_values if word != DEBUG_OPTION] + args[len(before_values) :]
            request_traceback(ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; see the module for how it ends."""
        # the advice is to compile ahead of time, which is of no use to the command that does so
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
            if isinstance(error.__context__, BrokenPipeError):  # of rich, whose reader, such as head, has left
                raise typer.Exit(1) from None
            # no code of l5kit ends a command in this way, so that it would end as if it had done its work
            tell(f"error: code that the command has loaded ends the process: {describe_error(error)}; nothing is done")
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
            # errors of the library name its arguments; people are told what they have typed: an option or its metavar
            names = {param.name: (param.opts[0], param.metavar or param.name.upper()) for param in ctx.command.params}
            flags = {name: flag if flag.startswith("-") else metavar for name, (flag, metavar) in names.items()}
            text = _describe_disk_error(error, ctx.params) or _in_one_line(error, ctx.command_path)
            tell(f"error: {in_plain_words(text, flags)}")
            raise typer.Exit(1) from None
        finally:
            watch.stop()


def _refuse_urls(ctx: Any) -> None:
    """Refuse URLs where a file or folder of this machine is to be named."""
    for param in ctx.command.params:
        value = ctx.params.get(param.name)
        kind = getattr(getattr(param, "type", None), "name", "")  # of older typer, which hands paths on as text
        is_path = isinstance(value, Path) or (isinstance(value, str) and (kind == "path" or param.name in _CHECKPOINTS))
        if param.name not in _MAY_BE_URLS and is_path and is_url(path_of(value)):
            raise typer.BadParameter(
                f"{path_of(value)!r} is a URL; only what is read may be one: name a file or folder of this machine, "
                "and copy it up yourself",
                param_hint=param.opts[0],
            )


def request_traceback(ctx: typer.Context) -> None:
    """Let errors of this call be shown with their traceback."""
    ctx.meta[DEBUG_OPTION] = True


def in_plain_words(message: str, flags: Mapping[str, str]) -> str:
    """Return a message with options in place of arguments of Python.

    Args:
        message: A message of the library.
        flags: What is typed for each parameter of the command, such as ``--out``, by its name.
    """
    for pattern, plain in _VALUES:
        message = pattern.sub(plain, message)
    # functions call some things otherwise than commands do
    others = {name: next((flags[of] for of in known if of in flags), "") for name, known in _ALSO_CALLED.items()}
    typed = {name: flag for name, flag in {**flags, **others}.items() if flag}
    if not typed:
        return message
    argument = "|".join(sorted(map(re.escape, typed), key=len, reverse=True))
    # an argument that is said to be an option, one that is to be set, and one that the message begins with
    message = re.sub(r"\b\w+ \((--[a-z][a-z-]*)\)(?= (?:is|must)\b)", r"\1", message)
    message = re.sub(
        rf"\b({argument})=(True|(?!False|None)['\w.-]+)",
        lambda match: typed[match[1]] if match[2] == "True" else f"{typed[match[1]]} {match[2].strip(chr(39))}",
        message,
    )
    return re.sub(rf"^({argument})(?= (?:is|must)\b)", lambda match: typed[match[1]], message)


def _print_wrong_call(error: Any) -> None:
    """Print what is wrong with a call, and where help is; a call without any words gets the help itself."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    message = _joined(error.format_message()).rstrip(".")
    # typer names an option whose value is no number or beyond its bounds, but not the value, which pydantic has
    errors_of = getattr(error.__cause__, "errors", None)
    first = errors_of()[0] if callable(errors_of) else {}
    if str(first.get("msg")).startswith("Input should be"):
        message += f", got {first['input']!r}"
    for theirs, ours in _PLAINER.items():
        message = message.replace(theirs, ours)
    choice = _CHOICE.search(message)
    if choice is not None:
        message += did_you_mean(choice["given"], re.findall("'([^']+)'", choice["known"]))
    # typer has words of its own for each kind of misspelling; ours are the same for all, and name the nearest alone
    suggestion = _SUGGESTION.search(message)
    if suggestion is not None:
        message = message[: suggestion.start()]
        given = message.split()[-1].strip("'")
        message += did_you_mean(given, re.findall("[^', ]+", suggestion["known"] or suggestion["options"]))
    command_path = getattr(error.ctx, "command_path", None) if hasattr(error, "ctx") else None
    tell(f"error: {message[:1].lower()}{message[1:]}; {command_path or 'l5kit'} --help shows how to call it")


def _describe_disk_error(error: BaseException | None, params: Mapping[str, object]) -> str:
    """Return what is wrong where a disk is full or may not be written to, and which one; empty for other errors."""
    while error is not None:
        # libraries in other languages tell of it in a text only
        reason = next((text for text in _NOT_WRITABLE if text in str(error)), None)
        if reason is not None:
            path = getattr(error, "filename", None) or params.get("out") or "the output"
            return f"cannot write {str(path)!r}: {reason}; make room, or name another place"
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
