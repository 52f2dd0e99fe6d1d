"""Features of compact observations: a policy network over the route and an unordered set of road users."""

from collections.abc import Mapping

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from l5kit._types import Float32Array
from l5kit.environment.models import SetFeatures, compact_features
from l5kit.environment.observations.compact_layout import SET_PARTS, CompactLayout

_NUM_STEPS = 30
_LEAST_DEVIATION = 0.05


class CompactFeatures(BaseFeaturesExtractor):
    """Features of compact observations, (B, D) to (B, features).

    Values are normalised by fixed scales. The AV and its route go through one layer, road users through two shared
    layers, then max pooling (PointNet, Qi et al., CVPR 2017) or cross-attention from the AV and its route, both
    permutation invariant. Lane points are treated in the same way. The sum goes through tanh.

    Args:
        space: Space of the observations.
        layout: Layout of the observations, as fields of :class:`CompactLayout`.
        features: Number of features.
        width: Width of the layers of road users.
        num_heads: Attention heads from the AV and its route to road users; 0 for max pooling.
        scales: Means and standard deviations of all columns, float32 (2, D), as :func:`measure_scales` returns them.
    """

    means: torch.Tensor
    deviations: torch.Tensor

    def __init__(
        self,
        space: spaces.Box,
        *,
        layout: Mapping[str, object],
        features: int,
        width: int,
        scales: Float32Array,
        num_heads: int = 0,
    ) -> None:
        super().__init__(space, features)
        self._parts = CompactLayout(**layout).parts  # type: ignore[arg-type]
        self.register_buffer("means", torch.as_tensor(scales[0]))
        self.register_buffer("deviations", torch.as_tensor(scales[1]))
        num_own = self._parts[SET_PARTS[0]][0].start
        self.own = nn.Linear(num_own, features)
        self.sets = nn.ModuleDict()
        for name in SET_PARTS:
            _, (count, columns) = self._parts[name]
            if count:
                each = nn.Linear(columns, width), nn.Linear(width, width)
                mix = nn.Linear(width * max(num_heads, 1), features, bias=False)
                query = nn.Linear(num_own, width * num_heads) if num_heads else None
                self.sets[name] = SetFeatures(*each, mix, query=query)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Return features, (B, features)."""
        scales = self.means, self.deviations
        return compact_features(observations, scales, own=self.own, sets=self.sets, parts=self._parts)


def measure_scales(env: VecEnv, layout: CompactLayout, *, seed: int) -> Float32Array:
    """Return means and standard deviations of observation columns, float32 (2, D), measured over some random steps.

    All rows of road users share the same values, as do those of lane points; flags are not scaled.

    Args:
        env: Environments with compact observations, which are reset.
        layout: Layout of the observations.
        seed: Seed of the episodes and the actions.
    """
    generator = np.random.default_rng(seed)
    env.seed(seed)
    seen = [np.asarray(env.reset())]
    for _ in range(_NUM_STEPS):
        if isinstance(env.action_space, spaces.Discrete):
            actions = generator.integers(env.action_space.n, size=env.num_envs)
        else:
            shape = (env.num_envs, *(env.action_space.shape or ()))
            actions = generator.uniform(-1, 1, shape).astype(np.float32)
        observations, _, _, _ = env.step(actions)
        seen.append(np.asarray(observations))
    env.reset()
    rows = np.concatenate(seen)
    means, deviations = rows.mean(axis=0), rows.std(axis=0)
    for name in SET_PARTS:
        columns, (count, width) = layout.parts[name]
        each = rows[:, columns].reshape(-1, width)
        each = each[each[:, -1] > 0]
        # columns of zeros and ones are not scaled, nor is a part without any rows
        is_flag = np.isin(each, (0.0, 1.0)).all(axis=0) | (len(each) == 0)
        mean = np.where(is_flag, 0.0, each.mean(axis=0) if len(each) else 0.0)
        deviation = np.where(is_flag, 1.0, each.std(axis=0) if len(each) else 1.0)
        means[columns], deviations[columns] = np.tile(mean, count), np.tile(deviation, count)
    return np.stack([means, np.maximum(deviations, _LEAST_DEVIATION)]).astype(np.float32)
