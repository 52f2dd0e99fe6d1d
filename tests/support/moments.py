"""Moments of scenes: input of a session from the frames of a log or a simulation."""

import numpy as np

from l5kit.data.labels import TL_FACE_LABEL_TO_INDEX
from l5kit.data.records import AGENT_INTERVAL, FACE_INTERVAL
from l5kit.geometry.transform import rotations33_as_yaws
from l5kit.simulation import Moment, SeenObjects


def objects_of(agents):
    return SeenObjects(
        track_ids=agents["track_id"],
        classes=agents["label_probabilities"],
        positions_m=agents["centroid"],
        headings_rad=agents["yaw"],
        sizes_m=agents["extent"],
        velocities_mps=agents["velocity"],
    )


def moment_of(state):
    """The moment of the first scene of a simulation, as the driver of its AV sees it."""
    frame = state.buffer.frames[state.buffer.scene_starts[0] + state.frame_indices[0]]
    faces = state.buffer.tl_faces[slice(*frame[FACE_INTERVAL])]
    is_on = faces["traffic_light_face_status"][:, TL_FACE_LABEL_TO_INDEX["ACTIVE"]] > 0
    return Moment(
        timestamp_ns=int(frame["timestamp"]),
        position_m=frame["ego_translation"],
        heading_rad=float(state.ego.yaws_rad[0]),
        speed_mps=float(state.ego.speeds_mps[0]),
        acceleration_mps2=float(state.ego.accelerations_mps2[0]),
        steering_rad=float(state.ego.steering_rad[0]),
        objects=objects_of(state.buffer.agents[slice(*frame[AGENT_INTERVAL])]),
        active_faces=[str(face) for face in faces["face_id"][is_on]],
    )


def route_of(scene):
    """The poses of the AV of a scene, (F, 3)."""
    frames = scene.frames
    return np.column_stack([frames["ego_translation"][:, :2], rotations33_as_yaws(frames["ego_rotation"])])
