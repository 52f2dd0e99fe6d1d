"""Export of a scene as one HTML file that plays in a browser without a server or a network."""

import base64
import contextlib
import gzip
import json
import os
from typing import Final

from l5kit._files import replaced_when_complete
from l5kit.errors import CorruptedDataError, L5KitError
from l5kit.visualization.viewer.content_bytes import map_bytes, scene_bytes
from l5kit.visualization.viewer.page_files import compose_page
from l5kit.visualization.viewer.viewed_log import ViewedLog

MAP_RADIUS_M: Final = 200.0
"""The exported map has elements with bounds within this distance of any position of the AV, along x and y."""


def write_exported_page(output_filepath: str | os.PathLike[str], log: ViewedLog, scene_index: int) -> None:
    """Write the page of one scene as an HTML file, complete or not at all.

    It has no samples, since these need the server, and no notes of the dataset, since these name folders.

    Args:
        output_filepath: The HTML file; an older one is replaced.
        log: The dataset.
        scene_index: The scene.

    Raises:
        IndexOutOfRangeError: There is no such scene.
        CorruptedDataError: The scene cannot be read.
        FileNotFoundError: The folder of ``output_filepath`` does not exist.
    """
    with replaced_when_complete(output_filepath) as path:
        path.write_bytes(exported_page(log, scene_index).encode("utf-8"))  # same line endings on all systems


def exported_page(log: ViewedLog, scene_index: int) -> str:
    """Return the page of one scene as HTML; see :func:`write_exported_page`."""
    scene = log.scene(scene_index)
    shapes, lane_indices = log.map_shapes, None
    if shapes is not None:
        shapes, lane_indices = shapes.near(scene.ego_positions_m[:, :2], MAP_RADIUS_M)
    # aerial picture around the path of the AV, and lane data, if they can be read
    cut = lanes = None
    if log.aerial is not None:
        with contextlib.suppress(L5KitError, OSError):
            cut = log.aerial.cut_out(scene.ego_positions_m[:, :2], log.ego_height_m(scene.scene_index))
    aerial = None if cut is None else {"facts": cut[0], "jpeg": base64.b64encode(cut[1]).decode("ascii")}
    with contextlib.suppress(CorruptedDataError):
        lanes = log.lane_bytes(lane_indices)
    row = log.scene_row(scene_index)
    doubts = [f"Scene {scene_index} is damaged: {text}." for text in row["doubt"].values()]
    # facts without names of local folders
    facts = {name: value for name, value in log.facts().items() if name not in {"path", "notes"}}
    content = {
        "dataset": facts | {"notes": doubts, "has_aerial": aerial is not None},
        "scene_index": scene_index,
        "scenes": row,
        "tags": log.tags.of_scene(scene_index),
        "scene": _packed(scene_bytes(scene, lane_indices=lane_indices)),
        "drive": _packed(log.drive_bytes(scene_index)),
        "predictions": _packed(log.prediction_bytes(scene_index)),
        "map": None if shapes is None else _packed(map_bytes(shapes)),
        "lanes": _packed(lanes),
        "aerial": aerial,
    }
    text = json.dumps(content, allow_nan=False).replace("<", "\\u003c")  # so that no text ends the script
    element = f'<script type="application/json" id="l5kit-export">{text}</script>'
    return compose_page(title=f"Scene {scene_index} - l5kit", script_folder=None, content=element)


def _packed(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(gzip.compress(content, mtime=0)).decode("ascii")
