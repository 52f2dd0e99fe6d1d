"""Networks from rasters to vectors, and their pretrained weights."""

import warnings

import pytest
import torch

from l5kit.errors import TensorSizeError
from l5kit.planning.checkpoint import CheckpointMismatchError
from l5kit.planning.rasterized.backbones import ResNet, SimpleCNN_GN, SmallResNet, build_backbone
from l5kit.planning.rasterized.model import RasterizedPlanningModel

# layer -> number of blocks, and the convolutions of a block: kernel size, channels in relation to those of the layer
BLOCKS = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3), "resnet50": (3, 4, 6, 3)}
NUM_ENTRIES = {"resnet18": 122, "resnet34": 218, "resnet50": 320}


def norm_rows(name, channels):
    return {f"{name}.{key}": (channels,) for key in ("weight", "bias", "running_mean", "running_var")} | {
        f"{name}.num_batches_tracked": ()
    }


def torchvision_table(model_arch, num_channels, num_outputs):
    """Names and shapes of torchvision's state dict."""
    expansion = 4 if model_arch == "resnet50" else 1
    table = {"conv1.weight": (64, num_channels, 7, 7), **norm_rows("bn1", 64)}
    coming_in = 64
    for layer, (num_blocks, channels) in enumerate(zip(BLOCKS[model_arch], (64, 128, 256, 512), strict=True), 1):
        for block in range(num_blocks):
            name = f"layer{layer}.{block}"
            out = channels * expansion
            shapes = (
                [(channels, coming_in, 1, 1), (channels, channels, 3, 3), (out, channels, 1, 1)]
                if expansion == 4
                else [(channels, coming_in, 3, 3), (channels, channels, 3, 3)]
            )
            for number, shape in enumerate(shapes, 1):
                table |= {f"{name}.conv{number}.weight": shape, **norm_rows(f"{name}.bn{number}", shape[0])}
            if block == 0 and (layer > 1 or expansion == 4):
                table |= {
                    f"{name}.downsample.0.weight": (out, coming_in, 1, 1),
                    **norm_rows(f"{name}.downsample.1", out),
                }
            coming_in = out
    return table | {"fc.weight": (num_outputs, 512 * expansion), "fc.bias": (num_outputs,)}


@pytest.mark.parametrize("model_arch", BLOCKS)
def test_state_dict_is_that_of_torchvision(model_arch):
    with torch.device("meta"):
        state = build_backbone(model_arch, 5, 36).state_dict()
    table = torchvision_table(model_arch, 5, 36)
    assert {name: tuple(value.shape) for name, value in state.items()} == table
    assert list(state) == list(table)
    assert len(state) == NUM_ENTRIES[model_arch]


@pytest.mark.parametrize("model_arch", BLOCKS)
def test_rows_and_columns_are_reduced_32_times(model_arch):
    network = build_backbone(model_arch, 3, 6).eval()
    sizes = []
    network.layer4.register_forward_hook(lambda module, given, out: sizes.append(tuple(out.shape[2:])))
    assert network(torch.zeros(1, 3, 64, 96)).shape == (1, 6)
    assert sizes == [(2, 3)]


def test_a_block_without_change_passes_its_input_on():
    network = build_backbone("resnet18", 3, 6).eval()
    block = network.layer1[0]
    torch.nn.init.zeros_(block.bn2.weight)
    x = torch.rand(1, 64, 4, 4)
    assert torch.equal(block(x), x)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    (tmp_path / "hub" / "checkpoints").mkdir(parents=True)
    return tmp_path / "hub" / "checkpoints"


@pytest.fixture(scope="module")
def imagenet_resnet18():
    torch.manual_seed(1)
    return build_backbone("resnet18", 3, 1000)


def test_n5_pretrained_weights_come_from_the_cache_of_torch_hub(hub, imagenet_resnet18):
    torch.save(imagenet_resnet18.state_dict(), hub / "resnet18-f37072fd.pth")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = RasterizedPlanningModel("resnet18", 3, 12, [1.0] * 3, None)
    wanted = imagenet_resnet18.state_dict()
    for name, value in model.model.state_dict().items():
        assert name.startswith("fc.") or torch.equal(value, wanted[name]), name
    assert model.model.fc.weight.shape == (12, 512)


def test_p10_other_channels_than_3_start_anew_with_a_warning(tmp_path, imagenet_resnet18):
    torch.save(imagenet_resnet18.state_dict(), tmp_path / "mine.pth")
    with pytest.warns(UserWarning, match="3 channels.*5"):
        model = RasterizedPlanningModel("resnet18", 5, 12, [1.0] * 3, None, weights_file=tmp_path / "mine.pth")
    assert model.model.conv1.weight.shape == (64, 5, 7, 7)
    assert torch.equal(model.model.layer1[0].conv1.weight, imagenet_resnet18.layer1[0].conv1.weight)


def test_p10_the_small_network_has_no_pretrained_weights_to_warn_about():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RasterizedPlanningModel("simple_cnn", 5, 12, [1.0] * 3, None, True)


def test_pretrained_weights_that_are_not_there(hub):
    with pytest.raises(FileNotFoundError, match=r"resnet50-0676ba61\.pth.*pretrained=False") as found:
        RasterizedPlanningModel("resnet50", 3, 12, [1.0] * 3, None)
    assert str(hub) in str(found.value)
    assert list(hub.iterdir()) == []


def test_pretrained_weights_of_another_network(hub):
    with torch.device("cpu"):
        torch.save(ResNet.state_dict(build_backbone("resnet18", 3, 10)), hub / "resnet18-f37072fd.pth")
    with pytest.raises(CheckpointMismatchError, match=r"fc\.weight: \(10, 512\) in the file, \(1000, 512\)"):
        build_backbone("resnet18", 3, 12, pretrained=True)


def test_the_layers_of_the_small_network():
    network = SimpleCNN_GN(5, 36)
    assert [type(layer).__name__ for layer in network] == [
        *("Conv2d", "GroupNorm", "ReLU", "MaxPool2d") * 2,
        "Flatten",
        "Linear",
    ]
    assert isinstance(network, torch.nn.Sequential)


@pytest.mark.parametrize("size", [(107, 122), (112, 112), (122, 107)])
def test_sizes_that_the_small_network_takes(size):
    assert SimpleCNN_GN(2, 4)(torch.zeros(1, 2, *size)).shape == (1, 4)


@pytest.mark.parametrize("size", [(106, 112), (112, 123), (224, 224), (56, 112)])
def test_p11_other_sizes_are_a_clear_error(size):
    with pytest.raises(TensorSizeError, match=f"{size[0]} x {size[1]} pixels.*107 to 122"):
        SimpleCNN_GN(2, 4)(torch.zeros(1, 2, *size))


@pytest.mark.parametrize("size", [(4, 9), (80, 144), (112, 112), (224, 200)])
def test_the_small_resnet_takes_any_size(size):
    network = build_backbone("small_resnet", 2, 4)
    assert isinstance(network, SmallResNet)
    assert network(torch.rand(3, 2, *size)).shape == (3, 4)


def test_samples_do_not_change_each_other_in_the_small_resnet():
    """Neither in train mode, as it has no statistics of batches."""
    network, rasters = SmallResNet(2, 4).train(), torch.rand(3, 2, 112, 112)
    alone = torch.cat([network(raster[None]) for raster in rasters])
    torch.testing.assert_close(network(rasters), alone, rtol=1e-4, atol=1e-5)


def test_the_small_resnet_keeps_channels_last_in_memory():
    network, found = SmallResNet(2, 4), []
    network.layer2.register_forward_hook(lambda *called: found.append(called[-1]))
    network(torch.rand(3, 2, 112, 112))
    assert found[0].is_contiguous(memory_format=torch.channels_last)


def test_the_small_resnet_tells_where_things_are():
    """A mean over the picture would not: the two pictures differ in nothing but the place of a box."""
    network, rasters = SmallResNet(1, 16), torch.zeros(2, 1, 112, 112)
    rasters[0, 0, 48:56, 48:56] = rasters[1, 0, 48:56, 80:88] = 1.0
    assert (network(rasters)[0] - network(rasters)[1]).abs().max() > 0.01


def test_a_halving_layer_whose_block_is_silent_passes_its_first_convolution_on():
    layer = SmallResNet(2, 4).layer1
    torch.nn.init.zeros_(layer.norm2.weight)
    x = torch.rand(1, 32, 8, 8)
    assert torch.equal(layer(x), layer.norm0(layer.conv0(x)).relu())


def test_all_weights_of_the_small_resnet_learn():
    network = SmallResNet(2, 4)
    network(torch.rand(2, 2, 112, 112)).square().sum().backward()
    assert all(weight.grad.abs().max() > 0 for weight in network.parameters())
