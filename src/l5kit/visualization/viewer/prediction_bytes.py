"""Predictions of a scene as the page takes them: the path of each mode, from the origin of the scene."""

import numpy as np

from l5kit._types import Float64Array
from l5kit.data.scene_arrays import SceneArrays
from l5kit.visualization.viewer.content_bytes import positions_from, scene_origin_m
from l5kit.visualization.viewer.packed_arrays import pack_arrays
from l5kit.visualization.viewer.prediction_matches import SceneMatches, match_scene
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
    confidences, positions_m = predicted_positions(predictions, scene, matches)
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
        "xy": positions_from(positions_m, scene_origin_m(scene)),
    }
    return pack_arrays(facts, arrays)


def predicted_positions(
    predictions: Predictions, scene: SceneArrays, matches: SceneMatches
) -> tuple[Float64Array, Float64Array]:
    """Return probabilities (P, M) and world positions (P, M, T, 2) of the predictions of a scene."""
    frames = np.repeat(np.arange(scene.num_frames), np.diff(matches.starts))
    is_ego = matches.agent_rows < 0
    current_m = scene.ego_positions_m[frames, :2].copy()
    current_m[~is_ego] = scene.agents.centroids_m[matches.agent_rows[~is_ego]]
    confidences, displacements_m = predictions.read(matches.indices)
    return confidences, current_m[:, None, None] + displacements_m
