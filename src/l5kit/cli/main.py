"""The ``l5kit`` command: its commands and its global options."""

import inspect
import os
import pkgutil
import sys
from collections.abc import Callable
from typing import Annotated, Final

import typer

from l5kit import __version__
from l5kit.cli.reporting import DEBUG_OPTION, ReportingCommand, ReportingGroup, request_traceback


def _texts_of(doc: str | None) -> tuple[str, str]:
    """Split a docstring into help and the examples that follow ``Examples:`` at its end.

    Each paragraph of the help becomes one line, to be wrapped at the width of the terminal.
    """
    text, _, examples = inspect.cleandoc(doc or "").partition("\n\nExamples:\n")
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    return "\n\n".join(paragraphs), "\n\n".join(("Examples:", *map(str.strip, examples.splitlines())))


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"l5kit {__version__}")
        raise typer.Exit


def _root(
    ctx: typer.Context,
    version: Annotated[  # noqa: ARG001 - handled by its callback
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option(DEBUG_OPTION, help="Show the traceback of an error. May also follow the command.")
    ] = False,
) -> None:
    """Train models on logs of self-driving cars, and test them in closed loop; inspect, check and convert logs.

    PATH is a dataset folder or a .zarr; map, aerial picture and meta.json are looked for inside, next to and one level
    above it. Exit status: 0 success, 1 an error or findings, 2 a wrong call, 130 Ctrl+C.

    Examples:
        l5kit demo
        l5kit info city --json
        l5kit COMMAND --help  shows the options and examples of a command
    """
    if debug:
        request_traceback(ctx)


_COMMANDS: Final = {
    "Get data": ("demo", "synth", "download", "import"),
    "Look at data": ("info", "validate", "view", "drive", "render", "record"),
    "Prepare data": ("resample", "edit", "mask", "cache", "chop", "export", "manifest", "verify", "artifact"),
    "Train, and test open and closed loop": (
        *("train", "train-rl", "evaluate", "simulate", "compare", "config", "checkpoint", "reproduce"),
    ),
    "This machine": ("warmup", "bench"),
}
"""Commands by heading, in the order of the help."""

_FUNCTIONS: Final = {
    "import": "importing:import_dataset",
    "resample": "importing:resample",
    "verify": "manifest:verify",
}
"""Module and function of commands whose names differ from these."""


def make_app(only: str | None = None, *, is_named: bool = False) -> typer.Typer:
    """Return the app with its commands.

    Args:
        only: Name of the requested command, so that other commands are not imported; an unknown name gives all.
        is_named: Whether the names of the commands suffice for an unknown name, so that none is imported.
    """
    text, examples = _texts_of(_root.__doc__)
    app = typer.Typer(
        name="l5kit",
        cls=ReportingGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        epilog=examples,
    )
    app.callback(help=text)(_root)
    headings = {name: heading for heading, names in _COMMANDS.items() for name in names}
    for name in [only] if only in headings else headings:
        if is_named and only not in headings:
            app.command(name)(_root)
            continue
        word = name.replace("-", "_")
        command = pkgutil.resolve_name(f"l5kit.cli.{_FUNCTIONS.get(name, f'{word}:{word}')}")
        if callable(command):
            _add(app, name, command, heading=headings[name])
            continue
        # a command with subcommands
        text, examples = _texts_of(command["help"])
        below = typer.Typer(name=name, no_args_is_help=True, help=text, epilog=examples, rich_markup_mode="rich")
        for each, function in command["commands"].items():
            _add(below, each, function)
        app.add_typer(below, rich_help_panel=headings[name])
    return app


def _add(app: typer.Typer, name: str, function: Callable[..., None], *, heading: str | None = None) -> None:
    text, examples = _texts_of(function.__doc__)
    app.command(
        name,
        cls=ReportingCommand,
        help=text,
        epilog=examples,
        no_args_is_help=False,
        # a placeholder of a missing command accepts any option, and its error says where to get the command
        context_settings={"ignore_unknown_options": function.__name__.startswith("refer_")},
        rich_help_panel=heading,
    )(function)


def run() -> None:
    """Run the command with the arguments of the process."""
    words = sys.argv[1:]
    requested = next((word for word in words if not word.startswith("-")), None)
    # help and shell completion need the descriptions of all commands; --version and an unknown name only their names
    is_described = not words or "--help" in words or "_L5KIT_COMPLETE" in os.environ
    make_app(requested, is_named=not is_described)(prog_name="l5kit")
