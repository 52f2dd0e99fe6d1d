"""Zarr utilities: joining, splitting and shortening of datasets on disk.

Each output is written under a temporary name and renamed when it is complete.
"""

import math
import os
import warnings
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
from zarr.core.sync import sync

from l5kit._types import Config, Int64Array, Records
from l5kit.data.index.log_index import require_readable_log
from l5kit.data.jobs.scene_jobs import Workers
from l5kit.data.layout import ARRAYS, standard_with_others
from l5kit.data.log_facts import LogFacts, agreed_facts
from l5kit.data.progress import show_progress
from l5kit.data.records import FRAME_INTERVAL
from l5kit.data.save import require_local, save_arrays
from l5kit.data.stores.store import is_url, path_of
from l5kit.data.views import RecordView, Segments, view_of_first_frames, view_of_scenes
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError

GIGABYTE = 1024**3
"""Bytes per unit of ``split_size_GB``."""


def zarr_concat(
    input_zarrs: Sequence[str], output_zarr: str, *, verbose: bool = True, facts: LogFacts | None = None
) -> None:
    """Write the concatenated scenes of several datasets as one dataset, with all intervals shifted.

    Inputs without scenes add nothing. Inputs that cannot be opened are skipped with a ``RuntimeWarning``.

    Args:
        input_zarrs: Paths of the inputs; an empty list gives an empty dataset.
        output_zarr: Path of the new dataset.
        verbose: Show a progress bar on a terminal.
        facts: Facts of the new log, required if those of the inputs differ; None for their common facts.

    Raises:
        InvalidArgumentError: ``input_zarrs`` is a single path, ``output_zarr`` exists or lies inside an input, or the
            facts or fields of the inputs differ; nothing is written.
        CorruptedDataError: A file of an input is damaged; nothing is written.
    """
    if isinstance(input_zarrs, (str, bytes, os.PathLike, ChunkedDataset)):
        raise InvalidArgumentError(
            f"input_zarrs must be a list of paths, got the single {input_zarrs!r}; put it into a list: [path]"
        )
    input_zarrs = list(input_zarrs)
    for path in input_zarrs:
        _require_apart(path, output_zarr, argument="output_zarr")
    if os.path.exists(output_zarr):
        raise InvalidArgumentError(f"output_zarr {output_zarr!r} exists; choose another path or remove it")
    inputs: list[ChunkedDataset] = []
    for path in input_zarrs:
        try:
            inputs.append(ChunkedDataset(path).open(cached=False))
        except (ValueError, KeyError) as error:
            warnings.warn(f"input {path!r} is left out: {error}", RuntimeWarning, stacklevel=2)
    if facts is None:
        facts = agreed_facts([(dataset.path, dataset.own_facts) for dataset in inputs])

    # extra fields that only some inputs have would be lost
    for key, (attribute, _, _) in ARRAYS.items():
        types = {dataset.path: standard_with_others(getattr(dataset, attribute).dtype, key) for dataset in inputs}
        everywhere = dict.fromkeys(name for dtype in types.values() for name in dtype.names or ())
        for path, dtype in types.items():
            lost = [name for name in everywhere if name not in (dtype.names or ())]
            if lost:
                raise InvalidArgumentError(
                    f"input_zarrs must have the same fields, but {attribute} of {path!r} lack {lost[0]!r}, whose "
                    "values would be lost; add it there, or leave it out everywhere"
                )

    # views of all scenes omit rows without a scene
    views = []
    for dataset in inputs:
        require_readable_log(dataset)
        views.append(view_of_scenes(dataset, np.arange(len(dataset.scenes), dtype=np.int64)))
    joined = ChunkedDataset.concatenate(views, facts=facts) if views else ChunkedDataset.in_memory(facts=facts)
    _save(joined, output_zarr, title="Concatenating", verbose=verbose)


def zarr_split(
    input_zarr: str, output_path: str, split_infos: Sequence[Config], *, verbose: bool = True
) -> list[tuple[int, int]]:
    """Write a dataset in several parts of consecutive scenes.

    A part of g GB gets floor(g / total GB of the input's files * number of scenes) scenes; the last gets the rest.

    Args:
        input_zarr: Path of the dataset.
        output_path: Folder for the parts, which replace existing ones.
        split_infos: ``name`` and ``split_size_GB`` (in units of 1024^3 bytes) of each part, -1 for the last.
        verbose: Show a progress bar on a terminal.

    Returns:
        First scene and end scene of each part.

    Raises:
        InvalidArgumentError: The last size is not -1, a part would have no scene, or two parts, or a part and the
            input, are the same or nested paths.
        CorruptedDataError: The dataset is damaged; nothing is written.
    """
    if len(split_infos) == 0 or split_infos[-1]["split_size_GB"] != -1:
        raise InvalidArgumentError(f"the last of split_infos must have split_size_GB -1 (the rest), got {split_infos}")
    targets = [os.path.join(output_path, info["name"]) for info in split_infos]
    for target in targets:
        _require_apart(input_zarr, target, argument="output_path with one of the names of split_infos")
    if any(_is_around(first, second) for first, second in permutations(targets, 2)):
        raise InvalidArgumentError(f"split_infos must have names that differ and are not nested, got {targets}")
    dataset = ChunkedDataset(input_zarr).open(cached=False)
    require_readable_log(dataset)

    # assume that all scenes have the same size: scenes are shared in proportion to the part sizes
    path, num_scenes = Path(dataset.path), len(dataset.scenes)
    if path.is_dir():
        num_bytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    elif path.is_file():
        num_bytes = path.stat().st_size
    else:
        num_bytes = int(sync(dataset.root.store.getsize_prefix("")))
    sizes_gb, total_gb = [info["split_size_GB"] for info in split_infos[:-1]], num_bytes / GIGABYTE
    counts = [math.floor(num_scenes * size_gb / total_gb) for size_gb in sizes_gb]
    counts.append(num_scenes - sum(counts))
    if min(counts) < 1:
        raise InvalidArgumentError(
            f"sizes {sizes_gb} GB (and the rest) of a dataset of {total_gb:.6g} GB and {num_scenes} scenes give "
            f"{counts} scenes; each part needs at least one: change split_size_GB"
        )
    ends = np.cumsum(counts).tolist()
    cuts = list(zip([0, *ends[:-1]], ends, strict=True))
    for target, (start, end) in zip(targets, cuts, strict=True):
        part = view_of_scenes(dataset, np.arange(start, end))
        _save(part, target, title=f"Writing {os.path.basename(target)}", verbose=verbose)
    return cuts


def zarr_scenes_chop(
    input_zarr: str, output_zarr: str, num_frames_to_copy: int, *, verbose: bool = True, workers: Workers = 1
) -> None:
    """Write a dataset with the first frames of every scene; host and times of the scenes are kept.

    Args:
        input_zarr: Path of the dataset.
        output_zarr: Path of the new dataset, which replaces an existing one.
        num_frames_to_copy: Number of frames per scene, at least 1.
        verbose: Show a progress bar on a terminal.
        workers: Number of reading threads, or an executor; see
            :func:`~l5kit.data.jobs.scene_jobs.map_scenes`.

    Raises:
        InvalidArgumentError: A scene has fewer frames, ``num_frames_to_copy`` is less than 1, or the two paths are the
            same or nested.
        CorruptedDataError: The dataset is damaged; nothing is written.
    """
    if num_frames_to_copy < 1:
        raise InvalidArgumentError(f"num_frames_to_copy must be at least 1, got {num_frames_to_copy}")
    _require_apart(input_zarr, output_zarr, argument="output_zarr")
    dataset = ChunkedDataset(input_zarr).open(cached=False)
    require_readable_log(dataset)
    num_frames: Int64Array = np.diff(dataset.scenes[FRAME_INTERVAL], axis=1)[:, 0]
    if (num_frames < num_frames_to_copy).any():
        scene = int(np.argmin(num_frames))
        raise InvalidArgumentError(
            f"num_frames_to_copy is {num_frames_to_copy}, but scene {scene} of {input_zarr!r} has only "
            f"{num_frames[scene]} frames; use that or fewer"
        )
    chopped = view_of_first_frames(dataset, num_frames_to_copy)
    _save(chopped, output_zarr, title="Chopping", verbose=verbose, workers=workers)


def _require_apart(input_zarr: str, output: str, *, argument: str) -> None:
    """Refuse an output that is the input, lies inside it or contains it, also through links."""
    if _is_around(input_zarr, output) or _is_around(output, input_zarr):
        raise InvalidArgumentError(
            f"{argument} is {output!r}, but the input is {input_zarr!r}: writing the one would destroy the other; "
            "choose a path outside the input"
        )


def _is_around(outer: str, inner: str) -> bool:
    """Return whether ``inner`` is the local path ``outer`` or lies inside it."""
    if is_url(outer := path_of(outer)) or is_url(inner := path_of(inner)):
        return False
    return Path(os.path.realpath(inner)).is_relative_to(os.path.realpath(outer))


def _save(dataset: ChunkedDataset, path: str, *, title: str, verbose: bool, workers: Workers = 1) -> None:
    """Write a dataset in the record types of the format plus its extra fields, replacing an existing one."""
    require_local("the output", path)
    arrays: dict[str, Records] = {}
    for key, (name, _, _) in ARRAYS.items():
        array = getattr(dataset, name)
        wanted = standard_with_others(array.dtype, key)
        if array.dtype != wanted:  # a view of all rows that converts them as they are read
            zero = np.zeros(1, dtype=np.int64)
            array = RecordView([array], Segments(zero, zero, zero + len(array)), dtype=wanted)
        arrays[key] = array
    with show_progress(title, visible=verbose) as progress:
        save_arrays(arrays, Path(path), overwrite=True, facts=dataset.own_facts, progress=progress, workers=workers)
