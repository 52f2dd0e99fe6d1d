"""Imitation of rules: a policy learns the actions of a rule-based planner in the states that it visits (DAgger)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy

from l5kit._types import Float32Array
from l5kit.data.scene_records import SceneRecords
from l5kit.environment.episode_choice import FIRST_FRAME
from l5kit.environment.model_actions import ROUTE_ACTIONS, RouteActions, model_actions
from l5kit.environment.observations.compact_view import CompactSight
from l5kit.environment.policy_options import PolicyOptions
from l5kit.environment.setup import EnvironmentParts
from l5kit.errors import ConfigError
from l5kit.simulation.drivers.intelligent import intelligent_traffic
from l5kit.simulation.drivers.rule_planner import RulePlanner
from l5kit.simulation.engine.actions import Actions, Controls
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import EgoSeat, SceneSimulation
from l5kit.simulation.engine.traffic_state import TrafficState

RULES: Final = "rules"
"""Value of ``rl_params.init`` for the imitation of rules."""

_ROUNDS: Final = 3

_MOST_SCENES: Final = 12
"""Largest number of scenes of a town in a round."""

_EPOCHS: Final = 8
_BATCH_SIZE: Final = 512
_LEARNING_RATE: Final = 1e-3

_LOOK_S: Final = 1.0
"""Horizon of plans; actions are accelerations that reach the same distance at this time."""


def require_imitable(options: PolicyOptions) -> RouteActions:
    """Return the actions of a policy that can imitate rules.

    Raises:
        ConfigError: Its actions are not along the route, or its observations are not compact.
    """
    if options.observation == "compact" and options.actions in ROUTE_ACTIONS:
        kind = model_actions(options.actions)
        assert isinstance(kind, RouteActions)
        return kind
    raise ConfigError(
        f"rl_params.init: imitating 'rules' needs gym_params.observation compact and gym_params.actions route, got "
        f"{options.observation!r} and {options.actions!r}; change these, name a policy, or start from new "
        "weights (null; --init none)"
    )


def imitate_rules(
    model: PPO,
    towns: Sequence[EnvironmentParts],
    options: PolicyOptions,
    *,
    seed: int,
    tell: Callable[[str], None],
) -> None:
    """Train the policy of an algorithm to imitate a rule-based planner, in three rounds.

    In the first round the actions of the planner are carried out, in the others those of the policy, while the planner
    gives the labels (DAgger, Ross et al., AISTATS 2011): so the policy learns to recover from its own mistakes. Each
    round drives other scenes if there are enough, at most twelve of each town, and learns from all observations so far.
    The planner only plans along the route, as the policy does.

    Args:
        model: The algorithm, updated.
        towns: Data of the towns of the training.
        options: Observations and actions of the policy.
        seed: Seed of the order of samples.
        tell: Function called with each human-readable line of progress.

    Raises:
        ConfigError: Its actions are not along the route, or its observations are not compact.
    """
    kind, generator = require_imitable(options), np.random.default_rng(seed)
    seen: list[Float32Array] = []
    wanted: list[Float32Array] = []
    sound = [town.choice.sound_scenes for town in towns]
    for number in range(_ROUNDS):
        pupil = model.policy if number else None
        for town, sound_scenes in zip(towns, sound, strict=True):
            # Rounds drive different scenes. A town with fewer scenes than rounds drives them again, as the policy must
            # see the states that it leads to itself.
            scenes = (sound_scenes[number::_ROUNDS] or sound_scenes)[:_MOST_SCENES]
            lesson = _drive(town, scenes, options, kind=kind, pupil=pupil)
            seen += lesson.seen
            wanted += lesson.wanted
        error = _learn(model.policy, np.concatenate(seen), np.concatenate(wanted), generator)
        tell(
            f"imitation of rules, round {number + 1} of {_ROUNDS}: {sum(map(len, seen)):,} decisions, "
            f"mean error {error:.2f}"
        )


@dataclass(frozen=True, eq=False)
class _Lesson:
    """Driver of a batch of AVs along routes, by the rules or by the policy that imitates them; records labels.

    Attributes:
        kind: Kind of actions.
        num_held: Frames that an action is held for.
        pupil: Policy that decides; None for the rules.
        sight: Observations of the AVs of the batch.
        held: Current action of each AV of the batch, (S, 1), updated.
        seen: Observations at each decision, (R, D).
        wanted: Actions of the rules, (R, 1).
    """

    kind: RouteActions
    num_held: int
    pupil: ActorCriticPolicy | None
    sight: CompactSight
    held: Float32Array
    seen: list[Float32Array] = field(default_factory=list)
    wanted: list[Float32Array] = field(default_factory=list)
    _rules: RulePlanner = field(default_factory=lambda: RulePlanner(offsets_m=(0.0,)))

    def drive(self, state: TrafficState) -> Actions:
        """Return controls of the vehicle model, (R, 2)."""
        seen, routes = self.sight.look(state)
        if (state.frame_indices[0] - FIRST_FRAME) % self.num_held == 0:
            # The action reaches the same distance as the plan of the rules, along the current heading:
            # s = v t + a t^2 / 2.
            plans, ego, step = self._rules.plan_anew(state), state.ego, round(_LOOK_S / state.step_time_s) - 1
            offsets_m = plans[:, step, :2] - ego.positions_m
            ahead_m = offsets_m[:, 0] * np.cos(ego.yaws_rad) + offsets_m[:, 1] * np.sin(ego.yaws_rad)
            wanted_mps2 = 2 * (ahead_m - ego.speeds_mps * _LOOK_S) / _LOOK_S**2
            scale = np.where(wanted_mps2 < 0, -self.kind.lows[0], self.kind.highs[0])
            wanted = np.clip(wanted_mps2 / scale, -1, 1).astype(np.float32)[:, None]
            self.seen.append(seen)
            self.wanted.append(wanted)
            acts = wanted if self.pupil is None else self.pupil.predict(seen, deterministic=True)[0]
            self.held[state.scenes] = acts
        return Actions(self.kind.steered(self.held[state.scenes], state.ego, routes, state.step_time_s))


def _drive(
    town: EnvironmentParts,
    scenes: Sequence[int],
    options: PolicyOptions,
    *,
    kind: RouteActions,
    pupil: ActorCriticPolicy | None,
) -> _Lesson:
    """Drive scenes of a town to their ends, with other vehicles driven as in its environments; return the lesson."""
    batch = SceneBatch.of_scenes(
        [SceneRecords.read(town.log, scene) for scene in scenes],
        scene_indices=scenes,
        start=FIRST_FRAME,
        facts=town.log.facts,
        road=town.road,
    )
    sight = CompactSight(batch, options.layout, threshold=options.threshold)
    held = np.zeros((len(batch), 1), np.float32)
    lesson = _Lesson(kind, town.params.frames_per_action, pupil, sight=sight, held=held)
    others = None if town.options.driver is None else intelligent_traffic(town.options.driver)
    SceneSimulation(batch, ego=EgoSeat(lesson, Controls(kind.model)), agents=others, strict=True).run()
    return lesson


def _learn(
    policy: ActorCriticPolicy, seen: Float32Array, wanted: Float32Array, generator: np.random.Generator
) -> float:
    """Fit a policy to actions (N, 1) for observations (N, D) by maximum likelihood; return its mean absolute error."""
    optimiser = torch.optim.Adam(policy.parameters(), lr=_LEARNING_RATE)
    observations, actions = torch.from_numpy(seen), torch.from_numpy(wanted)
    policy.set_training_mode(True)
    for _ in range(_EPOCHS):
        # as few batches as possible within the batch size
        for rows in np.array_split(generator.permutation(len(seen)), -(-len(seen) // _BATCH_SIZE)):
            _, log_probabilities, _ = policy.evaluate_actions(observations[rows], actions[rows])
            optimiser.zero_grad()
            (-log_probabilities.mean()).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    policy.set_training_mode(False)
    acts, _ = policy.predict(seen, deterministic=True)
    return float(np.abs(acts - wanted).mean())
