"""Predictions of a scene as the page takes them: the path of each mode, from the origin of the scene."""

import numpy as np

from l5kit.data.scene_arrays import SceneArrays
from l5kit.visualization.viewer.content_bytes import positions_from, scene_origin_m
from l5kit.visualization.viewer.packed_arrays import pack_arrays
from l5kit.visualization.viewer.prediction_matches import match_scene
from l5kit.visualization.viewer.predictions import Predictions


def prediction_bytes(predictions: Predictions, scene: SceneArrays) -> bytes:
    """Return the predictions of a scene as bytes; see :mod:`l5kit.visualization.viewer.packed_arrays` for their form.

    Args:
        predictions: Those of the whole log.
        scene: The scene; positions are counted from the same origin as those of its own bytes.

    Raises:
        InvalidArgumentError: A row of the file holds something else than numbers.
        DataChangedError: The file is not the one that was opened.
    """
    matches = match_scene(predictions, scene)
    # what is predicted is counted from where the AV, or the agent, is in the frame of the prediction
    frames = np.repeat(np.arange(scene.num_frames), np.diff(matches.starts))
    is_agent = matches.agent_rows >= 0
    current_m = scene.ego_positions_m[frames, :2].copy()
    current_m[is_agent] = scene.agents.centroids_m[matches.agent_rows[is_agent]]
    confidences, displacements_m = predictions.read(matches.indices)
    facts = {
        "name": predictions.name,
        "num_modes": predictions.num_modes,
        "num_steps": predictions.num_steps,
        "num_lost": matches.num_lost,
    }
    arrays = {
        "starts": matches.starts.astype(np.uint32),
        "agent_row": matches.agent_rows.astype(np.int32),
        "confidence": confidences.astype(np.float32),
        "xy": positions_from(current_m[:, None, None] + displacements_m, scene_origin_m(scene)),
    }
    return pack_arrays(facts, arrays)
