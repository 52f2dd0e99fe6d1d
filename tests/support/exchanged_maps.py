"""Maps that leave to other formats and come back."""

import json

import numpy as np

from l5kit.data import MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.synthetic import make_city
from support.maps import WORLD_TO_ECEF


def opened_map(folder):
    """The map of a dataset folder."""
    matrix = np.array(json.loads((folder / "meta.json").read_text("utf-8"))["world_to_ecef"])
    return MapAPI(str(folder / "semantic_map" / "semantic_map.pb"), matrix)


def city_map(folder):
    """The map of a small synthetic city, with lights, crosswalks and roads of several lanes."""
    make_city(folder, num_scenes=1, num_frames=2, town_size=400.0, traffic_density=0.0)
    return opened_map(folder)


def road_of(builder, changes_to=("left", "right")):
    """Two lanes side by side along x, each followed by another one, with one limit."""
    for name, y_m in (("left", 3.5), ("right", 0.0)):
        for piece, (start_m, end_m) in enumerate([(0.0, 20.0), (20.0, 45.0)]):
            lines = [np.array([[start_m, y, 0.1 * start_m], [end_m, y, 0.1 * end_m]]) for y in (y_m + 1.75, y_m - 1.75)]
            suffix = f"-{piece}" if piece else ""
            builder.add_lane(
                name + suffix,
                *lines,
                lanes_ahead=[] if piece else [f"{name}-1"],
                change_left=f"left{suffix}" if name == "right" and "left" in changes_to else None,
                change_right=f"right{suffix}" if name == "left" and "right" in changes_to else None,
                parent="road",
            )
    builder.add_segment("road", np.array([[0.0, 1, 0], [45.0, 1, 0]]), speed_limit_mps=13.5)


def lit_road_map(folder):
    """The map of two lanes side by side, a lit one that turns off in a junction, a stop sign and a crosswalk."""
    builder = MapBuilder(WORLD_TO_ECEF)
    road_of(builder)
    turns = np.linspace(-np.pi / 2, 0, 12)
    around = np.stack([np.cos(turns), np.sin(turns), 0 * turns], axis=-1)
    middle = np.array([60.0, 20.0, 4.5])
    lines = middle + 18.25 * around, middle + 21.75 * around
    builder.add_lane(
        "turn", *lines, parent="junction", turn_type="LEFT", traffic_controls=["lamp", "red", "green", "stop"]
    )
    builder.add_junction("junction", lanes=["turn"])
    builder.add_traffic_light("lamp", np.array([60.0, -3.0, 9.0]), faces=["red", "green"])
    builder.add_traffic_light_face("red", "signal_red_face")
    builder.add_traffic_light_face("green", "signal_green_face")
    builder.add_traffic_control("stop", "stop_sign", np.array([[58.0, -3.0, 6.0]]))
    builder.add_crosswalk("crosswalk", np.array([[30.0, -5, 3], [33, -5, 3], [33, 8, 3], [30, 8, 3]]))
    builder.save(folder / "lit.pb")
    return MapAPI(str(folder / "lit.pb"), WORLD_TO_ECEF)
