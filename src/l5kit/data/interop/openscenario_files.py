"""Export of scenes as OpenSCENARIO XML: road users follow their recorded trajectories on the exported OpenDRIVE map."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from l5kit._types import Float64Array
from l5kit.data.frame_rows import parts_of_rows
from l5kit.data.interop.export_folder import placed_export
from l5kit.data.interop.opendrive_file import export_opendrive
from l5kit.data.interop.py123d_files import EGO_WHEELBASE_PART
from l5kit.data.interop.xml_text import quoted
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.data.map.api import MapAPI
from l5kit.data.progress import Progress
from l5kit.data.records import FRAME_INTERVAL
from l5kit.data.scene_arrays import SceneArrays, read_scene_arrays
from l5kit.data.scene_selection import SceneSelection, selected_scenes
from l5kit.data.zarr_dataset import ChunkedDataset

_MAP_FILE: Final = "map.xodr"
_VEHICLES: Final = {
    "PERCEPTION_LABEL_CAR": "car",
    "PERCEPTION_LABEL_VAN": "van",
    "PERCEPTION_LABEL_TRAM": "tram",
    "PERCEPTION_LABEL_BUS": "bus",
    "PERCEPTION_LABEL_TRUCK": "truck",
    "PERCEPTION_LABEL_EMERGENCY_VEHICLE": "car",
    "PERCEPTION_LABEL_OTHER_VEHICLE": "car",
    "PERCEPTION_LABEL_BICYCLE": "bicycle",
    "PERCEPTION_LABEL_MOTORCYCLE": "motorbike",
    "PERCEPTION_LABEL_CYCLIST": "bicycle",
    "PERCEPTION_LABEL_MOTORCYCLIST": "motorbike",
}
_WALKERS: Final = {"PERCEPTION_LABEL_PEDESTRIAN": "pedestrian", "PERCEPTION_LABEL_ANIMAL": "animal"}


@dataclass(frozen=True, eq=False)
class _Entity:
    """A road user: its box, and its timed poses."""

    name: str
    label: str
    size_m: tuple[float, float, float]
    times_s: Float64Array
    positions_m: Float64Array
    headings_rad: Float64Array


def export_openscenario(
    dataset: ChunkedDataset,
    out: str | os.PathLike[str],
    *,
    semantic_map: MapAPI | None,
    scenes: SceneSelection = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> list[Path]:
    """Write scenes as OpenSCENARIO XML 1.2, one file per scene, and their map.

    The AV is the entity ``ego``, agents are ``agent-ID``. Each has a box of its first size, is teleported to its first
    pose when it first appears, follows its trajectory as a timed polyline, and is deleted after its last frame.
    Positions are the box centres in the world, x and y; heights are those of the road. Gaps in a track are bridged by
    straight lines. Traffic lights are not written.

    Args:
        dataset: The opened log.
        out: The folder: ``scene-000000.xosc`` and so on, and ``map.xodr`` if there is a map.
        semantic_map: The map; None for scenes without a road network.
        scenes: Scenes to write; None for all. Scenes without frames are skipped.
        overwrite: Replace an earlier export.
        progress: Called with the number of scenes written and their total.

    Returns:
        The files of the scenes.

    Raises:
        FileExistsError: ``out`` exists, and ``overwrite`` is False.
        InvalidArgumentError: Something other than an export exists there, or the map has no lane.
        IndexOutOfRangeError: There is no such scene.
    """
    bounds = np.asarray(dataset.scenes)[FRAME_INTERVAL]
    chosen = selected_scenes(scenes, len(dataset))
    indices = chosen[bounds[chosen, 0] < bounds[chosen, 1]].tolist()
    names = [f"scene-{index:06}.xosc" for index in indices]
    with placed_export(out, overwrite=overwrite) as folder:
        folder.mkdir()
        if semantic_map is not None:
            export_opendrive(semantic_map, folder / _MAP_FILE)
        road = f"<LogicFile filepath='{_MAP_FILE}'/>" if semantic_map is not None else ""
        for number, (index, name) in enumerate(zip(indices, names, strict=True)):
            scene = read_scene_arrays(dataset, index)
            entities = _entities_of(scene, dataset.facts.ego_extent_m)
            end_s = (int(scene.timestamps_ns[-1]) - int(scene.timestamps_ns[0])) / 1e9
            started = datetime.fromtimestamp(int(scene.timestamps_ns[0]) / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            lines = [
                "<?xml version='1.0' encoding='UTF-8'?>",
                "<OpenSCENARIO>",
                f"<FileHeader revMajor='1' revMinor='2' date='{started}' author='l5kit' "
                f"description={quoted(f'A scene recorded by {scene.host}')}/>",
                "<CatalogLocations/>",
                f"<RoadNetwork>{road}</RoadNetwork>",
                "<Entities>",
                *(f"<ScenarioObject name='{entity.name}'>{_object_of(entity)}</ScenarioObject>" for entity in entities),
                "</Entities>",
                "<Storyboard><Init><Actions>",
            ]
            # entities present at the start are teleported here; others are added by an event
            lines += [
                f"<Private entityRef='{entity.name}'><PrivateAction><TeleportAction>{_position(entity, 0)}"
                "</TeleportAction></PrivateAction></Private>"
                for entity in entities
                if entity.times_s[0] <= 0.0
            ]
            lines += ["</Actions></Init>", "<Story name='recorded'><Act name='recorded'>"]
            lines += [_group_of(entity, end_s) for entity in entities]
            lines += [
                f"<StartTrigger>{_at_time('start', 0.0)}</StartTrigger></Act></Story>",
                f"<StopTrigger>{_at_time('end', end_s)}</StopTrigger></Storyboard>",
                "</OpenSCENARIO>",
                "",
            ]
            (folder / name).write_text("\n".join(lines), "utf-8", newline="\n")
            if progress is not None:
                progress(number + 1, len(indices))
    return [Path(out) / name for name in names]


def _entities_of(scene: SceneArrays, ego_size_m: Sequence[float]) -> list[_Entity]:
    """Return the AV and the agents of a scene."""
    times_s = (scene.timestamps_ns - scene.timestamps_ns[0]) / 1e9
    length_m, width_m, height_m = ego_size_m
    turned = scene.ego_rotations
    ego_headings_rad = np.arctan2(turned[:, 1, 0], turned[:, 0, 0]).astype(np.float64)
    ego = _Entity(
        "ego",
        "PERCEPTION_LABEL_CAR",
        (length_m, width_m, height_m),
        times_s,
        scene.ego_positions_m[:, :2].astype(np.float64),
        ego_headings_rad,
    )
    agents = scene.agents
    frames = parts_of_rows(agents.starts)
    entities = [ego]
    for rows in agents.rows_of_tracks():
        size = [float(value) for value in agents.extents_m[rows[0]]]
        probabilities = agents.label_probabilities[rows].mean(axis=0)
        entities.append(
            _Entity(
                f"agent-{int(agents.track_ids[rows[0]])}",
                PERCEPTION_LABELS[int(probabilities.argmax())],
                (size[0], size[1], size[2]),
                times_s[frames[rows]],
                agents.centroids_m[rows],
                agents.yaws_rad[rows].astype(np.float64),
            )
        )
    return entities


def _object_of(entity: _Entity) -> str:
    """Return the definition of an entity with its box; its origin is the centre of the box on the ground."""
    length_m, width_m, height_m = entity.size_m
    box = (
        f"<BoundingBox><Center x='0' y='0' z='{height_m / 2:.3f}'/>"
        f"<Dimensions length='{length_m:.3f}' width='{width_m:.3f}' height='{height_m:.3f}'/></BoundingBox>"
    )
    if entity.label in _WALKERS:
        kind = f"<Pedestrian name='{entity.name}' mass='80' pedestrianCategory='{_WALKERS[entity.label]}'>"
        return f"{kind}{box}<Properties/></Pedestrian>"
    if entity.label not in _VEHICLES:
        kind = f"<MiscObject name='{entity.name}' mass='0' miscObjectCategory='obstacle'>"
        return f"{kind}{box}<Properties/></MiscObject>"
    # logs have no axles: place them symmetrically, with the AV's ratio of wheelbase to length
    axle_m = 0.5 * EGO_WHEELBASE_PART * length_m
    wheels = f"positionZ='0.3' trackWidth='{0.85 * width_m:.3f}' wheelDiameter='0.6'"
    return (
        f"<Vehicle name='{entity.name}' vehicleCategory='{_VEHICLES[entity.label]}'>{box}"
        "<Performance maxSpeed='70' maxAcceleration='10' maxDeceleration='10'/>"
        f"<Axles><FrontAxle maxSteering='0.6' positionX='{axle_m:.3f}' {wheels}/>"
        f"<RearAxle maxSteering='0' positionX='{-axle_m:.3f}' {wheels}/></Axles><Properties/></Vehicle>"
    )


def _position(entity: _Entity, row: int) -> str:
    x, y = entity.positions_m[row].tolist()
    return f"<Position><WorldPosition x='{x:.4f}' y='{y:.4f}' h='{float(entity.headings_rad[row]):.6f}'/></Position>"


def _group_of(entity: _Entity, end_s: float) -> str:
    """Return the events of an entity: appear, follow its trajectory, and disappear."""
    name, first_s, last_s = entity.name, float(entity.times_s[0]), float(entity.times_s[-1])
    events = []
    if first_s > 0:
        action = f"<AddEntityAction>{_position(entity, 0)}</AddEntityAction>"
        events.append(_event("comes", _entity_action(name, action), first_s))
    if len(entity.times_s) > 1:
        vertices = "".join(
            f"<Vertex time='{time_s:.4f}'>{_position(entity, row)}</Vertex>"
            for row, time_s in enumerate(entity.times_s.tolist())
        )
        action = (
            "<PrivateAction><RoutingAction><FollowTrajectoryAction>"
            "<TimeReference><Timing domainAbsoluteRelative='absolute' scale='1' offset='0'/></TimeReference>"
            "<TrajectoryFollowingMode followingMode='position'/>"
            f"<TrajectoryRef><Trajectory name='{name}' closed='false'><Shape><Polyline>{vertices}</Polyline></Shape>"
            "</Trajectory></TrajectoryRef></FollowTrajectoryAction></RoutingAction></PrivateAction>"
        )
        events.append(_event("drives", action, first_s))
    # entities in the last frame stay, so that the scene ends with them
    if last_s < end_s:
        events.append(_event("leaves", _entity_action(name, "<DeleteEntityAction/>"), last_s))
    if not events:
        return ""
    return (
        f"<ManeuverGroup name='{name}' maximumExecutionCount='1'><Actors selectTriggeringEntities='false'>"
        f"<EntityRef entityRef='{name}'/></Actors><Maneuver name='{name}'>{''.join(events)}</Maneuver></ManeuverGroup>"
    )


def _entity_action(name: str, action: str) -> str:
    return f"<GlobalAction><EntityAction entityRef='{name}'>{action}</EntityAction></GlobalAction>"


def _event(name: str, action: str, time_s: float) -> str:
    return (
        f"<Event name='{name}' priority='parallel' maximumExecutionCount='1'><Action name='{name}'>{action}</Action>"
        f"<StartTrigger>{_at_time(name, time_s)}</StartTrigger></Event>"
    )


def _at_time(name: str, time_s: float) -> str:
    return (
        f"<ConditionGroup><Condition name='{name}' delay='0' conditionEdge='none'><ByValueCondition>"
        f"<SimulationTimeCondition rule='greaterOrEqual' value='{time_s:.4f}'/></ByValueCondition></Condition>"
        "</ConditionGroup>"
    )
