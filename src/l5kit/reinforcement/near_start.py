"""Policies that stay near the one that they began with: PPO with a term of how far the two are apart."""

from collections.abc import Mapping
from typing import Any, Final

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy

_ENTROPY_WEIGHT: Final = 1.0


class NearStartPolicy(ActorCriticPolicy):
    """Policy whose loss has the divergence of the first policy from it, KL(first || now), beside the entropy.

    PPO of stable-baselines3 knows one term that policies compute: the entropy, times a weight. That is 1 here, and the
    policy gives it both: its entropy times the weight of the entropy, less the divergence times its own.

    Attributes:
        near_weight: Weight of the divergence; 0 for none.
    """

    near_weight = 0.0
    _entropy_weight = 0.0
    # not a module of this one, so that its weights are no weights of the policy
    _first: tuple["NearStartPolicy", ...] = ()

    def evaluate_actions(self, obs: Any, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return values, logarithms of probabilities, and what is added to the objective, (B,) each."""
        latent_pi, latent_vf = self.mlp_extractor(self.extract_features(obs))
        now = self._get_action_dist_from_latent(latent_pi)
        entropy = now.entropy()
        assert entropy is not None  # only actions that are squashed have none
        # what PPO takes for the entropy, with its weight of 1
        gain = self._entropy_weight * entropy
        if self._first and self.near_weight > 0:
            with torch.no_grad():
                first = self._first[0].get_distribution(obs).distribution
            apart = torch.distributions.kl_divergence(first, now.distribution)  # type: ignore[arg-type]
            gain = gain - self.near_weight * apart.reshape(len(apart), -1).sum(dim=1)
        return self.value_net(latent_vf), now.log_prob(actions), gain


def keep_near_start(model: PPO, first: Mapping[str, torch.Tensor], *, entropy_weight: float) -> None:
    """Let an algorithm keep near a policy; its ``near_weight`` says how near.

    Args:
        model: The algorithm, whose policy is a :class:`NearStartPolicy`, changed.
        first: All weights of the policy to keep near.
        entropy_weight: What the weight of the entropy would be without.
    """
    policy = model.policy
    assert isinstance(policy, NearStartPolicy)
    start = type(policy)(**policy._get_constructor_parameters())
    start.load_state_dict(first)
    start.set_training_mode(False)
    policy._first, policy._entropy_weight, model.ent_coef = (start,), entropy_weight, _ENTROPY_WEIGHT
