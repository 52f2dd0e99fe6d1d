"""Surroundings of a target, compared with a slow reference and with cases that can be computed by hand."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from l5kit.data.index.windows import RelativePoses, Targets, WindowRows, Windows
from l5kit.data.map.api import MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.data.records import AGENT_DTYPE, FRAME_DTYPE
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import ConfigError, IndexOutOfRangeError, InvalidArgumentError
from l5kit.sampling.agent_sampling_vectorized import generate_agent_sample_vectorized
from l5kit.vectorization.vectorizer import Vectorizer
from support.fixture_s import make_fixture_s
from support.logs import make_agents, make_faces, make_log
from support.maps import WORLD_TO_ECEF, save_street_map
from support.tolerances import FLOAT32, FLOAT32_LONG
from support.vectors import SlowVectorizer, make_vector_cfg

FLOAT_TOLERANCE = FLOAT32


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> MapAPI:
    return MapAPI(save_street_map(tmp_path_factory.mktemp("street")), WORLD_TO_ECEF)


@pytest.fixture(scope="module")
def empty_map(tmp_path_factory: pytest.TempPathFactory) -> MapAPI:
    path = tmp_path_factory.mktemp("empty") / "empty.pb"
    MapBuilder(WORLD_TO_ECEF).save(path)
    return MapAPI(str(path), WORLD_TO_ECEF)


def sample_at(
    cfg: dict[str, Any],
    log: ChunkedDataset,
    state_index: int,
    track_id: int | None,
    vectorizer: Vectorizer,
    *,
    with_lights: bool = True,
) -> dict[str, Any]:
    model = cfg["model_params"]
    return generate_agent_sample_vectorized(
        state_index,
        log.frames,
        log.agents,
        log.tl_faces if with_lights else log.tl_faces[:0],
        track_id,
        model["history_num_frames_ego"],
        model["history_num_frames_agents"],
        model["future_num_frames"],
        model["step_time"],
        cfg["raster_params"]["filter_agents_threshold"],
        vectorizer,
    )


def assert_equals_slow_one(
    cfg: dict[str, Any], log: ChunkedDataset, map_api: MapAPI, state_index: int, track_id: int | None
) -> None:
    sample = sample_at(cfg, log, state_index, track_id, Vectorizer(cfg, map_api))
    expected = SlowVectorizer(cfg, log, map_api).vectorize(state_index, track_id, sample)
    assert set(expected) <= set(sample)
    for key, value in expected.items():
        assert sample[key].dtype == value.dtype, key
        np.testing.assert_allclose(sample[key], value, rtol=0, atol=FLOAT_TOLERANCE, err_msg=key)


def random_log(seed: int, *, num_frames: int = 7, max_agents: int = 14) -> ChunkedDataset:
    """Return a scene with ids that come and go and occur twice, equal distances, and unlikely labels."""
    rng = np.random.default_rng(seed)
    ids = rng.choice(400, size=max_agents, replace=False) * rng.choice([1, 1, 1, 1 << 40])
    frames = []
    for _ in range(num_frames):
        chosen = rng.choice(ids, size=rng.integers(0, max_agents + 1))
        rows = [
            {
                "track_id": int(track_id),
                "centroid": tuple(rng.integers(-6, 7, size=2) * 1.5),
                "yaw": float(rng.uniform(-3, 3)),
                "probability": float(rng.choice([0.3, 0.5, 0.75, 1.0])),
                "label": int(rng.integers(3, 15)),
            }
            for track_id in chosen
        ]
        frames.append(rows)
    log = make_log([frames])
    faces = ["red", "green", "yellow", "uturn", "unknown", "nowhere"]
    log.tl_faces["face_id"] = rng.choice(faces, size=len(log.tl_faces))
    log.tl_faces["traffic_light_face_status"] = np.eye(3)[rng.integers(0, 3, size=len(log.tl_faces))]
    return log


@settings(max_examples=150)
@given(
    seed=st.integers(0, 10_000),
    state_index=st.integers(0, 6),
    num_agents=st.integers(0, 20),
    history=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    distance=st.sampled_from([0.0, 3.0, 6.0, 100.0]),
    num_lanes=st.integers(0, 12),
    is_about_agent=st.booleans(),
)
def test_samples_equal_those_of_the_slow_reference(
    seed: int,
    state_index: int,
    num_agents: int,
    history: tuple[int, int],
    distance: float,
    num_lanes: int,
    is_about_agent: bool,
    street: MapAPI,
) -> None:
    cfg = make_vector_cfg(
        history_num_frames_ego=history[0],
        history_num_frames_agents=history[1],
        future_num_frames=2,
        other_agents_num=num_agents,
        max_agents_distance=distance,
        max_num_lanes=num_lanes,
        max_retrieval_distance_m=14,
        max_points_per_lane=7,
        max_num_crosswalks=num_lanes % 3,
        max_points_per_crosswalk=num_agents % 7,
    )
    log = random_log(seed)
    first, end = log.frames[state_index]["agent_index_interval"]
    rows = log.agents[first:end]
    usable = rows[rows["label_probabilities"][:, 3:16].sum(axis=1) > 0.5]
    track_id = int(usable["track_id"][0]) if is_about_agent and len(usable) else None
    assert_equals_slow_one(cfg, log, street, state_index, track_id)


@pytest.mark.parametrize("state_index", [0, 2, 15, 29])
@pytest.mark.parametrize("track_id", [None, 1])
def test_fixture_s_equals_the_slow_reference(state_index: int, track_id: int | None, fixture_s_map: str) -> None:
    cfg, log = make_vector_cfg(), make_fixture_s()
    assert_equals_slow_one(cfg, log, MapAPI(fixture_s_map, WORLD_TO_ECEF), state_index, track_id)


def standing(*rows: dict[str, Any], num_frames: int = 2) -> ChunkedDataset:
    """Return a scene in which nothing moves."""
    return make_log([[list(rows)] * num_frames])


def ids_and_sample(
    log: ChunkedDataset, map_api: MapAPI, state_index: int = 0, track_id: int | None = None, **keys: Any
) -> tuple[list[int], Any]:
    cfg = make_vector_cfg(**keys)
    sample = sample_at(cfg, log, state_index, track_id, Vectorizer(cfg, map_api))
    return sample["all_other_agents_track_ids"].tolist(), sample


NEAREST_FIRST = [
    {"track_id": track_id, "centroid": (1.0 + i, 0.0)} for i, track_id in enumerate((5, 300, 2, 77, 1000, 33))
]


def test_h2_other_agents_come_in_the_order_of_a_python_set(empty_map: MapAPI) -> None:
    ids, _ = ids_and_sample(standing(*NEAREST_FIRST), empty_map, other_agents_num=6)
    assert ids == [33, 2, 5, 1000, 300, 77]


def test_h2_on_demand_other_agents_come_closest_first(empty_map: MapAPI) -> None:
    keys = {"other_agents_num": 6, "order_agents_by_distance": True}
    assert ids_and_sample(standing(*NEAREST_FIRST), empty_map, **keys)[0] == [5, 300, 2, 77, 1000, 33]


def test_agents_of_the_past_come_behind_those_of_the_current_frame(empty_map: MapAPI) -> None:
    gone, there = {"track_id": 8, "centroid": (1.0, 0.0)}, {"track_id": 9, "centroid": (5.0, 0.0)}
    log = make_log([[[gone, there], [there]]])
    keys = {"other_agents_num": 2, "order_agents_by_distance": True}
    ids, sample = ids_and_sample(log, empty_map, 1, **keys)
    assert ids == [9, 8]
    assert sample["all_other_agents_history_availability"][:, :2].tolist() == [[True, True], [False, True]]
    assert ids_and_sample(log, empty_map, 1, other_agents_num=1)[0] == [9]


def test_h6_agents_at_one_distance_keep_their_order(empty_map: MapAPI) -> None:
    rows = [{"track_id": track_id, "centroid": place} for track_id, place in ((4, (0, 3)), (9, (3, 0)), (1, (0, -3)))]
    keys = {"other_agents_num": 2, "order_agents_by_distance": True}
    assert ids_and_sample(standing(*rows), empty_map, **keys)[0] == [4, 9]


def test_an_agent_of_the_past_that_stands_is_met_where_it_was_last(empty_map: MapAPI) -> None:
    standing_on = [{"track_id": track_id, "centroid": place} for track_id, place in ((8, (5.0, 0.0)), (9, (0.0, 5.0)))]
    log = make_log([[standing_on[:1], standing_on, []]])
    for num_agents, expected in ((1, [8]), (2, [8, 9])):
        keys = {"other_agents_num": num_agents, "order_agents_by_distance": True}
        assert ids_and_sample(log, empty_map, 2, **keys)[0] == expected


def test_h1_the_configured_threshold_filters_other_agents(empty_map: MapAPI) -> None:
    log = standing({"track_id": 1, "probability": 0.4}, {"track_id": 2, "probability": 0.7})
    assert ids_and_sample(log, empty_map)[0] == [2, 0, 0, 0]
    assert sorted(ids_and_sample(log, empty_map, filter_agents_threshold=0.3)[0]) == [0, 0, 1, 2]
    assert ids_and_sample(log, empty_map, filter_agents_threshold=0.7)[0] == [0, 0, 0, 0]


def test_h1_the_threshold_is_a_half_where_the_configuration_has_none(empty_map: MapAPI) -> None:
    cfg = make_vector_cfg()
    del cfg["raster_params"]["filter_agents_threshold"]
    assert Vectorizer(cfg, empty_map).filter_agents_threshold == 0.5
    del cfg["raster_params"]
    assert Vectorizer(cfg, empty_map).filter_agents_threshold == 0.5


def test_h3_the_av_is_not_among_the_other_agents_of_an_agent(empty_map: MapAPI) -> None:
    log = standing({"track_id": 1, "centroid": (3.0, 0.0)}, {"track_id": 2, "centroid": (4.0, 0.0)})
    assert ids_and_sample(log, empty_map, track_id=1)[0] == [2, 0, 0, 0]


def test_h4_the_type_is_that_of_the_newest_observation(empty_map: MapAPI) -> None:
    far = {"track_id": 1, "centroid": (9.0, 0.0), "label": 14}
    near = {"track_id": 1, "centroid": (2.0, 0.0), "label": 12}
    _, sample = ids_and_sample(make_log([[[near], [far]]]), empty_map, 1)
    assert sample["all_other_agents_types"].tolist() == [14, 0, 0, 0]


def test_h11_rows_without_an_agent_are_known_by_their_availability(empty_map: MapAPI) -> None:
    _, sample = ids_and_sample(standing({"track_id": 1}), empty_map)
    assert sample["all_other_agents_history_availability"].any(axis=1).tolist() == [True, False, False, False]
    for key in ("history_positions", "history_yaws", "history_extents", "future_positions", "types", "track_ids"):
        assert not sample[f"all_other_agents_{key}"][1:].any(), key


def test_the_distance_is_a_strict_bound_and_from_the_current_place(empty_map: MapAPI) -> None:
    log = standing({"track_id": 1, "centroid": (3.0, 4.0)}, {"track_id": 2, "centroid": (0.0, 4.9)})
    assert ids_and_sample(log, empty_map, max_agents_distance=5)[0] == [2, 0, 0, 0]
    assert sorted(ids_and_sample(log, empty_map, max_agents_distance=np.nextafter(5.0, 6))[0]) == [0, 0, 1, 2]


def test_poses_are_those_in_the_frame_of_the_target(empty_map: MapAPI) -> None:
    target = {"track_id": 1, "centroid": (10.0, 0.0), "yaw": np.pi / 2}
    other = {"track_id": 2, "centroid": (10.0, 3.0), "yaw": np.pi, "extent": (5.0, 2.5, 1.0)}
    _, sample = ids_and_sample(standing(target, other), empty_map, track_id=1)
    np.testing.assert_allclose(sample["all_other_agents_history_positions"][0, 0], (3, 0), atol=FLOAT32)
    np.testing.assert_allclose(sample["all_other_agents_history_yaws"][0, 0], np.pi / 2, atol=FLOAT32)
    np.testing.assert_allclose(sample["all_other_agents_future_positions"][0, 0], (3, 0), atol=FLOAT32)
    assert sample["all_other_agents_history_extents"][0, 0].tolist() == [5.0, 2.5]
    assert sample["all_other_agents_future_availability"][0].tolist() == [True, False, False, False, False]
    pose = *sample["all_other_agents_history_positions"][0, 0], *sample["all_other_agents_history_yaws"][0, 0]
    assert tuple(sample["other_agents_polyline"][0, 0]) == pose


def test_rows_are_those_of_the_first_row_of_a_track_in_a_frame(empty_map: MapAPI) -> None:
    log = standing({"track_id": 1, "centroid": (3.0, 0.0)}, {"track_id": 1, "centroid": (1.0, 0.0)})
    _, sample = ids_and_sample(log, empty_map)
    assert sample["all_other_agents_history_positions"][0, 0].tolist() == [3.0, 0.0]


def lane_states(log: ChunkedDataset, street: MapAPI, active: list[str], **options: Any) -> dict[str, float]:
    """Return the third value of the midlines near the origin by lane, with faces active in the current frame."""
    off = make_faces(red=0)
    lit = make_log([[[]]], faces=[np.concatenate([make_faces(*active), off])])
    cfg = make_vector_cfg(max_num_lanes=9, max_retrieval_distance_m=100)
    sample = sample_at(cfg, lit, 0, None, Vectorizer(cfg, street), **options)
    middles = {round(float(line[0, 1])): float(line[0, 2]) for line in sample["lanes_mid"]}
    return {lane: middles[round(4 * int(lane[1:]) - 12)] for lane in ("L0", "L1", "L2", "L3", "L6")}


NO_FACES = {"L0": 0, "L1": 4, "L2": 4, "L3": 0, "L6": 0}


@pytest.mark.parametrize(
    ("active", "changed"),
    [
        pytest.param([], {}, id="none is active"),
        pytest.param(["green"], {"L0": 1}, id="green"),
        pytest.param(["yellow", "green"], {"L0": 2}, id="yellow before green"),
        pytest.param(["red", "yellow"], {"L0": 3}, id="red before yellow"),
        pytest.param(["uturn"], {"L3": 3}, id="h7 a U-turn"),
        pytest.param(["unknown", "nowhere"], {}, id="ids that the map does not have"),
    ],
)
def test_h7_states_of_lights(active: list[str], changed: dict[str, int], street: MapAPI) -> None:
    assert lane_states(make_log([[[]]]), street, active) == NO_FACES | changed


def test_without_traffic_lights_all_lights_are_off(street: MapAPI) -> None:
    assert lane_states(make_log([[[]]]), street, ["green"], with_lights=False) == NO_FACES


def test_h8_points_beyond_the_radius_keep_their_coordinates(street: MapAPI) -> None:
    _, sample = ids_and_sample(make_log([[[]]]), street, max_retrieval_distance_m=15, max_num_lanes=9)
    distances = np.linalg.norm(sample["lanes_mid"][..., :2], axis=-1)
    written = (distances > 0).all(axis=1)
    assert written.sum() == 8  # the last lane lies further away
    np.testing.assert_array_equal(sample["lanes_mid_availabilities"][written], distances[written] < 15)
    assert (~sample["lanes_mid_availabilities"][written]).any()


def test_h8_a_point_of_a_lane_at_the_radius_is_beyond_it(tmp_path: Path) -> None:
    builder = MapBuilder(np.eye(4))
    line = np.array([[1.0, 0.0, 0.0], [3.0, 4.0, 0.0]])
    builder.add_lane("A", line + [[0, 1, 0]], line - [[0, 1, 0]])
    builder.save(tmp_path / "map.pb")
    one_lane, log = MapAPI(str(tmp_path / "map.pb"), np.eye(4)), make_log([[[]]])
    _, sample = ids_and_sample(log, one_lane, max_points_per_lane=2)
    x, y, _ = sample["lanes_mid"][0, 1]
    distance_m = np.sqrt(x * x + y * y)
    assert (distance_m.dtype, round(float(distance_m), 2)) == (np.float32, 5.0)
    for radius_m, is_there in ((distance_m, False), (np.nextafter(distance_m, np.float32(9)), True)):
        _, sample = ids_and_sample(log, one_lane, max_points_per_lane=2, max_retrieval_distance_m=float(radius_m))
        assert sample["lanes_mid_availabilities"][0, :2].tolist() == [True, is_there]


def test_h5_crosswalks_come_in_file_order_and_are_cut(street: MapAPI) -> None:
    _, sample = ids_and_sample(make_log([[[]]]), street, max_num_crosswalks=3, max_points_per_crosswalk=4)
    np.testing.assert_allclose(sample["crosswalks"][:2, 0, 0], (6, -10), atol=0.02)
    assert sample["crosswalks_availabilities"].tolist() == [[True] * 4, [True] * 4, [False] * 4]


def test_h6_lanes_at_one_distance_come_in_file_order(tmp_path: Path) -> None:
    builder = MapBuilder(np.eye(4))
    for lane, y in (("A", -6.0), ("B", 6.0), ("C", 2.0)):
        line = np.array([[-4.0, y, 0.0], [4.0, y, 0.0]])
        builder.add_lane(lane, line + [[0, 1, 0]], line - [[0, 1, 0]])
    builder.save(tmp_path / "map.pb")
    lines = MapAPI(str(tmp_path / "map.pb"), np.eye(4))
    distances = np.linalg.norm(lines.lane_lines(3).xyz_midlane[..., :2], axis=-1).min(axis=1)
    cfg = make_vector_cfg(max_points_per_lane=3)
    sample = sample_at(cfg, make_log([[[]]]), 0, None, Vectorizer(cfg, lines))
    order = np.argsort(distances, kind="stable")
    np.testing.assert_allclose(
        sample["lanes_mid"][..., :2], lines.lane_lines(3).xyz_midlane[order, :, :2], atol=FLOAT32_LONG
    )


def test_h6_of_lanes_at_one_distance_the_first_are_kept(tmp_path: Path) -> None:
    line = np.array([[-4.0, 3.0, 0.0], [4.0, 3.0, 0.0]])
    found = {}
    for lanes in ("A", "B", "AB", "BA"):
        builder = MapBuilder(np.eye(4))
        builder.add_traffic_light("T0", np.array([10.0, 0.0, 4.0]))
        for lane in lanes:
            builder.add_lane(lane, line + [[0, 1, 0]], line, traffic_controls=["T0"] if lane == "A" else [])
        builder.save(tmp_path / f"{lanes}.pb")
        twins = MapAPI(str(tmp_path / f"{lanes}.pb"), np.eye(4))
        _, sample = ids_and_sample(make_log([[[]]]), twins, max_num_lanes=1, max_points_per_lane=3)
        found[lanes] = sample["lanes_mid"][0].tolist()
    assert found["A"] != found["B"]  # the third value is the light
    assert (found["AB"], found["BA"]) == (found["A"], found["B"])


def test_h10_too_few_points_are_refused_at_construction(street: MapAPI) -> None:
    with pytest.raises(ConfigError, match=r"data_generation_params\.lane_params\.max_points_per_lane: expected .* 2"):
        Vectorizer(make_vector_cfg(max_points_per_lane=1), street)


@pytest.mark.parametrize("num_agents", [0, 1])
def test_a_map_without_lanes_and_frames_without_agents(num_agents: int, empty_map: MapAPI) -> None:
    _, sample = ids_and_sample(make_log([[[], [], []]]), empty_map, 1, other_agents_num=num_agents)
    for key in ("lanes", "lanes_mid", "crosswalks", "lanes_availabilities", "crosswalks_availabilities"):
        assert sample[key].size > 0
        assert not sample[key].any()
    assert sample["all_other_agents_history_positions"].shape == (num_agents, 4, 2)
    assert not sample["all_other_agents_history_availability"].any()


def test_far_from_the_map_there_is_none_of_it(street: MapAPI) -> None:
    log = make_log([[[]]])
    log.frames["ego_translation"] = 1e6
    _, sample = ids_and_sample(log, street)
    assert not sample["lanes_availabilities"].any()
    assert not sample["lanes"].any()


def test_other_agents_num_is_read_at_every_call(empty_map: MapAPI) -> None:
    cfg = make_vector_cfg()
    vectorizer = Vectorizer(cfg, empty_map)
    vectorizer.other_agents_num = 2
    sample = sample_at(cfg, standing(*NEAREST_FIRST), 0, None, vectorizer)
    assert sorted(sample["all_other_agents_track_ids"].tolist()) == [5, 300]
    vectorizer.other_agents_num = -1
    with pytest.raises(InvalidArgumentError, match="other_agents_num must be 0 or more, got -1"):
        sample_at(cfg, standing(*NEAREST_FIRST), 0, None, vectorizer)


def test_attributes_of_1_5(empty_map: MapAPI) -> None:
    cfg = make_vector_cfg()
    vectorizer = Vectorizer(cfg, empty_map)
    assert vectorizer.mapAPI is empty_map
    assert dict(vectorizer.lane_cfg_params) == cfg["data_generation_params"]["lane_params"]
    assert vectorizer.max_agents_distance == 35
    assert (vectorizer.history_num_frames_agents, vectorizer.history_num_frames_max) == (3, 3)
    assert (vectorizer.future_num_frames, vectorizer.other_agents_num) == (5, 4)
    with pytest.raises(TypeError):
        vectorizer.lane_cfg_params["max_num_lanes"] = 5  # type: ignore[index]


def call_of_1_5(vectorizer: Any, log: ChunkedDataset, sample: dict[str, Any], num_history: int = 4) -> Any:
    """Call ``vectorize`` with one window, the way 1.5 does, for the AV of frame 15 of fixture S."""
    history, future = log.frames[15 : 15 - num_history : -1], log.frames[16:21]
    return vectorizer.vectorize(
        None,
        sample["centroid"],
        sample["yaw"],
        sample["agent_from_world"],
        history,
        [log.agents[slice(*frame["agent_index_interval"])] for frame in history],
        [log.tl_faces[slice(*frame["traffic_light_faces_index_interval"])] for frame in history],
        sample["history_positions"],
        sample["history_yaws"],
        sample["history_availabilities"],
        future,
        [log.agents[slice(*frame["agent_index_interval"])] for frame in future],
    )


@pytest.fixture(scope="module")
def around_s(fixture_s_map: str) -> tuple[Vectorizer, ChunkedDataset, dict[str, Any]]:
    cfg, log = make_vector_cfg(), make_fixture_s()
    vectorizer = Vectorizer(cfg, MapAPI(fixture_s_map, WORLD_TO_ECEF))
    return vectorizer, log, sample_at(cfg, log, 15, None, vectorizer)


def test_a_single_window_gives_what_the_sample_holds(around_s: Any) -> None:
    vectorizer, log, sample = around_s
    before = log.agents.tobytes()
    found = call_of_1_5(vectorizer, log, sample)
    assert set(found) < set(sample)
    for key, value in found.items():
        np.testing.assert_array_equal(value, sample[key], err_msg=key)
    assert log.agents.tobytes() == before
    assert log.agents.flags.writeable


def test_more_frames_than_fit_are_an_index_error(around_s: Any) -> None:
    vectorizer, log, sample = around_s
    with pytest.raises(IndexError, match="5 history and 5 future frames do not fit into samples of 4 and 5 frames"):
        call_of_1_5(vectorizer, log, sample, num_history=5)


def test_a_vectorizer_for_fewer_frames_than_the_sample_is_an_index_error(around_s: Any, empty_map: MapAPI) -> None:
    _, log, _ = around_s
    with pytest.raises(IndexOutOfRangeError, match="build the vectorizer from the configuration of the samples"):
        sample_at(make_vector_cfg(), log, 15, None, Vectorizer(make_vector_cfg(future_num_frames=4), empty_map))


def pickled(vectorizer: Vectorizer) -> Any:
    return pickle.loads(pickle.dumps(vectorizer))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled], ids=lambda function: function.__name__)
def test_copies_give_the_same(copied: Any, around_s: Any) -> None:
    vectorizer, log, sample = around_s
    other = copied(vectorizer)
    other.other_agents_num = 4
    for key, value in call_of_1_5(other, log, sample).items():
        np.testing.assert_array_equal(value, sample[key], err_msg=key)


def test_a_pickled_vectorizer_is_small(around_s: Any) -> None:
    assert len(pickle.dumps(around_s[0])) < 3000


def test_arrays_of_samples_share_no_memory(around_s: Any) -> None:
    sample = around_s[2]
    arrays = [(key, value) for key, value in sample.items() if isinstance(value, np.ndarray)]
    shared = [(a, b) for i, (a, x) in enumerate(arrays) for b, y in arrays[:i] if np.shares_memory(x, y)]
    assert shared == []
    assert all(value.flags.writeable for _, value in arrays)


@pytest.mark.parametrize("num_past", [0, 2])
def test_pasts_of_another_number_of_windows_are_refused(num_past: int) -> None:
    rows = WindowRows.from_frames([np.empty(0, AGENT_DTYPE)], np.dtype(AGENT_DTYPE))
    windows = Windows(np.zeros((1, 1), FRAME_DTYPE), np.array([[1], [0]]), rows, rows, 1)
    target = Targets(None, None, np.zeros((1, 2)), np.zeros(1), np.zeros((1, 3)))
    vectorizer = object.__new__(Vectorizer)
    vectorizer.history_num_frames_max = vectorizer.future_num_frames = 0
    past = RelativePoses.new(np.zeros, num_past, 1, availabilities=np.bool_)
    with pytest.raises(InvalidArgumentError, match=f"got 1, 1 and {num_past}"):
        vectorizer.vectorize_windows(windows, target, past)


def test_agent_rows_of_tests_are_what_they_are_called() -> None:
    assert make_agents({"track_id": 7, "label": 14})["label_probabilities"].argmax() == 14
