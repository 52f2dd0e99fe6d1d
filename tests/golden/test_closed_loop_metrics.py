"""Closed-loop scores equal those recorded from L5Kit 1.5: names, frames, counts and dtypes exactly, floats to 1e-5.

The simulated scenes are rebuilt from the log and the recorded states, without a simulation.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from l5kit._types import RecordArray
from l5kit.cle import closed_loop_evaluator, composite_metrics, metrics, validators
from l5kit.cle.closed_loop_evaluator import ClosedLoopEvaluator, EvaluationPlan
from l5kit.cle.composite_metrics import CompositeMetricAggregator
from l5kit.cle.scene_type_agg import compute_cle_scene_type_aggregations
from l5kit.cle.validators import (
    DurationMode,
    RangeValidator,
    ValidationCountingAggregator,
    ValidationFailedFramesAggregator,
)
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.environment import gym_metric_set
from l5kit.evaluation.collision import detect_collision
from l5kit.evaluation.error_functions import closest_angle_error, l2_error
from l5kit.evaluation.metrics import distance_to_reference_trajectory
from l5kit.evaluation.scene_collisions import detect_scene_collisions
from support.logs import CAR, intervals, make_agents
from support.scored_scenes import SceneStandIn, make_states
from support.tolerances import FLOAT32_LONG, FLOAT64_LONG

ERROR_FUNCTIONS = {"l2_error": l2_error, "closest_angle_error": closest_angle_error}
EVALUATED = [
    "unroll/ego_fast_four_copies",
    "unroll/agents_2m",
    "driven/mixed",
    "driven/start_and_disable_new",
    "stand_ins/collisions",
    "stand_ins/no_collisions",
    "stand_ins/recorded_longer",
]
COLLISIONS = ["collisions/cars", "collisions/by_hand"]
ERRORS = [
    "errors/recorded_shorter/DisplacementErrorL2Metric",
    "errors/validator_no_bounds",
    "errors/fraction_1.1",
    "errors/plan_repeated_metrics",
    "errors/plan_validator_needs_metric",
]


@pytest.fixture(scope="module")
def recording(shared_golden: Path) -> tuple[dict[str, Any], Any]:
    described = json.loads((shared_golden / "closed_loop_metrics.json").read_text())
    with np.load(shared_golden / "closed_loop_metrics.npz") as arrays:
        return described["cases"], dict(arrays)


@pytest.fixture(scope="module")
def log(shared_data: Path) -> ChunkedDataset:
    return ChunkedDataset(str(shared_data / "single_scene.zarr")).open()


def test_every_case_is_listed(recording: tuple[dict[str, Any], Any]) -> None:
    compared = {name for name in recording[0] if not name.endswith("_fixed_in_2")}
    assert compared == {*EVALUATED, *COLLISIONS, *ERRORS, "functions/random"}


@pytest.mark.parametrize("name", EVALUATED)
def test_scores_are_reproduced(name: str, recording: tuple[dict[str, Any], Any], log: ChunkedDataset) -> None:
    cases, arrays = recording
    case = cases[name]
    recorded = {key.removeprefix(f"{name}//"): value for key, value in arrays.items() if key.startswith(f"{name}//")}
    outputs = make_outputs(name, case, arrays, log)
    found = {f"scene{out.scene_id}/simulated_ego_states": out.simulated_ego_states for out in outputs}
    found = {key: value for key, value in found.items() if key in recorded}
    evaluator = ClosedLoopEvaluator(make_plan(case["plan"]))
    evaluator.evaluate(outputs)
    found |= {f"plan/{key}": value for key, value in scores_of(evaluator)}
    evaluator.reset()
    found["plan/after_reset"] = np.array([len(evaluator.metric_results()), len(evaluator.validation_results())])
    for set_name in case["sets"]:
        metric_set = getattr(gym_metric_set, set_name)()
        metric_set.evaluate(outputs)
        found |= {f"{set_name}/{key}": value for key, value in scores_of(metric_set.evaluator)}
        found |= {f"{set_name}/aggregate_failed_frames/{k}": v for k, v in metric_set.aggregate_failed_frames().items()}
        if "scene_types" in case:
            counts = compute_cle_scene_type_aggregations(metric_set, case["scene_types"], [])
            assert all(type(count) is int for count in counts.values())
            found |= {f"{set_name}/scene_type/{key}": value for key, value in counts.items()}
            found[f"{set_name}/scene_type_names"] = np.array(sorted(counts))
    assert set(found) == set(recorded)
    for key, value in found.items():
        check(np.asarray(value), recorded[key], key)


def check(found: np.ndarray, expected: np.ndarray, key: str) -> None:
    if expected.size == 0:
        assert found.size == 0, key
        return
    assert found.dtype == expected.dtype or found.dtype.kind == expected.dtype.kind == "U", key
    assert found.shape == expected.shape, key
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected, err_msg=key)
    elif "miles" in key or "/composite/" in key:
        np.testing.assert_allclose(found, expected, rtol=FLOAT32_LONG, atol=FLOAT64_LONG, err_msg=key)
    else:
        np.testing.assert_allclose(found, expected, rtol=0, atol=FLOAT32_LONG, err_msg=key)


def scores_of(evaluator: ClosedLoopEvaluator) -> Iterator[tuple[str, Any]]:
    """Yield all results of an evaluator under the names of the recording."""
    for scene_id, values in evaluator.metric_results().items():
        yield from ((f"scene{scene_id}/metric/{key}", value) for key, value in values.items())
    for scene_id, outputs in evaluator.validation_results().items():
        for key, output in outputs.items():
            assert all(type(frame) is int for frame in output.failed_frames)
            yield f"scene{scene_id}/valid/{key}", np.array(output.is_valid_scene)
            yield f"scene{scene_id}/failed/{key}", np.array(output.failed_frames, np.int64)
    for scene_id, composites in evaluator.composite_metric_results().items():
        assert all(type(value) is float for value in composites.values())
        yield from ((f"scene{scene_id}/composite/{key}", value) for key, value in composites.items())
    validation = evaluator.validation_results()
    yield from named("scenes", ValidationCountingAggregator().aggregate(validation))
    yield from named("frames", ValidationCountingAggregator(failed_frames=True).aggregate(validation))
    yield from named("failed_frames", ValidationFailedFramesAggregator().aggregate(validation))
    yield from named("composite", CompositeMetricAggregator().aggregate(evaluator.composite_metric_results()))


def named(group: str, values: dict[str, torch.Tensor]) -> Iterator[tuple[str, Any]]:
    yield f"{group}_names", np.array(sorted(values))
    yield from ((f"{group}/{key}", value) for key, value in values.items())


def make_plan(described: dict[str, Any]) -> EvaluationPlan:
    return EvaluationPlan(
        [make_metric(entry) for entry in described["metrics"]],
        [make_validator(entry) for entry in described.get("validators", ())],
        [make_composite(entry) for entry in described.get("composites", ())],
        described.get("interventions"),
    )


def make_metric(entry: Any) -> metrics.SupportsMetricCompute:
    if isinstance(entry, str):
        return getattr(metrics, entry)()
    args = {key: ERROR_FUNCTIONS.get(value, value) for key, value in entry["args"].items()}
    return getattr(metrics, entry["class"])(**args)


def make_validator(entry: dict[str, Any]) -> RangeValidator:
    args = dict(entry["args"])
    if "duration_mode" in args:
        args["duration_mode"] = DurationMode[args["duration_mode"]]
    return RangeValidator(entry["name"], getattr(metrics, entry["metric"]), **args)


def make_composite(entry: dict[str, Any]) -> composite_metrics.SupportsCompositeMetricCompute:
    args = dict(entry["args"])
    if "driven_miles_metric" in args:
        args["driven_miles_metric"] = getattr(metrics, args["driven_miles_metric"])
    return getattr(composite_metrics, entry["class"])(entry["name"], **args)


def make_outputs(name: str, case: dict[str, Any], arrays: Any, log: ChunkedDataset) -> list[SceneStandIn]:
    if "stand_ins" in case:
        return [make_stand_in(entry, arrays) for entry in case["stand_ins"]]
    if "unroll" in case:
        dataset, sim = case["unroll"]["dataset"], case["unroll"]["sim"]
        spans = dataset.get("scenes", [[0, 248]] * len(case["unroll"]["scene_indices"]))
    else:
        spans, sim = case["dataset"]["scenes"], case["sim"]
    outputs = []
    for scene_id, (first, stop) in enumerate(spans):
        start = first + sim.get("start_frame_index", 0)
        frames = log.frames[start : start + sim.get("num_simulation_steps", stop - start)]
        output = replayed(scene_id, frames, log)
        if "trajectories" in case:
            output.simulated_ego_states = make_states(arrays[f"inputs//{case['trajectories'][str(scene_id)]}"])
        else:
            output.simulated_ego_states = torch.from_numpy(arrays[f"{name}//scene{scene_id}/simulated_ego_states"])
        if sim.get("disable_new_agents"):
            hide_new_agents(output, sim["distance_th_close"])
        if case.get("unroll", {}).get("agents_model"):
            drive_agents(output, case["unroll"]["agents_model"]["dx"], sim)
        outputs.append(output)
    return outputs


def make_stand_in(entry: dict[str, Any], arrays: Any) -> SceneStandIn:
    simulated, recorded, boxes = (arrays[f"inputs//{entry[key]}"] for key in ("simulated", "recorded", "boxes"))
    agents = [rows_of(boxes[boxes[:, 0] == frame]) for frame in range(len(simulated))]
    return SceneStandIn.make(simulated, recorded, agents, entry["scene_id"])


def rows_of(boxes: np.ndarray) -> RecordArray:
    """Return agents from frame, x, y, yaw, length, width and track id, (N, 7)."""
    rows = make_agents(*({} for _ in boxes))
    rows["centroid"], rows["yaw"], rows["extent"][:, :2] = boxes[:, 1:3], boxes[:, 3], boxes[:, 4:6]
    rows["track_id"] = boxes[:, 6]
    return rows


def replayed(scene_id: int, frames: RecordArray, log: ChunkedDataset) -> SceneStandIn:
    """Return a scene of the log in which everything happens as it was recorded."""
    first, stop = frames["agent_index_interval"][0, 0], frames["agent_index_interval"][-1, 1]
    frames = frames.copy()
    frames["agent_index_interval"] -= first
    rotation = frames["ego_rotation"]
    yaws_rad = np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0])
    states = make_states(np.column_stack([frames["ego_translation"][:, :2], yaws_rad]))
    return SceneStandIn(scene_id, states, states.clone(), log.agents[first:stop].copy(), frames)


def select_cars(agents: RecordArray, ego_m: np.ndarray, tracked: set[int], *, far_m: float, close_m: float) -> Any:
    """Return which agents are cars near the AV, of which those that are tracked may be further away, (N,)."""
    distances_m = np.linalg.norm(agents["centroid"] - ego_m, axis=1)
    reach_m = np.where(np.isin(agents["track_id"], list(tracked)), far_m, close_m)
    return (agents["label_probabilities"][:, CAR] > 0.5) & (distances_m < reach_m)


def hide_new_agents(output: SceneStandIn, close_m: float) -> None:
    """Hide, as simulations of 1.5 do, all agents but the cars near the AV in the first frame."""
    agents, frame = output.simulated_agents, output.simulated_ego[0]
    of_first = agents[slice(*frame["agent_index_interval"])]
    kept = of_first[select_cars(of_first, frame["ego_translation"][:2], set(), far_m=close_m, close_m=close_m)]
    is_hidden = ~np.isin(agents["track_id"], kept["track_id"])
    for field in ("centroid", "yaw", "extent"):
        agents[field][is_hidden] = 0
    agents["label_probabilities"][is_hidden] = -1


def drive_agents(output: SceneStandIn, step_m: float, sim: dict[str, Any]) -> None:
    """Move the cars near the AV straight on from frame to frame, as a simulation with such a model does."""
    frames = output.simulated_ego
    of_frames = [output.simulated_agents[slice(*frame["agent_index_interval"])] for frame in frames]
    tracked: set[int] = set()
    for index in range(len(frames) - 1):
        agents, ego_m = of_frames[index], frames[index]["ego_translation"][:2]
        far_m, close_m = sim["distance_th_far"], sim["distance_th_close"]
        moved = agents[select_cars(agents, ego_m, tracked, far_m=far_m, close_m=close_m)].copy()
        tracked = set(moved["track_id"].tolist())
        yaws_rad = moved["yaw"].astype(np.float64)
        moved["centroid"] += step_m * np.column_stack([np.cos(yaws_rad), np.sin(yaws_rad)])
        moved["label_probabilities"] = 0
        moved["label_probabilities"][:, CAR] = 1
        for row in moved:
            following = of_frames[index + 1]
            is_same = following["track_id"] == row["track_id"]
            following[is_same] = row
            if not is_same.any():
                of_frames[index + 1] = np.append(following, row)
    output.simulated_agents = np.concatenate(of_frames)
    frames["agent_index_interval"] = intervals(map(len, of_frames))


@pytest.mark.parametrize("name", COLLISIONS)
def test_collisions_are_reproduced(name: str, recording: tuple[dict[str, Any], Any]) -> None:
    cases, arrays = recording
    case = cases[name]
    boxes, egos = arrays[f"inputs//{case['boxes']}"], arrays[f"inputs//{case['egos']}"]
    extent_m = np.array(case["extent"])
    of_frames = [rows_of(boxes[boxes[:, 0] == frame]) for frame in range(len(egos))]
    expected = arrays[f"{name}//hits"]
    hits = [detect_collision(ego[:2], ego[2], extent_m, rows) for ego, rows in zip(egos, of_frames, strict=True)]
    assert [(-1, -1) if hit is None else (int(hit[0]), int(hit[1])) for hit in hits] == [*map(tuple, expected)]
    agents = np.concatenate(of_frames)
    found = detect_scene_collisions(
        egos[:, :2], egos[:, 2], extent_m, agents=agents, intervals=intervals(map(len, of_frames))
    )
    np.testing.assert_array_equal(found.types, expected[:, 0])
    tracks = np.where(found.rows < 0, -1, agents["track_id"][found.rows].astype(np.int64))
    np.testing.assert_array_equal(tracks, expected[:, 1])


def test_functions_are_reproduced(recording: tuple[dict[str, Any], Any]) -> None:
    cases, arrays = recording
    case = cases["functions/random"]
    a, b = (torch.from_numpy(arrays[f"inputs//{case[key]}"]).float() for key in ("a", "b"))
    mask = torch.from_numpy(arrays[f"inputs//{case['mask']}"])
    found = {
        "closest_angle_error": closest_angle_error(a[:, 2:], b[:, 2:]),
        "l2_error": l2_error(a[:, :2], b[:, :2]),
        "distance_to_reference": distance_to_reference_trajectory(a[:, :2], b[None, :, :2]),
        "cumsum_with_reset": RangeValidator.cumsum_with_reset(torch.full((len(mask),), case["dt"]), mask),
    }
    for key, value in found.items():
        check(value.numpy(), arrays[f"functions/random//{key}"], key)


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_1_5(name: str, recording: tuple[dict[str, Any], Any]) -> None:
    case = recording[0][name]
    expected = tuple({"ValueError": ValueError, "RuntimeError": RuntimeError}[kind] for kind in case["expect"])
    with pytest.raises(expected, match=case.get("text")):
        call(case["call"])


def call(described: dict[str, Any]) -> object:
    match described["what"]:
        case "metric_on_states":
            output = SceneStandIn.make(described["simulated"], described["recorded"])
            return getattr(metrics, described["metric"])().compute(output)
        case "validator":
            return validators.RangeValidator("v", metrics.DisplacementErrorL2Metric, **described["bounds"])
        case "reference_fraction":
            return metrics.DistanceToRefTrajectoryMetric(described["fraction"])
        case "plan":
            return make_plan(described["plan"])
    raise AssertionError(f"unknown call {described['what']}")


def test_c2_a_total_duration_of_a_shorter_metric_is_not_an_error_any_more(
    recording: tuple[dict[str, Any], Any],
) -> None:
    cases, arrays = recording
    case = cases["stand_ins/total_of_shorter_metric_fixed_in_2"]
    output = make_stand_in(case["stand_ins"][0], arrays)
    evaluator = closed_loop_evaluator.ClosedLoopEvaluator(make_plan(case["plan"]))
    evaluator.evaluate([output])
    assert set(evaluator.validation_results()[0]) == {"v"}
