"""Foxglove messages of a scene, and the MCAP file that holds them; needs foxglove-sdk."""

import json
from typing import Any, BinaryIO

import foxglove
from foxglove.channels import FrameTransformChannel, SceneUpdateChannel
from foxglove.mcap import MCAPWriteOptions
from foxglove.messages import Color, FrameTransform, Point3, Pose, SceneUpdate, TextPrimitive, Vector3

from l5kit._types import Int64Array
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.data.map.lane_lights import LIGHT_COLORS
from l5kit.data.progress import Progress
from l5kit.errors import CorruptedDataError
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
from l5kit.visualization.recording.mcap_shapes import (
    END_OF_TIMES_NS,
    UPRIGHT,
    area,
    as_color,
    as_points,
    as_quaternion,
    box,
    deletions,
    entity,
    facts,
    line,
    transform,
)
from l5kit.visualization.recording.nearby_map import NearbyMap, light_changes
from l5kit.visualization.recording.scene_elements import (
    CROSSWALK_HEIGHT_M,
    EGO_FRAME,
    LIGHT_HEIGHT_M,
    SCENE_FRAME,
    TRAJECTORY_HEIGHT_M,
    WORLD_FRAME,
    SceneElements,
)

_Message = FrameTransform | SceneUpdate | dict[str, float]
_Path = tuple[list[Point3], Color]

_BOX_COLORS = [as_color(rgb, 0.8) for rgb in CLASS_RGB]
_PAST_COLORS = [as_color(rgb, 0.3) for rgb in CLASS_RGB]
_FUTURE_COLORS = [as_color(rgb, 0.8) for rgb in CLASS_RGB]
_LIGHT_COLORS = [as_color(rgb, 0.6) for rgb in LIGHT_RGB]
_EGO_COLOR, _EGO_PAST_COLOR = as_color(EGO_RGB, 0.8), as_color(EGO_RGB, 0.3)
_LANE_COLOR, _BOUNDARY_COLOR, _CROSSWALK_COLOR = as_color(LANE_RGB), as_color(BOUNDARY_RGB), as_color(CROSSWALK_RGB)
_MARK_COLOR = as_color(MARK_RGB)

_LINE_WIDTH_M, _EGO_LINE_WIDTH_M, _LABEL_SIZE_M = 0.15, 0.3, 0.8

_STATE_FIELDS = ("speed_mps", "world_x_m", "world_y_m", "yaw_rad", "num_agents")


def write_messages(file: BinaryIO, elements: SceneElements, progress: Progress | None = None) -> None:
    """Write a scene to an MCAP file, see :func:`l5kit.visualization.recording.recording_files.write_mcap`.

    Args:
        file: An open, seekable file.
        elements: Contents of the recording.
        progress: Called with the numbers of finished and of all frames.

    Raises:
        CorruptedDataError: The time of a frame is beyond the range of the schemas.
    """
    scene, times_ns = elements.scene, elements.scene.timestamps_ns.tolist()
    for frame_index, time_ns in enumerate(times_ns):
        if not 0 <= time_ns < END_OF_TIMES_NS:
            raise CorruptedDataError(
                f"timestamp {time_ns} ns of scene {scene.scene_index}, frame {frame_index}, is not between 1970 and "
                "2106, the range of the MCAP schemas; correct the timestamps of the dataset"
            )
    x_m, y_m = elements.origin_m.tolist()
    scene_facts = {
        "scene_index": str(scene.scene_index),
        "host": scene.host,
        "num_frames": str(scene.num_frames),
        "origin_world_x_m": repr(x_m),
        "origin_world_y_m": repr(y_m),
    }

    # channels of the file, by topic
    context = foxglove.Context()
    properties = {name: {"type": "number"} for name in _STATE_FIELDS}
    schema = foxglove.Schema(
        name="l5kit.EgoState",
        encoding="jsonschema",
        data=json.dumps({"type": "object", "properties": properties}).encode("utf-8"),
    )
    scenes = ("/map", "/lights", "/ego", "/ego/trajectory", "/agents", "/agents/labels", "/agents/trajectories")
    channels: dict[str, Any] = {
        **{topic: FrameTransformChannel(topic, context=context) for topic in ("/tf_static", "/tf")},
        **{topic: SceneUpdateChannel(topic, context=context) for topic in scenes},
        "/ego/state": foxglove.Channel("/ego/state", schema=schema, message_encoding="json", context=context),
    }

    messages, options = _Messages(elements), MCAPWriteOptions(compression_threads=0)
    with foxglove.open_mcap(file, context=context, writer_options=options) as writer:
        writer.write_metadata("l5kit.scene", scene_facts)
        writer.write_metadata("l5kit.classes", {str(index): label for index, label in enumerate(PERCEPTION_LABELS)})
        for frame_index, time_ns in enumerate(times_ns):
            for topic, message in messages.of_frame(frame_index):
                channels[topic].log(message, log_time=time_ns)
            if progress is not None:
                progress(frame_index + 1, len(times_ns))


class _Messages:
    """The messages of a scene, frame by frame."""

    def __init__(self, elements: SceneElements) -> None:
        self._elements = elements
        self._scene = elements.scene
        self._times_ns: list[int] = elements.scene.timestamps_ns.tolist()
        self._tracks = [str(track_id) for track_id in elements.scene.agents.track_ids.tolist()]
        self._labels: list[int] = elements.agent_facts.labels.tolist()
        self._agent_points = as_points(elements.agents.centers_m[:, :2])
        self._ego_points = as_points(elements.ego.centers_m[:, :2])
        # updates of /lights in frames in which a lane changes its colour; none without a map
        self._lights: dict[int, SceneUpdate] = {}
        if elements.nearby_map is not None:
            lanes, lit_before = elements.nearby_map.lanes, set[int]()
            for frame_index, colors in light_changes(elements.scene.lights, lanes):
                time_ns, entities = self._times_ns[frame_index], []
                for row, color in colors.items():
                    lane = lanes[row]
                    surface = area(lane, _LIGHT_COLORS[color], height_m=LIGHT_HEIGHT_M)
                    metadata = facts(lane=lane.lane_id, light=LIGHT_COLORS[color])
                    entities.append(entity(lane.lane_id, time_ns, triangles=[surface], metadata=metadata))
                gone = [lanes[row].lane_id for row in sorted(lit_before - colors.keys())]
                self._lights[frame_index] = SceneUpdate(entities=entities, deletions=deletions(gone, time_ns))
                lit_before = set(colors)

    def of_frame(self, frame_index: int) -> list[tuple[str, _Message]]:
        """Return topics and messages of a frame."""
        elements, scene, time_ns = self._elements, self._scene, self._times_ns[frame_index]
        messages: list[tuple[str, _Message]] = []
        if frame_index == 0:
            in_world = transform(WORLD_FRAME, SCENE_FRAME, time_ns, elements.origin_m, UPRIGHT)
            messages.append(("/tf_static", in_world))
            if elements.nearby_map is not None:
                messages.append(("/map", _map_update(elements.nearby_map, time_ns)))
        if frame_index in self._lights:
            messages.append(("/lights", self._lights[frame_index]))

        # the AV: its frame, on the ground below its centre; its state to plot; its box; its path
        speed_mps, rows = float(scene.ego_speeds_mps[frame_index]), self._rows(frame_index)
        x_m, y_m, _ = scene.ego_positions_m[frame_index].tolist()
        values = (speed_mps, x_m, y_m, float(scene.ego_yaws_rad[frame_index]), len(rows))
        turn = as_quaternion(elements.ego.quaternions[frame_index])
        center_m = elements.ego.centers_m[frame_index, :2]
        messages.append(("/tf", transform(SCENE_FRAME, EGO_FRAME, time_ns, center_m, turn)))
        messages.append(("/ego/state", dict(zip(_STATE_FIELDS, values, strict=True))))
        known = facts(host=scene.host, speed_mps=f"{scene.ego_speeds_mps[frame_index]:.2f}")
        ego = entity("ego", time_ns, cubes=[box(elements.ego, frame_index, _EGO_COLOR)], metadata=known)
        messages.append(("/ego", SceneUpdate(entities=[ego])))
        firsts, stops = elements.ego_windows
        ego_past = [(self._ego_points[firsts[frame_index] : frame_index + 1], _EGO_PAST_COLOR)]
        ego_future = [(self._ego_points[frame_index : stops[frame_index]], _EGO_COLOR)]
        ego_paths = self._paths(frame_index, ego_past, ego_future, width_m=_EGO_LINE_WIDTH_M)
        messages.append(("/ego/trajectory", ego_paths))

        # the agents: boxes, a label above each that faces the viewer, and past and future paths
        boxes, texts = elements.agents, []
        for row in rows:
            x_m, y_m, _ = boxes.centers_m[row].tolist()
            above = Vector3(x=x_m, y=y_m, z=float(boxes.sizes_m[row, 2]) + _LABEL_SIZE_M)
            text = TextPrimitive(
                pose=Pose(position=above, orientation=UPRIGHT),
                billboard=True,
                font_size=_LABEL_SIZE_M,
                color=_MARK_COLOR,
                text=f"{self._tracks[row]} {class_title(PERCEPTION_LABELS[self._labels[row]])}",
            )
            texts.append(text)
        messages.append(("/agents", self._agents(frame_index)))
        messages.append(("/agents/labels", SceneUpdate(entities=[entity("labels", time_ns, texts=texts)])))
        windows = elements.agent_windows
        pasts = [(self._points_of(windows.past(row)), _PAST_COLORS[self._labels[row]]) for row in rows]
        futures = [(self._points_of(windows.future(row)), _FUTURE_COLORS[self._labels[row]]) for row in rows]
        messages.append(("/agents/trajectories", self._paths(frame_index, pasts, futures, width_m=_LINE_WIDTH_M)))
        return messages

    def _rows(self, frame_index: int) -> range:
        rows = self._scene.agents.rows_of(frame_index)
        return range(rows.start, rows.stop)

    def _agents(self, frame_index: int) -> SceneUpdate:
        """Return the agents of a frame, and deletions of those of the previous frame that are gone."""
        time_ns, rows = self._times_ns[frame_index], self._rows(frame_index)
        here = {self._tracks[row] for row in rows}
        before = [self._tracks[row] for row in self._rows(frame_index - 1)] if frame_index else []
        gone = [track for track in before if track not in here]
        boxes, mask, known = self._elements.agents, self._scene.mask, self._elements.agent_facts
        entities = []
        for row in rows:
            label = self._labels[row]
            metadata = facts(
                track_id=self._tracks[row],
                label=PERCEPTION_LABELS[label],
                probability=f"{known.probabilities[row]:.2f}",
                speed_mps=f"{known.speeds_mps[row]:.2f}",
                agents_mask=mask.reasons[mask.reason_indices[row]],
            )
            cubes = [box(boxes, row, _BOX_COLORS[label])]
            mark = [Point3(x=x_m, y=y_m, z=z_m) for x_m, y_m, z_m in boxes.heading_marks_m[row].tolist()]
            lines = [line(mark, _MARK_COLOR, width_m=_LINE_WIDTH_M)]
            entities.append(entity(self._tracks[row], time_ns, metadata=metadata, cubes=cubes, lines=lines))
        return SceneUpdate(entities=entities, deletions=deletions(gone, time_ns))

    def _points_of(self, rows: Int64Array) -> list[Point3]:
        return [self._agent_points[row] for row in rows.tolist()]

    def _paths(self, frame_index: int, pasts: list[_Path], futures: list[_Path], *, width_m: float) -> SceneUpdate:
        """Return paths as the entities ``past`` and ``future``, without paths of one point."""
        time_ns = self._times_ns[frame_index]
        entities = []
        for name, paths in (("past", pasts), ("future", futures)):
            lines = [
                line(points, color, width_m=width_m, height_m=TRAJECTORY_HEIGHT_M)
                for points, color in paths
                if len(points) > 1
            ]
            entities.append(entity(name, time_ns, lines=lines))
        return SceneUpdate(entities=entities)


def _map_update(nearby_map: NearbyMap, time_ns: int) -> SceneUpdate:
    lanes = nearby_map.lanes.values()
    sides = [
        line(as_points(side_m), _BOUNDARY_COLOR, width_m=_LINE_WIDTH_M)
        for lane in lanes
        for side_m in (lane.left_m, lane.right_m)
    ]
    rims = [
        line(as_points(rim_m), _CROSSWALK_COLOR, width_m=_LINE_WIDTH_M, height_m=CROSSWALK_HEIGHT_M)
        for rim_m in nearby_map.crosswalk_rims_m()
    ]
    return SceneUpdate(
        entities=[
            entity("lanes", time_ns, triangles=[area(lane, _LANE_COLOR) for lane in lanes]),
            entity("lane boundaries", time_ns, lines=sides),
            entity("crosswalks", time_ns, lines=rims),
        ]
    )
