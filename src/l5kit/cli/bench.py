"""``l5kit bench``: speed of loading data on this machine, measured by ``benchmarks`` of a checkout."""

import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from l5kit.errors import MissingDependencyError

_CHECKOUT = Path(__file__).resolve().parents[3]


def refer_to_checkout(
    options: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,  # noqa: ARG001 - none is read
) -> None:
    """Measure how fast samples, the log and the map are read, in a checkout of l5kit.

    This installation is not a checkout, and the benchmarks are not part of the package.

    Raises:
        MissingDependencyError: Always; the message says where to get the benchmarks.

    Examples:
        l5kit bench
        l5kit bench --data city --only agent-semantic --only batches
        l5kit bench --data data --reference reference.json --markdown rates.md
        l5kit bench --memory
        l5kit bench --startup
    """
    raise MissingDependencyError(
        f"l5kit bench needs a checkout of l5kit, but {str(_CHECKOUT)!r} has no benchmarks: "
        "git clone https://github.com/l5kit/l5kit, pip install -e l5kit, and run it again"
    )


def find_bench(checkout: Path) -> Callable[..., None]:
    """Return the bench command of a checkout, or else one that says where to get it."""
    benchmarks = checkout / "benchmarks"
    if not (benchmarks / "l5kit_bench").is_dir():
        return refer_to_checkout
    sys.path.append(str(benchmarks))
    command: Callable[..., None] = pkgutil.resolve_name("l5kit_bench.command:bench")
    return command


bench = find_bench(_CHECKOUT)
