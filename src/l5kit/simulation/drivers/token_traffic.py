"""Token traffic: all agents of a scene driven together by a next-token model, one sampled token at a time."""

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import torch
from torch import nn

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.sample_batch import tensors_of
from l5kit.dataset.sample_indices import SampleIndices
from l5kit.errors import InvalidArgumentError, UnsupportedValueError
from l5kit.planning.network_inputs import network_inputs, tensors_on
from l5kit.planning.network_plans import NetworkPlans
from l5kit.simulation.drivers.simple import poses_ahead
from l5kit.simulation.engine.actions import Actions, poses_between
from l5kit.simulation.engine.buffer_samples import samples_of_buffer
from l5kit.simulation.engine.traffic_state import TrafficState

_MEMORY: Final = "token traffic"
_NEVER: Final = -2
_ROW_KEYS: Final = ("all_other_agents_", "other_agents_polyline")


class TokenRollouts(Protocol):
    """Sampled futures, such as :class:`l5kit.prediction.vectorized.motion_tokens_model.Rollouts`."""

    @property
    def poses(self) -> torch.Tensor:
        """x, y in metres and yaw in radians in the frame of the sample, (B, K, A, T, 3)."""


class TokenModel(Protocol):
    """A next-token model, such as :class:`l5kit.prediction.vectorized.motion_tokens_model.MotionTokenModel`."""

    def roll_out(
        self,
        data_batch: dict[str, torch.Tensor],
        *,
        num_rollouts: int,
        num_tokens: int,
        temperature: float | None,
        seed: int | None,
        first_is_greedy: bool,
    ) -> TokenRollouts:
        """Return trajectories of all agents in samples of the AVs."""


@dataclass(eq=False)
class _Tokens:
    """Tokens that the T tracks of a batch follow.

    Attributes:
        poses: World poses at the steps of a token, (T, N, 3).
        begin: Frame of the scene at which the token begins, ``_NEVER`` for none, (T,).
        last: Last frame in which the track was driven, (T,).
    """

    poses: Float64Array
    begin: Int64Array
    last: Int64Array


class TokenTraffic:
    """Driver of agents with a next-token model: one model for the whole scene, sampled with a temperature.

    The frames of a scene are divided into tokens, starting with the first simulated frame. When a token begins, the
    model sees the AV and all agents with their past, and samples a token for each driven agent, which it follows until
    the next one. An agent that enters in between gets a token immediately, and the next one with the others. Agents
    missing in the samples drive straight at constant speed.

    Samples depend on the seed, the scene, the frame and the track. With ``max_batch=1`` the model sees each scene
    alone, so that a scene is driven identically in any batch. Larger batches pay off on a GPU only; the last digits of
    probabilities then differ, so that rarely another token may be sampled.

    Args:
        model: The model, in eval mode; it is moved to the device.
        dataset: Builds samples of the AV with all agents around as rows, the AV first; only the facts of its log are
            used.
        num_steps: Steps of a token.
        step_time_s: Seconds between two steps.
        temperature: Temperature of the tokens, 0 for the likeliest; None for that of the model.
        seed: Seed, at least 0; None for that of the model.
        device: Device of the model.
        max_batch: Largest number of scenes that the model sees at once.
        reach_m: Largest distance of agents from the AV in its training; see :attr:`reach_m`.

    Attributes:
        reach_m: An agent should be driven only once it is closer to the AV than this, metres: the model has not been
            trained on farther ones, which tend to stop.

    Raises:
        InvalidArgumentError: A number is out of its range.
        UnsupportedValueError: The model has no ``roll_out``, or the dataset builds its samples one by one.
    """

    def __init__(
        self,
        model: nn.Module,
        dataset: BaseEgoDataset,
        *,
        num_steps: int,
        step_time_s: float,
        temperature: float | None = None,
        seed: int | None = None,
        device: torch.device | str = "cpu",
        max_batch: int = 1,
        reach_m: float = np.inf,
    ) -> None:
        if max_batch < 1 or num_steps < 1 or not step_time_s > 0 or not 0 <= (temperature or 0.0) < np.inf:
            raise InvalidArgumentError(
                f"max_batch is {max_batch}, num_steps {num_steps}, step_time_s {step_time_s} and temperature "
                f"{temperature}; give at least 1 scene and step, a time above 0, and a temperature from 0 on"
            )
        if not callable(getattr(model, "roll_out", None)) or not dataset.makes_columns:
            raise UnsupportedValueError(
                f"model {type(model).__name__} has no roll_out, or dataset {dataset!r} makes its samples one by one; "
                "give a MotionTokenModel and an EgoAgentDatasetVectorized"
            )
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.dataset = dataset
        self.num_steps, self.step_time_s = num_steps, float(step_time_s)
        self.temperature, self.seed, self.reach_m = temperature, seed, float(reach_m)
        self._token_model: TokenModel = model  # type: ignore[assignment]
        self._max_batch = max_batch

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {type(self.model).__name__} on {self.device}>"

    def drive(self, state: TrafficState) -> Actions:
        """Return the poses of the next step, (K, 1, 3).

        Raises:
            InvalidArgumentError: The driver is used for AVs, or a token does not last a whole number of frames.
        """
        if state.actors is None:
            raise InvalidArgumentError("TokenTraffic drives agents only; NetworkDriver drives AVs with such a model")
        length = self.num_steps * self.step_time_s / state.step_time_s
        if round(length) < 1 or abs(length - round(length)) > 1e-3:
            raise InvalidArgumentError(
                f"tokens of {self.num_steps * self.step_time_s:g} s do not last a whole number of frames of "
                f"{state.step_time_s:g} s; train a model whose tokens do"
            )
        tracks, frames = state.actor_tracks, state.frame_indices[state.actor_scenes]
        kept = state.memory.get(_MEMORY)
        if kept is None:
            never: Int64Array = np.full(len(state.batch.tracks), _NEVER, np.int64)
            kept = _Tokens(np.zeros((len(never), self.num_steps, 3)), never, never.copy())
            state.memory[_MEMORY] = kept

        # tokens begin at common frames, and immediately for agents that were not driven in the frame before
        since_start = frames - state.batch.starts[state.scenes[state.actor_scenes]]
        is_due = (since_start % round(length) == 0) | (kept.last[tracks] != frames - 1)
        is_due &= kept.begin[tracks] != frames  # not if called again in the same frame, as after an error
        self._choose(state, np.flatnonzero(is_due), kept)
        kept.last[tracks] = frames
        times_s = (frames - kept.begin[tracks] + 1) * state.step_time_s
        return Actions(self._poses_at(state, kept.poses[tracks], times_s, frames - kept.begin[tracks])[:, None])

    def _choose(self, state: TrafficState, due: Int64Array, kept: _Tokens) -> None:
        """Sample tokens for some of the actors."""
        scenes = np.unique(state.actor_scenes[due])
        for first in range(0, len(scenes), self._max_batch):
            requested = scenes[first : first + self._max_batch]
            track_ids, trajectories = self._ask(state, requested)
            for number, scene in enumerate(requested.tolist()):
                actors = due[state.actor_scenes[due] == scene]

                # default for agents missing in the sample: straight ahead
                states = state.actor_states.taken(actors)
                poses = poses_ahead(states, self.step_time_s * np.arange(1, self.num_steps + 1))

                # rows of the other agents by track, as the sample has its own order
                own_ids = state.batch.tracks.track_ids[state.actor_tracks[actors]].astype(np.int64)
                order = np.argsort(track_ids[number], kind="stable")
                insertions = np.searchsorted(track_ids[number][order], own_ids)
                rows = order[np.minimum(insertions, len(order) - 1)]
                is_there = track_ids[number][rows] == own_ids
                poses[is_there] = trajectories[number, rows[is_there]]
                kept.poses[state.actor_tracks[actors]] = poses
                kept.begin[state.actor_tracks[actors]] = state.frame_indices[scene]

    def _ask(self, state: TrafficState, scenes: Int64Array) -> tuple[Int64Array, Float64Array]:
        """Return track ids of the rows of samples of scenes (R,), (R, A), and their poses, (R, A, N, 3)."""
        indices = SampleIndices(state.scenes[scenes], state.frame_indices[scenes], None)
        columns = samples_of_buffer(self.dataset, state.buffer, indices, scene_indices=state.batch.scene_indices).arrays
        batch = tensors_on(self.device, network_inputs(tensors_of(columns)))

        # drop rows of absent agents; all samples keep as many rows as the fullest one needs
        is_there = batch["all_other_agents_history_availability"][:, :, 0] > 0
        most = max(int(is_there.sum(dim=1).max()), 1)
        kept = torch.argsort((~is_there).int(), dim=1, stable=True)[:, :most]
        samples = torch.arange(len(kept), device=kept.device)[:, None]
        batch = {key: value[samples, kept] if key.startswith(_ROW_KEYS) else value for key, value in batch.items()}

        with torch.no_grad():
            rollouts = self._token_model.roll_out(
                batch,
                num_rollouts=1,
                num_tokens=1,
                temperature=self.temperature,
                seed=self.seed,
                first_is_greedy=False,
            )
        trajectories = np.asarray(rollouts.poses[:, 0].cpu().double().numpy(), np.float64)
        poses = trajectories.reshape(len(trajectories), -1, 3)  # of all agents of a sample in sequence
        matrices, yaws_rad = (np.asarray(columns[key], np.float64) for key in ("world_from_agent", "yaw"))
        world = NetworkPlans(poses[..., :2], poses[..., 2]).in_world(matrices, yaws_rad)
        return batch["all_other_agents_track_ids"].cpu().numpy(), world.reshape(trajectories.shape)

    def _poses_at(
        self, state: TrafficState, poses: Float64Array, times_s: Float64Array, num_followed: Int64Array
    ) -> Float64Array:
        """Return poses at times after the start of tokens, (K, 3), interpolated between their steps (K, N, 3)."""
        # the next step, and the elapsed share of it; a step just missed by rounding counts as reached
        steps = np.clip(times_s / self.step_time_s, 0.0, self.num_steps)
        after = np.clip(np.ceil(steps - 1e-6).astype(np.int64), 1, self.num_steps)
        parts = np.clip(steps - (after - 1), 0.0, 1.0)
        parts[parts > 1 - 1e-6] = 1.0

        # a new token starts at the current pose of the agent
        rows = np.arange(len(poses))
        ends = poses[rows, after - 1]
        is_first: BoolArray = (after == 1) & (num_followed == 0)
        starts = np.where(is_first[:, None], state.actor_states.poses, poses[rows, np.maximum(after - 2, 0)])

        between = poses_between(starts, ends, parts[:, None])
        between[parts == 1.0] = ends[parts == 1.0]
        return between
