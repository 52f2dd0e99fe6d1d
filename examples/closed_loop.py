"""Closed-loop tests of planners: each step of the planner changes what it sees next.

Shared by the scripts ``closed_loop_*.py``: their options, the simulation and report of the notebooks of L5Kit 1.5
(:func:`unroll`, :func:`print_failures`), and those of ``l5kit simulate`` (:func:`drive_scenes`, :func:`print_scores`).
"""

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import common
import torch

from l5kit.cle.closed_loop_evaluator import ClosedLoopEvaluator, EvaluationPlan
from l5kit.cle.metrics import (
    CollisionFrontMetric,
    CollisionRearMetric,
    CollisionSideMetric,
    DisplacementErrorL2Metric,
    DistanceToRefTrajectoryMetric,
)
from l5kit.cle.scored_scene import SimulatedSceneLike
from l5kit.cle.validators import RangeValidator, ValidationCountingAggregator
from l5kit.closedloop import ClosedLoopOptions, ClosedLoopResult, simulate
from l5kit.configs.overrides import with_overrides
from l5kit.data import ChunkedDataset, LocalDataManager, MapAPI
from l5kit.dataset import BaseEgoDataset
from l5kit.errors import MissingDependencyError
from l5kit.planning.weights_file import weights_of
from l5kit.simulation.dataset import SimulationConfig
from l5kit.simulation.drivers.network import NetworkDriver
from l5kit.simulation.engine.scene_simulation import AgentSeat
from l5kit.simulation.engine.traffic_state import Driver
from l5kit.simulation.unroll import ClosedLoopSimulator, SimulationOutput
from l5kit.training import train
from l5kit.visualization.visualizer.visualizer import write_scene_page
from l5kit.visualization.visualizer.zarr_utils import simulation_out_to_visualizer_scene
from l5kit.workflows.drivers import load_driver
from l5kit.workflows.samples import spread_indices
from l5kit.workflows.trained_network import configuration_of

START_FRAME = 10
"""First simulated frame. Networks see the second before it, so they know all velocities."""


def make_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options of all closed-loop tests; they share one output folder and its city."""
    parser = common.make_parser(description, out="closed-loop-out")
    parser.add_argument("--network", type=Path, help="trained network; default: train one")
    parser.add_argument("--scenes", type=int, default=10, help="number of scenes to drive, evenly spread; default 10")
    parser.add_argument("--frames", type=int, default=50, help="frames of each scene to drive, at 10 Hz; default 50")
    return parser


def get_network(workflow: str, options: argparse.Namespace, *, num_steps: int) -> tuple[dict[str, Any], Path, Path]:
    """Return configuration and weights of a network, which is trained without ``--network``, and the data folder."""
    cfg, data_folder = common.set_up(workflow, options, num_steps=num_steps)
    if options.network is None:
        return cfg, train(cfg, common.new_folder(options.out), data_folder=data_folder).weights, data_folder
    return with_overrides(configuration_of(options.network), options.set), weights_of(options.network), data_folder


def open_log(cfg: Mapping[str, Any], data_folder: Path) -> ChunkedDataset:
    """Return the validation log of the network."""
    return ChunkedDataset(data_folder / cfg["val_data_loader"]["key"]).open()


def get_driver(weights: Path, cfg: dict[str, Any], data_folder: Path, *, whom: str = "ego") -> NetworkDriver:
    """Return a network as driver of the AV (``ego``) or of other agents (``agents``) in its validation log."""
    facts = open_log(cfg, data_folder).facts
    return load_driver(weights, whom=whom, data_folder=data_folder, cfg=cfg, facts=facts)


def chosen_scenes(log: ChunkedDataset, options: argparse.Namespace) -> list[int]:
    """Return the indices of the scenes to drive."""
    return spread_indices(len(log.scenes), min(options.scenes, len(log.scenes))).tolist()


def unroll(
    samples: BaseEgoDataset,
    sim_cfg: SimulationConfig,
    scenes: list[int],
    *,
    model_ego: torch.nn.Module | None = None,
    model_agents: torch.nn.Module | None = None,
) -> list[SimulationOutput]:
    """Unroll scenes with the interface of L5Kit 1.5; whatever has no model is replayed, as ``sim_cfg`` requests."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    models = [None if model is None else model.eval() for model in (model_ego, model_agents)]
    return ClosedLoopSimulator(sim_cfg, samples, device, *models).unroll(scenes)


def make_plan() -> EvaluationPlan:
    """Return the evaluation plan of the notebooks of 1.5: five metrics, each with a limit that ends the scene."""
    limits = {
        DisplacementErrorL2Metric: 30.0,
        DistanceToRefTrajectoryMetric: 4.0,
        CollisionFrontMetric: 0.0,
        CollisionRearMetric: 0.0,
        CollisionSideMetric: 0.0,
    }
    validators = [RangeValidator(metric.metric_name, metric, max_value=limit) for metric, limit in limits.items()]
    return EvaluationPlan(
        metrics=[metric() for metric in limits],
        validators=validators,
        intervention_validators=[validator.validator_name for validator in validators],
    )


def print_failures(drives: Mapping[str, Iterable[SimulatedSceneLike]]) -> None:
    """Print how many scenes fail each validator, one column for each planner."""
    counts = {}
    for name, outputs in drives.items():
        evaluator = ClosedLoopEvaluator(make_plan())
        evaluator.evaluate(outputs)
        results = evaluator.validation_results()
        failed = ValidationCountingAggregator().aggregate(results)
        counts[name] = {validator: f"{int(count)} of {len(results)}" for validator, count in failed.items()}
    print_columns("scenes that fail", counts)


def write_page(path: Path, output: SimulationOutput, cfg: Mapping[str, Any], data_folder: Path) -> None:
    """Write a page that plays an unrolled scene; needs the extra ``viz`` of l5kit."""
    map_api = MapAPI.from_cfg(LocalDataManager(data_folder), cfg)
    try:
        write_scene_page(path, output.scene_id, simulation_out_to_visualizer_scene(output, map_api), frame_step=2)
        print(f"page of scene {output.scene_id} in {path}")
    except MissingDependencyError as error:
        print(f"no page: {error}")


def drive_scenes(
    planners: Mapping[str, str | Driver],
    log: Path,
    folder: Path,
    options: argparse.Namespace,
    *,
    agents: str | AgentSeat = "replay",
) -> dict[str, ClosedLoopResult]:
    """Let planners drive the same scenes of a log, and score them as ``l5kit simulate`` does.

    A tracker with a bicycle model follows the plans of networks at their times. Replaces results of earlier runs.
    """
    chosen = ClosedLoopOptions(
        scenes=chosen_scenes(ChunkedDataset(log).open(), options),
        start_frame=START_FRAME,
        num_frames=options.frames,
        overwrite=True,
    )
    return {
        name: simulate(log, folder / name, planner=planner, agents=agents, options=chosen)
        for name, planner in planners.items()
    }


def print_scores(results: Mapping[str, ClosedLoopResult]) -> None:
    """Print the nuPlan scores, means over scenes from 0 to 1, one column for each planner."""
    scores = {name: {"score": result.score, **result.metrics} for name, result in results.items()}
    shown = {
        name: {metric: "-" if value is None else f"{value:.2f}" for metric, value in metrics.items()}
        for name, metrics in scores.items()
    }
    print_columns("mean over scenes", shown)
    for name, result in results.items():
        for failed in result.failed:
            print(f"{name}: not driven to its end, left out of the means: {failed}")


def print_columns(title: str, columns: Mapping[str, Mapping[str, str]]) -> None:
    """Print a table of texts, with at least two blanks between columns."""
    rows = list(next(iter(columns.values())))
    first = max([30, *(len(text) + 2 for text in (title, *rows))])
    widths = {name: max(19, *(len(text) + 2 for text in (name, *column.values()))) for name, column in columns.items()}
    print(f"\n{title:<{first}}" + "".join(f"{name:>{width}}" for name, width in widths.items()))
    for row in rows:
        print(f"{row:<{first}}" + "".join(f"{columns[name][row]:>{width}}" for name, width in widths.items()))
