"""Scenes that rules drive in closed loop fail what L5Kit 1.5 fails them for, and nothing else."""

from pathlib import Path
from typing import Any

import pytest
import torch

from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import EgoDataset
from l5kit.environment.gym_metric_set import CLEMetricSet
from l5kit.simulation.dataset import SimulationConfig
from l5kit.simulation.unroll import ClosedLoopSimulator
from support.rule_models import step_model
from support.samples import make_cfg, make_stub

NEAR = {"start_frame_index": 10, "distance_th_far": 60.0, "distance_th_close": 30.0}
SHORT = {"num_simulation_steps": 20}


@pytest.fixture(scope="module")
def four_copies(shared_data: Path) -> EgoDataset:
    cfg = make_cfg()
    log = ChunkedDataset(str(shared_data / "single_scene.zarr")).open()
    return EgoDataset(cfg, ChunkedDataset.concatenate([log] * 4), make_stub(cfg))


@pytest.mark.parametrize(
    ("ego_step_m", "agents_step_m", "options", "failed"),
    [
        pytest.param(None, None, {}, None, id="the log itself"),
        pytest.param(0.0, None, SHORT, "collision_rear", id="the AV stands"),
        pytest.param(2.0, None, SHORT, "distance_ref_trajectory", id="the AV drives fast"),
        pytest.param(5.0, None, SHORT, "collision_front", id="the AV drives very fast"),
        pytest.param(None, 0.0, SHORT | NEAR, "collision_front", id="agents stand"),
        pytest.param(None, 2.0, SHORT | NEAR, "collision_rear", id="agents drive fast"),
        pytest.param(2.0, 2.0, SHORT | NEAR, "distance_ref_trajectory", id="all drive fast"),
    ],
)
def test_what_driven_scenes_fail(
    ego_step_m: float | None,
    agents_step_m: float | None,
    options: dict[str, Any],
    failed: str | None,
    four_copies: EgoDataset,
) -> None:
    sim_cfg = SimulationConfig(use_ego_gt=ego_step_m is None, use_agents_gt=agents_step_m is None, **options)
    models = [None if step_m is None else step_model(step_m).eval() for step_m in (ego_step_m, agents_step_m)]
    outputs = ClosedLoopSimulator(sim_cfg, four_copies, torch.device("cpu"), *models).unroll([0, 1, 2, 3])
    metric_set = CLEMetricSet()
    metric_set.evaluate(outputs)
    counts = {key: int(count) for key, count in metric_set.get_results().items() if key.startswith("validators/")}
    assert {key: count for key, count in counts.items() if count} == ({f"validators/{failed}": 4} if failed else {})
