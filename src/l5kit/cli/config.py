"""``l5kit config``: what configurations may hold, for editors."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from l5kit._files import replaced_when_complete
from l5kit.cli.output import print_json, remark, require_writable
from l5kit.configs.schema import json_schema


def config(
    what: Annotated[  # noqa: ARG001 - there is but one so far
        Literal["schema"], typer.Argument(help="schema: the JSON schema of configurations, draft 2020-12.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write. Default: print it on standard output.")
    ] = None,
) -> None:
    """Print the JSON schema of configurations, by which editors complete and check them.

    An editor with yaml-language-server, such as VS Code with its YAML extension, finds it by the first line of the
    configuration: # yaml-language-server: $schema=l5kit.schema.json
    """
    if out is None:
        print_json(json_schema())
        return
    require_writable(out, option="--out")
    with replaced_when_complete(out, argument="--out") as temporary:
        temporary.write_text(json.dumps(json_schema(), indent=2) + "\n", "utf-8")
    remark(f"schema written to {out}")
