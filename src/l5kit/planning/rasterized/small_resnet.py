"""A small residual network from a raster to a vector, for trainings on few processors."""

from typing import Final

import torch
from torch import nn
from torch.nn import functional as F

_PATCH_PX: Final = 8
_PATCH_STRIDE_PX: Final = 4
_WIDTHS: Final = (32, 64, 96)
_CHANNELS_PER_GROUP: Final = 8
_GRID: Final = 7
"""Rows and columns that are left before the last layer, which so knows where things are."""

_DIM_CELL: Final = 32
"""Features of each of their cells."""


class SmallResNet(nn.Module):
    """Patches of 8 x 8 pixels, two layers that halve the picture, each with a residual block, and a linear layer.

    A training step takes a third of that of ``simple_cnn``. L5Kit 1.5 has no such network. The residual block is that
    of He et al., "Deep Residual Learning for Image Recognition" (2015), with group normalisation, which does not
    depend on the other samples of a batch.

    Args:
        num_input_channels: Channels of the raster.
        num_outputs: Values that it gives.
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
        image = image.contiguous(memory_format=torch.channels_last)  # a step on a processor takes a third less
        features = self.pool(self.squeeze(self.layer2(self.layer1(self.stem(image)))))
        values: torch.Tensor = self.fc(features.flatten(1))
        return values


class _HalvingLayer(nn.Module):
    """A convolution that halves rows and columns, and a residual block of two."""

    def __init__(self, in_channels: int, channels: int) -> None:
        super().__init__()
        self.conv0, self.norm0 = conv3x3(in_channels, channels, stride=2), _norm(channels)
        self.conv1, self.norm1 = conv3x3(channels, channels), _norm(channels)
        self.conv2, self.norm2 = conv3x3(channels, channels), _norm(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (B, channels, H / 2, W / 2) for (B, in_channels, H, W)."""
        shortcut = F.relu(self.norm0(self.conv0(x)))
        out = F.relu(self.norm1(self.conv1(shortcut)))
        return F.relu(self.norm2(self.conv2(out)) + shortcut)


def conv3x3(in_channels: int, channels: int, *, stride: int = 1) -> nn.Conv2d:
    """Return a convolution of three by three without a bias, which keeps rows and columns with a stride of 1."""
    return nn.Conv2d(in_channels, channels, kernel_size=3, stride=stride, padding=1, bias=False)


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(channels // _CHANNELS_PER_GROUP, channels)
