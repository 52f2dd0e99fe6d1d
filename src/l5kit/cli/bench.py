"""``l5kit bench``: how fast data is loaded here; what measures it lies in ``benchmarks`` of a checkout."""

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

    This is not one: the benchmarks are no part of the package.

    Raises:
        MissingDependencyError: Always; it says where the benchmarks are.

    Examples:
        l5kit bench
        l5kit bench --data city --only agent-semantic --only batches
        l5kit bench --data data --reference reference.json --markdown rates.md
        l5kit bench --memory
        l5kit bench --startup
    """
    raise MissingDependencyError(
        f"l5kit bench measures a checkout of l5kit, and {str(_CHECKOUT)!r} has no benchmarks: "
        "git clone https://github.com/l5kit/l5kit, pip install -e l5kit, and run it then"
    )


def find_bench(checkout: Path) -> Callable[..., None]:
    """Return the command of a checkout, or where there is none the one that says where to find it."""
    benchmarks = checkout / "benchmarks"
    if not (benchmarks / "l5kit_bench").is_dir():
        return refer_to_checkout
    sys.path.append(str(benchmarks))
    command: Callable[..., None] = pkgutil.resolve_name("l5kit_bench.command:bench")
    return command


bench = find_bench(_CHECKOUT)
