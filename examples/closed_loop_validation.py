"""Validate a planner with the metrics of L5Kit 1.5 and your own, and list the scenes and frames that fail.

Run ``python examples/closed_loop_validation.py`` for a small planner in a synthetic city, or with ``--data FOLDER`` for
your own data. Use ``--network out/training-1`` for a planner that you trained before. The exit status is 1 if more than
``--allowed`` scenes fail, so the script can guard a planner in continuous integration.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import closed_loop
import numpy as np
import torch

from l5kit.cle.metrics import SupportsMetricCompute
from l5kit.cle.scored_scene import SimulatedSceneLike
from l5kit.cle.validators import DurationMode, RangeValidator, SupportsMetricValidate
from l5kit.closedloop import ClosedLoopResult
from l5kit.data import ChunkedDataset
from l5kit.environment.gym_metric_set import CLEMetricSet
from l5kit.simulation.unroll import SimulationOutput, TrajectoryStateIndices

NUM_STEPS = 150


class DecelerationMetric(SupportsMetricCompute):
    """Deceleration of the AV in each frame, from its positions over half a second, in m/s2."""

    metric_name = "deceleration"

    def compute(self, simulation_output: SimulatedSceneLike) -> torch.Tensor:
        """Return one value for each frame of a scene; 0 during the first half second."""
        states = simulation_output.simulated_ego_states
        positions_m = states[:, [TrajectoryStateIndices.X, TrajectoryStateIndices.Y]]
        times_s = states[:, TrajectoryStateIndices.TIME]
        speeds_mps = torch.linalg.norm(torch.diff(positions_m, dim=0), dim=1) / torch.diff(times_s)
        values = torch.zeros(len(states))
        values[6:] = -(speeds_mps[5:] - speeds_mps[:-5]) / (times_s[6:] - times_s[1:-5])
        return values


class OwnMetricSet(CLEMetricSet):
    """The metric set of 1.5, plus braking: a scene also fails if the AV brakes above 4 m/s2 for over half a second."""

    def build_metrics(self) -> list[SupportsMetricCompute]:
        """Return the metrics of 1.5 and the deceleration."""
        return [*super().build_metrics(), DecelerationMetric()]

    def build_validators(self) -> list[SupportsMetricValidate]:
        """Return the validators of 1.5 and that of braking."""
        braking = RangeValidator(
            "hard_braking",
            DecelerationMetric,
            max_value=4.0,
            violation_duration_s=0.5,
            duration_mode=DurationMode.CONTINUOUS,
        )
        return [*super().build_validators(), braking]


@dataclass(frozen=True)
class DrivenScene:
    """A scene simulated by l5kit, in the form that metrics of 1.5 read."""

    scene_id: int
    simulated_ego: np.ndarray
    simulated_agents: np.ndarray
    recorded_ego: np.ndarray

    @property
    def simulated_ego_states(self) -> torch.Tensor:
        """Simulated states of the AV, (N, 7)."""
        return SimulationOutput.build_trajectory_states(self.simulated_ego)

    @property
    def recorded_ego_states(self) -> torch.Tensor:
        """Logged states of the AV, (N, 7)."""
        return SimulationOutput.build_trajectory_states(self.recorded_ego)

    def get_scene_id(self) -> int:
        """Return the index of the scene in its log."""
        return self.scene_id


def main() -> None:
    """Train a planner, let it drive, and validate the drives."""
    parser = closed_loop.make_parser("Train a planner and validate it.")
    parser.add_argument("--allowed", type=int, default=5, help="number of scenes that may fail; default 5")
    options = parser.parse_args()
    cfg, weights, data_folder = closed_loop.get_network("vector_planner", options, num_steps=NUM_STEPS)

    # Driving and judging are separate: drives are a dataset, which can be judged again by other rules.
    log = data_folder / cfg["val_data_loader"]["key"]
    planners = {"planner": closed_loop.get_driver(weights, cfg, data_folder), "constant-velocity": "constant-velocity"}
    results = closed_loop.drive_scenes(planners, log, options.out / "validation", options)

    num_failed = {}
    for name, result in results.items():
        metric_set = OwnMetricSet()
        metric_set.evaluate(read_driven(result, log))
        print(f"\n{name}, by the metric set of 1.5 and our metric")
        num_failed[name] = print_verdicts(metric_set) + len(result.failed)
    closed_loop.print_scores(results)
    print_worst(results["planner"])

    is_good = num_failed["planner"] <= options.allowed
    verdict = "valid" if is_good else "not valid"
    print(f"\nthe planner is {verdict}: {num_failed['planner']} scenes fail, {options.allowed} may")
    sys.exit(not is_good)


def read_driven(result: ClosedLoopResult, log: Path) -> Iterator[DrivenScene]:
    """Yield the scenes that were driven to their end, with the matching frames of the log."""
    driven, logged = ChunkedDataset(result.driven_log).open(), ChunkedDataset(log).open()
    for row in result.scenes():
        if row["position"] is None:
            continue
        scene = driven.get_scene_dataset(row["position"])
        frames = logged.get_scene_dataset(row["scene"]).frames[closed_loop.START_FRAME :][: len(scene.frames)]
        yield DrivenScene(row["scene"], scene.frames[:], scene.agents[:], frames)


def print_verdicts(metric_set: OwnMetricSet) -> int:
    """Print which scenes fail which validator, and the miles per failure; return the number of failed scenes."""
    validations = metric_set.evaluator.validation_results()
    failed = {
        scene: outputs for scene, outputs in validations.items() if not all(v.is_valid_scene for v in outputs.values())
    }
    for scene, outputs in failed.items():
        for validator, output in outputs.items():
            if not output.is_valid_scene:
                first = closed_loop.START_FRAME + min(output.failed_frames)
                print(f"scene {scene:>3}: {validator} from frame {first} on, {len(output.failed_frames)} frames")
    values = metric_set.get_results()
    miles, num_failed = float(values.get("composites/total_driven_miles_simulated", 0.0)), len(failed)
    each = f"one failure in {miles / num_failed:.3f} miles" if num_failed else "no failure"
    print(f"{num_failed} of {len(validations)} scenes fail; {miles:.3f} miles, {each}")
    return num_failed


def print_worst(result: ClosedLoopResult, most: int = 3) -> None:
    """Print the scenes with the lowest scores, and the first frame in which each nuPlan metric fails."""
    rows = sorted((row for row in result.scenes() if row["score"] is not None), key=lambda row: row["score"])
    print()
    for row in rows[:most]:
        missed = {
            name.removeprefix("first_").removesuffix("_frame"): frame
            for name, frame in row.items()
            if name.startswith("first_") and frame is not None
        }
        reasons = ", ".join(f"{name} in frame {frame}" for name, frame in missed.items()) or "little progress"
        print(f"scene {row['scene']:>3}: score {row['score']:.2f}: {reasons}")
    print(f"watch them with: l5kit view {result.folder}")


if __name__ == "__main__":
    main()
