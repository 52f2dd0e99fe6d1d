"""One scene of a synthetic town: the simulated traffic, and the log of everything near the AV."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX, TL_FACE_LABEL_TO_INDEX
from l5kit.data.scene_arrays import SceneArrays
from l5kit.data.scene_records import SceneRecords
from l5kit.data.tracks import Observations, faces_of_frames, label_probabilities_of
from l5kit.geometry.transform import yaws_as_rotations33
from l5kit.synthetic.map_writer import FACE_COLORS, face_id, light_id
from l5kit.synthetic.params import FRAME_PERIOD_NS
from l5kit.synthetic.road_network import CAR_LANE, RoadNetwork, build_road_network
from l5kit.synthetic.town_plan import TownPlan, plan_town, unit_along
from l5kit.synthetic.traffic import (
    LOGGED_VEHICLE_DTYPE,
    LOGGED_WALKER_DTYPE,
    Demand,
    TrafficLog,
    simulate_traffic,
    start_av,
)
from l5kit.synthetic.vehicles import AV_SLOT, BIKE, VEHICLE_DTYPE
from l5kit.synthetic.walkways import (
    StreetObjects,
    WalkingPath,
    choose_pedestrians,
    lay_out_street_objects,
    make_walking_paths,
)

GROUND_Z_M = 271.0
"""World z of the ground, the height at which the AV of the published dataset drives."""

_SPARE_SLOTS = 4
_WARMUP_STEPS = (30, 120)
_SHORTEST_WARMUP_SHARE = 0.6
_NUM_CARS, _NUM_BIKES = 44, 10
_PATHS_PER_ROAD = 14
_ARTERIAL_WEIGHT, _EARLY_WEIGHT = 1.0, 8.0
_PEDESTRIAN_SHARE, _PARKED_SHARE = 0.5, 0.3
_SIGNAL_RANGE_M = 70.0
_CAR = PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_CAR"]
_CYCLIST = PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_CYCLIST"]
_PEDESTRIAN = PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_PEDESTRIAN"]
_UNKNOWN = PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_UNKNOWN"]
_RANGE_M = {_CAR: 76.0, _CYCLIST: 60.0, _PEDESTRIAN: 52.0, _UNKNOWN: 52.0}
_RANGE_SPREAD_M = 7.0
_MAX_RANGE_M = 90.0


@dataclass(frozen=True)
class Town:
    """A synthetic town, ready for any number of scenes."""

    plan: TownPlan
    network: RoadNetwork
    walking_paths: list[WalkingPath]
    objects: StreetObjects


@dataclass(frozen=True)
class Simulation:
    """A simulated scene, including everything far from the AV.

    Attributes:
        log: Vehicles, pedestrians and signals.
        parked: Boxes of parked cars (x, y, yaw, length, width), (P, 5).
        parked_height_m: Their heights, (P,).
        walker_height_m: Heights of the pedestrians, (W,).
        num_removed: Number of road users that were removed before they would have overlapped another.
    """

    log: TrafficLog
    parked: Float64Array
    parked_height_m: Float64Array
    walker_height_m: Float64Array
    num_removed: int


@dataclass(frozen=True)
class Objects:
    """All E objects around the AV in T frames.

    Attributes:
        exists: Whether the object exists, (T, E).
        box: x, y, yaw, length, width, (T, E, 5).
        speed_mps: Speeds, (T, E).
        height_m: Heights, (E,).
        label: Perception label, (E,).
        range_m: Distance from the AV up to which the log has the object, (E,).
    """

    exists: BoolArray
    box: Float64Array
    speed_mps: Float64Array
    height_m: Float64Array
    label: Int64Array
    range_m: Float64Array


def build_town(town_size_m: float, *, seed: int) -> Town:
    """Build the town of a size (side in metres) and a seed."""
    rng = np.random.default_rng([seed, 0])
    plan = plan_town(town_size_m, rng)
    network = build_road_network(plan, rng)
    walking_paths = make_walking_paths(plan, network, count=_PATHS_PER_ROAD * len(plan.roads), rng=rng)
    return Town(plan, network, walking_paths, lay_out_street_objects(plan, rng))


def simulate_scene(
    town: Town, *, num_frames: int, traffic_density: float = 1.0, rng: np.random.Generator
) -> Simulation:
    """Simulate a number of frames in which the AV drives from a random position in traffic."""
    network = town.network
    demand = Demand(round(_NUM_CARS * traffic_density), round(_NUM_BIKES * traffic_density))
    num_slots = demand.num_cars + demand.num_bikes + _SPARE_SLOTS
    vehicles = np.zeros(num_slots, VEHICLE_DTYPE).view(np.recarray)
    # the AV starts on a car lane, preferably near the start of one of several parallel lanes, for lane changes
    lane, s_m, lanes = network.points.lane, network.points.s_m, network.lanes
    length_m = lanes.length_m[lane]
    fits = (lanes.kind[lane] == CAR_LANE) & (s_m > 15.0) & (s_m < 0.75 * length_m)
    has_neighbour = (lanes.left_lane[lane] >= 0) | (lanes.right_lane[lane] >= 0)
    is_early = s_m < 0.3 * length_m
    weight = fits * np.where(has_neighbour, np.where(is_early, _EARLY_WEIGHT, _ARTERIAL_WEIGHT), 1.0)
    start_av(network, vehicles, int(rng.choice(len(weight), p=weight / weight.sum())), rng)
    walkers = choose_pedestrians(
        town.walking_paths,
        around_m=vehicles.box[AV_SLOT, :2],
        share=min(_PEDESTRIAN_SHARE * traffic_density, 1.0),
        first_uid=1,
        rng=rng,
    )
    # an empty log of all slots
    log = TrafficLog(
        vehicles=np.zeros((num_frames, num_slots), LOGGED_VEHICLE_DTYPE).view(np.recarray),
        walkers=np.zeros((num_frames, len(walkers.state)), LOGGED_WALKER_DTYPE).view(np.recarray),
        head_state=np.zeros((num_frames, len(network.heads)), np.int64),
    )
    log.vehicles.uid = -1
    start_s = float(rng.uniform(0.0, 1000.0))
    # warm-up of the traffic, often a short one, in which the AV has not reached a queue yet
    is_short = rng.random() < _SHORTEST_WARMUP_SHARE
    num_warmup = _WARMUP_STEPS[0] if is_short else int(rng.integers(*_WARMUP_STEPS))
    num_removed = simulate_traffic(network, vehicles, walkers, demand, log, start_s, num_warmup, rng)
    # parked cars in a share of the bays, with small random offsets and rotations
    bays = town.objects.bays
    parked = bays[rng.random(len(bays)) < min(_PARKED_SHARE * traffic_density, 1.0)]
    count = len(parked)
    size = np.stack([rng.uniform(3.9, 5.2, count), rng.uniform(1.72, 2.02, count)], axis=1)
    moved = np.stack([rng.normal(0, 0.1, count), rng.normal(0, 0.1, count), rng.normal(0, 0.015, count)], axis=1)
    parked = np.concatenate([parked + moved.clip(-0.2, 0.2), size], axis=1)
    parked_height_m = rng.uniform(1.4, 1.9, count)
    return Simulation(log, parked, parked_height_m, np.array(walkers.state.height_m), int(num_removed))


def record_scene(town: Town, simulation: Simulation, *, start_ns: int, rng: np.random.Generator) -> SceneRecords:
    """Record everything near the AV in a simulated scene, without noise, in the record types of the dataset format."""
    log = simulation.log
    av = log.vehicles[:, AV_SLOT]
    objects = _objects_near(town, simulation, rng)
    # the true box of each object in each frame with a track id
    track_ids = track_ids_near(objects, av.box[:, :2])
    frame, column = np.nonzero(track_ids)
    box, speed_mps = objects.box[frame, column], objects.speed_mps[frame, column]
    observations = Observations(
        frame_indices=frame,
        track_ids=track_ids[frame, column],
        positions_m=box[:, :2],
        headings_rad=box[:, 2],
        velocities_mps=speed_mps[:, None] * unit_along(box[:, 2]),
        sizes_m=np.column_stack([box[:, 3:], objects.height_m[column]]),
        label_probabilities=label_probabilities_of(objects.label)[column],
    )

    # Lights near the AV: each head has a row for each of its faces, one of which is on. Faces that are off have the
    # status unknown, as in real recordings.
    heads, num_faces = town.network.heads, len(FACE_COLORS)
    apart_m = np.hypot(*(heads.position_m[None] - av.box[:, None, :2]).transpose(2, 0, 1))
    face_frames, head = np.nonzero(apart_m < _SIGNAL_RANGE_M)
    face_names = np.array([[face_id(h, c) for c in FACE_COLORS] for h in range(len(heads))], "<U16")
    light_names = np.array([light_id(h) for h in range(len(heads))], "<U16")
    is_on = log.head_state[face_frames, head][:, None] == np.arange(num_faces)
    statuses = np.zeros((len(face_frames), num_faces, len(TL_FACE_LABEL_TO_INDEX)), np.float32)
    statuses[..., TL_FACE_LABEL_TO_INDEX["ACTIVE"]] = is_on
    statuses[..., TL_FACE_LABEL_TO_INDEX["UNKNOWN"]] = ~is_on
    scene = SceneArrays(
        host="",
        timestamps_ns=start_ns + FRAME_PERIOD_NS * np.arange(len(av)),
        ego_positions_m=np.column_stack([av.box[:, :2], np.full(len(av), GROUND_Z_M)]),
        ego_rotations=yaws_as_rotations33(av.box[:, 2]),
        agents=observations.to_agent_rows(len(av)),
        tl_faces=faces_of_frames(
            len(av),
            np.repeat(face_frames, num_faces),
            face_ids=face_names.reshape(-1, num_faces)[head].reshape(-1),
            light_ids=np.repeat(light_names[head], num_faces),
            statuses=statuses.reshape(-1, len(TL_FACE_LABEL_TO_INDEX)),
        ),
    )
    return scene.to_records()


def track_ids_near(objects: Objects, av_xy_m: Float64Array) -> Int64Array:
    """Return the track id of each object in each frame in which it is in range of the AV (T, 2), else 0; (T, E).

    An object keeps its id after it has been out of range. Ids start at 1, in the order in which objects come into
    range.
    """
    apart_m = np.hypot(*(objects.box[..., :2] - av_xy_m[:, None]).transpose(2, 0, 1))
    is_near = objects.exists & (apart_m < objects.range_m)
    # objects that are never in range come last, and have no row
    first_frame = np.where(is_near.any(axis=0), is_near.argmax(axis=0), len(is_near))
    track_ids = np.empty(is_near.shape[1], np.int64)
    track_ids[np.argsort(first_frame, kind="stable")] = 1 + np.arange(len(track_ids))
    return np.where(is_near, track_ids, 0)


def _objects_near(town: Town, simulation: Simulation, rng: np.random.Generator) -> Objects:
    """Return everything that is ever near the AV: moving vehicles, pedestrians, parked cars, clutter."""
    log = simulation.log
    route_m = log.vehicles.box[:, AV_SLOT, :2]
    parked = _near_route(simulation.parked[:, :2], route_m)
    clutter = _near_route(town.objects.clutter[:, :2], route_m)
    # A slot has several vehicles one after the other, (T, N): regroup them by vehicle, (T, E), or (E,) for constant
    # properties.
    vehicles = log.vehicles[:, AV_SLOT + 1 :]
    frame, slot = np.nonzero(vehicles.uid >= 0)
    uids, column = np.unique(vehicles.uid[frame, slot], return_inverse=True)
    num_frames, shape = len(vehicles), (len(vehicles), len(uids))
    exists, box, speed_mps = np.zeros(shape, bool), np.zeros((*shape, 5)), np.zeros(shape)
    exists[frame, column] = True
    box[frame, column] = vehicles.box[frame, slot]
    speed_mps[frame, column] = vehicles.speed_mps[frame, slot]
    height_m, is_bike = np.zeros(len(uids)), np.zeros(len(uids), bool)
    height_m[column] = vehicles.height_m[frame, slot]
    is_bike[column] = vehicles.kind[frame, slot] == BIKE
    # concatenate all objects: vehicles, pedestrians, stationary objects
    still = np.concatenate([simulation.parked[parked], town.objects.clutter[clutter]])
    counts = (len(uids), log.walkers.shape[1], len(parked), len(clutter))
    label = np.repeat([_CAR, _PEDESTRIAN, _CAR, _UNKNOWN], counts)
    label[: counts[0]][is_bike] = _CYCLIST
    return Objects(
        exists=np.concatenate([exists, log.walkers.active == 1, np.ones((num_frames, len(still)), bool)], axis=1),
        box=np.concatenate([box, log.walkers.box, np.broadcast_to(still, (num_frames, *still.shape))], axis=1),
        speed_mps=np.concatenate([speed_mps, log.walkers.speed_mps, np.zeros((num_frames, len(still)))], axis=1),
        height_m=np.concatenate(
            [
                height_m,
                simulation.walker_height_m,
                simulation.parked_height_m[parked],
                town.objects.clutter_height_m[clutter],
            ]
        ),
        label=label,
        range_m=np.vectorize(_RANGE_M.get)(label) + rng.uniform(-_RANGE_SPREAD_M, _RANGE_SPREAD_M, len(label)),
    )


def _near_route(positions_m: Float64Array, route_m: Float64Array) -> Int64Array:
    """Return the indices of positions that are in range anywhere on a route."""
    apart_m = np.hypot(*(positions_m[:, None] - route_m[None, ::10]).transpose(2, 0, 1))
    return np.nonzero(apart_m.min(axis=1, initial=np.inf) < _MAX_RANGE_M + 15.0)[0]
