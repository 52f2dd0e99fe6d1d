"""Bytes of scenes, maps and lanes for the page; positions are float32 in metres, relative to an origin in the facts."""

import numpy as np

from l5kit._types import Float32Array, Float64Array, Int64Array, NumericArray
from l5kit.data.checks.record_checks import MAX_COORDINATE_M
from l5kit.data.frame_rows import expand_ranges, parts_of_rows
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.data.map.lane_network import LaneNetwork
from l5kit.data.map.map_arrays import MapArrays
from l5kit.data.scene_arrays import SceneArrays
from l5kit.visualization.map_shapes import MapShapes, Outlines
from l5kit.visualization.scene_content import MASK_RULE, SceneContent
from l5kit.visualization.viewer.packed_arrays import pack_arrays

_LENGTH_POINTS = 33
"""Points of a midline for its length; the length of a 90 degree bend is at most 0.1 % too short."""


def scene_bytes(scene: SceneContent, *, lane_indices: Int64Array | None = None) -> bytes:
    """Return a scene as bytes; see :mod:`l5kit.visualization.viewer.packed_arrays` for the format.

    Args:
        scene: The scene.
        lane_indices: Ascending indices of the lanes on the map of the page; None for all lanes.
    """
    agents = scene.agents
    origin_m = scene_origin_m(scene)
    track_ids, tracks = np.unique(agents.track_ids, return_inverse=True)
    # lights of the lanes on the page, by their row there
    lights = scene.lights
    lanes, is_kept = lights.lanes.astype(np.int64), np.ones(len(lights.lanes), np.bool_)
    if lane_indices is not None:
        is_kept = np.isin(lanes, lane_indices)
        lanes = np.searchsorted(lane_indices, lanes)
    light_counts = np.bincount(parts_of_rows(lights.starts)[is_kept], minlength=scene.num_frames)
    thresholds = MASK_RULE.thresholds
    facts = {
        "scene_index": scene.scene_index,
        "num_frames": scene.num_frames,
        "host": scene.host,
        "start_time_ns": str(scene.timestamps_ns[0]),
        "origin_m": origin_m.tolist(),
        "track_ids": [str(track_id) for track_id in track_ids.tolist()],  # JavaScript numbers have 53 bits
        "ego_size_m": list(scene.facts.ego_extent_m[:2]),
        "labels": list(PERCEPTION_LABELS),
        "mask": {
            "threshold": thresholds.probability,
            "distance_av_m": thresholds.distance_av_m,
            "min_frame_history": MASK_RULE.min_frame_history,
            "min_frame_future": MASK_RULE.min_frame_future,
        },
        "reasons": list(scene.mask.reasons),
    }
    arrays: dict[str, NumericArray] = {
        "time_s": _float32(scene.times_s),
        "ego_xy": positions_from(scene.ego_positions_m[:, :2], origin_m),
        "ego_yaw": _float32(scene.ego_yaws_rad),
        "ego_speed": _float32(scene.ego_speeds_mps),
        "agent_starts": agents.starts.astype(np.uint32),
        "agent_track": tracks.reshape(-1).astype(np.uint32),
        "agent_xy": positions_from(agents.centroids_m, origin_m),
        "agent_yaw": agents.yaws_rad,
        "agent_extent": agents.extents_m,
        "agent_velocity": agents.velocities_mps,
        "agent_label": agents.labels.astype(np.uint8),
        "agent_probabilities": agents.label_probabilities,
        "agent_in_mask": scene.mask.is_in_mask.astype(np.uint8),
        "agent_reason": scene.mask.reason_indices.astype(np.uint32),
        "light_starts": np.concatenate([[0], np.cumsum(light_counts)]).astype(np.uint32),
        "light_lanes": lanes[is_kept].astype(np.uint32),
        "light_colors": lights.colors[is_kept],
    }
    return pack_arrays(facts, arrays)


def scene_origin_m(scene: SceneArrays) -> Float64Array:
    """Return the world position that positions of a scene are relative to, (2,)."""
    return _origin_of(scene.ego_positions_m[:, :2])


def map_bytes(shapes: MapShapes) -> bytes:
    """Return a map as bytes."""
    origin_m = _origin_of(shapes.lanes.points_m if len(shapes.lanes) else shapes.crosswalks.points_m)
    facts = {
        "origin_m": origin_m.tolist(),
        "num_lanes": len(shapes.lanes),
        "num_crosswalks": len(shapes.crosswalks),
    }
    return pack_arrays(
        facts,
        {
            "lane_left_counts": shapes.lane_left_counts.astype(np.uint32),
            **_outline_arrays("lane", shapes.lanes, origin_m),
            **_outline_arrays("crosswalk", shapes.crosswalks, origin_m),
        },
    )


def _outline_arrays(name: str, outlines: Outlines, origin_m: Float64Array) -> dict[str, NumericArray]:
    points = positions_from(outlines.points_m, origin_m)
    return {f"{name}_starts": outlines.starts.astype(np.uint32), f"{name}_xy": points}


def _origin_of(positions_m: NumericArray) -> Float64Array:
    """Return a centre of positions (N, 2), in whole metres, so that float32 resolves under a millimetre around it.

    It is the median of the plausible positions, and thus finite.
    """
    possible = positions_m[(np.abs(positions_m) <= MAX_COORDINATE_M).all(axis=1)]
    middle: Float64Array = np.zeros(2) if len(possible) == 0 else np.median(possible, axis=0)
    return np.round(middle)


def positions_from(positions_m: NumericArray, origin_m: Float64Array) -> Float32Array:
    """Return positions (..., 2) relative to an origin, float32; damaged ones become infinite."""
    with np.errstate(over="ignore"):  # damaged values become infinite
        return _float32(positions_m - origin_m)


def _float32(values: NumericArray) -> Float32Array:
    with np.errstate(over="ignore"):  # damaged values become infinite
        return np.ascontiguousarray(values, dtype=np.float32)


def lane_bytes(arrays: MapArrays, network: LaneNetwork, *, lane_indices: Int64Array | None = None) -> bytes:
    """Return ids, speed limits, lengths and neighbours of lanes as bytes.

    See :mod:`l5kit.visualization.viewer.packed_arrays` for the format. The ids start with the lanes on the map of the
    page, in its order, followed by neighbours that this map lacks.

    Args:
        arrays: The map.
        network: Connections of its lanes.
        lane_indices: Ascending indices of the lanes on the map of the page; None for all lanes.
    """
    lanes = np.arange(arrays.num_lanes) if lane_indices is None else lane_indices
    ahead_starts, ahead = _taken(network.ahead_starts, network.ahead_rows, lanes)
    behind_starts, behind = _taken(network.behind_starts, network.behind_rows, lanes)
    # map rows become page rows: lanes of the page first, then missing neighbours
    sides = np.stack([network.left_rows[lanes], network.right_rows[lanes]])
    named = np.unique(np.concatenate([ahead, behind, sides[sides >= 0]]))
    rows = np.concatenate([lanes, np.setdiff1d(named, lanes)])
    number_of_row = np.full(len(network.ids) + 1, -1)  # the last entry is for row -1, no neighbour
    number_of_row[rows] = np.arange(len(rows))
    steps_m = np.diff(arrays.resampled(_LENGTH_POINTS).xyz_midlane[..., :2], axis=1)  # seen from above
    lengths_m = np.linalg.norm(steps_m, axis=-1).sum(axis=-1).astype(np.float32)
    ids = network.ids
    facts = {"num_lanes": len(lanes), "ids": [ids[row] for row in rows.tolist()]}
    return pack_arrays(
        facts,
        {
            "limit_mps": network.speed_limits_mps[lanes].astype(np.float32),
            "length_m": lengths_m[lanes],
            "has_light": arrays.has_light[lanes].astype(np.uint8),
            "left": number_of_row[sides[0]].astype(np.int32),
            "right": number_of_row[sides[1]].astype(np.int32),
            "ahead_starts": ahead_starts.astype(np.uint32),
            "ahead": number_of_row[ahead].astype(np.uint32),
            "behind_starts": behind_starts.astype(np.uint32),
            "behind": number_of_row[behind].astype(np.uint32),
        },
    )


def _taken(starts: Int64Array, rows: Int64Array, lanes: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the lists of some lanes in compressed form: starts, including the end, and concatenated contents."""
    lengths = np.diff(starts)[lanes]
    taken_starts = np.concatenate([[0], np.cumsum(lengths)])
    return taken_starts, rows[expand_ranges(starts[lanes], lengths)]
