"""Masks of users: rows without samples are left out with a warning."""

import copy
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from l5kit.data import ChunkedDataset, MapAPI
from l5kit.data.filter import filter_agents_by_labels
from l5kit.dataset import AgentDataset, EgoAgentDatasetVectorized, collate
from l5kit.errors import SampleError
from l5kit.vectorization.vectorizer import Vectorizer
from support.fixture_s import make_fixture_s, save_fixture_s
from support.logs import intervals, log_of, make_agent, make_log, make_scene, make_several_scenes_log, scenes_of
from support.maps import WORLD_TO_ECEF
from support.samples import assert_samples_equal, make_agent_dataset, make_cfg
from support.vectors import make_vector_cfg

LEFT_OUT = "rows of agents_mask are left out"


def every(step: int, num_rows: int) -> Any:
    mask = np.zeros(num_rows, np.bool_)
    mask[::step] = True
    return mask


def warnings_of(make: Any) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = make()
    assert {warning.category for warning in caught} <= {RuntimeWarning}
    assert {warning.filename for warning in caught} <= {__file__}
    return made, [str(warning.message) for warning in caught]


def test_the_rows_that_do_not_pass_the_label_filter_are_left_out_with_one_warning_that_counts_them() -> None:
    """Of fixture S the rows of track 7 do not pass: every frame has one."""
    log = make_fixture_s()
    mask = every(1, 98)
    dataset, told = warnings_of(lambda: AgentDataset(make_cfg(), log, None, agents_mask=mask))
    assert [message for message in told if LEFT_OUT in message] == [told[1]]
    assert told[1].startswith("30 of the 98 rows of agents_mask are left out: ")
    assert "not above filter_agents_threshold, 0.5" in told[1]
    passes = log.agents["track_id"] != 7
    assert len(dataset) == 68
    assert mask.all()
    np.testing.assert_array_equal(dataset.agents_mask, passes)
    np.testing.assert_array_equal(dataset.agents_indices, np.flatnonzero(passes))
    np.testing.assert_array_equal(dataset.mask_indices[passes], np.arange(68))
    assert [sample["track_id"] for sample in dataset] == log.agents["track_id"][passes].tolist()


def test_a_loop_over_every_third_row_goes_to_its_end() -> None:
    """As the document of the dataset shows it, with every 100th row; in 1.5 the loop ended at the first such row."""
    log = make_fixture_s()
    log.agents["label_probabilities"][::6] = 0
    dataset = make_agent_dataset(make_cfg(), log, agents_mask=every(3, 98))
    kept = filter_agents_by_labels(log.agents[::3])
    assert 0 < len(kept) < 33
    assert [sample["track_id"] for sample in dataset] == kept["track_id"].tolist()
    assert len(collate(dataset.__getitems__(range(len(dataset))))["track_id"]) == len(kept)


def test_indices_of_scenes_and_frames_count_the_rows_that_are_there() -> None:
    log = make_several_scenes_log()
    log.agents["label_probabilities"][1::4] = 0
    dataset = make_agent_dataset(make_cfg(), log, agents_mask=every(1, len(log.agents)))
    assert len(dataset) == len(filter_agents_by_labels(log.agents[:])) < len(log.agents)
    of_scenes = [dataset.get_scene_indices(scene) for scene in range(4)]
    np.testing.assert_array_equal(np.concatenate(of_scenes), np.arange(len(dataset)))
    of_frames = [dataset.get_frame_indices(frame) for frame in range(len(log.frames))]
    np.testing.assert_array_equal(np.concatenate(of_frames), np.arange(len(dataset)))
    for scene, indices in enumerate(of_scenes):
        assert {dataset[index]["scene_index"] for index in indices} <= {scene}
        part, told = warnings_of(lambda scene=scene: dataset.get_scene_dataset(scene))
        assert (len(part), told) == (len(indices), [])
        for own, index in enumerate(indices):
            place = {"scene_index": 0, "frame_index": 0}
            assert_samples_equal(part[own] | place, dataset[index] | place)


def test_the_threshold_is_that_of_the_samples() -> None:
    """The summed probability must be above it; one that equals it does not pass."""
    rows = [{"track_id": track, "probability": track / 10} for track in range(11)]
    log = make_log([[rows]])
    for threshold in (0.0, 0.3, 0.5, 0.7, 1.0, -1.0):
        cfg = make_cfg(filter_agents_threshold=threshold)
        dataset = make_agent_dataset(cfg, log, agents_mask=every(1, 11))
        assert [sample["track_id"] for sample in dataset] == filter_agents_by_labels(log.agents, threshold)[
            "track_id"
        ].tolist()
        strict = make_agent_dataset(cfg, log, agents_mask=every(1, 11), strict_mask=True)
        assert dataset.agents_indices.tolist() == [row for row in range(11) if can_be_sampled(strict, row)]


def can_be_sampled(dataset: Any, index: int) -> bool:
    try:
        dataset[index]
    except SampleError:
        return False
    return True


def test_strict_masks_keep_all_rows_and_samples_of_some_are_errors() -> None:
    log = make_fixture_s()
    dataset, told = warnings_of(lambda: AgentDataset(make_cfg(), log, None, agents_mask=every(1, 98), strict_mask=True))
    assert len(told) == 1
    assert "a custom agents_mask is used" in told[0]
    assert len(dataset) == 98
    with pytest.raises(SampleError, match="track 7"):
        dataset[1]


@pytest.mark.parametrize("strict_mask", [False, True])
def test_a_mask_whose_rows_all_pass_is_taken_as_it_is(strict_mask: bool) -> None:
    log = make_fixture_s()
    mask = log.agents["track_id"] != 7
    dataset, told = warnings_of(lambda: AgentDataset(make_cfg(), log, None, agents_mask=mask, strict_mask=strict_mask))
    assert told == ["a custom agents_mask is used; min_frame_history and min_frame_future have no effect"]
    np.testing.assert_array_equal(dataset.agents_mask, mask)


def test_a_mask_of_which_nothing_is_left_makes_an_empty_dataset() -> None:
    log = make_fixture_s()
    dataset, told = warnings_of(lambda: AgentDataset(make_cfg(), log, None, agents_mask=log.agents["track_id"] == 7))
    assert told[1].startswith("30 of the 30 rows")
    assert (len(dataset), list(dataset)) == (0, [])


def test_copies_keep_what_was_left_out_and_warn_no_more(tmp_path: Path) -> None:
    log = ChunkedDataset(save_fixture_s(tmp_path)).open()
    dataset = make_agent_dataset(make_cfg(), log, agents_mask=every(1, 98))
    for make in (lambda: copy.copy(dataset), lambda: pickle.loads(pickle.dumps(dataset))):
        other, told = warnings_of(make)
        assert told == []
        np.testing.assert_array_equal(other.agents_mask, dataset.agents_mask)
        assert other.explain_frame(3) == dataset.explain_frame(3)


class OwnFilter(AgentDataset):
    """Accepts agents whatever their labels, as a subclass with other samples may."""

    def passes_label_filter(self, rows: Any) -> Any:
        return np.ones(len(rows), np.bool_)


def test_a_subclass_says_which_rows_its_samples_can_be_made_of() -> None:
    dataset, told = warnings_of(lambda: OwnFilter(make_cfg(), make_fixture_s(), None, agents_mask=every(1, 98)))
    assert len(told) == 1
    assert len(dataset) == 98


def test_vector_datasets_leave_out_the_same_rows(fixture_s_map: str) -> None:
    log, cfg = make_fixture_s(), make_vector_cfg()
    vectorizer = Vectorizer(cfg, MapAPI(fixture_s_map, WORLD_TO_ECEF))

    def make(**options: Any) -> Any:
        return warnings_of(lambda: EgoAgentDatasetVectorized(cfg, log, vectorizer, agents_mask=every(1, 98), **options))

    dataset, told = make(eval_mode=True, eval_frame_index=12)
    told = [message for message in told if "agents_mask" in message]
    assert len(told) == 2
    assert told[1].startswith("30 of the 98 rows of agents_mask are left out: ")
    np.testing.assert_array_equal(dataset.agents_mask, log.agents["track_id"] != 7)
    assert dataset.get_scene_agent_indices(0).tolist() == list(range(68))
    assert dataset[0]["all_valid_agents_track_ids"][:4].tolist() == [1, 2, 300, 0]
    strict, told = make(eval_mode=True, eval_frame_index=12, strict_mask=True)
    assert not any(LEFT_OUT in message for message in told)
    assert strict[0]["all_valid_agents_track_ids"][:5].tolist() == [1, 2, 7, 300, 0]


class CountingRows(np.ndarray):
    """Agents that count the rows that are read."""

    num_read = 0

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        if isinstance(index, slice):
            CountingRows.num_read += len(found)
        return found


def make_long_log(num_frames: int) -> ChunkedDataset:
    """A log of one agent a frame."""
    log = make_scene([[make_agent(1)]], positions_m=(0, 0))
    frames = np.repeat(log.frames, num_frames)
    frames["agent_index_interval"] = intervals([1] * num_frames)
    return log_of(scenes_of([num_frames]), frames, np.repeat(log.agents, num_frames))


def test_a_mask_of_few_rows_reads_few_rows() -> None:
    log = make_long_log(200_000)
    log.agents[150_000] = make_agent(1, probability=0.1)
    log.agents = log.agents.view(CountingRows)
    mask = np.zeros(200_000, np.bool_)
    mask[[5, 100_000, 100_007, 150_000]] = True
    CountingRows.num_read = 0
    dataset = make_agent_dataset(make_cfg(), log, agents_mask=mask)
    assert dataset.agents_indices.tolist() == [5, 100_000, 100_007]
    assert CountingRows.num_read == 1 + 8 + 1


@pytest.mark.parametrize("cached", [True, False, "mmap"])
def test_rows_are_read_from_stores_alike(cached: Any, tmp_path: Path) -> None:
    log = make_long_log(50_000)
    rng = np.random.default_rng(5)
    log.agents["label_probabilities"][rng.random(50_000) < 0.7] = 0
    log.save(tmp_path / "long.zarr")
    mask = rng.random(50_000) < 0.01
    opened = ChunkedDataset(str(tmp_path / "long.zarr")).open(cached=cached)
    dataset = make_agent_dataset(make_cfg(), opened, agents_mask=mask)
    expected = mask & (log.agents["label_probabilities"][:, 3] > 0.5)
    np.testing.assert_array_equal(dataset.agents_mask, expected)


def test_rows_near_each_other_are_read_together() -> None:
    log, rows = make_long_log(90_001), np.array([0, 7, 4095, 4096, 20_000, 20_001, 90_000])
    log.agents[[7, 20_001]] = make_agent(1, probability=0.1)
    dataset = make_agent_dataset(make_cfg(), log, agents_mask=np.ones(90_001, np.bool_))
    dataset.dataset.agents = log.agents.view(CountingRows)
    for some, expected, num_read in (
        (rows[:0], [], 0),
        (rows[:3], [True, False, True], 4096),
        (rows[3:4], [True], 1),
        (rows, [True, False, True, True, True, False, True], 4096 + 1 + 2 + 1),
    ):
        CountingRows.num_read = 0
        assert dataset.passes_label_filter(some).tolist() == expected
        assert CountingRows.num_read == num_read


def test_rows_that_cannot_be_read_stay_and_are_errors_that_name_the_file(tmp_path: Path) -> None:
    log = make_long_log(50_000)
    log.save(tmp_path / "long.zarr")
    (tmp_path / "long.zarr" / "agents" / "1").write_bytes(b"")
    opened = ChunkedDataset(str(tmp_path / "long.zarr")).open()
    dataset = make_agent_dataset(make_cfg(), opened, agents_mask=every(9_000, 50_000))
    assert dataset.agents_indices.tolist() == [0, 9_000, 18_000, 27_000, 36_000, 45_000]
    assert dataset[5]["track_id"] == 1
    with pytest.raises(SampleError, match="agents/1"):
        dataset[3]
