"""Motions of agents, and the tokens that match them, of which each begins where the one before it has ended."""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import torch
from torch import nn

from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX, PERCEPTION_LABELS
from l5kit.errors import InvalidArgumentError
from l5kit.prediction.vectorized.motion_tokens_vocabulary import AGENT_CLASSES, LEVERS_M
from l5kit.prediction.vectorized.plane_poses import compose, relative_to

Base: TypeAlias = Literal["none", "constant_velocity", "ctrv", "ctra"]

BASES: Final[tuple[str, ...]] = get_args(Base)
"""What a token is a difference to: to staying where one is, or to how the last move goes on."""

_CYCLISTS: Final = ("BICYCLE", "MOTORCYCLE", "CYCLIST", "MOTORCYCLIST")
_LEAST_DISTANCE_M: Final = 1e-3


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


class Motions(NamedTuple):
    """Where agents were at the ends of tokens, and how they moved last before one of these, which is now."""

    poses: torch.Tensor  # (..., G + 1, 3): x, y in metres and yaw in radians, oldest first
    is_known: torch.Tensor  # bool, (..., G + 1)
    classes: torch.Tensor  # int64, (...): rows of AGENT_CLASSES
    last_move: torch.Tensor  # (..., 3): that over the time of a token before now, as seen from its start
    has_last_move: torch.Tensor  # bool, (...)


class TokenisedMotions(NamedTuple):
    """What tokens make of motions: where they lead, and how."""

    poses: torch.Tensor  # (..., G + 1, 3): where the tokens lead to
    is_known: torch.Tensor  # bool, (..., G + 1)
    moves: torch.Tensor  # (..., G + 1, 3): those that led there, as seen from where they began; zeros where unknown
    has_move: torch.Tensor  # bool, (..., G + 1)
    tokens: torch.Tensor  # int64, (..., G + 1): those that led there, with noise
    nearest: torch.Tensor  # int64, (..., G + 1): those that lead nearest to the truth, which are to be learned
    has_token: torch.Tensor  # bool, (..., G + 1)


class MotionTokeniser(nn.Module):
    """Turns motions into tokens and tokens into moves; the tokens are buffers, so that files of weights hold them.

    Args:
        num_tokens: Tokens of each class of agents, at most.
        base: What tokens are differences to. ``none``: a token is a move. ``constant_velocity``: the last move goes on
            without a turn; ``ctrv``: it goes on as it was; ``ctra``: its length grows as much as last, never to
            less than nothing, and the turn with it, so that who comes to stand turns no more. Agents without a last
            move have no token then.

    Raises:
        InvalidArgumentError: There is no such base, or no token.
    """

    vocabulary: torch.Tensor
    vocabulary_sizes: torch.Tensor
    levers_m: torch.Tensor
    class_of_label: torch.Tensor

    def __init__(self, num_tokens: int, *, base: str = "none") -> None:
        super().__init__()
        if base not in BASES or num_tokens < 1:
            raise InvalidArgumentError(
                f"base is {base!r} and num_tokens {num_tokens}; base must be one of {', '.join(BASES)}, and num_tokens "
                "at least 1"
            )
        self.base, self.num_tokens = base, num_tokens
        num_classes = len(AGENT_CLASSES)
        self.register_buffer("vocabulary", torch.zeros(num_classes, num_tokens, 3))
        self.register_buffer("vocabulary_sizes", torch.zeros(num_classes, dtype=torch.int64))
        self.register_buffer("levers_m", torch.tensor(LEVERS_M), persistent=False)
        # the row in AGENT_CLASSES of each perception label, (17,)
        class_of_label = torch.zeros(len(PERCEPTION_LABELS), dtype=torch.int64)
        for name in _CYCLISTS:
            class_of_label[PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{name}"]] = 1
        class_of_label[PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_PEDESTRIAN"]] = 2
        self.register_buffer("class_of_label", class_of_label, persistent=False)

    @property
    def is_fitted(self) -> bool:
        """Whether there are tokens, of a log or of a file of weights."""
        return bool((self.vocabulary_sizes > 0).all())

    def set_vocabulary(self, tokens: torch.Tensor, sizes: torch.Tensor) -> None:
        """Take tokens.

        Args:
            tokens: Those of each class, (C, V, 3), V at most ``num_tokens``.
            sizes: How many of them each class has, at least 1, int64 (C,).

        Raises:
            InvalidArgumentError: The shapes or sizes are others.
        """
        num_classes, most = self.vocabulary.shape[:2]
        shape = tuple(tokens.shape)
        is_wrong = len(shape) != 3 or shape[0] != num_classes or shape[1] > most or shape[2] != 3
        if is_wrong or tuple(sizes.shape) != (num_classes,) or not bool(((sizes > 0) & (sizes <= shape[1])).all()):
            raise InvalidArgumentError(
                f"tokens have shape {shape} and sizes are {sizes.tolist()}; pass ({num_classes}, V, 3), V at most "
                f"{most}, and for each class a size from 1 to V"
            )
        self.vocabulary.zero_()
        self.vocabulary[:, : shape[1]] = tokens.to(self.vocabulary)
        self.vocabulary_sizes.copy_(sizes)

    def is_token(self) -> torch.Tensor:
        """Return which rows of the vocabulary are tokens, bool (C, V)."""
        return torch.arange(self.num_tokens, device=self.vocabulary.device) < self.vocabulary_sizes.unsqueeze(-1)

    def base_moves(self, last: torch.Tensor, before: torch.Tensor, has_before: torch.Tensor) -> torch.Tensor:
        """Return what the next tokens are differences to.

        Args:
            last: The last moves, shape (..., 3).
            before: Those before, shape (..., 3).
            has_before: Whether these are known, bool, shape (...).

        Returns:
            Shape (..., 3).
        """
        if self.base == "none":
            return torch.zeros_like(last)
        if self.base == "constant_velocity":
            cos, sin = torch.cos(last[..., 2]), torch.sin(last[..., 2])
            x, y = last[..., 0], last[..., 1]
            return torch.stack((cos * x + sin * y, cos * y - sin * x, torch.zeros_like(x)), dim=-1)
        if self.base == "ctrv":
            return last
        distance_m = torch.linalg.vector_norm(last[..., :2], dim=-1)
        growth_m = torch.where(has_before, distance_m - torch.linalg.vector_norm(before[..., :2], dim=-1), 0.0)
        factor = ((distance_m + growth_m) / distance_m.clamp(min=_LEAST_DISTANCE_M)).clamp(0.0, 2.0)
        return last * torch.where(distance_m < _LEAST_DISTANCE_M, 1.0, factor).unsqueeze(-1)

    def moves_of(self, base: torch.Tensor, tokens: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        """Return the moves of tokens.

        Args:
            base: What they are differences to, shape (..., 3).
            tokens: Int64, shape (...).
            classes: Int64, shape (...).

        Returns:
            Shape (..., 3).
        """
        return compose(base, self.vocabulary[classes, tokens])

    def nearest_tokens(self, difference: torch.Tensor, classes: torch.Tensor, noise_m: float = 0.0) -> torch.Tensor:
        """Return the tokens nearest to differences, a radian being worth the lever of a class.

        Args:
            difference: Shape (..., 3).
            classes: Int64, shape (...).
            noise_m: Standard deviation of normal noise on x and y, and on yaw by the lever, before a token is chosen;
                drawn from torch's global generator.

        Returns:
            Int64, shape (...).
        """
        scale = torch.ones_like(difference)
        scale[..., 2] = self.levers_m[classes]
        scaled = difference * scale
        if noise_m > 0:
            scaled = scaled + noise_m * torch.randn_like(scaled)
        distances = ((self.vocabulary[classes] * scale.unsqueeze(-2) - scaled.unsqueeze(-2)) ** 2).sum(dim=-1)
        return distances.masked_fill(~self.is_token()[classes], torch.inf).argmin(dim=-1)

    @torch.no_grad()
    def forward(self, motions: Motions, now: int, noise_m: float = 0.0) -> TokenisedMotions:
        """Return the tokens of motions, step by step.

        Each token is the one that leads nearest to where the agent truly is, from where the tokens before have led.
        Tokens begin at the true pose where the pose before is not known, and at the current time.

        Args:
            motions: N agents.
            now: Which of the G + 1 poses is the current one.
            noise_m: Of the tokens that are followed, see :meth:`nearest_tokens`; those that are to be learned have
                none, and lead back from where the noise has led.
        """
        # no token leads to the first poses
        poses, never = motions.poses[..., 0, :], torch.zeros_like(motions.is_known[..., 0])
        none = torch.zeros_like(motions.classes)
        first = {"poses": poses, "moves": torch.zeros_like(poses), "has_move": never}
        steps = [first | {"tokens": none, "nearest": none, "has_token": never}]
        for index in range(1, motions.poses.shape[-2]):
            last, before, true = steps[-1], steps[max(len(steps) - 2, 0)], motions.poses[..., index, :]
            has_move = motions.is_known[..., index] & motions.is_known[..., index - 1]
            has_token = has_move if self.base == "none" else has_move & last["has_move"]
            base = self.base_moves(last["moves"], before["moves"], before["has_move"])

            # what leads from where the base alone would, to the truth; it is learned without noise and followed with it
            difference = relative_to(compose(last["poses"], base), true)
            nearest = self.nearest_tokens(difference, motions.classes)
            tokens = self.nearest_tokens(difference, motions.classes, noise_m) if noise_m > 0 else nearest
            true_move, is_token = relative_to(last["poses"], true), has_token.unsqueeze(-1)
            move = torch.where(is_token, self.moves_of(base, tokens, motions.classes), true_move)
            step = {
                "poses": torch.where(is_token, compose(last["poses"], move), true),
                "moves": torch.where(has_move.unsqueeze(-1), move, 0.0),
                "has_move": has_move,
                "tokens": torch.where(has_token, tokens, 0),
                "nearest": torch.where(has_token, nearest, 0),
                "has_token": has_token,
            }
            if index == now:
                step["poses"] = motions.poses[..., index, :]
                step["moves"] = torch.where(motions.has_last_move.unsqueeze(-1), motions.last_move, 0.0)
                step["has_move"] = motions.has_last_move & motions.is_known[..., index]
            steps.append(step)
        fields = {name: torch.stack([step[name] for step in steps], dim=motions.classes.ndim) for name in steps[0]}
        return TokenisedMotions(is_known=motions.is_known, **fields)


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
