"""Display of scenes and samples as pictures, and of samples and configurations as tables, in notebooks."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypedDict

import numpy as np

from l5kit._types import Config, NumericArray, UInt8Array
from l5kit.data.display import html_table
from l5kit.data.map.api import MapAPI
from l5kit.errors import InvalidArgumentError
from l5kit.rasterization.box_rasterizer import BoxRasterizer
from l5kit.rasterization.rasterizer import Rasterizer, one_picture
from l5kit.rasterization.render_context import RenderContext
from l5kit.sampling.sample_keys import KEYS_BY_DATASET, SampleKey
from l5kit.visualization.map_shapes import read_map_shapes
from l5kit.visualization.notebooks.preview import sketch_map
from l5kit.visualization.notebooks.shown import Picture, Table
from l5kit.visualization.notebooks.subjects import files_of, log_of

_MAP_SIZE_PX: Final = (800, 600)
_VECTOR_KEYS: Final = frozenset({"lanes_mid", "other_agents_polyline", "all_other_agents_history_extents"})
_MAX_ZOOM: Final = 16


class _SampleStyle(TypedDict):
    """Options for drawing a sample."""

    with_trajectories: bool
    zoom: int
    predicted_m: NumericArray | None


def show(
    subject: object,
    scene: int = 0,
    frame: int = 0,
    *,
    track: int | None = None,
    trajectories: bool = True,
    predicted: NumericArray | None = None,
    zoom: int = 1,
    map_kind: str | None = None,
    size_px: tuple[int, int] = (640, 480),
    pixel_size_m: float = 0.15,
    rasterizer: Rasterizer | None = None,
    data_folder: str | os.PathLike[str] | None = None,
) -> Picture:
    """Return a picture of a scene, a sample or a map, which a notebook displays.

    A log or its path gives a frame as drawn by ``l5kit render``, a dataset of samples gives the sample of that frame. A
    sample is shown as its raster in colour or as a drawing of its polylines. Past positions are orange, future ones
    magenta.

    Args:
        subject: A dataset of any kind, its path, a single sample, a map, or an image (uint8).
        scene: The scene of a dataset.
        frame: The frame, counted in the scene.
        track: The agent in the centre; None for the AV.
        trajectories: Whether past and future are drawn into rasters.
        predicted: For samples: positions (..., 2) in the frame of the target, such as ``positions`` predicted by a
            model; drawn as cyan dots.
        zoom: For raster samples: displayed pixels per pixel of the raster along each side, 1 to 16.
        map_kind: For logs: ``semantic``, ``satellite`` or ``box``; None for the first one whose files are found.
        size_px: For logs: width and height.
        pixel_size_m: For logs: metres per pixel.
        rasterizer: For raster samples: the rasterizer that drew it; needed for custom rasterizers only.
        data_folder: For logs: the folder with the map and meta.json; None to search in and near the log.

    Raises:
        InvalidArgumentError: The subject is none of these, is a batch, or is an unopened dataset; or ``zoom``
            is out of range.
        IndexOutOfRangeError: There is no such scene or frame.
        TrackNotFoundError: The agent is not in the frame, or does not pass the label filter.
        FileNotFoundError: A file that this kind of map needs is missing.
    """
    if not 1 <= zoom <= _MAX_ZOOM:
        raise InvalidArgumentError(f"zoom is {zoom}; it must be 1 to {_MAX_ZOOM}")
    style: _SampleStyle = {"with_trajectories": trajectories, "zoom": zoom, "predicted_m": predicted}
    if isinstance(subject, np.ndarray):
        return Picture.of_image(subject)
    if isinstance(subject, MapAPI):
        return Picture.of_image(sketch_map(read_map_shapes(subject.arrays), size_px=_MAP_SIZE_PX))
    if isinstance(subject, Mapping):
        return _show_sample(subject, rasterizer, style)
    if hasattr(subject, "get_frame"):
        log_of(subject)
        sample = subject.get_frame(scene, frame, track)
        return _show_sample(sample, rasterizer or getattr(subject, "rasterizer", None), style)
    from l5kit.visualization.sample_config import available_map_kinds  # imported here since samples need torch
    from l5kit.visualization.scene_pictures import PICTURE_FORM, ScenePainter

    log = log_of(subject)
    files = files_of(log, data_folder)
    form = replace(PICTURE_FORM, raster_size_px=size_px, pixel_size_m=pixel_size_m)
    painter = ScenePainter(files, log, map_kind=map_kind or available_map_kinds(files)[0], form=form)
    return Picture.of_image(painter.picture(scene, frame, track, with_trajectories=trajectories))


def describe(subject: Mapping[str, Any], *, title: str = "") -> Table:
    """Return a sample, a batch, a configuration or a result as a table, which a notebook displays.

    For samples and batches the table has the shape, type, unit and meaning of each key; for other mappings, such as
    scores by name, the values.

    Args:
        subject: The mapping.
        title: Title above the table.

    Raises:
        InvalidArgumentError: The subject is not a mapping.
    """
    if not isinstance(subject, Mapping):
        raise InvalidArgumentError(
            f"subject is a {type(subject).__name__}; pass a sample, a batch or a configuration, which are mappings"
        )
    if not any(hasattr(value, "shape") for value in subject.values()):
        return _table(title, ("key", "value"), _rows_of_values(subject, ""))
    known: dict[str, SampleKey] = {key.name: key for keys in KEYS_BY_DATASET.values() for key in keys}
    rows: list[tuple[str, ...]] = []
    for name, value in subject.items():
        key = known.get(str(name))
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", type(value).__name__)
        description = (key.frame, key.unit, key.text.replace("`", "")) if key else ("", "", "")
        rows.append((str(name), "" if shape is None else str(tuple(shape)), str(dtype), *description))
    return _table(title or "sample", ("key", "shape", "type", "frame", "unit", "is"), rows)


def _show_sample(sample: Mapping[str, Any], rasterizer: Rasterizer | None, style: _SampleStyle) -> Picture:
    sample = {key: value.numpy(force=True) if hasattr(value, "numpy") else value for key, value in sample.items()}
    if "image" in sample:
        _require_single(one_picture(sample["image"]), 3)
        from l5kit.visualization.sample_pictures import sample_picture

        return Picture.of_image(sample_picture(sample, rasterizer or _BoxesOverMap(), **style))
    if sample.keys() >= _VECTOR_KEYS:
        _require_single(sample["lanes_mid"], 3)
        from l5kit.visualization.viewer.vector_drawing import draw_vector_sample

        return Picture(draw_vector_sample(sample, predicted_m=style["predicted_m"]), is_drawing=True)
    raise InvalidArgumentError(
        f"the sample has neither an image nor polylines, but {sorted(map(str, sample))[:8]}; make it with a rasterizer "
        "or a vector dataset (describe(...) shows any mapping as a table)"
    )


def _require_single(values: NumericArray, num_axes: int) -> None:
    if np.ndim(values) != num_axes:
        raise InvalidArgumentError(
            f"the sample has values of shape {np.shape(values)}, but one sample has {num_axes} axes; take one from "
            "a batch: {key: value[0] for key, value in batch.items()}"
        )


class _BoxesOverMap:
    """Colours of the rasters of l5kit, recognised by the number of channels: boxes first, then three of the map."""

    def to_rgb(self, in_im: NumericArray, **_: object) -> UInt8Array:
        """Return agents in blue and the target in green, fading into the past, over the map if there is one."""
        height, width, num_channels = in_im.shape
        num_box_channels = num_channels - 3 * (num_channels % 2)
        background = in_im[..., num_box_channels:] if num_channels % 2 else np.zeros((height, width, 3), np.uint8)
        picture = background if background.dtype == np.uint8 else (background.clip(0.0, 1.0) * 255).astype(np.uint8)
        if num_box_channels == 0:
            return picture
        context = RenderContext(np.array([width, height]), np.ones(2), np.array([0.5, 0.5]), set_origin_to_bottom=True)
        boxes = BoxRasterizer(context, 0.5, num_box_channels // 2 - 1).to_rgb(in_im[..., :num_box_channels])
        return np.where((boxes > 0).any(axis=-1, keepdims=True), boxes, picture)


def _rows_of_values(cfg: Config, prefix: str) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, value in cfg.items():
        if isinstance(value, Mapping):
            rows += _rows_of_values(value, f"{prefix}{name}.")
        else:
            rows.append((f"{prefix}{name}", f"{value:.4g}" if isinstance(value, float) else str(value)))
    return rows


def _table(title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in (columns, *rows)]
    return Table(html_table(title, columns, rows), "\n".join(line.rstrip() for line in lines))
