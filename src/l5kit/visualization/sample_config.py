"""Configurations for samples of a dataset that are displayed or measured."""

from dataclasses import dataclass
from typing import Final

from l5kit._types import JsonObject
from l5kit.configs.texts import did_you_mean
from l5kit.data.dataset_files import DatasetFiles
from l5kit.errors import UnsupportedValueError

MAP_KINDS: Final = {"semantic": "py_semantic", "satellite": "py_satellite", "box": "box_debug"}
"""Kinds of ground that boxes are drawn on, with their ``raster_params.map_type``: map, aerial picture, or nothing."""

_FILES_OF_KIND: Final = {"semantic": ("semantic_map", "meta"), "satellite": ("aerial", "meta"), "box": ()}


@dataclass(frozen=True)
class SampleForm:
    """Size of the raster and length of the trajectories; the defaults are usual ones for training.

    Attributes:
        raster_size_px: Width and height.
        pixel_size_m: Metres per pixel.
        ego_center: Position of the AV or agent, as fractions of width and height.
        history_num_frames: Number of drawn past frames, at the frame rate of the log.
        future_num_frames: Length of the target trajectory in frames.
        filter_agents_threshold: Strict lower bound of the summed probability of the drawn classes.
    """

    raster_size_px: tuple[int, int] = (224, 224)
    pixel_size_m: float = 0.5
    ego_center: tuple[float, float] = (0.25, 0.5)
    history_num_frames: int = 10
    future_num_frames: int = 50
    filter_agents_threshold: float = 0.5


def available_map_kinds(files: DatasetFiles) -> tuple[str, ...]:
    """Return the map kinds among ``semantic`` and ``satellite`` whose files exist; ``("box",)`` if there are none."""
    kinds = tuple(kind for kind in ("semantic", "satellite") if not _missing_files(files, kind))
    return kinds or ("box",)


def sample_config(files: DatasetFiles, *, map_kind: str, form: SampleForm, step_time_s: float) -> JsonObject:
    """Return a configuration of samples over one kind of map.

    Its paths are complete, to be used with ``LocalDataManager("")``. Satellite rasters are padded with black beyond the
    aerial picture.

    Args:
        files: Paths of the dataset, its map, its aerial picture and its meta.json.
        map_kind: One of :data:`MAP_KINDS`.
        form: Size of the raster and length of the trajectories.
        step_time_s: Seconds between two frames, from the facts of the log.

    Raises:
        UnsupportedValueError: There is no such kind of map.
        FileNotFoundError: The dataset lacks a file that this kind needs.
    """
    if map_kind not in MAP_KINDS:
        raise UnsupportedValueError(
            f"map_kind is {map_kind!r}{did_you_mean(map_kind, MAP_KINDS)}; allowed are {', '.join(MAP_KINDS)}"
        )
    if missing := _missing_files(files, map_kind):
        raise FileNotFoundError(
            f"pictures of map kind {map_kind!r} need {' and '.join(missing)}, and none was found for {files.dataset}; "
            "put it next to the dataset, give its path, or use map kind 'box'"
        )
    return {
        "model_params": {
            "history_num_frames": form.history_num_frames,
            "future_num_frames": form.future_num_frames,
            "step_time": step_time_s,
            "render_ego_history": True,
        },
        "raster_params": {
            "map_type": MAP_KINDS[map_kind],
            "raster_size": list(form.raster_size_px),
            "pixel_size": [form.pixel_size_m, form.pixel_size_m],
            "ego_center": list(form.ego_center),
            "set_origin_to_bottom": True,
            "semantic_map_key": _whole_path(files.semantic_map),
            "satellite_map_key": _whole_path(files.aerial),
            "dataset_meta_key": _whole_path(files.meta),
            "satellite_out_of_bounds": "pad",
            "filter_agents_threshold": form.filter_agents_threshold,
            "disable_traffic_light_faces": False,
        },
    }


def _missing_files(files: DatasetFiles, map_kind: str) -> list[str]:
    """Return the names of the files that a kind of map needs and the dataset lacks."""
    names = {"semantic_map": "a semantic map", "aerial": "an aerial picture", "meta": "a meta.json"}
    return [names[field] for field in _FILES_OF_KIND[map_kind] if getattr(files, field) is None]


def _whole_path(path: object) -> str:
    return "" if path is None else str(path)
