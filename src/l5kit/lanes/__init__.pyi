from .driving_map import DrivingMap as DrivingMap, build_driving_map as build_driving_map
from .lane_paths import LanePaths as LanePaths, make_path_of_lanes as make_path_of_lanes
