"""Vector samples of single frames: known answers, keys, and the target's own past and future."""

from typing import Any

import numpy as np
import pytest

from l5kit.data.map.api import MapAPI
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError, TrackNotFoundError
from l5kit.kinematic import AckermanPerturbation
from l5kit.random import ReplayRandomGenerator
from l5kit.sampling.agent_sampling_vectorized import generate_agent_sample_vectorized
from l5kit.vectorization.vectorizer import Vectorizer
from support.fixture_s import make_fixture_s
from support.logs import make_log
from support.maps import WORLD_TO_ECEF
from support.tolerances import FLOAT32, FLOAT32_LONG, NETWORK
from support.vectors import make_vector_cfg

KEYS = {
    "extent": ("float64", (3,)),
    "type": ("int64", ()),
    "agent_from_world": ("float64", (3, 3)),
    "world_from_agent": ("float64", (3, 3)),
    "target_positions": ("float32", (5, 2)),
    "target_yaws": ("float32", (5, 1)),
    "target_extents": ("float32", (5, 2)),
    "target_availabilities": ("bool", (5,)),
    "history_positions": ("float32", (4, 2)),
    "history_yaws": ("float32", (4, 1)),
    "history_extents": ("float32", (4, 2)),
    "history_availabilities": ("bool", (4,)),
    "centroid": ("float64", (2,)),
    "yaw": ("float64", ()),
    "speed": ("float32", ()),
    "all_other_agents_history_positions": ("float32", (4, 4, 2)),
    "all_other_agents_history_yaws": ("float32", (4, 4, 1)),
    "all_other_agents_history_extents": ("float32", (4, 4, 2)),
    "all_other_agents_history_availability": ("bool", (4, 4)),
    "all_other_agents_future_positions": ("float32", (4, 5, 2)),
    "all_other_agents_future_yaws": ("float32", (4, 5, 1)),
    "all_other_agents_future_extents": ("float32", (4, 5, 2)),
    "all_other_agents_future_availability": ("bool", (4, 5)),
    "all_other_agents_types": ("int64", (4,)),
    "all_other_agents_track_ids": ("int64", (4,)),
    "agent_trajectory_polyline": ("float32", (4, 3)),
    "agent_polyline_availability": ("bool", (4,)),
    "other_agents_polyline": ("float32", (4, 4, 3)),
    "other_agents_polyline_availability": ("bool", (4, 4)),
    "lanes": ("float32", (6, 20, 3)),
    "lanes_availabilities": ("bool", (6, 20)),
    "lanes_mid": ("float32", (3, 20, 3)),
    "lanes_mid_availabilities": ("bool", (3, 20)),
    "crosswalks": ("float32", (2, 5, 3)),
    "crosswalks_availabilities": ("bool", (2, 5)),
}


@pytest.fixture(scope="module")
def log() -> ChunkedDataset:
    return make_fixture_s()


@pytest.fixture(scope="module")
def map_api(fixture_s_map: str) -> MapAPI:
    return MapAPI(fixture_s_map, WORLD_TO_ECEF)


def sample_at(
    log: ChunkedDataset, map_api: MapAPI, state_index: int, track_id: int | None = None, **options: Any
) -> dict[str, Any]:
    """Return a sample; options are arguments of the function, or keys of the configuration."""
    own = {key: options.pop(key) for key in ("perturbation", "vectorizer", "future_step_size") if key in options}
    cfg = make_vector_cfg(**options)
    model = cfg["model_params"]
    return generate_agent_sample_vectorized(
        state_index,
        log.frames,
        log.agents,
        log.tl_faces,
        track_id,
        model["history_num_frames_ego"],
        model["history_num_frames_agents"],
        model["future_num_frames"],
        model["step_time"],
        cfg["raster_params"]["filter_agents_threshold"],
        own.pop("vectorizer", None) or Vectorizer(cfg, map_api),
        **own,
    )


@pytest.mark.parametrize("track_id", [None, 1])
def test_keys_types_and_shapes(track_id: int | None, log: ChunkedDataset, map_api: MapAPI) -> None:
    sample = sample_at(log, map_api, 15, track_id)
    expected = KEYS if track_id is None else KEYS | {"extent": ("float32", (3,))}
    assert list(sample) == list(expected)
    assert {key: (np.asarray(value).dtype.name, np.shape(value)) for key, value in sample.items()} == expected
    assert type(sample["type"]) is (int if track_id is None else np.int64)
    assert (type(sample["yaw"]), type(sample["speed"])) == (float, np.float32)


def test_known_answers_of_fixture_s(log: ChunkedDataset, map_api: MapAPI) -> None:
    sample = sample_at(log, map_api, 15)
    known: dict[str, tuple[Any, Any]] = {
        "all_other_agents_track_ids": (..., [1, 2, 300, 0]),
        "all_other_agents_types": (..., [3, 3, 7, 0]),
        "all_other_agents_history_positions": (
            (slice(None), 0),
            [(8.404554, -1.270224), (0.691135, -5.464644), (-9.886471, -1.843282), (0, 0)],
        ),
        "history_positions": (..., [(0, 0), (-0.4973743, 0.0549436), (0, 0), (0, 0)]),
        "history_availabilities": (..., [True, True, False, False]),
        "speed": (..., 5.0039983),
        "lanes": (
            (slice(None), 0),
            [
                (-5.893386, 2.616951, 0),
                (-6.416500, -0.843736, 0),
                (-2.501619, -15.088865, 0),
                (0.959067, -15.611979, 0),
                (0, 0, 0),
                (0, 0, 0),
            ],
        ),
        "lanes_mid": (
            (slice(None), [0, -1]),
            [
                [(-6.154943, 0.886607, 3), (10.683998, -1.456478, 3)],
                [(-0.771276, -15.350422, 4), (3.712557, 14.312605, 4)],
                np.zeros((2, 3)),
            ],
        ),
        "crosswalks": (
            0,
            [
                (-2.835083, -3.913499, 0),
                (0.131220, -4.361883, 0),
                (1.326909, 3.548258, 0),
                (-1.639394, 3.996642, 0),
                (0, 0, 0),
            ],
        ),
    }
    for key, (part, value) in known.items():
        np.testing.assert_allclose(np.asarray(sample[key])[part], value, atol=FLOAT32_LONG, err_msg=key)
    assert sample["all_other_agents_history_availability"].all(axis=1).tolist() == [True, True, True, False]
    assert not sample["all_other_agents_history_availability"][3].any()
    assert sample["lanes_availabilities"].sum(axis=1).tolist() == [20, 20, 20, 20, 0, 0]
    assert sample["crosswalks_availabilities"].tolist() == [[True] * 4 + [False], [False] * 5]


@pytest.mark.parametrize(("ego", "agents"), [(0, 0), (0, 3), (3, 0), (2, 3)])
def test_each_history_is_cut_at_its_length(ego: int, agents: int, log: ChunkedDataset, map_api: MapAPI) -> None:
    sample = sample_at(log, map_api, 15, history_num_frames_ego=ego, history_num_frames_agents=agents)
    length = max(ego, agents) + 1
    own, others = np.arange(length) <= ego, np.arange(length) <= agents
    assert sample["history_availabilities"].tolist() == own.tolist()
    assert sample["all_other_agents_history_availability"][0].tolist() == others.tolist()
    for name in ("positions", "yaws", "extents"):
        assert sample[f"history_{name}"].shape[0] == length
        assert not sample[f"history_{name}"][~own].any()
        assert not sample[f"all_other_agents_history_{name}"][:, ~others].any()
    np.testing.assert_array_equal(sample["agent_trajectory_polyline"][:, :2], sample["history_positions"])


def test_the_av_is_a_car_and_an_agent_what_it_most_likely_is(log: ChunkedDataset, map_api: MapAPI) -> None:
    assert sample_at(log, map_api, 15)["type"] == 3
    assert sample_at(log, map_api, 15, 300)["type"] == 7


def test_e3_the_speed_is_that_of_the_next_step_and_0_at_the_end(log: ChunkedDataset, map_api: MapAPI) -> None:
    assert sample_at(log, map_api, 29)["speed"] == 0
    next_m = sample_at(log, map_api, 28)["target_positions"][0]
    assert sample_at(log, map_api, 28)["speed"] == pytest.approx(np.hypot(*next_m) / 0.1, rel=FLOAT32)


def test_e3_without_a_future_the_speed_is_that_of_the_last_step(log: ChunkedDataset, map_api: MapAPI) -> None:
    sample = sample_at(log, map_api, 15, future_num_frames=0)
    assert sample["target_positions"].shape == (0, 2)
    assert sample["speed"] == pytest.approx(np.hypot(0.5, 0.02) / 0.1, rel=FLOAT32)
    cfg = {"future_num_frames": 0, "history_num_frames_ego": 0, "history_num_frames_agents": 0}
    assert sample_at(log, map_api, 15, **cfg)["speed"] == 0


@pytest.mark.parametrize(
    ("track_id", "state_index"),
    [pytest.param(2, 2, id="not there"), pytest.param(7, 15, id="filtered"), pytest.param(-1, 15, id="no id")],
)
def test_d12_an_absent_or_filtered_agent_is_an_index_and_a_value_error(
    track_id: int, state_index: int, log: ChunkedDataset, map_api: MapAPI
) -> None:
    for error in (IndexError, ValueError, TrackNotFoundError):
        with pytest.raises(error, match=str(track_id)):
            sample_at(log, map_api, state_index, track_id)


def test_a_frame_beyond_the_scene_is_an_index_error(log: ChunkedDataset, map_api: MapAPI) -> None:
    with pytest.raises(IndexError, match="state_index 30"):
        sample_at(log, map_api, 30)


@pytest.mark.parametrize(("key", "value"), [("history_num_frames_ego", -1), ("step_time", 0.0)])
def test_values_out_of_range_are_named(key: str, value: Any, log: ChunkedDataset, map_api: MapAPI) -> None:
    vectorizer = Vectorizer(make_vector_cfg(), map_api)
    with pytest.raises(InvalidArgumentError, match=key):
        sample_at(log, map_api, 15, vectorizer=vectorizer, **{key: value})


def test_faces_may_be_none(log: ChunkedDataset, map_api: MapAPI) -> None:
    dark = ChunkedDataset.in_memory(scenes=log.scenes, frames=log.frames, agents=log.agents, tl_faces=log.tl_faces[:0])
    assert sample_at(dark, map_api, 15)["lanes_mid"][0, 0, 2] == 0
    dark.tl_faces = None
    assert sample_at(dark, map_api, 15)["lanes_mid"][0, 0, 2] == 0


def test_the_perturbation_moves_what_is_seen(log: ChunkedDataset, map_api: MapAPI) -> None:
    before = log.frames.tobytes()
    perturbation = AckermanPerturbation(ReplayRandomGenerator(np.array([[1.0, 0.5, 0.1]])), 1.0)
    moved = sample_at(log, map_api, 15, perturbation=perturbation)
    plain = sample_at(log, map_api, 15)
    offset_m = moved["centroid"] - plain["centroid"]
    np.testing.assert_allclose(np.hypot(*offset_m), np.hypot(1, 0.5), atol=NETWORK)
    assert moved["yaw"] == pytest.approx(plain["yaw"] + 0.1, abs=FLOAT32)
    assert np.abs(moved["lanes_mid"][0, 0, :2] - plain["lanes_mid"][0, 0, :2]).max() > 0.1
    assert log.frames.tobytes() == before


def test_an_agent_is_not_perturbed_but_the_av_is_drawn_for(log: ChunkedDataset, map_api: MapAPI) -> None:
    perturbation = AckermanPerturbation(ReplayRandomGenerator(np.array([[1.0, 0.5, 0.1]])), 1.0)
    moved = sample_at(log, map_api, 15, 1, perturbation=perturbation)
    plain = sample_at(log, map_api, 15, 1)
    for key, value in plain.items():
        np.testing.assert_array_equal(moved[key], value, err_msg=key)


def test_strides_leave_frames_out(log: ChunkedDataset, map_api: MapAPI) -> None:
    plain, strided = sample_at(log, map_api, 5), sample_at(log, map_api, 5, future_step_size=2, future_num_frames=2)
    np.testing.assert_array_equal(strided["target_positions"], plain["target_positions"][1:5:2])
    np.testing.assert_array_equal(
        strided["all_other_agents_future_positions"], plain["all_other_agents_future_positions"][:, 1:5:2]
    )
    assert strided["speed"] == pytest.approx(plain["speed"], rel=1e-3)


class OwnVectorizer:
    """A vectorizer of a user that takes single windows only."""

    def __init__(self, inner: Vectorizer) -> None:
        self.inner = inner
        self.num_calls = 0

    def vectorize(self, *window: Any) -> dict[str, Any]:
        self.num_calls += 1
        return self.inner.vectorize(*window)


@pytest.mark.parametrize("track_id", [None, 1])
@pytest.mark.parametrize("state_index", [0, 15, 28])
def test_a_vectorizer_of_ones_own_gets_single_windows(
    state_index: int, track_id: int | None, log: ChunkedDataset, map_api: MapAPI
) -> None:
    own: Any = OwnVectorizer(Vectorizer(make_vector_cfg(), map_api))
    sample = sample_at(log, map_api, state_index, track_id, vectorizer=own)
    assert own.num_calls == 1
    expected = sample_at(log, map_api, state_index, track_id)
    assert list(sample) == list(expected)
    for key, value in expected.items():
        np.testing.assert_array_equal(sample[key], value, err_msg=key)


def test_an_override_of_vectorize_is_honoured(log: ChunkedDataset, map_api: MapAPI) -> None:
    class WithoutLanes(Vectorizer):
        def vectorize(self, *window: Any) -> dict[str, Any]:
            return super().vectorize(*window) | {"lanes": np.zeros(0, np.float32)}

    vectorizer = WithoutLanes(make_vector_cfg(), map_api)
    assert not vectorizer.vectorizes_windows
    assert sample_at(log, map_api, 15, vectorizer=vectorizer)["lanes"].shape == (0,)


@pytest.mark.parametrize("track_id", [None, 1])
def test_an_override_of_vectorize_windows_adds_to_samples_and_batches(
    track_id: int | None, log: ChunkedDataset, map_api: MapAPI
) -> None:
    class WithCounts(Vectorizer):
        def vectorize_windows(self, windows: Any, targets: Any, past: Any) -> dict[str, Any]:
            num_agents = windows.agents.counts[:, 0]
            return super().vectorize_windows(windows, targets, past) | {"num_agents": num_agents}

    vectorizer = WithCounts(make_vector_cfg(), map_api)
    assert vectorizer.vectorizes_windows
    num_agents = np.diff(log.frames[15]["agent_index_interval"])[0]
    sample = sample_at(log, map_api, 15, track_id, vectorizer=vectorizer)
    assert sample["num_agents"] == num_agents > 0
    without = sample_at(log, map_api, 15, track_id)
    assert list(sample) == [*without, "num_agents"]


def test_a_scene_without_agents(map_api: MapAPI) -> None:
    sample = sample_at(make_log([[[], [], []]]), map_api, 1)
    assert sample["history_availabilities"].tolist() == [True, True, False, False]
    assert not sample["all_other_agents_track_ids"].any()
