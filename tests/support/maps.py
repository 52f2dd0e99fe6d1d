"""Small maps: the one of fixture S, three lanes with lights, and a street."""

from pathlib import Path

import numpy as np

from l5kit.data import MapAPI
from l5kit.data.map.builder import MapBuilder

WORLD_TO_ECEF = np.array(
    [
        [0.846617444, 0.323463078, -0.422623402, -2698767.44],
        [-0.532201938, 0.514559352, -0.672301845, -4293151.58],
        [-3.05311332e-16, 0.794103464, 0.6077826, 3855164.76],
        [0.0, 0.0, 0.0, 1.0],
    ]
)
"""The transform of the published dataset, as its meta.json writes it."""

FIXTURE_S_MAP = bytes.fromhex(
    "0a0973796e74686574696312560a040a024c31124e1a4c120c0a0a0db3434f1615216430b71a160a0700e807e807f80a"
    "12059003003c131a040000000022120a0500d00ff80a1204ab0200281a0300000042040a02543142040a02463142040a"
    "024632123e0a040a024c3212361a34120c0a0a0db3434f1615216430b71a130a04b00900001206b717b817b8171a0300"
    "0000220f0a03ec0e001204b717f02e1a02000012320a040a024331122a2228120c0a0a0db3434f1615216430b71a07a0"
    "06d80400d70422069f0600c00c002a0400000000820100121b0a040a02543112132211120c0a0a0db3434f1615216430"
    "b7ea0100121a0a040a02463112122210120c0a0a0db3434f1615216430b75a00121b0a040a02463212132211120c0a0a"
    "0db3434f1615216430b7fa0100121b0a040a02463312132211120c0a0a0db3434f1615216430b7e20200"
)
"""The map of fixture S, 190 m west of the world's origin.

Elements L1, L2 (lanes), C1 (crosswalk), T1 (light), F1 (red), F2 (green left arrow), F3 (red U-turn), in order.
"""


def lane_lines_m(y_m, *, start_m=-20.0, end_m=20.0):
    """Left and right boundary of a lane 4 m wide along x; the right one has a point more."""
    left = [[start_m, y_m + 2, 0], [end_m, y_m + 2, 0]]
    right = [[start_m, y_m - 2, 0], [0.5 * (start_m + end_m), y_m - 2, 0], [end_m, y_m - 2, 0]]
    return np.array(left, dtype=float), np.array(right, dtype=float)


def make_map(path):
    """Three lanes at the origin, one 49 m and one 51 m east of it, a near and a far crosswalk.

    Lane ``lights`` is controlled by faces of all colours, ``green`` by a green one.
    """
    builder = MapBuilder(WORLD_TO_ECEF)
    kinds = {"R": "signal_red_face", "Y": "signal_yellow_face", "G": "signal_green_face"}
    for face, kind in kinds.items():
        builder.add_traffic_light_face(face, kind)
    builder.add_lane("lights", *lane_lines_m(0.0), traffic_controls=["G", "R", "Y"])
    builder.add_lane("green", *lane_lines_m(4.0), traffic_controls=["G"])
    builder.add_lane("plain", *lane_lines_m(8.0))
    builder.add_lane("at 49 m", *lane_lines_m(0.0, start_m=49.0, end_m=60.0))
    builder.add_lane("at 51 m", *lane_lines_m(0.0, start_m=51.0, end_m=60.0))
    builder.add_crosswalk("near", np.array([[0.0, -5, 0], [3, -5, 0], [3, 5, 0]]))
    builder.add_crosswalk("far", np.array([[0.0, -500, 0], [3, -500, 0], [3, -490, 0]]))
    builder.save(path)
    return MapAPI(str(path), WORLD_TO_ECEF)


def save_street_map(folder: Path, *, num_lanes: int = 9) -> str:
    """Write a map of parallel lanes around the origin, every third with a light, two crosswalks, and return its path.

    The light of lane L0 has a red, a green and a yellow face, that of L3 a red U-turn; L6 lists a light and an unknown
    control. L1 lists a face without its light.
    """
    builder = MapBuilder(WORLD_TO_ECEF)
    controls = {"L0": ["T0", "red", "green", "yellow"], "L3": ["T0", "uturn"], "L6": ["T0", "unknown"], "L1": ["red"]}
    for i in range(num_lanes):
        y, bend = 4.0 * i - 12.0, 0.3 * i
        left = [[-40.0, y + 2, 0.0], [0.0, y + 2 + bend, 0.0], [15.0 + i, y + 2, 0.0], [30.0, y + 3, 0.0]]
        right = [[-40.0, y - 2, 0.0], [5.0, y - 2 - bend, 0.0], [30.0, y - 1, 0.0]]
        builder.add_lane(f"L{i}", np.array(left), np.array(right), traffic_controls=controls.get(f"L{i}", []))
    for i, x in enumerate((6.0, -10.0, 200.0)):
        corners = [[x, -10.0, 0.0], [x + 3, -10.0, 0.0], [x + 3.5, 0.0, 0.0], [x + 3, 10.0, 0.0], [x, 10.0, 0.0]]
        builder.add_crosswalk(f"C{i}", np.array(corners))
    builder.add_traffic_light("T0", np.array([10.0, 0.0, 4.0]))
    kinds = {"red": "red_face", "green": "green_face", "yellow": "left_arrow_yellow_face", "uturn": "red_u_turn"}
    for face, kind in kinds.items():
        builder.add_traffic_light_face(face, f"signal_{kind}")
    builder.save(folder / "street.pb")
    return str(folder / "street.pb")
