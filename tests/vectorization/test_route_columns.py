"""Routes in vector samples, on a road whose lanes, limits and lights are known."""

import numpy as np
import pytest

from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.data.map.api import MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.data.scene_records import SceneRecords
from l5kit.errors import ConfigError
from l5kit.simulation.engine.actions import Actions, PlannedPoses
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch
from l5kit.simulation.engine.scene_simulation import EgoSeat, SceneSimulation
from l5kit.vectorization.vectorizer import Vectorizer
from support.driving import make_road_map, straight_lane
from support.logs import make_agent, make_faces, make_scene
from support.maps import WORLD_TO_ECEF
from support.vectors import make_vector_cfg

torch = pytest.importorskip("torch")

from l5kit.dataset import EgoAgentDatasetVectorized, EgoDatasetVectorized  # noqa: E402
from l5kit.simulation.dataset import SimulationConfig, SimulationDataset  # noqa: E402

POINTS_M = np.concatenate([np.arange(0, 21, 2), np.arange(24, 81, 4)])


@pytest.fixture(scope="module")
def road(tmp_path_factory):
    """The road of two lanes that ends at a junction; see ``make_road_map``."""
    folder = tmp_path_factory.mktemp("road")
    make_road_map(folder)
    return MapAPI(str(folder / "road.pb"), WORLD_TO_ECEF)


def samples_on(road, log, kind=EgoDatasetVectorized, **options):
    usual = {"route": True, "other_agents_num": 3, "max_num_lanes": 6, "max_retrieval_distance_m": 120}
    cfg = make_vector_cfg(**usual | options)
    return kind(cfg, log, Vectorizer(cfg, road))


def drive_along_x(start_m, num_frames=20, y_m=0.0, agents=(), yaw=0.0):
    positions_m = np.column_stack([start_m + np.arange(num_frames), np.full(num_frames, y_m)])
    return make_scene([list(agents)] * num_frames, positions_m=positions_m, yaws_rad=yaw)


def test_a_log_without_facts_has_routes_as_long_in_batches_and_closed_loop_as_in_single_samples(tmp_path):
    builder = MapBuilder(WORLD_TO_ECEF)
    for x_m in range(0, 2000, 50):
        builder.add_lane(f"{x_m}", *straight_lane((x_m, 0), (x_m + 50, 0)), lanes_ahead=[f"{x_m + 50}"] * (x_m < 1950))
    builder.save(tmp_path / "long.pb")
    road = MapAPI(str(tmp_path / "long.pb"), WORLD_TO_ECEF)
    samples = samples_on(road, drive_along_x(10.0), step_time=0.5, route_params={"goal_distance_m": 1000.0})
    simulated = SimulationDataset.from_dataset_indices(samples, [0], SimulationConfig(use_agents_gt=True))
    goals_m = [samples[5]["goal_position"], samples.__getitems__([5, 6])[0]["goal_position"]]
    goals_m.append(simulated.rasterise_frame_batch(5)[0]["goal_position"])
    assert 200 < goals_m[0][0] < 900  # so that the route ends before
    np.testing.assert_array_equal(goals_m[1:], [goals_m[0]] * 2)


def test_points_lie_along_the_lanes_ahead(road):
    sample = samples_on(road, drive_along_x(10.0))[5]
    np.testing.assert_allclose(
        sample["route_polyline"], np.column_stack([POINTS_M, 0 * POINTS_M, 0 * POINTS_M]), atol=0.02
    )
    assert sample["route_availability"].all()
    np.testing.assert_allclose(sample["route_widths"], 2.0, atol=0.01)
    assert sample["goal_availability"]
    np.testing.assert_allclose(sample["goal_position"], [100, 0], atol=0.05)
    names = np.array(road.network.ids.to_list())
    assert names[sample["route_lanes"]].tolist() == ["right"] * 26


def test_what_holds_there_changes_with_the_lane(road):
    sample = samples_on(road, drive_along_x(56.0))[5]  # at x = 61, the junction is from 100 to 120
    names = np.array(road.network.ids.to_list())[sample["route_lanes"]]
    x_m = 61 + POINTS_M
    np.testing.assert_array_equal(names, np.select([x_m < 100, x_m < 120], ["right", "straight"], "east"))
    np.testing.assert_array_equal(sample["route_in_junction"], (x_m >= 100) & (x_m < 120))
    np.testing.assert_allclose(sample["route_limits"], np.where(x_m < 100, 10, 20))


def test_the_log_says_where_the_route_turns(road):
    turns = np.linspace(-np.pi / 2, 0, 12)
    around = np.stack([100 + 20 * np.cos(turns), 20 + 20 * np.sin(turns)], axis=-1)
    positions_m = np.concatenate([np.column_stack([np.arange(80.0, 100, 2), np.zeros(10)]), around])
    headings = np.concatenate([np.zeros(10), turns + np.pi / 2])
    log = make_scene([[]] * len(positions_m), positions_m=positions_m, yaws_rad=headings)
    sample = samples_on(road, log)[0]
    np.testing.assert_allclose(sample["route_polyline"][-4:, 0], 40, atol=0.3)  # to the north at x = 120
    np.testing.assert_allclose(sample["route_polyline"][-4:, 2], np.pi / 2, atol=0.02)
    inside = sample["route_in_junction"]
    assert sample["route_bend_speeds"][inside].min() == pytest.approx(np.sqrt(3.0 * 20), rel=0.1)
    assert sample["route_bend_speeds"][-1] == 50.0


def test_the_route_ends_where_its_lanes_end(road):
    sample = samples_on(road, drive_along_x(150.0))[0]
    assert sample["route_availability"].tolist() == (POINTS_M <= 70).tolist()
    assert sample["route_gaps"][1] == pytest.approx(70 - 0.5 * sample["extent"][0], abs=0.05)
    np.testing.assert_allclose(sample["goal_position"], [70, 0], atol=0.05)
    assert not sample["route_polyline"][~sample["route_availability"]].any()


def test_the_target_beside_the_route(road):
    positions_m = np.column_stack([10 + np.arange(20.0), np.linspace(0, 1.9, 20)])
    sample = samples_on(road, make_scene([[]] * 20, positions_m=positions_m, yaws_rad=0.1))[10]
    zero, left_m, along_mps, across_mps, turn, is_inside = sample["agent_route_place"].tolist()
    assert (zero, is_inside) == (0.0, 1.0)
    assert (left_m, turn) == (pytest.approx(1.0, abs=0.02), pytest.approx(0.1, abs=0.01))
    assert (along_mps, across_mps) == (pytest.approx(10.0, abs=0.02), pytest.approx(1.0, abs=0.02))


def test_others_along_the_route(road):
    car = PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_CAR"]
    agents = [
        make_agent(1, (40.0, 0.5), yaw=0.2, velocity=(5.0, 1.0), extent=(4.0, 2.0, 1.5), label=car),
        make_agent(2, (30.0, 4.0), yaw=np.pi, velocity=(-8.0, 0.0), extent=(4.0, 2.0, 1.5), label=car),
    ]
    sample = samples_on(road, drive_along_x(10.0, agents=agents))[10]
    ids = sample["all_other_agents_track_ids"].tolist()
    one, other = (sample["all_other_agents_route_places"][ids.index(track)] for track in (1, 2))
    np.testing.assert_allclose(one, [20, 0.5, 5, 1, 0.2, 1], atol=0.02)
    np.testing.assert_allclose(other, [10, 4, -8, 0, -np.pi, 0], atol=0.02)
    assert sample["all_other_agents_route_availability"].tolist() == [track in (1, 2) for track in ids]


@pytest.mark.parametrize("first_y_m", [4.0, 0.0])
def test_who_is_on_the_line_of_a_lane_change_is_in_the_corridor(tmp_path, first_y_m):
    builder = MapBuilder(WORLD_TO_ECEF)
    for lane, y in (("left", 4.0), ("right", 0.0)):
        builder.add_lane(lane, *[np.array([[0.0, side, 0.0], [150.0, side, 0.0]]) for side in (y + 2.0, y - 2.0)])
    builder.save(tmp_path / "two.pb")
    road = MapAPI(str(tmp_path / "two.pb"), WORLD_TO_ECEF)
    y_m = np.where(np.arange(60) < 30, first_y_m, 4.0 - first_y_m)
    drive = {"positions_m": np.column_stack([10.0 + np.arange(60), y_m]), "yaws_rad": 0.0}
    line_m = samples_on(road, make_scene([[]] * 60, **drive))[10]["route_polyline"][1:14, :2]
    assert np.ptp(line_m[:, 1]) > 3.5

    # narrower than the distance between the line and the border of the lanes
    agents = [
        make_agent(1 + row, (20.0 + x, first_y_m + y), extent=(0.4, 0.2, 1.0)) for row, (x, y) in enumerate(line_m)
    ]
    options = {"other_agents_num": 20, "max_agents_distance": 100}
    sample = samples_on(road, make_scene([agents] * 60, **drive), **options)[10]
    np.testing.assert_allclose(sample["all_other_agents_route_places"][:13, 1], 0, atol=0.05)
    assert sample["all_other_agents_route_places"][:13, 5].all()
    np.testing.assert_allclose(sample["route_widths"].sum(axis=1), 4.0, atol=0.01)


PLACES_M = {1: (-12, 0), 2: (30, 4), 3: (25, 0.5), 4: (8, -8), 5: (9, 0), 6: (-5, 6), 7: (40, 3.1), 8: (15, 2.9)}
"""Agents along and to the left of the route; those of 4 x 2 m reach into its lane up to an offset of 3 m."""


def test_agents_come_in_the_order_of_what_they_matter_to_the_route(road):
    agents = [make_agent(track, (50.0 + x, y), extent=(4.0, 2.0, 1.5)) for track, (x, y) in PLACES_M.items()]
    log = drive_along_x(40.0, agents=agents)
    options = {"other_agents_num": 10, "max_agents_distance": 100}
    usual, ordered = (samples_on(road, log, **options, order_agents_by_route=flag) for flag in (False, True))
    sample, other = usual[10], ordered[10]
    assert other["all_other_agents_track_ids"].tolist() == [5, 8, 3, 7, 2, 4, 6, 1, 0, 0]
    places = other["all_other_agents_route_places"]
    np.testing.assert_allclose(places[:8, :2], [PLACES_M[track] for track in (5, 8, 3, 7, 2, 4, 6, 1)], atol=0.02)
    ids = sample["all_other_agents_track_ids"].tolist()
    rows = [ids.index(track) for track in (5, 8, 3, 7, 2, 4, 6, 1)]
    for key, value in sample.items():
        expected = value
        if np.shape(value)[:1] == (10,):
            assert key.startswith(("all_other_agents_", "other_agents_"))
            expected = np.concatenate([value[rows], value[8:]])
        np.testing.assert_array_equal(other[key], expected, err_msg=key)
    columns = ordered.make_columns([3, 10])
    for key, value in other.items():
        np.testing.assert_array_equal(columns[key][1], value, err_msg=key)


def test_without_a_route_agents_keep_their_order(road):
    agents = [make_agent(track, (5000.0 + 3 * track, 5000.0)) for track in (4, 2, 3)]
    log = make_scene([agents] * 5, positions_m=(5000.0, 5000.0))
    usual, ordered = (samples_on(road, log, order_agents_by_route=flag)[2] for flag in (False, True))
    assert ordered["all_other_agents_track_ids"].all()
    np.testing.assert_array_equal(ordered["all_other_agents_track_ids"], usual["all_other_agents_track_ids"])


def test_the_order_needs_the_route(road):
    with pytest.raises(ConfigError, match=r"set model_params\.route to true"):
        samples_on(road, drive_along_x(10.0), route=False, order_agents_by_route=True)


def test_the_av_is_the_first_of_the_agents_where_it_is_one(road):
    with pytest.warns(RuntimeWarning):
        samples = samples_on(road, drive_along_x(10.0), EgoAgentDatasetVectorized)
    sample = samples[5]
    np.testing.assert_array_equal(sample["all_other_agents_route_places"][0], sample["agent_route_place"])
    assert sample["all_other_agents_route_availability"].tolist() == [True, False, False]


def test_the_graph_of_lanes(road):
    sample = samples_on(road, drive_along_x(90.0))[5]
    names = np.array(road.network.ids.to_list())[sample["lane_rows"]].tolist()
    follows = {(names[i], names[j]) for i, j in np.argwhere(sample["lane_successors"])}
    assert follows == {("right", "straight"), ("right", "turn"), ("straight", "east"), ("turn", "north")}
    assert {name for name, on in zip(names, sample["lane_on_route"], strict=True) if on} == {
        "right",
        "straight",
        "east",
    }
    limits = dict(zip(names, sample["lane_limits"].tolist(), strict=True))
    assert limits == {"right": 10, "left": 10, "straight": 20, "turn": 10, "east": 20, "north": 10}
    assert (sample["lane_neighbours"] == -1).all()


def lit_road(folder):
    """A lane up to x = 50, one in a junction up to 70 with a light of two faces, and a lane up to 160."""
    builder = MapBuilder(WORLD_TO_ECEF)

    def sides(first_m, last_m):
        return [np.array([[first_m, y, 0.0], [last_m, y, 0.0]]) for y in (2.0, -2.0)]

    builder.add_lane("before", *sides(0, 50), lanes_ahead=["inside"])
    controls = ["lamp", "red", "green"]
    builder.add_lane("inside", *sides(50, 70), lanes_ahead=["after"], parent="junction", traffic_controls=controls)
    builder.add_lane("after", *sides(70, 160))
    builder.add_junction("junction", lanes=["inside"])
    builder.add_traffic_light("lamp", np.array([50.0, 3.0, 4.0]))
    for colour in ("red", "green"):
        builder.add_traffic_light_face(colour, f"signal_{colour}_face")
    builder.save(folder / "lit.pb")
    return MapAPI(str(folder / "lit.pb"), WORLD_TO_ECEF)


@pytest.mark.parametrize(("lit", "light"), [((), 0), (("green",), 1), (("red",), 3), (("green", "red"), 3)])
def test_the_line_of_a_light_stands_at_the_point_behind_it(tmp_path, lit, light):
    log = drive_along_x(25.0)
    log = make_scene([[]] * 20, [make_faces(*lit)] * 20, positions_m=log.frames["ego_translation"][:], yaws_rad=0.0)
    sample = samples_on(lit_road(tmp_path), log)[6]  # at x = 31: the line is 19 m ahead
    lights = sample["route_lights"].tolist()
    assert lights[10] == light
    assert {*lights[:10], *lights[11:]} == {4}
    front_m = 0.5 * sample["extent"][0]
    assert sample["route_gaps"][0] == pytest.approx(19 - front_m if light == 3 else 80, abs=0.01)


def test_without_lanes_there_is_no_route(road):
    sample = samples_on(road, make_scene([[]] * 5, positions_m=(5000.0, 5000.0)))[2]
    for key in ("route_availability", "goal_availability", "agent_route_availability", "lane_on_route"):
        assert not np.any(sample[key]), key
    assert not sample["route_polyline"].any()
    assert (sample["route_lanes"] == -1).all()


def test_a_log_that_comes_onto_a_lane_has_its_route_before(road):
    from_the_side = np.column_stack([np.full(10, 10.0), np.linspace(-20, -3, 10)])
    positions_m = np.concatenate([from_the_side, np.column_stack([np.arange(11.0, 21), np.zeros(10)])])
    yaws = np.concatenate([np.full(10, np.pi / 2), np.zeros(10)])
    sample = samples_on(road, make_scene([[]] * 20, positions_m=positions_m, yaws_rad=yaws))[5]
    assert sample["route_availability"].all()
    assert sample["agent_route_place"][1] < -9


def test_another_map_has_other_routes(road, tmp_path):
    samples = samples_on(road, drive_along_x(26.0))
    before = samples.make_columns([5])["route_in_junction"][0]  # at x = 31, the junctions begin at 100 and 50
    samples.sample_function = samples_on(lit_road(tmp_path), samples.dataset).sample_function
    after = samples.make_columns([5])["route_in_junction"][0]
    assert (POINTS_M[before].min(), POINTS_M[after].min()) == (72, 20)


@pytest.mark.parametrize("x_m", [-60.0, 270.0], ids=["before its begin", "behind its end"])
def test_a_route_that_is_more_than_30_m_away_is_none(road, x_m):
    x_of_frames_m = np.sort(np.append(np.linspace(1.0, 219.0, 39), x_m))
    log = make_scene([[]] * 40, positions_m=np.column_stack([x_of_frames_m, np.zeros(40)]), yaws_rad=0.0)
    samples = samples_on(road, log)
    (far,) = np.flatnonzero(x_of_frames_m == x_m)
    assert samples[20]["agent_route_availability"]
    for key in ("route_availability", "goal_availability", "agent_route_availability"):
        assert not np.any(samples[int(far)][key]), key


def test_single_samples_are_those_of_batches(road):
    rng = np.random.default_rng(4)
    agents = [make_agent(track, rng.uniform((0, -8), (120, 8)), yaw=rng.uniform(-3, 3)) for track in range(1, 8)]
    samples = samples_on(road, drive_along_x(60.0, 60, agents=agents))
    columns = samples.make_columns(range(60))
    for index in range(60):
        for key, value in samples[index].items():
            np.testing.assert_array_equal(columns[key][index], value, err_msg=f"{key} of {index}")


def test_agents_as_targets_have_no_route(road):
    samples = samples_on(road, drive_along_x(60.0, agents=[make_agent(1, (70.0, 0.0))]))
    sample = samples.get_frame(0, 5, track_id=1)
    assert not sample["route_availability"].any()
    assert (sample["lane_rows"] >= 0).any()


def test_simulations_tell_of_the_route_from_where_the_av_is(road):
    log = drive_along_x(20.0, 40)
    samples, seen = samples_on(road, log), []

    class Slow:
        """Half as fast as the log."""

        def drive(self, state):
            seen.append({key: column.copy() for key, column in state.samples(samples).arrays.items()})
            poses = np.column_stack([state.ego.positions_m + [0.53, 0.0], state.ego.yaws_rad])
            return Actions(poses[:, None], np.array([state.step_time_s]))

    batch = SceneBatch.of_scenes([SceneRecords.of_scene_dataset(log)], road=RoadMap(road), start=5)
    simulation = SceneSimulation(batch, ego=EgoSeat(Slow(), PlannedPoses()))
    simulation.run()
    x_m = [column["centroid"][0, 0] for column in seen]
    np.testing.assert_allclose(x_m, 25 + 0.53 * np.arange(len(seen)), atol=1e-3)
    for column in seen:
        np.testing.assert_allclose(column["route_polyline"][0, 0], [0, 0, 0], atol=0.02)
        names = np.array(road.network.ids.to_list())[column["route_lanes"][0]]
        np.testing.assert_array_equal(names == "right", column["centroid"][0, 0] + POINTS_M < 100)


def test_each_of_several_datasets_of_a_driver_has_routes_of_its_own_lanes(road, tmp_path):
    log = drive_along_x(26.0)
    of_road, of_lit = (samples_on(lanes, log) for lanes in (road, lit_road(tmp_path)))
    state = SceneSimulation(SceneBatch.of_scenes([SceneRecords.of_scene_dataset(log)], start=5)).state()
    for samples in (of_road, of_lit, of_road):
        for key in ("route_in_junction", "route_lanes", "route_limits"):
            np.testing.assert_array_equal(state.samples(samples)[key][0], samples[5][key], err_msg=key)


def test_frames_that_are_not_finite_leave_the_other_frames_their_route(road):
    whole = drive_along_x(20.0, 40)
    positions_m = whole.frames["ego_translation"][:, :2].copy()
    positions_m[[0, 10]] = np.nan
    broken = make_scene([[]] * 40, positions_m=positions_m, yaws_rad=0.0)
    for index in (1, 5, 30):
        expected, sample = samples_on(road, whole)[index], samples_on(road, broken)[index]
        for key in ("route_polyline", "route_availability", "route_lanes", "goal_position"):
            np.testing.assert_allclose(sample[key], expected[key], atol=1e-3, err_msg=f"{key} of {index}")


def test_lanes_beside_each_other_name_each_other(tmp_path):
    builder = MapBuilder(WORLD_TO_ECEF)
    for lane, y, beside in (("left", 4.0, {"right": "right"}), ("right", 0.0, {"left": "left"})):
        edges = [np.array([[0.0, side, 0.0], [150.0, side, 0.0]]) for side in (y + 2.0, y - 2.0)]
        builder.add_lane(lane, *edges, **{f"change_{side}": other for side, other in beside.items()})
    builder.save(tmp_path / "two.pb")
    road = MapAPI(str(tmp_path / "two.pb"), WORLD_TO_ECEF)
    sample = samples_on(road, drive_along_x(20.0))[5]
    rows = sample["lane_rows"].tolist()
    slots = {name: rows.index(row) for row, name in enumerate(road.network.ids.to_list()) if row in rows}
    assert sample["lane_neighbours"][slots["left"]].tolist() == [-1, slots["right"]]
    assert sample["lane_neighbours"][slots["right"]].tolist() == [slots["left"], -1]
