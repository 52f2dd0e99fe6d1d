"""A rasterizer that returns several pictures by name: samples, batches and loaders have them all."""

import numpy as np
import pytest
import torch
from torch import nn

from l5kit.dataset import AgentDataset, EgoDataset, collate, loader
from l5kit.dataset.utils import move_to_device
from l5kit.errors import InvalidArgumentError, SampleError
from l5kit.planning.rasterized.model import RasterizedPlanningModel
from l5kit.prediction.rasterized.motion_model import RasterizedMotionModel
from l5kit.rasterization.rasterizer import Rasterizer
from l5kit.visualization.sample_pictures import sample_picture
from support.fixture_s import make_fixture_s
from support.samples import make_cfg

SHAPES = {"boxes": (4, 6, 3), "lanes": (2, 5, 1)}


class Several(Rasterizer):
    """Numbers the values of its pictures, from the time of the frame on."""

    def rasterize(self, history_frames, history_agents, history_tl_faces, agent=None):
        first = history_frames[0]["timestamp"] % 1000 + (0 if agent is None else agent["track_id"])
        return {
            name: (np.arange(np.prod(shape)) + first).reshape(shape).astype(np.float32 if name == "boxes" else np.uint8)
            for name, shape in SHAPES.items()
        }

    def to_rgb(self, in_im, **kwargs):
        return in_im

    def num_channels(self):
        return 4


class Alike:
    """Offers the same without being derived from the base class."""

    def __init__(self):
        self.rasterize, self.to_rgb, self.num_channels = (Several().rasterize, Several().to_rgb, Several().num_channels)


@pytest.fixture(params=[Several, Alike])
def samples(request):
    return EgoDataset(make_cfg(), make_fixture_s(), request.param())


def test_each_picture_of_a_sample_has_its_channels_first(samples):
    sample = samples[5]
    drawn = Several().rasterize(samples.dataset.frames[5:6], [samples.dataset.agents[:0]], [])
    assert list(sample["image"]) == list(SHAPES)
    for name, picture in sample["image"].items():
        assert picture.flags.c_contiguous
        assert picture.dtype == drawn[name].dtype
        np.testing.assert_array_equal(picture, drawn[name].transpose(2, 0, 1))


def test_samples_of_agents_have_them_too():
    log = make_fixture_s()
    sample = AgentDataset(make_cfg(), log, Several())[0]
    assert {name: picture.shape for name, picture in sample["image"].items()} == {
        "boxes": (3, 4, 6),
        "lanes": (1, 2, 5),
    }


def assert_batch(batch, samples, indices):
    for name in SHAPES:
        expected = torch.stack([torch.from_numpy(samples[index]["image"][name]) for index in indices])
        assert torch.equal(batch["image"][name], expected)
    assert torch.equal(batch["track_id"], torch.tensor([samples[index]["track_id"] for index in indices]))


def test_batches_have_a_tensor_of_each(samples):
    indices = [3, 0, 7]
    assert_batch(collate(samples.__getitems__(indices)), samples, indices)


@pytest.mark.parametrize(
    "how", [{"threads": 0}, {"threads": 2}, pytest.param({"num_workers": 1}, marks=pytest.mark.process)], ids=str
)
def test_loaders_hand_them_out(samples, how):
    batches = list(loader(samples, 4, **how))
    assert_batch(batches[1], samples, [4, 5, 6, 7])


def test_they_move_to_a_device(samples):
    moved = move_to_device({"image": collate([samples[0]])["image"]}, torch.device("meta"))
    assert {picture.device.type for picture in moved["image"].values()} == {"meta"}


@pytest.mark.parametrize("picture", [np.zeros((3, 4)), np.zeros((2, 3, 4, 1)), None], ids=["2 axes", "4 axes", "none"])
@pytest.mark.parametrize("is_one_of_several", [False, True])
def test_what_is_no_picture_is_refused(picture, is_one_of_several):
    class Wrong(Several):
        def rasterize(self, *window):
            return super().rasterize(*window) | {"lanes": picture} if is_one_of_several else picture

    with pytest.raises(SampleError, match=r"must return an image \(height, width, channels\), or several"):
        EgoDataset(make_cfg(), make_fixture_s(), Wrong())[0]


def of_networks(batch):
    RasterizedPlanningModel("simple_cnn", 3, 6, [1.0] * 3, nn.MSELoss(), False)(batch)


def of_motion(batch):
    RasterizedMotionModel("simple_cnn", 3, 2, pretrained=False)(batch)


def of_pictures(batch):
    sample_picture({"image": {name: picture[0].numpy() for name, picture in batch["image"].items()}}, Several())


@pytest.mark.parametrize("needs_one", [of_networks, of_motion, of_pictures])
def test_what_needs_one_picture_asks_for_it(samples, needs_one):
    with pytest.raises(
        InvalidArgumentError, match=r"holds several images, \['boxes', 'lanes'\], but a single one is needed"
    ):
        needs_one(collate([samples[0]]))
