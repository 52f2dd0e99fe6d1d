"""Readers of the files next to a log: map, aerial image, meta.json, configuration, checkpoint."""

from functools import partial
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from PIL import Image

from attack.clean_sets import CENTER_M, raster_cfg
from attack.damage_checkpoints import checkpoint_of, small_network
from attack.job import Job
from attack.judging import ANYTHING, Expected, Outcome
from attack.reading_samples import places_of
from l5kit.configs import load_config_data
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.map.api import InterpolationMethod
from l5kit.data.map.opened import open_map
from l5kit.data.proto.road_network_pb2 import MapFragment
from l5kit.dataset import EgoDataset
from l5kit.planning.checkpoint import load_checkpoint
from l5kit.rasterization import build_rasterizer
from l5kit.visualization.facts import map_counts
from l5kit.visualization.viewer.sample_pictures import SamplePictures
from support.tolerances import FLOAT64_LONG, NETWORK


def read_map(job: Job) -> None:
    """The whole map, compared with what protobuf reads."""

    map_api = job.attempt("the map", lambda: open_map(job.files))
    job.attempt("the counts", lambda: map_counts(job.files))
    if map_api is None:
        return
    bounds = job.attempt("the bounds", lambda: map_api.bounds_info)
    if bounds is None:
        return
    _compare_with_protobuf(job, map_api)
    for lane_id in bounds["lanes"]["ids"][:12]:
        job.attempt("a lane", lambda lane_id=lane_id: _read_lane(map_api, lane_id))
    for crosswalk_id in bounds["crosswalks"]["ids"][:5]:
        job.attempt("a crosswalk", lambda crosswalk_id=crosswalk_id: map_api.get_crosswalk_coords(crosswalk_id))
    point = CENTER_M
    job.attempt("the nearest lane", lambda: map_api.get_nearest_lane(point))
    job.attempt("the lanes within 30 m", lambda: map_api.get_lanes_within(point, 30.0))


def _read_lane(map_api: Any, lane_id: str) -> None:

    map_api.get_lane_coords(lane_id)
    map_api.get_lane_as_interpolation(lane_id, 20, InterpolationMethod.INTER_ENSURE_LEN)
    map_api.get_lane_as_interpolation(lane_id, 1.0, InterpolationMethod.INTER_METER)
    map_api.get_lane_traffic_control_ids(lane_id)
    map_api.get_lanes_ahead(lane_id)
    map_api.get_lanes_behind(lane_id)
    map_api.get_lane_left(lane_id)
    map_api.get_lane_right(lane_id)
    map_api.get_lane_speed_limit(lane_id)


def _compare_with_protobuf(job: Job, map_api: Any) -> None:
    """The lanes and crosswalks of the map are those that protobuf's own parser finds in it."""

    fragment = MapFragment()
    try:
        fragment.ParseFromString((job.damaged.root / "semantic_map" / "semantic_map.pb").read_bytes())
    except DecodeError as error:
        job.note("the map", Outcome.WRONG, "a map is read that protobuf refuses", str(error))
        return
    lanes = {
        element.id.id.decode("utf-8", "replace"): element.element.lane
        for element in fragment.elements
        if element.element.HasField("lane")
    }
    for lane_id in map_api.bounds_info["lanes"]["ids"][:12]:
        if lane_id not in lanes:
            job.note("the lanes", Outcome.WRONG, "a lane that protobuf does not find", lane_id)
            continue
        for side in ("left", "right"):
            boundary = getattr(lanes[lane_id], f"{side}_boundary")
            deltas = [getattr(boundary, f"vertex_deltas_{axis}_cm") for axis in "xyz"]
            wanted = map_api.unpack_deltas_cm(*deltas, lanes[lane_id].geo_frame)
            job.attempt(
                f"the {side} boundary of a lane",
                partial(_is_boundary, map_api, lane_id, f"xyz_{side}", wanted),
                Expected(clean=lambda: True),
            )


def _is_boundary(map_api: Any, lane_id: str, name: str, wanted: np.ndarray) -> bool:
    points = map_api.get_lane_coords(lane_id)[name]
    return points.shape == wanted.shape and bool(
        np.allclose(points, wanted, rtol=FLOAT64_LONG, atol=NETWORK, equal_nan=True)
    )


def _read_samples(job: Job, map_type: str) -> None:
    """Samples that use the files next to the log."""

    cfg = raster_cfg(map_type)
    rasterizer = job.attempt("the rasterizer", lambda: build_rasterizer(cfg, LocalDataManager(job.damaged.root)))
    if rasterizer is None:
        return
    dataset = job.attempt("making the dataset", lambda: EgoDataset(cfg, job.dataset, rasterizer))
    if dataset is None:
        return
    for frame in places_of(job)[::6]:
        job.attempt(f"sample {frame}", lambda frame=frame: dataset[frame], _expect_picture(job, map_type, frame))
    job.attempt("a batch", lambda: dataset.__getitems__(places_of(job)[::6]))


def _expect_picture(job: Job, map_type: str, frame: int) -> Expected:
    """Return what a sample over a damaged file may be: another picture is right where the file can be trusted."""
    family, name = job.damaged.kind.family, job.damaged.kind.name
    if map_type == "py_satellite" and (family, name) in _UNTRUSTED and not _pillow_reads(job, family):
        return Expected(clean=lambda: _clean_satellite(job, frame))
    return ANYTHING


_UNTRUSTED = {
    ("picture", "truncated"),
    ("picture", "flipped bits"),
    ("picture", "parts of the PNG"),
    ("picture", "size in the header"),
    ("meta.json", "scale"),
    ("meta.json", "singular"),
}


def _pillow_reads(job: Job, family: str) -> bool:
    """Whether a strict reader finds nothing wrong with the aerial picture."""
    if family != "picture":
        return False

    try:
        with Image.open(job.files.aerial) as picture:
            picture.load()
        with Image.open(job.files.aerial) as picture:
            picture.verify()
    except Exception:
        return False
    return True


def _clean_satellite(job: Job, frame: int) -> Any:

    cfg = raster_cfg("py_satellite")
    dataset = EgoDataset(cfg, job.clean.log, build_rasterizer(cfg, LocalDataManager(job.clean_root)))
    return dataset[frame]


def read_semantic(job: Job) -> None:
    _read_samples(job, "py_semantic")


def read_satellite(job: Job) -> None:
    _read_samples(job, "py_satellite")


def read_sample_pictures(job: Job) -> None:
    """Input of a model as the viewer draws it."""

    pictures = SamplePictures(job.files, job.dataset)
    scene = int(np.argmax(np.diff(job.clean.records.bounds("scenes", "frame_index_interval"), axis=1)[:, 0]))
    for kind in ("semantic", "satellite"):
        job.attempt(f"the {kind} picture", lambda kind=kind: pictures.raster_png(scene, 4, None, map_kind=kind))
    job.attempt("the drawing of the vectors", lambda: pictures.vector_svg(scene, 4, None))


def read_config(job: Job) -> None:
    """A configuration, as a training reads it."""

    file = job.damaged.root / "config.yaml"
    cfg = job.attempt("the configuration", lambda: load_config_data(str(file)))
    if cfg is None:
        return
    rasterizer = job.attempt("the rasterizer", lambda: build_rasterizer(cfg, LocalDataManager(job.damaged.root)))
    if rasterizer is None:
        return
    dataset = job.attempt("making the dataset", lambda: EgoDataset(cfg, job.dataset, rasterizer))
    if dataset is not None:
        job.attempt("a sample", lambda: dataset[3])
        job.attempt("a batch", lambda: dataset.__getitems__([0, 3, 5]))


def read_checkpoint(job: Job) -> None:
    """A checkpoint, as evaluation and a resumed training read it."""

    def read(allow_pickle: bool) -> Any:
        model = small_network()
        load_checkpoint(model, path, allow_pickle=allow_pickle)
        return dict(model.state_dict())

    path = checkpoint_of(job.damaged.root)
    knows_itself = "exact:" in job.damaged.description
    expected = Expected(clean=lambda: dict(small_network().state_dict())) if knows_itself else ANYTHING
    for allow_pickle in (False, True):
        job.attempt(f"allow_pickle={allow_pickle}", lambda allow_pickle=allow_pickle: read(allow_pickle), expected)
