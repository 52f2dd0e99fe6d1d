"""Columns of a Rerun recording; needs rerun-sdk."""

from collections.abc import Iterable, Sequence

import numpy as np
import rerun as rr
import rerun.blueprint as rrb

from l5kit._types import Float64Array, NumericArray, UInt8Array
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.data.progress import Progress
from l5kit.errors import UnsupportedValueError
from l5kit.visualization.recording.colors import (
    BOUNDARY_RGB,
    CLASS_RGB,
    CROSSWALK_RGB,
    EGO_RGB,
    LANE_RGB,
    LIGHT_RGB,
    MARK_RGB,
    class_title,
)
from l5kit.visualization.recording.nearby_map import NearbyLane, NearbyMap, light_changes
from l5kit.visualization.recording.scene_elements import (
    CROSSWALK_HEIGHT_M,
    LIGHT_HEIGHT_M,
    TRAJECTORY_HEIGHT_M,
    SceneElements,
)

_BLOCK_FRAMES = 50
"""Frames per chunk of the recording, the unit in which viewers read it."""

_LINE_RADIUS_M, _EGO_LINE_RADIUS_M = 0.08, 0.15
_PAST_BRIGHTNESS = 0.5
_EYE_M, _LOOK_TARGET_M, _BACKGROUND_RGB = (-30.0, 0.0, 30.0), (5.0, 0.0, 0.0), (25, 25, 30)


def encode_recording(elements: SceneElements, progress: Progress | None = None) -> bytes:
    """Return a scene as bytes, see :func:`l5kit.visualization.recording.recording_files.write_rerun`.

    Args:
        elements: Contents of the recording.
        progress: Called with the numbers of finished and of all frames.

    Raises:
        UnsupportedValueError: The environment variable ``RERUN`` turns recordings off.
    """
    recording = rr.RecordingStream("l5kit")
    if not rr.is_enabled(recording):
        raise UnsupportedValueError("the environment variable RERUN turns recordings off; unset it, or set it to 'on'")
    content = recording.memory_recording()
    # layout: the scene from behind and above the AV, and a plot of its speed
    blueprint = rrb.Blueprint(
        rrb.Vertical(
            rrb.Spatial3DView(
                name="Scene",
                origin="/scene/ego",  # the view follows the AV
                contents="/scene/**",
                eye_controls=rrb.EyeControls3D(position=_EYE_M, look_target=_LOOK_TARGET_M),
                background=_BACKGROUND_RGB,
            ),
            rrb.TimeSeriesView(name="Speed of the AV (m/s)", origin="/state"),
            row_shares=[4, 1],
        ),
        collapse_panels=True,
    )
    recording.send_blueprint(blueprint)
    _log_facts(recording, elements)
    if elements.nearby_map is not None:
        _send_map(recording, elements, elements.nearby_map)
    for start in range(0, elements.scene.num_frames, _BLOCK_FRAMES):
        stop = min(start + _BLOCK_FRAMES, elements.scene.num_frames)
        _send_block(recording, elements, range(start, stop))
        if progress is not None:
            progress(stop, elements.scene.num_frames)
    return content.drain_as_bytes()


def _log_facts(recording: rr.RecordingStream, elements: SceneElements) -> None:
    """Log the static contents of the recording."""
    scene = elements.scene
    recording.send_recording_name(f"scene {scene.scene_index} of {scene.host}")
    facts = rr.AnyValues(
        scene_index=scene.scene_index,
        host=scene.host,
        num_frames=scene.num_frames,
        origin_world_m=elements.origin_m,
    )
    recording.send_property("scene", facts)
    classes = [(index, class_title(label), CLASS_RGB[index].tolist()) for index, label in enumerate(PERCEPTION_LABELS)]
    ego_box = rr.Boxes3D(
        centers=[(0, 0, 0.5 * scene.facts.ego_extent_m[2])],
        half_sizes=[np.multiply(scene.facts.ego_extent_m, 0.5)],
        colors=[EGO_RGB],
        fill_mode="solid",
        labels=["AV"],
    )
    for path, content in (
        ("/scene", rr.ViewCoordinates.RIGHT_HAND_Z_UP),
        ("/scene", rr.AnnotationContext(classes)),
        ("/scene/ego/box", ego_box),
        ("/scene/agents/headings", _line_look(_LINE_RADIUS_M, MARK_RGB)),
        ("/scene/agents/past", _line_look(_LINE_RADIUS_M)),
        ("/scene/agents/future", _line_look(_LINE_RADIUS_M)),
        ("/scene/ego_trajectory/past", _line_look(_EGO_LINE_RADIUS_M, _dimmed(np.array(EGO_RGB)))),
        ("/scene/ego_trajectory/future", _line_look(_EGO_LINE_RADIUS_M, EGO_RGB)),
        ("/state/speed_mps", rr.SeriesLines(colors=[EGO_RGB], names=["speed_mps"])),
    ):
        recording.log(path, content, static=True, strict=True)


def _send_map(recording: rr.RecordingStream, elements: SceneElements, nearby_map: NearbyMap) -> None:
    """Log the map, and send the areas of lit lanes for each frame in which one changes."""
    lanes = list(nearby_map.lanes.values())
    sides_m = [_at_height(side_m, 0.0) for lane in lanes for side_m in (lane.left_m, lane.right_m)]
    rims_m = [_at_height(rim_m, CROSSWALK_HEIGHT_M) for rim_m in nearby_map.crosswalk_rims_m()]
    vertices_m, triangles = _joined_areas(lanes, 0.0)
    for name, content in (
        ("lanes", rr.Mesh3D(vertex_positions=vertices_m, triangle_indices=triangles, albedo_factor=LANE_RGB)),
        ("lane_boundaries", rr.LineStrips3D(sides_m, colors=[BOUNDARY_RGB], radii=[_LINE_RADIUS_M])),
        ("crosswalks", rr.LineStrips3D(rims_m, colors=[CROSSWALK_RGB], radii=[_LINE_RADIUS_M])),
    ):
        recording.log(f"/scene/map/{name}", content, static=True, strict=True)

    # The lit lanes of a frame are one mesh. Meshes of all frames are sent as columns that are partitioned by frame,
    # separately for vertices and triangles, whose numbers differ.
    changes = list(light_changes(elements.scene.lights, nearby_map.lanes))
    areas = [_joined_areas([nearby_map.lanes[lane] for lane in lit], LIGHT_HEIGHT_M) for _, lit in changes]
    colors = [
        np.repeat(LIGHT_RGB[color][None], len(nearby_map.lanes[lane].vertices_m), axis=0)
        for _, lit in changes
        for lane, color in lit.items()
    ]
    ids = [nearby_map.lanes[lane].lane_id for _, lit in changes for lane in lit]
    lit_vertices = rr.Mesh3D.columns(
        vertex_positions=np.concatenate([vertices_m for vertices_m, _ in areas]),
        vertex_colors=np.concatenate([np.empty((0, 3), np.uint8), *colors]),
    )
    lit_triangles = rr.Mesh3D.columns(triangle_indices=np.concatenate([triangles for _, triangles in areas]))
    columns: list[rr.ComponentColumn] = [
        *lit_vertices.partition([len(vertices_m) for vertices_m, _ in areas]),
        *lit_triangles.partition([len(triangles) for _, triangles in areas]),
    ]
    if ids:
        columns += rr.AnyValues.columns(lane_ids=ids).partition([len(lit) for _, lit in changes])
    _send(recording, "/scene/map/lights", elements, [frame_index for frame_index, _ in changes], columns)


def _send_block(recording: rr.RecordingStream, elements: SceneElements, frames: range) -> None:
    """Send the contents of a range of frames."""
    ego, agents, scene, known = elements.ego, elements.agents, elements.scene, elements.agent_facts
    of_frames = slice(frames.start, frames.stop)

    def send(path: str, columns: Iterable[rr.ComponentColumn]) -> None:
        _send(recording, path, elements, frames, columns)

    # the AV, one value per frame; its frame is on the ground below its centre
    ground_m = ego.centers_m[of_frames] * [1, 1, 0]
    send("/scene/ego", rr.Transform3D.columns(translation=ground_m, quaternion=ego.quaternions[of_frames]))
    send("/state/speed_mps", rr.Scalars.columns(scalars=scene.ego_speeds_mps[of_frames]))
    points_m = _at_height(ego.centers_m[:, :2], TRAJECTORY_HEIGHT_M)
    firsts, stops = elements.ego_windows
    pasts = [points_m[firsts[frame_index] : frame_index + 1] for frame_index in frames]
    futures = [points_m[frame_index : stops[frame_index]] for frame_index in frames]
    send("/scene/ego_trajectory/past", rr.LineStrips3D.columns(strips=pasts))
    send("/scene/ego_trajectory/future", rr.LineStrips3D.columns(strips=futures))

    # the agents, a varying number of values per frame
    starts = scene.agents.starts
    rows, num_agents = slice(starts[frames.start], starts[frames.stop]), np.diff(starts[frames.start : frames.stop + 1])
    tracks, labels = scene.agents.track_ids[rows], known.labels[rows]
    titles = [class_title(PERCEPTION_LABELS[label]) for label in labels.tolist()]
    boxes = rr.Boxes3D.columns(
        centers=agents.centers_m[rows],
        half_sizes=0.5 * agents.sizes_m[rows],
        quaternions=agents.quaternions[rows],
        class_ids=labels,
        labels=[f"{track} {title}" for track, title in zip(tracks.tolist(), titles, strict=True)],
        fill_mode=["solid"] * len(labels),
    )
    facts = rr.AnyValues.columns(
        track_id=tracks,
        probability=known.probabilities[rows],
        speed_mps=known.speeds_mps[rows],
        is_in_agents_mask=scene.mask.is_in_mask[rows],
    )
    send("/scene/agents", [*boxes.partition(num_agents), *facts.partition(num_agents)])
    marks = rr.LineStrips3D.columns(strips=agents.heading_marks_m[rows].astype(np.float32))
    send("/scene/agents/headings", marks.partition(num_agents))
    points_m, windows, colors = (
        _at_height(agents.centers_m[:, :2], TRAJECTORY_HEIGHT_M),
        elements.agent_windows,
        CLASS_RGB[labels],
    )
    for name, rows_around, tones in (("past", windows.past, _dimmed(colors)), ("future", windows.future, colors)):
        strips = [points_m[rows_around(row)] for row in range(rows.start, rows.stop)]
        send(f"/scene/agents/{name}", rr.LineStrips3D.columns(strips=strips, colors=tones).partition(num_agents))


def _send(
    recording: rr.RecordingStream,
    path: str,
    elements: SceneElements,
    frames: Sequence[int],
    columns: Iterable[rr.ComponentColumn],
) -> None:
    """Send columns with one row per frame."""
    times_ns = elements.scene.timestamps_ns[list(frames)].astype("datetime64[ns]")
    indexes = [rr.TimeColumn("time", timestamp=times_ns), rr.TimeColumn("frame", sequence=list(frames))]
    recording.send_columns(path, indexes=indexes, columns=columns, strict=True)


def _line_look(radius_m: float, rgb: Sequence[int] | NumericArray | None = None) -> rr.LineStrips3D:
    """Return the width of lines that are sent frame by frame, and their colour if it is the same for all."""
    return rr.LineStrips3D.from_fields(radii=[radius_m], colors=None if rgb is None else [rgb])


def _joined_areas(lanes: Sequence[NearbyLane], height_m: float) -> tuple[Float64Array, NumericArray]:
    """Return the areas of lanes as one mesh: vertices (V, 3) and triangles (T, 3)."""
    vertices_m = [lane.vertices_m for lane in lanes]
    first_vertices = np.cumsum([0, *(len(points_m) for points_m in vertices_m)])[:-1]
    triangles = [lane.triangles + first for lane, first in zip(lanes, first_vertices, strict=True)]
    return (
        _at_height(np.concatenate([np.empty((0, 2)), *vertices_m]), height_m),
        np.concatenate([np.empty((0, 3), np.uint32), *triangles]).astype(np.uint32),
    )


def _at_height(points_m: Float64Array, height_m: float) -> Float64Array:
    """Return points (n, 2) with a constant height, (n, 3)."""
    return np.column_stack([points_m, np.full(len(points_m), height_m)])


def _dimmed(rgb: NumericArray) -> UInt8Array:
    return (_PAST_BRIGHTNESS * rgb).astype(np.uint8)
