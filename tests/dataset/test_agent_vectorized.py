"""AgentDatasetVectorized: vector samples around agents, with the AV among the other agents."""

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from l5kit.data.map.api import MapAPI
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import AgentDatasetVectorized, EgoDatasetVectorized, collate, loader
from l5kit.dataset.device_samples import makes_on_device
from l5kit.dataset.sample_batch import SampleBatch
from l5kit.errors import InvalidArgumentError, SampleError
from l5kit.kinematic import AckermanPerturbation
from l5kit.random import ReplayRandomGenerator
from l5kit.sampling.sample_keys import ROWS_OF_AV
from l5kit.vectorization.vectorizer import Vectorizer
from support.logs import make_log, make_several_scenes_log
from support.maps import WORLD_TO_ECEF, save_street_map
from support.random_logs import random_dataset
from support.samples import assert_samples_equal, make_agent_dataset, make_cfg
from support.vectors import make_vector_cfg

EVERY_ROW = {"min_frame_history": 0, "min_frame_future": 0}


@pytest.fixture(scope="module")
def map_api(tmp_path_factory: pytest.TempPathFactory) -> MapAPI:
    return MapAPI(save_street_map(tmp_path_factory.mktemp("street")), WORLD_TO_ECEF)


def quietly(make: Any) -> Any:
    """Return what a function returns, without the warnings about masks and minima."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return make()


def make_dataset(cfg: dict[str, Any], log: ChunkedDataset, map_api: MapAPI, **options: Any) -> AgentDatasetVectorized:
    return quietly(lambda: AgentDatasetVectorized(cfg, log, Vectorizer(cfg, map_api), **(EVERY_ROW | options)))


def with_av_as_agent_row(log: ChunkedDataset, track_id: int) -> ChunkedDataset:
    """Return a log in which the AV is also the first agent of each frame: the same poses, as a car."""
    agents, frames = [], log.frames[:].copy()
    for frame in frames:
        av = np.zeros(1, log.agents.dtype)
        yaw = np.arctan2(frame["ego_rotation"][1, 0], frame["ego_rotation"][0, 0])
        av["centroid"], av["yaw"], av["track_id"] = frame["ego_translation"][:2], yaw, track_id
        av["extent"], av["label_probabilities"][0, 3] = log.facts.ego_extent_m, 1.0
        agents += [av, log.agents[slice(*frame["agent_index_interval"])]]
    shift = np.arange(len(frames))
    frames["agent_index_interval"] += np.stack([shift, shift + 1], axis=-1)
    other = ChunkedDataset("")
    other.scenes, other.frames, other.tl_faces = log.scenes, frames, log.tl_faces
    other.agents = np.concatenate(agents)
    return other


def test_there_is_a_sample_for_each_row_of_the_dataset_of_pictures(map_api: MapAPI) -> None:
    log = make_several_scenes_log()
    for minima in (EVERY_ROW, {"min_frame_history": 2, "min_frame_future": 1}):
        dataset = make_dataset(make_vector_cfg(), log, map_api, **minima)
        expected = make_agent_dataset(make_cfg(), log, **minima)
        assert len(dataset) == len(expected) > 0
        assert dataset.agents_indices.tolist() == expected.agents_indices.tolist()
        assert dataset.scene_starts().tolist() == expected.scene_starts().tolist()
        assert dataset.explain_frame(25) == expected.explain_frame(25)
        for index in (0, len(dataset) // 2, -1):
            sample, of_picture = dataset[index], expected[index]
            for key in ("track_id", "timestamp", "scene_index", "centroid", "yaw", "target_positions"):
                np.testing.assert_array_equal(sample[key], of_picture[key], err_msg=key)


def test_a_sample_is_that_of_the_agent_with_the_av_in_the_first_row(map_api: MapAPI) -> None:
    cfg, log = make_vector_cfg(other_agents_num=5), make_several_scenes_log()
    dataset = make_dataset(cfg, log, map_api)
    vectorizer = Vectorizer(make_vector_cfg(other_agents_num=4), map_api)
    plain = EgoDatasetVectorized(cfg, log, vectorizer)
    for index in range(0, len(dataset), 5):
        sample = dataset[index]
        place = dataset.locate(np.array([index]))
        scene, state = int(place.scene_indices[0]), int(place.state_indices[0])
        expected = plain.get_frame(scene, state, track_id=int(sample["track_id"]))
        assert list(sample) == list(expected)
        for key, value in expected.items():
            found = sample[key][1:] if key in ROWS_OF_AV else sample[key]
            np.testing.assert_array_equal(found, value, err_msg=key)
        assert type(sample["type"]) is int


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    max_distance_m=st.sampled_from([0.5, 20.0, 45.0, 1000.0]),
    history=st.sampled_from([(0, 0), (1, 3), (3, 1)]),
    steps=st.integers(1, 2),
)
def test_the_row_of_the_av_is_that_of_an_agent_with_its_poses(
    map_api: MapAPI, seed: int, max_distance_m: float, history: tuple[int, int], steps: int
) -> None:
    log = random_dataset(np.random.default_rng(seed), 2, max_frames=8, max_tracks=4)
    cfg = make_vector_cfg(
        history_num_frames_ego=history[0],
        history_num_frames_agents=history[1],
        history_step_size=steps,
        future_step_size=steps,
        max_agents_distance=max_distance_m,
        other_agents_num=12,
        order_agents_by_distance=True,
    )
    dataset = make_dataset(cfg, log, map_api)
    av_id = 10**6
    twin = EgoDatasetVectorized(cfg, with_av_as_agent_row(log, av_id), Vectorizer(cfg, map_api))
    for index in range(len(dataset)):
        sample = dataset[index]
        place = dataset.locate(np.array([index]))
        scene, state = int(place.scene_indices[0]), int(place.state_indices[0])
        expected = twin.get_frame(scene, state, track_id=int(sample["track_id"]))
        is_av = expected["all_other_agents_track_ids"] == av_id
        assert is_av.sum() == (sample["all_other_agents_track_ids"][0] == -1)
        for key in ROWS_OF_AV.keys() & sample.keys() - {"all_other_agents_track_ids"}:
            row = expected[key][is_av][0] if is_av.any() else np.zeros_like(sample[key][0])
            np.testing.assert_array_equal(sample[key][0], row, err_msg=key)
            others = expected[key][~is_av]
            np.testing.assert_array_equal(sample[key][1:], others[: len(sample[key]) - 1], err_msg=key)


@pytest.mark.parametrize(("distance_m", "is_shown"), [(35.0, False), (np.nextafter(35.0, 0.0), True)], ids=str)
def test_the_av_is_shown_within_the_largest_distance(map_api: MapAPI, distance_m: float, is_shown: bool) -> None:
    log = make_log([[[{"track_id": 7, "centroid": (0.0, distance_m)}]]])
    log.frames["ego_translation"] = 0.0
    sample = make_dataset(make_vector_cfg(max_agents_distance=35), log, map_api)[0]
    assert sample["all_other_agents_track_ids"].tolist() == [-1 if is_shown else 0, 0, 0, 0]
    assert sample["all_other_agents_types"].tolist() == [3 if is_shown else 0, 0, 0, 0]
    assert bool(sample["all_other_agents_history_availability"][0, 0]) is is_shown
    assert bool(sample["other_agents_polyline_availability"][0, 0]) is is_shown


def test_a_sample_of_the_av_itself_has_an_empty_first_row(map_api: MapAPI) -> None:
    dataset = make_dataset(make_vector_cfg(), make_several_scenes_log(), map_api)
    sample = dataset.get_frame(3, 4)
    assert (sample["track_id"], sample["type"]) == (-1, 3)
    assert all(not sample[key][0].any() for key in ROWS_OF_AV.keys() & sample.keys())
    assert sample["all_other_agents_track_ids"][1:].any()


@pytest.mark.parametrize("history", [0, 3, 12])
@pytest.mark.parametrize("other_agents_num", [1, 9])
def test_batches_hold_the_samples(map_api: MapAPI, history: int, other_agents_num: int) -> None:
    cfg = make_vector_cfg(
        history_num_frames_ego=history, history_num_frames_agents=history // 2, other_agents_num=other_agents_num
    )
    dataset = make_dataset(cfg, make_several_scenes_log(), map_api)
    indices = np.random.default_rng(1).permutation(len(dataset)).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch = dataset.__getitems__(indices)
    assert type(batch) is SampleBatch
    for sample, index in zip(batch, indices, strict=True):
        expected = dataset[index]
        assert_samples_equal(sample, expected)
        assert [type(value) for value in sample.values()] == [type(value) for value in expected.values()]
    collated = collate(dataset.__getitems__(indices[:3]))
    expected_batch = torch.utils.data.default_collate([dataset[index] for index in indices[:3]])
    assert all(torch.equal(collated[key], value) for key, value in expected_batch.items())


class OwnVectorizer(Vectorizer):
    """One that makes single samples only, as a user's own may."""

    def vectorize(self, *args: Any, **kwargs: Any) -> Any:
        return super().vectorize(*args, **kwargs)


def test_a_vectorizer_of_single_windows_gives_the_same_samples(map_api: MapAPI) -> None:
    cfg, log = make_vector_cfg(), make_several_scenes_log()
    dataset = make_dataset(cfg, log, map_api)
    own = quietly(lambda: AgentDatasetVectorized(cfg, log, OwnVectorizer(cfg, map_api), **EVERY_ROW))
    assert not own.makes_columns
    for index in range(0, len(dataset), 7):
        assert_samples_equal(own[index], dataset[index])


def test_scenes_masks_and_pickles(map_api: MapAPI) -> None:
    log = make_several_scenes_log()
    mask = np.zeros(len(log.agents), np.bool_)
    mask[::3] = True
    dataset = make_dataset(make_vector_cfg(), log, map_api, agents_mask=mask)
    assert set(dataset.agents_indices.tolist()) <= set(range(0, len(log.agents), 3))
    indices = dataset.get_scene_indices(3)
    scene = dataset.get_scene_dataset(3)
    assert (type(scene), len(scene)) == (AgentDatasetVectorized, len(indices))
    assert_samples_equal(scene[1], dataset[indices[1]] | {"scene_index": 0})
    assert_samples_equal(pickle.loads(pickle.dumps(dataset))[2], dataset[2])


def test_the_vectorizer_of_the_caller_stays_as_it_is(map_api: MapAPI) -> None:
    cfg = make_vector_cfg()
    vectorizer = Vectorizer(cfg, map_api)
    dataset = quietly(lambda: AgentDatasetVectorized(cfg, make_several_scenes_log(), vectorizer, **EVERY_ROW))
    assert (vectorizer.other_agents_num, dataset.vectorizer.other_agents_num) == (4, 3)
    assert dataset[3]["all_other_agents_types"].shape == (4,)


def test_what_cannot_be_is_refused(map_api: MapAPI) -> None:
    cfg, log = make_vector_cfg(), make_several_scenes_log()
    with pytest.raises(InvalidArgumentError, match="AgentDatasetVectorized takes no perturbation"):
        AgentDatasetVectorized(cfg, log, Vectorizer(cfg, map_api), AckermanPerturbation(ReplayRandomGenerator([]), 1))
    for vectorizer in (None, "map.pb", Vectorizer(make_vector_cfg(other_agents_num=0), map_api)):
        with pytest.raises(InvalidArgumentError, match="vectorizer must have other_agents_num of 1 or more"):
            AgentDatasetVectorized(cfg, log, vectorizer)  # type: ignore[arg-type]
    dataset = make_dataset(cfg, log, map_api)
    with pytest.raises(IndexError, match="out of range"):
        dataset[len(dataset)]
    dataset.vectorizer.future_num_frames = 3
    with pytest.raises(SampleError, match="build the vectorizer from the configuration"):
        dataset[4]


def test_a_device_leaves_these_samples_to_the_processor(map_api: MapAPI) -> None:
    assert not makes_on_device(make_dataset(make_vector_cfg(), make_several_scenes_log(), map_api))


@pytest.mark.long
@pytest.mark.process
def test_threads_and_processes_load_the_same_batches(map_api: MapAPI, tmp_path: Path) -> None:
    make_several_scenes_log().save(tmp_path / "log.zarr")
    dataset = make_dataset(make_vector_cfg(), ChunkedDataset(str(tmp_path / "log.zarr")).open(), map_api)
    ways: list[dict[str, Any]] = [{"threads": 1}, {"threads": 3}, {"num_workers": 2}]
    loaded = [list(loader(dataset, 8, shuffle=True, seed=3, **way)) for way in ways]
    for batches in loaded[1:]:
        assert len(batches) == len(loaded[0])
        for batch, expected in zip(batches, loaded[0], strict=True):
            assert all(torch.equal(batch[key], value) for key, value in expected.items())
