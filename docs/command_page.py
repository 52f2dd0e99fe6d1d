"""Page of the command line: the help of `l5kit` and of each of its commands, with all options."""

import re
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from l5kit.cli.main import make_app

_RICH = re.compile(r"\[/?(?:bold|cyan|dim|green|italic|red|yellow)[^\]]*\]")


def command_page() -> str:
    """Return the page as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    root = get_command(make_app())
    yield "# The command `l5kit`"
    yield ""
    yield "What `l5kit COMMAND --help` shows, on one page."
    yield ""
    yield _text(root.help)
    yield ""
    yield from _options(root)
    for name, command in root.commands.items():
        yield from _command(f"l5kit {name}", command)


def _command(name: str, command: Any, depth: int = 2) -> Iterator[str]:
    yield f"{'#' * depth} {name}"
    yield ""
    yield _text(command.help)
    yield ""
    yield from _options(command)
    examples = [line.strip() for line in (command.epilog or "").split("\n\n")[1:]]
    if examples:
        yield "```text"
        yield from examples
        yield "```"
        yield ""
    for child, below in getattr(command, "commands", {}).items():
        yield from _command(f"{name} {child}", below, depth + 1)


def _options(command: Any) -> Iterator[str]:
    shown = [param for param in command.params if not getattr(param, "hidden", False)]
    if not shown:
        return
    yield "| argument or option | default | does |"
    yield "| --- | --- | --- |"
    for param in shown:
        help_text = _text(getattr(param, "help", "")).replace("|", "\\|")
        yield f"| {_spelled(param)} | {_default(param)} | {help_text} |"
    yield ""


def _spelled(param: Any) -> str:
    is_argument = param.param_type_name == "argument"
    names = [param.metavar or param.name.upper()] if is_argument else [*param.opts, *param.secondary_opts]
    return ", ".join(f"`{name}`" for name in names)


def _default(param: Any) -> str:
    if param.required:
        return "needed"
    shown = getattr(param, "show_default", None)
    if isinstance(shown, str):
        return shown
    value = param.default
    is_flag = getattr(param, "is_flag", False)
    return "" if value is None or callable(value) or (is_flag and not value) or value == () else f"`{value}`"


def _text(text: str | None) -> str:
    """Help without the markup of rich."""
    return _RICH.sub("", text or "").replace("<", "&lt;")
