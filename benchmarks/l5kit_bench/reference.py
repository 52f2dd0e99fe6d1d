"""Recorded reference rates, per 1,000 points of the score of the machine on which they were recorded."""

import json
from pathlib import Path

from l5kit.errors import InvalidArgumentError


def read_reference(path: Path) -> dict[str, float]:
    """Return the rate per 1,000 points of score of each workload in a reference file.

    The file is a JSON object whose ``workloads`` holds, by name, objects with ``per_1000_score``; so may its
    ``closed_loop``, beside notes.

    Raises:
        InvalidArgumentError: There is no such file, or it holds something else.
    """
    try:
        recorded = json.loads(path.read_text("utf-8"))
        closed_loop = {name: rate for name, rate in recorded.get("closed_loop", {}).items() if _is_rate(rate)}
        workloads = recorded["workloads"] | closed_loop
        return {str(name): float(recorded["per_1000_score"]) for name, recorded in workloads.items()}
    except OSError as error:
        raise InvalidArgumentError(
            f"reference {str(path)!r} cannot be read ({error.strerror}); name a file of recorded rates"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(
            f"reference {str(path)!r} must be a JSON object with the member workloads, which holds for each name an "
            f"object with per_1000_score; {type(error).__name__}: {error}"
        ) from error


def _is_rate(recorded: object) -> bool:
    return isinstance(recorded, dict) and "per_1000_score" in recorded
