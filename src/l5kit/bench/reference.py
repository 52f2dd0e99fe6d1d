"""Recorded rates to compare with, each per 1,000 points of the score of the machine that they were recorded on."""

import json
from pathlib import Path

from l5kit.errors import InvalidArgumentError


def read_reference(path: Path) -> dict[str, float]:
    """Return the rate per 1,000 points of score of each workload in a reference file.

    The file is a JSON object whose ``workloads`` holds, by name, objects with ``per_1000_score``.

    Raises:
        InvalidArgumentError: There is no such file, or it holds something else.
    """
    try:
        workloads = json.loads(path.read_text("utf-8"))["workloads"]
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
