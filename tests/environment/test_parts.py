"""Parts of the environment: rewards, the unicycle, pictures of what is seen."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
gymnasium = pytest.importorskip("gymnasium")

from l5kit.cle.metrics import CollisionFrontMetric  # noqa: E402
from l5kit.environment import ENVIRONMENT_ID  # noqa: E402
from l5kit.environment.gym_metric_set import L2DisplacementYawMetricSet  # noqa: E402
from l5kit.environment.kinematic_model import UnicycleModel  # noqa: E402
from l5kit.environment.reward import L2DisplacementYawReward  # noqa: E402
from l5kit.environment.utils import save_input_raster  # noqa: E402
from l5kit.errors import UnsupportedValueError  # noqa: E402
from support.scored_scenes import SceneStandIn  # noqa: E402


def scene_of(simulated, recorded):
    """Return a scene of three frames whose poses all have one value."""
    return SceneStandIn.make(np.full((3, 3), simulated), np.full((3, 3), recorded), scene_id=4)


@pytest.mark.parametrize(
    ("options", "recorded", "expected"),
    [
        ({}, 2.0, (-np.sqrt(2) - 1, -np.sqrt(2), -1)),
        ({"rew_clip_thresh": 10}, 15.0, (-10 - (14 - 4 * np.pi), -10, -(14 - 4 * np.pi))),
        ({"enable_clip": False, "use_yaw": False}, 15.0, (-14 * np.sqrt(2), -14 * np.sqrt(2), 0)),
        ({"yaw_weight": 0.0}, 2.0, (-np.sqrt(2), -np.sqrt(2), 0)),
        ({"yaw_weight": 0.5}, 2.0, (-np.sqrt(2) - 0.5, -np.sqrt(2), -0.5)),
    ],
)
def test_a_reward_is_the_negative_error(options, recorded, expected):
    reward = L2DisplacementYawReward(**options)
    found = reward.get_reward(1, [scene_of(1.0, recorded)])
    assert (found["total"], found["distance"], found["yaw"]) == pytest.approx(expected, abs=1e-5)


def test_a_reward_looks_at_the_frame_after_the_step():
    states = np.zeros((4, 3))
    states[3, 0] = 5.0
    scene = SceneStandIn.make(states, np.zeros((4, 3)))
    reward = L2DisplacementYawReward()
    assert reward.get_reward(1, [scene])["distance"] == 0
    assert reward.get_reward(2, [scene])["distance"] == -5
    with pytest.raises(ValueError, match="index is 4; the simulated scene has frames 0 to 3"):
        reward.get_reward(3, [scene])
    with pytest.raises(ValueError, match="must hold an output, got none"):
        reward.get_reward(0, [])


def test_metrics_beside_the_two_of_a_reward_see_all_of_the_output():
    agents = [[], [{"centroid": (4, 0)}], []]
    scene = SceneStandIn.make(np.zeros((3, 3)), agents=agents)

    class Touching(L2DisplacementYawMetricSet):
        def build_metrics(self):
            return [*super().build_metrics(), CollisionFrontMetric()]

    reward = L2DisplacementYawReward(metric_set=Touching())
    assert reward.get_reward(0, [scene])["total"] == 0
    sliced = reward.slice_simulated_output(1, [scene])[0]
    assert len(sliced.simulated_ego_states) == 1
    assert sliced.simulated_agents is scene.simulated_agents
    assert copy.copy(sliced).simulated_agents is scene.simulated_agents
    with pytest.raises(AttributeError, match="no_such"):
        sliced.no_such  # noqa: B018


def test_a_reset_reward_has_no_results():
    reward = L2DisplacementYawReward()
    reward.get_reward(0, [scene_of(1.0, 2.0)])
    assert reward.metric_set.evaluator.metric_results()
    reward.reset()
    assert not reward.metric_set.evaluator.metric_results()


@pytest.mark.parametrize(
    ("action", "speed", "turn"),
    [((0.01, 0.1), 2.1, 0.01), ((-0.01, -0.3), 1.7, -0.01), ((0.0, 3.0), 2.6, 0.0), ((1.0, 0.0), 2.0, 0.0785398)],
)
def test_a_unicycle_turns_and_then_goes_straight_on(action, speed, turn):
    model = UnicycleModel()
    model.reset(np.array([0, 0, 0, 2.0]))
    out = model.update(np.array(action))
    assert (model.new_v, model.new_r) == pytest.approx((speed, turn), abs=1e-6)
    assert out["positions"][0, 0].tolist() == [model.new_x, model.new_y]
    assert out["positions"][0, 0] == pytest.approx([speed * np.cos(turn), speed * np.sin(turn)], abs=1e-6)
    assert out["yaws"][0, 0, 0] == pytest.approx(turn, abs=1e-6)


def test_a_unicycle_brakes_to_a_least_speed_if_it_has_one():
    """Row G12 of the defects: in 1.5 a vehicle that keeps braking drives backwards."""
    speeds = []
    for least in (None, 0.0):
        model = UnicycleModel(min_speed=least)
        model.reset([0, 0, 0, 0.5])
        for _ in range(3):
            model.update([0.0, -0.6])
        speeds.append(model.new_v)
    assert speeds == pytest.approx([-1.3, 0.0])


def test_a_unicycle_refuses_what_it_cannot_be():
    with pytest.raises(ValueError, match=r"min_acc is 1 and max_acc 0; pass the lower one first"):
        UnicycleModel(min_acc=1, max_acc=0)
    with pytest.raises(ValueError, match="x, y, heading and speed"):
        UnicycleModel().reset([0, 0])


def test_pictures_are_written_until_there_are_enough(tmp_path):
    """Row G16 of the defects: 1.5 ended the process after the last one."""

    class Gray:
        def to_rgb(self, image):
            return np.repeat((255 * image[..., :1]).astype(np.uint8), 3, axis=2)

    folder = tmp_path / "seen"
    for _ in range(3):
        save_input_raster(Gray(), torch.ones(2, 4, 6), num_images=2, output_folder=str(folder))
    assert sorted(file.name for file in folder.iterdir()) == ["input0.png", "input1.png"]


@pytest.mark.parametrize("making", ["make", "make_vec"])
@pytest.mark.parametrize(("name", "value"), [("device", "cuda"), ("autoreset_mode", "SameStep")])
def test_what_only_environments_that_step_together_have_is_told(making, name, value):
    how = {"num_envs": 2, "vectorization_mode": "sync"} if making == "make_vec" else {}
    with pytest.raises(UnsupportedValueError, match=rf"{name} is '{value}'.*num_envs=N, {name}='{value}'"):
        getattr(gymnasium, making)(ENVIRONMENT_ID, **how, **{name: value})
