"""Trajectories of accelerations and curvatures are those of a car: worked out by hand, and against a loop."""

import math

import pytest
import torch

from l5kit.planning.vectorized.trajectory_decoder import (
    MAX_ACCELERATION_MPS2,
    MAX_CURVATURE_PER_M,
    TrajectoryDecoder,
    poses_of_controls,
)
from support.tolerances import FLOAT32_LONG


def drive(accelerations, curvatures, speed=0.0, rear_axle=0.0, step_time_s=0.25):
    values = [torch.tensor(each, dtype=torch.float64) for each in (accelerations, curvatures, speed, rear_axle)]
    return poses_of_controls(*values, step_time_s=step_time_s)


def test_straight_on_at_constant_acceleration():
    poses = drive([2.0] * 4, [0.0] * 4, speed=10.0, rear_axle=1.4)
    times_s = torch.tensor([0.25, 0.5, 0.75, 1.0], dtype=torch.float64)
    torch.testing.assert_close(poses[:, 0], 10.0 * times_s + times_s**2)
    assert not poses[:, 1:].any()


def test_a_car_that_brakes_stands_and_starts_again_at_once():
    poses = drive([-2.0, -2.0, -2.0, -2.0, 2.0], [0.1] * 5, speed=1.0)
    ways_m = torch.tensor([0.1875, 0.25, 0.25, 0.25, 0.3125], dtype=torch.float64)
    torch.testing.assert_close(poses[:, 2], 0.1 * ways_m)  # it turns on its way only


def test_constant_curvature_is_a_circle_of_the_rear_axle():
    num_steps, curvature, rear_axle = 40, 0.1, 1.5
    poses = drive([0.0] * num_steps, [curvature] * num_steps, speed=5.0, rear_axle=rear_axle, step_time_s=0.05)
    turn_rad = 5.0 * 0.05 * num_steps * curvature
    end_m = (
        math.sin(turn_rad) / curvature + rear_axle * (math.cos(turn_rad) - 1.0),
        (1.0 - math.cos(turn_rad)) / curvature + rear_axle * math.sin(turn_rad),
    )
    assert poses[-1].tolist() == pytest.approx([*end_m, turn_rad], abs=1e-3)
    assert poses[0, 1] > 0  # to the left, the centre at once


@pytest.mark.parametrize("seed", range(5))
def test_all_steps_at_once_are_the_steps_one_by_one(seed):
    generator = torch.Generator().manual_seed(seed)
    accelerations = 5.0 * torch.randn(3, 2, 12, generator=generator, dtype=torch.float64)
    curvatures = 0.2 * torch.randn(3, 2, 12, generator=generator, dtype=torch.float64)
    speeds, rear_axles = torch.tensor([[0.0], [2.0], [9.0]]).double(), torch.full((3, 1), 1.4, dtype=torch.float64)
    poses = poses_of_controls(accelerations, curvatures, speeds, rear_axles, step_time_s=0.2)
    for row in range(3):
        for mode in range(2):
            x, y, yaw, speed = -1.4, 0.0, 0.0, speeds[row, 0].item()
            for step in range(12):
                end = max(speed + 0.2 * accelerations[row, mode, step].item(), 0.0)
                way = 0.5 * (speed + end) * 0.2
                turn = way * curvatures[row, mode, step].item()
                x, y = x + way * math.cos(yaw + turn / 2), y + way * math.sin(yaw + turn / 2)
                yaw, speed = yaw + turn, end
                centre = [x + 1.4 * math.cos(yaw), y + 1.4 * math.sin(yaw), yaw]
                assert poses[row, mode, step].tolist() == pytest.approx(centre, abs=1e-9)


@pytest.mark.parametrize("kind", ["kinematic", "poses"])
def test_a_new_decoder_goes_on_as_fast_as_now(kind):
    decoder = TrajectoryDecoder(8, 2, num_steps=4, step_time_s=0.5, kind=kind)
    speeds = torch.tensor([0.0, 6.0])
    poses, logits = decoder(torch.zeros(2, 8), speeds, torch.ones(2))
    assert logits.shape == (2, 2)
    expected = speeds[:, None] * torch.tensor([0.5, 1.0, 1.5, 2.0])
    torch.testing.assert_close(poses[:, 0, :, 0], expected)
    assert not poses[..., 1:].any()


def test_controls_keep_their_limits_and_cars_never_reverse():
    decoder = TrajectoryDecoder(4, 1, num_steps=10, step_time_s=0.2, kind="kinematic")
    features = 1e4 * torch.randn(64, 4, generator=torch.Generator().manual_seed(3))
    poses, _ = decoder(features, torch.full((64,), 5.0), torch.zeros(64))
    starts = torch.cat((torch.zeros_like(poses[:, :, :1]), poses), dim=2)
    steps = starts.diff(dim=2)
    ways = torch.linalg.vector_norm(steps[..., :2], dim=-1)
    assert (ways.diff(dim=-1).abs() <= MAX_ACCELERATION_MPS2 * 0.2**2 + 1e-4).all()
    # the chord of a step is a little shorter than its arc, by the square of the turn
    assert (steps[..., 2].abs() <= MAX_CURVATURE_PER_M * ways * (1 + FLOAT32_LONG) + 1e-5).all()
    midway = starts[:, :, :-1, 2] + 0.5 * steps[..., 2]
    ahead = steps[..., 0] * midway.cos() + steps[..., 1] * midway.sin()
    assert (ahead >= -1e-5).all()
