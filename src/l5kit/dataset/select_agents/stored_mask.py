"""Agents masks stored inside a dataset folder, as L5Kit 1.x keeps them."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numcodecs
import zarr
from zarr.storage import LocalStore

from l5kit._types import UInt32Array
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.errors import InvalidArgumentError, ReadOnlyDatasetError

MASK_GROUP = "agents_mask"
_MASK_CHUNKS = (10_000, 2)


def mask_folder(dataset: ChunkedDataset, probability: float) -> Path:
    """Return the folder of a stored mask inside a dataset folder."""
    return Path(dataset.path) / MASK_GROUP / str(probability)


def read_stored_mask(dataset: ChunkedDataset, thresholds: MaskThresholds) -> tuple[Any | None, str]:
    """Return the mask (N, 2) that is stored in a dataset for some thresholds.

    All spellings of the probability are looked for (``0`` and ``0.0``). Masks of L5Kit 1.x do not tell their other
    thresholds; they are taken to have the usual ones.

    Returns:
        The mask, or None; and the reason why a mask that is stored cannot be used, or an empty text.
    """
    group = _open_masks(dataset)
    problem = ""
    for name in _names_for(group, thresholds.probability):
        problem = _problem_of(group, name, num_agents=len(dataset.agents), thresholds=thresholds)
        if problem:
            continue
        try:
            return group[name][:], ""
        except (OSError, RuntimeError, ValueError) as error:  # what codecs raise for damaged chunks
            problem = f"the stored agents mask {name!r} cannot be decoded ({error})"
    return None, problem


def write_mask(dataset: ChunkedDataset, thresholds: MaskThresholds, mask: UInt32Array) -> Path:
    """Store a mask in a dataset folder, complete or not at all, and return its folder.

    Raises:
        FileExistsError: There is one for this probability.
        InvalidArgumentError: The dataset is no folder.
    """
    folder = mask_folder(dataset, thresholds.probability)
    require_no_mask(dataset, thresholds.probability)
    scratch = Path(tempfile.mkdtemp(dir=dataset.path, prefix=f".{MASK_GROUP}.", suffix=".part"))
    try:
        group = zarr.open_group(store=LocalStore(scratch), mode="a", zarr_format=2)
        array: Any = group.create_array(
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
        _rename_new(scratch / folder.name, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


def require_no_mask(dataset: ChunkedDataset, probability: float) -> None:
    """Refuse a dataset that is no folder, cannot be written to or has a mask for this probability.

    Raises:
        FileExistsError: There is one.
        InvalidArgumentError: The dataset is no folder.
        ReadOnlyDatasetError: The folder cannot be written to.
    """
    if not dataset.path or not Path(dataset.path).is_dir():
        raise InvalidArgumentError(
            f"an agents mask is stored inside a dataset folder, and {dataset.path!r} is none; "
            "AgentDataset computes and caches the mask by itself"
        )
    folder = mask_folder(dataset, probability)
    if folder.exists():
        raise FileExistsError(f"{folder} exists; remove it to compute the agents mask anew")
    if not os.access(dataset.path, os.W_OK):
        raise ReadOnlyDatasetError(
            f"{dataset.path} cannot be written to, so no agents mask can be stored in it; "
            "AgentDataset computes and caches the mask by itself"
        )


def _rename_new(source: Path, target: Path) -> None:
    """Rename a folder; of several processes that do so at once, one wins and the others get FileExistsError."""
    try:
        os.rename(source, target)
    except OSError as error:
        if target.exists():
            raise FileExistsError(f"{target} exists; another process has just written it") from error
        raise


def _open_masks(dataset: ChunkedDataset) -> Any:
    """Return the group of stored masks; an empty mapping if there is none."""
    root = getattr(dataset, "root", None)
    if root is None:
        return {}
    try:
        group = root[MASK_GROUP]
    except (KeyError, ValueError):  # there is no group, or its metadata is damaged
        return {}
    return group if isinstance(group, zarr.Group) else {}


def _names_for(group: Mapping[str, Any] | zarr.Group, probability: float) -> list[str]:
    """Return the names of masks for a probability, its own spelling first."""
    names = [name for name in group if _as_number(name) == probability]
    return sorted(names, key=lambda name: (name != str(probability), name))


def _as_number(name: str) -> float | None:
    try:
        return float(name)
    except ValueError:
        return None


def _problem_of(group: Any, name: str, *, num_agents: int, thresholds: MaskThresholds) -> str:
    """Return why a stored mask cannot be used; an empty text if it can."""
    try:
        array = group[name]
    except (KeyError, ValueError, TypeError) as error:
        return f"the stored agents mask {name!r} cannot be read ({error})"
    if not isinstance(array, zarr.Array) or array.shape != (num_agents, 2) or array.dtype.kind not in "ui":
        return f"the stored agents mask {name!r} does not fit the {num_agents} agents of the dataset"
    wanted = thresholds.as_attributes()
    usual = MaskThresholds(thresholds.probability).as_attributes()
    stored: dict[str, Any] = {key: array.attrs.get(key, usual[key]) for key in wanted}
    if stored != wanted:
        return f"the stored agents mask {name!r} was computed with other thresholds ({stored})"
    if array.nchunks_initialized < array.nchunks:
        return f"the stored agents mask {name!r} is incomplete: its computation was interrupted or is still running"
    return ""
