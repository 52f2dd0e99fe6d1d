"""``l5kit reproduce``: repeats a row of the table of learned drivers, and compares the scores."""

import runpy
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from l5kit.errors import InvalidArgumentError, find_clone

_SCRIPT: Final = "benchmarks/learned_drivers.py"


def reproduce(
    row: Annotated[str | None, typer.Argument(metavar="ROW", help="A row of the table; --list shows all.")] = None,
    rows: Annotated[bool, typer.Option("--list", help="List the rows and their results.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the repeated training.")] = 0,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Few steps and scenes, to test that everything runs; the scores mean nothing."),
    ] = False,
    work: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Folder for towns, trainings and simulations; existing ones are reused."),
    ] = Path("learned-drivers"),
    workers: Annotated[int, typer.Option(min=1, help="Threads for generating towns and simulating.")] = 1,
    other_towns: Annotated[
        bool, typer.Option("--other-towns", help="Accept towns that differ from those of the table.")
    ] = False,
) -> None:
    """Train a driver of docs/results/learned_drivers.md again, let it drive the same scenes, and compare.

    Needs a clone of the repository with the stored results, and takes as long as the table says. Prints the old and
    the new score, and their difference over paired scenes with its interval of 95 %. The exit status is 1 if that
    interval excludes 0.

    Examples:
        l5kit reproduce --list
        l5kit reproduce rules
        l5kit reproduce route_planner --seed 1 --workers 2
        l5kit reproduce route_planner --quick
    """
    if (row is None) != rows:
        raise typer.BadParameter("name one row, or give --list alone", param_hint="ROW")
    clone = find_clone()
    if clone is None or not (clone / _SCRIPT).is_file():
        raise InvalidArgumentError(
            f"reproduce needs a clone: there is no {_SCRIPT} next to this installation of l5kit; run "
            "git clone https://github.com/l5kit/l5kit, then pip install -e '.[train]' and l5kit reproduce in it"
        )
    # the script is not part of the package, so it is run from its file
    chosen = ["--list"] if row is None else ["--reproduce", row, "--seed", str(seed)]
    flags = [name for name, is_given in (("--quick", quick), ("--other-towns", other_towns)) if is_given]
    script = clone / _SCRIPT
    sys.path.insert(0, str(script.parent))  # it imports from the scripts next to it
    try:
        main = runpy.run_path(str(script))["main"]
        status = main([*chosen, *flags, "--work", str(work), "--workers", str(workers)])
    finally:
        sys.path.remove(str(script.parent))
    raise typer.Exit(status)
