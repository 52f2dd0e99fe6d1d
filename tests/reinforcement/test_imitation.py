"""Rounds in which rules are imitated, and what a lesson notes of them."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy

from l5kit.environment.episode_choice import FIRST_FRAME
from l5kit.environment.model_actions import model_actions
from l5kit.environment.policy_options import PolicyOptions
from l5kit.errors import ConfigError
from l5kit.reinforcement import imitation


def town_of(*scenes):
    """A town whose scenes are sound."""
    choice = SimpleNamespace(sound_scenes=list(scenes))
    return SimpleNamespace(choice=choice)


def test_rounds_drive_other_scenes_and_learn_from_all_that_was_seen(monkeypatch):
    drives, learned = [], []

    def drive(town, scenes, options, *, kind, pupil):
        drives.append((scenes, pupil))
        return SimpleNamespace(seen=[np.zeros((len(scenes), 2))], wanted=[np.ones((len(scenes), 1))])

    def learn(policy, seen, wanted, generator):
        learned.append((len(seen), len(wanted)))
        return 0.5

    monkeypatch.setattr(imitation, "_drive", drive)
    monkeypatch.setattr(imitation, "_learn", learn)
    monkeypatch.setattr(imitation, "require_imitable", lambda options: None)
    told, model = [], SimpleNamespace(policy="the policy")
    imitation.imitate_rules(model, [town_of(*range(40)), town_of(5)], None, seed=0, tell=told.append)
    # twelve of the thirteen scenes of each third; the only scene of the other town three times
    assert [scenes for scenes, _ in drives[::2]] == [list(range(first, 36, 3)) for first in range(3)]
    assert [scenes for scenes, _ in drives[1::2]] == [[5], [5], [5]]
    # rules drive first, then the policy
    assert [pupil for _, pupil in drives] == [None, None, *["the policy"] * 4]
    assert learned == [(13, 13), (26, 26), (39, 39)]
    assert told[1] == "imitation of rules, round 2 of 3: 26 decisions, mean error 0.50"


def lesson_of(kind, *, pupil=None, num_held=3):
    """A lesson of two AVs, whose rules plan to brake by 1 m/s2, and to go on as they do."""
    sight = SimpleNamespace(look=lambda state: (np.zeros((len(state.scenes), 2), np.float32), None))
    lesson = imitation._Lesson(kind, num_held, pupil, sight=sight, held=np.zeros((2, 1), np.float32))
    times_s = np.arange(1, 41) / 10
    ahead_m = np.stack([10 * times_s - times_s**2 / 2, 4 * times_s])
    headings = np.array([0.0, np.pi / 2])
    plans = np.zeros((2, 40, 3))
    plans[..., 0], plans[..., 1] = ahead_m * np.cos(headings)[:, None], ahead_m * np.sin(headings)[:, None]
    object.__setattr__(lesson, "_rules", SimpleNamespace(plan_anew=lambda state: plans[state.scenes]))
    return lesson


def state_in(frame, scenes=(0, 1)):
    scenes = np.array(scenes)
    return SimpleNamespace(
        scenes=scenes,
        frame_indices=np.full(len(scenes), FIRST_FRAME + frame),
        step_time_s=0.1,
        ego=SimpleNamespace(
            positions_m=np.zeros((len(scenes), 2)),
            yaws_rad=np.array([0.0, np.pi / 2])[scenes],
            speeds_mps=np.array([10.0, 4.0])[scenes],
        ),
    )


class Kind:
    """Actions that are noted as they are, and whose bounds differ."""

    lows, highs = (-4.0,), (2.0,)

    def __init__(self):
        self.done = []

    def steered(self, actions, ego, routes, step_time_s):
        self.done.append(actions[:, 0].tolist())
        return np.zeros((len(actions), 2))


def test_what_rules_want_is_the_acceleration_of_their_plans_held_until_the_next_decision():
    kind = Kind()
    lesson = lesson_of(kind)
    for frame in range(4):
        lesson.drive(state_in(frame, (0, 1) if frame < 2 else (1,)))
    np.testing.assert_allclose(np.concatenate(lesson.wanted)[:, 0], [-0.25, 0.0, 0.0], atol=1e-6)
    assert [len(seen) for seen in lesson.seen] == [2, 1]  # frames 0 and 3, the AV of scene 0 being at its end
    np.testing.assert_allclose(np.concatenate(kind.done), [-0.25, 0, -0.25, 0, 0, 0], atol=1e-6)


def test_the_pupil_decides_and_what_rules_want_is_noted():
    kind, pupil = Kind(), SimpleNamespace(predict=lambda seen, deterministic: (np.full((len(seen), 1), 0.5), None))
    lesson = lesson_of(kind, pupil=pupil)
    lesson.drive(state_in(0))
    assert kind.done == [[0.5, 0.5]]
    np.testing.assert_allclose(lesson.wanted[0][:, 0], [-0.25, 0.0], atol=1e-6)


def test_plans_beyond_the_bounds_want_the_bound():
    kind = Kind()
    kind.lows, kind.highs = (-0.5,), (2.0,)
    lesson = lesson_of(kind)
    lesson.drive(state_in(0))
    np.testing.assert_allclose(lesson.wanted[0][:, 0], [-1.0, 0.0], atol=1e-6)


def test_a_policy_learns_what_is_wanted():
    torch.manual_seed(0)
    policy = ActorCriticPolicy(
        spaces.Box(-1, 1, (2,), np.float32), spaces.Box(-1, 1, (1,), np.float32), lambda _: 0.0, net_arch=[8]
    )
    generator = np.random.default_rng(0)
    seen = generator.uniform(-1, 1, (4000, 2)).astype(np.float32)
    wanted = (0.5 * seen[:, :1] - 0.4).astype(np.float32)
    before = np.abs(policy.predict(seen, deterministic=True)[0] - wanted).mean()
    off = [imitation._learn(policy, seen, wanted, generator) for _ in range(3)]
    assert off[0] < before
    assert off[2] < 0.25 * before
    assert off[2] == pytest.approx(np.abs(policy.predict(seen, deterministic=True)[0] - wanted).mean())
    assert not policy.training


def test_actions_along_the_route_can_be_imitated():
    options = PolicyOptions("compact", "route", step_time_s=0.1, threshold=0.5)
    assert type(imitation.require_imitable(options)) is type(model_actions("route"))


def test_a_configuration_without_steps_is_told_by_its_section():
    with pytest.raises(ConfigError, match="model_params: this section is missing"):
        PolicyOptions.of_cfg({"gym_params": {"observation": "compact", "actions": "route"}})
