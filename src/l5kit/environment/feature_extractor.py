"""Feature extractor: the network between observations and the policies of stable-baselines3."""

import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

from l5kit.configs.texts import did_you_mean
from l5kit.environment.models import SimpleCNN_GN
from l5kit.errors import InvalidArgumentError, UnsupportedValueError

__all__ = ["CustomFeatureExtractor"]

_ARCHITECTURES = ("simple_gn",)


class CustomFeatureExtractor(BaseFeaturesExtractor):
    """Features of the image, by a small network with group normalisation.

    Args:
        observation_space: Has the key ``image``, (C, H, W).
        features_dim: Number of features.
        model_arch: ``simple_gn``.

    Attributes:
        extractors: The networks, by key.

    Raises:
        UnsupportedValueError: The network does not exist (a ``NotImplementedError``).
        InvalidArgumentError: The space has no image.
    """

    def __init__(self, observation_space: spaces.Dict, features_dim: int = 256, model_arch: str = "simple_gn") -> None:
        super().__init__(observation_space, features_dim=features_dim)
        if model_arch not in _ARCHITECTURES:
            raise UnsupportedValueError(
                f"model_arch is {model_arch!r}{did_you_mean(model_arch, _ARCHITECTURES)}; "
                f"it must be one of {', '.join(_ARCHITECTURES)}"
            )
        if not isinstance(observation_space, spaces.Dict) or "image" not in observation_space.spaces:
            raise InvalidArgumentError(f"observation_space must be a Dict with an image, got {observation_space}")
        shape = observation_space["image"].shape
        if shape is None or len(shape) != 3:
            raise InvalidArgumentError(f"the image of observation_space must be (C, H, W), got {shape}")
        self.extractors = nn.ModuleDict({"image": SimpleCNN_GN(shape[0], features_dim)})

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return features (B, features_dim) of observations ``{"image": (B, C, H, W)}``."""
        features = [extractor(observations[key]) for key, extractor in self.extractors.items()]
        return torch.cat(features, dim=1)
