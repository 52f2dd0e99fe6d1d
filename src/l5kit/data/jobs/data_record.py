"""Record of the data that results are of: where it lay, its digest, and how many scenes it has."""

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
    """The data that something was made of.

    Attributes:
        path: Where it lay: an absolute path, or a URL without its secrets, or the key of a configuration.
        digest: Its digest, from :func:`~l5kit.data.digests.digest.dataset_digest`; None where that is not known.
        num_scenes: Scenes that it has.
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
        """Return the record of a dataset; its digest is read from the cache where no file has changed.

        Nobody reads all of a dataset from a server just for its digest, which is None there. It is also None, after a
        ``RuntimeWarning``, where a file cannot be read, has an odd name, or is being written to.

        Args:
            dataset: The dataset, or a folder with several.
            num_scenes: Scenes that it has.
            key: What it is called in a configuration; None to record where it lies.
            progress: Called with the bytes that are read and their total.
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
        """Return the record of one log, which is opened for the number of its scenes; see :meth:`of`.

        Args:
            path: The log: a ``.zarr`` folder, a zip file or a URL.
            key: What it is called in a configuration; None to record where it lies.
            progress: Called with the bytes that are read and their total.

        Raises:
            DatasetNotFoundError: There is none.
        """
        return cls.of(path, num_scenes=len(ChunkedDataset(path).open().scenes), key=key, progress=progress)

    def as_dict(self) -> JsonObject:
        """Return the record as JSON holds it."""
        return asdict(self)


def require_same_data(before: Mapping[str, object], now: Mapping[str, object]) -> None:
    """Refuse to go on with other data than before; what has no digest is not compared.

    Args:
        before: What was recorded of data by what it is for, such as ``eval_data``: records of logs as JSON, or one.
        now: What is recorded now.

    Raises:
        InvalidArgumentError: A digest is another one.
    """
    for name in before.keys() & now.keys():
        was, has = _digests_in(before[name]), _digests_in(now[name])
        if None not in (*was, *has) and was != has:
            raise InvalidArgumentError(
                f"{name} has the digest {', '.join(map(str, has))}, but that of the training that is to go on has "
                f"{', '.join(map(str, was))}; name the same folder, or start a new training in another one"
            )


def _digests_in(recorded: object) -> list[object]:
    records = recorded if isinstance(recorded, list) else [recorded]
    return [record["digest"] for record in records if isinstance(record, dict)]


def source_digest(dataset: ChunkedDataset, digest: str | None) -> str | None:
    """Return the digest that files of an export tell of their dataset; None for none.

    Args:
        dataset: What is exported.
        digest: The digest, where the caller knows it, or the empty text for none. None works out that of the files at
            the path of the dataset, where it lies on this machine; the cache knows it if no file has changed since.
    """
    if digest is not None:
        return digest or None
    if not dataset.path or is_url(dataset.path) or not os.path.exists(dataset.path):
        return None
    return DataRecord.of(dataset.path, num_scenes=len(dataset.scenes)).digest
