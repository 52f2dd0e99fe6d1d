"""Parts for stable-baselines3: features, the evaluation callback, and the training of 1.5's script."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("gymnasium")
stable_baselines3 = pytest.importorskip("stable_baselines3")

from gymnasium import spaces  # noqa: E402
from stable_baselines3.common.logger import Logger  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv  # noqa: E402

from l5kit.environment.callbacks import L5KitEvalCallback  # noqa: E402
from l5kit.environment.feature_extractor import CustomFeatureExtractor  # noqa: E402
from l5kit.environment.gym_metric_set import CLEMetricSet, L2DisplacementYawMetricSet  # noqa: E402
from support.scored_scenes import SceneStandIn  # noqa: E402


class StraightOn:
    """Policy that wants the same all the time."""

    def __init__(self):
        self.num_asked = 0

    def predict(self, observations, deterministic=False):
        assert deterministic
        self.num_asked += 1
        return np.zeros((len(observations["image"]), 3), np.float32), None


class Notes(Logger):
    """Logger that remembers."""

    def __init__(self):
        super().__init__(folder=None, output_formats=[])
        self.logged, self.dumped = {}, []

    def record(self, key, value, exclude=None):
        self.logged[key] = (value, exclude)

    def dump(self, step=0):
        self.dumped.append(step)


class LoggedCallback(L5KitEvalCallback):
    """Callback outside of a training."""

    notes = None

    @property
    def logger(self):
        return self.notes


def make_callback(make_env, num_envs=2, gym_params=(), **args):
    envs = DummyVecEnv([lambda: make_env(gym_params, return_info=True, train=False)] * num_envs)
    callback = LoggedCallback(envs, n_eval_envs=num_envs, **args)
    callback.model, callback.notes = StraightOn(), Notes()
    return callback


def test_each_scene_is_evaluated_once(make_env):
    callback = make_callback(make_env, n_eval_episodes=3)
    callback.evaluate_scenes()
    assert set(callback.metric_set.evaluator.metric_results()) == {0, 1, 2}


def test_an_evaluation_ends_where_there_are_fewer_scenes_than_wanted(make_env):
    """Row G8 of the defects: 1.5 drove the scenes for ever."""
    callback = make_callback(make_env, n_eval_episodes=10)
    callback.evaluate_scenes()
    assert len(callback.metric_set.evaluator.metric_results()) == 3
    overfit = make_callback(make_env, gym_params={"overfit": True, "overfit_id": 2}, n_eval_episodes=10)
    overfit.evaluate_scenes()
    assert set(overfit.metric_set.evaluator.metric_results()) == {2}


def test_what_is_logged(make_env, tmp_path):
    types = tmp_path / "types.csv"
    types.write_text("0,straight\n1,turn\n2,straight\n")
    callback = make_callback(
        make_env,
        n_eval_episodes=3,
        eval_freq=2,
        prefix="test",
        enable_scene_type_aggregation=True,
        scene_id_to_type_path=str(types),
    )
    callback.n_calls, callback.num_timesteps = 1, 40
    assert callback._on_step()
    assert callback.notes.logged == {}
    callback.n_calls, callback.num_timesteps = 2, 80
    assert callback._on_step()
    logged = callback.notes.logged
    expected = {"ade", "fde", "total_collision", "collision_front", "passive_ego", "total_driven_miles_simulated"}
    assert {f"test/{name}" for name in expected} <= set(logged)
    collisions = sum(logged[f"test/collision_{side}"][0] for side in ("front", "rear", "side"))
    assert logged["test/total_collision"][0] == collisions
    assert {"straight/collision_front", "turn/collision_front"} <= set(logged)
    assert logged["time/total timesteps"] == (80, "tensorboard")
    assert callback.notes.dumped == [80]
    assert callback.metric_set.evaluator.metric_results() == {}


def test_mean_and_last_displacement():
    metric_set = CLEMetricSet()
    assert L5KitEvalCallback.compute_ade_fde(metric_set) == (0.0, 0.0)
    small = L2DisplacementYawMetricSet()
    for scene, errors_m in enumerate(([9.0, 1.0, 2.0, 3.0], [9.0, 2.0, 2.0, 5.0])):
        states = np.zeros((4, 3))
        states[:, 0] = errors_m
        small.evaluate([SceneStandIn.make(states, np.zeros((4, 3)), scene_id=scene)])
    assert L5KitEvalCallback.compute_ade_fde(small) == pytest.approx((2.5, 4.0)), "the first frame does not count"


def test_types_are_read_by_scene(tmp_path):
    file = tmp_path / "types.csv"
    file.write_text("0,a\n1,b\n2,a\n")
    assert L5KitEvalCallback.get_scene_types(str(file)) == [["a"], ["b"], ["a"]]


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ({"enable_scene_type_aggregation": True}, AssertionError, "scene_id_to_type_path is None"),
        ({"n_eval_episodes": 0}, ValueError, "n_eval_episodes is 0; it must be 1 or more"),
        ({"metric_set": L2DisplacementYawMetricSet()}, RuntimeError, "lacks collision_front, collision_rear"),
    ],
)
def test_wrong_arguments_are_refused(make_env, args, error, message):
    with pytest.raises(error, match=message):
        make_callback(make_env, **args)


def test_another_number_of_environments_is_refused(make_env):
    envs = DummyVecEnv([lambda: make_env(return_info=True)])
    with pytest.raises(ValueError, match="n_eval_envs is 4, but eval_env has 1"):
        L5KitEvalCallback(envs)


def test_environments_without_outputs_are_refused(make_env):
    callback = make_callback(make_env)
    callback.eval_env = DummyVecEnv([lambda: make_env(train=False)] * 2)
    with pytest.raises(ValueError, match="make its environments with return_info=True"):
        callback.evaluate_scenes()


def test_a_set_with_validators_of_other_names_is_fine(make_env):
    """Row G23 of the defects: 1.5 counted collisions by names that need not be there."""

    class Own(CLEMetricSet):
        def build_validators(self):
            return [each for each in super().build_validators() if each.validator_name == "displacement_error_l2"]

        def get_validator_interventions(self):
            return ["displacement_error_l2"]

        def build_composite_metrics(self):
            return []

    callback = make_callback(make_env, n_eval_episodes=1, eval_freq=1, metric_set=Own())
    callback.n_calls = 1
    callback._on_step()
    assert callback.notes.logged["eval/total_collision"][0] == 0


def test_features_of_pictures():
    space = spaces.Dict({"image": spaces.Box(0, 1, (7, 112, 112), np.float32)})
    extractor = CustomFeatureExtractor(space, features_dim=12)
    assert {name.rpartition(".")[0] for name in extractor.state_dict()} == {
        f"extractors.image.{place}" for place in (0, 1, 4, 5, 9)
    }
    assert extractor({"image": torch.zeros(2, 7, 112, 112)}).shape == (2, 12)
    with pytest.raises(NotImplementedError, match="model_arch is 'resnet'; it must be one of simple_gn"):
        CustomFeatureExtractor(space, model_arch="resnet")
    with pytest.raises(ValueError, match="must be a Dict with an image"):
        CustomFeatureExtractor(spaces.Box(0, 1, (7, 112, 112), np.float32))


@pytest.mark.process
@pytest.mark.slow
def test_a_policy_is_trained_and_evaluated(make_env, tmp_path):
    side = {"side_px": (112, 112)}
    envs = DummyVecEnv([lambda: make_env(side)])
    evaluation = DummyVecEnv([lambda: make_env(side, return_info=True, train=False)])
    model = stable_baselines3.PPO(
        "MultiInputPolicy",
        envs,
        policy_kwargs={
            "features_extractor_class": CustomFeatureExtractor,
            "features_extractor_kwargs": {"features_dim": 16},
            "normalize_images": False,
        },
        n_steps=16,
        batch_size=8,
        n_epochs=1,
        seed=3,
    )
    callback = L5KitEvalCallback(evaluation, eval_freq=16, n_eval_episodes=2, n_eval_envs=1)
    before = model.policy.action_net.weight.detach().clone()
    model.learn(32, callback=callback)
    assert not torch.equal(before, model.policy.action_net.weight)
    model.save(tmp_path / "model.zip")
    loaded = stable_baselines3.PPO.load(tmp_path / "model.zip")
    observation, _ = make_env(side).reset(seed=1)
    np.testing.assert_array_equal(
        loaded.predict(observation, deterministic=True)[0], model.predict(observation, deterministic=True)[0]
    )
