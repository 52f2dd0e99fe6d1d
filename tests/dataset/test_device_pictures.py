"""Rasterizers of one's own that draw batches, and pictures that are tensors of a device, through datasets."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch.utils.data import default_collate

from l5kit.configs.parameters import RasterGeometry
from l5kit.dataset import AgentDataset, EgoDataset, collate, loader
from l5kit.dataset.batch_loader import pinned
from l5kit.dataset.sample_batch import SampleBatch
from l5kit.errors import InvalidArgumentError
from l5kit.rasterization import BoxRasterizer, RenderContext
from l5kit.rasterization.rasterizer import WindowRasterizer
from l5kit.sampling.samplers import AgentSampler
from support.fixture_s import make_fixture_s
from support.samples import make_agent_dataset, make_cfg

CFG = make_cfg(raster_size=[24, 16])
SHAPE = (8, 16, 24)
DEVICES = ["cpu", "meta", *(["cuda"] if torch.cuda.is_available() else [])]
OF_DEVICE = [device for device in DEVICES if device != "cpu"]


def make_boxes() -> BoxRasterizer:
    return BoxRasterizer(RenderContext.from_geometry(RasterGeometry.from_cfg(CFG)), 0.5, 3)


class OwnRasterizer:
    """Has the five members, and no base class: draws boxes as arrays, and keeps what it was handed."""

    draws_windows = True
    image_dtype = "float32"
    image_device = "cpu"

    def __init__(self) -> None:
        self._boxes = make_boxes()
        self.drawn: list[int] = []
        self.memory: list[Any] = []

    def images_shape(self, num_windows: int) -> tuple[int, int, int, int]:
        return (num_windows, *SHAPE)

    def rasterize_windows(self, windows: Any, targets: Any, images: Any = None) -> Any:
        self.drawn.append(len(windows))
        self.memory.append(images)
        return self._boxes.rasterize_windows(windows, targets, images)


class TensorRasterizer(OwnRasterizer):
    """Draws tensors of a device."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.image_device = device

    def rasterize_windows(self, windows: Any, targets: Any, images: Any = None) -> Any:
        return torch.from_numpy(super().rasterize_windows(windows, targets, images)).to(self.image_device)


def make_batch(rasterizer: Any, indices: tuple[int, ...] = (3, 9, 15), cls: Any = EgoDataset) -> Any:
    dataset = cls(CFG, make_fixture_s(), rasterizer)
    batch = dataset.__getitems__(list(indices))
    assert type(batch) is SampleBatch
    return batch


def expected_pictures(indices: tuple[int, ...] = (3, 9, 15)) -> Any:
    return np.stack([sample["image"] for sample in make_batch(make_boxes(), indices)])


def test_a_rasterizer_of_ones_own_gets_batches() -> None:
    rasterizer = OwnRasterizer()
    assert isinstance(rasterizer, WindowRasterizer)
    batch = make_batch(rasterizer)
    assert rasterizer.drawn == [3]
    assert [memory.shape for memory in rasterizer.memory] == [(3, *SHAPE)]
    assert_array_equal(np.stack([sample["image"] for sample in batch]), expected_pictures())


def test_a_rasterizer_of_ones_own_gets_batches_of_agents() -> None:
    rasterizer = OwnRasterizer()
    found = make_agent_dataset(CFG, make_fixture_s(), rasterizer, min_frame_history=0).__getitems__([0, 5, 7, 2])
    expected = make_agent_dataset(CFG, make_fixture_s(), make_boxes(), min_frame_history=0).__getitems__([0, 5, 7, 2])
    assert rasterizer.drawn == [4]
    for sample, other in zip(found, expected, strict=True):
        assert_array_equal(sample["image"], other["image"])
        assert sample["image"].any()


@pytest.mark.parametrize("missing", ["draws_windows", "image_dtype", "image_device", "images_shape"])
def test_what_lacks_a_member_is_drawn_window_by_window(missing: str) -> None:
    class Partly:
        def __init__(self) -> None:
            boxes, names = OwnRasterizer(), ["draws_windows", "image_dtype", "image_device", "images_shape"]
            for name in [*names, "rasterize_windows"]:
                if name != missing:
                    setattr(self, name, getattr(boxes, name))

        def rasterize(self, *window: Any) -> Any:
            return np.full((16, 24, 8), len(window[0]), np.float32)

    rasterizer = Partly()
    assert not isinstance(rasterizer, WindowRasterizer)
    samples = EgoDataset(CFG, make_fixture_s(), rasterizer).__getitems__([0, 15])  # type: ignore[arg-type]
    assert type(samples) is list
    assert [float(sample["image"].max()) for sample in samples] == [1.0, 4.0]


def test_one_that_says_no_is_drawn_window_by_window() -> None:
    class Single(OwnRasterizer):
        draws_windows = False

        def rasterize(self, *window: Any) -> Any:
            return np.full((16, 24, 8), 0.5, np.float32)

    rasterizer = Single()
    samples = EgoDataset(CFG, make_fixture_s(), rasterizer).__getitems__([0, 15])
    assert type(samples) is list
    assert rasterizer.drawn == []
    assert all((sample["image"] == 0.5).all() for sample in samples)


def test_what_can_draw_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"rasterizer must have a method rasterize\(\)"):
        EgoDataset(CFG, make_fixture_s(), object())  # type: ignore[arg-type]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("cls", [EgoDataset, AgentDataset])
def test_samples_are_views_of_a_tensor_that_stays_on_its_device(device: str, cls: Any) -> None:
    rasterizer = TensorRasterizer(device)
    if cls is AgentDataset:
        batch = make_agent_dataset(CFG, make_fixture_s(), rasterizer, min_frame_history=0).__getitems__([0, 5, 7])
    else:
        batch = make_batch(rasterizer)
    pictures = batch.columns["image"]
    assert isinstance(pictures, torch.Tensor)
    assert (pictures.device.type, tuple(pictures.shape), pictures.dtype) == (device, (3, *SHAPE), torch.float32)
    for index, sample in enumerate(batch):
        assert sample["image"]._base is pictures
        assert sample["image"].storage_offset() == index * np.prod(SHAPE)
    assert (rasterizer.memory[0] is None) == (device != "cpu")  # no memory of the processor for what is not drawn there


@pytest.mark.parametrize("device", DEVICES)
def test_collate_hands_the_tensor_on_as_it_is(device: str) -> None:
    batch = make_batch(TensorRasterizer(device))
    collated = collate(batch)
    assert collated["image"] is batch.columns["image"]
    assert {value.device.type for key, value in collated.items() if key != "image"} == {"cpu"}
    if device != "meta":
        assert_array_equal(collated["image"].cpu().numpy(), expected_pictures())


@pytest.mark.parametrize("device", DEVICES)
def test_changed_samples_are_stacked_on_the_device(device: str) -> None:
    batch = make_batch(TensorRasterizer(device))
    batch.reverse()
    batch[0]["weight"] = batch[1]["weight"] = batch[2]["weight"] = 2.0
    collated = collate(batch)
    assert (collated["image"].device.type, collated["weight"].tolist()) == (device, [2.0] * 3)
    if device != "meta":
        assert_array_equal(collated["image"].cpu().numpy(), expected_pictures()[::-1])


@pytest.mark.parametrize("device", DEVICES)
def test_a_single_sample_is_a_batch_of_one(device: str) -> None:
    rasterizer = TensorRasterizer(device)
    image = EgoDataset(CFG, make_fixture_s(), rasterizer)[15]["image"]  # type: ignore[arg-type]
    assert (image.device.type, tuple(image.shape), image.is_contiguous()) == (device, SHAPE, True)
    assert rasterizer.drawn == [1]
    if device != "meta":
        assert_array_equal(image.cpu().numpy(), expected_pictures((15,))[0])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("threads", [0, 2])
def test_the_loader_hands_tensors_on(device: str, threads: int) -> None:
    dataset = EgoDataset(CFG, make_fixture_s(), TensorRasterizer(device))  # type: ignore[arg-type]
    batches = list(loader(dataset, 4, threads=threads, drop_last=True))
    assert len(batches) > 2
    assert {batch["image"].device.type for batch in batches} == {device}
    if device != "meta":
        assert_array_equal(batches[1]["image"].cpu().numpy(), expected_pictures((4, 5, 6, 7)))


@pytest.mark.process
def test_tensors_of_the_processor_come_from_workers() -> None:
    dataset = EgoDataset(CFG, make_fixture_s(), TensorRasterizer("cpu"))  # type: ignore[arg-type]
    batches = list(loader(dataset, 4, num_workers=1, drop_last=True))
    assert type(batches[1]["image"]) is torch.Tensor
    assert_array_equal(batches[1]["image"].numpy(), expected_pictures((4, 5, 6, 7)))


@pytest.mark.parametrize("device", OF_DEVICE)
def test_tensors_of_a_device_are_not_pinned(device: str) -> None:
    batch = {"image": torch.zeros(2, 3, device=device), "names": ["a", "b"]}
    assert pinned(batch)["image"] is batch["image"]


@pytest.mark.parametrize("device", OF_DEVICE)
def test_pictures_of_a_device_are_not_drawn_over_by_the_processor(device: str) -> None:
    batch = make_batch(TensorRasterizer(device))
    with pytest.raises(InvalidArgumentError, match=r"out holds rasters in a tensor, Tensor of torch\.float32"):
        EgoDataset(CFG, make_fixture_s(), make_boxes()).__getitems__([1, 2], out=batch)


@pytest.mark.parametrize("device", DEVICES)
def test_windows_that_cannot_be_made_leave_zeros_on_the_device(device: str) -> None:
    dataset = make_agent_dataset(CFG, make_fixture_s(), TensorRasterizer(device), min_frame_history=0)
    made: list[tuple[Any, Any]] = []
    sampler = dataset.sample_function

    class Keeping(AgentSampler):
        def make_arrays(self, windows: Any, track_ids: Any, memory: Any, **options: Any) -> Any:
            made.append((windows, track_ids))
            return super().make_arrays(windows, track_ids, memory, **options)

    dataset.sample_function = Keeping(sampler.params, sampler.render_context, sampler.rasterizer, None)
    dataset.__getitems__([0, 5, 7])
    windows, track_ids = made[0]
    wrong = track_ids.copy()
    wrong[1] = 10**6
    columns = sampler.make_columns(windows, wrong, missing="mask")
    image = columns["image"]
    assert isinstance(image, torch.Tensor)
    assert (image.device.type, tuple(image.shape)) == (device, (3, *SHAPE))
    assert columns.is_made.tolist() == [True, False, True]
    if device != "meta":
        expected = sampler.make_columns(windows, track_ids)["image"]
        assert_array_equal(image[[0, 2]].cpu().numpy(), expected[[0, 2]].cpu().numpy())
        assert not image[1].any()
        assert image[2].any()


@pytest.mark.parametrize("device", DEVICES)
def test_default_collate_takes_the_samples(device: str) -> None:
    assert default_collate(make_batch(TensorRasterizer(device)))["image"].device.type == device
