"""AgentDataset."""

import copy
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import AgentDataset, EgoDataset
from l5kit.dataset.agent import MIN_FRAME_FUTURE, MIN_FRAME_HISTORY
from l5kit.dataset.masked_agents import AgentInclusion, InclusionRule
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import RowVerdict
from l5kit.errors import InvalidArgumentError
from l5kit.kinematic import AckermanPerturbation
from l5kit.random import ReplayRandomGenerator
from support.fixture_s import make_fixture_s, save_fixture_s
from support.logs import make_log, make_several_scenes_log
from support.samples import assert_samples_equal, make_agent_dataset, make_cfg, make_stub
from support.tolerances import FLOAT32

TRACK_IDS_OF_FIXTURE_S = (
    [1, 1, 1, 1, 1, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 300, 1, 2] + [300, 1] * 5 + [300]
)


def track_ids(dataset: AgentDataset) -> list[int]:
    return [int(sample["track_id"]) for sample in dataset]


def test_known_answer_of_fixture_s() -> None:
    dataset = AgentDataset(make_cfg(), make_fixture_s(), None)
    assert len(dataset) == 35
    assert track_ids(dataset) == TRACK_IDS_OF_FIXTURE_S
    sample = dataset[0]
    assert (sample["track_id"], sample["frame_index"], sample["timestamp"]) == (1, 10, 2_000_000_000)
    assert sample["yaw"] == 0.019999999552965164
    np.testing.assert_allclose(
        sample["target_positions"],
        [(0.3999200, -0.0079995), (0.7998400, -0.0159989), (1.1997600, -0.0239984)]
        + [(1.5996801, -0.0319979), (1.9996001, -0.0399973)],
        atol=FLOAT32,
    )


def test_attributes() -> None:
    log = make_fixture_s()
    dataset = AgentDataset(make_cfg(), log, None)
    assert isinstance(dataset, EgoDataset)
    assert (dataset.agents_mask.dtype, dataset.agents_mask.shape) == (np.bool_, (98,))
    assert dataset.agents_indices.tolist() == np.flatnonzero(dataset.agents_mask).tolist()
    assert dataset.mask_indices.dtype == np.int64
    assert dataset.mask_indices[dataset.agents_indices].tolist() == list(range(35))
    assert (dataset.mask_indices[~dataset.agents_mask] == -1).all()
    assert dataset.cumulative_sizes_agents.tolist() == log.frames["agent_index_interval"][:, 1].tolist()
    assert dataset.cumulative_sizes.tolist() == [30]
    assert str(dataset) == str(log)


def test_rows_of_the_mask_come_in_the_order_of_the_dataset() -> None:
    log = make_several_scenes_log()
    dataset = make_agent_dataset(make_cfg(), log, min_frame_history=1)
    assert log.agents[dataset.agents_mask]["track_id"].tolist() == track_ids(dataset)


def test_d22_names_of_older_releases() -> None:
    assert (MIN_FRAME_HISTORY, MIN_FRAME_FUTURE) == (10, 1)


def test_a_perturbation_is_refused() -> None:
    perturbation = AckermanPerturbation(ReplayRandomGenerator([]), 1)
    with pytest.raises(AssertionError, match="takes no perturbation"):
        AgentDataset(make_cfg(), make_fixture_s(), None, perturbation)


@pytest.mark.parametrize(
    ("minima", "names"),
    [((10, 1), []), ((5, 1), ["min_frame_history is 5"]), ((10, 3), ["min_frame_future is 3"])]
    + [((0, 0), ["min_frame_history is 0", "min_frame_future is 0"])],
    ids=str,
)
def test_d20_other_minima_than_the_usual_ones_give_a_warning_each(minima: tuple[int, int], names: list[str]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        AgentDataset(make_cfg(), make_fixture_s(), None, None, None, *minima)
    messages = [str(warning.message) for warning in caught]
    assert [message.startswith(name) for message, name in zip(messages, names, strict=True)] == [True] * len(names)
    assert {(warning.category, warning.filename) for warning in caught} <= {(RuntimeWarning, __file__)}


@pytest.mark.parametrize("minima", [(0, 1), (1, 0), (3, 2), (17, 0), (0, 29), (30, 0)], ids=str)
def test_minima_select_by_the_counts_of_the_mask(minima: tuple[int, int]) -> None:
    dataset = make_agent_dataset(make_cfg(), make_fixture_s(), min_frame_history=minima[0], min_frame_future=minima[1])
    past, future = dataset.load_agents_mask().T
    assert dataset.agents_mask.tolist() == ((past >= minima[0]) & (future >= minima[1])).tolist()


def test_c6_with_both_minima_0_no_row_is_taken_that_cannot_be_sampled() -> None:
    dataset = make_agent_dataset(make_cfg(), make_fixture_s(), min_frame_history=0, min_frame_future=0)
    assert len(dataset) == 30 + 20 + 18
    assert set(track_ids(dataset)) == {1, 2, 300}


def test_c6_an_isolated_row_is_taken_with_both_minima_0() -> None:
    log = make_log([[[{"track_id": 1}, {"track_id": 2, "probability": 0.3}], []]])
    assert track_ids(make_agent_dataset(make_cfg(), log, min_frame_history=0, min_frame_future=0)) == [1]


def custom_mask() -> Any:
    mask = np.zeros(98, np.bool_)
    mask[[0, 20, 97]] = True
    return mask


def test_a_custom_mask_decides_alone_with_one_warning() -> None:
    mask = custom_mask()
    with pytest.warns(RuntimeWarning, match="custom agents_mask") as caught:
        dataset = AgentDataset(make_cfg(), make_fixture_s(), None, None, mask, 3, 3)
    assert (len(caught), caught[0].filename) == (1, __file__)
    assert dataset.agents_indices.tolist() == [0, 20, 97]
    mask[:] = False
    assert dataset.agents_mask.sum() == 3


@pytest.mark.parametrize(
    ("mask", "found"),
    [
        (np.ones((98, 2), np.bool_), r"bool of shape \(98, 2\)"),
        (np.ones(98, np.float32), r"float32 of shape \(98,\)"),
        (np.ones(97, np.bool_), r"bool of shape \(97,\)"),
        (np.ones(97, np.int64), r"int64 of shape \(97,\)"),
        ([True] * 98, "list"),
    ],
    ids=["two columns", "floats", "too short", "integers, too short", "list"],
)
def test_c8_a_mask_of_another_type_or_shape_is_refused(mask: Any, found: str) -> None:
    with pytest.raises(ValueError, match=rf"agents_mask must be a bool array of shape \(98,\).*got {found}"):
        AgentDataset(make_cfg(), make_fixture_s(), None, agents_mask=mask)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int8, np.uint32])
def test_a_mask_of_integers_0_and_1_is_taken(dtype: Any) -> None:
    mask = custom_mask().astype(dtype)
    dataset = make_agent_dataset(make_cfg(), make_fixture_s(), agents_mask=mask)
    assert dataset.agents_indices.tolist() == [0, 20, 97]
    assert dataset.agents_mask.dtype == np.bool_
    assert mask.dtype == dtype


@pytest.mark.parametrize(("value", "dtype"), [(2, np.uint8), (-1, np.int64), (97, np.int64)])
def test_other_integers_are_no_mask(value: int, dtype: Any) -> None:
    mask = np.zeros(98, dtype)
    mask[[3, 5, 9]] = 1, value, value
    with pytest.raises(ValueError, match=rf"integers 0 and 1, got {value} in row 5; convert row numbers to a mask"):
        AgentDataset(make_cfg(), make_fixture_s(), None, agents_mask=mask)


def test_c7_nothing_is_kept_per_row_but_a_mask_that_cannot_be_changed() -> None:
    dataset = AgentDataset(make_cfg(), make_fixture_s(), None)
    per_row = {name: value for name, value in vars(dataset).items() if getattr(value, "shape", ())[:1] == (98,)}
    assert list(per_row) == ["agents_mask"]
    with pytest.raises(ValueError, match="read-only"):
        dataset.agents_mask[0] = True


@pytest.mark.parametrize("scene", [0, 1, 2, 3, -1])
def test_c9_a_scene_dataset_has_the_same_agents_without_a_warning(scene: int) -> None:
    dataset = make_agent_dataset(make_cfg(), make_several_scenes_log(), min_frame_history=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        part = dataset.get_scene_dataset(scene)
    indices = dataset.get_scene_indices(scene)
    assert type(part) is AgentDataset
    assert len(part) == len(indices)
    for own, index in enumerate(indices):
        place = {"scene_index": 0, "frame_index": 0}
        assert_samples_equal(part[own] | place, dataset[index] | place)


def test_a_scene_dataset_does_not_read_the_mask_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log = ChunkedDataset(save_fixture_s(tmp_path)).open()
    dataset = make_agent_dataset(make_cfg(), log)
    monkeypatch.setattr(AgentDataset, "load_agents_mask", None)
    assert len(dataset.get_scene_dataset(0)) == 35
    copied = copy.copy(dataset)
    assert copied.agents_mask is dataset.agents_mask


def test_scenes_of_a_custom_mask_keep_their_part_of_it() -> None:
    log = ChunkedDataset.concatenate([make_fixture_s()] * 2)
    mask = np.concatenate([np.zeros(98, np.bool_), custom_mask()])
    dataset = make_agent_dataset(make_cfg(), log, agents_mask=mask)
    assert [len(dataset.get_scene_dataset(scene)) for scene in (0, 1)] == [0, 3]
    assert dataset.get_scene_dataset(1).agents_indices.tolist() == [0, 20, 97]


def test_scene_and_frame_indices_are_running_numbers_of_agents() -> None:
    dataset = make_agent_dataset(make_cfg(), make_several_scenes_log(), min_frame_history=1)
    of_scenes = [dataset.get_scene_indices(scene).tolist() for scene in range(4)]
    assert [index for indices in of_scenes for index in indices] == list(range(len(dataset)))
    assert of_scenes[1:3] == [[], []]
    for scene, indices in enumerate(of_scenes):
        assert {dataset[index]["scene_index"] for index in indices} <= {scene}
    of_frames = [dataset.get_frame_indices(frame).tolist() for frame in range(37)]
    assert [index for indices in of_frames for index in indices] == list(range(len(dataset)))
    assert of_frames[5] == [8, 9]
    assert of_frames[21] == []
    assert {int(dataset[index]["frame_index"]) for index in of_frames[30]} == {9}
    assert dataset.get_frame_indices(5).dtype == dataset.get_scene_indices(0).dtype == np.int64


@pytest.mark.parametrize("method", ["get_scene_indices", "get_frame_indices"])
def test_indices_beyond_the_end_are_an_assertion_error(method: str) -> None:
    dataset = AgentDataset(make_cfg(), make_fixture_s(), None)
    for index in (30, 775, -31):
        with pytest.raises(AssertionError, match=f"_idx {index} is out of range"):
            getattr(dataset, method)(index)


def test_negative_indices_count_from_the_end() -> None:
    dataset = AgentDataset(make_cfg(), make_fixture_s(), None)
    assert_samples_equal(dataset[-1], dataset[34])
    assert_samples_equal(dataset[-35], dataset[0])


def test_items_equal_the_frames_of_their_tracks() -> None:
    dataset = make_agent_dataset(make_cfg(), make_several_scenes_log(), make_stub(make_cfg()), min_frame_history=0)
    for sample in dataset:
        again = dataset.get_frame(sample["scene_index"], int(sample["frame_index"]), track_id=int(sample["track_id"]))
        assert_samples_equal(sample | {"frame_index": 0}, again | {"frame_index": 0})


def test_concatenated_logs_have_the_agents_of_their_parts(tmp_path: Path) -> None:
    log = ChunkedDataset(save_fixture_s(tmp_path)).open()
    dataset = make_agent_dataset(make_cfg(), ChunkedDataset.concatenate([log, log]))
    assert track_ids(dataset) == TRACK_IDS_OF_FIXTURE_S * 2
    assert {sample["scene_index"] for sample in dataset} == {0, 1}


def test_a_subclass_that_overrides_get_frame_is_asked_by_items() -> None:
    class Annotated(AgentDataset):
        def get_frame(self, scene_index: int, state_index: int, track_id: int | None = None) -> dict[str, Any]:
            return super().get_frame(scene_index, state_index, track_id) | {"note": track_id}

    assert Annotated(make_cfg(), make_fixture_s(), None)[6]["note"] == 2


def by_track(explained: list[AgentInclusion]) -> dict[int, AgentInclusion]:
    return {found.track_id: found for found in explained}


def test_all_agents_of_a_frame_are_explained() -> None:
    dataset = AgentDataset(make_cfg(), make_fixture_s(), None)
    found = by_track(dataset.explain_frame(15))
    assert list(found) == [1, 2, 7, 300]
    assert (found[1].is_included, found[2].is_included) == (True, True)
    assert found[1].reason == "valid in 15 frames before and 14 after; 10 and 1 are needed"
    assert found[7].reason == "not a road user: summed probability of the kept classes is not above 0.5"
    assert found[300].reason == "valid in 3 frames before and 14 after; 10 and 1 are needed"
    assert (found[7].dataset_index, found[300].dataset_index) == (None, None)
    assert by_track(dataset.explain_frame(-15))[1].dataset_index == found[1].dataset_index


JUMPS = {
    "hole": ([[], {"track_id": 1}], "valid in 0 frames before and 0 after.*was not seen in the frame before"),
    "yaw": ([{"track_id": 1, "yaw": 0.6}], "heading has just jumped"),
    "extent": ([{"track_id": 1, "extent": (5.0, 2.0, 1.5)}], "size has just jumped"),
    "distance": ([{"track_id": 1, "centroid": (40.0, 30.0)}], "not within 50 m of the AV"),
}


@pytest.mark.parametrize("kind", JUMPS)
def test_explanations_name_what_started_the_track_anew(kind: str) -> None:
    last, reason = JUMPS[kind]
    frames: Any = [[{"track_id": 1}]] * 3 + [[row] if row else [] for row in last]
    dataset = make_agent_dataset(make_cfg(), make_log([frames]), min_frame_history=1, min_frame_future=0)
    assert [sample["frame_index"] for sample in dataset] == [1, 2]
    (found,) = dataset.explain_frame(-1)
    assert not found.is_included
    assert re.search(reason, found.reason)


def test_a_frame_beyond_the_end_cannot_be_explained() -> None:
    with pytest.raises(InvalidArgumentError, match="frame_idx 30 is out of range"):
        AgentDataset(make_cfg(), make_fixture_s(), None).explain_frame(30)


def test_a_row_that_is_left_out_of_a_custom_mask_is_explained() -> None:
    mask = np.zeros(98, np.bool_)
    mask[:2] = True  # tracks 1 and 7 in frame 0; 7 does not pass the label filter
    dataset = make_agent_dataset(make_cfg(), make_fixture_s(), agents_mask=mask)
    for explained in (dataset, pickle.loads(pickle.dumps(dataset)), dataset.get_scene_dataset(0)):
        found = by_track(explained.explain_frame(0))
        assert found[1].reason == "the custom agents_mask takes it"
        assert (found[7].is_included, found[7].dataset_index) == (False, None)
        assert found[7].reason == (
            "the custom agents_mask takes it, but there is no sample of it: "
            "not a road user: summed probability of the kept classes is not above 0.5"
        )
        assert by_track(explained.explain_frame(1))[7].reason == "the custom agents_mask leaves it out"


def test_a_custom_mask_is_the_reason() -> None:
    dataset = make_agent_dataset(make_cfg(), make_fixture_s(), agents_mask=custom_mask())
    found = by_track(dataset.explain_frame(0))
    assert found[1].reason == "the custom agents_mask takes it"
    assert found[7].reason == "the custom agents_mask leaves it out"


def test_scenes_are_explained_as_the_whole_log_is() -> None:
    dataset = AgentDataset(make_cfg(), ChunkedDataset.concatenate([make_fixture_s()] * 2), None)
    whole, part = dataset.explain_frame(45), dataset.get_scene_dataset(1).explain_frame(15)
    assert [found.reason for found in part] == [found.reason for found in whole]


@settings(max_examples=15)
@given(minima=st.tuples(st.integers(0, 12), st.integers(0, 12)), use_custom=st.booleans(), seed=st.integers(0, 99))
def test_explanations_agree_with_membership(minima: tuple[int, int], use_custom: bool, seed: int) -> None:
    log = make_several_scenes_log()
    mask = np.random.default_rng(seed).random(len(log.agents)) < 0.3 if use_custom else None
    dataset = make_agent_dataset(
        make_cfg(), log, agents_mask=mask, min_frame_history=minima[0], min_frame_future=minima[1]
    )
    for frame in range(len(log.frames)):
        explained = dataset.explain_frame(frame)
        first, end = log.frames[frame]["agent_index_interval"]
        assert [found.agent_index for found in explained] == list(range(first, end))
        assert [found.track_id for found in explained] == log.agents[first:end]["track_id"].tolist()
        assert [found.is_included for found in explained] == dataset.agents_mask[first:end].tolist()
        included = [found.dataset_index for found in explained if found.is_included]
        assert included == dataset.get_frame_indices(frame).tolist()


def test_a_changed_threshold_does_not_reach_another_process(tmp_path: Path) -> None:
    log = ChunkedDataset(save_fixture_s(tmp_path)).open()
    dataset = make_agent_dataset(make_cfg(), log)
    dataset.cfg["raster_params"]["filter_agents_threshold"] = 0.8
    copied = pickle.loads(pickle.dumps(dataset))
    np.testing.assert_array_equal(copied.agents_indices, dataset.agents_indices)


@pytest.mark.parametrize("is_custom", [False, True])
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_pickled_dataset_gives_the_same_samples(is_custom: bool, on_disk: bool, tmp_path: Path) -> None:
    log = ChunkedDataset(save_fixture_s(tmp_path)).open() if on_disk else make_fixture_s()
    mask = custom_mask() if is_custom else None
    dataset = make_agent_dataset(make_cfg(), log, make_stub(make_cfg()), agents_mask=mask)
    copied = pickle.loads(pickle.dumps(dataset))
    assert (type(copied), len(copied)) == (AgentDataset, len(dataset))
    np.testing.assert_array_equal(copied.agents_mask, dataset.agents_mask)
    np.testing.assert_array_equal(copied.cumulative_sizes, dataset.cumulative_sizes)
    if not is_custom:
        assert_samples_equal(copied[7], dataset[7])


@pytest.mark.parametrize(("past", "future"), [(10, 1), (12, 1), (10, 5)])
def test_a_row_with_just_enough_neighbours_is_explained_by_them(past: int, future: int) -> None:
    rule = InclusionRule(MaskThresholds(0.5), min_frame_history=10, min_frame_future=1, has_custom_mask=False)
    reason = rule.explain(RowVerdict.VALID, past, future, is_included=True)
    assert reason == f"valid in {past} frames before and {future} after; 10 and 1 are needed"
    assert "stored in the dataset leaves it out" in rule.explain(RowVerdict.VALID, past, future, is_included=False)


def test_a_far_row_that_is_taken_is_not_explained_by_its_distance() -> None:
    rule = InclusionRule(MaskThresholds(0.5), min_frame_history=0, min_frame_future=0, has_custom_mask=False)
    assert "of the AV" not in rule.explain(RowVerdict.AV_DISTANCE, 0, 0, is_included=True)
