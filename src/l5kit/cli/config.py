"""``l5kit config``: configurations that ship with l5kit, and the JSON schema of all for editors."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from l5kit._files import replaced_when_complete
from l5kit.cli.output import print_line, remark, require_writable
from l5kit.configs.overrides import shipped_config_text
from l5kit.configs.schema import json_schema


def config(
    what: Annotated[
        Literal["show", "schema"],
        typer.Argument(metavar="show|schema", help="Print a configuration, or the JSON schema of all (draft 2020-12)."),
    ],
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Configuration: a workflow, or reinforcement for l5kit train-rl."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write. Default: print it on standard output.")
    ] = None,
) -> None:
    """Print a configuration that ships with l5kit, as a starting point for your own, or the schema for editors.

    An editor with yaml-language-server, such as VS Code with its YAML extension, completes and checks keys by the
    schema named in the first line of the configuration:
    # yaml-language-server: $schema=l5kit.schema.json

    Examples:
        l5kit config show vector_planner
        l5kit config show raster_planner --out config.yaml
        l5kit config schema
        l5kit config schema --out l5kit.schema.json
    """
    if (name is None) == (what == "show"):
        raise typer.BadParameter("show takes the NAME of a configuration, such as vector_planner; schema takes none")
    text = json.dumps(json_schema(), indent=2) if name is None else shipped_config_text(name).rstrip("\n")
    if out is None:
        print_line(text)
        return
    require_writable(out, option="--out")
    # never overwrite: the file may have been edited, and an edited configuration looks like a shipped one
    if name is not None and out.exists():
        raise FileExistsError(f"--out is {str(out)!r}, which exists and may have been edited; choose another file")
    with replaced_when_complete(out, argument="--out") as temporary:
        temporary.write_text(f"{text}\n", "utf-8")
    remark(f"{'schema' if name is None else name} written to {out}")
