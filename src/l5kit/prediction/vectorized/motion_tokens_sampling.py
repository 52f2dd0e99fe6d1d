"""Sampling of motion tokens by probability, with a separate random number for each token."""

from typing import Final

import numpy as np
import torch

from l5kit._types import Int64Array
from l5kit.random.counter_draws import counter_uniforms

UNIFORMS_KEY: Final = "token_uniforms"
"""Key of a batch with given uniform random numbers; none are drawn for such a batch."""

_MICROSECOND_NS: Final = 1000


def draw_uniforms(batch: dict[str, torch.Tensor], seed: int, *, num_rollouts: int, num_tokens: int) -> torch.Tensor:
    """Return a uniform random number for each token of each agent and rollout, independent of the rest of the batch.

    It depends only on seed, scene, time, track, rollout and token, and uses no generator state.

    Args:
        batch: ``scene_index`` (B,), ``timestamp`` (B,) in ns and ``all_other_agents_track_ids`` (B, A); missing keys
            count as 0, missing tracks as the row of the agent.
        seed: Seed, at least 0.
        num_rollouts: K.
        num_tokens: N.

    Returns:
        Values in [0, 1), float64, (B, K, A, N), on the device of the batch.
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
    """Return a token for each row of logits: the likeliest at temperature 0, else sampled from the softmax.

    Args:
        logits: Minus infinity for tokens that are not allowed, shape (..., V).
        uniforms: Values in [0, 1), float64, shape (...).
        temperature: Divisor of the logits, at least 0: below 1 likely tokens become more frequent.

    Returns:
        Int64, shape (...).
    """
    if temperature == 0:
        return logits.argmax(dim=-1)
    # Inverse transform sampling: the first token at which the cumulative odds exceed the drawn share. The sums of a
    # thousand odds need float64; rounding may pass the last token with odds, hence the minimum.
    odds = torch.exp((logits - logits.amax(dim=-1, keepdim=True)).double() / temperature)
    summed = odds.cumsum(dim=-1)
    wanted = uniforms.to(odds.dtype).unsqueeze(-1) * summed[..., -1:]
    last = (odds > 0).int().mul(torch.arange(1, odds.shape[-1] + 1, device=odds.device)).argmax(dim=-1)
    return torch.minimum((summed <= wanted).sum(dim=-1), last)


def _integers(batch: dict[str, torch.Tensor], key: str, otherwise: Int64Array) -> Int64Array:
    value = batch.get(key)
    return otherwise if value is None else np.asarray(value.numpy(force=True), np.int64)
