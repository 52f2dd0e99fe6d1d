"""Record of the data behind results: its location, its digest, and its number of scenes."""

import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Self

from l5kit._types import JsonObject
from l5kit.data.digests.digest import dataset_digest
from l5kit.data.progress import Progress
from l5kit.data.stores.store import is_url, path_of
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError, L5KitError, without_secrets


@dataclass(frozen=True)
class DataRecord:
    """The data that something was computed from.

    Attributes:
        path: Its location: an absolute path, a URL without its secrets, or the key of a configuration.
        digest: Its digest, from :func:`~l5kit.data.digests.digest.dataset_digest`; None if unknown.
        num_scenes: Number of its scenes.
    """

    path: str
    digest: str | None
    num_scenes: int

    @classmethod
    def of(
        cls,
        dataset: str | os.PathLike[str],
        *,
        num_scenes: int,
        key: str | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Return the record of a dataset; its digest is taken from the cache if no file has changed.

        The digest of a dataset on a server is None, as it would require reading all of it. It is also None, after a
        ``RuntimeWarning``, if a file cannot be read, has an odd name, or is being written to.

        Args:
            dataset: The dataset, or a folder with several.
            num_scenes: Number of its scenes.
            key: Its key in a configuration; None to record its location.
            progress: Called with the bytes read and their total.
        """
        path = path_of(dataset)
        where = path if is_url(path) else os.path.abspath(path)
        digest = None
        if not is_url(path):
            try:
                digest = dataset_digest(path, cache=True, progress=progress)
            except (L5KitError, OSError) as error:
                warnings.warn(f"no digest of the data is recorded: {error}", RuntimeWarning, stacklevel=3)
        return cls(without_secrets(key or where), digest, num_scenes)

    @classmethod
    def of_log(cls, path: str | os.PathLike[str], *, key: str | None = None, progress: Progress | None = None) -> Self:
        """Return the record of a single log, which is opened to count its scenes; see :meth:`of`.

        Args:
            path: The log: a ``.zarr`` folder, a zip file or a URL.
            key: Its key in a configuration; None to record its location.
            progress: Called with the bytes read and their total.

        Raises:
            DatasetNotFoundError: There is no such log.
        """
        return cls.of(path, num_scenes=len(ChunkedDataset(path).open().scenes), key=key, progress=progress)

    def as_dict(self) -> JsonObject:
        """Return the record as JSON."""
        return asdict(self)


def require_same_data(before: Mapping[str, object], now: Mapping[str, object]) -> None:
    """Refuse to continue with other data than before; data without a digest is not compared.

    Args:
        before: Previously recorded data by purpose, such as ``eval_data``: records of logs as JSON, or a single one.
        now: Data recorded now.

    Raises:
        InvalidArgumentError: A digest differs.
    """
    for name in before.keys() & now.keys():
        was, has = _digests_in(before[name]), _digests_in(now[name])
        if None not in (*was, *has) and was != has:
            raise InvalidArgumentError(
                f"{name} has the digest {', '.join(map(str, has))}, but the training to be resumed used data with "
                f"{', '.join(map(str, was))}; name the same folder, or start a new training in another one"
            )


def _digests_in(recorded: object) -> list[object]:
    records = recorded if isinstance(recorded, list) else [recorded]
    return [record["digest"] for record in records if isinstance(record, dict)]


def source_digest(dataset: ChunkedDataset, digest: str | None) -> str | None:
    """Return the digest of a dataset that the files of its export record; None for none.

    Args:
        dataset: The exported dataset.
        digest: The digest if the caller knows it, or the empty string for none. None computes it from the files at the
            path of the dataset, if it is on this machine; the cache has it if no file has changed since.
    """
    if digest is not None:
        return digest or None
    if not dataset.path or is_url(dataset.path) or not os.path.exists(dataset.path):
        return None
    return DataRecord.of(dataset.path, num_scenes=len(dataset.scenes)).digest
