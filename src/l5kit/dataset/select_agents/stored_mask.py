"""Agents masks stored inside a dataset folder, as in L5Kit 1.x."""

import os
from pathlib import Path
from typing import Any

import numcodecs
import zarr
from zarr.core.sync import sync
from zarr.storage import LocalStore

from l5kit._files import clear_leftovers, placed_when_complete
from l5kit._types import NumericArray, UInt32Array
from l5kit.data.stores.chunk_files import decode_local_chunk, with_checked_lengths
from l5kit.data.stores.consolidated import drop_consolidated
from l5kit.data.stores.npy_files import release_pages
from l5kit.data.user_cache import scratch_array
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.errors import InvalidArgumentError, ReadOnlyDatasetError

MASK_GROUP = "agents_mask"
_MASK_CHUNKS = (10_000, 2)
_ROWS_AT_ONCE = 1 << 20


def mask_folder(dataset: ChunkedDataset, probability: float) -> Path:
    """Return the folder of a stored mask inside a dataset folder."""
    return Path(dataset.path) / MASK_GROUP / str(probability)


def read_stored_mask(dataset: ChunkedDataset, thresholds: MaskThresholds) -> tuple[NumericArray | None, str]:
    """Return the mask (N, 2) stored in a dataset for given thresholds.

    All spellings of the probability are tried, such as ``0`` and ``0.0``. Masks of L5Kit 1.x do not record their other
    thresholds; the defaults are assumed.

    Returns:
        The mask, or None; and the reason why a stored mask cannot be used, or an empty string.
    """
    root = getattr(dataset, "root", None)
    if root is None:
        return None, ""
    group = f"{root.path}/{MASK_GROUP}".lstrip("/")

    async def list_masks() -> list[str]:
        return [name async for name in root.store.list_dir(group)]

    # prefer the spelling of this package
    names = [name for name in sync(list_masks()) if _as_number(name) == thresholds.probability]
    problem = ""
    for name in sorted(names, key=lambda name: (name != str(thresholds.probability), name)):
        try:
            array = root[f"{MASK_GROUP}/{name}"]
            problem = _problem_of(array, num_agents=len(dataset.agents), thresholds=thresholds)
            if not problem:
                return _read_blocks(with_checked_lengths(array)), ""
        except Exception as error:  # zarr and its codecs raise many types for damaged files
            problem = f"cannot be read ({type(error).__name__}: {error})"
        problem = f"the stored agents mask {name!r} {problem}"
    return None, problem


def stored_mask_signature(dataset: ChunkedDataset, thresholds: MaskThresholds) -> object:
    """Return an identity of the mask stored in a dataset folder for given thresholds; None without one."""
    folder = mask_folder(dataset, thresholds.probability).parent
    if not dataset.path or not folder.is_dir():
        return None
    names = [name for name in sorted(os.listdir(folder)) if _as_number(name) == thresholds.probability]
    files = [file for name in names for file in (folder / name, folder / name / ".zarray", folder / name / ".zattrs")]
    statuses = [(str(file.relative_to(folder)), file.stat()) for file in files if file.exists()]
    return [(name, status.st_size, status.st_mtime_ns) for name, status in statuses]


def write_mask(dataset: ChunkedDataset, thresholds: MaskThresholds, mask: UInt32Array) -> Path:
    """Store a mask in a dataset folder atomically, and return its folder.

    Raises:
        FileExistsError: There is one for this probability.
        InvalidArgumentError: The dataset is not a folder.
    """
    folder = mask_folder(dataset, thresholds.probability)
    require_no_mask(dataset, thresholds.probability)
    clear_leftovers(folder.parent)
    drop_consolidated(LocalStore(dataset.path))
    with placed_when_complete(folder, may_replace=False, scratch_by=folder.parent) as complete:
        group = zarr.open_group(store=LocalStore(complete.parent), mode="a", zarr_format=2)
        array = group.create_array(
            folder.name,
            shape=mask.shape,
            chunks=_MASK_CHUNKS,
            dtype="<u4",
            compressors=numcodecs.Blosc("lz4", 5, 1),
            fill_value=0,
            config={"write_empty_chunks": True},
        )
        array[:] = mask
        array.attrs.update(thresholds.as_attributes())
        zarr.open_group(store=LocalStore(folder.parent), mode="a", zarr_format=2)
    return folder


def require_no_mask(dataset: ChunkedDataset, probability: float) -> None:
    """Refuse a dataset that is not a folder, not writable or has a mask for this probability.

    Raises:
        FileExistsError: There is one.
        InvalidArgumentError: The dataset is not a folder, or an export in columns.
        ReadOnlyDatasetError: The folder is not writable.
    """
    if not dataset.path or not Path(dataset.path).is_dir():
        raise InvalidArgumentError(
            f"an agents mask is stored inside a dataset folder, and {dataset.path!r} is not a folder; "
            "AgentDataset computes and caches the mask by itself"
        )
    if (Path(dataset.path) / "zarr.json").is_file():
        raise InvalidArgumentError(
            f"{dataset.path} is an export in columns, which is only read, so no agents mask can be stored in it; store "
            "it in the dataset before the export, or let AgentDataset compute and cache it"
        )
    folder = mask_folder(dataset, probability)
    if folder.exists():
        raise FileExistsError(f"{folder} exists; remove it to compute the agents mask anew")
    if not os.access(dataset.path, os.W_OK):
        raise ReadOnlyDatasetError(
            f"{dataset.path} cannot be written to, so no agents mask can be stored in it; "
            "AgentDataset computes and caches the mask by itself"
        )


def _as_number(name: str) -> float | None:
    try:
        return float(name)
    except ValueError:
        return None


def _read_blocks(array: Any) -> NumericArray:
    """Return a whole array, backed by an anonymous file if it is large.

    This thread decodes the chunks one by one, since the threads of zarr never release their memory.
    """
    whole = scratch_array(array.shape, array.dtype)
    length = array.chunks[0]
    num_chunks = max(1, _ROWS_AT_ONCE // length)
    for first in range(0, -(-len(whole) // length), num_chunks):
        for index in range(first, first + num_chunks):
            rows = whole[index * length : (index + 1) * length]
            decoded = decode_local_chunk(array, index) if len(rows) else None
            # for a chunk that only zarr can read, or a missing one, zarr reads the rest of the block
            if decoded is None:
                rest = slice(index * length, (first + num_chunks) * length)
                whole[rest] = array[rest]
                break
            rows[:] = decoded[: len(rows)]
        release_pages(whole)
    return whole


def _problem_of(array: object, *, num_agents: int, thresholds: MaskThresholds) -> str:
    """Return the reason why a stored mask cannot be used; an empty string if it can."""
    if not isinstance(array, zarr.Array) or array.shape != (num_agents, 2) or array.dtype.kind not in "ui":
        return f"does not fit the {num_agents} agents of the dataset"
    if array.dtype.str.startswith(">"):
        return "is big-endian, which agents masks never are"
    wanted = thresholds.as_attributes()
    usual = MaskThresholds(thresholds.probability).as_attributes()
    stored = {key: array.attrs.get(key, usual[key]) for key in wanted}
    if stored != wanted:
        return f"was computed with other thresholds ({stored})"
    if array.nchunks_initialized < array.nchunks:
        return "is incomplete: its computation was interrupted or is still running"
    return ""
