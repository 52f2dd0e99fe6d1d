"""Validation of a dataset at a path, even if it cannot be opened."""

import warnings
from collections.abc import Mapping

from l5kit.data.checks.finding import Finding, FindingList
from l5kit.data.checks.validation import validate_dataset
from l5kit.data.jobs.scene_jobs import Workers
from l5kit.data.progress import Progress
from l5kit.data.stores.store import StoreLocation
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import L5KitError, UnreachableDataError


def validate_path(
    path: StoreLocation,
    *,
    checksums: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    workers: Workers = 1,
) -> list[Finding]:
    """Check the dataset at a path; arrays that cannot be opened become findings, and the rest is checked.

    Args:
        path: Any location accepted by :class:`~l5kit.data.zarr_dataset.ChunkedDataset`.
        checksums: See :func:`~l5kit.data.checks.validation.validate_dataset`.
        progress: Called with the number of blocks checked and their total.
        workers: Number of threads, or an executor; see :func:`~l5kit.data.jobs.scene_jobs.map_scenes`.

    Raises:
        UnreachableDataError: The service of a URL refuses the request, or does not answer.
    """
    findings = FindingList()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # reported as findings
        dataset = ChunkedDataset(path)
        try:
            errors = dataset.open_readable()
        except UnreachableDataError:
            raise
        except (L5KitError, OSError) as error:
            findings.add(Finding(severity="error", check="open", message=str(error)))
            return findings.as_list()
        for problem in errors.values():
            findings.add(Finding(severity="error", check="open", message=str(problem)))
        checked = validate_dataset(dataset, checksums=checksums, progress=progress, unreadable=errors, workers=workers)
    return findings.as_list() + checked
