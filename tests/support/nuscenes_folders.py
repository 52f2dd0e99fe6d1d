"""Small nuScenes folders, written by hand after the definitions of nuscenes-devkit 1.2: all tables with all fields.

Two cities, two scenes of eight key frames each. Between the key frames the lidar has sweeps, and a camera has key
frames with other poses, which a reader must not confuse with those of the lidar.
"""

import hashlib
import json
import math

NUM_SAMPLES = 8
STEP_US = 500_000
SCENES = {"scene-0061": "singapore-onenorth", "scene-0103": "boston-seaport"}
CATEGORIES = [
    "human.pedestrian.adult",
    "movable_object.barrier",
    "vehicle.bicycle",
    "vehicle.car",
    "vehicle.truck",
]
ATTRIBUTES = ["vehicle.moving", "vehicle.parked", "cycle.with_rider", "cycle.without_rider", "pedestrian.moving"]


def token(*parts):
    """The token of something, 32 hexadecimal digits as the vendor's are."""
    return hashlib.md5("/".join(map(str, parts)).encode()).hexdigest()


def quaternion(yaw, pitch=0.0):
    """The rotation w, x, y, z about z by a yaw, after one about y by a pitch."""
    cy, sy, cp, sp = math.cos(yaw / 2), math.sin(yaw / 2), math.cos(pitch / 2), math.sin(pitch / 2)
    return [cy * cp, -sy * sp, cy * sp, sy * cp]


def tables():
    """The records of all tables by name; change them before they are written."""
    made = {name: [] for name in ("scene", "sample", "sample_data", "ego_pose", "sample_annotation", "instance", "log")}
    made["sensor"] = [
        {"token": token("sensor", channel), "channel": channel, "modality": modality}
        for channel, modality in (("CAM_FRONT", "camera"), ("LIDAR_TOP", "lidar"))
    ]
    made["category"] = [
        {"token": token("category", name), "name": name, "description": "A {thing}, or so.", "index": number}
        for number, name in enumerate(CATEGORIES)
    ]
    made["attribute"] = [{"token": token("attribute", name), "name": name, "description": name} for name in ATTRIBUTES]
    made["visibility"] = [{"token": str(level), "level": f"v{level}", "description": ""} for level in range(1, 5)]
    made["calibrated_sensor"] = []
    for number, (scene, city) in enumerate(SCENES.items()):
        add_scene(made, scene, city, 1_532_402_927_000_000 + number * 10**9)
    made["map"] = [
        {
            "token": token("map", city),
            "log_tokens": [log["token"] for log in made["log"] if log["location"] == city],
            "category": "semantic_prior",
            "filename": f"maps/{token('map', city)}.png",
        }
        for city in SCENES.values()
    ]
    return made


def ego_pose_at(scene, time_s):
    """Position of the rear axle: on a circle of 100 m, at 8 m/s."""
    angle = 8.0 * time_s / 100.0
    x0, y0 = (350.0, 1100.0) if scene == "scene-0061" else (1200.0, 700.0)
    return {
        "translation": [x0 + 100.0 * math.sin(angle), y0 + 100.0 * (1.0 - math.cos(angle)), 0.25],
        "rotation": quaternion(angle, 0.02),
    }


def add_scene(made, scene, city, start_us):
    log = {
        "token": token("log", scene),
        "logfile": f"n015-2018-07-24-{scene}",
        "vehicle": "n015",
        "date_captured": "2018-07-24",
        "location": city,
    }
    made["log"].append(log)
    for sensor in made["sensor"]:
        made["calibrated_sensor"].append(
            {
                "token": token("mounted", scene, sensor["channel"]),
                "sensor_token": sensor["token"],
                "translation": [0.94, 0.0, 1.84],
                "rotation": [0.707, 0.0, 0.0, -0.707],
                "camera_intrinsic": [[1266.4, 0.0, 816.2], [0.0, 1266.4, 491.5], [0.0, 0.0, 1.0]]
                if sensor["modality"] == "camera"
                else [],
            }
        )
    samples = [token("sample", scene, step) for step in range(NUM_SAMPLES)]
    times_us = [start_us + step * STEP_US + (step % 3) * 1000 for step in range(NUM_SAMPLES)]
    made["scene"].append(
        {
            "token": token("scene", scene),
            "log_token": log["token"],
            "nbr_samples": NUM_SAMPLES,
            "first_sample_token": samples[0],
            "last_sample_token": samples[-1],
            "name": scene,
            "description": 'Parked truck, "construction", intersection, turn left',
        }
    )
    for step, (sample, time_us) in enumerate(zip(samples, times_us, strict=True)):
        made["sample"].append(
            {
                "token": sample,
                "timestamp": time_us,
                "prev": samples[step - 1] if step else "",
                "next": samples[step + 1] if step + 1 < NUM_SAMPLES else "",
                "scene_token": token("scene", scene),
            }
        )
        add_sensor_data(made, scene, sample, time_us, start_us)
    add_boxes(made, scene, samples, times_us)


def add_sensor_data(made, scene, sample, time_us, start_us):
    """A camera key frame a little earlier, the lidar key frame, and a sweep of the lidar after it."""
    for channel, offset_us, is_key in (
        ("CAM_FRONT", -15_000, True),
        ("LIDAR_TOP", 0, True),
        ("LIDAR_TOP", 50_000, False),
    ):
        at_us = time_us + offset_us
        name = token("data", scene, channel, at_us)
        folder = "samples" if is_key else "sweeps"
        made["sample_data"].append(
            {
                "token": name,
                "sample_token": sample,
                "ego_pose_token": name,
                "calibrated_sensor_token": token("mounted", scene, channel),
                "timestamp": at_us,
                "fileformat": "jpg" if channel == "CAM_FRONT" else "pcd",
                "is_key_frame": is_key,
                "height": 900 if channel == "CAM_FRONT" else 0,
                "width": 1600 if channel == "CAM_FRONT" else 0,
                "filename": f"{folder}/{channel}/n015-{at_us}",
                "prev": "",
                "next": "",
            }
        )
        made["ego_pose"].append({"token": name, "timestamp": at_us, **ego_pose_at(scene, (at_us - start_us) / 1e6)})


ROAD_USERS = (
    # name, category, attribute, first and last step, start, velocity, yaw, width, length and height
    ("car", "vehicle.car", "vehicle.moving", 0, 7, (30.0, -3.0), (10.0, 1.0), 0.1, [1.95, 4.6, 1.7]),
    ("parked", "vehicle.truck", "vehicle.parked", 2, 5, (20.0, 9.0), (0.0, 0.0), -2.9, [2.5, 8.0, 3.1]),
    ("bicycle", "vehicle.bicycle", "cycle.without_rider", 1, 7, (12.0, 6.0), (2.0, 0.0), 3.1, [0.6, 1.8, 1.5]),
    ("pedestrian", "human.pedestrian.adult", "pedestrian.moving", 3, 3, (5.0, 7.0), (1.0, 0.0), 1.5, [0.7, 0.7, 1.8]),
    ("barrier", "movable_object.barrier", None, 0, 6, (40.0, 4.0), (0.0, 0.0), 0.0, [2.1, 0.5, 1.0]),
)
RIDDEN_FROM = 4
GAP_OF_BARRIER = 3


def add_boxes(made, scene, samples, times_us):
    x0, y0 = (350.0, 1100.0) if scene == "scene-0061" else (1200.0, 700.0)
    for name, category, attribute, first, last, start, velocity, yaw, size in ROAD_USERS:
        instance = token("instance", scene, name)
        steps = [step for step in range(first, last + 1) if not (name == "barrier" and step == GAP_OF_BARRIER)]
        boxes = [token("box", scene, name, step) for step in steps]
        made["instance"].append(
            {
                "token": instance,
                "category_token": token("category", category),
                "nbr_annotations": len(boxes),
                "first_annotation_token": boxes[0],
                "last_annotation_token": boxes[-1],
            }
        )
        for place, step in enumerate(steps):
            ridden = name == "bicycle" and step >= RIDDEN_FROM
            shown = "cycle.with_rider" if ridden else attribute
            time_s = (times_us[step] - times_us[0]) / 1e6
            made["sample_annotation"].append(
                {
                    "token": boxes[place],
                    "sample_token": samples[step],
                    "instance_token": instance,
                    "visibility_token": "4",
                    "attribute_tokens": [token("attribute", shown)] if shown else [],
                    "translation": [
                        x0 + start[0] + velocity[0] * time_s,
                        y0 + start[1] + velocity[1] * time_s,
                        size[2] / 2,
                    ],
                    "size": size,
                    "rotation": quaternion(yaw + 0.01 * step),
                    "prev": boxes[place - 1] if place else "",
                    "next": boxes[place + 1] if place + 1 < len(boxes) else "",
                    "num_lidar_pts": 5 + step,
                    "num_radar_pts": 0,
                }
            )


class MapWriter:
    """The map expansion of a city, in version 1.3."""

    LAYERS = (
        *("node", "polygon", "line", "lane", "lane_connector", "drivable_area", "road_segment", "road_block"),
        *("ped_crossing", "walkway", "stop_line", "carpark_area", "road_divider", "lane_divider", "traffic_light"),
    )

    def __init__(self, city):
        self.city = city
        self.json = {layer: [] for layer in self.LAYERS}
        self.json |= {"version": "1.3", "canvas_edge": [3000.0, 3000.0], "connectivity": {}, "arcline_path_3": {}}

    def nodes(self, points):
        names = [token(self.city, "node", len(self.json["node"]) + place) for place in range(len(points))]
        self.json["node"] += [{"token": n, "x": x, "y": y} for n, (x, y) in zip(names, points, strict=True)]
        return names

    def polygon(self, points, holes=()):
        name = token(self.city, "polygon", len(self.json["polygon"]))
        held = [{"node_tokens": self.nodes(hole)} for hole in holes]
        self.json["polygon"].append({"token": name, "exterior_node_tokens": self.nodes(points), "holes": held})
        return name

    def line(self, points):
        name = token(self.city, "line", len(self.json["line"]))
        self.json["line"].append({"token": name, "node_tokens": self.nodes(points)})
        return name

    def add(self, layer, name, **fields):
        self.json[layer].append({"token": token(self.city, name), **fields})
        return token(self.city, name)

    def path(self, name, *paths):
        """Arc line paths: (start pose, shape, radius, lengths)."""
        self.json["arcline_path_3"][token(self.city, name)] = [
            {
                "start_pose": list(start),
                "end_pose": [0.0, 0.0, 0.0],
                "shape": shape,
                "radius": radius,
                "segment_length": list(lengths),
            }
            for start, shape, radius, lengths in paths
        ]

    def connect(self, name, incoming, outgoing):
        self.json["connectivity"][token(self.city, name)] = {
            "incoming": [token(self.city, other) for other in incoming],
            "outgoing": [token(self.city, other) for other in outgoing],
        }


def city_map(city):
    """Two lanes, a left turn between them, and one of each kind of area; near the AV of the city's scene.

    The first lane goes east for 60 m and is 4 m wide, the connector turns left with a radius of 10 m, the second lane
    goes north for 40 m. The polygon of the first goes clockwise, with a node in the middle of its end, that of the
    second the other way around.
    """
    made = MapWriter(city)
    x, y = (340.0, 1100.0) if city == "singapore-onenorth" else (1190.0, 700.0)
    east = [(x, y - 2), (x, y + 2), (x + 30, y + 2), (x + 60, y + 2), (x + 60, y), (x + 60, y - 2)]
    north = [(x + 68, y + 10), (x + 72, y + 10), (x + 72, y + 50), (x + 68, y + 50)]
    for name, outline in (("east", east), ("north", north)):
        made.add(
            "lane",
            name,
            polygon_token=made.polygon(outline),
            lane_type="CAR",
            from_edge_line_token=made.line(outline[:2]),
            to_edge_line_token=made.line(outline[-2:]),
            left_lane_divider_segments=[],
            right_lane_divider_segments=[],
        )
    turn = [(x + 60, y - 2), (x + 72, y - 2), (x + 72, y + 10), (x + 68, y + 10), (x + 60, y + 2)]
    made.add("lane_connector", "turn", polygon_token=made.polygon(turn))
    made.path("east", ((x, y, 0.0), "LSR", 999.999, (0.0, 60.0, 0.0)))
    made.path("turn", ((x + 60, y, 0.0), "LSL", 10.0, (0.25 * math.pi * 10, 0.0, 0.25 * math.pi * 10)))
    made.path("north", ((x + 70, y + 10, math.pi / 2), "RSR", 999.999, (0.0, 40.0, 0.0)))
    made.connect("east", [], ["turn"])
    made.connect("turn", ["east"], ["north"])
    made.connect("north", ["turn"], [])
    square = [(x - 10, y - 10), (x + 90, y - 10), (x + 90, y + 60), (x - 10, y + 60)]
    hole = [(x + 20, y + 20), (x + 20, y + 40), (x + 40, y + 40), (x + 40, y + 20)]
    made.add("drivable_area", "area", polygon_tokens=[made.polygon(square, [hole]), made.polygon(hole)])
    crossing = [(x + 58, y - 4), (x + 60, y - 4), (x + 60, y + 4), (x + 58, y + 4)]
    segment = made.add(
        "road_segment", "segment", polygon_token=made.polygon(square), is_intersection=True, drivable_area_token=""
    )
    made.add("ped_crossing", "crossing", polygon_token=made.polygon(crossing), road_segment_token=segment)
    made.add("walkway", "walkway", polygon_token=made.polygon([(x, y + 5), (x + 50, y + 5), (x + 50, y + 7)]))
    made.add("carpark_area", "carpark", polygon_token=made.polygon(hole), orientation=1.57, road_block_token=None)
    stop = [(x + 59, y - 2), (x + 60, y - 2), (x + 60, y + 2), (x + 59, y + 2)]
    for name, kind in (("stop", "STOP_SIGN"), ("light_stop", "TRAFFIC_LIGHT"), ("none", "TURN_STOP")):
        made.add(
            "stop_line",
            name,
            polygon_token=made.polygon(stop),
            stop_line_type=kind,
            ped_crossing_tokens=[],
            traffic_light_tokens=[],
            road_block_token=None,
        )
    divider = made.line([(x, y + 2), (x + 60, y + 2)])
    made.add("road_divider", "divider", line_token=divider, road_segment_token=None)
    made.add("lane_divider", "lane divider", line_token=divider, lane_divider_segments=[])
    made.add(
        "traffic_light",
        "light",
        line_token=divider,
        traffic_light_type="VERTICAL",
        from_road_block_token="",
        items=[
            {"color": "RED", "shape": "CIRCLE", "rel_pos": {"tx": 0, "ty": 0, "tz": 0.6, "rx": 0, "ry": 0, "rz": 0}}
        ],
        pose={"tx": x, "ty": y, "tz": 5.0, "rx": 0.0, "ry": 0.0, "rz": 0.0},
    )
    return made.json


def pick(table, **fields):
    """The one record of a table that has some fields."""
    (record,) = [record for record in table if all(record[name] == value for name, value in fields.items())]
    return record


def write_folder(root, *, records=None, maps=None, version="v1.0-mini"):
    """Write tables and maps; the folder of the tables is returned."""
    folder = root / version
    folder.mkdir(parents=True)
    for name, table in (tables() if records is None else records).items():
        (folder / f"{name}.json").write_text(json.dumps(table, indent=0))
    expansion = root / "maps" / "expansion"
    expansion.mkdir(parents=True)
    for city, content in ({city: city_map(city) for city in SCENES.values()} if maps is None else maps).items():
        (expansion / f"{city}.json").write_text(json.dumps(content))
    return folder
