"""Simulated scenes of logs of any rate, anywhere in the world, have the states and metrics of one at 10 Hz near 0."""

from typing import Any

import numpy as np
import pytest
import torch

from l5kit.data.log_facts import LogFacts
from l5kit.dataset import EgoDataset
from l5kit.environment.gym_metric_set import CLEMetricSet
from l5kit.simulation.dataset import SimulationConfig
from l5kit.simulation.engine.actions import Actions, KeptPlans
from l5kit.simulation.unroll import ClosedLoopSimulator, SimulationOutput, TrajectoryStateIndices
from support.logs import make_scene
from support.rule_models import step_model
from support.samples import make_cfg, make_stub

UTM_M = (5e5, 4e6)
LOGGED_MPS = 8.0
EXTENT_M = (4.0, 1.7, 1.6)


def drive(
    speed_mps: float, *, step_s: float = 0.1, origin_m: Any = (0.0, 0.0), duration_s: float = 6.0, agents: Any = ()
) -> SimulationOutput:
    """Return a scene in which the log drives 8 m/s along x and the AV another speed."""
    num_frames = round(duration_s / step_s) + 1
    ahead_m = LOGGED_MPS * step_s * np.arange(num_frames)
    log = make_scene(
        [agents] * num_frames,
        facts=LogFacts(step_time_s=step_s, ego_extent_m=EXTENT_M),
        positions_m=np.column_stack([ahead_m, np.zeros(num_frames)]) + origin_m,
        timestamps_ns=np.rint(1e9 * step_s * np.arange(num_frames)).astype(np.int64),
    )
    cfg = make_cfg(history_num_frames=1, future_num_frames=3, raster_size=[16, 12], step_time=step_s)
    dataset = EgoDataset(cfg, log, make_stub(cfg))
    model = step_model(speed_mps * step_s).eval()
    (output,) = ClosedLoopSimulator(SimulationConfig(use_agents_gt=True), dataset, torch.device("cpu"), model).unroll(
        [0]
    )
    return output


def evaluate(output: SimulationOutput) -> CLEMetricSet:
    metric_set = CLEMetricSet()
    metric_set.evaluate([output])
    return metric_set


def speed_failures(output: SimulationOutput) -> set[str]:
    results = evaluate(output).evaluator.validation_results()[0]
    return {name for name in ("passive_ego", "aggressive_ego") if not results[name].is_valid_scene}


@pytest.mark.parametrize("origin_m", [(0.0, 0.0), UTM_M], ids=["near", "utm"])
@pytest.mark.parametrize("step_s", [1 / 30, 0.1, 0.2, 1 / 3, 0.5])
def test_speeds_are_metres_per_second_at_any_rate_and_place(step_s: float, origin_m: Any) -> None:
    output = drive(6.0, step_s=step_s, origin_m=origin_m)
    (speeds,) = (
        each["simulated_minus_recorded_ego_speed"] for each in evaluate(output).evaluator.metric_results().values()
    )
    np.testing.assert_allclose(speeds, -2.0, atol=1e-3)
    assert speed_failures(output) == set()
    np.testing.assert_allclose(output.simulated_ego_states[:, TrajectoryStateIndices.TIME][-1], 6.0, rtol=1e-6)


@pytest.mark.parametrize("step_s", [0.1, 0.2, 0.5])
@pytest.mark.parametrize(
    ("speed_mps", "duration_s", "expected"),
    [(2.0, 2.0, set()), (2.0, 3.5, {"passive_ego"}), (14.0, 2.0, set()), (14.0, 3.5, {"aggressive_ego"})],
)
def test_speeds_fail_after_as_many_seconds_at_any_rate(
    speed_mps: float, duration_s: float, expected: set[str], step_s: float
) -> None:
    output = drive(speed_mps, step_s=step_s, duration_s=duration_s)
    output.recorded_ego_states[:, 1] = output.simulated_ego_states[:, 1]
    plan = evaluate(output).evaluation_plan
    plan.intervention_validators = []  # so that the distance from the log ends nothing
    results = plan.validate(plan.evaluate(output), output)
    assert {name for name in ("passive_ego", "aggressive_ego") if not results[name].is_valid_scene} == expected


@pytest.mark.parametrize("origin_m", [(0.0, 0.0), UTM_M], ids=["near", "utm"])
def test_speeds_of_the_av_stand_beside_states_whose_speed_is_0(origin_m: Any) -> None:
    output = drive(6.0, step_s=0.2, origin_m=origin_m)
    assert not output.simulated_ego_states[:, TrajectoryStateIndices.SPEED].any()
    np.testing.assert_allclose(output.simulated_ego_speeds_mps, 6.0, atol=1e-5)
    np.testing.assert_allclose(output.recorded_ego_speeds_mps, LOGGED_MPS, atol=1e-5)


def test_states_are_float32_as_in_15_where_that_holds_them_and_float64_beyond() -> None:
    near, far = drive(6.0), drive(6.0, origin_m=UTM_M)
    for name in ("simulated_ego_states", "recorded_ego_states"):
        assert (getattr(near, name).dtype, getattr(far, name).dtype) == (torch.float32, torch.float64)
        moved = getattr(far, name)[:, :2] - torch.tensor(UTM_M, dtype=torch.float64)
        np.testing.assert_allclose(moved, getattr(near, name)[:, :2], atol=1e-5)


def test_metrics_do_not_depend_on_where_the_world_has_its_origin() -> None:
    at = [{"centroid": (31.0, 1.2), "extent": (4.0, 2.0, 1.5)}]
    moved = [at[0] | {"centroid": (31.0 + UTM_M[0], 1.2 + UTM_M[1])}]
    near, far = evaluate(drive(7.0, agents=at)), evaluate(drive(7.0, agents=moved, origin_m=UTM_M))
    expected, results = near.get_results(), far.get_results()
    assert expected["metrics/collision_front"] > 0
    for key, value in expected.items():
        np.testing.assert_allclose(results[key], value, atol=1e-4, err_msg=key)


def test_the_av_collides_with_the_box_of_its_log() -> None:
    ahead = [{"centroid": (2.8, 0.0), "extent": (1.0, 1.0, 1.0)}]  # between the fronts of this box and of the usual one
    output = drive(0.0, agents=ahead, duration_s=0.2)
    assert not evaluate(output).get_results()["metrics/collision_front"]


def test_kept_plans_hold_far_places_and_are_float32_near() -> None:
    plans = np.array([[[3.1, 4.2, 0.5]], [[UTM_M[0] + 3.1, UTM_M[1] + 4.2, 0.5]]])

    def kept(rows: list[int]) -> Any:
        plans_of = KeptPlans((2, 1))
        plans_of.keep(np.array(rows), np.zeros(len(rows), np.int64), Actions(plans[rows]), 0.1)
        return plans_of.joined()[0]

    assert kept([0]).dtype == np.float32
    np.testing.assert_array_equal(kept([0, 1])[0], kept([0])[0])
    np.testing.assert_allclose(kept([0, 1])[1, 0, 0], plans[1, 0], rtol=0, atol=1e-9)
