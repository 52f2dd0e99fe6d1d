"""Facts of a log: where they come from, that copies and views keep them, and what is refused."""

import copy
import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from l5kit.data import ChunkedDataset, split_scenes, zarr_concat
from l5kit.data.log_facts import LogFacts, agreed_facts
from l5kit.data.zarr_utils import zarr_scenes_chop, zarr_split
from l5kit.errors import DatasetFormatError, InvalidArgumentError
from l5kit.evaluation.chop_dataset import create_chopped_dataset
from l5kit.warmup.small_log import write_small_log
from support.random_logs import random_dataset, write_three_arrays

TRUCK = LogFacts((8.5, 2.5, 3.25), 0.5, {"lorry": "PERCEPTION_LABEL_TRUCK"})
USUAL = LogFacts()


@pytest.fixture
def dataset():
    made = random_dataset(np.random.default_rng(1), 4, min_frames=3)
    return ChunkedDataset.in_memory(
        scenes=made.scenes, frames=made.frames, agents=made.agents, tl_faces=made.tl_faces, facts=TRUCK
    )


@pytest.fixture
def path(dataset, tmp_path):
    dataset.save(tmp_path / "log.zarr")
    return str(tmp_path / "log.zarr")


def attributes_of(path):
    return json.loads((Path(path) / ".zattrs").read_text())


def test_logs_of_1_5_have_its_constants(shared_data, tmp_path):
    log = ChunkedDataset(str(shared_data / "single_scene.zarr")).open()
    assert log.facts == USUAL == LogFacts((4.87, 1.85, 1.8), 0.1, {})
    assert log.own_facts is None
    log.save(tmp_path / "copy.zarr")
    assert sorted(attributes_of(tmp_path / "copy.zarr")) == ["format_version", "labels"]
    assert ChunkedDataset("").facts == USUAL


def test_facts_are_attributes_of_the_group(path):
    attributes = attributes_of(path)
    assert attributes["ego_extent_m"] == [8.5, 2.5, 3.25]
    assert (attributes["step_time_s"], attributes["label_mapping"]) == (0.5, {"lorry": "PERCEPTION_LABEL_TRUCK"})
    assert attributes["format_version"] == 2
    assert ChunkedDataset(path).open().facts == TRUCK


def test_initialized_logs_have_the_facts_that_they_are_given(tmp_path):
    for facts, name in ((None, "a.zarr"), (TRUCK, "b.zarr")):
        (tmp_path / name).mkdir()
        made = ChunkedDataset(str(tmp_path / name)).initialize(facts=facts)
        opened = ChunkedDataset(str(tmp_path / name)).open()
        assert made.own_facts == opened.own_facts == facts
        assert made.facts == opened.facts == (facts or USUAL)


def test_copies_and_views_keep_the_facts(dataset, path, tmp_path):
    opened = ChunkedDataset(path).open()
    views = [opened.get_scene_dataset(0), *split_scenes(opened, (0.5, 0.5)), ChunkedDataset.concatenate([opened] * 2)]
    opened.save(tmp_path / "copy.zarr.zip")
    zarr_concat([path, path], str(tmp_path / "concat.zarr"), verbose=False)
    zarr_scenes_chop(path, str(tmp_path / "chop.zarr"), 2, verbose=False)
    zarr_split(
        path,
        str(tmp_path),
        [{"name": "a.zarr", "split_size_GB": -1}],
        verbose=False,
    )
    written = [tmp_path / f"{name}.zarr" for name in ("concat", "chop", "a")] + [tmp_path / "copy.zarr.zip"]
    for log in [*views, *(ChunkedDataset(str(path)).open() for path in written)]:
        assert log.facts == TRUCK


def test_a_scene_without_frames_keeps_the_facts(dataset):
    dataset.scenes["frame_index_interval"] = 0
    dataset.frames, dataset.agents, dataset.tl_faces = dataset.frames[:0], dataset.agents[:0], dataset.tl_faces[:0]
    assert dataset.get_scene_dataset(0).facts == TRUCK


def test_decoded_files_keep_the_facts(path, tmp_path):
    assert ChunkedDataset(path).open(cached="mmap", cache_folder=tmp_path, progress=False).facts == TRUCK


@pytest.mark.filterwarnings("ignore:.*test agents:RuntimeWarning", "ignore:.*has to be computed:RuntimeWarning")
def test_test_sets_keep_the_facts(tmp_path, monkeypatch):
    monkeypatch.setenv("L5KIT_CACHE_DIR", str(tmp_path / "cache"))
    log = write_small_log(tmp_path).dataset
    file = Path(log) / ".zattrs"
    file.write_text(json.dumps({**json.loads(file.read_text()), **TRUCK.as_attributes()}))
    folder = create_chopped_dataset(str(log), 0.5, 20, 10, 1, output_folder=tmp_path / "test_set", verbose=False)
    assert ChunkedDataset(str(Path(folder) / Path(log).name)).open().facts == TRUCK


@pytest.mark.filterwarnings("ignore:.*no array 'traffic_light_faces':RuntimeWarning")
def test_logs_in_an_older_layout_may_tell_facts(dataset, tmp_path):
    path = Path(write_three_arrays(dataset, tmp_path / "old.zarr"))
    assert ChunkedDataset(str(path)).open().own_facts is None
    (path / ".zattrs").write_text(json.dumps({"step_time_s": 0.2}))
    opened = ChunkedDataset(str(path)).open()
    assert opened.facts == LogFacts(step_time_s=0.2)
    opened.save(tmp_path / "new.zarr")
    assert ChunkedDataset(str(tmp_path / "new.zarr")).open().facts == LogFacts(step_time_s=0.2)


DIFFERENT = {
    "ego_extent_m": replace(TRUCK, ego_extent_m=(8.5, 2.5, 3.0)),
    "step_time_s": replace(TRUCK, step_time_s=0.1),
    "label_mapping": replace(TRUCK, label_mapping={}),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_logs_that_disagree_are_named(path, dataset, tmp_path, name):
    other = str(tmp_path / "other.zarr")
    dataset._facts = DIFFERENT[name]
    dataset.save(other)
    opened, target = [ChunkedDataset(each).open() for each in (path, other)], tmp_path / "both.zarr"
    message = rf"{name} is .* in '.*log\.zarr' and .* in '.*other\.zarr'; .*facts="
    with pytest.raises(InvalidArgumentError, match=message):
        ChunkedDataset.concatenate(opened)
    with pytest.raises(InvalidArgumentError, match=message):
        zarr_concat([path, other], str(target), verbose=False)
    assert not target.exists()
    assert ChunkedDataset.concatenate(opened, facts=TRUCK).facts == TRUCK
    zarr_concat([path, other], str(target), verbose=False, facts=DIFFERENT[name])
    assert ChunkedDataset(str(target)).open().facts == DIFFERENT[name]


def test_logs_of_1_5_agree_with_those_that_say_the_same():
    assert agreed_facts([]) is None
    assert agreed_facts([("a", None), ("b", None)]) is None
    assert agreed_facts([("a", None), ("b", USUAL)]) == USUAL
    with pytest.raises(InvalidArgumentError, match=r"step_time_s is 0\.1 in 'a' and 0\.5 in 'b'"):
        agreed_facts([("a", None), ("b", LogFacts(step_time_s=0.5))])


WRONG = [
    {"ego_extent_m": [4.87, 1.85]},
    {"ego_extent_m": [4.87, 1.85, 0]},
    {"ego_extent_m": [4.87, 1.85, float("nan")]},
    {"ego_extent_m": [101, 1.85, 1.8]},
    {"ego_extent_m": "abc"},
    {"ego_extent_m": 4.87},
    {"ego_extent_m": {"length": 1, "width": 2, "height": 3}},
    {"ego_extent_m": [True, 1.85, 1.8]},
    {"ego_extent_m": [[1], [2], [3]]},
    {"ego_extent_m": None},
    {"step_time_s": 0},
    {"step_time_s": -0.1},
    {"step_time_s": "0.1"},
    {"step_time_s": float("inf")},
    {"step_time_s": 3601},
    {"step_time_s": 10**400},
    {"step_time_s": True},
    {"step_time_s": None},
    {"label_mapping": []},
    {"label_mapping": {"lorry": "TRUCK"}},
    {"label_mapping": {"lorry": ["PERCEPTION_LABEL_TRUCK"]}},
    {"label_mapping": None},
]


@pytest.mark.parametrize("attributes", WRONG, ids=lambda attributes: json.dumps(attributes)[:50])
def test_impossible_facts_are_refused_with_file_and_name(path, attributes):
    (name,) = attributes
    with pytest.raises(InvalidArgumentError, match=f"^{name} must "):
        LogFacts(**attributes)
    (Path(path) / ".zattrs").write_text(json.dumps({"format_version": 2, **attributes}))
    with pytest.raises(
        DatasetFormatError, match=rf"log\.zarr/\.zattrs.* is wrong: {name} must .*mend it, or remove it"
    ):
        ChunkedDataset(path).open()


def test_the_largest_facts_are_possible():
    assert LogFacts((100, 100, 100), 3600).ego_extent_m == (100.0, 100.0, 100.0)
    assert LogFacts(np.array([1, 2, 3], np.float32), np.float32(0.5)) == LogFacts((1, 2, 3), 0.5)
    assert json.dumps(LogFacts(np.array([1, 2, 3], np.float32), np.float32(0.5)).as_attributes())


def test_validation_finds_impossible_facts(path):
    opened = ChunkedDataset(path).open()
    assert [finding.check for finding in opened.validate()] == ["frames: step time"]  # which are made 0.1 s apart
    (Path(path) / ".zattrs").write_text(json.dumps({"step_time_s": "?"}))
    damaged = ChunkedDataset(path)
    damaged.open_readable()
    (finding,) = damaged.validate()
    assert (finding.severity, finding.check) == ("error", "format")
    assert "step_time_s must be" in finding.message


def test_the_frame_rate_of_too_few_frames_is_that_of_the_facts(dataset):
    few = ChunkedDataset.in_memory(frames=dataset.frames[:1], facts=TRUCK)
    with pytest.warns(RuntimeWarning, match="2 Hz is assumed"):
        assert few.summary().frequency_hz == 2


def test_facts_do_not_change_with_what_they_were_made_of():
    mapping = {"lorry": "PERCEPTION_LABEL_TRUCK"}
    facts = LogFacts(label_mapping=mapping)
    mapping["lorry"] = "PERCEPTION_LABEL_CAR"
    assert facts.label_mapping == {"lorry": "PERCEPTION_LABEL_TRUCK"}
    assert hash(facts) == hash(LogFacts(label_mapping=mapping))


def test_facts_cannot_be_changed_and_are_pickled_copied_and_compared():
    facts = LogFacts(step_time_s=0.5, label_mapping={"lorry": "PERCEPTION_LABEL_TRUCK"})
    with pytest.raises(TypeError, match="does not support item assignment"):
        facts.label_mapping["car"] = "PERCEPTION_LABEL_CAR"
    for again in (pickle.loads(pickle.dumps(facts)), copy.deepcopy(facts), replace(facts, step_time_s=0.5)):
        assert again == facts
        assert hash(again) == hash(facts)
        assert again.label_mapping["lorry"] == "PERCEPTION_LABEL_TRUCK"


IMPORTED = replace(TRUCK, sources=({"dataset": "A", "licence": "for research"},))


def test_sources_are_stored_where_there_are_any_and_no_log_made_of_it_loses_them(tmp_path):
    assert "sources" not in TRUCK.as_attributes()
    made = random_dataset(np.random.default_rng(2), 2, min_frames=3)
    arrays = {name: getattr(made, name) for name in ("scenes", "frames", "agents", "tl_faces")}
    ChunkedDataset.in_memory(**arrays, facts=IMPORTED).save(tmp_path / "log.zarr")
    assert attributes_of(tmp_path / "log.zarr")["sources"] == [{"dataset": "A", "licence": "for research"}]
    assert ChunkedDataset(str(tmp_path / "log.zarr")).open().facts == IMPORTED
    assert pickle.loads(pickle.dumps(IMPORTED)) == copy.deepcopy(IMPORTED) == IMPORTED


def test_logs_that_become_one_have_all_their_sources_each_once():
    other = replace(TRUCK, sources=({"dataset": "B"}, {"dataset": "A", "licence": "for research"}))
    joined = agreed_facts([("a", IMPORTED), ("plain", TRUCK), ("b", other)])
    assert [source["dataset"] for source in joined.sources] == ["A", "B"]


@pytest.mark.parametrize("sources", [{"dataset": "A"}, "A", [{"version": 3}], ["A"]], ids=repr)
def test_sources_that_are_no_texts_by_name_are_refused(sources):
    with pytest.raises(InvalidArgumentError, match="sources must be a list of texts by name"):
        LogFacts(sources=sources)
