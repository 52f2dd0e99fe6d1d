"""Fitting of motion tokens: collect moves of agents over the duration of a token, and cluster them."""

from collections.abc import Iterable
from typing import Final

import numpy as np
import torch

from l5kit._types import Float64Array, Int64Array
from l5kit.errors import InvalidArgumentError
from l5kit.prediction.vectorized.motion_tokens_matching import Motions, MotionTokeniser, TokenTimes, read_motions
from l5kit.prediction.vectorized.motion_tokens_vocabulary import LEVERS_M, make_vocabulary
from l5kit.prediction.vectorized.plane_poses import relative_to

_KEPT_PART: Final = 0.999
_LEAST_FOR_PARTS: Final = 1000


def fit_vocabulary(
    tokeniser: MotionTokeniser, batches: Iterable[dict[str, torch.Tensor]], times: TokenTimes, *, seed: int = 0
) -> None:
    """Set the vocabulary to clusters of the moves of agents in batches of samples.

    The longest 0.1 % of each class, measured as differences to the base move, are skipped: they are mostly tracks that
    jump.

    Args:
        tokeniser: Receives the vocabulary.
        batches: Samples with history and future; see :func:`read_motions`.
        times: Durations and numbers of tokens.
        seed: Seed of k-means.

    Raises:
        InvalidArgumentError: No agent of the batches is visible for the duration of a token.
    """
    moves, classes = [np.zeros((0, 3))], [np.zeros(0, np.int64)]
    for batch in batches:
        differences, batch_classes = true_differences(
            tokeniser, read_motions(batch, times, tokeniser.class_of_label, with_future=True)
        )
        moves.append(differences)
        classes.append(batch_classes)
    all_moves, all_classes = np.concatenate(moves), np.concatenate(classes)
    if len(all_moves) == 0:
        raise InvalidArgumentError(
            "no agent in the samples is visible for the duration of a token; use other samples, or shorter tokens "
            "(model_params.token_num_steps)"
        )
    # moves that are far longer than most of their class are tracking errors, and would take up tokens
    is_kept = np.ones(len(all_moves), np.bool_)
    for number, lever_m in enumerate(LEVERS_M):
        own = np.flatnonzero(all_classes == number)
        if len(own) >= _LEAST_FOR_PARTS:
            lengths = np.linalg.norm(all_moves[own] * (1.0, 1.0, lever_m), axis=1)
            is_kept[own] = lengths <= np.quantile(lengths, _KEPT_PART)
    tokens, sizes = make_vocabulary(all_moves[is_kept], all_classes[is_kept], tokeniser.num_tokens, seed=seed)
    tokeniser.set_vocabulary(torch.from_numpy(tokens), torch.from_numpy(sizes))


def true_differences(tokeniser: MotionTokeniser, motions: Motions) -> tuple[Float64Array, Int64Array]:
    """Return the token values that would reproduce the truth exactly, (N, 3), and the class of each, (N,).

    Args:
        tokeniser: Defines the base move that tokens are differences to.
        motions: Agents, with any leading axes.
    """
    poses, is_known = motions.poses.double(), motions.is_known
    moves = relative_to(poses[..., :-1, :], poses[..., 1:, :])
    has_move = is_known[..., :-1] & is_known[..., 1:]
    classes = motions.classes.unsqueeze(-1).expand(has_move.shape)
    if tokeniser.base == "none":
        return moves[has_move].numpy(), classes[has_move].numpy()
    last, before, has_before = torch.zeros_like(moves), torch.zeros_like(moves), torch.zeros_like(has_move)
    last[..., 1:, :], before[..., 2:, :], has_before[..., 2:] = (
        moves[..., :-1, :],
        moves[..., :-2, :],
        has_move[..., :-2],
    )
    has_move = torch.cat((torch.zeros_like(has_move[..., :1]), has_move[..., 1:] & has_move[..., :-1]), dim=-1)
    differences = relative_to(tokeniser.base_moves(last, before, has_before), moves)
    return differences[has_move].numpy(), classes[has_move].numpy()
