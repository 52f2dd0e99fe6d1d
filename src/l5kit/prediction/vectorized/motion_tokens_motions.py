"""Motions of a batch of samples: where its agents were and will be at the ends of tokens."""

from dataclasses import dataclass

import torch

from l5kit.errors import InvalidArgumentError
from l5kit.prediction.vectorized.motion_tokens_matching import Motions
from l5kit.prediction.vectorized.plane_poses import relative_to


@dataclass(frozen=True)
class TokenTimes:
    """How long tokens last, and how many there are.

    Attributes:
        num_steps: Predicted steps that a token lasts.
        num_past_steps: Past steps that it lasts.
        num_past_tokens: Tokens before now.
        num_future_tokens: Tokens behind now.

    Raises:
        InvalidArgumentError: A number is below 1.
    """

    num_steps: int
    num_past_steps: int
    num_past_tokens: int
    num_future_tokens: int

    def __post_init__(self) -> None:
        for name in ("num_steps", "num_past_steps", "num_past_tokens", "num_future_tokens"):
            if getattr(self, name) < 1:
                raise InvalidArgumentError(f"{name} is {getattr(self, name)}; it must be at least 1")


def read_motions(
    batch: dict[str, torch.Tensor], times: TokenTimes, class_of_label: torch.Tensor, *, with_future: bool
) -> Motions:
    """Return the motions of all agents of a batch of samples of ``EgoAgentDatasetVectorized``.

    Args:
        batch: ``all_other_agents_history_positions`` (B, A, H + 1, 2), newest first, with the yaws (B, A, H + 1, 1) and
            the availability (B, A, H + 1), and ``all_other_agents_types`` (B, A); with the future also
            ``all_other_agents_future_positions`` (B, A, T, 2) and what belongs to them.
        times: How long tokens last.
        class_of_label: Class of each perception label, (17,).
        with_future: Whether the tokens of the future are among them.

    Raises:
        InvalidArgumentError: The batch has fewer steps than that.
    """
    past, is_past_known = _poses_of(batch, "history")
    wanted = times.num_past_tokens * times.num_past_steps
    if past.shape[2] <= wanted:
        raise InvalidArgumentError(
            f"the batch has {past.shape[2] - 1} past steps; {times.num_past_tokens} tokens of {times.num_past_steps} "
            "steps need as many; give samples with a longer history_num_frames_agents"
        )
    ends = torch.arange(wanted, -1, -times.num_past_steps, device=past.device)
    poses, is_known = past[:, :, ends], is_past_known[:, :, ends]

    # the moves over the time of a token before now: over just this time, or over the known time that is nearest to it,
    # and scaled. Past steps are sorted by how near they are to it, and each agent takes the first that it has
    steps = sorted(range(1, past.shape[2]), key=lambda step: (abs(step - times.num_past_steps), step))
    order = torch.tensor(steps, device=past.device)
    is_any = is_past_known[:, :, order]
    chosen = order[is_any.int().argmax(dim=-1)]
    start = past.gather(2, chosen[..., None, None].expand(-1, -1, 1, 3)).squeeze(2)
    last_move = relative_to(start, past[:, :, 0]) * (times.num_past_steps / chosen).unsqueeze(-1)
    has_last_move = is_any.any(dim=-1) & is_past_known[:, :, 0]
    last_move = torch.where(has_last_move.unsqueeze(-1), last_move, 0.0)
    if with_future:
        future, is_future_known = _poses_of(batch, "future")
        num_steps = times.num_future_tokens * times.num_steps
        if future.shape[2] < num_steps:
            raise InvalidArgumentError(
                f"the batch has {future.shape[2]} future steps; {times.num_future_tokens} tokens of {times.num_steps} "
                "steps need as many"
            )
        ends = torch.arange(times.num_steps - 1, num_steps, times.num_steps, device=past.device)
        poses = torch.cat((poses, future[:, :, ends]), dim=2)
        is_known = torch.cat((is_known, is_future_known[:, :, ends]), dim=2)
    classes = class_of_label[batch["all_other_agents_types"].long().clamp(0, len(class_of_label) - 1)]
    return Motions(poses, is_known, classes, last_move, has_last_move)


def _poses_of(batch: dict[str, torch.Tensor], when: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return poses (B, A, N, 3), zeros where they are not known, and where they are, (B, A, N)."""
    is_known = batch[f"all_other_agents_{when}_availability"] > 0
    parts = (batch[f"all_other_agents_{when}_positions"], batch[f"all_other_agents_{when}_yaws"])
    return torch.cat(parts, dim=-1).float() * is_known.unsqueeze(-1), is_known
