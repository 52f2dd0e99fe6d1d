"""Near-start policies: PPO with a penalty on the divergence from the start policy."""

from collections.abc import Mapping
from typing import Any, Final

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy

_ENTROPY_WEIGHT: Final = 1.0


class NearStartPolicy(ActorCriticPolicy):
    """Policy whose loss has the divergence from the start policy, KL(start || current), in addition to the entropy.

    PPO of stable-baselines3 has one term that policies compute: the entropy, times a weight. That weight is 1 here, and
    the policy returns both: its entropy times the entropy weight, minus the divergence times its own weight.

    Attributes:
        near_weight: Weight of the divergence; 0 for none.
    """

    near_weight = 0.0
    _entropy_weight = 0.0
    # in a tuple, so that it is not a submodule with weights of this policy
    _first: tuple["NearStartPolicy", ...] = ()

    def evaluate_actions(self, obs: Any, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return values, log probabilities, and the extra term of the objective, (B,) each."""
        latent_pi, latent_vf = self.mlp_extractor(self.extract_features(obs))
        now = self._get_action_dist_from_latent(latent_pi)
        entropy = now.entropy()
        assert entropy is not None  # None only for squashed actions
        # returned in place of the entropy, whose weight in PPO is 1
        gain = self._entropy_weight * entropy
        if self._first and self.near_weight > 0:
            with torch.no_grad():
                first = self._first[0].get_distribution(obs).distribution
            apart = torch.distributions.kl_divergence(first, now.distribution)  # type: ignore[arg-type]
            gain = gain - self.near_weight * apart.reshape(len(apart), -1).sum(dim=1)
        return self.value_net(latent_vf), now.log_prob(actions), gain


def keep_near_start(model: PPO, first: Mapping[str, torch.Tensor], *, entropy_weight: float) -> None:
    """Keep an algorithm near a start policy, as strongly as its ``near_weight`` says.

    Args:
        model: The algorithm, whose policy is a :class:`NearStartPolicy`, updated.
        first: All weights of the start policy.
        entropy_weight: Weight of the entropy, as it would be without this.
    """
    policy = model.policy
    assert isinstance(policy, NearStartPolicy)
    start = type(policy)(**policy._get_constructor_parameters())
    start.load_state_dict(first)
    start.set_training_mode(False)
    policy._first, policy._entropy_weight, model.ent_coef = (start,), entropy_weight, _ENTROPY_WEIGHT
