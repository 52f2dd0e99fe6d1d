"""Driving scores: metrics on arrays of the AV, of road users and of the map, and one score for each scene."""

from l5kit.evaluation.driving.ego_states import EgoBody, EgoStates
from l5kit.evaluation.driving.metric import Fault, Metric, MetricError
from l5kit.evaluation.driving.road_users import RoadUserGroup, RoadUsers, classify_rows
from l5kit.evaluation.driving.scene_score import METRICS, SceneDetails, SceneScores, detail_scenes, score_scenes
from l5kit.evaluation.driving.scene_states import ego_states_of_poses, read_ego_states, read_road_users
from l5kit.lanes.driving_map import DrivingMap, build_driving_map

__all__ = [
    "METRICS",
    "DrivingMap",
    "EgoBody",
    "EgoStates",
    "Fault",
    "Metric",
    "MetricError",
    "RoadUserGroup",
    "RoadUsers",
    "SceneDetails",
    "SceneScores",
    "build_driving_map",
    "classify_rows",
    "detail_scenes",
    "ego_states_of_poses",
    "read_ego_states",
    "read_road_users",
    "score_scenes",
]
