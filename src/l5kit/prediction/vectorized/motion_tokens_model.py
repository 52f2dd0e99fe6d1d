"""Motion token model: predicts the next move of each agent as a choice among clustered moves, token by token.

It follows Wu et al., "SMART: Scalable Multi-agent Real-time Motion Generation via Next-token Prediction"
(arXiv 2405.15677); ``docs/models.md`` lists the differences.
"""

import math
from typing import Final, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from l5kit.errors import InvalidArgumentError, UnsupportedValueError
from l5kit.prediction.vectorized.motion_tokens_layers import AgentStates, FactorisedDecoder, PastStates, Road
from l5kit.prediction.vectorized.motion_tokens_matching import (
    Motions,
    MotionTokeniser,
    TokenisedMotions,
    TokenTimes,
    read_motions,
)
from l5kit.prediction.vectorized.motion_tokens_road import RoadEncoder
from l5kit.prediction.vectorized.motion_tokens_sampling import UNIFORMS_KEY, choose_tokens, draw_uniforms
from l5kit.prediction.vectorized.motion_tokens_vocabulary import AGENT_CLASSES
from l5kit.prediction.vectorized.plane_poses import compose, poses_along_move

_MOVE_SCALE: Final = (0.25, 1.0, 3.0)
"""Factors for x, y and yaw of a move that bring them to about one."""

_NUM_WAVES: Final = 4
_LEAST_DISTANCE_M: Final = 0.05


class Rollouts(NamedTuple):
    """K futures of all agents of B samples, in the frame of each sample."""

    poses: torch.Tensor  # (B, K, A, T, 3): x, y in metres and yaw in radians
    log_likelihoods: torch.Tensor  # (B, K, A): of the tokens of an agent, at temperature 1


class _Step(NamedTuple):
    """State of agents at the end of a token."""

    poses: torch.Tensor  # (..., 3)
    moves: torch.Tensor  # (..., 3)
    has_move: torch.Tensor  # bool, (...)
    before: torch.Tensor  # (..., 3): the moves before
    has_before: torch.Tensor  # bool, (...)
    tokens: torch.Tensor  # int64, (...)
    has_token: torch.Tensor  # bool, (...)
    is_known: torch.Tensor  # bool, (...)


class _Agents(NamedTuple):
    """Constant properties of agents."""

    classes: torch.Tensor  # int64, (B, A)
    sizes_m: torch.Tensor  # (B, A, 2): length and width


class MotionTokenModel(nn.Module):
    """Network that predicts the next motion token of each agent, and so rolls out all agents together.

    The samples must contain the AV as the first of the other agents: use ``EgoAgentDatasetVectorized``. In train mode
    ``forward`` returns the loss, in eval mode trajectories. The vocabulary must be set before, with
    ``tokeniser.set_vocabulary`` or by loading weights.

    Args:
        times: Durations and numbers of tokens.
        num_tokens: Largest number of tokens of each agent class.
        base: Move that tokens are differences to; see :class:`MotionTokeniser`.
        dim: Features.
        num_layers: Rounds of attention over time, to the map and between agents.
        num_heads: Heads of the attention.
        num_pieces: Number of nearest map pieces that an agent attends to.
        agents_radius_m: Agents attend to others within this distance.
        dropout: Dropout probability in training.
        token_noise_m: Standard deviation of the noise of followed tokens in training.
        num_rollouts: Number of predicted futures K; the first is the greedy one.
        temperature: Temperature of the other rollouts; 0 makes all of them greedy.
        seed: Seed of the sampled rollouts.
        disable_other_agents: Do not let agents attend to each other.
        disable_map: Mask the map.
        disable_lane_boundaries: Drop lane boundaries.

    Raises:
        InvalidArgumentError: A number is out of its range, or there is no such base.
    """

    def __init__(
        self,
        times: TokenTimes,
        *,
        num_tokens: int = 512,
        base: str = "none",
        dim: int = 128,
        num_layers: int = 4,
        num_heads: int = 8,
        num_pieces: int = 32,
        agents_radius_m: float = 50.0,
        dropout: float = 0.1,
        token_noise_m: float = 0.0,
        num_rollouts: int = 6,
        temperature: float = 1.0,
        seed: int = 0,
        disable_other_agents: bool = False,
        disable_map: bool = False,
        disable_lane_boundaries: bool = False,
    ) -> None:
        super().__init__()
        if num_rollouts < 1 or not 0 <= temperature < math.inf or not 0 <= token_noise_m < math.inf:
            raise InvalidArgumentError(
                f"num_rollouts is {num_rollouts}, temperature {temperature} and token_noise_m {token_noise_m}; give at "
                "least 1 rollout, and finite numbers of at least 0"
            )
        self.times, self.num_rollouts, self.seed = times, num_rollouts, seed
        self.temperature, self.token_noise_m = float(temperature), float(token_noise_m)
        self.tokeniser = MotionTokeniser(num_tokens, base=base)
        self.road = RoadEncoder(dim, with_map=not disable_map, with_boundaries=not disable_lane_boundaries)
        self.decoder = FactorisedDecoder(
            dim,
            num_layers,
            num_heads,
            num_pieces=num_pieces,
            agents_radius_m=0.0 if disable_other_agents else agents_radius_m,
            dropout=dropout,
        )
        self.motion = nn.Sequential(nn.Linear(10, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.classes = nn.Embedding(len(AGENT_CLASSES), dim)
        self.token_shape = nn.Sequential(nn.Linear(3 + 6 * _NUM_WAVES, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.token_own = nn.Parameter(torch.zeros(len(AGENT_CLASSES), num_tokens, dim))
        self.token_input = nn.Linear(dim, dim, bias=False)
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.token_bias = nn.Parameter(torch.zeros(len(AGENT_CLASSES), num_tokens))
        self.register_buffer("_scale", torch.tensor(_MOVE_SCALE), persistent=False)
        self._scale: torch.Tensor

    def forward(self, data_batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the loss in train mode, the trajectories in eval mode; the batch is not changed.

        Args:
            data_batch: A batch of samples of ``EgoAgentDatasetVectorized``; see :func:`read_motions` and
                :class:`RoadEncoder`. Also ``all_other_agents_history_extents`` (B, A, H + 1, 2). In train mode also the
                future of all agents.

        Returns:
            In train mode ``loss``, the mean cross entropy of next tokens in nats, ``accuracy``, the share of tokens
            that were predicted as likeliest, and ``quantisation_m``, the distance of the tokens from the truth. In eval
            mode the outputs of SafePathNet: ``agent_positions`` (B, A, T, 2) and ``agent_yaws`` (B, A, T, 1) of the
            likeliest rollout of each agent, ``all_agent_positions`` (B, A, K, T, 2), ``all_agent_yaws`` (B, A, K, T, 1)
            and ``agent_traj_logits`` (B, A, K), the log-likelihoods of the tokens; positions and yaws in the ego frame.

        Raises:
            UnsupportedValueError: The vocabulary is not set yet.
            InvalidArgumentError: The batch has too few steps.
        """
        if not self.training:
            rollouts = self.roll_out(data_batch)
            poses = rollouts.poses.transpose(1, 2)
            likelihoods = rollouts.log_likelihoods.transpose(1, 2)
            likeliest = likelihoods.argmax(dim=-1)[:, :, None, None, None].expand(-1, -1, 1, *poses.shape[3:])
            best = poses.gather(2, likeliest).squeeze(2)
            return {
                "agent_positions": best[..., :2],
                "agent_yaws": best[..., 2:],
                "all_agent_positions": poses[..., :2],
                "all_agent_yaws": poses[..., 2:],
                "agent_traj_logits": likelihoods,
            }
        motions, tokenised = self._tokenised(data_batch, with_future=True)
        logits = self._next_logits(data_batch, motions, tokenised)
        # a token counts in the loss if the agent was known at the step before, where it starts
        is_learned, wanted = tokenised.has_token[:, :, 1:], tokenised.nearest[:, :, 1:]
        is_learned = is_learned & tokenised.is_known[:, :, :-1]
        surprise = F.cross_entropy(logits.flatten(0, 2), wanted.flatten(), reduction="none")
        count = is_learned.sum().clamp(min=1)
        loss = torch.where(is_learned.flatten(), surprise, 0.0).sum() / count
        with torch.no_grad():
            is_right = (logits.argmax(dim=-1) == wanted) & is_learned
        return {
            "loss": loss,
            "accuracy": is_right.sum() / count,
            "quantisation_m": self._quantisation(motions, tokenised),
        }

    def next_token_logits(self, data_batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, TokenisedMotions]:
        """Return the logits of all next tokens of past and future, each given the steps before it, and the tokens.

        Args:
            data_batch: As for :meth:`forward` in train mode.

        Returns:
            Logits (B, A, G, V) for the tokens to steps 1 to G, minus infinity for entries that are no token of the
            class.
        """
        motions, tokenised = self._tokenised(data_batch, with_future=True)
        return self._next_logits(data_batch, motions, tokenised), tokenised

    @torch.no_grad()
    def roll_out(
        self,
        data_batch: dict[str, torch.Tensor],
        *,
        num_rollouts: int | None = None,
        num_tokens: int | None = None,
        temperature: float | None = None,
        seed: int | None = None,
        first_is_greedy: bool = True,
    ) -> Rollouts:
        """Return futures of all agents together, token by token: each agent sees the previous moves of the others.

        Args:
            data_batch: As for :meth:`forward` in eval mode. Samples depend on ``scene_index``, ``timestamp`` and
                ``all_other_agents_track_ids``; see :func:`draw_uniforms`. Instead of these it may contain
                ``token_uniforms`` (B, K, A, N), the uniform random numbers, which exported networks take.
            num_rollouts: K; None for the value of the model, as for the arguments below.
            num_tokens: Tokens of each future; T is this number times the steps of a token.
            temperature: Temperature of all rollouts except the greedy one.
            seed: Seed, at least 0.
            first_is_greedy: Whether the first rollout always takes the likeliest token.

        Raises:
            UnsupportedValueError: The vocabulary is not set.
        """
        count = self.num_rollouts if num_rollouts is None else num_rollouts
        length = self.times.num_future_tokens if num_tokens is None else num_tokens
        degree = self.temperature if temperature is None else temperature
        draws = self.seed if seed is None else seed
        given = data_batch.get(UNIFORMS_KEY)
        drawn = draw_uniforms(data_batch, draws, num_rollouts=count, num_tokens=length) if given is None else given
        uniforms = drawn.flatten(0, 1)
        motions, tokenised = self._tokenised(data_batch, with_future=False)
        agents, road = _agents_of(data_batch, motions.classes), self.road(data_batch)
        known, past = self.decoder(self._states(_steps_of(tokenised, slice(None)), agents), road)
        # the past is encoded once; from its last step on, each rollout has its own row, ordered by sample
        step = _Step(*(_repeated(part[:, :, -1], count) for part in _steps_of(tokenised, slice(None))))
        agents = _Agents(*(_repeated(part, count) for part in agents))
        road = Road(*(_repeated(part, count) for part in road))
        past = PastStates([_repeated(part, count) for part in past.inputs], *(_repeated(p, count) for p in past[1:]))
        known = _repeated(known[:, :, -1], count)
        # the first rollout of each sample may be greedy
        is_greedy = torch.zeros(known.shape[0], 1, dtype=torch.bool, device=known.device)
        is_greedy[::count] = first_is_greedy
        poses, likelihood = [], torch.zeros_like(known[..., 0])
        for number in range(length):
            logits = self._logits(known, agents.classes)
            tokens = choose_tokens(logits, uniforms[..., number], degree)
            tokens = torch.where(is_greedy, logits.argmax(dim=-1), tokens)
            likelihood = likelihood + logits.log_softmax(dim=-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
            step, between = self._advanced(step, tokens, agents.classes)
            poses.append(between)
            if number + 1 < length:
                states = self._states(_Step(*(part.unsqueeze(2) for part in step)), agents)
                known, past = self.decoder(states, road, past)
                known = known[:, :, 0]
        whole = torch.cat(poses, dim=2)
        return Rollouts(*(part.reshape(-1, count, *part.shape[1:]) for part in (whole, likelihood)))

    def _next_logits(
        self, data_batch: dict[str, torch.Tensor], motions: Motions, tokenised: TokenisedMotions
    ) -> torch.Tensor:
        """Return the logits (B, A, G, V) of the tokens to steps 1 to G."""
        agents = _agents_of(data_batch, motions.classes)
        states = self._states(_steps_of(tokenised, slice(0, -1)), agents)
        known, _ = self.decoder(states, self.road(data_batch))
        return self._logits(known, motions.classes)

    @torch.no_grad()
    def quantisation_m(self, data_batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the mean distance of the tokens from the true positions of agents, in metres.

        In train mode the tokens are those followed with noise.

        Args:
            data_batch: As for :meth:`forward` in train mode.
        """
        return self._quantisation(*self._tokenised(data_batch, with_future=True))

    def _tokenised(self, data_batch: dict[str, torch.Tensor], *, with_future: bool) -> tuple[Motions, TokenisedMotions]:
        # while a program is traced there are no values to check; the eager call before has done so
        if not torch.compiler.is_compiling() and not self.tokeniser.is_fitted:
            raise UnsupportedValueError(
                "the motion tokens are not set; load weights, make the model for the samples of a log, or call "
                "tokeniser.set_vocabulary"
            )
        motions = read_motions(data_batch, self.times, self.tokeniser.class_of_label, with_future=with_future)
        noise_m = self.token_noise_m if self.training else 0.0
        return motions, self.tokeniser(motions, self.times.num_past_tokens, noise_m)

    def _quantisation(self, motions: Motions, tokenised: TokenisedMotions) -> torch.Tensor:
        errors_m = torch.linalg.vector_norm((tokenised.poses - motions.poses)[..., :2], dim=-1)
        is_token = tokenised.has_token.clone()
        is_token[:, :, self.times.num_past_tokens] = False  # tokens restart at the true pose there
        mean_m: torch.Tensor = torch.where(is_token, errors_m, 0.0).sum() / is_token.sum().clamp(min=1)
        return mean_m

    def _states(self, steps: _Step, agents: _Agents) -> AgentStates:
        """Return agents at steps (B, A, Q) as inputs of the decoder."""
        change = torch.where(steps.has_before.unsqueeze(-1), steps.moves - steps.before, 0.0)
        sizes_m = agents.sizes_m.unsqueeze(2).expand(*steps.poses.shape[:3], 2)
        flags = torch.stack((steps.has_move, steps.has_before), dim=-1).to(sizes_m.dtype)
        values = torch.cat((steps.moves * self._scale, change * self._scale * 4, flags, sizes_m / 5), dim=-1)
        classes = agents.classes.unsqueeze(2).expand(steps.tokens.shape)
        tokens = self.token_input(self._token_features())[classes, steps.tokens] * steps.has_token.unsqueeze(-1)
        return AgentStates(self.motion(values) + self.classes(classes) + tokens, steps.poses, steps.is_known)

    def _token_features(self) -> torch.Tensor:
        """Return the embeddings of tokens, (C, V, D): from their shape, plus one learned for each token."""
        tokens = self.tokeniser.vocabulary
        # shape scaled to -1 to 1 in each class, with waves of halving length to separate similar tokens
        parts = tokens / tokens.abs().amax(dim=1, keepdim=True).clamp(min=1e-3)
        waves = parts.unsqueeze(-1) * (math.pi * 2.0 ** torch.arange(_NUM_WAVES, device=tokens.device))
        shape = torch.cat((parts, torch.sin(waves).flatten(-2), torch.cos(waves).flatten(-2)), dim=-1)
        features: torch.Tensor = self.token_shape(shape) + self.token_own
        return features

    def _logits(self, known: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        """Return logits (B, A, ..., V) of next tokens for features of agents (B, A, ..., D)."""
        features = self._token_features()
        scores: torch.Tensor = self.head(known) @ features.flatten(0, 1).transpose(0, 1)
        scores = scores.reshape(*known.shape[:-1], *features.shape[:2]) + self.token_bias
        scores = scores.masked_fill(~self.tokeniser.is_token(), -torch.inf)
        # scores of the tokens of all classes; each agent takes those of its class
        own = classes.reshape(*classes.shape, *(1 for _ in range(scores.ndim - classes.ndim)))
        picked: torch.Tensor = scores.gather(-2, own.expand(*scores.shape[:-2], 1, scores.shape[-1])).squeeze(-2)
        return picked

    def _advanced(self, step: _Step, tokens: torch.Tensor, classes: torch.Tensor) -> tuple[_Step, torch.Tensor]:
        """Return the state after tokens (B, A), and the poses up to there, (B, A, steps, 3)."""
        base = self.tokeniser.base_moves(step.moves, step.before, step.has_before)
        move = self.tokeniser.moves_of(base, tokens, classes) * step.is_known.unsqueeze(-1)
        # Poses in between: with constant acceleration, the speed at the start of a move is the average of the mean
        # speeds of the moves before and after, here relative to that of the move; within 0 to 2 the agent never
        # reverses.
        length_m = torch.linalg.vector_norm(move[..., :2], dim=-1)
        before_m = torch.linalg.vector_norm(step.moves[..., :2], dim=-1)
        ratio = ((before_m + length_m) / (2 * length_m.clamp(min=_LEAST_DISTANCE_M))).clamp(0.0, 2.0)
        ratio = torch.where(step.has_move & (length_m > _LEAST_DISTANCE_M), ratio, 1.0)
        between = compose(step.poses.unsqueeze(2), poses_along_move(move, ratio, self.times.num_steps))
        poses, always = compose(step.poses, move), torch.ones_like(step.has_move)
        return _Step(poses, move, always, step.moves, step.has_move, tokens, always, step.is_known), between


def _agents_of(batch: dict[str, torch.Tensor], classes: torch.Tensor) -> _Agents:
    sizes_m = batch["all_other_agents_history_extents"][:, :, 0].float()
    is_known = batch["all_other_agents_history_availability"][:, :, :1] > 0
    return _Agents(classes, sizes_m * is_known)


def _steps_of(tokenised: TokenisedMotions, indices: slice) -> _Step:
    """Return the state of agents at selected steps."""
    before, has_before = torch.zeros_like(tokenised.moves), torch.zeros_like(tokenised.has_move)
    before[:, :, 1:], has_before[:, :, 1:] = tokenised.moves[:, :, :-1], tokenised.has_move[:, :, :-1]
    columns = (
        tokenised.poses,
        tokenised.moves,
        tokenised.has_move,
        before,
        has_before,
        tokenised.tokens,
        tokenised.has_token,
        tokenised.is_known,
    )
    return _Step(*(column[:, :, indices] for column in columns))


def _repeated(values: torch.Tensor, count: int) -> torch.Tensor:
    return values.repeat_interleave(count, dim=0)
