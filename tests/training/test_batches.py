"""The batches of a training, entered at any step."""

import itertools

import numpy as np
import pytest
import torch

from l5kit.configs.runs import LoaderParams
from l5kit.dataset import EgoDataset, loader, rank_sampler
from l5kit.dataset.rank_sampler import SceneChoice
from l5kit.errors import ConfigError
from l5kit.training.batches import StepBatches, steps_per_epoch
from support.logs import make_several_scenes_log
from support.samples import make_cfg


class Numbers(torch.utils.data.Dataset):
    """Eleven samples, the numbers from 0 on."""

    def __len__(self):
        return 11

    def __getitem__(self, index):
        return {"number": np.float32(index)}


class Rows(EgoDataset):
    """The samples of a log, each its number."""

    def __getitem__(self, index):
        return {"number": np.float32(index)}

    def __getitems__(self, indices):
        return [self[index] for index in indices]


def params(**changes):
    cfg = {"train_data_loader": {"key": "log.zarr", "batch_size": 2, **changes}}
    return LoaderParams.from_cfg(cfg, "train_data_loader")


def numbers_of(batches):
    return [tuple(batch["number"].tolist()) for batch in batches]


def step_batches(first_step=0, *, num_steps=12, steps_per_epoch=5, **changes):
    batches = StepBatches(
        Numbers(), params(**changes), seed=3, num_steps=num_steps, steps_per_epoch=steps_per_epoch, pin_memory=False
    )
    batches.load_state_dict({"next_step": first_step})
    return batches


@pytest.mark.process
@pytest.mark.parametrize("changes", [{"threads": 0}, {"threads": 1}, {"threads": 2}, {"num_workers": 1}], ids=str)
def test_batches_are_those_of_the_loader_epoch_after_epoch(changes):
    plain = loader(Numbers(), 2, shuffle=True, seed=3, drop_last=True)
    expected = [numbers for _ in range(3) for numbers in numbers_of(plain)]
    assert numbers_of(step_batches(**changes)) == expected[:12]


@pytest.mark.parametrize("first_step", [0, 3, 7])
def test_large_sets_are_shuffled_by_scenes_as_the_loader_does(monkeypatch, first_step):
    monkeypatch.setattr(rank_sampler, "MOST_SHUFFLED_AS_WHOLE", 10)
    plain = loader(Numbers(), 2, shuffle=True, shuffle_by="scenes", seed=3, drop_last=True)
    expected = [numbers for _ in range(3) for numbers in numbers_of(plain)][:12]
    assert numbers_of(step_batches(first_step)) == expected[first_step:]
    whole = loader(Numbers(), 2, shuffle=True, shuffle_by="samples", seed=3, drop_last=True)
    assert numbers_of(whole) != expected[:5]


@pytest.mark.parametrize("first_step", [0, 3, 7])
def test_chosen_and_weighted_scenes_are_entered_at_any_step_on_all_ranks(monkeypatch, first_step):
    samples = Rows(make_cfg(), make_several_scenes_log(), None)
    weights = np.linspace(0.0, 2.0, len(samples.dataset.scenes))
    choice = SceneChoice(fraction=0.5, subset_seed=2, weights=weights)
    num_steps = choice.num_samples_of(samples) // 4
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        how = {"fraction": 0.5, "subset_seed": 2, "scene_weights": weights}
        plain = loader(samples, 2, shuffle=True, seed=3, drop_last=True, **how)
        expected = [numbers for _ in range(9) for numbers in numbers_of(plain)][:12]
        batches = StepBatches(
            samples, params(), seed=3, num_steps=12, steps_per_epoch=num_steps, choice=choice, pin_memory=False
        )
        batches.load_state_dict({"next_step": first_step})
        assert numbers_of(batches) == expected[first_step:]
    assert len({number for numbers in expected for number in numbers}) > 1


@pytest.mark.parametrize("steps_per_epoch", [5, 3], ids=["whole epochs", "epochs cut short"])
@pytest.mark.parametrize("first_step", [0, 1, 3, 4, 5, 9, 11, 12])
def test_entering_at_a_step_gives_the_rest(first_step, steps_per_epoch):
    whole = numbers_of(step_batches(steps_per_epoch=steps_per_epoch))
    assert len(set(whole)) > 5
    rest = step_batches(first_step, steps_per_epoch=steps_per_epoch)
    assert numbers_of(rest) == whole[first_step:]
    assert rest.state_dict() == {"next_step": 12}


def test_the_state_tells_how_many_were_given():
    batches = step_batches(threads=2)
    assert batches.state_dict() == {"next_step": 0}
    assert len(list(itertools.islice(batches, 7))) == 7
    assert batches.state_dict() == {"next_step": 7}
    assert batches.waited_s > 0


def test_without_shuffling_samples_come_in_their_order():
    assert numbers_of(step_batches(shuffle=False))[3:6] == [(6.0, 7.0), (8.0, 9.0), (0.0, 1.0)]


def test_an_epoch_has_whole_batches_only():
    assert steps_per_epoch(11, params(), world_size=1) == 5
    assert steps_per_epoch(11, params(), world_size=3) == 1
    with pytest.raises(ConfigError, match=r"batch_size is 2 on 6 devices, but log\.zarr gives only 11"):
        steps_per_epoch(11, params(), world_size=6)


@pytest.mark.parametrize("first_batch", [0, 3, 4, 7], ids=["start", "within a step", "next epoch", "within its step"])
def test_steps_of_two_batches_are_those_of_batches_of_twice_the_size(first_batch):
    """Eleven samples give two steps of four; the epoch ends then, though one more batch of two would be there."""
    options = {"seed": 3, "num_steps": 5, "steps_per_epoch": 2, "pin_memory": False}
    whole = numbers_of(StepBatches(Numbers(), params(batch_size=4), **options))
    halves = StepBatches(Numbers(), params(), batches_per_step=2, **options)
    halves.load_state_dict({"next_step": first_batch})
    expected = [half for batch in whole for half in (batch[:2], batch[2:])]
    assert len(expected) == 10
    assert numbers_of(halves) == expected[first_batch:]
    assert len(halves) == 11


def test_an_epoch_has_whole_steps_only():
    assert steps_per_epoch(11, params(), world_size=1, batches_per_step=2) == 2
    with pytest.raises(ConfigError, match="batch_size is 2, 3 times a step, on 2 devices"):
        steps_per_epoch(11, params(), world_size=2, batches_per_step=3)
