"""Vector datasets: items, batches, loaders, scenes, agents masks and the agents of SafePathNet."""

import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.map.api import MapAPI
from l5kit.data.records import TL_FACE_DTYPE
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import EgoAgentDatasetVectorized, EgoDatasetVectorized, collate, loader
from l5kit.dataset.sample_batch import SampleBatch
from l5kit.errors import ConfigError, InvalidArgumentError, SampleError
from l5kit.kinematic import AckermanPerturbation
from l5kit.random import GaussianRandomGenerator
from l5kit.sampling.agent_sampling_vectorized import generate_agent_sample_vectorized
from l5kit.vectorization.vectorizer import Vectorizer
from l5kit.vectorization.vectorizer_builder import build_vectorizer
from support.fixture_s import make_fixture_s, save_fixture_s
from support.logs import make_log, make_several_scenes_log
from support.maps import FIXTURE_S_MAP, WORLD_TO_ECEF, save_street_map
from support.samples import assert_samples_equal
from support.tolerances import FLOAT32
from support.vectors import make_vector_cfg

BOTH = pytest.mark.parametrize("cls", [EgoDatasetVectorized, EgoAgentDatasetVectorized])
AGENT_KEYS = {
    "history_positions": "history_positions",
    "history_yaws": "history_yaws",
    "history_extents": "history_extents",
    "history_availability": "history_availabilities",
    "future_positions": "target_positions",
    "future_yaws": "target_yaws",
    "future_extents": "target_extents",
    "types": "type",
    "track_ids": "track_id",
}


@pytest.fixture(scope="module")
def map_api(tmp_path_factory: pytest.TempPathFactory) -> MapAPI:
    return MapAPI(save_street_map(tmp_path_factory.mktemp("street")), WORLD_TO_ECEF)


@pytest.fixture(scope="module")
def several_scenes(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("log") / "several.zarr"
    make_several_scenes_log().save(path)
    return str(path)


def long_cfg(**overrides: Any) -> dict[str, Any]:
    """Return a configuration with as much history as the futures of other agents need."""
    return make_vector_cfg(**({"history_num_frames_ego": 11, "history_num_frames_agents": 11} | overrides))


def make_dataset(cls: Any, cfg: dict[str, Any], log: ChunkedDataset, map_api: MapAPI, **options: Any) -> Any:
    """Return a dataset without the warnings about masks and short histories."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return cls(cfg, log, Vectorizer(cfg, map_api), **options)


def make_batch(dataset: Any, indices: Any) -> SampleBatch:
    """Return samples made at once: a warning that they were made one by one is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch = dataset.__getitems__(indices)
    assert type(batch) is SampleBatch
    return batch


def assert_batch_holds_the_samples(dataset: Any, indices: Any) -> None:
    for sample, index in zip(make_batch(dataset, indices), indices, strict=True):
        expected = dataset[index]
        assert_samples_equal(sample, expected)
        types = [{key: type(value) for key, value in values.items()} for values in (sample, expected)]
        assert types[0] == types[1]


def test_a_sample_is_that_of_the_function_with_its_origin(map_api: MapAPI) -> None:
    cfg, log = make_vector_cfg(), make_several_scenes_log()
    dataset = make_dataset(EgoDatasetVectorized, cfg, log, map_api)
    assert len(dataset) == 37
    start, stop = log.scenes[3]["frame_index_interval"]
    sample = generate_agent_sample_vectorized(
        4, log.frames[start:stop], log.agents, log.tl_faces, None, 1, 3, 5, 0.1, 0.5, dataset.vectorizer
    )
    found = dataset[int(start) + 4]
    assert list(found) == [*sample, "scene_index", "host_id", "timestamp", "track_id"]
    assert_samples_equal({key: found[key] for key in sample}, sample)
    assert (found["scene_index"], found["track_id"]) == (3, -1)
    assert found["timestamp"] == log.frames["timestamp"][start + 4]
    assert bytes(found["host_id"][:6]) == b"host-3"


@BOTH
@pytest.mark.parametrize("history", [0, 1, 3, 12])
@pytest.mark.parametrize("other_agents_num", [1, 2, 9])
def test_batches_hold_the_samples(cls: Any, history: int, other_agents_num: int, map_api: MapAPI) -> None:
    cfg = make_vector_cfg(
        history_num_frames_ego=history, history_num_frames_agents=history // 2, other_agents_num=other_agents_num
    )
    dataset = make_dataset(cls, cfg, make_several_scenes_log(), map_api)
    assert_batch_holds_the_samples(dataset, np.random.default_rng(1).permutation(len(dataset)).tolist())


@BOTH
@pytest.mark.parametrize("opening", [{"cached": False}, {"cache_size_bytes": 2000}, {"cached": "mmap"}], ids=str)
def test_logs_of_all_kinds(cls: Any, opening: dict[str, Any], several_scenes: str, map_api: MapAPI) -> None:
    cfg = long_cfg()
    dataset = make_dataset(cls, cfg, ChunkedDataset(several_scenes).open(**opening), map_api)
    in_memory = make_dataset(cls, cfg, make_several_scenes_log(), map_api)
    indices = list(range(len(dataset)))
    for sample, expected in zip(make_batch(dataset, indices), make_batch(in_memory, indices), strict=True):
        assert_samples_equal(sample, expected)
    assert_batch_holds_the_samples(dataset, [36, 0, -5, 20, 20])


@BOTH
def test_a_log_without_agents(cls: Any, map_api: MapAPI) -> None:
    dataset = make_dataset(cls, long_cfg(), make_log([[[], [], []]]), map_api)
    assert_batch_holds_the_samples(dataset, [0, 1, 2])
    assert dataset[1]["all_other_agents_track_ids"].any() == (cls is EgoAgentDatasetVectorized)


@BOTH
def test_a_log_without_traffic_lights(cls: Any, map_api: MapAPI) -> None:
    log = make_several_scenes_log()
    log.tl_faces = np.empty(0, TL_FACE_DTYPE)
    assert_batch_holds_the_samples(make_dataset(cls, long_cfg(), log, map_api), [3, 1])


@BOTH
def test_traffic_lights_are_switched_off_after_construction(cls: Any, fixture_s_map: str) -> None:
    cfg = long_cfg()
    dataset = make_dataset(cls, cfg, make_fixture_s(), MapAPI(fixture_s_map, WORLD_TO_ECEF))
    assert dataset[15]["lanes_mid"][0, 0, 2] == 3
    cfg["raster_params"]["disable_traffic_light_faces"] = True
    assert dataset[15]["lanes_mid"][0, 0, 2] == 0
    assert_batch_holds_the_samples(dataset, [15, 3])


@BOTH
def test_errors_of_samples(cls: Any, map_api: MapAPI) -> None:
    dataset = make_dataset(cls, long_cfg(), make_several_scenes_log(), map_api)
    with pytest.raises(IndexError, match="index 37 is out of range"):
        dataset[37]
    with pytest.raises(ValueError, match="before the start"):
        dataset[-38]
    dataset.vectorizer.future_num_frames = 3
    with pytest.raises(SampleError, match=r"sample 4 .*build the vectorizer from the configuration"):
        dataset[4]


@BOTH
def test_wrong_arguments_are_refused(cls: Any, map_api: MapAPI) -> None:
    cfg, log = long_cfg(), make_several_scenes_log()
    for vectorizer in (None, "map.pb"):
        with pytest.raises(InvalidArgumentError, match="vectorizer must have"):
            cls(cfg, log, vectorizer)
    with pytest.raises(InvalidArgumentError, match="perturbation must have a method perturb"):
        cls(cfg, log, Vectorizer(cfg, map_api), perturbation=0.5)
    del cfg["model_params"]["step_time"]
    with pytest.raises(ConfigError, match=r"model_params\.step_time"):
        cls(cfg, log, Vectorizer(cfg, map_api))


@BOTH
def test_agents_by_track_and_scenes_by_number(cls: Any, map_api: MapAPI) -> None:
    dataset = make_dataset(cls, long_cfg(), make_several_scenes_log(), map_api)
    sample = dataset.get_frame(0, 12, track_id=2)
    assert (sample["track_id"], sample["type"]) == (2, 3)
    assert type(sample["type"]) is np.int64
    rows = sample["all_other_agents_track_ids"]
    assert rows.tolist() == [1] + [0] * (len(rows) - 1)
    assert dataset.get_scene_indices(3).tolist() == list(range(21, 37))
    assert dataset.get_frame_indices(-1).tolist() == [36]
    scene = dataset.get_scene_dataset(3)
    assert (type(scene), len(scene)) == (cls, 16)
    expected = dataset[25] | {"scene_index": 0}
    assert_samples_equal(scene[4], expected)
    with pytest.raises(ValueError, match="4"):
        dataset.get_scene_dataset(4)


@BOTH
def test_collated_batches_are_what_torch_makes_of_the_samples(cls: Any, map_api: MapAPI) -> None:
    dataset = make_dataset(cls, long_cfg(), make_several_scenes_log(), map_api)
    batch = collate(make_batch(dataset, [3, 30, 21]))
    expected = torch.utils.data.default_collate([dataset[index] for index in (3, 30, 21)])
    assert list(batch) == list(expected)
    for key, value in expected.items():
        assert batch[key].dtype == value.dtype, key
        assert torch.equal(batch[key], value), key


@BOTH
def test_out_may_be_any_batch_as_there_are_no_pictures(cls: Any, map_api: MapAPI) -> None:
    dataset = make_dataset(cls, long_cfg(), make_several_scenes_log(), map_api)
    out = make_batch(dataset, [1, 2])
    for sample, index in zip(dataset.__getitems__([5, 6], out=out), (5, 6), strict=True):
        assert_samples_equal(sample, dataset[index])
    with pytest.raises(InvalidArgumentError, match="out must be a batch"):
        dataset.__getitems__([5, 6], out=[{}])


def perturbed() -> AckermanPerturbation:
    return AckermanPerturbation(GaussianRandomGenerator(np.zeros(3), np.ones(3)), 0.7)


@BOTH
def test_perturbations_draw_the_numbers_of_single_items_in_order(cls: Any, map_api: MapAPI) -> None:
    perturbation = perturbed()
    dataset = make_dataset(cls, long_cfg(), make_several_scenes_log(), map_api, perturbation=perturbation)
    indices = list(range(15))
    perturbation.reseed(5)
    batch = make_batch(dataset, indices)
    perturbation.reseed(5)
    for sample, index in zip(batch, indices, strict=True):
        assert_samples_equal(sample, dataset[index])
    assert 2 < sum(bool(sample["centroid"].any()) for sample in batch) < 15


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with fixture S and its map."""
    folder: Path = tmp_path_factory.mktemp("data")
    save_fixture_s(folder)
    (folder / "semantic_map.pb").write_bytes(FIXTURE_S_MAP)
    (folder / "meta.json").write_text(json.dumps({"world_to_ecef": WORLD_TO_ECEF.tolist()}))
    return folder


def open_dataset(cls: Any, folder: Path, **options: Any) -> Any:
    cfg = long_cfg()
    vectorizer = build_vectorizer(cfg, LocalDataManager(str(folder)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return cls(cfg, ChunkedDataset(str(folder / "fixture_s.zarr")).open(), vectorizer, **options)


@pytest.mark.process
@BOTH
def test_threads_and_processes_load_the_same_batches(cls: Any, data_folder: Path) -> None:
    dataset = open_dataset(cls, data_folder, perturbation=perturbed())
    assert dataset.hands_on_perturbation
    ways: list[dict[str, Any]] = [{"threads": 1}, {"threads": 3}, {"num_workers": 2}]
    loaded = [list(loader(dataset, 8, shuffle=True, seed=3, **way)) for way in ways]
    assert [len(batches) for batches in loaded] == [4, 4, 4]
    for batches in loaded[1:]:
        for batch, expected in zip(batches, loaded[0], strict=True):
            assert all(torch.equal(batch[key], value) for key, value in expected.items())
    assert len({int(timestamp) for batch in loaded[0] for timestamp in batch["timestamp"]}) == 30


@pytest.mark.long
@pytest.mark.process
@BOTH
def test_workers_of_a_dataloader_make_batches(cls: Any, data_folder: Path) -> None:
    dataset = open_dataset(cls, data_folder)
    for batch, start in zip(DataLoader(dataset, batch_size=10, num_workers=2), (0, 10, 20), strict=True):
        expected = collate(make_batch(dataset, range(start, start + 10)))
        assert all(torch.equal(batch[key], value) for key, value in expected.items())


@BOTH
def test_d21_another_process_reads_map_log_and_mask_itself(cls: Any, data_folder: Path) -> None:
    dataset = open_dataset(cls, data_folder)
    data = pickle.dumps(dataset)
    assert len(data) < 20_000
    other = pickle.loads(data)
    assert other.sample_function.vectorizer is other.vectorizer
    assert_samples_equal(other[15], dataset[15])


def ego_agent(log: ChunkedDataset, map_api: MapAPI, **options: Any) -> Any:
    keys = {key: options.pop(key) for key in list(options) if key in ("other_agents_num", "future_num_frames")}
    return make_dataset(EgoAgentDatasetVectorized, long_cfg(**keys), log, map_api, **options)


def test_the_av_is_the_first_agent(map_api: MapAPI) -> None:
    log = make_several_scenes_log()
    sample = ego_agent(log, map_api)[13]
    plain = make_dataset(EgoDatasetVectorized, long_cfg(other_agents_num=3), log, map_api)[13]
    for key, av_key in AGENT_KEYS.items():
        found, others = sample[f"all_other_agents_{key}"], plain[f"all_other_agents_{key}"]
        assert found.dtype == others.dtype
        assert found.shape == (4, *others.shape[1:])
        np.testing.assert_array_equal(found, np.concatenate([np.asarray(plain[av_key])[None], others]), err_msg=key)
    for key, av_key in (("", "agent_trajectory_polyline"), ("_availability", "agent_polyline_availability")):
        expected = np.concatenate([plain[av_key][None], plain[f"other_agents_polyline{key}"]])
        np.testing.assert_array_equal(sample[f"other_agents_polyline{key}"], expected)
    assert sample["all_other_agents_track_ids"].tolist() == [-1, 1, 2, 0]
    assert sample["all_valid_agents_track_ids"].dtype == np.float64
    assert sample["all_valid_agents_track_ids"].tolist() == [0.0] * 50


@pytest.mark.parametrize(
    ("state_index", "is_target"),
    [
        pytest.param(9, [False, False, False], id="10 known steps are too few"),
        pytest.param(10, [True, True, True], id="11 known steps are enough"),
        pytest.param(17, [True, True, True], id="2 future steps are enough"),
        pytest.param(18, [False, False, False], id="1 future step is too few"),
    ],
)
def test_d8_futures_need_more_than_10_known_steps_and_more_than_1_to_come(
    state_index: int, is_target: list[bool], map_api: MapAPI
) -> None:
    sample = ego_agent(make_several_scenes_log(), map_api)[state_index]
    assert sample["all_other_agents_future_availability"][:3].any(axis=1).tolist() == is_target
    assert sample["target_availabilities"].any()


def test_d8_too_short_a_history_is_warned_about(map_api: MapAPI) -> None:
    cfg = long_cfg(history_num_frames_ego=9, history_num_frames_agents=3)
    with pytest.warns(RuntimeWarning, match="no agent has a future: .* 10 known steps of history, samples have 10"):
        dataset = EgoAgentDatasetVectorized(cfg, make_several_scenes_log(), Vectorizer(cfg, map_api))
    assert not any(sample["all_other_agents_future_availability"].any() for sample in dataset)


def test_d3_the_vectorizer_that_is_passed_stays_as_it_is(map_api: MapAPI) -> None:
    cfg, log = long_cfg(), make_several_scenes_log()
    vectorizer = Vectorizer(cfg, map_api)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        first, second = (EgoAgentDatasetVectorized(cfg, log, vectorizer) for _ in range(2))
    scene = first.get_scene_dataset(0).get_scene_dataset(0)
    assert vectorizer.other_agents_num == 4
    for dataset in (first, second, scene):
        assert dataset[12]["all_other_agents_track_ids"].shape == (4,)


def test_d3_there_must_be_a_row_for_the_av(map_api: MapAPI) -> None:
    with pytest.raises(InvalidArgumentError, match="other_agents_num of 1 or more"):
        ego_agent(make_several_scenes_log(), map_api, other_agents_num=0)


EVALUATED = 12
"""A frame that the first and the last scene have."""


def log_for_evaluation() -> ChunkedDataset:
    """Return two scenes of 30 and 20 frames, whose tracks come and go, and 70 that stay in the second one."""
    first = [[{"track_id": 5}] + ([{"track_id": 9, "centroid": (3, k)}] if k < 14 else []) for k in range(30)]
    second = [[{"track_id": track_id} for track_id in range(100, 170)] for _ in range(20)]
    return make_log([first, second])


def evaluation(map_api: MapAPI, log: ChunkedDataset | None = None, **options: Any) -> Any:
    options = {"eval_mode": True, "eval_frame_index": EVALUATED} | options
    return ego_agent(log_for_evaluation() if log is None else log, map_api, **options)


def test_evaluation_shows_one_frame_of_each_scene(map_api: MapAPI) -> None:
    dataset = evaluation(map_api)
    assert len(dataset) == 2
    assert [sample["timestamp"] for sample in dataset] == [EVALUATED * 100_000_000, (30 + EVALUATED) * 100_000_000]
    assert [sample["scene_index"] for sample in dataset] == [0, 1]
    assert_batch_holds_the_samples(dataset, [1, 0, -1])


def test_d5_the_tracks_valid_at_the_evaluated_frame_are_listed_once(map_api: MapAPI) -> None:
    first, second = list(evaluation(map_api))
    assert first["all_valid_agents_track_ids"].tolist() == [5.0, 9.0] + [0.0] * 48
    assert second["all_valid_agents_track_ids"].tolist() == list(range(100, 150))


def test_d5_a_custom_mask_decides_who_is_valid(map_api: MapAPI) -> None:
    log = log_for_evaluation()
    cfg, mask = long_cfg(), log.agents["track_id"] == 9
    evaluated: dict[str, Any] = {"eval_mode": True, "eval_frame_index": EVALUATED}
    with pytest.warns(RuntimeWarning, match="a custom agents_mask is used"):
        dataset = EgoAgentDatasetVectorized(cfg, log, Vectorizer(cfg, map_api), agents_mask=mask, **evaluated)
    assert dataset[0]["all_valid_agents_track_ids"][:2].tolist() == [9.0, 0.0]
    assert not dataset[1]["all_valid_agents_track_ids"].any()


def test_d6_the_evaluated_frame_is_99_by_default(map_api: MapAPI) -> None:
    long_scene = make_log([[[{"track_id": 1}]] * 101, [[{"track_id": 1}]] * 99])
    dataset = evaluation(map_api, long_scene, eval_frame_index=99)
    assert dataset.eval_frame_index == ego_agent(long_scene, map_api).eval_frame_index == 99
    assert dataset[0]["timestamp"] == 99 * 100_000_000
    with pytest.raises(SampleError, match="scene 1 has 99 frames, but frame 99 is to be evaluated") as error:
        dataset[1]
    assert isinstance(error.value.__cause__, ValueError)
    with pytest.raises(SampleError, match="scene 1 has 99 frames"):
        dataset.__getitems__([0, 1])
    with pytest.raises(ValueError, match="eval_frame_index must be 0 or more, got -1"):
        evaluation(map_api, eval_frame_index=-1)


def test_d4_the_dataset_of_a_scene_evaluates_too(map_api: MapAPI) -> None:
    dataset = evaluation(map_api)
    scene = dataset.get_scene_dataset(1)
    assert (scene.eval_mode, len(scene)) == (True, 1)
    assert_samples_equal(scene[0], dataset[1] | {"scene_index": 0})


def test_d7_indices_of_scenes_and_frames_are_those_of_the_dataset(map_api: MapAPI) -> None:
    dataset = ego_agent(log_for_evaluation(), map_api)
    assert dataset.get_scene_indices(1).tolist() == list(range(30, 50))
    assert dataset.get_frame_indices(31).tolist() == [31]
    assert dataset.get_scene_agent_indices(0).tolist() == list(range(np.count_nonzero(dataset.agents_mask[:44])))
    assert len(dataset.get_frame_agent_indices(EVALUATED)) == 2
    evaluated = evaluation(map_api)
    assert evaluated.get_scene_indices(1).tolist() == [1]
    assert evaluated.get_frame_indices(30 + EVALUATED).tolist() == [1]
    assert evaluated.get_frame_indices(31).tolist() == []
    for wrong in (2, -3):
        with pytest.raises(AssertionError, match="scene_idx"):
            evaluated.get_scene_indices(wrong)


def test_the_agents_mask_has_the_usual_minima(map_api: MapAPI) -> None:
    log = log_for_evaluation()
    dataset = ego_agent(log, map_api)
    counts = dataset.load_agents_mask()
    np.testing.assert_array_equal(dataset.agents_mask, (counts[:, 0] >= 10) & (counts[:, 1] >= 1))
    np.testing.assert_array_equal(dataset.agents_indices, np.flatnonzero(dataset.agents_mask))
    np.testing.assert_array_equal(dataset.mask_indices[dataset.agents_indices], np.arange(len(dataset.agents_indices)))
    np.testing.assert_array_equal(dataset.cumulative_sizes_agents, log.frames["agent_index_interval"][:, 1])


class MarkedVectorizer(Vectorizer):
    def vectorize(self, *window: Any) -> dict[str, Any]:
        return super().vectorize(*window) | {"mark": np.ones(1)}


@BOTH
def test_a_vectorizer_of_ones_own_is_honoured(cls: Any, map_api: MapAPI) -> None:
    cfg = long_cfg()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        dataset = cls(cfg, make_several_scenes_log(), MarkedVectorizer(cfg, map_api))
    samples = dataset.__getitems__([3, 12])
    assert [sample["mark"].tolist() for sample in samples] == [[1.0], [1.0]]
    assert_samples_equal(samples[1], dataset[12])
    assert samples[1]["all_other_agents_track_ids"].shape == (4,)


def test_speed_may_be_that_of_the_past(map_api: MapAPI) -> None:
    log = make_log([[[]] * 3])
    log.frames["ego_translation"][:, 0] = [0.0, 1.0, 3.0]
    cfg = make_vector_cfg(speed_from_history=True)
    speeds = [make_dataset(EgoDatasetVectorized, c, log, map_api)[1]["speed"] for c in (make_vector_cfg(), cfg)]
    assert speeds == [pytest.approx(20, rel=FLOAT32), pytest.approx(10, rel=FLOAT32)]
