"""The messages that show a scene in Foxglove, and the file that holds them; needs foxglove-sdk."""

import json
from typing import Any, BinaryIO

import foxglove
from foxglove.channels import FrameTransformChannel, SceneUpdateChannel
from foxglove.mcap import MCAPWriteOptions
from foxglove.messages import Color, FrameTransform, Point3, SceneEntity, SceneUpdate, TextPrimitive

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
    area,
    as_color,
    as_points,
    box,
    deletions,
    ego_in_scene,
    entity,
    facts,
    heading_mark,
    label_above,
    line,
    scene_in_world,
)
from l5kit.visualization.recording.nearby_map import NearbyLane, NearbyMap, light_changes
from l5kit.visualization.recording.scene_elements import (
    CROSSWALK_HEIGHT_M,
    LIGHT_HEIGHT_M,
    TRAJECTORY_HEIGHT_M,
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
    """Write a scene as MCAP to a file, see :func:`l5kit.visualization.recording.mcap_file.write_mcap`.

    Args:
        file: An open file that can be written to at any offset.
        elements: What the recording shows.
        progress: Called with the number of frames done and of all.

    Raises:
        CorruptedDataError: A frame is of a time that the schemas cannot hold.
    """
    times_ns = elements.scene.timestamps_ns.tolist()
    _require_times(elements.scene.scene_index, times_ns)
    context = foxglove.Context()
    topics, messages = _Topics(context), _Messages(elements)
    options = MCAPWriteOptions(compression_threads=0)
    with foxglove.open_mcap(file, context=context, writer_options=options) as writer:
        writer.write_metadata("l5kit.scene", _scene_facts(elements))
        writer.write_metadata("l5kit.classes", {str(index): label for index, label in enumerate(PERCEPTION_LABELS)})
        for frame_index, time_ns in enumerate(times_ns):
            for topic, message in messages.of_frame(frame_index):
                topics.log(topic, message, time_ns)
            if progress is not None:
                progress(frame_index + 1, len(times_ns))


def _require_times(scene_index: int, times_ns: list[int]) -> None:
    """Refuse times that the schemas cannot hold."""
    for frame_index, time_ns in enumerate(times_ns):
        if not 0 <= time_ns < END_OF_TIMES_NS:
            raise CorruptedDataError(
                f"the timestamp {time_ns} ns of scene {scene_index}, frame {frame_index} of it, is not between 1970 "
                "and 2106, the times that its format can hold; correct the timestamps of the dataset"
            )


class _Topics:
    """The channels of a file, by topic."""

    def __init__(self, context: foxglove.Context) -> None:
        properties = {name: {"type": "number"} for name in _STATE_FIELDS}
        schema = foxglove.Schema(
            name="l5kit.EgoState",
            encoding="jsonschema",
            data=json.dumps({"type": "object", "properties": properties}).encode("utf-8"),
        )
        scenes = ("/map", "/lights", "/ego", "/ego/trajectory", "/agents", "/agents/labels", "/agents/trajectories")
        self._channels: dict[str, Any] = {
            **{topic: FrameTransformChannel(topic, context=context) for topic in ("/tf_static", "/tf")},
            **{topic: SceneUpdateChannel(topic, context=context) for topic in scenes},
            "/ego/state": foxglove.Channel("/ego/state", schema=schema, message_encoding="json", context=context),
        }

    def log(self, topic: str, message: _Message, time_ns: int) -> None:
        """Log one message."""
        self._channels[topic].log(message, log_time=time_ns)


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
        nearby_map = elements.nearby_map
        self._lights = {} if nearby_map is None else _light_updates(elements, nearby_map)

    def of_frame(self, frame_index: int) -> list[tuple[str, _Message]]:
        """Return topics and messages."""
        at_start: list[tuple[str, _Message]] = []
        if frame_index == 0:
            at_start.append(("/tf_static", scene_in_world(self._elements.origin_m, self._times_ns[0])))
            if self._elements.nearby_map is not None:
                at_start.append(("/map", _map_update(self._elements.nearby_map, self._times_ns[0])))
        if frame_index in self._lights:
            at_start.append(("/lights", self._lights[frame_index]))
        return [
            *at_start,
            ("/tf", ego_in_scene(self._elements.ego, frame_index, self._times_ns[frame_index])),
            ("/ego/state", self._state(frame_index)),
            ("/ego", self._ego(frame_index)),
            ("/ego/trajectory", self._ego_trajectory(frame_index)),
            ("/agents", self._agents(frame_index)),
            ("/agents/labels", self._agent_labels(frame_index)),
            ("/agents/trajectories", self._agent_trajectories(frame_index)),
        ]

    def _state(self, frame_index: int) -> dict[str, float]:
        x_m, y_m, _ = self._scene.ego_positions_m[frame_index].tolist()
        speed_mps, yaw_rad = self._scene.ego_speeds_mps[frame_index], self._scene.ego_yaws_rad[frame_index]
        values = (float(speed_mps), x_m, y_m, float(yaw_rad), len(self._rows(frame_index)))
        return dict(zip(_STATE_FIELDS, values, strict=True))

    def _ego(self, frame_index: int) -> SceneUpdate:
        known = facts(host=self._scene.host, speed_mps=f"{self._scene.ego_speeds_mps[frame_index]:.2f}")
        cube = box(self._elements.ego, frame_index, _EGO_COLOR)
        return SceneUpdate(entities=[entity("ego", self._times_ns[frame_index], cubes=[cube], metadata=known)])

    def _ego_trajectory(self, frame_index: int) -> SceneUpdate:
        firsts, stops = self._elements.ego_windows
        past = self._ego_points[firsts[frame_index] : frame_index + 1]
        future = self._ego_points[frame_index : stops[frame_index]]
        return self._paths(frame_index, [(past, _EGO_PAST_COLOR)], [(future, _EGO_COLOR)], width_m=_EGO_LINE_WIDTH_M)

    def _rows(self, frame_index: int) -> range:
        rows = self._scene.agents.rows_of(frame_index)
        return range(rows.start, rows.stop)

    def _agents(self, frame_index: int) -> SceneUpdate:
        """Return the agents of a frame, and that those of the frame before which are not in it are gone."""
        time_ns, rows = self._times_ns[frame_index], self._rows(frame_index)
        here = {self._tracks[row] for row in rows}
        before = [self._tracks[row] for row in self._rows(frame_index - 1)] if frame_index else []
        gone = [track for track in before if track not in here]
        return SceneUpdate(entities=[self._agent(row, time_ns) for row in rows], deletions=deletions(gone, time_ns))

    def _agent(self, row: int, time_ns: int) -> SceneEntity:
        boxes, mask, known = self._elements.agents, self._scene.mask, self._elements.agent_facts
        label = self._labels[row]
        return entity(
            self._tracks[row],
            time_ns,
            metadata=facts(
                track_id=self._tracks[row],
                label=PERCEPTION_LABELS[label],
                probability=f"{known.probabilities[row]:.2f}",
                speed_mps=f"{known.speeds_mps[row]:.2f}",
                agents_mask=mask.reasons[mask.reason_indices[row]],
            ),
            cubes=[box(boxes, row, _BOX_COLORS[label])],
            lines=[heading_mark(boxes, row, _MARK_COLOR, width_m=_LINE_WIDTH_M)],
        )

    def _agent_labels(self, frame_index: int) -> SceneUpdate:
        texts = [self._agent_label(row) for row in self._rows(frame_index)]
        return SceneUpdate(entities=[entity("labels", self._times_ns[frame_index], texts=texts)])

    def _agent_label(self, row: int) -> TextPrimitive:
        text = f"{self._tracks[row]} {class_title(PERCEPTION_LABELS[self._labels[row]])}"
        return label_above(self._elements.agents, row, text, _MARK_COLOR, size_m=_LABEL_SIZE_M)

    def _agent_trajectories(self, frame_index: int) -> SceneUpdate:
        windows, rows = self._elements.agent_windows, self._rows(frame_index)
        pasts = [(self._points_of(windows.past(row)), _PAST_COLORS[self._labels[row]]) for row in rows]
        futures = [(self._points_of(windows.future(row)), _FUTURE_COLORS[self._labels[row]]) for row in rows]
        return self._paths(frame_index, pasts, futures, width_m=_LINE_WIDTH_M)

    def _points_of(self, rows: Int64Array) -> list[Point3]:
        return [self._agent_points[row] for row in rows.tolist()]

    def _paths(self, frame_index: int, pasts: list[_Path], futures: list[_Path], *, width_m: float) -> SceneUpdate:
        """Return paths as the entities ``past`` and ``future``; a path of one point is left out."""
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


def _scene_facts(elements: SceneElements) -> dict[str, str]:
    scene, (x_m, y_m) = elements.scene, elements.origin_m.tolist()
    return {
        "scene_index": str(scene.scene_index),
        "host": scene.host,
        "num_frames": str(scene.num_frames),
        "origin_world_x_m": repr(x_m),
        "origin_world_y_m": repr(y_m),
    }


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


def _light_updates(elements: SceneElements, nearby_map: NearbyMap) -> dict[int, SceneUpdate]:
    """Return what ``/lights`` shows from each frame on in which a lane changes."""
    updates, lit_before = {}, set[int]()
    for frame_index, colors in light_changes(elements.scene.lights, nearby_map.lanes):
        time_ns = int(elements.scene.timestamps_ns[frame_index])
        entities = [_lit_lane(nearby_map.lanes[lane], color, time_ns) for lane, color in colors.items()]
        gone = [nearby_map.lanes[lane].lane_id for lane in sorted(lit_before - colors.keys())]
        updates[frame_index] = SceneUpdate(entities=entities, deletions=deletions(gone, time_ns))
        lit_before = set(colors)
    return updates


def _lit_lane(lane: NearbyLane, color: int, time_ns: int) -> SceneEntity:
    surface = area(lane, _LIGHT_COLORS[color], height_m=LIGHT_HEIGHT_M)
    return entity(
        lane.lane_id, time_ns, triangles=[surface], metadata=facts(lane=lane.lane_id, light=LIGHT_COLORS[color])
    )
