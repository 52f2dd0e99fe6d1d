"""Sampling of motion tokens: choices by probability, each from a random number of its own."""

from typing import Final

import numpy as np
import torch

from l5kit._types import Int64Array
from l5kit.random.counter_draws import counter_uniforms

UNIFORMS_KEY: Final = "token_uniforms"
"""The key of a batch that holds uniform numbers, of batches for which none are drawn."""

_MICROSECOND_NS: Final = 1000


def draw_uniforms(batch: dict[str, torch.Tensor], seed: int, *, num_rollouts: int, num_tokens: int) -> torch.Tensor:
    """Return a uniform number for each token of each agent and rollout, whoever else is in the batch.

    It depends on the seed, the scene, the time, the track, the rollout and the token only, and on no generator.

    Args:
        batch: ``scene_index`` (B,), ``timestamp`` (B,) in ns and ``all_other_agents_track_ids`` (B, A); one that is
            missing counts as 0, for tracks as the number of the row.
        seed: At least 0.
        num_rollouts: K.
        num_tokens: N.

    Returns:
        At least 0 and below 1, float64, (B, K, A, N), on the device of the batch.
    """
    known = batch["all_other_agents_history_availability"]
    num_samples, num_agents = known.shape[:2]
    scenes = _integers(batch, "scene_index", np.zeros(num_samples, np.int64))
    times = _integers(batch, "timestamp", np.zeros(num_samples, np.int64)) // _MICROSECOND_NS
    rows: Int64Array = np.broadcast_to(np.arange(num_agents), (num_samples, num_agents))
    tracks = _integers(batch, "all_other_agents_track_ids", rows)
    uniforms = counter_uniforms(
        seed,
        scenes[:, None, None, None],
        times[:, None, None, None],
        np.arange(num_rollouts)[:, None, None],
        tracks[:, None, :, None],
        np.arange(num_tokens),
    )
    return torch.from_numpy(uniforms).to(known.device)


def choose_tokens(logits: torch.Tensor, uniforms: torch.Tensor, temperature: float) -> torch.Tensor:
    """Return a token for each row of logits: the likeliest at temperature 0, else as likely as the logits say.

    Args:
        logits: Minus infinity for what must not be chosen, shape (..., V).
        uniforms: At least 0 and below 1, float64, shape (...).
        temperature: What logits are divided by, at least 0: below 1 the likely ones come more often.

    Returns:
        Int64, shape (...).
    """
    if temperature == 0:
        return logits.argmax(dim=-1)
    # the first token up to which the odds sum to more than a share of all of them: in float64, as odds of a thousand
    # tokens are summed; rounding may miss the end, behind which no token has odds
    odds = torch.exp((logits - logits.amax(dim=-1, keepdim=True)).double() / temperature)
    summed = odds.cumsum(dim=-1)
    wanted = uniforms.to(odds.dtype).unsqueeze(-1) * summed[..., -1:]
    last = (odds > 0).int().mul(torch.arange(1, odds.shape[-1] + 1, device=odds.device)).argmax(dim=-1)
    return torch.minimum((summed <= wanted).sum(dim=-1), last)


def _integers(batch: dict[str, torch.Tensor], key: str, otherwise: Int64Array) -> Int64Array:
    value = batch.get(key)
    return otherwise if value is None else np.asarray(value.numpy(force=True), np.int64)
