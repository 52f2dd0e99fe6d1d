"""Errors of samples that cannot be made: iteration must not end silently."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import AgentDataset, EgoDataset
from l5kit.errors import ConfigError, CorruptedDataError, IndexOutOfRangeError, NegativeIndexError, SampleError
from l5kit.rasterization import StubRasterizer
from support.fixture_s import make_fixture_s, save_fixture_s
from support.logs import make_several_scenes_log
from support.samples import make_agent_dataset, make_cfg, make_stub


class FailingRasterizer(StubRasterizer):
    """Draws nothing and fails as a satellite crop outside its picture does."""

    def rasterize(self, *args: Any, **kwargs: Any) -> Any:
        raise IndexError("the crop leaves the picture")


def make_failing(cls: Any, log: ChunkedDataset) -> Any:
    cfg = make_cfg()
    rasterizer = FailingRasterizer(make_stub(cfg).render_context)
    return make_agent_dataset(cfg, log, rasterizer) if cls is AgentDataset else cls(cfg, log, rasterizer)


def test_d10_a_failing_ego_sample_names_dataset_index_scene_and_frame(tmp_path: Path) -> None:
    path = save_fixture_s(tmp_path)
    with pytest.raises(SampleError) as raised:
        make_failing(EgoDataset, ChunkedDataset(path).open())[-1]
    assert str(raised.value) == (
        f"EgoDataset on '{path}' cannot make sample -1 (scene 0, frame 29 of it, the AV): "
        "IndexError: the crop leaves the picture"
    )
    assert isinstance(raised.value, RuntimeError)
    assert not isinstance(raised.value, IndexError)
    assert type(raised.value.__cause__) is IndexError


def test_d10_a_failing_agent_sample_names_the_track_too() -> None:
    with pytest.raises(SampleError) as raised:
        make_failing(AgentDataset, make_fixture_s())[6]
    assert str(raised.value) == (
        "AgentDataset on 'a log in memory' cannot make sample 6 (scene 0, frame 15 of it, track 2): "
        "IndexError: the crop leaves the picture"
    )


def test_a_frame_is_counted_in_its_scene() -> None:
    with pytest.raises(SampleError, match=r"sample 30 \(scene 3, frame 9 of it, the AV\)"):
        make_failing(EgoDataset, make_several_scenes_log())[30]


@pytest.mark.parametrize("cls", [EgoDataset, AgentDataset])
def test_d10_iteration_over_failing_samples_does_not_end_silently(cls: Any) -> None:
    dataset = make_failing(cls, make_fixture_s())
    assert len(dataset) > 0
    with pytest.raises(SampleError, match="sample 0"):
        for _ in dataset:
            pass


def test_d10_iteration_fails_in_the_middle_at_an_agent_that_was_filtered_out() -> None:
    log = make_fixture_s()
    mask = np.zeros(98, np.bool_)
    mask[:2] = True  # tracks 1 and 7 in frame 0; 7 does not pass the label filter
    dataset = make_agent_dataset(make_cfg(), log, agents_mask=mask, strict_mask=True)
    samples = iter(dataset)
    assert next(samples)["track_id"] == 1
    with pytest.raises(SampleError, match=r"sample 1 \(scene 0, frame 0 of it, track 7\): TrackNotFoundError"):
        next(samples)


@pytest.mark.parametrize("cls", [EgoDataset, AgentDataset])
def test_indices_outside_the_dataset(cls: Any) -> None:
    cfg, log = make_cfg(), make_fixture_s()
    dataset = make_agent_dataset(cfg, log) if cls is AgentDataset else cls(cfg, log, None)
    length = len(dataset)
    for index in (length, length + 100):
        with pytest.raises(IndexOutOfRangeError, match=f"index {index} is out of range for a dataset of {length}"):
            dataset[index]
    with pytest.raises(NegativeIndexError, match=f"index {-length - 1} reaches before the start") as raised:
        dataset[-length - 1]
    assert isinstance(raised.value, IndexError)
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize("cls", [EgoDataset, AgentDataset])
def test_iteration_ends_at_the_end(cls: Any) -> None:
    cfg, log = make_cfg(), make_several_scenes_log()
    dataset = make_agent_dataset(cfg, log) if cls is AgentDataset else cls(cfg, log, None)
    assert len(list(dataset)) == len(dataset) > 0


@pytest.mark.parametrize("damage", ["truncated", "missing"])
@pytest.mark.parametrize("cls", [EgoDataset, AgentDataset])
def test_a_damaged_chunk_is_a_sample_error_that_names_the_file(cls: Any, damage: str, tmp_path: Path) -> None:
    chunk = Path(save_fixture_s(tmp_path)) / "agents" / "0"
    log = ChunkedDataset(str(chunk.parent.parent)).open()
    whole = make_agent_dataset(make_cfg(), log)
    if damage == "truncated":
        chunk.write_bytes(chunk.read_bytes()[:100])
    else:
        chunk.unlink()
    damaged = ChunkedDataset(log.path).open()
    if cls is AgentDataset:
        dataset = make_agent_dataset(make_cfg(), damaged, agents_mask=whole.agents_mask)
    else:
        dataset = EgoDataset(make_cfg(), damaged, None)
    with pytest.raises(SampleError, match=r"sample 3 .*agents/0") as raised:
        dataset[3]
    assert isinstance(raised.value.__cause__, CorruptedDataError)


def test_a_damaged_chunk_of_the_agents_stops_the_mask(tmp_path: Path) -> None:
    """It is not taken for a cache folder without space, and not computed again."""
    chunk = Path(save_fixture_s(tmp_path)) / "agents" / "0"
    chunk.write_bytes(chunk.read_bytes()[:100])
    log = ChunkedDataset(str(chunk.parent.parent)).open()
    with pytest.warns(RuntimeWarning, match="has to be computed") as caught, pytest.raises(CorruptedDataError):
        AgentDataset(make_cfg(), log, None)
    assert len(caught) == 1


def test_a_missing_key_is_found_by_the_constructor() -> None:
    cfg = make_cfg()
    del cfg["model_params"]["step_time"]
    with pytest.raises(ConfigError, match=r"model_params\.step_time: this key is missing"):
        EgoDataset(cfg, make_fixture_s(), None)


def test_sample_errors_cross_process_borders() -> None:
    with pytest.raises(SampleError) as raised:
        make_failing(EgoDataset, make_fixture_s())[3]
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


@pytest.mark.parametrize("host", ["hôte-1", "ホスト", "\U0001f697" * 16])
def test_hosts_of_any_text_stand_in_samples_as_utf_8(host: str) -> None:
    log = make_fixture_s()
    log.scenes["host"] = host
    dataset = EgoDataset(make_cfg(), log, None)
    for sample in (dataset[3], *dataset.__getitems__([3])):
        assert bytes(sample["host_id"]).rstrip(b"\0").decode("utf-8") == host
        assert sample["host_id"].shape == (70,)
    assert not [finding for finding in log.validate() if "text" in finding.check]


@pytest.mark.parametrize("code", [0xD800, 0x110000, 0xFFFFFFFF])
def test_hosts_that_are_no_text_are_an_error_by_name(code: int) -> None:
    log = make_fixture_s()
    log.scenes.view(np.uint8)[16:20] = np.frombuffer(np.uint32(code).tobytes(), np.uint8)
    dataset = EgoDataset(make_cfg(), log, None)
    for make in (lambda: dataset[3], lambda: dataset.__getitems__([3])):
        with pytest.raises(SampleError, match=r"scene 0.*the host of the scene is not text") as raised:
            make()
        assert isinstance(raised.value.__cause__, CorruptedDataError)
    assert "scenes: text" in {finding.check for finding in log.validate()}


@pytest.mark.parametrize("track_id", [2**63, 2**64 - 1])
def test_track_ids_that_samples_cannot_hold_are_an_error_by_name(track_id: int) -> None:
    log = make_fixture_s()
    log.agents["track_id"][log.agents["track_id"] == 1] = track_id
    dataset = make_agent_dataset(make_cfg(), log)
    of_it = [index for index, row in enumerate(dataset.agents_indices) if log.agents["track_id"][row] == track_id]
    others = sorted(set(range(len(dataset))) - set(of_it))
    assert of_it
    assert others
    for make in (lambda: dataset[of_it[0]], lambda: dataset.__getitems__(of_it[:2])):
        with pytest.raises(SampleError, match=rf"track_id {track_id}, but samples hold ids from 0 to 2\*\*63 - 1"):
            make()
    assert [sample["track_id"] for sample in dataset.__getitems__(others[:2])] == [
        log.agents["track_id"][dataset.agents_indices[index]] for index in others[:2]
    ]


def test_the_largest_track_id_that_samples_hold() -> None:
    log = make_fixture_s()
    log.agents["track_id"][log.agents["track_id"] == 1] = 2**63 - 1
    dataset = make_agent_dataset(make_cfg(), log)
    assert {sample["track_id"] for sample in dataset.__getitems__(range(len(dataset)))} >= {2**63 - 1}
