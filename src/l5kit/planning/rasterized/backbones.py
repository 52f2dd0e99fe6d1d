"""Convolutional backbones for rasters: ResNets, a small ResNet, and the small network of L5Kit 1.5.

The ResNets are those of He et al., "Deep Residual Learning for Image Recognition" (2015), with the stride of a
bottleneck in its 3x3 convolution. Their parameters have the names, shapes and order of torchvision's, whose weights can
be loaded.
"""

import os
import warnings
from pathlib import Path
from typing import Final

import torch
from torch import nn
from torch.nn import functional as F

from l5kit.configs.texts import did_you_mean
from l5kit.errors import TensorSizeError, UnsupportedValueError
from l5kit.planning.checkpoint import load_checkpoint

_IMAGENET_FILES = {
    "resnet18": "resnet18-f37072fd.pth",
    "resnet34": "resnet34-b627a593.pth",
    "resnet50": "resnet50-0676ba61.pth",
}
"""Files of the first ImageNet weights of torchvision."""

_NUM_IMAGENET_CLASSES = 1000

_CNN_FEATURE_SIZE = 7
"""Rows and columns left before the last layer of the small network."""

_PATCH_PX: Final = 8
_PATCH_STRIDE_PX: Final = 4
_WIDTHS: Final = (32, 64, 96)
_CHANNELS_PER_GROUP: Final = 8
_GRID: Final = 7
"""Rows and columns left before the last layer of ``SmallResNet``, which keeps positions."""

_DIM_CELL: Final = 32
"""Features of each of these cells."""


class SmallCNN(nn.Sequential):
    """Two convolutions with group normalisation and one linear layer, for rasters of about 112 x 112 pixels."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return the features of rasters.

        Args:
            image: Rasters, float32, shape (B, C, H, W) with H and W from 107 to 122.

        Returns:
            Shape (B, features_dim).

        Raises:
            TensorSizeError: The height or width is outside this range.
        """
        if _cnn_feature_size(image.shape[-2]) != 7 or _cnn_feature_size(image.shape[-1]) != 7:
            raise TensorSizeError(
                f"image is {image.shape[-2]} x {image.shape[-1]} pixels; simple_cnn takes 107 to 122 rows and columns."
                " Set raster_params.raster_size to [112, 112], or use a resnet, which takes any size"
            )
        for module in self:
            image = module(image)
        return image


def _cnn_feature_size(size: int) -> int:
    """Return the number of rows after the convolutions and poolings of the small network."""
    pooled = ((size - 1) // 2 + 1) // 2
    return ((pooled - 1) // 2 + 1) // 2


def SimpleCNN_GN(num_input_channels: int, features_dim: int) -> nn.Sequential:  # noqa: N802 - a name of L5Kit 1.x
    """Return a small network with group normalisation, for rasters of about 112 x 112 pixels.

    Args:
        num_input_channels: Channels of the raster.
        features_dim: Number of outputs.
    """
    return SmallCNN(
        nn.Conv2d(num_input_channels, 64, kernel_size=7, stride=2, padding=3, bias=False),
        nn.GroupNorm(4, 64),
        nn.ReLU(),
        nn.MaxPool2d(kernel_size=2, stride=2),
        nn.Conv2d(64, 32, kernel_size=7, stride=2, padding=3, bias=False),
        nn.GroupNorm(2, 32),
        nn.ReLU(),
        nn.MaxPool2d(kernel_size=2, stride=2),
        nn.Flatten(),
        nn.Linear(32 * _CNN_FEATURE_SIZE**2, features_dim),
    )


def _conv3x3(in_channels: int, channels: int, *, stride: int = 1) -> nn.Conv2d:
    """Return a 3x3 convolution without a bias, which keeps rows and columns with a stride of 1."""
    return nn.Conv2d(in_channels, channels, kernel_size=3, stride=stride, padding=1, bias=False)


def _conv1x1(in_channels: int, out_channels: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(in_channels, out_channels, kernel_size=1, stride=stride, bias=False)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut, as in ResNet-18 and -34."""

    expansion = 1

    def __init__(self, in_channels: int, channels: int, *, stride: int, downsample: nn.Module | None) -> None:
        super().__init__()
        self.conv1 = _conv3x3(in_channels, channels, stride=stride)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = _conv3x3(channels, channels)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = downsample

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return features of shape (B, channels, H / stride, W / stride) for (B, in_channels, H, W)."""
        shortcut = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        summed: torch.Tensor = self.relu(out + shortcut)
        return summed


class Bottleneck(nn.Module):
    """A 3x3 convolution between two 1x1 convolutions, with a shortcut, as in ResNet-50."""

    expansion = 4

    def __init__(self, in_channels: int, channels: int, *, stride: int, downsample: nn.Module | None) -> None:
        super().__init__()
        self.conv1 = _conv1x1(in_channels, channels)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = _conv3x3(channels, channels, stride=stride)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = _conv1x1(channels, channels * self.expansion)
        self.bn3 = nn.BatchNorm2d(channels * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return features of shape (B, 4 channels, H / stride, W / stride) for (B, in_channels, H, W)."""
        shortcut = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        summed: torch.Tensor = self.relu(out + shortcut)
        return summed


Block = type[BasicBlock] | type[Bottleneck]

_ARCHITECTURES: dict[str, tuple[Block, tuple[int, int, int, int]]] = {
    "resnet18": (BasicBlock, (2, 2, 2, 2)),
    "resnet34": (BasicBlock, (3, 4, 6, 3)),
    "resnet50": (Bottleneck, (3, 4, 6, 3)),
}


class ResNet(nn.Module):
    """A residual network: a 7x7 convolution, four layers of blocks, the mean over the image, a linear layer."""

    def __init__(self, block: Block, num_blocks: tuple[int, int, int, int], num_classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        expansion = block.expansion
        self.layer1 = _layer(block, (64, 64), num_blocks[0], stride=1)
        self.layer2 = _layer(block, (64 * expansion, 128), num_blocks[1], stride=2)
        self.layer3 = _layer(block, (128 * expansion, 256), num_blocks[2], stride=2)
        self.layer4 = _layer(block, (256 * expansion, 512), num_blocks[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * expansion, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (B, num_classes) for images of shape (B, C, H, W)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: torch.Tensor = self.fc(torch.flatten(self.avgpool(x), 1))
        return logits


def _layer(block: Block, channels: tuple[int, int], num_blocks: int, *, stride: int) -> nn.Sequential:
    """Return the blocks of one layer; ``channels`` are the input channels and those inside a block."""
    in_channels, inner_channels = channels
    out_channels = inner_channels * block.expansion
    downsample = None
    if stride != 1 or in_channels != out_channels:
        downsample = nn.Sequential(_conv1x1(in_channels, out_channels, stride), nn.BatchNorm2d(out_channels))
    first = block(in_channels, inner_channels, stride=stride, downsample=downsample)
    rest = [block(out_channels, inner_channels, stride=1, downsample=None) for _ in range(num_blocks - 1)]
    return nn.Sequential(first, *rest)


class SmallResNet(nn.Module):
    """Patches of 8 x 8 pixels, two layers that halve the image, each with a residual block, and a linear layer.

    A training step takes a third of that of ``simple_cnn``. L5Kit 1.5 has no such network. The residual block is that
    of He et al., "Deep Residual Learning for Image Recognition" (2015), with group normalisation, which does not
    depend on the other samples of a batch.

    Args:
        num_input_channels: Channels of the raster.
        num_outputs: Number of outputs.
    """

    def __init__(self, num_input_channels: int, num_outputs: int) -> None:
        super().__init__()
        first, second, third = _WIDTHS
        self.stem = nn.Sequential(
            nn.Conv2d(num_input_channels, first, _PATCH_PX, stride=_PATCH_STRIDE_PX, padding=2, bias=False),
            nn.GroupNorm(first // _CHANNELS_PER_GROUP, first),
            nn.ReLU(),
        )
        self.layer1 = _HalvingLayer(first, second)
        self.layer2 = _HalvingLayer(second, third)
        self.squeeze = nn.Conv2d(third, _DIM_CELL, kernel_size=1)
        self.pool = nn.AdaptiveAvgPool2d((_GRID, _GRID))
        self.fc = nn.Linear(_DIM_CELL * _GRID**2, num_outputs)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return (B, num_outputs) for rasters (B, C, H, W), float32, of any H and W from 4 on."""
        image = image.contiguous(
            memory_format=torch.channels_last
        )  # channels-last takes a third less time per step on a processor
        features = self.pool(self.squeeze(self.layer2(self.layer1(self.stem(image)))))
        values: torch.Tensor = self.fc(features.flatten(1))
        return values


class _HalvingLayer(nn.Module):
    """A convolution that halves rows and columns, and a residual block of two."""

    def __init__(self, in_channels: int, channels: int) -> None:
        super().__init__()
        self.conv0, self.norm0 = _conv3x3(in_channels, channels, stride=2), _norm(channels)
        self.conv1, self.norm1 = _conv3x3(channels, channels), _norm(channels)
        self.conv2, self.norm2 = _conv3x3(channels, channels), _norm(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (B, channels, H / 2, W / 2) for (B, in_channels, H, W)."""
        shortcut = F.relu(self.norm0(self.conv0(x)))
        out = F.relu(self.norm1(self.conv1(shortcut)))
        return F.relu(self.norm2(self.conv2(out)) + shortcut)


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(channels // _CHANNELS_PER_GROUP, channels)


def build_backbone(
    model_arch: str,
    num_input_channels: int,
    num_outputs: int,
    *,
    pretrained: bool = False,
    weights_file: str | os.PathLike[str] | None = None,
) -> nn.Module:
    """Return a network from rasters of shape (B, C, H, W) to shape (B, num_outputs).

    Args:
        model_arch: ``resnet18``, ``resnet34``, ``resnet50``, ``simple_cnn`` or ``small_resnet``.
        num_input_channels: Channels C. A ResNet gets a new first convolution unless C is 3.
        num_outputs: Outputs of the last layer.
        pretrained: Start a ResNet from ImageNet weights; the small networks have none.
        weights_file: File with ImageNet weights under torchvision's names. By default that of torchvision's first
            weights in the cache folder of torch hub. Nothing is downloaded.

    Raises:
        UnsupportedValueError: There is no such ``model_arch``.
        FileNotFoundError: ``pretrained`` is set, and the file does not exist.
        CheckpointMismatchError: The file holds other weights.
    """
    if model_arch == "simple_cnn":
        return SimpleCNN_GN(num_input_channels, num_outputs)
    if model_arch == "small_resnet":
        return SmallResNet(num_input_channels, num_outputs)
    if not isinstance(model_arch, str) or model_arch not in _ARCHITECTURES:
        known = [*_ARCHITECTURES, "simple_cnn", "small_resnet"]
        raise UnsupportedValueError(
            f"model_arch {model_arch!r} does not exist{did_you_mean(model_arch, known)}; allowed are {', '.join(known)}"
        )
    network = ResNet(*_ARCHITECTURES[model_arch], _NUM_IMAGENET_CLASSES)
    if pretrained:
        cached = Path(torch.hub.get_dir()) / "checkpoints" / _IMAGENET_FILES[model_arch]
        if weights_file is None and not cached.is_file():
            raise FileNotFoundError(
                f"pretrained=True needs ImageNet weights, and {cached} does not exist. Put torchvision's {cached.name} "
                f"there (from https://download.pytorch.org/models/{cached.name}), name another file with "
                "weights_file=..., or pass pretrained=False to start from random weights"
            )
        if num_input_channels != network.conv1.in_channels:
            warnings.warn(
                f"pretrained weights are for 3 channels, the raster has {num_input_channels}: the first layer starts "
                "from random weights",
                UserWarning,
                stacklevel=3,
            )
        load_checkpoint(network, cached if weights_file is None else Path(weights_file))
    # the last layer, and for rasters other than RGB the first one, are always new
    network.fc = nn.Linear(network.fc.in_features, num_outputs)
    if num_input_channels != network.conv1.in_channels:
        network.conv1 = nn.Conv2d(num_input_channels, 64, kernel_size=7, stride=2, padding=3, bias=False)
    return network
