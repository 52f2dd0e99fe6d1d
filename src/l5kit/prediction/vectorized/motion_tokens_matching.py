"""Matching of motion tokens to motions of agents; each token starts where the previous one ended."""

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
"""Base moves that tokens are differences to: none, or an extrapolation of the last move."""

_CYCLISTS: Final = ("BICYCLE", "MOTORCYCLE", "CYCLIST", "MOTORCYCLIST")
_LEAST_DISTANCE_M: Final = 1e-3


@dataclass(frozen=True)
class TokenTimes:
    """Durations and numbers of tokens.

    Attributes:
        num_steps: Predicted steps per token.
        num_past_steps: Past steps per token.
        num_past_tokens: Tokens before the current time.
        num_future_tokens: Tokens after the current time.

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
    """Poses of agents at the ends of tokens, one of which is the current time, and their last move before that."""

    poses: torch.Tensor  # (..., G + 1, 3): x, y in metres and yaw in radians, oldest first
    is_known: torch.Tensor  # bool, (..., G + 1)
    classes: torch.Tensor  # int64, (...): rows of AGENT_CLASSES
    last_move: torch.Tensor  # (..., 3): move over the duration of a token up to now, relative to its start
    has_last_move: torch.Tensor  # bool, (...)


class TokenisedMotions(NamedTuple):
    """Motions as sequences of tokens, with the poses that these lead to."""

    poses: torch.Tensor  # (..., G + 1, 3): poses reached by the tokens
    is_known: torch.Tensor  # bool, (..., G + 1)
    moves: torch.Tensor  # (..., G + 1, 3): moves to these poses, relative to their start; zeros where unknown
    has_move: torch.Tensor  # bool, (..., G + 1)
    tokens: torch.Tensor  # int64, (..., G + 1): tokens that led to these poses, with noise
    nearest: torch.Tensor  # int64, (..., G + 1): tokens that end nearest to the truth, which are the training targets
    has_token: torch.Tensor  # bool, (..., G + 1)


class MotionTokeniser(nn.Module):
    """Converter of motions to tokens and of tokens to moves; the vocabulary is a buffer, stored with the weights.

    Args:
        num_tokens: Largest number of tokens of each agent class.
        base: Move that tokens are differences to. ``none``: a token is a move. ``constant_velocity``: the last move is
            repeated without turning; ``ctrv``: it is repeated as it was; ``ctra``: its length changes as much as last
            time, to no less than zero, and its turn in proportion, so that a stopping agent stops turning. Agents
            without a last move have no token then.

    Raises:
        InvalidArgumentError: There is no such base, or ``num_tokens`` is below 1.
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
        # row of AGENT_CLASSES for each perception label, (17,)
        class_of_label = torch.zeros(len(PERCEPTION_LABELS), dtype=torch.int64)
        for name in _CYCLISTS:
            class_of_label[PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{name}"]] = 1
        class_of_label[PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_PEDESTRIAN"]] = 2
        self.register_buffer("class_of_label", class_of_label, persistent=False)

    @property
    def is_fitted(self) -> bool:
        """Whether the vocabulary is set, by fitting or with loaded weights."""
        return bool((self.vocabulary_sizes > 0).all())

    def set_vocabulary(self, tokens: torch.Tensor, sizes: torch.Tensor) -> None:
        """Set the vocabulary.

        Args:
            tokens: Tokens of each class, (C, V, 3), V at most ``num_tokens``.
            sizes: Number of tokens of each class, at least 1, int64 (C,).

        Raises:
            InvalidArgumentError: A shape or size is wrong.
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
        """Return which entries of the vocabulary are tokens, bool (C, V)."""
        return torch.arange(self.num_tokens, device=self.vocabulary.device) < self.vocabulary_sizes.unsqueeze(-1)

    def base_moves(self, last: torch.Tensor, before: torch.Tensor, has_before: torch.Tensor) -> torch.Tensor:
        """Return the moves that the next tokens are differences to.

        Args:
            last: Last moves, shape (..., 3).
            before: Moves before these, shape (..., 3).
            has_before: Whether the moves before are known, bool, shape (...).

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
            base: Moves that tokens are differences to, shape (..., 3).
            tokens: Int64, shape (...).
            classes: Int64, shape (...).

        Returns:
            Shape (..., 3).
        """
        return compose(base, self.vocabulary[classes, tokens])

    def nearest_tokens(self, difference: torch.Tensor, classes: torch.Tensor, noise_m: float = 0.0) -> torch.Tensor:
        """Return the tokens nearest to differences, with radians weighted by the lever of the class.

        Args:
            difference: Shape (..., 3).
            classes: Int64, shape (...).
            noise_m: Standard deviation of Gaussian noise that is added to x, y and, by the lever, to yaw before the
                search; drawn from the global torch generator.

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
        """Return the tokens of motions, matched step by step.

        Each token is the one that ends nearest to the true pose, starting from the pose reached by the tokens before.
        Tokens restart at the true pose after an unknown pose, and at the current time.

        Args:
            motions: N agents.
            now: Index of the current pose among the G + 1 poses.
            noise_m: Noise of the tokens that are followed, see :meth:`nearest_tokens`; training targets have no noise,
                and lead back from the noisy pose to the truth.
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

            # difference from the base move to the truth; targets are matched without noise, followed tokens with it
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
            ``all_other_agents_future_positions`` (B, A, T, 2) with its yaws and availability.
        times: Durations and numbers of tokens.
        class_of_label: Class of each perception label, (17,).
        with_future: Whether to include future tokens.

    Raises:
        InvalidArgumentError: The batch has too few steps.
    """
    past, is_past_known = _poses_of(batch, "history")
    wanted = times.num_past_tokens * times.num_past_steps
    if past.shape[2] <= wanted:
        raise InvalidArgumentError(
            f"the batch has {past.shape[2] - 1} past steps; {times.num_past_tokens} tokens of {times.num_past_steps} "
            "steps need as many; use samples with a longer history_num_frames_agents"
        )
    ends = torch.arange(wanted, -1, -times.num_past_steps, device=past.device)
    poses, is_known = past[:, :, ends], is_past_known[:, :, ends]

    # The last move, over the duration of a token. If the pose at its start is unknown, the known step nearest to it is
    # used, and the move is scaled: past steps are sorted by distance to the start, and each agent takes the first
    # known.
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
    """Return poses (B, A, N, 3), zeros where unknown, and where they are known, (B, A, N)."""
    is_known = batch[f"all_other_agents_{when}_availability"] > 0
    parts = (batch[f"all_other_agents_{when}_positions"], batch[f"all_other_agents_{when}_yaws"])
    return torch.cat(parts, dim=-1).float() * is_known.unsqueeze(-1), is_known
