"""The route in pictures: a channel with the lanes ahead, on a road whose lanes are known."""

import json
import pickle

import numpy as np
import pytest
from PIL import Image

from l5kit.data import LocalDataManager
from l5kit.data.scene_records import SceneRecords
from l5kit.errors import ConfigError, InvalidArgumentError
from l5kit.rasterization import BoxRasterizer, build_rasterizer
from l5kit.rasterization.rasterizer_builder import MAP_TYPES, count_channels
from l5kit.rasterization.route_rasterizer import RouteRasterizer
from support.driving import make_ring_map, make_road_map
from support.logs import make_agent, make_scene
from support.maps import WORLD_TO_ECEF
from support.samples import make_cfg

torch = pytest.importorskip("torch")

from l5kit.dataset import EgoDataset  # noqa: E402
from l5kit.dataset.device_samples import makes_on_device  # noqa: E402
from l5kit.simulation.drivers.network import NetworkDriver  # noqa: E402
from l5kit.simulation.engine.actions import PlannedPoses  # noqa: E402
from l5kit.simulation.engine.scene_batch import SceneBatch  # noqa: E402
from l5kit.simulation.engine.scene_simulation import EgoSeat, SceneSimulation  # noqa: E402
from l5kit.workflows import TrainingConfig, make_model  # noqa: E402
from support.workflows import small_config  # noqa: E402

SIZE_PX, PIXEL_M = (240, 120), 0.5
"""Width and height; the AV is 10 m, 20 pixels, from the left, and in the middle of the rows."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the road of ``make_road_map`` and a black aerial picture of it."""
    folder = tmp_path_factory.mktemp("road")
    make_road_map(folder)
    to_aerial = np.array([[1, 0, 0, 150], [0, 1, 0, 150], [0, 0, 1, 0], [0, 0, 0, 1]]) @ np.linalg.inv(WORLD_TO_ECEF)
    meta = {"world_to_ecef": WORLD_TO_ECEF.tolist(), "ecef_to_aerial": to_aerial.tolist()}
    (folder / "meta.json").write_text(json.dumps(meta))
    Image.fromarray(np.zeros((600, 600, 3), np.uint8)).save(folder / "aerial.png")
    return folder


def cfg_of(map_type="box_debug", **options):
    files = {"semantic_map_key": "road.pb", "dataset_meta_key": "meta.json", "satellite_map_key": "aerial.png"}
    usual = {"map_type": map_type, "raster_size": SIZE_PX, "pixel_size": [PIXEL_M] * 2, "ego_center": [20 / 240, 0.5]}
    return make_cfg(**{**usual, **files, "route": True, "satellite_out_of_bounds": "pad", **options})


def samples_on(folder, log, map_type="box_debug", **options):
    cfg = cfg_of(map_type, **options)
    return EgoDataset(cfg, log, build_rasterizer(cfg, LocalDataManager(str(folder))))


def drive_along_x(start_m, num_frames=20, agents=(), y_m=0.0):
    positions_m = np.column_stack([start_m + np.arange(num_frames), np.full(num_frames, y_m)])
    return make_scene([list(agents)] * num_frames, positions_m=positions_m, yaws_rad=0.0)


def drive_to_the_north():
    turns = np.linspace(-np.pi / 2, 0, 12)
    around = np.stack([100 + 20 * np.cos(turns), 20 + 20 * np.sin(turns)], axis=-1)
    positions_m = np.concatenate([np.column_stack([np.arange(80.0, 100, 2), np.zeros(10)]), around])
    yaws = np.concatenate([np.zeros(10), turns + np.pi / 2])
    return make_scene([[]] * len(positions_m), positions_m=positions_m, yaws_rad=yaws)


def metres_of(sample):
    """Return x and y, seen from the target, of the middle of each pixel of its picture, (H, W, 2)."""
    rows, columns = np.indices((SIZE_PX[1], SIZE_PX[0]))
    at = np.stack([columns, rows, np.ones_like(rows)], axis=-1) @ np.linalg.inv(sample["raster_from_agent"]).T
    return at[..., :2]


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_the_lane_ahead_is_filled_up_to_80_m(folder, dtype):
    sample = samples_on(folder, drive_along_x(10.0), image_dtype=dtype)[5]
    channel, (x_m, y_m) = sample["image"][-1], np.moveaxis(metres_of(sample), -1, 0)
    full = 255 if dtype == "uint8" else 1.0
    is_inside = (x_m > 0.5) & (x_m < 79.5) & (abs(y_m) < 1.5)
    is_outside = (x_m < -0.9) | (x_m > 80.9) | (abs(y_m) > 2.9)
    assert sample["image"].dtype == dtype
    assert (channel[is_inside] == full).all()
    assert (channel[is_outside] == 0).all()
    assert is_inside.sum() > 700


def test_the_picture_follows_a_turn(folder):
    sample = samples_on(folder, drive_to_the_north())[0]
    world = metres_of(sample) + [80, 0]
    from_middle_m = np.linalg.norm(world - [100, 20], axis=-1)
    in_bend = (world[..., 0] > 100) & (world[..., 1] < 20)
    channel = sample["image"][-1]
    assert (channel[in_bend & (abs(from_middle_m - 20) < 1.4)] == 1).all()
    assert (channel[in_bend & (abs(from_middle_m - 20) > 3)] == 0).all()
    assert (channel[(world[..., 0] > 124)] == 0).all()  # the road continues to the east


def test_a_route_around_a_roundabout_leaves_no_hole(tmp_path, folder):
    make_ring_map(tmp_path, radius_m=8.0, num_lanes=4, is_one_junction=True)
    for name in ("meta.json", "aerial.png"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    turns = np.arange(1, 100) / 8.0
    ring = 8.0 * np.stack([np.cos(turns), np.sin(turns)], axis=-1)
    log = make_scene([[]] * len(ring), positions_m=ring, yaws_rad=turns + np.pi / 2)
    sample = samples_on(tmp_path, log, semantic_map_key="ring.pb", ego_center=[0.5, 0.5])[10]  # 80 m are 1.6 laps
    at = np.stack([*np.moveaxis(metres_of(sample), -1, 0), np.ones(SIZE_PX[::-1])], axis=-1)
    from_middle_m = np.linalg.norm((at @ sample["world_from_agent"].T)[..., :2], axis=-1)
    assert (sample["image"][-1][abs(from_middle_m - 8) < 1.4] == 1).all()
    assert (sample["image"][-1][abs(from_middle_m - 8) > 3] == 0).all()


@pytest.mark.parametrize("map_type", MAP_TYPES)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_it_is_one_channel_behind_the_picture_without_it(folder, map_type, dtype):
    log = drive_along_x(10.0, agents=[make_agent(1, (30.0, 3.0))])
    without = samples_on(folder, log, map_type, image_dtype=dtype, route=False)
    samples = samples_on(folder, log, map_type, image_dtype=dtype)
    columns = samples.make_columns(range(20)).arrays
    np.testing.assert_array_equal(columns["image"][:, :-1], without.make_columns(range(20)).arrays["image"])
    for index in (0, 7, 19):
        np.testing.assert_array_equal(columns["image"][index], samples[index]["image"])
    num_channels = samples.rasterizer.num_channels()
    assert samples.rasterizer.images_shape(2) == (2, num_channels, *SIZE_PX[::-1])
    if map_type != "stub_debug":
        assert count_channels(samples.cfg) == num_channels == count_channels(without.cfg) + 1
    rgb = samples.rasterizer.to_rgb(columns["image"][7].transpose(1, 2, 0))
    below = without.rasterizer.to_rgb(columns["image"][7, :-1].transpose(1, 2, 0))
    is_route = columns["image"][7, -1] > 0
    np.testing.assert_array_equal(rgb[~is_route], below[~is_route])
    assert is_route.any()
    assert (rgb[is_route] != below[is_route]).any(axis=-1).all()
    assert not makes_on_device(samples)


def test_without_a_route_it_is_black(folder):
    beside = samples_on(folder, drive_along_x(10.0, agents=[make_agent(1, (30.0, 0.0))]))
    assert beside[5]["image"][-1].any()
    assert not beside.get_frame(0, 5, track_id=1)["image"][-1].any()  # an agent is the target
    assert not samples_on(folder, drive_along_x(10.0, y_m=5000.0))[5]["image"][-1].any()  # no lane is near
    window = beside.dataset.frames[4:6][::-1], [beside.dataset.agents[:0]] * 2, []
    assert not beside.rasterizer.rasterize(*window)[..., -1].any()  # its path is unknown


@pytest.mark.parametrize(("beside_m", "is_drawn"), [(29.9, True), (30.1, False)])
def test_it_is_drawn_within_30_m_of_the_route(folder, beside_m, is_drawn):
    log = drive_along_x(10.0)
    positions_m = log.frames["ego_translation"] - [0, beside_m, 0] * (np.arange(20) > 9)[:, None]
    samples = samples_on(folder, make_scene([[]] * 20, positions_m=positions_m, yaws_rad=0.0), pixel_size=[1.0, 1.0])
    assert samples[5]["image"][-1].any()
    assert samples[15]["image"][-1].any() == is_drawn


def test_it_can_be_sent_to_workers(folder):
    samples = samples_on(folder, drive_along_x(10.0), "py_semantic")
    expected = samples[5]["image"]
    sent = pickle.loads(pickle.dumps(samples.rasterizer))
    assert "route_map" not in vars(sent)
    np.testing.assert_array_equal(EgoDataset(samples.cfg, samples.dataset, sent)[5]["image"], expected)


def test_without_pictures_nobody_asks_for_routes(folder):
    samples = samples_on(folder, drive_along_x(10.0)).without_pictures()
    assert samples.route_map is None
    assert "image" not in samples[5]


def test_boxes_alone_need_a_map_for_the_route(folder):
    cfg = cfg_of()
    del cfg["raster_params"]["semantic_map_key"]
    with pytest.raises(ConfigError, match=r"raster_params\.semantic_map_key"):
        build_rasterizer(cfg, LocalDataManager(str(folder)))


def test_it_refuses_what_draws_no_batches(folder):
    class Own(BoxRasterizer):
        def rasterize(self, *window):
            return super().rasterize(*window)

    route = samples_on(folder, drive_along_x(10.0)).rasterizer
    own = Own(route.render_context, 0.5, 1)
    with pytest.raises(InvalidArgumentError, match="define prepare"):
        RouteRasterizer(own, route.mapAPI)
    for reach_m in (0.0, np.inf, np.nan):
        with pytest.raises(InvalidArgumentError, match="reach_m"):
            RouteRasterizer(route.base, route.mapAPI, reach_m=reach_m)


def test_networks_on_pictures_have_as_many_channels(folder):
    cfg = small_config("raster_planner", model_params={"route": True})
    usual, route = (make_model(TrainingConfig.from_cfg(each)) for each in (small_config("raster_planner"), cfg))
    assert route.num_input_channels == usual.num_input_channels + 1
    cfg["raster_params"] |= {"semantic_map_key": "road.pb", "dataset_meta_key": "meta.json"}
    samples = EgoDataset(cfg, drive_along_x(10.0), build_rasterizer(cfg, LocalDataManager(str(folder))))
    network = make_model(TrainingConfig.from_cfg(cfg), samples)
    assert network.num_input_channels == route.num_input_channels == samples[5]["image"].shape[0]


def test_the_channel_follows_an_av_that_a_network_drives(folder):
    seen = []

    class Slow(torch.nn.Module):
        """Drives half as fast as the log, towards the left edge."""

        def forward(self, batch):
            seen.append((batch["centroid"][0].numpy().copy(), batch["image"][0, -1].numpy().copy()))
            ahead = torch.tensor([[0.5, 0.05]]).expand(len(batch["image"]), 1, 2)
            return {"positions": ahead, "yaws": torch.zeros(len(batch["image"]), 1, 1)}

    samples = samples_on(folder, drive_along_x(20.0, 30))
    batch = SceneBatch.of_scenes([SceneRecords.of_scene_dataset(samples.dataset)], start=2)
    driver = NetworkDriver(Slow().eval(), samples)
    SceneSimulation(batch, ego=EgoSeat(driver, PlannedPoses()), strict=True).run()
    assert len(seen) > 20
    for step, (centroid_m, channel) in enumerate(seen):
        np.testing.assert_allclose(centroid_m, [22 + 0.5 * step, 0.05 * step], atol=0.01)
        rows = np.flatnonzero(channel[:, 60] == 1)  # 20 m ahead; left is up
        middle_m = (60 - rows.mean()) * PIXEL_M
        assert middle_m == pytest.approx(-0.05 * step, abs=0.5)
        assert not channel[:, :17].any()
