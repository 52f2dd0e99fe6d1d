"""A dataset as one lazy dataset of xarray: a variable for each field, with named axes, units and frames."""

import json
from typing import TYPE_CHECKING, Any

from l5kit._types import JsonObject
from l5kit.data.interop.dask_records import to_dask_array
from l5kit.data.interop.fields import AXES, FIELDS, ROW_AXES, axis_names
from l5kit.data.layout import ARRAYS
from l5kit.data.scene_selection import SceneSelection, selected_scenes
from l5kit.data.views import view_of_scenes
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError, MissingDependencyError, install_command

if TYPE_CHECKING:
    import xarray as xr


def to_xarray(dataset: ChunkedDataset, scenes: SceneSelection = None, *, chunks_at_once: int = 1) -> "xr.Dataset":
    """Return a dataset as one lazy ``xarray.Dataset``; records are read when they are computed.

    Each field of each array is a variable with the name of both: ``frames_ego_translation``, ``agents_centroid``,
    ``traffic_light_faces_face_id``. Axes of rows are ``scene``, ``frame``, ``agent`` and ``face``; ``xy``, ``xyz``,
    ``size``, ``label``, ``status`` and ``bound`` have their names as coordinates, and the two of rotations are
    ``world_axis`` and ``av_axis``. Attributes tell units, frame of reference and meaning, and the facts of the log.

    The variables are Dask arrays whose chunks end where those of the files do. Variables of one array that are computed
    together are read once. Pickled to other processes, only the place of the files is sent.

    Args:
        dataset: Opened dataset, a view, or one in memory.
        scenes: Scenes to take: a number, a slice, numbers in any order or a mask; None for all. Of a part, all three
            kinds of intervals are renumbered: they count rows of the part, which start at 0. To find them, the scenes
            and their first and last frames are read, and nothing else.
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
        raise MissingDependencyError(f"to_xarray needs xarray and Dask: {install_command('xarray')}") from error
    if not isinstance(dataset, ChunkedDataset):
        raise InvalidArgumentError(f"dataset must be an opened dataset, got {dataset!r}; open one with ChunkedDataset")
    if scenes is not None:
        dataset = view_of_scenes(dataset, selected_scenes(scenes, len(dataset)))
    variables: dict[str, tuple[tuple[str, ...], Any, JsonObject]] = {}
    for key, (attribute, _, _) in ARRAYS.items():
        records = to_dask_array(getattr(dataset, attribute), chunks_at_once=chunks_at_once)
        for field in records.dtype.names or ():
            axes = (ROW_AXES[key], *axis_names(field, records.dtype[field].shape))
            attributes = FIELDS[field].as_attributes() if field in FIELDS else {}
            variables[f"{key}_{field}"] = (axes, records[field], attributes)
    used = {axis for axes, _, _ in variables.values() for axis in axes}
    coordinates = {axis: list(names) for axis, names in AXES.items() if axis in used}

    # attributes of netCDF are numbers, texts and lists of these, so that dictionaries are JSON
    facts = dataset.facts
    attributes_of_all: JsonObject = {
        "title": "log of scenes, frames, agents and traffic light faces",
        "source": dataset.path or "memory",
        "ego_extent_m": list(facts.ego_extent_m),
        "step_time_s": facts.step_time_s,
        "label_mapping": json.dumps(dict(facts.label_mapping)),
    }
    if facts.sources:
        attributes_of_all["sources"] = json.dumps([dict(source) for source in facts.sources])
    return xr.Dataset(variables, coordinates, attrs=attributes_of_all)
