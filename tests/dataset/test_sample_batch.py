"""``collate`` gives what torch's default collate gives, without a copy where a batch was made at once."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import default_collate

from l5kit.dataset import EgoDataset, collate
from l5kit.dataset.sample_batch import SampleBatch
from support.fixture_s import make_fixture_s
from support.samples import make_agent_dataset, make_cfg, make_stub


def make_batch(*, of_agents: bool = False, size: int = 4, **overrides: Any) -> Any:
    cfg = make_cfg(**overrides)
    if of_agents:
        dataset: Any = make_agent_dataset(cfg, make_fixture_s(), make_stub(cfg), min_frame_history=0)
    else:
        dataset = EgoDataset(cfg, make_fixture_s(), make_stub(cfg))
    batch = dataset.__getitems__(list(range(size)))
    assert type(batch) is SampleBatch
    return batch


def assert_same_tensors(found: Any, expected: Any) -> None:
    assert list(found) == list(expected)
    for key, tensor in expected.items():
        assert (found[key].dtype, found[key].shape) == (tensor.dtype, tensor.shape), key
        np.testing.assert_array_equal(found[key].numpy(), tensor.numpy(), err_msg=key)


def shares_memory(tensor: torch.Tensor, array: Any) -> bool:
    return np.shares_memory(tensor.numpy(), array)


@pytest.mark.parametrize("of_agents", [False, True])
@pytest.mark.parametrize("history_num_frames", [0, 3])
def test_it_equals_default_collate(history_num_frames: int, of_agents: bool) -> None:
    batch = make_batch(of_agents=of_agents, history_num_frames=history_num_frames)
    assert_same_tensors(collate(batch), default_collate(list(batch)))


def test_default_collate_takes_a_batch_as_it_is() -> None:
    batch = make_batch()
    assert_same_tensors(default_collate(batch), default_collate([dict(sample) for sample in batch]))


def test_tensors_are_the_memory_of_the_batch() -> None:
    batch = make_batch()
    for key, tensor in collate(batch).items():
        assert shares_memory(tensor, batch.columns[key]) == (key != "world_to_image"), key
    assert shares_memory(collate(batch)["image"], batch[2]["image"])


def test_a_change_in_place_is_seen_in_both() -> None:
    batch = make_batch()
    batch[1]["image"][:] = 7
    assert (collate(batch)["image"][1] == 7).all()


def test_a_tensor_that_owns_the_memory_is_handed_out_itself() -> None:
    tensor = torch.zeros(2, 3)
    batch = SampleBatch({"image": tensor.numpy()}, {"image": tensor})
    assert collate(batch)["image"] is tensor


def replace_a_value(batch: Any) -> None:
    batch[1]["target_positions"] = batch[1]["target_positions"] + 1


def replace_a_number(batch: Any) -> None:
    batch[1]["yaw"] = float(batch[1]["yaw"]) + 0.5


def add_a_key(batch: Any) -> None:
    for sample in batch:
        sample["weight"] = 2.0


def remove_a_key(batch: Any) -> None:
    for sample in batch:
        del sample["host_id"]


def swap_a_key(batch: Any) -> None:
    for sample in batch:
        sample["host"] = sample.pop("host_id")


def shorten(batch: Any) -> None:
    del batch[2]


def drop_the_last(batch: Any) -> None:
    batch.pop()


def lengthen(batch: Any) -> None:
    batch.append(dict(batch[0]))


def reorder(batch: Any) -> None:
    batch.reverse()


def replace_a_sample(batch: Any) -> None:
    batch[0] = dict(batch[3])


CHANGES: list[Callable[[Any], None]] = [
    replace_a_value,
    replace_a_number,
    add_a_key,
    remove_a_key,
    swap_a_key,
    shorten,
    drop_the_last,
    lengthen,
    reorder,
    replace_a_sample,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changed_samples_are_collated_as_they_are(change: Callable[[Any], None]) -> None:
    batch = make_batch()
    assert batch.is_untouched
    change(batch)
    assert not batch.is_untouched
    assert_same_tensors(collate(batch), default_collate(list(batch)))


def test_a_plain_list_of_samples() -> None:
    samples = [dict(sample) for sample in make_batch()]
    found = collate(samples)
    assert_same_tensors(found, default_collate(samples))
    assert not shares_memory(found["image"], samples[0]["image"])


def test_a_pickled_batch_is_a_list_of_its_samples() -> None:
    batch = make_batch()
    copied = pickle.loads(pickle.dumps(batch))
    assert type(copied) is list
    assert_same_tensors(default_collate(copied), default_collate(list(batch)))


def test_world_to_image_is_raster_from_world_in_every_sample() -> None:
    for sample in make_batch():
        assert sample["world_to_image"] is sample["raster_from_world"]


def test_a_matrix_with_two_names_is_two_tensors_as_default_collate_makes_them() -> None:
    batch = collate(make_batch())
    kept = batch["raster_from_world"].clone()
    batch["world_to_image"].zero_()
    assert torch.equal(batch["raster_from_world"], kept)
