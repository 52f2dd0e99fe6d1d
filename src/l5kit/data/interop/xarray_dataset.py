"""A dataset as one lazy dataset of xarray: a variable for each field, with named axes, units and frames."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from l5kit._types import BoolArray, Int64Array, JsonObject
from l5kit.data.interop.dask_arrays import to_dask_array
from l5kit.data.interop.fields import AXES, FIELDS, ROW_AXES, axis_names
from l5kit.data.layout import ARRAYS
from l5kit.data.scene_view import view_of_scenes
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError, MissingDependencyError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ScenesWanted", "scene_numbers", "to_xarray"]

ScenesWanted: TypeAlias = int | slice | Sequence[int] | Int64Array | BoolArray | None
"""Scenes of a dataset: one, a range, several by number in any order, those that a mask (num_scenes,) names, or all."""


def to_xarray(dataset: ChunkedDataset, scenes: ScenesWanted = None, *, chunks_at_once: int = 1) -> "xr.Dataset":
    """Return a dataset as one lazy ``xarray.Dataset``; records are read when they are computed.

    Each field of each array is a variable with the name of both: ``frames_ego_translation``, ``agents_centroid``,
    ``traffic_light_faces_face_id``. Axes of rows are ``scene``, ``frame``, ``agent`` and ``face``; ``xy``, ``xyz``,
    ``size``, ``label``, ``status`` and ``bound`` have their names as coordinates, and the two of rotations are
    ``world_axis`` and ``av_axis``. Attributes tell units, frame of reference and meaning, and the facts of the log.

    The variables are Dask arrays whose chunks end where those of the files do. Variables of one array that are computed
    together are read once. Pickled to other processes, only the place of the files is sent.

    Args:
        dataset: Opened dataset, a view, or one in memory.
        scenes: Scenes to take, negative numbers counted from the end; None for all. Of a part, all three kinds of
            intervals are renumbered: they count rows of the part, which start at 0. To find them, the scenes and
            their first and last frames are read, and nothing else.
        chunks_at_once: Chunks of the files in each chunk of the variables.

    Raises:
        CorruptedDataError: A part is taken, and intervals of its scenes are wrong.
        IndexOutOfRangeError: There is no such scene.
        InvalidArgumentError: ``dataset`` is none, or ``scenes`` is none of the above.
        MissingDependencyError: xarray or Dask is not installed.
    """
    try:
        import xarray as xr
    except ImportError as error:
        raise MissingDependencyError("to_xarray needs xarray and Dask: pip install 'l5kit2[xarray]'") from error
    if not isinstance(dataset, ChunkedDataset):
        raise InvalidArgumentError(f"dataset must be an opened dataset, got {dataset!r}; open one with ChunkedDataset")
    if scenes is not None:
        dataset = view_of_scenes(dataset, scene_numbers(scenes, len(dataset.scenes)))
    variables: dict[str, tuple[tuple[str, ...], Any, JsonObject]] = {}
    for key, (attribute, _, _) in ARRAYS.items():
        records = to_dask_array(getattr(dataset, attribute), chunks_at_once=chunks_at_once)
        for field in records.dtype.names or ():
            axes = (ROW_AXES[key], *axis_names(field, records.dtype[field].shape))
            attributes = FIELDS[field].as_attributes() if field in FIELDS else {}
            variables[f"{key}_{field}"] = (axes, records[field], attributes)
    used = {axis for axes, _, _ in variables.values() for axis in axes}
    coordinates = {axis: list(names) for axis, names in AXES.items() if axis in used}
    return xr.Dataset(variables, coordinates, attrs=_attributes_of(dataset))


def scene_numbers(scenes: ScenesWanted, num_scenes: int) -> Int64Array:
    """Return the numbers of scenes, (N,), counted from the start.

    Args:
        scenes: See :data:`ScenesWanted`.
        num_scenes: Scenes that there are.

    Raises:
        IndexOutOfRangeError: There is no such scene.
        InvalidArgumentError: It is none of these.
    """
    if scenes is None or isinstance(scenes, slice):
        return np.arange(num_scenes, dtype=np.int64)[scenes or slice(None)]
    wanted = np.atleast_1d(np.asarray(scenes))
    if wanted.dtype == bool and wanted.shape == (num_scenes,):
        return np.flatnonzero(wanted).astype(np.int64)
    if wanted.size == 0 and wanted.ndim == 1:
        return np.empty(0, dtype=np.int64)
    if wanted.dtype.kind not in "iu" or wanted.ndim != 1:
        raise InvalidArgumentError(
            f"scenes must be a number, a slice, a list of numbers or a mask of shape ({num_scenes},), got {scenes!r}"
        )
    numbers = wanted.astype(np.int64)
    outside = numbers[(numbers < -num_scenes) | (numbers >= num_scenes)]
    if len(outside):
        raise IndexOutOfRangeError(f"scenes has {outside[0]}, but the dataset has {num_scenes} scenes")
    return numbers % num_scenes


def _attributes_of(dataset: ChunkedDataset) -> JsonObject:
    """Return where a dataset comes from, and its facts, as files of arrays can hold them."""
    facts = dataset.facts
    return {
        "title": "log of scenes, frames, agents and traffic light faces",
        "source": dataset.path or "memory",
        "ego_extent_m": list(facts.ego_extent_m),
        "step_time_s": facts.step_time_s,
        "label_mapping": json.dumps(dict(facts.label_mapping)),
    }
